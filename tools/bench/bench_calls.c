/// What a call of an op costs the host: `talc bench host`. The operands are so small that the work
/// itself takes next to nothing, and on a GPU work is queued: so this is all that a program pays
/// before it has to wait for the device. Each call is made with the release of its result.
#include "tools/bench/bench_ops.h"

typedef bench_few few;

few bench_few_make(talc_device *device)
{
    few f = {
        .x = talc_rand(device, TALC_F32, TALC_DIMS(1, 16, 8, 8)),
        .matrix = talc_rand(device, TALC_F32, TALC_DIMS(64, 64)),
        .kernel = talc_rand(device, TALC_F32, TALC_DIMS(16, 16, 3, 3)),
        .point = talc_rand(device, TALC_F32, TALC_DIMS(16, 16, 1, 1)),
        .depth = talc_rand(device, TALC_F32, TALC_DIMS(16, 1, 3, 3)),
        .channels = talc_rand(device, TALC_F32, TALC_DIMS(16)),
        .weight = talc_rand(device, TALC_F32, TALC_DIMS(10, 64)),
        .bias = talc_rand(device, TALC_F32, TALC_DIMS(10)),
        .labels = talc_zeros(device, TALC_I64, TALC_DIMS(64)),
        .mean = talc_zeros(device, TALC_F32, TALC_DIMS(16)),
        .var = talc_ones(device, TALC_F32, TALC_DIMS(16)),
    };
    f.row = talc_select(f.matrix, 0, 0);
    f.gaps = talc_slice(f.x, 3, 0, TALC_END, 2);
    return f;
}

static talc_tensor *convolve(const few *f, const talc_tensor *w, const char *algorithm,
                             int64_t groups)
{
    const int64_t padding = w->dims[2] / 2;
    return talc_conv2d(f->x, w, f->channels,
                       &(talc_conv2d_options){ .padding = { padding, padding },
                                               .groups = groups,
                                               .algorithm = algorithm,
                                               .activation = TALC_ACTIVATION_RELU });
}

static talc_tensor *join(const few *f, int count)
{
    return talc_concat((const talc_tensor *[]){ f->x, f->x, f->x, f->x, f->x, f->x, f->x, f->x },
                       count, 1);
}

// clang-format off
#define CALLS(X)                                                                                                                            \
    X(view,            "no work at all",               talc_view(f->x, TALC_DIMS(1, -1)))                                                    \
    X(relu,            "max(x, 0)",                    talc_relu(f->x))                                                                      \
    X(add,             "x + x",                        talc_add(f->x, f->x))                                                                 \
    X(add_scalar,      "x + 1",                        talc_add_scalar(f->x, 1))                                                             \
    X(clone,           "a copy",                       talc_clone(f->x))                                                                     \
    X(contiguous,      "a copy of a view",             talc_contiguous(f->gaps))                                                             \
    X(zeros,           "one value everywhere",         talc_zeros_like(f->x))                                                                \
    X(rand,            "random numbers",               talc_rand(f->x->device, TALC_F32, TALC_DIMS(1024)))                                   \
    X(concat,          "two tensors",                  join(f, 2))                                                                           \
    X(concat_8,        "eight tensors",                join(f, 8))                                                                           \
    X(sum,             "over a dimension",             talc_sum(f->x, TALC_DIMS(1), false))                                                  \
    X(mean,            "over a dimension",             talc_mean(f->x, TALC_DIMS(1), false))                                                 \
    X(argmax,          "over a dimension",             talc_argmax(f->matrix, TALC_DIMS(1), false))                                          \
    X(softmax,         "of 64 rows",                   talc_softmax(f->matrix, 1))                                                           \
    X(log_softmax,     "of 64 rows",                   talc_log_softmax(f->matrix, 1))                                                       \
    X(cross_entropy,   "of 64 rows, their mean",       talc_cross_entropy(f->matrix, f->labels))                                             \
    X(max_pool2d,      "2x2",                          talc_max_pool2d(f->x, &(talc_pool2d_options){ .kernel = { 2, 2 } }))                  \
    X(avg_pool2d,      "2x2",                          talc_avg_pool2d(f->x, &(talc_pool2d_options){ .kernel = { 2, 2 } }))                  \
    X(adaptive_pool,   "average, to 1x1",              talc_adaptive_avg_pool2d(f->x, 1, 1))                                                 \
    X(batch_norm2d,    "given statistics",             talc_batch_norm2d(f->x, f->channels, f->channels, f->mean, f->var, NULL))             \
    X(linear,          "64 to 10",                     talc_linear(f->row, f->weight, f->bias, NULL))                                        \
    X(matmul,          "64x64 by 64x64",               talc_matmul(f->matrix, f->matrix))                                                    \
    X(conv2d,          "3x3, bias, relu",              convolve(f, f->kernel, NULL, 1))                                                      \
    X(conv2d_direct,   "the same by `direct`",         convolve(f, f->kernel, "direct", 1))                                                  \
    X(conv2d_im2col,   "the same by `im2col`",         convolve(f, f->kernel, "im2col", 1))                                                  \
    X(conv2d_1x1,      "1x1, bias, relu",              convolve(f, f->point, NULL, 1))                                                       \
    X(conv2d_groups16, "depthwise 3x3, bias, relu",    convolve(f, f->depth, NULL, 16))
// clang-format on

#define FUNCTION(name, what, call)                                                                 \
    static talc_tensor *run_##name(const bench_data *data, const bench_op *op)                     \
    {                                                                                              \
        (void)op;                                                                                  \
        const few *const f = &data->few;                                                           \
        return call;                                                                               \
    }
CALLS(FUNCTION)

#define ROW(call_name, text, call)                                                                 \
    { .set = "host", .name = "host_" #call_name, .what = text, .run = run_##call_name },
const bench_op bench_calls[] = { CALLS(ROW){ .name = NULL } };
