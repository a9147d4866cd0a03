/// implicit_gemm's kernel. Private to backends/cuda; implicit_gemm.cu tells the method.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_KERNEL_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_KERNEL_CUH

#include "backends/cuda/conv2d/implicit_gemm/patch.cuh"
#include "backends/cuda/conv2d/implicit_gemm/results.cuh"
#include "backends/cuda/conv2d/implicit_gemm/staged.cuh"
#include "backends/cuda/conv2d/implicit_gemm/weights.cuh"

namespace talc
{

template <typename Form>
static __device__ __forceinline__ void multiply(const gemm_problem &p, const char *patches,
                                                const patch_note *notes, char *ring, char *results,
                                                uint32_t full, uint32_t empty)
{
    const int warpgroup =
        __shfl_sync(~0u, (int)threadIdx.x / 128, 0); /* which the compiler knows to be uniform */
    Form products(p, shared_address(patches) + warpgroup * p.part_shift * 16);
    int buffer = 0;
    uint32_t parity = 0;
    weight_stream<Form> weights(p, ring);
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
        sums_note kept = {};
        const int chunks = tile_of(p, t).chunks;
        for (int chunk = 0; chunk < chunks; chunk++) {
            barrier_wait(full + 8 * buffer, parity);
            const patch_note note = notes[buffer];
            if (chunk == 0) {
                kept = { note.exponent, 0, 1 };
            } else if (note.exponent != kept.exponent) {
                products.settle();
                const int e = note.exponent - kept.exponent, e1 = max(-126, min(127, e));
                const float f = power_of_two(e1), rest = power_of_two(max(-126, min(127, e - e1)));
#pragma unroll
                for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                    for (int k = 0; k < Form::ROWS * 4; k++)
                        sums[b][k] = sums[b][k] * f * rest;
                kept.exponent = note.exponent;
                kept.tiny =
                    e < -100 || e > 60 ? NAN : kept.tiny * f * rest; /* sums may be out of range */
                kept.span = fmaxf(1, kept.span * f * rest);
            }
            kept.tiny += (float)min(note.tiny, (unsigned)(p.channels * p.taps));
            products.add(p, buffer, weights, sums);
            if (threadIdx.x % 128 % WARP == 0)
                barrier_arrive(empty + 8 * buffer);
            if (++buffer == p.buffers)
                buffer = 0, parity ^= 1;
            if (lag-- == 1 && warpgroup == 0)
                barrier_arrive_at<2, MULTIPLIERS * 128>();
        }
        store_results<Form>(p, t, sums, kept, results);
    }
    __pipeline_wait_prior(0);
}

template <typename Form>
static __global__ void __launch_bounds__(GEMM_THREADS<Form>, 1)
    implicit_gemm(const __grid_constant__ gemm_problem p)
{
    extern __shared__ __align__(128) char shared[];
    __shared__ __align__(8) uint64_t barriers[2 * MAX_BUFFERS];
    __shared__ patch_note notes[MAX_BUFFERS];
    __shared__ unsigned measured[MAX_BUFFERS][2];
    __shared__ __align__(8) uint64_t staged[STAGES];
    __shared__ float zero;
    __shared__ int places[Form::STAGED ? STAGED_POSITIONS : 1];
    char *patches = shared, *stages = patches + p.buffers * p.patch_bytes;
    char *ring = stages + p.stages * p.stage_bytes, *results = ring + RING<Form>;
    const uint32_t full = shared_address(barriers), empty = full + 8 * MAX_BUFFERS;
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.buffers; i++) {
            barrier_init(full + 8 * i, Form::LOADERS);
            barrier_init(empty + 8 * i, MULTIPLIERS * 4);
        }
        for (int i = 0; i < p.stages; i++)
            barrier_init(shared_address(staged + i), 1);
        zero = 0;
        fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= MULTIPLIERS * 128) {
        Form::begin_loading();
        if constexpr (Form::STAGED)
            load_staged<Form>(p, patches, (float *)stages, places, &zero, notes, measured, full,
                              empty, shared_address(staged));
        else
            load_patches<Form>(p, patches, notes, measured, full, empty);
    } else {
        Form::begin_multiplying();
        multiply<Form>(p, patches, notes, ring, results, full, empty);
    }
}

} // namespace talc

#endif
