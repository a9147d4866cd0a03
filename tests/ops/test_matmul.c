/* matmul: every algorithm, dtype, combination of ranks and kind of view against the oracle of the
 * cross-check. */
#include "tests/support/hooks.h"
#include "tests/support/operands.h"
#include "tests/support/oracle.h"

#include "check/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const rows[] = { "openblas", "reference" };

/* The operand as the oracle has it: a matrix for each product. A vector `a` is a row, `b` a
 * column. */
static const talc_tensor *matrices(const talc_tensor *operand, talc_dims batch, bool is_row)
{
    const talc_tensor *matrix =
        operand->rank == 1 ? talc_unsqueeze(operand, is_row ? 0 : 1) : operand;
    for (int i = matrix->rank - 2; i < matrix->rank; i++)
        batch.dim[batch.rank++] = matrix->dims[i];
    return talc_expand(matrix, batch);
}

/* y = a b by the oracle of the products that `a` and `b` broadcast to. */
static void check(const talc_tensor *a, const talc_tensor *b, const talc_tensor *y, bool reference,
                  const char *name)
{
    talc_dims batch = talc_dims_of(y);
    char problem[128];
    batch.rank -= (a->rank > 1) + (b->rank > 1);
    const talc_tensor *operands[] = { matrices(a, batch, true), matrices(b, batch, false) };
    const int64_t M = operands[0]->dims[batch.rank], N = operands[1]->dims[batch.rank + 1];
    snprintf(problem, sizeof problem, "matmul:b%dm%dn%dk%d_%s", (int)(talc_numel(y) / M / N),
             (int)M, (int)N, (int)operands[0]->dims[batch.rank + 1], talc_dtype_name(y->dtype));
    assert_expected(name, problem, operands, y, reference);
}

static talc_tensor *product_by(const char *row, const talc_tensor *a, const talc_tensor *b,
                               const char *name)
{
    talc_algorithm_force("matmul", row);
    talc_tensor *y = talc_matmul(a, b);
    talc_algorithm_force("matmul", NULL);
    cr_assert(!talc_failed(), "%s: %s", name, talc_error_message());
    return y;
}

// ---- Values -------------------------------------------------------------------------------------

static const struct {
    talc_dims a, b, y;
} shapes[] = {
    { { 1, { 5 } }, { 1, { 5 } }, { 0, { 0 } } },
    { { 1, { 5 } }, { 2, { 5, 3 } }, { 1, { 3 } } },
    { { 2, { 4, 5 } }, { 1, { 5 } }, { 1, { 4 } } },
    { { 2, { 1, 1 } }, { 2, { 1, 1 } }, { 2, { 1, 1 } } },
    { { 2, { 3, 4 } }, { 2, { 4, 5 } }, { 2, { 3, 5 } } },
    { { 2, { 1, 17 } }, { 2, { 17, 9 } }, { 2, { 1, 9 } } },
    { { 2, { 9, 17 } }, { 2, { 17, 1 } }, { 2, { 9, 1 } } },
    { { 2, { 9, 1 } }, { 2, { 1, 7 } }, { 2, { 9, 7 } } },
    { { 2, { 33, 65 } }, { 2, { 65, 31 } }, { 2, { 33, 31 } } },
    { { 3, { 6, 3, 4 } }, { 2, { 4, 5 } }, { 3, { 6, 3, 5 } } },
    { { 2, { 3, 4 } }, { 3, { 6, 4, 5 } }, { 3, { 6, 3, 5 } } },
    { { 3, { 6, 3, 4 } }, { 1, { 4 } }, { 2, { 6, 3 } } },
    { { 1, { 4 } }, { 3, { 6, 4, 5 } }, { 2, { 6, 5 } } },
    { { 3, { 6, 3, 4 } }, { 3, { 6, 4, 5 } }, { 3, { 6, 3, 5 } } },
    { { 3, { 1, 3, 4 } }, { 3, { 6, 4, 5 } }, { 3, { 6, 3, 5 } } },
    { { 3, { 6, 3, 4 } }, { 3, { 1, 4, 5 } }, { 3, { 6, 3, 5 } } },
    { { 4, { 2, 3, 1, 4 } }, { 2, { 4, 5 } }, { 4, { 2, 3, 1, 5 } } },
    { { 4, { 2, 1, 3, 4 } }, { 3, { 5, 4, 2 } }, { 4, { 2, 5, 3, 2 } } },
    { { 5, { 2, 1, 3, 2, 4 } }, { 4, { 4, 1, 4, 3 } }, { 5, { 2, 4, 3, 2, 3 } } },
    { { 8, { 2, 1, 2, 1, 2, 1, 2, 3 } },
      { 8, { 1, 2, 1, 2, 1, 2, 3, 2 } },
      { 8, { 2, 2, 2, 2, 2, 2, 2, 2 } } },
};

Test(matmul, every_algorithm_rank_view_and_dtype_agrees_with_the_oracle)
{
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++)
            for (int views = 0; views < VIEW_COUNT * VIEW_COUNT; views++) {
                owned_scope *scope = talc_scope_enter();
                talc_tensor *a = random_view(views % VIEW_COUNT, (talc_dtype)dtype, shapes[s].a, s);
                talc_tensor *b =
                    random_view(views / VIEW_COUNT, (talc_dtype)dtype, shapes[s].b, s + 100);
                uint64_t before = fingerprint(a) + fingerprint(b);
                for (int row = 0; row < 2; row++) {
                    char name[256], text_a[TALC_DIMS_TEXT], text_b[TALC_DIMS_TEXT];
                    snprintf(name, sizeof name, "%s %s %s views %d row %s",
                             talc_dims_text(shapes[s].a, text_a),
                             talc_dims_text(shapes[s].b, text_b),
                             talc_dtype_name((talc_dtype)dtype), views, rows[row]);
                    talc_tensor *y = product_by(rows[row], a, b, name);
                    talc_dims dims = talc_dims_of(y);
                    bool same = dims.rank == shapes[s].y.rank;
                    for (int i = 0; i < dims.rank && same; i++)
                        same = dims.dim[i] == shapes[s].y.dim[i];
                    cr_assert(same, "%s gives %s", name, talc_dims_text(dims, text_a));
                    check(a, b, y, row == 1, name);
                }
                cr_assert(fingerprint(a) + fingerprint(b) == before, "an operand changed");
            }
}

Test(matmul, operands_with_matrices_transposed_in_place_are_not_copied)
{
    talc_tensor *a = talc_transpose(random_operand(TALC_F32, TALC_DIMS(3, 40, 30), 1), 1, 2);
    talc_tensor *b = talc_transpose(random_operand(TALC_F32, TALC_DIMS(3, 20, 40), 2), 1, 2);
    size_t live = talc_device_memory(cpu_device()).live;
    talc_memory_reset_peak(cpu_device());
    talc_tensor *y = talc_matmul(a, b);
    assert_no_failure();
    cr_assert(talc_device_memory(cpu_device()).peak <= live + talc_nbytes(y) + 4096,
              "an operand was copied");
    check(a, b, y, false, "transposed");
}

/* Strides of 0, in the matrices and in the batch dimensions, on either side. */
Test(matmul, expanded_operands_are_multiplied_as_what_they_show)
{
    const struct {
        talc_dims a, a_shown, b, b_shown;
    } cases[] = {
        { { 2, { 1, 4 } }, { 2, { 3, 4 } }, { 2, { 4, 1 } }, { 2, { 4, 5 } } },
        { { 2, { 3, 1 } }, { 2, { 3, 4 } }, { 2, { 1, 5 } }, { 2, { 4, 5 } } },
        { { 1, { 1 } }, { 1, { 4 } }, { 1, { 1 } }, { 1, { 4 } } },
        { { 3, { 2, 3, 4 } }, { 3, { 2, 3, 4 } }, { 4, { 1, 1, 4, 6 } }, { 4, { 5, 2, 4, 6 } } },
        { { 3, { 1, 3, 4 } }, { 4, { 5, 2, 3, 4 } }, { 2, { 4, 6 } }, { 2, { 4, 6 } } },
        { { 3, { 2, 1, 4 } }, { 3, { 2, 3, 4 } }, { 2, { 4, 6 } }, { 2, { 4, 6 } } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int row = 0; row < 2; row++) {
            talc_tensor *a = talc_expand(random_operand(TALC_F32, cases[i].a, i), cases[i].a_shown);
            talc_tensor *b =
                talc_expand(random_operand(TALC_F32, cases[i].b, i + 9), cases[i].b_shown);
            char name[64];
            snprintf(name, sizeof name, "case %d row %s", (int)i, rows[row]);
            check(a, b, product_by(rows[row], a, b, name), row == 1, name);
        }
}

// ---- Edges --------------------------------------------------------------------------------------

Test(matmul, an_empty_sum_is_zero_and_empty_results_have_their_shape)
{
    for (int row = 0; row < 2; row++) {
        /* The result takes over memory that held NaN. */
        talc_release(talc_full(cpu_device(), TALC_F32, TALC_DIMS(2, 3, 4), NAN));
        talc_tensor *y =
            product_by(rows[row], talc_empty(cpu_device(), TALC_F32, TALC_DIMS(2, 3, 0)),
                       talc_empty(cpu_device(), TALC_F32, TALC_DIMS(0, 4)), "K = 0");
        cr_assert(y->rank == 3 && talc_numel(y) == 24);
        for (int i = 0; i < 24; i++)
            cr_assert(element_at(y, i) == 0, "%s: element %d is %g", rows[row], i,
                      element_at(y, i));
    }
    talc_tensor *y = talc_matmul(talc_ones(cpu_device(), TALC_F32, TALC_DIMS(0, 3)),
                                 talc_ones(cpu_device(), TALC_F32, TALC_DIMS(5, 3, 4)));
    assert_no_failure();
    cr_assert(y->rank == 3 && y->dims[0] == 5 && y->dims[1] == 0 && y->dims[2] == 4);
    y = talc_matmul(talc_ones(cpu_device(), TALC_F32, TALC_DIMS(0, 2, 3)),
                    talc_ones(cpu_device(), TALC_F32, TALC_DIMS(3)));
    assert_no_failure();
    cr_assert(y->rank == 2 && y->dims[0] == 0 && y->dims[1] == 2);
    cr_assert(talc_item(talc_matmul(talc_empty(cpu_device(), TALC_F64, TALC_DIMS(0)),
                                    talc_empty(cpu_device(), TALC_F64, TALC_DIMS(0)))) == 0);
}

Test(matmul, zeros_times_infinity_is_nan_for_vectors_too)
{
    for (int row = 0; row < 2; row++)
        for (int64_t n = 1; n < 9; n++) {
            talc_tensor *b = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(11, n));
            talc_fill(talc_select(b, 0, 6), INFINITY);
            talc_tensor *zeros = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(1, 11));
            talc_release(talc_full(cpu_device(), TALC_F32, TALC_DIMS(n), NAN));
            talc_tensor *left = product_by(rows[row], zeros, b, "left");
            talc_tensor *right = product_by(rows[row], talc_transpose(b, 0, 1),
                                            talc_view(zeros, TALC_DIMS(11)), "right");
            talc_tensor *finite = product_by(rows[row], talc_slice(zeros, 1, 0, 6, 1),
                                             talc_slice(b, 0, 0, 6, 1), "finite");
            for (int64_t i = 0; i < n; i++)
                cr_assert(isnan(element_at(left, i)) && isnan(element_at(right, i)) &&
                              element_at(finite, i) == 0,
                          "%s: n %d element %d", rows[row], (int)n, (int)i);
        }
}

/* Rows, columns and runs of k whose elements are up to 2^100 apart, some of them zeros, and some
 * that meet only zeros: what an algorithm that scales operands does to some must not show in
 * others. So many products that none is split. */
Test(matmul, rows_columns_and_runs_of_any_size_keep_their_bound)
{
    enum { PRODUCTS = 66, M = 130, N = 8, K = 4500, RUN = 512, ZERO = -1000, APART = 1000 };
    static const char *const all[] = { "openblas", "reference", "tensor_cores", "cublas",
                                       "direct" };
    static const int runs[] = { 0, -20, ZERO, ZERO, 20, 20, APART, APART, 7 };
    int ran = 0;
    talc_tensor *a = random_operand(TALC_F32, TALC_DIMS(M, K), 1),
                *b = random_operand(TALC_F32, TALC_DIMS(PRODUCTS, K, N), 2);
    float *of_a = talc_data(a, TALC_F32), *of_b = talc_data(b, TALC_F32);
    for (int64_t i = 0; i < M * K; i++) {
        const int k = (int)(i % K), run = runs[k / RUN];
        const bool meets_zeros = i / K % 4 == 3;
        of_a[i] = ldexpf(of_a[i], run == APART  ? (meets_zeros && k % 2 == 0 ? 90 : ZERO)
                                  : meets_zeros ? 0
                                                : run - (int)(i / K % 3) * 15);
        of_a[i] = i / K == 7 && k > 40 ? ldexpf(of_a[i], -30) : of_a[i];
    }
    for (int64_t i = 0; i < (int64_t)PRODUCTS * K * N; i++) {
        const int k = (int)(i / N % K), run = runs[k / RUN], n = (int)(i % N);
        const bool meets_zeros = n % 4 == 3;
        of_b[i] = ldexpf(of_b[i], run == APART ? (meets_zeros && k % 2 == 1 ? 90 : ZERO)
                                  : meets_zeros || run == ZERO ? 0
                                                               : -run / 2 - n % 4 * 12);
    }
    for (size_t row = 0; row < sizeof all / sizeof *all; row++) {
        talc_algorithm_force("matmul", all[row]);
        talc_tensor *y = talc_matmul(talc_to(a, tested_device(), TALC_F32),
                                     talc_to(b, tested_device(), TALC_F32));
        talc_algorithm_force("matmul", NULL);
        if (y == NULL) { /* the device has no such algorithm, or is too old for it */
            cr_assert(strstr(talc_error_message(), "there is no algorithm") != NULL ||
                          strstr(talc_error_message(), "compute capability") != NULL,
                      "%s", talc_error_message());
            talc_error_clear();
            continue;
        }
        ran++;
        y = talc_to(y, cpu_device(), TALC_F32);
        for (int i = 0; i < PRODUCTS; i += PRODUCTS - 1)
            check(a, talc_select(b, 0, i), talc_select(y, 0, i), false, all[row]);
    }
    cr_assert(ran >= 2, "%d rows", ran);
}

/* Heads of attention: [B,T,H,D] seen as [B,H,T,D], times the same seen as [B,H,D,T]. A copy of an
 * operand would be 1 MiB more at the peak; scores are 128 KiB, and the pool rounds up. */
Test(matmul, attention_multiplies_views_where_they_lie)
{
    enum { B = 2, T = 64, H = 4, D = 512, OPERAND = B * T * H * D * 4, CAPACITY = OPERAND / 2 };
    talc_device *device = tested_device();
    const talc_dims heads = TALC_DIMS(0, 2, 1, 3);
    talc_tensor *q = talc_permute(talc_randn(device, TALC_F32, TALC_DIMS(B, T, H, D)), heads);
    talc_tensor *k =
        talc_permute(talc_randn(device, TALC_F32, TALC_DIMS(B, T, H, D)), TALC_DIMS(0, 2, 3, 1));
    const talc_tensor *dy = talc_randn(device, TALC_F32, TALC_DIMS(B, H, T, T));
    talc_require_grad(q, true);
    talc_require_grad(k, true);
    cr_assert(talc_device_synchronize(device));

    const size_t live = talc_device_memory(device).live;
    talc_memory_reset_peak(device);
    const talc_tensor *y = talc_matmul(q, k);
    cr_assert(talc_device_synchronize(device), "%s", talc_error_message());
    cr_assert(talc_device_memory(device).peak - live < CAPACITY, "forward takes %zu bytes",
              talc_device_memory(device).peak - live);

    const size_t before = talc_device_memory(device).live;
    talc_memory_reset_peak(device);
    cr_assert(talc_backward_from(y, dy) && talc_device_synchronize(device), "%s",
              talc_error_message());
    cr_assert(talc_device_memory(device).peak - before < 2 * OPERAND + CAPACITY,
              "backward takes %zu bytes", talc_device_memory(device).peak - before);

    /* dq = dy k and dk = dy^T q, of a few elements of each head. */
    const talc_tensor *of[] = { q, k, dy, talc_grad(q), talc_grad(k) };
    const talc_tensor *x[5];
    for (int i = 0; i < 5; i++)
        x[i] = talc_to(of[i], cpu_device(), TALC_F32);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int t = 0; t < T; t += 21)
                for (int d = 0; d < D; d += 101) {
                    const int64_t head = (int64_t)b * H + h, row = (head * T + t) * D + d;
                    const int64_t column = (head * D + d) * T;
                    double dq = 0, dk = 0;
                    for (int s = 0; s < T; s++) {
                        dq +=
                            element_at(x[2], (head * T + t) * T + s) * element_at(x[1], column + s);
                        dk += element_at(x[2], (head * T + s) * T + t) *
                              element_at(x[0], (head * T + s) * D + d);
                    }
                    cr_assert(fabs(element_at(x[3], row) - dq) < 1e-4 &&
                              fabs(element_at(x[4], column + t) - dk) < 1e-4);
                }
}

Test(matmul, a_row_or_a_column_is_done_by_gemv_on_the_cpu)
{
    static const struct {
        const char *problem, *chosen;
    } cases[] = {
        { "matmul:m1n6k7_tb_bias", "openblas(gemv)" }, { "matmul:m6n1k7_ta", "openblas(gemv)" },
        { "matmul:b3m1n1k7_f64", "openblas(gemv)" },   { "matmul:m2n6k7", "openblas(gemm)" },
        { "matmul:m6n2k1", "openblas(gemm)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        talc_explanation e;
        cr_assert(talc_explain(cpu_device(), cases[i].problem, NULL, &e), "%s",
                  talc_error_message());
        cr_assert_str_eq(e.candidates[e.chosen].title, cases[i].chosen);
        const bool vector = strcmp(cases[i].chosen, "openblas(gemv)") == 0;
        cr_assert_str_eq(e.candidates[0].reason,
                         vector ? "" : "the result has several rows and several columns");
        cr_assert(!e.candidates[1].refused, "gemm takes every product");
    }
}

/* Long ones are cut into blocks of rows or columns, of which the last is shorter. */
Test(matmul, blocks_of_a_row_or_a_column_make_all_of_it)
{
    static const char *const texts[] = { "matmul:m1n333k1000_tb_bias_relu", "matmul:m1n517k600",
                                         "matmul:m401n1k700_ta", "matmul:b2m37n1k5000_f64" };
    owned_check *checks = talc_check_new(&(talc_check_options){ .device = cpu_device() });
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_assert(talc_check_problem(checks, texts[i]), "%s", talc_error_message());
    cr_assert(talc_check_passed(checks));
}
