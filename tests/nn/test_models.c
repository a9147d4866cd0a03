#include "tests/support/hooks.h"

#include "tests/support/guard.h"
#include "tests/support/networks.h"
#include "nn/entries.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"
#include "tests/support/op_cases.h"
#include "tests/support/pattern.h"
#include "tests/support/torch_keys.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- Keys ---------------------------------------------------------------------------------------

static bool append_key(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)is_buffer;
    char shape[TALC_DIMS_TEXT];
    char *keys = context;
    sprintf(keys + strlen(keys), "%s %s\n", path, talc_dims_text(talc_dims_of(tensor), shape));
    return true;
}

/* The lines of `keys` that do not speak of a shortcut. */
static void drop_shortcuts(const char *keys, char *kept)
{
    for (const char *line = keys; *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *word = strstr(line, "shortcut");
        if (word == NULL || word > strchr(line, '\n'))
            strncat(kept, line, (size_t)(strchr(line, '\n') - line + 1));
    }
}

static void check_keys(talc_module *model, const char *expected, int64_t parameters)
{
    static char keys[16384];
    assert_no_failure();
    keys[0] = '\0';
    cr_assert(talc_module_visit(model, append_key, keys));
    cr_assert_str_eq(keys, expected);
    cr_assert(talc_module_count(model) == parameters, "%s: %" PRId64 " parameters",
              model->kind->name, talc_module_count(model));
    talc_module_free(model);
}

Test(models, keys_and_counts_are_those_of_pytorch)
{
    static char without_shortcuts[16384];
    drop_shortcuts(resnet20_keys, without_shortcuts);
    check_keys(lenet_new(), lenet_keys, 61706);
    check_keys(resnet20_a(), without_shortcuts, 269722);
    check_keys(resnet20_b(), resnet20_keys, 272474);
}

// ---- Outputs ------------------------------------------------------------------------------------

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Gives the t-th tensor its pattern: a variance or a batch norm's weight around 1, everything else
 * around 0. */
static bool fill_state(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    int64_t t = (*(int64_t *)context)++;
    if (ends_with(path, "num_batches_tracked"))
        return true;
    bool around_one =
        ends_with(path, "running_var") || (ends_with(path, "weight") && tensor->rank == 1);
    (void)is_buffer;
    return pattern_fill(tensor, t, around_one ? 64 : 128, around_one ? 1 : 0);
}

static talc_module *filled(talc_module *model)
{
    int64_t t = 0;
    cr_assert(talc_module_visit(model, fill_state, &t), "%s", talc_error_message());
    return model;
}

/* PyTorch 2 in float64, from the same numbers. */
static const struct {
    const char *name;
    bool training;
    double logits[20];
} outputs[] = {
    { "LeNet", false, { 0.14690688,   -0.163269085,  0.0784528003, -0.0193617434, 0.0408530759,
                        0.0393949293, -0.0891426839, 0.11461526,   0.0942708059,  -0.171083587,
                        0.148880302,  -0.158628258,  0.0778206812, -0.0216341567, 0.0408315095,
                        0.0335695257, -0.0887254128, 0.116238203,  0.091130347,   -0.166786839 } },
    { "A", false, { 0.171590091,   0.0835817106, -0.132733418, -0.0458409831, 0.255896075,
                    -0.0703753615, -0.19059516,  0.142121079,  0.167048,      -0.17171791,
                    0.171625782,   0.0808854554, -0.131107571, -0.0473365834, 0.253837784,
                    -0.0675095339, -0.18987374,  0.141806612,  0.169121603,   -0.167122468 } },
    { "A", true, { -0.230537184, 0.336905179,   -0.229267899,  -0.263772038,  0.488089007,
                   -0.179617798, -0.130701216,  0.18421488,    0.00815171128, -0.448752929,
                   -0.140255196, 0.266652332,   -0.0689747572, -0.184927971,  0.529847761,
                   -0.213875389, -0.0215527238, 0.263931624,   0.0514142503,  -0.349523205 } },
    { "B", false, { -0.0261829778, 0.0897235946,  -0.134957414, 0.0522416238,  0.0399301147,
                    -0.106107956,  -0.0815723492, 0.145061323,  -0.0281664997, -0.180440206,
                    -0.0277085124, 0.085762638,   -0.132379682, 0.0515933168,  0.0379127907,
                    -0.107641297,  -0.0784511594, 0.141017359,  -0.030104966,  -0.176585963 } },
    { "B", true, { -0.0857793757, -0.0492803259, -0.0220679092, -0.0072307301,  0.176189695,
                   -0.177166438,  0.239487695,   -0.28999819,   0.0836014741,   0.100393454,
                   -0.09991054,   -0.0724818151, -0.0812016796, -0.00995992633, 0.107365065,
                   -0.139159231,  0.169735421,   -0.287021823,  0.0851912883,   0.0274564045 } },
};

Test(models, outputs_are_those_of_pytorch)
{
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        bool is_lenet = strcmp(outputs[i].name, "LeNet") == 0;
        owned_module *model = filled(is_lenet                  ? lenet_new()
                                     : *outputs[i].name == 'A' ? resnet20_a()
                                                               : resnet20_b());
        talc_tensor *x = pattern_new(
            TALC_F32, is_lenet ? TALC_DIMS(2, 1, 28, 28) : TALC_DIMS(2, 3, 32, 32), 1, 32);
        if (!outputs[i].training)
            talc_module_eval(model);
        talc_tensor *y = talc_forward(model, x);
        assert_no_failure();
        cr_assert(y->rank == 2 && y->dims[0] == 2 && y->dims[1] == 10);
        float logits[20];
        talc_to_host(y, logits, sizeof logits);
        for (int j = 0; j < 20; j++)
            cr_assert(fabs((double)logits[j] - outputs[i].logits[j]) <
                          (outputs[i].training ? 4e-6 : 4e-7),
                      "%s%s: logit %d is %.9g instead of %.9g", outputs[i].name,
                      outputs[i].training ? " in train mode" : "", j, (double)logits[j],
                      outputs[i].logits[j]);
        if (!is_lenet)
            cr_assert(talc_item_i64(talc_module_find(model, "bn1.num_batches_tracked")) ==
                      outputs[i].training);
    }
}

/* Without gradients the features of a block share a tensor, which its layers read in part; with
 * them they are concatenated. */
Test(models, densenet_is_the_same_with_and_without_gradients)
{
    talc_manual_seed(5);
    owned_module *model = densenet121_new();
    talc_tensor *x = pattern_new(TALC_F32, TALC_DIMS(2, 3, 32, 32), 1, 32);
    cr_assert(talc_module_eval(model));
    const talc_tensor *expected = talc_forward(model, x);
    cr_assert(talc_wants_grad(expected));
    talc_no_grad_enter();
    assert_near(talc_forward(model, x), talc_detach(expected), 1e-5, "without gradients");
    talc_no_grad_leave();
}

// ---- Summary ------------------------------------------------------------------------------------

static char *summary_text(talc_module *model, talc_tensor *x)
{
    FILE *file = tmpfile();
    cr_assert(talc_module_summary(file, model, x), "%s", talc_error_message());
    return file_written(file);
}

Test(models, the_summary_of_lenet)
{
    owned_module *model = lenet_new();
    char *text = summary_text(model, talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2, 1, 28, 28)));
    cr_assert_str_eq(text,
                     "layer    type       options        output shape  parameters     MACs\n"
                     "(model)  LeNet                     [2,10]                 0        0\n"
                     "conv1    Conv2d     5x5 s1x1 p2x2  [2,6,28,28]          156  235.2 k\n"
                     "conv2    Conv2d     5x5 s1x1 p0x0  [2,16,10,10]       2,416    480 k\n"
                     "pool     MaxPool2d  2x2 s2x2 p0x0  [2,16,5,5]             0        0\n"
                     "flatten  Flatten                   [2,400]                0        0\n"
                     "fc1      Linear                    [2,120]           48,120     96 k\n"
                     "fc2      Linear                    [2,84]            10,164  20.16 k\n"
                     "fc3      Linear                    [2,10]               850   1.68 k\n"
                     "total                                                61,706    833 k\n");
}

/* A parameter that layers share counts once, as in PyTorch's parameters(): 3 times 3 weights and 3
 * biases. */
Test(models, a_shared_parameter_counts_once)
{
    owned_module *model = TALC_SEQUENTIAL(LINEAR(3, 3), TALC_SEQUENTIAL(talc_nn_identity()));
    talc_tensor *weight = talc_module_find(model, "0.weight");
    cr_assert_not_null(talc_module_parameter(talc_module_child(model, "1.0"), "tied", weight), "%s",
                       talc_error_message());
    cr_assert(talc_module_count(model) == 12, "%" PRId64, talc_module_count(model));
    cr_assert(talc_module_count(talc_module_child(model, "1")) == 9, "it is the child's too");
    char *text = summary_text(model, talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2, 3)));
    cr_assert_str_eq(text, "layer    type        options  output shape  parameters  MACs\n"
                           "(model)  Sequential           [2,3]                  0     0\n"
                           "0        Linear               [2,3]                 12    18\n"
                           "1        Sequential           [2,3]                  0     0\n"
                           "1.0      Identity             [2,3]                  0     0\n"
                           "total                                               12    18\n");
    /* In the order of the walk: the root's own parameters come before those of children. */
    cr_assert_not_null(talc_module_parameter(model, "first", weight));
    text = summary_text(model, talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2, 3)));
    cr_assert(strstr(text, "(model)  Sequential           [2,3]                  9 ") != NULL, "%s",
              text);
    cr_assert(talc_module_count(model) == 12, "%" PRId64, talc_module_count(model));
}

Test(models, a_summary_leaves_nothing_behind)
{
    owned_module *model = filled(resnet20_b());
    talc_module *frozen = talc_module_child(model, "layer2.0.shortcut.1");
    talc_module_eval(frozen);
    talc_tensor *x = pattern_new(TALC_F32, TALC_DIMS(2, 3, 32, 32), 1, 32);
    double variance = talc_item(talc_select(talc_module_find(model, "bn1.running_var"), 0, 3));
    size_t live = talc_device_memory(cpu_device()).live;
    char *text = summary_text(model, x);
    cr_assert(strstr(text, "\nlayer2.0.shortcut.0 Conv2d") != NULL, "%s", text);
    cr_assert(strstr(text, "272,474") != NULL && strstr(text, "not called") == NULL, "%s", text);
    cr_assert(talc_device_memory(cpu_device()).live == live);
    cr_assert(talc_forward_hook(NULL) == NULL, "no hooks stay");
    cr_assert(model->training && talc_module_child(model, "layer1.2")->training &&
              !frozen->training);
    cr_assert(talc_item(talc_select(talc_module_find(model, "bn1.running_var"), 0, 3)) == variance);
    cr_assert(talc_item_i64(talc_module_find(model, "bn1.num_batches_tracked")) == 0);
}

Test(models, a_summary_that_cannot_be_written_is_an_error)
{
    owned_module *model = lenet_new();
    talc_tensor *x = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2, 1, 28, 28));
    FILE *full = fopen("/dev/full", "w");
    cr_assert_not_null(full);
    setvbuf(full, NULL, _IONBF, 0); /* so that the table's own writes fail, not the close */
    cr_assert(!talc_module_summary(full, model, x));
    assert_failure(TALC_IO_ERROR, "module_summary: the table could not be written");
    fclose(full);
}

/* What a summary prints of a pass that fails, and why it does. */
static void check_failing_summary(talc_module *model, talc_dims dims, const char *table,
                                  talc_status status, const char *message)
{
    FILE *file = tmpfile();
    cr_assert(!talc_module_summary(file, model, talc_zeros(cpu_device(), TALC_F32, dims)));
    assert_failure(status, message);
    cr_assert_str_eq(file_written(file), table);
    cr_assert(model->training);
    talc_module_free(model);
}

Test(models, a_summary_that_fails_prints_the_layers_up_to_the_failing_one)
{
    check_failing_summary(lenet_new(), TALC_DIMS(2, 1, 20, 28),
                          "layer    type       options        output shape  parameters   MACs\n"
                          "(model)  LeNet                     -                      0      0\n"
                          "conv1    Conv2d     5x5 s1x1 p2x2  [2,6,20,28]          156  168 k\n"
                          "conv2    Conv2d     5x5 s1x1 p0x0  [2,16,6,10]        2,416  288 k\n"
                          "pool     MaxPool2d  2x2 s2x2 p0x0  [2,16,3,5]             0      0\n"
                          "flatten  Flatten                   [2,240]                0      0\n"
                          "fc1      Linear                    failed            48,120      0\n",
                          TALC_BAD_SHAPE,
                          "fc1: linear: x [2,240] has 240 features, weight [120,400] needs 400");
    check_failing_summary(
        TALC_SEQUENTIAL(TALC_SEQUENTIAL(talc_nn_relu(), talc_nn_module_list(), talc_nn_tanh()),
                        talc_nn_flatten()),
        TALC_DIMS(2),
        "layer    type        options  output shape  parameters  MACs\n"
        "(model)  Sequential           -                      0     0\n"
        "0        Sequential           -                      0     0\n"
        "0.0      ReLU                 [2]                    0     0\n"
        "0.1      ModuleList           failed                 0     0\n",
        TALC_UNSUPPORTED, "0.1: forward: ModuleList has no forward");
}

Test(models, a_layer_that_is_not_called_shows_as_such)
{
    owned_module *model = TALC_SEQUENTIAL(talc_nn_relu());
    talc_module_add(talc_module_child(model, "0"), "spare", talc_nn_tanh());
    char *text = summary_text(model, talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2)));
    cr_assert_str_eq(text, "layer    type        options  output shape  parameters  MACs\n"
                           "(model)  Sequential           [2]                    0     0\n"
                           "0        ReLU                 [2]                    0     0\n"
                           "0.spare  Tanh                 not called             0     0\n"
                           "total                                                0     0\n");
}

// ---- Numbers that are not finite ----------------------------------------------------------------

/* One over its input, then a linear layer: 0 makes what the layer is given infinite. */
static bool inverse_init(talc_module *module, const void *options)
{
    (void)options;
    talc_linear_layer layer = { .in_features = 2, .out_features = 2 };
    return talc_module_add(module, "fc", talc_nn_linear(&layer)) != NULL;
}

static talc_tensor *inverse_forward(talc_module *module, talc_tensor *x)
{
    talc_tensor *y = talc_div(talc_ones(x->device, x->dtype, TALC_SCALAR), x);
    return talc_forward(talc_module_child(module, "fc"), y);
}

static const talc_module_class inverse_class = {
    .name = "Inverse",
    .size = sizeof(talc_module),
    .init = inverse_init,
    .forward = inverse_forward,
};

static talc_module *inverse_new(void)
{
    return talc_module_new(&inverse_class, NULL);
}

Test(models, the_first_layer_that_is_not_finite_is_named)
{
    static const struct {
        talc_module *(*make)(void);
        talc_dims dims;
        const char *parameter; /* NULL: the input */
        double value;
        const char *expected;
    } cases[] = {
        { lenet_new, { 4, { 2, 1, 28, 28 } }, NULL, 1, "" },
        { lenet_new, { 4, { 2, 1, 28, 28 } }, NULL, INFINITY, "the input" },
        { lenet_new, { 4, { 2, 1, 28, 28 } }, NULL, NAN, "the input" },
        { lenet_new,
          { 4, { 2, 1, 28, 28 } },
          "fc2.bias",
          NAN,
          "the parameter bias of fc2 (Linear)" },
        { lenet_new,
          { 4, { 2, 1, 28, 28 } },
          "conv1.weight",
          3e38,
          "the output of conv1 (Conv2d)" },
        { resnet20_b,
          { 4, { 2, 3, 8, 8 } },
          "layer2.0.shortcut.0.weight",
          -INFINITY,
          "the parameter weight of layer2.0.shortcut.0 (Conv2d)" },
        { inverse_new, { 2, { 1, 2 } }, NULL, 0, "the input of fc (Linear)" },
        { inverse_new, { 2, { 1, 2 } }, NULL, 2, "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        owned_module *model = cases[i].make();
        talc_tensor *x = talc_ones(cpu_device(), TALC_F32, cases[i].dims);
        talc_no_grad_enter();
        talc_fill(cases[i].parameter == NULL ? x : talc_module_find(model, cases[i].parameter),
                  cases[i].value);
        talc_no_grad_leave();
        char where[TALC_NONFINITE_TEXT] = "before";
        bool found = talc_module_nonfinite(model, x, where);
        cr_assert(!talc_failed(), "case %zu: %s", i, talc_error_message());
        cr_assert_str_eq(where, cases[i].expected, "case %zu: %s", i, where);
        cr_assert(found == (*cases[i].expected != '\0'), "case %zu", i);
        cr_assert(talc_forward_hook(NULL) == NULL && talc_grad_enabled() && model->training);
    }
}

Test(models, a_search_for_numbers_that_are_not_finite_can_fail)
{
    owned_module *model = lenet_new();
    talc_tensor *x = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2, 3, 28, 28));
    char where[TALC_NONFINITE_TEXT] = "before";
    cr_assert(!talc_module_nonfinite(model, x, where) && *where == '\0');
    cr_assert_eq(talc_error_status(), TALC_BAD_SHAPE);
    talc_error_clear();
    cr_assert(!talc_module_nonfinite(NULL, x, where) && talc_failed());
    talc_error_clear();
    cr_assert(!talc_module_nonfinite(model, NULL, where) && talc_failed());
    talc_error_clear();
    cr_assert(!talc_module_nonfinite(model, x, NULL) && talc_failed());
    talc_error_clear();
}

// ---- Gradients ----------------------------------------------------------------------------------

/* y = x w, of which the gradient by w is lost when `detached`. */
typedef struct scaling {
    talc_module base;
    talc_tensor *weight;
    bool detached;
} scaling;

static bool scaling_init(talc_module *module, const void *options)
{
    scaling *self = (scaling *)module;
    self->detached = *(const bool *)options;
    self->weight =
        talc_module_parameter(module, "weight", talc_rand(cpu_device(), TALC_F32, TALC_DIMS(3)));
    talc_module_buffer(module, "count", talc_zeros(cpu_device(), TALC_I64, TALC_SCALAR));
    return !talc_failed();
}

static talc_tensor *scaling_forward(talc_module *module, talc_tensor *x)
{
    const scaling *self = (const scaling *)module;
    return talc_mul(x, self->detached ? talc_detach(self->weight) : self->weight);
}

static const talc_module_class scaling_class = {
    .name = "Scaling", .size = sizeof(scaling), .init = scaling_init, .forward = scaling_forward
};

/* The norm's statistics would move, and f32 could not tell a slope. */
Test(models, the_gradient_of_a_module_is_checked_on_copies_in_f64)
{
    talc_manual_seed(9);
    for (int detached = 0; detached < 2; detached++) {
        talc_module *norm = BATCH_NORM2D(.channels = 2);
        owned_module *net =
            TALC_SEQUENTIAL(norm, talc_module_new(&scaling_class, &(bool){ detached != 0 }));
        talc_tensor *x = talc_randn(cpu_device(), TALC_F64, TALC_DIMS(2, 2, 4, 3));
        talc_tensor *weight = talc_module_find(net, "1.weight");
        talc_tensor *mean = talc_clone(talc_module_find(net, "0.running_mean"));
        talc_tensor *before = talc_clone(talc_detach(weight));
        talc_gradient_report report;
        const bool passed = talc_check_module_gradient(net, x, NULL, &report);
        assert_no_failure();
        cr_assert(passed == (detached == 0), "%d: %g of input %d", detached, report.worst,
                  report.input);
        cr_assert(report.count == 3 * 4 && report.input == (detached ? 3 : report.input),
                  "%d slopes, worst of input %d", report.count, report.input);
        cr_assert(passed || strcmp(report.name, "1.weight") == 0, "%s", report.name);
        assert_same_bits("weight", before, weight);
        assert_same_bits("running_mean", mean, talc_module_find(net, "0.running_mean"));
        cr_assert(talc_wants_grad(weight) && talc_grad(weight) == NULL);
        cr_assert(!talc_check_module_gradient(net, NULL, NULL, &report));
        assert_failure(TALC_NULL_ARGUMENT, "check_gradient: x is NULL");
        cr_assert(!talc_check_module_gradient(NULL, x, NULL, &report));
        assert_failure(TALC_NULL_ARGUMENT, "check_gradient: module is NULL");
    }
}
