#include "tools/cli/progress.h"

#include "tools/cli/tool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double REDRAW = 0.1; /* seconds */
enum { WIDTH = 30 };

static bool set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0';
}

progress progress_begin(int64_t total)
{
    const char *terminal = getenv("TERM");
    bool dumb = terminal != NULL && strcmp(terminal, "dumb") == 0;
    return (progress){ .total = total, .shown = isatty(STDERR_FILENO) && !dumb };
}

void progress_step(progress *self, const char *what)
{
    int64_t done = self->done++;
    double now = tool_clock();
    if (!self->shown || now - self->drawn < REDRAW)
        return;
    self->drawn = now;
    int filled = self->total > 0 ? (int)(WIDTH * done / self->total) : 0;
    filled = filled > WIDTH ? WIDTH : filled;
    char counts[64];
    const int used =
        WIDTH + 3 +
        snprintf(counts, sizeof counts, "%lld/%lld ", (long long)done, (long long)self->total);
    const int capacity = talc_line_width(stderr) - 1 - used; /* a full line would go on below */
    fprintf(stderr, "\r%s[%.*s%*s]%s %s%.*s\033[K", set("NO_COLOR") ? "" : "\033[36m", filled,
            "##############################", WIDTH - filled, "", set("NO_COLOR") ? "" : "\033[0m",
            counts, capacity < 0 ? 0 : capacity, what);
    fflush(stderr);
}

void progress_end(progress *self)
{
    if (self->shown && self->drawn > 0)
        fprintf(stderr, "\r\033[K");
    self->shown = false;
}
