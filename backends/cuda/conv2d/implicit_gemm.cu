/// Convolution as a matrix product on Hopper's tensor cores, without the matrix of im2col. For each
/// group
///
///     y[oc, position] = sum over k of w[oc, k] * x[k, position],     k = (input channel, tap)
///
/// where a position is an output pixel, and x[k, position] is the pixel that the tap reads for it.
/// A step of the loop over k is one tap and 16 input channels, the K of a wgmma. A K tile is all
/// taps of some input channels.
///
/// Who computes what: the kernel is persistent, a block computes one tile of y after the other.
/// Producer warps write the halo tile, the pixels of x that the windows of a tile cover, to shared
/// memory as [channel / 8][position][channel % 8], for one K tile at a time. In this layout a tap
/// is an offset of the address, so all taps read the same halo tile. Two consumer warpgroups
/// multiply. Each has 64 output channels of 256 positions. The positions are 8 rows of 32 or, where
/// rows are short, a flat range of 256 that crosses the ends of rows and images. With a stride, the
/// halo tile is stored by phase, (row % stride_h, column % stride_w), so that the pixels that a tap
/// reads are contiguous. Where channels are few, the problem is folded: each pair of a channel and
/// a phase is a channel of the product. Where K is short and halo tiles are ranges of whole rows,
/// bulk copies first bring the rows to shared memory (staged.cuh). The weights are wgmma's operand
/// A, in registers. Each thread loads its own fragments through a ring buffer in shared memory.
/// Where loading takes longer than multiplying, a kernel before packs the halo tiles, and bulk
/// copies bring them (packed.cuh). Of a kernel with many taps a K tile has a band of rows, so that
/// its halo tile fits shared memory. An input gradient is such a product with dy as x (tile_map.h).
///
/// Arithmetic: a power of two scales each halo tile and each output channel's weights into the
/// range of f16. STRICT splits both operands into high and low parts and adds up three products:
/// high * high, high * low and low * high. Tensor cores truncate, so STRICT adds their accumulators
/// to f32 registers every three steps, 48 values of k. TF32 takes the high parts alone. The
/// producers count the elements that underflow when scaled. An output is recomputed by FFMA where
/// it is NaN, or not well above the error that these elements can cause. So the bound of each class
/// holds on any data.
///
/// Source: Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores while
/// surpassing the FP32 theoretical peak performance, 2022.
#include "backends/cuda/conv2d/implicit_gemm/algorithm.cuh"
#include "backends/cuda/primitives/wgmma.cuh"

using namespace talc;

/// The Form (problem.cuh) that multiplies by wgmma, with the halo tile in shared memory as operand
/// B. COUNT: f16 products that make one f32 product, 3 (STRICT) or 1 (TF32). IS_STAGED: halo tiles
/// are made from rows that bulk copies brought to shared memory. HAS_PHASES: y is dx at a stride.
template <int COUNT, bool IS_STAGED = false, bool HAS_PHASES = false> struct wgmma_form {
    static constexpr talc_gemm_form VALUES = IS_STAGED    ? TALC_GEMM_ROWS_TF32
                                             : COUNT == 3 ? TALC_GEMM_WGMMA
                                                          : TALC_GEMM_WGMMA_TF32;
    static constexpr bool STAGED = VALUES.staged, PHASES = HAS_PHASES, LANES_READ = false;
    static constexpr int PRODUCTS = VALUES.products, ROWS = VALUES.rows, LOADERS = VALUES.loaders,
                         FIRST_LOADER = MULTIPLIERS * 128, RUN = VALUES.run, DEPTH = VALUES.depth;
    /* Registers of a thread, which setmaxnreg moves from the producers to the consumers. At launch
     * each thread has 168 where rows are staged, else 128. */
    static constexpr int MULTIPLIER_REGISTERS = STAGED ? 216 : 200,
                         LOADER_REGISTERS = STAGED ? 72 : 56;

    /* This warpgroup's operand B in the first buffer, and how far behind it its low parts are, in
     * units of 16 bytes. */
    shared_matrix first;
    uint32_t low;
    float partial[ROWS * 4]; /* a member, so that all BLOCKS accumulate in the same registers */

    static __device__ void publish()
    {
        fence_async_shared();
    }
    __device__ wgmma_form(const gemm_problem &p, uint32_t halo_tiles)
    {
        first = shared_matrix_of(halo_tiles, p.phases * p.positions, p.row_shift);
        low = (uint32_t)(p.channels / PLANE * p.phases * p.positions);
    }
    /* Called before the kernel changes the sums between calls of add(). */
    __device__ void settle()
    {
        wgmma_wait<0>(); /* without it, the compiler waits after every wgmma */
    }
    /* Adds the products of the K tile in `buffer` to the sums. */
    __device__ void add(const gemm_problem &p, int buffer, talc_gemm_steps steps,
                        weight_stream<wgmma_form> &weights, float (&sums)[BLOCKS][ROWS * 4])
    {
        const uint32_t halo_tile = first.at + (uint32_t)(buffer * p.halo_tile_bytes / 16);
        const int end = steps.first + steps.count;
        auto matrix_of = [&](int s, int b) {
            return shared_matrix{ halo_tile + p.shifts[s] + b * 8, first.stride };
        };
        if constexpr (STAGED) {
            static_assert(PRODUCTS == 1, "");
            /* Double buffering of A: a run is issued while the wgmmas of the run before it are
             * still in flight. */
            uint4 a[2][RUN][1];
            auto begin = [&](int s, uint4(&of)[RUN][1]) {
                __pipeline_wait_prior(DEPTH - RUN);
                weights.read(of);
                wgmma_fence();
#pragma unroll
                for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                    for (int k = 0; k < RUN; k++)
                        wgmma(sums[b], of[k][0], matrix_of(s + k, b), 1);
                wgmma_commit();
                weights.fetch();
                wgmma_wait<1>();
            };
#pragma unroll 1
            for (int s = steps.first; s < end; s += 2 * RUN) {
                begin(s, a[0]);
                if (s + RUN < end)
                    begin(s + RUN, a[1]);
            }
            wgmma_wait<0>();
        } else {
            for (int s = steps.first; s < end; s += RUN) {
                uint4 a[RUN][PARTS<wgmma_form>];
                __pipeline_wait_prior(DEPTH - RUN);
                weights.read(a);
                if constexpr (PRODUCTS == 1) {
                    wgmma_fence();
#pragma unroll
                    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                        for (int k = 0; k < RUN; k++)
                            wgmma(sums[b], a[k][0], matrix_of(s + k, b), 1);
                    wgmma_commit();
                    weights.fetch();
                    wgmma_wait<0>();
                } else {
                    weights.fetch();
#pragma unroll
                    for (int b = 0; b < BLOCKS; b++) {
                        wgmma_fence();
#pragma unroll
                        for (int k = 0; k < RUN; k++) {
                            const shared_matrix high = matrix_of(s + k, b),
                                                rest = { high.at + low, high.stride };
                            wgmma(partial, a[k][PARTS<wgmma_form> - 1], high, k);
                            wgmma(partial, a[k][0], rest, 1);
                            wgmma(partial, a[k][0], high, 1);
                        }
                        wgmma_commit();
                        wgmma_wait<0>();
#pragma unroll
                        for (int k = 0; k < ROWS * 4; k++)
                            sums[b][k] += partial[k];
                    }
                }
            }
        }
    }
};

/* A macro's argument has no comma. Rows are not staged for dx at a stride: there it would gain
 * nothing. */
template <bool PHASES> using by_wgmma = wgmma_form<3, false, PHASES>;
template <bool PHASES> using by_wgmma_tf32 = wgmma_form<1, false, PHASES>;
template <bool> using by_rows = wgmma_form<1, true>;

TALC_CUDA_IMPLICIT_GEMM(implicit_gemm_wgmma, by_wgmma, 3 + TALC_BY_WGMMA)
TALC_CUDA_IMPLICIT_GEMM(implicit_gemm_wgmma_tf32, by_wgmma_tf32, 1 + TALC_BY_WGMMA)
TALC_CUDA_IMPLICIT_GEMM(implicit_gemm_rows_tf32, by_rows, 0)
