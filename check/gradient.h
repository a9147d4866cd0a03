/// Gradients of one's own ops and modules, held against central differences.
///
///     static talc_tensor *f(talc_tensor *const x[], void *context)
///     {
///         return talc_mul(talc_tanh(x[0]), x[1]);
///     }
///
///     talc_gradient_report report;
///     if (!talc_check_gradient(f, NULL, inputs, 2, NULL, &report))
///         talc_gradient_report_print(stdout, &report);
///
/// For random cotangents c and directions v, the slope of L(x) = sum c f(x) along v,
///
///     (8 (L(x + h v) - L(x - h v)) - (L(x + 2 h v) - L(x - 2 h v))) / 12 h,
///
/// has to be the sum over v times the gradient that talc_backward_from gives, whose norm is the
/// measure: |difference| / |gradient|. A step over the kink of a ReLU or a maximum gives neither
/// slope: one that is off is worked out again with steps a tenth, a hundredth and a thousandth as
/// long, along the same direction, and passes where two steps in a row agree with the gradient and
/// rounding is not more than the tolerance. A gradient that is wrong stays so. A difference that
/// rounding of L explains at the first step, as where the gradient is 0, is none. Source:
/// Abramowitz and Stegun, 25.3.21 to 25.3.22 (five-point formula).
#ifndef TALC_CHECK_GRADIENT_H
#define TALC_CHECK_GRADIENT_H

#include "../nn/module.h"
#include "../tensor/tensor.h"

#include <stdio.h>

TALC_BEGIN_DECLARATIONS

/// A function of tensors. It does the same whenever it is called, so it draws no random numbers and
/// moves no statistics.
typedef talc_tensor *talc_differentiable(talc_tensor *const inputs[], void *context);

typedef struct talc_gradient_options {
    int directions;   ///< of each input; 0: 4
    double step;      ///< h, relative to the largest element of an input; 0: 1e-4
    double tolerance; ///< 0: 1e-6 for f64
    uint64_t seed;
} talc_gradient_options;

typedef struct talc_gradient_report {
    int count;            ///< slopes that were compared
    double worst;         ///< |difference| / |gradient| of the worst
    int input;            ///< of the worst
    double expected, got; ///< its slope by differences, and by the gradient
    double tolerance;     ///< that it had to keep
    bool kink;            ///< a slope passed with a smaller step only
    double step;          ///< the smallest that a slope needed
    char name[128]; ///< of the worst one's input: "conv.weight", "x" for a module's input, "input
                    ///< 1" for a function's
    /// Of a gradient that is wrong: an element of that input where it is, and both derivatives by
    /// that element. False where no single element stands out.
    bool located;
    talc_dims where;
    double element_expected, element_got;
    /// Of one that seems wrong: the point is on a kink, where differences can say nothing, as the
    /// slope is `before` on one side and `after` on the other. A random point would do.
    bool at_kink;
    double before, after;
} talc_gradient_report;

enum { TALC_GRADIENT_TEXT = 512 };

/// Checks the gradients of the f64 tensors among `inputs` that ask for one (talc_require_grad);
/// their gradients are cleared, and each is a handle on other elements during the check. False when
/// one is off by more than the tolerance, which is no failure, or when something fails. `options`
/// may be NULL; the report is filled in any case. Errors: NULL arguments, no input that asks for a
/// gradient, one of f32, options below 0, and what f fails with.
TALC_API bool talc_check_gradient(talc_differentiable *f, void *context,
                                  talc_tensor *const inputs[], int count,
                                  const talc_gradient_options *options,
                                  talc_gradient_report *report);

/// The same for a module on input x, which is f64, with x and all its parameters as inputs. The
/// module is f32 or f64 and in any mode. While the check runs, f64 copies stand in for its
/// parameters and buffers, so that no running statistic moves.
TALC_API bool talc_check_module_gradient(talc_module *module, talc_tensor *x,
                                         const talc_gradient_options *options,
                                         talc_gradient_report *report);

/// What the report says besides the numbers: "conv.weight: 3.1 by differences, 3.4 by the gradient
/// (tolerance 1e-06); conv.weight[3,0,1,2]: 0.5, 0.6" of a gradient that is wrong, "a kink: passes
/// with step 1e-6", or "". Gives `text`.
TALC_API const char *talc_gradient_report_text(const talc_gradient_report *report,
                                               char text[TALC_GRADIENT_TEXT]);

/// "gradient: 12 slopes, worst 3.1e-11 of conv.weight (tolerance 1e-06)", and that.
TALC_API void talc_gradient_report_print(FILE *file, const talc_gradient_report *report);

TALC_END_DECLARATIONS

#endif
