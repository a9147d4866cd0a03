/// The packed tiles of the weight gradient, and how blocks share them. Private to backends/cuda;
/// weight_gradient.cu has the method.
#ifndef TALC_BACKENDS_CUDA_CONV2D_WEIGHT_GRADIENT_CUH
#define TALC_BACKENDS_CUDA_CONV2D_WEIGHT_GRADIENT_CUH

#include "backends/cuda/conv2d/implicit_gemm/halo_tile.cuh"
#include "backends/cuda/conv2d/weight_gradient_tile_map.h"

namespace talc
{

/// Positions of a tile, and output channels of a block.
constexpr int TILE = 8 * STEP, OC_TILE = TALC_WEIGHT_OC;

/// For wgmma: the warpgroups that multiply, each some of the taps, and the most columns of a
/// warpgroup. A column is 8 input channels of a tap, which are 4 sums of a thread.
constexpr int WARPGROUPS = TALC_WEIGHT_WARPGROUPS, WARPGROUP_COLUMNS = 24;

/// What sums have to know of a packed tile.
struct packed_tile_info {
    halo_tile_info info;
    channel_bits of; ///< its channels
};

/// The error that underflows can cause in the sums of a block: in those of a channel that
/// underflows and one that is not all zero in the same tiles. Behind a ReLU the sum of two channels
/// is often 0 or small, and need not be recomputed for the underflow of a third.
struct weight_limit {
    float underflows;   ///< their count, each times the scale of its tile
    channel_bits x, dy; ///< of the tiles with underflows
};

/// Whether underflows count for the sum of these channels of x and dy.
static __device__ __forceinline__ bool underflow_counts(const weight_limit &limit, int ic, int oc)
{
    const int x = pair_bit(ic), dy = pair_bit(oc);
    return ((limit.x.underflow >> x & limit.dy.nonzero >> dy) |
            (limit.x.nonzero >> x & limit.dy.underflow >> dy)) &
           1;
}

struct weight_problem : talc_weight_layout {
    const char *x, *dy; ///< packed: [tile][group][block of channels][halo tile]
    const packed_tile_info *x_infos, *dy_infos;
    float *split_sums;    ///< [block][split][four sums of a thread][thread][4]
    weight_limit *limits; ///< [block][split]
    int x_bytes, dy_bytes;
    int stages;   ///< tiles in shared memory at a time
    bool resumes; ///< sums begin with those of the round before
    /// of x: planes of 8 channels, positions of a plane, bytes to the low parts
    int planes, plane, low;
    int steps[TILE / STEP];               ///< where the positions of a step begin in the halo tile
    uint16_t shifts[TALC_GEMM_MAX_STEPS]; ///< the offset of each tap
};

/// Where the packed tiles of a share are.
static __device__ __forceinline__ int64_t x_tile(const weight_problem &p,
                                                 const talc_weight_share &w, int tile)
{
    return ((int64_t)tile * p.groups + w.g) * p.x_blocks + w.ic;
}

static __device__ __forceinline__ int64_t dy_tile(const weight_problem &p,
                                                  const talc_weight_share &w, int tile)
{
    return (int64_t)tile * p.groups * p.dy_blocks + w.oc;
}

/// The factor that takes the sums of two tiles back to the scale of the data. Adds the error that
/// their underflows can cause to `limit`.
static __device__ __forceinline__ float scale_back(const packed_tile_info &x,
                                                   const packed_tile_info &dy, weight_limit &limit)
{
    const int e = -(x.info.exponent + dy.info.exponent);
    const float scale = power_of_two(max(-126, min(127, e)));
    const unsigned underflows =
        min(x.info.underflows, (unsigned)TILE) + min(dy.info.underflows, (unsigned)TILE);
    const bool far = e < -126 || e > 127;
    if (underflows > 0 || far) {
        limit.underflows += far ? NAN : (float)underflows * scale;
        limit.x.nonzero |= x.of.nonzero, limit.dy.nonzero |= dy.of.nonzero;
        limit.x.underflow |= far ? x.of.nonzero : x.of.underflow;
        limit.dy.underflow |= dy.of.underflow;
    }
    return scale;
}

/// The products by wgmma, for compute capability 9.0, of 32 or 64 input channels
/// (weight_gradient_wgmma.cu).
cudaError_t multiply_by_wgmma(int products, const weight_problem &p, dim3 grid, int64_t max_shared,
                              cudaStream_t stream);

} // namespace talc

#endif
