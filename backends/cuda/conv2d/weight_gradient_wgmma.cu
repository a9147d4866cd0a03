/// The products of the weight gradient on Hopper's tensor cores (weight_gradient.cu).
///
/// wgmma reads the packed tiles as they are. 8 positions of 8 channels are 128 contiguous bytes, a
/// core matrix of an operand that is transposed, and a matrix may begin at any position. So a tap
/// and a step of 16 positions are an offset in the halo tile of x. One instruction multiplies
///
///     [64 output channels, 16 positions] x [16 positions, 32 or 64 input channels of a tap]
///
/// One thread copies tiles to shared memory. Three warpgroups multiply, each some of the taps.
/// Where three products make one of f32, the tensor cores, which truncate, add up RUN steps, and
/// f32 registers add up the rest. While one warpgroup adds, the products of the others go on.
///
/// Source: PTX ISA 8.5, section 9.7.14.5 (shared memory layouts of wgmma).
#include "backends/cuda/conv2d/weight_gradient.cuh"
#include "backends/cuda/gemm/pipeline.cuh"
#include "backends/cuda/primitives/launch.cuh"

using namespace talc;

constexpr int MULTIPLIER_THREADS = WARPGROUPS * 128, THREADS = MULTIPLIER_THREADS + 128;
constexpr int MULTIPLIER_REGISTERS = 160, LOADER_REGISTERS = 32;
constexpr int STAGES = 4;
/* Steps that the tensor cores add up. The small products of all of them come first. So a sum is
 * truncated at its full size only once a step. */
template <int PRODUCTS> constexpr int RUN = PRODUCTS == 3 ? 4 : 8;
/* Units of 16 bytes from 8 positions to the next 8. */
constexpr int EIGHT = 8;

/* A matrix that begins at a unit of 16 bytes. Its blocks of 8 channels are `plane` units apart. */
static __device__ __forceinline__ shared_matrix matrix_at(uint32_t at, int plane)
{
    const shared_matrix m = shared_matrix_of(0, EIGHT, plane);
    return { m.at + at, m.stride };
}

/* The operands of a step, in a stage that begins at unit `stage`. */
static __device__ __forceinline__ shared_matrix x_matrix(const weight_problem &p, uint32_t stage,
                                                         int step, int tap, bool low)
{
    return matrix_at(stage + (uint32_t)(p.steps[step] + p.shifts[tap] + (low ? p.low / 16 : 0)),
                     p.plane);
}

static __device__ __forceinline__ shared_matrix dy_matrix(const weight_problem &p, uint32_t stage,
                                                          int step, bool low)
{
    return matrix_at(
        stage + (uint32_t)(p.x_bytes / 16 + step * STEP + (low ? OC_TILE / PLANE * TILE : 0)),
        TILE);
}

static __device__ __forceinline__ void load_tiles(const weight_problem &p,
                                                  const talc_weight_share &w, uint32_t shared,
                                                  float *scales, stage_barriers ring)
{
    const int bytes = p.x_bytes + p.dy_bytes;
    weight_limit limit = p.resumes ? p.limits[w.own] : weight_limit{};
    pipeline_state at = first_to_fill();
    for (int tile = w.first; tile < w.last; tile++, at.advance(p.stages)) {
        const int64_t x = x_tile(p, w, tile), dy = dy_tile(p, w, tile);
        const float scale = scale_back(p.x_infos[x], p.dy_infos[dy], limit);
        const uint32_t to = shared + (uint32_t)(at.stage * bytes), ready = ring.full(at.stage);
        ring.wait_empty(at);
        scales[at.stage] = scale;
        barrier_arrive_for(ready, bytes);
        bulk_copy(to, p.x + x * p.x_bytes, p.x_bytes, ready);
        bulk_copy(to + p.x_bytes, p.dy + dy * p.dy_bytes, p.dy_bytes, ready);
    }
    p.limits[w.own] = limit;
}

template <int PRODUCTS, int CHANNELS_IN>
static __device__ __forceinline__ void multiply_tiles(const weight_problem &p,
                                                      const talc_weight_share &w, uint32_t shared,
                                                      const float *scales, stage_barriers ring)
{
    constexpr int PLANES = CHANNELS_IN / PLANE, TAPS = WARPGROUP_COLUMNS / PLANES;
    constexpr int STEPS = TILE / STEP;
    /* The shuffle tells the compiler that it is uniform. */
    const int warpgroup = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
    const int own = p.columns / PLANES, before = warpgroup * own;
    const int first_tap = w.first_tap + before, count = min(own, w.taps - before);
    float *const split_sums = p.split_sums + w.own * (p.columns * MULTIPLIER_THREADS * 4) +
                              talc_weight_sum_at(MULTIPLIER_THREADS, (int)threadIdx.x, 0, 0);
    auto four_sums = [&](int i) {
        return (float4 *)(split_sums + talc_weight_sum_at(MULTIPLIER_THREADS, 0, i, 0));
    };
    float sums[TAPS][CHANNELS_IN / 2], partial[CHANNELS_IN / 2];
#pragma unroll
    for (int i = 0; i < WARPGROUP_COLUMNS; i++) {
        float *to = &sums[i / PLANES][i % PLANES * 4];
        const float4 v = p.resumes && i / PLANES < count ? *four_sums(i) : float4{};
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    }
    const uint32_t units = (uint32_t)(p.x_bytes + p.dy_bytes) / 16;
    pipeline_state here = first_to_empty();
    for (int tile = w.first; tile < w.last; tile++, here.advance(p.stages)) {
        ring.wait_full(here);
        /* One lane reads it, the one that frees the stage. */
        const float scale = __shfl_sync(~0u, threadIdx.x % WARP == 0 ? scales[here.stage] : 0, 0);
        const uint32_t at = shared / 16 + (uint32_t)here.stage * units;
#pragma unroll 1
        for (int s = 0; s < STEPS; s += RUN<PRODUCTS>) {
#pragma unroll
            for (int t = 0; t < TAPS; t++) {
                if (t >= count)
                    break;
                const int tap = first_tap + t;
                wgmma_fence();
                if constexpr (PRODUCTS == 3) {
#pragma unroll
                    for (int k = s; k < s + RUN<PRODUCTS>; k++) {
                        wgmma_transposed(partial, dy_matrix(p, at, k, true),
                                         x_matrix(p, at, k, tap, false), k - s);
                        wgmma_transposed(partial, dy_matrix(p, at, k, false),
                                         x_matrix(p, at, k, tap, true), 1);
                    }
                }
#pragma unroll
                for (int k = s; k < s + RUN<PRODUCTS>; k++)
                    wgmma_transposed(partial, dy_matrix(p, at, k, false),
                                     x_matrix(p, at, k, tap, false), PRODUCTS == 3 ? 1 : k - s);
                wgmma_commit();
                wgmma_wait<0>();
#pragma unroll
                for (int i = 0; i < CHANNELS_IN / 2; i++) {
                    sums[t][i] += partial[i] * scale;
                    asm volatile("" : "+f"(sums[t][i])); /* before the next products begin */
                }
            }
        }
        if (threadIdx.x % WARP == 0)
            barrier_arrive(ring.empty(here.stage));
    }
#pragma unroll
    for (int i = 0; i < WARPGROUP_COLUMNS; i++) {
        const float *from = &sums[i / PLANES][i % PLANES * 4];
        if (i / PLANES < count)
            *four_sums(i) = make_float4(from[0], from[1], from[2], from[3]);
    }
}

template <int PRODUCTS, int CHANNELS_IN>
static __global__ void __launch_bounds__(THREADS, 1)
    multiply_packed(const __grid_constant__ weight_problem p)
{
    extern __shared__ __align__(128) char shared[];
    __shared__ __align__(8) uint64_t barriers[2 * STAGES];
    __shared__ float scales[STAGES];
    const stage_barriers ring = begin_pipeline<1, MULTIPLIER_THREADS / WARP>(barriers);
    const talc_weight_share w = talc_weight_share_of(&p, (int)blockIdx.x, (int)blockIdx.y);
    run_pipeline<MULTIPLIER_THREADS, MULTIPLIER_REGISTERS, LOADER_REGISTERS>(
        [&] { multiply_tiles<PRODUCTS, CHANNELS_IN>(p, w, shared_address(shared), scales, ring); },
        [&] {
            if (threadIdx.x == MULTIPLIER_THREADS)
                load_tiles(p, w, shared_address(shared), scales, ring);
        });
}

template <int PRODUCTS, int CHANNELS_IN>
static cudaError_t launch(weight_problem &p, dim3 grid, int64_t max_shared, cudaStream_t stream)
{
    const int bytes = p.x_bytes + p.dy_bytes, stages = (int)(max_shared / bytes);
    p.stages = stages < STAGES ? stages : STAGES;
    const auto kernel = &multiply_packed<PRODUCTS, CHANNELS_IN>;
    const cudaError_t error = allow_shared(kernel, max_shared);
    if (error == cudaSuccess)
        kernel<<<grid, THREADS, p.stages * bytes, stream>>>(p);
    return error;
}

template <int PRODUCTS>
static cudaError_t launch_for(weight_problem &p, dim3 grid, int64_t max_shared, cudaStream_t stream)
{
    return p.planes == 8 ? launch<PRODUCTS, 64>(p, grid, max_shared, stream)
                         : launch<PRODUCTS, 32>(p, grid, max_shared, stream);
}

cudaError_t talc::multiply_by_wgmma(int products, const weight_problem &problem, dim3 grid,
                                    int64_t max_shared, cudaStream_t stream)
{
    weight_problem p = problem;
    return products == 3 ? launch_for<3>(p, grid, max_shared, stream)
                         : launch_for<1>(p, grid, max_shared, stream);
}
