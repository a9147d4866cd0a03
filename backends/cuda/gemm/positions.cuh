/// Outputs of products whose rows are positions, output pixels counted over all images, and whose
/// columns are output channels: what is stored of four positions and eight channels a thread, and
/// what is computed again. Private to backends/cuda.
///
/// So the 1x1 kernel and the gathering one (conv2d/pointwise_mma.cu, conv2d/gather_gemm.cu) end
/// their sums, whose operands come from elsewhere.
#ifndef TALC_BACKENDS_CUDA_GEMM_POSITIONS_CUH
#define TALC_BACKENDS_CUDA_GEMM_POSITIONS_CUH

#include "backends/cuda/gemm/positions_tile_map.h"
#include "backends/cuda/gemm/recompute.cuh"
#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/primitives/index.cuh"

namespace talc
{

/// Positions of a warp's tile; positions of a thread; output channels of a product.
constexpr int POSITIONS = TALC_POINTWISE_POSITIONS, FOUR = TALC_POINTWISE_FOUR,
              EIGHT = TALC_POINTWISE_EIGHT;
/// An output channel in shared memory: the factor that takes its sums back to the scale of the
/// data, its bias, and the magnitude below which the underflows of its weights matter.
struct output_channel {
    float inverse, bias, limit, unused;
};

/// SOURCE gives the channels of a position, and sum(w, n, pixel, channel, count), an output's sum
/// over `count` of them.
template <typename SOURCE> struct positions_problem {
    SOURCE source;
    const float *w;
    float *y;
    epilogue<float> last{ nullptr, nullptr, TALC_ACTIVATION_NONE };
    int group_in, group_out, OC; ///< channels of a group; all output channels
    int plane, positions;        ///< output positions of an image, of all images
    int taps = 1;
    int ranges;                     ///< blocks that share the output channels of a group
    unsigned long long *recomputed; ///< counts the outputs that are recomputed
    divisor<uint32_t> by_plane;
};

// ---- What is computed again ---------------------------------------------------------------------

/// A sum is recomputed where its magnitude is below a limit. At position q and output channel oc
/// the limit is base[q] + factor[q] * (the limit of oc).
struct sums_limits {
    float base[FOUR], factor[FOUR];
    /// no less than any of these limits; NaN: sums may be out of range
    float any;
};

static __device__ __forceinline__ void set_any(sums_limits &limits, float max_channel_limit)
{
    limits.any = (limits.base[0] + limits.base[1]) + (limits.base[2] + limits.base[3]) +
                 max_channel_limit * fmaxf(fmaxf(limits.factor[0], limits.factor[1]),
                                           fmaxf(limits.factor[2], limits.factor[3]));
}

/// Recomputes one output by FFMA. `at` is its position among those of all images.
template <typename SOURCE>
static __device__ __noinline__ void recompute_one(const positions_problem<SOURCE> &p, int oc,
                                                  int at)
{
    const int n = (int)p.by_plane.quotient((uint32_t)at), pixel = at - n * p.plane;
    const float *w = p.w + (int64_t)oc * p.group_in * p.taps;
    const float sum = p.source.sum(w, n, pixel, oc / p.group_out * p.group_in, p.group_in);
    const int64_t to = ((int64_t)n * p.OC + oc) * p.plane + pixel;
    p.y[to] = talc_epilogue(p.last, sum, oc, to);
    atomicAdd(p.recomputed, 1);
}

// ---- What is stored -----------------------------------------------------------------------------

/// Where the four positions of a thread are: next to each other, or 8 apart.
template <bool VECTORS> struct four_positions {
    int64_t y[VECTORS ? 1 : FOUR]; ///< offsets in the output planes of an image
    int at;                        ///< the first position
    int count;                     ///< positions that are left, from the first on
    __device__ bool has(int q) const
    {
        return (VECTORS ? 0 : talc_pointwise_behind(false, q)) < count;
    }
};

/// Loads the residual of eight output channels, from channel i of the block on. It is called before
/// the sums are computed, to hide the wait for memory.
template <bool VECTORS, typename SOURCE>
static __device__ __forceinline__ void load_residual(const positions_problem<SOURCE> &p,
                                                     const four_positions<VECTORS> &at, int first,
                                                     int i, int channels, float (&added)[2][FOUR])
{
    if (p.last.residual == nullptr)
        return;
    const int channel = i + talc_pointwise_first_channel((int)threadIdx.x % WARP);
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const float *r = p.last.residual + (int64_t)(first + channel + k) * p.plane;
        const bool real = channel + k < channels;
        if (VECTORS) {
            if (real && at.has(0))
                *(float4 *)added[k] = __ldg((const float4 *)(r + at.y[0]));
        } else {
#pragma unroll
            for (int q = 0; q < FOUR; q++)
                if (real && at.has(q))
                    added[k][q] = r[at.y[VECTORS ? 0 : q]];
        }
    }
}

/// Scales the sums of eight output channels, from channel i of the block on, and writes them.
template <bool VECTORS, typename SOURCE>
static __device__ __forceinline__ void store_eight(
    const positions_problem<SOURCE> &p, const four_positions<VECTORS> &at, int first, int i,
    int channels, const output_channel *outputs, const float (&sums)[2][4],
    const float (&added)[2][FOUR], const sums_limits &limits)
{
    const int channel = i + talc_pointwise_first_channel((int)threadIdx.x % WARP);
    float smallest = INFINITY;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const output_channel o = outputs[channel + k];
        const bool real = channel + k < channels;
        const int64_t row = (int64_t)(first + channel + k) * p.plane;
        float v[FOUR];
#pragma unroll
        for (int q = 0; q < FOUR; q++) {
            const float sum = sums[q / 2][q % 2 * 2 + k];
            smallest = smaller_magnitude(smallest, sum);
            v[q] = sum * o.inverse + o.bias;
        }
        if (p.last.residual != nullptr)
#pragma unroll
            for (int q = 0; q < FOUR; q++)
                v[q] += added[k][q];
        activate_all(p.last.activation, v);
        float *y = p.y + row;
        if (VECTORS) {
            if (real && at.has(0))
                /* Without this the compiler makes four stores of one. */
                asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(y + at.y[0]),
                             "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
                             : "memory");
        } else {
#pragma unroll
            for (int q = 0; q < FOUR; q++)
                if (real && at.has(q))
                    y[at.y[VECTORS ? 0 : q]] = v[q];
        }
    }
    if (smallest >= limits.any)
        return;
    unsigned recompute_bits = 0;
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
        for (int q = 0; q < FOUR; q++) {
            const float limit = limits.base[q] + outputs[channel + k].limit * limits.factor[q];
            const bool real = channel + k < channels && at.has(q);
            recompute_bits |=
                real && !(fabsf(sums[q / 2][q % 2 * 2 + k]) >= limit) ? 1u << (k * FOUR + q) : 0;
        }
    for (; recompute_bits != 0; recompute_bits &= recompute_bits - 1) {
        const int bit = __ffs((int)recompute_bits) - 1, q = bit % FOUR;
        recompute_one(p, first + channel + bit / FOUR, at.at + talc_pointwise_behind(VECTORS, q));
    }
}

} // namespace talc

#endif
