/// Every allocation of a training step, of a checkpoint saved and of one loaded may fail: nothing
/// is half done.
#include "tests/support/fake_device.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/layers.h"
#include "tests/support/op_cases.h"

#include "nn/optimizer_state.h"
#include "tensor/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Networks -----------------------------------------------------------------------------------

static talc_module *convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                                talc_padding_mode mode)
{
    return CONV2D(.in_channels = in, .out_channels = out, .kernel = { kernel, kernel },
                  .stride = { stride, stride }, .padding = { kernel / 2, kernel / 2 },
                  .padding_mode = mode);
}

/* LeNet's layers in small, with normalisation and dropout: [N,1,8,8] to [N,3]. */
static talc_module *lenet_like(void)
{
    return TALC_SEQUENTIAL(convolution(1, 2, 3, 1, TALC_PADDING_ZEROS), BATCH_NORM2D(.channels = 2),
                           talc_nn_relu(), MAX_POOL2D(.kernel = { 2, 2 }), talc_nn_dropout(0.25),
                           talc_nn_flatten(), LINEAR(32, 5), talc_nn_relu(), LINEAR(5, 3));
}

/* A residual block that halves the image, between a convolution that reflects the border and the
 * mean over pixels. */
typedef struct resnet_like {
    talc_module base;
    talc_module *conv1, *bn1, *conv2, *bn2, *shortcut, *pool, *linear;
} resnet_like;

static bool resnet_like_init(talc_module *module, const void *options)
{
    (void)options;
    resnet_like *self = (resnet_like *)module;
    self->conv1 = talc_module_add(module, "conv1", convolution(1, 2, 3, 1, TALC_PADDING_REFLECT));
    self->bn1 = talc_module_add(module, "bn1", BATCH_NORM2D(.channels = 2));
    self->shortcut = talc_module_add(
        module, "shortcut",
        TALC_SEQUENTIAL(convolution(2, 3, 1, 2, TALC_PADDING_ZEROS), BATCH_NORM2D(.channels = 3)));
    self->conv2 = talc_module_add(module, "conv2", convolution(2, 3, 3, 2, TALC_PADDING_ZEROS));
    self->bn2 = talc_module_add(module, "bn2", BATCH_NORM2D(.channels = 3));
    self->pool = talc_module_add(module, "pool", talc_nn_adaptive_avg_pool2d(1, 1));
    self->linear = talc_module_add(module, "linear", LINEAR(3, 3));
    return !talc_failed();
}

static talc_tensor *resnet_like_forward(talc_module *module, talc_tensor *x)
{
    resnet_like *self = (resnet_like *)module;
    talc_chain_end end = { .activation = TALC_ACTIVATION_RELU };
    talc_tensor *y = talc_forward_chain(TALC_CHAIN(self->conv1, self->bn1), x, &end);
    end.residual = talc_forward(self->shortcut, y);
    y = talc_forward_chain(TALC_CHAIN(self->conv2, self->bn2), y, &end);
    return talc_forward(self->linear, talc_flatten(talc_forward(self->pool, y), 1, -1));
}

static const talc_module_class resnet_like_class = { .name = "ResNetLike",
                                                     .size = sizeof(resnet_like),
                                                     .init = resnet_like_init,
                                                     .forward = resnet_like_forward };

static talc_module *resnet_like_new(void)
{
    return talc_module_new(&resnet_like_class, NULL);
}

// ---- A training run -----------------------------------------------------------------------------

typedef struct run_case {
    const char *name;
    talc_module *(*net)(void);
    talc_optimizer_options options;
    int steps;       /* taken before the one that may fail */
    bool accumulate; /* that one adds to the gradients of the one before */
} run_case;

typedef struct training {
    const run_case *is;
    talc_module *net;
    talc_optimizer *optimizer;
    talc_tensor *x, *labels;
} training;

/* What is to be the same, or another, after an action that failed. */
typedef enum { PARAMETER, STATE, BUFFER, GRADIENT } kind;

enum { MAX = 140 };
typedef struct snapshot {
    int count;
    struct {
        kind is;
        char path[48];
        uint64_t bits; /* 0 for what is not there */
    } items[MAX];
    talc_generator generator;
    uint64_t steps; /* the optimizer's and each parameter's, in one number */
} snapshot;

/* What is to be read: in one copy, since each makes the fake device's pages readable, and takes
 * that back. */
typedef struct reading {
    snapshot *into;
    const talc_tensor *flat[MAX], *of[MAX];
    int count;
} reading;

static void note(reading *r, kind is, const char *path, const talc_tensor *tensor)
{
    snapshot *s = r->into;
    cr_assert(s->count < MAX && r->count < MAX);
    s->items[s->count].is = is;
    snprintf(s->items[s->count].path, sizeof s->items[0].path, "%s", path);
    r->of[s->count++] = tensor;
    if (tensor != NULL)
        r->flat[r->count++] = talc_cast(talc_reshape(talc_detach(tensor), TALC_DIMS(-1)), TALC_F32);
}

static bool record_tensor(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    note(context, is_buffer ? BUFFER : PARAMETER, path, tensor);
    if (!is_buffer)
        note(context, GRADIENT, path, talc_grad(tensor));
    return true;
}

static uint64_t bits_of(const float *elements, int64_t count)
{
    const unsigned char *bytes = (const unsigned char *)elements;
    uint64_t bits = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < (size_t)count * sizeof *elements; i++)
        bits = (bits ^ bytes[i]) * 1099511628211u;
    return bits;
}

static snapshot taken(const training *t)
{
    static float elements[4096];
    snapshot s;
    memset(&s, 0, sizeof s);
    s.generator = talc_generator_get();
    s.steps = (uint64_t)talc_optimizer_steps(t->optimizer);
    owned_scope *scope = talc_scope_enter();
    reading r = { .into = &s };
    talc_module_visit(t->net, record_tensor, &r);
    for (int i = 0; i < t->optimizer->count; i++) {
        const talc_optimized *of = &t->optimizer->list[i];
        s.steps = 31 * s.steps + (uint64_t)of->steps;
        for (int k = 0; k < TALC_UPDATE_STATES; k++)
            note(&r, STATE, of->path, of->states[k]);
    }
    const talc_tensor *all = talc_concat(r.flat, r.count, 0);
    cr_assert(talc_nbytes(all) <= sizeof elements && talc_to_host(all, elements, talc_nbytes(all)),
              "%s", talc_error_message());
    const float *at = elements;
    for (int i = 0; i < s.count; at += talc_numel(r.of[i++]))
        if (r.of[i] != NULL)
            s.items[i].bits = bits_of(at, talc_numel(r.of[i]));
    return s;
}

static bool backward(const training *t, bool accumulate)
{
    const talc_tensor *loss = talc_cross_entropy(talc_forward(t->net, t->x), t->labels);
    if (!accumulate)
        talc_optimizer_zero_grad(t->optimizer);
    return talc_backward(loss);
}

static bool step(const training *t)
{
    owned_scope *scope = talc_scope_enter();
    const bool stepped = backward(t, t->is->accumulate) &&
                         talc_optimizer_clip(t->optimizer, 0.125) != NULL &&
                         talc_optimizer_step(t->optimizer);
    return stepped;
}

static training begin(const run_case *is, talc_device *device, uint64_t seed)
{
    static const int64_t classes[] = { 2, 0, 1 };
    talc_manual_seed(seed);
    training t = { .is = is, .net = is->net() };
    talc_module_to(t.net, device);
    t.optimizer = talc_optimizer_new(t.net, &is->options);
    talc_optimizer_options without_decay = is->options;
    without_decay.weight_decay = TALC_ZERO;
    talc_optimizer_group(t.optimizer, "*.bias", &without_decay);
    t.x = op_numbers(device, TALC_DIMS(3, 1, 8, 8), 5);
    t.labels = talc_from_host(device, TALC_I64, TALC_DIMS(3), classes);
    for (int i = 0; i < is->steps; i++)
        step(&t);
    if (!is->accumulate)
        talc_optimizer_zero_grad(t.optimizer);
    assert_no_failure();
    return t;
}

static void end(training *t)
{
    talc_optimizer_free(t->optimizer);
    talc_module_free(t->net);
    talc_release(t->x);
    talc_release(t->labels);
}

// ---- Failing allocations ------------------------------------------------------------------------

static struct {
    long asked, fail_at;
    bool persistent, fired;
} faults;

static bool allow(size_t bytes)
{
    (void)bytes;
    faults.asked++;
    const bool fails =
        faults.persistent ? faults.asked >= faults.fail_at : faults.asked == faults.fail_at;
    faults.fired = faults.fired || fails;
    return !fails;
}

typedef bool action(const training *t);

/* What the program called, or what a call needs whichever it is; in a forward pass behind the
 * layer's path. */
static void assert_names_what_was_called(talc_module *net)
{
    static const char *const names[] = {
        "conv2d",
        "batch_norm2d",
        "relu",
        "max_pool2d",
        "adaptive_avg_pool2d",
        "dropout",
        "reshape",
        "linear",
        "add",
        "cross_entropy",
        "backward",
        "optimizer_clip",
        "forward",
        "tensor",
        "optimizer_step",
        "checkpoint_save",
        "checkpoint_load",
        "scope",
        "gradient record",
    };
    const char *message = talc_error_message();
    size_t length = strcspn(message, ":");
    char path[64];
    snprintf(path, sizeof path, "%.*s", (int)length, message);
    if (length > 0 && talc_module_child(net, path) != NULL)
        message += length + strlen(": ");
    length = strcspn(message, ":");
    bool known = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        known = known || (strlen(names[i]) == length && strncmp(names[i], message, length) == 0);
    cr_assert(known, "a message that names nothing the program called: %s", talc_error_message());
}

/* True when it failed; the failure is cleared. */
static bool fails(const training *t, action *act)
{
    faults.asked = 0;
    faults.fired = false;
    talc_allocation_hook = allow;
    const bool ok = act(t);
    talc_allocation_hook = NULL;
    cr_assert(ok == !talc_failed() && (ok || faults.fired), "%s, allocation %ld: %s", t->is->name,
              faults.fail_at, talc_error_message());
    if (ok)
        return false;
    cr_assert(talc_error_status() == TALC_NO_MEMORY &&
                  strstr(talc_error_message(), ": out of ") != NULL,
              "%s, allocation %ld: %s", t->is->name, faults.fail_at, talc_error_message());
    assert_names_what_was_called(t->net);
    talc_error_clear();
    return true;
}

static void assert_same(const snapshot *expected, const snapshot *got, kind is, const char *what)
{
    for (int i = 0; i < expected->count; i++)
        cr_assert(expected->items[i].is != is || expected->items[i].bits == got->items[i].bits,
                  "allocation %ld%s: %s of %s", faults.fail_at,
                  faults.persistent ? " and all later" : "", what, expected->items[i].path);
}

static bool all_same(const snapshot *a, const snapshot *b, kind is)
{
    bool same = true;
    for (int i = 0; i < a->count; i++)
        same = same && (a->items[i].is != is || a->items[i].bits == b->items[i].bits);
    return same;
}

static void assert_unchanged(const snapshot *before, const snapshot *now)
{
    assert_same(before, now, PARAMETER, "a parameter changed");
    assert_same(before, now, STATE, "the optimizer's state changed");
    cr_assert(before->steps == now->steps, "allocation %ld: a failed step counts", faults.fail_at);
}

/* Each norm's statistics are those from before or, of its whole forward pass, those due, and so
 * they are for all norms before one that has moved. How many buffers have moved. */
static int assert_whole_norms(const snapshot *before, const snapshot *expected, const snapshot *now)
{
    enum { OF_A_NORM = 3 };
    int buffers = 0, moved = 0;
    for (int i = 0; i < now->count; i++) {
        if (now->items[i].is != BUFFER)
            continue;
        const bool is_expected = now->items[i].bits == expected->items[i].bits;
        cr_assert(is_expected || now->items[i].bits == before->items[i].bits,
                  "allocation %ld: %s is neither as before nor as expected", faults.fail_at,
                  now->items[i].path);
        cr_assert(!is_expected || moved == buffers, "allocation %ld: %s has moved, another has not",
                  faults.fail_at, now->items[i].path);
        buffers++;
        moved += is_expected;
    }
    cr_assert(moved % OF_A_NORM == 0, "allocation %ld: %d of %d statistics have moved",
              faults.fail_at, moved, buffers);
    return moved;
}

// ---- Steps --------------------------------------------------------------------------------------

typedef struct undisturbed_run {
    snapshot before, unclipped, after;
} undisturbed_run;

static undisturbed_run undisturbed(const run_case *is, talc_device *device)
{
    undisturbed_run expected;
    training t = begin(is, device, 7);
    expected.before = taken(&t);
    talc_scope *scope = talc_scope_enter();
    backward(&t, is->accumulate);
    talc_scope_leave(scope);
    expected.unclipped = taken(&t);
    end(&t);
    t = begin(is, device, 7);
    cr_assert(step(&t), "%s", talc_error_message());
    expected.after = taken(&t);
    end(&t);
    cr_assert(!all_same(&expected.before, &expected.after, PARAMETER) &&
              !all_same(&expected.before, &expected.after, STATE) &&
              !all_same(&expected.before, &expected.after, BUFFER) &&
              !all_same(&expected.unclipped, &expected.after, GRADIENT));
    return expected;
}

/* The step again, by a program that sets the generator back, is the step that never failed. */
static void assert_step_again(training *t, const undisturbed_run *expected, const snapshot *failed)
{
    talc_generator_set(expected->before.generator);
    cr_assert(step(t), "allocation %ld: the step again: %s", faults.fail_at, talc_error_message());
    const snapshot now = taken(t);
    assert_same(&expected->after, &now, PARAMETER, "the step again gives another parameter");
    assert_same(&expected->after, &now, STATE, "the step again gives another state");
    assert_same(&expected->after, &now, GRADIENT, "the step again gives another gradient");
    for (int i = 0; i < now.count; i++)
        cr_assert(
            now.items[i].is != BUFFER || failed->items[i].bits != expected->before.items[i].bits ||
                now.items[i].bits == expected->after.items[i].bits,
            "allocation %ld: the step again gives another %s", faults.fail_at, now.items[i].path);
}

static size_t live_on(talc_device *device)
{
    return talc_device_memory(device).live;
}

/* One k; false when a step asks for fewer allocations. */
static bool survives(const run_case *is, talc_device *device, const undisturbed_run *expected)
{
    training t = begin(is, device, 7);
    const size_t live = live_on(device), live_host = live_on(cpu_device());
    const bool failed = fails(&t, step);
    const snapshot now = taken(&t);
    if (failed) {
        const talc_generator before = expected->before.generator, after = expected->after.generator;
        assert_unchanged(&expected->before, &now);
        const int moved = assert_whole_norms(&expected->before, &expected->after, &now);
        cr_assert(now.generator.seed == before.seed && now.generator.call >= before.call &&
                  now.generator.call <= after.call);
        const bool none = all_same(&expected->before, &now, GRADIENT);
        const bool all = all_same(&expected->unclipped, &now, GRADIENT) ||
                         all_same(&expected->after, &now, GRADIENT);
        cr_assert(none || all, "%s, allocation %ld: some gradients changed", is->name,
                  faults.fail_at);
        cr_assert(none || (moved > 0 && now.generator.call == after.call));
        if (!is->accumulate)
            talc_optimizer_zero_grad(t.optimizer);
        cr_assert(live_on(device) == live && live_on(cpu_device()) == live_host,
                  "%s on %s, allocation %ld%s: live bytes %zu -> %zu, on the host %zu -> %zu",
                  is->name, device->name, faults.fail_at, faults.persistent ? " and all later" : "",
                  live, live_on(device), live_host, live_on(cpu_device()));
        /* Which of both failed makes no difference to the step again. */
        if (faults.persistent && (none || !is->accumulate))
            assert_step_again(&t, expected, &now);
    } else {
        assert_same(&expected->after, &now, PARAMETER,
                    "a step that succeeded gives another parameter");
        assert_same(&expected->after, &now, STATE, "a step that succeeded gives another state");
        assert_same(&expected->after, &now, BUFFER, "a step that succeeded gives another buffer");
    }
    end(&t);
    return faults.fired;
}

static void assert_steps_survive(const run_case *is)
{
    talc_device *devices[] = { cpu_device(), fake_device() };
    for (int i = 0; i < 2; i++) {
        const undisturbed_run expected = undisturbed(is, devices[i]);
        for (int persistent = 0; persistent < 2; persistent++) {
            faults.persistent = persistent != 0;
            for (faults.fail_at = 1; survives(is, devices[i], &expected); faults.fail_at++)
                ;
            cr_assert(faults.fail_at > 150, "%s asks for %ld allocations only", is->name,
                      faults.fail_at);
        }
    }
}

static const talc_optimizer_options sgd = {
    .kind = TALC_SGD, .lr = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4
};
static const talc_optimizer_options adam = { .kind = TALC_ADAM, .lr = 0.01, .weight_decay = 5e-4 };

#define SURVIVES(test, ...)                                                                        \
    Test(allocation_failure_training, test)                                                        \
    {                                                                                              \
        assert_steps_survive(&(run_case){ __VA_ARGS__ });                                          \
    }

SURVIVES(the_first_step_of_a_plain_net, "LeNet, SGD", lenet_like, sgd, 0, false)
SURVIVES(a_step_of_a_plain_net_that_adds, "LeNet, Adam", lenet_like, adam, 1, true)
SURVIVES(the_first_step_of_a_residual_net, "ResNet, Adam", resnet_like_new, adam, 0, false)
SURVIVES(a_later_step_of_a_residual_net, "ResNet, SGD", resnet_like_new, sgd, 2, false)

// ---- Checkpoints --------------------------------------------------------------------------------

static const run_case trained = { "checkpoint", lenet_like, { .kind = TALC_ADAM }, 1, false };
static const talc_progress progress_saved = { .epoch = 3, .batch = 14 };
static const char old_content[] = "the old file";

static bool save(const training *t)
{
    return talc_checkpoint_save(file_path("checkpoint"), t->net, t->optimizer, &progress_saved);
}

static bool load(const training *t)
{
    talc_progress progress = { .epoch = -1, .batch = -1 };
    const bool loaded =
        talc_checkpoint_load(file_path("checkpoint"), t->net, t->optimizer, &progress);
    const talc_progress expected = loaded ? progress_saved : (talc_progress){ -1, -1 };
    cr_assert(progress.epoch == expected.epoch && progress.batch == expected.batch);
    return loaded;
}

/* One k of a checkpoint: a save leaves the old file whole, and what it saves as it is. */
static bool save_survives(talc_device *device, const char *expected, size_t expected_size)
{
    file_write(file_path("checkpoint"), old_content, sizeof old_content);
    training t = begin(&trained, device, 7);
    const snapshot before = taken(&t);
    const bool failed = fails(&t, save);
    const snapshot now = taken(&t);
    cr_assert(memcmp(&before, &now, sizeof now) == 0, "a save changed something");
    size_t size;
    owned_char *bytes = file_bytes(file_path("checkpoint"), &size);
    cr_assert(size == (failed ? sizeof old_content : expected_size) &&
                  memcmp(bytes, failed ? old_content : expected, size) == 0,
              "allocation %ld: the file is neither the old nor the new one", faults.fail_at);
    cr_assert(file_count() == 1, "a temporary file is left");
    end(&t);
    return faults.fired;
}

Test(allocation_failure_training, checkpoints_are_saved_whole_or_not_at_all)
{
    talc_device *devices[] = { cpu_device(), fake_device() };
    for (int i = 0; i < 2; i++) {
        training t = begin(&trained, devices[i], 7);
        cr_assert(save(&t), "%s", talc_error_message());
        end(&t);
        size_t size;
        owned_char *expected = file_bytes(file_path("checkpoint"), &size);
        for (int persistent = 0; persistent < 2; persistent++) {
            faults.persistent = persistent != 0;
            for (faults.fail_at = 1; save_survives(devices[i], expected, size); faults.fail_at++)
                ;
            cr_assert(faults.fail_at > 50);
        }
    }
}

/* One k of a load into a run of other weights. */
static bool load_survives(talc_device *device, const snapshot *expected)
{
    training t = begin(&trained, device, 8);
    const snapshot before = taken(&t);
    const size_t live = live_on(device), live_host = live_on(cpu_device());
    const bool failed = fails(&t, load);
    const snapshot now = taken(&t);
    if (failed) {
        cr_assert(memcmp(&before, &now, sizeof now) == 0,
                  "allocation %ld: a load changed something", faults.fail_at);
        cr_assert(live_on(device) == live && live_on(cpu_device()) == live_host,
                  "allocation %ld: memory is left", faults.fail_at);
        cr_assert(load(&t), "%s", talc_error_message());
    }
    const snapshot loaded = taken(&t);
    assert_same(expected, &loaded, PARAMETER, "a load gives another parameter");
    assert_same(expected, &loaded, BUFFER, "a load gives another buffer");
    assert_same(expected, &loaded, STATE, "a load gives another state");
    cr_assert(memcmp(&expected->generator, &loaded.generator, sizeof loaded.generator) == 0 &&
              expected->steps == loaded.steps);
    end(&t);
    return faults.fired;
}

Test(allocation_failure_training, checkpoints_are_loaded_whole_or_not_at_all)
{
    talc_device *devices[] = { cpu_device(), fake_device() };
    for (int i = 0; i < 2; i++) {
        training t = begin(&trained, devices[i], 7);
        cr_assert(save(&t), "%s", talc_error_message());
        const snapshot expected = taken(&t);
        end(&t);
        for (int persistent = 0; persistent < 2; persistent++) {
            faults.persistent = persistent != 0;
            for (faults.fail_at = 1; load_survives(devices[i], &expected); faults.fail_at++)
                ;
            cr_assert(faults.fail_at > 100);
        }
    }
}
