#include "tests/support/hooks.h"

#include <string.h>

Test(error, the_first_failure_is_kept)
{
    cr_assert(!talc_failed());
    cr_assert(strcmp(talc_error_message(), "") == 0);
    talc_fail(TALC_BAD_SHAPE, "first %d", 1);
    talc_fail(TALC_NO_MEMORY, "second");
    assert_failure(TALC_BAD_SHAPE, "first 1");
    cr_assert(talc_error_status() == TALC_OK);
    assert_all_freed();
}

Test(error, a_failure_stops_what_makes_and_changes_but_not_queries)
{
    talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2, 3));
    talc_fail(TALC_IO_ERROR, "stands");
    cr_assert_null(talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(1)));
    cr_assert_null(talc_add(x, x));
    cr_assert_null(talc_scope_enter());
    cr_assert(!talc_fill(x, 5));
    cr_assert(talc_numel(x) == 6);
    assert_failure(TALC_IO_ERROR, "stands");
    cr_assert_float_eq(talc_item(talc_slice(talc_slice(x, 0, 0, 1, 1), 1, 0, 1, 1)), 1, 0);
    assert_all_freed();
}

Test(error, a_required_null_is_an_error_of_its_own)
{
    talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2));
    cr_assert_null(talc_add(x, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "add: b is NULL");
    cr_assert_null(talc_relu(NULL));
    assert_failure(TALC_NULL_ARGUMENT, "relu: x is NULL");
    assert_all_freed();
}

Test(error, every_status_has_a_text)
{
    for (int i = 0; i < TALC_STATUS_COUNT; i++)
        cr_assert(strlen(talc_status_text((talc_status)i)) > 0);
    cr_assert(strcmp(talc_status_text((talc_status)999), "unknown status") == 0);
}
