#include "check/model/trace.h"

#include "check/engine/layout.h"
#include "check/model/walk.h"
#include "tensor/memory.h"
#include "tensor/storage.h"

#include <string.h>

static check_trace_entry *entry_of(const check_trace *trace, const talc_tensor *tensor)
{
    for (int i = trace == NULL ? 0 : trace->count; i > 0; i--)
        if (trace->list[i - 1].storage == tensor->storage)
            return &trace->list[i - 1];
    return NULL;
}

void talc_check_trace_free(check_trace *trace)
{
    for (int i = 0; i < trace->count; i++) {
        talc_release(trace->list[i].held);
        talc_memory_free(trace->list[i].off);
    }
    talc_memory_free(trace->list);
    *trace = (check_trace){ 0 };
}

/* Where a tensor's first element stands in its storage, and the element after that which stands
 * last. */
static void span_of(const talc_tensor *tensor, int64_t *first, int64_t *end)
{
    *first = ((const char *)tensor->data - (const char *)tensor->storage->block.data) /
             (int64_t)talc_dtype_size(tensor->dtype);
    *end = *first + 1;
    for (int i = 0; i < tensor->rank; i++)
        *end += (tensor->dims[i] - 1) * tensor->strides[i];
}

static int64_t offset_of(const talc_tensor *tensor, int64_t i)
{
    return talc_check_offset(tensor->rank, tensor->dims, tensor->strides, i);
}

// ---- Reading ------------------------------------------------------------------------------------

static bool read_off(const check_trace_entry *entry, const talc_tensor *tensor, check_array *array)
{
    array->off = talc_memory_new((size_t)array->count * sizeof *array->off, "check_model");
    if (array->off == NULL)
        return false;
    int64_t first, end;
    span_of(tensor, &first, &end);
    for (int64_t i = 0; i < array->count; i++) {
        const int64_t at = first + offset_of(tensor, i);
        array->off[i] = at < entry->count ? entry->off[at] : 0;
    }
    return true;
}

static bool read_elements(const talc_tensor *tensor, check_array *array)
{
    const size_t bytes = (size_t)array->count * sizeof *array->of;
    array->of = talc_memory_new(bytes + 1, "check_model");
    talc_tensor *wide = array->of == NULL ? NULL : talc_cast(tensor, TALC_F64);
    const bool read = wide != NULL && talc_to_host(wide, array->of, bytes);
    talc_release(wide);
    return read;
}

bool talc_check_array_of(const check_trace *trace, const talc_tensor *tensor, check_array *array,
                         double *accumulated)
{
    *array = (check_array){ 0 };
    if (tensor == NULL)
        return true;
    array->dtype = tensor->dtype;
    array->dims = talc_dims_of(tensor);
    array->count = talc_numel(tensor);
    const check_trace_entry *entry = entry_of(trace, tensor);
    if (!read_elements(tensor, array) ||
        (entry != NULL && array->count > 0 && !read_off(entry, tensor, array)))
        return false;
    if (entry != NULL && entry->accumulated > *accumulated)
        *accumulated = entry->accumulated;
    return true;
}

void talc_check_array_free(check_array *array)
{
    talc_memory_free(array->of);
    talc_memory_free(array->off);
    *array = (check_array){ 0 };
}

// ---- Writing ------------------------------------------------------------------------------------

/* The storage's entry, with room for `end` elements; NULL with a failure. */
static check_trace_entry *entry_with(check_trace *trace, talc_tensor *tensor, int64_t end)
{
    check_trace_entry *entry = entry_of(trace, tensor);
    if (entry == NULL) {
        check_trace_entry *list = talc_memory_grown(trace->list, (size_t)trace->count,
                                                    &trace->tolerance, sizeof *list, "check_model");
        if (list == NULL)
            return NULL;
        trace->list = list;
        talc_tensor *held = talc_tensor_alias(tensor);
        if (held == NULL)
            return NULL;
        entry = &trace->list[trace->count++];
        *entry = (check_trace_entry){ .storage = tensor->storage, .held = talc_retain(held) };
    }
    if (entry->count >= end)
        return entry;
    double *longer = talc_memory_new((size_t)end * sizeof *longer, "check_model");
    if (longer == NULL)
        return NULL;
    if (entry->count > 0)
        memcpy(longer, entry->off, (size_t)entry->count * sizeof *longer);
    talc_memory_free(entry->off);
    entry->off = longer;
    entry->count = end;
    return entry;
}

bool talc_check_trace_write(check_trace *trace, talc_tensor *tensor, const double *off,
                            double accumulated)
{
    const int64_t count = talc_numel(tensor);
    if (count == 0)
        return true;
    int64_t first, end;
    span_of(tensor, &first, &end);
    check_trace_entry *entry = entry_with(trace, tensor, end);
    if (entry == NULL)
        return false;
    for (int64_t i = 0; i < count; i++)
        entry->off[first + offset_of(tensor, i)] = off[i];
    if (accumulated > entry->accumulated)
        entry->accumulated = accumulated;
    return true;
}
