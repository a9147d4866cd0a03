#include "tests/support/checked_model.h"

#include "tests/support/hooks.h"
#include "tests/support/layers.h"
#include "tests/support/op_cases.h"

#include <stdio.h>

talc_module *conv(int64_t in, int64_t out, int64_t kernel)
{
    return CONV2D(.in_channels = in, .out_channels = out, .kernel = { kernel, kernel },
                  .padding = { kernel / 2, kernel / 2 }, .no_bias = true);
}

talc_tensor *block_input(void)
{
    return op_numbers(cpu_device(), TALC_DIMS(2, 3, 9, 6), 11);
}

talc_check_model_report *checked(talc_module *model, talc_tensor *x,
                                 talc_check_model_options options)
{
    talc_check_model_report *report = NULL;
    cr_assert(talc_check_model(model, x, &options, &report), "%s", talc_error_message());
    assert_no_failure();
    cr_assert_not_null(report);
    return report;
}

const talc_check_model_layer *layer_at(const talc_check_model_report *report, int i)
{
    const talc_check_model_layer *layer = talc_check_model_at(report, i);
    cr_assert(layer != NULL, "there is no layer %d", i);
    return layer;
}

void assert_passed(const talc_check_model_report *report)
{
    const int wrong = talc_check_model_first_wrong(report);
    if (wrong >= 0)
        talc_check_model_print(stderr, report);
    cr_assert(wrong == -1, "layer %d is wrong", wrong);
    cr_assert(talc_check_model_passed(report));
}
