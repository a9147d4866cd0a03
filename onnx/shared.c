#include "onnx/shared.h"
#include "tensor/shown.h"

#include <string.h>

bool talc_onnx_axis(const talc_onnx_call *call, int64_t axis, int rank, int *dim)
{
    if (axis < -rank || axis >= rank)
        return talc_onnx_fail(call, TALC_BAD_ARGUMENT, "axis %lld is outside rank %d",
                              (long long)axis, rank);
    *dim = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

bool talc_onnx_axes(talc_onnx_call *call, int input, int rank, talc_dims *axes)
{
    int64_t list[TALC_MAX_RANK];
    *axes = TALC_SCALAR;
    const int count = talc_onnx_has(call, input)
                          ? talc_onnx_in_numbers(call, input, list, TALC_MAX_RANK)
                          : talc_onnx_ints(call->step->node, "axes", list, TALC_MAX_RANK);
    for (int i = 0; i < count; i++) {
        int dim = 0;
        if (!talc_onnx_axis(call, list[i], rank, &dim))
            return false;
        axes->dim[axes->rank++] = dim;
    }
    return count >= 0;
}

bool talc_onnx_broadcast(const talc_onnx_call *call, talc_dims a, talc_dims b, talc_dims *both)
{
    const int rank = a.rank > b.rank ? a.rank : b.rank;
    both->rank = rank;
    for (int i = 0; i < rank; i++) {
        const int64_t extent_a = i < rank - a.rank ? 1 : a.dim[i - (rank - a.rank)];
        const int64_t extent_b = i < rank - b.rank ? 1 : b.dim[i - (rank - b.rank)];
        if (extent_a != extent_b && extent_a != 1 && extent_b != 1) {
            char text_a[TALC_DIMS_TEXT], text_b[TALC_DIMS_TEXT];
            return talc_onnx_fail(call, TALC_BAD_SHAPE, "%s and %s do not broadcast",
                                  talc_dims_text(a, text_a), talc_dims_text(b, text_b));
        }
        both->dim[i] = extent_a == 1 ? extent_b : extent_a;
    }
    return true;
}

bool talc_onnx_window_of(const talc_onnx_node *node, const int64_t *kernel, int space,
                         const talc_dims *x, talc_onnx_window *window)
{
    int64_t list[4] = { 1, 1, 1, 1 };
    *window = (talc_onnx_window){ { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 0, 0 } };
    if (kernel != NULL)
        memcpy(window->kernel + 2 - space, kernel, (size_t)space * sizeof *kernel);
    else if (talc_onnx_ints(node, "kernel_shape", list, 2) == space)
        memcpy(window->kernel + 2 - space, list, (size_t)space * sizeof *list);
    if (talc_onnx_ints(node, "strides", list, 2) == space)
        memcpy(window->stride + 2 - space, list, (size_t)space * sizeof *list);
    if (talc_onnx_ints(node, "dilations", list, 2) == space)
        memcpy(window->dilation + 2 - space, list, (size_t)space * sizeof *list);
    if (talc_onnx_ints(node, "pads", list, 4) == 2 * space) {
        memcpy(window->begin + 2 - space, list, (size_t)space * sizeof *list);
        memcpy(window->end + 2 - space, list + space, (size_t)space * sizeof *list);
    }
    const char *mode = talc_onnx_string(node, "auto_pad", "NOTSET");
    if (strncmp(mode, "SAME_", 5) != 0)
        return true;
    for (int i = 2 - space; i < 2; i++) {
        if (x == NULL)
            return false;
        const int64_t in = x->dim[x->rank - 2 + i], stride = window->stride[i];
        const int64_t out = (in + stride - 1) / stride;
        int64_t total = (out - 1) * stride + (window->kernel[i] - 1) * window->dilation[i] + 1 - in;
        total = total < 0 ? 0 : total;
        window->begin[i] = strcmp(mode, "SAME_LOWER") == 0 ? total - total / 2 : total / 2;
        window->end[i] = total - window->begin[i];
    }
    return true;
}

bool talc_onnx_window_fits(const talc_onnx_node *node, int space)
{
    static const char *const lists[] = { "kernel_shape", "strides", "dilations", "pads" };
    for (int i = 0; i < 4; i++) {
        const talc_onnx_attribute *list = talc_onnx_attribute_of(node, lists[i]);
        if (list != NULL && list->count != (i == 3 ? 2 : 1) * space)
            return false;
    }
    return true;
}

void talc_onnx_padding(const talc_onnx_window *window, int64_t padding[2], int64_t padding_end[2])
{
    for (int i = 0; i < 2; i++) {
        padding[i] = window->begin[i];
        padding_end[i] = window->end[i] == 0 && window->begin[i] != 0 ? TALC_ZERO : window->end[i];
    }
}

talc_pool2d_options talc_onnx_pool_options(const talc_onnx_node *node,
                                           const talc_onnx_window *window)
{
    const bool max = strcmp(node->op, "MaxPool") == 0;
    talc_pool2d_options options = {
        .ceil_mode = talc_onnx_int(node, "ceil_mode", 0) != 0,
        .exclude_padding = !max && talc_onnx_int(node, "count_include_pad", 0) == 0,
    };
    memcpy(options.kernel, window->kernel, sizeof options.kernel);
    memcpy(options.stride, window->stride, sizeof options.stride);
    if (max)
        memcpy(options.dilation, window->dilation, sizeof options.dilation);
    talc_onnx_padding(window, options.padding, options.padding_end);
    return options;
}

talc_tensor *talc_onnx_planes(talc_tensor *x)
{
    if (x == NULL || x->rank == 0)
        return x;
    int64_t rest = 1;
    for (int i = 2; i < x->rank; i++)
        rest *= x->dims[i];
    return talc_reshape(x, TALC_DIMS(x->dims[0], x->rank > 1 ? x->dims[1] : 1, rest, 1));
}

talc_tensor *talc_onnx_widen(talc_tensor *x)
{
    return x == NULL ? NULL : talc_unsqueeze(x, x->rank - 1);
}

talc_tensor *talc_onnx_narrow(talc_tensor *x)
{
    return x == NULL ? NULL : talc_squeeze(x, -2);
}
