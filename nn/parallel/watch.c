#include "nn/parallel/watch.h"

#include "tensor/memory.h"
#include "tensor/pool.h"
#include "tensor/recording.h"
#include "tensor/thread.h"

#include <stdio.h>
#include <string.h>

static const char *const WHO = "group";

/* Milliseconds between two looks. Seconds for the line to name the member behind the library's
 * trouble, for a thread to come out of a call before the call is aborted under it, and for a
 * member that has left to have been in the call all the same. */
enum { LOOK = 20, TO_NAME = 1, TO_RETURN = 1, TO_LEAVE = 5 };

struct talc_watch {
    talc_watched of;
    void *beside, *recorded; /* streams of the calls, and of those that are recorded */
    void *mark;              /* a stream that is idle once an earlier call is done */
    pthread_t thread;
    bool started, replays;   /* a replay is about to begin */
    struct talc_watch *next; /* that was kept */
    int64_t replayed;        /* calls, which the group does not count */
    pthread_mutex_t lock;    /* of what follows */
    bool ends, calling;      /* a thread is giving a call to the library */
    bool open, marked;       /* some call may not be done; some at `mark` */
    double since;            /* when nothing was known to be under way that is now */
    talc_place last;
    talc_place *others; /* [size]: where they said they are */
    bool *answered, *left;
    double roll_end; /* of the time to answer; 0: nobody was asked */
    double troubled; /* since when the library is in trouble; 0: it is not */
    char why[512];   /* the group is broken; empty: it works */
};

// ---- The watching thread ------------------------------------------------------------------------

/* Members that have heard it by then pay no heed. */
static void tell_broken(talc_watch *w, const char *why)
{
    char text[TALC_NOTICE_TEXT];
    snprintf(text, sizeof text, "rank %d has broken the group: %.190s", w->of.member.rank, why);
    talc_line_tell(w->of.line, TALC_NOTICE_BROKEN, 0, text);
}

/* With the lock, which is open meanwhile. What waits for the device raises this. */
static void break_off(talc_watch *w, const char *why)
{
    if (w->why[0] != '\0')
        return;
    snprintf(w->why, sizeof w->why, "%s", why);
    tell_broken(w, w->why);
    __atomic_store_n(&w->of.device->spoiled, w->why, __ATOMIC_RELEASE);
    for (const double end = talc_roll_now() + TO_RETURN; w->calling && talc_roll_now() < end;) {
        pthread_mutex_unlock(&w->lock);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    w->of.stop(w->of.context);
    pthread_mutex_lock(&w->lock);
}

static void break_by(talc_watch *w, const char *reason)
{
    char why[sizeof w->why];
    snprintf(why, sizeof why, "%s: %.300s", w->last.what, reason);
    break_off(w, why);
}

static void call_roll(talc_watch *w)
{
    w->roll_end = talc_roll_now() + TALC_ROLL_PATIENCE;
    w->answered[w->of.member.rank] = true;
    talc_line_tell(w->of.line, TALC_NOTICE_ROLL, w->last.number, w->last.what);
}

static void take(talc_watch *w, const talc_notice *notice)
{
    if (notice->from < 0 || notice->from >= w->of.member.size)
        return;
    switch (notice->kind) {
    case TALC_NOTICE_BROKEN:
        break_by(w, notice->text);
        break;
    case TALC_NOTICE_LEFT:
        w->left[notice->from] = true;
        break;
    case TALC_NOTICE_ROLL:
    case TALC_NOTICE_PLACE:
        w->others[notice->from].number = notice->number;
        snprintf(w->others[notice->from].what, sizeof w->others->what, "%.*s",
                 (int)sizeof w->others->what - 1, notice->text);
        w->answered[notice->from] = true;
        if (notice->kind == TALC_NOTICE_ROLL && w->roll_end == 0 && w->open)
            call_roll(w);
        else if (notice->kind == TALC_NOTICE_ROLL && w->roll_end == 0)
            talc_line_tell(w->of.line, TALC_NOTICE_PLACE, w->last.number, w->last.what);
        break;
    default:
        break;
    }
}

/* What the mark says of calls before it, and the stream of those that nothing was marked after. */
static void look_at_calls(talc_watch *w)
{
    talc_device *device = w->of.device;
    if (w->open && w->marked && device->interface->stream_idle(device, w->mark)) {
        w->marked = false;
        w->since = talc_roll_now();
    }
    if (w->open && !w->marked && !w->calling && device->interface->stream_idle(device, w->beside)) {
        w->open = false;
        w->roll_end = 0;
        memset(w->answered, 0, (size_t)w->of.member.size * sizeof *w->answered);
    }
}

/* All but rank 0 hear of each other through rank 0: when that is silent, it alone is known to be
 * so. */
static void end_roll(talc_watch *w)
{
    bool all = true;
    for (int rank = 0; rank < w->of.member.size; rank++)
        all = all && w->answered[rank];
    if (!all && talc_roll_now() < w->roll_end)
        return;
    for (int rank = 1; rank < w->of.member.size && !w->answered[0]; rank++)
        w->answered[rank] = true;
    talc_roll_fail(&w->of.member, &w->last, w->others, w->answered, w->of.timeout);
    break_off(w, talc_error_message());
    talc_error_clear();
}

static void look(talc_watch *w)
{
    const double now = talc_roll_now();
    look_at_calls(w);
    const char *trouble = w->of.trouble(w->of.context);
    if (trouble == NULL)
        w->troubled = 0;
    else if (w->troubled == 0)
        w->troubled = now;
    else if (now > w->troubled + TO_NAME)
        break_by(w, trouble);
    for (int rank = 0; rank < w->of.member.size; rank++)
        if (w->left[rank] && w->open && now > w->since + TO_LEAVE) {
            char text[64];
            snprintf(text, sizeof text, "rank %d of %d has left the group", rank,
                     w->of.member.size);
            break_by(w, text);
        }
    if (w->open && w->roll_end == 0 && now > w->since + w->of.timeout)
        call_roll(w);
    if (w->open && w->roll_end != 0)
        end_roll(w);
}

static void *watch(void *context)
{
    talc_watch *w = context;
    for (bool over = false; !over;) {
        talc_notice notice;
        const bool told = talc_line_hear(w->of.line, &notice, LOOK);
        pthread_mutex_lock(&w->lock);
        if (told)
            take(w, &notice);
        if (w->why[0] == '\0')
            look(w);
        over = w->ends || w->why[0] != '\0';
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

// ---- Calls --------------------------------------------------------------------------------------

bool talc_watch_works(talc_watch *w)
{
    pthread_mutex_lock(&w->lock);
    if (w->why[0] != '\0')
        talc_fail(TALC_PEER_LOST, "%s", w->why);
    pthread_mutex_unlock(&w->lock);
    return !talc_failed();
}

void *talc_watch_stream(const talc_watch *w)
{
    return talc_recording_records_step(w->of.device) ? w->recorded : w->beside;
}

static bool order(talc_watch *w, void *stream, bool back)
{
    talc_device *device = w->of.device;
    return device->interface->stream_wait(device, stream, back) == TALC_OK;
}

/* A call of recorded work, at each replay of it. */
typedef struct replayed {
    talc_watch *watch;
    char what[sizeof((talc_place *)NULL)->what];
} replayed;

/* A call is on its way until talc_watch_begun: no look takes its idle stream for its end. */
static void open_at(talc_watch *w, int64_t number, const char *what)
{
    pthread_mutex_lock(&w->lock);
    w->last.number = number;
    snprintf(w->last.what, sizeof w->last.what, "%s", what);
    if (!w->open)
        w->since = talc_roll_now();
    w->open = true;
    w->calling = true;
    pthread_mutex_unlock(&w->lock);
}

/* Where nothing is marked, the thread's work so far is. */
static bool mark(talc_watch *w)
{
    pthread_mutex_lock(&w->lock);
    const bool needed = !w->marked;
    pthread_mutex_unlock(&w->lock);
    if (!needed)
        return true;
    const bool ok = order(w, w->mark, false);
    pthread_mutex_lock(&w->lock);
    w->marked = true;
    pthread_mutex_unlock(&w->lock);
    return ok;
}

static bool may_replay(const void *of, void *numbers)
{
    (void)numbers;
    talc_watch *w = ((const replayed *)of)->watch;
    w->replays = true;
    return talc_watch_works(w);
}

static void note_replay(const void *of)
{
    const replayed *r = of;
    talc_watch *w = r->watch;
    w->replayed++;
    open_at(w, w->last.number + 1, r->what);
    if (w->replays)
        (void)(order(w, w->beside, false) && mark(w));
    w->replays = false;
    talc_watch_begun(w);
}

bool talc_watch_begin(talc_watch *w, int64_t number, const char *what)
{
    talc_device *device = w->of.device;
    if (!talc_watch_works(w))
        return false;
    if (talc_recording_records_step(device)) {
        replayed *r = talc_memory_new(sizeof *r, WHO);
        if (r == NULL)
            return false;
        r->watch = w;
        snprintf(r->what, sizeof r->what, "%s", what);
        if (talc_recording_numbers(&(talc_numbers){ 0, may_replay, note_replay, r }) == NULL)
            return false;
    } else if (!talc_recording_of_step(device) &&
               talc_recording_refuses(what, device, "call other processes")) {
        return false;
    }
    open_at(w, number + w->replayed, what);
    if (order(w, talc_watch_stream(w), false))
        return true;
    talc_watch_begun(w);
    return false;
}

void talc_watch_begun(talc_watch *w)
{
    pthread_mutex_lock(&w->lock);
    w->calling = false;
    pthread_mutex_unlock(&w->lock);
}

bool talc_watch_wait(talc_watch *w)
{
    return order(w, talc_watch_stream(w), true) &&
           (talc_recording_records_step(w->of.device) || mark(w)) && talc_watch_works(w);
}

// ---- Making and freeing -------------------------------------------------------------------------

talc_watch *talc_watch_new(const talc_watched *watched)
{
    talc_device *device = watched->device;
    const size_t size = (size_t)watched->member.size;
    talc_watch *w = talc_memory_new(sizeof *w, WHO);
    if (w == NULL)
        return NULL;
    w->of = *watched;
    snprintf(w->last.what, sizeof w->last.what, "%s", WHO);
    pthread_mutex_init(&w->lock, NULL);
    w->others = talc_memory_new(size * sizeof *w->others, WHO);
    w->answered = talc_memory_new(size * sizeof *w->answered, WHO);
    w->left = talc_memory_new(size * sizeof *w->left, WHO);
    if (!talc_failed() && (w->beside = device->interface->stream_new(device)) != NULL &&
        (w->recorded = device->interface->stream_new(device)) != NULL &&
        (w->mark = device->interface->stream_new(device)) != NULL) {
        w->started = talc_thread_start(&w->thread, watch, w);
        if (!w->started)
            talc_fail(TALC_NO_MEMORY, "%s: there is no thread to be had", WHO);
    }
    if (w->started)
        return w;
    talc_watch_free(w);
    return NULL;
}

bool talc_watch_end(talc_watch *w, bool in_peace)
{
    talc_device *device = w->of.device;
    if (in_peace)
        (void)device->interface->synchronize(device);
    pthread_mutex_lock(&w->lock);
    w->ends = true;
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    const bool aborted = w->why[0] != '\0';
    in_peace = in_peace && !aborted && !talc_failed();
    if (in_peace)
        talc_line_tell(w->of.line, TALC_NOTICE_LEFT, 0, "");
    else if (!aborted) {
        tell_broken(w, talc_error_message());
        w->of.stop(w->of.context);
    }
    const char *spoiled = w->why;
    (void)__atomic_compare_exchange_n(&device->spoiled, &spoiled, NULL, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE);
    return in_peace;
}

/* Broken watches stay: recorded steps and threads that wait for the device may still read why. */
static talc_watch *kept;
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;

void talc_watch_free(talc_watch *w)
{
    if (w == NULL)
        return;
    talc_device *device = w->of.device;
    void *const streams[] = { w->beside, w->recorded, w->mark };
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i] != NULL)
            device->interface->stream_free(device, streams[i]);
    talc_memory_free(w->others);
    talc_memory_free(w->answered);
    talc_memory_free(w->left);
    if (w->why[0] != '\0') {
        pthread_mutex_lock(&keeping);
        w->next = kept;
        kept = w;
        pthread_mutex_unlock(&keeping);
        return;
    }
    pthread_mutex_destroy(&w->lock);
    talc_memory_free(w);
}
