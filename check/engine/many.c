/// Many problems: on a GPU by several threads at once.
///
/// Each thread takes the next few problems, large ones before all others and by themselves, works
/// on a stream of its own and keeps what it finds in a check of its own; those are joined in the
/// order of the problems, so that nothing depends on who was faster.
#include "backends/backends.h"
#include "check/engine/verdict.h"
#include "check/engine/parallel.h"
#include "check/engine/results.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/storage.h"
#include "tensor/stream.h"
#include "tensor/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 16, PART = 8 }; /* problems that are taken at a time */

/* Elements of operands and terms of sums from which on a problem is a part of its own. */
static const double LARGE = 1e6;

/* Problems that are taken together. */
typedef struct part {
    int64_t first, count;
    double cost; /* 0: not large */
    talc_check *check;
} part;

typedef struct turn {
    int64_t part;
    double cost;
} turn;

typedef struct many {
    talc_check *check;
    const char *const *problems;
    int64_t count;
    void (*step)(void *context, const char *problem);
    void *context;
    pthread_mutex_t lock; /* of what follows */
    int64_t next;         /* in `turns`, that nobody has taken */
    int64_t part_count;
    part *parts;         /* in the order of the problems */
    turn *turns;         /* in the order in which they are taken */
    talc_status failure; /* of the first problem that could not be checked */
    int64_t failed;      /* its part */
    char message[1024];
} many;

// ---- Parts --------------------------------------------------------------------------------------

/* 0 for a problem that is not large. A text that does not parse is reported when its turn comes. */
static double cost_of(const char *problem)
{
    check_problem read;
    check_operand operands[CHECK_OPERANDS];
    const check_direction *direction = problem == NULL ? NULL : talc_check_parse(problem, &read);
    if (direction == NULL) {
        talc_error_clear();
        return 0;
    }
    const double terms = talc_check_oracle_terms(direction, &read);
    double cost = terms < CHECK_FULL_TERMS ? terms : CHECK_FULL_TERMS;
    talc_check_operands(direction, &read, operands);
    for (int i = 0; i < CHECK_OPERANDS; i++)
        cost += (double)operands[i].count;
    return cost < LARGE ? 0 : cost;
}

static int by_turn(const void *a, const void *b)
{
    const turn *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost > y->cost ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

static bool cut(many *self)
{
    self->parts = talc_memory_new((size_t)self->count * sizeof *self->parts + 1, "check");
    self->turns = talc_memory_new((size_t)self->count * sizeof *self->turns + 1, "check");
    if (self->parts == NULL || self->turns == NULL)
        return false;
    for (int64_t i = 0; i < self->count; i++) {
        const double cost = cost_of(self->problems[i]);
        part *last = self->part_count == 0 ? NULL : &self->parts[self->part_count - 1];
        if (last != NULL && cost == 0 && last->cost == 0 && last->count < PART)
            last->count++;
        else
            self->parts[self->part_count++] = (part){ .first = i, .count = 1, .cost = cost };
    }
    for (int64_t i = 0; i < self->part_count; i++)
        self->turns[i] = (turn){ i, self->parts[i].cost };
    qsort(self->turns, (size_t)self->part_count, sizeof *self->turns, by_turn);
    return true;
}

/* The next part, -1 when there is none. After a failure those that come before it: one of them may
 * hold an earlier one. */
static int64_t take(many *self)
{
    int64_t taken = -1;
    pthread_mutex_lock(&self->lock);
    while (taken < 0 && self->next < self->part_count) {
        const int64_t index = self->turns[self->next++].part;
        taken = self->failure == TALC_OK || index < self->failed ? index : -1;
    }
    pthread_mutex_unlock(&self->lock);
    return taken;
}

// ---- A thread -----------------------------------------------------------------------------------

static void begin(many *self, const char *problem)
{
    if (self->step == NULL)
        return;
    pthread_mutex_lock(&self->lock);
    self->step(self->context, problem);
    pthread_mutex_unlock(&self->lock);
}

/* Hands this thread's failure to the one that waits. */
static void give_up(many *self, int64_t index)
{
    pthread_mutex_lock(&self->lock);
    if (self->failure == TALC_OK || index < self->failed) {
        self->failure = talc_error_status();
        self->failed = index;
        snprintf(self->message, sizeof self->message, "%s", talc_error_message());
    }
    pthread_mutex_unlock(&self->lock);
    talc_error_clear();
}

static bool check_part(many *self, const part *of, talc_check *check)
{
    bool done = true;
    for (int64_t i = of->first; i < of->first + of->count && done; i++) {
        begin(self, self->problems[i]);
        done = talc_check_problem(check, self->problems[i]);
    }
    return done;
}

static void *work(void *context)
{
    many *self = context;
    talc_check_options options = self->check->options;
    options.device = self->check->device;
    talc_device *device = options.device;
    void *handle =
        device->interface->stream_new == NULL ? NULL : device->interface->stream_new(device);
    talc_stream *own = handle == NULL ? NULL : talc_stream_enter(device, handle);
    talc_error_clear(); /* the device's own stream will do */
    for (int64_t i; (i = take(self)) >= 0;) {
        part *of = &self->parts[i];
        of->check = talc_check_new(&options);
        if (of->check == NULL || !check_part(self, of, of->check))
            give_up(self, i);
    }
    talc_stream_leave(own);
    if (handle != NULL)
        device->interface->stream_free(device, handle);
    talc_check_busy(-1);
    return NULL;
}

/* All parts up to the one with the failure, if there is one. */
static bool join(many *self)
{
    bool done = true;
    for (int64_t i = 0; i < self->part_count; i++) {
        const talc_check *check = self->parts[i].check;
        if (check != NULL && done && (self->failure == TALC_OK || i <= self->failed))
            done = talc_check_join(self->check, check);
        talc_check_free(self->parts[i].check);
    }
    if (done && self->failure != TALC_OK)
        talc_fail(self->failure, "%s", self->message);
    return done && self->failure == TALC_OK;
}

// ---- All of them --------------------------------------------------------------------------------

static bool check_at_once(many *self, int threads)
{
    pthread_t others[THREADS];
    int started = 0;
    bool done = cut(self);
    if (done) {
        pthread_mutex_init(&self->lock, NULL);
        talc_check_busy(threads);
        while (started + 1 < threads && talc_thread_start(&others[started], work, self))
            started++;
        talc_check_busy(started + 1 - threads);
        work(self);
        for (int i = 0; i < started; i++)
            pthread_join(others[i], NULL);
        pthread_mutex_destroy(&self->lock);
        done = join(self);
    }
    talc_memory_free(self->parts);
    talc_memory_free(self->turns);
    return done;
}

bool talc_check_problems(talc_check *check, const char *const *problems, int64_t count,
                         void (*step)(void *context, const char *problem), void *context)
{
    TALC_DEFAULT_FENV;
    if (talc_operand_missing("check", "check", check) ||
        talc_operand_missing("check", "problems", problems))
        return false;
    many self = {
        .check = check, .problems = problems, .count = count, .step = step, .context = context
    };
    const int threads = talc_threads() < THREADS ? talc_threads() : THREADS;
    if (!talc_device_is_host(check->device) && check->options.observe == NULL && threads > 1)
        return check_at_once(&self, threads);
    for (int64_t i = 0; i < count; i++) {
        if (step != NULL)
            step(context, problems[i]);
        if (!talc_check_problem(check, problems[i]))
            return false;
    }
    return true;
}
