#include "nn/optimizer.h"

#include "nn/optimizer_state.h"
#include "ops/operand.h"
#include "tensor/autograd.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/recording.h"
#include "tensor/shown.h"
#include "tensor/storage.h"
#include "tensor/tape.h"
#include "tensor/within.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>

TALC_UPDATE_NUMBERS(float)
TALC_UPDATE_NUMBERS(double)

const char *talc_optimizer_kind_name(talc_optimizer_kind kind)
{
    static const char *const names[] = { "sgd", "adam", "adamw", "rmsprop" };
    return (unsigned)kind < TALC_OPTIMIZER_COUNT ? names[kind] : "?";
}

// ---- Options ------------------------------------------------------------------------------------

static double or_default(double value, double fallback)
{
    return value == 0 ? fallback : value == (double)TALC_ZERO ? 0 : value;
}

static bool from_to(const char *name, double value, double low, double high)
{
    /* Written so that NaN is refused too. */
    if (!(value >= low && value <= high))
        talc_fail(TALC_BAD_ARGUMENT, "optimizer: %s %g must be from %g to %g", name, value, low,
                  high);
    return !talc_failed();
}

static bool belongs(const char *name, double value, bool has)
{
    if (value != 0 && !has)
        talc_fail(TALC_BAD_ARGUMENT, "optimizer: %s %g is an option of another kind", name, value);
    return !talc_failed();
}

static bool kind_exists(talc_optimizer_kind kind)
{
    if ((unsigned)kind >= TALC_OPTIMIZER_COUNT)
        talc_fail(TALC_BAD_ARGUMENT, "optimizer: kind %d is outside 0..%d", (int)kind,
                  TALC_OPTIMIZER_COUNT - 1);
    return !talc_failed();
}

bool talc_optimizer_in_range(const talc_optimizer_options *o)
{
    TALC_DEFAULT_FENV;
    if (!kind_exists(o->kind) || !from_to("lr", o->lr, 0, INFINITY) ||
        !from_to("weight_decay", o->weight_decay, 0, INFINITY) ||
        !from_to("momentum", o->momentum, 0, INFINITY) ||
        !from_to("dampening", o->dampening, 0, 1) || !from_to("beta1", o->beta1, 0, 1) ||
        !from_to("beta2", o->beta2, 0, 1) || !from_to("alpha", o->alpha, 0, 1) ||
        !from_to("eps", o->eps, 0, INFINITY))
        return false;
    if (o->nesterov && (o->momentum == 0 || o->dampening != 0))
        talc_fail(TALC_BAD_ARGUMENT,
                  "optimizer: nesterov needs a momentum and no dampening, they are %g and %g",
                  o->momentum, o->dampening);
    else if (o->beta1 == 1 || o->beta2 == 1)
        talc_fail(TALC_BAD_ARGUMENT, "optimizer: beta1 %g and beta2 %g must be below 1", o->beta1,
                  o->beta2);
    return !talc_failed();
}

/* Numbers in place of defaults, checked. */
static bool complete(const talc_optimizer_options *given, talc_optimizer_options *o)
{
    TALC_DEFAULT_FENV;
    if (talc_operand_missing("optimizer", "options", given) || !kind_exists(given->kind))
        return false;
    *o = *given;
    const bool sgd = o->kind == TALC_SGD, rmsprop = o->kind == TALC_RMSPROP;
    const bool adam = o->kind == TALC_ADAM || o->kind == TALC_ADAMW;
    if (!belongs("momentum", o->momentum, sgd || rmsprop) ||
        !belongs("dampening", o->dampening, sgd) || !belongs("nesterov", o->nesterov, sgd) ||
        !belongs("beta1", o->beta1, adam) || !belongs("beta2", o->beta2, adam) ||
        !belongs("alpha", o->alpha, rmsprop) || !belongs("centered", o->centered, rmsprop) ||
        !belongs("eps", o->eps, !sgd))
        return false;
    o->lr = or_default(o->lr, rmsprop ? 1e-2 : 1e-3);
    o->weight_decay = or_default(o->weight_decay, o->kind == TALC_ADAMW ? 1e-2 : 0);
    o->momentum = or_default(o->momentum, 0);
    o->dampening = or_default(o->dampening, 0);
    o->beta1 = or_default(o->beta1, adam ? 0.9 : 0);
    o->beta2 = or_default(o->beta2, adam ? 0.999 : 0);
    o->alpha = or_default(o->alpha, rmsprop ? 0.99 : 0);
    o->eps = or_default(o->eps, sgd ? 0 : 1e-8);
    return talc_optimizer_in_range(o);
}

// ---- Making and freeing -------------------------------------------------------------------------

static bool count_parameter(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    if (is_buffer || !talc_dtype_is_float(tensor->dtype))
        return true;
    if (!talc_is_contiguous(tensor)) {
        talc_fail(TALC_BAD_ARGUMENT, "optimizer: parameter '%s' is a view with gaps",
                  TALC_SHOWN(path));
        return false;
    }
    ++*(int *)context;
    return true;
}

/* Whether it is there already: layers may share a parameter. */
static bool is_listed(const talc_optimizer *optimizer, const talc_tensor *parameter)
{
    for (int i = 0; i < optimizer->count; i++)
        if (optimizer->list[i].parameter == parameter)
            return true;
    return false;
}

static bool record_parameter(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    talc_optimizer *optimizer = context;
    if (is_buffer || !talc_dtype_is_float(tensor->dtype) || is_listed(optimizer, tensor))
        return true;
    talc_optimized *of = &optimizer->list[optimizer->count];
    of->path = talc_memory_string(path);
    if (of->path == NULL)
        return false;
    of->parameter = talc_retain(tensor);
    optimizer->count++;
    return true;
}

talc_optimizer *talc_optimizer_new(talc_module *module, const talc_optimizer_options *options)
{
    talc_optimizer_options o;
    int count = 0;
    if (talc_operand_missing("optimizer", "module", module) || !complete(options, &o) ||
        !talc_module_visit(module, count_parameter, &count))
        return NULL;
    if (count == 0) {
        talc_fail(TALC_BAD_ARGUMENT, "optimizer: %s has no parameter",
                  TALC_SHOWN(module->kind->name));
        return NULL;
    }
    talc_optimizer *optimizer = talc_memory_new(sizeof *optimizer, "optimizer");
    if (optimizer == NULL)
        return NULL;
    optimizer->groups = talc_memory_new(sizeof *optimizer->groups, "optimizer");
    optimizer->list = talc_memory_new((size_t)count * sizeof *optimizer->list, "optimizer");
    if (optimizer->groups != NULL && optimizer->list != NULL &&
        talc_module_visit(module, record_parameter, optimizer)) {
        optimizer->groups[0] = o;
        optimizer->group_count = 1;
        return optimizer;
    }
    talc_optimizer_free(optimizer);
    return NULL;
}

void talc_optimizer_free(talc_optimizer *optimizer)
{
    if (optimizer == NULL)
        return;
    for (int i = 0; i < optimizer->count; i++) {
        talc_optimized *of = &optimizer->list[i];
        talc_memory_free(of->path);
        talc_release(of->parameter);
        for (int k = 0; k < TALC_UPDATE_STATES; k++)
            talc_release(of->states[k]);
    }
    talc_memory_free(optimizer->list);
    talc_memory_free(optimizer->groups);
    talc_memory_free(optimizer);
}

bool talc_optimizer_group(talc_optimizer *optimizer, const char *pattern,
                          const talc_optimizer_options *options)
{
    talc_optimizer_options o;
    if (talc_operand_missing("optimizer_group", "optimizer", optimizer) ||
        talc_operand_missing("optimizer_group", "pattern", pattern) || !complete(options, &o))
        return false;
    const talc_optimizer_kind kind = optimizer->groups[0].kind;
    if (o.kind != kind) {
        talc_fail(TALC_BAD_ARGUMENT, "optimizer_group: the group is %s, the optimizer %s",
                  talc_optimizer_kind_name(o.kind), talc_optimizer_kind_name(kind));
        return false;
    }
    int matched = 0;
    for (int i = 0; i < optimizer->count; i++)
        matched += fnmatch(pattern, optimizer->list[i].path, 0) == 0;
    if (matched == 0) {
        talc_fail(TALC_NOT_FOUND, "optimizer_group: no parameter's path matches '%s'",
                  TALC_SHOWN(pattern));
        return false;
    }
    const size_t count = (size_t)optimizer->group_count;
    talc_optimizer_options *groups =
        talc_memory_new((count + 1) * sizeof *groups, "optimizer group");
    if (groups == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        groups[i] = optimizer->groups[i];
    groups[count] = o;
    talc_memory_free(optimizer->groups);
    optimizer->groups = groups;
    for (int i = 0; i < optimizer->count; i++)
        if (fnmatch(pattern, optimizer->list[i].path, 0) == 0)
            optimizer->list[i].group = optimizer->group_count;
    optimizer->group_count++;
    return true;
}

// ---- Rates --------------------------------------------------------------------------------------

bool talc_optimizer_schedule(talc_optimizer *optimizer, const talc_schedule *s)
{
    TALC_DEFAULT_FENV;
    static const char *const who = "optimizer_schedule";
    if (talc_operand_missing(who, "optimizer", optimizer) ||
        talc_operand_missing(who, "schedule", s))
        return false;
    const bool needs_steps = s->kind == TALC_SCHEDULE_COSINE || s->kind == TALC_SCHEDULE_ONE_CYCLE;
    if ((unsigned)s->kind >= TALC_SCHEDULE_COUNT)
        talc_fail(TALC_BAD_ARGUMENT, "%s: kind %d is outside 0..%d", who, (int)s->kind,
                  TALC_SCHEDULE_COUNT - 1);
    else if ((needs_steps && s->steps < 1) || (s->kind == TALC_SCHEDULE_STEP && s->every < 1))
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s of %s is %" PRId64 ", it must be at least 1", who,
                  needs_steps ? "steps" : "every", talc_schedule_name(s->kind),
                  needs_steps ? s->steps : s->every);
    else if (s->warmup < 0)
        talc_fail(TALC_BAD_ARGUMENT, "%s: warmup %" PRId64 " must not be negative", who, s->warmup);
    else if (!(s->gamma >= 0) || !(s->floor >= 0) || !(s->rise >= 0 && s->rise <= 1) ||
             !(s->div >= 0) || !(s->final_div >= 0) ||
             !(s->warmup_start >= 0 && s->warmup_start <= 1))
        talc_fail(
            TALC_BAD_ARGUMENT,
            "%s: gamma %g, floor %g, div %g and final_div %g must not be negative, rise %g and "
            "warmup_start %g from 0 to 1",
            who, s->gamma, s->floor, s->div, s->final_div, s->rise, s->warmup_start);
    if (talc_failed())
        return false;
    optimizer->schedule = *s;
    return true;
}

int64_t talc_optimizer_steps(const talc_optimizer *optimizer)
{
    return optimizer == NULL ? 0 : optimizer->steps;
}

double talc_optimizer_rate(const talc_optimizer *optimizer, int group)
{
    return optimizer == NULL || group < 0 || group >= optimizer->group_count
               ? NAN
               : talc_schedule_rate(&optimizer->schedule, optimizer->groups[group].lr,
                                    optimizer->steps);
}

// ---- State --------------------------------------------------------------------------------------

const char *talc_optimizer_state_name(const talc_optimizer_options *group, int state)
{
    TALC_DEFAULT_FENV;
    static const char *const adam[] = { "exp_avg", "exp_avg_sq", NULL };
    switch (group->kind) {
    case TALC_SGD:
        return state == 0 && group->momentum != 0 ? "momentum_buffer" : NULL;
    case TALC_RMSPROP:
        return state == 0                           ? "square_avg"
               : state == 1 && group->centered      ? "grad_avg"
               : state == 2 && group->momentum != 0 ? "momentum_buffer"
                                                    : NULL;
    default:
        return adam[state];
    }
}

/* The states that a parameter lacks, or has only on another device or as another dtype; zeros at
 * first. In no scope. */
static bool states_new(const talc_optimizer *optimizer, const talc_optimized *of,
                       talc_tensor *fresh[TALC_UPDATE_STATES])
{
    const talc_tensor *p = of->parameter;
    for (int k = 0; k < TALC_UPDATE_STATES; k++) {
        if (talc_optimizer_state_name(&optimizer->groups[of->group], k) == NULL ||
            (of->states[k] != NULL && of->states[k]->device == p->device &&
             of->states[k]->dtype == p->dtype))
            continue;
        fresh[k] = of->states[k] == NULL ? talc_zeros_like(p)
                                         : talc_to(of->states[k], p->device, p->dtype);
        if (fresh[k] == NULL)
            return false;
        talc_retain(fresh[k]);
        talc_scope_drop(fresh[k]);
    }
    return true;
}

/* Sees to it that every state of a parameter that has a gradient exists, as the parameter is now.
 * On failure none is new. */
static bool states_ready(const talc_optimizer *optimizer)
{
    talc_tensor *(*fresh)[TALC_UPDATE_STATES] =
        talc_memory_new((size_t)optimizer->count * sizeof *fresh, "optimizer_step");
    if (fresh == NULL)
        return false;
    bool ok = true;
    for (int i = 0; i < optimizer->count && ok; i++)
        ok = talc_grad(optimizer->list[i].parameter) == NULL ||
             states_new(optimizer, &optimizer->list[i], fresh[i]);
    for (int i = 0; i < optimizer->count; i++)
        for (int k = 0; k < TALC_UPDATE_STATES; k++) {
            talc_tensor **state = &optimizer->list[i].states[k];
            if (fresh[i][k] == NULL)
                continue;
            talc_release(ok ? *state : fresh[i][k]);
            *state = ok ? fresh[i][k] : *state;
        }
    talc_memory_free(fresh);
    return ok;
}

// ---- Gradients ----------------------------------------------------------------------------------

void talc_optimizer_zero_grad(talc_optimizer *optimizer)
{
    for (int i = 0; optimizer != NULL && i < optimizer->count; i++)
        talc_grad_clear(optimizer->list[i].parameter);
}

static void give_gradients(const talc_optimizer *optimizer, int count, const void *holder)
{
    for (int i = 0; i < count; i++)
        talc_tape_give(optimizer->list[i].parameter, holder);
}

/* From here to give_gradients they are the holder's alone; false, with a failure, where another
 * thread has one. */
static bool take_gradients(const char *who, const talc_optimizer *optimizer, const void *holder)
{
    for (int i = 0; i < optimizer->count; i++)
        if (!talc_tape_take(who, optimizer->list[i].parameter, holder)) {
            give_gradients(optimizer, i, holder);
            return false;
        }
    return true;
}

/* Those of `optimizer->list` that have a gradient: how many, -1 with a failure where none has. */
static int with_gradient(const char *who, const talc_optimizer *optimizer)
{
    int count = 0;
    for (int i = 0; i < optimizer->count; i++)
        count += talc_grad(optimizer->list[i].parameter) != NULL;
    if (count > 0)
        return count;
    talc_fail(TALC_BAD_ARGUMENT,
              "%s: none of %d parameters has a gradient; talc_backward gives them theirs", who,
              optimizer->count);
    return -1;
}

static talc_update_problem problem_of(const talc_optimizer *optimizer, const talc_optimized *of)
{
    TALC_DEFAULT_FENV;
    const talc_optimizer_options *o = &optimizer->groups[of->group];
    static const talc_update_rule rules[] = { TALC_UPDATE_SGD, TALC_UPDATE_ADAM, TALC_UPDATE_ADAM,
                                              TALC_UPDATE_RMSPROP };
    const bool adam = rules[o->kind] == TALC_UPDATE_ADAM;
    const double step = (double)of->steps + 1;
    return (talc_update_problem){ .rule = rules[o->kind],
                                  .lr = talc_optimizer_rate(optimizer, of->group),
                                  .momentum = adam ? o->beta1 : o->momentum,
                                  .beta2 = adam ? o->beta2 : o->alpha,
                                  .dampening = o->dampening,
                                  .decay = o->weight_decay,
                                  .eps = o->eps,
                                  .correction1 = 1 - pow(o->beta1, step),
                                  .correction2 = 1 - pow(o->beta2, step),
                                  .nesterov = o->nesterov,
                                  .decoupled = o->kind == TALC_ADAMW,
                                  .centered = o->centered,
                                  .first = of->steps == 0 };
}

/* Whether two parameters can be updated by one problem. */
static bool same_options(const talc_optimized *a, const talc_optimized *b)
{
    return a->group == b->group && a->steps == b->steps &&
           a->parameter->dtype == b->parameter->dtype &&
           a->parameter->device == b->parameter->device;
}

// ---- Recorded steps -----------------------------------------------------------------------------

/* Of parameters that are updated alike. */
typedef struct noted_update {
    const talc_optimizer *optimizer;
    int first; /* of its list */
} noted_update;

static bool fill_update(const void *of, void *numbers)
{
    TALC_DEFAULT_FENV;
    const noted_update *noted = of;
    const talc_optimized *first = &noted->optimizer->list[noted->first];
    const talc_update_problem problem = problem_of(noted->optimizer, first);
    if (first->parameter->dtype == TALC_F32)
        *(talc_update_float *)numbers = talc_update_in_float(&problem);
    else
        *(talc_update_double *)numbers = talc_update_in_double(&problem);
    return true;
}

/* Where the device will find the numbers of each replay; NULL, with a failure, without memory. */
static const void *record_update(const talc_optimizer *optimizer, const talc_optimized *first)
{
    noted_update *noted = talc_memory_new(sizeof *noted, "optimizer_step");
    if (noted != NULL)
        *noted = (noted_update){ optimizer, (int)(first - optimizer->list) };
    return talc_recording_numbers(
        &(talc_numbers){ .bytes = sizeof(talc_update_double), .fill = fill_update, .of = noted });
}

/* A whole step: where the parameters were that it updated; NULL: it left them. */
typedef struct noted_step {
    talc_optimizer *optimizer;
    const void *data[];
} noted_step;

static bool check_places(const void *of, void *numbers)
{
    (void)numbers;
    const noted_step *noted = of;
    for (int i = 0; i < noted->optimizer->count; i++) {
        const talc_optimized *optimized = &noted->optimizer->list[i];
        if (noted->data[i] == NULL || noted->data[i] == optimized->parameter->data)
            continue;
        talc_fail(TALC_BAD_ARGUMENT,
                  "optimizer_step: %s was moved or loaded since the step was recorded, so it has "
                  "other storage now; make the step anew",
                  TALC_SHOWN(optimized->path));
        return false;
    }
    return true;
}

static void count_step(const void *of)
{
    const noted_step *noted = of;
    for (int i = 0; i < noted->optimizer->count; i++)
        noted->optimizer->list[i].steps += noted->data[i] != NULL;
    noted->optimizer->steps++;
}

static void record_step(talc_optimizer *optimizer, const bool *done)
{
    const size_t count = (size_t)optimizer->count;
    noted_step *noted =
        talc_memory_new(sizeof *noted + count * sizeof *noted->data, "optimizer_step");
    if (noted != NULL)
        noted->optimizer = optimizer;
    for (size_t i = 0; i < count && noted != NULL; i++)
        noted->data[i] = done[i] ? optimizer->list[i].parameter->data : NULL;
    (void)talc_recording_numbers(
        &(talc_numbers){ .fill = check_places, .done = count_step, .of = noted });
}

// ---- Steps --------------------------------------------------------------------------------------

/* Updates the parameters that are like the first of those left, and marks them; false when none is
 * left or it failed. */
static bool update_together(const talc_optimizer *optimizer, bool *done, talc_updated *list)
{
    const talc_optimized *first = NULL;
    int64_t count = 0;
    for (int i = 0; i < optimizer->count; i++) {
        const talc_optimized *of = &optimizer->list[i];
        const talc_tensor *gradient = talc_grad(of->parameter);
        if (done[i] || gradient == NULL || (first != NULL && !same_options(first, of)))
            continue;
        first = first == NULL ? of : first;
        done[i] = true;
        list[count] = (talc_updated){ .parameter = of->parameter, .gradient = gradient };
        for (int k = 0; k < TALC_UPDATE_STATES; k++)
            list[count].states[k] = of->states[k];
        count++;
    }
    if (count == 0)
        return false;
    const talc_update_problem problem = problem_of(optimizer, first);
    const void *numbers = talc_recording_records_step(first->parameter->device)
                              ? record_update(optimizer, first)
                              : NULL;
    return !talc_failed() && talc_update("optimizer_step", &problem, list, count, NULL, numbers);
}

static bool step(talc_optimizer *optimizer)
{
    if (with_gradient("optimizer_step", optimizer) < 0)
        return false;
    const char *around = talc_within("optimizer_step");
    const size_t count = (size_t)optimizer->count;
    bool *done = talc_memory_new(count * sizeof *done, "optimizer_step");
    talc_updated *list = talc_memory_new(count * sizeof *list, "optimizer_step");
    /* The last that may fail for want of memory. */
    if (done != NULL && list != NULL && states_ready(optimizer))
        while (update_together(optimizer, done, list))
            ;
    if (!talc_failed() && talc_recording_records_step(optimizer->list[0].parameter->device)) {
        record_step(optimizer, done); /* counted by each replay */
    } else {
        for (size_t i = 0; i < count && !talc_failed(); i++)
            optimizer->list[i].steps += done[i];
        optimizer->steps += !talc_failed();
    }
    talc_memory_free(done);
    talc_memory_free(list);
    talc_within(around);
    return !talc_failed();
}

bool talc_optimizer_step(talc_optimizer *optimizer)
{
    const bool *const holder = &(bool){ true }; /* an address of this call's own */
    if (talc_operand_missing("optimizer_step", "optimizer", optimizer) ||
        !take_gradients("optimizer_step", optimizer, holder))
        return false;
    const bool done = step(optimizer);
    give_gradients(optimizer, optimizer->count, holder);
    return done;
}

// ---- Clipping -----------------------------------------------------------------------------------

static talc_tensor *clip(const char *who, const talc_optimizer *optimizer, double max_norm,
                         talc_updated *list)
{
    int count = 0;
    for (int i = 0; i < optimizer->count; i++) {
        talc_tensor *gradient = talc_grad(optimizer->list[i].parameter);
        if (gradient == NULL)
            continue;
        list[count++].parameter = gradient;
        if (!talc_operand_like(who, "a gradient", list[0].parameter, "another", gradient))
            return NULL;
    }
    const talc_tensor *first = list[0].parameter;
    talc_tensor *y = talc_tensor_new(who, first->device, first->dtype, TALC_DIMS(2));
    if (y == NULL || !talc_update_norm(who, max_norm, list, count, y))
        return NULL;
    talc_tensor *norm = talc_select(y, 0, 0), *scale = norm == NULL ? NULL : talc_select(y, 0, 1);
    const talc_update_problem problem = { .rule = TALC_UPDATE_SCALE };
    return scale != NULL && talc_update(who, &problem, list, count, scale, NULL) ? norm : NULL;
}

talc_tensor *talc_optimizer_clip(talc_optimizer *optimizer, double max_norm)
{
    TALC_DEFAULT_FENV;
    static const char *const who = "optimizer_clip";
    if (talc_operand_missing(who, "optimizer", optimizer))
        return NULL;
    if (!(max_norm >= 0)) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: max_norm %g must be at least 0", who, max_norm);
        return NULL;
    }
    const bool *const holder = &(bool){ true };
    if (!take_gradients(who, optimizer, holder))
        return NULL;
    const int count = with_gradient(who, optimizer);
    const char *around = talc_within(who);
    talc_scope *scope = talc_scope_enter();
    talc_updated *list = count < 0 ? NULL : talc_memory_new((size_t)count * sizeof *list, who);
    talc_tensor *norm = NULL;
    if (list != NULL)
        norm = talc_scope_return(scope, clip(who, optimizer, max_norm, list));
    give_gradients(optimizer, optimizer->count, holder);
    talc_memory_free(list);
    talc_scope_leave(scope);
    talc_within(around);
    return norm;
}
