/// The kernel of implicit_gemm. Private to backends/cuda; implicit_gemm.cu has the method.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_KERNEL_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_KERNEL_CUH

#include "backends/cuda/conv2d/implicit_gemm/packed.cuh"
#include "backends/cuda/conv2d/implicit_gemm/store.cuh"
#include "backends/cuda/conv2d/implicit_gemm/staged.cuh"
#include "backends/cuda/conv2d/implicit_gemm/weights.cuh"

namespace talc
{

/// What a warpgroup that multiplies does: it computes its sums of one tile after the other, and
/// stores them.
template <typename Form>
static __device__ __forceinline__ void multiply(const gemm_problem &p, const char *halo_tiles,
                                                const halo_tile_info *infos, char *weight_ring,
                                                char *store_buffers, stage_barriers ring)
{
    /* The shuffle tells the compiler that it is uniform. */
    const int warpgroup = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
    Form products(p, shared_address(halo_tiles) + warpgroup * p.warpgroup_shift * 16);
    pipeline_state at = first_to_empty();
    weight_stream<Form> weights(p, weight_ring);
    /* The second warpgroup begins when the first has multiplied `lag` K tiles. */
    int lag = p.lag;
    if (lag > 0 && warpgroup == 1)
        barrier_sync<2, MULTIPLIERS * 128>();
    for (int t = first_tile(p); t < p.tiles; t = next_tile(p, t)) {
        float sums[BLOCKS][Form::ROWS * 4];
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int k = 0; k < Form::ROWS * 4; k++)
                sums[b][k] = 0;
        sums_info of_sums = { NO_SCALE, NO_SCALE, 0, 1 };
        const talc_gemm_tile a = tile_of<Form>(p, t);
        const int k_tiles = a.k_tiles;
        const talc_gemm_steps steps =
            steps_of<Form>(p, talc_gemm_block_of(&p, a.channel_tile, warpgroup));
        for (int k_tile = 0; k_tile < k_tiles; k_tile++) {
            ring.wait_full(at);
            const halo_tile_info info = infos[at.stage];
            if (of_sums.exponent == NO_SCALE) {
                of_sums.exponent = of_sums.highest = info.exponent;
            } else if (info.exponent != of_sums.exponent && info.exponent != NO_SCALE) {
                /* This halo tile has another scale: takes the sums to it. */
                products.settle();
                const int e = info.exponent - of_sums.exponent, e1 = max(-126, min(127, e));
                const float f = power_of_two(e1), rest = power_of_two(max(-126, min(127, e - e1)));
#pragma unroll
                for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                    for (int k = 0; k < Form::ROWS * 4; k++)
                        sums[b][k] = sums[b][k] * f * rest;
                of_sums.exponent = info.exponent;
                of_sums.highest = max(of_sums.highest, info.exponent);
                /* NaN where sums may be out of range. */
                of_sums.underflows = info.exponent - of_sums.highest < -100 || e > 60
                                         ? NAN
                                         : of_sums.underflows * f * rest;
                of_sums.max_factor = fmaxf(1, of_sums.max_factor * f * rest);
            }
            of_sums.underflows += (float)min(info.underflows, (unsigned)(p.channels * p.taps));
            products.add(p, at.stage, steps, weights, sums);
            if (Form::LANES_READ || threadIdx.x % WARP == 0)
                barrier_arrive(ring.empty(at.stage));
            at.advance(p.buffers);
            if (lag-- == 1 && warpgroup == 0)
                barrier_arrive_at<2, MULTIPLIERS * 128>();
        }
        if (of_sums.exponent == NO_SCALE)
            of_sums.exponent = 0;
        witness(sums, blockIdx.x, talc_gemm_tile_of(&p, t).split);
        store_tile<Form>(p, t, sums, of_sums, store_buffers);
    }
    __pipeline_wait_prior(0);
}

/// Two warpgroups multiply, and the other threads load. Each buffer for a halo tile has a barrier
/// `full` and a barrier `empty`.
template <typename Form>
static __global__ void __launch_bounds__(GEMM_THREADS<Form>, 1)
    implicit_gemm(const __grid_constant__ gemm_problem p)
{
    extern __shared__ __align__(128) char shared[];
    __shared__ __align__(8) uint64_t barriers[2 * TALC_GEMM_MAX_BUFFERS];
    __shared__ halo_tile_info infos[TALC_GEMM_MAX_BUFFERS];
    __shared__ unsigned measured[TALC_GEMM_MAX_BUFFERS][2];
    __shared__ __align__(8) uint64_t staged[TALC_GEMM_STAGES];
    __shared__ float zero;
    __shared__ int offsets[Form::STAGED ? TALC_GEMM_MAX_STAGED_POSITIONS : 1];
    char *halo_tiles = shared, *stages = halo_tiles + p.buffers * p.halo_tile_bytes;
    char *weights = stages + p.stages * p.stage_bytes, *store_buffers = weights + RING<Form>;
    const stage_barriers ring = { shared_address(barriers),
                                  shared_address(barriers + TALC_GEMM_MAX_BUFFERS) };
    const bool packs = Form::VALUES.packs && p.packs;
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.buffers; i++) {
            barrier_init(ring.full(i), packs ? 1 : Form::LOADERS);
            barrier_init(ring.empty(i), MULTIPLIERS * (Form::LANES_READ ? 128 : 4));
        }
        for (int i = 0; i < p.stages; i++)
            barrier_init(shared_address(staged + i), 1);
        zero = 0;
        fence_barrier_init();
    }
    __syncthreads();
    run_pipeline<MULTIPLIERS * 128, Form::MULTIPLIER_REGISTERS, Form::LOADER_REGISTERS>(
        [&] { multiply<Form>(p, halo_tiles, infos, weights, store_buffers, ring); },
        [&] {
            if constexpr (Form::STAGED)
                load_staged<Form>(p, halo_tiles, (float *)stages, offsets, &zero, infos, measured,
                                  ring, shared_address(staged));
            else if (packs)
                copy_halo_tiles<Form>(p, halo_tiles, infos, ring);
            else
                load_halo_tiles<Form>(p, halo_tiles, infos, measured, ring);
        });
}

} // namespace talc

#endif
