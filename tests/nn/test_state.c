#include "tests/support/hooks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Conv2d, BatchNorm2d: "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
 * "1.num_batches_tracked". */
static talc_module *net_new(int64_t channels, talc_dtype dtype)
{
    talc_module *net = talc_nn_sequential();
    talc_nn_sequential_append(
        net, talc_nn_conv2d(&(talc_conv2d_layer){
                 .in_channels = 2, .out_channels = channels, .kernel = { 3, 1 }, .dtype = dtype }));
    talc_nn_sequential_append(net, talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){
                                       .channels = channels, .dtype = dtype }));
    assert_no_failure();
    return net;
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

static char path[] = "/tmp/talc_state_XXXXXX";

static void make_path(void)
{
    int file = mkstemp(path);
    cr_assert(file >= 0);
    close(file);
}

static void assert_failure_about_file(talc_status status, const char *format)
{
    assert_failure_with(status, format, path);
}

// ---- Round trip ---------------------------------------------------------------------------------------------

Test(state, saving_and_loading_gives_the_same_bits_through_the_same_handles)
{
    make_path();
    talc_module *net = net_new(4, TALC_F32), *other = net_new(4, TALC_F32);
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
    talc_module_free(net);
    talc_module_free(other);
    remove(path);
}

Test(state, a_module_without_tensors_saves_and_loads)
{
    make_path();
    talc_module *relu = talc_nn_relu();
    cr_assert(talc_module_save(relu, path));
    cr_assert(talc_module_load(relu, path, true));
    talc_module_free(relu);
    remove(path);
}

// ---- What does not fit --------------------------------------------------------------------------------------

/* Writes a net's tensors apart from the first `skipped`, and `extra` more. */
static void write_changed(talc_module *net, int skipped, int extra)
{
    static const char *const names[] = { "0.weight",
                                         "0.bias",
                                         "1.weight",
                                         "1.bias",
                                         "1.running_mean",
                                         "1.running_var",
                                         "1.num_batches_tracked" };
    static const char *const extras[] = { "2.weight", "0.weight.x", "0" };
    talc_named_tensor list[16];
    int count = 0;
    for (int i = skipped; i < 7; i++)
        list[count++] = (talc_named_tensor){ names[i], talc_module_find(net, names[i]) };
    for (int i = 0; i < extra; i++)
        list[count++] =
            (talc_named_tensor){ extras[i], talc_ones(cpu_device(), TALC_F64, TALC_DIMS(3 - i)) };
    cr_assert(talc_safetensors_save(path, list, count, NULL));
}

Test(state, missing_and_extra_names_are_errors_when_strict)
{
    make_path();
    talc_module *net = net_new(4, TALC_F32), *other = net_new(4, TALC_F32);
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
    talc_module_free(net);
    talc_module_free(other);
    remove(path);
}

Test(state, shapes_and_types_must_be_equal)
{
    make_path();
    talc_module *net = net_new(4, TALC_F32), *wide = net_new(5, TALC_F32),
                *exact = net_new(4, TALC_F64);
    talc_module_save(net, path);
    for (int strict = 0; strict < 2; strict++) {
        state before = state_of(wide);
        cr_assert(!talc_module_load(wide, path, strict));
        assert_failure_about_file(
            TALC_BAD_SHAPE,
            "module_load: '%s': '0.weight' is [4,2,3,1] in the file, [5,2,3,1] in the module");
        state after = state_of(wide);
        cr_assert(same_state(&before, &after));
        cr_assert(!talc_module_load(exact, path, strict));
        assert_failure_about_file(
            TALC_BAD_DTYPE, "module_load: '%s': '0.weight' is F32 in the file, f64 in the module");
    }
    talc_module_free(net);
    talc_module_free(wide);
    talc_module_free(exact);
    remove(path);
}

// ---- All or nothing -----------------------------------------------------------------------------------------

/* 0.weight missing, 0.bias of another shape, the norm's in another type, and one that the module has not. */
Test(state, differences_are_listed_name_by_name)
{
    make_path();
    talc_module *net = net_new(2, TALC_F32);
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
    talc_module_free(net);
}

Test(state, a_file_cut_anywhere_leaves_everything_unchanged)
{
    make_path();
    talc_module *net = net_new(4, TALC_F32), *other = net_new(4, TALC_F32);
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
    talc_module_free(net);
    talc_module_free(other);
    remove(path);
}
