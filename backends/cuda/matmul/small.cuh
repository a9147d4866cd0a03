/// Small matrix products by FMA, as layers of small networks have them: what takes time is waiting for loads and sums, so outputs are cut
/// into many small tiles, and the reduction of each is shared by the warps of a block. Included by matmul.cu.
///
///     a thread    4 x 4 sums
///     a warp      the whole tile, 16 x 32, of every 8th step of k
///     a block     8 warps, whose sums are added in their order
#ifndef TALC_BACKENDS_CUDA_MATMUL_SMALL_CUH
#define TALC_BACKENDS_CUDA_MATMUL_SMALL_CUH

#include "backends/cuda/conv2d/epilogue.cuh"
#include "backends/cuda/device/estimate.h"
#include "ops/matmul.h"

namespace talc
{

namespace small
{

constexpr int DOWN = 16, ACROSS = 32, SIDE = 4, WARPS = BLOCK / WARP;
/* Steps of k in shared memory. */
template <typename T> constexpr int STEPS = 512 / (int)sizeof(T);
/* Rows in shared memory are longer than the tile, so that writing along k has few bank conflicts. */
constexpr int PITCH_A = DOWN + SIDE, PITCH_B = ACROSS + SIDE;

template <typename T> struct operand {
    const T *from;
    int64_t rows, step, k_step; ///< step: from row to row, of B from column to column
};

template <typename T> struct problem {
    operand<T> a, b;
    T *y;
    epilogue<T> last;
    int64_t K, batch;
    int64_t n_tiles;
};

/* `to` [k][row]: zeros outside. Neighbouring threads take neighbouring elements. */
template <typename T, int ROWS, int PITCH>
static __device__ __forceinline__ void load(const operand<T> &o, const T *from, int64_t first,
                                            int64_t k, int64_t K, T *to)
{
    const bool along_k = o.k_step == 1;
#pragma unroll
    for (int i = 0; i < ROWS * STEPS<T> / BLOCK; i++) {
        const int e = (int)threadIdx.x + i * BLOCK;
        const int row = along_k ? e / STEPS<T> : e % ROWS, step = along_k ? e % STEPS<T> : e / ROWS;
        const bool inside = first + row < o.rows && k + step < K;
        to[step * PITCH + row] =
            inside ? __ldg(from + (first + row) * o.step + (k + step) * o.k_step) : (T)0;
    }
}

template <typename T>
static __global__ void __launch_bounds__(BLOCK, 2)
    multiply(const __grid_constant__ problem<T> p, const strided_index<2, uint64_t> products)
{
    using sum_type = accumulator_of<T>;
    constexpr int V = SIDE, PART = DOWN * ACROSS;
    constexpr int LOADED = STEPS<T> * (PITCH_A + PITCH_B) * (int)sizeof(T),
                  ADDED = WARPS * PART * (int)sizeof(sum_type);
    __shared__ __align__(16) unsigned char shared[LOADED > ADDED ? LOADED : ADDED];
    T *const a = (T *)shared, *const b = a + STEPS<T> * PITCH_A;
    sum_type *const parts = (sum_type *)shared;
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int down = lane / (ACROSS / SIDE) * SIDE, across = lane % (ACROSS / SIDE) * SIDE;
    const int64_t m = blockIdx.x / p.n_tiles * DOWN, n = blockIdx.x % p.n_tiles * ACROSS;
    for (int64_t product = blockIdx.z; product < p.batch; product += gridDim.z) {
        int64_t at[2];
        products.offsets((uint64_t)product, at);
        sum_type sums[SIDE][SIDE] = {};
        for (int64_t k = 0; k < p.K; k += STEPS<T>) {
            __syncthreads();
            load<T, DOWN, PITCH_A>(p.a, p.a.from + at[0], m, k, p.K, a);
            load<T, ACROSS, PITCH_B>(p.b, p.b.from + at[1], n, k, p.K, b);
            __syncthreads();
            const int steps = (int)min((int64_t)STEPS<T>, p.K - k);
#pragma unroll 4
            for (int step = warp; step < steps; step += WARPS) {
                const vec<T, V> left = *(const vec<T, V> *)(a + step * PITCH_A + down),
                                right = *(const vec<T, V> *)(b + step * PITCH_B + across);
#pragma unroll
                for (int i = 0; i < SIDE; i++)
#pragma unroll
                    for (int j = 0; j < SIDE; j++)
                        sums[i][j] += (sum_type)left.of[i] * (sum_type)right.of[j];
            }
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < SIDE; i++)
#pragma unroll
            for (int j = 0; j < SIDE; j++)
                parts[warp * PART + (down + i) * ACROSS + across + j] = sums[i][j];
        __syncthreads();
        for (int e = (int)threadIdx.x; e < PART; e += BLOCK) {
            const int64_t row = m + e / ACROSS, column = n + e % ACROSS;
            if (row >= p.a.rows || column >= p.b.rows)
                continue;
            sum_type sum = parts[e];
#pragma unroll
            for (int w = 1; w < WARPS; w++)
                sum += parts[w * PART + e];
            const int64_t out = (product * p.a.rows + row) * p.b.rows + column;
            p.y[out] = talc_epilogue(p.last, sum, column, out);
        }
    }
}

inline int64_t tiles_of(const talc_matmul_problem *p)
{
    return talc_ceil_div(p->M, DOWN) * talc_ceil_div(p->N, ACROSS);
}

/* As measured on an H200: steps in shared memory cost waiting, whoever shares the multiprocessor; what does not fit the second-level cache comes
 * slowly. INFINITY: the tiles are too many. */
inline double seconds(const talc_device *device, const talc_matmul_problem *p)
{
    constexpr double EACH = 2.1e-6, RESIDENT = 2, MEMORY = 1.1e12;
    const double tiles = (double)tiles_of(p) * (double)p->batch, K = (double)p->K;
    const int64_t chunks = talc_ceil_div(p->K, 512 / (int64_t)talc_dtype_size(p->dtype));
    if (tiles > INT_MAX)
        return INFINITY;
    const double read =
        (double)p->batch * ((double)p->M + (double)p->N) * K * (double)talc_dtype_size(p->dtype);
    return TALC_CUDA_LAUNCH + read / MEMORY +
           (double)chunks * EACH *
               ceil(tiles / RESIDENT / talc_cuda_state_of(device)->multiprocessors);
}

template <typename T>
static void run(talc_device *device, const talc_matmul_problem *p,
                const talc_matmul_arguments *arguments)
{
    const problem<T> s = {
        { (const T *)arguments->a, p->M, p->transpose_a ? 1 : p->lda, p->transpose_a ? p->lda : 1 },
        { (const T *)arguments->b, p->N, p->transpose_b ? p->ldb : 1, p->transpose_b ? 1 : p->ldb },
        (T *)arguments->y,
        epilogue<T>(arguments->bias, arguments->residual, p->activation),
        p->K,
        p->batch,
        talc_ceil_div(p->N, ACROSS)
    };
    const strided_index<2, uint64_t> products(p->batch_rank, p->batch_dims,
                                              { p->a_strides, p->b_strides });
    const dim3 grid((unsigned)tiles_of(p), 1, (unsigned)(p->batch < 65535 ? p->batch : 65535));
    multiply<T><<<grid, BLOCK, 0, talc_cuda_stream(device)>>>(s, products);
}

} // namespace small

} // namespace talc

#endif
