/* Preloaded, it runs a program once for each allocation that the program makes, by whatever
 * library, and lets that one fail: the k-th, for k = 1, 1 + STEP, ..., or all from the k-th on. The
 * last run is one in which nothing failed. None fails while a library is opened: libgfortran's
 * constructor, which comes with OpenBLAS, ends the process then.
 *
 * FAILING_MEMORY is "STEP ALL FOLDER", ALL 0 or 1. Each run writes FOLDER/K.out and FOLDER/K.err;
 * FOLDER/codes has a line "K CODE" for each, CODE being less the signal that ended it. */
#define _GNU_SOURCE /* RTLD_NEXT */

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_long asked;
static long fail_at, all_later;
static atomic_bool *fired; /* the parent sees it too */

static atomic_bool opening;

static bool fails(void)
{
    if (fail_at == 0 || atomic_load(&opening))
        return false;
    const long k = atomic_fetch_add(&asked, 1) + 1;
    if (k != fail_at && !(all_later && k > fail_at))
        return false;
    atomic_store(fired, true);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return fails() ? NULL : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    void *got = aligned_alloc(alignment, bytes);
    if (got == NULL)
        return ENOMEM;
    *memory = got;
    return 0;
}

void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int);
    *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    atomic_store(&opening, true);
    void *library = real(name, flags);
    atomic_store(&opening, false);
    return library;
}

static void redirect(const char *folder, const char *what, FILE *stream)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%ld.%s", folder, fail_at, what);
    if (freopen(path, "w", stream) == NULL)
        _exit(99);
}

/* Returns in the children alone, which go on to main. */
__attribute__((constructor)) static void run_for_each(void)
{
    const char *text = getenv("FAILING_MEMORY");
    long step;
    char folder[3000], path[4096];
    if (text == NULL || sscanf(text, "%ld %ld %2999s", &step, &all_later, folder) != 3)
        _exit(99);
    fired = mmap(NULL, sizeof *fired, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(path, sizeof path, "%s/codes", folder);
    FILE *codes = fopen(path, "w");
    if (fired == MAP_FAILED || codes == NULL)
        _exit(99);
    int status = 0;
    atomic_store(fired, true);
    for (long k = 1; atomic_load(fired); k += step) {
        atomic_store(fired, false);
        (void)fflush(codes);
        const pid_t child = fork();
        if (child == 0) {
            alarm(60);
            fail_at = k;
            redirect(folder, "out", stdout);
            redirect(folder, "err", stderr);
            atomic_store(&asked, 0);
            return;
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            _exit(99);
        fprintf(codes, "%ld %d\n", k, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    }
    fclose(codes);
    _exit(0);
}
