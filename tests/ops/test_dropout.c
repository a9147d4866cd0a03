/* Dropout: the mask, its share and scale, the generator, and the module. */
#include "tests/support/hooks.h"

#include <math.h>
#include <string.h>

enum { COUNT = 20000 };

static talc_tensor *ones(talc_dtype dtype)
{
    return talc_ones(tested_device(), dtype, TALC_DIMS(COUNT));
}

static int64_t dropped(const talc_tensor *y)
{
    return talc_item_i64(talc_sum(talc_equal_scalar(y, 0), TALC_SCALAR, false));
}

Test(dropout, drops_its_share_and_scales_the_rest)
{
    const double p[] = { 0.1, 0.5, 0.9 };
    for (int i = 0; i < 3; i++)
        for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
            talc_manual_seed((uint64_t)i);
            const talc_tensor *y = talc_dropout(ones((talc_dtype)dtype), p[i], true);
            assert_no_failure();
            const double off = (double)dropped(y) - p[i] * COUNT;
            cr_assert(fabs(off) < 5 * sqrt(p[i] * (1 - p[i]) * COUNT), "p %g drops %g too many",
                      p[i], off);
            const double scale = 1 / (1 - p[i]);
            const talc_tensor *kept = talc_equal_scalar(y, scale);
            const int64_t whole = talc_item_i64(talc_sum(kept, TALC_SCALAR, false));
            cr_assert(whole + dropped(y) == COUNT, "some are neither 0 nor scaled by %g", scale);
        }
}

/* An element is dropped where the number that talc_rand draws at its place is below p. */
Test(dropout, a_seed_gives_the_mask_on_every_device)
{
    talc_manual_seed(7);
    const talc_tensor *y = talc_to(talc_dropout(ones(TALC_F32), 0.3, true), cpu_device(), TALC_F32);
    talc_manual_seed(7);
    const talc_tensor *drawn = talc_rand(cpu_device(), TALC_F32, TALC_DIMS(COUNT));
    assert_no_failure();
    const float *got = talc_data_read(y, TALC_F32), *from = talc_data_read(drawn, TALC_F32);
    for (int i = 0; i < COUNT; i++)
        cr_assert((got[i] == 0) == (from[i] < 0.3F), "element %d", i);
}

Test(dropout, a_call_counts_once_and_only_where_a_mask_is_drawn)
{
    const talc_tensor *x = ones(TALC_F32);
    const uint64_t before = talc_generator_get().call;
    cr_assert(talc_dropout(x, 0.5, false)->data == x->data, "evaluation makes a copy");
    cr_assert(talc_dropout(x, 0, true)->data == x->data, "p 0 makes a copy");
    cr_assert(talc_generator_get().call == before, "evaluation draws");
    cr_assert(dropped(talc_dropout(x, 1, true)) == COUNT, "p 1 keeps something");
    cr_assert(talc_generator_get().call == before + 1, "a call does not count as one");
    cr_assert(talc_dropout(x, 1.5, true) == NULL && talc_generator_get().call == before + 1,
              "a call that fails counts");
    talc_error_clear();
    const talc_tensor *none = talc_zeros(tested_device(), TALC_F32, TALC_DIMS(0, 3));
    cr_assert(talc_same_dims(talc_dropout(none, 0.5, true), none), "%s", talc_error_message());
}

Test(dropout, the_gradient_has_the_mask_of_the_forward_pass)
{
    talc_tensor *x = ones(TALC_F32);
    talc_require_grad(x, true);
    const talc_tensor *y = talc_dropout(x, 0.4, true);
    cr_assert(talc_backward_from(y, ones(TALC_F32)), "%s", talc_error_message());
    const talc_tensor *differ = talc_not_equal(talc_grad(x), y);
    cr_assert(talc_item_i64(talc_sum(differ, TALC_SCALAR, false)) == 0, "another mask");
}

Test(dropout, the_module_drops_in_training_alone)
{
    owned_module *module = talc_nn_dropout(0.5);
    talc_tensor *x = ones(TALC_F32);
    const int64_t training = dropped(talc_forward(module, x));
    talc_module_eval(module);
    cr_assert(training > COUNT / 3 && training < COUNT - COUNT / 3, "%d dropped", (int)training);
    cr_assert(talc_forward(module, x) == x, "evaluation changes x");
    cr_assert(talc_nn_dropout(-0.5) == NULL, "p -0.5 passes");
    cr_assert(strcmp(talc_error_message(), "Dropout: p -0.5 must be from 0 to 1") == 0, "%s",
              talc_error_message());
    talc_error_clear();
}

// ---- Drop path ----------------------------------------------------------------------------------

/* A sample is dropped where the number that talc_rand draws at its place is below p. */
Test(dropout, drop_path_drops_whole_samples)
{
    enum { N = 50, LENGTH = 12 };
    talc_manual_seed(3);
    talc_tensor *x = talc_ones(tested_device(), TALC_F64, TALC_DIMS(N, 3, 4));
    talc_require_grad(x, true);
    const talc_tensor *y = talc_drop_path(x, 0.2, true);
    talc_manual_seed(3);
    const talc_tensor *drawn = talc_rand(cpu_device(), TALC_F64, TALC_DIMS(N));
    cr_assert(talc_backward_from(y, talc_ones(tested_device(), TALC_F64, TALC_DIMS(N, 3, 4))));
    double got[N * LENGTH], gradient[N * LENGTH];
    cr_assert(talc_to_host(y, got, sizeof got));
    cr_assert(talc_to_host(talc_grad(x), gradient, sizeof gradient));
    const double *from = talc_data_read(drawn, TALC_F64);
    for (int i = 0; i < N * LENGTH; i++) {
        const double expected = from[i / LENGTH] < 0.2 ? 0 : 1 / (1 - 0.2);
        cr_assert(got[i] == expected && gradient[i] == expected, "element %d is %g", i, got[i]);
    }
    const uint64_t before = talc_generator_get().call;
    cr_assert(talc_drop_path(x, 0.2, false)->data == x->data, "evaluation makes a copy");
    cr_assert(talc_generator_get().call == before, "evaluation draws");
    owned_module *module = talc_nn_drop_path(1);
    cr_assert(talc_item(talc_sum(talc_forward(module, x), TALC_SCALAR, false)) == 0);
    talc_module_eval(module);
    cr_assert(talc_forward(module, x) == x, "evaluation changes x");
    cr_assert(talc_nn_drop_path(2) == NULL);
    assert_failure(TALC_BAD_ARGUMENT, "DropPath: p 2 must be from 0 to 1");
}
