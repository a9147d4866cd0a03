#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */

#include "tests/support/hooks.h"

#include "backends/cpu/device/blas.h"
#include "backends/cpu/device/openblas.h"

#include <math.h>
#include <sys/mman.h>

static void open_openblas(void)
{
    cr_assert(talc_openblas_refuses() == NULL, "%s", talc_openblas_refuses());
}

TestSuite(blas, .init = open_openblas);

Test(blas, threads_are_one_inside_and_then_what_they_were)
{
    talc_openblas()->openblas_set_num_threads(2);
    talc_openblas_enter();
    cr_assert(talc_openblas()->openblas_get_num_threads() == 1);
    talc_openblas_leave();
    cr_assert(talc_openblas()->openblas_get_num_threads() == 2);
}

/* A = [1 2 3; 4 5 6], B = [7 8; 9 10; 11 12], A B = [58 64; 139 154]. */
Test(blas, products_of_every_layout)
{
    const double a[2][6] = { { 1, 2, 3, 4, 5, 6 }, { 1, 4, 2, 5, 3, 6 } };
    const double b[2][6] = { { 7, 8, 9, 10, 11, 12 }, { 7, 9, 11, 8, 10, 12 } };
    const double expected[4] = { 58, 64, 139, 154 };
    for (int ta = 0; ta < 2; ta++)
        for (int tb = 0; tb < 2; tb++) {
            double c[4] = { NAN, NAN, NAN, NAN };
            talc_blas_gemm(TALC_F64, ta, tb, 2, 2, 3, 1, a[ta], ta ? 2 : 3, b[tb], tb ? 3 : 2, 0, c,
                           2);
            for (int i = 0; i < 4; i++)
                cr_assert(c[i] == expected[i], "transposes %d %d, element %d: %g", ta, tb, i, c[i]);
            talc_blas_gemm(TALC_F64, ta, tb, 2, 2, 3, 0.5, a[ta], ta ? 2 : 3, b[tb], tb ? 3 : 2, 2,
                           c, 2);
            for (int i = 0; i < 4; i++)
                cr_assert(c[i] == 2.5 * expected[i], "transposes %d %d, accumulated %d: %g", ta, tb,
                          i, c[i]);
        }
}

Test(blas, an_empty_sum_is_zero)
{
    float c[2] = { NAN, NAN };
    talc_blas_gemm(TALC_F32, false, false, 1, 2, 0, 1, c, 0, c, 2, 0, c, 2);
    cr_assert(c[0] == 0 && c[1] == 0);
}

enum { FAR_ROWS = 2 };
static const int64_t far_apart = INT64_C(0x80000010);

/* Two rows of f32 that lie more elements apart than an int counts; only the pages that are touched
 * exist. */
static float *far_matrix(void)
{
    void *memory = mmap(NULL, (size_t)(far_apart * FAR_ROWS) * sizeof(float),
                        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void far_fill(float *matrix, float first)
{
    matrix[0] = first;
    matrix[1] = first + 1;
    matrix[far_apart] = first + 2;
    matrix[far_apart + 1] = first + 3;
}

/* [1 2; 3 4] and [5 6; 7 8], either one transposed. */
Test(blas, rows_may_lie_farther_apart_than_an_int_counts)
{
    static const float expected[2][2][4] = { { { 19, 22, 43, 50 }, { 17, 23, 39, 53 } },
                                             { { 26, 30, 38, 44 }, { 23, 31, 34, 46 } } };
    float *a = far_matrix(), *b = far_matrix(), *c = far_matrix();
    if (a == NULL || b == NULL || c == NULL)
        cr_skip("no address space");
    far_fill(a, 1);
    far_fill(b, 5);
    for (int ta = 0; ta < 2; ta++)
        for (int tb = 0; tb < 2; tb++) {
            far_fill(c, NAN);
            talc_blas_gemm(TALC_F32, ta, tb, 2, 2, 2, 1, a, far_apart, b, far_apart, 0, c,
                           far_apart);
            for (int i = 0; i < 4; i++)
                cr_assert(c[i / 2 * far_apart + i % 2] == expected[ta][tb][i],
                          "transposes %d %d, element %d: %g", ta, tb, i,
                          (double)c[i / 2 * far_apart + i % 2]);
        }
    munmap(a, (size_t)(far_apart * FAR_ROWS) * sizeof(float));
    munmap(b, (size_t)(far_apart * FAR_ROWS) * sizeof(float));
    munmap(c, (size_t)(far_apart * FAR_ROWS) * sizeof(float));
}
