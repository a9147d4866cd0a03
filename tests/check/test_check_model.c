/// talc_check_model: right models pass, and of a wrong one the first wrong layer is found.
#include "tests/support/captured.h"
#include "tests/support/checked_model.h"
#include "tests/support/fake_device.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"
#include "tests/support/wrong_device.h"

#include "tests/support/files.h"
#include "tests/support/layers.h"
#include "tests/support/networks.h"
#include "nn/entries.h"
#include "tensor/observe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- Models -------------------------------------------------------------------------------------

/* A residual block: y = relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)). */
typedef struct block {
    talc_module base;
    talc_module *conv1, *bn1, *conv2, *bn2, *shortcut;
} block;

static bool block_init(talc_module *module, const void *options)
{
    (void)options;
    block *self = (block *)module;
    self->conv1 = talc_module_add(module, "conv1", conv(3, 5, 3));
    self->bn1 = talc_module_add(module, "bn1", BATCH_NORM2D(.channels = 5));
    self->conv2 = talc_module_add(module, "conv2", conv(5, 5, 3));
    self->bn2 = talc_module_add(module, "bn2", BATCH_NORM2D(.channels = 5, .eps = 1e-3));
    self->shortcut = talc_module_add(module, "shortcut", conv(3, 5, 1));
    return !talc_failed();
}

static talc_tensor *block_forward(talc_module *module, talc_tensor *x)
{
    block *self = (block *)module;
    talc_tensor *y = talc_relu(talc_forward(self->bn1, talc_forward(self->conv1, x)));
    y = talc_forward(self->bn2, talc_forward(self->conv2, y));
    return talc_relu(talc_add(y, talc_forward(self->shortcut, x)));
}

static const talc_module_class block_class = { "Block",       sizeof(block), block_init,
                                               block_forward, NULL,          NULL };

/* What block_forward runs, in order. */
enum { CONV1, BN1, RELU1, CONV2, BN2, SHORTCUT, ADD, RELU2, BLOCK_LAYERS };
static const char *const block_layers[BLOCK_LAYERS][2] = {
    { "conv1", "conv2d" },     { "bn1", "batch_norm2d" }, { "", "relu" }, { "conv2", "conv2d" },
    { "bn2", "batch_norm2d" }, { "shortcut", "conv2d" },  { "", "add" },  { "", "relu" },
};

/* One whose running statistics are not those it is made with. */
static talc_module *block_new(void)
{
    talc_manual_seed(7);
    talc_module *model = talc_module_new(&block_class, NULL);
    for (unsigned i = 0; i < 3; i++)
        talc_forward(model, op_numbers(cpu_device(), TALC_DIMS(2, 3, 8, 7), i));
    assert_no_failure();
    return model;
}

// ---- Right models -------------------------------------------------------------------------------

Test(check_model, two_algorithms_agree_layer_by_layer)
{
    owned_module *model = block_new();
    owned_report *report =
        checked(model, block_input(),
                (talc_check_model_options){ .algorithm = "conv2d=im2col,batch_norm2d=blocks",
                                            .reference_algorithm =
                                                "conv2d=reference,batch_norm2d=reference" });
    assert_passed(report);
    cr_assert(talc_check_model_count(report) == BLOCK_LAYERS);
    double inherited = 0;
    for (int i = 0; i < BLOCK_LAYERS; i++) {
        const talc_check_model_layer *layer = layer_at(report, i);
        cr_assert_str_eq(layer->path, block_layers[i][0]);
        cr_assert_str_eq(layer->op, block_layers[i][1]);
        cr_assert(layer->own >= 0 && layer->own <= 1 && layer->step >= 0 && layer->step <= 1);
        inherited = i == SHORTCUT ? 0 : i == ADD ? fmax(inherited, 0) : inherited;
        if (i < SHORTCUT)
            inherited = fmax(inherited, layer->step);
        if (i < SHORTCUT)
            cr_assert(layer->accumulated == inherited, "layer %d: accumulated", i);
        cr_assert(layer->dims.dim[0] == 2 && layer->dims.dim[1] == 5 && layer->dims.dim[3] == 6);
        const bool convolution = strcmp(layer->op, "conv2d") == 0;
        cr_assert(!convolution || (strcmp(layer->algorithm, "im2col") == 0 && layer->own > 1e-4));
        cr_assert(layer->difference > 0 && layer->difference < 1e-5, "layer %d differs by %g", i,
                  layer->difference);
    }
    cr_assert(layer_at(report, RELU1)->own == 0 && layer_at(report, RELU1)->step == 0);
    cr_assert(layer_at(report, RELU2)->accumulated ==
              fmax(layer_at(report, ADD)->step,
                   fmax(layer_at(report, BN2)->accumulated, layer_at(report, SHORTCUT)->step)));
    /* An algorithm that sums in f64 is held to one rounding. */
    talc_check_model_report *wide = checked(
        model, block_input(), (talc_check_model_options){ .algorithm = "conv2d=reference" });
    assert_passed(wide);
    cr_assert(layer_at(wide, CONV1)->own > 0.8 && layer_at(report, CONV1)->own < 0.3);
    talc_check_model_free(wide);
    cr_assert(talc_check_model_at(report, -1) == NULL &&
              talc_check_model_at(report, BLOCK_LAYERS) == NULL);
}

Test(check_model, the_same_run_twice_differs_nowhere)
{
    owned_module *model = lenet_new();
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 1, 28, 28), 3);
    for (int unfused = 0; unfused < 2; unfused++) {
        owned_report *report =
            checked(model, x, (talc_check_model_options){ .unfused = unfused != 0 });
        assert_passed(report);
        /* 2 conv2d, 3 linear, 2 max_pool2d; 4 relu, in those or by themselves */
        const int count = unfused ? 11 : 7;
        cr_assert(talc_check_model_count(report) == count);
        for (int i = 0; i < count; i++)
            cr_assert(layer_at(report, i)->difference == 0 &&
                      layer_at(report, i)->accumulated == 0 && layer_at(report, i)->own <= 1);
    }
}

/* Each op of talc, of operands without gaps and of views, in f32 and, forced, by the reference
 * algorithms. */
static bool with_views;

static talc_tensor *every_op_forward(talc_tensor *x)
{
    talc_tensor *y = x;
    for (int view = with_views ? 0 : OP_VIEWS; view <= OP_VIEWS; view++) {
        const op_inputs inputs =
            view == OP_VIEWS ? op_inputs_new(x->device) : op_inputs_seen(x->device, (op_view)view);
        for (const op_case *op = op_cases; op->name != NULL; op++)
            y = op->run(&inputs);
    }
    return y;
}

Test(check_model, every_op_is_right_on_both_devices)
{
    owned_module *model = module_of(every_op_forward);
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(1), 1);
    owned_report *report = checked(model, x, (talc_check_model_options){ .device = fake_device() });
    assert_passed(report);
    cr_assert(talc_check_model_count(report) > 40, "only %d ops", talc_check_model_count(report));
    talc_check_model_free(report);
    report = checked(model, x, (talc_check_model_options){ .reference = fake_device() });
    assert_passed(report);
    talc_check_model_free(report);
    /* Results of two algorithms differ by rounding, the running statistics of a batch norm in
     * training too. */
    static const char *const references =
        "conv2d=reference,batch_norm2d=reference,matmul=reference,linear=reference,"
        "softmax=reference,log_softmax=reference,sum=reference,mean=reference,max_pool2d=reference,"
        "avg_pool2d=reference,adaptive_avg_pool2d=reference";
    with_views = true;
    report = checked(model, x, (talc_check_model_options){ .reference_algorithm = references });
    assert_passed(report);
    cr_assert(talc_check_model_count(report) > 400, "only %d ops", talc_check_model_count(report));
    talc_check_model_free(report);
    report = checked(model, x, (talc_check_model_options){ .algorithm = references });
    assert_passed(report);
}

Test(check_model, an_f64_model_is_held_to_f64_bounds)
{
    owned_module *model = TALC_SEQUENTIAL(
        CONV2D(.in_channels = 3, .out_channels = 4, .kernel = { 3, 2 }, .dtype = TALC_F64,
               .padding = { 1, 1 }, .padding_mode = TALC_PADDING_REFLECT,
               .activation = TALC_ACTIVATION_TANH),
        talc_nn_avg_pool2d(
            &(talc_pool2d_options){ .kernel = { 2, 3 }, .padding = { 1, 1 }, .ceil_mode = true }),
        talc_nn_flatten(), talc_nn_sigmoid());
    talc_tensor *x = talc_cast(block_input(), TALC_F64);
    owned_report *report =
        checked(model, x, (talc_check_model_options){ .reference_algorithm = "conv2d=reference" });
    assert_passed(report);
    cr_assert(layer_at(report, 0)->own > 1e-3 && layer_at(report, 0)->difference < 1e-14 &&
              layer_at(report, 1)->own > 1e-3);
}

// ---- Wrong layers -------------------------------------------------------------------------------

/* A layer is wrong in the run that is checked: it is the first, what follows is right by itself,
 * and what does not depend on it is right altogether. */
static void assert_first_wrong(const talc_check_model_report *report, int wrong)
{
    cr_assert(talc_check_model_first_wrong(report) == wrong, "%d instead of %d is the first wrong",
              talc_check_model_first_wrong(report), wrong);
    cr_assert(!talc_check_model_passed(report));
    for (int i = 0; i < BLOCK_LAYERS; i++) {
        const talc_check_model_layer *layer = layer_at(report, i);
        const bool reached = i >= wrong && (i != SHORTCUT || wrong == SHORTCUT);
        cr_assert((layer->own > 1) == (i == wrong), "layer %d: own is %g", i, layer->own);
        cr_assert((layer->step > 1) == (i == wrong), "layer %d: step is %g", i, layer->step);
        cr_assert((layer->accumulated > 1) == reached, "layer %d: accumulated is %g", i,
                  layer->accumulated);
        cr_assert(layer->passed == !reached);
    }
}

Test(check_model, the_first_wrong_layer_is_found)
{
    static const struct {
        const char *op;
        int call, layer;
    } wrongs[] = {
        { "conv2d", 1, CONV1 },     { "conv2d", 2, CONV2 }, { "conv2d", 3, SHORTCUT },
        { "binary", 1, ADD },       { "unary", 1, RELU1 },  { "unary", 2, RELU2 },
        { "batch_norm2d", 2, BN2 },
    };
    owned_module *model = block_new();
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        talc_device *device = wrong_device(wrongs[i].op, wrongs[i].call, 37, 1e-3);
        owned_report *report =
            checked(model, block_input(), (talc_check_model_options){ .device = device });
        assert_first_wrong(report, wrongs[i].layer);
        const talc_check_model_layer *layer = layer_at(report, wrongs[i].layer);
        /* Element 37 of [2,5,9,6]. */
        cr_assert(layer->where.rank == 4 && layer->where.dim[0] == 0 && layer->where.dim[1] == 0 &&
                  layer->where.dim[2] == 6 && layer->where.dim[3] == 1);
        cr_assert(fabs(layer->got - layer->expected - 1e-3) < 1e-6);
        cr_assert(layer->difference > 0.9e-3 && layer->difference < 1.1e-3);
    }
}

/* An error of a few units in the last place of the largest value is seen too. */
Test(check_model, small_errors_are_found)
{
    owned_module *model = block_new();
    talc_device *device = wrong_device("conv2d", 2, 60, 3e-5);
    owned_report *report =
        checked(model, block_input(), (talc_check_model_options){ .device = device });
    assert_first_wrong(report, CONV2);
}

Test(check_model, a_wrong_reference_shows_as_such)
{
    owned_module *model = block_new();
    talc_device *device = wrong_device("conv2d", 2, 60, 1e-2);
    owned_report *report =
        checked(model, block_input(), (talc_check_model_options){ .reference = device });
    cr_assert(talc_check_model_first_wrong(report) == CONV2);
    for (int i = 0; i < BLOCK_LAYERS; i++) {
        cr_assert(layer_at(report, i)->own <= 1);
        cr_assert((layer_at(report, i)->step > 1) == (i == CONV2));
    }
}

static char *printed(const talc_check_model_report *report)
{
    FILE *file = tmpfile();
    talc_check_model_print(file, report);
    return file_written(file);
}

Test(check_model, the_table)
{
    owned_module *model = TALC_SEQUENTIAL(talc_nn_relu());
    talc_tensor *x = talc_full(cpu_device(), TALC_F32, TALC_DIMS(2, 3), -1);
    owned_report *report = checked(model, x, (talc_check_model_options){ 0 });
    cr_assert_str_eq(printed(report),
                     "layer  op    algorithm  output    own   step  accum.  differs  verdict\n"
                     "0      relu  reference  [2,3]   0.000  0.000   0.000        0  ok\n"
                     "passed\n");
    talc_check_model_free(report);
    report =
        checked(model, x, (talc_check_model_options){ .device = wrong_device("unary", 1, 4, 0.5) });
    cr_assert_str_eq(
        printed(report),
        "layer  op    algorithm  output  own  step  accum.   differs  verdict\n"
        "0      relu  reference  [2,3]   inf   inf     inf  5.00e-01  WRONG\n"
        "first wrong: 0 relu by reference: element [1,1] is 0.5 instead of 0, inf of its\n"
        "  bound\n"
        "failed\n");
    talc_check_model_free(report);
    report = checked(model, x,
                     (talc_check_model_options){ .reference = wrong_device("unary", 1, 4, 0.5) });
    cr_assert(strstr(printed(report),
                     "first wrong: 0 relu by reference: element [1,1] is 0 instead of 0.5, the\n"
                     "  reference's: unexplained 0.5, allowed 0; its own op is right\n") != NULL,
              "%s", printed(report));
}

/* Nothing ran, so nothing passed. */
Test(check_model, a_model_without_ops_does_not_pass)
{
    owned_module *model = talc_nn_identity();
    talc_check_model_report *report =
        checked(model, block_input(), (talc_check_model_options){ 0 });
    cr_assert(talc_check_model_count(report) == 0 && talc_check_model_first_wrong(report) == -1);
    cr_assert(!talc_check_model_passed(report));
    cr_assert(strstr(printed(report), "failed: nothing was compared") != NULL);
    talc_module_free(model);
    model = lenet_new(); /* no image */
    talc_check_model_free(report);
    report = checked(model, talc_empty(cpu_device(), TALC_F32, TALC_DIMS(0, 1, 28, 28)),
                     (talc_check_model_options){ 0 });
    cr_assert(talc_check_model_count(report) > 0 && talc_check_model_first_wrong(report) == -1);
    cr_assert(!talc_check_model_passed(report) && isnan(layer_at(report, 0)->own));
    talc_check_model_free(report);
    talc_check_model_free(NULL);
    cr_assert(!talc_check_model_passed(NULL) && talc_check_model_count(NULL) == 0);
}

/* NaN in both runs is no difference, and shows nothing. */
Test(check_model, a_model_that_gives_nothing_finite_does_not_pass)
{
    owned_module *model = block_new();
    talc_tensor *x = block_input();
    const int64_t count = talc_numel(x);
    float *elements = talc_data(x, TALC_F32);
    talc_check_model_report *report;
    for (int64_t i = 0; i < count; i++)
        elements[i] = i % 3 == 0 ? INFINITY : NAN;
    cr_assert(!talc_check_model(model, x, NULL, &report) && report == NULL);
    char message[100];
    snprintf(message, sizeof message, "check_model: x has %d elements that are not finite of %d",
             (int)count, (int)count);
    cr_assert(talc_error_status() == TALC_BAD_ARGUMENT);
    cr_assert_str_eq(talc_error_message(), message);
    talc_error_clear();

    /* The statistics of the second batch norm make what follows NaN, whatever the layers before it
     * show. */
    float *mean = talc_data(talc_module_find(model, "bn2.running_mean"), TALC_F32);
    for (int c = 0; c < 5; c++)
        mean[c] = NAN;
    report = checked(model, block_input(), (talc_check_model_options){ 0 });
    cr_assert(talc_check_model_first_wrong(report) == -1 && !talc_check_model_passed(report));
    cr_assert(layer_at(report, CONV2)->own <= 1 && layer_at(report, CONV2)->step <= 1);
    cr_assert(isnan(layer_at(report, BN2)->own) && isnan(layer_at(report, BN2)->step));
    cr_assert(strstr(printed(report), "failed: the last layer's output has no finite element"));
    talc_check_model_free(report);

    /* One channel of five is no reason. */
    mean[0] = mean[1] = mean[2] = mean[3] = 0;
    report = checked(model, block_input(), (talc_check_model_options){ 0 });
    assert_passed(report);
    talc_check_model_free(report);
}

// ---- What is left behind ------------------------------------------------------------------------

typedef struct state {
    char text[4096];
} state;

static bool record_tensor(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    char *text = ((state *)context)->text;
    (void)is_buffer;
    const size_t length = strlen(text);
    snprintf(text + length, sizeof(state) - length, "%s %p %p %s %llu\n", path, (void *)tensor,
             tensor->data, tensor->device->name, (unsigned long long)talc_version(tensor));
    return true;
}

static state state_of(talc_module *model)
{
    state s = { "" };
    talc_module_visit(model, record_tensor, &s);
    snprintf(s.text + strlen(s.text), sizeof s - strlen(s.text), "%d %d %s %s\n", model->training,
             talc_module_child(model, "bn1")->training,
             talc_algorithm_forced("conv2d") == NULL ? "-" : talc_algorithm_forced("conv2d"),
             talc_algorithm_forced("add") == NULL ? "-" : talc_algorithm_forced("add"));
    return s;
}

Test(check_model, the_model_is_left_as_it_was)
{
    owned_module *model = block_new();
    talc_module_eval(talc_module_child(model, "bn1"));
    talc_module_to(model, other_fake_device());
    talc_algorithm_force("conv2d", "im2col");
    talc_tensor *x = block_input();
    const state before = state_of(model);
    talc_check_model_report *report = checked(
        model, x,
        (talc_check_model_options){ .device = fake_device(),
                                    .algorithm = "conv2d=reference,conv2d=im2col,add=reference" });
    assert_passed(report);
    talc_check_model_free(report);
    cr_assert_str_eq(state_of(model).text, before.text);

    cr_assert(!talc_check_model(
        model, op_numbers(cpu_device(), TALC_DIMS(2, 4, 9, 6), 1),
        &(talc_check_model_options){ .reference_algorithm = "conv2d=reference,add=reference" },
        &report));
    cr_assert(report == NULL);
    assert_failure(TALC_BAD_SHAPE,
                   "conv1: conv2d: x [2,4,9,6] has 4 channels, w [5,3,3,3] with groups=1 needs 3");
    cr_assert_str_eq(state_of(model).text, before.text);
    cr_assert(talc_forward_hook(NULL) == NULL && talc_observe(NULL) == NULL);
    talc_algorithm_force("conv2d", NULL);
}
