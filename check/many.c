/// Many problems, on a device that is not the host's by several threads at once.
///
/// Each thread takes the next few problems and keeps what it finds in a check of its own; those are joined in the order of the
/// problems, so that nothing depends on who was faster.
#include "backends/backends.h"
#include "check/results.h"
#include "tensor/memory.h"
#include "tensor/storage.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 8, PART = 8 }; /* problems that are taken at a time */

typedef struct many {
    talc_check *check;
    const char *const *problems;
    int64_t count;
    void (*step)(void *context, const char *problem);
    void *context;
    pthread_mutex_t lock; /* of what follows */
    int64_t next;         /* part that nobody has taken */
    talc_check **parts;
    talc_status failure; /* of the first problem that could not be checked */
    int64_t failed;      /* its part */
    char message[1024];
} many;

static int64_t parts_of(const many *self)
{
    return (self->count + PART - 1) / PART;
}

/* The next part, -1 when there is none. */
static int64_t take(many *self)
{
    pthread_mutex_lock(&self->lock);
    const bool left = self->next < parts_of(self) && self->failure == TALC_OK;
    const int64_t part = left ? self->next++ : -1;
    pthread_mutex_unlock(&self->lock);
    return part;
}

static void begin(many *self, const char *problem)
{
    if (self->step == NULL)
        return;
    pthread_mutex_lock(&self->lock);
    self->step(self->context, problem);
    pthread_mutex_unlock(&self->lock);
}

/* Hands this thread's failure to the one that waits. */
static void give_up(many *self, int64_t part)
{
    pthread_mutex_lock(&self->lock);
    if (self->failure == TALC_OK || part < self->failed) {
        self->failure = talc_error_status();
        self->failed = part;
        snprintf(self->message, sizeof self->message, "%s", talc_error_message());
    }
    pthread_mutex_unlock(&self->lock);
    talc_error_clear();
}

static bool check_part(many *self, int64_t part, talc_check *check)
{
    bool done = true;
    for (int64_t i = part * PART; i < self->count && i < (part + 1) * PART && done; i++) {
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
    for (int64_t part; (part = take(self)) >= 0;) {
        talc_check *check = talc_check_new(&options);
        self->parts[part] = check;
        if (check == NULL || !check_part(self, part, check))
            give_up(self, part);
    }
    return NULL;
}

/* All parts up to the one with the failure, if there is one. */
static bool join(many *self)
{
    bool done = true;
    for (int64_t i = 0; i < parts_of(self); i++) {
        const bool counts =
            self->parts[i] != NULL && done && (self->failure == TALC_OK || i <= self->failed);
        if (counts)
            done = talc_check_join(self->check, self->parts[i]);
        talc_check_free(self->parts[i]);
    }
    if (done && self->failure != TALC_OK)
        talc_fail(self->failure, "%s", self->message);
    return done && self->failure == TALC_OK;
}

static bool check_at_once(many *self, int threads)
{
    pthread_t others[THREADS];
    int started = 0;
    self->parts = talc_memory_new((size_t)parts_of(self) * sizeof(talc_check *), "check");
    if (self->parts == NULL)
        return false;
    pthread_mutex_init(&self->lock, NULL);
    while (started + 1 < threads && pthread_create(&others[started], NULL, work, self) == 0)
        started++;
    work(self);
    for (int i = 0; i < started; i++)
        pthread_join(others[i], NULL);
    pthread_mutex_destroy(&self->lock);
    const bool done = join(self);
    talc_memory_free(self->parts);
    return done;
}

bool talc_check_problems(talc_check *check, const char *const *problems, int64_t count,
                         void (*step)(void *context, const char *problem), void *context)
{
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
