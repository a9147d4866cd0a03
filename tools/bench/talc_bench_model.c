/// talc bench NETWORK: how long a network's forward pass, or a training step, takes.
#include "tools/cli/models.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ROUNDS = 101, IN_A_ROW = 50 };

typedef struct arguments {
    model_arguments model; ///< the first, as model_parse has it
    bool train;
} arguments;

static const tool_option options[] = {
    { "batch", MODEL_BATCH, "N", "images (default 1)", 1, TOOL_OWN, 0, 0 },
    { "input", MODEL_INPUT, "SHAPE", "of the input, in place of the network's own images", 1,
      TOOL_OWN, 0, 0 },
    { "train", 't', NULL, "training steps: forward, cross entropy, backward, SGD with momentum", 1,
      TOOL_TRUE_AT(arguments, train) },
    { .name = NULL },
};

// ---- Ways of running it -------------------------------------------------------------------------

typedef struct subject {
    talc_module *module;
    talc_tensor *x, *labels;
    talc_optimizer *optimizer;
    talc_graph *graph;
    talc_step *step;
    talc_group *group; /* of training; NULL: none */
    talc_parallel *parallel;
} subject;

static bool run_forward(const subject *s)
{
    talc_scope *scope = talc_scope_enter();
    const bool ran = talc_forward(s->module, s->x) != NULL;
    talc_scope_leave(scope);
    return ran;
}

static bool replay(const subject *s)
{
    return talc_graph_replay(s->graph, s->x) != NULL;
}

/* The loss of classes; of an output that is an image, the mean of its squares. */
static talc_tensor *train(void *context)
{
    const subject *s = context;
    talc_optimizer_zero_grad(s->optimizer);
    talc_tensor *y = talc_forward(s->module, s->x);
    talc_tensor *loss = s->labels != NULL ? talc_cross_entropy(y, s->labels)
                                          : talc_mean(talc_mul(y, y), TALC_SCALAR, false);
    return talc_backward(loss) && talc_optimizer_step(s->optimizer) ? loss : NULL;
}

static bool run_training(const subject *s)
{
    talc_scope *scope = talc_scope_enter();
    const bool ran = train((void *)s) != NULL;
    talc_scope_leave(scope);
    return ran;
}

static bool run_step(const subject *s)
{
    return talc_step_run(s->step) != NULL;
}

/* Labels for as many rows of classes as the output has; none for an output that is no such. */
static bool make_labels(subject *s, const talc_network *of)
{
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *y = talc_forward(s->module, s->x);
    const int64_t rows = y != NULL && y->rank == 2 ? y->dims[0] : 0;
    talc_scope_leave(scope);
    if (rows > 0)
        s->labels = talc_randint(s->x->device, TALC_I64, TALC_DIMS(rows), 0, (double)of->classes);
    return !talc_failed();
}

// ---- Timing -------------------------------------------------------------------------------------

typedef struct timing {
    const char *way;
    double latency[2];      ///< least and median seconds of one pass and a wait for the device
    double back_to_back[2]; ///< of each of passes that are waited for together
    size_t peak;            ///< bytes on the device, weights and input among them
} timing;

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double passes(const subject *s, bool (*run)(const subject *), int count)
{
    talc_device_synchronize(s->x->device);
    const double started = tool_clock();
    for (int i = 0; i < count && !talc_failed(); i++)
        run(s);
    talc_device_synchronize(s->x->device);
    return (tool_clock() - started) / count;
}

/* Rank 0's number, which all members of a group go by: they make the same calls. */
static double agreed(const subject *s, double number)
{
    if (talc_group_size(s->group) == 1)
        return number;
    talc_scope *scope = talc_scope_enter();
    talc_tensor *of_all = talc_full(s->x->device, TALC_F64, TALC_SCALAR, number);
    number = talc_group_broadcast(s->group, of_all, 0) ? talc_item(of_all) : 1;
    talc_scope_leave(scope);
    return number;
}

/* Least and median of rounds that take some two seconds in all. */
static void measure(const subject *s, bool (*run)(const subject *), int count, double result[2])
{
    double taken[ROUNDS];
    const double one = agreed(s, passes(s, run, 1));
    if (one * count > 1)
        count = one > 1 ? 1 : (int)(1 / one);
    const double affordable = 2 / (one * count);
    const int rounds = affordable < 3 ? 3 : affordable > ROUNDS ? ROUNDS : (int)affordable;
    for (int i = 0; i < rounds; i++)
        taken[i] = passes(s, run, count);
    qsort(taken, (size_t)rounds, sizeof *taken, by_size);
    result[0] = taken[0];
    result[1] = taken[rounds / 2];
}

static bool measure_way(const subject *s, const char *way, bool (*run)(const subject *),
                        timing *result)
{
    result->way = way;
    talc_memory_reset_peak(s->x->device);
    run(s);
    talc_device_synchronize(s->x->device);
    result->peak = talc_device_memory(s->x->device).peak;
    if (!talc_failed())
        measure(s, run, 1, result->latency);
    if (!talc_failed())
        measure(s, run, IN_A_ROW, result->back_to_back);
    return !talc_failed();
}

/* Eager, then recorded: one launch where the device has such. */
static bool time_forward(subject *s, timing results[2])
{
    talc_module_eval(s->module);
    if (!measure_way(s, "eager", run_forward, &results[0]))
        return false;
    s->graph = talc_capture(s->module, s->x);
    return s->graph != NULL && measure_way(s, "graph", replay, &results[1]);
}

/* As one of several processes where a launcher has started them. */
static bool join_group(subject *s)
{
    s->group = talc_group_new(s->x->device, NULL);
    if (talc_group_size(s->group) > 1 &&
        talc_group_agree(s->group, "the number of images", s->x->dims[0]) &&
        talc_group_agree(s->group, "the number of elements of the input", talc_numel(s->x)))
        s->parallel = talc_parallel_new(s->module, s->group, NULL);
    return !talc_failed();
}

static bool time_training(subject *s, const talc_network *of, timing results[2])
{
    talc_no_grad_leave();
    s->optimizer = talc_optimizer_new(
        s->module, &(talc_optimizer_options){ .lr = 1e-4, .momentum = 0.9, .weight_decay = 5e-4 });
    bool done =
        join_group(s) && make_labels(s, of) && measure_way(s, "eager", run_training, &results[0]);
    if (done)
        s->step = talc_step_new(s->x->device, train, s);
    done = done && s->step != NULL && measure_way(s, "graph", run_step, &results[1]);
    talc_no_grad_enter();
    return done;
}

// ---- The report ---------------------------------------------------------------------------------

enum { WAY, LATENCY, LATENCY_MEDIAN, IN_ROW, IN_ROW_MEDIAN, RATE, PEAK, COLUMNS };

typedef struct timings {
    const timing *list;
    int64_t batch; ///< of all processes
} timings;

static double rate_of(const timing *t, int64_t batch)
{
    return (double)batch / t->back_to_back[0];
}

static const char *cell(const void *context, int64_t row, int column, char text[TALC_CELL_TEXT])
{
    const timings *self = context;
    const timing *t = &self->list[row];
    switch (column) {
    case WAY:
        return t->way;
    case RATE:
        snprintf(text, TALC_CELL_TEXT, "%.1f", rate_of(t, self->batch));
        return text;
    case PEAK:
        return talc_bytes_text((double)t->peak, text);
    default:
        return tool_seconds(column == LATENCY          ? t->latency[0]
                            : column == LATENCY_MEDIAN ? t->latency[1]
                            : column == IN_ROW         ? t->back_to_back[0]
                                                       : t->back_to_back[1],
                            text);
    }
}

static int print_report(const arguments *self, const subject *s, const timing results[2])
{
    static const talc_column columns[COLUMNS] = {
        { "", TALC_COLUMN_NAME },         { "latency", TALC_COLUMN_NUMBER },
        { "median", TALC_COLUMN_NUMBER }, { "in a row", TALC_COLUMN_NUMBER },
        { "median", TALC_COLUMN_NUMBER }, { "images/s", TALC_COLUMN_NUMBER },
        { "peak", TALC_COLUMN_NUMBER },
    };
    char shape[TALC_DIMS_TEXT];
    const int size = talc_group_size(s->group);
    printf("%s%s%s on %s, %s of %s", tool_bold(), self->model.network->name, tool_plain(),
           talc_device_name(s->x->device), self->train ? "training steps" : "forward passes",
           talc_dims_text(talc_dims_of(s->x), shape));
    if (size > 1)
        printf(" in each of %d processes", size);
    printf("\n");
    talc_table_print(stdout,
                     &(talc_table){ .count = COLUMNS,
                                    .columns = columns,
                                    .rows = 2,
                                    .indent = 2,
                                    .cell = cell,
                                    .context = &(timings){ results, size * s->x->dims[0] } });
    return tool_finish();
}

static int report(const arguments *self, const subject *s, const timing results[2])
{
    if (!self->model.tool.json)
        return print_report(self, s, results);
    json_t *ways = json_array();
    const int size = talc_group_size(s->group);
    for (int i = 0; i < 2; i++) {
        const timing *t = &results[i];
        json_array_append_new(
            ways, json_pack("{s:s, s:[o,o], s:[o,o], s:o, s:I}", "way", t->way, "latency",
                            tool_real(t->latency[0]), tool_real(t->latency[1]), "in_a_row",
                            tool_real(t->back_to_back[0]), tool_real(t->back_to_back[1]),
                            "images_per_second", tool_real(rate_of(t, size * s->x->dims[0])),
                            "peak", (json_int_t)t->peak));
    }
    return tool_json_print(
        json_pack("{s:s, s:s, s:o, s:b, s:i, s:o}", "network", self->model.network->name, "device",
                  talc_device_name(s->x->device), "input", tool_json_dims(talc_dims_of(s->x)),
                  "train", self->train, "processes", size, "ways", ways));
}

int command_bench_model(int argc, char **argv)
{
    static const tool_syntax syntax = {
        .options = options,
        .parse = model_parse,
        .args_doc = "NETWORK",
        .doc = "Times a network on random images, eagerly and recorded (talc_capture, talc_step): "
               "one pass with a wait for the device after it, and passes in a row that are waited "
               "for together. Training steps that talc launch or mpirun starts several times are "
               "those of a group: rank 0 reports the images of all.",
    };
    arguments self = { .model = { .batch = 1 } };
    tool_parse(&syntax, argc, argv, &self);
    subject s = { 0 };
    timing results[2] = { 0 };
    const bool done =
        model_open(&self.model, &s.module, &s.x) &&
        (self.train ? time_training(&s, self.model.network, results) : time_forward(&s, results));
    const int code = !done                           ? model_usage(&self.model, s.x)
                     : talc_group_rank(s.group) == 0 ? report(&self, &s, results)
                                                     : TOOL_OK;
    talc_graph_free(s.graph);
    talc_step_free(s.step);
    talc_optimizer_free(s.optimizer);
    talc_parallel_free(s.parallel);
    talc_module_free(s.module);
    talc_group_free(s.group);
    return code;
}
