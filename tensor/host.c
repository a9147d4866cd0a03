/// Elements from the host, and for it: copied, or where they lie.
#include "tensor/observe.h"
#include "tensor/recording.h"
#include "tensor/run.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>

talc_tensor *talc_from_host_for(const char *who, talc_device *device, talc_dtype dtype,
                                talc_dims dims, const void *elements)
{
    if (device != NULL && talc_recording_refuses(who, device, "read the host's memory"))
        return NULL;
    talc_tensor *tensor = talc_tensor_new(who, device, dtype, dims);
    if (tensor == NULL || talc_numel(tensor) == 0)
        return tensor;
    if (!talc_operand_missing(who, "elements", elements)) {
        const talc_run run = talc_run_begin("from_host", device, "transfer", talc_run_dims, tensor);
        if (talc_run_end(&run, device->interface->upload(device, tensor->data, elements,
                                                         talc_nbytes(tensor))) == TALC_OK)
            return tensor;
    }
    talc_release(tensor);
    return NULL;
}

talc_tensor *talc_from_host(talc_device *device, talc_dtype dtype, talc_dims dims,
                            const void *elements)
{
    return talc_from_host_for("from_host", device, dtype, dims, elements);
}

bool talc_to_host(const talc_tensor *tensor, void *elements, size_t bytes)
{
    if (talc_operand_missing("to_host", "tensor", tensor))
        return false;
    char text[TALC_DIMS_TEXT];
    if (bytes != talc_nbytes(tensor)) {
        talc_fail(TALC_BAD_ARGUMENT, "to_host: %s of %s has %zu byte%s, the array %zu",
                  talc_dims_text(talc_dims_of(tensor), text), talc_dtype_name(tensor->dtype),
                  talc_nbytes(tensor), TALC_PLURAL(talc_nbytes(tensor)), bytes);
        return false;
    }
    if (talc_recording_refuses("to_host", tensor->device, "read elements back"))
        return false;
    if (bytes == 0)
        return talc_device_synchronize(tensor->device);
    if (talc_operand_missing("to_host", "elements", elements))
        return false;
    talc_observer *observer = talc_observe_pause();
    talc_tensor *packed = talc_contiguous_for("to_host", tensor);
    talc_observe_resume(observer);
    if (packed == NULL)
        return false;
    const talc_device_interface *interface = packed->device->interface;
    const talc_run run =
        talc_run_begin("to_host", packed->device, "transfer", talc_run_dims, packed);
    const talc_status status = talc_device_waited(
        packed->device,
        talc_run_end(&run, interface->download(packed->device, elements, packed->data, bytes)));
    talc_release(packed);
    return status == TALC_OK;
}

/* The only element, converted to f64 or i64 on its device. */
static bool item(const talc_tensor *tensor, talc_dtype dtype, void *value)
{
    if (talc_operand_missing("item", "tensor", tensor) ||
        talc_recording_refuses("item", tensor->device, "read elements back"))
        return false;
    if (talc_numel(tensor) != 1) {
        char text[TALC_DIMS_TEXT];
        talc_fail(TALC_BAD_SHAPE, "item: a tensor %s has %" PRId64 " elements, item needs 1",
                  talc_dims_text(talc_dims_of(tensor), text), talc_numel(tensor));
        return false;
    }
    talc_observer *observer = talc_observe_pause();
    talc_tensor *converted = talc_cast_for("item", tensor, dtype);
    talc_observe_resume(observer);
    bool ok = converted != NULL && talc_to_host(converted, value, talc_dtype_size(dtype));
    talc_release(converted);
    return ok;
}

double talc_item(const talc_tensor *tensor)
{
    double value;
    return item(tensor, TALC_F64, &value) ? value : NAN;
}

int64_t talc_item_i64(const talc_tensor *tensor)
{
    int64_t value;
    return item(tensor, TALC_I64, &value) ? value : 0;
}

/* Whether the host can use the elements where they lie, as `dtype`. */
static bool check_data(const talc_tensor *tensor, talc_dtype dtype)
{
    char text[TALC_DIMS_TEXT];
    if (tensor->dtype != dtype)
        talc_fail(TALC_BAD_DTYPE, "data: the tensor is %s, the caller asks for %s",
                  talc_dtype_name(tensor->dtype), talc_dtype_name(dtype));
    else if (!tensor->device->is_host)
        talc_fail(TALC_BAD_DEVICE,
                  "data: the host cannot touch memory of %s; copy with talc_to_host",
                  tensor->device->name);
    else if (!talc_is_contiguous(tensor))
        talc_fail(TALC_BAD_SHAPE,
                  "data: the tensor %s is not contiguous; make it so with talc_contiguous first",
                  talc_dims_text(talc_dims_of(tensor), text));
    return !talc_failed();
}

const void *talc_data_read(const talc_tensor *tensor, talc_dtype dtype)
{
    if (talc_operand_missing("data", "tensor", tensor) ||
        talc_recording_refuses("data", tensor->device, "show its elements to the host") ||
        !check_data(tensor, dtype))
        return NULL;
    talc_device *pinned = tensor->storage->pinned;
    if (pinned != NULL &&
        (talc_device_forked(pinned, "data") ||
         talc_device_waited(
             pinned, pinned->interface->await(pinned, tensor->storage->block.data)) != TALC_OK))
        return NULL;
    return tensor->data;
}

void *talc_data(const talc_tensor *tensor, talc_dtype dtype)
{
    if (talc_data_read(tensor, dtype) == NULL)
        return NULL;
    atomic_fetch_add(&tensor->storage->version, 1);
    return tensor->data;
}
