#include "tests/support/captured.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/layers.h"

#include "nn/entries.h"

#include <inttypes.h>
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const net_names[] = { "0.weight",
                                         "0.bias",
                                         "1.weight",
                                         "1.bias",
                                         "1.running_mean",
                                         "1.running_var",
                                         "1.num_batches_tracked" };

/* Conv2d, BatchNorm2d: with tensors of these names. */
static talc_module *net_new(int64_t channels, talc_dtype dtype)
{
    talc_module *net = TALC_SEQUENTIAL(
        CONV2D(.in_channels = 2, .out_channels = channels, .kernel = { 3, 1 }, .dtype = dtype),
        BATCH_NORM2D(.channels = channels, .dtype = dtype));
    assert_no_failure();
    return net;
}

/* The tensors of a net under their names; how many. */
static int name_tensors(talc_named_tensor list[], talc_module *net, int skipped)
{
    int count = 0;
    for (int i = skipped; i < 7; i++)
        list[count++] = (talc_named_tensor){ net_names[i], talc_module_find(net, net_names[i]) };
    return count;
}

/* Every element of a module's state as doubles, so that two states can be compared. */
typedef struct {
    double values[200];
    const void *data[16];
    int64_t count;
    int tensors;
} state;

static bool note(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)path;
    (void)is_buffer;
    state *all = context;
    talc_tensor *wide = talc_cast(tensor, TALC_F64);
    talc_to_host(wide, all->values + all->count, talc_nbytes(wide));
    all->count += talc_numel(tensor);
    all->data[all->tensors++] = tensor->data;
    return true;
}

static state state_of(talc_module *module)
{
    state all = { .count = 0 };
    cr_assert(talc_module_visit(module, note, &all));
    assert_no_failure();
    return all;
}

static bool same_values(const state *a, const state *b)
{
    return a->count == b->count && memcmp(a->values, b->values, sizeof a->values) == 0;
}

/* The same values in the same places. */
static bool same_state(const state *a, const state *b)
{
    return same_values(a, b) && memcmp(a->data, b->data, sizeof a->data) == 0;
}

static char path[512];

static void make_path(void)
{
    snprintf(path, sizeof path, "%s", file_path("state"));
}

TestSuite(state, .init = make_path);

static void assert_failure_about_file(talc_status status, const char *format)
{
    assert_failure_with(status, format, path);
}

// ---- Round trip ---------------------------------------------------------------------------------

Test(state, saving_and_loading_gives_the_same_bits_through_the_same_handles)
{
    owned_module *net = net_new(4, TALC_F32), *other = net_new(4, TALC_F32);
    talc_tensor *x = talc_rand(cpu_device(), TALC_F32, TALC_DIMS(3, 2, 5, 5));
    for (int i = 0; i < 3; i++)
        talc_forward(net, x); /* moves the running statistics */
    talc_tensor *handle = talc_module_find(other, "0.weight");
    talc_tensor *view = talc_select(handle, 0, 0);
    state ours = state_of(net), theirs = state_of(other);
    cr_assert(!same_values(&ours, &theirs));

    cr_assert(talc_module_save(net, path));
    cr_assert(talc_module_load(other, path, true));
    state loaded = state_of(other);
    cr_assert(same_values(&ours, &loaded));
    cr_assert(talc_module_find(other, "0.weight") == handle);
    cr_assert(talc_item_i64(talc_module_find(other, "1.num_batches_tracked")) == 3);
    cr_assert(talc_item(talc_select(talc_flatten(view, 0, -1), 0, 0)) == theirs.values[0],
              "a view of what was replaced keeps seeing the old elements");

    talc_module_eval(net);
    talc_module_eval(other);
    talc_tensor *difference = talc_sub(talc_forward(net, x), talc_forward(other, x));
    talc_tensor *y = talc_flatten(difference, 0, -1);
    for (int64_t i = 0; i < talc_numel(y); i++)
        cr_assert(talc_item(talc_select(y, 0, i)) == 0);
}

Test(state, a_module_without_tensors_saves_and_loads)
{
    owned_module *relu = talc_nn_relu();
    cr_assert(talc_module_save(relu, path));
    cr_assert(talc_module_load(relu, path, true));
}

// ---- What does not fit --------------------------------------------------------------------------

/* Writes a net's tensors apart from the first `skipped`, and `extra` more. */
static void write_changed(talc_module *net, int skipped, int extra)
{
    static const char *const extras[] = { "2.weight", "0.weight.x", "0" };
    talc_named_tensor list[16];
    int count = name_tensors(list, net, skipped);
    for (int i = 0; i < extra; i++)
        list[count++] =
            (talc_named_tensor){ extras[i], talc_ones(cpu_device(), TALC_F64, TALC_DIMS(3 - i)) };
    cr_assert(talc_safetensors_save(path, list, count, NULL));
}

Test(state, missing_and_extra_names_are_errors_when_strict)
{
    owned_module *net = net_new(4, TALC_F32), *other = net_new(4, TALC_F32);
    static const struct {
        int skipped, extra;
        const char *message;
    } cases[] = {
        { 1, 0, "module_load: '%s' lacks '0.weight'" },
        { 4, 1, "module_load: '%s' lacks '0.weight' (and 3 more)" },
        { 0, 1, "module_load: '%s' has '2.weight', Sequential has not" },
        { 0, 3, "module_load: '%s' has '0' (and 2 more), Sequential has not" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_changed(net, cases[i].skipped, cases[i].extra);
        state before = state_of(other);
        cr_assert(!talc_module_load(other, path, true));
        assert_failure_about_file(TALC_NOT_FOUND, cases[i].message);
        state after = state_of(other);
        cr_assert(same_state(&before, &after), "%s", cases[i].message);
    }

    talc_fill(talc_module_find(net, "0.bias"), 7);
    write_changed(net, 1, 3);
    double first = state_of(other).values[0];
    cr_assert(talc_module_load(other, path, false), "names that both have are loaded: %s",
              talc_error_message());
    cr_assert(talc_item(talc_select(talc_module_find(other, "0.bias"), 0, 3)) == 7);
    cr_assert(state_of(other).values[0] == first, "what the file lacks stays");
}

/* Whichever tensor does not fit, none before it is loaded, by a partial load neither. */
Test(state, shapes_and_types_must_be_equal)
{
    talc_module *net = net_new(4, TALC_F32), *other = net_new(4, TALC_F32);
    for (int odd = 0; odd < 7; odd++)
        for (int wide = 0; wide < 2; wide++) {
            talc_named_tensor list[7];
            name_tensors(list, net, 0);
            const talc_dtype other_dtype = odd == 6 ? TALC_F32 : TALC_F64;
            list[odd].tensor = wide ? talc_cast(list[odd].tensor, other_dtype)
                                    : talc_unsqueeze(list[odd].tensor, 0);
            cr_assert(talc_safetensors_save(path, list, 7, NULL), "%s", talc_error_message());
            for (int strict = 0; strict < 2; strict++) {
                const state before = state_of(other);
                cr_assert(!talc_module_load(other, path, strict));
                cr_assert(talc_error_status() == (wide ? TALC_BAD_DTYPE : TALC_BAD_SHAPE) &&
                              strstr(talc_error_message(), net_names[odd]) != NULL,
                          "%s: %s", net_names[odd], talc_error_message());
                talc_error_clear();
                const state after = state_of(other);
                cr_assert(same_state(&before, &after), "%s: a failed load changed the module",
                          net_names[odd]);
            }
        }
    talc_module *five = net_new(5, TALC_F32), *exact = net_new(4, TALC_F64);
    talc_module_save(net, path);
    cr_assert(!talc_module_load(five, path, true));
    assert_failure_about_file(
        TALC_BAD_SHAPE,
        "module_load: '%s': '0.weight' is [4,2,3,1] in the file, [5,2,3,1] in the module");
    cr_assert(!talc_module_load(exact, path, false));
    assert_failure_about_file(
        TALC_BAD_DTYPE, "module_load: '%s': '0.weight' is F32 in the file, f64 in the module");
    talc_module *const all[] = { net, other, five, exact };
    for (int i = 0; i < 4; i++)
        talc_module_free(all[i]);
}

// ---- Reports ------------------------------------------------------------------------------------

/* "a b": what a list holds. */
static const char *listed(const talc_names_list *names, char text[512])
{
    text[0] = '\0';
    for (int64_t i = 0; i < names->count; i++)
        snprintf(text + strlen(text), 512 - strlen(text), "%s%s", i > 0 ? " " : "", names->list[i]);
    return text;
}

#define NORM   "1.weight 1.bias 1.running_mean 1.running_var 1.num_batches_tracked"
#define EXTRAS "0 0.weight.x 2.weight"

static const struct {
    int skipped, extra; /* of what the file has */
    talc_load_options options;
    const char *message; /* NULL: it is loaded */
    const char *loaded, *missing, *extras;
} report_cases[] = {
    { 0, 0, { 0 }, NULL, "0.weight 0.bias " NORM, "", "" },
    { 0, 3, { 0 }, "module_load: '%s' has '0' (and 2 more), Sequential has not", "", "", EXTRAS },
    { 2,
      1,
      { 0 },
      "module_load: '%s' lacks '0.weight' (and 1 more)",
      "",
      "0.weight 0.bias",
      "2.weight" },
    { 1, 3, { .partial = true }, NULL, "0.bias " NORM, "0.weight", EXTRAS },
    { 7,
      3,
      { .partial = true },
      "module_load: '%s' has nothing of Sequential: it lacks '0.weight' (and 6 more), and has '0' "
      "(and 2 more)",
      "",
      "0.weight 0.bias " NORM,
      EXTRAS },
    { 7,
      3,
      { 0 },
      "module_load: '%s' has nothing of Sequential: it lacks '0.weight' (and 6 more), and has '0' "
      "(and 2 more)",
      "",
      "0.weight 0.bias " NORM,
      EXTRAS },
    { 7,
      0,
      { .partial = true },
      "module_load: '%s' lacks '0.weight' (and 6 more)",
      "",
      "0.weight 0.bias " NORM,
      "" },
    /* What a pattern fits is left alone, on both sides. */
    { 2, 1, { .except = "[02].*" }, NULL, NORM, "", "" },
    { 0,
      1,
      { .except = "1.*" },
      "module_load: '%s' has '2.weight', Sequential has not",
      "",
      "",
      "2.weight" },
    { 0,
      0,
      { .except = "*" },
      "module_load: every name of Sequential fits '*', so that nothing is left of '%s'",
      "",
      "",
      "" },
    { 0,
      0,
      { .except = "fc.*" },
      "module_load: no name of '%s' or Sequential fits 'fc.*'",
      "",
      "",
      "" },
};

Test(state, a_load_says_what_was_loaded_missing_and_extra)
{
    owned_module *net = net_new(4, TALC_F32);
    talc_fill(talc_module_find(net, "1.bias"), 7);
    for (size_t i = 0; i < sizeof report_cases / sizeof *report_cases; i++) {
        char text[512];
        talc_load_report report;
        owned_module *other = net_new(4, TALC_F32);
        write_changed(net, report_cases[i].skipped, report_cases[i].extra);
        const state before = state_of(other);
        cr_assert(talc_module_load_with(other, path, &report_cases[i].options, &report) ==
                      (report_cases[i].message == NULL),
                  "case %zu: %s", i, talc_error_message());
        if (report_cases[i].message != NULL)
            assert_failure_about_file(TALC_NOT_FOUND, report_cases[i].message);
        const state after = state_of(other);
        cr_assert(same_state(&before, &after) == (report_cases[i].message != NULL), "case %zu", i);
        cr_assert_str_eq(listed(&report.missing, text), report_cases[i].missing);
        cr_assert_str_eq(listed(&report.extra, text), report_cases[i].extras);
        if (report_cases[i].message == NULL || report_cases[i].loaded[0] == '\0')
            cr_assert_str_eq(listed(&report.loaded, text), report_cases[i].loaded);
        talc_load_report_free(&report);
    }
    talc_load_report_free(NULL);
}

/* A head of another size: its own stays. */
Test(state, an_excepted_name_may_have_another_shape)
{
    owned_module *net = net_new(4, TALC_F32), *wide = net_new(5, TALC_F32);
    talc_named_tensor scale[2] = { { "0.weight", talc_module_find(net, "0.weight") },
                                   { "1.num_batches_tracked",
                                     talc_full(cpu_device(), TALC_I64, TALC_SCALAR, 9) } };
    cr_assert(talc_safetensors_save(path, scale, 2, NULL));
    const state before = state_of(wide);
    cr_assert(talc_module_load_with(wide, path,
                                    &(talc_load_options){ .partial = true, .except = "0.*" }, NULL),
              "%s", talc_error_message());
    const state after = state_of(wide);
    cr_assert(after.data[0] == before.data[0] && after.values[0] == before.values[0]);
    cr_assert(talc_item_i64(talc_module_find(wide, "1.num_batches_tracked")) == 9);
}

Test(state, the_optimizers_state_is_nothing_extra)
{
    owned_module *net = net_new(4, TALC_F32), *other = net_new(4, TALC_F32);
    owned_optimizer *optimizer =
        talc_optimizer_new(net, &(talc_optimizer_options){ .kind = TALC_ADAM });
    talc_fill(talc_module_find(net, "0.bias"), 7);
    cr_assert(talc_checkpoint_save(path, net, optimizer, &(talc_progress){ 0 }), "%s",
              talc_error_message());
    talc_load_report report;
    cr_assert(talc_module_load_with(other, path, NULL, &report), "%s", talc_error_message());
    cr_assert(report.loaded.count == 7 && report.extra.count == 0 && report.missing.count == 0);
    cr_assert(talc_item(talc_select(talc_module_find(other, "0.bias"), 0, 3)) == 7);
    FILE *file = tmpfile();
    cr_assert(talc_module_differences(file, other, path) == 0 && ftell(file) == 0);
    fclose(file);
    talc_load_report_free(&report);
    /* In a file that is no checkpoint such a name is one like all others. */
    talc_named_tensor list[8];
    name_tensors(list, net, 0);
    list[7] = (talc_named_tensor){ "optimizer.x", talc_module_find(net, "0.bias") };
    cr_assert(talc_safetensors_save(path, list, 8, NULL));
    cr_assert(!talc_module_load(other, path, true));
    assert_failure_about_file(TALC_NOT_FOUND,
                              "module_load: '%s' has 'optimizer.x', Sequential has not");
}

// ---- What a file says of its model --------------------------------------------------------------

static const char *const class_names[] = { "cat", "", "a\nb", "c\\n\\", "\xc3\xa9\x1b[2J" };

static const talc_model_info full_info = { .network = "my \"net\"\n",
                                           .channels = 3,
                                           .height = 224,
                                           .width = 32,
                                           .mean = { 0.485, 0.456, 1 / 3.0 },
                                           .deviation = { 0.229, 1e-300, 0 },
                                           .classes = 5,
                                           .class_names = class_names };

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void check_info(const talc_model_info *is, const talc_model_info *expected)
{
    assert_no_failure();
    cr_assert(is != NULL && same_text(is->network, expected->network));
    cr_assert(is->channels == expected->channels && is->height == expected->height &&
              is->width == expected->width);
    cr_assert(memcmp(is->mean, expected->mean, sizeof is->mean) == 0);
    cr_assert(memcmp(is->deviation, expected->deviation, sizeof is->deviation) == 0);
    cr_assert(is->classes == expected->classes &&
              (is->class_names == NULL) == (expected->class_names == NULL));
    for (int64_t i = 0; expected->class_names != NULL && i < expected->classes; i++)
        cr_assert(same_text(is->class_names[i], expected->class_names[i]), "class %d", (int)i);
}

Test(state, a_saved_model_carries_what_describes_it)
{
    owned_module *net = net_new(4, TALC_F32), *other = net_new(4, TALC_F32);
    cr_assert(talc_module_info(net) == NULL && talc_module_info(NULL) == NULL);
    static const talc_model_info infos[] = { { .network = "n" },
                                             { .channels = 1 },
                                             { .channels = 9, .mean = { 0, -2, 3, 1e22 } },
                                             { .classes = 7 } };
    for (int i = 0; i < 5; i++) {
        const talc_model_info *expected = i < 4 ? &infos[i] : &full_info;
        cr_assert(talc_module_describe(net, expected), "%s", talc_error_message());
        check_info(talc_module_info(net), expected);
        cr_assert(talc_module_save(net, path), "%s", talc_error_message());
        talc_model_info *read = talc_model_info_read(path);
        check_info(read, expected);
        talc_model_info_free(read);
        cr_assert(talc_module_load(other, path, true), "%s", talc_error_message());
        check_info(talc_module_info(other), expected);
    }
    /* As other programs read it. */
    talc_safetensors *file = talc_safetensors_open(path);
    cr_assert_str_eq(talc_safetensors_metadata(file, "format"), "pt");
    cr_assert_str_eq(talc_safetensors_metadata(file, "talc.image"), "3x224x32");
    cr_assert_str_eq(talc_safetensors_metadata(file, "talc.mean"),
                     "0.485 0.456 0.3333333333333333");
    cr_assert_str_eq(talc_safetensors_metadata(file, "talc.deviation"), "0.229 1e-300 0");
    cr_assert_str_eq(talc_safetensors_metadata(file, "talc.classes"), "5");
    cr_assert_str_eq(talc_safetensors_metadata(file, "talc.class_names"),
                     "cat\n\na\\nb\nc\\\\n\\\\\n\xc3\xa9\x1b[2J");
    talc_safetensors_close(file);
    /* A partial load is of weights alone, and so is a file that says nothing; a checkpoint says
     * all. */
    talc_module_describe(other, &infos[0]);
    cr_assert(talc_module_load(other, path, false));
    check_info(talc_module_info(other), &infos[0]);
    owned_optimizer *optimizer = talc_optimizer_new(net, &(talc_optimizer_options){ .lr = 1 }),
                    *another = talc_optimizer_new(other, &(talc_optimizer_options){ .lr = 1 });
    talc_progress progress = { 0 };
    cr_assert(talc_checkpoint_save(path, net, optimizer, &progress) &&
                  talc_checkpoint_load(path, other, another, &progress),
              "%s", talc_error_message());
    check_info(talc_module_info(other), &full_info);
    cr_assert(talc_module_describe(net, NULL) && talc_module_info(net) == NULL);
    cr_assert(talc_module_save(net, path) && talc_module_load(other, path, true));
    check_info(talc_module_info(other), &full_info);
    talc_model_info *nothing = talc_model_info_read(path);
    check_info(nothing, &(talc_model_info){ 0 });
    talc_model_info_free(nothing);
    talc_model_info_free(NULL);
}

Test(state, a_locale_with_a_comma_writes_and_reads_points)
{
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL && setlocale(LC_ALL, "C") != NULL)
        cr_skip_test("there is no such locale");
    owned_module *net = net_new(4, TALC_F32);
    cr_assert(talc_module_describe(net, &full_info) && talc_module_save(net, path));
    talc_safetensors *file = talc_safetensors_open(path);
    cr_assert_str_eq(talc_safetensors_metadata(file, "talc.deviation"), "0.229 1e-300 0");
    talc_safetensors_close(file);
    talc_model_info *read = talc_model_info_read(path);
    check_info(read, &full_info);
    talc_model_info_free(read);
}

Test(state, hostile_descriptions_are_refused)
{
    static const char *const cases[][6] = {
        { "talc.image", "" },
        { "talc.image", "3x224" },
        { "talc.image", "3x224x224x1" },
        { "talc.image", "3x-1x1" },
        { "talc.image", "0x8x8" },
        { "talc.image", "3x99999999999999999999x1" },
        { "talc.image", "3x1048577x1" },
        { "talc.mean", "0.5" }, /* of no image */
        { "talc.mean", "0.5", "talc.image", "3x8x8" },
        { "talc.mean", "0.5 0.5 0.5 0.5", "talc.image", "3x8x8" },
        { "talc.mean", "nan", "talc.image", "1x8x8" },
        { "talc.mean", "0x1p3", "talc.image", "1x8x8" },
        { "talc.mean", "1e999", "talc.image", "1x8x8" },
        { "talc.mean", "0.5 ", "talc.image", "1x8x8" },
        { "talc.mean", " 0.5", "talc.image", "1x8x8" },
        { "talc.mean", "0..5", "talc.image", "1x8x8" },
        { "talc.deviation", "-1", "talc.image", "1x8x8" },
        { "talc.deviation", "inf", "talc.image", "1x8x8" },
        { "talc.classes", "0" },
        { "talc.classes", "-1" },
        { "talc.classes", "65537" },
        { "talc.classes", "3 " },
        { "talc.class_names", "a" }, /* of how many? */
        { "talc.class_names", "a\nb", "talc.classes", "3" },
        { "talc.class_names", "a\nb\nc\nd", "talc.classes", "3" },
        { "talc.class_names", "a\nb\n\\x", "talc.classes", "3" },
        { "talc.class_names", "a\nb\nc\\", "talc.classes", "3" },
    };
    owned_module *net = net_new(4, TALC_F32);
    static char longest[100000];
    memset(longest, '1', sizeof longest - 1);
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
        const char *const too_long[] = { "talc.mean", longest, "talc.image", "1x8x8", NULL };
        const char *const *metadata = i < sizeof cases / sizeof *cases ? cases[i] : too_long;
        talc_named_tensor list[7];
        for (int k = 0; k < 7; k++)
            list[k] = (talc_named_tensor){ net_names[k],
                                           talc_zeros_like(talc_module_find(net, net_names[k])) };
        cr_assert(talc_safetensors_save(path, list, 7, metadata), "%s", talc_error_message());
        const state before = state_of(net);
        char expected[1024];
        snprintf(expected, sizeof expected,
                 "model_info_read: '%s': the metadata '%s' is not what talc writes: '%s'", path,
                 metadata[0], TALC_SHOWN(metadata[1]));
        cr_assert(talc_model_info_read(path) == NULL, "%s: %s", metadata[0], metadata[1]);
        assert_failure(TALC_BAD_FORMAT, expected);
        cr_assert(!talc_module_load(net, path, true));
        cr_assert(talc_error_status() == TALC_BAD_FORMAT, "%s", talc_error_message());
        talc_error_clear();
        const state after = state_of(net);
        cr_assert(same_state(&before, &after) && talc_module_info(net) == NULL);
        /* Weights alone take no notice. */
        cr_assert(talc_module_load(net, path, false) && talc_module_info(net) == NULL);
        talc_fill(talc_module_find(net, "0.bias"), 3);
    }
}

// ---- All or nothing -----------------------------------------------------------------------------

/* 0.weight missing, 0.bias of another shape, the norm's in another type, and one that the module
 * has not. */
Test(state, differences_are_listed_name_by_name)
{
    owned_module *net = net_new(2, TALC_F32);
    talc_tensor *five = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(5));
    talc_tensor *wide = talc_zeros(cpu_device(), TALC_F64, TALC_DIMS(2));
    const talc_named_tensor list[] = { { "0.bias", five },
                                       { "1.weight", wide },
                                       { "9", five },
                                       { "1.bias", talc_module_find(net, "1.bias") } };
    cr_assert(talc_safetensors_save(path, list, 4, NULL));
    char text[1000];
    FILE *file = tmpfile();
    cr_assert(talc_module_differences(file, net, path) == 7);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    cr_assert_str_eq(text, "missing     0.weight [2,2,3,1]\n"
                           "differs     0.bias is F32 [5] in the file, f32 [2] in the module\n"
                           "differs     1.weight is F64 [2] in the file, f32 [2] in the module\n"
                           "missing     1.running_mean [2]\n"
                           "missing     1.running_var [2]\n"
                           "missing     1.num_batches_tracked []\n"
                           "unexpected  9 [5]\n");
    cr_assert(talc_module_save(net, path) && talc_module_differences(file, net, path) == 0);
    remove(path);
    cr_assert(talc_module_differences(file, net, path) == -1 && talc_failed());
    talc_error_clear();
    cr_assert(talc_module_differences(NULL, net, path) == -1);
    assert_failure(TALC_NULL_ARGUMENT, "module_differences: file is NULL");
    fclose(file);
}

Test(state, a_file_cut_anywhere_leaves_everything_unchanged)
{
    owned_module *net = net_new(4, TALC_F32), *other = net_new(4, TALC_F32);
    talc_module_save(net, path);
    FILE *file = fopen(path, "rb");
    static char content[8192];
    size_t size = fread(content, 1, sizeof content, file);
    fclose(file);
    cr_assert(size > 500 && size < sizeof content);
    state before = state_of(other);
    for (size_t kept = 0; kept < size; kept += kept + 50 < size ? 37 : 1) {
        file = fopen(path, "wb");
        fwrite(content, 1, kept, file);
        fclose(file);
        cr_assert(!talc_module_load(other, path, true), "%zu of %zu bytes", kept, size);
        cr_assert(talc_error_status() == TALC_BAD_FORMAT, "%s", talc_error_message());
        talc_error_clear();
        state after = state_of(other);
        cr_assert(same_state(&before, &after), "%zu of %zu bytes", kept, size);
    }
}

// ---- Beside passes ------------------------------------------------------------------------------

static void wait_a_little(long milliseconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = milliseconds * 1000000 }, NULL);
}

static atomic_int inside;    /* passes that have come to the module below */
static atomic_bool going_on; /* they may end */
static atomic_int loads;     /* that are done */

/* Waits in its forward pass until it may go on. */
static talc_tensor *wait_inside(talc_tensor *x)
{
    atomic_fetch_add(&inside, 1);
    while (!atomic_load(&going_on))
        wait_a_little(1);
    return x;
}

/* Loads its own model, in its forward pass. */
static talc_tensor *load_inside(talc_module *module, talc_tensor *x)
{
    talc_module *root = module->entries->parent;
    return talc_module_load(root, path, true) ? x : NULL;
}

static const talc_module_class loader = { .name = "Loads",
                                          .size = sizeof(talc_module),
                                          .forward = load_inside };

static void *pass_through_net(void *net)
{
    cr_assert(talc_forward(net, talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1, 2, 5, 5))) != NULL,
              "%s", talc_error_message());
    return NULL;
}

static void *load_net(void *net)
{
    cr_assert(talc_module_load(net, path, true), "%s", talc_error_message());
    atomic_fetch_add(&loads, 1);
    return NULL;
}

/* A load waits for the passes of other threads and not for its own, and a child of fork for none
 * that it does not have. */
Test(state, a_load_waits_for_passes_under_way)
{
    owned_module *net = net_new(4, TALC_F32);
    cr_assert(talc_module_save(net, path));
    talc_nn_sequential_append(net, module_of(wait_inside));
    talc_nn_sequential_append(net, talc_module_new(&loader, NULL));
    const void *data = talc_module_find(net, "0.weight")->data;
    pthread_t passes[2], load;
    cr_assert(pthread_create(&passes[0], NULL, pass_through_net, net) == 0);
    while (atomic_load(&inside) < 1)
        wait_a_little(1);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        const bool loaded = talc_module_load(net, path, true);
        atomic_store(&going_on, true);
        _exit(loaded && pass_through_net(net) == NULL ? 0 : 1);
    }
    int status;
    cr_assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);

    cr_assert(pthread_create(&load, NULL, load_net, net) == 0);
    wait_a_little(20);
    cr_assert(atomic_load(&loads) == 0 && talc_module_find(net, "0.weight")->data == data);
    /* It is first: a pass that begins now sees what it loads. */
    cr_assert(pthread_create(&passes[1], NULL, pass_through_net, net) == 0);
    wait_a_little(20);
    cr_assert(atomic_load(&inside) == 1 && atomic_load(&loads) == 0);
    atomic_store(&going_on, true);
    pthread_join(load, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(passes[i], NULL);
    cr_assert(atomic_load(&inside) == 2 && atomic_load(&loads) == 1);
    cr_assert(talc_module_find(net, "0.weight")->data != data);
}

/* Loads another model in its forward pass, once both are in one. */
typedef struct crossed {
    talc_module base;
    talc_module *other;
} crossed;

static talc_tensor *load_other(talc_module *module, talc_tensor *x)
{
    atomic_fetch_add(&inside, 1);
    while (atomic_load(&inside) < 2)
        wait_a_little(1);
    (void)load_net(((crossed *)module)->other);
    return x;
}

/* Neither waits for ever for the other's pass, and none is counted when both have ended. */
Test(state, two_passes_load_each_others_model, .timeout = 20)
{
    static const talc_module_class crosses = { .name = "Crosses",
                                               .size = sizeof(crossed),
                                               .forward = load_other };
    talc_module *nets[2], *last[2];
    pthread_t passes[2];
    for (int i = 0; i < 2; i++) {
        nets[i] = net_new(4, TALC_F32);
        cr_assert(i > 0 || talc_module_save(nets[i], path));
        last[i] = talc_module_new(&crosses, NULL);
        talc_nn_sequential_append(nets[i], last[i]);
    }
    for (int i = 0; i < 2; i++) {
        ((crossed *)last[i])->other = nets[1 - i];
        cr_assert(pthread_create(&passes[i], NULL, pass_through_net, nets[i]) == 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(passes[i], NULL);
    for (int i = 0; i < 2; i++)
        (void)load_net(nets[i]);
    cr_assert(atomic_load(&loads) == 4);
    for (int i = 0; i < 2; i++)
        talc_module_free(nets[i]);
}

static atomic_bool saved_all;

static bool fill_with(const char *at, talc_tensor *tensor, bool is_buffer, void *value)
{
    (void)at, (void)is_buffer;
    return talc_fill(tensor, *(const double *)value);
}

static void *load_in_turn(void *net)
{
    char other[sizeof path + 8];
    snprintf(other, sizeof other, "%s.other", path);
    while (!atomic_load(&saved_all) && talc_module_load(net, other, true))
        (void)talc_module_load(net, path, true);
    return NULL;
}

/* What a save reads stays until the file is written, though a load waits to exchange it. */
Test(state, a_save_beside_loads_writes_one_of_the_states)
{
    char other[sizeof path + 8], mixed[sizeof path + 8];
    snprintf(other, sizeof other, "%s.other", path);
    snprintf(mixed, sizeof mixed, "%s.mixed", path);
    owned_module *net = net_new(4, TALC_F32), *copy = net_new(4, TALC_F32);
    for (double value = 0; value < 2; value++) {
        talc_module_visit(net, fill_with, &value);
        cr_assert(talc_module_save(net, value == 0 ? path : other));
    }
    pthread_t load;
    cr_assert(pthread_create(&load, NULL, load_in_turn, net) == 0);
    for (int round = 0; round < 500; round++) {
        cr_assert(talc_module_save(net, mixed) && talc_module_load(copy, mixed, true));
        const state is = state_of(copy);
        for (int64_t i = 0; i < is.count; i++)
            cr_assert(is.values[i] == is.values[0], "round %d: %g at %d, %g at 0", round,
                      is.values[i], (int)i, is.values[0]);
    }
    atomic_store(&saved_all, true);
    pthread_join(load, NULL);
}
