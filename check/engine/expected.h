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

/// Ops that have a family, in families.c. *known becomes true for one that has. False with a
/// failure.
bool talc_check_expected_of_family(const check_ran *ran, check_model_expected *expected,
                                   bool *known);

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
