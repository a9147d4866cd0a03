#include "check/model_judge.h"

#include "check/bound.h"
#include "tensor/memory.h"

#include <math.h>

void talc_check_open_free(check_open *open)
{
    talc_memory_free(open->got);
    talc_memory_free(open->spread);
    talc_memory_free(open->room);
    *open = (check_open){ 0 };
}

static talc_dims index_of(talc_dims dims, int64_t i)
{
    talc_dims index = { .rank = dims.rank };
    for (int d = dims.rank - 1; d >= 0; d--) {
        index.dim[d] = i % dims.dim[d];
        i /= dims.dim[d];
    }
    return index;
}

// ---- Own ----------------------------------------------------------------------------------------------------

static long double activated(talc_activation activation, long double z)
{
    switch (activation) {
    case TALC_ACTIVATION_RELU:
        return z < 0 ? 0 : z;
    case TALC_ACTIVATION_SIGMOID:
        return 1 / (1 + expl(-z));
    case TALC_ACTIVATION_TANH:
        return tanhl(z);
    default:
        return z;
    }
}

/* The steepest slope of an activation. */
static double slope(talc_activation activation)
{
    return activation == TALC_ACTIVATION_SIGMOID ? 0.25 : 1;
}

/* The activations' own error, 4 ulp; a sigmoid below the normal numbers may be 0. */
static double activation_error(talc_activation activation, talc_dtype dtype, double y)
{
    if (activation != TALC_ACTIVATION_SIGMOID && activation != TALC_ACTIVATION_TANH)
        return 0;
    return 8 * talc_check_unit(dtype) * fabs(y) + (dtype == TALC_F32 ? 0x1p-126 : 0x1p-1022);
}

/* How far element i may be off by rounding alone, when its inputs differ by what `moved` says of it. */
static double rounding(const talc_arithmetic *arithmetic, talc_dtype dtype,
                       const check_model_due *due, int64_t i, double S_norm, double moved)
{
    if (!talc_dtype_is_float(dtype))
        return due->extra[i];
    const double u = talc_check_unit(dtype), more = due->extra[i] > 0 ? u * moved : 0;
    const check_due element = { .value = fabsl(due->value[i]) + moved,
                                .K = due->K,
                                .S = due->S[i] == 0 ? 0 : due->S[i] + moved,
                                .extra = due->extra[i] + more };
    const double T =
        talc_check_bound(arithmetic, dtype, TALC_CHECK_CONSTANT, &element, S_norm + moved);
    const double y = (double)activated(due->activation, due->value[i]);
    return slope(due->activation) * T + activation_error(due->activation, dtype, fabs(y) + moved);
}

static void worst(talc_check_model_layer *layer, talc_dims dims, int64_t i, double got, double due)
{
    layer->where = index_of(dims, i);
    layer->got = got;
    layer->due = due;
}

static void judge_elements(const check_ran *ran, const talc_arithmetic *reference,
                           const check_model_due *due, talc_check_model_layer *layer,
                           check_open *open)
{
    static const talc_arithmetic copy = { "copy", TALC_STRICT, false };
    const talc_arithmetic *arithmetic = ran->row == NULL ? &copy : &ran->row->arithmetic;
    const talc_dtype dtype = ran->output.dtype;
    double S_norm = 0, own = -1;
    for (int64_t i = 0; i < open->count; i++)
        S_norm = fmax(S_norm, due->S[i]);
    for (int64_t i = 0; i < open->count; i++) {
        const long double y = activated(due->activation, due->value[i]);
        const double T = rounding(arithmetic, dtype, due, i, S_norm, 0);
        const double share = talc_check_share(y, open->got[i], T);
        if (share > own) {
            own = share;
            worst(layer, open->dims, i, open->got[i], (double)y);
        }
        const double spread = isnan(due->spread[i]) ? INFINITY : due->spread[i];
        open->spread[i] = slope(due->activation) * spread;
        open->room[i] =
            T + rounding(reference == NULL ? &copy : reference, dtype, due, i, S_norm, spread);
    }
    layer->own = own < 0 ? 0 : own;
}

bool talc_check_judge_own(const check_ran *ran, const talc_arithmetic *reference,
                          talc_check_model_layer *layer, check_open *open)
{
    const size_t bytes = ((size_t)ran->output.count + 1) * sizeof(double);
    *open = (check_open){ .count = ran->output.count, .dims = ran->output.dims };
    open->got = talc_memory_new(bytes, "check_model");
    open->spread = talc_memory_new(bytes, "check_model");
    open->room = talc_memory_new(bytes, "check_model");
    check_model_due due;
    if (talc_failed() || !talc_check_model_due(ran, &due)) {
        talc_check_open_free(open);
        return false;
    }
    for (int64_t i = 0; i < open->count; i++)
        open->got[i] = ran->output.of[i];
    judge_elements(ran, reference, &due, layer, open);
    talc_check_model_due_free(&due);
    return true;
}

// ---- Step ---------------------------------------------------------------------------------------------------

static double distance(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    return isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
}

void talc_check_judge_step(check_open *open, const double *reference, double before,
                           talc_check_model_layer *layer)
{
    double step = 0;
    layer->difference = 0;
    for (int64_t i = 0; i < open->count; i++) {
        const double off = distance(open->got[i], reference[i]);
        double share = 0;
        if (off > open->spread[i])
            share = open->room[i] > 0 ? (off - open->spread[i]) / open->room[i] : INFINITY;
        if (share > step) {
            step = share;
            if (!(layer->own >= step))
                worst(layer, open->dims, i, open->got[i], reference[i]);
        }
        layer->difference = fmax(layer->difference, off);
        open->spread[i] = off;
        open->room[i] = 0;
    }
    layer->step = step;
    layer->accumulated = fmax(before, step);
}

void talc_check_judge_end(talc_check_model_layer *layer)
{
    layer->passed = !(layer->own > 1) && !(layer->accumulated > 1);
}
