#include "ops/conv2d.h"

#include "ops/backend.h"
#include "ops/choice.h"
#include "ops/operand.h"
#include "tensor/observe.h"
#include "tensor/run.h"

static size_t workspace_of(const talc_conv2d_algorithm *row, const talc_choice *choice,
                           const talc_conv2d_problem *problem)
{
    /* An empty problem never runs. */
    return row->workspace == NULL || problem->N == 0
               ? 0
               : row->workspace(choice->device, problem, choice->limit);
}

/* Why a row leaves the problem, which it can do, to a later one. One that is asked for by name does not. */
static const char *yield_of(const talc_conv2d_algorithm *row, const talc_choice *choice,
                            const talc_conv2d_problem *problem, const char *refusal,
                            size_t workspace)
{
    char text[96];
    if (row->yields == NULL || choice->forced != NULL ||
        talc_choice_refusal(choice, &row->algorithm, refusal, workspace, text) != NULL)
        return NULL;
    return row->yields(choice->device, problem, choice->limit);
}

/* The row that runs, and its workspace: the first that can and does not yield, else the first that can. */
static const talc_conv2d_algorithm *choose(talc_device *device, const talc_conv2d_problem *problem,
                                           const talc_conv2d_options *options, size_t *workspace)
{
    talc_choice choice =
        talc_choice_begin("conv2d", device, options == NULL ? NULL : options->algorithm,
                          options == NULL ? 0 : options->precision);
    const talc_conv2d_algorithm *yielding = NULL;
    for (const talc_conv2d_algorithm *row = device->backend->conv2d;
         row != NULL && row->algorithm.name != NULL; row++) {
        const char *refusal = row->refuses(problem);
        *workspace = refusal != NULL ? 0 : workspace_of(row, &choice, problem);
        const char *yield = yield_of(row, &choice, problem, refusal, *workspace);
        yielding = yield != NULL && yielding == NULL ? row : yielding;
        if (talc_choice_admits(&choice, &row->algorithm, yield != NULL ? yield : refusal,
                               *workspace))
            return row;
    }
    if (yielding != NULL) {
        *workspace = workspace_of(yielding, &choice, problem);
        if (talc_choice_admits(&choice, &yielding->algorithm, NULL, *workspace))
            return yielding;
    }
    talc_choice_fail(&choice);
    return NULL;
}

/* Contiguous handles on the operands, all of this call's own. */
typedef struct operands {
    talc_tensor *x, *w, *bias, *residual;
} operands;

static bool operands_pack(const talc_tensor *x, const talc_tensor *w, const talc_tensor *bias,
                          const talc_tensor *residual, operands *packed)
{
    packed->x = talc_operand_contiguous("conv2d", x);
    packed->w = talc_operand_contiguous("conv2d", w);
    packed->bias = talc_operand_contiguous("conv2d", bias);
    packed->residual = talc_operand_contiguous("conv2d", residual);
    return !talc_failed();
}

static void operands_release(operands *packed)
{
    talc_release(packed->x);
    talc_release(packed->w);
    talc_release(packed->bias);
    talc_release(packed->residual);
}

static void problem_text(const void *problem, char text[TALC_RUN_TEXT])
{
    _Static_assert(TALC_CONV2D_TEXT <= TALC_RUN_TEXT, "a problem's text has room");
    talc_conv2d_problem_text(problem, text);
}

static talc_status run(const talc_conv2d_algorithm *row, const talc_conv2d_problem *problem,
                       size_t workspace, const operands *packed, talc_tensor *y)
{
    talc_block block;
    talc_status status = talc_block_new(y->device, "conv2d", workspace, &block);
    if (status != TALC_OK)
        return status;
    const talc_conv2d_arguments arguments = {
        .x = packed->x->data,
        .w = packed->w->data,
        .bias = talc_operand_data(packed->bias),
        .residual = talc_operand_data(packed->residual),
        .y = y->data,
        .workspace = block.data,
        .workspace_bytes = workspace,
    };
    talc_run frame =
        talc_run_begin("conv2d", y->device, row->algorithm.name, problem_text, problem);
    status = row->run(y->device, problem, &arguments);
    status = talc_run_end(&frame, status);
    talc_block_free(y->device, block);
    return status;
}

talc_tensor *talc_conv2d(const talc_tensor *x, const talc_tensor *w, const talc_tensor *bias,
                         const talc_conv2d_options *options)
{
    talc_conv2d_problem problem;
    if (!talc_conv2d_problem_of(x, w, bias, options, &problem) ||
        !talc_operand_precision("conv2d", options == NULL ? 0 : options->precision))
        return NULL;

    size_t workspace;
    const talc_conv2d_algorithm *row = choose(x->device, &problem, options, &workspace);
    if (row == NULL)
        return NULL;

    const talc_tensor *residual = options == NULL ? NULL : options->residual;
    talc_observer *observer = talc_observe_pause();
    operands packed;
    talc_tensor *y = NULL;
    if (operands_pack(x, w, bias, residual, &packed))
        y = talc_tensor_new("conv2d", x->device, x->dtype,
                            TALC_DIMS(problem.N, problem.OC, problem.OH, problem.OW));
    if (y != NULL && problem.N > 0)
        y = talc_result(y, run(row, &problem, workspace, &packed, y));
    operands_release(&packed);
    talc_observe_resume(observer);
    talc_observed("conv2d", &row->algorithm, &problem,
                  (const talc_tensor *const[]){ x, w, bias, residual }, 4, y);
    return y;
}

bool talc_conv2d_explain(talc_device *device, const talc_conv2d_problem *problem,
                         const talc_conv2d_options *options, talc_conv2d_explanation *explanation)
{
    if (talc_operand_missing("conv2d_explain", "device", device) ||
        talc_operand_missing("conv2d_explain", "problem", problem) ||
        talc_operand_missing("conv2d_explain", "explanation", explanation))
        return false;
    talc_conv2d_problem checked = *problem;
    if (!talc_conv2d_problem_check(&checked) ||
        !talc_operand_precision("conv2d", options == NULL ? 0 : options->precision))
        return false;

    talc_choice choice =
        talc_choice_begin("conv2d", device, options == NULL ? NULL : options->algorithm,
                          options == NULL ? 0 : options->precision);
    talc_conv2d_explanation e = { .problem = checked,
                                  .flops = talc_conv2d_flops(&checked),
                                  .bytes = talc_conv2d_bytes(&checked),
                                  .workspace_limit = choice.limit,
                                  .chosen = -1 };
    snprintf(e.device, sizeof e.device, "%s", device->name);
    const talc_conv2d_algorithm *row = device->backend->conv2d;
    for (; row != NULL && row->algorithm.name != NULL && e.count < TALC_CONV2D_MAX_CANDIDATES;
         row++) {
        talc_conv2d_candidate *candidate = &e.candidates[e.count];
        candidate->name = row->algorithm.name;
        candidate->arithmetic = row->algorithm.arithmetic;
        const char *refusal = row->refuses(&checked);
        candidate->workspace = refusal != NULL ? 0 : workspace_of(row, &choice, &checked);
        char text[96];
        const char *reason =
            talc_choice_refusal(&choice, &row->algorithm, refusal, candidate->workspace, text);
        candidate->refused = reason != NULL;
        if (!candidate->refused) {
            reason = yield_of(row, &choice, &checked, refusal, candidate->workspace);
            candidate->yields = reason != NULL;
        }
        snprintf(candidate->reason, sizeof candidate->reason, "%s", reason == NULL ? "" : reason);
        if (reason == NULL && e.chosen < 0)
            e.chosen = e.count;
        e.count++;
    }
    /* Nobody is left to yield to. */
    for (int i = 0; i < e.count && e.chosen < 0; i++)
        if (!e.candidates[i].refused) {
            e.candidates[i].yields = false;
            e.candidates[i].reason[0] = '\0';
            e.chosen = i;
        }
    *explanation = e;
    return true;
}
