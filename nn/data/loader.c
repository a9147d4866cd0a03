/// Batches, the next ones made by other threads (slots.h).
#include "nn/data/slots.h"

#include "tensor/memory.h"
#include "tensor/pool.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <inttypes.h>

struct talc_loader {
    talc_dataset *dataset; /* a handle of the loader's own */
    talc_batch_plan plan;
    talc_slots slots;
    int64_t batches, next;
    talc_pair given; /* the batch that the caller has */
};

// ---- Memory -------------------------------------------------------------------------------------

/* The reference that a scope holds becomes the loader's. */
static talc_tensor *owned(talc_tensor *tensor)
{
    talc_retain(tensor);
    talc_scope_drop(tensor);
    return tensor;
}

static void pair_release(talc_pair *p)
{
    talc_release(p->images);
    talc_release(p->labels);
    *p = (talc_pair){ 0 };
}

static int64_t rows_of(const talc_loader *loader, int64_t batch)
{
    return talc_batch_places_of(&loader->plan, batch).count;
}

/* [rows,...] for samples of that shape. */
static talc_dims rows_by(int64_t rows, talc_dims sample)
{
    talc_dims dims = { .rank = sample.rank + 1, .dim = { rows } };
    for (int i = 0; i < sample.rank; i++)
        dims.dim[i + 1] = sample.dim[i];
    return dims;
}

static bool buffer_new(const talc_loader *loader, int64_t rows, talc_pair *buffer)
{
    const talc_loader_options *o = &loader->plan.options;
    const talc_samples *samples = loader->dataset->samples;
    buffer->images = owned(talc_pinned(o->device, o->dtype, rows_by(rows, samples->dims)));
    buffer->labels = buffer->images == NULL
                         ? NULL
                         : owned(talc_pinned(o->device, samples->target_dtype,
                                             rows_by(rows, samples->target_dims)));
    if (buffer->labels != NULL)
        return true;
    pair_release(buffer);
    return false;
}

/* Whether a slot's memory serves for another batch. */
static bool buffer_serves(const talc_loader *loader, const talc_slot *s, int64_t batch)
{
    return s->buffer.images != NULL && s->buffer.images->dims[0] == rows_of(loader, batch);
}

// ---- Loaders ------------------------------------------------------------------------------------

talc_loader *talc_loader_new(talc_dataset *dataset, const talc_loader_options *options)
{
    if (talc_operand_missing("loader", "dataset", dataset))
        return NULL;
    talc_loader *loader = talc_memory_new(sizeof *loader, "loader");
    if (loader == NULL)
        return NULL;
    loader->dataset = talc_dataset_part(dataset, 0, talc_dataset_count(dataset));
    if (loader->dataset == NULL ||
        !talc_batch_plan_begin(&loader->plan, loader->dataset, options)) {
        talc_dataset_free(loader->dataset);
        talc_memory_free(loader);
        return NULL;
    }
    loader->batches = talc_batch_plan_batches(&loader->plan);
    talc_slots_begin(&loader->slots, &loader->plan);
    return loader;
}

void talc_loader_free(talc_loader *loader)
{
    if (loader == NULL)
        return;
    talc_slots_end(&loader->slots);
    for (int i = 0; i < loader->slots.count; i++)
        pair_release(&loader->slots.slot[i].buffer);
    pair_release(&loader->given);
    talc_batch_plan_end(&loader->plan);
    talc_dataset_free(loader->dataset);
    talc_memory_free(loader);
}

int64_t talc_loader_batches(const talc_loader *loader)
{
    return loader == NULL ? 0 : loader->batches;
}

int64_t talc_loader_sample(const talc_loader *loader, int64_t i)
{
    const bool is = loader != NULL && loader->plan.epoch >= 0 && i >= 0 && i < loader->plan.count;
    return is ? talc_batch_sample(&loader->plan, i) : -1;
}

// ---- Epochs -------------------------------------------------------------------------------------

/* Memory for the first batches, where a slot's own does not serve; all of it, or none with a
 * failure. */
static bool buffers_new(const talc_loader *loader, int64_t batch, talc_pair buffers[TALC_SLOTS])
{
    for (int i = 0; i < TALC_SLOTS; i++)
        buffers[i] = (talc_pair){ 0 };
    for (int i = 0; i < loader->slots.count && batch + i < loader->batches; i++) {
        const int at = (int)((batch + i) % loader->slots.count);
        if (!buffer_serves(loader, &loader->slots.slot[at], batch + i) &&
            !buffer_new(loader, rows_of(loader, batch + i), &buffers[at])) {
            for (int k = 0; k < TALC_SLOTS; k++)
                pair_release(&buffers[k]);
            return false;
        }
    }
    return true;
}

bool talc_loader_start_at(talc_loader *loader, int64_t epoch, int64_t batch)
{
    if (talc_operand_missing("loader_start", "loader", loader))
        return false;
    if (epoch < 0 || batch < 0 || batch > loader->batches) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "loader_start: epoch %" PRId64 " and batch %" PRId64
                  " must be at least 0, the batch at most %" PRId64,
                  epoch, batch, loader->batches);
        return false;
    }
    talc_pair buffers[TALC_SLOTS];
    if (!buffers_new(loader, batch, buffers))
        return false;
    talc_slots_wait(&loader->slots);
    talc_batch_plan_epoch(&loader->plan, epoch);
    pair_release(&loader->given);
    loader->next = batch;
    talc_slots_start(&loader->slots);
    for (int i = 0; i < loader->slots.count && batch + i < loader->batches; i++) {
        const int at = (int)((batch + i) % loader->slots.count);
        talc_slot *s = &loader->slots.slot[at];
        if (buffers[at].images != NULL) {
            pair_release(&s->buffer);
            s->buffer = buffers[at];
        }
        talc_slots_assign(&loader->slots, s, batch + i, true);
    }
    return true;
}

bool talc_loader_start(talc_loader *loader, int64_t epoch)
{
    return talc_loader_start_at(loader, epoch, 0);
}

/* The slot's batch where the caller wants it, and what the slot goes on with; nothing has changed
 * after a failure. */
static bool hand_over(const talc_loader *loader, const talc_slot *s, talc_pair *made,
                      talc_pair *buffer)
{
    const talc_loader_options *o = &loader->plan.options;
    const int64_t after = s->batch + loader->slots.count;
    *buffer = s->buffer;
    if (o->device->is_host)
        *buffer = (talc_pair){ 0 }; /* the caller gets the slot's own */
    const bool fresh =
        after < loader->batches && (o->device->is_host || !buffer_serves(loader, s, after));
    if (fresh && !buffer_new(loader, rows_of(loader, after), buffer))
        return false;
    *made = s->buffer;
    if (o->device->is_host)
        return true;
    made->images = owned(talc_to(s->buffer.images, o->device, o->dtype));
    made->labels = made->images == NULL
                       ? NULL
                       : owned(talc_to(s->buffer.labels, o->device, s->buffer.labels->dtype));
    if (made->labels != NULL)
        return true;
    pair_release(made);
    if (fresh)
        pair_release(buffer);
    return false;
}

bool talc_loader_next(talc_loader *loader, talc_batch *batch)
{
    if (talc_operand_missing("loader_next", "loader", loader) ||
        talc_operand_missing("loader_next", "batch", batch) ||
        talc_device_forked(loader->plan.options.device, "loader_next"))
        return false;
    if (loader->plan.epoch < 0) {
        talc_fail(TALC_BAD_ARGUMENT, "loader_next: no epoch was begun; talc_loader_start does");
        return false;
    }
    if (loader->next == loader->batches) {
        pair_release(&loader->given);
        *batch = (talc_batch){ 0 };
        return false;
    }
    talc_slot *s = &loader->slots.slot[loader->next % loader->slots.count];
    talc_pair made, buffer;
    if (!talc_slots_obtain(&loader->slots, s) || !hand_over(loader, s, &made, &buffer))
        return false;
    const bool kept = buffer.images == s->buffer.images || loader->plan.options.device->is_host;
    if (!kept)
        pair_release(&s->buffer);
    s->buffer = buffer;
    pair_release(&loader->given);
    loader->given = made;
    *batch = (talc_batch){ .images = made.images,
                           .labels = made.labels,
                           .index = loader->next++,
                           .count = made.images->dims[0] };
    const int64_t after = s->batch + loader->slots.count;
    talc_slots_assign(&loader->slots, s, after, after < loader->batches);
    return true;
}
