#include "backends/cpu/device/blas.h"

#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/openblas.h"
#include "tensor/extent.h"

#include <string.h>

/* Element (row, column) of a matrix whose rows lie ld apart. */
static const char *at(const void *matrix, int64_t row, int64_t column, int64_t ld, int64_t size)
{
    return (const char *)matrix + (row * ld + column) * size;
}

/* A leading dimension that does not fit belongs to a single row, where it is not used. OpenBLAS
 * wants at least 1 for empty rows too. */
static blasint leading(int64_t ld, int64_t columns)
{
    const int64_t fitting = ld <= INT32_MAX ? ld : columns;
    return (blasint)(fitting > 1 ? fitting : 1);
}

/* The library's functions for an element type. */
#define TYPED_FUNCTIONS(suffix, T, letter)                                                         \
    static void gemm_##suffix(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n,        \
                              blasint k, double alpha, const void *a, blasint lda, const void *b,  \
                              blasint ldb, double beta, void *c, blasint ldc)                      \
    {                                                                                              \
        talc_openblas()->cblas_##letter##gemm(CblasRowMajor, ta, tb, m, n, k, (T)alpha, a, lda, b, \
                                              ldb, (T)beta, c, ldc);                               \
    }                                                                                              \
                                                                                                   \
    static void gemv_##suffix(CBLAS_TRANSPOSE t, blasint m, blasint n, const void *a, blasint lda, \
                              const void *x, blasint step, void *y)                                \
    {                                                                                              \
        talc_openblas()->cblas_##letter##gemv(CblasRowMajor, t, m, n, 1, a, lda, x, step, 0, y,    \
                                              1);                                                  \
    }

TYPED_FUNCTIONS(f32, float, s)
TYPED_FUNCTIONS(f64, double, d)

void talc_blas_gemm(talc_dtype dtype, bool transpose_a, bool transpose_b, int64_t M, int64_t N,
                    int64_t K, double alpha, const void *A, int64_t lda, const void *B, int64_t ldb,
                    double beta, void *C, int64_t ldc)
{
    const int64_t size = (int64_t)talc_dtype_size(dtype);
    const CBLAS_TRANSPOSE ta = transpose_a ? CblasTrans : CblasNoTrans;
    const CBLAS_TRANSPOSE tb = transpose_b ? CblasTrans : CblasNoTrans;
    const bool far_a = lda > INT32_MAX, far_b = ldb > INT32_MAX, far_c = ldc > INT32_MAX;
    const int64_t m_step = far_c || (far_a && !transpose_a) ? 1 : INT32_MAX;
    const int64_t n_step = far_b && transpose_b ? 1 : INT32_MAX;
    const int64_t k_step = (far_a && transpose_a) || (far_b && !transpose_b) ? 1 : INT32_MAX;

    for (int64_t m = 0; m < M; m += m_step) {
        for (int64_t n = 0; n < N; n += n_step) {
            const blasint ms = (blasint)talc_smaller(m_step, M - m),
                          ns = (blasint)talc_smaller(n_step, N - n);
            char *c = (char *)C + (m * ldc + n) * size;
            int64_t k = 0;
            /* At least once: an empty sum still scales C. */
            do {
                const blasint ks = (blasint)talc_smaller(k_step, K - k);
                const char *a = transpose_a ? at(A, k, m, lda, size) : at(A, m, k, lda, size);
                const char *b = transpose_b ? at(B, n, k, ldb, size) : at(B, k, n, ldb, size);
                const blasint as = leading(lda, transpose_a ? ms : ks),
                              bs = leading(ldb, transpose_b ? ks : ns);
                const double scale = k == 0 ? beta : 1.0;
                TALC_CPU_CALL(
                    dtype, gemm,
                    (ta, tb, ms, ns, ks, alpha, a, as, b, bs, scale, c, leading(ldc, ns)));
                k += k_step;
            } while (k < K);
        }
    }
}

bool talc_blas_gemv(talc_dtype dtype, bool transpose, int64_t rows, int64_t columns, const void *A,
                    int64_t lda, const void *x, int64_t step, void *y)
{
    if (rows > INT32_MAX || columns > INT32_MAX || lda > INT32_MAX || step > INT32_MAX)
        return false;
    const CBLAS_TRANSPOSE t = transpose ? CblasTrans : CblasNoTrans;
    const blasint m = (blasint)rows, n = (blasint)columns;
    /* Some versions scale y even by beta 0, which keeps NaN. */
    memset(y, 0, (size_t)(transpose ? columns : rows) * talc_dtype_size(dtype));
    TALC_CPU_CALL(dtype, gemv, (t, m, n, A, leading(lda, columns), x, (blasint)step, y));
    return true;
}
