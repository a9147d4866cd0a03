/* How long a forward pass of LeNet and of ResNet-20 takes, or a training step.
 *
 *     latency [device] [batch] [train]     a line `model,what,least,median` in microseconds for each way of running it
 *
 * "latency" is one pass with a wait for the device after it, "back to back" the time of each of many passes that are
 * waited for together. Steps are forward, cross entropy, backward and SGD with momentum. */
#define _POSIX_C_SOURCE 200809L

#include "lenet.h"
#include "resnet20.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 101, IN_A_ROW = 50 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A way of running a model. */
typedef struct subject {
    const char *model, *way;
    talc_module *module;
    talc_tensor *x;
    talc_graph *graph;
    void (*run)(const struct subject *);
    talc_tensor *labels;
    talc_optimizer *optimizer;
    talc_step *step;
} subject;

static void run_eager(const subject *s)
{
    talc_scope *scope = talc_scope_enter();
    talc_forward(s->module, s->x);
    talc_scope_leave(scope);
}

static void run_graph(const subject *s)
{
    talc_graph_replay(s->graph, s->x);
}

static talc_tensor *train(void *context)
{
    const subject *s = context;
    talc_optimizer_zero_grad(s->optimizer);
    talc_tensor *loss = talc_cross_entropy(talc_forward(s->module, s->x), s->labels);
    return talc_backward(loss) && talc_optimizer_step(s->optimizer) ? loss : NULL;
}

static void run_training(const subject *s)
{
    talc_scope *scope = talc_scope_enter();
    train((void *)s);
    talc_scope_leave(scope);
}

static void run_step(const subject *s)
{
    talc_step_run(s->step);
}

static double passes(const subject *s, int count)
{
    talc_device_synchronize(s->x->device);
    double started = now();
    for (int i = 0; i < count; i++)
        s->run(s);
    talc_device_synchronize(s->x->device);
    return (now() - started) / count;
}

static void report(const subject *s, const char *what, int count, int rounds)
{
    double taken[ROUNDS];
    passes(s, count);
    for (int i = 0; i < rounds; i++)
        taken[i] = passes(s, count);
    qsort(taken, (size_t)rounds, sizeof *taken, by_size);
    printf("%s,%s %s,%.2f,%.2f\n", s->model, s->way, what, taken[0], taken[rounds / 2]);
}

static void measure(const subject *s)
{
    report(s, "latency", 1, ROUNDS);
    report(s, "back to back", IN_A_ROW, 15);
}

static void measure_training(const char *model, talc_module *module, talc_tensor *x)
{
    talc_module_to(module, x->device);
    subject s = {
        .model = model, .way = "training eager", .module = module, .x = x, .run = run_training
    };
    s.labels = talc_randint(x->device, TALC_I64, TALC_DIMS(talc_dims_of(x).dim[0]), 0, 10);
    s.optimizer = talc_optimizer_new(
        module, &(talc_optimizer_options){ .lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4 });
    measure(&s);
    s.step = talc_step_new(x->device, train, &s);
    s.way = "training graph", s.run = run_step;
    measure(&s);
    talc_step_free(s.step);
    talc_optimizer_free(s.optimizer);
    talc_module_free(module);
}

static void measure_model(const char *model, talc_module *module, talc_tensor *x)
{
    talc_module_eval(module);
    talc_module_to(module, x->device);
    talc_graph *graph = talc_capture(module, x);
    measure(
        &(subject){ .model = model, .way = "eager", .module = module, .x = x, .run = run_eager });
    measure(&(subject){ .model = model,
                        .way = "graph",
                        .module = module,
                        .x = x,
                        .graph = graph,
                        .run = run_graph });
    talc_graph_free(graph);
    talc_module_free(module);
}

int main(int argc, char **argv)
{
    talc_device *device = argc > 1 ? talc_device_get(argv[1]) : talc_device_default();
    int64_t batch = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    bool trains = argc > 3 && strcmp(argv[3], "train") == 0;
    if (device != NULL && trains) {
        measure_training("lenet", lenet_new(),
                         talc_rand(device, TALC_F32, TALC_DIMS(batch, 1, 28, 28)));
        measure_training("resnet20", resnet20_new(RESNET20_OPTION_A),
                         talc_rand(device, TALC_F32, TALC_DIMS(batch, 3, 32, 32)));
    }
    talc_no_grad_enter(); /* batch norms are folded */
    if (device != NULL && !trains) {
        measure_model("lenet", lenet_new(),
                      talc_rand(device, TALC_F32, TALC_DIMS(batch, 1, 28, 28)));
        measure_model("resnet20", resnet20_new(RESNET20_OPTION_A),
                      talc_rand(device, TALC_F32, TALC_DIMS(batch, 3, 32, 32)));
        measure_model("resnet20-b", resnet20_new(RESNET20_OPTION_B),
                      talc_rand(device, TALC_F32, TALC_DIMS(batch, 3, 32, 32)));
    }
    talc_no_grad_leave();
    if (talc_failed())
        fprintf(stderr, "%s\n", talc_error_message());
    return talc_failed();
}
