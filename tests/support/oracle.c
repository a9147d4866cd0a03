#include "tests/support/oracle.h"

#include "check/bound.h"
#include "check/family.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t oracle_extent(int64_t size, int64_t kernel, int64_t stride, int64_t dilation,
                      int64_t before, int64_t after)
{
    int64_t count = 0;
    for (int64_t first = 0; first + dilation * (kernel - 1) < before + size + after;
         first += stride)
        count++;
    return count;
}

/* A problem and its operands as the cross-check takes them. */
typedef struct posed {
    check_problem problem;
    check_values values;
    int y;
} posed;

static posed pose(const talc_conv2d_problem *p, const double *x, const double *w,
                  const double *bias, const double *residual)
{
    posed q = { .y = 2 };
    talc_conv2d_problem forward = *p;
    forward.bias = bias != NULL;
    forward.residual = residual != NULL;
    memcpy(&q.problem, &forward, sizeof forward);
    q.values.of[0] = (double *)x;
    q.values.of[1] = (double *)w;
    if (bias != NULL)
        q.values.of[q.y++] = (double *)bias;
    if (residual != NULL)
        q.values.of[q.y++] = (double *)residual;
    return q;
}

oracle_conv2d oracle_new(const talc_conv2d_problem *p, const double *x, const double *w,
                         const double *bias, const double *residual)
{
    oracle_conv2d oracle = {
        .N = p->N,
        .OC = p->OC,
        .OH = oracle_extent(p->H, p->KH, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom),
        .OW = oracle_extent(p->W, p->KW, p->stride_w, p->dilation_w, p->pad_left, p->pad_right),
    };
    cr_assert(oracle.OH == p->OH && oracle.OW == p->OW,
              "the problem counts %d x %d outputs, not %d x %d", (int)p->OH, (int)p->OW,
              (int)oracle.OH, (int)oracle.OW);
    oracle.count = oracle.N * oracle.OC * oracle.OH * oracle.OW;
    oracle.due = calloc((size_t)oracle.count + 1, sizeof *oracle.due);
    cr_assert_not_null(oracle.due);
    const posed q = pose(p, x, w, bias, residual);
    for (int64_t i = 0; i < oracle.count; i++)
        oracle.due[i] = talc_check_conv2d.due(&q.problem, &q.values, q.y, i);
    return oracle;
}

void oracle_free(oracle_conv2d *oracle)
{
    free(oracle->due);
    *oracle = (oracle_conv2d){ .count = 0 };
}

check_due oracle_due(const talc_conv2d_problem *p, const double *x, const double *w,
                     const double *bias, const double *residual, int64_t index)
{
    const posed q = pose(p, x, w, bias, residual);
    return talc_check_conv2d.due(&q.problem, &q.values, q.y, index);
}

static double tolerance(const check_due *due, const talc_conv2d_problem *p, oracle_bound bound)
{
    const talc_arithmetic arithmetic = { .precision = TALC_STRICT,
                                         .wide_accumulator = bound == ORACLE_ONE_ROUNDING };
    if (bound == ORACLE_EXACT)
        return due->extra;
    return talc_check_bound(&arithmetic, p->dtype,
                            bound == ORACLE_ANY ? TALC_CHECK_CONSTANT : TALC_CHECK_RANDOM, due, 0);
}

oracle_report oracle_compare(const oracle_conv2d *oracle, const talc_conv2d_problem *p,
                             const double *y, oracle_bound bound)
{
    oracle_report report = { .worst = 0 };
    int64_t worst = -1;
    for (int64_t i = 0; i < oracle->count; i++) {
        const check_due *due = &oracle->due[i];
        const double used = talc_check_share(due->value, y[i], tolerance(due, p, bound));
        if (used > report.worst) {
            report.worst = used;
            worst = i;
        }
        if (due->S > 0) {
            report.fed++;
            report.nonzero += y[i] != 0;
        }
    }
    if (worst >= 0) {
        report.w = worst % oracle->OW;
        report.h = worst / oracle->OW % oracle->OH;
        report.c = worst / oracle->OW / oracle->OH % oracle->OC;
        report.n = worst / oracle->OW / oracle->OH / oracle->OC;
        report.got = y[worst];
        report.due = (double)oracle->due[worst].value;
    }
    return report;
}

bool oracle_trusted(const oracle_report *report, const talc_conv2d_problem *p)
{
    const double least = p->activation == TALC_ACTIVATION_RELU ? 0.15 : 0.30;
    return report->fed < 8 || (double)report->nonzero >= least * (double)report->fed;
}
