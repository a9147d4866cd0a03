/// The weight gradient's packed tiles, and how blocks share them out. Private to backends/cuda; weight_gradient.cu tells the method.
#ifndef TALC_BACKENDS_CUDA_CONV2D_WEIGHT_GRADIENT_CUH
#define TALC_BACKENDS_CUDA_CONV2D_WEIGHT_GRADIENT_CUH

#include "backends/cuda/conv2d/implicit_gemm/patch.cuh"

namespace talc
{

/// Positions of a tile, output channels of a block.
constexpr int TILE = 8 * STEP, OC_TILE = 64;

/// By wgmma, warpgroups that multiply, each of them some taps, and of a thread's sums the columns, blocks of 8 input channels of a tap:
/// 4 sums.
constexpr int WARPGROUPS = 3, WARPGROUP_COLUMNS = 24;

/// Of a packed patch.
struct packed_note {
    patch_note patch;
    uint64_t nonzero; ///< its channels that are not zero everywhere, as pair_bit numbers them
};

/// What a block's sums may lack: those of channels that are zero, as after a ReLU whose inputs are all negative, lack nothing.
struct weight_doubt {
    float tiny; ///< tiny elements, each as large as an error of its
    uint64_t x_nonzero, dy_nonzero;
};

struct weight_problem {
    const char *x, *dy; ///< packed: [tile][group][chunk][patch]
    const packed_note *x_notes, *dy_notes;
    float *parts;         ///< [block][split][a thread's four][thread][4]
    weight_doubt *doubts; ///< [block][split]
    int x_bytes, dy_bytes, x_chunks, dy_chunks, groups;
    int tiles, splits;
    int stages;   ///< tiles in shared memory
    bool goes_on; ///< sums of an earlier round
    int planes, plane,
        low; ///< of a patch of x: of 8 channels, positions in one, bytes to the low parts
    int taps, group_taps, tap_groups, columns; ///< columns of a warp, or of a warpgroup
    int steps[TILE / STEP];                    ///< where the positions of a step begin in the patch
    uint16_t shifts[MAX_STEPS];                ///< and what a tap adds
};

/// A block's share of the work: its channels and taps, and its tiles.
struct weight_share {
    int64_t own; ///< its number among all
    int g, ic, oc, first_tap, taps;
    int first, last;

    __device__ weight_share(const weight_problem &p, int block, int split)
    {
        const int tap_group = block % p.tap_groups, rest = block / p.tap_groups;
        ic = rest % p.x_chunks, oc = rest / p.x_chunks; /* of all groups */
        g = oc / p.dy_chunks;
        first_tap = tap_group * p.group_taps, taps = min(p.group_taps, p.taps - first_tap);
        own = (int64_t)block * p.splits + split;
        first = (int)((int64_t)p.tiles * split / p.splits);
        last = (int)((int64_t)p.tiles * (split + 1) / p.splits);
    }
    __device__ int64_t x_at(const weight_problem &p, int tile) const
    {
        return ((int64_t)tile * p.groups + g) * p.x_chunks + ic;
    }
    __device__ int64_t dy_at(const weight_problem &p, int tile) const
    {
        return (int64_t)tile * p.groups * p.dy_chunks + oc;
    }
};

/// What takes sums of products of two patches back to the scale of the data; adds what their tiny elements can do to `doubt`.
static __device__ __forceinline__ float scale_back(const packed_note &x, const packed_note &dy,
                                                   weight_doubt &doubt)
{
    const int e = -(x.patch.exponent + dy.patch.exponent);
    const float scale = power_of_two(max(-126, min(127, e)));
    const unsigned tiny = min(x.patch.tiny, (unsigned)TILE) + min(dy.patch.tiny, (unsigned)TILE);
    doubt.tiny += e < -126 || e > 127 ? NAN : (float)tiny * scale;
    doubt.x_nonzero |= x.nonzero, doubt.dy_nonzero |= dy.nonzero;
    return scale;
}

/// The products by wgmma, for GPUs of compute capability 9.0: of 32 or 64 input channels (weight_gradient_wgmma.cu).
cudaError_t multiply_by_wgmma(int products, const weight_problem &p, dim3 grid, int64_t max_shared,
                              cudaStream_t stream);

} // namespace talc

#endif
