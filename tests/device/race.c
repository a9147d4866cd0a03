/// Threads that use talc at once, for ThreadSanitizer (`./run race`), under which Criterion does
/// not run.
///
/// Each scenario does what the library allows: operands, a model and retained tensors are shared
/// for reading, everything else is a thread's own. Exits with 1 when a result is wrong; races are
/// the sanitizer's to find.
#include <talc/talc.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 10 };

static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "race: %s: %s\n", what, talc_error_message());
    _Exit(1); /* the other threads are still at it */
}

static void run_threads(void *(*body)(void *), void *shared)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        require(pthread_create(&threads[i], NULL, body, shared) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* The device that TALC_TEST_DEVICE names, else the CPU. */
static talc_device *tested_device(void)
{
    const char *name = getenv("TALC_TEST_DEVICE");
    talc_device *device = talc_device_get(name == NULL ? "cpu" : name);
    require(device != NULL, "device_get");
    return device;
}

/* All threads ask for the device before anyone has opened it, and for the generator and a first
 * error. */
static void *open_device(void *unused)
{
    (void)unused;
    talc_device *device = tested_device();
    require(device == tested_device(), "another device of the same name");
    require(talc_device_default() == talc_device_default(), "another default device");
    talc_manual_seed(7);
    require(talc_rand(device, TALC_F32, TALC_DIMS(1000)) != NULL, "rand");
    require(talc_neg(NULL) == NULL && talc_failed(), "an expected failure");
    talc_error_clear();
    return NULL;
}

/* What the threads read together. */
typedef struct operands {
    talc_tensor *image, *weight, *bias, *matrix;
    talc_module *net, *norm; /* the net's convolution is followed by another norm as well */
    float expected;          /* what `use` gives */
} operands;

/* One number that every op below has a part in; each works on several threads of the pool. */
static float use(const operands *in)
{
    talc_scope *scope = talc_scope_enter();
    const talc_conv2d_options padded = { .padding = { 1, 1 }, .activation = TALC_ACTIVATION_RELU };
    talc_tensor *y = talc_conv2d(in->image, in->weight, in->bias, &padded);
    y = talc_add(y, talc_forward(in->net, in->image));
    y = talc_add(y, talc_forward_chain(TALC_CHAIN(talc_module_child(in->net, "0"), in->norm),
                                       in->image, NULL));
    y = talc_softmax(talc_max_pool2d(y, &(talc_pool2d_options){ .kernel = { 2, 2 } }), 1);
    y = talc_matmul(talc_reshape(talc_transpose(y, 1, 3), TALC_DIMS(-1, 16)), in->matrix);
    const float result = (float)talc_item(talc_sum(talc_tanh(y), TALC_SCALAR, false));
    require(!talc_failed(), "an op");
    talc_scope_leave(scope);
    return result;
}

static void *use_shared(void *shared)
{
    const operands *in = shared;
    talc_device *device = in->image->device;
    for (int round = 0; round < ROUNDS; round++) {
        require(use(in) == in->expected, "another result than one thread alone has");
        require(talc_workspace_set_limit(device, talc_workspace_limit(device)), "the limit");
    }
    return NULL;
}

/* Each thread has a graph of its own of the net that all share. */
static void *capture_shared(void *shared)
{
    talc_no_grad_enter(); /* as a graph does */
    const operands *in = shared;
    for (int round = 0; round < ROUNDS; round++) {
        talc_scope *scope = talc_scope_enter();
        talc_graph *graph = talc_capture(in->net, in->image);
        const talc_tensor *y = talc_graph_replay(graph, in->image);
        const talc_tensor *apart = talc_sub(y, talc_forward(in->net, in->image));
        require(talc_item(talc_max(apart, TALC_SCALAR, false)) == 0, "a replay");
        talc_graph_free(graph);
        talc_scope_leave(scope);
    }
    return NULL;
}

/* Handles of one tensor, and views of its storage, made and dropped by all. */
static void *hold_and_drop(void *shared)
{
    const operands *in = shared;
    for (int round = 0; round < 200; round++) {
        talc_scope *scope = talc_scope_enter();
        talc_release(talc_retain(in->matrix));
        talc_transpose(in->matrix, 0, 1);
        talc_scope_leave(scope);
    }
    return NULL;
}

/* Each hands what it made to the next one, which looks whose it is while the maker's scope ends. */
static void *hand_on(void *shared)
{
    static _Atomic(talc_tensor *) handed;
    talc_device *device = ((const operands *)shared)->image->device;
    for (int round = 0; round < 200; round++) {
        talc_scope *scope = talc_scope_enter();
        talc_tensor *made = talc_ones(device, TALC_F32, TALC_DIMS(3));
        talc_tensor *given = atomic_exchange(&handed, talc_retain(made));
        talc_scope_leave(talc_scope_enter());
        talc_release(talc_scope_return(scope, given));
        talc_scope_leave(scope);
    }
    talc_release(atomic_exchange(&handed, NULL));
    return NULL;
}

/* Each has a loader of its own of one dataset, and each loader a thread; every third epoch is left
 * in its middle. */
static void *load_shared(void *shared)
{
    talc_dataset *dataset = shared;
    talc_loader *loader = talc_loader_new(
        dataset, &(talc_loader_options){ .device = tested_device(), .batch = 8, .shuffle = true });
    for (int64_t epoch = 0; epoch < ROUNDS; epoch++) {
        talc_batch batch;
        int64_t labels[8], sum = 0, batches = 0;
        require(talc_loader_start(loader, epoch), "loader_start");
        while ((epoch % 3 != 2 || batches < 5) && talc_loader_next(loader, &batch)) {
            require(talc_to_host(batch.labels, labels, (size_t)batch.count * sizeof *labels),
                    "labels");
            for (int64_t i = 0; i < batch.count; i++)
                sum += labels[i];
            batches++;
        }
        /* The labels of 100 drawn digits are 0 .. 9 ten times over. */
        require(!talc_failed() && (epoch % 3 == 2 || sum == 450), "the labels of an epoch");
    }
    talc_loader_free(loader);
    return NULL;
}

/* Applies its own layer and then that of another module: a pass through both trees. */
typedef struct crossed {
    talc_module base;
    talc_module *own;
    struct crossed *other;
} crossed;

static bool crossed_init(talc_module *module, const void *options)
{
    (void)options;
    crossed *self = (crossed *)module;
    self->own = talc_module_add(
        module, "own", talc_nn_linear(&(talc_linear_layer){ .in_features = 4, .out_features = 4 }));
    return self->own != NULL;
}

static talc_tensor *crossed_forward(talc_module *module, talc_tensor *x)
{
    const crossed *self = (crossed *)module;
    return talc_forward(self->other->own, talc_forward(self->own, x));
}

typedef struct crossing {
    crossed *of[2];
    char paths[2][64];
    atomic_int arrived;
} crossing;

/* Two threads load one of the modules each, the others infer: no load waits for ever for a pass
 * that waits for the other load. */
static void *load_crossed(void *shared)
{
    crossing *both = shared;
    const int number = atomic_fetch_add(&both->arrived, 1);
    talc_module *module = &both->of[number % 2]->base;
    for (int round = 0; round < 2000 * ROUNDS; round++) {
        talc_scope *scope = talc_scope_enter();
        talc_no_grad_enter();
        if (number < 2)
            talc_module_load(module, both->paths[number], true);
        else
            talc_forward(module, talc_ones(tested_device(), TALC_F32, TALC_DIMS(1, 4)));
        require(!talc_failed(), "loads of crossed modules");
        talc_no_grad_leave();
        talc_scope_leave(scope);
    }
    return NULL;
}

static void cross_loads(void)
{
    static const talc_module_class crossed_class = {
        .name = "Crossed", .size = sizeof(crossed), .init = crossed_init, .forward = crossed_forward
    };
    crossing both = { .arrived = 0 };
    for (int i = 0; i < 2; i++) {
        both.of[i] = (crossed *)talc_module_new(&crossed_class, NULL);
        snprintf(both.paths[i], sizeof both.paths[i], "/tmp/talc-race-%ld-crossed-%d.safetensors",
                 (long)getpid(), i);
        require(both.of[i] != NULL && talc_module_to(&both.of[i]->base, tested_device()) &&
                    talc_module_save(&both.of[i]->base, both.paths[i]),
                "a crossed module");
    }
    both.of[0]->other = both.of[1], both.of[1]->other = both.of[0];
    run_threads(load_crossed, &both);
    for (int i = 0; i < 2; i++) {
        require(remove(both.paths[i]) == 0, "remove");
        talc_module_free(&both.of[i]->base);
    }
}

/* What the threads train, or load and infer with, together. */
typedef struct shared_net {
    talc_module *net;
    talc_optimizer *optimizer;
    talc_tensor *image;
    char paths[2][64];
    float expected[2];  /* with the weights of each */
    atomic_int arrived; /* threads; the first one loads */
    atomic_bool loaded;
    atomic_int passes, turned_away;
} shared_net;

static talc_module *trained_net(void)
{
    return TALC_SEQUENTIAL(
        talc_nn_conv2d(
            &(talc_conv2d_layer){ .in_channels = 8, .out_channels = 16, .kernel = { 3, 3 } }),
        talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ .channels = 16 }), talc_nn_relu(),
        talc_nn_conv2d(
            &(talc_conv2d_layer){ .in_channels = 16, .out_channels = 4, .kernel = { 3, 3 } }));
}

/* A pass is done, or fails since another thread is at the gradient of a parameter, which it
 * names. */
static bool done_or_turned_away(shared_net *of, bool done)
{
    if (!done) {
        require(strstr(talc_error_message(), "another thread is at the gradient of '") != NULL &&
                    (strstr(talc_error_message(), ".weight' [") != NULL ||
                     strstr(talc_error_message(), ".bias' [") != NULL),
                "a pass beside others");
        talc_error_clear();
        atomic_fetch_add(&of->turned_away, 1);
    }
    atomic_fetch_add(&of->passes, done);
    return done;
}

/* There is nothing to clip where another thread has just dropped all. */
static void clip(shared_net *of)
{
    const bool done = talc_optimizer_clip(of->optimizer, 1) != NULL;
    if (!done && strstr(talc_error_message(), "none of 6 parameters has a gradient") != NULL)
        talc_error_clear();
    else
        done_or_turned_away(of, done);
}

static void *train_shared(void *shared)
{
    shared_net *of = shared;
    for (int round = 0; round < 5 * ROUNDS; round++) {
        talc_scope *scope = talc_scope_enter();
        const talc_tensor *y = talc_forward(of->net, of->image);
        const talc_tensor *loss = talc_mean(talc_mul(y, y), TALC_SCALAR, false);
        require(loss != NULL, "a forward pass");
        if (done_or_turned_away(of, talc_backward(loss)))
            clip(of);
        if (round % 5 == 4) {
            talc_optimizer_zero_grad(of->optimizer);
            done_or_turned_away(of, !talc_failed());
        }
        talc_scope_leave(scope);
    }
    return NULL;
}

static float infer(const shared_net *of)
{
    talc_scope *scope = talc_scope_enter();
    talc_no_grad_enter();
    const float sum =
        (float)talc_item(talc_sum(talc_forward(of->net, of->image), TALC_SCALAR, false));
    require(!talc_failed(), "inference beside a load");
    talc_no_grad_leave();
    talc_scope_leave(scope);
    return sum;
}

/* The first thread loads one file and the other in turn; a pass of the others has all weights of
 * one of them. */
static void *load_and_infer(void *shared)
{
    shared_net *of = shared;
    if (atomic_fetch_add(&of->arrived, 1) > 0) {
        while (!atomic_load(&of->loaded)) {
            const float got = infer(of);
            require(got == of->expected[0] || got == of->expected[1],
                    "a pass with weights of two files");
        }
        return NULL;
    }
    for (int round = 0; round < 10 * ROUNDS; round++)
        require(talc_module_load(of->net, of->paths[round % 2], true), "module_load");
    atomic_store(&of->loaded, true);
    return NULL;
}

static void share_a_net(talc_tensor *image)
{
    shared_net of = { .net = trained_net(), .image = image };
    require(of.net != NULL && talc_module_to(of.net, image->device), "a net");
    talc_module_eval(of.net); /* in training, passes write the running statistics */
    of.optimizer = talc_optimizer_new(of.net, &(talc_optimizer_options){ .kind = TALC_SGD });
    require(of.optimizer != NULL, "optimizer_new");
    run_threads(train_shared, &of);
    require(atomic_load(&of.passes) > 0, "no pass was done");
    talc_optimizer_free(of.optimizer);
    talc_module_free(of.net);

    of.net = trained_net();
    require(of.net != NULL && talc_module_to(of.net, image->device), "a net");
    talc_module_eval(of.net);
    for (int i = 0; i < 2; i++) {
        snprintf(of.paths[i], sizeof of.paths[i], "/tmp/talc-race-%ld-%d.safetensors",
                 (long)getpid(), i);
        talc_tensor *weight = talc_module_find(of.net, "0.weight");
        talc_no_grad_enter();
        require(talc_copy(weight, talc_randn(image->device, TALC_F32, talc_dims_of(weight))) &&
                    talc_module_save(of.net, of.paths[i]),
                "module_save");
        talc_no_grad_leave();
        of.expected[i] = infer(&of);
    }
    run_threads(load_and_infer, &of);
    for (int i = 0; i < 2; i++)
        require(remove(of.paths[i]) == 0, "remove");
    talc_module_free(of.net);
}

int main(void)
{
    run_threads(open_device, NULL);
    talc_device *device = tested_device();
    talc_scope *scope = talc_scope_enter();
    talc_manual_seed(1);
    operands in = {
        .image = talc_rand(device, TALC_F32, TALC_DIMS(4, 8, 24, 20)),
        .weight = talc_randn(device, TALC_F32, TALC_DIMS(16, 8, 3, 3)),
        .bias = talc_randn(device, TALC_F32, TALC_DIMS(16)),
        .matrix = talc_randn(device, TALC_F32, TALC_DIMS(16, 9)),
        .net = TALC_SEQUENTIAL(
            talc_nn_conv2d(&(talc_conv2d_layer){
                .in_channels = 8, .out_channels = 16, .kernel = { 3, 3 }, .padding = { 1, 1 } }),
            talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ .channels = 16 }), talc_nn_relu()),
        .norm = talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ .channels = 16, .eps = 0.5 }),
    };
    require(in.image != NULL && in.matrix != NULL && in.net != NULL && in.norm != NULL, "operands");
    talc_module_eval(in.net);
    talc_module_eval(in.norm);
    require(talc_module_to(in.net, device) && talc_module_to(in.norm, device), "module_to");
    require(talc_set_threads(1), "set_threads");
    in.expected = use(&in);
    for (int threads = 1; threads <= 3; threads++) {
        require(talc_set_threads(threads), "set_threads");
        run_threads(use_shared, &in);
    }
    run_threads(hold_and_drop, &in);
    run_threads(hand_on, &in);
    run_threads(capture_shared, &in);
    share_a_net(in.image);
    talc_dataset *dataset = talc_dataset_digits(100, 1);
    require(dataset != NULL, "dataset_digits");
    run_threads(load_shared, dataset);
    talc_dataset_free(dataset);
    cross_loads();
    talc_module_free(in.net);
    talc_module_free(in.norm);
    talc_scope_leave(scope);
    require(talc_device_memory(device).live == 0, "bytes are still live");
    return 0;
}
