/// Every allocation may fail: host records and device blocks, one at a time and all from some point
/// on.
#include "tests/support/fake_device.h"
#include "tests/support/faults.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include <stdlib.h>
#include <string.h>

// ---- Ops ----------------------------------------------------------------------------------------

static void *begin_ops(talc_device *device)
{
    op_inputs *inputs = malloc(sizeof *inputs);
    *inputs = op_inputs_new(device);
    return inputs;
}

static void keep_op_inputs(fault_run *run)
{
    for (int i = 0; i < OP_INPUTS; i++)
        fault_keep(run, op_inputs_list(run->fixture)[i]);
}

static const op_case *current_case;

static void run_case(fault_run *run)
{
    fault_keep(run, current_case->run(run->fixture));
}

Test(allocation_failure, every_op)
{
    talc_device *devices[] = { cpu_device(), fake_device() };
    for (current_case = op_cases; current_case->name != NULL; current_case++) {
        const fault_scenario scenario = { current_case->name, begin_ops, run_case, keep_op_inputs,
                                          free };
        for (int i = 0; i < 2; i++)
            cr_assert(assert_survives_allocation_failures(&scenario, devices[i]) > 0,
                      "%s allocates nothing", current_case->name);
    }
}

/* What an op makes on its way fails under its name, not under that of the step. */
Test(allocation_failure, the_op_that_was_called_is_named)
{
    static const char *const ops[][2] = {
        { "conv2d_transposed", "conv2d: " },
        { "matmul_views", "matmul: " },
        { "linear", "linear: " },
        { "cross_entropy_none", "cross_entropy: " },
        { "reshape", "reshape: " },
        { "flatten", "flatten: " },
        { "arange", "arange: " },
        { "mean", "mean: " },
        { "dropout", "dropout: " },
        { "mse_loss", "mse_loss: " },
        { "l1_loss", "l1_loss: " },
        { "huber_loss", "huber_loss: " },
        { "smooth_l1_loss", "smooth_l1_loss: " },
        { "nll_loss", "nll_loss: " },
        { "conv_transpose2d", "conv_transpose2d: " },
    };
    const op_inputs inputs = op_inputs_new(cpu_device());
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const op_case *op = op_cases;
        while (strcmp(op->name, ops[i][0]) != 0)
            op++;
        bool failed = true;
        for (int k = 0; failed; k++) {
            owned_scope *scope = talc_scope_enter();
            allow_allocations(k);
            op->run(&inputs);
            allow_all_allocations();
            failed = talc_failed();
            const char *message = talc_error_message();
            cr_assert(!failed || strncmp(message, ops[i][1], strlen(ops[i][1])) == 0 ||
                          strncmp(message, "tensor: ", strlen("tensor: ")) == 0,
                      "%s: %s", op->name, message);
            talc_error_clear();
        }
    }
}

/* One op after another without a check between them: the first failure has to pass through all that
 * follow. */
static void run_chain(fault_run *run)
{
    for (int i = 0; op_cases[i].name != NULL; i++) {
        if (i % 4 != 0)
            continue; /* the time grows with the square of their number */
        owned_scope *scope = talc_scope_enter();
        fault_keep(run, op_cases[i].run(run->fixture));
    }
}

TEST_SURVIVES(allocation_failure, ops_one_after_the_other_without_a_check, 20, "chain", begin_ops,
              run_chain, keep_op_inputs, free)

// ---- Tensors between devices, writes, scopes ----------------------------------------------------

static void run_moves(fault_run *run)
{
    const op_inputs *in = run->fixture;
    talc_tensor *there = talc_to(talc_transpose(in->image, 0, 2), other_fake_device(), TALC_F64);
    talc_tensor *back = talc_to(there, run->device, TALC_F32);
    fault_keep(run, back);
    talc_tensor *target = talc_zeros(run->device, TALC_F64, TALC_DIMS(7, 4, 2, 6));
    /* A copy that fails leaves the target as it was, and one onto itself needs room of its own. */
    if (talc_copy(target, there) &&
        talc_copy(talc_slice(target, 0, 1, 7, 1), talc_slice(target, 0, 0, 6, 1)))
        fault_keep(run, target);
}

static void run_scopes(fault_run *run)
{
    const op_inputs *in = run->fixture;
    talc_scope *outer = talc_scope_enter();
    talc_scope *inner = talc_scope_enter();
    talc_tensor *kept =
        talc_scope_return(outer, talc_scope_return(inner, talc_add(in->a, in->row)));
    talc_tensor *retained = talc_retain(talc_neg(in->a));
    talc_scope_leave(outer);
    fault_keep(run, kept);
    fault_keep(run, retained);
    talc_release(retained);
}

TEST_SURVIVES(allocation_failure, moves_between_devices_and_overlapping_copies, 10, "moves",
              begin_ops, run_moves, keep_op_inputs, free)

TEST_SURVIVES(allocation_failure, scopes, 8, "scopes", begin_ops, run_scopes, keep_op_inputs, free)

static void count_release(void *data, void *context)
{
    (void)data;
    ++*(int *)context;
}

Test(allocation_failure, memory_that_could_not_be_wrapped_stays_the_callers)
{
    static float values[4] = { 1, 2, 3, 4 };
    cr_assert_not_null(cpu_device());
    int released = 0;
    talc_tensor *x = NULL;
    for (int allowed = 0; x == NULL; allowed++) {
        cr_assert(allowed < 10);
        allow_allocations(allowed);
        x = talc_wrap(cpu_device(), TALC_F32, TALC_DIMS(4), values, count_release, &released);
        allow_all_allocations();
        cr_assert(released == 0, "released with %d allocations", allowed);
        cr_assert(x != NULL || talc_error_status() == TALC_NO_MEMORY);
        talc_error_clear();
    }
    talc_release(x);
    cr_assert(released == 1);
}

// ---- Real exhaustion ----------------------------------------------------------------------------

Test(allocation_failure, a_request_beyond_the_machine_names_the_numbers_and_the_next_call_works)
{
    talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2));
    for (int i = 0; i < 20; i++) {
        cr_assert_null(talc_empty(cpu_device(), TALC_F64, TALC_DIMS((int64_t)1 << 50)));
        cr_assert(talc_error_status() == TALC_NO_MEMORY);
        cr_assert(strstr(talc_error_message(),
                         "empty: out of memory on cpu: asked 8.0 PiB (9007199254740992 bytes)") ==
                      talc_error_message(),
                  "%s", talc_error_message());
        talc_error_clear();
        talc_tensor *y = talc_neg(x);
        cr_assert(talc_item(talc_slice(y, 0, 0, 1, 1)) == -1);
        talc_release(y);
    }
}
