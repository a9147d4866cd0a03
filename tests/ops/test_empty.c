/* Problems without elements: every op on operands that lack any extent, and the plan of every
 * algorithm for every problem of the sets with any of its numbers 0. Whoever cuts work into parts
 * divides by something that is 0 here. */
#include "check/engine/family.h"
#include "ops/choice.h"
#include "tests/support/guard.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include <ctype.h>
#include <string.h>

#define D TALC_DIMS

// ---- Ops ----------------------------------------------------------------------------------------

static talc_tensor *cut(talc_tensor *x, int dim, bool empty)
{
    return empty ? talc_contiguous(talc_slice(x, dim, 0, 0, 1)) : x;
}

/* The shared inputs without one of the extents of images or of matrices, wherever that stands. */
enum { NO_N, NO_C, NO_H, NO_W, NO_OC, NO_KH, NO_KW, NO_M, NO_K, NO_COLUMNS, EXTENTS };

static op_inputs inputs_without(talc_device *device, int extent)
{
    op_inputs in = op_inputs_new(device);
    const int image = extent <= NO_W ? extent : 0;
    const int of_labels = extent == NO_N ? 0 : extent == NO_H ? 1 : 2;
    in.image = cut(in.image, image, extent <= NO_W);
    in.labels = cut(in.labels, of_labels, extent <= NO_W && extent != NO_C);
    in.mean = cut(in.mean, 0, extent == NO_C);
    in.variance = cut(in.variance, 0, extent == NO_C);
    in.weight = cut(in.weight, 1, extent == NO_C);
    in.weight = cut(in.weight, 0, extent == NO_OC);
    in.bias = cut(in.bias, 0, extent == NO_OC);
    in.weight = cut(in.weight, 2, extent == NO_KH);
    in.weight = cut(in.weight, 3, extent == NO_KW);
    in.a = cut(in.a, 0, extent == NO_M);
    in.a = cut(in.a, 1, extent == NO_K);
    in.row = cut(in.row, 0, extent == NO_K);
    in.b = cut(in.b, 0, extent == NO_K);
    in.b = cut(in.b, 1, extent == NO_COLUMNS);
    for (int i = 0; i < OP_INPUTS; i++) {
        talc_tensor *one = op_inputs_list(&in)[i];
        cr_assert(one != NULL, "%s", talc_error_message());
        if (talc_dtype_is_float(one->dtype) && one != in.mean && one != in.variance)
            talc_require_grad(one, true);
    }
    return in;
}

/* The result and, of those that ask for one, the gradients; or the message of the failure. */
static talc_tensor *run(const op_case *op, const op_inputs *in, char message[512])
{
    talc_tensor *y = op->run(in);
    if (y != NULL && talc_wants_grad(y) && talc_dtype_is_float(y->dtype))
        talc_backward_from(y, talc_ones(y->device, y->dtype, talc_dims_of(y)));
    talc_device_synchronize(in->image->device); /* what it raises late */
    snprintf(message, 512, "%s", talc_failed() ? talc_error_message() : "");
    const talc_status status = talc_error_status();
    cr_assert(status == TALC_OK || status == TALC_BAD_SHAPE || status == TALC_BAD_ARGUMENT ||
                  status == TALC_UNSUPPORTED,
              "%s: %s", op->name, message);
    talc_error_clear();
    return y;
}

Test(empty, every_op_gives_a_result_or_a_reason_without_any_extent)
{
    int gave = 0;
    for (int extent = 0; extent < EXTENTS; extent++)
        for (const op_case *op = op_cases; op->name != NULL; op++) {
            char here[512], there[512], what[80];
            snprintf(what, sizeof what, "%s without extent %d", op->name, extent);
            talc_scope *scope = talc_scope_enter();
            const op_inputs on_cpu = inputs_without(cpu_device(), extent),
                            on_device = inputs_without(tested_device(), extent);
            const talc_tensor *expected = run(op, &on_cpu, here);
            /* An index into nothing: GPUs raise it late, and the fake device reads where it
             * points. */
            if (strstr(here, "element 0 of index") != NULL && tested_device() != cpu_device()) {
                talc_scope_leave(scope);
                continue;
            }
            const talc_tensor *y = run(op, &on_device, there);
            cr_assert_str_eq(here, there, "%s: '%s' on the CPU, '%s' here", what, here, there);
            if (here[0] == '\0') {
                gave++;
                cr_assert(expected->dtype == y->dtype, "%s", what);
                assert_near(y, expected, 1e-5, what);
            }
            for (int i = 0; i < OP_INPUTS && here[0] == '\0'; i++) {
                const talc_tensor *of = talc_grad(op_inputs_list(&on_cpu)[i]);
                const talc_tensor *got = talc_grad(op_inputs_list(&on_device)[i]);
                cr_assert((of == NULL) == (got == NULL), "%s: input %d", what, i);
                if (of != NULL)
                    assert_near(got, of, 1e-5, what);
            }
            talc_scope_leave(scope);
        }
    cr_assert(gave > 300, "%d results", gave);
}

/* Any number of groups divides no channels; weight and bias have gradients of their own shape. */
Test(empty, norms_of_nothing_have_gradients)
{
    static const struct {
        talc_dims x;
        int64_t groups; /* -1: batch norm in training, 0: layer norm of the last dimension */
        int64_t weights;
    } of[] = {
        { { 4, { 2, 0, 3, 3 } }, -1, 0 },
        { { 4, { 0, 4, 3, 3 } }, -1, 4 },
        { { 4, { 2, 4, 0, 3 } }, -1, 4 },
        { { 4, { 2, 4, 3, 0 } }, -1, 4 },
        { { 4, { 2, 0, 3, 3 } }, INT64_MAX, 0 },
        { { 4, { 1L << 40, 0, 3, 3 } }, 1L << 40, 0 },
        { { 3, { 0, 4, 5 } }, 2, 4 },
        { { 3, { 2, 4, 0 } }, 2, 4 },
        { { 2, { 3, 0 } }, 0, 0 },
        { { 2, { 0, 4 } }, 0, 4 },
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        talc_tensor *x = talc_zeros(tested_device(), TALC_F32, of[i].x);
        talc_tensor *weight = talc_ones(tested_device(), TALC_F32, D(of[i].weights));
        talc_require_grad(x, true);
        talc_require_grad(weight, true);
        const talc_batch_norm2d_options training = { .training = true };
        const talc_tensor *y =
            of[i].groups < 0    ? talc_batch_norm2d(x, weight, weight, NULL, NULL, &training)
            : of[i].groups == 0 ? talc_layer_norm(x, D(of[i].weights), weight, weight, NULL)
                                : talc_group_norm(x, of[i].groups, weight, weight, NULL);
        cr_assert(y != NULL && talc_backward_from(y, x), "case %d: %s", (int)i,
                  talc_error_message());
        cr_assert(talc_same_dims(talc_grad(x), x));
        assert_near(talc_grad(weight), talc_zeros(tested_device(), TALC_F32, D(of[i].weights)), 0,
                    "dweight of nothing");
    }
}

// ---- Plans --------------------------------------------------------------------------------------

/* Whether a number of the text begins here. */
static bool begins_number(const char *text, const char *at)
{
    return isdigit((unsigned char)*at) && (at == text || !isdigit((unsigned char)at[-1]));
}

static int64_t plan_all(const char *text)
{
    check_problem problem;
    int64_t planned = 0;
    const talc_algorithm *algorithm;
    const check_direction *direction = talc_check_parse(text, &problem);
    if (direction == NULL) {
        talc_error_clear();
        return 0;
    }
    for (int i = 0; (algorithm = talc_check_algorithm_at(direction, tested_device(), i)) != NULL;
         i++) {
        talc_plan plan = { .workspace = 0 };
        talc_algorithm_refuses(algorithm, tested_device(), &problem, SIZE_MAX, &plan);
        planned++;
    }
    return planned;
}

Test(empty, every_algorithm_plans_problems_without_any_extent)
{
    static const char *const sets[] = { "quick", "edges" };
    char text[TALC_CHECK_TEXT];
    int64_t planned = 0;
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++)
        for (int64_t i = 0; talc_check_set_problem(sets[s], i, 1, text) != NULL; i++)
            for (const char *at = text + strcspn(text, ":") % strlen(text); *at != '\0'; at++)
                if (begins_number(text, at)) {
                    char changed[TALC_CHECK_TEXT];
                    const int before = (int)(at - text);
                    const size_t digits = strspn(at, "0123456789");
                    snprintf(changed, sizeof changed, "%.*s0%s", before, text, at + digits);
                    planned += plan_all(changed);
                }
    cr_assert(planned > 10000, "%lld plans", (long long)planned);
}
