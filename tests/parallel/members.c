/* A member of a group, started by mpirun (tests/parallel/test_parallel.py): each case by its name.
 *
 *     mpirun -n 3 members collectives gradients
 *
 * With INSIDE it is linked with the library's objects, and is a member with the device that
 * TALC_TEST_DEVICE names, the tests' fake one too; ALONE then gives a group of one its transport.
 *
 * Prints what is wrong and ends with 1; else one line a case by rank 0. */
#if defined(INSIDE)
#include "nn/parallel/group.h"
#include "talc.h"
#include "tests/support/fake_device.h"
#else
#include <talc/talc.h>
#endif

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static talc_group *group;
static talc_device *device;
static int rank, size;

static void stop(const char *what, double value)
{
    printf("rank %d: %s: %.17g: %s\n", rank, what, value, talc_error_message());
    fflush(stdout);
    _exit(1);
}

#define REQUIRE(condition, value)                                                                  \
    do                                                                                             \
        if (!(condition))                                                                          \
            stop(#condition, (double)(value));                                                     \
    while (0)

/* The failure that stands says all of it. */
static void require_failure(const char *const parts[])
{
    REQUIRE(talc_failed(), 0);
    for (int i = 0; parts[i] != NULL; i++)
        if (strstr(talc_error_message(), parts[i]) == NULL)
            stop(parts[i], i);
    talc_error_clear();
}
#define REQUIRE_FAILURE(...) require_failure((const char *const[]){ __VA_ARGS__, NULL })

/* The elements as numbers, until the scope ends. */
static const double *numbers(const talc_tensor *tensor)
{
    talc_tensor *all = talc_to(talc_contiguous(tensor), talc_device_host(), TALC_F64);
    const double *elements = talc_data_read(all, TALC_F64);
    REQUIRE(elements != NULL, 0);
    return elements;
}

static double at(const talc_tensor *tensor, int64_t i)
{
    talc_scope *scope = talc_scope_enter();
    const double value = numbers(tensor)[i];
    talc_scope_leave(scope);
    return value;
}

static void collectives(void)
{
    for (int dtype = 0; dtype < TALC_DTYPE_COUNT; dtype++) {
        talc_tensor *x = talc_full(device, (talc_dtype)dtype, TALC_DIMS(5, 4), rank + 1);
        REQUIRE(talc_group_all_reduce(group, x, TALC_GROUP_SUM), dtype);
        for (int i = 0; i < 20; i++)
            REQUIRE(at(x, i) == size * (size + 1) / 2, at(x, i));
        talc_tensor *y = talc_full(device, (talc_dtype)dtype, TALC_DIMS(3), rank);
        REQUIRE(talc_group_broadcast(group, y, size - 1), dtype);
        REQUIRE(at(y, 2) == size - 1, at(y, 2));
        talc_tensor *all = talc_group_all_gather(
            group, talc_full(device, (talc_dtype)dtype, TALC_DIMS(2, 3), rank));
        REQUIRE(all != NULL && all->rank == 3 && all->dims[0] == size, dtype);
        for (int i = 0; i < 6 * size; i++)
            REQUIRE(at(all, i) == i / 6, at(all, i));
    }
    talc_tensor *m = talc_full(device, TALC_F32, TALC_DIMS(4), rank);
    REQUIRE(talc_group_all_reduce(group, m, TALC_GROUP_MEAN), 0);
    REQUIRE(at(m, 3) == (size - 1) / 2.0, at(m, 3));
    /* A view with gaps: the other column stays. */
    talc_tensor *wide = talc_full(device, TALC_F64, TALC_DIMS(3, 2), rank);
    REQUIRE(talc_group_all_reduce(group, talc_slice(wide, 1, 0, 1, 1), TALC_GROUP_SUM), 0);
    for (int i = 0; i < 6; i++)
        REQUIRE(at(wide, i) == (i % 2 == 0 ? size * (size - 1) / 2 : rank), at(wide, i));
    talc_tensor *none = talc_empty(device, TALC_F32, TALC_DIMS(0, 3));
    REQUIRE(talc_group_all_reduce(group, none, TALC_GROUP_SUM), 0);
    REQUIRE(talc_group_barrier(group), 0);

    REQUIRE(talc_group_agree(group, "seven", 7), 0);
    if (size > 1) {
        REQUIRE(!talc_group_agree(group, "the rank", rank), 0);
        REQUIRE_FAILURE("the rank is 0 on rank 0, 1 on rank 1");
    }
    REQUIRE(
        !talc_group_all_reduce(group, talc_ones(device, TALC_I32, TALC_DIMS(1)), TALC_GROUP_MEAN),
        0);
    REQUIRE_FAILURE("mean", "i32");
    REQUIRE(!talc_group_broadcast(group, m, size), 0);
    REQUIRE_FAILURE("root", "no rank");
    REQUIRE(!talc_group_all_reduce(NULL, m, TALC_GROUP_SUM), 0);
    REQUIRE_FAILURE("group is NULL");
}

static const char *const PATHS[] = { "conv.weight", "conv.bias", "fc.weight", "spare.weight" };

/* A network without batch norm, with a layer that a flag leaves out. */
typedef struct net {
    talc_module base;
    talc_module *conv, *fc, *spare;
    int64_t width;
    bool uses_spare;
} net;

static bool net_init(talc_module *module, const void *options)
{
    net *n = (net *)module;
    n->width = *(const int64_t *)options;
    n->conv =
        talc_module_add(module, "conv",
                        talc_nn_conv2d(&(talc_conv2d_layer){
                            .in_channels = 2, .out_channels = n->width, .kernel = { 3, 3 } }));
    n->fc =
        talc_module_add(module, "fc",
                        talc_nn_linear(&(talc_linear_layer){
                            .in_features = n->width * 16, .out_features = 3, .no_bias = true }));
    n->spare = talc_module_add(module, "spare",
                               talc_nn_linear(&(talc_linear_layer){
                                   .in_features = 3, .out_features = 3, .no_bias = true }));
    return n->spare != NULL;
}

static talc_tensor *net_forward(talc_module *module, talc_tensor *x)
{
    net *n = (net *)module;
    talc_tensor *h = talc_relu(talc_forward(n->conv, x));
    h = talc_forward(n->fc, talc_reshape(h, TALC_DIMS(x->dims[0], -1)));
    return n->uses_spare ? talc_add(h, talc_forward(n->spare, talc_forward(n->spare, h))) : h;
}

static const talc_module_class net_class = {
    "Net", sizeof(net), net_init, net_forward, NULL, NULL
};

static talc_module *net_new(int64_t width, talc_dtype dtype, uint64_t seed)
{
    talc_manual_seed(seed);
    talc_module *module = talc_module_new(&net_class, &width);
    REQUIRE(module != NULL && talc_module_cast(module, dtype), width);
    REQUIRE(talc_module_to(module, device), width);
    ((net *)module)->uses_spare = true;
    return module;
}

/* Images and labels of samples begin .. begin + count - 1 of a batch that follows from the seed. */
static talc_tensor *loss_of(talc_module *module, uint64_t seed, int64_t begin, int64_t count,
                            int64_t of, talc_dtype dtype)
{
    const talc_generator before = talc_generator_get();
    talc_manual_seed(seed);
    talc_tensor *images = talc_randn(device, dtype, TALC_DIMS(of, 2, 6, 6));
    talc_tensor *labels = talc_randint(device, TALC_I64, TALC_DIMS(of), 0, 3);
    talc_generator_set(before);
    talc_tensor *logits = talc_forward(module, talc_slice(images, 0, begin, begin + count, 1));
    return talc_cross_entropy(logits, talc_slice(labels, 0, begin, begin + count, 1));
}

typedef struct comparison {
    talc_module *other;
    double worst, bound;
} comparison;

static bool compare(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    comparison *c = context;
    if (is_buffer)
        return true;
    talc_tensor *a = talc_grad(tensor), *b = talc_grad(talc_module_find(c->other, path));
    REQUIRE((a == NULL) == (b == NULL), 0);
    const double *p = a == NULL ? NULL : numbers(a), *q = a == NULL ? NULL : numbers(b);
    for (int64_t i = 0; a != NULL && i < talc_numel(a); i++) {
        const double difference = fabs(p[i] - q[i]);
        REQUIRE(difference <= c->bound * (1 + fabs(q[i])), difference);
        c->worst = fmax(c->worst, difference);
    }
    return true;
}

/* The group's gradients of n shares are one process's of the whole batch; steps add up. */
static void gradients_of(talc_dtype dtype, double bound, int64_t bucket, int parts)
{
    talc_module *shared = net_new(4, dtype, 5), *alone = net_new(4, dtype, 5);
    talc_manual_seed(9);
    talc_parallel *parallel =
        talc_parallel_new(shared, group, &(talc_parallel_options){ .bucket = bucket });
    REQUIRE(parallel != NULL, bucket);
    for (uint64_t step = 0; step < 3; step++) {
        talc_scope *scope = talc_scope_enter();
        for (int k = 0; k < parts; k++) {
            REQUIRE(talc_parallel_accumulate(parallel, k < parts - 1), k);
            REQUIRE(talc_backward(
                        loss_of(shared, step * 7 + (uint64_t)k, rank * 2, 2, size * 2, dtype)),
                    k);
            REQUIRE(
                talc_backward(loss_of(alone, step * 7 + (uint64_t)k, 0, size * 2, size * 2, dtype)),
                k);
        }
        comparison c = { .other = alone, .bound = bound };
        REQUIRE(talc_module_visit(shared, compare, &c), step);
        REQUIRE(dtype == TALC_F64 || c.worst < 1e-4, c.worst);
        talc_scope_leave(scope);
    }
    talc_parallel_free(parallel);
    talc_module_free(shared);
    talc_module_free(alone);
}

/* What is only added up is each member's own. */
static void accumulated(void)
{
    talc_module *module = net_new(2, TALC_F64, 5);
    talc_parallel *parallel = talc_parallel_new(module, group, NULL);
    REQUIRE(talc_parallel_accumulate(parallel, true), 0);
    REQUIRE(talc_backward(loss_of(module, 1, rank, 1, size, TALC_F64)), 0);
    talc_tensor *all = talc_group_all_gather(group, talc_grad(talc_module_find(module, PATHS[0])));
    REQUIRE(at(all, 0) != at(all, talc_numel(all) / size), at(all, 0));
    talc_parallel_free(parallel);
    talc_module_free(module);
}

static talc_status number_of(void *context, int64_t index, void *image, void *target)
{
    (void)context;
    *(float *)image = (float)index;
    *(int64_t *)target = index;
    return TALC_OK;
}

/* The members' batches, one behind the other, are those of one process. */
static void loader_of(int64_t count, int64_t batch, bool drop_last, int64_t batches)
{
    talc_dataset *data = talc_dataset_callbacks(&(talc_callbacks){ .count = count,
                                                                   .image = TALC_SCALAR,
                                                                   .target = TALC_SCALAR,
                                                                   .target_dtype = TALC_I64,
                                                                   .get = number_of });
    talc_loader_options options = {
        .batch = batch, .shuffle = true, .seed = 5, .drop_last = drop_last, .group = group
    };
    talc_loader *shared = talc_loader_new(data, &options);
    options.group = NULL;
    options.batch *= size;
    talc_loader *alone = talc_loader_new(data, &options);
    REQUIRE(shared != NULL && alone != NULL, count);
    REQUIRE(talc_loader_batches(shared) == batches, talc_loader_batches(shared));
    for (int epoch = 0; epoch < 2; epoch++) {
        talc_batch own, whole;
        REQUIRE(talc_loader_start_at(shared, epoch, epoch), epoch);
        REQUIRE(talc_loader_start_at(alone, epoch, epoch), epoch);
        int64_t seen = 0;
        while (talc_loader_next(shared, &own)) {
            REQUIRE(talc_loader_next(alone, &whole), seen);
            seen++;
            REQUIRE(own.count * size - whole.count < size && whole.count - own.count * size < size,
                    own.count);
            /* Each label at its place, 0 elsewhere. */
            talc_tensor *all = talc_zeros_like(whole.labels);
            const int64_t first = whole.count * rank / size;
            REQUIRE(talc_copy(talc_slice(all, 0, first, first + own.count, 1), own.labels), seen);
            all = talc_to(all, device, TALC_I64);
            REQUIRE(talc_group_all_reduce(group, all, TALC_GROUP_SUM), seen);
            for (int64_t i = 0; i < whole.count; i++)
                REQUIRE(at(all, i) == at(whole.labels, i), i);
        }
        REQUIRE(seen == batches - epoch && own.images == NULL && !talc_failed(), seen);
    }
    talc_loader_free(shared);
    talc_loader_free(alone);
    talc_dataset_free(data);
}

static void loader(void)
{
    loader_of(24 * size, 4, false, 6);
    loader_of(24 * size + size + 1, 4, false, 7); /* a last batch that does not divide */
    loader_of(24 * size + size - 1, 4, false, 6); /* nor suffices */
    loader_of(24 * size + size + 1, 4, true, 6);
    talc_dataset *data = talc_dataset_digits(30, 1);
    talc_loader_options options = { .batch = 4, .seed = rank == size - 1 ? 9 : 8, .group = group };
    REQUIRE(talc_loader_new(data, &options) == NULL, 0);
    REQUIRE_FAILURE("the loader's seed is 8 on rank 0, 9 on rank");
    options = (talc_loader_options){ .batch = 30, .drop_last = true, .group = group };
    REQUIRE(talc_loader_new(data, &options) == NULL, 0);
    REQUIRE_FAILURE("batch 30 with drop_last leaves nothing of 30 samples for each process");
    talc_dataset_free(data);
}

static void gradients(void)
{
    accumulated();
    gradients_of(TALC_F64, 1e-12, 0, 1);
    gradients_of(TALC_F64, 1e-12, 1, 1);   /* a bucket for each */
    gradients_of(TALC_F64, 1e-12, 700, 3); /* accumulated */
    gradients_of(TALC_F32, 2e-5, 0, 1);
}

/* Parameters are the same to the bit on all ranks after many steps. */
static void steps(void)
{
    talc_module *module = net_new(4, TALC_F32, 11 + (uint64_t)rank); /* rank 0's win */
    talc_manual_seed(3);
    talc_parallel *parallel =
        talc_parallel_new(module, group, &(talc_parallel_options){ .bucket = 500 });
    REQUIRE(parallel != NULL, 0);
    talc_optimizer *optimizer = talc_optimizer_new(
        module, &(talc_optimizer_options){ .kind = TALC_SGD, .lr = 0.05, .momentum = 0.9 });
    for (uint64_t step = 0; step < 1000; step++) {
        talc_scope *scope = talc_scope_enter();
        talc_optimizer_zero_grad(optimizer);
        REQUIRE(talc_backward(loss_of(module, step, rank * 4, 4, size * 4, TALC_F32)), step);
        REQUIRE(talc_optimizer_step(optimizer), step);
        talc_scope_leave(scope);
    }
    for (int i = 0; i < 4; i++) {
        talc_tensor *own = talc_module_find(module, PATHS[i]);
        talc_tensor *all = talc_group_all_gather(group, talc_detach(own));
        REQUIRE(all != NULL, i);
        all = talc_to(all, talc_device_host(), TALC_F32);
        const float *elements = talc_data_read(all, TALC_F32);
        for (int r = 1; r < size; r++)
            REQUIRE(memcmp(elements, elements + r * talc_numel(own), talc_nbytes(own)) == 0, r);
        double sum = 0;
        for (int64_t k = 0; k < talc_numel(own); k++)
            sum += (k + 1) * (double)elements[k];
        if (rank == 0)
            printf("%s %.17g\n", PATHS[i], sum);
    }
    talc_optimizer_free(optimizer);
    talc_parallel_free(parallel);
    talc_module_free(module);
}

static void unused(void)
{
    /* Nobody reaches it: an error that names it, with nothing begun. */
    talc_module *module = net_new(2, TALC_F64, 1);
    talc_parallel *parallel = talc_parallel_new(module, group, NULL);
    ((net *)module)->uses_spare = false;
    REQUIRE(talc_group_barrier(group), 0); /* a call of the program's is none of the pass */
    REQUIRE(!talc_backward(loss_of(module, 1, rank, 1, size, TALC_F64)), 0);
    REQUIRE_FAILURE("did not reach", "'spare.weight'", "allow_unused");
    REQUIRE(talc_grad(talc_module_find(module, "fc.weight")) == NULL, 0);
    ((net *)module)->uses_spare = true;
    REQUIRE(talc_backward(loss_of(module, 1, rank, 1, size, TALC_F64)), 0);
    talc_parallel_free(parallel);
    talc_module_free(module);

    /* Rank 0 alone reaches it: the others have its gradient by size; then nobody. */
    module = net_new(2, TALC_F64, 1);
    talc_module *alone = net_new(2, TALC_F64, 1);
    parallel = talc_parallel_new(module, group, &(talc_parallel_options){ .allow_unused = true });
    for (int pass = 0; pass < 2; pass++) {
        ((net *)module)->uses_spare = rank == 0;
        REQUIRE(talc_backward(loss_of(module, 1, 0, 1, size, TALC_F64)), pass);
        REQUIRE(talc_backward(loss_of(alone, 1, 0, 1, size, TALC_F64)), pass);
        talc_tensor *spare = talc_grad(talc_module_find(module, "spare.weight"));
        talc_tensor *whole = talc_grad(talc_module_find(alone, "spare.weight"));
        for (int i = 0; i < 9; i++)
            REQUIRE(fabs(at(spare, i) - at(whole, i) / size) < 1e-12, at(spare, i));
        talc_module_require_grad(alone, false);
        talc_module_require_grad(alone, true);
        for (int i = 0; i < 4; i++)
            talc_grad_clear(talc_module_find(module, PATHS[i]));
    }
    ((net *)module)->uses_spare = false;
    REQUIRE(talc_backward(loss_of(module, 1, 0, 1, size, TALC_F64)), 0);
    REQUIRE(talc_grad(talc_module_find(module, "spare.weight")) == NULL, 0);
    REQUIRE(talc_grad(talc_module_find(module, "fc.weight")) != NULL, 0);
    talc_parallel_free(parallel);
    talc_module_free(module);
    talc_module_free(alone);
}

static void differences(void)
{
    talc_module *module = net_new(rank == size - 1 ? 3 : 2, TALC_F32, 1);
    REQUIRE(talc_parallel_new(module, group, NULL) == NULL, 0);
    char last[32];
    snprintf(last, sizeof last, "on rank %d", size - 1);
    REQUIRE_FAILURE("conv.weight f32 [2,2,3,3] on rank 0", "conv.weight f32 [3,2,3,3]", last);
    talc_module_free(module);
    module = net_new(2, rank == 0 ? TALC_F32 : TALC_F64, 1);
    REQUIRE(talc_parallel_new(module, group, NULL) == NULL, 0);
    REQUIRE_FAILURE("f32 [2,2,3,3] on rank 0", "f64 [2,2,3,3] on rank 1");
    talc_module_free(module);
    module = net_new(2, TALC_F32, 1);
    talc_manual_seed(rank == 1 ? 8 : 7);
    REQUIRE(talc_parallel_new(module, group, NULL) == NULL, 0);
    REQUIRE_FAILURE("seed is 7 on rank 0, 8 on rank 1");
    talc_module_free(module);
    /* Each rank draws its own numbers, and rank 0 those of one process. */
    module = net_new(2, TALC_F32, 1);
    talc_manual_seed(7);
    talc_parallel *parallel = talc_parallel_new(module, group, NULL);
    REQUIRE(parallel != NULL && talc_parallel_new(module, group, NULL) == NULL, 0);
    REQUIRE_FAILURE("already");
    REQUIRE(talc_generator_get().seed == talc_group_seed(7, rank), 0);
    REQUIRE((rank == 0) == (talc_generator_get().seed == 7), 0);
    talc_parallel_free(parallel);
    talc_module_free(module);
}

static bool compare_buffers(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    talc_tensor *other = talc_module_find(context, path);
    const double *p = numbers(tensor), *q = numbers(other);
    for (int64_t i = 0; is_buffer && i < talc_numel(tensor); i++)
        REQUIRE(fabs(p[i] - q[i]) < 1e-12, p[i]);
    return true;
}

static talc_module *normed_new(talc_activation activation)
{
    talc_manual_seed(4);
    talc_module *module = TALC_SEQUENTIAL(
        talc_nn_conv2d(&(talc_conv2d_layer){
            .in_channels = 2, .out_channels = 3, .kernel = { 3, 3 }, .no_bias = true }),
        talc_nn_batch_norm2d(
            &(talc_batch_norm2d_layer){ .channels = 3, .momentum = 0.3, .activation = activation }),
        talc_nn_flatten(),
        talc_nn_linear(&(talc_linear_layer){ .in_features = 48, .out_features = 3 }));
    REQUIRE(module != NULL && talc_module_cast(module, TALC_F64), 0);
    REQUIRE(talc_module_to(module, device), 0);
    return module;
}

/* A network whose batch norms see all members' images has one process's gradients and statistics
 * of the whole batch, also where the members have different numbers of images. */
static void normed(void)
{
    for (int ragged = 0; ragged < 2; ragged++) {
        talc_module *shared = normed_new(TALC_ACTIVATION_RELU);
        talc_module *alone = normed_new(TALC_ACTIVATION_RELU);
        talc_parallel *parallel =
            talc_parallel_new(shared, group, &(talc_parallel_options){ .sync_batch_norm = true });
        REQUIRE(parallel != NULL, 0);
        const int64_t count = ragged ? rank + 1 : 2,
                      begin = ragged ? rank * (rank + 1) / 2 : 2 * rank;
        const int64_t all = ragged ? size * (size + 1) / 2 : 2 * size;
        for (uint64_t step = 0; step < 3; step++) {
            /* The mean of the members' losses, weighted by their images. */
            talc_tensor *own = loss_of(shared, step, begin, count, all, TALC_F64);
            REQUIRE(talc_backward(talc_mul_scalar(own, (double)(count * size) / (double)all)),
                    step);
            REQUIRE(talc_backward(loss_of(alone, step, 0, all, all, TALC_F64)), step);
            comparison c = { .other = alone, .bound = 1e-11 };
            REQUIRE(talc_module_visit(shared, compare, &c), step);
            REQUIRE(talc_module_visit(shared, compare_buffers, alone), step);
        }
        talc_parallel_free(parallel);
        talc_module_free(shared);
        talc_module_free(alone);
    }
}

/* Rank 1 is in another call than the others: all fail, and say so. */
static void order(void)
{
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(3));
    if (rank == 1)
        REQUIRE(!talc_group_barrier(group), 0);
    else /* a GPU's shows where the program waits for it */
        REQUIRE(!talc_group_all_reduce(group, x, TALC_GROUP_SUM) ||
                    !talc_device_synchronize(device),
                0);
    if (rank == 1)
        REQUIRE_FAILURE("barrier", "rank 0 is in all_reduce");
    else
        REQUIRE_FAILURE("all_reduce", "rank 1 is in barrier");
    REQUIRE(!talc_group_barrier(group), 0);
    REQUIRE_FAILURE(rank == 1 ? "rank 0 is in all_reduce" : "rank 1 is in barrier"); /* for good */
}

// ---- Steps --------------------------------------------------------------------------------------

typedef struct trainer {
    talc_module *net;
    talc_parallel *parallel;
    talc_optimizer *optimizer;
    talc_tensor *images, *labels; /* of this member */
} trainer;

static talc_tensor *train(void *context)
{
    trainer *t = context;
    talc_optimizer_zero_grad(t->optimizer);
    talc_tensor *loss = talc_cross_entropy(talc_forward(t->net, t->images), t->labels);
    return talc_backward(loss) && talc_optimizer_step(t->optimizer) ? loss : NULL;
}

static trainer trainer_new(bool shared)
{
    trainer t = { .net = net_new(4, TALC_F32, 11) };
    talc_manual_seed(3);
    if (shared)
        t.parallel = talc_parallel_new(t.net, group, &(talc_parallel_options){ .bucket = 500 });
    REQUIRE(!shared || t.parallel != NULL, 0);
    t.optimizer = talc_optimizer_new(
        t.net, &(talc_optimizer_options){ .kind = TALC_SGD, .lr = 0.05, .momentum = 0.9 });
    t.images = talc_zeros(device, TALC_F32, TALC_DIMS(4, 2, 6, 6));
    t.labels = talc_zeros(device, TALC_I64, TALC_DIMS(4));
    return t;
}

static void trainer_free(trainer *t)
{
    talc_optimizer_free(t->optimizer);
    talc_parallel_free(t->parallel);
    talc_module_free(t->net);
}

static void fill(const trainer *t, uint64_t seed)
{
    talc_manual_seed(seed * (uint64_t)size + (uint64_t)rank);
    REQUIRE(talc_copy(t->images, talc_randn(device, TALC_F32, TALC_DIMS(4, 2, 6, 6))), seed);
    REQUIRE(talc_copy(t->labels, talc_randint(device, TALC_I64, TALC_DIMS(4), 0, 3)), seed);
}

/* A step that is recorded with its all-reduces has the bits of one that is called; in a group of
 * one those of a step without a group. */
static void recorded(void)
{
    trainer called = trainer_new(true), repeated = trainer_new(true), alone = trainer_new(false);
    talc_step *step = talc_step_new(device, train, &repeated);
    for (uint64_t i = 0; i < 8; i++) {
        talc_scope *scope = talc_scope_enter();
        fill(&called, i);
        fill(&repeated, i);
        fill(&alone, i);
        talc_tensor *a = train(&called), *b = talc_step_run(step), *c = train(&alone);
        REQUIRE(b != NULL && at(a, 0) == at(b, 0), i);
        REQUIRE(size > 1 || at(a, 0) == at(c, 0), i);
        talc_scope_leave(scope);
    }
    for (int i = 0; i < 4; i++) {
        talc_tensor *a = talc_module_find(called.net, PATHS[i]);
        talc_tensor *b = talc_module_find(repeated.net, PATHS[i]);
        talc_tensor *c = talc_module_find(alone.net, PATHS[i]);
        const double *p = numbers(a), *q = numbers(b), *r = numbers(c);
        for (int64_t k = 0; k < talc_numel(a); k++)
            REQUIRE(p[k] == q[k] && (size > 1 || p[k] == r[k]), k);
        /* The group counts: other members' images move the parameters. */
        REQUIRE(size == 1 || p[0] != r[0], i);
    }
    talc_step_free(step);
    trainer_free(&called);
    trainer_free(&repeated);
    trainer_free(&alone);
}

/* Kilobytes that the process holds. */
static long resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%*d %ld", &pages) == 1, 0);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

#if defined(__SANITIZE_ADDRESS__)
enum { KEEPS_FREED = true };
#else
enum { KEEPS_FREED = false };
#endif

/* 10,000 steps hold no more than 1,000 do. */
static void growth(void)
{
    trainer t = trainer_new(true);
    size_t live = 0;
    long held = 0;
    fill(&t, 0);
    for (int i = 1; i <= 10000; i++) {
        talc_scope *scope = talc_scope_enter();
        REQUIRE(train(&t) != NULL, i);
        talc_scope_leave(scope);
        if (i == 1000) {
            live = talc_device_memory(device).live;
            held = resident();
        }
    }
    REQUIRE(talc_device_memory(device).live == live, talc_device_memory(device).live - live);
    REQUIRE(KEEPS_FREED || resident() <= held + 64, resident() - held);
    trainer_free(&t);
}

/* Calls for ever: the test ends or stops one. */
static void forever(void)
{
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(100000));
    printf("%d %d\n", rank, (int)getpid());
    fflush(stdout);
    while (talc_group_all_reduce(group, x, TALC_GROUP_MEAN))
        if (!talc_device_synchronize(device))
            stop("forever, waiting", rank);
    stop("forever", rank);
}

/* The same for steps that are recorded, whose losses are looked at now and then. */
static void replayed(void)
{
    trainer t = trainer_new(true);
    talc_step *step = talc_step_new(device, train, &t);
    fill(&t, 0);
    for (int i = 0; talc_step_run(step) != NULL; i++) {
        if (i == 3) {
            printf("%d %d\n", rank, (int)getpid());
            fflush(stdout);
        }
        if (i % 5 == 0 && !talc_device_synchronize(device))
            break;
    }
    const char *const why = talc_error_message();
    printf("rank %d: replayed: %s\n", rank, why);
    /* It is told once; what the group is asked from now on says the same. */
    talc_error_clear();
    REQUIRE(talc_device_synchronize(device), 0);
    REQUIRE(talc_step_run(step) == NULL, 0);
    printf("rank %d: replayed: %s\n", rank, talc_error_message());
    fflush(stdout);
    _exit(1);
}

/* What is under way when a group ends comes to its end. */
static void freed(void)
{
    talc_tensor *x = talc_full(device, TALC_F32, TALC_DIMS(100000), rank + 1);
    REQUIRE(talc_group_all_reduce(group, x, TALC_GROUP_SUM), 0);
    talc_group_free(group);
    group = NULL;
    REQUIRE(at(x, 99999) == size * (size + 1) / 2, at(x, 99999));
}

static talc_group *late_group;

/* Runs after what the group has registered for the process's end, and fails. */
static void call_late(void)
{
    if (late_group != NULL && talc_group_barrier(late_group))
        printf("a call after MPI's end succeeded\n");
}

/* Processes that end without having freed the group, one of them before the others; a child that is
 * forked is no member, and its end waits for none. */
static void unfreed(void)
{
    REQUIRE(talc_group_barrier(group), 0);
    const pid_t child = fork();
    if (child == 0)
        exit(0);
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0, status);
    if (rank == 0)
        sleep(1);
    late_group = group;
    group = NULL;
}

/* Rank 1 leaves in peace; the others' call says so. */
static void left(void)
{
    if (rank == 1) {
        talc_group_free(group);
        group = NULL;
        sleep(8);
        return;
    }
    REQUIRE(!talc_group_barrier(group), 0);
    REQUIRE_FAILURE("barrier: rank 1 of", "has left the group");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = { { "collectives", collectives },
                  { "gradients", gradients },
                  { "loader", loader },
                  { "steps", steps },
                  { "unused", unused },
                  { "normed", normed },
                  { "differences", differences },
                  { "order", order },
                  { "recorded", recorded },
                  { "forever", forever },
                  { "replayed", replayed },
                  { "left", left },
                  { "freed", freed },
                  { "unfreed", unfreed },
                  { "growth", growth } };
    atexit(call_late);
    const char *timeout = getenv("TIMEOUT");
    const talc_group_options options = { .timeout = timeout == NULL ? 30 : atof(timeout) };
#if defined(INSIDE)
    const char *name = getenv("TALC_TEST_DEVICE");
    device = name == NULL                ? talc_device_default()
             : strcmp(name, "fake") == 0 ? fake_device()
                                         : talc_device_get(name);
    group = talc_group_open(device, &options, getenv("ALONE") != NULL);
#else
    device = talc_device_host();
    group = talc_group_new(device, &options);
#endif
    if (group == NULL) {
        printf("%s\n", talc_error_message());
        return 2;
    }
    rank = talc_group_rank(group);
    size = talc_group_size(group);
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
            if (strcmp(cases[k].name, argv[i]) == 0) {
                cases[k].run();
                REQUIRE(!talc_failed(), i);
                if (rank == 0)
                    printf("%s: ok\n", argv[i]);
            }
    talc_group_free(group);
    return talc_failed();
}
