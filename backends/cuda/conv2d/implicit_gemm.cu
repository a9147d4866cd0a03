/// Convolution as a matrix product on Hopper's tensor cores, without the matrix of im2col. For each
/// group
///
///     y[oc, position] = sum over steps of w[oc, step] * x[step, position]
///
/// A step is a tap and 16 input channels.
///
/// Who computes what: a block stays on its multiprocessor and computes one tile of y after the
/// other. The warps that load write the part of x under the tile, the halo tile, to shared memory
/// as [channels of 8][position][8]. There a tap is an offset, and all taps read the same halo tile.
/// Two warpgroups multiply. Each computes 64 output channels of 256 positions. The positions are 8
/// rows of 32 or, where rows are short, 256 that run on over the ends of rows and images. At a
/// stride, the halo tile is divided into the phases that taps reach. Where channels are few, each
/// phase counts as more channels. Where sums are short and halo tiles are ranges of whole rows,
/// bulk copies first bring the rows to shared memory (staged.cuh). The weights are the first
/// operand, in registers: each thread loads its own through a ring in shared memory.
///
/// Arithmetic: a power of two scales each halo tile and each channel of weights into the range of
/// f16. STRICT splits both operands into high and low parts and adds up high * high, high * low and
/// low * high. Tensor cores truncate, so it adds their sums to f32 registers every 48 products.
/// TF32 takes the high parts alone. The elements that underflow when scaled are counted as they are
/// loaded. A sum is recomputed by FFMA where it is not well above the error that they can cause, or
/// is NaN. So each class's bound holds on any data.
///
/// Source: Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores while
/// surpassing the FP32 theoretical peak performance, 2022.
#include "backends/cuda/conv2d/implicit_gemm/algorithm.cuh"
#include "backends/cuda/primitives/wgmma.cuh"

using namespace talc;

/// The Form by wgmma. Its second operand is the halo tile in shared memory.
template <int COUNT, bool IS_STAGED = false> struct wgmma_form {
    static constexpr bool STAGED = IS_STAGED, LANES_READ = false;
    static constexpr int PRODUCTS = COUNT, ROWS = 8, LOADERS = STAGED ? 128 : 256,
                         FIRST_LOADER = MULTIPLIERS * 128;
    /* The products of a run add to the same sums: changing the sums costs the tensor cores time. */
    static constexpr int RUN = COUNT == 3 || STAGED ? 3 : 2, DEPTH = COUNT == 3 ? 6
                                                                     : STAGED   ? 9
                                                                                : 8;
    /* Registers of a thread. Each begins with 168 where rows are staged, else with 128. */
    static constexpr int MULTIPLIER_REGISTERS = STAGED ? 216 : 200,
                         LOADER_REGISTERS = STAGED ? 72 : 56;
    /* Elements that the block loads in a clock cycle. */
    static constexpr double LOADS = COUNT == 3 ? 1.25 : 1.6;

    shared_matrix first;
    uint32_t low;
    float partial[ROWS * 4]; /* a member, so that the sums of all blocks use the same registers */

    static const char *refuses(int capability)
    {
        return capability == 90 ? NULL : "the GPU is not of compute capability 9.0";
    }
    /* Clock cycles of the products of a step. */
    static double cycles(int)
    {
        return BLOCKS * 32 * PRODUCTS * MULTIPLIERS;
    }
    static __device__ void begin_loading()
    {
        registers_down<LOADER_REGISTERS>();
    }
    static __device__ void begin_multiplying()
    {
        registers_up<MULTIPLIER_REGISTERS>();
    }
    static __device__ void publish()
    {
        fence_async_shared();
    }
    __device__ wgmma_form(const gemm_problem &p, uint32_t halo_tiles)
    {
        first = shared_matrix_of(halo_tiles, p.phases * p.positions, p.row_shift);
        low = (uint32_t)(p.channels / PLANE * p.phases * p.positions);
    }
    __device__ void settle()
    {
        wgmma_wait<0>(); /* without it, the compiler waits after every product */
    }
    __device__ void add(const gemm_problem &p, int buffer, weight_stream<wgmma_form> &weights,
                        float (&sums)[BLOCKS][ROWS * 4])
    {
        const uint32_t halo_tile = first.at + (uint32_t)(buffer * p.halo_tile_bytes / 16);
        auto matrix_of = [&](int s, int b) {
            return shared_matrix{ halo_tile + p.shifts[s] + b * 8, first.stride };
        };
        if constexpr (STAGED) {
            static_assert(PRODUCTS == 1, "");
            /* A run begins before the products of the run before it have ended. */
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
            for (int s = 0; s < p.steps; s += 2 * RUN) {
                begin(s, a[0]);
                if (s + RUN < p.steps)
                    begin(s + RUN, a[1]);
            }
            wgmma_wait<0>();
        } else {
            for (int s = 0; s < p.steps; s += RUN) {
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

using by_rows = wgmma_form<1, true>;

TALC_CUDA_FORM_WITH_GRADIENTS(implicit_gemm_wgmma, wgmma_form<3>, 3 + TALC_BY_WGMMA)
TALC_CUDA_FORM_WITH_GRADIENTS(implicit_gemm_wgmma_tf32, wgmma_form<1>, 1 + TALC_BY_WGMMA)
TALC_CUDA_FORM_WITH_GRADIENTS(implicit_gemm_rows_tf32, by_rows, 0)
