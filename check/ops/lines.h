/// Problems of ops along one dimension, as softmax and the running sums and products have them: x,
/// which may be stored with its dimensions in the reverse order, and y of its shape, in order.
/// Private to check/.
#ifndef TALC_CHECK_OPS_LINES_H
#define TALC_CHECK_OPS_LINES_H

#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/lines.h"

typedef struct check_lines {
    talc_lines_problem p;
    check_layout x, y;
    int dim;
    check_part outer; ///< x's other dimensions, not merged
} check_lines;

/// What texts hold of it, of ops with a gradient too.
// clang-format off
#define CHECK_LINES_FIELD(name) offsetof(check_lines, name)
#define CHECK_LINES_SIZES                                                   \
    { "", CHECK_DIMS, .offset = CHECK_LINES_FIELD(x) },                     \
    { "@", CHECK_AXIS, .offset = CHECK_LINES_FIELD(dim) },                  \
    { "_reversed", CHECK_FLAG, .offset = CHECK_LINES_FIELD(x.reversed) }
#define CHECK_LINES_KEYS CHECK_LINES_SIZES, CHECK_FLOAT_KEYS(CHECK_LINES_FIELD(x.dtype))
#define CHECK_LINES_GRADIENT_KEYS                                           \
    CHECK_LINES_SIZES,                                                      \
    { "_dx", CHECK_CHOICE, .offset = CHECK_LINES_FIELD(p.direction), TALC_GRAD_INPUT }, \
    CHECK_FLOAT_KEYS(CHECK_LINES_FIELD(x.dtype))
// clang-format on

/// check_family.complete.
const char *talc_check_complete_lines(check_problem *problem, const char **key);

/// Draws x and the dimension.
void talc_check_draw_lines(uint64_t *state, check_lines *self);

/// What a model has posed to the op.
bool talc_check_pose_lines(const check_ran *ran, int dim, check_problem *problem);

/// Where the line of y's element `index` begins in x, and the element's place along it.
int64_t talc_check_line_of(const check_lines *self, int64_t index, int64_t *at);

#endif
