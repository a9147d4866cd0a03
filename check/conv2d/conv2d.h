/// The parts of conv2d's family that are files of their own. Private to check/.
#ifndef TALC_CHECK_CONV2D_CONV2D_H
#define TALC_CHECK_CONV2D_CONV2D_H

#include "ops/conv2d.h"
#include "check/engine/data.h"
#include "check/engine/family.h"

#include <math.h>

CHECK_PROBLEM(talc_conv2d_problem, talc_conv2d_arguments)

/// Its operands; the last three are those of the gradients.
enum { CHECK_X, CHECK_W, CHECK_BIAS, CHECK_RESIDUAL, CHECK_Y, CHECK_DY, CHECK_DX, CHECK_DW };

/// The operands that the problem's direction reads, x or dy first: `order` of them, 0 to 3, present
/// or not; CHECK_Y after the last.
int talc_check_conv2d_read(talc_direction direction, int order);

/// The one that it writes.
int talc_check_conv2d_written(talc_direction direction);

/// Products in the sum of an element of the result: C/groups * KH * KW of y, N * OH * OW of dw, and
/// OC/groups * KH * KW, of which some may have no output to read, of dx.
double talc_check_terms(const talc_conv2d_problem *problem);

/// The index in x of coordinate i, which may lie in the padding; -1: a zero of the padding.
int64_t talc_check_source(talc_padding_mode mode, int64_t i, int64_t extent);

/// A sum of products, and of their sizes: in double for f32 data, whose products double holds
/// exactly, in long double for f64.
typedef struct check_sum {
    bool narrow; ///< f32 data
    double value, size;
    long double long_value;
} check_sum;

static inline void talc_check_sum_add(check_sum *s, double x, double w)
{
    if (s->narrow)
        s->value += x * w;
    else
        s->long_value += (long double)x * w;
    s->size += fabs(x * w);
}

static inline long double talc_check_sum_value(const check_sum *s)
{
    return s->narrow ? (long double)s->value : s->long_value;
}

/// Element `index` of dx or dw.
check_expected talc_check_conv2d_gradient_expected(const talc_conv2d_problem *problem,
                                                   const check_values *values, int64_t index);

/// check_family.random: half of them forward, a quarter of each gradient; about a third are
/// depthwise and a third 1x1 without stride or padding, so that the algorithms for those have their
/// share; every extent takes edge values often.
bool talc_check_conv2d_random(uint64_t *state, talc_direction direction, check_problem *problem);

/// check_direction.takes, fill and inject: NaN in w, bias and residual in turn, negative and
/// positive infinity in turn from x on, as an algorithm may treat each operand, and each sign, in
/// its own way. Of a gradient's two operands the first is treated as x, the other as w.
bool talc_check_conv2d_takes(const check_problem *problem, talc_check_kind kind);
void talc_check_conv2d_fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                            const check_values *values);
bool talc_check_conv2d_inject(const check_problem *problem, talc_check_kind kind, int round,
                              uint64_t seed, const check_values *values);

#endif
