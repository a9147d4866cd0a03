/// Small matrix products by FMA, as layers of small networks and of single images have them: what
/// takes time is waiting for loads and sums, so outputs are cut into many small tiles, and the
/// reduction of each is shared by the warps of a block. Included by matmul.cu and by 1x1
/// convolutions, whose products have a bias by row.
///
///     a thread    4 x 4 sums
///     a warp      the whole tile, 16 x 32, of the K tiles that are its own: w, w + 8, ...
///     a block     8 warps, whose sums are added in their order
///
/// A warp has its own ring of K tiles in shared memory, which asynchronous copies fill: it waits
/// for no other warp until the end.
#ifndef TALC_BACKENDS_CUDA_MATMUL_SMALL_CUH
#define TALC_BACKENDS_CUDA_MATMUL_SMALL_CUH

#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/primitives/shared_copy.cuh"
#include "ops/matmul.h"

namespace talc
{

namespace small
{

constexpr int DOWN = 16, ACROSS = 32, SIDE = 4, WARPS = BLOCK / WARP;
/* K tiles that a warp has in flight: as many as a block of any GPU has shared memory for. */
constexpr int STAGES = 3;
/* Longer than the tile, so that the stores of a warp's sums have no bank conflicts. */
constexpr int SUMS_PITCH = ACROSS + 1;
/* Elements of 16 bytes, and steps of k in a K tile. */
template <typename T> constexpr int VECTOR = VECTOR_BYTES / (int)sizeof(T);
template <typename T> constexpr int TILE_K = 64 / (int)sizeof(T);

/* Element (row, k) is from[row * ld + k] or, where rows are neighbours, from[k * ld + row]. */
template <typename T> struct operand {
    const T *from;
    int64_t rows, ld;
    bool is_aligned; ///< all of its lines are, to 16 bytes
};

template <typename T> struct problem {
    operand<T> a, b; ///< b's rows are the columns of y
    T *y;
    epilogue<T> last;
    bool bias_by_row;
    int64_t K, batch;
    int64_t n_tiles = 0;
    int stages = 0;
};

/* A K tile of ROWS rows in shared memory: [row][k], or [k][row] as it comes. */
template <typename T, int ROWS, bool ALONG_K> struct k_tile {
    static constexpr int V = VECTOR<T>, LINES = ALONG_K ? ROWS : TILE_K<T>,
                         LENGTH = ALONG_K ? TILE_K<T> : ROWS;
    /* 16 bytes longer along k, so that vectors of neighbouring rows lie in different banks. */
    static constexpr int PITCH = LENGTH + (ALONG_K ? V : 0), ELEMENTS = LINES * PITCH;

    /* Zeros outside. A lane has the same place in some of the lines. */
    template <int COUNT>
    static __device__ __forceinline__ void copy(const operand<T> &o, const T *from, int64_t first,
                                                int64_t k, int64_t K, T *to, int lane)
    {
        constexpr int LANES = LENGTH / COUNT, STRIDE = WARP / LANES;
        const int line = lane / LANES, at = lane % LANES * COUNT;
        const int64_t rows = o.rows - first, steps = K - k;
        const int lines = (int)min(ALONG_K ? rows : steps, (int64_t)LINES) - line;
        const int live = (int)max((int64_t)0, min((ALONG_K ? steps : rows) - at, (int64_t)COUNT));
        const T *next =
            from + (ALONG_K ? (first + line) * o.ld + k : (k + line) * o.ld + first) + at;
        const int64_t lines_step = STRIDE * o.ld;
        to += line * PITCH + at;
#pragma unroll
        for (int i = 0; i < LINES / STRIDE; i++, next += lines_step, to += STRIDE * PITCH) {
            const int here = i * STRIDE < lines ? live : 0;
            begin_copy<COUNT * sizeof(T)>(to, here > 0 ? next : from, here * (int)sizeof(T));
        }
    }

    static __device__ __forceinline__ void load(const operand<T> &o, const T *from, int64_t first,
                                                int64_t k, int64_t K, T *to, int lane)
    {
        if (o.is_aligned)
            copy<V>(o, from, first, k, K, to, lane);
        else
            copy<1>(o, from, first, k, K, to, lane);
    }

    /* The j-th row of a thread that is `thread_row` among those of its row or column of threads. */
    static __device__ __forceinline__ int row(int thread_row, int j)
    {
        return ALONG_K ? thread_row + j * (ROWS / SIDE) : thread_row * SIDE + j;
    }

    /* Of its rows, V steps from k on. */
    static __device__ __forceinline__ void read(const T *from, int thread_row, int k,
                                                T (&to)[SIDE][V])
    {
        if constexpr (ALONG_K) {
#pragma unroll
            for (int j = 0; j < SIDE; j++)
                *(vec<T, V> *)to[j] = *(const vec<T, V> *)(from + row(thread_row, j) * PITCH + k);
        } else {
#pragma unroll
            for (int step = 0; step < V; step++)
#pragma unroll
                for (int j = 0; j < SIDE; j += V) {
                    const vec<T, V> some =
                        *(const vec<T, V> *)(from + (k + step) * PITCH + row(thread_row, j));
#pragma unroll
                    for (int e = 0; e < V; e++)
                        to[j + e][step] = some.of[e];
                }
        }
    }
};

template <typename T, bool A_ALONG_K, bool B_ALONG_K>
static __global__ void __launch_bounds__(BLOCK, sizeof(T) == 4 ? 2 : 1)
    multiply(const __grid_constant__ problem<T> p, const strided_index<2, uint64_t> products)
{
    using sum_type = accumulator_of<T>;
    using a_tile = k_tile<T, DOWN, A_ALONG_K>;
    using b_tile = k_tile<T, ACROSS, B_ALONG_K>;
    constexpr int V = VECTOR<T>, STAGE = a_tile::ELEMENTS + b_tile::ELEMENTS;
    extern __shared__ __align__(16) unsigned char shared[];
    sum_type *const warp_sums = (sum_type *)shared; /* [WARPS][DOWN][SUMS_PITCH] */
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int down = lane / (ACROSS / SIDE), across = lane % (ACROSS / SIDE);
    const int64_t m = blockIdx.x / p.n_tiles * DOWN, n = blockIdx.x % p.n_tiles * ACROSS;
    T *const ring = (T *)shared + warp * p.stages * STAGE;
    for (int64_t product = blockIdx.z; product < p.batch; product += gridDim.z) {
        int64_t at[2];
        products.offsets((uint64_t)product, at);
        const auto load = [&](int64_t k, int stage) {
            T *const to = ring + stage * STAGE;
            if (k < p.K) {
                a_tile::load(p.a, p.a.from + at[0], m, k, p.K, to, lane);
                b_tile::load(p.b, p.b.from + at[1], n, k, p.K, to + a_tile::ELEMENTS, lane);
            }
            __pipeline_commit();
        };
        constexpr int64_t STRIDE = WARPS * TILE_K<T>, AHEAD = (STAGES - 1) * STRIDE;
        sum_type sums[SIDE][SIDE] = {};
        int fill = 0, stage = 0;
        for (int64_t k = warp * TILE_K<T> - AHEAD; k < p.K; k += STRIDE) {
            load(k + AHEAD, fill);
            fill = fill + 1 == p.stages ? 0 : fill + 1;
            if (k < 0)
                continue; /* the ring is being filled */
            __pipeline_wait_prior(STAGES - 1);
            __syncwarp();
            const T *const a = ring + stage * STAGE, *const b = a + a_tile::ELEMENTS;
            stage = stage + 1 == p.stages ? 0 : stage + 1;
#pragma unroll 2
            for (int step = 0; step < TILE_K<T>; step += V) {
                T left[SIDE][V], right[SIDE][V];
                a_tile::read(a, down, step, left);
                b_tile::read(b, across, step, right);
#pragma unroll
                for (int s = 0; s < V; s++)
#pragma unroll
                    for (int i = 0; i < SIDE; i++)
#pragma unroll
                        for (int j = 0; j < SIDE; j++)
                            sums[i][j] += (sum_type)left[i][s] * (sum_type)right[j][s];
            }
            __syncwarp(); /* the stage may be filled again */
        }
        __pipeline_wait_prior(0);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < SIDE; i++)
#pragma unroll
            for (int j = 0; j < SIDE; j++)
                warp_sums[(warp * DOWN + a_tile::row(down, i)) * SUMS_PITCH +
                          b_tile::row(across, j)] = sums[i][j];
        __syncthreads();
        for (int e = (int)threadIdx.x; e < DOWN * ACROSS; e += BLOCK) {
            const int64_t row = m + e / ACROSS, column = n + e % ACROSS;
            if (row >= p.a.rows || column >= p.b.rows)
                continue;
            const sum_type *warp_sum = warp_sums + e / ACROSS * SUMS_PITCH + e % ACROSS;
            sum_type sum = *warp_sum;
#pragma unroll
            for (int w = 1; w < WARPS; w++)
                sum += warp_sum[w * DOWN * SUMS_PITCH];
            const int64_t out = (product * p.a.rows + row) * p.b.rows + column;
            p.y[out] = talc_epilogue(p.last, sum, p.bias_by_row ? row : column, out);
        }
        __syncthreads();
    }
}

/* Why there are no tiles of a product. */
constexpr const char *TOO_MANY = "there are more than 2^31 - 1 tiles";

/* As measured on an H200, within 15 % of 16 products of 1x1 convolutions: the tiles of a
 * multiprocessor come one after the other, each with its steps of k and what the sums of its warps
 * wait for. Operands that the L2 cache does not hold come slowly. INFINITY: the tiles are too
 * many. */
inline double seconds(const talc_device *device, talc_dtype dtype, int64_t rows, int64_t columns,
                      int64_t K, int64_t batch)
{
    constexpr double STEP = 5.2e-9, TILE = 0.6e-6, WAITS = 1e-6, MEMORY = 1.1e12;
    const double tiles = (double)talc_ceil_div(rows, DOWN) * (double)talc_ceil_div(columns, ACROSS);
    if (tiles > INT_MAX)
        return INFINITY;
    const double size = (double)talc_dtype_size(dtype);
    const double work = ceil(tiles * (double)batch / talc_cuda_state_of(device)->multiprocessors) *
                        (TILE + (double)K * STEP) * size / 4;
    const double read =
        (double)batch * ((double)rows + (double)columns) * (double)K * size / MEMORY;
    return TALC_CUDA_LAUNCH + WAITS + (work > read ? work : read);
}

/* `problem` lacks n_tiles and stages. */
template <typename T, bool A_ALONG_K, bool B_ALONG_K>
static void run(talc_device *device, problem<T> p, const strided_index<2, uint64_t> &products)
{
    constexpr size_t STAGE =
        WARPS * (k_tile<T, DOWN, A_ALONG_K>::ELEMENTS + k_tile<T, ACROSS, B_ALONG_K>::ELEMENTS) *
        sizeof(T);
    constexpr size_t SUMS = WARPS * DOWN * SUMS_PITCH * sizeof(accumulator_of<T>);
    const int64_t k_tiles = talc_ceil_div(p.K, (int64_t)WARPS * TILE_K<T>);
    p.n_tiles = talc_ceil_div(p.b.rows, ACROSS);
    p.stages = (int)(k_tiles < STAGES ? k_tiles : STAGES);
    const size_t copies = (size_t)p.stages * STAGE;
    const dim3 grid((unsigned)(talc_ceil_div(p.a.rows, DOWN) * p.n_tiles), 1,
                    (unsigned)(p.batch < 65535 ? p.batch : 65535));
    const auto kernel = multiply<T, A_ALONG_K, B_ALONG_K>;
    const size_t bytes = copies > SUMS ? copies : SUMS;
    /* Without it the launch fails, which the caller reports. */
    (void)allow_shared(kernel, STAGES * STAGE);
    kernel<<<grid, BLOCK, bytes, talc_cuda_stream(device)>>>(p, products);
}

} // namespace small

} // namespace talc

#endif
