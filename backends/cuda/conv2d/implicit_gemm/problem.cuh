/// The problem of implicit_gemm as its kernels get it. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PROBLEM_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PROBLEM_CUH

#include "backends/cuda/conv2d/implicit_gemm/plan.h"
#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/gemm/high_low.cuh"
#include "backends/cuda/primitives/index.cuh"

namespace talc
{

constexpr int CHANNELS = TALC_GEMM_CHANNELS, COLUMNS = TALC_GEMM_COLUMNS;
constexpr int BLOCKS = TALC_GEMM_BLOCKS, MULTIPLIERS = TALC_GEMM_MULTIPLIERS;
constexpr int STEP = TALC_GEMM_STEP, PLANE = TALC_GEMM_PLANE;
constexpr int SECTOR = TALC_GEMM_SECTOR, STORE_PITCH = TALC_GEMM_STORE_PITCH;

/* A Form is a template argument of the kernel. It has the instructions that multiply, VALUES, its
 * talc_gemm_form, the numbers of that, and LANES_READ: lanes read halo tiles themselves, so each
 * arrives when they may be filled. implicit_gemm.cu and implicit_gemm_mma.cu define the two. */

/// Numbers that an element has in shared memory: its high part and, for three products, its low
/// part.
template <typename Form> constexpr int PARTS = Form::PRODUCTS == 3 ? 2 : 1;
/// Bytes of the ring of weights in shared memory.
template <typename Form> constexpr int RING = Form::DEPTH *PARTS<Form> *MULTIPLIERS * 2048;
template <typename Form> constexpr int GEMM_THREADS = MULTIPLIERS * 128 + Form::LOADERS;

/// A folded channel is a channel of x at one phase of the stride.
struct folded_channel {
    int plane;  ///< offset of the channel of x from the group's first
    short h, w; ///< the phase
};

struct halo_tile_info;

struct gemm_operands {
    const float *x, *w;
    float *y;
    const __half *packed;
    /// Of each output channel: the exponent of the scale of its weights.
    const int *exponents;
    /// Of each output channel: the magnitude of a scaled sum below which the underflows of its
    /// weights matter.
    const float *thresholds;
    /// The halo tiles, where they are packed: [halo tile][K tile].
    const char *halo_tiles;
    const halo_tile_info *halo_infos;
    epilogue<float> last{ nullptr, nullptr, TALC_ACTIVATION_NONE };
};

struct gemm_problem : gemm_operands, talc_gemm_layout {
    bool aligned;                   ///< x is aligned to 16 bytes
    bool pairs;                     ///< two neighbours of dx are written at once, one of each phase
    float tiny;                     ///< a scaled element of smaller magnitude underflows
    float coefficient;              ///< error bound of a sum, per underflow
    unsigned long long *recomputed; ///< counts the outputs that are recomputed
    /// [tile][split][2 * CHANNELS]: a sum of smaller magnitude is recomputed. NULL without split-K.
    float *recompute_limits;
    /// Where each step's operand begins in the halo tile, in units of 16 bytes. It is an argument
    /// of the kernel, so it is in constant memory, and the uniform datapath computes addresses.
    uint16_t shifts[TALC_GEMM_MAX_STEPS];
    folded_channel fold[TALC_GEMM_MAX_FOLDED];
};

/// The weights of a channel of dx and a phase. `at` tells where the weight of a channel of dy and a
/// tap is; -1 where the phase has no such tap.
struct dx_weights {
    const float *from;
    talc_gemm_dx_row of;

    __device__ dx_weights(const gemm_problem &p, int g, int row)
        : of(talc_gemm_dx_row_of(&p.dx, row))
    {
        from = p.w +
               ((int64_t)g * p.group_in * p.dx.group_channels + of.channel) * (p.dx.KH * p.dx.KW);
    }
    __device__ int tap_h(const gemm_problem &p, int kh) const
    {
        return talc_gemm_tap_of(of.phase_h, p.dx.stride_h, p.dx.dilation_h, p.dx.top, p.dx.KH,
                                kh * p.dilation_h - p.top);
    }
    __device__ int tap_w(const gemm_problem &p, int kw) const
    {
        return talc_gemm_tap_of(of.phase_w, p.dx.stride_w, p.dx.dilation_w, p.dx.left, p.dx.KW,
                                kw * p.dilation_w - p.left);
    }
    __device__ int at(const gemm_problem &p, int channel, int kh, int kw) const
    {
        kh = tap_h(p, kh), kw = tap_w(p, kw);
        return of.exists && kh >= 0 && kw >= 0
                   ? (channel * p.dx.group_channels * p.dx.KH + kh) * p.dx.KW + kw
                   : -1;
    }
    /// Whether a pixel reads any element of x. All lanes of a warp call it.
    __device__ bool reads(const gemm_problem &p, talc_gemm_pixel pixel) const
    {
        bool down = false, across = false;
        for (int k = (int)threadIdx.x % WARP; k < max(p.KH, p.KW); k += WARP) {
            const int h = pixel.row - p.top + k * p.dilation_h,
                      w = pixel.column - p.left + k * p.dilation_w;
            down |= k < p.KH && (unsigned)h < (unsigned)p.H && tap_h(p, k) >= 0;
            across |= k < p.KW && (unsigned)w < (unsigned)p.W && tap_w(p, k) >= 0;
        }
        return __any_sync(~0u, down) && __any_sync(~0u, across);
    }
};

/// Sets the problem without tiles. Returns false where it is empty or does not fit.
template <typename Form> inline bool gemm_problem_of(const talc_conv2d_problem *p, gemm_problem &g)
{
    g = {};
    if (!talc_gemm_layout_of(p, &g))
        return false;
    g.tiny = TINY<Form::PRODUCTS>;
    /* Of a phase that has one tap at least. */
    const int products = g.interleaves ? g.group_in : g.group_in * g.KH * g.KW;
    g.coefficient = Form::PRODUCTS == 3 ? 0x1p14f / (float)(products / 4 + 2) : 4;
    return true;
}

/// Sets where each step's operand begins in the halo tile, and what the folded channels are.
inline void gemm_fill_shifts(gemm_problem &g)
{
    for (int c = 0; g.folded && c < g.in; c++) {
        const int phase = c / g.group_in;
        g.fold[c] = { (c - phase * g.group_in) * g.H * g.W, (short)(phase / g.fold_w),
                      (short)(phase % g.fold_w) };
    }
    for (int s = 0; s < g.steps; s++)
        g.shifts[s] = (uint16_t)talc_gemm_shift_of(&g, s);
}

inline talc_gemm_gpu gemm_gpu_of(const talc_cuda_state &gpu)
{
    return { gpu.capability, gpu.multiprocessors, gpu.block_shared };
}

// ---- Tiles --------------------------------------------------------------------------------------

/// A block computes first_tile(), then next_tile() of that, and so on.
static __device__ __forceinline__ int first_tile(const gemm_problem &p)
{
    return talc_gemm_first_tile(&p, (int)blockIdx.x);
}

static __device__ __forceinline__ int next_tile(const gemm_problem &p, int t)
{
    return talc_gemm_next_tile(&p, t, (int)gridDim.x);
}

/// The steps of 64 rows of the product, counted in a group.
template <typename Form>
static __device__ __forceinline__ talc_gemm_steps steps_of(const gemm_problem &p, int block)
{
    return Form::PHASES ? talc_gemm_steps_of(&p, block, Form::RUN) : talc_gemm_steps{ 0, p.steps };
}

template <typename Form>
static __device__ __forceinline__ talc_gemm_tile tile_of(const gemm_problem &p, int t)
{
    return Form::PHASES ? talc_gemm_dx_tile_of(&p, t) : talc_gemm_tile_of(&p, t);
}

} // namespace talc

#endif
