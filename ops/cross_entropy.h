/// Cross entropy of class labels under the softmax of logits.
///
///     l[n, ...] = log(sum over j of exp(x[n, j, ...] - m)) - (x[n, t, ...] - m),
///                 t = labels[n, ...],  m = max over j of x[n, j, ...]
///
/// With label smoothing e it is (1 - e) l + e / C * (sum over t of the l of class t). A sample
/// whose label is ignore_index counts as if it were not there: its loss is 0, and its logits are
/// not looked at. The result is
///
///     mean    sum of l / samples that count; NaN when none does
///     sum     sum of l
///     none    l, of the labels' shape
///
/// With class weights w, the l of each class t is multiplied by w[t], that of the label and those
/// that smoothing adds up, and a mean divides by the sum of w[label] over the samples that count
/// instead; where that is 0, smoothing makes the mean NaN, and the gradient of the samples that
/// count.
///
/// Shapes: logits [N, C, ...] with labels [N, ...], or logits [C] with a label []; at least one
/// class; class weights [C]. Types: logits and class weights f32 or f64, labels i64, on one device,
/// any strides. The largest logit is subtracted, so logits of any size are safe; -infinity is a
/// class of probability 0, and as the label's an infinite loss. A NaN, an infinite maximum, and so
/// a sample that is all -infinity, give NaN.
///
/// Gradients: dx_j = dl (softmax(x)_j - (1 - e) [j = t] - e / C), dl being dy, dy / samples that
/// count for the mean, and 0 for an ignored sample; with class weights dx_j = dl (A softmax(x)_j -
/// (1 - e) w_t [j = t] - e w_j / C), A = (1 - e) w_t + e mean w, and dl for the mean is dy / the
/// sum of the labels' weights. Class weights have none. Where a label is no class, which the
/// forward pass reports, it is NaN. For a sum or a mean of logits without gaps that want a
/// gradient, the call works out that for dy = 1 too and keeps it, which talc_backward of the result
/// then takes without any work; not where an algorithm is forced, on the op or on its gradient.
///
/// Accuracy: l within (4 + (1 - e) |x_t - m| + a e mean over j of |x_j - m| + 2 sqrt(C)) u + u |l|
/// of the exact value, where a is 1 for f32, whose mean is taken in f64, and 1 + 2 sqrt(C) for f64;
/// with class weights each term times its weight, and 2 u of each more, (2 + 2 sqrt(C)) u of that
/// of log(sum) with smoothing; a sum or mean of n samples within the sum or mean of these bounds,
/// and 2 (sqrt(n) + 1) u of the sum or mean of the |l|, 4 (sqrt(n) + 1) u with class weights. Of a
/// gradient each of the three terms within 8 u of itself, that of softmax (20 + |x_j - m| + mean of
/// |x - m| under softmax + 2 sqrt(C)) u, 2 sqrt(C) u more with class weights and smoothing; and
/// with class weights a mean's 2 (sqrt(n) + 1) u of all.
///
/// Errors: NULL operands, types, devices and shapes that do not match, no class, an unknown
/// reduction, label smoothing outside 0 .. 1, class weights of another shape, type or device than C
/// of logits', or that want a gradient, an algorithm that does not exist or refuses, no memory, a
/// label that is neither a class nor ignore_index. Such a label is named with its place and the
/// number of classes, "cross_entropy: element 3 of labels is 10, there are 10 classes": at once on
/// the CPU; on a device that works on its own by the next call that waits for it, and until then
/// its loss is NaN. No logit is read by it.
///
/// Source: textbook; semantics as torch.nn.functional.cross_entropy.
#ifndef TALC_OPS_CROSS_ENTROPY_H
#define TALC_OPS_CROSS_ENTROPY_H

#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

typedef enum talc_reduction {
    TALC_REDUCTION_MEAN,
    TALC_REDUCTION_SUM,
    TALC_REDUCTION_NONE
} talc_reduction;

typedef struct talc_cross_entropy_options {
    talc_reduction reduction;
    int64_t ignore_index;             ///< 0: -100; TALC_ZERO: class 0
    double label_smoothing;           ///< 0 .. 1
    const talc_tensor *class_weights; ///< [C], PyTorch's `weight`; NULL: 1 each
    /// This one by name or an error; NULL: the thread's, else the library's choice.
    const char *algorithm;
} talc_cross_entropy_options;

/// The mean, a scalar.
TALC_API talc_tensor *talc_cross_entropy(const talc_tensor *logits, const talc_tensor *labels);

/// The same with options, which may be NULL.
TALC_API talc_tensor *talc_cross_entropy_with(const talc_tensor *logits, const talc_tensor *labels,
                                              const talc_cross_entropy_options *options);

// ---- What backends implement --------------------------------------------------------------------

/// A checked problem: `samples` of C classes, x_stride elements apart; where a sample begins
/// follows from its index over the outer dimensions, merged where one stride serves two. Labels are
/// contiguous, and so is y: `samples` losses, or one number.
typedef struct talc_cross_entropy_problem {
    talc_direction direction; ///< forward or input gradient
    talc_dtype dtype;
    talc_reduction reduction;
    int64_t ignore_index;
    double label_smoothing;
    bool weighted; ///< by class weights
    bool gradient; ///< forward, of a sum or a mean of logits without gaps: also the input gradient
                   ///< for dy = 1
    int64_t C, x_stride;
    int64_t samples; ///< at least 1: product of outer_dims
    int outer_rank;
    int64_t outer_dims[TALC_MAX_RANK];
    int64_t x_strides[TALC_MAX_RANK];
} talc_cross_entropy_problem;

/// Forward reads x, labels and class_weights (contiguous, of the problem's dtype; NULL unless
/// weighted) and writes y, and dx where the problem says so; the input gradient reads these and dy,
/// which is like y, and writes dx, which lies like x. Others are NULL.
typedef struct talc_cross_entropy_arguments {
    talc_arguments base;
    void *y;
    const void *x;
    const int64_t *labels;
    const void *class_weights;
    const void *dy;
    void *dx;
} talc_cross_entropy_arguments;

TALC_END_DECLARATIONS

#endif
