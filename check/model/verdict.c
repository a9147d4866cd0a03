#include "check/model/verdict.h"

#include "check/engine/activation.h"
#include "check/engine/bound.h"
#include "check/engine/data.h"
#include "check/engine/layout.h"
#include "tensor/memory.h"

#include <math.h>

void talc_check_open_free(check_open *open)
{
    talc_memory_free(open->got);
    talc_memory_free(open->spread);
    talc_memory_free(open->tolerance);
    *open = (check_open){ 0 };
}

// ---- Own ----------------------------------------------------------------------------------------

/* How far an element may be off by rounding alone, where the result has moved by `moved` because
 * the inputs have. */
static double rounding(const talc_arithmetic *arithmetic, talc_dtype dtype,
                       const check_expected *element, double S_norm, double moved)
{
    if (!talc_dtype_is_float(dtype))
        return element->extra;
    check_expected there = *element;
    there.value = fabsl(there.value) + moved;
    there.S += there.K > 0 ? moved : 0;
    there.extra += 8 * talc_check_format(dtype).unit * moved;
    return talc_check_bound(arithmetic, dtype, TALC_CHECK_CONSTANT, &there, S_norm + moved);
}

static void worst(talc_check_model_layer *layer, talc_dims dims, int64_t i, double got,
                  double expected)
{
    layer->where.rank = dims.rank;
    talc_check_coordinates(dims.rank, dims.dim, i, layer->where.dim);
    layer->got = got;
    layer->expected = expected;
}

static void compare_elements(const check_ran *ran, const talc_arithmetic *reference,
                             const check_model_expected *expected, talc_check_model_layer *layer,
                             check_open *open)
{
    static const talc_arithmetic copy = { "copy", TALC_STRICT, false },
                                 saved = { "as PyTorch's", TALC_STRICT, false };
    const talc_arithmetic *arithmetic =
        ran->algorithm == NULL ? &copy : &ran->algorithm->arithmetic;
    const talc_dtype dtype = ran->output.dtype;
    double S_norm = 0, own = -1;
    bool finite = false;
    for (int64_t i = 0; i < open->count; i++)
        S_norm = fmax(S_norm, expected->element[i].S);
    for (int64_t i = 0; i < open->count; i++) {
        check_expected element = expected->element[i];
        talc_check_activate(&element, expected->activation, dtype);
        const double T = rounding(arithmetic, dtype, &element, S_norm, 0);
        const double share = element.any ? 0 : talc_check_share(element.value, open->got[i], T);
        finite = finite || isfinite(open->got[i]) || isfinite(element.value);
        if (share > own) {
            own = share;
            worst(layer, open->dims, i, open->got[i], (double)element.value);
        }
        const double spread =
            isnan(expected->spread[i]) || element.any ? INFINITY : expected->spread[i];
        open->spread[i] = spread * talc_check_activation_slope(expected->activation);
        element.S += reference == NULL ? element.foreign : 0;
        open->tolerance[i] =
            T + rounding(reference == NULL ? &saved : reference, dtype, &element, S_norm, spread);
    }
    /* Without elements, or where all are NaN or infinite as they must be, there is nothing to
     * say. */
    layer->own = own < 0 || (own == 0 && !finite) ? NAN : own;
}

bool talc_check_verdict_of_layer(const check_ran *ran, const talc_arithmetic *reference,
                                 talc_check_model_layer *layer, check_open *open)
{
    const size_t bytes = ((size_t)ran->output.count + 1) * sizeof(double);
    *open = (check_open){ .count = ran->output.count, .dims = ran->output.dims };
    open->got = talc_memory_new(bytes, "check_model");
    open->spread = talc_memory_new(bytes, "check_model");
    open->tolerance = talc_memory_new(bytes, "check_model");
    check_model_expected expected;
    if (talc_failed() || !talc_check_model_expected(ran, &expected)) {
        talc_check_open_free(open);
        return false;
    }
    for (int64_t i = 0; i < open->count; i++)
        open->got[i] = ran->output.of[i];
    compare_elements(ran, reference, &expected, layer, open);
    talc_check_model_expected_free(&expected);
    return true;
}

// ---- Step ---------------------------------------------------------------------------------------

static double distance(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    return isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
}

void talc_check_verdict_of_step(check_open *open, const double *reference, double before,
                                talc_check_model_layer *layer)
{
    if (open->count == 0)
        return;
    double step = 0;
    bool finite = false;
    layer->difference = 0;
    for (int64_t i = 0; i < open->count; i++) {
        const double off = distance(open->got[i], reference[i]);
        finite = finite || isfinite(open->got[i]) || isfinite(reference[i]);
        double share = 0;
        if (off > open->spread[i])
            share =
                open->tolerance[i] > 0 ? (off - open->spread[i]) / open->tolerance[i] : INFINITY;
        if (i == 0 || share > step) {
            step = share;
            layer->unexplained = fmax(off - open->spread[i], 0);
            layer->allowed = open->tolerance[i];
            if (step > 0 && !(layer->own >= step))
                worst(layer, open->dims, i, open->got[i], reference[i]);
        }
        layer->difference = fmax(layer->difference, off);
        open->spread[i] = off;
        open->tolerance[i] = 0;
    }
    layer->step = step == 0 && !finite ? NAN : step;
    layer->accumulated = fmax(before, step);
}

void talc_check_verdict_at_end(talc_check_model_layer *layer)
{
    layer->passed = !(layer->own > 1) && !(layer->accumulated > 1);
}
