#include "ops/conv2d.h"

#include "ops/backend.h"
#include "ops/choice.h"
#include "ops/conv2d_gradient.h"
#include "ops/gradient.h"
#include "ops/operand.h"
#include "tensor/cached.h"
#include "tensor/observe.h"
#include "tensor/recording.h"
#include "tensor/run.h"
#include "tensor/storage.h"

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

/* All that an algorithm's packed weights depend on. */
typedef struct cached_key {
    const talc_algorithm *algorithm;
    const void *weights;
    int64_t form, numbers[16];
} cached_key;

static cached_key cached_key_of(const talc_choice *choice, const talc_conv2d_problem *p,
                                const void *w)
{
    return (cached_key){ talc_chosen(choice),
                         w,
                         talc_chosen_plan(choice)->cached_form,
                         { (int64_t)p->dtype, p->C, p->OC, p->KH, p->KW, p->stride_h, p->stride_w,
                           p->pad_top, p->pad_left, p->pad_bottom, p->pad_right, p->dilation_h,
                           p->dilation_w, p->groups, (int64_t)p->padding_mode } };
}

/* Room for what is kept of w, ready when it is there from an earlier call; NULL for none. */
static talc_tensor *take_cached(const talc_choice *choice, const cached_key *key,
                                const talc_tensor *w, talc_arguments *arguments)
{
    talc_tensor *cached = talc_cached_find(w, key, sizeof *key);
    arguments->cached_ready = cached != NULL;
    /* What is made in a recording's memory has elements only once that is replayed. */
    if (cached == NULL && !talc_failed() && talc_recording_serving(w->device) == NULL)
        cached = talc_retain(talc_tensor_new("conv2d", w->device, TALC_U8,
                                             TALC_DIMS((int64_t)talc_chosen_plan(choice)->cached)));
    if (cached != NULL) {
        arguments->cached = cached->data;
        talc_tensor_used(cached);
    }
    return cached;
}

static talc_status run(const talc_choice *choice, const talc_conv2d_problem *problem,
                       const operands *packed, bool caches, talc_tensor *y)
{
    talc_conv2d_arguments arguments = {
        .x = packed->x->data,
        .w = packed->w->data,
        .bias = talc_operand_data(packed->bias),
        .residual = talc_operand_data(packed->residual),
        .y = y->data,
    };
    const cached_key key = cached_key_of(choice, problem, packed->w->data);
    const uint64_t version = talc_version(packed->w); /* before the algorithm reads it */
    talc_tensor *cached = NULL;
    if (caches && talc_chosen_plan(choice)->cached > 0)
        cached = take_cached(choice, &key, packed->w, &arguments.base);
    talc_status status =
        talc_failed() ? talc_error_status()
                      : talc_choice_run(choice, problem_text, problem, problem, &arguments.base);
    if (status == TALC_OK && cached != NULL && !arguments.base.cached_ready &&
        !talc_cached_add(packed->w, version, &key, sizeof key, cached))
        status = talc_error_status();
    talc_scope_drop(cached);
    talc_release(cached);
    return status;
}

talc_tensor *talc_conv2d(const talc_tensor *x, const talc_tensor *w, const talc_tensor *bias,
                         const talc_conv2d_options *options)
{
    talc_conv2d_problem problem;
    if (!talc_conv2d_problem_of(x, w, bias, options, &problem) ||
        !talc_operand_precision("conv2d", options == NULL ? 0 : options->precision))
        return NULL;
    const talc_tensor *residual = options == NULL ? NULL : options->residual;
    const talc_tensor *const inputs[] = { x, w, bias, residual };
    if (!talc_activation_gradient_from_result(problem.activation) && talc_tape_wants(inputs, 4)) {
        talc_conv2d_options plain = *options;
        plain.activation = TALC_ACTIVATION_NONE;
        return talc_activated(problem.activation, talc_conv2d(x, w, bias, &plain));
    }

    talc_choice choice;
    if (!talc_choose(&choice, "conv2d", x->device,
                     talc_backend_algorithms(x->device->backend, TALC_OP_conv2d), &problem,
                     sizeof problem, options == NULL ? NULL : options->algorithm,
                     options == NULL ? 0 : options->precision))
        return NULL;

    const bool caches = options != NULL && options->cache_weights && talc_is_contiguous(w) &&
                        !talc_tape_wants(inputs, 4) && !talc_recording_of_step(w->device);
    talc_observer *observer = talc_observe_pause();
    operands packed;
    talc_tensor *y = NULL;
    if (operands_pack(x, w, bias, residual, &packed))
        y = talc_tensor_new("conv2d", x->device, x->dtype,
                            TALC_DIMS(problem.N, problem.OC, problem.OH, problem.OW));
    if (y != NULL && problem.N > 0)
        y = talc_result(y, run(&choice, &problem, &packed, caches, y));
    talc_observe_resume(observer);
    talc_observed("conv2d", talc_chosen(&choice), &problem, inputs, 4, y);
    operands_release(&packed);
    return talc_conv2d_record(&problem, options == NULL ? 0 : options->precision, inputs, y);
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

    explanation->problem = checked;
    explanation->flops = talc_conv2d_flops(&checked);
    explanation->bytes = talc_conv2d_bytes(&checked);
    /* Algorithms see a gradient's problem as talc_conv2d_gradient_problem makes it. */
    const talc_conv2d_problem directed =
        checked.direction == TALC_FORWARD
            ? checked
            : talc_conv2d_gradient_problem(&checked, checked.direction);
    talc_choice_explain(talc_conv2d_name(checked.direction), device,
                        talc_backend_algorithms(device->backend, TALC_OP_conv2d), &directed,
                        options == NULL ? NULL : options->algorithm,
                        options == NULL ? 0 : options->precision, &explanation->decision);
    return true;
}
