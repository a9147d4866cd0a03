/// The tile loop of products on Hopper's tensor cores, in the words of CUTLASS. Private to
/// backends/cuda.
///
/// A product is y = A B, batched. Its outputs are divided into *tiles*. A block is persistent: it
/// stays on its multiprocessor and computes one tile after the other (tile_map.h). The sum over k
/// goes by *K tiles* of 32 steps (CHUNK). Those wait in *stages* of shared memory (pipeline.cuh),
/// filled by producer warps and multiplied by two consumer warpgroups, each 64 rows of the tile.
///
///     for each tile of the block
///         accumulators = 0                              [64 rows of a warpgroup, 128 columns]
///         for each K tile, as its stage is full
///             partial = low * high + high * low + high * high        wgmma, 96 products a sum
///             the stage is empty
///             accumulators += partial                                FADD
///         epilogue: store the accumulators        or, with split-K, a split's for the last kernel
///
/// f32 comes from f16 by high and low parts (high_low.cuh). The tensor cores truncate as they add.
/// So `partial` begins at zero in each K tile, and f32 registers, the accumulators, add up the K
/// tiles. While one warpgroup adds, the products of the other go on. Where the scale of an operand
/// changes, every 32 K tiles (a segment, panels.cuh), the accumulators are rescaled.
///
/// Where tiles are fewer than multiprocessors, *split-K* has several blocks share the K tiles of
/// each. They write their accumulators to the workspace, and a last kernel adds them in their
/// order. The *epilogue* adds bias and residual and applies the activation; before it, sums
/// that underflows may have spoilt are computed again (recompute.cuh).
///
/// A Form says where operands come from. It has
///
///     problem                     what the kernel gets; problem.tiles.work counts tiles and splits
///     PANELS, COUNT               of a thread: accumulators [PANELS][COUNT]
///     STAGES, STAGE_BYTES         of the ring
///     SHARED                      bytes of shared memory: the ring's and the form's own
///     LOADERS                     threads that load, 1 or a warpgroup
///     FULL, EMPTY                 arrivals at the two barriers of a stage
///     ...REGISTERS                of a thread of either kind
///     AHEAD                       whether a K tile is prepared while the one before is multiplied,
///                                 in registers of its own
///     tile_of(p, i)               the tile with index i
///     loader(p, tile)             what fills stages: load(p, k_tile, to, full)
///     Form(p, tile, ring, stages) what multiplies: prepare(u, at), once the stage is full;
///                                 multiply(u, stage, panel, partial); add(u, partial, sums);
///                                 rescale(segment, sums); store(sums). u: which registers
#ifndef TALC_BACKENDS_CUDA_GEMM_MAINLOOP_CUH
#define TALC_BACKENDS_CUDA_GEMM_MAINLOOP_CUH

#include "backends/cuda/gemm/panels.cuh"
#include "backends/cuda/gemm/pipeline.cuh"
#include "backends/cuda/gemm/tile_map.h"
#include "backends/cuda/primitives/dtype.cuh"

namespace talc
{

/// Threads that multiply, two warpgroups, and the others; the rows of a tile.
constexpr int MULTIPLIERS = 256, PRODUCERS = 128, TILE_ROWS = TALC_PRODUCT_PANEL;

template <typename Form>
static __device__ __forceinline__ void load_tiles(const typename Form::problem &p, uint32_t stages,
                                                  stage_barriers ring)
{
    pipeline_state at = first_to_fill();
    for (int i = (int)blockIdx.x; i < p.tiles.work; i += (int)gridDim.x) {
        const talc_product_tile w = Form::tile_of(p, i);
        typename Form::loader loader(p, w);
        for (int k_tile = w.k_tile; k_tile < w.end; k_tile++, at.advance(Form::STAGES)) {
            ring.wait_empty(at);
            loader.load(p, k_tile, stages + at.stage * Form::STAGE_BYTES, ring.full(at.stage));
        }
    }
}

template <typename Form>
static __device__ __forceinline__ void multiply_tiles(const typename Form::problem &p, char *stages,
                                                      stage_barriers ring)
{
    constexpr int UNROLL = Form::AHEAD ? 2 : 1;
    pipeline_state at = first_to_empty();
    for (int i = (int)blockIdx.x; i < p.tiles.work; i += (int)gridDim.x) {
        const talc_product_tile w = Form::tile_of(p, i);
        Form form(p, w, ring, stages);
        float sums[Form::PANELS][Form::COUNT], partial[Form::COUNT];
#pragma unroll
        for (int k = 0; k < Form::PANELS * Form::COUNT; k++)
            sums[k / Form::COUNT][k % Form::COUNT] = 0;
        if (Form::AHEAD)
            form.prepare(0, at);
        for (int first = w.k_tile; first < w.end; first += UNROLL)
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                const int k_tile = first + u, stage = at.stage;
                if (k_tile >= w.end)
                    break;
                if (k_tile % CHUNKS == 0 && k_tile > w.k_tile)
                    form.rescale(k_tile / CHUNKS, sums);
                if (!Form::AHEAD)
                    form.prepare(0, at);
                at.advance(Form::STAGES);
#pragma unroll
                for (int panel = 0; panel < Form::PANELS; panel++) {
                    const bool last = panel == Form::PANELS - 1;
                    wgmma_fence();
                    form.multiply(u, stage, panel, partial);
                    wgmma_commit();
                    if (Form::AHEAD && last && k_tile + 1 < w.end)
                        form.prepare(1 - u, at);
                    wgmma_wait<0>();
                    if (last && (Form::EMPTY == MULTIPLIERS || threadIdx.x % WARP == 0))
                        barrier_arrive(ring.empty(stage));
                    form.add(u, partial, sums[panel]);
                }
            }
        form.store(sums);
    }
}

template <typename Form>
static __global__ void __launch_bounds__(MULTIPLIERS + PRODUCERS, 1)
    product_kernel(const __grid_constant__ typename Form::problem p)
{
    extern __shared__ __align__(128) char shared[];
    __shared__ __align__(8) uint64_t barriers[2 * Form::STAGES];
    const stage_barriers ring = begin_pipeline<Form::FULL, Form::EMPTY>(barriers);
    run_pipeline<MULTIPLIERS, Form::MULTIPLIER_REGISTERS, Form::LOADER_REGISTERS>(
        [&] { multiply_tiles<Form>(p, shared, ring); },
        [&] {
            if (Form::LOADERS == PRODUCERS || threadIdx.x < MULTIPLIERS + Form::LOADERS)
                load_tiles<Form>(p, shared_address(shared), ring);
        });
}

/// Launches a block a tile, up to one a multiprocessor.
template <typename Form>
static cudaError_t launch_product(talc_device *device, const typename Form::problem &p)
{
    const auto kernel = &product_kernel<Form>;
    const cudaError_t error = allow_shared(kernel, Form::SHARED);
    if (error == cudaSuccess) {
        const int multiprocessors = talc_cuda_state_of(device)->multiprocessors,
                  blocks = p.tiles.work < multiprocessors ? p.tiles.work : multiprocessors;
        kernel<<<blocks, MULTIPLIERS + PRODUCERS, Form::SHARED, talc_cuda_stream(device)>>>(p);
    }
    return error;
}

} // namespace talc

#endif
