/// Matrix products, each y[M,N] = act( op(A)[M,K] op(B)[K,N] + bias[N] + residual[M,N] ), for a
/// batch of them.
///
/// `dot` is for few rows, as a linear layer has them at inference, or few outputs of long sums, and
/// a transposed B: neighbouring threads, one to 256, compute the outputs of a column in four rows,
/// with 16-byte accesses where alignment allows. Memory-bound for up to four rows; one launch.
///
/// `tensor_cores` is for large products of f32: the form `packed` (tensor_cores.cu) packs both
/// operands, `split on load` (split_on_load.cu) the smaller one alone.
///
/// `cublas` hands the longest batch dimension to cuBLAS in one call, and walks over the others; the
/// last step is a pass of its own over y.
///
/// `direct` is the textbook's tiled product: a block of 256 threads computes TILE x TILE outputs,
/// DEPTH steps of k at a time from shared memory; a thread holds SIDE x SIDE sums in registers and
/// ends them before it stores (the form `tiles`). It takes every problem, and needs no library. Of
/// the form `small tiles` a block shares the reduction of a smaller tile (small.cuh): for few
/// outputs.
///
/// Arithmetic of all: the data's type, each output's sum in a fixed order.
#include "backends/cuda/primitives/algorithm.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/device/blas.h"
#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/matmul/estimate.h"
#include "backends/cuda/matmul/forms.h"
#include "backends/cuda/matmul/small.cuh"
#include "ops/matmul.h"

#include <cmath>

using namespace talc;

// ---- dot ----------------------------------------------------------------------------------------

/* More rows are faster with tiles. */
constexpr int64_t MAX_ROWS = 128;
/* Threads of a block whose columns take fewer: small, so that few outputs go to many
 * multiprocessors. */
constexpr int MIN_BLOCK = 64;

template <typename T, int ROWS> struct dot_sums {
    accumulator_of<T> of[ROWS];

    __device__ void join(const dot_sums &other)
    {
#pragma unroll
        for (int m = 0; m < ROWS; m++)
            of[m] += other.of[m];
    }
};

struct dot_shape {
    int64_t M, N, K, lda, ldb, batch;
};

/* The threads of a column are a row of the block, a power of two: thread t takes vectors t, t +
 * threads, ... of COUNT steps of k, then the steps after the last whole vector; their sums are
 * added as a tree. Loads come before the products that they feed, so that a thread waits once for
 * AHEAD vectors, and each load of B serves ROWS rows of A. */
template <typename T, int COUNT, int ROWS>
static __global__ void __launch_bounds__(BLOCK)
    dot_kernel(T *y, const T *a, const T *b, const epilogue<T> last, const dot_shape s,
               const strided_index<2, uint64_t> products)
{
    using vector = vec<T, COUNT>;
    using sum_type = accumulator_of<T>;
    constexpr int AHEAD = ROWS == 1 ? 4 : 2;
    __shared__ dot_sums<T, ROWS> shared[BLOCK / WARP];
    const int t = (int)threadIdx.x, threads = (int)blockDim.x;
    const int64_t n = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const int64_t m0 = (int64_t)blockIdx.y * ROWS, vectors = s.K / COUNT;
    const int rows = ROWS == 1 ? 1 : (int)min(s.M - m0, (int64_t)ROWS);
    for (int64_t product = blockIdx.z; product < s.batch; product += gridDim.z) {
        int64_t at[2];
        products.offsets((uint64_t)product, at);
        const T *left = a + at[0] + m0 * s.lda, *right = b + at[1] + n * s.ldb;
        /* Threads beyond the last column take part in the barriers. */
        const int64_t whole = n < s.N ? vectors : 0, end = n < s.N ? s.K : 0;
        dot_sums<T, ROWS> sum = {};
#pragma unroll 1
        for (int64_t i = t; i < whole; i += AHEAD * threads) {
            vector steps[AHEAD], row[AHEAD][ROWS];
#pragma unroll
            for (int v = 0; v < AHEAD; v++) {
                const int64_t here = i + v * threads;
                if (here < whole)
                    steps[v] = ((const vector *)right)[here];
#pragma unroll
                for (int m = 0; m < ROWS; m++)
                    if (here < whole && m < rows)
                        row[v][m] = ((const vector *)(left + m * s.lda))[here];
            }
#pragma unroll
            for (int v = 0; v < AHEAD; v++)
#pragma unroll
                for (int m = 0; m < ROWS; m++)
                    if (i + v * threads < whole && m < rows)
#pragma unroll
                        for (int e = 0; e < COUNT; e++)
                            sum.of[m] += (sum_type)row[v][m].of[e] * (sum_type)steps[v].of[e];
        }
#pragma unroll 1
        for (int64_t k = vectors * COUNT + t; k < end; k += threads)
#pragma unroll
            for (int m = 0; m < ROWS; m++)
                if (m < rows)
                    sum.of[m] += (sum_type)left[m * s.lda + k] * (sum_type)right[k];
        sum = join_group(sum, threads, shared);
        /* The tree leaves the sums in all lanes of a column's first warp. */
        for (int m = t; m < rows && n < s.N; m += threads) {
            sum_type own = sum.of[0];
#pragma unroll
            for (int other = 1; other < ROWS; other++)
                own = m == other ? sum.of[other] : own;
            const int64_t out = (product * s.M + m0 + m) * s.N + n;
            y[out] = talc_epilogue(last, own, n, out);
        }
    }
}

/* Whether all rows of a batch of matrices are aligned to 16 bytes. */
static bool is_aligned(const talc_matmul_problem *p, const void *data, int64_t ld,
                       const int64_t strides[TALC_MAX_RANK])
{
    const int64_t count = 16 / (int64_t)talc_dtype_size(p->dtype);
    bool aligned = (uintptr_t)data % 16 == 0 && ld % count == 0;
    for (int i = 0; i < p->batch_rank; i++)
        aligned = aligned && strides[i] % count == 0;
    return aligned;
}

template <typename T, int ROWS>
static void dot(talc_device *device, const talc_matmul_problem *p,
                const talc_matmul_arguments *arguments)
{
    constexpr int WIDE = VECTOR_WIDTH<T>;
    /* Long sums need many threads, short ones a short reduction over threads. */
    int threads = p->K >= 4096 ? 256 : p->K >= 1024 ? 128 : 64;
    while (threads > 1 && p->K < 4 * threads)
        threads /= 2;
    const dot_shape s = { p->M, p->N, p->K, p->lda, p->ldb, p->batch };
    const strided_index<2, uint64_t> products(p->batch_rank, p->batch_dims,
                                              { p->a_strides, p->b_strides });
    const epilogue<T> last(arguments->bias, arguments->residual, p->activation);
    const dim3 block((unsigned)threads, threads < MIN_BLOCK ? MIN_BLOCK / threads : 1);
    const dim3 grid((unsigned)talc_ceil_div(p->N, block.y), (unsigned)talc_ceil_div(p->M, ROWS),
                    (unsigned)(p->batch < 65535 ? p->batch : 65535));
    const cudaStream_t stream = talc_cuda_stream(device);
    T *y = (T *)arguments->y;
    const T *a = (const T *)arguments->a, *b = (const T *)arguments->b;
    if (is_aligned(p, a, p->M > 1 ? p->lda : 0, p->a_strides) &&
        is_aligned(p, b, p->ldb, p->b_strides))
        dot_kernel<T, WIDE, ROWS><<<grid, block, 0, stream>>>(y, a, b, last, s, products);
    else
        dot_kernel<T, 1, ROWS><<<grid, block, 0, stream>>>(y, a, b, last, s, products);
}

const char *talc_cuda_matmul_dot_plan(const talc_device *, const talc_matmul_problem *p, size_t,
                                      talc_plan *plan)
{
    if (p->M > MAX_ROWS)
        return "M is more than 128";
    if (p->transpose_a)
        return "A is transposed";
    if (!p->transpose_b)
        return "B is not transposed";
    if (p->N > INT_MAX)
        return "N is more than 2^31 - 1";
    plan->seconds = talc_cuda_matmul_dot_seconds(p);
    return NULL;
}

talc_status talc_cuda_matmul_dot_run(talc_device *device, const talc_matmul_problem *p,
                                     const talc_plan *, const talc_matmul_arguments *arguments)
{
    return with_float(p->dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        if (p->M == 1)
            dot<T, 1>(device, p, arguments);
        else
            dot<T, 4>(device, p, arguments);
        return talc_cuda_launched(device, "matmul");
    });
}

// ---- cublas -------------------------------------------------------------------------------------

static const char *plan_cublas(const talc_device *device, const talc_matmul_problem *p, size_t,
                               talc_plan *plan)
{
    plan->seconds = talc_cuda_matmul_cublas_seconds(device, p);
    plan->missing = talc_cuda_blas_refuses;
    return NULL;
}

static const char *plan_cublas_tf32(const talc_device *device, const talc_matmul_problem *p, size_t,
                                    talc_plan *plan)
{
    plan->seconds = talc_cuda_matmul_tf32_seconds(p);
    plan->missing = talc_cuda_blas_refuses;
    return talc_cuda_blas_refuses_tf32(device, p->dtype);
}

/* The batch dimension with the most products; -1 for a single product. */
static int longest(const talc_matmul_problem *p)
{
    int at = p->batch_rank - 1;
    for (int i = 0; i < p->batch_rank; i++)
        if (p->batch_dims[i] > p->batch_dims[at])
            at = i;
    return at;
}

/* y's strides follow from its layout: matrices without gaps, last batch dimension fastest. */
static void y_strides(const talc_matmul_problem *p, int64_t strides[TALC_MAX_RANK])
{
    int64_t stride = p->M * p->N;
    for (int i = p->batch_rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= p->batch_dims[i];
    }
}

/* Matrices that share B and follow each other row after row are one tall matrix. */
static void stack(talc_cuda_product *product)
{
    if (product->b_stride == 0 && !product->transpose_a &&
        product->a_stride == product->M * product->lda) {
        product->M *= product->batch;
        product->batch = 1;
    }
}

static talc_status cublas_products(talc_device *device, const talc_matmul_problem *p, bool tf32,
                                   const talc_matmul_arguments *arguments)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const int inner = longest(p);
    int64_t strides[TALC_MAX_RANK];
    y_strides(p, strides);
    const int64_t batch = inner < 0 ? 1 : p->batch_dims[inner];
    for (int64_t outer = 0; outer < p->batch / batch; outer++) {
        int64_t rest = outer, a = 0, b = 0, y = 0;
        for (int i = p->batch_rank - 1; i >= 0; i--) {
            if (i == inner)
                continue;
            const int64_t digit = rest % p->batch_dims[i];
            rest /= p->batch_dims[i];
            a += digit * p->a_strides[i];
            b += digit * p->b_strides[i];
            y += digit * strides[i];
        }
        talc_cuda_product product = {};
        product.dtype = p->dtype;
        product.tf32 = tf32;
        product.M = p->M;
        product.N = p->N;
        product.K = p->K;
        product.a = (const char *)arguments->a + a * size;
        product.b = (const char *)arguments->b + b * size;
        product.c = (char *)arguments->y + y * size;
        product.lda = p->lda;
        product.ldb = p->ldb;
        product.ldc = p->N;
        product.transpose_a = p->transpose_a;
        product.transpose_b = p->transpose_b;
        product.batch = batch;
        product.a_stride = inner < 0 ? 0 : p->a_strides[inner];
        product.b_stride = inner < 0 ? 0 : p->b_strides[inner];
        product.c_stride = inner < 0 ? 0 : strides[inner];
        if (inner >= 0 && product.c_stride == p->M * p->N)
            stack(&product);
        const talc_status status = talc_cuda_multiply(device, "matmul", &product);
        if (status != TALC_OK)
            return status;
    }
    return TALC_OK;
}

template <typename T>
static void end_products(talc_device *device, const talc_matmul_problem *p,
                         const talc_matmul_arguments *arguments)
{
    const epilogue<T> last(arguments->bias, arguments->residual, p->activation);
    epilogue_in_place<T>(device, last, (T *)arguments->y, 1, p->N, p->batch * p->M * p->N);
}

template <bool TF32>
static talc_status cublas_run(talc_device *device, const talc_matmul_problem *p, const talc_plan *,
                              const talc_matmul_arguments *arguments)
{
    talc_status status = TALC_OK;
    if (p->K > 0)
        status = cublas_products(device, p, TF32, arguments);
    else
        status = talc_cuda_status(
            device, "matmul",
            cudaMemsetAsync(arguments->y, 0,
                            (size_t)(p->batch * p->M * p->N) * talc_dtype_size(p->dtype),
                            talc_cuda_stream(device)));
    if (status != TALC_OK)
        return status;
    return with_float(p->dtype, [&](auto element) {
        end_products<typename decltype(element)::type>(device, p, arguments);
        return talc_cuda_launched(device, "matmul");
    });
}

// ---- direct -------------------------------------------------------------------------------------

constexpr int TILE = 64, DEPTH = 16, ACROSS = 16, SIDE = TILE / ACROSS;

static_assert(ACROSS * ACROSS == BLOCK, "a thread for each SIDE x SIDE outputs of the tile");

/* Element (m, k) of a stored matrix is at m * lda + k, or k * lda + m when it is transposed. */
struct shape {
    int64_t M, N, K, lda, ldb;
    int64_t n_tiles, tiles, batch;
    bool transpose_a, transpose_b;
};

/* TILE rows from `first` on and DEPTH steps from `k` on, zeros outside: steps beyond K add 0 * 0 to
 * a sum, and what rows beyond the last one give is not stored. Rows are `ld` apart, along k, or
 * steps are. Neighbouring threads take neighbouring elements (coalescing). A column of padding
 * avoids bank conflicts. */
template <typename T>
__device__ void load_tile(T (&tile)[DEPTH][TILE + 1], const T *data, bool along_k, int64_t ld,
                          int64_t first, int64_t rows, int64_t k, int64_t K)
{
#pragma unroll
    for (int i = 0; i < TILE * DEPTH / BLOCK; i++) {
        const int element = (int)threadIdx.x + i * BLOCK;
        const int row = along_k ? element / DEPTH : element % TILE,
                  step = along_k ? element % DEPTH : element / TILE;
        const int64_t at_row = first + row, at_k = k + step;
        const bool inside = at_row < rows && at_k < K;
        tile[step][row] = inside ? data[along_k ? at_row * ld + at_k : at_k * ld + at_row] : (T)0;
    }
}

template <typename T>
static __global__ void __launch_bounds__(BLOCK)
    direct_kernel(T *y, const T *a, const T *b, const epilogue<T> last, const shape s,
                  const strided_index<2, uint64_t> products)
{
    __shared__ T a_tile[DEPTH][TILE + 1], b_tile[DEPTH][TILE + 1];
    const int down = (int)threadIdx.x / ACROSS, across = (int)threadIdx.x % ACROSS;
    for (int64_t product = blockIdx.z; product < s.batch; product += gridDim.z)
        for (int64_t tile = blockIdx.x; tile < s.tiles; tile += gridDim.x) {
            const int64_t m = tile / s.n_tiles * TILE, n = tile % s.n_tiles * TILE;
            int64_t at[2];
            products.offsets((uint64_t)product, at);
            accumulator_of<T> sums[SIDE * SIDE] = {};
            for (int64_t k = 0; k < s.K; k += DEPTH) {
                load_tile(a_tile, a + at[0], !s.transpose_a, s.lda, m, s.M, k, s.K);
                load_tile(b_tile, b + at[1], s.transpose_b, s.ldb, n, s.N, k, s.K);
                __syncthreads();
#pragma unroll
                for (int step = 0; step < DEPTH; step++) {
                    accumulator_of<T> left[SIDE], right[SIDE];
#pragma unroll
                    for (int i = 0; i < SIDE; i++) {
                        left[i] = a_tile[step][down + i * ACROSS];
                        right[i] = b_tile[step][across + i * ACROSS];
                    }
#pragma unroll
                    for (int i = 0; i < SIDE; i++)
#pragma unroll
                        for (int j = 0; j < SIDE; j++)
                            sums[i * SIDE + j] += left[i] * right[j];
                }
                __syncthreads();
            }
            /* Calls use(sum, column, offset in y) for each output that exists. */
            auto each = [&](auto use) {
#pragma unroll
                for (int i = 0; i < SIDE * SIDE; i++) {
                    const int64_t row = m + down + i / SIDE * ACROSS,
                                  column = n + across + i % SIDE * ACROSS;
                    if (row < s.M && column < s.N)
                        use(sums[i], column, (product * s.M + row) * s.N + column);
                }
            };
            if (last.bias != nullptr)
                each([&](auto &sum, int64_t column, int64_t) { sum += last.bias[column]; });
            if (last.residual != nullptr)
                each([&](auto &sum, int64_t, int64_t out) { sum += last.residual[out]; });
            activate_all(last.activation, sums);
            each([&](auto &sum, int64_t, int64_t out) { y[out] = (T)sum; });
        }
}

template <typename T>
static void direct(talc_device *device, const talc_matmul_problem *p,
                   const talc_matmul_arguments *arguments)
{
    const int64_t n_tiles = talc_ceil_div(p->N, TILE);
    const shape s = { p->M,
                      p->N,
                      p->K,
                      p->lda,
                      p->ldb,
                      n_tiles,
                      talc_ceil_div(p->M, TILE) * n_tiles,
                      p->batch,
                      p->transpose_a,
                      p->transpose_b };
    const strided_index<2, uint64_t> products(p->batch_rank, p->batch_dims,
                                              { p->a_strides, p->b_strides });
    const dim3 grid((unsigned)(s.tiles < INT_MAX ? s.tiles : INT_MAX), 1,
                    (unsigned)(s.batch < 65535 ? s.batch : 65535));
    const epilogue<T> last(arguments->bias, arguments->residual, p->activation);
    direct_kernel<T><<<grid, BLOCK, 0, talc_cuda_stream(device)>>>(
        (T *)arguments->y, (const T *)arguments->a, (const T *)arguments->b, last, s, products);
}

template <typename T>
static void small_tiles(talc_device *device, const talc_matmul_problem *p,
                        const talc_matmul_arguments *arguments)
{
    const small::problem<T> s = { { (const T *)arguments->a, p->M, p->lda,
                                    is_aligned(p, arguments->a, p->lda, p->a_strides) },
                                  { (const T *)arguments->b, p->N, p->ldb,
                                    is_aligned(p, arguments->b, p->ldb, p->b_strides) },
                                  (T *)arguments->y,
                                  epilogue<T>(arguments->bias, arguments->residual, p->activation),
                                  false,
                                  p->K,
                                  p->batch };
    const strided_index<2, uint64_t> products(p->batch_rank, p->batch_dims,
                                              { p->a_strides, p->b_strides });
    if (p->transpose_a && p->transpose_b)
        small::run<T, false, true>(device, s, products);
    else if (p->transpose_a)
        small::run<T, false, false>(device, s, products);
    else if (p->transpose_b)
        small::run<T, true, true>(device, s, products);
    else
        small::run<T, true, false>(device, s, products);
}

const char *talc_cuda_matmul_tiles_plan(const talc_device *, const talc_matmul_problem *p, size_t,
                                        talc_plan *plan)
{
    plan->seconds = talc_cuda_matmul_direct_seconds(p);
    return NULL;
}

talc_status talc_cuda_matmul_tiles_run(talc_device *device, const talc_matmul_problem *p,
                                       const talc_plan *, const talc_matmul_arguments *arguments)
{
    return with_float(p->dtype, [&](auto element) {
        direct<typename decltype(element)::type>(device, p, arguments);
        return talc_cuda_launched(device, "matmul");
    });
}

const char *talc_cuda_matmul_small_tiles_plan(const talc_device *device,
                                              const talc_matmul_problem *p, size_t, talc_plan *plan)
{
    /* Of 80 batched products on an H200. */
    constexpr double BATCHED = 1.2;
    return with_f32(p->dtype, [&](auto) -> const char * {
        plan->seconds = small::seconds(device, p->dtype, p->M, p->N, p->K, p->batch) *
                        (p->batch > 1 ? BATCHED : 1);
        return plan->seconds < INFINITY ? NULL : small::TOO_MANY;
    });
}

talc_status talc_cuda_matmul_small_tiles_run(talc_device *device, const talc_matmul_problem *p,
                                             const talc_plan *,
                                             const talc_matmul_arguments *arguments)
{
    return with_f32(p->dtype, [&](auto element) {
        small_tiles<typename decltype(element)::type>(device, p, arguments);
        return talc_cuda_launched(device, "matmul");
    });
}

/// Each estimates (estimate.h); the one of the least estimate runs.
const talc_algorithm talc_cuda_matmul[] = {
    talc_cuda_algorithm<talc_cuda_matmul_dot_plan, talc_cuda_matmul_dot_run>(
        "dot", { "the data's own type, FMA", TALC_STRICT, false }),
    talc_cuda_algorithm<talc_cuda_matmul_tensor_cores_plan, talc_cuda_matmul_tensor_cores_run>(
        "tensor_cores",
        { "halves in three products on tensor cores, sums in f32", TALC_STRICT, false }, "packed"),
    talc_cuda_algorithm<talc_cuda_matmul_split_on_load_plan, talc_cuda_matmul_split_on_load_run>(
        "tensor_cores",
        { "halves in three products on tensor cores, sums in f32", TALC_STRICT, false },
        "split on load"),
    talc_cuda_algorithm<plan_cublas, cublas_run<false>>(
        "cublas", { "the data's own type by cuBLAS, FMA", TALC_STRICT, false }),
    talc_cuda_algorithm<plan_cublas_tf32, cublas_run<true>>(
        "cublas", { "TF32 by cuBLAS on tensor cores, f32 sums", TALC_TF32, false }),
    talc_cuda_algorithm<talc_cuda_matmul_small_tiles_plan, talc_cuda_matmul_small_tiles_run>(
        "direct", { "the data's own type, FMA", TALC_STRICT, false }, "small tiles"),
    talc_cuda_algorithm<talc_cuda_matmul_tiles_plan, talc_cuda_matmul_tiles_run>(
        "direct", { "the data's own type, FMA", TALC_STRICT, false }, "tiles"),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
