#include "tests/support/hooks.h"

/* 2.1 GB of real memory, with every kind of access past offset 2^31. */
Test(large, a_tensor_of_more_than_2_to_the_31_elements)
{
    const int64_t count = (INT64_C(1) << 31) + 70001;
    talc_tensor *x = talc_full(cpu_device(), TALC_U8, TALC_DIMS(count), 3);
    assert_no_failure();
    const uint8_t *data = talc_data(x, TALC_U8);
    cr_assert(data[0] == 3 && data[count - 1] == 3 && data[INT64_C(1) << 31] == 3);

    /* Written through an expanded source, then read with a step and from its end. */
    const uint8_t seven = 7;
    talc_tensor *source = talc_from_host(cpu_device(), TALC_U8, TALC_DIMS(1), &seven);
    cr_assert(talc_copy(x, talc_expand(source, TALC_DIMS(count))));
    cr_assert(data[0] == 7 && data[count - 1] == 7 && data[count / 2] == 7);
    cr_assert(talc_fill(talc_slice(x, 0, INT64_C(1) << 31, TALC_END, 3), 9));
    cr_assert(data[(INT64_C(1) << 31) - 1] == 7 && data[INT64_C(1) << 31] == 9 &&
              data[(INT64_C(1) << 31) + 1] == 7);
    talc_tensor *steps = talc_clone(talc_slice(x, 0, 0, TALC_END, INT64_C(1) << 20));
    cr_assert(steps->dims[0] == 2049);
    cr_assert(talc_item(talc_select(steps, 0, 2047)) == 7 &&
              talc_item(talc_select(steps, 0, 2048)) == 9);
    talc_tensor *tail = talc_cast(talc_slice(x, 0, -4, TALC_END, 1), TALC_I64);
    for (int64_t i = 0; i < 4; i++)
        cr_assert(talc_item_i64(talc_select(tail, 0, i)) == data[count - 4 + i]);
    cr_assert(talc_item(talc_select(x, 0, (INT64_C(1) << 31) + 3)) == 9);
}
