/// A matrix product of panels: what its kernels get in each form, and what they share beside the
/// tile loop. Private to backends/cuda.
///
/// In a tile, rows are those of op(A) and columns those of op(B), or the other way round where
/// op(B) is the operand that is streamed (matmul/split_on_load.cu).
#ifndef TALC_BACKENDS_CUDA_GEMM_PANEL_PRODUCT_CUH
#define TALC_BACKENDS_CUDA_GEMM_PANEL_PRODUCT_CUH

#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/gemm/mainloop.cuh"
#include "backends/cuda/gemm/epilogue.cuh"
#include "backends/cuda/device/counter.h"

namespace talc
{

struct panel_product {
    panel_source rows, columns; ///< as they are in memory
    panel_operand packed;       ///< the columns
    float *y, *split_sums;      ///< split_sums is [split][shape of y], NULL without split-K
    epilogue<float> last;
    int64_t R, C, K, N, outputs; ///< rows and columns; outputs of all products
    bool swapped;                ///< rows are those of op(B)
    int64_t y_row, y_column;     ///< from one row's output to the next's, and from a column's
    /// 2^14 / sqrt(K). An element that underflows is off by at most 2^-25 once scaled, and is
    /// multiplied by less than 2^14. So the error of a sum that is not recomputed is at most
    /// sqrt(K) 2^-25 of it.
    float coefficient;
    unsigned long long *recomputed;
    strided_index<2, uint64_t> sources; ///< the first elements of a product's operands

    /// NULL for split_sums without split-K.
    panel_product(talc_device *device, const talc_matmul_problem *p,
                  const talc_matmul_arguments *arguments, bool swapped_, panel_source rows_,
                  panel_source columns_, panel_operand packed_, float *split_sums_)
        : rows(rows_), columns(columns_), packed(packed_), y((float *)arguments->y),
          split_sums(split_sums_),
          last(arguments->bias, arguments->residual, without_calls(p->activation)),
          R(swapped_ ? p->N : p->M), C(swapped_ ? p->M : p->N), K(p->K), N(p->N),
          outputs(p->batch * p->M * p->N), swapped(swapped_), y_row(swapped ? 1 : p->N),
          y_column(swapped ? p->N : 1), coefficient(0x1p14f / sqrtf((float)p->K)),
          recomputed(talc_cuda_recomputed(device)),
          sources(p->batch_rank, p->batch_dims,
                  { swapped ? p->b_strides : p->a_strides, swapped ? p->a_strides : p->b_strides })
    {
    }
};

/// Recomputes an output of each lane that asks, in row r and column c of its product.
static __device__ __forceinline__ float recompute(const panel_product &p, bool asked, float sum,
                                                  int64_t product, int64_t r, int64_t c)
{
    return recompute_by_warp(asked, sum, p.recomputed, [&](int of) {
        int64_t at[2];
        p.sources.offsets((uint64_t)__shfl_sync(~0u, product, of), at);
        return dot_by_warp(p.rows.from + at[0] + __shfl_sync(~0u, r, of) * p.rows.row_step,
                           p.rows.k_step,
                           p.columns.from + at[1] + __shfl_sync(~0u, c, of) * p.columns.row_step,
                           p.columns.k_step, p.K);
    });
}

/// The factor that takes a sum from an operand's scale to its next one, from the unscale factors of
/// both.
static __device__ __forceinline__ float scale_ratio(float now, float before)
{
    const int e = (__float_as_int(before) - __float_as_int(now)) >> 23;
    return power_of_two(max(-126, min(126, e)));
}

/// Takes sums to the scale of the segment whose unscale factors of the thread's first column are at
/// `scales`. `down` has the factors of the thread's two rows.
template <int COUNT>
static __device__ __forceinline__ void rescale_columns(const float *scales, int64_t segment_step,
                                                       const float (&down)[2], float (&sums)[COUNT])
{
#pragma unroll
    for (int j = 0; j < COUNT / 4; j++) {
        const float2 now = *(const float2 *)(scales + j * 8),
                     before = *(const float2 *)(scales + j * 8 - segment_step);
        const float across[2] = { scale_ratio(now.x, before.x), scale_ratio(now.y, before.y) };
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[j * 4 + i] = sums[j * 4 + i] * down[i / 2] * across[i % 2];
    }
}

/// Split-K: adds the sums of the splits in their order, one thread an output, and ends them.
template <typename Problem>
static __global__ void __launch_bounds__(BLOCK) add_splits(const __grid_constant__ Problem p)
{
    const int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    const int64_t at = i < p.outputs ? i : p.outputs - 1;
    const int64_t product = at / (p.R * p.C), rest = at - product * (p.R * p.C), m = rest / p.N,
                  n = rest - m * p.N;
    const int64_t r = p.swapped ? n : m, c = p.swapped ? m : n;
    row_bound row, column;
    p.bounds_of(product, r, c, row, column);
    float sum = 0;
    for (int s = 0; s < p.tiles.splits; s++)
        sum += p.split_sums[s * p.outputs + at];
    const bool bad = i < p.outputs && needs_recompute(sum, row, column, p.coefficient);
    sum = recompute(p, bad, sum, product, r, c);
    if (i < p.outputs)
        p.y[at] = talc_epilogue(p.last, sum, n, at);
}

/// What follows the product kernel: the splits are added, and an activation is applied that the
/// kernel had to leave. Returns the launches' status.
template <typename Problem>
static talc_status end_product(talc_device *device, const Problem &p, talc_activation activation)
{
    if (p.split_sums != NULL)
        add_splits<<<(unsigned)talc_ceil_div(p.outputs, BLOCK), BLOCK, 0,
                     talc_cuda_stream(device)>>>(p);
    end_called(device, activation, p.y, p.outputs);
    return talc_cuda_launched(device, "matmul");
}

// ---- The plan -----------------------------------------------------------------------------------

/// Why no form multiplies a problem; NULL.
static const char *product_refuses(const talc_device *device, const talc_matmul_problem *p)
{
    const char *reason = talc_gemm_refuses(p->dtype, talc_cuda_state_of(device)->capability, true);
    if (reason == NULL)
        reason = talc_gemm_refuses_sums(p->K);
    if (reason == NULL && (p->M == 0 || p->N == 0 || p->batch == 0))
        reason = "it is empty";
    return reason;
}

} // namespace talc

#endif
