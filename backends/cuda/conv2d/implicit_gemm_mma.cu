/// implicit_gemm for GPUs with mma.sync, from compute capability 8.0 on. implicit_gemm.cu has the
/// rest of the method.
///
/// The operands are stored as for wgmma. A thread's weights of a step are its elements of the first
/// operand of mma. In shared memory, 8 positions of 8 channels, 16 bytes each, are one of the four
/// matrices of ldmatrix. The sums of a step begin at zero, and f32 registers add them up every 16
/// products.
///
/// Source: PTX ISA 8.5, section 9.7.13 (ldmatrix, mma.m16n8k16).
#include "backends/cuda/conv2d/implicit_gemm/algorithm.cuh"
#include "backends/cuda/primitives/mma.cuh"

using namespace talc;

template <int COUNT, bool HAS_PHASES = false> struct mma_form {
    static constexpr talc_gemm_form VALUES = COUNT == 3 ? TALC_GEMM_MMA : TALC_GEMM_MMA_TF32;
    static constexpr bool STAGED = VALUES.staged, PHASES = HAS_PHASES, LANES_READ = true;
    static constexpr int PRODUCTS = VALUES.products, ROWS = VALUES.rows, LOADERS = VALUES.loaders,
                         FIRST_LOADER = MULTIPLIERS * 128, RUN = VALUES.run, DEPTH = VALUES.depth,
                         MULTIPLIER_REGISTERS = 0, LOADER_REGISTERS = 0;

    uint32_t first; ///< address of this lane's row of the first four matrices

    static __device__ void publish()
    {
    }
    /* Matrices 0 and 1 are the channels of a step. Matrices 2 and 3 are their low parts or, without
     * those, the positions of the next block. */
    __device__ mma_form(const gemm_problem &p, uint32_t halo_tiles)
    {
        const int lane = (int)threadIdx.x % WARP, plane = p.phases * p.positions;
        first =
            halo_tiles + (uint32_t)(lane % 8 + lane / 8 % 2 * plane +
                                    lane / 16 * (PRODUCTS == 3 ? p.channels / PLANE * plane : 8)) *
                             16;
    }
    __device__ void settle()
    {
    }
    /* Adds the products of a step at 32 positions to sums[][k] to sums[][k + 3]. */
    static __device__ void add_row(const uint4 (&a)[PARTS<mma_form>], uint32_t row, int k,
                                   float (&sums)[BLOCKS][ROWS * 4])
    {
        if constexpr (PRODUCTS == 1) {
#pragma unroll
            for (int b = 0; b < BLOCKS; b += 2) {
                const uint4 x = four_matrices<false>(row + b * 128);
                mma(sums[b] + k, a[0], x.x, x.y);
                mma(sums[b + 1] + k, a[0], x.z, x.w);
            }
        } else {
            uint4 x[BLOCKS];
            float partial[BLOCKS][4] = {};
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                x[b] = four_matrices<false>(row + b * 128);
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                mma(partial[b], a[1], x[b].x, x[b].y);
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                mma(partial[b], a[0], x[b].z, x[b].w);
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                mma(partial[b], a[0], x[b].x, x[b].y);
#pragma unroll
            for (int i = 0; i < BLOCKS * 4; i++)
                sums[i / 4][k + i % 4] += partial[i / 4][i % 4];
        }
    }
    __device__ void add(const gemm_problem &p, int buffer, talc_gemm_steps steps,
                        weight_stream<mma_form> &weights, float (&sums)[BLOCKS][ROWS * 4])
    {
        const uint32_t halo_tile = first + (uint32_t)(buffer * p.halo_tile_bytes);
        const int end = steps.first + steps.count;
#pragma unroll 1
        for (int s = steps.first; s < end; s += RUN) {
            uint4 a[RUN][PARTS<mma_form>];
            __pipeline_wait_prior(DEPTH - RUN);
            weights.read(a);
            weights.fetch();
#pragma unroll
            for (int i = 0; i < RUN; i++) {
                uint32_t row = halo_tile + p.shifts[s + i] * 16;
#pragma unroll
                for (int k = 0; k < ROWS * 4; k += 4, row += (uint32_t)p.row_shift * 16)
                    add_row(a[i], row, k, sums);
            }
        }
    }
};

template <bool PHASES> using by_mma = mma_form<3, PHASES>;
template <bool PHASES> using by_mma_tf32 = mma_form<1, PHASES>;

TALC_CUDA_IMPLICIT_GEMM(implicit_gemm_mma, by_mma, 3)
TALC_CUDA_IMPLICIT_GEMM(implicit_gemm_mma_tf32, by_mma_tf32, 1)
