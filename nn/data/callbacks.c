/// Samples that functions of the program make.
#include "nn/data/dataset.h"

#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <string.h>

static const char *const WHO = "dataset_callbacks";

/* What the function makes on the way goes with a scope; a thread's own lasts as long as it does. */
static bool call(const char *who, const talc_callbacks *from, int64_t i, void *image, void *target)
{
    talc_scope *scope = talc_scope_enter();
    if (scope == NULL)
        return false;
    const talc_status status = from->get(from->context, i, image, target);
    talc_scope_leave(scope);
    if (status != TALC_OK)
        talc_fail(status, "%s: the callback failed for sample %" PRId64 ": %s", who, i,
                  talc_status_text(status));
    return !talc_failed();
}

static bool read_sample(const talc_samples *samples, int64_t i, talc_scratch *scratch,
                        talc_sample *sample)
{
    const talc_callbacks *from = samples->source;
    const bool pixels = samples->dtype == TALC_U8;
    const size_t image_bytes = (size_t)samples->image_bytes * talc_dtype_size(samples->dtype);
    void *image = talc_scratch_bytes(scratch, TALC_SCRATCH_IMAGE, image_bytes);
    void *target = image == NULL ? NULL
                                 : talc_scratch_bytes(scratch, TALC_SCRATCH_TARGET,
                                                      (size_t)samples->target_bytes);
    if (target == NULL)
        return false;
    memset(image, 0, image_bytes);
    memset(target, 0, (size_t)samples->target_bytes);
    if (!call(scratch->who, from, i, image, target))
        return false;
    *sample = (talc_sample){ .image = image, .target = target };
    if (pixels)
        sample->size = (talc_image_size){ samples->dims.dim[1], samples->dims.dim[2] };
    return true;
}

static void source_free(void *source)
{
    const talc_callbacks *from = source;
    if (from->free != NULL)
        from->free(from->context);
    talc_memory_free(source);
}

/* The number of a shape's elements, which have so many bytes each; -1 with a failure. */
static int64_t elements_of(const char *what, talc_dims dims, talc_dtype dtype)
{
    char text[TALC_DIMS_TEXT];
    int64_t numel = 1, bytes;
    bool fits = dims.rank >= 0 && dims.rank < TALC_MAX_RANK, any = true;
    for (int i = 0; fits && i < dims.rank; i++) {
        any = any && dims.dim[i] > 0;
        fits = any && talc_multiply(numel, dims.dim[i], &numel);
    }
    if (!any || dims.rank < 0 || dims.rank >= TALC_MAX_RANK)
        talc_fail(TALC_BAD_SHAPE, "%s: the %s %s must have rank 0..%d and no extent below 1", WHO,
                  what,
                  dims.rank < 0 || dims.rank > TALC_MAX_RANK ? "?" : talc_dims_text(dims, text),
                  TALC_MAX_RANK - 1);
    else if (!fits || !talc_multiply(numel, (int64_t)talc_dtype_size(dtype), &bytes))
        talc_fail(TALC_TOO_LARGE, "%s: the %s %s needs more than %" PRId64 " bytes", WHO, what,
                  talc_dims_text(dims, text), INT64_MAX);
    return talc_failed() ? -1 : numel;
}

static bool callbacks_fit(const talc_callbacks *from)
{
    if (from->get == NULL)
        talc_fail(TALC_NULL_ARGUMENT, "%s: get is NULL", WHO);
    else if (from->count < 1)
        talc_fail(TALC_BAD_ARGUMENT, "%s: count %" PRId64 " must be at least 1", WHO, from->count);
    else if (from->image_dtype != TALC_F32 && from->image_dtype != TALC_U8)
        talc_fail(TALC_BAD_DTYPE, "%s: the image is %s, it must be f32 or u8", WHO,
                  talc_dtype_name(from->image_dtype));
    else if (talc_dtype_size(from->target_dtype) == 0)
        talc_fail(TALC_BAD_DTYPE, "%s: the target has no type of talc's, %d", WHO,
                  (int)from->target_dtype);
    else if (from->image_dtype == TALC_U8 && from->image.rank != 3)
        talc_fail(TALC_BAD_SHAPE, "%s: an image of bytes is [C,H,W], its rank is not %d", WHO,
                  from->image.rank);
    else if (from->classes < 0 || from->classes > TALC_CLASSES_MAX)
        talc_fail(TALC_BAD_ARGUMENT, "%s: classes %" PRId64 " are outside 0..%d", WHO,
                  from->classes, TALC_CLASSES_MAX);
    return !talc_failed() && elements_of("image", from->image, from->image_dtype) > 0 &&
           elements_of("target", from->target, from->target_dtype) > 0;
}

talc_dataset *talc_dataset_callbacks(const talc_callbacks *callbacks)
{
    if (talc_operand_missing(WHO, "callbacks", callbacks) || !callbacks_fit(callbacks))
        return NULL;
    talc_samples *samples = talc_samples_described(WHO, callbacks->count, callbacks->image);
    talc_callbacks *kept = samples == NULL ? NULL : talc_memory_new(sizeof *kept, WHO);
    talc_dataset *dataset = NULL;
    if (kept != NULL) {
        *kept = *callbacks;
        samples->dtype = kept->image_dtype;
        samples->target_dims = kept->target;
        samples->target_dtype = kept->target_dtype;
        samples->target_bytes = elements_of("target", kept->target, kept->target_dtype) *
                                (int64_t)talc_dtype_size(kept->target_dtype);
        samples->read = read_sample;
        samples->in_caller = !kept->in_threads;
        if (kept->classes == 0 || talc_samples_number(WHO, samples, kept->classes))
            dataset = talc_dataset_of(WHO, samples, 0, samples->count);
    }
    /* The context is the dataset's once there is one. */
    if (dataset != NULL) {
        samples->source = kept;
        samples->source_free = source_free;
    } else {
        talc_memory_free(kept);
    }
    talc_samples_release(samples);
    return dataset;
}
