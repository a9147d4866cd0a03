#include "tools/bench/bench.h"

#include "tools/bench/bench_gradient.h"
#include "tools/cli/progress.h"
#include "tools/cli/tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double contender_min(const contender *self)
{
    double min = self->count == 0 ? (double)NAN : self->seconds[0];
    for (int i = 1; i < self->count; i++)
        min = fmin(min, self->seconds[i]);
    return min * self->times;
}

double contender_median(const contender *self)
{
    double sorted[BENCH_REPEATS];
    if (self->count == 0)
        return (double)NAN;
    memcpy(sorted, self->seconds, (size_t)self->count * sizeof *sorted);
    qsort(sorted, (size_t)self->count, sizeof *sorted, ascending);
    const int middle = self->count / 2;
    return self->times *
           (self->count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2);
}

double bench_ratio(const contender *algorithm, const contender *peer)
{
    return contender_min(algorithm) / contender_min(peer);
}

// ---- Operands -----------------------------------------------------------------------------------

/* Copies of a problem's larger operands, so many that no cache holds them all and the results that
 * belong to them. */
static int sets_of(const talc_device *device, const talc_conv2d_problem *p)
{
    const double elements =
        (double)p->N * ((double)p->C * (double)p->H * (double)p->W +
                        (double)p->OC * (double)p->OH * (double)p->OW * (p->residual ? 2 : 1));
    const double sets = ceil(BENCH_COLD_BYTES / (elements * (double)talc_dtype_size(p->dtype)));
    return talc_device_is_host(device) || !(sets > 1) ? 1
           : sets > BENCH_SETS                        ? BENCH_SETS
                                                      : (int)sets;
}

bool bench_operands_make(bench_operands *self, talc_device *device,
                         const talc_conv2d_problem *problem, uint64_t seed)
{
    const talc_conv2d_problem *p = problem;
    const int64_t IC = p->C / p->groups;
    const double bound = 1 / sqrt((double)(IC * p->KH * p->KW));
    *self = (bench_operands){ .problem = *p, .sets = sets_of(device, p) };
    talc_manual_seed(seed);
    self->x = self->xs[0] = talc_rand(device, p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W));
    self->w = talc_uniform(device, p->dtype, TALC_DIMS(p->OC, IC, p->KH, p->KW), -bound, bound);
    if (p->bias)
        self->bias = talc_rand(device, p->dtype, TALC_DIMS(p->OC));
    if (p->residual)
        self->residual = self->residuals[0] =
            talc_rand(device, p->dtype, TALC_DIMS(p->N, p->OC, p->OH, p->OW));
    if (p->direction != TALC_FORWARD)
        self->dy = self->dys[0] = talc_rand(device, p->dtype, TALC_DIMS(p->N, p->OC, p->OH, p->OW));
    for (int i = 1; i < self->sets; i++) {
        self->xs[i] = talc_clone(self->x);
        self->dys[i] = self->dy != NULL ? talc_clone(self->dy) : NULL;
        self->residuals[i] = p->residual ? talc_clone(self->residual) : NULL;
    }
    return !talc_failed();
}

// ---- talc's algorithms as contenders ------------------------------------------------------------

static const unsigned EVERY_CLASS = TALC_STRICT | TALC_NORMWISE | TALC_TF32;

/* `kept` are the results of the latest runs, one for each set: the next of a set takes the place of
 * its last. */
typedef struct algorithm_run {
    const bench_operands *operands;
    talc_conv2d_options options;
    int next;
    talc_tensor *kept[BENCH_SETS];
} algorithm_run;

static talc_tensor *run_algorithm(const algorithm_run *self, int set)
{
    const bench_operands *o = self->operands;
    talc_conv2d_options options = self->options;
    const talc_direction direction = o->problem.direction;
    if (direction != TALC_FORWARD)
        return talc_conv2d_gradient(&o->problem, direction == TALC_GRAD_INPUT ? o->w : o->xs[set],
                                    o->dys[set], &options);
    options.residual = o->residuals[set];
    return talc_conv2d(o->xs[set], o->w, o->bias, &options);
}

static bool run_next(void *context)
{
    algorithm_run *self = context;
    const int set = self->next;
    talc_release(self->kept[set]);
    talc_scope *scope = talc_scope_enter();
    self->kept[set] = talc_retain(run_algorithm(self, set));
    talc_scope_leave(scope);
    self->next = (set + 1) % self->operands->sets;
    return self->kept[set] != NULL;
}

static void algorithm_free(void *context)
{
    algorithm_run *self = context;
    for (int i = 0; i < BENCH_SETS; i++)
        talc_release(self->kept[i]);
    free(self);
}

/* The options under which `operands` pose their problem again, with this algorithm forced. */
static talc_conv2d_options options_of(const bench_operands *operands, const char *algorithm,
                                      talc_precision precision)
{
    const talc_conv2d_problem *p = &operands->problem;
    return (talc_conv2d_options){
        .stride = { p->stride_h, p->stride_w },
        .padding = { p->pad_top, p->pad_left },
        .padding_end = { p->pad_bottom == 0 ? TALC_ZERO : p->pad_bottom,
                         p->pad_right == 0 ? TALC_ZERO : p->pad_right },
        .padding_mode = p->padding_mode,
        .dilation = { p->dilation_h, p->dilation_w },
        .groups = p->groups,
        .activation = p->activation,
        .algorithm = algorithm,
        .precision = precision,
    };
}

/* Operands read and results written once. */
static double bytes_of(const talc_conv2d_problem *p)
{
    const double y = (double)p->N * (double)p->OC * (double)p->OH * (double)p->OW;
    const double x = (double)p->N * (double)p->C * (double)p->H * (double)p->W;
    const double w = (double)p->OC * (double)(p->C / p->groups) * (double)p->KH * (double)p->KW;
    return (x + w + y * (p->residual ? 2 : 1) + (p->bias ? (double)p->OC : 0)) *
           (double)talc_dtype_size(p->dtype);
}

static void add_algorithm(contender *made, const bench_operands *operands, const talc_candidate *c,
                          const bench_settings *settings)
{
    const double flops = talc_conv2d_flops(&operands->problem);
    *made = (contender){ .algorithm = c->name,
                         .form = c->form,
                         .times = 1,
                         .flops = flops,
                         .bytes = bytes_of(&operands->problem),
                         .estimate = c->seconds,
                         .precision = c->arithmetic.precision,
                         .workspace = c->workspace,
                         .run = run_next,
                         .free = algorithm_free };
    memcpy(made->title, c->title, sizeof made->title);
    made->name = made->title;
    if (c->refused)
        snprintf(made->reason, sizeof made->reason, "refuses: %s", c->reason);
    else if (strcmp(c->name, "reference") == 0 && flops > BENCH_REFERENCE_FLOPS && !settings->all &&
             !settings->chosen && settings->algorithm == NULL)
        snprintf(made->reason, sizeof made->reason, "not timed on more than %g GFLOP; --all does",
                 BENCH_REFERENCE_FLOPS / 1e9);
    algorithm_run *context = made->reason[0] != '\0' ? NULL : malloc(sizeof *context);
    if (context != NULL)
        *context = (algorithm_run){ .operands = operands,
                                    .options = options_of(operands, made->title, made->precision) };
    else if (made->reason[0] == '\0')
        snprintf(made->reason, sizeof made->reason, "no memory");
    made->context = context;
}

/* Runs the algorithm once, which also warms it up, and compares what it computed unless `expected`
 * is NULL. */
static bool verify(contender *self, const bench_operands *operands, talc_device *device,
                   const bench_expected *expected)
{
    talc_scope *scope = talc_scope_enter();
    const size_t live = talc_device_memory(device).live;
    talc_memory_reset_peak(device);
    (void)talc_device_recomputed(device);
    const talc_tensor *y = run_algorithm(self->context, 0);
    self->recomputed = talc_device_recomputed(device);
    self->peak = talc_device_memory(device).peak - live;
    const bool compared =
        y != NULL &&
        (expected == NULL || bench_compare(expected, operands, y, self->precision, &self->check));
    talc_scope_leave(scope);
    return compared;
}

// ---- A problem ----------------------------------------------------------------------------------

static bool timed(const contender *self)
{
    return self->reason[0] == '\0';
}

/* Every algorithm, of whatever class, and the one that runs by default. */
static bool add_algorithms(bench *self, const bench_settings *settings)
{
    talc_conv2d_explanation explanation;
    if (!talc_conv2d_explain(settings->device, &self->operands.problem, NULL, &explanation))
        return false;
    if (explanation.decision.chosen >= 0 && settings->algorithm == NULL) {
        const talc_candidate *c = &explanation.decision.candidates[explanation.decision.chosen];
        self->chosen = strcpy(self->chosen_title, c->title);
        self->chosen_precision = c->arithmetic.precision;
    }
    const char *only = settings->chosen ? self->chosen : settings->algorithm;
    const talc_conv2d_options options = { .precision = EVERY_CLASS };
    if (!talc_conv2d_explain(settings->device, &self->operands.problem, &options, &explanation))
        return false;
    for (int i = 0; i < explanation.decision.count; i++) {
        const talc_candidate *c = &explanation.decision.candidates[i];
        if ((only == NULL || talc_algorithm_is_asked_for(c->name, c->form, only)) &&
            (!settings->chosen || c->arithmetic.precision == self->chosen_precision))
            add_algorithm(&self->contenders[self->count++], &self->operands, c, settings);
    }
    if (self->count == 0)
        talc_fail(TALC_NOT_FOUND, "conv2d on %s has no algorithm '%s'", explanation.decision.device,
                  TALC_SHOWN(settings->algorithm == NULL ? "" : settings->algorithm));
    return !talc_failed();
}

/* Depthwise convolution moves bytes and multiplies little: its peer is a copy. */
static void add_peers(bench *self)
{
    const talc_conv2d_problem *p = &self->operands.problem;
    const bool host = talc_device_is_host(self->operands.x->device);
    contender *next = &self->contenders[self->count];
    if (p->groups > 1 && p->groups == p->C)
        (host ? bench_copy : bench_device_copy)(next, &self->operands);
    else
        (host ? bench_product : bench_device_product)(next, &self->operands);
    if (host)
        bench_onednn(next + 1, next + 2, &self->operands);
    self->count += host ? 3 : 1;
}

static bool verify_all(bench *self, const bench_settings *settings, progress *bar)
{
    const bench_operands *o = &self->operands;
    bench_expected expected = { .forward = NULL };
    bool done = settings->unchecked || bench_expect(&expected, o);
    tool_resident_reset();
    for (int i = 0; i < self->count && done; i++) {
        contender *c = &self->contenders[i];
        progress_step(bar, c->name);
        done = !timed(c) || verify(c, o, settings->device, settings->unchecked ? NULL : &expected);
    }
    self->resident = tool_resident_peak();
    bench_expected_free(&expected);
    return done;
}

static void rest(void)
{
    const struct timespec pause = { 0, (long)(BENCH_PAUSE_SECONDS * 1e9) };
    nanosleep(&pause, NULL);
}

/* The seconds that `runs` runs take; negative with a talc failure. */
static double run_times(const contender *self, talc_device *device, int runs)
{
    talc_timer *timer = talc_timer_start(device);
    const double start = tool_clock();
    bool ran = timer != NULL;
    for (int i = 0; i < runs && ran; i++)
        ran = self->run(self->context);
    const double queued = tool_clock() - start, seconds = talc_timer_stop(timer);
    return !ran || seconds < 0 ? -1 : self->host_clock ? queued : seconds;
}

/* A turn of the host's time is over within a millisecond or two, and a host that has waited runs
 * slowly at first. A GPU's queue holds a thousand. */
static bool warm_host(contender *self, talc_device *device)
{
    const double start = tool_clock();
    bool ran = true;
    self->runs = 250;
    while (ran && tool_clock() - start < BENCH_TURN_SECONDS)
        ran = run_times(self, device, self->runs) >= 0;
    return ran;
}

/* Warms a contender up and sets how many runs a turn has. */
static bool calibrate(contender *self, talc_device *device)
{
    enum { MAX = 1000 };
    if (self->host_clock)
        return warm_host(self, device);
    const double first = run_times(self, device, 1);
    const double second =
        first < 0 || first > BENCH_TURN_SECONDS ? first : run_times(self, device, 1);
    self->runs = second > BENCH_TURN_SECONDS / MAX ? 1 + (int)(BENCH_TURN_SECONDS / second) : MAX;
    return second >= 0;
}

static bool take_turn(contender *self, talc_device *device)
{
    if (talc_device_is_host(device))
        rest();
    if (self->runs > 1 && run_times(self, device, 1) < 0)
        return false;
    const double seconds = run_times(self, device, self->runs);
    self->seconds[self->count++] = seconds / self->runs;
    return seconds >= 0;
}

bool contender_time(contender *self, talc_device *device, int repeats)
{
    bool done = calibrate(self, device);
    for (int i = 0; i < repeats && done; i++)
        done = take_turn(self, device);
    return done;
}

void contender_free(contender *self)
{
    if (self->free != NULL && self->context != NULL)
        self->free(self->context);
    self->context = NULL;
}

static bool time_all(bench *self, const bench_settings *settings, progress *bar)
{
    for (int round = -1; round < settings->repeats; round++)
        for (int i = 0; i < self->count; i++) {
            contender *c = &self->contenders[i];
            progress_step(bar, c->name);
            if (timed(c) &&
                !(round < 0 ? calibrate(c, settings->device) : take_turn(c, settings->device)))
                return false;
        }
    return true;
}

bool bench_problem(bench *self, const talc_conv2d_problem *problem, const bench_settings *settings)
{
    *self = (bench){ .count = 0 };
    if (!bench_operands_make(&self->operands, settings->device, problem, 1) ||
        !add_algorithms(self, settings))
        return false;
    progress bar = progress_begin(self->count + (self->count + 3) * (settings->repeats + 1));
    bool done = verify_all(self, settings, &bar);
    if (done && settings->peers && problem->N > 0)
        add_peers(self);
    done = done && time_all(self, settings, &bar);
    progress_end(&bar);
    return done;
}

void bench_free(bench *self)
{
    for (int i = 0; i < self->count; i++)
        contender_free(&self->contenders[i]);
}

bench_choice bench_choice_of(const bench *self)
{
    bench_choice choice = { NULL, NULL };
    for (int i = 0; i < self->count; i++) {
        const contender *c = &self->contenders[i];
        if (!c->peer && c->count > 0 && self->chosen != NULL &&
            strcmp(c->name, self->chosen) == 0 && c->precision == self->chosen_precision)
            choice.chosen = choice.fastest = c;
    }
    for (int i = 0; choice.chosen != NULL && i < self->count; i++) {
        const contender *c = &self->contenders[i];
        if (!c->peer && c->count > 0 && c->precision == choice.chosen->precision &&
            contender_min(c) < contender_min(choice.fastest))
            choice.fastest = c;
    }
    return choice;
}
