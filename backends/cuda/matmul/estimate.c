#include "backends/cuda/matmul/estimate.h"

#include "backends/cuda/device/estimate.h"

/* Of an H200: cuBLAS's rate beside its rate in long sums, where operands are moved before and not
 * meanwhile. Of the rate of memory what cuBLAS reaches where both operands are contiguous along k
 * (an H100, from 8 rows on, 64 to 470 million weights), and what `dot` reaches on one matrix; what
 * the L2 cache gives `dot` of several. What `direct` waits for before and after its sums, and for a
 * step of k, mostly memory; a product of `direct` where its blocks do not fill the GPU. */
static const double CUBLAS_SHARE = 1.2, ALONG_K_SHARE = 0.43, DOT_SHARE = 0.5, DOT_CACHE = 7e12,
                    WAITS = 1e-6, STEP = 23e-9, PRODUCT = 4e-6 / (1 << 22);

/* Of an H100, on 100 batched products of 16 to 20,000 rows, columns and steps of k: cuBLAS's time
 * for a step of k of a batch, whose sums it does not split; with TF32 its rates where rows are
 * aligned to 16 bytes and where not, of products and of memory. */
static const double CUBLAS_STEP = 12e-9, TF32_RATE = 330e12, TF32_UNALIGNED = 140e12,
                    TF32_MEMORY = 2.8e12;

/* Of an H200, up to 128 rows, operands of 64 MB and more: the rate at which cuBLAS with TF32 reads
 * the larger one, multiplying meanwhile; from 16 rows on, or 8 where B is transposed. */
static const double TF32_STREAM = 3.7e12, STREAMED = 64e6;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double products(const talc_matmul_problem *p)
{
    return (double)p->batch * (double)p->M * (double)p->N * (double)p->K;
}

/* Matrices that a batch reads: not again those that it shares. */
static double matrices(const talc_matmul_problem *p, const int64_t strides[TALC_MAX_RANK])
{
    double count = 1;
    for (int i = 0; i < p->batch_rank; i++)
        count *= strides[i] == 0 ? 1 : (double)p->batch_dims[i];
    return count;
}

/* The time for the operands, each read or written once. */
static double moving(const talc_matmul_problem *p)
{
    const double M = (double)p->M, N = (double)p->N, K = (double)p->K;
    const double y = (double)p->batch * M * N;
    const double elements = matrices(p, p->a_strides) * M * K + matrices(p, p->b_strides) * K * N +
                            y * (p->residual ? 2 : 1) + (p->bias ? N : 0);
    return elements * (double)talc_dtype_size(p->dtype) / talc_cuda_bytes_a_second();
}

double talc_cuda_matmul_dot_seconds(const talc_matmul_problem *p)
{
    /* For each four products an element of B is loaded, and for each product one of A. */
    const double loaded = products(p) * 1.25 * (double)talc_dtype_size(p->dtype);
    return TALC_CUDA_LAUNCH + moving(p) / (p->batch == 1 ? DOT_SHARE : 1) +
           (p->M > 4 ? loaded / DOT_CACHE : 0);
}

double talc_cuda_matmul_cublas_seconds(const talc_device *device, const talc_matmul_problem *p)
{
    const double moves = moving(p);
    const double seconds =
        moves + talc_cuda_seconds(device, p->dtype, 2 * products(p),
                                  CUBLAS_SHARE * talc_cuda_blas_share(p->dtype), 0, 0);
    const bool along_k = !p->transpose_a && p->transpose_b && p->M >= 8;
    return TALC_CUDA_LAUNCH + TALC_CUDA_CUBLAS + (p->batch > 1 ? (double)p->K * CUBLAS_STEP : 0) +
           (along_k ? larger(seconds, moves / ALONG_K_SHARE) : seconds);
}

double talc_cuda_matmul_tf32_seconds(const talc_matmul_problem *p)
{
    const bool aligned = p->lda % 4 == 0 && p->ldb % 4 == 0 && p->N % 4 == 0;
    const double start = TALC_CUDA_LAUNCH + TALC_CUDA_CUBLAS,
                 bytes = moving(p) * talc_cuda_bytes_a_second(),
                 multiplying = 2 * products(p) / (aligned ? TF32_RATE : TF32_UNALIGNED);
    if (p->batch == 1 && p->M >= (p->transpose_b ? 8 : 16) && p->M <= 128 && bytes >= STREAMED &&
        aligned)
        return start + larger(bytes / TF32_STREAM, multiplying);
    return start + (p->batch > 1 ? (double)p->K * TALC_CUDA_TF32_STEP : 0) + bytes / TF32_MEMORY +
           multiplying;
}

double talc_cuda_matmul_direct_seconds(const talc_matmul_problem *p)
{
    return TALC_CUDA_LAUNCH + WAITS + larger((double)p->K * STEP, products(p) * PRODUCT) +
           moving(p);
}
