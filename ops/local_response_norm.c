#include "ops/local_response_norm.h"

#include "ops/elementwise.h"
#include "ops/operand.h"
#include "ops/pool2d.h"
#include "tensor/fenv.h"
#include "tensor/scope.h"
#include "tensor/tape.h"
#include "tensor/within.h"

#include <inttypes.h>
#include <math.h>

static const char *const OP = "local_response_norm";

/* Zero asks for the default, TALC_ZERO for zero. NaN passes no test. */
static bool read_option(const char *name, double value, double fallback, double *option)
{
    TALC_DEFAULT_FENV;
    *option = value == 0 ? fallback : value == (double)TALC_ZERO ? 0 : value;
    if (!(*option >= 0 && isfinite(*option)))
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s %g must be at least 0 and finite", OP, name, *option);
    return !talc_failed();
}

/* Means of squares over neighbouring channels: those of the rows of [N, 1, C, positions]. */
static talc_tensor *means_of(const talc_tensor *x, int64_t size)
{
    const int64_t before = size / 2, behind = (size - 1) / 2;
    const talc_pool2d_options window = { .kernel = { size, 1 },
                                         .stride = { 1, 1 },
                                         .padding = { before },
                                         .padding_end = { behind == 0 ? TALC_ZERO : behind } };
    const talc_tensor *squares = talc_mul(x, x);
    const talc_tensor *rows =
        squares == NULL ? NULL : talc_reshape(squares, TALC_DIMS(x->dims[0], 1, x->dims[1], -1));
    const talc_tensor *means = rows == NULL ? NULL : talc_avg_pool2d(rows, &window);
    return means == NULL ? NULL : talc_reshape(means, talc_dims_of(x));
}

talc_tensor *talc_local_response_norm(const talc_tensor *x, int64_t size,
                                      const talc_local_response_norm_options *options)
{
    const talc_local_response_norm_options defaults = { 0 };
    const talc_local_response_norm_options *o = options == NULL ? &defaults : options;
    double alpha, beta, k;
    if (!talc_operand_float(OP, "x", x))
        return NULL;
    if (x->rank < 3) {
        char text[TALC_DIMS_TEXT];
        talc_fail(TALC_BAD_SHAPE, "%s: x %s has rank %d, it must be [N,C,...], of rank 3 at least",
                  OP, talc_dims_text(talc_dims_of(x), text), x->rank);
    } else if (size < 1) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: size %" PRId64 " must be at least 1", OP, size);
    }
    if (talc_failed() || !read_option("alpha", o->alpha, 1e-4, &alpha) ||
        !read_option("beta", o->beta, 0.75, &beta) || !read_option("k", o->k, 1, &k))
        return NULL;
    if (talc_numel(x) == 0)
        return talc_tape_share(talc_tensor_alias(x), x);
    const char *around = talc_within(OP);
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *means = scope == NULL ? NULL : means_of(x, size);
    const talc_tensor *by =
        means == NULL ? NULL : talc_add_scalar(talc_mul_scalar(means, alpha), k);
    talc_tensor *y = by == NULL ? NULL : talc_div(x, talc_pow_scalar(by, beta));
    talc_scope_return(scope, y);
    talc_scope_leave(scope);
    talc_within(around);
    return y;
}
