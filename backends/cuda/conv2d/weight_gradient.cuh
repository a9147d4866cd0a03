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

struct weight_problem {
    const char *x, *dy; ///< packed: [tile][group][chunk][patch]
    const patch_note *x_notes, *dy_notes;
    float *parts;  ///< [block][split][a thread's four][thread][4]
    float *doubts; ///< [block][split]: tiny elements, each as large as an error of its
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
static __device__ __forceinline__ float scale_back(patch_note x, patch_note dy, float &doubt)
{
    const int e = -(x.exponent + dy.exponent);
    const float scale = power_of_two(max(-126, min(127, e)));
    doubt += e < -126 || e > 127
                 ? NAN
                 : (float)(min(x.tiny, (unsigned)TILE) + min(dy.tiny, (unsigned)TILE)) * scale;
    return scale;
}

/// The products by wgmma, for GPUs of compute capability 9.0: of 32 or 64 input channels (weight_gradient_wgmma.cu).
cudaError_t multiply_by_wgmma(int products, const weight_problem &p, dim3 grid, int64_t most_shared,
                              cudaStream_t stream);

} // namespace talc

#endif
