#include "check/engine/results.h"

#include "backends/backends.h"
#include "check/engine/text.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"
#include "tensor/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// ---- A check ------------------------------------------------------------------------------------

talc_check *talc_check_new(const talc_check_options *options)
{
    static const talc_check_options none = { .device = NULL };
    options = options == NULL ? &none : options;
    talc_device *device = options->device == NULL ? talc_device_default() : options->device;
    if (talc_failed() || device == NULL)
        return NULL;
    if ((options->kinds >> TALC_CHECK_KIND_COUNT) != 0) {
        talc_fail(TALC_BAD_ARGUMENT, "check: kinds 0x%llx has bits beyond the %d kinds there are",
                  (unsigned long long)options->kinds, TALC_CHECK_KIND_COUNT);
        return NULL;
    }
    talc_check *check = talc_memory_new(sizeof *check, "check");
    if (check != NULL) {
        check->options = *options;
        check->device = device;
    }
    return check;
}

void talc_check_free(talc_check *check)
{
    if (check == NULL)
        return;
    talc_memory_free(check->summaries);
    talc_memory_free(check->tallies);
    talc_memory_free(check->failures);
    talc_memory_free(check);
}

// ---- What it has found --------------------------------------------------------------------------

/* The summary of an op's algorithm, or NULL. Summaries hold of a long name what they have room
 * for. */
static talc_check_summary *summary_found(const talc_check *check, const char *op,
                                         const char *algorithm, talc_precision precision)
{
    for (int i = 0; i < check->summary_count; i++) {
        talc_check_summary *known = &check->summaries[i];
        if (strncmp(known->op, op, sizeof known->op - 1) == 0 &&
            strncmp(known->algorithm, algorithm, sizeof known->algorithm - 1) == 0 &&
            known->arithmetic.precision == precision)
            return known;
    }
    return NULL;
}

static talc_check_summary *summary_added(talc_check *check, const talc_check_summary *summary)
{
    talc_check_summary *list = talc_memory_grown(check->summaries, (size_t)check->summary_count,
                                                 &check->summary_capacity, sizeof *list, "check");
    if (list == NULL)
        return NULL;
    check->summaries = list;
    check_tally *tallies = talc_memory_grown(check->tallies, (size_t)check->summary_count,
                                             &check->tally_capacity, sizeof *tallies, "check");
    if (tallies == NULL)
        return NULL;
    check->tallies = tallies;
    tallies[check->summary_count] = (check_tally){ 0 };
    list[check->summary_count] = *summary;
    return &list[check->summary_count++];
}

talc_check_summary *talc_check_summary_of(talc_check *check, const char *op,
                                          const talc_algorithm *algorithm)
{
    char title[TALC_ALGORITHM_TEXT];
    talc_check_summary *found = summary_found(check, op, talc_algorithm_text(algorithm, title),
                                              algorithm->arithmetic.precision);
    if (found != NULL)
        return found;
    talc_check_summary summary = { .name = algorithm->name,
                                   .form = algorithm->form,
                                   .arithmetic = algorithm->arithmetic };
    snprintf(summary.op, sizeof summary.op, "%s", op);
    snprintf(summary.algorithm, sizeof summary.algorithm, "%s", title);
    snprintf(summary.device, sizeof summary.device, "%s", check->device->name);
    return summary_added(check, &summary);
}

check_tally *talc_check_tally_of(talc_check *check, const char *op, const talc_algorithm *algorithm)
{
    char title[TALC_ALGORITHM_TEXT];
    return &check->tallies[summary_found(check, op, talc_algorithm_text(algorithm, title),
                                         algorithm->arithmetic.precision) -
                           check->summaries];
}

static bool add_failure(talc_check *check, const talc_check_failure *failure)
{
    if (check->failure_count == CHECK_MAX_FAILURES)
        return true;
    talc_check_failure *list = talc_memory_grown(check->failures, (size_t)check->failure_count,
                                                 &check->failure_capacity, sizeof *list, "check");
    if (list == NULL)
        return false;
    check->failures = list;
    list[check->failure_count++] = *failure;
    return true;
}

static bool keep_failure(talc_check *check, const talc_check_outcome *outcome)
{
    talc_check_failure failure = { .kind = outcome->kind, .terms = outcome->terms };
    snprintf(failure.op, sizeof failure.op, "%s", outcome->op);
    snprintf(failure.algorithm, sizeof failure.algorithm, "%s", outcome->algorithm);
    snprintf(failure.device, sizeof failure.device, "%s", outcome->device);
    snprintf(failure.problem, sizeof failure.problem, "%s", outcome->problem);
    snprintf(failure.reason, sizeof failure.reason, "%s", outcome->reason);
    return add_failure(check, &failure);
}

/* Of shares that are alike the first counts. */
static bool add_summary(talc_check *check, const talc_check_summary *part, const check_tally *tally)
{
    talc_check_summary *whole =
        summary_found(check, part->op, part->algorithm, part->arithmetic.precision);
    if (whole == NULL) {
        whole = summary_added(check, part);
        if (whole != NULL)
            check->tallies[whole - check->summaries] = *tally;
        return whole != NULL;
    }
    talc_check_tally_join(&check->tallies[whole - check->summaries], tally);
    whole->problems += part->problems;
    whole->refused += part->refused;
    whole->checks += part->checks;
    whole->failed += part->failed;
    if (part->worst[0] != '\0' && (whole->worst[0] == '\0' || part->share > whole->share)) {
        whole->share = part->share;
        whole->worst_kind = part->worst_kind;
        snprintf(whole->worst, sizeof whole->worst, "%s", part->worst);
    }
    return true;
}

bool talc_check_join(talc_check *check, const talc_check *part)
{
    bool done = true;
    for (int i = 0; i < part->summary_count && done; i++)
        done = add_summary(check, &part->summaries[i], &part->tallies[i]);
    for (int i = 0; i < part->failure_count && done; i++)
        done = add_failure(check, &part->failures[i]);
    check->unmade += part->unmade;
    check->untaken += part->untaken;
    return done;
}

bool talc_check_record(talc_check *check, const talc_algorithm *algorithm,
                       const talc_check_outcome *outcome)
{
    talc_check_summary *summary = talc_check_summary_of(check, outcome->op, algorithm);
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

int64_t talc_check_untaken(const talc_check *check)
{
    return check == NULL ? 0 : check->untaken;
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

// ---- Printing -----------------------------------------------------------------------------------

const char *talc_check_kind_name(talc_check_kind kind)
{
    static const char *const names[] = {
        "exact",     "random",  "constant", "wide",      "huge",       "tiny",      "nan",
        "infinity",  "guards",  "inputs",   "trust",     "misaligned", "workspace", "rerun",
        "threads",   "fenv",    "status",   "batch",     "groups",     "dilation",  "stride",
        "pointwise", "padding", "adjoint",  "linearity", "shift",
    };
    _Static_assert(sizeof names / sizeof *names == TALC_CHECK_KIND_COUNT, "a name for every kind");
    return (unsigned)kind < TALC_CHECK_KIND_COUNT ? names[kind] : "?";
}

static const char *share_text(const talc_check_summary *s, char text[TALC_CELL_TEXT])
{
    if (s->worst[0] == '\0')
        return "-";
    if (isfinite(s->share))
        snprintf(text, TALC_CELL_TEXT, "%.3g %%", 100 * s->share);
    else
        snprintf(text, TALC_CELL_TEXT, "infinite");
    return text;
}

enum { OP, ALGORITHM, DEVICE, CLASS, PROBLEMS, REFUSED, CHECKS, FAILED, WORST, COLUMNS };

static const char *cell(const void *context, int64_t row, int column, char text[TALC_CELL_TEXT])
{
    const talc_check_summary *s = &((const talc_check *)context)->summaries[row];
    switch (column) {
    case OP:
        return s->op;
    case ALGORITHM:
        return talc_shown(s->algorithm, SIZE_MAX, text, TALC_SHOWN_TEXT);
    case DEVICE:
        return s->device;
    case CLASS:
        return talc_precision_name(s->arithmetic.precision);
    case WORST:
        return share_text(s, text);
    default:
        snprintf(text, TALC_CELL_TEXT, "%" PRId64,
                 column == PROBLEMS  ? s->problems
                 : column == REFUSED ? s->refused
                 : column == CHECKS  ? s->checks
                                     : s->failed);
        return text;
    }
}

static void print_rows(FILE *file, const talc_check *check)
{
    static const talc_column columns[COLUMNS] = {
        { "op", TALC_COLUMN_NAME },         { "algorithm", TALC_COLUMN_NAME },
        { "on", TALC_COLUMN_WHOLE },        { "class", TALC_COLUMN_WHOLE },
        { "problems", TALC_COLUMN_NUMBER }, { "refused", TALC_COLUMN_NUMBER },
        { "checks", TALC_COLUMN_NUMBER },   { "failed", TALC_COLUMN_NUMBER },
        { "worst", TALC_COLUMN_NUMBER },
    };
    talc_table_print(file, &(talc_table){ .count = COLUMNS,
                                          .columns = columns,
                                          .rows = check->summary_count,
                                          .cell = cell,
                                          .context = check });
}

/* Failures that a report shows of an algorithm, each of another problem. */
enum { SHOWN_FAILURES = 3 };

static bool is_of(const talc_check_failure *failure, const talc_check_summary *summary)
{
    return strcmp(failure->op, summary->op) == 0 &&
           strcmp(failure->algorithm, summary->algorithm) == 0;
}

/* What an algorithm does to other problems comes last: relations pose variants. */
static bool comes_before(const talc_check_failure *a, const talc_check_failure *b)
{
    const bool a_relates = a->kind > TALC_CHECK_STATUS, b_relates = b->kind > TALC_CHECK_STATUS;
    return a_relates != b_relates ? b_relates
           : a->terms != b->terms ? a->terms < b->terms
                                  : a->kind < b->kind;
}

/* The next failure of an algorithm to show, of a problem that is not among the `count` shown; NULL
 * after the last. */
static const talc_check_failure *next_failure(const talc_check *check,
                                              const talc_check_summary *summary,
                                              const talc_check_failure *const *shown, int count)
{
    const talc_check_failure *next = NULL;
    for (int i = 0; i < check->failure_count; i++) {
        const talc_check_failure *f = &check->failures[i];
        bool open = is_of(f, summary) && (next == NULL || comes_before(f, next));
        for (int k = 0; k < count && open; k++)
            open = strcmp(f->problem, shown[k]->problem) != 0;
        next = open ? f : next;
    }
    return next;
}

static void print_failure(FILE *file, const talc_check *check, const talc_check_failure *f,
                          bool own)
{
    const char *kind = talc_check_kind_name(f->kind);
    talc_print_wrapped(file, 4, "  %s: %s", kind, f->reason);
    fprintf(file, "    ");
    if (!own)
        fprintf(file,
                "talc check%s%s '%s' --device %s --algorithm %s --kinds %s --seed %" PRIu64 "\n",
                check->options.arguments == NULL ? "" : " ",
                check->options.arguments == NULL ? "" : check->options.arguments, f->problem,
                f->device, TALC_SHOWN(f->algorithm), kind, check->options.seed);
    else if (check->options.command != NULL)
        fprintf(file, "%s '%s'\n", check->options.command, f->problem);
    else
        fprintf(file,
                "talc_check_algorithm(check, \"%s\", &algorithm), kinds 1 << %d, seed %" PRIu64
                "\n",
                f->problem, (int)f->kind, check->options.seed);
}

static void print_failures(FILE *file, const talc_check *check, int algorithm)
{
    const talc_check_summary *s = &check->summaries[algorithm];
    const check_tally *tally = &check->tallies[algorithm];
    const talc_check_failure *shown[SHOWN_FAILURES];
    char text[CHECK_TRAITS_TEXT];
    fputc('\n', file);
    talc_print_wrapped(file, 2, "%s by %s on %s: %" PRId64 " of %" PRId64 " problems fail%s", s->op,
                       TALC_SHOWN(s->algorithm), s->device, tally->failed, tally->ran,
                       tally->failed == 0 ? ", but relations between some and their variants do"
                                          : talc_check_traits_text(tally, text));
    int count = 0;
    const talc_check_failure *f;
    while (count < SHOWN_FAILURES && (f = next_failure(check, s, shown, count)) != NULL) {
        print_failure(file, check, f, tally->own);
        shown[count++] = f;
    }
    if (s->failed > count)
        fprintf(file, "  and %" PRId64 " more failures\n", s->failed - count);
}

void talc_check_print(FILE *file, const talc_check *check)
{
    TALC_DEFAULT_FENV;
    if (file == NULL || check == NULL)
        return;
    print_rows(file, check);
    for (int i = 0; i < check->summary_count; i++)
        if (check->summaries[i].failed > 0)
            print_failures(file, check, i);
}
