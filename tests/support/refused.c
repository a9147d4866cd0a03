#include "tests/support/refused.h"

#include "tests/support/fake_device.h"
#include "tests/support/hooks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WATCHED = 32 };

static struct {
    talc_tensor *tensor;
    talc_tensor record; /* the struct as it was */
    uint64_t version;
    void *bytes;
} watched[MAX_WATCHED];
static int watched_count;

static size_t live_cpu, live_fake;
static int rows, failed_rows;

static size_t live(talc_device *device)
{
    return talc_device_memory(device).live;
}

void refused_watch(talc_tensor *tensor)
{
    cr_assert(tensor != NULL && watched_count < MAX_WATCHED, "%s", talc_error_message());
    size_t bytes = talc_nbytes(tensor);
    void *copy = malloc(bytes + 1);
    cr_assert(talc_to_host(tensor, copy, bytes));
    watched[watched_count].tensor = tensor;
    watched[watched_count].record = *tensor;
    watched[watched_count].version = talc_version(tensor);
    watched[watched_count++].bytes = copy;
}

void refused_before(void)
{
    live_cpu = live(cpu_device());
    live_fake = live(fake_device());
}

static void row_fails(const char *file, int line, const char *call, const char *how,
                      const char *detail)
{
    failed_rows++;
    fprintf(stderr, "%s:%d: %s: %s%s\n", file, line, call, how, detail);
}

static void check_state(const char *file, int line, const char *call)
{
    rows++;
    if (live(cpu_device()) != live_cpu || live(fake_device()) != live_fake)
        row_fails(file, line, call, "it keeps memory", "");
    for (int i = 0; i < watched_count; i++) {
        const talc_tensor *tensor = watched[i].tensor;
        static char now[1 << 16];
        size_t bytes = talc_nbytes(tensor);
        cr_assert(bytes <= sizeof now);
        bool same = memcmp(tensor, &watched[i].record, sizeof *tensor) == 0 &&
                    talc_version(tensor) == watched[i].version;
        if (!same || !talc_to_host(tensor, now, bytes) || memcmp(now, watched[i].bytes, bytes) != 0)
            row_fails(file, line, call, "it changes an operand", "");
    }
}

static void after(const char *file, int line, const char *call, bool gave, talc_status status,
                  const char *message, size_t compared)
{
    if (gave || !talc_failed())
        row_fails(file, line, call, "it is not refused", "");
    else if (talc_error_status() != status)
        row_fails(file, line, call, "another status: ", talc_status_text(talc_error_status()));
    if (talc_failed() && strncmp(talc_error_message(), message, compared) != 0) {
        row_fails(file, line, call, "another message: ", talc_error_message());
        fprintf(stderr, "    expected: %s\n", message);
    }
    talc_error_clear();
    check_state(file, line, call);
}

void refused_after(const char *file, int line, const char *call, bool gave, talc_status status,
                   const char *message)
{
    after(file, line, call, gave, status, message, strlen(message) + 1);
}

void refused_after_like(const char *file, int line, const char *call, bool gave, talc_status status,
                        const char *beginning)
{
    after(file, line, call, gave, status, beginning, strlen(beginning));
}

void refused_harmless(const char *file, int line, const char *expression, bool holds)
{
    if (!holds || talc_failed())
        row_fails(file, line, expression, "it does not hold: ", talc_error_message());
    talc_error_clear();
    check_state(file, line, expression);
}

void refused_end(int at_least)
{
    for (int i = 0; i < watched_count; i++)
        free(watched[i].bytes);
    watched_count = 0;
    cr_assert(failed_rows == 0, "%d of %d rows failed", failed_rows, rows);
    cr_assert(rows >= at_least, "only %d rows ran, at least %d are expected", rows, at_least);
}
