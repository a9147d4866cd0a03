/// Data flow by experiment: which elements an algorithm multiplies with each other, seen from
/// outside.
///
/// `first` is 1 everywhere and `second` holds its own elements' numbers, from 1 on. Where element j
/// of `first` becomes 2, each sum that has it grows by the number of the element it is multiplied
/// with, as the difference of two runs shows. All data is dense, and sums are whole numbers that
/// every precision class but NORMWISE holds: numbers of more than 11 bits go digit by digit.
#include "check/conv2d/trace.h"

#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/storage.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>

enum { MAX_PAIRS = 1 << 26, MAX_BASE = 2048 };
/* Of all runs. */
static const double MAX_PRODUCTS = 0x1p35;

typedef struct measuring {
    const talc_trace *trace;
    talc_device *device;
    talc_conv2d_options options;
    int64_t base;            /* of digits */
    const trace_pair *pairs; /* as the trace has them */
    float *first, *second;   /* on the host */
    double *before, *after;  /* results */
    int64_t *numbers;        /* for each element of the result */
} measuring;

static talc_tensor *operand(const measuring *m, const talc_trace_operand *of, const float *values)
{
    const talc_dims dims = TALC_DIMS(of->dims[0], of->dims[1], of->dims[2], of->dims[3]);
    return talc_cast(talc_from_host(m->device, TALC_F32, dims, values), m->trace->problem.dtype);
}

static bool run(const measuring *m, double *result, talc_trace_measurement *found)
{
    const talc_conv2d_problem *p = &m->trace->problem;
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *first = operand(m, &m->trace->first, m->first);
    const talc_tensor *second = operand(m, &m->trace->second, m->second);
    const talc_tensor *y =
        p->direction == TALC_FORWARD      ? talc_conv2d(second, first, NULL, &m->options)
        : p->direction == TALC_GRAD_INPUT ? talc_conv2d_gradient(p, first, second, &m->options)
                                          : talc_conv2d_gradient(p, second, first, &m->options);
    const bool ran = talc_to_host(talc_cast(y, TALC_F64), result,
                                  (size_t)m->trace->result.count * sizeof(double));
    talc_scope_leave(scope);
    found->runs++;
    return ran;
}

/* One digit of the numbers of all elements of `second`, as `first` is, without and with a 2. */
static bool measure_digit(const measuring *m, int64_t raised, int64_t unit,
                          talc_trace_measurement *found)
{
    for (int64_t i = 0; i < m->trace->second.count; i++)
        m->second[i] = (float)((i + 1) / unit % m->base);
    m->first[raised] = 1;
    if (!run(m, m->before, found))
        return false;
    m->first[raised] = 2;
    const bool ran = run(m, m->after, found);
    m->first[raised] = 1;
    for (int64_t i = 0; i < m->trace->result.count && ran; i++)
        m->numbers[i] += unit * (int64_t)nearbyint(m->after[i] - m->before[i]);
    return ran;
}

static void compare(const measuring *m, int64_t first, talc_trace_measurement *found)
{
    const int64_t results = m->trace->result.count;
    const trace_pair *pair = m->pairs;
    for (int64_t i = 0; i < results; i++) {
        int64_t expected = 0;
        for (int64_t k = 0; k < m->trace->inner; k++, pair++)
            if (pair->first == first)
                expected = pair->second + 1, found->pairs++;
        if (m->numbers[i] != expected && found->wrong++ == 0)
            found->element = i, found->first = first, found->second = m->numbers[i] - 1;
    }
}

static bool measure_all(const measuring *m, talc_trace_measurement *found)
{
    const talc_trace *t = m->trace;
    for (int64_t j = 0; j < t->first.count; j++)
        m->first[j] = 1;
    for (int64_t j = 0; j < t->first.count; j++) {
        memset(m->numbers, 0, (size_t)t->result.count * sizeof *m->numbers);
        for (int64_t unit = 1; unit <= t->second.count; unit *= m->base)
            if (!measure_digit(m, j, unit, found))
                return false;
        compare(m, j, found);
    }
    return true;
}

static bool allocate(measuring *m)
{
    static const char what[] = "a trace's measurement";
    const talc_trace *t = m->trace;
    const size_t results = (size_t)t->result.count + 1;
    return (m->first = talc_memory_new(((size_t)t->first.count + 1) * sizeof(float), what)) &&
           (m->second = talc_memory_new(((size_t)t->second.count + 1) * sizeof(float), what)) &&
           (m->before = talc_memory_new(results * sizeof(double), what)) &&
           (m->after = talc_memory_new(results * sizeof(double), what)) &&
           (m->numbers = talc_memory_new(results * sizeof(int64_t), what));
}

static void release(measuring *m)
{
    void *const all[] = { m->first, m->second, m->before, m->after, m->numbers };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        talc_memory_free(all[i]);
}

/* The algorithm that runs. */
static bool name(const measuring *m, talc_trace_measurement *found)
{
    talc_conv2d_explanation e;
    if (!talc_conv2d_explain(m->device, &m->trace->problem, &m->options, &e))
        return false;
    const int chosen = e.decision.chosen;
    snprintf(found->algorithm, sizeof found->algorithm, "%s",
             chosen < 0 ? "" : e.decision.candidates[chosen].title);
    return true;
}

talc_conv2d_options talc_trace_conv2d_options(const talc_conv2d_problem *p, const char *algorithm,
                                              unsigned precision)
{
    return (talc_conv2d_options){
        .stride = { p->stride_h, p->stride_w },
        .padding = { p->pad_top, p->pad_left },
        .padding_end = { p->pad_bottom > 0 ? p->pad_bottom : TALC_ZERO,
                         p->pad_right > 0 ? p->pad_right : TALC_ZERO },
        .padding_mode = p->padding_mode,
        .dilation = { p->dilation_h, p->dilation_w },
        .groups = p->groups,
        .algorithm = algorithm,
        .precision = precision,
    };
}

bool talc_trace_measure(talc_trace *trace, talc_device *device, const char *algorithm,
                        unsigned precision, talc_trace_measurement *measurement)
{
    TALC_DEFAULT_FENV;
    if (talc_operand_missing("trace", "trace", trace) ||
        talc_operand_missing("trace", "device", device) ||
        talc_operand_missing("trace", "measurement", measurement))
        return false;
    const double pairs = (double)trace->result.count * (double)trace->inner;
    const double products = 2 * pairs * (double)trace->first.count;
    if (pairs > MAX_PAIRS || products > MAX_PRODUCTS) {
        talc_fail(
            TALC_TOO_LARGE,
            "trace: measuring takes %.0f products, %.0f at a time; at most %.0f, %d at a time",
            products, pairs, MAX_PRODUCTS, MAX_PAIRS);
        return false;
    }
    *measurement = (talc_trace_measurement){ .runs = 0 };
    measuring m = { .trace = trace,
                    .device = device,
                    .options = talc_trace_conv2d_options(&trace->problem, algorithm, precision),
                    .base = MAX_BASE };
    while (m.base > 2 && (double)m.base * (double)(trace->inner + 1) > 0x1p24)
        m.base /= 2;
    m.pairs = talc_trace_pairs(trace);
    const bool measured =
        m.pairs != NULL && allocate(&m) && name(&m, measurement) && measure_all(&m, measurement);
    release(&m);
    return measured;
}
