#include "ops/op.h"

#include "ops/choice.h"
#include "ops/operand.h"
#include "ops/ops.h"
#include "ops/update.h"
#include "tensor/observe.h"

/* Room for the arguments of all ops that are called here. */
typedef union arguments {
    talc_arguments base;
    unsigned char bytes[256];
} arguments;

#define TALC_OP(op, names, operands)                                                               \
    _Static_assert(TALC_OP_##op == TALC_OP_update ||                                               \
                       sizeof(talc_##op##_arguments) <= sizeof(arguments),                         \
                   #op);
#include "ops/ops.def"

static const size_t problem_bytes[] = {
#define TALC_OP(op, names, operands) [TALC_OP_##op] = sizeof(talc_##op##_problem),
#include "ops/ops.def"
};

static void hand_over(talc_arguments *to, const talc_operand *operand, const talc_tensor *tensor)
{
    void *const data = talc_operand_data(tensor);
    if (operand->argument != 0)
        memcpy((unsigned char *)to + operand->argument, &data, sizeof data);
}

/* The inputs that are packed, as the kernels read them; NULL for others. */
typedef struct packed_inputs {
    talc_tensor *of[TALC_CALL_INPUTS];
} packed_inputs;

static bool pack(const talc_call *call, packed_inputs *packed)
{
    for (int i = 0; i < call->input_count; i++)
        if (call->inputs[i].handed == TALC_PACKED && call->inputs[i].argument != 0)
            packed->of[i] = talc_operand_contiguous(call->name, call->inputs[i].tensor);
    return !talc_failed();
}

static talc_status run(const talc_call *call, const talc_choice *choice,
                       const packed_inputs *packed)
{
    arguments own = { .base = { .workspace = NULL } };
    talc_arguments *to = call->further != NULL ? call->further : &own.base;
    for (int i = 0; i < call->input_count; i++)
        hand_over(to, &call->inputs[i],
                  packed->of[i] != NULL ? packed->of[i] : call->inputs[i].tensor);
    for (int i = 0; i < TALC_CALL_OUTPUTS; i++)
        if (call->outputs[i].tensor != NULL)
            hand_over(to, &call->outputs[i], call->outputs[i].tensor);
    return talc_choice_run(choice, call->write != NULL ? call->write : talc_run_dims,
                           call->write != NULL ? call->problem : call->outputs[0].tensor,
                           call->problem, to);
}

static void tell(const talc_call *call, const talc_choice *choice, const talc_tensor *y)
{
    const talc_tensor *inputs[TALC_CALL_INPUTS];
    for (int i = 0; i < call->input_count; i++)
        inputs[i] = call->inputs[i].tensor;
    talc_observed(call->observed != NULL ? call->observed : call->name, talc_chosen(choice),
                  call->description != NULL ? call->description : call->problem, inputs,
                  call->input_count, y);
}

static bool fill(const talc_call *call)
{
    for (int i = 0; i < TALC_CALL_OUTPUTS; i++)
        if (call->outputs[i].tensor != NULL)
            talc_fill((talc_tensor *)call->outputs[i].tensor, call->filling);
    return !talc_failed();
}

static talc_tensor *run_and_tell(const talc_call *call, const talc_choice *choice, talc_tensor *y)
{
    packed_inputs packed = { .of = { NULL } };
    talc_observer *observer = talc_observe_pause();
    const talc_status status =
        pack(call, &packed) ? run(call, choice, &packed) : talc_error_status();
    for (int i = 0; i < call->input_count; i++) {
        talc_release(packed.of[i]);
        if (status == TALC_OK && call->inputs[i].handed == TALC_WRITTEN &&
            call->inputs[i].tensor != NULL)
            talc_tensor_written((talc_tensor *)call->inputs[i].tensor);
    }
    talc_observe_resume(observer);
    y = talc_result(y, status);
    tell(call, choice, y);
    return y;
}

talc_tensor *talc_op_run(const talc_call *call)
{
    talc_tensor *y = (talc_tensor *)call->outputs[0].tensor;
    talc_choice choice;
    if (y == NULL || talc_failed() ||
        !talc_choose(&choice, call->name, y->device,
                     talc_backend_algorithms(y->device->backend, call->op), call->problem,
                     problem_bytes[call->op], call->forced, call->precision))
        return talc_result(y, talc_error_status());
    if (call->fills && !fill(call))
        return talc_result(y, talc_error_status());
    if (call->record != NULL && talc_tape_wants(call->record->inputs, call->record->input_count))
        y = talc_tape_record(y, call->record);
    return y == NULL || call->fills || talc_numel(y) == 0 ? y : run_and_tell(call, &choice, y);
}
