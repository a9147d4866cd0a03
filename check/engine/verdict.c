#include "check/engine/verdict.h"

#include "check/engine/bound.h"
#include "check/engine/data.h"
#include "check/engine/layout.h"
#include "check/engine/parallel.h"
#include "tensor/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHARES = 1 << 24 }; /* elements of an output whose shares are handed out */

// ---- Which elements -----------------------------------------------------------------------------

double talc_check_oracle_terms(const check_direction *direction, const check_problem *problem)
{
    check_operand operands[CHECK_OPERANDS];
    talc_check_operands(direction, problem, operands);
    double terms = 0;
    for (int i = 0; i < CHECK_OPERANDS; i++)
        if (talc_check_is_output(&operands[i]))
            terms += (double)operands[i].count * talc_check_cost(direction, problem);
    return terms;
}

/* One element of a sample: each coordinate is the first, the last or any with equal chance, so that
 * corners, borders and tails are seen often. */
static int64_t sampled_index(const check_operand *operand, uint64_t seed, int64_t i)
{
    int64_t index = 0;
    for (int d = 0; d < operand->rank; d++) {
        const uint64_t bits = talc_check_bits(seed + (uint64_t)d, (uint64_t)i);
        const int64_t extent = operand->dims[d];
        const int64_t any = (int64_t)(bits / 4 % (uint64_t)extent);
        index = index * extent + (bits % 4 == 0 ? 0 : bits % 4 == 1 ? extent - 1 : any);
    }
    return index;
}

static int64_t index_of(const check_expected_output *output, int64_t e)
{
    return output->index == NULL ? e : output->index[e];
}

static bool expected_output_new(check_expected_output *self, const check_operand *operand,
                                int number, bool sampled, bool shares, uint64_t seed)
{
    *self = (check_expected_output){ .operand = number, .count = operand->count };
    if (sampled && operand->count > CHECK_SAMPLE) {
        self->count = CHECK_SAMPLE;
        self->index = talc_memory_new(CHECK_SAMPLE * sizeof *self->index, "check");
        for (int64_t i = 0; self->index != NULL && i < self->count; i++)
            self->index[i] = sampled_index(operand, seed, i);
        if (self->index == NULL)
            return false;
    }
    self->expected = talc_memory_new((size_t)self->count * sizeof *self->expected + 1, "check");
    if (shares && operand->count <= MAX_SHARES) {
        self->shares = talc_memory_new((size_t)operand->count * sizeof *self->shares + 1, "check");
        if (self->shares == NULL)
            return false;
    }
    return self->expected != NULL;
}

static int64_t groups_of(const check_direction *direction, const check_problem *problem)
{
    return direction->groups == NULL ? 0 : direction->groups(problem);
}

static int rising(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Of large problems the groups that the sample meets, and the last. */
static bool groups_new(check_oracle *oracle, bool sampled)
{
    const check_direction *direction = oracle->direction;
    const int64_t groups = groups_of(direction, oracle->problem);
    int64_t count = 0, kept = 0;
    oracle->learnt_count = groups;
    if (groups == 0)
        return true;
    oracle->common = talc_memory_new((size_t)groups * sizeof *oracle->common, "check");
    if (oracle->common == NULL || !sampled)
        return oracle->common != NULL;
    for (int i = 0; i < oracle->outputs; i++)
        count += oracle->output[i].count;
    int64_t *list = talc_memory_new((size_t)(count + 1) * sizeof *list, "check");
    if (list == NULL)
        return false;
    list[0] = groups - 1;
    count = 1;
    for (int i = 0; i < oracle->outputs; i++) {
        const check_expected_output *output = &oracle->output[i];
        for (int64_t e = 0; e < output->count; e++)
            list[count++] =
                direction->group_of(oracle->problem, output->operand, index_of(output, e));
    }
    qsort(list, (size_t)count, sizeof *list, rising);
    for (int64_t i = 0; i < count; i++)
        if (i == 0 || list[i] != list[i - 1])
            list[kept++] = list[i];
    oracle->learnt = list;
    oracle->learnt_count = kept;
    return true;
}

bool talc_check_oracle_new(const check_direction *direction, const check_problem *problem,
                           uint64_t seed, bool shares, check_oracle *oracle)
{
    *oracle = (check_oracle){ .direction = direction, .problem = problem };
    talc_check_operands(direction, problem, oracle->operand);
    const bool sampled = talc_check_oracle_terms(direction, problem) > CHECK_FULL_TERMS;
    for (int i = 0; i < CHECK_OPERANDS; i++) {
        if (!talc_check_is_output(&oracle->operand[i]))
            continue;
        oracle->outputs++;
        if (!expected_output_new(&oracle->output[oracle->outputs - 1], &oracle->operand[i], i,
                                 sampled, shares, seed)) {
            talc_check_oracle_free(oracle);
            return false;
        }
    }
    if (groups_new(oracle, sampled))
        return true;
    talc_check_oracle_free(oracle);
    return false;
}

double talc_check_oracle_bytes(const check_direction *direction, const check_problem *problem,
                               bool shares)
{
    check_operand operands[CHECK_OPERANDS];
    talc_check_operands(direction, problem, operands);
    const bool sampled = talc_check_oracle_terms(direction, problem) > CHECK_FULL_TERMS;
    double bytes = (double)groups_of(direction, problem) * sizeof(check_common);
    for (int i = 0; i < CHECK_OPERANDS; i++) {
        if (!talc_check_is_output(&operands[i]))
            continue;
        const bool part = sampled && operands[i].count > CHECK_SAMPLE;
        bytes += part ? (double)CHECK_SAMPLE * (sizeof(check_expected) + 2 * sizeof(int64_t))
                      : (double)operands[i].count * sizeof(check_expected);
        if (shares && operands[i].count <= MAX_SHARES)
            bytes += (double)operands[i].count * sizeof(float);
    }
    return bytes;
}

void talc_check_oracle_free(check_oracle *oracle)
{
    for (int i = 0; i < oracle->outputs; i++) {
        talc_memory_free(oracle->output[i].index);
        talc_memory_free(oracle->output[i].expected);
        talc_memory_free(oracle->output[i].shares);
    }
    oracle->outputs = 0;
    talc_memory_free(oracle->common);
    talc_memory_free(oracle->learnt);
    oracle->common = NULL;
    oracle->learnt = NULL;
}

/* About nanoseconds that a term of a due element takes, and the rest of it. */
static const double TERM_COST = 1, EXPECTED_COST = 50;

/* The working out of one output, chunk by chunk. */
typedef struct working {
    const check_oracle *oracle;
    const check_values *values;
    check_expected_output *output;
    double S_norm[CHECK_CHUNKS];
} working;

static void work_out(void *context, int index, int64_t first, int64_t end)
{
    working *self = context;
    const check_oracle *oracle = self->oracle;
    check_expected_output *output = self->output;
    double norm = 0;
    for (int64_t e = first; e < end; e++) {
        const check_expected expected = oracle->direction->expected(
            oracle->problem, self->values, output->operand, index_of(output, e));
        norm = expected.S > norm && isfinite(expected.S) ? expected.S : norm;
        output->expected[e] = expected;
    }
    self->S_norm[index] = norm;
}

static void learn(void *context, int index, int64_t first, int64_t end)
{
    const working *self = context;
    const check_oracle *oracle = self->oracle;
    (void)index;
    for (int64_t i = first; i < end; i++) {
        const int64_t group = oracle->learnt == NULL ? i : oracle->learnt[i];
        oracle->common[group] = oracle->direction->learn(oracle->problem, self->values, group);
    }
}

void talc_check_oracle_update(check_oracle *oracle, const check_values *values)
{
    const double terms = talc_check_cost(oracle->direction, oracle->problem),
                 cost = EXPECTED_COST + TERM_COST * terms;
    check_values known = *values;
    if (oracle->common != NULL) {
        working work = { .oracle = oracle, .values = values };
        const int64_t groups = groups_of(oracle->direction, oracle->problem);
        const double each =
            talc_check_oracle_terms(oracle->direction, oracle->problem) / (double)groups;
        talc_check_parallel(oracle->learnt_count, TERM_COST * each, learn, &work);
        known.common = oracle->common;
    }
    for (int i = 0; i < oracle->outputs; i++) {
        check_expected_output *output = &oracle->output[i];
        working work = { .oracle = oracle, .values = &known, .output = output };
        talc_check_parallel(output->count, cost, work_out, &work);
        output->S_norm = 0;
        for (int p = 0; p < CHECK_CHUNKS; p++)
            output->S_norm = fmax(output->S_norm, work.S_norm[p]);
    }
}

// ---- Judging ------------------------------------------------------------------------------------

/* Beyond the last whole block of 8 channels or 16 columns, where vector code and tiles end. */
static bool in_tail(const check_operand *operand, const int64_t where[TALC_MAX_RANK])
{
    enum { COLUMNS = 16, CHANNELS = 8 };
    const int last = operand->rank - 1;
    return (last >= 0 && where[last] >= operand->dims[last] / COLUMNS * COLUMNS) ||
           (last == 3 && where[1] >= operand->dims[1] / CHANNELS * CHANNELS);
}

static const char *coordinates_text(const check_operand *operand, const int64_t *where,
                                    char text[128])
{
    int used = snprintf(text, 128, "%s[", operand->name);
    for (int d = 0; d < operand->rank && used < 120; d++)
        used +=
            snprintf(text + used, (size_t)(128 - used), "%s%" PRId64, d == 0 ? "" : ",", where[d]);
    if (used < 127)
        snprintf(text + used, (size_t)(128 - used), "]");
    return text;
}

/* Along each dimension the first and last coordinate of wrong elements, and whether there is one
 * between the output's ends. */
typedef struct extent {
    int64_t first[TALC_MAX_RANK], last[TALC_MAX_RANK];
    bool within[TALC_MAX_RANK];
} extent;

static void extend_range(const check_operand *operand, int64_t index, bool is_first, extent *of)
{
    int64_t at[TALC_MAX_RANK];
    talc_check_coordinates(operand->rank, operand->dims, index, at);
    for (int d = 0; d < operand->rank; d++) {
        of->first[d] = is_first || at[d] < of->first[d] ? at[d] : of->first[d];
        of->last[d] = is_first || at[d] > of->last[d] ? at[d] : of->last[d];
        of->within[d] = (!is_first && of->within[d]) || (at[d] > 0 && at[d] < operand->dims[d] - 1);
    }
}

static void join_ranges(const check_operand *operand, const extent *more, bool is_first, extent *of)
{
    for (int d = 0; d < operand->rank; d++) {
        of->first[d] = is_first || more->first[d] < of->first[d] ? more->first[d] : of->first[d];
        of->last[d] = is_first || more->last[d] > of->last[d] ? more->last[d] : of->last[d];
        of->within[d] = (!is_first && of->within[d]) || more->within[d];
    }
}

/* What a dimension is called in the formulas of the op, in brackets by its number where that is
 * nothing in particular. */
static const char *dimension_name(const talc_check_outcome *outcome, const check_operand *operand,
                                  int d, char text[32])
{
    static const char *const image[] = { "n", "c", "h", "w" },
                             *const y[] = { "n", "oc", "oh", "ow" },
                             *const kernel[] = { "oc", "ic", "kh", "kw" };
    const bool convolves = strstr(outcome->op, "conv2d") != NULL;
    snprintf(text, 32, "dimension %d", d);
    if (operand->rank != 4 || (!convolves && strstr(outcome->op, "2d") == NULL))
        return text;
    return !convolves                         ? image[d]
           : strcmp(operand->name, "dw") == 0 ? kernel[d]
           : strcmp(operand->name, "y") == 0  ? y[d]
                                              : image[d];
}

/* ", all at ow = 5", ", all at oc = 0 or 7", ", all at n > 0": what all wrong elements have in
 * common and others do not. */
static void add_where(const check_operand *operand, const extent *range,
                      talc_check_outcome *outcome)
{
    bool any = false;
    for (int d = 0; d < operand->rank; d++) {
        const int64_t first = range->first[d], last = range->last[d], end = operand->dims[d] - 1;
        char coordinates[64], name[32];
        if (end == 0 || (first == 0 && last == end && (range->within[d] || end == 1)))
            continue;
        if (first == last)
            snprintf(coordinates, sizeof coordinates, " = %" PRId64, first);
        else if (first == 0 && last == end)
            snprintf(coordinates, sizeof coordinates, " = 0 or %" PRId64, end);
        else if (first > 0 && last == end)
            snprintf(coordinates, sizeof coordinates, " > %" PRId64, first - 1);
        else if (first == 0)
            snprintf(coordinates, sizeof coordinates, " < %" PRId64, last + 1);
        else
            snprintf(coordinates, sizeof coordinates, " from %" PRId64 " to %" PRId64, first, last);
        const size_t used = strlen(outcome->reason);
        snprintf(outcome->reason + used, sizeof outcome->reason - used, "%s%s%s",
                 any ? ", " : ", all at ", dimension_name(outcome, operand, d, name), coordinates);
        any = true;
    }
}

static void explain(const check_operand *operand, int64_t wrong, const extent *range,
                    talc_check_outcome *outcome)
{
    char at[128];
    coordinates_text(operand, outcome->where, at);
    const int used = snprintf(outcome->reason, sizeof outcome->reason,
                              "%s (%s) is %.9g, expected %.9g", at, outcome->place,
                              talc_check_shown(outcome->got), talc_check_shown(outcome->expected));
    if (used < 0 || used >= (int)sizeof outcome->reason)
        return;
    char *rest = outcome->reason + used;
    const size_t capacity = sizeof outcome->reason - (size_t)used;
    if (outcome->bound > 0 && isfinite(outcome->share))
        snprintf(rest, capacity,
                 ": %.3g times the bound %.3g; %" PRId64 " of %" PRId64 " are wrong",
                 outcome->share, outcome->bound, wrong, outcome->compared);
    else
        snprintf(rest, capacity, "; %" PRId64 " of %" PRId64 " are wrong", wrong,
                 outcome->compared);
    if (range != NULL && wrong > 1 && wrong < outcome->compared)
        add_where(operand, range, outcome);
}

/* A NaN may fill the tile of an algorithm that is accurate in norm. */
static bool exempt(const talc_arithmetic *arithmetic, talc_check_kind kind, double got)
{
    return arithmetic->precision == TALC_NORMWISE &&
           (kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY) && !isfinite(got);
}

static const double VERDICT_COST = 15;

/* The worst of a chunk: the first where several are as bad. */
typedef struct verdict {
    double share, got, expected, bound;
    int64_t index, wrong;
    bool border;
    extent where; /* of those that are wrong */
} verdict;

/* The judging of one output, chunk by chunk. */
typedef struct comparison {
    const check_expected_output *output;
    const check_operand *operand;
    const talc_arithmetic *arithmetic;
    talc_check_kind kind;
    const double *results;
    verdict of[CHECK_CHUNKS];
} comparison;

static void compare_chunk(void *context, int chunk, int64_t first, int64_t end)
{
    comparison *self = context;
    const check_expected_output *output = self->output;
    verdict worst = { .share = -1 };
    for (int64_t e = first; e < end; e++) {
        const check_expected *expected = &output->expected[e];
        const int64_t index = index_of(output, e);
        const double got = self->results[index];
        const double bound = talc_check_bound(self->arithmetic, self->operand->dtype, self->kind,
                                              expected, output->S_norm);
        const double share = expected->any || exempt(self->arithmetic, self->kind, got)
                                 ? 0
                                 : talc_check_share(expected->value, got, bound);
        if (output->shares != NULL)
            output->shares[index] = (float)share;
        if (!(share <= 1))
            extend_range(self->operand, index, worst.wrong++ == 0, &worst.where);
        if (!(share <= worst.share))
            worst = (verdict){ .share = share,
                               .got = got,
                               .expected = (double)expected->value,
                               .bound = bound,
                               .index = index,
                               .wrong = worst.wrong,
                               .border = expected->border,
                               .where = worst.where };
    }
    self->of[chunk] = worst;
}

/* Takes the verdict for the outcome's. */
static void tell(const comparison *self, const verdict *worst, talc_check_outcome *outcome)
{
    outcome->share = worst->share;
    outcome->got = worst->got;
    outcome->expected = worst->expected;
    outcome->bound = worst->bound;
    outcome->shares = self->output->shares;
    talc_check_coordinates(self->operand->rank, self->operand->dims, worst->index, outcome->where);
    outcome->place = worst->border                            ? "border"
                     : in_tail(self->operand, outcome->where) ? "tail"
                                                              : "inside";
}

void talc_check_verdict(const check_oracle *oracle, const talc_arithmetic *arithmetic,
                        talc_check_kind kind, const check_values *results,
                        talc_check_outcome *outcome)
{
    outcome->share = -1;
    outcome->compared = 0;
    outcome->reason[0] = '\0';
    int64_t all_wrong = 0;
    extent where = { .first = { 0 } };
    int wrong_outputs = 0;
    const check_operand *worst = NULL;
    for (int i = 0; i < oracle->outputs; i++) {
        const check_expected_output *output = &oracle->output[i];
        const check_operand *operand = &oracle->operand[output->operand];
        comparison parts = { .output = output,
                             .operand = operand,
                             .arithmetic = arithmetic,
                             .kind = kind,
                             .results = results->of[output->operand] };
        for (int64_t e = 0; output->shares != NULL && e < operand->count; e++)
            output->shares[e] = NAN;
        for (int p = 0; p < CHECK_CHUNKS; p++)
            parts.of[p].share = -1;
        talc_check_parallel(output->count, VERDICT_COST, compare_chunk, &parts);
        outcome->compared += output->count;
        int64_t wrong = 0;
        for (int p = 0; p < CHECK_CHUNKS; p++) {
            if (parts.of[p].wrong > 0)
                join_ranges(operand, &parts.of[p].where, wrong == 0, &where);
            wrong += parts.of[p].wrong;
            if (parts.of[p].share <= outcome->share)
                continue;
            worst = operand;
            tell(&parts, &parts.of[p], outcome);
        }
        all_wrong += wrong;
        wrong_outputs += wrong > 0;
    }
    outcome->passed = outcome->share <= 1;
    if (worst == NULL)
        return;
    outcome->output = worst->name;
    outcome->rank = worst->rank;
    memcpy(outcome->dims, worst->dims, sizeof outcome->dims);
    if (!outcome->passed)
        explain(worst, all_wrong, wrong_outputs == 1 ? &where : NULL, outcome);
}

bool talc_check_trusted(const check_oracle *oracle, const check_values *results, int64_t *fed,
                        int64_t *nonzero)
{
    *fed = *nonzero = 0;
    int64_t expected_nonzero = 0;
    for (int i = 0; i < oracle->outputs; i++) {
        const check_expected_output *output = &oracle->output[i];
        for (int64_t e = 0; e < output->count; e++) {
            const int64_t index = index_of(output, e);
            const bool counts = output->expected[e].S > 0 || output->expected[e].value != 0;
            *fed += counts;
            expected_nonzero += output->expected[e].value != 0;
            *nonzero += counts && (results == NULL ? output->expected[e].value != 0
                                                   : results->of[output->operand][index] != 0);
        }
    }
    /* Half of what a ReLU sees is negative. */
    const double min = expected_nonzero * 10 < *fed * 9 ? 0.15 : 0.30;
    return *fed < 8 || (double)*nonzero >= min * (double)*fed;
}

/* As compared where results must be the same bits: -0 is not 0, and a NaN is itself. */
static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

bool talc_check_same(const check_oracle *oracle, const check_values *a, const check_values *b,
                     char reason[256])
{
    for (int i = 0; i < oracle->outputs; i++) {
        const int number = oracle->output[i].operand;
        const check_operand *operand = &oracle->operand[number];
        if (memcmp(a->of[number], b->of[number], (size_t)operand->count * sizeof(double)) == 0)
            continue;
        for (int64_t e = 0; e < operand->count; e++)
            if (bits_of(a->of[number][e]) != bits_of(b->of[number][e])) {
                char at[128];
                int64_t where[TALC_MAX_RANK] = { 0 };
                talc_check_coordinates(operand->rank, operand->dims, e, where);
                snprintf(reason, 256, "%s is %.9g in one run and %.9g in another",
                         coordinates_text(operand, where, at), talc_check_shown(a->of[number][e]),
                         talc_check_shown(b->of[number][e]));
                return false;
            }
    }
    return true;
}
