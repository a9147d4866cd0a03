/* Operators that make, move and pick elements. */
#include "onnx/shared.h"
#include "ops/compare.h"
#include "ops/concat.h"
#include "ops/cumsum.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/rearrange.h"
#include "ops/resample.h"
#include "tensor/memory.h"
#include "tensor/tape.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static talc_device *host(void)
{
    return talc_device_host();
}

static talc_tensor *integers(const int64_t *numbers, int count)
{
    return talc_from_host(host(), TALC_I64, TALC_DIMS(count), numbers);
}

// ---- Constants and shapes -----------------------------------------------------------------------

/* Only one whose value is a tensor is left to run: the others are read when the file is. */
static bool run_constant(talc_onnx_call *call)
{
    const talc_onnx_node *node = call->step->node;
    const talc_onnx_attribute *value = talc_onnx_attribute_of(node, "value");
    if (value != NULL && value->t != NULL)
        return talc_onnx_out_known(call, 0, talc_onnx_tensor_new(call->graph->model, value->t));
    if ((value = talc_onnx_attribute_of(node, "value_float")) != NULL)
        return talc_onnx_out_known(call, 0,
                                   talc_from_host(host(), TALC_F32, TALC_SCALAR, &value->f));
    if ((value = talc_onnx_attribute_of(node, "value_int")) != NULL)
        return talc_onnx_out_known(call, 0,
                                   talc_from_host(host(), TALC_I64, TALC_SCALAR, &value->i));
    if ((value = talc_onnx_attribute_of(node, "value_floats")) != NULL)
        return talc_onnx_out_known(
            call, 0, talc_from_host(host(), TALC_F32, TALC_DIMS(value->count), value->floats));
    value = talc_onnx_attribute_of(node, "value_ints");
    return value != NULL &&
           talc_onnx_out_known(
               call, 0, talc_from_host(host(), TALC_I64, TALC_DIMS(value->count), value->ints));
}

static const char *refuses_constant(const talc_onnx_node *node, int64_t opset)
{
    (void)opset;
    static const char *const kinds[] = { "value", "value_float", "value_int", "value_floats",
                                         "value_ints" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (talc_onnx_attribute_of(node, kinds[i]) != NULL)
            return NULL;
    return "its value is no tensor of numbers";
}

static bool run_constant_of_shape(talc_onnx_call *call)
{
    talc_dims dims = TALC_SCALAR;
    dims.rank = talc_onnx_in_numbers(call, 0, dims.dim, TALC_MAX_RANK);
    if (dims.rank < 0)
        return false;
    const talc_onnx_attribute *value = talc_onnx_attribute_of(call->step->node, "value");
    if (value == NULL || value->t == NULL)
        return talc_onnx_out_known(call, 0, talc_zeros(host(), TALC_F32, dims));
    talc_tensor *one = talc_onnx_tensor_new(call->graph->model, value->t);
    one = talc_expand(talc_reshape(one, TALC_SCALAR), dims);
    return talc_onnx_out_known(call, 0, talc_clone(one));
}

static bool run_shape(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    if (x == NULL)
        return false;
    int64_t start = talc_onnx_int(call->step->node, "start", 0);
    int64_t end = talc_onnx_int(call->step->node, "end", x->rank);
    start = start < 0 ? start + x->rank : start;
    end = end < 0 ? end + x->rank : end;
    start = start < 0 ? 0 : start > x->rank ? x->rank : start;
    end = end < start ? start : end > x->rank ? x->rank : end;
    return talc_onnx_out_known(call, 0, integers(x->dims + start, (int)(end - start)));
}

static bool run_size(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    const int64_t count = talc_numel(x);
    return x != NULL &&
           talc_onnx_out_known(call, 0, talc_from_host(host(), TALC_I64, TALC_SCALAR, &count));
}

static bool run_range(talc_onnx_call *call)
{
    double numbers[3];
    const talc_tensor *first = talc_onnx_in(call, 0);
    if (first == NULL)
        return false;
    for (int i = 0; i < 3; i++)
        if (!talc_onnx_in_number(call, i, &numbers[i])) {
            const talc_tensor *number = talc_onnx_in_host(call, i);
            if (number == NULL)
                return false;
            *call->on_data = true;
            numbers[i] = talc_item(number);
        }
    for (int i = 0; i < 3; i++)
        if (!talc_dtype_is_float(first->dtype) && !(numbers[i] < 0x1p53 && numbers[i] > -0x1p53))
            return talc_onnx_fail(call, TALC_UNSUPPORTED, "integers of 2^53 and more");
    if (numbers[2] == 0)
        return talc_onnx_fail(call, TALC_BAD_ARGUMENT, "a range of steps of 0");
    if ((numbers[1] - numbers[0]) / numbers[2] <= 0)
        return talc_onnx_out_known(call, 0, talc_empty(host(), first->dtype, TALC_DIMS(0)));
    return talc_onnx_out_known(
        call, 0, talc_arange(host(), first->dtype, numbers[0], numbers[1], numbers[2]));
}

// ---- Another shape ------------------------------------------------------------------------------

static bool run_reshape(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    talc_dims dims = TALC_SCALAR;
    dims.rank = talc_onnx_in_numbers(call, 1, dims.dim, TALC_MAX_RANK);
    if (x == NULL || dims.rank < 0)
        return false;
    const bool zeros = talc_onnx_int(call->step->node, "allowzero", 0) != 0;
    for (int i = 0; i < dims.rank; i++)
        if (dims.dim[i] == 0 && !zeros)
            dims.dim[i] = i < x->rank ? x->dims[i] : 0;
    return talc_onnx_out(call, 0, talc_reshape(x, dims));
}

static bool run_flatten(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    if (x == NULL)
        return false;
    int64_t axis = talc_onnx_int(call->step->node, "axis", 1);
    axis = axis < 0 ? axis + x->rank : axis;
    if (axis < 0 || axis > x->rank)
        return talc_onnx_fail(call, TALC_BAD_ARGUMENT, "axis is outside rank %d", x->rank);
    int64_t before = 1, after = 1;
    for (int i = 0; i < x->rank; i++)
        *(i < axis ? &before : &after) *= x->dims[i];
    return talc_onnx_out(call, 0, talc_reshape(x, TALC_DIMS(before, after)));
}

static bool run_transpose(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    if (x == NULL)
        return false;
    talc_dims axes = { .rank = x->rank };
    for (int i = 0; i < x->rank; i++)
        axes.dim[i] = x->rank - 1 - i;
    const int given = talc_onnx_ints(call->step->node, "perm", axes.dim, TALC_MAX_RANK);
    if (given > 0)
        axes.rank = given;
    return talc_onnx_out(call, 0, talc_permute(x, axes));
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool run_squeeze(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    talc_dims axes, dims = TALC_SCALAR;
    if (x == NULL || !talc_onnx_axes(call, 1, x->rank, &axes))
        return false;
    const bool listed =
        talc_onnx_has(call, 1) || talc_onnx_attribute_of(call->step->node, "axes") != NULL;
    for (int i = 0; i < x->rank; i++) {
        bool goes = !listed && x->dims[i] == 1;
        for (int k = 0; k < axes.rank; k++)
            goes = goes || axes.dim[k] == i;
        if (goes && x->dims[i] != 1)
            return talc_onnx_fail(call, TALC_BAD_SHAPE, "dimension %d has extent %lld, not 1", i,
                                  (long long)x->dims[i]);
        if (!goes)
            dims.dim[dims.rank++] = x->dims[i];
    }
    return talc_onnx_out(call, 0, talc_reshape(x, dims));
}

static bool run_unsqueeze(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    int64_t list[TALC_MAX_RANK];
    const int count = talc_onnx_has(call, 1)
                          ? talc_onnx_in_numbers(call, 1, list, TALC_MAX_RANK)
                          : talc_onnx_ints(call->step->node, "axes", list, TALC_MAX_RANK);
    if (x == NULL || count < 0)
        return false;
    if (x->rank + count > TALC_MAX_RANK)
        return talc_onnx_fail(call, TALC_BAD_SHAPE, "rank %d is over 8", x->rank + count);
    for (int i = 0; i < count; i++)
        list[i] += list[i] < 0 ? x->rank + count : 0;
    qsort(list, (size_t)count, sizeof *list, ascending);
    for (int i = 0; i < count; i++)
        if (list[i] < 0 || list[i] >= x->rank + count || (i > 0 && list[i] == list[i - 1]))
            return talc_onnx_fail(call, TALC_BAD_ARGUMENT, "axis %lld is outside rank %d, or twice",
                                  (long long)list[i], x->rank + count);
    talc_dims dims = { .rank = x->rank + count };
    for (int i = 0, used = 0, from = 0; i < dims.rank; i++) {
        const bool is_new = used < count && list[used] == i;
        dims.dim[i] = is_new ? 1 : from < x->rank ? x->dims[from] : 0;
        used += is_new;
        from += !is_new;
    }
    return talc_onnx_out(call, 0, talc_reshape(x, dims));
}

static bool run_expand(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    talc_dims dims = TALC_SCALAR, both;
    dims.rank = talc_onnx_in_numbers(call, 1, dims.dim, TALC_MAX_RANK);
    return x != NULL && dims.rank >= 0 && talc_onnx_broadcast(call, talc_dims_of(x), dims, &both) &&
           talc_onnx_out(call, 0, talc_expand(x, both));
}

static bool run_tile(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    talc_dims repeats = TALC_SCALAR;
    repeats.rank = talc_onnx_in_numbers(call, 1, repeats.dim, TALC_MAX_RANK);
    return x != NULL && repeats.rank >= 0 && talc_onnx_out(call, 0, talc_tile(x, repeats));
}

/* [N, C, H, W] to [N, C / b^2, H b, W b], and back. */
static bool run_depth_to_space(talc_onnx_call *call)
{
    const talc_onnx_node *node = call->step->node;
    const talc_tensor *x = talc_onnx_in(call, 0);
    const int64_t b = talc_onnx_int(node, "blocksize", 0);
    if (x == NULL || x->rank != 4 || b < 1 || x->dims[1] % (b * b) != 0)
        return x != NULL && talc_onnx_fail(call, TALC_BAD_SHAPE, "x or blocksize does not fit");
    const int64_t N = x->dims[0], C = x->dims[1] / (b * b), H = x->dims[2], W = x->dims[3];
    const bool columns = strcmp(talc_onnx_string(node, "mode", "DCR"), "CRD") == 0;
    talc_tensor *y =
        talc_reshape(x, columns ? TALC_DIMS(N, C, b, b, H, W) : TALC_DIMS(N, b, b, C, H, W));
    y = talc_permute(y, columns ? TALC_DIMS(0, 1, 4, 2, 5, 3) : TALC_DIMS(0, 3, 4, 1, 5, 2));
    return talc_onnx_out(call, 0,
                         y == NULL ? NULL : talc_reshape(y, TALC_DIMS(N, C, H * b, W * b)));
}

static bool run_space_to_depth(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    const int64_t b = talc_onnx_int(call->step->node, "blocksize", 0);
    if (x == NULL || x->rank != 4 || b < 1 || x->dims[2] % b != 0 || x->dims[3] % b != 0)
        return x != NULL && talc_onnx_fail(call, TALC_BAD_SHAPE, "x or blocksize does not fit");
    const int64_t N = x->dims[0], C = x->dims[1], H = x->dims[2] / b, W = x->dims[3] / b;
    talc_tensor *y = talc_reshape(x, TALC_DIMS(N, C, H, b, W, b));
    y = talc_permute(y, TALC_DIMS(0, 3, 5, 1, 2, 4));
    return talc_onnx_out(call, 0,
                         y == NULL ? NULL : talc_reshape(y, TALC_DIMS(N, C * b * b, H, W)));
}

// ---- Joining and taking apart -------------------------------------------------------------------

static bool run_concat(talc_onnx_call *call)
{
    const int count = call->step->input_count;
    const talc_tensor **tensors = talc_memory_new((size_t)count * sizeof *tensors, "onnx: Concat");
    bool there = tensors != NULL;
    for (int i = 0; there && i < count; i++)
        there = (tensors[i] = talc_onnx_in(call, i)) != NULL;
    int axis = 0;
    const bool done =
        there &&
        talc_onnx_axis(call, talc_onnx_int(call->step->node, "axis", 0), tensors[0]->rank, &axis) &&
        talc_onnx_out(call, 0, talc_concat(tensors, count, axis));
    talc_memory_free(tensors);
    return done;
}

enum { PARTS = 256 };

/* As the input or the attribute says, else equal parts, of which the last may be smaller. */
static int parts_of(talc_onnx_call *call, int64_t extent, int64_t sizes[PARTS])
{
    const int count = talc_onnx_has(call, 1)
                          ? talc_onnx_in_numbers(call, 1, sizes, PARTS)
                          : talc_onnx_ints(call->step->node, "split", sizes, PARTS);
    if (count != 0)
        return count;
    const int outputs =
        (int)talc_onnx_int(call->step->node, "num_outputs", call->step->output_count);
    if (outputs < 1 || outputs > PARTS) {
        talc_onnx_fail(call, TALC_UNSUPPORTED, "%d parts: 1 to %d can be made", outputs, PARTS);
        return -1;
    }
    const int64_t each = (extent + outputs - 1) / outputs;
    for (int i = 0; i < outputs; i++) {
        const int64_t left = extent - i * each;
        sizes[i] = left < 0 ? 0 : left < each ? left : each;
    }
    return outputs;
}

static bool run_split(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    int64_t sizes[PARTS];
    talc_tensor *parts[PARTS];
    int axis = 0;
    if (x == NULL ||
        !talc_onnx_axis(call, talc_onnx_int(call->step->node, "axis", 0), x->rank, &axis))
        return false;
    const int count = parts_of(call, x->dims[axis], sizes);
    if (count >= 0 && count != call->step->output_count)
        return talc_onnx_fail(call, TALC_BAD_ARGUMENT, "%d parts, %d outputs", count,
                              call->step->output_count);
    bool done = count > 0 && talc_split(x, sizes, count, axis, parts);
    for (int i = 0; done && i < count; i++)
        done = talc_onnx_out(call, i, parts[i]);
    return done;
}

/* Elements start, start + step, ... before end, of which a negative step goes backwards. */
static talc_tensor *sliced(talc_tensor *x, int dim, int64_t start, int64_t end, int64_t step)
{
    if (step > 0)
        return talc_slice(x, dim, start, end, step);
    const int64_t extent = x->dims[dim];
    start = start < 0 ? start + extent : start;
    end = end < -extent ? -1 : end < 0 ? end + extent : end;
    start = start >= extent ? extent - 1 : start;
    start = start < 0 ? 0 : start; /* as the format clamps it */
    if (start <= end || extent == 0)
        return talc_slice(x, dim, 0, 0, 1);
    const int64_t count = (start - end - 1) / -step + 1;
    talc_tensor *forwards = talc_slice(x, dim, start + (count - 1) * step, start + 1, -step);
    return talc_flip(forwards, TALC_DIMS(dim));
}

static bool run_slice(talc_onnx_call *call)
{
    const talc_onnx_node *node = call->step->node;
    const bool by_inputs = talc_onnx_has(call, 1);
    int64_t starts[TALC_MAX_RANK], ends[TALC_MAX_RANK], axes[TALC_MAX_RANK], steps[TALC_MAX_RANK];
    for (int i = 0; i < TALC_MAX_RANK; i++) {
        axes[i] = i;
        steps[i] = 1;
    }
    int count = 0, count_end = 0;
    if (by_inputs) {
        count = talc_onnx_in_numbers(call, 1, starts, TALC_MAX_RANK);
        count_end = talc_onnx_in_numbers(call, 2, ends, TALC_MAX_RANK);
        const int given = talc_onnx_in_numbers(call, 3, axes, TALC_MAX_RANK);
        const int stepped = talc_onnx_in_numbers(call, 4, steps, TALC_MAX_RANK);
        if (given < 0 || stepped < 0)
            return false;
        if ((given > 0 && given != count) || (stepped > 0 && stepped != count))
            return talc_onnx_fail(call, TALC_BAD_ARGUMENT, "%d starts, %d axes, %d steps", count,
                                  given, stepped);
    } else {
        count = talc_onnx_ints(node, "starts", starts, TALC_MAX_RANK);
        count_end = talc_onnx_ints(node, "ends", ends, TALC_MAX_RANK);
        talc_onnx_ints(node, "axes", axes, TALC_MAX_RANK);
    }
    talc_tensor *y = talc_onnx_in(call, 0);
    if (y == NULL || count < 0 || count_end < 0)
        return false;
    if (count != count_end)
        return talc_onnx_fail(call, TALC_BAD_ARGUMENT, "%d starts, %d ends", count, count_end);
    for (int i = 0; i < count && y != NULL; i++) {
        int dim = 0;
        if (steps[i] == 0 || steps[i] == INT64_MIN)
            return talc_onnx_fail(call, TALC_BAD_ARGUMENT, "a step of %lld", (long long)steps[i]);
        if (!talc_onnx_axis(call, axes[i], y->rank, &dim))
            return false;
        y = sliced(y, dim, starts[i], ends[i], steps[i]);
    }
    return talc_onnx_out(call, 0, y);
}

// ---- Picking ------------------------------------------------------------------------------------

/* An index as i64, negative ones counted from the end. */
static talc_tensor *from_start(const talc_tensor *index, int64_t extent)
{
    talc_tensor *wide = talc_cast(index, TALC_I64);
    return talc_where(talc_less_scalar(wide, 0), talc_add_scalar(wide, (double)extent), wide);
}

static bool run_gather(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0), *index = talc_onnx_in(call, 1);
    int axis = 0;
    if (x == NULL || index == NULL ||
        !talc_onnx_axis(call, talc_onnx_int(call->step->node, "axis", 0), x->rank, &axis))
        return false;
    double one;
    if (index->rank == 0 && talc_onnx_in_number(call, 1, &one) && one >= (double)-x->dims[axis] &&
        one < (double)x->dims[axis])
        return talc_onnx_out(call, 0, talc_select(x, axis, (int64_t)one));
    const talc_dims index_dims = talc_dims_of(index);
    talc_tensor *wide = from_start(index, x->dims[axis]);
    talc_tensor *y = talc_index_select(x, axis, talc_reshape(wide, TALC_DIMS(talc_numel(index))));
    if (y == NULL || index_dims.rank == 1)
        return talc_onnx_out(call, 0, y);
    talc_dims dims = TALC_SCALAR;
    if (x->rank - 1 + index_dims.rank > TALC_MAX_RANK)
        return talc_onnx_fail(call, TALC_BAD_SHAPE, "rank %d is over 8",
                              x->rank - 1 + index_dims.rank);
    for (int i = 0; i < axis; i++)
        dims.dim[dims.rank++] = x->dims[i];
    for (int i = 0; i < index_dims.rank; i++)
        dims.dim[dims.rank++] = index_dims.dim[i];
    for (int i = axis + 1; i < x->rank; i++)
        dims.dim[dims.rank++] = x->dims[i];
    return talc_onnx_out(call, 0, talc_reshape(y, dims));
}

static bool run_gather_elements(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0), *index = talc_onnx_in(call, 1);
    int axis = 0;
    if (x == NULL || index == NULL ||
        !talc_onnx_axis(call, talc_onnx_int(call->step->node, "axis", 0), x->rank, &axis))
        return false;
    return talc_onnx_out(call, 0, talc_gather(x, axis, from_start(index, x->dims[axis])));
}

/* On the CPU: y is data with data[index[i]] = updates[i] for each row of the index. */
static bool run_scatter_nd(talc_onnx_call *call)
{
    const talc_tensor *data = talc_onnx_in_host(call, 0), *given = talc_onnx_in_host(call, 1);
    const talc_tensor *updates = talc_onnx_in_host(call, 2);
    if (data == NULL || given == NULL || updates == NULL)
        return false;
    const talc_tensor *const operands[] = { talc_onnx_in(call, 0), talc_onnx_in(call, 2) };
    if (!call->folds && talc_tape_wants(operands, 2)) /* which it would not record */
        return talc_onnx_fail(call, TALC_UNSUPPORTED, "a gradient through it");
    const talc_tensor *index = talc_cast(given, TALC_I64);
    talc_tensor *y = talc_clone(data);
    const int depth = index == NULL || index->rank < 1 ? -1 : (int)index->dims[index->rank - 1];
    if (y == NULL || depth < 0 || depth > data->rank || updates->dtype != data->dtype)
        return talc_failed()
                   ? false
                   : talc_onnx_fail(call, TALC_BAD_SHAPE, "indices or updates do not fit");
    int64_t slice = 1;
    for (int i = depth; i < data->rank; i++)
        slice *= data->dims[i];
    const int64_t rows = depth == 0 ? 1 : talc_numel(index) / depth;
    if (talc_numel(updates) != rows * slice)
        return talc_onnx_fail(call, TALC_BAD_SHAPE, "updates have %lld elements, not %lld",
                              (long long)talc_numel(updates), (long long)(rows * slice));
    if (rows * slice == 0)
        return talc_onnx_out(call, 0, y);
    const size_t bytes = (size_t)slice * talc_dtype_size(data->dtype);
    const int64_t *list = talc_numel(index) == 0 ? NULL : talc_data_read(index, TALC_I64);
    char *to = talc_data(y, y->dtype);
    const char *from = talc_data_read(updates, updates->dtype);
    if (talc_failed())
        return false;
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = 0;
        for (int k = 0; k < depth; k++) {
            const int64_t extent = data->dims[k], i = list[row * depth + k];
            if (i < -extent || i >= extent)
                return talc_onnx_fail(call, TALC_BAD_ARGUMENT, "index %lld is outside extent %lld",
                                      (long long)i, (long long)extent);
            at = at * extent + (i < 0 ? i + extent : i);
        }
        memcpy(to + (size_t)at * bytes, from + (size_t)row * bytes, bytes);
    }
    return talc_onnx_out(call, 0, y);
}

static const char *refuses_scatter_nd(const talc_onnx_node *node, int64_t opset)
{
    (void)opset;
    return strcmp(talc_onnx_string(node, "reduction", "none"), "none") == 0
               ? NULL
               : "reduction is not none";
}

static bool run_trilu(talc_onnx_call *call)
{
    const talc_tensor *x = talc_onnx_in(call, 0);
    int64_t diagonal = 0;
    if (x == NULL || talc_onnx_in_numbers(call, 1, &diagonal, 1) < 0)
        return false;
    return talc_onnx_out(call, 0,
                         talc_onnx_int(call->step->node, "upper", 1) != 0 ? talc_triu(x, diagonal)
                                                                          : talc_tril(x, diagonal));
}

static bool run_cumsum(talc_onnx_call *call)
{
    talc_tensor *x = talc_onnx_in(call, 0);
    int64_t axis = 0;
    int dim = 0;
    if (x != NULL && !talc_dtype_is_float(x->dtype))
        return talc_onnx_fail(call, TALC_UNSUPPORTED, "sums of integers");
    if (x == NULL || talc_onnx_in_numbers(call, 1, &axis, 1) < 0 ||
        !talc_onnx_axis(call, axis, x->rank, &dim))
        return false;
    const bool reverse = talc_onnx_int(call->step->node, "reverse", 0) != 0;
    const talc_dims dims = TALC_DIMS(dim);
    talc_tensor *from = reverse ? talc_flip(x, dims) : x;
    talc_tensor *y = talc_cumsum(from, dim);
    if (y != NULL && talc_onnx_int(call->step->node, "exclusive", 0) != 0) {
        /* The sum before: all but the last, behind a 0. */
        talc_pad_options shift = { .padding = { 0 } };
        shift.padding[2 * (x->rank - 1 - dim)] = 1;
        shift.padding[2 * (x->rank - 1 - dim) + 1] = -1;
        y = talc_pad(y, &shift);
    }
    return talc_onnx_out(call, 0, y != NULL && reverse ? talc_flip(y, dims) : y);
}

// ---- Padding ------------------------------------------------------------------------------------

static bool run_pad(talc_onnx_call *call)
{
    static const char *const modes[] = { "constant", "reflect", "edge", "wrap" };
    const talc_onnx_node *node = call->step->node;
    const talc_tensor *x = talc_onnx_in(call, 0);
    int64_t pads[2 * TALC_MAX_RANK];
    talc_dims axes;
    if (x == NULL || !talc_onnx_axes(call, 3, x->rank, &axes))
        return false;
    int count = talc_onnx_has(call, 1) ? talc_onnx_in_numbers(call, 1, pads, 2 * TALC_MAX_RANK)
                                       : talc_onnx_ints(node, "pads", pads, 2 * TALC_MAX_RANK);
    if (!talc_onnx_has(call, 3))
        for (axes.rank = 0; axes.rank < x->rank; axes.rank++)
            axes.dim[axes.rank] = axes.rank;
    if (count != 2 * axes.rank)
        return count >= 0 && talc_onnx_fail(call, TALC_BAD_ARGUMENT, "%d pads for %d dimensions",
                                            count, axes.rank);
    talc_pad_options options = { .value = talc_onnx_float(node, "value", 0) };
    for (int i = 0; i < axes.rank; i++)
        for (int end = 0; end < 2; end++)
            options.padding[2 * (x->rank - 1 - (int)axes.dim[i]) + end] = pads[i + end * axes.rank];
    const char *mode = talc_onnx_string(node, "mode", "constant");
    for (int i = 0; i < 4; i++)
        if (strcmp(mode, modes[i]) == 0)
            options.mode = (talc_padding_mode)i;
    if (talc_onnx_has(call, 2) && !talc_onnx_in_number(call, 2, &options.value)) {
        const talc_tensor *value = talc_onnx_in_host(call, 2);
        if (value == NULL)
            return false;
        *call->on_data = true;
        options.value = talc_item(value);
    }
    if (!talc_dtype_is_float(x->dtype) && !(options.value < 0x1p53 && options.value > -0x1p53))
        return talc_onnx_fail(call, TALC_UNSUPPORTED, "integers of 2^53 and more");
    return talc_onnx_out(call, 0, talc_pad(x, &options));
}

const talc_onnx_operator talc_onnx_shapes[] = {
    { "Concat", run_concat, -1, NULL },
    { "Constant", run_constant, 0, refuses_constant },
    { "ConstantOfShape", run_constant_of_shape, 1, NULL },
    { "CumSum", run_cumsum, 2, NULL },
    { "DepthToSpace", run_depth_to_space, 1, NULL },
    { "Expand", run_expand, 2, NULL },
    { "Flatten", run_flatten, 1, NULL },
    { "Gather", run_gather, 2, NULL },
    { "GatherElements", run_gather_elements, 2, NULL },
    { "Pad", run_pad, 1, NULL },
    { "Range", run_range, 3, NULL },
    { "Reshape", run_reshape, 2, NULL },
    { "ScatterND", run_scatter_nd, 3, refuses_scatter_nd },
    { "Shape", run_shape, 1, NULL },
    { "Size", run_size, 1, NULL },
    { "Slice", run_slice, 1, NULL },
    { "SpaceToDepth", run_space_to_depth, 1, NULL },
    { "Split", run_split, 1, NULL },
    { "Squeeze", run_squeeze, 1, NULL },
    { "Tile", run_tile, 2, NULL },
    { "Transpose", run_transpose, 1, NULL },
    { "Trilu", run_trilu, 1, NULL },
    { "Unsqueeze", run_unsqueeze, 1, NULL },
    { NULL, NULL, 0, NULL },
};
