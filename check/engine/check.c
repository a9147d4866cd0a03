#include "check/check.h"

#include "backends/backends.h"
#include "check/engine/data.h"
#include "check/engine/verdict.h"
#include "check/engine/machine.h"
#include "check/conv2d/properties.h"
#include "check/engine/results.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"
#include "tensor/table.h"

#include <math.h>
#include <string.h>

enum { MAX_ALGORITHMS = 32 };

static bool wanted(const talc_check *check, talc_check_kind kind)
{
    return check->options.kinds == 0 || (check->options.kinds >> kind & 1) != 0;
}

// ---- One problem --------------------------------------------------------------------------------

/* A run of a large problem may take seconds, and of the algorithms that add up in f64, the
 * yardsticks, minutes: those are judged on exact data alone. */
static bool is_large(double terms)
{
    return terms > CHECK_FULL_TERMS;
}

/* A problem, its data and the algorithms that try it. */
typedef struct session {
    talc_check *check;
    const check_direction *direction;
    check_problem problem;
    char text[TALC_CHECK_TEXT];
    check_oracle oracle;
    check_values values, results, others;
    check_buffers buffers;
    double terms;
    int algorithm_count;
    const talc_algorithm *algorithms[MAX_ALGORITHMS];
    char titles[MAX_ALGORITHMS][TALC_ALGORITHM_TEXT];
    talc_check_outcome guards[MAX_ALGORITHMS], inputs[MAX_ALGORITHMS], fenv[MAX_ALGORITHMS],
        status[MAX_ALGORITHMS];  /* of all its runs */
    bool failed[MAX_ALGORITHMS]; /* but for relations */
    bool own;                    /* the algorithm is in no table */
    int64_t unwritten;           /* elements of outputs, in the last run */
} session;

static const char *plan_of(const session *s, int algorithm, size_t limit, talc_plan *plan)
{
    return talc_check_plan(s->direction, s->algorithms[algorithm], s->check->device, &s->problem,
                           limit, plan);
}

static talc_check_outcome outcome_new(const session *s, int algorithm, talc_check_kind kind)
{
    return (talc_check_outcome){ .op = talc_check_op(s->direction, &s->problem),
                                 .algorithm = s->titles[algorithm],
                                 .device = s->check->device->name,
                                 .problem = s->text,
                                 .kind = kind,
                                 .passed = true,
                                 .place = "",
                                 .output = "" };
}

static bool record(session *s, int algorithm, talc_check_outcome *outcome)
{
    if (!wanted(s->check, outcome->kind))
        return true;
    outcome->terms = s->terms;
    s->failed[algorithm] |= !outcome->passed && outcome->kind <= TALC_CHECK_STATUS;
    return talc_check_record(s->check, s->algorithms[algorithm], outcome);
}

static void blame(talc_check_outcome *outcome, const char *format, const char *what,
                  const char *when)
{
    if (outcome->passed)
        snprintf(outcome->reason, sizeof outcome->reason, format, what, when);
    outcome->passed = false;
}

/* Runs an algorithm and notes a failure, a write outside its outputs and a changed input. *ran:
 * whether there are results. */
static bool run(session *s, int algorithm, const check_run_options *options,
                const check_values *results, const char *when, bool *ran)
{
    check_run_report report;
    if (!talc_check_run(s->direction, s->algorithms[algorithm], s->check->device, &s->problem,
                        &s->values, options, &s->buffers, results, &report))
        return false;
    if (report.status != TALC_OK)
        blame(&s->status[algorithm], "it failed: %s (%s)", report.failure, when);
    if (report.written != NULL)
        blame(&s->guards[algorithm], "it wrote outside %s (%s)", report.written, when);
    if (report.changed != NULL)
        blame(&s->inputs[algorithm], "it changed its input %s (%s)", report.changed, when);
    if (report.left_fenv)
        blame(&s->fenv[algorithm], "it changed the caller's %s (%s)", "floating-point environment",
              when);
    s->unwritten = report.unwritten;
    *ran = report.status == TALC_OK;
    return true;
}

static bool spared(const session *s, int algorithm, talc_check_kind data)
{
    return is_large(s->terms) && data != TALC_CHECK_EXACT &&
           s->algorithms[algorithm]->arithmetic.wide_accumulator &&
           s->direction->takes(&s->problem, TALC_CHECK_EXACT);
}

static const check_run_options plain = { .shift_bytes = 0, .workspace_limit = SIZE_MAX };

static void fill(session *s, talc_check_kind kind)
{
    s->direction->fill(&s->problem, kind, s->check->options.seed, &s->values);
}

static bool compare_and_record(session *s, int algorithm, talc_check_kind data,
                               talc_check_outcome *outcome)
{
    talc_check_verdict(&s->oracle, &s->algorithms[algorithm]->arithmetic, data, &s->results,
                       outcome);
    const size_t used = strlen(outcome->reason);
    if (!outcome->passed && s->unwritten > 0)
        snprintf(outcome->reason + used, sizeof outcome->reason - used,
                 "; %lld element%s not written", (long long)s->unwritten,
                 s->unwritten == 1 ? " was" : "s were");
    return record(s, algorithm, outcome);
}

static bool check_trust(session *s, int algorithm)
{
    talc_check_outcome outcome = outcome_new(s, algorithm, TALC_CHECK_TRUST);
    int64_t fed, nonzero;
    outcome.passed = talc_check_trusted(&s->oracle, &s->results, &fed, &nonzero);
    if (!outcome.passed)
        snprintf(outcome.reason, sizeof outcome.reason,
                 "only %lld of the %lld outputs that have something to add up are not zero",
                 (long long)nonzero, (long long)fed);
    return record(s, algorithm, &outcome);
}

/* The data of runs that are made for another reason than their results. */
static talc_check_kind plain_data(const session *s)
{
    return s->direction->takes(&s->problem, TALC_CHECK_EXACT) ? TALC_CHECK_EXACT
                                                              : TALC_CHECK_RANDOM;
}

/* Whether runs of a kind are made: for its own sake, or for guards, inputs, fenv and status, which
 * any run may break: asked for alone, these must find what they find among all kinds. */
static bool runs(const session *s, talc_check_kind kind)
{
    return wanted(s->check, kind) || wanted(s->check, TALC_CHECK_GUARDS) ||
           wanted(s->check, TALC_CHECK_INPUTS) || wanted(s->check, TALC_CHECK_FENV) ||
           wanted(s->check, TALC_CHECK_STATUS);
}

/* Of a small problem a ReLU may leave so few outputs, or none, that passing would mean nothing:
 * then other random data are drawn. */
static void draw_until_trusted(session *s)
{
    enum { DRAWS = 32 };
    for (uint64_t draw = 1; draw < DRAWS; draw++) {
        int64_t fed, nonzero;
        const bool trusted = talc_check_trusted(&s->oracle, NULL, &fed, &nonzero);
        if (trusted && (nonzero > 0 || fed == 0))
            return;
        s->direction->fill(&s->problem, TALC_CHECK_RANDOM, s->check->options.seed + draw,
                           &s->values);
        talc_check_oracle_update(&s->oracle, &s->values);
    }
}

/* All algorithms on data of one kind, which s->values hold. */
static bool check_filled(session *s, talc_check_kind kind)
{
    const bool trusts = kind == TALC_CHECK_RANDOM && wanted(s->check, TALC_CHECK_TRUST);
    const bool compared = trusts || wanted(s->check, kind);
    if (compared)
        talc_check_oracle_update(&s->oracle, &s->values);
    if (compared && kind == TALC_CHECK_RANDOM)
        draw_until_trusted(s);
    for (int algorithm = 0; algorithm < s->algorithm_count; algorithm++) {
        bool ran = false;
        if (!spared(s, algorithm, kind) &&
            !run(s, algorithm, &plain, &s->results, talc_check_kind_name(kind), &ran))
            return false;
        talc_check_outcome outcome = outcome_new(s, algorithm, kind);
        if (ran && compared &&
            (!compare_and_record(s, algorithm, kind, &outcome) ||
             (trusts && !check_trust(s, algorithm))))
            return false;
    }
    return true;
}

/* All algorithms on one kind of data, wherever it puts a NaN or an infinity. */
static bool check_data(session *s, talc_check_kind kind)
{
    const bool trusts = kind == TALC_CHECK_RANDOM && wanted(s->check, TALC_CHECK_TRUST);
    if ((!trusts && !runs(s, kind)) || !s->direction->takes(&s->problem, kind))
        return true;
    fill(s, kind);
    bool done = check_filled(s, kind);
    for (int round = 0; done && s->direction->inject != NULL && !is_large(s->terms); round++) {
        fill(s, kind);
        if (!s->direction->inject(&s->problem, kind, round, s->check->options.seed, &s->values))
            break;
        done = check_filled(s, kind);
    }
    return done;
}

/* An algorithm on the data that s->values hold, run in another way. */
static bool check_variant(session *s, int algorithm, talc_check_kind kind, talc_check_kind data,
                          const check_run_options *options)
{
    bool ran;
    if (!run(s, algorithm, options, &s->results, talc_check_kind_name(kind), &ran))
        return false;
    talc_check_outcome outcome = outcome_new(s, algorithm, kind);
    return !ran || !wanted(s->check, kind) || compare_and_record(s, algorithm, data, &outcome);
}

/* The smallest workspace limit under which an algorithm runs that does so under `max`. */
static size_t smallest_limit(const session *s, int algorithm, size_t max)
{
    talc_plan plan;
    size_t refused = 0, taken = max;
    if (plan_of(s, algorithm, 0, &plan) == NULL)
        return 0;
    while (taken - refused > 1) {
        const size_t middle = refused + (taken - refused) / 2;
        if (plan_of(s, algorithm, middle, &plan) == NULL)
            taken = middle;
        else
            refused = middle;
    }
    return taken;
}

static bool check_variants(session *s)
{
    static const int shifts[] = { 4, 8, 16 };
    if (!runs(s, TALC_CHECK_MISALIGNED) && !runs(s, TALC_CHECK_WORKSPACE))
        return true;
    const talc_check_kind data = plain_data(s);
    fill(s, data);
    if (wanted(s->check, TALC_CHECK_MISALIGNED) || wanted(s->check, TALC_CHECK_WORKSPACE))
        talc_check_oracle_update(&s->oracle, &s->values);
    for (int algorithm = 0; algorithm < s->algorithm_count; algorithm++) {
        for (int i = 0; i < 3 && runs(s, TALC_CHECK_MISALIGNED); i++) {
            const check_run_options shifted = { .shift_bytes = shifts[i],
                                                .workspace_limit = SIZE_MAX };
            if (!check_variant(s, algorithm, TALC_CHECK_MISALIGNED, data, &shifted))
                return false;
        }
        talc_plan plan;
        if (!runs(s, TALC_CHECK_WORKSPACE) || plan_of(s, algorithm, SIZE_MAX, &plan) != NULL ||
            plan.workspace == 0)
            continue;
        const check_run_options smallest = { .workspace_limit =
                                                 smallest_limit(s, algorithm, plan.workspace) };
        if (!check_variant(s, algorithm, TALC_CHECK_WORKSPACE, data, &smallest))
            return false;
    }
    return true;
}

// ---- Bits ---------------------------------------------------------------------------------------

/* Outputs and workspace hold finite numbers before: an algorithm that reads them, and replaces only
 * a NaN there, must not pass. */
static bool check_again(session *s, int algorithm, talc_check_kind kind, const char *when)
{
    const check_run_options again = { .workspace_limit = SIZE_MAX,
                                      .foreign = kind == TALC_CHECK_FENV,
                                      .finite = true };
    bool ran;
    if (!run(s, algorithm, &again, &s->others, when, &ran))
        return false;
    talc_check_outcome outcome = outcome_new(s, algorithm, kind);
    outcome.passed = !ran || talc_check_same(&s->oracle, &s->results, &s->others, outcome.reason);
    return record(s, algorithm, &outcome);
}

static bool check_threads(session *s, int algorithm)
{
    static const int counts[] = { 1, 2, 3, 16 };
    const int before = talc_threads();
    bool done = true;
    for (int i = 0; i < (is_large(s->terms) ? 1 : 4) && done; i++)
        done =
            talc_set_threads(counts[i]) && check_again(s, algorithm, TALC_CHECK_THREADS, "threads");
    return talc_set_threads(before) && done;
}

/* On data of which some are denormal; with threads that begin in the caller's environment. */
static bool check_fenv(session *s)
{
    const bool host = s->check->device->is_host;
    const int before = talc_threads();
    bool done = true;
    if (!wanted(s->check, TALC_CHECK_FENV))
        return true;
    fill(s, s->direction->takes(&s->problem, TALC_CHECK_TINY) ? TALC_CHECK_TINY : plain_data(s));
    for (int algorithm = 0; algorithm < s->algorithm_count && done; algorithm++) {
        bool ran = false;
        done = run(s, algorithm, &plain, &s->results, "fenv", &ran) &&
               (!host || talc_set_threads(before > 2 ? before : 2)) &&
               (!ran || check_again(s, algorithm, TALC_CHECK_FENV, "fenv"));
    }
    return (!host || talc_set_threads(before)) && done;
}

/* The same data again must give the same bits, whatever the number of threads. */
static bool check_bits(session *s)
{
    const bool threads = runs(s, TALC_CHECK_THREADS) && s->check->device->is_host;
    if (!runs(s, TALC_CHECK_RERUN) && !threads)
        return true;
    fill(s, TALC_CHECK_RANDOM);
    for (int algorithm = 0; algorithm < s->algorithm_count; algorithm++) {
        bool ran = false;
        if (!spared(s, algorithm, TALC_CHECK_RANDOM) &&
            !run(s, algorithm, &plain, &s->results, "rerun", &ran))
            return false;
        if (ran && runs(s, TALC_CHECK_RERUN) &&
            !check_again(s, algorithm, TALC_CHECK_RERUN, "rerun"))
            return false;
        if (ran && threads && !check_threads(s, algorithm))
            return false;
    }
    return true;
}

static bool check_relations(session *s)
{
    for (int algorithm = 0; algorithm < s->algorithm_count; algorithm++)
        for (talc_check_kind kind = TALC_CHECK_BATCH; kind < TALC_CHECK_KIND_COUNT; kind++) {
            if (!wanted(s->check, kind))
                continue;
            talc_check_outcome outcome = outcome_new(s, algorithm, kind);
            const check_property_result result =
                talc_check_property(kind, s->algorithms[algorithm], s->check->device, &s->problem,
                                    s->check->options.seed, outcome.reason);
            if (talc_failed())
                return false;
            outcome.passed = result == CHECK_HOLDS;
            if (result != CHECK_LEFT_OUT && !record(s, algorithm, &outcome))
                return false;
        }
    return true;
}

// ---- All of it ----------------------------------------------------------------------------------

static bool check_all(session *s)
{
    static const talc_check_kind large_kinds[] = { TALC_CHECK_EXACT, TALC_CHECK_RANDOM,
                                                   TALC_CHECK_WIDE, TALC_CHECK_NAN };
    const bool large = is_large(s->terms);
    bool done = true;
    for (int i = 0; i < (large ? 4 : TALC_CHECK_GUARDS) && done; i++)
        done = check_data(s, large ? large_kinds[i] : (talc_check_kind)i);
    done = done && (large || check_variants(s)) && check_bits(s) && (large || check_fenv(s));
    if (done && s->direction == &talc_check_conv2d)
        done = check_relations(s);
    for (int algorithm = 0; algorithm < s->algorithm_count && done; algorithm++)
        done = record(s, algorithm, &s->guards[algorithm]) &&
               record(s, algorithm, &s->inputs[algorithm]) &&
               record(s, algorithm, &s->fenv[algorithm]) &&
               record(s, algorithm, &s->status[algorithm]);
    return done;
}

/* What operands, the largest workspace, their copies and the oracle take of the host's memory. */
static double memory_of(const session *s)
{
    check_operand operands[CHECK_OPERANDS];
    talc_check_operands(s->direction, &s->problem, operands);
    double workspace = 0;
    for (int algorithm = 0; algorithm < s->algorithm_count; algorithm++) {
        talc_plan plan;
        if (plan_of(s, algorithm, talc_workspace_limit(s->check->device), &plan) == NULL)
            workspace = fmax(workspace, (double)plan.workspace);
    }
    double bytes =
        talc_check_oracle_bytes(s->direction, &s->problem, s->check->options.observe != NULL);
    bytes += 3 * workspace;
    for (int i = 0; i < CHECK_OPERANDS; i++)
        bytes += (double)operands[i].count *
                 (3 * sizeof(double) + 3 * (double)talc_dtype_size(operands[i].dtype));
    return bytes;
}

static bool fits_memory(const session *s, double bytes)
{
    const double free = (double)talc_device_memory(talc_device_host()).free;
    char needed[TALC_BYTES_TEXT], left[TALC_BYTES_TEXT];
    if (free <= 0 || bytes <= free)
        return true;
    talc_fail(TALC_NO_MEMORY,
              "check: %s needs %s for operands, workspace and the oracle, %s are free", s->text,
              talc_bytes_text(bytes, needed), talc_bytes_text(free, left));
    return false;
}

/* Drops the algorithms that refuse the problem; notes each in its summary. */
static bool sort_out_algorithms(session *s)
{
    const char *op = talc_check_op(s->direction, &s->problem);
    int kept = 0;
    for (int i = 0; i < s->algorithm_count; i++) {
        talc_check_summary *summary = talc_check_summary_of(s->check, op, s->algorithms[i]);
        if (summary == NULL)
            return false;
        talc_plan plan;
        const bool refuses = plan_of(s, i, talc_workspace_limit(s->check->device), &plan) != NULL;
        summary->refused += refuses;
        summary->problems += !refuses;
        if (!refuses)
            s->algorithms[kept++] = s->algorithms[i];
    }
    s->algorithm_count = kept;
    return true;
}

/* Refuses an algorithm of the program's own that lacks something, or whose name is too long for a
 * summary. */
static bool is_usable(const session *s, const talc_algorithm *algorithm)
{
    const char *op = talc_check_op(s->direction, &s->problem);
    const size_t max = sizeof((talc_check_summary *)NULL)->algorithm - 1;
    if (algorithm->name == NULL || algorithm->name[0] == '\0') {
        talc_fail(TALC_BAD_ARGUMENT, "check: the row of %s has no name", op);
        return false;
    }
    const size_t length =
        strlen(algorithm->name) + (algorithm->form == NULL ? 0 : strlen(algorithm->form) + 2);
    if (length > max) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "check: the name '%s' of a row has %zu characters, at most %zu",
                  TALC_SHOWN(algorithm->name), length, max);
        return false;
    }
    if (algorithm->plan == NULL || algorithm->run == NULL) {
        talc_fail(TALC_BAD_ARGUMENT, "check: row '%s' of %s has no function 'plan' or no 'run'",
                  TALC_SHOWN(algorithm->name), op);
        return false;
    }
    return true;
}

/* The checks themselves, once the memory for them is granted. */
static bool check_remaining(session *s)
{
    for (int algorithm = 0; algorithm < s->algorithm_count; algorithm++) {
        (void)talc_algorithm_text(s->algorithms[algorithm], s->titles[algorithm]);
        s->guards[algorithm] = outcome_new(s, algorithm, TALC_CHECK_GUARDS);
        s->inputs[algorithm] = outcome_new(s, algorithm, TALC_CHECK_INPUTS);
        s->fenv[algorithm] = outcome_new(s, algorithm, TALC_CHECK_FENV);
        s->status[algorithm] = outcome_new(s, algorithm, TALC_CHECK_STATUS);
    }
    s->terms = talc_check_oracle_terms(s->direction, &s->problem);
    const bool done = talc_check_oracle_new(s->direction, &s->problem, s->check->options.seed,
                                            s->check->options.observe != NULL, &s->oracle) &&
                      talc_check_values_new(s->direction, &s->problem, &s->values) &&
                      talc_check_values_new(s->direction, &s->problem, &s->results) &&
                      talc_check_values_new(s->direction, &s->problem, &s->others) && check_all(s);
    talc_check_values_free(&s->values);
    talc_check_values_free(&s->results);
    talc_check_values_free(&s->others);
    talc_check_buffers_free(&s->buffers);
    talc_check_oracle_free(&s->oracle);
    for (int algorithm = 0; algorithm < s->algorithm_count && done; algorithm++) {
        check_tally *tally = talc_check_tally_of(s->check, talc_check_op(s->direction, &s->problem),
                                                 s->algorithms[algorithm]);
        tally->own = s->own;
        talc_check_tally_add(tally, s->direction, &s->problem, s->failed[algorithm]);
    }
    return done;
}

static bool check_session(session *s)
{
    for (int algorithm = 0; algorithm < s->algorithm_count; algorithm++)
        if (!is_usable(s, s->algorithms[algorithm]))
            return false;
    const bool empty = talc_check_nothing_expected(s->direction, &s->problem);
    if (!empty && !sort_out_algorithms(s))
        return false;
    if (empty || s->algorithm_count == 0) {
        s->check->untaken++;
        return true;
    }
    const double bytes = memory_of(s);
    talc_check_machine_enter(s->check->device, bytes);
    const bool done = fits_memory(s, bytes) && check_remaining(s);
    talc_check_machine_leave(bytes);
    return done;
}

static session *session_new(talc_check *check, const char *problem)
{
    if (talc_operand_missing("check", "check", check) ||
        talc_operand_missing("check", "problem", problem))
        return NULL;
    session *s = talc_memory_new(sizeof *s, "check");
    if (s == NULL)
        return NULL;
    s->check = check;
    s->direction = talc_check_parse(problem, &s->problem);
    if (s->direction == NULL) {
        talc_memory_free(s);
        return NULL;
    }
    talc_check_write(s->direction, &s->problem, s->text);
    return s;
}

static bool check_algorithm(talc_check *check, const char *problem, const talc_algorithm *algorithm)
{
    session *s =
        talc_operand_missing("check", "row", algorithm) ? NULL : session_new(check, problem);
    if (s == NULL)
        return false;
    s->algorithms[s->algorithm_count++] = algorithm;
    const talc_algorithm *known;
    s->own = true;
    for (int i = 0;
         s->own && (known = talc_check_algorithm_at(s->direction, check->device, i)) != NULL; i++)
        s->own = known != algorithm;
    const bool done = check_session(s);
    talc_memory_free(s);
    return done;
}

static bool check_algorithms(talc_check *check, const char *problem)
{
    session *s = session_new(check, problem);
    if (s == NULL)
        return false;
    const char *name = check->options.algorithm;
    const talc_algorithm *algorithm;
    for (int i = 0; (algorithm = talc_check_algorithm_at(s->direction, check->device, i)) != NULL &&
                    !talc_failed();
         i++)
        if (name != NULL && !talc_algorithm_is_asked_for(algorithm->name, algorithm->form, name))
            continue;
        else if (s->algorithm_count == MAX_ALGORITHMS)
            talc_fail(TALC_UNSUPPORTED, "check: %s has more than %d algorithms to check on %s",
                      talc_check_op(s->direction, &s->problem), MAX_ALGORITHMS,
                      check->device->name);
        else
            s->algorithms[s->algorithm_count++] = algorithm;
    const bool done = !talc_failed() && check_session(s);
    talc_memory_free(s);
    return done;
}

/* Counts a check that could not be made: talc_check_passed is then false whatever the others
 * found. */
static bool made(talc_check *check, bool done)
{
    if (check != NULL)
        check->unmade += !done;
    return done;
}

bool talc_check_algorithm(talc_check *check, const char *problem, const talc_algorithm *algorithm)
{
    TALC_DEFAULT_FENV;
    return made(check, check_algorithm(check, problem, algorithm));
}

bool talc_check_problem(talc_check *check, const char *problem)
{
    TALC_DEFAULT_FENV;
    return made(check, check_algorithms(check, problem));
}
