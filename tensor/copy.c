#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/observe.h"
#include "tensor/recording.h"
#include "tensor/run.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/tape.h"

#include <inttypes.h>
#include <string.h>

/* dst = src on one device; both have the shape of dst. */
static talc_status copy_on_device(const char *who, talc_tensor *dst, const talc_tensor *src)
{
    if (talc_numel(dst) == 0)
        return TALC_OK;
    talc_copy_problem problem = { .dst_dtype = dst->dtype, .src_dtype = src->dtype };
    memcpy(problem.dims, dst->dims, sizeof problem.dims);
    memcpy(problem.dst_strides, dst->strides, sizeof problem.dst_strides);
    memcpy(problem.src_strides, src->strides, sizeof problem.src_strides);
    problem.rank = talc_shape_coalesce(
        dst->rank, problem.dims, (int64_t *const[]){ problem.dst_strides, problem.src_strides }, 2);
    TALC_DEFAULT_FENV;
    const talc_run run = talc_run_begin(who, dst->device, "copy", talc_run_dims, dst);
    return talc_run_end(&run,
                        dst->device->interface->copy(dst->device, &problem, dst->data, src->data));
}

/* The op `op`, as a step of `who`. */
static talc_tensor *packed_copy(const char *who, const char *op, const talc_tensor *tensor,
                                talc_dtype dtype)
{
    talc_tensor *copy = talc_tensor_new(who, tensor->device, dtype, talc_dims_of(tensor));
    if (copy != NULL && copy_on_device(op, copy, tensor) != TALC_OK) {
        talc_release(copy);
        copy = NULL;
    }
    talc_observed(op, NULL, NULL, &tensor, 1, copy);
    return copy;
}

talc_tensor *talc_clone_for(const char *who, const talc_tensor *tensor)
{
    return talc_operand_missing(who, "tensor", tensor)
               ? NULL
               : packed_copy(who, "clone", tensor, tensor->dtype);
}

/* The gradient of a copy goes back to where, and as what, the tensor was. */
typedef struct origin {
    talc_device *device;
    talc_dtype dtype;
} origin;

static void copy_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const origin *from = talc_node_problem(node);
    gradients[0] = talc_to(dy, from->device, from->dtype);
}

/* The last step of the functions below: `copy` is the tensor's elements, or an alias of it. */
static talc_tensor *recorded(const char *op, const talc_tensor *tensor, talc_tensor *copy)
{
    if (copy == NULL || !talc_tape_wants_one(tensor) || !talc_dtype_is_float(copy->dtype))
        return copy;
    if (copy->storage == tensor->storage)
        return talc_tape_share(copy, tensor);
    const origin from = { tensor->device, tensor->dtype };
    return talc_tape_record(copy, &(talc_record){ .op = op,
                                                  .rule = copy_gradient,
                                                  .inputs = &tensor,
                                                  .input_count = 1,
                                                  .problem = &from,
                                                  .problem_bytes = sizeof from });
}

talc_tensor *talc_clone(const talc_tensor *tensor)
{
    return recorded("clone", tensor, talc_clone_for("clone", tensor));
}

talc_tensor *talc_contiguous_for(const char *who, const talc_tensor *tensor)
{
    if (talc_operand_missing(who, "tensor", tensor))
        return NULL;
    return talc_is_contiguous(tensor) ? talc_tensor_alias(tensor)
                                      : packed_copy(who, "contiguous", tensor, tensor->dtype);
}

talc_tensor *talc_contiguous(const talc_tensor *tensor)
{
    return recorded("contiguous", tensor, talc_contiguous_for("contiguous", tensor));
}

talc_tensor *talc_cast_for(const char *who, const talc_tensor *tensor, talc_dtype dtype)
{
    if (talc_operand_missing(who, "tensor", tensor))
        return NULL;
    return tensor->dtype == dtype ? talc_tensor_alias(tensor)
                                  : packed_copy(who, "cast", tensor, dtype);
}

talc_tensor *talc_cast(const talc_tensor *tensor, talc_dtype dtype)
{
    return recorded("cast", tensor, talc_cast_for("cast", tensor, dtype));
}

/* Directly where the two devices can, else through host memory; dst and src are contiguous, of one
 * dtype. */
static talc_status move_bytes(talc_tensor *dst, const talc_tensor *src)
{
    size_t bytes = talc_nbytes(src);
    if (dst->storage->pinned == src->device)
        return src->device->interface->receive(src->device, dst->data, src->data, bytes);
    if (src->storage->pinned == dst->device)
        return dst->device->interface->send(dst->device, dst->data, src->data, bytes);
    if (dst->device->is_host)
        return talc_device_waited(src->device, src->device->interface->download(
                                                   src->device, dst->data, src->data, bytes));
    if (src->device->is_host) {
        talc_status status = src->device->interface->synchronize(src->device);
        return status != TALC_OK
                   ? status
                   : dst->device->interface->upload(dst->device, dst->data, src->data, bytes);
    }
    if (dst->device->interface == src->device->interface &&
        dst->device->interface->from_peer != NULL)
        return dst->device->interface->from_peer(dst->device, dst->data, src->device, src->data,
                                                 bytes);
    void *staging = talc_memory_new(bytes, "copy between devices");
    if (staging == NULL)
        return talc_error_status();
    talc_status status = src->device->interface->download(src->device, staging, src->data, bytes);
    if (status == TALC_OK)
        status = dst->device->interface->upload(dst->device, dst->data, staging, bytes);
    talc_memory_free(staging);
    return status;
}

static talc_status copy_between_devices(const char *who, talc_tensor *dst, const talc_tensor *src)
{
    if (talc_numel(src) == 0)
        return TALC_OK;
    talc_device *device = dst->device->is_host ? src->device : dst->device;
    const talc_run run = talc_run_begin(who, device, "transfer", talc_run_dims, dst);
    return talc_run_end(&run, move_bytes(dst, src));
}

static bool recording_refuses(const char *who, const talc_device *from, const talc_device *to)
{
    return talc_recording_refuses(who, from, "copy to another device") ||
           talc_recording_refuses(who, to, "copy from another device");
}

static talc_tensor *moved_for(const char *who, const talc_tensor *tensor, talc_device *device,
                              talc_dtype dtype)
{
    if (talc_operand_missing(who, "tensor", tensor) || talc_operand_missing(who, "device", device))
        return NULL;
    if (tensor->device == device)
        return talc_cast_for(who, tensor, dtype);
    if (recording_refuses(who, tensor->device, device))
        return NULL;
    /* Casting before the copy needs a kernel on the source only, and both devices have that
     * kernel. */
    talc_observer *observer = talc_observe_pause();
    talc_tensor *cast = talc_cast_for(who, tensor, dtype);
    talc_tensor *packed = cast == NULL ? NULL : talc_contiguous_for(who, cast);
    talc_tensor *result =
        packed == NULL ? NULL : talc_tensor_new(who, device, dtype, talc_dims_of(tensor));
    if (result != NULL && copy_between_devices("to", result, packed) != TALC_OK) {
        talc_release(result);
        result = NULL;
    }
    talc_release(packed);
    talc_release(cast);
    talc_observe_resume(observer);
    talc_observed("to", NULL, NULL, &tensor, 1, result);
    return result;
}

talc_tensor *talc_to(const talc_tensor *tensor, talc_device *device, talc_dtype dtype)
{
    return recorded("to", tensor, moved_for("to", tensor, device, dtype));
}

/* The address range, in bytes, that a non-empty tensor's elements span. */
static void address_range(const talc_tensor *tensor, uintptr_t *first, uintptr_t *end)
{
    int64_t low = 0, high = 0;
    for (int i = 0; i < tensor->rank; i++) {
        int64_t reach = (tensor->dims[i] - 1) * tensor->strides[i];
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    int64_t size = (int64_t)talc_dtype_size(tensor->dtype);
    *first = (uintptr_t)tensor->data + (uintptr_t)(low * size);
    *end = (uintptr_t)tensor->data + (uintptr_t)((high + 1) * size);
}

bool talc_may_overlap(const talc_tensor *a, const talc_tensor *b)
{
    if (a == NULL || b == NULL || a->device != b->device || talc_numel(a) == 0 ||
        talc_numel(b) == 0)
        return false;
    uintptr_t a_first, a_end, b_first, b_end;
    address_range(a, &a_first, &a_end);
    address_range(b, &b_first, &b_end);
    return a_first < b_end && b_first < a_end;
}

bool talc_operand_writable(const char *who, const talc_tensor *tensor)
{
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->dims[i] > 1 && tensor->strides[i] == 0) {
            char text[TALC_DIMS_TEXT];
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: dimension %d of %s is expanded, so %" PRId64
                      " elements share one address; write to a talc_clone",
                      who, i, talc_dims_text(talc_dims_of(tensor), text), tensor->dims[i]);
            return false;
        }
    return talc_tape_writable(who, tensor) && !talc_recording_refuses_device(who, tensor->device);
}

/* Between page-locked memory and its device, as it lies there. */
static bool is_queued(const talc_tensor *dst, const talc_tensor *src)
{
    return (dst->storage->pinned == src->device || src->storage->pinned == dst->device) &&
           dst->dtype == src->dtype && talc_is_contiguous(dst) && talc_is_contiguous(src);
}

bool talc_copy_for(const char *who, talc_tensor *dst, const talc_tensor *src)
{
    if (talc_operand_missing(who, "dst", dst) || talc_operand_missing(who, "src", src))
        return false;
    if (!talc_same_dims(dst, src)) {
        char to[TALC_DIMS_TEXT], from[TALC_DIMS_TEXT];
        talc_fail(TALC_BAD_SHAPE, "%s: dst %s and src %s differ in shape", who,
                  talc_dims_text(talc_dims_of(dst), to), talc_dims_text(talc_dims_of(src), from));
        return false;
    }
    if ((src->device != dst->device && recording_refuses(who, src->device, dst->device)) ||
        !talc_operand_writable(who, dst))
        return false;
    if (is_queued(dst, src)) {
        if (copy_between_devices("copy", dst, src) != TALC_OK)
            return false;
        talc_tensor_written(dst);
        talc_observed("copy", NULL, NULL, &src, 1, dst);
        return true;
    }
    /* An op of its own, so that an observer sees what is copied before it is overwritten. */
    talc_tensor *moved = NULL;
    if (src->device != dst->device)
        moved = moved_for(who, src, dst->device, dst->dtype);
    else if (talc_may_overlap(dst, src))
        moved = talc_clone_for(who, src);
    if (talc_failed())
        return false;
    src = moved != NULL ? moved : src;
    bool ok = copy_on_device("copy", dst, src) == TALC_OK;
    if (ok) {
        talc_tensor_written(dst);
        talc_observed("copy", NULL, NULL, &src, 1, dst);
    }
    talc_release(moved);
    return ok && !talc_failed();
}

bool talc_copy(talc_tensor *dst, const talc_tensor *src)
{
    if (src != NULL && talc_tape_wants_one(src)) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "copy: src asks for a gradient, which does not go through a copy into a tensor; "
                  "copy a talc_detach of it, or after talc_no_grad_enter");
        return false;
    }
    return talc_copy_for("copy", dst, src);
}

bool talc_fill(talc_tensor *tensor, double value)
{
    if (talc_operand_missing("fill", "tensor", tensor) || !talc_operand_writable("fill", tensor) ||
        !talc_number_held("fill", "value", value, tensor->dtype))
        return false;
    if (talc_numel(tensor) == 0)
        return true;
    talc_fill_problem problem = { .dtype = tensor->dtype, .value = value };
    memcpy(problem.dims, tensor->dims, sizeof problem.dims);
    memcpy(problem.strides, tensor->strides, sizeof problem.strides);
    problem.rank =
        talc_shape_coalesce(tensor->rank, problem.dims, (int64_t *const[]){ problem.strides }, 1);
    TALC_DEFAULT_FENV;
    const talc_run run = talc_run_begin("fill", tensor->device, "fill", talc_run_dims, tensor);
    if (talc_run_end(&run, tensor->device->interface->fill(tensor->device, &problem,
                                                           tensor->data)) != TALC_OK)
        return false;
    talc_tensor_written(tensor);
    return true;
}
