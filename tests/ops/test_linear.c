/* linear: every algorithm, dtype, rank, view and epilogue against the oracle of the cross-check. */
#include "tests/support/hooks.h"
#include "tests/support/operands.h"
#include "tests/support/oracle.h"

#include <math.h>
#include <stdio.h>

static const char *const rows[] = { "openblas", "reference" };

/* The oracle of a product of x's rows and the transposed weight. */
static void check(const talc_tensor *x, const talc_tensor *weight, const talc_tensor *bias,
                  const talc_tensor *residual, talc_activation activation, const talc_tensor *y,
                  const char *name)
{
    const talc_tensor *operands[] = { x, weight, bias == NULL ? residual : bias, residual };
    char problem[128];
    const int64_t out = weight->dims[0], in = weight->dims[1];
    snprintf(problem, sizeof problem, "matmul:m%dn%dk%d_tb_%s%s%s%s%s", (int)(talc_numel(y) / out),
             (int)out, (int)in, talc_dtype_name(y->dtype), bias == NULL ? "" : "_bias",
             residual == NULL ? "" : "_residual", activation == TALC_ACTIVATION_NONE ? "" : "_",
             activation == TALC_ACTIVATION_NONE ? "" : talc_activation_name(activation));
    assert_expected(name, problem, operands, y, false);
    for (int64_t i = 0; i < talc_numel(y) && activation == TALC_ACTIVATION_RELU; i++)
        cr_assert(element_at(y, i) >= 0, "%s: relu gave %g", name, element_at(y, i));
}

// ---- Values -------------------------------------------------------------------------------------

/* Everything that can be combined, for one shape and view. */
static void check_all(talc_dims x_dims, int64_t out, talc_dtype dtype, int view)
{
    char name[256], text[TALC_DIMS_TEXT];
    talc_dims y_dims = x_dims;
    const int64_t in = x_dims.dim[x_dims.rank - 1];
    y_dims.dim[y_dims.rank - 1] = out;
    talc_tensor *x = random_view(view, dtype, x_dims, 1);
    talc_tensor *weight = random_view(view, dtype, TALC_DIMS(out, in), 2);
    talc_tensor *bias = random_view(view, dtype, TALC_DIMS(out), 3);
    talc_tensor *residual = random_view(view, dtype, y_dims, 4);
    uint64_t before =
        fingerprint(x) + fingerprint(weight) + fingerprint(bias) + fingerprint(residual);
    for (int row = 0; row < 2; row++)
        for (int addends = 0; addends < 4; addends++)
            for (int activation = 0; activation < TALC_ACTIVATION_COUNT; activation++) {
                const talc_tensor *b = addends & 1 ? bias : NULL,
                                  *r = addends & 2 ? residual : NULL;
                snprintf(name, sizeof name,
                         "x %s out %d %s view %d row %s addends %d activation %d",
                         talc_dims_text(x_dims, text), (int)out, talc_dtype_name(dtype), view,
                         rows[row], addends, activation);
                talc_tensor *y =
                    talc_linear(x, weight, b,
                                &(talc_linear_options){ .activation = (talc_activation)activation,
                                                        .residual = r,
                                                        .algorithm = rows[row] });
                cr_assert(!talc_failed(), "%s: %s", name, talc_error_message());
                bool same = y->rank == x->rank && y->dims[y->rank - 1] == out;
                for (int i = 0; i < y->rank - 1; i++)
                    same = same && y->dims[i] == x->dims[i];
                cr_assert(same, "%s: gives %s", name, talc_dims_text(talc_dims_of(y), text));
                check(x, weight, b, r, (talc_activation)activation, y, name);
            }
    cr_assert(fingerprint(x) + fingerprint(weight) + fingerprint(bias) + fingerprint(residual) ==
                  before,
              "an operand changed");
}

Test(linear, every_algorithm_rank_view_and_epilogue_agrees_with_the_oracle)
{
    const talc_dims shapes[] = { TALC_DIMS(7),          TALC_DIMS(1, 1),
                                 TALC_DIMS(5, 9),       TALC_DIMS(2, 3, 4),
                                 TALC_DIMS(2, 1, 3, 5), TALC_DIMS(1, 2, 1, 2, 1, 2, 2, 3) };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int view = 0; view < VIEW_COUNT; view++)
            for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
                owned_scope *scope = talc_scope_enter();
                check_all(shapes[s], 1 + (int64_t)s * 3, (talc_dtype)dtype, view);
            }
}

Test(linear, expanded_operands_are_used_as_what_they_show)
{
    talc_tensor *x =
        talc_expand(random_operand(TALC_F32, TALC_DIMS(2, 1, 5), 1), TALC_DIMS(2, 3, 5));
    talc_tensor *weight =
        talc_expand(random_operand(TALC_F32, TALC_DIMS(1, 5), 2), TALC_DIMS(4, 5));
    talc_tensor *bias = talc_expand(random_operand(TALC_F32, TALC_DIMS(1), 3), TALC_DIMS(4));
    talc_tensor *residual =
        talc_expand(random_operand(TALC_F32, TALC_DIMS(3, 1), 4), TALC_DIMS(2, 3, 4));
    for (int row = 0; row < 2; row++) {
        talc_tensor *y =
            talc_linear(x, weight, bias,
                        &(talc_linear_options){ .residual = residual, .algorithm = rows[row] });
        assert_no_failure();
        check(x, weight, bias, residual, TALC_ACTIVATION_NONE, y, rows[row]);
    }
}

Test(linear, no_features_give_the_bias_and_no_rows_give_nothing)
{
    talc_tensor *bias = talc_arange(cpu_device(), TALC_F32, 1, 4, 1);
    talc_tensor *weight = talc_empty(cpu_device(), TALC_F32, TALC_DIMS(3, 0));
    talc_tensor *x = talc_empty(cpu_device(), TALC_F32, TALC_DIMS(2, 2, 0));
    for (int row = 0; row < 2; row++) {
        talc_release(talc_full(cpu_device(), TALC_F32, TALC_DIMS(2, 2, 3), NAN));
        talc_tensor *y =
            talc_linear(x, weight, bias, &(talc_linear_options){ .algorithm = rows[row] });
        assert_no_failure();
        for (int i = 0; i < 12; i++)
            cr_assert(element_at(y, i) == i % 3 + 1, "%s: element %d is %g", rows[row], i,
                      element_at(y, i));
    }
    talc_tensor *none = talc_linear(talc_empty(cpu_device(), TALC_F32, TALC_DIMS(2, 0, 4)),
                                    talc_ones(cpu_device(), TALC_F32, TALC_DIMS(3, 4)), bias, NULL);
    assert_no_failure();
    cr_assert(none->rank == 3 && none->dims[0] == 2 && none->dims[1] == 0 && none->dims[2] == 3);
}

/* Of outputs that are none the gradients are zeros, in the shapes of their inputs. */
Test(linear, no_features_on_either_side_have_gradients_of_zeros)
{
    static const int64_t features[][2] = { { 3, 0 }, { 0, 3 }, { 0, 0 } };
    for (int k = 0; k < 3; k++) {
        const int64_t in = features[k][0], out = features[k][1];
        talc_tensor *inputs[] = { talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2, 2, in)),
                                  talc_ones(cpu_device(), TALC_F32, TALC_DIMS(out, in)),
                                  talc_ones(cpu_device(), TALC_F32, TALC_DIMS(out)) };
        for (int i = 0; i < 3; i++)
            talc_require_grad(inputs[i], true);
        const talc_tensor *y = talc_linear(inputs[0], inputs[1], inputs[2], NULL);
        talc_backward_from(y, talc_zeros_like(y));
        assert_no_failure();
        for (int i = 0; i < 3; i++) {
            const talc_tensor *g = talc_grad(inputs[i]);
            cr_assert(talc_same_dims(g, inputs[i]), "%d to %d: input %d", (int)in, (int)out, i);
            for (int64_t e = 0; e < talc_numel(g); e++)
                cr_assert(element_at(g, e) == 0, "%d to %d: input %d", (int)in, (int)out, i);
        }
    }
}
