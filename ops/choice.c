#include "ops/choice.h"

#include "ops/decisions.h"
#include "tensor/environment.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/table.h"

#include <stdio.h>
#include <string.h>

// ---- Forced algorithms --------------------------------------------------------------------------

enum { MAX_FORCED = 16, NAME_LENGTH = TALC_ALGORITHM_TEXT };

static _Thread_local struct {
    char op[NAME_LENGTH];
    char name[NAME_LENGTH];
} forced_algorithms[MAX_FORCED];

static int forced_index(const char *op)
{
    for (int i = 0; i < MAX_FORCED; i++)
        if (forced_algorithms[i].op[0] == op[0] && strcmp(forced_algorithms[i].op, op) == 0)
            return i;
    return -1;
}

const char *talc_algorithm_forced(const char *op)
{
    int index = op == NULL || *op == '\0' ? -1 : forced_index(op);
    return index < 0 ? NULL : forced_algorithms[index].name;
}

bool talc_algorithm_force(const char *op, const char *name)
{
    if (talc_operand_missing("algorithm_force", "op", op))
        return false;
    if (*op == '\0' || strlen(op) >= NAME_LENGTH || (name != NULL && strlen(name) >= NAME_LENGTH)) {
        talc_fail(TALC_BAD_ARGUMENT, "algorithm_force: names have 1 to %d characters: '%s', '%s'",
                  NAME_LENGTH - 1, TALC_SHOWN(op), TALC_SHOWN(name == NULL ? "" : name));
        return false;
    }
    int index = forced_index(op);
    if (name == NULL) {
        if (index >= 0)
            forced_algorithms[index].op[0] = '\0';
        return true;
    }
    index = index < 0 ? forced_index("") : index;
    if (index < 0) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "algorithm_force: %d ops are forced already, the most there may be", MAX_FORCED);
        return false;
    }
    memcpy(forced_algorithms[index].op, op, strlen(op) + 1);
    memcpy(forced_algorithms[index].name, name, strlen(name) + 1);
    return true;
}

// ---- Names --------------------------------------------------------------------------------------

/* Names of the release before, and what they force now, of an op and its gradients; NULL: nothing.
 * Until the next release. */
static const struct {
    const char *op, *old, *now;
} renamed[] = {
    { "max_pool2d", "auto", NULL },
    { "avg_pool2d", "auto", NULL },
    { "adaptive_avg_pool2d", "auto", NULL },
    { "adaptive_max_pool2d", "auto", NULL },
    { "conv2d", "direct(tiled)", "direct" },
    { "conv2d", "implicit_gemm_tf32", "implicit_gemm" },
    { "conv2d", "implicit_gemm_mma", "implicit_gemm(mma)" },
    { "conv2d", "implicit_gemm_tf32_mma", "implicit_gemm(mma)" },
    { "conv2d", "pointwise_mma", "pointwise(mma)" },
    { "conv2d", "pointwise_tf32_mma", "pointwise(mma)" },
    { "conv2d", "gather_gemm_tf32", "gather_gemm" },
};

static const char *name_now(const char *op, const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof renamed / sizeof *renamed; i++) {
        const size_t length = strlen(renamed[i].op);
        if (strncmp(renamed[i].op, op, length) == 0 && (op[length] == '\0' || op[length] == '.') &&
            strcmp(renamed[i].old, name) == 0)
            return renamed[i].now;
    }
    return name;
}

const char *talc_algorithm_text(const talc_algorithm *algorithm, char text[TALC_ALGORITHM_TEXT])
{
    if (algorithm->form == NULL)
        snprintf(text, TALC_ALGORITHM_TEXT, "%s", algorithm->name);
    else
        snprintf(text, TALC_ALGORITHM_TEXT, "%s(%s)", algorithm->name, algorithm->form);
    return text;
}

/* That, with the class behind it where it is not the strict one. */
typedef char algorithm_title[TALC_ALGORITHM_TEXT + 16];

static const char *text_of(const talc_algorithm *algorithm, algorithm_title text)
{
    (void)talc_algorithm_text(algorithm, text);
    if (algorithm->arithmetic.precision != TALC_STRICT) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof(algorithm_title) - used, " %s",
                 talc_precision_name(algorithm->arithmetic.precision));
    }
    return text;
}

bool talc_algorithm_is_asked_for(const char *name, const char *form, const char *asked)
{
    const size_t length = name == NULL ? 0 : strlen(name);
    if (name == NULL || asked == NULL || strncmp(asked, name, length) != 0)
        return false;
    if (asked[length] == '\0')
        return true;
    const size_t of_form = form == NULL ? 0 : strlen(form);
    return form != NULL && asked[length] == '(' &&
           strncmp(asked + length + 1, form, of_form) == 0 &&
           strcmp(asked + length + 1 + of_form, ")") == 0;
}

// ---- Choice -------------------------------------------------------------------------------------

/* The plan of an algorithm for a problem, or why it has none. */
static const char *plan_of(const talc_algorithm *algorithm, const talc_device *device,
                           const void *problem, size_t limit, talc_plan *plan)
{
    plan->workspace = 0;
    plan->seconds = 0;
    plan->cached = 0;
    plan->cached_form = 0;
    plan->missing = NULL;
    return algorithm->plan(device, problem, limit, plan);
}

const char *talc_algorithm_refuses(const talc_algorithm *algorithm, const talc_device *device,
                                   const void *problem, size_t limit, talc_plan *plan)
{
    TALC_DEFAULT_FENV;
    const char *refusal = plan_of(algorithm, device, problem, limit, plan);
    return refusal != NULL || plan->missing == NULL ? refusal : plan->missing();
}

talc_status talc_algorithm_run(const talc_algorithm *algorithm, talc_device *device,
                               const void *problem, const talc_plan *plan, const void *arguments)
{
    const talc_fenv before = talc_fenv_enter();
    const talc_status status = algorithm->run(device, problem, plan, arguments);
    talc_fenv_leave(before);
    return status;
}

const char *talc_plan_any(const talc_device *device, const void *problem, size_t limit,
                          talc_plan *plan)
{
    (void)device, (void)problem, (void)limit, (void)plan;
    return NULL;
}

static void begin(talc_choice *choice, const char *op, talc_device *device, const char *forced,
                  unsigned precision)
{
    choice->op = op;
    choice->device = device;
    choice->forced = name_now(op, forced != NULL ? forced : talc_algorithm_forced(op));
    choice->precision = precision != 0 ? precision | TALC_STRICT : talc_precision_admitted();
    choice->limit = talc_workspace_limit(device);
    choice->count = 0;
    choice->chosen = -1;
}

static bool is_asked_for(const talc_choice *choice, const talc_algorithm *algorithm)
{
    return choice->forced == NULL ||
           talc_algorithm_is_asked_for(algorithm->name, algorithm->form, choice->forced);
}

static bool is_admitted(const talc_choice *choice, const talc_algorithm *algorithm)
{
    return (algorithm->arithmetic.precision & choice->precision) != 0;
}

/* Why an algorithm that was considered may not run; NULL when it may. */
static const char *refusal_of(const talc_choice *choice, const talc_considered *considered,
                              char text[96])
{
    const talc_algorithm *algorithm = considered->algorithm;
    if (!is_asked_for(choice, algorithm)) {
        snprintf(text, 96, "'%.60s' was asked for by name", choice->forced);
        return text;
    }
    if (considered->refusal != NULL)
        return considered->refusal;
    if (!is_admitted(choice, algorithm)) {
        snprintf(text, 96, "precision class %s is not admitted",
                 talc_precision_name(algorithm->arithmetic.precision));
        return text;
    }
    if (considered->plan.workspace > choice->limit) {
        char needed[TALC_BYTES_TEXT], limit[TALC_BYTES_TEXT];
        snprintf(text, 96, "needs %s of workspace, the limit is %s",
                 talc_bytes_text((double)considered->plan.workspace, needed),
                 talc_bytes_text((double)choice->limit, limit));
        return text;
    }
    return NULL;
}

static bool may_run(const talc_choice *choice, const talc_considered *considered)
{
    return is_asked_for(choice, considered->algorithm) &&
           is_admitted(choice, considered->algorithm) && considered->refusal == NULL &&
           considered->plan.workspace <= choice->limit;
}

/* An algorithm without an estimate is `reference`, or in a list where none has one: the first that
 * may run does. */
static bool is_better(const talc_choice *choice, const talc_considered *considered)
{
    return choice->chosen < 0 ||
           (considered->plan.seconds > 0 &&
            considered->plan.seconds < choice->algorithms[choice->chosen].plan.seconds);
}

/* Whether the algorithm is refused for a library that is missing; asked once. */
static bool is_missing(talc_considered *considered)
{
    if (considered->refusal == NULL && considered->plan.missing != NULL)
        considered->refusal = considered->plan.missing();
    considered->plan.missing = NULL;
    return considered->refusal != NULL;
}

static void choose_again(talc_choice *choice)
{
    choice->chosen = -1;
    for (int i = 0; i < choice->count; i++)
        if (may_run(choice, &choice->algorithms[i]) && is_better(choice, &choice->algorithms[i]))
            choice->chosen = i;
}

/* The one place where algorithms are chosen. Without `all` it plans no algorithm of a class that is
 * not admitted, as a plan may cost more than a launch, and stops where the rest cannot change the
 * choice. */
static void consider(talc_choice *choice, const talc_algorithm *algorithms, const void *problem,
                     bool all)
{
    TALC_DEFAULT_FENV; /* what is planned and estimated decides what runs */
    for (const talc_algorithm *algorithm = algorithms;
         algorithm != NULL && algorithm->name != NULL && choice->count < TALC_MAX_ALGORITHMS;
         algorithm++) {
        talc_considered *considered = &choice->algorithms[choice->count];
        considered->algorithm = algorithm;
        considered->refusal = NULL;
        if (all || (is_asked_for(choice, algorithm) && is_admitted(choice, algorithm)))
            considered->refusal =
                plan_of(algorithm, choice->device, problem, choice->limit, &considered->plan);
        bool takes = may_run(choice, considered) && is_better(choice, considered);
        const bool is_last = takes && considered->plan.seconds == 0;
        if (all || is_last)
            takes = !is_missing(considered) && takes;
        if (takes)
            choice->chosen = choice->count;
        choice->count++;
        if (takes && is_last && !all)
            return;
    }
    while (choice->chosen >= 0 && is_missing(&choice->algorithms[choice->chosen]))
        choose_again(choice);
}

static void print_dispatch(const talc_choice *choice)
{
    for (int i = 0; i < choice->count; i++) {
        char text[96];
        algorithm_title title;
        const char *reason = refusal_of(choice, &choice->algorithms[i], text);
        if (!is_asked_for(choice, choice->algorithms[i].algorithm))
            continue;
        if (reason == NULL)
            reason = i == choice->chosen ? "chosen" : "estimated to take longer";
        fprintf(stderr, "talc,dispatch,%s,%s,%s,%s\n", choice->device->name, choice->op,
                text_of(choice->algorithms[i].algorithm, title), reason);
    }
}

static bool fail(const talc_choice *choice)
{
    char reasons[640] = "", shown[TALC_ALGORITHM_TEXT]; /* "name: reason; ..." */
    size_t used = 0;
    bool found = choice->forced == NULL;
    for (int i = 0; i < choice->count && used < sizeof reasons; i++) {
        const talc_algorithm *algorithm = choice->algorithms[i].algorithm;
        char text[96];
        algorithm_title title;
        if (!is_asked_for(choice, algorithm))
            continue;
        found = true;
        const char *reason = refusal_of(choice, &choice->algorithms[i], text);
        used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s: %s",
                                 used == 0 ? "" : "; ", text_of(algorithm, title), reason);
    }
    if (!found)
        talc_fail(TALC_NOT_FOUND, "%s on %s: there is no algorithm '%s'", choice->op,
                  choice->device->name, talc_shown(choice->forced, SIZE_MAX, shown, sizeof shown));
    else
        talc_fail(TALC_UNSUPPORTED, "%s on %s: %s", choice->op, choice->device->name,
                  used > 0 ? reasons : "this device has no algorithm for it");
    return false;
}

/* To choose among one or two, as elementwise ops do, is cheaper than to look the choice up. */
static bool is_remembered(const talc_algorithm *algorithms)
{
    int count = 0;
    while (algorithms != NULL && count < 3 && algorithms[count].name != NULL)
        count++;
    return count == 3;
}

bool talc_choose(talc_choice *choice, const char *op, talc_device *device,
                 const talc_algorithm *algorithms, const void *problem, size_t problem_bytes,
                 const char *forced, unsigned precision)
{
    const bool prints = (talc_environment()->verbose & TALC_VERBOSE_DISPATCH) != 0;
    const bool remembered = !prints && is_remembered(algorithms);
    begin(choice, op, device, forced, precision);
    if (remembered &&
        talc_decision_find(choice, algorithms, problem, problem_bytes, &choice->algorithms[0])) {
        choice->count = 1;
        choice->chosen = 0;
        return true;
    }
    consider(choice, algorithms, problem, false);
    if (prints)
        print_dispatch(choice);
    if (choice->chosen < 0)
        return fail(choice);
    if (remembered && talc_chosen_plan(choice)->seconds > 0)
        talc_decision_add(choice, algorithms, problem, problem_bytes);
    return true;
}

void talc_choice_explain(const char *op, talc_device *device, const talc_algorithm *algorithms,
                         const void *problem, const char *forced, unsigned precision,
                         talc_explanation *explanation)
{
    talc_choice choice;
    begin(&choice, op, device, forced, precision);
    consider(&choice, algorithms, problem, true);
    *explanation = (talc_explanation){ .workspace_limit = choice.limit,
                                       .count = choice.count,
                                       .chosen = choice.chosen };
    snprintf(explanation->op, sizeof explanation->op, "%s", op);
    snprintf(explanation->device, sizeof explanation->device, "%s", device->name);
    snprintf(explanation->asked_for, sizeof explanation->asked_for, "%s",
             choice.forced == NULL ? "" : choice.forced);
    for (int i = 0; i < choice.count; i++) {
        const talc_considered *considered = &choice.algorithms[i];
        talc_candidate *candidate = &explanation->candidates[i];
        char text[96];
        const char *reason = refusal_of(&choice, considered, text);
        *candidate = (talc_candidate){ .name = considered->algorithm->name,
                                       .form = considered->algorithm->form,
                                       .arithmetic = considered->algorithm->arithmetic,
                                       .refused = reason != NULL };
        (void)talc_algorithm_text(considered->algorithm, candidate->title);
        if (considered->refusal == NULL) {
            candidate->workspace = considered->plan.workspace;
            candidate->seconds = considered->plan.seconds;
        }
        snprintf(candidate->reason, sizeof candidate->reason, "%s", reason == NULL ? "" : reason);
    }
}

static bool estimates(const talc_explanation *e)
{
    for (int i = 0; i < e->count; i++)
        if (e->candidates[i].seconds > 0)
            return true;
    return false;
}

bool talc_candidate_is_passed_over(const talc_explanation *e, int index)
{
    return e != NULL && index >= 0 && index < e->count && e->asked_for[0] != '\0' &&
           !talc_algorithm_is_asked_for(e->candidates[index].name, e->candidates[index].form,
                                        e->asked_for);
}

/* The candidates that are printed. */
typedef struct printed {
    const talc_explanation *of;
    int count, index[TALC_MAX_ALGORITHMS];
} printed;

static const char *cell(const void *context, int64_t row, int column, char text[TALC_CELL_TEXT])
{
    const talc_explanation *e = ((const printed *)context)->of;
    const int index = ((const printed *)context)->index[row];
    const talc_candidate *c = &e->candidates[index];
    char workspace[TALC_BYTES_TEXT], estimate[48] = "";
    if (c->seconds > 0)
        snprintf(estimate, sizeof estimate, ", estimated %.3g ms", c->seconds * 1e3);
    if (column == 0)
        snprintf(text, TALC_CELL_TEXT, "%s %s", index == e->chosen ? "->" : "  ", c->title);
    else if (c->refused)
        snprintf(text, TALC_CELL_TEXT, "refuses: %s", c->reason);
    else
        snprintf(text, TALC_CELL_TEXT, "%s, %s, workspace %s%s", c->arithmetic.text,
                 talc_precision_name(c->arithmetic.precision),
                 talc_bytes_text((double)c->workspace, workspace), estimate);
    return text;
}

/* Why nothing is chosen, behind the algorithms that were printed. */
static void print_none(FILE *file, const talc_explanation *e, int printed_count)
{
    char list[1024] = "";
    for (int i = 0; i < e->count; i++)
        if (i == 0 || strcmp(e->candidates[i].title, e->candidates[i - 1].title) != 0) {
            const size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "",
                     e->candidates[i].title);
        }
    if (printed_count == 0 && e->asked_for[0] != '\0')
        talc_print_wrapped(file, 6, "   -> none: there is no such algorithm; there are %s", list);
    else
        talc_print_wrapped(file, 6, "   -> none: the call would fail");
}

void talc_explanation_print(FILE *file, const talc_explanation *e)
{
    static const talc_column columns[] = { { "", TALC_COLUMN_NAME }, { "", TALC_COLUMN_TEXT } };
    if (file == NULL || e == NULL)
        return;
    printed shown = { .of = e };
    for (int i = 0; i < e->count; i++)
        if (!talc_candidate_is_passed_over(e, i))
            shown.index[shown.count++] = i;
    if (e->asked_for[0] != '\0')
        talc_print_wrapped(file, 4, "  on %s; '%s' was asked for by name:", e->device,
                           TALC_SHOWN(e->asked_for));
    else
        fprintf(file, "  on %s; %s runs:\n", e->device,
                estimates(e) ? "the one of the least estimate" : "the first that does not refuse");
    talc_table_print(file, &(talc_table){ .count = 2,
                                          .columns = columns,
                                          .rows = shown.count,
                                          .indent = 3,
                                          .untitled = true,
                                          .cell = cell,
                                          .context = &shown });
    if (e->chosen < 0)
        print_none(file, e, shown.count);
}

const talc_algorithm *talc_chosen(const talc_choice *choice)
{
    return choice->algorithms[choice->chosen].algorithm;
}

const talc_plan *talc_chosen_plan(const talc_choice *choice)
{
    return &choice->algorithms[choice->chosen].plan;
}

/* Algorithms of programs may return a status alone, or raise a failure alone. */
static talc_status run_raising(const talc_choice *choice, const void *problem,
                               const talc_arguments *arguments)
{
    const talc_considered *chosen = &choice->algorithms[choice->chosen];
    const talc_status status =
        talc_algorithm_run(chosen->algorithm, choice->device, problem, &chosen->plan, arguments);
    if (status != TALC_OK && !talc_failed())
        talc_fail(status > TALC_OK && status < TALC_STATUS_COUNT ? status : TALC_BAD_ARGUMENT,
                  "%s on %s: '%s' failed: %s", choice->op, choice->device->name,
                  chosen->algorithm->name, talc_status_text(status));
    return talc_error_status();
}

talc_status talc_choice_run(const talc_choice *choice, talc_run_text *write, const void *subject,
                            const void *problem, talc_arguments *arguments)
{
    const talc_considered *chosen = &choice->algorithms[choice->chosen];
    talc_device *device = choice->device;
    talc_block block;
    const size_t cached = arguments->cached != NULL ? chosen->plan.cached : 0;
    talc_status status =
        talc_block_new(device, choice->op, chosen->plan.workspace - cached, &block);
    if (status != TALC_OK)
        return status;
    arguments->workspace = block.data;
    algorithm_title title;
    const char *shown =
        talc_run_is_watched(device) ? text_of(chosen->algorithm, title) : chosen->algorithm->name;
    const talc_run frame = talc_run_begin(choice->op, device, shown, write, subject);
    status = talc_run_end(&frame, run_raising(choice, problem, arguments));
    talc_block_free(device, block);
    return status;
}
