#include "tests/support/mutant_work.h"

#include "backends/backends.h"
#include "check/check.h"
#include "tensor/error.h"
#include "tensor/fenv.h"

#include <math.h>
#include <stdio.h>

mutant mutant_current;
static int runs;

// ---- The problem as a mutant sees it ------------------------------------------------------------

static void distort_window(talc_conv2d_problem *p)
{
    switch (mutant_current) {
    case MUTANT_STRIDES:
        mutant_swap(&p->stride_h, &p->stride_w);
        break;
    case MUTANT_STRIDE_IGNORED:
        p->stride_w = 1;
        break;
    case MUTANT_PAD_TOP:
        p->pad_top -= p->pad_top > 0;
        break;
    case MUTANT_PAD_LEFT:
        p->pad_left += p->pad_left > 0;
        break;
    case MUTANT_PAD_AXES:
        mutant_swap(&p->pad_top, &p->pad_left);
        break;
    case MUTANT_PAD_ENDS:
        mutant_swap(&p->pad_top, &p->pad_bottom);
        mutant_swap(&p->pad_left, &p->pad_right);
        break;
    case MUTANT_PAD_DILATED:
        p->pad_top *= p->dilation_h;
        p->pad_left *= p->dilation_w;
        break;
    case MUTANT_DILATION_H:
        p->dilation_h = 1;
        break;
    case MUTANT_DILATION_W:
        p->dilation_w = 1;
        break;
    case MUTANT_DILATIONS:
        mutant_swap(&p->dilation_h, &p->dilation_w);
        break;
    default:
        break;
    }
}

void mutant_distort(talc_conv2d_problem *p)
{
    distort_window(p);
    if (mutant_is(MUTANT_REFLECT_REPLICATES) && p->padding_mode == TALC_PADDING_REFLECT)
        p->padding_mode = TALC_PADDING_REPLICATE;
    if (mutant_is(MUTANT_REPLICATE_ZEROS) && p->padding_mode == TALC_PADDING_REPLICATE)
        p->padding_mode = TALC_PADDING_ZEROS;
    else if (mutant_is(MUTANT_ZEROS_REPLICATE) && p->padding_mode == TALC_PADDING_ZEROS)
        p->padding_mode = TALC_PADDING_REPLICATE;
    if (mutant_is(MUTANT_BIAS_FORGOTTEN))
        p->bias = false;
    if (mutant_is(MUTANT_RESIDUAL_FORGOTTEN))
        p->residual = false;
    if (mutant_is(MUTANT_RELU_ALWAYS) && p->activation == TALC_ACTIVATION_NONE)
        p->activation = TALC_ACTIVATION_RELU;
    if (mutant_is(MUTANT_RELU_FORGOTTEN) && p->activation == TALC_ACTIVATION_RELU)
        p->activation = TALC_ACTIVATION_NONE;
}

// ---- Writing ------------------------------------------------------------------------------------

static int64_t index_of(const mutant_work *k, const mutant_position *at)
{
    const talc_conv2d_problem *p = &k->p;
    if (mutant_is(MUTANT_CHANNELS_LAST))
        return ((at->n * p->OH + at->oh) * p->OW + at->ow) * p->OC + at->oc;
    const int64_t plane = (at->n * p->OC + at->oc) * p->OH * p->OW;
    return plane +
           (mutant_is(MUTANT_TRANSPOSED) ? at->ow * p->OH + at->oh : at->oh * p->OW + at->ow);
}

static bool unwritten(const mutant_work *k, const mutant_position *at)
{
    const talc_conv2d_problem *p = &k->p;
    const int64_t in_group = at->oc % k->OCg;
    switch (mutant_current) {
    case MUTANT_TAIL_COLUMNS:
        return p->OW > MUTANT_COLUMNS && at->ow >= p->OW / MUTANT_COLUMNS * MUTANT_COLUMNS;
    case MUTANT_TAIL_CHANNELS:
        return k->OCg > MUTANT_CHANNELS && in_group >= k->OCg / MUTANT_CHANNELS * MUTANT_CHANNELS;
    case MUTANT_LAST_ROW:
        return at->oh == p->OH - 1;
    case MUTANT_LAST_IMAGE:
        return p->N > 1 && at->n == p->N - 1;
    case MUTANT_UNWRITTEN:
        return index_of(k, at) == p->N * p->OC * p->OH * p->OW / 2;
    default:
        return false;
    }
}

static void write_y(mutant_work *k, const mutant_position *at, double value)
{
    const int64_t i = index_of(k, at);
    if (at->n + at->oc + at->oh + at->ow == 0)
        k->first = value;
    if (mutant_is(MUTANT_CONSTANT))
        value = k->first;
    if (mutant_is(MUTANT_ACCUMULATES))
        value += mutant_load(k, k->a.y, i);
    if (mutant_is(MUTANT_ACCUMULATES_FINITE) && !isnan(mutant_load(k, k->a.y, i)))
        value += mutant_load(k, k->a.y, i);
    if (!unwritten(k, at))
        mutant_store(k, k->a.y, i, value);
}

/* What a mutant writes where it must not. */
static void misbehave(mutant_work *k)
{
    const talc_conv2d_problem *p = &k->p;
    const bool off = (uintptr_t)k->a.x % 16 != 0;
    if (mutant_is(MUTANT_WRITES_PAST) || (off && mutant_is(MUTANT_PAST_MISALIGNED)))
        mutant_store(k, k->a.y, p->N * p->OC * p->OH * p->OW, 0);
    if (mutant_is(MUTANT_WRITES_BEFORE))
        mutant_store(k, (char *)k->a.y - mutant_element_size(p), 0, 0);
    if (mutant_is(MUTANT_WRITES_X) || (off && mutant_is(MUTANT_X_MISALIGNED)))
        mutant_store(k, (void *)(uintptr_t)k->a.x, p->N * p->C * p->H * p->W - 1, 0.125);
    if (mutant_is(MUTANT_WRITES_W))
        mutant_store(k, (void *)(uintptr_t)k->a.w, 0, mutant_load(k, k->a.w, 0) * 1.5 + 1);
    if (mutant_is(MUTANT_WRITES_WORKSPACE))
        ((char *)k->a.base.workspace)[k->workspace_bytes] = 0;
}

// ---- The algorithm
// ------------------------------------------------------------------------------------

/* All outputs of a group in one row of one image, from column at->ow on. */
static void tile(mutant_work *k, mutant_position *at)
{
    const talc_conv2d_problem *p = &k->p;
    const int64_t left = p->OW - at->ow, columns = left < k->width ? left : k->width;
    const int64_t stored = mutant_is(MUTANT_TAIL_WHOLE) ? k->width : columns, start = at->ow;
    for (int64_t t = 0; t < k->terms; t++)
        mutant_gather(k, at, t, columns, mutant_is(MUTANT_TAIL_PITCH) ? columns : k->width);
    for (int64_t c = 0; c < k->OCg; c++)
        for (int64_t j = 0; j < stored; j++) {
            at->oc = mutant_is(MUTANT_GROUP_ORDER) || (mutant_is(MUTANT_MULTIPLIER) && k->IC == 1)
                         ? c * p->groups + at->g
                         : at->g * k->OCg + c;
            at->ow = start + j;
            const int64_t slot = k->terms * k->width + c % MUTANT_CHANNELS * k->width + j;
            write_y(k, at, mutant_output(k, at, j, slot));
        }
}

static size_t bytes_of(const talc_conv2d_problem *p, int64_t width)
{
    const int64_t terms = p->C / p->groups * p->KH * p->KW;
    return (size_t)((terms + MUTANT_CHANNELS) * width) * mutant_element_size(p);
}

static const char *plan(const talc_device *device, const void *problem, size_t limit,
                        talc_plan *planned)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    int64_t width = MUTANT_COLUMNS;
    while (width > 1 && bytes_of(p, width) > limit)
        width--;
    planned->workspace = bytes_of(p, width);
    return p->direction == TALC_FORWARD ? NULL : "only the forward direction";
}

static double largest_of(const mutant_work *k)
{
    double largest = 0;
    for (int64_t i = 0; i < k->p.N * k->p.C * k->p.H * k->p.W; i++)
        largest = fmax(largest, fabs(mutant_load(k, k->a.x, i)));
    return largest;
}

static talc_status run(talc_device *device, const void *run_problem, const talc_plan *planned,
                       const void *given)
{
    (void)device;
    runs++;
    const talc_conv2d_problem *problem = run_problem;
    const talc_conv2d_arguments *arguments = given;
    mutant_work k = { .p = *problem, .a = *arguments, .workspace_bytes = planned->workspace };
    k.IC = problem->C / problem->groups;
    k.OCg = problem->OC / problem->groups;
    k.terms = k.IC * problem->KH * problem->KW;
    k.width = (int64_t)(planned->workspace / bytes_of(problem, 1));
    k.backwards = (mutant_is(MUTANT_RUN) && runs % 2 == 0) ||
                  (mutant_is(MUTANT_THREADS) && talc_threads() > 2);
    k.largest = mutant_is(MUTANT_CANCELLING) ? largest_of(&k) : 0;
    mutant_distort(&k.p);
    const int64_t step = mutant_is(MUTANT_NARROW_TILE) ? MUTANT_COLUMNS : k.width;
    mutant_position at;
    for (at.n = 0; at.n < problem->N; at.n++)
        for (at.g = 0; at.g < problem->groups; at.g++)
            for (at.oh = 0; at.oh < problem->OH; at.oh++)
                for (int64_t ow = 0; ow < problem->OW; ow += step) {
                    at.ow = ow;
                    tile(&k, &at);
                }
    misbehave(&k);
    if (mutant_is(MUTANT_LEAVES_FLUSHING))
        talc_fenv_set(talc_fenv_now(), talc_fenv_foreign());
    if (mutant_is(MUTANT_FAILS) || mutant_is(MUTANT_RAISES) ||
        (mutant_is(MUTANT_RAISES_MISALIGNED) && (uintptr_t)arguments->x % 16 != 0))
        talc_fail(TALC_UNSUPPORTED, "mutant: a failure on purpose");
    return mutant_is(MUTANT_FAILS) ? TALC_UNSUPPORTED : TALC_OK;
}

#define NAMES_OF(constant, name, description) { name, description },
static const char *const names[][2] = { MUTANT_TABLE(NAMES_OF) };
#undef NAMES_OF

const char *mutant_name(mutant which)
{
    return names[which][0];
}

const char *mutant_description(mutant which)
{
    return names[which][1];
}

const talc_algorithm *mutant_declared(mutant which, talc_precision precision)
{
    static talc_algorithm algorithm = { .plan = plan, .run = run };
    algorithm.name = mutant_name(which);
    algorithm.arithmetic = (talc_arithmetic){ "the data's own type", precision, false };
    algorithm.arithmetic.wide_accumulator = which == MUTANT_NOT_WIDE;
    mutant_current = which;
    runs = 0;
    return &algorithm;
}

const talc_algorithm *mutant_algorithm(mutant which)
{
    return mutant_declared(which, TALC_STRICT);
}

void mutant_kind_names(uint64_t kinds, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int kind = 0; kind < TALC_CHECK_KIND_COUNT && used < size; kind++)
        if ((kinds >> kind & 1) != 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ",
                                     talc_check_kind_name((talc_check_kind)kind));
}
