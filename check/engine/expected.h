/// What the output of an op that ran in a model must be, element by element. Private to check/.
///
/// The exact result and what its bound follows from are the family's of the op
/// (check/engine/family.h), asked about the inputs that the op had; elementwise ops and copies,
/// which have no family, are worked out here. So is how far a result may move when each input
/// element moves by as much as its `off` says:
///
///     y = sum x w            spread = sum |w| off_x + |x| off_w + off_x off_w
///     the largest x          spread = the largest off
///     a product of some x    spread = the product of |x| + off less that of |x|
///     relu, tanh, -x         spread = off
///     sigmoid x              spread = off / 4, the largest slope there is
///     exp x                  spread = y (exp(off) - 1)
///     log x                  spread = -log(1 - off / x)
///     sqrt x                 spread = sqrt(x) - sqrt(x - off)
///     a ^ b                  spread = the most that a corner of the operands' ranges is away
///     a < b and its kin      spread = 1 where the operands may stand in another order
///     a / b                  spread = (off_a + |a / b| off_b) / (|b| - off_b)
///     softmax                spread = y (exp(2 m) - 1), m the largest off: no exponential grows or
///                            shrinks by more than exp(m)
///     batch and group norm   spread = |weight| rstd off, and that of the residual
///     cross entropy          spread = off of the label's logit and the largest off, as the sum of
///                            exponentials is off by exp(m)
#ifndef TALC_CHECK_ENGINE_EXPECTED_H
#define TALC_CHECK_ENGINE_EXPECTED_H

#include "ops/activation.h"
#include "check/engine/family.h"
#include "ops/algorithm.h"

/// A tensor's elements on the host, in row-major order; without elements (`of` NULL) for an operand
/// that was left out.
typedef struct check_array {
    talc_dtype dtype;
    talc_dims dims;
    int64_t count;
    double *of;
    double *off; ///< how far each element may be from the reference's; NULL: they are the same
} check_array;

/// An op that ran.
typedef struct check_ran {
    const char *op;
    const talc_algorithm *algorithm; ///< NULL for copies
    const void *problem;             ///< ops/observed.h
    int count;
    check_array *inputs;
    check_array output;
} check_ran;

/// What its output must be: `activation` of elements. Arrays have output.count elements.
typedef struct check_model_expected {
    check_expected *element;
    double *spread;
    talc_activation activation;
} check_model_expected;

/// False with a failure: no memory, an op that is not known.
bool talc_check_model_expected(const check_ran *ran, check_model_expected *expected);
void talc_check_model_expected_free(check_model_expected *expected);

// ---- What check_direction.expected_of_run is made of, in spread.c -------------------------------
// False everywhere: with a failure.

/// The inputs in their places, which are those of the direction's operands.
check_values talc_check_values_of_run(const check_ran *ran);

bool talc_check_problem_of_run(const check_direction *direction, const check_ran *ran,
                               check_problem *problem);

/// What each element of the output must be, by check_direction.expected.
bool talc_check_elements_of_run(const check_direction *direction, const check_ran *ran,
                                check_expected *expected);

/// Whether an element of it may be off.
bool talc_check_moves(const check_array *array);

/// The largest off of n elements, `step` apart from `first` on; their sum into *sum.
double talc_check_largest_off(const check_array *x, int64_t first, int64_t n, int64_t step,
                              double *sum);

/// What an operand is replaced by: how far it is off, its sizes, both together, or nothing. One
/// that picks stays as it is.
typedef enum check_replacement {
    CHECK_OFF,
    CHECK_SIZE,
    CHECK_BOTH,
    CHECK_NOTHING
} check_replacement;

/// Adds to the spread what the op gives of such parts of its operands, all at least 0 and exact: of
/// its first factor, of the other, and of the rest.
bool talc_check_add_spread(const check_direction *direction, const check_ran *ran,
                           check_replacement first, check_replacement second,
                           check_replacement rest, check_model_expected *expected);

/// The spread of a result that is linear in its factors, and in the other operands.
bool talc_check_linear_spread(const check_direction *direction, const check_ran *ran,
                              check_model_expected *expected);

/// check_direction.expected_of_run of such a result.
bool talc_check_linear(const check_direction *direction, const check_ran *ran,
                       check_model_expected *expected);

/// The same where an operand picks elements of the others (check_direction.picks). Where it may
/// pick another one, the result may be any.
bool talc_check_picked(const check_direction *direction, const check_ran *ran,
                       check_model_expected *expected);

/// How far batch norm's results may move, in norm.c.
void talc_check_batch_norm2d_spread(const check_ran *ran, const check_problem *problem,
                                    const check_values *values, double *spread);

/// The same of group norm.
void talc_check_group_norm_spread(const check_ran *ran, double *spread);

/// The mean and variance that a channel is normalised by.
void talc_check_batch_norm2d_moments(const check_problem *problem, const check_values *values,
                                     int64_t c, long double *mean, long double *var);

/// How far element i may be off.
static inline double check_off(const check_array *array, int64_t i)
{
    return array->off == NULL ? 0 : array->off[i];
}

#endif
