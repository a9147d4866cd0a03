/// Halo tiles of implicit_gemm that a kernel of its own writes to memory, where many tiles read
/// them or where they are slow to make: at a stride they are larger than what a block converts
/// while it multiplies. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PACKED_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PACKED_CUH

#include "backends/cuda/conv2d/implicit_gemm/halo_tile.cuh"
#include "backends/cuda/conv2d/implicit_gemm/weights.cuh"

namespace talc
{

/// What load_halo_tile asks of a Form, for a block whose threads all load.
template <typename Form> struct packing {
    static constexpr int PRODUCTS = Form::PRODUCTS, LOADERS = BLOCK, FIRST_LOADER = 0;
};

/// Packs K tile `index` of all halo tiles; a block calls it.
template <typename Form>
static __device__ __forceinline__ void pack_halo_tile(const gemm_problem &p, int index,
                                                      char *halo_tiles, halo_tile_info *infos)
{
    using loading = packing<Form>;
    /* With exponents that are multiples of EACH, halo tiles seldom differ in scale. One product
     * allows for a wide range; of three, more elements would underflow. */
    constexpr int EACH = Form::PRODUCTS == 3 ? 1 : 4, RANGE = Form::PRODUCTS == 3 ? 3 : EACH + 1;
    __shared__ unsigned measured[2];
    const int halo_tile = index / p.k_tiles, k_tile = index - halo_tile * p.k_tiles;
    const talc_gemm_tile a = tile_of<Form>(p, talc_gemm_first_reader(&p, halo_tile));
    char *to = halo_tiles + (int64_t)index * p.halo_tile_bytes;
    const int sampled =
        p.folded ? sampled_exponent<FOLDED>(p, a, k_tile) : sampled_exponent<CAREFUL>(p, a, k_tile);
    const halo_tile_info info = write_scaled<loading, RANGE>(
        measured, min(sampled + 1, 127) & ~(EACH - 1), (k_tile + 1) * p.channels > p.in,
        [&](float scale, bool careful) {
            return p.folded  ? load_halo_tile<loading, FOLDED>(p, a, k_tile, to, scale)
                   : careful ? load_halo_tile<loading, CAREFUL>(p, a, k_tile, to, scale)
                             : load_halo_tile<loading, PLAIN>(p, a, k_tile, to, scale);
        });
    /* Zeros have any scale. */
    if (threadIdx.x == 0)
        infos[index] = { measured[0] == 0 ? NO_SCALE : info.exponent, info.underflows };
}

/// Where the operands are packed.
struct packed_operands {
    char *halo_tiles;
    halo_tile_info *infos;
    __half *weights;
    int *exponents;
    float *thresholds;
};

/// Packs K tiles of halo tiles, a block each, and the weights `w`, a block an output channel.
template <typename Form>
static __global__ void __launch_bounds__(BLOCK, 4)
    pack(const __grid_constant__ gemm_problem p, const float *w, int k_tiles, packed_operands to)
{
    const int index = (int)blockIdx.x;
    if constexpr (Form::VALUES.packs) {
        if (index < k_tiles) {
            pack_halo_tile<Form>(p, index, to.halo_tiles, to.infos);
            return;
        }
    }
    pack_channel<Form>(p, w, index - k_tiles, to.weights, to.exponents, to.thresholds);
}

/// What the threads that load do where halo tiles are packed: one of them copies.
template <typename Form>
static __device__ __forceinline__ void copy_halo_tiles(const gemm_problem &p, char *halo_tiles,
                                                       halo_tile_info *infos, stage_barriers ring)
{
    if (threadIdx.x != Form::FIRST_LOADER)
        return;
    pipeline_state at = first_to_fill();
    for (int t = first_tile(p); t < p.tiles; t = next_tile(p, t)) {
        const talc_gemm_tile a = tile_of<Form>(p, t);
        int64_t from = (int64_t)a.halo_tile * p.k_tiles + a.k_tile;
        for (int i = 0; i < a.k_tiles; i++, from++) {
            const uint32_t full = ring.full(at.stage);
            ring.wait_empty(at);
            barrier_arrive_for(full, copied_bytes(p));
            bulk_copy(shared_address(halo_tiles + at.stage * p.halo_tile_bytes),
                      p.halo_tiles + from * p.halo_tile_bytes, p.halo_tile_bytes, full);
            bulk_copy(shared_address(infos + at.stage), p.halo_infos + from, sizeof *infos, full);
            at.advance(p.buffers);
        }
    }
}

} // namespace talc

#endif
