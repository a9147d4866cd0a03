#include "tests/support/hooks.h"
#include "tests/support/layers.h"

#include <string.h>

/* A module with a parameter, a buffer and children given by its options, which counts how often it
 * is freed. */
typedef struct {
    talc_module base;
    talc_tensor *weight, *state;
    int64_t scale;
} probe;

typedef struct {
    int64_t scale;
    bool fail;      /* raise a failure in init */
    bool fail_mute; /* return false without one */
} probe_options;

static int freed;

static bool probe_init(talc_module *module, const void *options)
{
    probe *self = (probe *)module;
    const probe_options *given = options;
    self->scale = given == NULL ? 1 : given->scale;
    self->weight = talc_module_parameter(module, "weight",
                                         talc_full(cpu_device(), TALC_F32, TALC_DIMS(2, 3), 2));
    self->state =
        talc_module_buffer(module, "state", talc_zeros(cpu_device(), TALC_I64, TALC_DIMS(5)));
    if (given != NULL && given->fail)
        talc_fail(TALC_BAD_ARGUMENT, "probe: told to fail");
    return !talc_failed() && !(given != NULL && given->fail_mute);
}

static talc_tensor *probe_forward(talc_module *module, talc_tensor *x)
{
    const probe *self = (probe *)module;
    return talc_mul_scalar(talc_add_scalar(x, 0), (double)self->scale);
}

static void probe_free(talc_module *module)
{
    (void)module;
    freed++;
}

static const talc_module_class probe_class = { "Probe",       sizeof(probe), probe_init,
                                               probe_forward, probe_free,    NULL };
static const talc_module_class box_class = { "Box", sizeof(talc_module), NULL, NULL, NULL, NULL };

static talc_module *probe_new(int64_t scale)
{
    return talc_module_new(&probe_class, &(probe_options){ .scale = scale });
}

static size_t live(void)
{
    return talc_device_memory(cpu_device()).live;
}

// ---- Where a failure was ------------------------------------------------------------------------

/* A module of one's own: an op first, then its child, and where that fails one attempt more. */
static talc_tensor *own_forward(talc_module *module, talc_tensor *x)
{
    talc_tensor *y = talc_add(x, talc_module_find(module, "shift"));
    y = y == NULL ? NULL : talc_forward(talc_module_child(module, "body"), y);
    if (y == NULL && talc_error_status() == TALC_UNSUPPORTED) {
        talc_error_clear();
        talc_fail(TALC_BAD_ARGUMENT, "own: the body cannot run");
    }
    return y;
}

static const talc_module_class own_class = { .name = "Own",
                                             .size = sizeof(talc_module),
                                             .forward = own_forward };

static talc_module *own_around(int64_t width, talc_module *body)
{
    talc_module *own = talc_module_new(&own_class, NULL);
    talc_module_parameter(own, "shift", talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(width)));
    talc_module_add(own, "body", body);
    return own;
}

/* One that is a child. */
static talc_module *own_new(const char *name, int64_t width, talc_module *body)
{
    talc_module *above = talc_module_new(&box_class, NULL);
    talc_module_add(above, name, own_around(width, body));
    return above;
}

/* The tree is a Box with one child, which is applied; `path` is that of what is applied. */
static void check_place(talc_module *tree, const char *path, talc_status status,
                        const char *expected)
{
    for (int fused = 0; fused < 2; fused++) {
        talc_fusion_enable(fused);
        cr_assert_null(talc_forward(talc_module_child(tree, path),
                                    talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2, 3))));
        assert_failure(status, expected);
    }
    talc_module_free(tree);
}

Test(module, a_failure_says_in_which_layer_it_was)
{
    check_place(own_new("net", 4, talc_nn_relu()), "net", TALC_BAD_SHAPE,
                "net: add: a [2,3] and b [4] do not broadcast");
    check_place(own_new("net", 3, LINEAR(4, 2)), "net", TALC_BAD_SHAPE,
                "net.body: linear: x [2,3] has 3 features, weight [2,4] needs 4");
    check_place(own_new("net", 3,
                        TALC_SEQUENTIAL(LINEAR(3, 4), talc_nn_relu(),
                                        TALC_SEQUENTIAL(LINEAR(5, 2), talc_nn_relu()))),
                "net", TALC_BAD_SHAPE,
                "net.body.2.0: linear: x [2,4] has 4 features, weight [2,5] needs 5");
    /* A failure that a module takes back does not say where the next one was. */
    check_place(own_new("net", 3, TALC_SEQUENTIAL(talc_nn_relu(), talc_nn_module_list())), "net",
                TALC_BAD_ARGUMENT, "net: own: the body cannot run");
    /* What is applied alone has its path too, and a root has none. */
    check_place(own_new("net", 3, LINEAR(4, 2)), "net.body", TALC_BAD_SHAPE,
                "net.body: linear: x [2,3] has 3 features, weight [2,4] needs 4");
    check_place(LINEAR(4, 2), "", TALC_BAD_SHAPE,
                "linear: x [2,3] has 3 features, weight [2,4] needs 4");
    check_place(own_new("a\033[2Jb", 3, LINEAR(4, 2)), "a\033[2Jb", TALC_BAD_SHAPE,
                "a\\x1b[2Jb.body: linear: x [2,3] has 3 features, weight [2,4] needs 4");
}

Test(module, a_failure_in_a_deep_layer_says_the_end_of_its_path)
{
    owned_module *tree = LINEAR(4, 2);
    for (int i = 0; i < 100; i++)
        tree = own_around(3, tree);
    cr_assert_null(talc_forward(tree, talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2, 3))));
    const char *message = talc_error_message();
    cr_assert(strncmp(message, "...", 3) == 0 && strlen(message) < 300, "%s", message);
    cr_assert(strstr(message, "body.body: linear: x [2,3] has 3 features") != NULL, "%s", message);
    talc_error_clear();
}

// ---- Ownership ----------------------------------------------------------------------------------

Test(module, parameters_live_as_long_as_the_module)
{
    talc_scope *scope = talc_scope_enter();
    talc_module *model = probe_new(3);
    talc_scope_leave(scope);
    assert_no_failure();
    cr_assert(talc_item(talc_slice(talc_slice(((probe *)model)->weight, 0, 0, 1, 1), 1, 2, 3, 1)) ==
              2);
    cr_assert(model->training, "a module is made in train mode");
    size_t before = live();
    talc_module_free(model);
    cr_assert(live() < before,
              "freeing the module frees its parameters although the root scope is open");
    cr_assert(freed == 1);
}

Test(module, a_registered_tensor_may_belong_to_others_too)
{
    talc_module *model = talc_module_new(&box_class, NULL);
    talc_tensor *shared = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(4));
    cr_assert(talc_module_parameter(model, "shared", shared) == shared);
    talc_module_free(model);
    cr_assert(talc_item(talc_slice(shared, 0, 3, 4, 1)) == 1);
}

Test(module, children_are_freed_with_their_parent_and_by_it_alone)
{
    talc_module *model = talc_module_new(&box_class, NULL);
    talc_module *a = talc_module_add(model, "a", probe_new(1));
    talc_module *b = talc_module_add(a, "b", probe_new(1));
    talc_module_free(b);
    talc_module_free(NULL);
    cr_assert(freed == 0, "a child is left to its parent");
    talc_module_free(model);
    cr_assert(freed == 2);
}

Test(module, an_init_that_fails_leaves_nothing)
{
    cr_assert_null(talc_module_new(&probe_class, &(probe_options){ .fail = true }));
    assert_failure(TALC_BAD_ARGUMENT, "probe: told to fail");
    cr_assert(freed == 1, "free is called for what init had made");
    cr_assert_null(talc_module_new(&probe_class, &(probe_options){ .fail_mute = true }));
    assert_failure(TALC_BAD_ARGUMENT, "module_new: init of Probe failed without a reason");
    cr_assert(freed == 2);
    talc_fail(TALC_IO_ERROR, "stands");
    cr_assert_null(probe_new(1));
    cr_assert(freed == 2);
    assert_failure(TALC_IO_ERROR, "stands");
}

// ---- Names and trees ----------------------------------------------------------------------------

Test(module, a_child_that_is_refused_is_freed)
{
    talc_module *model = probe_new(1);
    talc_module *lost = talc_module_add(model, "first", probe_new(1));
    cr_assert(lost != NULL && freed == 0);
    static const char *const names[] = { "first", "weight", "", "a.b", NULL };
    for (int i = 0; i < 5; i++) {
        cr_assert_null(talc_module_add(model, names[i], probe_new(1)));
        cr_assert(talc_failed() && freed == i + 1);
        talc_error_clear();
    }
    freed = 0;
    cr_assert_null(talc_module_add(NULL, "child", probe_new(1)));
    assert_failure(TALC_NULL_ARGUMENT, "module_add: module is NULL");
    talc_module *spare = probe_new(1);
    talc_fail(TALC_IO_ERROR, "stands");
    cr_assert_null(talc_module_add(model, "child", spare));
    assert_failure(TALC_IO_ERROR, "stands");
    cr_assert(freed == 2);
    talc_module_free(model);
    cr_assert(freed == 4);
}

/* What a list may hold, as places in `given`: 0 and 1 are loose, 2 and 3 a parent and its child, 4
 * a child of another tree; 5 is NULL. Whatever else fails, and however far the call comes, what is
 * loose or under it goes, once. */
static void assert_list_freed_once(const int indices[4], int count, int64_t allocations,
                                   bool stands)
{
    talc_module *other = probe_new(1), *given[6] = { 0 };
    for (int i = 0; i < 3; i++)
        given[i] = probe_new(1);
    given[3] = talc_module_add(given[2], "child", probe_new(1));
    given[4] = talc_module_add(other, "child", probe_new(1));
    talc_module *list[4];
    bool goes[3] = { false };
    for (int i = 0; i < count; i++) {
        list[i] = given[indices[i]];
        if (indices[i] < 3)
            goes[indices[i]] = true;
    }
    if (stands)
        talc_fail(TALC_IO_ERROR, "stands");
    freed = 0;
    allow_allocations(allocations);
    talc_module *made = talc_nn_sequential_of(list, count);
    allow_all_allocations();
    cr_assert(talc_failed() == (made == NULL) && (made == NULL || freed == 0));
    talc_error_clear();
    talc_module_free(made);
    cr_assert(freed == goes[0] + goes[1] + 2 * goes[2], "%d freed", freed);
    for (int i = 0; i < 3; i++)
        if (!goes[i])
            talc_module_free(given[i]);
    cr_assert(freed == 4);
    talc_module_free(other);
}

Test(module, each_module_of_a_list_is_freed_once)
{
    talc_module *twice = talc_nn_relu();
    cr_assert_null(TALC_SEQUENTIAL(NULL, twice, twice));
    assert_failure(TALC_NULL_ARGUMENT, "module_add: child '0' is NULL");
    twice = talc_nn_relu();
    cr_assert_null(TALC_SEQUENTIAL(twice, twice));
    assert_failure(TALC_BAD_ARGUMENT, "module_add: ReLU '1' has a parent already, Sequential");
    for (int all = 0; all < 6 * 6 * 6 * 6; all++)
        for (int allocations = -1; allocations < 8; allocations++)
            assert_list_freed_once((const int[4]){ all % 6, all / 6 % 6, all / 36 % 6, all / 216 },
                                   4, allocations < 0 ? INT64_MAX : allocations,
                                   all % 2 == 0 && allocations < 0);
}

/* A chain of boxes of so many levels, made from its end up or from its top down. */
static talc_module *chain_of(int levels, bool up)
{
    talc_module *top = talc_module_new(&box_class, NULL), *at = top;
    for (int i = 1; i < levels; i++) {
        talc_module *next = talc_module_new(&box_class, NULL);
        if (up) {
            talc_module_add(next, "down", top);
            top = next;
        } else {
            at = talc_module_add(at, "down", next);
        }
    }
    return top;
}

Test(module, a_tree_has_so_many_levels_at_most)
{
    for (int up = 0; up < 2; up++) {
        talc_module *tree = chain_of(TALC_MODULE_LEVELS, up == 1), *above = chain_of(1, true);
        assert_no_failure();
        cr_assert_null(talc_module_add(above, "down", tree));
        assert_failure(TALC_BAD_ARGUMENT,
                       "module_add: Box 'down' would make a tree of 257 levels, at most 256");
        talc_module_free(above);
    }
    talc_module *upper = chain_of(200, false), *lower = chain_of(56, true), *end = upper;
    talc_module_add(upper, "beside", chain_of(2, true));
    while (talc_module_child(end, "down") != NULL)
        end = talc_module_child(end, "down");
    cr_assert_null(talc_module_add(end, "more", chain_of(57, false)));
    assert_failure(TALC_BAD_ARGUMENT,
                   "module_add: Box 'more' would make a tree of 257 levels, at most 256");
    cr_assert_not_null(talc_module_add(end, "more", lower));
    cr_assert_null(talc_module_add(lower, "root", upper));
    talc_error_clear();
    talc_module_free(upper);
}

Test(module, many_children_are_found_and_named_once)
{
    enum { CHILDREN = 1000 };
    talc_module *model = talc_module_new(&box_class, NULL), *children[CHILDREN];
    char name[2][16];
    for (int i = 0; i < CHILDREN; i++) {
        snprintf(name[0], sizeof name[0], "%d", i);
        children[i] = talc_module_add(model, name[0], talc_module_new(&box_class, NULL));
        /* Told apart from those before, and from a name that begins alike. */
        snprintf(name[1], sizeof name[1], "%d", i / 2);
        cr_assert(talc_module_child(model, name[0]) == children[i] &&
                  talc_module_child(model, name[1]) == children[i / 2]);
        cr_assert_null(talc_module_child(model, strcat(name[0], "0")));
        cr_assert_null(talc_module_add(model, name[1], talc_module_new(&box_class, NULL)));
        talc_error_clear();
    }
    talc_module_free(model);
}

static bool join_paths(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    char *text = context;
    cr_assert(tensor != NULL);
    strcat(strcat(text, path), is_buffer ? "* " : " ");
    return strstr(text, "stop") == NULL;
}

Test(module, paths_visit_parameters_then_buffers_then_children)
{
    owned_module *model = talc_module_new(&box_class, NULL);
    talc_module *inner = talc_module_add(model, "inner", probe_new(1));
    talc_module_add(inner, "empty_with_a_long_name", talc_module_new(&box_class, NULL));
    talc_module_buffer(model, "count", talc_zeros(cpu_device(), TALC_I64, TALC_SCALAR));
    talc_module_parameter(model, "scale", talc_ones(cpu_device(), TALC_F32, TALC_DIMS(7)));
    char text[200] = "";
    cr_assert(talc_module_visit(model, join_paths, text));
    cr_assert_str_eq(text, "scale count* inner.weight inner.state* ");
    cr_assert(talc_module_count(model) == 13);
    cr_assert(talc_module_count(NULL) == 0);

    cr_assert(talc_module_find(model, "inner.weight") == ((probe *)inner)->weight);
    cr_assert(talc_module_child(model, "inner") == inner && talc_module_child(model, "") == model);
    static const char *const absent[] = { "inner", "inner.", "inner.weight.x", "weight",
                                          "",      ".",      "inner..weight" };
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        cr_assert_null(talc_module_find(model, absent[i]), "'%s'", absent[i]);
    cr_assert_null(talc_module_child(model, "inner.weight"));
    cr_assert_null(talc_module_child(model, NULL));
    cr_assert_null(talc_module_find(NULL, "inner.weight"));
    assert_no_failure();

    talc_module_parameter(inner, "stop", talc_ones(cpu_device(), TALC_F32, TALC_SCALAR));
    talc_module_parameter(inner, "unseen", talc_ones(cpu_device(), TALC_F32, TALC_SCALAR));
    text[0] = '\0';
    cr_assert(!talc_module_visit(model, join_paths, text));
    cr_assert_str_eq(text, "scale count* inner.weight inner.stop ");
}

// ---- Forward, modes, moving ---------------------------------------------------------------------

Test(module, forward_frees_all_but_its_result)
{
    owned_module *model =
        TALC_SEQUENTIAL(probe_new(2), talc_nn_identity(), probe_new(5), probe_new(1), probe_new(1),
                        probe_new(1), talc_nn_flatten());
    talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1, 1000, 2));
    size_t before = live();
    talc_memory_reset_peak(cpu_device());
    talc_tensor *y = talc_forward(model, x);
    assert_no_failure();
    talc_memory memory = talc_device_memory(cpu_device());
    cr_assert(memory.live - before < 2 * 8000 && memory.live > before, "only the result stays");
    cr_assert(memory.peak - before < 4 * 8000,
              "a chain holds no more than a layer's input, intermediate and output");
    cr_assert(y->rank == 2 && y->dims[1] == 2000);
    cr_assert(talc_item(talc_slice(y, 1, 1999, TALC_END, 1)) == 10);
    cr_assert(talc_item(talc_slice(talc_flatten(x, 0, -1), 0, 0, 1, 1)) == 1,
              "the input is the caller's");
}

Test(module, train_and_eval_reach_every_child)
{
    owned_module *model = talc_module_new(&box_class, NULL);
    talc_module *child =
        talc_module_add(talc_module_add(model, "a", probe_new(1)), "b", probe_new(1));
    cr_assert(talc_module_eval(model) && !model->training && !child->training);
    cr_assert(talc_module_train(model) && model->training && child->training);
    cr_assert(talc_module_eval(child) && model->training && !child->training);
}

Test(module, to_the_same_device_changes_nothing)
{
    owned_module *model = probe_new(1);
    talc_tensor *weight = ((probe *)model)->weight;
    const void *data = weight->data;
    cr_assert(talc_module_to(model, cpu_device()));
    cr_assert(weight->data == data);
}

Test(module, cast_converts_floats_and_keeps_handles)
{
    owned_module *net = BATCH_NORM2D(.channels = 2);
    talc_tensor *weight = talc_module_find(net, "weight"),
                *count = talc_module_find(net, "num_batches_tracked");
    talc_tensor *x = talc_arange(cpu_device(), TALC_F32, 0, 4, 1);
    talc_backward(
        talc_sum(talc_forward(net, talc_reshape(x, TALC_DIMS(1, 2, 2, 1))), TALC_SCALAR, false));
    cr_assert_not_null(talc_grad(weight), "%s", talc_error_message());
    const void *data = count->data;
    cr_assert(talc_module_cast(net, TALC_F64), "%s", talc_error_message());
    cr_assert(talc_module_find(net, "weight") == weight && weight->dtype == TALC_F64);
    cr_assert(talc_wants_grad(weight) && talc_grad(weight) == NULL);
    cr_assert(count->dtype == TALC_I64 && count->data == data);
    /* 0.1 times the mean of 2 and 3, in f32 first. */
    cr_assert(talc_item(talc_select(talc_module_find(net, "running_mean"), 0, 1)) == (double)0.25f);
    talc_tensor *y = talc_forward(net, talc_ones(cpu_device(), TALC_F64, TALC_DIMS(1, 2, 2, 1)));
    cr_assert(y != NULL && y->dtype == TALC_F64, "%s", talc_error_message());
    cr_assert(!talc_module_cast(net, TALC_I64));
    assert_failure(TALC_BAD_DTYPE, "module_cast: i64 is not f32 or f64");
    cr_assert(!talc_module_cast(NULL, TALC_F64));
    assert_failure(TALC_NULL_ARGUMENT, "module_cast: module is NULL");
}
