/// Threads that compute while the process ends, and while it forks. Exits with 0 when every process
/// ended as it should.
#include <talc/talc.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ENDS = 40, AT_ONCE = 8, FORKS = 100, THREADS = 3, PATIENCE = 20 };

static const char *device_name;

static void pause_for(long microseconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = microseconds * 1000 }, NULL);
}

/* A sum of 72 products of ones, for every algorithm that is not forced to be another. */
static bool convolves(talc_device *device)
{
    talc_scope *scope = talc_scope_enter();
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(1, 8, 24, 24));
    talc_tensor *w = talc_ones(device, TALC_F32, TALC_DIMS(8, 8, 3, 3));
    talc_tensor *y = talc_conv2d(x, w, NULL, NULL);
    const bool right = talc_item(talc_mean(y, TALC_SCALAR, false)) == 72;
    talc_scope_leave(scope);
    return right;
}

/* On this device, or on one that each thread asks for itself. */
static void *convolve_for_ever(void *device)
{
    while (convolves(device == NULL ? talc_device_get(device_name) : device) || talc_failed())
        talc_error_clear();
    return NULL;
}

static void start_threads(talc_device *device)
{
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, convolve_for_ever, device) == 0)
            pthread_detach(thread);
    }
}

/* 0 when the child exits with 0 in time. */
static int failures_of(pid_t child, const char *what, int number)
{
    int status = 1;
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) == 0)
        return 0;
    fprintf(stderr, "processes: %s %d: %s %d\n", what, number,
            WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return 1;
}

static void convolve_at_exit(void)
{
    if (!convolves(talc_device_get("cpu")))
        _Exit(3);
}

/* Main returns while other threads are anywhere in an op, some of them in the first use of the
 * device, and computes once more in an exit handler of its own. */
static int ends(void)
{
    int failures = 0;
    for (int i = 0; i < ENDS; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(PATIENCE);
            atexit(convolve_at_exit);
            const bool opens = i % 4 != 1;
            talc_device *device = opens ? talc_device_get(device_name) : NULL;
            start_threads(device);
            pause_for(i < AT_ONCE ? 0 : i * 500);
            exit(opens && device == NULL ? 2 : 0);
        }
        failures += failures_of(child, "end", i);
    }
    return failures;
}

/* A child of a process whose threads compute uses the CPU; the parent's GPU is refused at once, and
 * freeing its tensors is safe. */
static int child_of(talc_device *device, talc_tensor *kept)
{
    alarm(PATIENCE);
    if (!convolves(talc_device_get("cpu")))
        return 2;
    if (!talc_device_is_host(device) && (talc_neg(kept) != NULL || !talc_failed()))
        return 3;
    talc_release(kept);
    return 0;
}

static int forks(void)
{
    int failures = 0;
    talc_device *device = talc_device_get(device_name);
    talc_tensor *kept = talc_retain(talc_ones(device, TALC_F32, TALC_DIMS(100)));
    start_threads(device);
    for (int i = 0; i < FORKS; i++) {
        pause_for(i * 20);
        const pid_t child = fork();
        if (child == 0)
            exit(child_of(device, kept));
        failures += failures_of(child, "fork", i);
    }
    return failures;
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return 77; /* skipped: its allocator may be locked for ever in a child of a process whose
                  threads allocate */
#endif
    device_name = getenv("TALC_TEST_DEVICE");
    device_name = device_name == NULL ? "cpu" : device_name;
    /* The first leave this process without any device, so they come first. */
    return ends() + forks() == 0 ? 0 : 1;
}
