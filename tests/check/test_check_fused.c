/// talc_check_model of layers that are fused: named by all of them, and what is folded is judged
/// too.
#include "tests/support/checked_model.h"
#include "tests/support/fake_device.h"
#include "tests/support/hooks.h"
#include "tests/support/layers.h"
#include "tests/support/op_cases.h"
#include "tests/support/wrong_device.h"

static talc_module *fused_new(void)
{
    talc_manual_seed(9);
    talc_module *inner =
        TALC_SEQUENTIAL(conv(3, 5, 3), BATCH_NORM2D(.channels = 5), talc_nn_relu(), conv(5, 4, 1));
    talc_module *model = talc_nn_sequential();
    talc_module_add(model, "stem", inner);
    for (unsigned i = 0; i < 3; i++)
        talc_forward(model, op_numbers(cpu_device(), TALC_DIMS(2, 3, 8, 7), i));
    assert_no_failure();
    return model;
}

/* What is folded is a layer like any other: its rounding is held to its own bound, and explains
 * what follows. */
Test(check_model, fused_layers_are_judged_by_their_own_bound)
{
    static const char *const layers[][2] = { { "stem.0+1+2:fold", "batch_norm2d" },
                                             { "stem.0+1+2:fold", "batch_norm2d" },
                                             { "stem.0+1+2", "conv2d" },
                                             { "stem.3", "conv2d" } };
    static const char *const references = "conv2d=reference,batch_norm2d=reference";
    owned_module *model = fused_new();
    talc_module_eval(model);
    cr_assert_not_null(talc_forward(model, block_input())); /* which keeps what it folds */
    talc_check_model_report *same = checked(model, block_input(), (talc_check_model_options){ 0 });
    assert_passed(same);
    cr_assert(talc_check_model_count(same) == 4);
    talc_check_model_free(same);
    for (int i = 0; i < 3; i++) {
        owned_report *report =
            checked(model, block_input(),
                    (talc_check_model_options){ .device = i >= 1 ? fake_device() : NULL,
                                                .reference_algorithm = references,
                                                .algorithm = i == 2 ? references : NULL });
        assert_passed(report);
        cr_assert(talc_check_model_count(report) == 4);
        for (int j = 0; j < 4; j++) {
            const talc_check_model_layer *layer = layer_at(report, j);
            cr_assert_str_eq(layer->path, layers[j][0]);
            cr_assert_str_eq(layer->op, layers[j][1]);
            cr_assert(layer->own >= 0 && (i == 2) == (layer->difference == 0));
        }
    }
    /* An algorithm that is forced on an activation in one of the runs: both run it by itself. */
    owned_report *report =
        checked(model, block_input(),
                (talc_check_model_options){ .algorithm = "conv2d=im2col,relu=reference" });
    assert_passed(report);
    cr_assert(talc_check_model_count(report) == 4);
    cr_assert_str_eq(layer_at(report, 2)->op, "relu");
    cr_assert_str_eq(layer_at(report, 2)->path, "stem.2");
}

Test(check_model, a_wrong_fused_layer_is_found)
{
    static const struct {
        const char *op;
        int call, layer;
    } wrongs[] = { { "batch_norm2d", 1, 0 }, { "conv2d", 1, 2 }, { "conv2d", 2, 3 } };
    owned_module *model = fused_new();
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        talc_device *device = wrong_device(wrongs[i].op, wrongs[i].call, 17, 1e-3);
        owned_report *report =
            checked(model, block_input(), (talc_check_model_options){ .device = device });
        cr_assert(talc_check_model_first_wrong(report) == wrongs[i].layer, "%s %d: %d",
                  wrongs[i].op, wrongs[i].call, talc_check_model_first_wrong(report));
        for (int j = 0; j < 4; j++)
            cr_assert((layer_at(report, j)->own > 1) == (j == wrongs[i].layer));
    }
}
