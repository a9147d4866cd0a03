#include "tests/support/mutants.h"

#include "ops/backend.h"
#include "ops/batch_norm2d.h"
#include "ops/cross_entropy.h"
#include "ops/matmul.h"
#include "ops/pool2d.h"
#include "ops/reduce.h"
#include "ops/softmax.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARITHMETIC                                                                                 \
    {                                                                                              \
        "f64 accumulation", TALC_STRICT, true                                                      \
    }

/* The device's row `reference` of an op. */
#define DEFINE_REFERENCE(op)                                                                       \
    static const talc_##op##_algorithm *op##_reference(const talc_device *device)                  \
    {                                                                                              \
        const talc_##op##_algorithm *row = device->backend->op;                                    \
        while (strcmp(row->algorithm.name, "reference") != 0)                                      \
            row++;                                                                                 \
        return row;                                                                                \
    }
DEFINE_REFERENCE(pool2d)
DEFINE_REFERENCE(matmul)
DEFINE_REFERENCE(reduce)
DEFINE_REFERENCE(softmax)
DEFINE_REFERENCE(cross_entropy)
DEFINE_REFERENCE(batch_norm2d)

static double load(talc_dtype dtype, const void *array, int64_t i)
{
    return dtype == TALC_F32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static void store(talc_dtype dtype, void *array, int64_t i, double value)
{
    if (dtype == TALC_F32)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

static size_t size_of(talc_dtype dtype)
{
    return dtype == TALC_F32 ? sizeof(float) : sizeof(double);
}

// ---- Pooling ------------------------------------------------------------------------------------------------

#define POOL_ROW(name, function)                                                                   \
    static const talc_pool2d_algorithm name = { { #name, ARITHMETIC }, pool_refuses, function }

static const char *pool_refuses(const talc_pool2d_problem *p)
{
    return p->direction == TALC_FORWARD ? NULL : "only the forward direction";
}

static talc_status pool(talc_device *device, const talc_pool2d_problem *p,
                        const talc_pool2d_arguments *a)
{
    return pool2d_reference(device)->run(device, p, a);
}

static talc_status pool_ignores_nan(talc_device *device, const talc_pool2d_problem *p,
                                    const talc_pool2d_arguments *a)
{
    const int64_t count = p->N * p->C * p->H * p->W;
    void *x = malloc((size_t)count * size_of(p->dtype));
    for (int64_t i = 0; i < count; i++) {
        const double value = load(p->dtype, a->x, i);
        store(p->dtype, x, i, isnan(value) ? -(double)INFINITY : value);
    }
    talc_pool2d_arguments cleaned = *a;
    cleaned.x = x;
    const talc_status status = pool(device, p, &cleaned);
    free(x);
    return status;
}

/* As if the padding held zeros. */
static talc_status pool_of_zeros(talc_device *device, const talc_pool2d_problem *p,
                                 const talc_pool2d_arguments *a)
{
    const talc_status status = pool(device, p, a);
    for (int64_t i = 0; i < p->N * p->C * p->OH * p->OW; i++) {
        const bool top = p->pad_top > 0 && i / p->OW % p->OH == 0;
        if (top && load(p->dtype, a->y, i) < 0)
            store(p->dtype, a->y, i, 0);
    }
    return status;
}

static talc_status pool_indices_transposed(talc_device *device, const talc_pool2d_problem *p,
                                           const talc_pool2d_arguments *a)
{
    const talc_status status = pool(device, p, a);
    for (int64_t i = 0; p->indices && i < p->N * p->C * p->OH * p->OW; i++)
        a->indices[i] = a->indices[i] % p->W * p->H + a->indices[i] / p->W;
    return status;
}

static talc_status pool_counts_padding(talc_device *device, const talc_pool2d_problem *p,
                                       const talc_pool2d_arguments *a)
{
    talc_pool2d_problem other = *p;
    other.exclude_padding = false;
    return pool(device, &other, a);
}

static talc_status pool_leaves_out_padding(talc_device *device, const talc_pool2d_problem *p,
                                           const talc_pool2d_arguments *a)
{
    talc_pool2d_problem other = *p;
    other.exclude_padding = true;
    return pool(device, &other, a);
}

static talc_status pool_without_divisor(talc_device *device, const talc_pool2d_problem *p,
                                        const talc_pool2d_arguments *a)
{
    talc_pool2d_problem other = *p;
    other.divisor = 0;
    return pool(device, &other, a);
}

/* As if the padding at the end were that at the beginning. */
static talc_status pool_pads_alike(talc_device *device, const talc_pool2d_problem *p,
                                   const talc_pool2d_arguments *a)
{
    talc_pool2d_problem other = *p;
    other.pad_bottom = p->pad_top;
    other.pad_right = p->pad_left;
    return pool(device, &other, a);
}

POOL_ROW(nan_ignored, pool_ignores_nan);
POOL_ROW(zero_padding, pool_of_zeros);
POOL_ROW(indices_transposed, pool_indices_transposed);
POOL_ROW(padding_counted, pool_counts_padding);
POOL_ROW(padding_left_out, pool_leaves_out_padding);
POOL_ROW(divisor_ignored, pool_without_divisor);
POOL_ROW(padding_alike, pool_pads_alike);

// ---- Matrix products ----------------------------------------------------------------------------------------

#define MATMUL_ROW(name, function)                                                                 \
    static const talc_matmul_algorithm name = { { #name, ARITHMETIC }, matmul_refuses, function }

static const char *matmul_refuses(const talc_matmul_problem *p)
{
    (void)p;
    return NULL;
}

static talc_status matmul_b_as_stored(talc_device *device, const talc_matmul_problem *p,
                                      const talc_matmul_arguments *a)
{
    talc_matmul_problem other = *p;
    if (p->transpose_b)
        other.ldb = p->N;
    other.transpose_b = false;
    return matmul_reference(device)->run(device, &other, a);
}

static talc_status matmul_of_first_b(talc_device *device, const talc_matmul_problem *p,
                                     const talc_matmul_arguments *a)
{
    talc_matmul_problem other = *p;
    memset(other.b_strides, 0, sizeof other.b_strides);
    return matmul_reference(device)->run(device, &other, a);
}

static talc_status matmul_without_last(talc_device *device, const talc_matmul_problem *p,
                                       const talc_matmul_arguments *a)
{
    talc_matmul_problem other = *p;
    other.K--;
    return matmul_reference(device)->run(device, &other, a);
}

static talc_status matmul_without_residual(talc_device *device, const talc_matmul_problem *p,
                                           const talc_matmul_arguments *a)
{
    talc_matmul_problem other = *p;
    other.residual = false;
    return matmul_reference(device)->run(device, &other, a);
}

MATMUL_ROW(b_as_stored, matmul_b_as_stored);
MATMUL_ROW(first_b, matmul_of_first_b);
MATMUL_ROW(last_term, matmul_without_last);
MATMUL_ROW(no_residual, matmul_without_residual);

// ---- Reductions ---------------------------------------------------------------------------------------------

#define REDUCE_ROW(name, function)                                                                 \
    static const talc_reduce_algorithm name = {                                                    \
        { #name, ARITHMETIC }, reduce_refuses, NULL, function                                      \
    }

static const char *reduce_refuses(const talc_reduce_problem *p)
{
    (void)p;
    return NULL;
}

/* Walks the reduced elements from the last to the first. */
static talc_status reduce_backwards(talc_device *device, const talc_reduce_problem *p,
                                    const talc_reduce_arguments *a)
{
    talc_reduce_problem other = *p;
    talc_reduce_arguments from_end = *a;
    for (int i = 0; i < p->reduced_rank; i++) {
        from_end.x =
            (const char *)from_end.x +
            (size_t)((p->reduced_dims[i] - 1) * p->reduced_strides[i]) * talc_dtype_size(p->dtype);
        other.reduced_strides[i] = -p->reduced_strides[i];
    }
    const talc_status status = reduce_reference(device)->run(device, &other, &from_end);
    for (int64_t i = 0; p->function == TALC_ARGMAX && i < p->outputs; i++)
        ((int64_t *)a->y)[i] = p->K - 1 - ((int64_t *)a->y)[i];
    return status;
}

static talc_status reduce_undivided(talc_device *device, const talc_reduce_problem *p,
                                    const talc_reduce_arguments *a)
{
    talc_reduce_problem other = *p;
    if (p->function == TALC_MEAN)
        other.function = TALC_SUM;
    return reduce_reference(device)->run(device, &other, a);
}

/* The largest value, begun with 0. */
static talc_status reduce_from_zero(talc_device *device, const talc_reduce_problem *p,
                                    const talc_reduce_arguments *a)
{
    const talc_status status = reduce_reference(device)->run(device, p, a);
    for (int64_t i = 0; p->function == TALC_MAX && i < p->outputs; i++)
        if (load(p->dtype, a->y, i) < 0)
            store(p->dtype, a->y, i, 0);
    return status;
}

static talc_status reduce_in_i32(talc_device *device, const talc_reduce_problem *p,
                                 const talc_reduce_arguments *a)
{
    const talc_status status = reduce_reference(device)->run(device, p, a);
    for (int64_t i = 0; p->y_dtype == TALC_I64 && i < p->outputs; i++) {
        int32_t low;
        memcpy(&low, (const int64_t *)a->y + i, sizeof low);
        ((int64_t *)a->y)[i] = low;
    }
    return status;
}

REDUCE_ROW(last_of_equals, reduce_backwards);
REDUCE_ROW(not_divided, reduce_undivided);
REDUCE_ROW(from_zero, reduce_from_zero);
REDUCE_ROW(sum_in_i32, reduce_in_i32);

// ---- Softmax ------------------------------------------------------------------------------------------------

#define SOFTMAX_ROW(name, function)                                                                \
    static const talc_softmax_algorithm name = {                                                   \
        { #name, ARITHMETIC }, softmax_refuses, NULL, function                                     \
    }

static const char *softmax_refuses(const talc_softmax_problem *p)
{
    (void)p;
    return NULL;
}

/* Offsets of softmax `outer` in x and y. */
static void offsets(const talc_softmax_problem *p, int64_t outer, int64_t *x, int64_t *y)
{
    *x = *y = 0;
    for (int i = p->outer_rank - 1; i >= 0; i--) {
        *x += outer % p->outer_dims[i] * p->x_strides[i];
        *y += outer % p->outer_dims[i] * p->y_strides[i];
        outer /= p->outer_dims[i];
    }
}

/* exp(x) / sum of exp(x), in the data's type. */
static talc_status softmax_of_raw(talc_device *device, const talc_softmax_problem *p,
                                  const talc_softmax_arguments *a)
{
    (void)device;
    const bool single = p->dtype == TALC_F32;
    for (int64_t outer = 0; outer < p->outer; outer++) {
        int64_t x, y;
        double sum = 0;
        offsets(p, outer, &x, &y);
        for (int64_t i = 0; i < p->extent; i++) {
            const double e = exp(load(p->dtype, a->x, x + i * p->x_stride));
            store(p->dtype, a->y, y + i * p->y_stride, e);
            sum += single ? (double)(float)e : e;
        }
        for (int64_t i = 0; i < p->extent; i++) {
            const double share = load(p->dtype, a->y, y + i * p->y_stride) / sum;
            store(p->dtype, a->y, y + i * p->y_stride, p->log ? log(share) : share);
        }
    }
    return TALC_OK;
}

/* log(softmax(x)), which loses the small shares. */
static talc_status softmax_then_log(talc_device *device, const talc_softmax_problem *p,
                                    const talc_softmax_arguments *a)
{
    talc_softmax_problem other = *p;
    other.log = false;
    const talc_status status = softmax_reference(device)->run(device, &other, a);
    for (int64_t i = 0; p->log && i < p->outer * p->extent; i++)
        store(p->dtype, a->y, i, log(load(p->dtype, a->y, i)));
    return status;
}

SOFTMAX_ROW(without_max, softmax_of_raw);
SOFTMAX_ROW(log_of_softmax, softmax_then_log);

// ---- Cross entropy ------------------------------------------------------------------------------------------

#define ENTROPY_ROW(name, function)                                                                \
    static const talc_cross_entropy_algorithm name = {                                             \
        { #name, ARITHMETIC }, entropy_refuses, entropy_workspace, function                        \
    }

static const char *entropy_refuses(const talc_cross_entropy_problem *p)
{
    (void)p;
    return NULL;
}

static size_t entropy_workspace(const talc_device *device, const talc_cross_entropy_problem *p)
{
    return cross_entropy_reference((talc_device *)device)->workspace(device, p);
}

static talc_status entropy_of_all(talc_device *device, const talc_cross_entropy_problem *p,
                                  const talc_cross_entropy_arguments *a)
{
    talc_cross_entropy_problem other = *p;
    if (p->reduction == TALC_REDUCTION_MEAN)
        other.reduction = TALC_REDUCTION_SUM;
    const talc_status status = cross_entropy_reference(device)->run(device, &other, a);
    if (p->reduction == TALC_REDUCTION_MEAN)
        store(p->dtype, a->y, 0, load(p->dtype, a->y, 0) / (double)p->samples);
    return status;
}

static talc_status entropy_unsmoothed(talc_device *device, const talc_cross_entropy_problem *p,
                                      const talc_cross_entropy_arguments *a)
{
    talc_cross_entropy_problem other = *p;
    other.label_smoothing = 0;
    return cross_entropy_reference(device)->run(device, &other, a);
}

ENTROPY_ROW(divided_by_all, entropy_of_all);
ENTROPY_ROW(unsmoothed, entropy_unsmoothed);

// ---- Batch normalisation ------------------------------------------------------------------------------------

#define NORM_ROW(name, function)                                                                   \
    static const talc_batch_norm2d_algorithm name = {                                              \
        { #name, ARITHMETIC }, norm_refuses, NULL, function                                        \
    }

static const char *norm_refuses(const talc_batch_norm2d_problem *p)
{
    return p->direction == TALC_FORWARD ? NULL : "only the forward direction";
}

static talc_status norm(talc_device *device, const talc_batch_norm2d_problem *p,
                        const talc_batch_norm2d_arguments *a)
{
    return batch_norm2d_reference(device)->run(device, p, a);
}

static talc_status norm_without_eps(talc_device *device, const talc_batch_norm2d_problem *p,
                                    const talc_batch_norm2d_arguments *a)
{
    talc_batch_norm2d_problem other = *p;
    other.eps = 0;
    return norm(device, &other, a);
}

static talc_status norm_momentum_of_old(talc_device *device, const talc_batch_norm2d_problem *p,
                                        const talc_batch_norm2d_arguments *a)
{
    talc_batch_norm2d_problem other = *p;
    other.momentum = 1 - p->momentum;
    return norm(device, &other, a);
}

/* The running variance moves towards the biased one. */
static talc_status norm_biased(talc_device *device, const talc_batch_norm2d_problem *p,
                               const talc_batch_norm2d_arguments *a)
{
    const double M = (double)(p->N * p->H * p->W);
    const bool moves = p->training && a->running_var != NULL;
    double *before = malloc((size_t)p->C * sizeof *before);
    for (int64_t c = 0; moves && c < p->C; c++)
        before[c] = (1 - p->momentum) * load(p->dtype, a->running_var, c);
    const talc_status status = norm(device, p, a);
    for (int64_t c = 0; moves && c < p->C; c++) {
        const double added = load(p->dtype, a->running_var, c) - before[c];
        store(p->dtype, a->running_var, c, before[c] + added * (M - 1) / M);
    }
    free(before);
    return status;
}

/* Normalises with E[x^2] - E[x]^2 in the data's type. */
static talc_status norm_by_squares(talc_device *device, const talc_batch_norm2d_problem *p,
                                   const talc_batch_norm2d_arguments *a)
{
    const int64_t plane = p->H * p->W;
    const double M = (double)(p->N * plane);
    double mean[64], var[64]; /* of floats or doubles */
    const talc_status status = norm(device, p, a);
    if (!p->training || p->C > 64)
        return status;
    for (int64_t c = 0; c < p->C; c++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < p->N * plane; i++) {
            const double x = load(p->dtype, a->x, (i / plane * p->C + c) * plane + i % plane);
            sum += x;
            squares += x * x;
        }
        const float narrow = (float)(squares / M) - (float)(sum / M) * (float)(sum / M);
        store(p->dtype, mean, c, sum / M);
        store(p->dtype, var, c,
              p->dtype == TALC_F32 ? (double)narrow : squares / M - sum / M * (sum / M));
    }
    talc_batch_norm2d_problem given = *p;
    talc_batch_norm2d_arguments of_given = *a;
    given.training = false;
    of_given.running_mean = mean;
    of_given.running_var = var;
    return norm(device, &given, &of_given);
}

NORM_ROW(eps_forgotten, norm_without_eps);
NORM_ROW(momentum_of_old, norm_momentum_of_old);
NORM_ROW(biased_variance, norm_biased);
NORM_ROW(mean_of_squares, norm_by_squares);

// ---- All of them --------------------------------------------------------------------------------------------

const op_mutant op_mutants[] = {
    { "max pool NaN", "max pooling ignores NaN", "max_pool2d:n2c3h9w7k3x2",
      &nan_ignored.algorithm },
    { "max pool padding", "max pooling sees zeros in the padding",
      "max_pool2d:n2c3h9w7k2x2s2x2p1x1", &zero_padding.algorithm },
    { "max pool indices", "indices count column by column", "max_pool2d:n2c3h9w7k3x2_indices",
      &indices_transposed.algorithm },
    { "avg pool includes", "padding counts where it must not",
      "avg_pool2d:n2c3h9w7k3x3s2x2p1x1_exclude", &padding_counted.algorithm },
    { "avg pool excludes", "padding does not count where it must",
      "avg_pool2d:n2c3h9w7k3x3s2x2p1x1", &padding_left_out.algorithm },
    { "avg pool sides", "bottom and right are padded as top and left",
      "avg_pool2d:n2c3h9w7k3x2s2x1p0x1x2x0", &padding_alike.algorithm },
    { "avg pool divisor", "divisor_override ignored", "avg_pool2d:n2c3h9w7k3x3_divisor5",
      &divisor_ignored.algorithm },
    { "matmul transpose", "transposed b read as it is stored", "matmul:b2m5n6k7_ta_tb_bias",
      &b_as_stored.algorithm },
    { "matmul batch", "every product takes the first b", "matmul:b3m5n6k7_f64",
      &first_b.algorithm },
    { "matmul term", "the last term dropped", "matmul:b1m5n6k70_relu", &last_term.algorithm },
    { "matmul residual", "residual forgotten", "matmul:b2m5n6k7_residual", &no_residual.algorithm },
    { "argmax", "names the last of equal values", "argmax:5x40@1", &last_of_equals.algorithm },
    { "mean", "not divided", "mean:5x6x7@0,2", &not_divided.algorithm },
    { "max", "begins with 0", "max:40x3@1", &from_zero.algorithm },
    { "sum", "integers summed in 32 bits", "sum:4x50@1_i32", &sum_in_i32.algorithm },
    { "softmax", "without subtracting the largest", "softmax:7x20@1", &without_max.algorithm },
    { "log_softmax", "the logarithm of softmax", "log_softmax:7x20@0", &log_of_softmax.algorithm },
    { "cross_entropy", "the mean over ignored samples too", "cross_entropy:40x5",
      &divided_by_all.algorithm },
    { "cross_entropy e", "no smoothing", "cross_entropy:7x20_none_smooth", &unsmoothed.algorithm },
    { "batch_norm2d eps", "eps forgotten", "batch_norm2d:n3c5h4w6", &eps_forgotten.algorithm },
    { "batch_norm2d rate", "momentum weights the old value", "batch_norm2d:n3c5h4w6_train",
      &momentum_of_old.algorithm },
    { "batch_norm2d bias", "running_var from the biased variance", "batch_norm2d:n3c5h4w6_train",
      &biased_variance.algorithm },
    { "batch_norm2d var", "variance from the mean of squares", "batch_norm2d:n3c5h4w6_train",
      &mean_of_squares.algorithm },
};

const int op_mutant_count = sizeof op_mutants / sizeof *op_mutants;
