/* Averages of gradients: which parameter lies where in which bucket, and when a bucket travels. */
#include "nn/parallel/group.h"
#include "nn/parallel/sync_batch_norm.h"

#include "ops/concat.h"
#include "tensor/autograd.h"
#include "tensor/memory.h"
#include "tensor/philox.h"
#include "tensor/random.h"
#include "tensor/recording.h"
#include "tensor/shown.h"
#include "tensor/storage.h"
#include "tensor/tape.h"

#include <stdio.h>
#include <string.h>

static const char *const WHO = "parallel";
static const int64_t BUCKET = INT64_C(25) << 20;

/* Bytes of a line on a parameter or a buffer, which members compare. */
enum { LINE = 320 };

typedef struct member_gradient {
    char *path;
    talc_tensor *parameter;
    int bucket;              /* once there are buckets */
    talc_tensor *gradient;   /* that this pass gives; NULL: none yet */
    const talc_tensor *part; /* of the bucket: that, or what stands for it */
} member_gradient;

typedef struct bucket {
    talc_tensor *elements; /* of this pass, retained; NULL: it is not full yet */
    int first;             /* of its gradients, in the order */
    int count, missing;    /* gradients, and those that this pass has not made */
    talc_group_call call;
} bucket;

struct talc_parallel {
    talc_tape_hook hook;
    talc_module *module;
    talc_group *group;
    talc_parallel_options options;
    bool accumulates;
    int count;
    member_gradient *list;
    int buffer_count;
    talc_tensor **buffers;    /* retained */
    int64_t *order;           /* [count]: the parameters as the first pass made their gradients */
    int made;                 /* of them, in this pass */
    const talc_tensor **flat; /* [count]: the parts of a bucket */
    int bucket_count;         /* 0 before the first pass ends */
    bucket *buckets;
    int started, ended; /* buckets, in this pass */
    bool began;         /* a call of the group, in this pass */
};

// ---- Buckets ------------------------------------------------------------------------------------

/* Says which bucket each gradient lies in, in the order of the first pass; a bucket has one dtype.
 * Returns how many there are. */
static int assign(talc_parallel *p)
{
    int at = -1;
    int64_t bytes = 0;
    talc_dtype dtype = TALC_DTYPE_COUNT;
    for (int i = 0; i < p->count; i++) {
        member_gradient *g = &p->list[p->order[i]];
        const int64_t more = (int64_t)talc_nbytes(g->parameter);
        if (g->parameter->dtype != dtype || bytes + more > p->options.bucket) {
            at++;
            bytes = 0;
            dtype = g->parameter->dtype;
        }
        bytes += more;
        g->bucket = at;
    }
    return at + 1;
}

static bool lay_out(talc_parallel *p)
{
    const int count = assign(p);
    p->buckets = talc_memory_new((size_t)count * sizeof *p->buckets, WHO);
    if (p->buckets == NULL)
        return false;
    p->bucket_count = count;
    for (int i = p->count - 1; i >= 0; i--) {
        bucket *b = &p->buckets[p->list[p->order[i]].bucket];
        b->first = i;
        b->count++;
    }
    return true;
}

/* All members lay out the gradients as rank 0's first pass made them; those that it did not make
 * come last. */
static bool agree_on_order(talc_parallel *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->list[i].gradient == NULL)
            p->order[p->made++] = i;
    p->began = true;
    talc_recording *recording = talc_recording_pause();
    talc_tensor *order =
        talc_from_host_for(WHO, p->group->device, TALC_I64, TALC_DIMS(p->count), p->order);
    const bool ok = order != NULL && talc_group_broadcast(p->group, order, 0) &&
                    talc_to_host(order, p->order, (size_t)p->count * sizeof *p->order) &&
                    lay_out(p);
    talc_recording_resume(recording);
    return ok;
}

/* The gradients of a full bucket as one: a few launches for all of them. One that is alone is the
 * bucket, as it is the leaf's alone. */
static bool pack(talc_parallel *p, bucket *b)
{
    const member_gradient *first = &p->list[p->order[b->first]];
    talc_scope *scope = talc_scope_enter();
    for (int i = 0; i < b->count; i++)
        p->flat[i] = talc_reshape(p->list[p->order[b->first + i]].part, TALC_DIMS(-1));
    if (scope != NULL && !talc_failed())
        b->elements = b->count == 1 && first->gradient != NULL
                          ? talc_retain((talc_tensor *)p->flat[0])
                          : talc_retain(talc_concat(p->flat, b->count, 0));
    talc_scope_leave(scope);
    return b->elements != NULL;
}

/* Lets the buckets travel that are full, in their order. */
static bool start_full(talc_parallel *p)
{
    for (; p->started < p->bucket_count && p->buckets[p->started].missing == 0; p->started++) {
        bucket *b = &p->buckets[p->started];
        if (!pack(p, b))
            return false;
        p->began = true;
        if (!talc_group_mean_start(p->group, b->elements, "all_reduce of gradients", &b->call))
            return false;
    }
    return true;
}

static bool fill(talc_parallel *p, member_gradient *g, const talc_tensor *part)
{
    g->part = part;
    p->buckets[g->bucket].missing--;
    return start_full(p);
}

static void begin_pass(talc_parallel *p)
{
    for (int i = 0; i < p->count; i++)
        p->list[i].gradient = NULL;
    for (int i = 0; i < p->bucket_count; i++) {
        p->buckets[i].missing = p->buckets[i].count;
        talc_release(p->buckets[i].elements);
        p->buckets[i].elements = NULL;
    }
    p->made = p->started = p->ended = 0;
    p->began = false;
}

// ---- A pass -------------------------------------------------------------------------------------

static bool ready(talc_tape_hook *hook, int leaf, talc_tensor *gradient)
{
    talc_parallel *p = (talc_parallel *)hook;
    if (p->accumulates)
        return true;
    member_gradient *g = &p->list[leaf];
    g->gradient = gradient;
    if (p->bucket_count > 0)
        return fill(p, g, gradient);
    p->order[p->made++] = leaf;
    return true;
}

/* What a parameter that the pass did not reach has all the same: what earlier passes have added up,
 * else zeros. */
static talc_tensor *unreached(const member_gradient *g)
{
    talc_tensor *before = talc_grad(g->parameter);
    return before != NULL ? before : talc_zeros_like(g->parameter);
}

static bool fill_unreached(talc_parallel *p)
{
    for (int i = 0; i < p->count; i++) {
        member_gradient *g = &p->list[i];
        if (g->gradient != NULL)
            continue;
        const talc_tensor *own = unreached(g);
        if (own == NULL || !fill(p, g, own))
            return false;
    }
    return true;
}

/* How many members have a gradient of each parameter. */
static bool count_reached(talc_parallel *p, int64_t *members)
{
    for (int i = 0; i < p->count; i++)
        members[i] = p->list[i].gradient != NULL || talc_grad(p->list[i].parameter) != NULL;
    talc_tensor *sum =
        talc_from_host_for(WHO, p->group->device, TALC_I64, TALC_DIMS(p->count), members);
    return sum != NULL && talc_group_all_reduce(p->group, sum, TALC_GROUP_SUM) &&
           talc_to_host(sum, members, (size_t)p->count * sizeof *members);
}

static bool all_reached(const talc_parallel *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->list[i].gradient == NULL) {
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: the backward pass did not reach parameter '%s'; allow_unused lets it "
                      "pass",
                      WHO, TALC_SHOWN(p->list[i].path));
            return false;
        }
    return true;
}

/* Hands over the averages of a bucket, which the gradients are views of from now on. */
static bool take_bucket(talc_parallel *p, const bucket *b, void *pass, const int64_t *members)
{
    int64_t begin = 0;
    talc_tensor_written(b->elements);
    for (int i = 0; i < b->count; i++) {
        const int64_t at = p->order[b->first + i];
        member_gradient *g = &p->list[at];
        const int64_t end = begin + talc_numel(g->parameter);
        talc_tensor *average =
            talc_reshape(talc_slice(b->elements, 0, begin, end, 1), talc_dims_of(g->parameter));
        begin = end;
        if (average == NULL)
            return false;
        if (g->gradient != NULL)
            talc_tensor_replace(g->gradient, average);
        else if (members[at] > 0 && !talc_tape_hook_give(pass, g->parameter, average))
            return false;
    }
    return true;
}

static bool take_averages(talc_parallel *p, void *pass, const int64_t *members)
{
    for (; p->ended < p->bucket_count; p->ended++)
        if (!talc_group_wait(p->group, &p->buckets[p->ended].call))
            return false;
    for (int i = 0; i < p->bucket_count; i++)
        if (!take_bucket(p, &p->buckets[i], pass, members))
            return false;
    return true;
}

/* Every member's calls come in this order: the buckets, then what says whom they came from. */
static bool average(talc_parallel *p, void *pass)
{
    if (!p->options.allow_unused)
        return all_reached(p) && take_averages(p, pass, NULL);
    int64_t *members = talc_memory_new((size_t)p->count * sizeof *members, WHO);
    const bool ok = members != NULL && fill_unreached(p) && count_reached(p, members) &&
                    take_averages(p, pass, members);
    talc_memory_free(members);
    return ok;
}

/* The first pass fills all buckets at its end. */
static bool finish(talc_tape_hook *hook, void *pass)
{
    talc_parallel *p = (talc_parallel *)hook;
    if (p->accumulates)
        return true;
    talc_scope *scope = talc_scope_enter();
    bool ok = scope != NULL;
    if (ok && p->bucket_count == 0) {
        ok = (p->options.allow_unused || all_reached(p)) && agree_on_order(p);
        for (int i = 0; ok && i < p->bucket_count; i++)
            p->buckets[i].missing = p->buckets[i].count;
        for (int i = 0; ok && i < p->count; i++)
            ok = p->list[i].gradient == NULL || fill(p, &p->list[i], p->list[i].gradient);
    }
    ok = ok && average(p, pass);
    talc_scope_leave(scope);
    if (ok)
        begin_pass(p);
    return ok;
}

/* What this member has begun meets no call of the others any more. */
static void fail(talc_tape_hook *hook)
{
    talc_parallel *p = (talc_parallel *)hook;
    if (p->began)
        talc_group_break(p->group);
    else
        begin_pass(p);
}

// ---- Making and freeing -------------------------------------------------------------------------

typedef struct walk {
    talc_parallel *parallel;
    char *lines; /* [count,LINE], of parameters and buffers; NULL: they are counted */
    int64_t count;
} walk;

/* Layers may share a parameter. */
static bool listed(const talc_parallel *p, const talc_tensor *parameter)
{
    for (int i = 0; i < p->count; i++)
        if (p->list[i].parameter == parameter)
            return true;
    return false;
}

static bool note(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    walk *w = context;
    char dims[TALC_DIMS_TEXT];
    if (w->lines != NULL)
        snprintf(w->lines + w->count * LINE, LINE, "%.*s %s %s", LINE - TALC_DIMS_TEXT - 8,
                 TALC_SHOWN(path), talc_dtype_name(tensor->dtype),
                 talc_dims_text(talc_dims_of(tensor), dims));
    w->count++;
    if (!is_buffer && tensor->device != w->parallel->group->device)
        talc_fail(TALC_BAD_DEVICE, "%s: '%s' is on %s, the group on %s", WHO, TALC_SHOWN(path),
                  tensor->device->name, w->parallel->group->device->name);
    return !talc_failed();
}

static bool take(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    talc_parallel *p = ((walk *)context)->parallel;
    if (is_buffer && tensor->device == p->group->device)
        p->buffers[p->buffer_count++] = talc_retain(tensor);
    if (is_buffer || !talc_wants_grad(tensor) || listed(p, tensor))
        return true;
    member_gradient *g = &p->list[p->count];
    g->path = talc_memory_string(path);
    if (g->path == NULL)
        return false;
    g->parameter = talc_retain(tensor);
    return talc_tape_hook_on(WHO, tensor, &p->hook, p->count++);
}

/* Frozen parameters too. */
static bool broadcast_parameter(const char *path, talc_tensor *tensor, bool is_buffer,
                                void *context)
{
    (void)path;
    return is_buffer || talc_group_broadcast(((walk *)context)->parallel->group, tensor, 0);
}

/* The members' models and options. Leaves lines to be freed. */
static bool agree(talc_parallel *p, talc_module *module, walk *w)
{
    const int64_t count = w->count;
    w->lines = talc_memory_new((size_t)(count * LINE), WHO);
    w->count = 0;
    return w->lines != NULL && talc_module_visit(module, note, w) &&
           talc_group_agree(p->group, "the number of parameters and buffers", count) &&
           talc_group_agree_texts(p->group, "a parameter or buffer", w->lines, count, LINE) &&
           talc_group_agree(p->group, "the bytes of a bucket", p->options.bucket) &&
           talc_group_agree(p->group, "allow_unused", p->options.allow_unused) &&
           talc_group_agree(p->group, "sync_batch_norm", p->options.sync_batch_norm);
}

uint64_t talc_group_seed(uint64_t seed, int rank)
{
    return rank == 0 ? seed : talc_philox_pair(talc_philox(seed, UINT64_MAX, (uint64_t)rank), 0);
}

/* From one seed of all members on, once in a group's life, each draws numbers of its own. */
static bool part_generators(talc_group *group)
{
    talc_generator generator = talc_generator_get();
    if (group->parted)
        return true;
    if (!talc_group_agree(group, "the generator's seed", (int64_t)generator.seed) ||
        !talc_group_agree(group, "the generator's call", (int64_t)generator.call))
        return false;
    group->parted = true;
    generator.seed = talc_group_seed(generator.seed, talc_group_rank(group));
    return talc_generator_set(generator);
}

static bool begin(talc_parallel *p, talc_module *module)
{
    walk w = { .parallel = p };
    if (!talc_module_visit(module, note, &w))
        return false;
    p->list = talc_memory_new((size_t)w.count * sizeof *p->list, WHO);
    p->order = talc_memory_new((size_t)w.count * sizeof *p->order, WHO);
    p->buffers = talc_memory_new((size_t)w.count * sizeof *p->buffers, WHO);
    p->flat = talc_memory_new((size_t)w.count * sizeof *p->flat, WHO);
    if (p->list == NULL || p->order == NULL || p->buffers == NULL || p->flat == NULL ||
        !talc_module_visit(module, take, &w))
        return false;
    if (p->count == 0) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s has no parameter that asks for a gradient", WHO,
                  TALC_SHOWN(module->kind->name));
        return false;
    }
    const bool agreed = agree(p, module, &w);
    talc_memory_free(w.lines);
    if (!agreed || !talc_module_visit(module, broadcast_parameter, &w) ||
        !talc_parallel_share_buffers(p) || !part_generators(p->group))
        return false;
    if (p->options.sync_batch_norm)
        talc_sync_batch_norms(module, p->group);
    begin_pass(p);
    return true;
}

talc_parallel *talc_parallel_new(talc_module *module, talc_group *group,
                                 const talc_parallel_options *options)
{
    if (talc_operand_missing(WHO, "module", module) || talc_operand_missing(WHO, "group", group))
        return NULL;
    talc_parallel *p = talc_memory_new(sizeof *p, WHO);
    if (p == NULL)
        return NULL;
    *p = (talc_parallel){ .hook = { ready, finish, fail }, .module = module, .group = group };
    if (options != NULL)
        p->options = *options;
    if (p->options.bucket == 0)
        p->options.bucket = BUCKET;
    if (p->options.bucket < 0)
        talc_fail(TALC_BAD_ARGUMENT, "%s: a bucket of %lld bytes", WHO,
                  (long long)p->options.bucket);
    talc_no_grad_enter();
    talc_scope *scope = talc_scope_enter();
    const bool ok = scope != NULL && begin(p, module);
    talc_scope_leave(scope);
    talc_no_grad_leave();
    if (ok)
        return p;
    talc_parallel_free(p);
    return NULL;
}

/* Buckets that may still be under way in a broken group keep their memory. */
void talc_parallel_free(talc_parallel *parallel)
{
    talc_parallel *p = parallel;
    if (p == NULL)
        return;
    if (p->options.sync_batch_norm)
        talc_sync_batch_norms(p->module, NULL);
    for (int i = 0; i < p->count; i++) {
        member_gradient *g = &p->list[i];
        talc_tape_hook_off(g->parameter, &p->hook);
        talc_release(g->parameter);
        talc_memory_free(g->path);
    }
    for (int i = 0; i < p->bucket_count && p->buckets != NULL; i++)
        if (p->group->broken == TALC_OK)
            talc_release(p->buckets[i].elements);
    for (int i = 0; i < p->buffer_count; i++)
        talc_release(p->buffers[i]);
    talc_memory_free(p->flat);
    talc_memory_free(p->buffers);
    talc_memory_free(p->buckets);
    talc_memory_free(p->order);
    talc_memory_free(p->list);
    talc_memory_free(p);
}

bool talc_parallel_accumulate(talc_parallel *parallel, bool accumulate)
{
    if (talc_operand_missing(WHO, "parallel", parallel))
        return false;
    parallel->accumulates = accumulate;
    return true;
}

bool talc_parallel_share_buffers(talc_parallel *parallel)
{
    if (talc_operand_missing(WHO, "parallel", parallel))
        return false;
    for (int i = 0; i < parallel->buffer_count; i++)
        if (!talc_group_broadcast(parallel->group, parallel->buffers[i], 0))
            return false;
    return true;
}
