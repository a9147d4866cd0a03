/* What a call of an op costs the host: the time until it returns, on tensors so small that the work itself takes next to
 * nothing. On a GPU work is queued, so this is all that a program pays before the device has to be waited for.
 *
 *     host_cost [device] [op]          all ops, on the default device
 *
 * Each round makes CALLS calls, with the release of their results, and then waits for the device, so that no queue fills
 * up; the table shows the least and the median round, in microseconds a call. All ops go through a set of rounds that is not
 * shown first, since processors take a while to reach their speed. */
#define _POSIX_C_SOURCE 200809L

#include <talc/talc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS = 100, ROUNDS = 41 };

typedef struct operands {
    talc_tensor *x, *matrix, *gaps, *w, *pointwise_w, *depthwise_w, *channels, *weight, *bias;
} operands;

static talc_tensor *conv2d(const operands *o, talc_tensor *w, const char *algorithm, int64_t groups)
{
    int64_t padding = w->dims[2] / 2;
    return talc_conv2d(o->x, w, o->channels,
                       &(talc_conv2d_options){ .padding = { padding, padding },
                                               .groups = groups,
                                               .algorithm = algorithm,
                                               .activation = TALC_ACTIVATION_RELU });
}

// clang-format off
#define OPS(X)                                                                                                          \
    X(view,            talc_view(o->x, TALC_DIMS(1, -1)))                                                               \
    X(relu,            talc_relu(o->x))                                                                                 \
    X(add,             talc_add(o->x, o->x))                                                                            \
    X(add_scalar,      talc_add_scalar(o->x, 1))                                                                        \
    X(clone,           talc_clone(o->x))                                                                                \
    X(contiguous,      talc_contiguous(o->gaps))                                                                        \
    X(zeros,           talc_zeros_like(o->x))                                                                           \
    X(rand,            talc_rand(o->x->device, TALC_F32, TALC_DIMS(1024)))                                              \
    X(concat,          talc_concat((const talc_tensor *[]){ o->x, o->x }, 2, 1))                                        \
    X(sum,             talc_sum(o->x, TALC_DIMS(1), false))                                                             \
    X(argmax,          talc_argmax(o->matrix, TALC_DIMS(1), false))                                                     \
    X(softmax,         talc_softmax(o->matrix, 1))                                                                      \
    X(max_pool2d,      talc_max_pool2d(o->x, &(talc_pool2d_options){ .kernel = { 2, 2 } }))                             \
    X(adaptive_pool,   talc_adaptive_avg_pool2d(o->x, 1, 1))                                                            \
    X(batch_norm2d,    talc_batch_norm2d(o->x, o->channels, o->channels, o->channels, o->channels, NULL))               \
    X(linear,          talc_linear(talc_select(o->matrix, 0, 0), o->weight, o->bias, NULL))                             \
    X(matmul,          talc_matmul(o->matrix, o->matrix))                                                               \
    X(conv2d,          conv2d(o, o->w, NULL, 1))                                                                        \
    X(conv2d_direct,   conv2d(o, o->w, "direct", 1))                                                                    \
    X(conv2d_im2col,   conv2d(o, o->w, "im2col", 1))                                                                    \
    X(conv2d_1x1,      conv2d(o, o->pointwise_w, NULL, 1))                                                              \
    X(conv2d_groups16, conv2d(o, o->depthwise_w, NULL, 16))
// clang-format on

#define FUNCTION(name, call)                                                                       \
    static talc_tensor *run_##name(const operands *o)                                              \
    {                                                                                              \
        return call;                                                                               \
    }
OPS(FUNCTION)
#undef FUNCTION

static const struct {
    const char *name;
    talc_tensor *(*run)(const operands *);
} ops[] = {
#define ROW(name, call) { #name, run_##name },
    OPS(ROW)
#undef ROW
};

enum { OP_COUNT = sizeof ops / sizeof *ops };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static operands make_operands(talc_device *device)
{
    operands o = {
        .x = talc_rand(device, TALC_F32, TALC_DIMS(1, 16, 8, 8)),
        .matrix = talc_rand(device, TALC_F32, TALC_DIMS(64, 64)),
        .w = talc_rand(device, TALC_F32, TALC_DIMS(16, 16, 3, 3)),
        .pointwise_w = talc_rand(device, TALC_F32, TALC_DIMS(16, 16, 1, 1)),
        .depthwise_w = talc_rand(device, TALC_F32, TALC_DIMS(16, 1, 3, 3)),
        .channels = talc_rand(device, TALC_F32, TALC_DIMS(16)),
        .weight = talc_rand(device, TALC_F32, TALC_DIMS(10, 64)),
        .bias = talc_rand(device, TALC_F32, TALC_DIMS(10)),
    };
    o.gaps = talc_slice(o.x, 3, 0, TALC_END, 2);
    return o;
}

/* One round, in microseconds a call. */
static double round_of(talc_tensor *(*run)(const operands *), const operands *o,
                       talc_device *device)
{
    talc_scope *scope = talc_scope_enter();
    double started = now();
    for (int i = 0; i < CALLS; i++)
        talc_release(run(o));
    double taken = now() - started;
    talc_device_synchronize(device);
    talc_scope_leave(scope);
    return taken / CALLS;
}

int main(int argc, char **argv)
{
    talc_device *device = argc > 1 ? talc_device_get(argv[1]) : talc_device_default();
    const char *only = argc > 2 ? argv[2] : NULL;
    operands o = { 0 };
    if (device != NULL)
        o = make_operands(device);
    printf("%-16s %8s %8s  microseconds a call on %s\n", "op", "least", "median",
           talc_device_name(device));
    for (size_t pass = 0; pass < 2 * OP_COUNT && !talc_failed(); pass++) {
        const size_t i = pass % OP_COUNT;
        if (only != NULL && strcmp(only, ops[i].name) != 0)
            continue;
        double rounds[ROUNDS];
        round_of(ops[i].run, &o, device);
        if (talc_error_status() == TALC_NOT_FOUND) { /* another device's algorithm */
            talc_error_clear();
            continue;
        }
        for (int r = -1; r < ROUNDS; r++) {
            double taken = round_of(ops[i].run, &o, device);
            if (r >= 0)
                rounds[r] = taken;
        }
        qsort(rounds, ROUNDS, sizeof *rounds, by_size);
        if (pass >= OP_COUNT)
            printf("%-16s %8.2f %8.2f\n", ops[i].name, rounds[0], rounds[ROUNDS / 2]);
    }
    if (talc_failed())
        fprintf(stderr, "%s\n", talc_error_message());
    return talc_failed();
}
