// The product core on tensor cores, its kernels run on the CPU (tests/emulation).
#include "backends/cuda/gemm/core.cuh"

#include <criterion/criterion.h>

using namespace talc;

namespace
{

/* Of [R, K] times [K, C], batch after batch. */
struct problem {
    int64_t R, C, K;
    int batch, splits, blocks;
    bool swapped; ///< y is [C, R]
    int pad;      ///< between the rows of the operands
    bool ends;    ///< with bias, residual and relu
};

enum kind_of_data { UNIFORM, WIDE, NON_FINITE, SPARSE };

uint64_t state;

double some()
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0 * 2 - 1;
}

float value_of(kind_of_data kind)
{
    const double x = some();
    switch (kind) {
    case WIDE:
        return (float)(x * ldexp(1, (int)(some() * 40)));
    case NON_FINITE:
        return fabs(some()) < 0.01 ? (x < 0 ? -INFINITY : x < 0.5 ? INFINITY : NAN) : (float)x;
    case SPARSE:
        return some() < 0 ? 0 : (float)x;
    default:
        return (float)x;
    }
}

std::vector<float> values(int64_t count, kind_of_data kind)
{
    std::vector<float> v((size_t)count);
    for (float &x : v)
        x = value_of(kind);
    return v;
}

template <bool ALONG_K> struct operand {
    int64_t ld, matrix;
    std::vector<float> data;

    operand(int64_t rows, int64_t K, const problem &p, kind_of_data kind)
        : ld((ALONG_K ? K : rows) + p.pad), matrix(ld * (ALONG_K ? rows : K)),
          data(values(matrix * p.batch, kind))
    {
    }
    double at(int64_t product, int64_t row, int64_t k) const
    {
        return data[(size_t)(product * matrix + (ALONG_K ? row * ld + k : k * ld + row))];
    }
    matrix_operand<ALONG_K> view(int64_t rows, int64_t K) const
    {
        return {
            data.data(), ALONG_K ? ld : 1, ALONG_K ? 1 : ld, rows, K, ld % 4 == 0 && matrix % 4 == 0
        };
    }
};

/* The kernel's results within the strict bound of f64's, 4 u sqrt(K + 4) times the magnitudes; NaN
 * where f64 has it. */
template <bool A_ALONG_K, bool B_ALONG_K, int COLUMNS>
void check(const problem &p, kind_of_data kind)
{
    using Rows = matrix_operand<A_ALONG_K>;
    using Columns = matrix_operand<B_ALONG_K>;
    const operand<A_ALONG_K> a(p.R, p.K, p, kind);
    const operand<B_ALONG_K> b(p.C, p.K, p, kind);
    const int64_t outputs = p.R * p.C * p.batch, N = p.swapped ? p.R : p.C;
    const std::vector<float> bias = values(N, UNIFORM), residual = values(outputs, UNIFORM);
    std::vector<float> y((size_t)outputs), sums((size_t)(outputs * p.splits));
    std::vector<row_bound> of_rows((size_t)(p.splits * p.batch * p.R)),
        of_columns((size_t)(p.splits * p.batch * p.C));
    unsigned long long recomputed = 0;
    const int64_t one_batch[] = { p.batch };
    gemm_problem<Rows, Columns> g{
        .a = a.view(p.R, p.K),
        .b = b.view(p.C, p.K),
        .map = { (int)talc_ceil_div(p.R, TALC_TILE_ROWS), (int)talc_ceil_div(p.C, COLUMNS),
                 (int)talc_ceil_div(p.K, TALC_TILE_K), p.splits },
        .y = y.data(),
        .splits_of_y = p.splits > 1 ? sums.data() : nullptr,
        .row_bounds = of_rows.data(),
        .column_bounds = of_columns.data(),
        .last = { p.ends ? bias.data() : nullptr, p.ends ? residual.data() : nullptr,
                  p.ends ? TALC_ACTIVATION_RELU : TALC_ACTIVATION_NONE },
        .outputs = outputs,
        .y_row = p.swapped ? 1 : N,
        .y_column = p.swapped ? N : 1,
        .work = 0,
        .products = p.batch,
        .vectors = N % 4 == 0,
        .coefficient = 0x1p14f / sqrtf((float)p.K),
        .recomputed = &recomputed,
        .matrices = { 1, one_batch, { &a.matrix, &b.matrix } },
    };
    g.work = p.batch * p.splits * g.map.row_tiles * g.map.column_tiles;
    cr_assert(emulation::run_grid(dim3((unsigned)p.blocks, 1, 1), GEMM_THREADS,
                                  sizeof(gemm_shared<Rows, Columns, COLUMNS>),
                                  [&] { gemm<Rows, Columns, COLUMNS>(g); }));
    if (p.splits > 1)
        cr_assert(emulation::run_grid(dim3((unsigned)talc_ceil_div(outputs, BLOCK), 1, 1), BLOCK, 0,
                                      [&] { add_splits<Rows, Columns>(g); }));
    int wrong = 0;
    for (int64_t i = 0; i < outputs; i++) {
        const int64_t product = i / (p.R * p.C), rest = i % (p.R * p.C), m = rest / N, n = rest % N;
        const int64_t r = p.swapped ? n : m, c = p.swapped ? m : n;
        double sum = p.ends ? (double)bias[(size_t)n] + residual[(size_t)i] : 0,
               magnitude = fabs(sum);
        for (int64_t k = 0; k < p.K; k++) {
            const double x = a.at(product, r, k) * b.at(product, c, k);
            sum += x, magnitude += fabs(x);
        }
        if (p.ends && sum < 0)
            sum = 0;
        const double error = fabs(y[(size_t)i] - sum),
                     bound = 4 * 0x1p-24 * sqrt((double)p.K + 4) * magnitude;
        const bool right = std::isnan(sum)   ? std::isnan(y[(size_t)i])
                           : std::isinf(sum) ? y[(size_t)i] == (float)sum
                                             : error <= bound;
        if (!right && wrong++ == 0)
            fprintf(stderr, "product %d, [%d, %d]: %g, expected %g\n", (int)product, (int)r, (int)c,
                    (double)y[(size_t)i], sum);
    }
    cr_expect(wrong == 0, "%d x %d x %d, columns %d, %s %s: %d wrong", (int)p.R, (int)p.C, (int)p.K,
              COLUMNS, A_ALONG_K ? "along k" : "across", B_ALONG_K ? "along k" : "across", wrong);
    if (kind == UNIFORM || kind == SPARSE)
        cr_expect(recomputed == 0, "%llu recomputed", recomputed);
    if (kind == WIDE || kind == NON_FINITE)
        cr_expect(recomputed > 0);
}

template <int COLUMNS> void check_layouts(const problem &p, kind_of_data kind)
{
    state = 1;
    check<true, true, COLUMNS>(p, kind);
    check<true, false, COLUMNS>(p, kind);
    check<false, true, COLUMNS>(p, kind);
    check<false, false, COLUMNS>(p, kind);
}

} // namespace

Test(gemm_core, one_tile)
{
    check_layouts<128>({ 128, 128, 64, 1, 1, 1, false, 0, false }, UNIFORM);
}

Test(gemm_core, tiles_that_are_not_full)
{
    check_layouts<128>({ 200, 140, 100, 2, 1, 3, false, 0, true }, UNIFORM);
    check_layouts<64>({ 130, 68, 41, 1, 1, 2, true, 0, true }, UNIFORM);
    check_layouts<32>({ 5, 3, 33, 3, 1, 2, false, 0, false }, UNIFORM);
}

Test(gemm_core, more_stages_than_there_are)
{
    check_layouts<64>({ 300, 64, 500, 1, 1, 2, false, 0, false }, UNIFORM);
}

Test(gemm_core, rows_that_are_not_aligned)
{
    check_layouts<128>({ 132, 129, 70, 1, 1, 2, true, 1, false }, UNIFORM);
}

Test(gemm_core, splits)
{
    check_layouts<32>({ 260, 36, 200, 1, 3, 4, false, 0, true }, UNIFORM);
    check_layouts<128>({ 132, 129, 300, 1, 2, 2, true, 1, false }, UNIFORM);
}

Test(gemm_core, what_a_narrow_range_corrupts_is_recomputed)
{
    check_layouts<128>({ 60, 132, 70, 1, 1, 1, false, 0, false }, WIDE);
    check_layouts<32>({ 140, 33, 70, 1, 2, 2, true, 0, true }, WIDE);
}

Test(gemm_core, nan_and_infinity)
{
    check_layouts<128>({ 40, 36, 40, 1, 1, 1, false, 0, false }, NON_FINITE);
    check_layouts<32>({ 40, 33, 70, 1, 2, 2, true, 0, true }, NON_FINITE);
}

Test(gemm_core, zeros_are_not_tiny)
{
    check_layouts<64>({ 130, 64, 70, 1, 1, 2, false, 0, false }, SPARSE);
}
