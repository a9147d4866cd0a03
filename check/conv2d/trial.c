#include "check/conv2d/trial.h"

#include "check/engine/data.h"
#include "check/engine/layout.h"
#include "tensor/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- Arrays -------------------------------------------------------------------------------------

void talc_check_trial_free(check_trial *trial)
{
    for (int i = 0; i < trial->count; i++)
        talc_memory_free(trial->arrays[i]);
    trial->count = 0;
    talc_check_buffers_free(&trial->buffers);
}

static void decide(check_trial *trial, check_property_result result)
{
    trial->decided = true;
    trial->result = result;
}

void talc_check_trial_leave(check_trial *trial)
{
    if (!trial->decided)
        decide(trial, CHECK_LEFT_OUT);
}

double *talc_check_trial_numbers(check_trial *trial, int64_t count)
{
    if (trial->decided)
        return NULL;
    double *numbers = NULL;
    if (trial->count < CHECK_TRIAL_ARRAYS)
        numbers = talc_memory_new((size_t)count * sizeof *numbers, "operands of a property");
    if (numbers == NULL) {
        talc_check_trial_leave(trial);
        return NULL;
    }
    return trial->arrays[trial->count++] = numbers;
}

double *talc_check_trial_integers(check_trial *trial, int64_t count, talc_dtype dtype, double K,
                                  double times)
{
    const double largest_exact = talc_check_format(dtype).integers, terms = K * times;
    double largest = talc_check_exact_largest(dtype, terms, 8);
    /* The bound of an algorithm that is accurate in norm, (K + 2) u S, has to stay below a half, as
     * results are rounded to integers. */
    if (trial->algorithm->arithmetic.precision == TALC_NORMWISE)
        largest =
            fmin(fmin(largest, 3), floor(sqrt(largest_exact / 2 / ((terms + 2) * fmax(terms, 1)))));
    if (largest < 1 || terms * largest * largest >= largest_exact) {
        talc_check_trial_leave(trial);
        return NULL;
    }
    double *numbers = talc_check_trial_numbers(trial, count);
    if (numbers != NULL)
        talc_check_fill(numbers, count, dtype, TALC_CHECK_EXACT, largest, 1, trial->seed++);
    return numbers;
}

// ---- Running ------------------------------------------------------------------------------------

static double *run_result(check_trial *trial, const check_problem *generic,
                          const talc_conv2d_problem *problem, const double *first,
                          const double *second)
{
    check_run_report report = { .status = TALC_OK };
    double *y = talc_check_trial_numbers(trial, talc_check_result_count(problem));
    if (y == NULL)
        return NULL;
    check_values values = { .of = { NULL } }, results = { .of = { NULL } };
    values.of[talc_check_conv2d_read(problem->direction, 0)] = (double *)first;
    values.of[talc_check_conv2d_read(problem->direction, 1)] = (double *)second;
    results.of[talc_check_conv2d_written(problem->direction)] = y;
    const check_run_options options = { .shift_bytes = 0, .workspace_limit = SIZE_MAX };
    if (!talc_check_run(&talc_check_conv2d, trial->algorithm, trial->device, generic, &values,
                        &options, &trial->buffers, &results, &report)) {
        talc_check_trial_leave(trial);
        return NULL;
    }
    if (report.status == TALC_OK && report.written == NULL && report.changed == NULL)
        return y;
    char text[TALC_CHECK_TEXT];
    snprintf(trial->reason, 256, "%.120s: %s%.100s",
             talc_check_write(&talc_check_conv2d, generic, text),
             report.status != TALC_OK ? "failed: "
             : report.written != NULL ? "wrote outside "
                                      : "changed ",
             report.status != TALC_OK ? report.failure
             : report.written != NULL ? report.written
                                      : report.changed);
    decide(trial, CHECK_BROKEN);
    return NULL;
}

static check_problem generic_of(const talc_conv2d_problem *problem)
{
    check_problem generic;
    memset(&generic, 0, sizeof generic);
    memcpy(generic.bytes, problem, sizeof *problem);
    return generic;
}

bool talc_check_trial_takes(const check_trial *trial, const talc_conv2d_problem *problem)
{
    const check_problem generic = generic_of(problem);
    talc_plan plan;
    return talc_check_plan(&talc_check_conv2d, trial->algorithm, trial->device, &generic,
                           talc_workspace_limit(trial->device), &plan) == NULL;
}

double *talc_check_trial_convolve(check_trial *trial, const talc_conv2d_problem *problem,
                                  const double *first, const double *second)
{
    if (trial->decided)
        return NULL;
    if (!talc_check_trial_takes(trial, problem)) {
        talc_check_trial_leave(trial);
        return NULL;
    }
    const check_problem generic = generic_of(problem);
    return run_result(trial, &generic, problem, first, second);
}

double talc_check_trial_integer(const check_trial *trial, double value)
{
    return trial->algorithm->arithmetic.precision == TALC_NORMWISE ? rint(value) : value;
}

/* The operand that the problem's results are. */
static check_operand result_of(const talc_conv2d_problem *problem)
{
    const check_problem generic = generic_of(problem);
    check_operand list[CHECK_OPERANDS];
    talc_check_operands(&talc_check_conv2d, &generic, list);
    return list[talc_check_conv2d_written(problem->direction)];
}

void talc_check_trial_compare(check_trial *trial, const talc_conv2d_problem *problem,
                              const double *result, const double *expected, const char *what)
{
    if (trial->decided)
        return;
    const check_operand operand = result_of(problem);
    for (int64_t i = 0; i < operand.count; i++) {
        if (expected[i] == CHECK_NOT_EXPECTED || talc_check_trial_integer(trial, result[i]) ==
                                                     talc_check_trial_integer(trial, expected[i]))
            continue;
        char text[TALC_CONV2D_TEXT];
        int64_t at[TALC_MAX_RANK];
        talc_check_coordinates(operand.rank, operand.dims, i, at);
        snprintf(trial->reason, 256,
                 "%.90s: %s[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                 "] is %.9g, %s gives %.9g",
                 talc_conv2d_problem_text(problem, text), operand.name, at[0], at[1], at[2], at[3],
                 talc_check_shown(result[i]), what, talc_check_shown(expected[i]));
        decide(trial, CHECK_BROKEN);
        return;
    }
}

/* False when an element of the result is no finite integer. */
static bool inner(const check_trial *trial, const check_inner *of, int64_t *sum)
{
    *sum = 0;
    for (int64_t i = 0; i < of->count; i++) {
        if (!(fabs(of->result[i]) < 0x1p53))
            return false;
        *sum += (int64_t)talc_check_trial_integer(trial, of->result[i]) * (int64_t)of->with[i];
    }
    return true;
}

void talc_check_trial_compare_inner(check_trial *trial, const talc_conv2d_problem *problem,
                                    const check_inner *left, const check_inner *right)
{
    if (trial->decided)
        return;
    int64_t one = 0, other = 0;
    const bool finite = inner(trial, left, &one) && inner(trial, right, &other);
    if (finite && one == other)
        return;
    char text[TALC_CONV2D_TEXT];
    talc_conv2d_problem_text(problem, text);
    if (finite)
        snprintf(trial->reason, 256, "%.90s: %s is %" PRId64 ", %s is %" PRId64, text, left->text,
                 one, right->text, other);
    else
        snprintf(trial->reason, 256, "%.90s: a result is not a finite integer", text);
    decide(trial, CHECK_BROKEN);
}

// ---- Problems -----------------------------------------------------------------------------------

int64_t talc_check_x_count(const talc_conv2d_problem *p)
{
    return p->N * p->C * p->H * p->W;
}

int64_t talc_check_w_count(const talc_conv2d_problem *p)
{
    return p->OC * (p->C / p->groups) * p->KH * p->KW;
}

int64_t talc_check_y_count(const talc_conv2d_problem *p)
{
    return p->N * p->OC * p->OH * p->OW;
}

int64_t talc_check_result_count(const talc_conv2d_problem *p)
{
    return p->direction == TALC_GRAD_INPUT    ? talc_check_x_count(p)
           : p->direction == TALC_GRAD_WEIGHT ? talc_check_w_count(p)
                                              : talc_check_y_count(p);
}

double talc_check_terms(const talc_conv2d_problem *p)
{
    if (p->direction == TALC_GRAD_WEIGHT)
        return (double)p->N * (double)p->OH * (double)p->OW;
    const int64_t channels = (p->direction == TALC_GRAD_INPUT ? p->OC : p->C) / p->groups;
    return (double)channels * (double)p->KH * (double)p->KW;
}

static int64_t outputs(int64_t padded, int64_t dilation, int64_t K, int64_t stride)
{
    const int64_t last_start = padded - dilation * (K - 1) - 1;
    return last_start < 0 ? 0 : last_start / stride + 1;
}

/* Reflection does not repeat the edge, so it reaches one less far than the image is long. */
static int64_t farthest(talc_padding_mode mode, int64_t extent)
{
    return mode == TALC_PADDING_REFLECT    ? extent - 1
           : mode == TALC_PADDING_CIRCULAR ? extent
                                           : INT64_MAX;
}

bool talc_check_settle(talc_conv2d_problem *p)
{
    p->OH = outputs(p->H + p->pad_top + p->pad_bottom, p->dilation_h, p->KH, p->stride_h);
    p->OW = outputs(p->W + p->pad_left + p->pad_right, p->dilation_w, p->KW, p->stride_w);
    const int64_t far_h = farthest(p->padding_mode, p->H), far_w = farthest(p->padding_mode, p->W);
    const bool negative =
        p->pad_top < 0 || p->pad_bottom < 0 || p->pad_left < 0 || p->pad_right < 0;
    return !negative && p->OH > 0 && p->OW > 0 && p->pad_top <= far_h && p->pad_bottom <= far_h &&
           p->pad_left <= far_w && p->pad_right <= far_w;
}

/* Costs relative to what a property's problem may cost, as if the stride were 1; over 1 is too
 * much. */
static double cost(const talc_conv2d_problem *p)
{
    const double MACS = 0x1p19, ELEMENTS = 0x1p17;
    talc_conv2d_problem dense = *p;
    dense.direction = TALC_FORWARD; /* each has as many products */
    dense.stride_h = dense.stride_w = 1;
    talc_check_settle(&dense);
    const double x = (double)p->N * (double)p->C * (double)p->H * (double)p->W;
    const double y = (double)p->N * (double)p->OC * (double)dense.OH * (double)dense.OW;
    return fmax(y * talc_check_terms(&dense) / MACS, fmax(x, y) / ELEMENTS);
}

/* The extent to which an axis of the image may shrink. */
static int64_t min_extent(int64_t begin, int64_t end, int64_t dilation, int64_t K)
{
    const int64_t kernel = dilation * (K - 1) + 1 - begin - end;
    const int64_t padding = (begin > end ? begin : end) + 1;
    const int64_t min = kernel > padding ? kernel : padding;
    return min > 9 ? min : 9;
}

bool talc_check_shrink(talc_conv2d_problem *p)
{
    enum { SIZES = 5 };
    p->bias = p->residual = false;
    p->activation = TALC_ACTIVATION_NONE;
    if (p->N < 1 || p->C < 1 || p->OC < 1 || p->H < 1 || p->W < 1)
        return false;
    if (p->N > 3)
        p->N = 3;
    while (cost(p) > 1) {
        int64_t size[SIZES] = { p->groups, p->C / p->groups, p->OC / p->groups, p->H, p->W };
        const int64_t min[SIZES] = { 2, 2, 2,
                                     min_extent(p->pad_top, p->pad_bottom, p->dilation_h, p->KH),
                                     min_extent(p->pad_left, p->pad_right, p->dilation_w, p->KW) };
        int largest = -1;
        for (int i = 0; i < SIZES; i++)
            if ((size[i] + 1) / 2 >= min[i] && (largest < 0 || size[i] > size[largest]))
                largest = i;
        if (largest < 0)
            return cost(p) < 64 && talc_check_settle(p);
        size[largest] = (size[largest] + 1) / 2;
        p->groups = size[0];
        p->C = size[1] * size[0];
        p->OC = size[2] * size[0];
        p->H = size[3];
        p->W = size[4];
    }
    return talc_check_settle(p);
}
