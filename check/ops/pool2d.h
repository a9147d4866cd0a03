/// Problems of pooling, and the windows that both directions go by. Private to check/.
#ifndef TALC_CHECK_OPS_POOL2D_H
#define TALC_CHECK_OPS_POOL2D_H

#include "ops/pool2d.h"
#include "check/engine/family.h"

typedef struct check_pool2d_problem {
    talc_pool2d_problem p;
    bool ceil_mode;
    bool indices; ///< the word, which no gradient has
} check_pool2d_problem;

CHECK_PROBLEM(check_pool2d_problem, talc_pool2d_arguments)

/// Of both directions.
extern const check_family talc_check_pool2d_family;
extern const check_direction talc_check_pool2d_gradient;

/// The taps of one output along one dimension that lie inside the image: first, first + step, ...,
/// `count` of them.
typedef struct check_taps {
    int64_t first, count, step;
    int64_t padded; ///< taps of an average, whose step is 1, inside the padded image
    bool border;    ///< some lie outside the image
} check_taps;

check_taps talc_check_taps_h(const talc_pool2d_problem *p, int64_t oh);
check_taps talc_check_taps_w(const talc_pool2d_problem *p, int64_t ow);

/// What an average divides by.
long double talc_check_pool2d_divisor(const talc_pool2d_problem *p, check_taps h, check_taps w);

/// The least number that all divisors of averages divide, or for `odd` their odd parts; 0 when it
/// is too large.
int64_t talc_check_pool2d_multiple(const talc_pool2d_problem *p, bool odd);

#endif
