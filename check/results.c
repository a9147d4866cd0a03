#include "check/results.h"

#include "tensor/memory.h"

#include <math.h>
#include <string.h>

/* Makes room for one more of `size` bytes; the first `count` stay. */
static void *grown(void *list, int count, int *room, size_t size)
{
    if (count < *room)
        return list;
    const int more = *room == 0 ? 16 : 2 * *room;
    void *bigger = talc_memory_new((size_t)more * size, "check");
    if (bigger == NULL)
        return NULL;
    if (count > 0)
        memcpy(bigger, list, (size_t)count * size);
    talc_memory_free(list);
    *room = more;
    return bigger;
}

talc_check_summary *talc_check_summary_of(talc_check *check, const char *op,
                                          const talc_algorithm *row)
{
    for (int i = 0; i < check->summary_count; i++)
        if (strcmp(check->summaries[i].op, op) == 0 &&
            strcmp(check->summaries[i].algorithm, row->name) == 0)
            return &check->summaries[i];
    talc_check_summary *list = grown(check->summaries, check->summary_count, &check->summary_room,
                                     sizeof *check->summaries);
    if (list == NULL)
        return NULL;
    check->summaries = list;
    talc_check_summary *summary = &list[check->summary_count++];
    *summary = (talc_check_summary){ .arithmetic = row->arithmetic };
    snprintf(summary->op, sizeof summary->op, "%s", op);
    snprintf(summary->algorithm, sizeof summary->algorithm, "%s", row->name);
    snprintf(summary->device, sizeof summary->device, "%s", check->device->name);
    return summary;
}

static bool keep_failure(talc_check *check, const talc_check_outcome *outcome)
{
    if (check->failure_count == CHECK_MOST_FAILURES)
        return true;
    talc_check_failure *list =
        grown(check->failures, check->failure_count, &check->failure_room, sizeof *check->failures);
    if (list == NULL)
        return false;
    check->failures = list;
    talc_check_failure *failure = &list[check->failure_count++];
    *failure = (talc_check_failure){ .kind = outcome->kind };
    snprintf(failure->op, sizeof failure->op, "%s", outcome->op);
    snprintf(failure->algorithm, sizeof failure->algorithm, "%s", outcome->algorithm);
    snprintf(failure->device, sizeof failure->device, "%s", outcome->device);
    snprintf(failure->problem, sizeof failure->problem, "%s", outcome->problem);
    snprintf(failure->reason, sizeof failure->reason, "%s", outcome->reason);
    return true;
}

bool talc_check_note(talc_check *check, const talc_algorithm *row,
                     const talc_check_outcome *outcome)
{
    talc_check_summary *summary = talc_check_summary_of(check, outcome->op, row);
    if (summary == NULL)
        return false;
    summary->checks++;
    summary->failed += !outcome->passed;
    const bool bounded = outcome->compared > 0 && outcome->kind != TALC_CHECK_EXACT;
    if (bounded && (summary->worst[0] == '\0' || outcome->share > summary->share)) {
        summary->share = outcome->share;
        summary->worst_kind = outcome->kind;
        snprintf(summary->worst, sizeof summary->worst, "%s", outcome->problem);
    }
    if (!outcome->passed && !keep_failure(check, outcome))
        return false;
    if (check->options.observe != NULL)
        check->options.observe(check->options.context, outcome);
    return true;
}

int talc_check_summary_count(const talc_check *check)
{
    return check == NULL ? 0 : check->summary_count;
}

const talc_check_summary *talc_check_summary_at(const talc_check *check, int index)
{
    return check != NULL && index >= 0 && index < check->summary_count ? &check->summaries[index]
                                                                       : NULL;
}

int talc_check_failure_count(const talc_check *check)
{
    return check == NULL ? 0 : check->failure_count;
}

const talc_check_failure *talc_check_failure_at(const talc_check *check, int index)
{
    return check != NULL && index >= 0 && index < check->failure_count ? &check->failures[index]
                                                                       : NULL;
}

bool talc_check_passed(const talc_check *check)
{
    int64_t checks = 0, failed = 0;
    for (int i = 0; check != NULL && i < check->summary_count; i++) {
        checks += check->summaries[i].checks;
        failed += check->summaries[i].failed;
    }
    return checks > 0 && failed == 0 && check->unmade == 0;
}
