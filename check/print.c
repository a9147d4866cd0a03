#include "check/results.h"

#include "check/text.h"
#include "tensor/shown.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *share_text(const talc_check_summary *s, char text[32])
{
    if (s->worst[0] == '\0')
        return "-";
    if (isfinite(s->share))
        snprintf(text, 32, "%.3g %%", 100 * s->share);
    else
        snprintf(text, 32, "infinite");
    return text;
}

static void print_rows(FILE *file, const talc_check *check)
{
    int op = 2, algorithm = 9, device = 6;
    for (int i = 0; i < check->summary_count; i++) {
        op = talc_check_longer(op, check->summaries[i].op);
        algorithm = talc_check_longer(algorithm, TALC_SHOWN(check->summaries[i].algorithm));
        device = talc_check_longer(device, check->summaries[i].device);
    }
    fprintf(file, "%-*s  %-*s  %-*s  %-8s  %8s  %8s  %8s  %8s  %12s\n", op, "op", algorithm,
            "algorithm", device, "device", "class", "problems", "refused", "checks", "failed",
            "worst share");
    for (int i = 0; i < check->summary_count; i++) {
        const talc_check_summary *s = &check->summaries[i];
        char share[32];
        fprintf(file,
                "%-*s  %-*s  %-*s  %-8s  %8" PRId64 "  %8" PRId64 "  %8" PRId64 "  %8" PRId64
                "  %12s\n",
                op, s->op, algorithm, TALC_SHOWN(s->algorithm), device, s->device,
                talc_precision_name(s->arithmetic.precision), s->problems, s->refused, s->checks,
                s->failed, share_text(s, share));
    }
}

void talc_check_print(FILE *file, const talc_check *check)
{
    if (file == NULL || check == NULL)
        return;
    print_rows(file, check);
    int64_t failed = 0;
    for (int i = 0; i < check->summary_count; i++)
        failed += check->summaries[i].failed;
    for (int i = 0; i < check->failure_count; i++) {
        const talc_check_failure *f = &check->failures[i];
        fprintf(file,
                "\n%s by %s on %s, %s: %s\n  talc check '%s' --device %s --algorithm %s --kinds %s "
                "--seed %" PRIu64 "\n",
                f->op, TALC_SHOWN(f->algorithm), f->device, talc_check_kind_name(f->kind),
                f->reason, f->problem, f->device, TALC_SHOWN(f->algorithm),
                talc_check_kind_name(f->kind), check->options.seed);
    }
    if (failed > check->failure_count)
        fprintf(file, "\nand %" PRId64 " failures more\n", failed - check->failure_count);
}
