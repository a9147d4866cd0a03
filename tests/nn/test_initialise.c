/* Initialisers: bounds and moments against formulas in f64 and PyTorch's numbers for them, what is
 * orthonormal, which parameters a pattern reaches, and every message. */
#include "tests/support/hooks.h"
#include "tests/support/layers.h"
#include "tests/support/operands.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

// ---- Bounds and moments -------------------------------------------------------------------------

typedef struct moments {
    double mean, variance, min, max;
} moments;

static moments moments_of(const talc_tensor *x)
{
    const int64_t count = talc_numel(x);
    moments m = { 0, 0, element_at(x, 0), element_at(x, 0) };
    for (int64_t i = 0; i < count; i++) {
        m.mean += element_at(x, i) / (double)count;
        m.min = fmin(m.min, element_at(x, i));
        m.max = fmax(m.max, element_at(x, i));
    }
    for (int64_t i = 0; i < count; i++)
        m.variance += pow(element_at(x, i) - m.mean, 2) / (double)count;
    return m;
}

/* PyTorch's numbers for a weight [8,3,5,7], by its _calculate_correct_fan and calculate_gain; that
 * weight has to be small, so that moments are those of several. */
Test(initialise, bounds_and_deviations_are_those_of_pytorch)
{
    const double leaky = talc_gain(TALC_GAIN_LEAKY_RELU, sqrt(5));
    const struct {
        talc_initialiser initialiser;
        double bound, std; /* 0: none */
    } cases[] = {
        { { .kind = TALC_INIT_XAVIER_UNIFORM, .gain = 2 },
          0.24967511357294372,
          0.14414999403128945 },
        { { .kind = TALC_INIT_XAVIER_NORMAL, .gain = 2 }, 0, 0.14414999403128945 },
        { { .kind = TALC_INIT_KAIMING_UNIFORM, .gain = leaky },
          0.09759000729485333,
          0.05634361698190111 },
        { { .kind = TALC_INIT_KAIMING_UNIFORM, .gain = leaky, .mode = TALC_FAN_OUT },
          0.05976143046671968,
          0.034503277967117704 },
        { { .kind = TALC_INIT_KAIMING_UNIFORM }, 0.23904572186687872, 0.13801311186847084 },
        { { .kind = TALC_INIT_KAIMING_NORMAL }, 0, 0.13801311186847084 },
        { { .kind = TALC_INIT_KAIMING_NORMAL, .mode = TALC_FAN_OUT }, 0, 0.08451542547285165 },
        { { .kind = TALC_INIT_UNIFORM }, 0, 0.28867513459481287 },
        { { .kind = TALC_INIT_NORMAL, .mean = 3, .std = 0.5 }, 0, 0.5 },
        { { .kind = TALC_INIT_NORMAL }, 0, 1 },
    };
    enum { WEIGHTS = 100 };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
            owned_scope *scope = talc_scope_enter();
            talc_manual_seed(c + 1);
            talc_tensor *x =
                talc_empty(cpu_device(), (talc_dtype)dtype, TALC_DIMS(WEIGHTS, 8, 3, 5, 7));
            for (int i = 0; i < WEIGHTS; i++)
                cr_assert(talc_initialise(talc_select(x, 0, i), &cases[c].initialiser), "%s",
                          talc_error_message());
            cr_assert(talc_generator_get().call == WEIGHTS);
            const moments m = moments_of(x);
            const double mean =
                cases[c].initialiser.kind == TALC_INIT_UNIFORM ? 0.5 : cases[c].initialiser.mean;
            const double off = 5 / sqrt((double)talc_numel(x)), std = cases[c].std;
            cr_assert(fabs(m.mean - mean) < off * std, "case %zu: mean %g", c, m.mean);
            cr_assert(fabs(sqrt(m.variance) - std) < off * std, "case %zu: std %g", c,
                      sqrt(m.variance));
            const double bound = cases[c].bound;
            cr_assert(bound == 0 || (m.max <= bound * (1 + 1e-7) && m.max > 0.999 * bound &&
                                     m.min >= -bound * (1 + 1e-7) && m.min < -0.999 * bound),
                      "case %zu: from %g to %g", c, m.min, m.max);
        }
}

Test(initialise, gains_are_those_of_pytorch)
{
    cr_assert(talc_gain(TALC_GAIN_LINEAR, 0) == 1 && talc_gain(TALC_GAIN_SELU, 0) == 0.75);
    cr_assert(fabs(talc_gain(TALC_GAIN_TANH, 0) - 1.6666666666666667) < 1e-15);
    cr_assert(fabs(talc_gain(TALC_GAIN_RELU, 0) - 1.4142135623730951) < 1e-15);
    cr_assert(fabs(talc_gain(TALC_GAIN_LEAKY_RELU, 0.2) - 1.3867504905630728) < 1e-15);
    cr_assert(talc_gain((talc_nonlinearity)9, 0) == 0);
    assert_failure(TALC_BAD_ARGUMENT, "gain: nonlinearity 9 is outside 0..4");
}

static double density(double x)
{
    return exp(-x * x / 2) / sqrt(2 * acos(-1));
}

static double below(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Mean and variance by the formulas of the truncated distribution, and the whole distribution: the
 * largest distance from that of a sample of n is above 2 / sqrt(n) once in 1,500 times. Of a far
 * tail the formulas cancel, and it is close to exponential: there the distance alone. */
Test(initialise, truncated_normal_numbers_have_their_distribution)
{
    const struct {
        double mean, std, low, high;
    } cases[] = { { 0, 1, 0, 0 },   { 1, 2, -1, 0.5 },  { 0.1, 0.02, 0, 5 }, { 0, 1, 3, 4 },
                  { 0, 1, 20, 22 }, { 0, 1, -22, -20 }, { 0, 0.02, -2, 2 } };
    enum { COUNT = 100000 };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        owned_scope *scope = talc_scope_enter();
        talc_manual_seed(c + 20);
        talc_tensor *x = talc_empty(cpu_device(), TALC_F64, TALC_DIMS(COUNT));
        cr_assert(talc_initialise(x, &(talc_initialiser){ .kind = TALC_INIT_TRUNC_NORMAL,
                                                          .mean = cases[c].mean,
                                                          .std = cases[c].std,
                                                          .low = cases[c].low,
                                                          .high = cases[c].high }));
        cr_assert(talc_generator_get().call == 1);
        const double low = c == 0 ? -2 : cases[c].low, high = c == 0 ? 2 : cases[c].high;
        const double from = (low - cases[c].mean) / cases[c].std,
                     to = (high - cases[c].mean) / cases[c].std;
        /* Mirrored where that keeps the digits of a tail. */
        const double all = from > 0 ? below(-from) - below(-to) : below(to) - below(from);
        double *sorted = talc_data(x, TALC_F64);
        const moments m = moments_of(x);
        qsort(sorted, COUNT, sizeof *sorted, ascending);
        cr_assert(sorted[0] >= low && sorted[COUNT - 1] <= high, "case %zu", c);
        double distance = 0;
        for (int i = 0; i < COUNT; i++) {
            const double z = (sorted[i] - cases[c].mean) / cases[c].std;
            const double share = (from > 0 ? below(-from) - below(-z) : below(z) - below(from));
            distance = fmax(distance, fabs(share / all - (i + 0.5) / COUNT));
        }
        cr_assert(distance < 2 / sqrt(COUNT), "case %zu: distance %g", c, distance);
        if (fabs(from) >= 20 && fabs(to) >= 20)
            continue;
        const double first = (density(from) - density(to)) / all,
                     second = 1 + (from * density(from) - to * density(to)) / all - first * first;
        const double std = cases[c].std * sqrt(second);
        cr_assert(fabs(m.mean - cases[c].mean - cases[c].std * first) < 5 * std / sqrt(COUNT),
                  "case %zu: mean %g", c, m.mean);
        cr_assert(fabs(m.variance / (std * std) - 1) < 0.03, "case %zu: variance %g", c,
                  m.variance);
    }
}

Test(initialise, no_deviation_and_constants)
{
    talc_tensor *x = talc_empty(cpu_device(), TALC_F32, TALC_DIMS(2, 3));
    cr_assert(talc_initialise(x, &(talc_initialiser){ .kind = TALC_INIT_TRUNC_NORMAL,
                                                      .mean = 9,
                                                      .std = (double)TALC_ZERO }));
    cr_assert(element_at(x, 0) == 2 && element_at(x, 5) == 2);
    cr_assert(talc_initialise(
        x, &(talc_initialiser){ .kind = TALC_INIT_KAIMING_UNIFORM, .gain = (double)TALC_ZERO }));
    cr_assert(element_at(x, 0) == 0 && element_at(x, 5) == 0);
    cr_assert(talc_initialise(x, &(talc_initialiser){ .value = 0.25 }));
    cr_assert(element_at(x, 0) == 0.25 && element_at(x, 5) == 0.25);
    talc_tensor *integers = talc_zeros(cpu_device(), TALC_I64, TALC_DIMS(2));
    cr_assert(talc_initialise(integers, &(talc_initialiser){ .value = 7 }));
    cr_assert(integer_at(integers, 1) == 7);
}

// ---- Orthogonal ---------------------------------------------------------------------------------

/* In f64, of more rows, more columns, as many, of a kernel, views among them, and of so many rows
 * that one pass over those before is not enough. R = Q' A is upper triangular with a positive
 * diagonal, which is PyTorch's sign, and the only such Q. */
Test(initialise, orthogonal_rows_or_columns_are_orthonormal)
{
    const talc_dims shapes[] = { TALC_DIMS(7, 4),       TALC_DIMS(4, 7),     TALC_DIMS(6, 6),
                                 TALC_DIMS(5, 2, 3, 3), TALC_DIMS(40, 2, 3), TALC_DIMS(1, 5),
                                 TALC_DIMS(100, 100) };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int view = VIEW_PACKED; view < (shapes[s].dim[0] < 100 ? VIEW_COUNT : 1); view++) {
            owned_scope *scope = talc_scope_enter();
            talc_tensor *x = random_view(view, TALC_F64, shapes[s], 3);
            talc_manual_seed(s);
            if (!talc_initialise(x,
                                 &(talc_initialiser){ .kind = TALC_INIT_ORTHOGONAL, .gain = 3 })) {
                talc_error_clear(); /* a view that is broadcast */
                continue;
            }
            const int64_t rows = shapes[s].dim[0], columns = talc_numel(x) / rows;
            const int64_t few = rows < columns ? rows : columns, many = rows + columns - few;
            talc_manual_seed(s);
            const talc_tensor *a = talc_randn(cpu_device(), TALC_F64, TALC_DIMS(few, many));
            for (int64_t i = 0; i < few; i++)
                for (int64_t j = 0; j < few; j++) {
                    double product = 0, r = 0;
                    for (int64_t k = 0; k < many; k++) {
                        const int64_t at_i = rows < columns ? i * columns + k : k * columns + i;
                        const int64_t at_j = rows < columns ? j * columns + k : k * columns + j;
                        product += element_at(x, at_i) * element_at(x, at_j);
                        r += element_at(x, at_i) * element_at(a, j * many + k);
                    }
                    cr_assert(fabs(product - (i == j ? 9 : 0)) < 1e-13,
                              "shape %zu: %d and %d have the product %g", s, (int)i, (int)j,
                              product);
                    cr_assert(i < j || (i == j ? r > 0 : fabs(r) < 1e-13),
                              "shape %zu: R at %d, %d is %g", s, (int)i, (int)j, r);
                }
        }
}

// ---- Modules ------------------------------------------------------------------------------------

static talc_module *net_new(void)
{
    return TALC_SEQUENTIAL(
        CONV2D(.in_channels = 2, .out_channels = 4, .kernel = { 3, 3 }),
        BATCH_NORM2D(.channels = 4),
        CONV2D(.in_channels = 4, .out_channels = 4, .kernel = { 1, 1 }, .groups = 2));
}

Test(initialise, a_pattern_reaches_parameters_alone)
{
    owned_module *net = net_new();
    const talc_initialiser nine = { .value = 9 };
    cr_assert(talc_module_initialise(net, "[02].*", &nine) == 4);
    cr_assert(element_at(talc_module_find(net, "0.weight"), 71) == 9);
    cr_assert(element_at(talc_module_find(net, "2.bias"), 3) == 9);
    cr_assert(element_at(talc_module_find(net, "1.weight"), 0) == 1);
    cr_assert(talc_module_initialise(net, "1.*", &nine) == 2);
    cr_assert(element_at(talc_module_find(net, "1.running_mean"), 0) == 0);
    cr_assert(talc_module_find(net, "1.weight")->storage != NULL);
    talc_manual_seed(4);
    cr_assert(talc_module_initialise(net, "*[02].weight",
                                     &(talc_initialiser){ .kind = TALC_INIT_KAIMING_NORMAL }) == 2);
    talc_manual_seed(4);
    talc_tensor *first = talc_empty(cpu_device(), TALC_F32, TALC_DIMS(4, 2, 3, 3));
    cr_assert(talc_initialise(first, &(talc_initialiser){ .kind = TALC_INIT_KAIMING_NORMAL }));
    cr_assert(same_bits(first, talc_detach(talc_module_find(net, "0.weight"))));
    cr_assert(talc_module_initialise(net, "*.weight", &nine) == 3);
    assert_no_failure();
}

Test(initialise, mistakes_are_named_and_change_nothing)
{
    owned_module *net = net_new();
    const talc_initialiser orthogonal = { .kind = TALC_INIT_ORTHOGONAL };
    talc_tensor *weight = talc_module_find(net, "0.weight");
    const uint64_t before = fingerprint(weight);
    cr_assert(talc_module_initialise(net, "fc.*", &orthogonal) == -1);
    assert_failure(TALC_NOT_FOUND, "module_initialise: the pattern 'fc.*' fits no parameter");
    cr_assert(talc_module_initialise(net, "*running*", &orthogonal) == -1);
    assert_failure(TALC_NOT_FOUND, "module_initialise: the pattern '*running*' fits no parameter");
    cr_assert(talc_module_initialise(net, "0.*", &orthogonal) == -1);
    assert_failure(TALC_BAD_SHAPE, "initialise: the tensor [4] has rank 1, needs at least 2");
    cr_assert(talc_module_initialise(NULL, "*", &orthogonal) == -1);
    assert_failure(TALC_NULL_ARGUMENT, "module_initialise: module is NULL");
    cr_assert(talc_module_initialise(net, NULL, &orthogonal) == -1);
    assert_failure(TALC_NULL_ARGUMENT, "module_initialise: pattern is NULL");
    cr_assert(talc_module_initialise(net, "*", NULL) == -1);
    assert_failure(TALC_NULL_ARGUMENT, "module_initialise: initialiser is NULL");
    const struct {
        talc_initialiser initialiser;
        const char *message;
    } cases[] = {
        { { .kind = (talc_init_kind)9 }, "kind 9 is outside 0..8" },
        { { .kind = TALC_INIT_KAIMING_NORMAL, .mode = (talc_fan_mode)2 },
          "mode 2 is outside 0..1" },
        { { .kind = TALC_INIT_NORMAL, .std = -1 },
          "gain 1, mean 0 and std -1 must be finite, std not negative" },
        { { .kind = TALC_INIT_XAVIER_NORMAL, .gain = (double)NAN },
          "gain nan, mean 0 and std 1 must be finite, std not negative" },
        { { .kind = TALC_INIT_TRUNC_NORMAL, .low = 2, .high = 1 },
          "low 2 must be at most high 1, both finite" },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        cr_assert(!talc_initialise(weight, &cases[c].initialiser));
        assert_failure_with(TALC_BAD_ARGUMENT, "initialise: %s", cases[c].message);
        cr_assert(talc_module_initialise(net, "0.weight", &cases[c].initialiser) == -1);
        assert_failure_with(TALC_BAD_ARGUMENT, "initialise: %s", cases[c].message);
    }
    talc_tensor *integers = talc_zeros(cpu_device(), TALC_I64, TALC_DIMS(2, 2));
    cr_assert(!talc_initialise(integers, &orthogonal));
    assert_failure(TALC_BAD_DTYPE, "initialise: the tensor is i64, it must be f32 or f64");
    cr_assert(!talc_initialise(integers, &(talc_initialiser){ .value = 0.5 }));
    cr_assert(talc_error_status() == TALC_BAD_ARGUMENT);
    talc_error_clear();
    cr_assert(!talc_initialise(NULL, &orthogonal));
    assert_failure(TALC_NULL_ARGUMENT, "initialise: tensor is NULL");
    cr_assert(!talc_initialise(weight, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "initialise: initialiser is NULL");
    cr_assert(fingerprint(weight) == before);
}
