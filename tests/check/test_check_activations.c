/// talc_check_model against saved activations, its errors, and what allocation failures leave
/// behind.
#include "tests/support/fake_device.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include "tests/support/layers.h"
#include "tests/support/networks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static talc_module *net_new(void)
{
    talc_manual_seed(5);
    talc_module *net = lenet_new();
    assert_no_failure();
    return net;
}

static talc_tensor *images(void)
{
    return op_numbers(cpu_device(), TALC_DIMS(2, 1, 28, 28), 3);
}

static talc_check_model_report *against(talc_module *model, talc_tensor *x, const char *path)
{
    talc_check_model_report *report = NULL;
    talc_check_model(model, x, &(talc_check_model_options){ .activations = path }, &report);
    assert_no_failure();
    return report;
}

static void assert_refused(talc_module *model, talc_tensor *x, talc_check_model_options options,
                           talc_status status, const char *message)
{
    talc_check_model_report *report = (talc_check_model_report *)(uintptr_t)&options;
    cr_assert(!talc_check_model(model, x, &options, &report));
    cr_assert(report == NULL);
    assert_failure(status, message);
    cr_assert(model == NULL || model->training);
}

/* The file at `from` again, but for what is done to the tensor `name`: off by 1e-3 at one element
 * when `to_name` is NULL, else under that name. */
static void rewrite(const char *from, const char *to, const char *name, const char *to_name)
{
    owned_safetensors *file = talc_safetensors_open(from);
    talc_named_tensor list[32];
    const int64_t count = talc_safetensors_count(file);
    for (int64_t i = 0; i < count; i++) {
        list[i].name = talc_safetensors_name(file, i);
        list[i].tensor = talc_safetensors_read(file, i, cpu_device());
        if (strcmp(list[i].name, name) != 0)
            continue;
        if (to_name != NULL)
            list[i].name = to_name;
        else
            ((float *)list[i].tensor->data)[7] += 1e-3F;
    }
    cr_assert(talc_safetensors_save(to, list, count, NULL), "%s", talc_error_message());
}

// ---- Round trips --------------------------------------------------------------------------------

Test(check_activations, what_a_model_saves_is_what_it_gives)
{
    static const char *const names[] = { "conv1",   "conv2",  "fc1",  "fc2",   "fc3",
                                         "flatten", "output", "pool", "pool:2" };
    owned_module *net = net_new();
    const char *path = file_path("activations.safetensors");
    cr_assert(talc_check_model_save_activations(net, images(), path), "%s", talc_error_message());
    cr_assert(net->training);

    talc_safetensors *file = talc_safetensors_open(path);
    cr_assert(talc_safetensors_count(file) == 9);
    for (int i = 0; i < 9; i++)
        cr_assert(talc_safetensors_find(file, names[i]) >= 0, "no %s", names[i]);
    cr_assert(talc_safetensors_dims(file, talc_safetensors_find(file, "pool:2")).dim[1] == 16);
    talc_safetensors_close(file);

    owned_report *report = against(net, images(), path);
    cr_assert(talc_check_model_passed(report));
    int compared = 0;
    for (int i = 0; i < talc_check_model_count(report); i++) {
        const talc_check_model_layer *layer = talc_check_model_at(report, i);
        cr_assert(!(layer->difference > 0) && !(layer->step > 0) && layer->passed);
        compared += layer->difference == 0;
    }
    /* 11 ops, of which four relu belong to no module of their own, and two views. */
    cr_assert(compared == 9 && talc_check_model_count(report) == 13, "%d of %d", compared,
              talc_check_model_count(report));
}

Test(check_activations, the_first_layer_that_differs_is_found)
{
    static const struct {
        const char *name, *path, *op;
    } cases[] = {
        { "conv1", "conv1", "conv2d" },     { "pool", "pool", "max_pool2d" },
        { "pool:2", "pool", "max_pool2d" }, { "flatten", "flatten", "output" },
        { "fc2", "fc2", "linear" },         { "output", "", "output" },
    };
    owned_module *net = net_new();
    const char *path = file_path("right.safetensors"), *corrupted = file_path("wrong.safetensors");
    cr_assert(talc_check_model_save_activations(net, images(), path));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rewrite(path, corrupted, cases[i].name, NULL);
        owned_report *report = against(net, images(), corrupted);
        cr_assert(!talc_check_model_passed(report), "%s", cases[i].name);
        const int wrong = talc_check_model_first_wrong(report);
        const talc_check_model_layer *first = talc_check_model_at(report, wrong);
        cr_assert(first != NULL && strcmp(first->path, cases[i].path) == 0 &&
                      strcmp(first->op, cases[i].op) == 0,
                  "%s: layer %d is the first wrong", cases[i].name, wrong);
        cr_assert(first->step > 1 && !(first->own > 1) && first->where.dim[0] == 0);
        cr_assert(fabs(first->expected - first->got - 1e-3) < 1e-6, "%s: %g instead of %g",
                  cases[i].name, first->got, first->expected);
        for (int j = 0; j < talc_check_model_count(report); j++) {
            const talc_check_model_layer *layer = talc_check_model_at(report, j);
            cr_assert(!(layer->own > 1));
            /* A view shows the element again that was found wrong, and explains it. */
            cr_assert(j == wrong || !(layer->step > 1), "%s: layer %d", cases[i].name, j);
            if (j > wrong && layer->step >= 0)
                cr_assert(layer->accumulated == first->step);
        }
    }
}

/* What lies between two saved outputs is bounded, not measured. */
Test(check_activations, some_of_the_layers_will_do)
{
    owned_module *net = net_new();
    talc_tensor *y, *x = images();
    talc_module_eval(net);
    talc_algorithm_force("conv2d", "reference");
    y = talc_forward(net, x);
    talc_algorithm_force("conv2d", NULL);
    const char *path = file_path("few.safetensors");
    cr_assert(talc_safetensors_save(
        path, (talc_named_tensor[]){ { "fc3.output", talc_cast(y, TALC_F64) } }, 1, NULL));
    owned_report *report = against(net, x, path);
    cr_assert(talc_check_model_passed(report) && talc_check_model_count(report) == 11);
    const talc_check_model_layer *last = talc_check_model_at(report, 10);
    cr_assert(last->difference > 0 && last->step >= 0 && last->step <= 1);
    cr_assert(isnan(talc_check_model_at(report, 9)->step));
    talc_check_model_free(report);

    cr_assert(talc_safetensors_save(
        path, (talc_named_tensor[]){ { ".output", talc_add_scalar(y, 0.1) } }, 1, NULL));
    report = against(net, x, path);
    cr_assert(talc_check_model_first_wrong(report) == 10, "%d",
              talc_check_model_first_wrong(report));
}

static const char *print_report(const talc_check_model_report *report)
{
    FILE *file = tmpfile();
    talc_check_model_print(file, report);
    return file_written(file);
}

/* Another library may have modules that the model lacks. */
Test(check_activations, names_that_the_model_lacks_are_skipped)
{
    static const struct {
        const char *name, *to_name;
    } renamed[] = { { "fc2", "fc9" }, { "pool:2", "pool:3" } };
    owned_module *net = net_new();
    const char *path = file_path("a.safetensors"), *other = file_path("b.safetensors");
    cr_assert(talc_check_model_save_activations(net, images(), path));
    for (int i = 0; i < 2; i++) {
        rewrite(path, other, renamed[i].name, renamed[i].to_name);
        owned_report *report = against(net, images(), other);
        cr_assert(talc_check_model_passed(report) && talc_check_model_skipped(report) == 1);
        cr_assert_str_eq(talc_check_model_skipped_name(report, 0), renamed[i].to_name);
        cr_assert(talc_check_model_skipped_name(report, 1) == NULL &&
                  talc_check_model_skipped_name(report, -1) == NULL);
        const char *printed = print_report(report);
        char line[100];
        snprintf(line, sizeof line, "\nskipped: 1 tensor of the file that no module gave: %s\n",
                 renamed[i].to_name);
        cr_assert(strstr(printed, line) != NULL, "%s", printed);
    }
    cr_assert(talc_check_model_skipped(NULL) == 0);
}

/* They may be what is wrong, and are told where they are near: those of LeNet's first layers are
 * not. */
Test(check_activations, what_was_not_compared_before_the_first_wrong_is_told)
{
    static const struct {
        const char *name, *to_name, *wrong, *told;
    } cases[] = {
        { "fc1", "fc9", "fc2",
          "\nnot compared before it: fc1 linear, (model) relu; skipped beside: fc9\n" },
        { "fc1", "layer9.fc1", "fc2", "\nnot compared before it: fc1 linear, (model) relu\n" },
        { "fc3", "fc9", "fc2", "\nnot compared before it: (model) relu; skipped beside: fc9\n" },
        { "fc1", "fc9", "conv1", NULL },
    };
    owned_module *net = net_new();
    const char *path = file_path("a.safetensors"), *other = file_path("b.safetensors"),
               *corrupted = file_path("c.safetensors");
    cr_assert(talc_check_model_save_activations(net, images(), path));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rewrite(path, other, cases[i].name, cases[i].to_name);
        rewrite(other, corrupted, cases[i].wrong, NULL);
        owned_report *report = against(net, images(), corrupted);
        const char *printed = print_report(report);
        cr_assert(cases[i].told == NULL ? strstr(printed, "not compared") == NULL
                                        : strstr(printed, cases[i].told) != NULL,
                  "%zu: %s", i, printed);
    }
}

// ---- Another library's formulas -----------------------------------------------------------------

static talc_module *shifted_conv(int64_t in_channels, int64_t kernel)
{
    talc_module *conv =
        CONV2D(.in_channels = in_channels, .out_channels = 4, .kernel = { kernel, kernel });
    talc_copy(talc_module_find(conv, "bias"),
              talc_uniform(cpu_device(), TALC_F32, TALC_DIMS(4), 300, 400));
    return conv;
}

/* Norms of means that are large beside the spreads. */
static talc_module *norms_new(void)
{
    talc_manual_seed(3);
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "conv", shifted_conv(2, 3));
    talc_module_add(net, "bn", BATCH_NORM2D(.channels = 4));
    talc_module_add(net, "shift", shifted_conv(4, 1));
    talc_module_add(net, "ln",
                    talc_nn_layer_norm(&(talc_layer_norm_layer){ .normalised = TALC_DIMS(9, 9) }));
    static const char *const names[] = { "bn.weight", "bn.bias", "ln.weight", "ln.bias" };
    for (int i = 0; i < 4; i++) {
        const talc_tensor *of = talc_module_find(net, names[i]);
        talc_copy(talc_module_find(net, names[i]),
                  talc_uniform(cpu_device(), TALC_F32, talc_dims_of(of), 0.5, 1.5));
    }
    assert_no_failure();
    return net;
}

/* y = x s + (bias - mean s) in f32, as PyTorch evaluates it, over the planes of x: PyTorch 2.15's
 * native/cpu/batch_norm_kernel.cpp and layer_norm_kernel.cpp. A plane has a weight and a bias, or
 * each of its values has. */
static talc_tensor *folded(const talc_tensor *x, const float *weight, const float *bias,
                           bool by_plane, double eps, const float *given_mean,
                           const float *given_var)
{
    const int64_t C = x->dims[1], plane = x->dims[2] * x->dims[3], N = x->dims[0];
    talc_tensor *y = talc_empty_like(x);
    const float *from = x->data;
    float *to = y->data;
    for (int64_t r = 0; r < N * C; r++) {
        const int64_t c = r % C;
        double mean = 0, var = 0;
        for (int64_t i = 0; i < plane; i++)
            mean += from[r * plane + i] / (double)plane;
        for (int64_t i = 0; i < plane; i++)
            var += pow(from[r * plane + i] - mean, 2) / (double)plane;
        const float m = given_mean == NULL ? (float)mean : given_mean[c];
        const float v = given_var == NULL ? (float)var : given_var[c];
        const float rstd = 1 / sqrtf(v + (float)eps), s = by_plane ? weight[c] * rstd : rstd;
        const float shift = (by_plane ? bias[c] : 0) - m * s;
        for (int64_t i = 0; i < plane; i++) {
            volatile float product = from[r * plane + i] * s; /* no fused multiplication */
            const float z = product + shift;
            to[r * plane + i] = by_plane ? z : z * weight[i] + bias[i];
        }
    }
    return y;
}

static const float *numbers_of(talc_module *net, const char *name)
{
    return talc_module_find(net, name)->data;
}

/* In evaluation the running statistics are those of three batches, in training those of the one
 * image. A right run by that formula passes; of one with an error in a layer, however small beside
 * the large values, that layer is the first wrong one. */
Test(check_activations, a_norm_by_another_formula_is_right)
{
    static const char *const wrong[] = { NULL, "conv", "bn", "ln" };
    owned_module *net = norms_new();
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(1, 2, 11, 11), 4);
    for (int i = 0; i < 40; i++)
        talc_forward(net, op_numbers(cpu_device(), TALC_DIMS(2, 2, 11, 11), (unsigned)i));
    const char *path = file_path("formula.safetensors");
    for (int i = 0; i < 8; i++) {
        const bool training = i >= 4;
        const char *layer = wrong[i % 4];
        talc_tensor *conv = talc_conv2d(x, talc_module_find(net, "conv.weight"),
                                        talc_module_find(net, "conv.bias"), NULL);
        if (i % 4 == 1)
            ((float *)conv->data)[40] += 2e-3F;
        talc_tensor *bn = folded(conv, numbers_of(net, "bn.weight"), numbers_of(net, "bn.bias"),
                                 true, 1e-5, training ? NULL : numbers_of(net, "bn.running_mean"),
                                 training ? NULL : numbers_of(net, "bn.running_var"));
        if (i % 4 == 2)
            ((float *)bn->data)[40] += 2e-2F;
        talc_tensor *shift = talc_conv2d(bn, talc_module_find(net, "shift.weight"),
                                         talc_module_find(net, "shift.bias"), NULL);
        talc_tensor *ln = folded(shift, numbers_of(net, "ln.weight"), numbers_of(net, "ln.bias"),
                                 false, 1e-5, NULL, NULL);
        if (i % 4 == 3)
            ((float *)ln->data)[40] += 5e-2F;
        cr_assert(talc_safetensors_save(
                      path,
                      (talc_named_tensor[]){
                          { "conv", conv }, { "bn", bn }, { "shift", shift }, { "ln", ln } },
                      4, NULL),
                  "%s", talc_error_message());
        const double before = numbers_of(net, "bn.running_mean")[0];
        owned_report *report = NULL;
        talc_check_model(net, x,
                         &(talc_check_model_options){ .activations = path, .training = training },
                         &report);
        assert_no_failure();
        cr_assert(numbers_of(net, "bn.running_mean")[0] == before && net->training);
        const talc_check_model_layer *first =
            talc_check_model_at(report, talc_check_model_first_wrong(report));
        if (layer == NULL) {
            cr_assert(first == NULL && talc_check_model_passed(report), "case %d: %s", i,
                      first == NULL ? "failed" : first->path);
            for (int k = 0; k < 4; k++) {
                const talc_check_model_layer *of = talc_check_model_at(report, k);
                cr_assert(of->unexplained <= of->allowed && of->allowed > 0);
            }
        } else {
            cr_assert(first != NULL && strcmp(first->path, layer) == 0, "case %d: %s instead of %s",
                      i, first == NULL ? "none" : first->path, layer);
            cr_assert(fabs(first->unexplained / first->allowed - first->step) < 1e-9 * first->step);
        }
    }
}

/* x / 2 (1 + erf(x / sqrt(2))) in f32, as PyTorch evaluates it: where 1 and erf cancel, the error
 * is as large as x / 2 deserves. */
Test(check_activations, a_gelu_by_another_formula_is_right)
{
    owned_module *net = TALC_SEQUENTIAL(talc_nn_gelu(), talc_nn_relu());
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(300), 4), *y = talc_empty_like(x);
    const char *path = file_path("gelu.safetensors");
    for (int wrong = 0; wrong < 2; wrong++) {
        for (int i = 0; i < 300; i++) {
            const float v = ((float *)x->data)[i] = -6 + 0.03F * (float)i;
            ((float *)y->data)[i] = v * 0.5F * (1 + erff(v * (float)sqrt(0.5)));
        }
        ((float *)y->data)[20] += wrong ? 1e-5F : 0;
        cr_assert(talc_safetensors_save(path, (talc_named_tensor[]){ { "0", y } }, 1, NULL));
        owned_report *report = against(net, x, path);
        cr_assert(talc_check_model_first_wrong(report) == (wrong ? 0 : -1));
    }
}

/* Dropout hands its input on, and the statistics are the batch's. */
Test(check_activations, in_train_mode)
{
    owned_module *net =
        TALC_SEQUENTIAL(BATCH_NORM2D(.channels = 2), talc_nn_dropout(0.5), talc_nn_relu());
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 2, 3, 5), 9);
    talc_module_eval(net);
    talc_check_model_report *report = NULL;
    talc_check_model(net, x,
                     &(talc_check_model_options){ .training = true,
                                                  .reference_algorithm = "batch_norm2d=reference" },
                     &report);
    assert_no_failure();
    cr_assert(talc_check_model_passed(report) && !net->training);
    const talc_check_model_layer *first = talc_check_model_at(report, 0);
    cr_assert(strcmp(first->op, "batch_norm2d") == 0 && first->own >= 0);
    talc_check_model_free(report);
    cr_assert(talc_item(talc_module_find(net, "0.num_batches_tracked")) == 0);

    const char *path = file_path("train.safetensors");
    talc_tensor *y = talc_batch_norm2d(x, NULL, NULL, NULL, NULL,
                                       &(talc_batch_norm2d_options){ .training = true });
    cr_assert(talc_safetensors_save(
        path, (talc_named_tensor[]){ { "0", y }, { "1", y }, { "output", talc_relu(y) } }, 3,
        NULL));
    cr_assert(talc_check_model(
        net, x, &(talc_check_model_options){ .training = true, .activations = path }, &report));
    cr_assert(talc_check_model_passed(report));
    talc_check_model_free(report);
    cr_assert(
        talc_check_model(net, x, &(talc_check_model_options){ .activations = path }, &report));
    cr_assert(talc_check_model_first_wrong(report) == 0);
    talc_check_model_free(report);
}

/* A child that is called "output" keeps its name. */
Test(check_activations, a_child_named_output)
{
    owned_module *net = talc_nn_sequential();
    talc_module_add(net, "output", talc_nn_tanh());
    talc_module_add(net, "last", talc_nn_sigmoid());
    const char *path = file_path("output.safetensors");
    cr_assert(talc_check_model_save_activations(net, images(), path), "%s", talc_error_message());
    owned_safetensors *file = talc_safetensors_open(path);
    cr_assert(talc_safetensors_find(file, "output") >= 0 &&
              talc_safetensors_find(file, ".output") >= 0 && talc_safetensors_count(file) == 3);
    owned_report *report = against(net, images(), path);
    cr_assert(talc_check_model_passed(report) && talc_check_model_count(report) == 3);
}

// ---- Errors -------------------------------------------------------------------------------------

Test(check_activations, files_that_do_not_fit)
{
    owned_module *net = net_new();
    const char *path = file_path("a.safetensors"), *other = file_path("b.safetensors");
    char message[1024];
    cr_assert(talc_check_model_save_activations(net, images(), path));

    static const char *const lacked[] = { "fc9", "pool:3", ".weight" };
    for (int count = 1; count <= 3; count++) {
        talc_named_tensor list[3];
        for (int i = 0; i < count; i++)
            list[i] = (talc_named_tensor){ lacked[i], images() };
        cr_assert(talc_safetensors_save(other, list, count, NULL), "%s", talc_error_message());
        snprintf(message, sizeof message,
                 "check_model: '%s' has '%s'%s, and no module of the model has %s name", other,
                 count < 3 ? "fc9" : ".weight", count > 1 ? " and other tensors" : "",
                 count > 1 ? "any such" : "that");
        assert_refused(net, images(), (talc_check_model_options){ .activations = other },
                       TALC_NOT_FOUND, message);
    }

    snprintf(message, sizeof message,
             "check_model: '%s': 'conv1' is [2,6,28,28] in the file, [1,6,28,28] in the model",
             path);
    assert_refused(net, talc_slice(images(), 0, 0, 1, 1),
                   (talc_check_model_options){ .activations = path }, TALC_BAD_SHAPE, message);

    cr_assert(talc_safetensors_save(other, NULL, 0, NULL), "%s", talc_error_message());
    snprintf(message, sizeof message, "check_model: '%s' holds no tensor", other);
    assert_refused(net, images(), (talc_check_model_options){ .activations = other },
                   TALC_NOT_FOUND, message);
    const char *missing = file_path("missing.safetensors");
    snprintf(message, sizeof message, "%s: No such file or directory", missing);
    talc_check_model_report *report;
    cr_assert(!talc_check_model(net, images(),
                                &(talc_check_model_options){ .activations = missing }, &report));
    cr_assert(talc_error_status() == TALC_IO_ERROR &&
              strstr(talc_error_message(), missing) != NULL);
    talc_error_clear();
}

Test(check_activations, bad_calls)
{
    owned_module *net = net_new();
    talc_tensor *x = images();
    talc_check_model_report *report;
    typedef talc_check_model_options options;
    assert_refused(NULL, x, (options){ 0 }, TALC_NULL_ARGUMENT, "check_model: model is NULL");
    assert_refused(net, NULL, (options){ 0 }, TALC_NULL_ARGUMENT, "check_model: x is NULL");
    cr_assert(!talc_check_model(net, x, NULL, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "check_model: report is NULL");
    assert_refused(net, x, (options){ .activations = "a", .reference = cpu_device() },
                   TALC_BAD_ARGUMENT,
                   "check_model: activations stand in for the reference run, and a reference "
                   "device is asked for");
    assert_refused(net, x, (options){ .activations = "a", .reference_algorithm = "a=b" },
                   TALC_BAD_ARGUMENT,
                   "check_model: activations stand in for the reference run, and a reference "
                   "algorithm is asked for");
    assert_refused(net, x, (options){ .algorithm = "conv2d=fast" }, TALC_NOT_FOUND,
                   "conv1: conv2d on cpu: there is no algorithm 'fast'");
    assert_refused(net, x, (options){ .reference_algorithm = "matmul=reference" }, TALC_NOT_FOUND,
                   "check_model: matmul=reference is forced, and no op matmul ran");
    static const char *const bad[] = { "conv2d", "=im2col", "conv2d=", "conv2d=,relu=reference" };
    for (int i = 0; i < 4; i++) {
        char message[200];
        snprintf(message, sizeof message, "check_model: '%s' is no algorithm, expected OP=NAME",
                 i == 3 ? "conv2d=" : bad[i]);
        assert_refused(net, x, (options){ .algorithm = bad[i] }, TALC_BAD_ARGUMENT, message);
    }
    cr_assert(talc_algorithm_forced("conv2d") == NULL);
    cr_assert(!talc_check_model_save_activations(NULL, x, "a"));
    assert_failure(TALC_NULL_ARGUMENT, "check_model_save_activations: model is NULL");
    cr_assert(!talc_check_model_save_activations(net, NULL, "a"));
    assert_failure(TALC_NULL_ARGUMENT, "check_model_save_activations: x is NULL");
    cr_assert(!talc_check_model_save_activations(net, x, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "check_model_save_activations: path is NULL");
    talc_fail(TALC_IO_ERROR, "an earlier failure");
    cr_assert(!talc_check_model(net, x, NULL, &report));
    assert_failure(TALC_IO_ERROR, "an earlier failure");
}

/* A model that does something else each time. */
static int variant;
static talc_tensor *fickle_forward(talc_module *module, talc_tensor *x)
{
    (void)module;
    variant++;
    if (variant == 2)
        return talc_tanh(x);
    if (variant == 4)
        return talc_relu(talc_relu(x));
    return variant == 5 ? talc_relu(talc_relu(x)) : talc_relu(x);
}

Test(check_activations, runs_that_differ)
{
    static const talc_module_class fickle = { "Fickle", sizeof(talc_module),
                                              NULL,     fickle_forward,
                                              NULL,     NULL };
    owned_module *model = talc_module_new(&fickle, NULL);
    talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(2, 3), 1);
    typedef talc_check_model_options options;
    assert_refused(model, x, (options){ 0 }, TALC_BAD_SHAPE,
                   "check_model: op 0 is tanh [2,3] in '', the reference ran relu [2,3] in ''");
    assert_refused(model, x, (options){ 0 }, TALC_BAD_SHAPE,
                   "check_model: op 1 is relu [2,3] in '', the reference ran 1 ops only");
    assert_refused(model, x, (options){ 0 }, TALC_BAD_SHAPE,
                   "check_model: the model ran 1 ops, the reference 2");
}

// ---- Allocation failures ------------------------------------------------------------------------

typedef struct fixture {
    talc_module *net;
    talc_tensor *x;
    char path[512];
} fixture;

static void *begin(talc_device *device)
{
    fixture *f = calloc(1, sizeof *f);
    f->net = TALC_SEQUENTIAL(
        CONV2D(.in_channels = 2, .out_channels = 3, .kernel = { 3, 2 }, .padding = { 1 }),
        BATCH_NORM2D(.channels = 3), talc_nn_relu(), talc_nn_flatten(), talc_nn_sigmoid());
    f->x = op_numbers(device, TALC_DIMS(1, 2, 5, 4), 2);
    talc_module_to(f->net, device);
    snprintf(f->path, sizeof f->path, "%s", file_path("faults.safetensors"));
    talc_check_model_save_activations(f->net, f->x, f->path);
    return f;
}

static void end(void *pointer)
{
    talc_module_free(((fixture *)pointer)->net);
    free(pointer);
}

static bool keep_parameter(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)path;
    (void)is_buffer;
    fault_keep(context, tensor);
    fault_keep_bytes(context, &tensor->device, sizeof tensor->device);
    return true;
}

static void keep_model(fault_run *run)
{
    const fixture *f = run->fixture;
    fault_keep(run, f->x);
    talc_module_visit(f->net, keep_parameter, run);
    fault_keep_bytes(run, &f->net->training, sizeof f->net->training);
    const char *forced = talc_algorithm_forced("conv2d");
    fault_keep_bytes(run, forced == NULL ? "-" : forced, 1);
}

static void keep_report(fault_run *run, talc_check_model_report *report)
{
    for (int i = 0; i < talc_check_model_count(report); i++)
        fault_keep_bytes(run, talc_check_model_at(report, i), sizeof(talc_check_model_layer));
    talc_check_model_free(report);
}

static void run_two(fault_run *run)
{
    const fixture *f = run->fixture;
    talc_check_model_report *report;
    talc_check_model(f->net, f->x,
                     &(talc_check_model_options){ .device = other_fake_device(),
                                                  .reference_algorithm = "conv2d=reference" },
                     &report);
    keep_report(run, report);
}

static void run_saved(fault_run *run)
{
    const fixture *f = run->fixture;
    talc_check_model_report *report;
    talc_check_model(f->net, f->x,
                     &(talc_check_model_options){ .activations = f->path, .training = true },
                     &report);
    fault_keep_bytes(run, &(int){ talc_check_model_skipped(report) }, sizeof(int));
    keep_report(run, report);
}

static void run_save(fault_run *run)
{
    const fixture *f = run->fixture;
    const char *path = file_path("again.safetensors");
    if (talc_check_model_save_activations(f->net, f->x, path)) {
        size_t count;
        owned_char *bytes = file_bytes(path, &count);
        fault_keep_bytes(run, bytes, count);
    }
}

TEST_SURVIVES(check_activations, allocation_failures_between_two_devices, 100, "check_model", begin,
              run_two, keep_model, end)

TEST_SURVIVES(check_activations, allocation_failures_against_a_file, 80,
              "check_model with activations", begin, run_saved, keep_model, end)

TEST_SURVIVES(check_activations, allocation_failures_while_saving, 40, "save_activations", begin,
              run_save, keep_model, end)
