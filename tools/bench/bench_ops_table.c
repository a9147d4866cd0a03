/// The ops of `talc bench`: how each runs, which elements of x a result is made of, and what it
/// must be.
///
/// Reductions and softmax see x as [A, K, B] and run along K; images are [N, C, H, W].
#include "tools/bench/bench_expected.h"

// ---- Operands -----------------------------------------------------------------------------------

static const talc_tensor *operand(const bench_data *d, const bench_op *op)
{
    return op->operand == BENCH_DOUBLES ? d->doubles : op->operand == BENCH_BYTES ? d->bytes : d->x;
}

/* As much of x as the shape holds. */
static talc_tensor *seen(const bench_data *d, const bench_op *op)
{
    talc_dims dims = { .rank = 4 };
    const talc_tensor *x = operand(d, op);
    int64_t known = 1, count = 1;
    for (int i = 0; i < dims.rank; i++)
        known *= op->shape[i] == 0 ? 1 : op->shape[i];
    for (int i = 0; i < dims.rank; i++) {
        dims.dim[i] = op->shape[i] == 0 ? talc_numel(x) / known : op->shape[i];
        count *= dims.dim[i];
    }
    return talc_view(talc_slice(x, 0, 0, count, 1), dims);
}

/* The first `count` elements of the other operand. */
static talc_tensor *some(const bench_data *d, int64_t count)
{
    return talc_slice(d->other, 0, 0, count, 1);
}

static talc_tensor *transposed(const bench_data *d, const bench_op *op)
{
    return talc_transpose(talc_flatten(seen(d, op), 2, 3), 1, 2);
}

static talc_tensor *column(const bench_data *d, const bench_op *op)
{
    const int64_t rows = d->count / op->shape[1];
    return talc_view(some(d, rows), TALC_DIMS(rows, 1, 1, 1));
}

static talc_tensor *row(const bench_data *d, const bench_op *op)
{
    return talc_view(some(d, op->shape[1]), TALC_DIMS(op->shape[1], 1, 1));
}

static talc_pool2d_options window(const bench_op *op)
{
    return (talc_pool2d_options){ .kernel = { op->kernel, op->kernel },
                                  .stride = { op->stride, op->stride },
                                  .padding = { op->pad, op->pad },
                                  .exclude_padding = true };
}

static talc_tensor *max_pool(const bench_data *d, const bench_op *op, bool with_indices)
{
    talc_pool2d_options options = window(op);
    options.exclude_padding = false;
    talc_tensor *indices;
    return with_indices ? talc_max_pool2d_indices(seen(d, op), &options, &indices)
                        : talc_max_pool2d(seen(d, op), &options);
}

static talc_tensor *avg_pool(const bench_data *d, const bench_op *op)
{
    const talc_pool2d_options options = window(op);
    return talc_avg_pool2d(seen(d, op), &options);
}

static talc_tensor *normal(const bench_data *d, const bench_op *op, bool training)
{
    talc_tensor *half = talc_slice(d->halves, 0, 0, op->shape[1], 1);
    talc_tensor *var = training ? NULL : talc_slice(d->quarters, 0, 0, op->shape[1], 1);
    return talc_batch_norm2d(seen(d, op), half, half, training ? NULL : half, var,
                             &(talc_batch_norm2d_options){ .training = training });
}

// ---- Running ------------------------------------------------------------------------------------

#define RUN(name, expression)                                                                      \
    static talc_tensor *name(const bench_data *d, const bench_op *op)                              \
    {                                                                                              \
        (void)op;                                                                                  \
        return expression;                                                                         \
    }

RUN(neg, talc_neg(d->x))
RUN(relu, talc_relu(d->x))
RUN(sigmoid, talc_sigmoid(d->x))
RUN(hyperbolic, talc_tanh(d->x))
RUN(silu, talc_silu(d->x))
RUN(gelu, talc_gelu(d->x))
RUN(add, talc_add(d->x, d->other))
RUN(sub, talc_sub(d->x, d->other))
RUN(mul, talc_mul(d->x, d->other))
RUN(divide, talc_div(d->x, d->other))
RUN(triple, talc_mul_scalar(d->x, 3))
RUN(add_channels, talc_add(seen(d, op), talc_view(talc_slice(d->halves, 0, 0, op->shape[1], 1),
                                                  TALC_DIMS(op->shape[1], 1, 1))))
RUN(add_row, talc_add(seen(d, op), row(d, op)))
RUN(add_column, talc_add(seen(d, op), column(d, op)))
RUN(add_transposed, talc_add(talc_select(transposed(d, op), 0, 0),
                             talc_view(d->other, TALC_DIMS(op->shape[2], -1))))
RUN(relu_cut, talc_relu(talc_slice(seen(d, op), 1, 1, op->shape[1] - 1, 1)))
RUN(relu_second, talc_relu(talc_slice(d->x, 0, 0, TALC_END, 2)))
RUN(clone, talc_clone(d->x))
RUN(cast, talc_cast(d->x, TALC_F64))
RUN(fill, talc_full(d->x->device, TALC_F32, TALC_DIMS(d->count), 0.5))
RUN(transpose, talc_contiguous(transposed(d, op)))
RUN(sum, talc_sum(seen(d, op), TALC_DIMS(1), false))
RUN(mean, talc_mean(seen(d, op), TALC_DIMS(1), false))
RUN(max, talc_max(seen(d, op), TALC_DIMS(1), false))
RUN(argmax, talc_argmax(seen(d, op), TALC_DIMS(1), false))
RUN(sum_channels, talc_sum(seen(d, op), TALC_DIMS(0, 2, 3), false))
RUN(softmax, talc_softmax(seen(d, op), 1))
RUN(log_softmax, talc_log_softmax(seen(d, op), 1))
RUN(layer_norm,
    talc_layer_norm(talc_view(d->x, TALC_DIMS(-1, op->shape[1])), TALC_DIMS(op->shape[1]),
                    talc_slice(d->halves, 0, 0, op->shape[1], 1),
                    talc_slice(d->halves, 0, 0, op->shape[1], 1), NULL))
RUN(batch_norm, normal(d, op, false))
RUN(batch_norm_train, normal(d, op, true))
RUN(max_pool_alone, max_pool(d, op, false))
RUN(max_pool_indices, max_pool(d, op, true))
RUN(adaptive, talc_adaptive_avg_pool2d(seen(d, op), op->kernel, op->kernel))

// ---- The tables ---------------------------------------------------------------------------------

/* What runs, reads x how often, comes from where, must be what. */
#define ROW(runs, times, from, expected)                                                           \
    .run = runs, .reads = times, .element_gather = bench_##from, bench_##expected
#define UNARY(runs, expected)   ROW(runs, 1, itself, expected)
#define BINARY(runs, expected)  ROW(runs, 2, itself, expected)
#define TRANSPOSED              ROW(transpose, 1, transposed, same)
#define SUM                     ROW(sum, 1, line, summed)
#define MEAN                    ROW(mean, 1, line, averaged)
#define MAX                     ROW(max, 1, line, largest)
#define ARGMAX                  ROW(argmax, 1, line, place_of_largest)
#define CHANNELS                ROW(sum_channels, 1, channel, summed)
#define SOFTMAX                 ROW(softmax, 1, its_line, share)
#define LOG_SOFTMAX             ROW(log_softmax, 1, its_line, log_share)
#define NORM                    ROW(batch_norm, 1, itself, normalized)
#define LAYER_NORM              ROW(layer_norm, 1, its_line, normalized_by_itself)
#define NORM_TRAIN              ROW(batch_norm_train, 2, its_channel, normalized_by_itself)
#define MAX_POOL                ROW(max_pool_alone, 1, window, largest)
#define MAX_POOL_INDICES(times) ROW(max_pool_indices, times, window, largest)
#define AVG_POOL                ROW(avg_pool, 1, window, averaged)
#define ADAPTIVE                ROW(adaptive, 1, adaptive, averaged)

// clang-format off
const bench_op bench_ops[] = {
    { "ops", "neg",              "-x",                                   UNARY(neg, negated) },
    { "ops", "relu",             "max(x, 0)",                            UNARY(relu, rectified) },
    { "ops", "sigmoid",          "1 / (1 + exp(-x))",                    UNARY(sigmoid, logistic) },
    { "ops", "tanh",             "tanh(x)",                              UNARY(hyperbolic, tangent) },
    { "ops", "silu",             "x / (1 + exp(-x))",                    UNARY(silu, sigmoid_linear) },
    { "ops", "gelu",             "x times the normal distribution",      UNARY(gelu, gaussian_linear) },
    { "ops", "add",              "x + b",                                BINARY(add, added) },
    { "ops", "sub",              "x - b",                                BINARY(sub, subtracted) },
    { "ops", "mul",              "x b",                                  BINARY(mul, multiplied) },
    { "ops", "div",              "x / b",                                BINARY(divide, divided) },
    { "ops", "mul_scalar",       "3 x",                                  UNARY(triple, tripled) },
    { "ops", "add_channels",     "[N,64,64,64] + [64,1,1]",              UNARY(add_channels, raised), { 0, 64, 64, 64 } },
    { "ops", "add_row",          "[R,1001] + [1001]",                    UNARY(add_row, added_row), { 0, 1001, 1, 1 } },
    { "ops", "add_column",       "[R,1001] + [R,1]",                     UNARY(add_column, added_column), { 0, 1001, 1, 1 } },
    { "ops", "add_turned",       "[R,4096] transposed + [4096,R]",       ROW(add_transposed, 2, transposed, added_transposed), { 1, 0, 4096, 1 } },
    { "ops", "relu_cut",         "[R,1001] but for two columns",         ROW(relu_cut, 1, cut, rectified), { 0, 1001, 1, 1 } },
    { "ops", "relu_second",      "every second element",                 ROW(relu_second, 1, every_second, rectified) },
    { "ops", "clone",            "a copy",                               UNARY(clone, same) },
    { "ops", "cast_f64",         "f32 to f64",                           UNARY(cast, same) },
    { "ops", "fill",             "one value everywhere",                 ROW(fill, 0, itself, half) },
    { "ops", "transpose",        "[R,4096] to [4096,R]",                 TRANSPOSED, { 1, 0, 4096, 1 } },
    { "ops", "transpose_f64",    "the same of f64",                      TRANSPOSED, { 1, 0, 4096, 1 }, BENCH_DOUBLES },
    { "ops", "transpose_u8",     "the same of u8",                       ROW(transpose, 1, transposed, same_byte), { 1, 0, 4096, 1 }, BENCH_BYTES },
    { "ops", "nhwc",             "[N,64,64,64], channels last",          TRANSPOSED, { 0, 64, 64, 64 } },
    { "ops", "nchw",             "[N,64,64,64], from channels last",     TRANSPOSED, { 0, 4096, 64, 1 } },
    { "ops", "deep_nhwc",        "[N,512,7,7], channels last",           TRANSPOSED, { 0, 512, 7, 7 } },
    { "ops", "deep_nchw",        "[N,512,7,7], from channels last",      TRANSPOSED, { 0, 49, 512, 1 } },
    { "ops", "sum",              "of all",                               SUM, { 1, 0, 1, 1 } },
    { "ops", "sum_f64",          "of all, f64",                          SUM, { 1, 0, 1, 1 }, BENCH_DOUBLES },
    { "ops", "sum_rows",         "[R,1024] over the last",               SUM, { 0, 1024, 1, 1 } },
    { "ops", "sum_rows_10",      "[R,10] over the last",                 SUM, { 0, 10, 1, 1 } },
    { "ops", "sum_rows_1001",    "[R,1001] over the last",               SUM, { 0, 1001, 1, 1 } },
    { "ops", "sum_rows_f64",     "[R,1024] over the last, f64",          SUM, { 0, 1024, 1, 1 }, BENCH_DOUBLES },
    { "ops", "sum_columns",      "[R,1024] over the first",              SUM, { 1, 0, 1024, 1 } },
    { "ops", "sum_columns_1001", "[R,1001] over the first",              SUM, { 1, 0, 1001, 1 } },
    { "ops", "sum_middle_7",     "[N,512,49] over the second",           SUM, { 0, 512, 7, 7 } },
    { "ops", "sum_channels",     "[N,64,64,64] over all but the second", CHANNELS, { 0, 64, 64, 64 } },
    { "ops", "sum_channels_7",   "[N,512,7,7] over all but the second",  CHANNELS, { 0, 512, 7, 7 } },
    { "ops", "mean",             "of all",                               MEAN, { 1, 0, 1, 1 } },
    { "ops", "mean_planes",      "[N,64,64,64] over the last two",       MEAN, { 0, 4096, 1, 1 } },
    { "ops", "mean_planes_7",    "[N,512,7,7] over the last two",        MEAN, { 0, 49, 1, 1 } },
    { "ops", "max_rows",         "[R,1024] over the last",               MAX, { 0, 1024, 1, 1 } },
    { "ops", "max_rows_10",      "[R,10] over the last",                 MAX, { 0, 10, 1, 1 } },
    { "ops", "max_columns",      "[R,1024] over the first",              MAX, { 1, 0, 1024, 1 } },
    { "ops", "argmax_rows",      "[R,1024] over the last",               ARGMAX, { 0, 1024, 1, 1 } },
    { "ops", "argmax_rows_10",   "[R,10] over the last",                 ARGMAX, { 0, 10, 1, 1 } },
    { "ops", "argmax_rows_1001", "[R,1001] over the last",               ARGMAX, { 0, 1001, 1, 1 } },
    { "ops", "argmax_columns",   "[R,1024] over the first",              ARGMAX, { 1, 0, 1024, 1 } },
    { "ops", "max_pool_2",       "[N,64,64,64], 2x2",                    MAX_POOL, { 0, 64, 64, 64 }, BENCH_FLOATS, 2, 2, 0 },
    { "ops", "max_pool_3",       "[N,64,64,64], 3x3, stride 2, padding 1", MAX_POOL, { 0, 64, 64, 64 }, BENCH_FLOATS, 3, 2, 1 },
    { "ops", "max_pool_3s1",     "[N,64,64,64], 3x3, stride 1, padding 1", MAX_POOL, { 0, 64, 64, 64 }, BENCH_FLOATS, 3, 1, 1 },
    { "ops", "max_pool_5s1",     "[N,64,64,64], 5x5, stride 1, padding 2", MAX_POOL, { 0, 64, 64, 64 }, BENCH_FLOATS, 5, 1, 2 },
    { "ops", "max_pool_14",      "[N,1,14,14], 3x3, stride 1, padding 1",  MAX_POOL, { 0, 1, 14, 14 }, BENCH_FLOATS, 3, 1, 1 },
    { "ops", "max_pool_f64",     "f64 [N,32,64,64], 3x3, stride 1",      MAX_POOL, { 0, 32, 64, 64 }, BENCH_DOUBLES, 3, 1, 1 },
    { "ops", "max_pool_2i",      "2x2, and indices: half of x's bytes",  MAX_POOL_INDICES(1.5), { 0, 64, 64, 64 }, BENCH_FLOATS, 2, 2, 0 },
    { "ops", "max_pool_3i",      "3x3, stride 1, and indices: twice x's", MAX_POOL_INDICES(3), { 0, 64, 64, 64 }, BENCH_FLOATS, 3, 1, 1 },
    { "ops", "avg_pool_2",       "[N,64,64,64], 2x2",                    AVG_POOL, { 0, 64, 64, 64 }, BENCH_FLOATS, 2, 2, 0 },
    { "ops", "avg_pool_3",       "[N,64,64,64], 3x3, stride 2, padding 1", AVG_POOL, { 0, 64, 64, 64 }, BENCH_FLOATS, 3, 2, 1 },
    { "ops", "avg_pool_4",       "[N,64,64,64], 4x4",                    AVG_POOL, { 0, 64, 64, 64 }, BENCH_FLOATS, 4, 4, 0 },
    { "ops", "adaptive_56",      "[N,1,56,56] to 7x7",                   ADAPTIVE, { 0, 1, 56, 56 }, BENCH_FLOATS, 7, 0, 0 },
    { "ops", "adaptive_16",      "[N,1,16,16] to 7x7",                   ADAPTIVE, { 0, 1, 16, 16 }, BENCH_FLOATS, 7, 0, 0 },
    { "ops", "global_avg_7",     "[N,1,7,7] to 1x1",                     ADAPTIVE, { 0, 1, 7, 7 }, BENCH_FLOATS, 1, 0, 0 },
    { "ops", "global_avg_pool",  "[N,64,64,64] to 1x1",                  ADAPTIVE, { 0, 64, 64, 64 }, BENCH_FLOATS, 1, 0, 0 },
    { "ops", "softmax",          "[R,1024] over the last",               SOFTMAX, { 0, 1024, 1, 1 } },
    { "ops", "softmax_short",    "[R,10] over the last",                 SOFTMAX, { 0, 10, 1, 1 } },
    { "ops", "softmax_middle",   "[R,100] over the last",                SOFTMAX, { 0, 100, 1, 1 } },
    { "ops", "softmax_1000",     "[R,1000] over the last",               SOFTMAX, { 0, 1000, 1, 1 } },
    { "ops", "softmax_odd",      "[R,1001] over the last",               SOFTMAX, { 0, 1001, 1, 1 } },
    { "ops", "softmax_4096",     "[R,4096] over the last",               SOFTMAX, { 0, 4096, 1, 1 } },
    { "ops", "softmax_long",     "[R,65536] over the last",              SOFTMAX, { 0, 65536, 1, 1 } },
    { "ops", "softmax_longest",  "[R,393216] over the last",             SOFTMAX, { 0, 393216, 1, 1 } },
    { "ops", "softmax_f64",      "f64, [R,1024] over the last",          SOFTMAX, { 0, 1024, 1, 1 }, BENCH_DOUBLES },
    { "ops", "softmax_channels", "[N,64,64,64] over the second",         SOFTMAX, { 0, 64, 64, 64 } },
    { "ops", "log_softmax",      "[R,1024] over the last",               LOG_SOFTMAX, { 0, 1024, 1, 1 } },
    { "ops", "log_softmax_10",   "[R,10] over the last",                 LOG_SOFTMAX, { 0, 10, 1, 1 } },
    { "ops", "log_softmax_1000", "[R,1000] over the last",               LOG_SOFTMAX, { 0, 1000, 1, 1 } },
    { "ops", "log_softmax_4096", "[R,4096] over the last",               LOG_SOFTMAX, { 0, 4096, 1, 1 } },
    { "ops", "log_softmax_longest", "[R,393216] over the last",          LOG_SOFTMAX, { 0, 393216, 1, 1 } },
    { "ops", "layer_norm_512",   "[R,512] over the last",                LAYER_NORM, { 0, 512, 1, 1 } },
    { "ops", "batch_norm",       "[N,64,64,64], given statistics",       NORM, { 0, 64, 64, 64 } },
    { "ops", "batch_norm_7",     "[N,512,7,7], given statistics",        NORM, { 0, 512, 7, 7 } },
    { "ops", "batch_norm_train", "[N,64,64,64], its own: two passes over x", NORM_TRAIN, { 0, 64, 64, 64 } },
    { "ops", "batch_norm_train_7", "[N,512,7,7], its own: two passes over x", NORM_TRAIN, { 0, 512, 7, 7 } },

    { "windows", "max_2_112",    "[N,1,112,112], maximum 2x2",           MAX_POOL, { 0, 1, 112, 112 }, BENCH_FLOATS, 2, 2, 0 },
    { "windows", "max_2_56",     "[N,1,56,56], maximum 2x2",             MAX_POOL, { 0, 1, 56, 56 }, BENCH_FLOATS, 2, 2, 0 },
    { "windows", "max_3s_112",   "[N,1,112,112], maximum 3x3, stride 2", MAX_POOL, { 0, 1, 112, 112 }, BENCH_FLOATS, 3, 2, 1 },
    { "windows", "max_3s_56",    "[N,1,56,56], maximum 3x3, stride 2",   MAX_POOL, { 0, 1, 56, 56 }, BENCH_FLOATS, 3, 2, 1 },
    { "windows", "max_3_56",     "[N,1,56,56], maximum 3x3, stride 1",   MAX_POOL, { 0, 1, 56, 56 }, BENCH_FLOATS, 3, 1, 1 },
    { "windows", "max_3_28",     "[N,1,28,28], maximum 3x3, stride 1",   MAX_POOL, { 0, 1, 28, 28 }, BENCH_FLOATS, 3, 1, 1 },
    { "windows", "max_5_56",     "[N,1,56,56], maximum 5x5, stride 1",   MAX_POOL, { 0, 1, 56, 56 }, BENCH_FLOATS, 5, 1, 2 },
    { "windows", "max_5_28",     "[N,1,28,28], maximum 5x5, stride 1",   MAX_POOL, { 0, 1, 28, 28 }, BENCH_FLOATS, 5, 1, 2 },
    { "windows", "max_4_512",    "[N,1,512,512], maximum 4x4, stride 1", MAX_POOL, { 0, 1, 512, 512 }, BENCH_FLOATS, 4, 1, 0 },
    { "windows", "max_11_2048",  "[N,1,2048,2048], maximum 11x11",       MAX_POOL, { 0, 1, 2048, 2048 }, BENCH_FLOATS, 11, 11, 0 },
    { "windows", "avg_2_56",     "[N,1,56,56], average 2x2",             AVG_POOL, { 0, 1, 56, 56 }, BENCH_FLOATS, 2, 2, 0 },
    { "windows", "avg_3_56",     "[N,1,56,56], average 3x3, stride 1",   AVG_POOL, { 0, 1, 56, 56 }, BENCH_FLOATS, 3, 1, 1 },
    { "windows", "avg_3_28",     "[N,1,28,28], average 3x3, stride 1",   AVG_POOL, { 0, 1, 28, 28 }, BENCH_FLOATS, 3, 1, 1 },
    { "windows", "avg_3s_112",   "[N,1,112,112], average 3x3, stride 2", AVG_POOL, { 0, 1, 112, 112 }, BENCH_FLOATS, 3, 2, 1 },
    { "windows", "avg_3_f64",    "f64 [N,1,56,56], average 3x3, stride 1", AVG_POOL, { 0, 1, 56, 56 }, BENCH_DOUBLES, 3, 1, 1 },
    { "windows", "avg_5_28",     "[N,1,28,28], average 5x5, stride 1",   AVG_POOL, { 0, 1, 28, 28 }, BENCH_FLOATS, 5, 1, 2 },
    { "windows", "to_7_14",      "[N,1,14,14], adaptive average to 7x7", ADAPTIVE, { 0, 1, 14, 14 }, BENCH_FLOATS, 7, 0, 0 },
    { "windows", "to_1_56",      "[N,1,56,56], global average",          ADAPTIVE, { 0, 1, 56, 56 }, BENCH_FLOATS, 1, 0, 0 },
    { .name = NULL },
};
// clang-format on
