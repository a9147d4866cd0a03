/// Checking a whole model, op by op: on two devices, with two algorithms, or against saved
/// activations.
///
/// The model runs once as the reference and once as what is checked, both in evaluation mode unless
/// training is asked for, and every op that either run makes, within a module or between two,
/// becomes a layer of the report. Three things are worked out for each:
///
///     own          the op given the inputs that it really had: the worst |y - exact(x)| over the
///                  bound of the op's arithmetic. It says whether this op is right, whatever went
///                  before it.
///     step         the op in both runs: the worst part of |y - reference| that the difference of
///                  the two inputs cannot explain, over what rounding in both runs may add. Saved
///                  activations are allowed what another library's formula rounds:
///                  x s + (bias - mean s) of a batch norm has errors as large as x and the mean
///                  deserve.
///     accumulated  the largest step of this layer and of all that its inputs came from. At most 1,
///                  it proves that the difference which reached this layer is rounding and nothing
///                  else.
///
/// At most 1 passes. So the first layer with own above 1 is wrong; after it own is small again, and
/// accumulated stays above 1 wherever its error went. Where own is small and step above 1, the
/// reference is what is wrong there.
///
///     talc_check_model_report *report = NULL;
///     if (talc_check_model(model, x, &(talc_check_model_options){ .device = cuda }, &report))
///         talc_check_model_print(stdout, report);
///     bool right = talc_check_model_passed(report);
///     talc_check_model_free(report);
///
/// Exact values are worked out from the formulas in the ops' headers, for every element, in long
/// double, without any code of ops/ or backends/. The bound is the one that holds on any data, (K +
/// 2) u S with K the terms of a sum and S the sum of their sizes (the smaller one of talc_check is
/// for random data). Two runs may differ by the sum of their bounds and by what the op makes of a
/// difference d of its inputs: sum |w| d for a convolution or a product, the largest d of a window
/// for a maximum, d itself for ReLU, and so on. d is what was measured one layer before, not a
/// bound on it: worst cases grow ten times a layer, and would allow anything after a dozen layers.
///
/// Checking an op takes about as long as plain loops on one core, some 5 ns for a multiplication
/// and addition. Meanwhile the model's activations are held on the device, and three numbers for
/// each of their elements on the host.
///
/// Source: running error analysis, Higham, Accuracy and Stability of Numerical Algorithms, 2nd
/// edition, section 3.3.
#ifndef TALC_CHECK_MODEL_H
#define TALC_CHECK_MODEL_H

#include "../nn/module.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_check_model_options {
    talc_device *device;    ///< what is checked runs here; NULL: where the model is
    talc_device *reference; ///< the reference runs here; NULL: the CPU
    /// Algorithms forced in either run, "conv2d=im2col,linear=reference"; NULL: each op's own
    /// choice. Ops named here must occur in the model.
    const char *algorithm, *reference_algorithm;
    /// Module by module, nothing fused (nn/fuse.h). So it is in any case with activations, and
    /// where an algorithm is forced in either run on an activation that would be fused.
    bool unfused;
    /// A safetensors file that stands in for the reference run: outputs of modules in f32 or f64,
    /// say from PyTorch. A tensor is named by its module's path, "layer1.0.conv1", with ":2" for
    /// the second call of a module, ":3" and so on, and may end in ".output"; the model's own
    /// output is "output". Not every layer needs one, and names that the model lacks are skipped.
    /// NULL: a reference run.
    const char *activations;
    /// In train mode: norms by their batch, but dropout and drop path as in evaluation. No running
    /// statistic moves.
    bool training;
} talc_check_model_options;

typedef struct talc_check_model_layer {
    /// Of the module that the op ran in; "" for the model itself. "conv1+bn1" for modules that are
    /// fused (nn/fuse.h), whose folded parameters are layers of their own before it,
    /// "conv1+bn1:fold".
    char path[256];
    char op[32]; ///< "conv2d"; "output" for a saved activation that is a view of what an earlier
                 ///< layer made
    char algorithm[TALC_ALGORITHM_TEXT]; ///< that was checked, name(form); "" for copies
    talc_dims dims;                      ///< of its output
    double own;         ///< NAN for "output", and for an output without finite elements
    double step;        ///< NAN where there was nothing finite to compare with; INFINITY where no
                        ///< difference is allowed
    double accumulated; ///< likewise
    double difference;  ///< the worst |y - reference|; NAN likewise
    /// Of the element with the worst step, which is the first by the second: what the inputs'
    /// difference does not explain of
    /// |y - reference|, and what rounding in both runs may add.
    double unexplained, allowed;
    /// Element with the worst own, or the worst step if that is larger: where, what was computed
    /// and what is due there (the exact value for own, the reference for step).
    talc_dims where;
    double got, expected;
    bool passed;
} talc_check_model_layer;

typedef struct talc_check_model_report talc_check_model_report;

/// Checks `model` on x, which may be on any device. The report goes to *report, NULL on failure;
/// the program frees it. That layers are wrong is a result, not a failure. `options` may be NULL.
/// The model is left as it was, also on failure: its modes, devices and parameters; and so are the
/// thread's forced algorithms.
///
/// Errors: NULL model, x or report, an x whose elements are mostly not finite, a device or
/// algorithm that is not there, an algorithm forced on an op that did not run, an activations file
/// together with a reference device or algorithm, one that cannot be read, one of which no tensor
/// is a module's output, tensors of another shape, ops of the two runs that differ, no memory, and
/// what the model's forward raises.
TALC_API bool talc_check_model(talc_module *model, talc_tensor *x,
                               const talc_check_model_options *options,
                               talc_check_model_report **report);
TALC_API void talc_check_model_free(talc_check_model_report *report); ///< NULL passes

/// Layers in the order in which they ran. NULL for an index out of range.
TALC_API int talc_check_model_count(const talc_check_model_report *report);
TALC_API const talc_check_model_layer *talc_check_model_at(const talc_check_model_report *report,
                                                           int index);

/// Index of the first layer that did not pass; -1 when there is none.
TALC_API int talc_check_model_first_wrong(const talc_check_model_report *report);

/// Saved activations that were skipped, as no module of the model gave a tensor of that name; NULL
/// for an index out of range.
TALC_API int talc_check_model_skipped(const talc_check_model_report *report);
TALC_API const char *talc_check_model_skipped_name(const talc_check_model_report *report,
                                                   int index);

/// At least one layer was compared with the reference, the last one has finite elements that were
/// compared with something, and every layer passed. An output all NaN or infinite shows nothing.
/// False for NULL.
TALC_API bool talc_check_model_passed(const talc_check_model_report *report);

/// A table of the layers, and a line on the first that is wrong.
TALC_API void talc_check_model_print(FILE *file, const talc_check_model_report *report);

/// Runs the model on x in evaluation mode and writes the output of every module, named as
/// talc_check_model_options.activations says, so that another machine can check its own run against
/// them. Leaves the model as it was.
TALC_API bool talc_check_model_save_activations(talc_module *model, talc_tensor *x,
                                                const char *path);

TALC_END_DECLARATIONS

#endif
