/// The terms of a convolution's sums, by the formula of ops/conv2d.h.
#include "check/conv2d/trace.h"

#include "check/conv2d/conv2d.h"
#include "ops/conv2d_gradient.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <stdlib.h>

enum { LARGEST_OPERAND = 1 << 24 };

// ---- Values -------------------------------------------------------------------------------------

/* The worked example of docs/convolution.md. */
static const signed char example_x[2 * 5 * 6] = {
    1, 2, 0, 1, 3, 1, 0, 1, 3, 2, 1, 0, 2, 0, 1, 1, 0, 2, 1, 3, 2, 0, 1, 1, 0, 1, 1, 2, 2, 0,
    0, 1, 1, 0, 2, 1, 1, 0, 2, 1, 0, 3, 3, 1, 0, 2, 1, 0, 0, 2, 1, 1, 3, 1, 1, 0, 0, 2, 0, 1,
};
static const signed char example_w[4 * 2 * 9] = {
    1,  0,  -1, 2,  1, -2, 1, 0,  -1, 0,  1, 0,  1, -4, 1, 0, 1, 0, 1, 2,  1,  0,  -1, 0,
    -1, -2, -1, 1,  0, 0,  0, 2,  0,  0,  0, 1,  1, 1,  1, 1, 1, 1, 1, 1,  1,  -1, 0,  1,
    -2, 1,  2,  -1, 0, 1,  0, -1, 0,  -1, 5, -1, 0, -1, 0, 1, 1, 0, 1, -3, -1, 0,  -1, -1,
};

/* Small whole numbers, `low` and up. */
static void fill(const talc_trace_operand *operand, double *values, int64_t low, int64_t count,
                 const signed char *example, int64_t examples)
{
    for (int64_t i = 0; i < operand->count; i++) {
        const uint32_t mixed = (uint32_t)(i + 1) * 2654435761u >> 16;
        values[i] = operand->count == examples ? example[i] : (double)(low + mixed % count);
    }
}

static void fill_operand(const talc_trace_operand *operand, double *values)
{
    const int64_t *d = operand->dims;
    const bool is_x = *operand->name == 'x' && d[0] == 1 && d[1] == 2 && d[2] == 5 && d[3] == 6;
    const bool is_w = *operand->name == 'w' && d[0] == 4 && d[1] == 2 && d[2] == 3 && d[3] == 3;
    if (*operand->name == 'x')
        fill(operand, values, 0, 4, example_x, is_x ? (int64_t)sizeof example_x : -1);
    else if (*operand->name == 'w')
        fill(operand, values, -2, 5, example_w, is_w ? (int64_t)sizeof example_w : -1);
    else
        fill(operand, values, -1, 4, NULL, -1);
}

// ---- Operands -----------------------------------------------------------------------------------

static bool set_operand(talc_trace_operand *operand, const char *name, const int64_t dims[4])
{
    operand->name = name;
    operand->count = 1;
    for (int i = 0; i < 4; i++) {
        operand->dims[i] = dims[i];
        if (!talc_multiply(operand->count, dims[i], &operand->count) ||
            operand->count > LARGEST_OPERAND) {
            talc_fail(TALC_TOO_LARGE, "trace: %s [%lld,%lld,%lld,%lld] has more than %d elements",
                      name, (long long)dims[0], (long long)dims[1], (long long)dims[2],
                      (long long)dims[3], LARGEST_OPERAND);
            return false;
        }
    }
    return true;
}

static bool set_operands(talc_trace *t)
{
    const talc_conv2d_problem *p = &t->problem;
    const int64_t x[] = { p->N, p->C, p->H, p->W }, y[] = { p->N, p->OC, p->OH, p->OW };
    const int64_t w[] = { p->OC, p->C / p->groups, p->KH, p->KW };
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, taps = p->KH * p->KW;
    bool set = false;
    switch (p->direction) {
    case TALC_FORWARD:
        set = set_operand(&t->first, "w", w) && set_operand(&t->second, "x", x) &&
              set_operand(&t->result, "y", y);
        t->products = p->N * p->groups, t->rows = OC, t->inner = IC * taps;
        t->columns = p->OH * p->OW;
        break;
    case TALC_GRAD_INPUT:
        set = set_operand(&t->first, "w", w) && set_operand(&t->second, "dy", y) &&
              set_operand(&t->result, "dx", x);
        t->products = p->N * p->groups, t->rows = IC, t->inner = OC * taps;
        t->columns = p->H * p->W;
        break;
    case TALC_GRAD_WEIGHT:
        set = set_operand(&t->first, "dy", y) && set_operand(&t->second, "x", x) &&
              set_operand(&t->result, "dw", w);
        t->products = p->groups, t->rows = OC, t->inner = p->N * p->OH * p->OW;
        t->columns = IC * taps;
        break;
    }
    return set;
}

static void compute(trace_record *record)
{
    talc_trace *t = &record->base;
    for (int64_t i = 0; i < t->result.count; i++) {
        talc_trace_term term;
        double sum = 0;
        for (int64_t k = 0; k < t->inner; k++)
            if (talc_trace_term_at(t, i, k, &term))
                sum += term.first_value * term.second_value;
        record->values[2][i] = sum;
    }
}

static bool read_problem(const char *text, talc_conv2d_problem *p)
{
    if (strncmp(text, "conv2d:", 7) == 0)
        text += 7;
    if (!talc_conv2d_problem_parse(text, p))
        return false;
    p->bias = p->residual = false;
    p->activation = TALC_ACTIVATION_NONE;
    if (p->direction != TALC_FORWARD)
        *p = talc_conv2d_gradient_problem(p, p->direction);
    return talc_conv2d_problem_check(p);
}

static bool set_values(trace_record *record)
{
    talc_trace_operand *operands[] = { &record->base.first, &record->base.second,
                                       &record->base.result };
    for (int i = 0; i < 3; i++) {
        record->values[i] =
            talc_memory_new((size_t)operands[i]->count * sizeof(double) + 1, "a trace's values");
        if (record->values[i] == NULL)
            return false;
        operands[i]->values = record->values[i];
        if (i < 2)
            fill_operand(operands[i], record->values[i]);
    }
    compute(record);
    return true;
}

talc_trace *talc_trace_new(const char *problem, const talc_trace_options *options)
{
    TALC_DEFAULT_FENV;
    if (talc_operand_missing("trace", "problem", problem))
        return NULL;
    trace_record *record = talc_memory_new(sizeof *record, "a trace");
    if (record == NULL)
        return NULL;
    talc_trace *t = &record->base;
    const talc_trace_options none = { 0 };
    if (!read_problem(problem, &t->problem) || !set_operands(t) || !set_values(record) ||
        !talc_trace_find_algorithms(record, options == NULL ? &none : options)) {
        talc_trace_free(t);
        return NULL;
    }
    talc_conv2d_problem_text(&t->problem, t->text);
    return t;
}

void talc_trace_free(talc_trace *trace)
{
    trace_record *record = (trace_record *)trace;
    if (record == NULL)
        return;
    for (int i = 0; i < 3; i++)
        talc_memory_free(record->values[i]);
    for (int i = 0; i < TRACE_ALGORITHMS; i++)
        talc_memory_free(record->algorithms[i].owners);
    talc_memory_free(record->pairs);
    talc_memory_free(record);
}

// ---- Indices ------------------------------------------------------------------------------------

void talc_trace_indices(const talc_trace_operand *operand, int64_t element, int64_t indices[4])
{
    for (int i = 3; i >= 0; i--) {
        indices[i] = element % operand->dims[i];
        element /= operand->dims[i];
    }
}

int64_t talc_trace_element(const talc_trace_operand *operand, const int64_t indices[4])
{
    int64_t element = 0;
    for (int i = 0; i < 4; i++) {
        if (indices[i] < 0 || indices[i] >= operand->dims[i])
            return -1;
        element = element * operand->dims[i] + indices[i];
    }
    return element;
}

talc_trace_place talc_trace_place_of(const talc_trace *trace, int64_t element)
{
    const talc_conv2d_problem *p = &trace->problem;
    int64_t at[4];
    talc_trace_indices(&trace->result, element, at);
    if (p->direction == TALC_GRAD_WEIGHT)
        return (talc_trace_place){ at[0] / trace->rows, at[0] % trace->rows,
                                   (at[1] * p->KH + at[2]) * p->KW + at[3] };
    return (talc_trace_place){ at[0] * p->groups + at[1] / trace->rows, at[1] % trace->rows,
                               at[2] * trace->result.dims[3] + at[3] };
}

// ---- Terms --------------------------------------------------------------------------------------

/* Where tap kh, kw of output oh, ow stands in x. */
static void set_pixel(const talc_conv2d_problem *p, int64_t oh, int64_t ow, int64_t kh, int64_t kw,
                      int64_t at[4])
{
    at[2] = oh * p->stride_h - p->pad_top + kh * p->dilation_h;
    at[3] = ow * p->stride_w - p->pad_left + kw * p->dilation_w;
}

/* The element of x that stands there; -1: a zero. */
static int64_t source_of(const talc_trace *t, const int64_t at[4])
{
    const talc_conv2d_problem *p = &t->problem;
    const int64_t source[] = { at[0], at[1], talc_check_source(p->padding_mode, at[2], p->H),
                               talc_check_source(p->padding_mode, at[3], p->W) };
    return talc_trace_element(&t->second, source);
}

static bool forward_term(const talc_trace *t, const int64_t y[4], int64_t k, talc_trace_term *term)
{
    const talc_conv2d_problem *p = &t->problem;
    const int64_t kw = k % p->KW, kh = k / p->KW % p->KH, ic = k / p->KW / p->KH;
    const int64_t first[] = { y[1], ic, kh, kw };
    memcpy(term->first, first, sizeof first);
    term->second[0] = y[0], term->second[1] = y[1] / t->rows * (p->C / p->groups) + ic;
    set_pixel(p, y[2], y[3], kh, kw, term->second);
    term->second_element = source_of(t, term->second);
    return true;
}

static bool input_term(const talc_trace *t, const int64_t x[4], int64_t k, talc_trace_term *term)
{
    const talc_conv2d_problem *p = &t->problem;
    const int64_t kw = k % p->KW, kh = k / p->KW % p->KH;
    const int64_t oc = x[1] / t->rows * (p->OC / p->groups) + k / p->KW / p->KH;
    const int64_t down = x[2] + p->pad_top - kh * p->dilation_h;
    const int64_t across = x[3] + p->pad_left - kw * p->dilation_w;
    const int64_t first[] = { oc, x[1] % t->rows, kh, kw };
    const int64_t second[] = { x[0], oc, down / p->stride_h, across / p->stride_w };
    memcpy(term->first, first, sizeof first);
    memcpy(term->second, second, sizeof second);
    term->second_element = talc_trace_element(&t->second, second);
    return down >= 0 && across >= 0 && down % p->stride_h == 0 && across % p->stride_w == 0 &&
           term->second_element >= 0;
}

static bool weight_term(const talc_trace *t, const int64_t w[4], int64_t k, talc_trace_term *term)
{
    const talc_conv2d_problem *p = &t->problem;
    const int64_t ow = k % p->OW, oh = k / p->OW % p->OH, n = k / p->OW / p->OH;
    const int64_t first[] = { n, w[0], oh, ow };
    memcpy(term->first, first, sizeof first);
    term->second[0] = n, term->second[1] = w[0] / t->rows * (p->C / p->groups) + w[1];
    set_pixel(p, oh, ow, w[2], w[3], term->second);
    term->second_element = source_of(t, term->second);
    return true;
}

bool talc_trace_term_at(const talc_trace *trace, int64_t element, int64_t k, talc_trace_term *term)
{
    int64_t at[4];
    talc_trace_indices(&trace->result, element, at);
    term->k = k;
    const talc_direction direction = trace->problem.direction;
    if (!(direction == TALC_FORWARD      ? forward_term
          : direction == TALC_GRAD_INPUT ? input_term
                                         : weight_term)(trace, at, k, term))
        return false;
    term->first_element = talc_trace_element(&trace->first, term->first);
    term->first_value = trace->first.values[term->first_element];
    term->second_value = term->second_element < 0 ? 0 : trace->second.values[term->second_element];
    return true;
}

int64_t talc_trace_terms(const talc_trace *trace, int64_t element, talc_trace_term *terms,
                         int64_t capacity)
{
    int64_t count = 0;
    for (int64_t k = 0; k < trace->inner; k++) {
        talc_trace_term term;
        if (!talc_trace_term_at(trace, element, k, &term))
            continue;
        if (terms != NULL && count < capacity)
            terms[count] = term;
        count++;
    }
    return count;
}

const trace_pair *talc_trace_pairs(talc_trace *trace)
{
    trace_record *record = (trace_record *)trace;
    const int64_t count = trace->result.count * trace->inner;
    if (record->pairs != NULL)
        return record->pairs;
    record->pairs = talc_memory_new((size_t)count * sizeof(trace_pair) + 1, "a trace's terms");
    for (int64_t i = 0; i < count && record->pairs != NULL; i++) {
        talc_trace_term term;
        record->pairs[i] = (trace_pair){ -1, -1 };
        if (talc_trace_term_at(trace, i / trace->inner, i % trace->inner, &term))
            record->pairs[i] =
                (trace_pair){ (int32_t)term.first_element, (int32_t)term.second_element };
    }
    return record->pairs;
}

int64_t talc_trace_all_terms(talc_trace *trace)
{
    trace_record *record = (trace_record *)trace;
    int64_t count = record->terms;
    for (int64_t i = 0; record->terms == 0 && i < trace->result.count; i++)
        count += talc_trace_terms(trace, i, NULL, 0);
    return record->terms = count;
}

// ---- Readers ------------------------------------------------------------------------------------

/* Along one axis, output o and tap k meet pixel i. */
typedef struct axis {
    int64_t O, K, I, stride, pad, dilation;
    talc_padding_mode mode;
} axis;

enum { OUTPUT, TAP, PIXEL };

static bool meets(const axis *a, const int64_t at[3])
{
    const int64_t i = at[OUTPUT] * a->stride - a->pad + at[TAP] * a->dilation;
    return talc_check_source(a->mode, i, a->I) == at[PIXEL];
}

/* How many of `wanted` there are that meet the one that is given, in any of the third. */
static int64_t meeting(const axis *a, int given, int64_t value, int wanted)
{
    const int64_t extents[] = { a->O, a->K, a->I };
    const int third = OUTPUT + TAP + PIXEL - given - wanted;
    int64_t at[3], count = 0;
    at[given] = value;
    for (at[wanted] = 0; at[wanted] < extents[wanted]; at[wanted]++)
        for (at[third] = 0; at[third] < extents[third]; at[third]++)
            if (meets(a, at)) {
                count++;
                break;
            }
    return count;
}

int64_t talc_trace_readers(const talc_trace *trace, bool second, int64_t element)
{
    const talc_conv2d_problem *p = &trace->problem;
    const axis h = { p->OH, p->KH, p->H, p->stride_h, p->pad_top, p->dilation_h, p->padding_mode };
    const axis w = { p->OW, p->KW, p->W, p->stride_w, p->pad_left, p->dilation_w, p->padding_mode };
    int64_t at[4];
    talc_trace_indices(second ? &trace->second : &trace->first, element, at);
    const bool weight = p->direction == TALC_GRAD_WEIGHT;
    if (!second && p->direction != TALC_GRAD_INPUT) /* multiplied with padding too */
        return weight ? trace->columns : p->N * trace->columns;
    const int given = !second ? TAP : p->direction == TALC_GRAD_INPUT ? OUTPUT : PIXEL;
    const int wanted = weight ? TAP : p->direction == TALC_GRAD_INPUT ? PIXEL : OUTPUT;
    return (second ? trace->rows : p->N) * meeting(&h, given, at[2], wanted) *
           meeting(&w, given, at[3], wanted);
}
