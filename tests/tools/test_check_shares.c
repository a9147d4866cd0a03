/* `talc check --shares`: which outcome's shares are kept, and that without any nothing is
 * written. */
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tools/cli/check_shares.h"

#include <math.h>

static float shares[3] = { 0, NAN, 0 };

static talc_check_outcome outcome_of(double share)
{
    shares[2] = (float)share;
    return (talc_check_outcome){ .op = "sum",
                                 .algorithm = "rows",
                                 .device = "cpu",
                                 .problem = "sum:3x4@1",
                                 .output = "y",
                                 .passed = share <= 1,
                                 .share = share,
                                 .rank = 1,
                                 .dims = { 3 },
                                 .shares = shares };
}

Test(check_shares, the_first_failure_is_kept_else_the_largest_share)
{
    static const struct {
        double share, kept;
    } steps[] = { { 0, 0 },     { 0.2, 0.2 }, { 0.5, 0.5 }, { 0.3, 0.5 },
                  { 1.5, 1.5 }, { 0.9, 1.5 }, { 9, 1.5 },   { INFINITY, 1.5 } };
    const char *path = file_path("shares.npy");
    check_shares kept = { .of = NULL };
    talc_check_outcome o = outcome_of(0.2);
    o.shares = NULL;
    check_shares_observe(&kept, &o);
    cr_assert(kept.of == NULL && !check_shares_save(&kept, path));
    cr_assert(talc_error_status() == TALC_NOT_FOUND);
    talc_error_clear();
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        o = outcome_of(steps[i].share);
        check_shares_observe(&kept, &o);
        cr_assert(kept.share == steps[i].kept && kept.of[2] == (float)steps[i].kept,
                  "step %zu keeps %g", i, kept.share);
    }
    cr_assert_str_eq(kept.what, "y of sum by rows on cpu, exact: sum:3x4@1");
    cr_assert(check_shares_save(&kept, path), "%s", talc_error_message());
    const talc_tensor *read = talc_npy_load(cpu_device(), path);
    cr_assert(talc_dims_of(read).rank == 1 && talc_dims_of(read).dim[0] == 3);
    const float *values = talc_data(read, TALC_F32);
    cr_assert(values[0] == 0 && isnan(values[1]) && values[2] == 1.5F);
    check_shares_free(&kept);
}
