/// Class labels, as cross_entropy and nll_loss take them. Private to talc.
///
/// Classes stand in dimension 1 of x [N, C, ...], in dimension 0 of x [C]; labels have x's shape
/// without that dimension.
#ifndef TALC_OPS_LABELS_H
#define TALC_OPS_LABELS_H

#include "tensor/tensor.h"

/// The dimension of the classes.
int talc_labels_class_dim(const talc_tensor *x);

/// The shape that labels must have.
talc_dims talc_labels_dims(const talc_tensor *x);

/// False, with a failure raised, unless x, called `name`, is a float tensor with classes and labels
/// is i64 on its device. Their shapes are not compared.
bool talc_labels_check(const char *op, const char *name, const talc_tensor *x,
                       const talc_tensor *labels);

/// The label that does not count, from an option: 0 stands for PyTorch's -100, TALC_ZERO for class
/// 0.
int64_t talc_labels_ignored(int64_t option);

/// Raises the failure of an algorithm: "cross_entropy: element 3 of labels is 10, there are 10
/// classes". Returns its status.
talc_status talc_bad_label(const char *op, int64_t element, int64_t label, int64_t classes);

/// The same of an index: "gather: element 3 of index is 10, x has 10 elements in its dimension".
talc_status talc_bad_index(const char *op, int64_t element, int64_t index, int64_t extent);

#endif
