#include "nn/step.h"

#include "ops/operand.h"
#include "tensor/memory.h"
#include "tensor/observe.h"
#include "tensor/recording.h"
#include "tensor/run.h"
#include "tensor/scope.h"

static const char *const STEP = "step";

/* Runs before one is recorded: the first makes what is made once, the second all else in the
 * recording's memory. */
enum { CALLS = 2 };

struct talc_step {
    talc_device *device;
    talc_step_function *function;
    void *context;
    talc_recording *recording;
    talc_tensor *y;
    int calls;
    bool recorded;
};

talc_step *talc_step_new(talc_device *device, talc_step_function *function, void *context)
{
    if (talc_operand_missing(STEP, "device", device))
        return NULL;
    if (function == NULL) {
        talc_fail(TALC_NULL_ARGUMENT, "%s: function is NULL", STEP);
        return NULL;
    }
    talc_step *step = talc_memory_new(sizeof *step, STEP);
    if (step != NULL)
        *step = (talc_step){ .device = device, .function = function, .context = context };
    return step;
}

/* The function's result, in memory that nobody else sees: what the program holds may be written
 * before the result is read. */
static talc_tensor *call(const talc_step *step)
{
    talc_tensor *y = step->function(step->context);
    if (y == NULL && !talc_failed())
        talc_fail(TALC_BAD_ARGUMENT, "%s: the function returned NULL", STEP);
    if (!talc_failed() && y->device != step->device)
        talc_fail(TALC_BAD_ARGUMENT, "%s: the result is on %s, the step on %s", STEP,
                  y->device->name, step->device->name);
    if (talc_failed())
        return NULL;
    return talc_recording_owns(step->recording, y) && talc_scope_holds_alone(y) &&
                   talc_is_contiguous(y)
               ? y
               : talc_clone_for(STEP, y);
}

/* Its result is from now on this one, in the same handle. */
static bool take_result(talc_step *step, talc_tensor *y)
{
    talc_tensor *alias = y == NULL || talc_failed() ? NULL : talc_tensor_alias(y);
    if (alias == NULL)
        return false;
    if (step->y == NULL)
        step->y = talc_retain(alias);
    else
        talc_tensor_replace(step->y, alias);
    return true;
}

static bool run_function(talc_step *step)
{
    if (!talc_recording_enter(STEP, step->recording, step->calls > 0))
        return false;
    talc_tensor *y = call(step);
    talc_recording_leave();
    if (!take_result(step, y))
        return false;
    step->calls += step->calls < CALLS;
    return true;
}

static bool record(talc_step *step)
{
    talc_tensor *y = NULL;
    if (!talc_recording_enter(STEP, step->recording, true))
        return false;
    if (talc_recording_begin(step->recording)) {
        talc_observer *observer = talc_observe_pause(); /* of elements that do not exist */
        y = call(step);
        talc_observe_resume(observer);
        if (!talc_recording_end(step->recording))
            y = NULL;
    }
    talc_recording_leave();
    step->recorded = take_result(step, y);
    return step->recorded;
}

static bool replay(talc_step *step)
{
    const talc_run run = talc_run_begin(STEP, step->device, "graph", talc_run_dims, step->y);
    const bool ran = talc_recording_replay(step->recording);
    if (talc_run_end(&run, ran ? TALC_OK : talc_error_status()) != TALC_OK)
        return false;
    talc_tensor_written(step->y);
    return true;
}

talc_tensor *talc_step_run(talc_step *step)
{
    if (talc_operand_missing(STEP, "step", step) ||
        talc_recording_refuses(STEP, step->device, "run a step") ||
        talc_recording_refuses_device(STEP, step->device))
        return NULL;
    talc_scope *scope = talc_scope_enter();
    bool ran = scope != NULL;
    if (ran && step->recording == NULL)
        step->recording = talc_recording_new(step->device, true);
    ran = ran && step->recording != NULL && talc_recording_follow(step->recording);
    if (ran && step->calls == CALLS && talc_recording_possible(step->device))
        ran = (step->recorded || record(step)) && replay(step);
    else if (ran)
        ran = run_function(step);
    talc_scope_leave(scope);
    if (!ran && !step->recorded) { /* half a recording is none */
        talc_recording_free(step->recording);
        step->recording = NULL;
        step->calls = 0;
    }
    return ran ? step->y : NULL;
}

void talc_step_free(talc_step *step)
{
    if (step == NULL)
        return;
    talc_release(step->y);
    talc_recording_free(step->recording);
    talc_memory_free(step);
}
