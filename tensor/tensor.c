#include "tensor/tensor.h"

#include "tensor/fenv.h"
#include "tensor/cached.h"
#include "tensor/memory.h"
#include "tensor/recording.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/streams.h"
#include "tensor/tape.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// ---- Element types ------------------------------------------------------------------------------

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
#define TALC_DTYPE_ROW(constant, name, type, safetensors) { #name, sizeof(type) },
    TALC_DTYPE_TABLE(TALC_DTYPE_ROW)
#undef TALC_DTYPE_ROW
};

static bool dtype_exists(talc_dtype dtype)
{
    return (unsigned)dtype < TALC_DTYPE_COUNT;
}

size_t talc_dtype_size(talc_dtype dtype)
{
    return dtype_exists(dtype) ? dtypes[dtype].size : 0;
}

const char *talc_dtype_name(talc_dtype dtype)
{
    return dtype_exists(dtype) ? dtypes[dtype].name : "?";
}

bool talc_dtype_from_name(const char *name, talc_dtype *dtype)
{
    for (int i = 0; name != NULL && dtype != NULL && i < TALC_DTYPE_COUNT; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            *dtype = (talc_dtype)i;
            return true;
        }
    return false;
}

bool talc_dtype_is_float(talc_dtype dtype)
{
    return dtype == TALC_F32 || dtype == TALC_F64;
}

// ---- Queries ------------------------------------------------------------------------------------

talc_dims talc_dims_of(const talc_tensor *tensor)
{
    talc_dims dims = { 0 };
    if (tensor != NULL) {
        dims.rank = tensor->rank;
        memcpy(dims.dim, tensor->dims, sizeof dims.dim);
    }
    return dims;
}

int64_t talc_numel(const talc_tensor *tensor)
{
    return tensor == NULL ? 0 : talc_shape_numel(talc_dims_of(tensor));
}

size_t talc_nbytes(const talc_tensor *tensor)
{
    return tensor == NULL ? 0 : (size_t)talc_numel(tensor) * talc_dtype_size(tensor->dtype);
}

bool talc_is_contiguous(const talc_tensor *tensor)
{
    if (tensor == NULL || talc_numel(tensor) == 0)
        return tensor != NULL;
    int64_t stride = 1;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        /* The stride of an extent 1 is never used, so any value will do. */
        if (tensor->dims[i] != 1 && tensor->strides[i] != stride)
            return false;
        stride *= tensor->dims[i];
    }
    return true;
}

bool talc_same_dims(const talc_tensor *a, const talc_tensor *b)
{
    return a != NULL && b != NULL && talc_shape_equal(talc_dims_of(a), talc_dims_of(b));
}

uint64_t talc_version(const talc_tensor *tensor)
{
    return tensor == NULL ? 0 : atomic_load(&tensor->storage->version);
}

// ---- Records and storage ------------------------------------------------------------------------

void talc_dtype_range(talc_dtype dtype, double *low, double *end)
{
    *end = talc_dtype_is_float(dtype) ? INFINITY
           : dtype == TALC_U8         ? 0x1p8
           : dtype == TALC_I32        ? 0x1p31
                                      : 0x1p63;
    *low = dtype == TALC_U8 ? 0 : -*end;
}

bool talc_number_held(const char *who, const char *operand, double value, talc_dtype dtype)
{
    if (talc_dtype_is_float(dtype))
        return true;
    TALC_DEFAULT_FENV;
    double low, end;
    talc_dtype_range(dtype, &low, &end);
    if (value >= low && value < end && value == floor(value))
        return true;
    talc_fail(TALC_BAD_ARGUMENT, "%s: %s %.15g is no number that %s holds", who, operand, value,
              talc_dtype_name(dtype));
    return false;
}

bool talc_operand_missing(const char *who, const char *operand, const void *pointer)
{
    if (talc_failed())
        return true;
    if (pointer == NULL)
        talc_fail(TALC_NULL_ARGUMENT, "%s: %s is NULL", who, operand);
    return pointer == NULL;
}

static void record_use(const talc_tensor *tensor, bool written)
{
    talc_storage *storage = tensor->storage;
    const int stream = talc_stream_number(storage->device);
    if (stream != storage->block.stream)
        atomic_fetch_or(&storage->streams, UINT32_C(1) << stream);
    talc_recording_uses(tensor, written);
}

void talc_tensor_used(const talc_tensor *tensor)
{
    record_use(tensor, false);
}

void talc_tensor_written(talc_tensor *tensor)
{
    record_use(tensor, true);
    atomic_fetch_add(&tensor->storage->version, 1);
}

static void storage_drop(talc_storage *storage)
{
    if (atomic_fetch_sub(&storage->references, 1) != 1)
        return;
    talc_cached_free(storage->cached);
    if (storage->pinned != NULL)
        talc_pinned_free(storage->pinned, storage->block.data);
    else if (!storage->wrapped)
        talc_block_free_after(storage->device, storage->block, atomic_load(&storage->streams));
    else if (storage->release != NULL)
        storage->release(storage->block.data, storage->context);
    talc_memory_free(storage);
}

void talc_tensor_destroy(tensor_record *record)
{
    talc_node_release(record->tensor.autograd);
    storage_drop(record->tensor.storage);
    talc_memory_free(record);
}

/* A record in the innermost scope that sees `storage` and takes over the caller's reference to
 * it. */
static talc_tensor *record_new(talc_storage *storage, talc_dtype dtype, talc_dims dims,
                               const int64_t strides[TALC_MAX_RANK], void *data)
{
    tensor_record *record = talc_memory_new(sizeof *record, "tensor");
    if (record == NULL)
        return NULL;
    talc_tensor *tensor = &record->tensor;
    tensor->dtype = dtype;
    tensor->rank = dims.rank;
    for (int i = 0; i < dims.rank; i++) {
        tensor->dims[i] = dims.dim[i];
        tensor->strides[i] = strides[i];
    }
    tensor->device = storage->device;
    tensor->data = data;
    tensor->storage = storage;
    atomic_init(&record->references, 1);
    talc_scope_add(record);
    return tensor;
}

static talc_storage *storage_new(talc_device *device)
{
    talc_storage *storage = talc_memory_new(sizeof *storage, "tensor");
    if (storage != NULL) {
        atomic_init(&storage->references, 1);
        atomic_init(&storage->version, 0);
        storage->device = device;
    }
    return storage;
}

talc_tensor *talc_tensor_new(const char *who, talc_device *device, talc_dtype dtype, talc_dims dims)
{
    int64_t numel;
    if (talc_operand_missing(who, "device", device) || talc_recording_refuses_device(who, device) ||
        talc_shape_check(who, dtype, dims, &numel) != TALC_OK)
        return NULL;
    talc_storage *storage = storage_new(device);
    if (storage == NULL)
        return NULL;
    size_t bytes = (size_t)numel * talc_dtype_size(dtype);
    talc_tensor *tensor = NULL;
    if (talc_block_new(device, who, bytes, &storage->block) == TALC_OK) {
        int64_t strides[TALC_MAX_RANK];
        talc_shape_strides(dims, strides);
        tensor = record_new(storage, dtype, dims, strides, storage->block.data);
    }
    if (tensor == NULL)
        storage_drop(storage);
    return tensor;
}

talc_tensor *talc_tensor_view(const talc_tensor *base, talc_dims dims,
                              const int64_t strides[TALC_MAX_RANK], int64_t offset)
{
    /* An empty tensor has no address to count from. */
    char *data = base->data;
    if (data != NULL)
        data += offset * (int64_t)talc_dtype_size(base->dtype);
    talc_tensor *view = record_new(base->storage, base->dtype, dims, strides, data);
    if (view != NULL)
        atomic_fetch_add(&base->storage->references, 1);
    return view;
}

talc_tensor *talc_tensor_alias(const talc_tensor *base)
{
    return talc_tensor_view(base, talc_dims_of(base), base->strides, 0);
}

void talc_tensor_replace(talc_tensor *tensor, const talc_tensor *other)
{
    talc_storage *old = tensor->storage;
    atomic_fetch_add(&other->storage->references, 1);
    struct talc_autograd *autograd = tensor->autograd;
    *tensor = *other;
    tensor->autograd = autograd;
    talc_tape_moved(tensor);
    storage_drop(old);
}

// ---- Creation -----------------------------------------------------------------------------------

talc_tensor *talc_empty(talc_device *device, talc_dtype dtype, talc_dims dims)
{
    return talc_tensor_new("empty", device, dtype, dims);
}

static talc_tensor *filled(const char *who, talc_device *device, talc_dtype dtype, talc_dims dims,
                           double value)
{
    talc_tensor *tensor = talc_tensor_new(who, device, dtype, dims);
    if (tensor != NULL &&
        !(talc_number_held(who, "value", value, dtype) && talc_fill(tensor, value))) {
        talc_release(tensor);
        tensor = NULL;
    }
    return tensor;
}

talc_tensor *talc_zeros(talc_device *device, talc_dtype dtype, talc_dims dims)
{
    return filled("zeros", device, dtype, dims, 0);
}

talc_tensor *talc_ones(talc_device *device, talc_dtype dtype, talc_dims dims)
{
    return filled("ones", device, dtype, dims, 1);
}

talc_tensor *talc_full(talc_device *device, talc_dtype dtype, talc_dims dims, double value)
{
    return filled("full", device, dtype, dims, value);
}

talc_tensor *talc_empty_like(const talc_tensor *tensor)
{
    if (talc_operand_missing("empty_like", "tensor", tensor))
        return NULL;
    return talc_tensor_new("empty_like", tensor->device, tensor->dtype, talc_dims_of(tensor));
}

talc_tensor *talc_zeros_like(const talc_tensor *tensor)
{
    if (talc_operand_missing("zeros_like", "tensor", tensor))
        return NULL;
    return filled("zeros_like", tensor->device, tensor->dtype, talc_dims_of(tensor), 0);
}

talc_tensor *talc_wrap(talc_device *device, talc_dtype dtype, talc_dims dims, void *data,
                       talc_release_function *release, void *context)
{
    int64_t numel;
    if (talc_operand_missing("wrap", "device", device) ||
        talc_shape_check("wrap", dtype, dims, &numel) != TALC_OK ||
        talc_device_gone(device, "wrap"))
        return NULL;
    if (numel > 0 && talc_operand_missing("wrap", "data", data))
        return NULL;
    if (!device->is_host) {
        talc_fail(TALC_BAD_DEVICE, "wrap: %s cannot use host memory in place", device->name);
        return NULL;
    }
    if ((uintptr_t)data % talc_dtype_size(dtype) != 0) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "wrap: address %p is not aligned for %s, which needs a multiple of %zu", data,
                  talc_dtype_name(dtype), talc_dtype_size(dtype));
        return NULL;
    }
    talc_storage *storage = storage_new(device);
    if (storage == NULL)
        return NULL;
    storage->wrapped = true;
    storage->block.data = data;
    int64_t strides[TALC_MAX_RANK];
    talc_shape_strides(dims, strides);
    talc_tensor *tensor = record_new(storage, dtype, dims, strides, data);
    if (tensor == NULL) {
        talc_memory_free(storage); /* without calling release: the memory stays the caller's */
        return NULL;
    }
    storage->release = release;
    storage->context = context;
    return tensor;
}

talc_tensor *talc_pinned(talc_device *device, talc_dtype dtype, talc_dims dims)
{
    int64_t numel;
    if (talc_operand_missing("pinned", "device", device) ||
        talc_shape_check("pinned", dtype, dims, &numel) != TALC_OK ||
        talc_device_gone(device, "pinned"))
        return NULL;
    if (device->interface->pin == NULL || numel == 0)
        return talc_tensor_new("pinned", talc_device_host(), dtype, dims);
    talc_storage *storage = storage_new(talc_device_host());
    if (storage == NULL)
        return NULL;
    const size_t bytes = (size_t)numel * talc_dtype_size(dtype);
    talc_tensor *tensor = NULL;
    storage->block.data = device->interface->pin(device, bytes);
    if (storage->block.data != NULL) {
        int64_t strides[TALC_MAX_RANK];
        talc_shape_strides(dims, strides);
        storage->pinned = device;
        tensor = record_new(storage, dtype, dims, strides, storage->block.data);
    }
    if (tensor == NULL)
        storage_drop(storage);
    return tensor;
}

/* The number of steps from start to end, or -1 when there is no such finite number. */
static int64_t arange_count(double start, double end, double step)
{
    double count = ceil((end - start) / step);
    if (!(count < 9.2e18))
        return -1;
    return count > 0 ? (int64_t)count : 0;
}

talc_tensor *talc_arange(talc_device *device, talc_dtype dtype, double start, double end,
                         double step)
{
    TALC_DEFAULT_FENV;
    if (talc_operand_missing("arange", "device", device))
        return NULL;
    int64_t count = step == 0 || !isfinite(start) || !isfinite(end) || !isfinite(step)
                        ? -1
                        : arange_count(start, end, step);
    if (count < 0) {
        talc_fail(TALC_BAD_ARGUMENT, "arange: from %g to %g in steps of %g is no finite sequence",
                  start, end, step);
        return NULL;
    }
    /* The values are worked out as f64, whose bytes have to fit too. */
    int64_t numel;
    if (talc_shape_check("arange", dtype, TALC_DIMS(count), &numel) != TALC_OK ||
        talc_shape_check("arange", TALC_F64, TALC_DIMS(count), &numel) != TALC_OK)
        return NULL;
    talc_tensor *result = NULL;
    double *values = talc_memory_new((size_t)count * sizeof *values, "arange");
    if (values != NULL) {
        bool held = true;
        for (int64_t i = 0; i < count && held; i++) {
            values[i] = start + (double)i * step;
            held = talc_number_held("arange", "element", values[i], dtype);
        }
        talc_tensor *exact =
            held ? talc_from_host_for("arange", device, TALC_F64, TALC_DIMS(count), values) : NULL;
        result = exact == NULL ? NULL : talc_cast_for("arange", exact, dtype);
        talc_release(exact);
    }
    talc_memory_free(values);
    return result;
}

talc_tensor *talc_eye(talc_device *device, talc_dtype dtype, int64_t n)
{
    talc_tensor *matrix = filled("eye", device, dtype, TALC_DIMS(n, n), 0);
    if (matrix == NULL || n == 0)
        return matrix;
    int64_t diagonal_strides[TALC_MAX_RANK] = { n + 1 };
    talc_tensor *diagonal = talc_tensor_view(matrix, TALC_DIMS(n), diagonal_strides, 0);
    bool ok = diagonal != NULL && talc_fill(diagonal, 1);
    talc_release(diagonal);
    if (ok)
        return matrix;
    talc_release(matrix);
    return NULL;
}
