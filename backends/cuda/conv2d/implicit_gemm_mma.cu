/// implicit_gemm for GPUs whose tensor cores work warp by warp: from compute capability 8.0 on, by mma.sync. The rest is implicit_gemm.cu's.
///
/// The operands are where they are for wgmma: a thread's weights of a step are its part of mma's first operand, and 8 positions of 8
/// channels in shared memory, 16 bytes each, are one of ldmatrix's four matrices. The sums of a step begin with zero, and f32 registers
/// add them up every 16 products.
///
/// Source: PTX ISA 8.5, section 9.7.13 (ldmatrix, mma.m16n8k16).
#include "backends/cuda/conv2d/implicit_gemm/row.cuh"
#include "backends/cuda/primitives/mma.cuh"

using namespace talc;

template <int COUNT> struct mma_form {
    /* 384 threads have 168 registers each, more would have 128: 64 of them are sums. With 128, of 8 rows, none are left to load the next
     * matrices while these are multiplied, and a sum waits for the one before. */
    static constexpr int PRODUCTS = COUNT, ROWS = 4, LOADERS = 128,
                         FIRST_LOADER = MULTIPLIERS * 128;
    static constexpr bool STAGED = false;
    static constexpr int RUN = COUNT == 3 ? 1 : 2, DEPTH = COUNT == 3 ? 3 : 6;
    /* Elements that are loaded in a clock cycle. */
    static constexpr double LOADS = COUNT == 3 ? 0.8 : 1;

    uint32_t first; ///< this lane's row of the first four matrices

    static const char *refuses(int capability)
    {
        return capability >= 80 ? NULL : "the GPU is older than compute capability 8.0";
    }
    /* Clock cycles of the products of a step, at so many a multiprocessor, or of what they read and write in shared memory, 128 bytes in one. */
    static double cycles(int capability)
    {
        const double rate = capability == 90                          ? 1270
                            : capability / 10 == 8 && capability > 80 ? 512
                                                                      : 1024;
        const double products = MULTIPLIERS * CHANNELS * ROWS * COLUMNS * STEP * PRODUCTS / rate;
        const double reading =
            MULTIPLIERS * 4 * (ROWS * BLOCKS * 256 + 1024) * PARTS<mma_form> / 128.;
        return products > reading ? products : reading;
    }
    static __device__ void begin_loading()
    {
    }
    static __device__ void begin_multiplying()
    {
    }
    static __device__ void publish()
    {
    }
    /* Matrices 0 and 1 are the channels of a step, 2 and 3 their low parts or else the positions of the next block. */
    __device__ mma_form(const gemm_problem &p, uint32_t patches)
    {
        const int lane = (int)threadIdx.x % WARP, plane = p.phases * p.positions;
        first = patches + (uint32_t)(lane % 8 + lane / 8 % 2 * plane +
                                     lane / 16 * (PRODUCTS == 3 ? p.channels / PLANE * plane : 8)) *
                              16;
    }
    __device__ void settle()
    {
    }
    /* Adds a step's products at 32 positions to sums[][k] to sums[][k + 3]. */
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
            float part[BLOCKS][4] = {};
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                x[b] = four_matrices<false>(row + b * 128);
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                mma(part[b], a[1], x[b].x, x[b].y);
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                mma(part[b], a[0], x[b].z, x[b].w);
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                mma(part[b], a[0], x[b].x, x[b].y);
#pragma unroll
            for (int i = 0; i < BLOCKS * 4; i++)
                sums[i / 4][k + i % 4] += part[i / 4][i % 4];
        }
    }
    __device__ void add(const gemm_problem &p, int buffer, weight_stream<mma_form> &weights,
                        float (&sums)[BLOCKS][ROWS * 4])
    {
        const uint32_t patch = first + (uint32_t)(buffer * p.patch_bytes);
#pragma unroll 1
        for (int s = 0; s < p.steps; s += RUN) {
            uint4 a[RUN][PARTS<mma_form>];
            __pipeline_wait_prior(DEPTH - RUN);
            weights.read(a);
            weights.fetch();
#pragma unroll
            for (int i = 0; i < RUN; i++) {
                uint32_t row = patch + p.shifts[s + i] * 16;
#pragma unroll
                for (int k = 0; k < ROWS * 4; k += 4, row += (uint32_t)p.row_shift * 16)
                    add_row(a[i], row, k, sums);
            }
        }
        __syncwarp();
    }
};

TALC_CUDA_FORM_WITH_GRADIENTS(implicit_gemm_mma, mma_form<3>, 3)
TALC_CUDA_FORM_WITH_GRADIENTS(implicit_gemm_mma_tf32, mma_form<1>, 1)
