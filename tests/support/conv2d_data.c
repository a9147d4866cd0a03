#include "tests/support/conv2d_data.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

talc_conv2d_problem conv2d_parse(const char *text)
{
    talc_conv2d_problem problem;
    cr_assert(talc_conv2d_problem_parse(text, &problem), "%s: %s", text, talc_error_message());
    return problem;
}

uint64_t random_bits(uint64_t seed, uint64_t index)
{
    uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* One of low .. high. */
static int64_t draw(uint64_t *state, int64_t low, int64_t high)
{
    *state += 1;
    return low + (int64_t)(random_bits(*state, 1) % (uint64_t)(high - low + 1));
}

/* The largest of `value` and what the kernel needs beyond the image on this axis. */
static int64_t at_least_needed(int64_t padding, int64_t size, int64_t kernel, int64_t dilation,
                               int64_t other)
{
    const int64_t needed = dilation * (kernel - 1) + 1 - size - other;
    return padding > needed ? padding : needed;
}

talc_conv2d_problem conv2d_random_problem(uint64_t seed)
{
    uint64_t s = seed << 16;
    const int64_t groups = draw(&s, 0, 2) != 0 ? 1 : draw(&s, 2, 5);
    talc_conv2d_problem p = { .dtype = draw(&s, 0, 3) == 0 ? TALC_F64 : TALC_F32,
                              .groups = groups };
    p.N = draw(&s, 1, 3);
    p.C = groups * (draw(&s, 0, 1) == 0 ? 1 : draw(&s, 1, 9));
    p.OC = groups * (draw(&s, 0, 1) == 0 ? draw(&s, 1, 2) : draw(&s, 1, 10));
    p.H = draw(&s, 1, 11);
    p.W = draw(&s, 1, 19);
    p.KH = draw(&s, 0, 3) == 0 ? 1 : draw(&s, 1, 5);
    p.KW = draw(&s, 0, 3) == 0 ? p.KH : draw(&s, 1, 5);
    p.stride_h = draw(&s, 0, 1) == 0 ? 1 : draw(&s, 1, 4);
    p.stride_w = draw(&s, 0, 1) == 0 ? 1 : draw(&s, 1, 4);
    p.dilation_h = draw(&s, 0, 2) != 0 ? 1 : draw(&s, 1, 3);
    p.dilation_w = draw(&s, 0, 2) != 0 ? 1 : draw(&s, 1, 3);
    p.pad_top = draw(&s, 0, 1) == 0 ? 0 : draw(&s, 0, 4);
    p.pad_left = draw(&s, 0, 1) == 0 ? 0 : draw(&s, 0, 4);
    p.pad_bottom = draw(&s, 0, 1) == 0 ? p.pad_top : draw(&s, 0, 3);
    p.pad_right = draw(&s, 0, 1) == 0 ? p.pad_left : draw(&s, 0, 3);
    p.pad_bottom = at_least_needed(p.pad_bottom, p.H, p.KH, p.dilation_h, p.pad_top);
    p.pad_right = at_least_needed(p.pad_right, p.W, p.KW, p.dilation_w, p.pad_left);
    p.bias = draw(&s, 0, 1) == 0;
    p.residual = draw(&s, 0, 3) == 0;
    p.activation = draw(&s, 0, 3) == 0 ? TALC_ACTIVATION_RELU : TALC_ACTIVATION_NONE;
    p.padding_mode = (talc_padding_mode)(draw(&s, 0, 1) == 0 ? 0 : draw(&s, 1, 3));
    const int64_t vertical = p.pad_top > p.pad_bottom ? p.pad_top : p.pad_bottom;
    const int64_t horizontal = p.pad_left > p.pad_right ? p.pad_left : p.pad_right;
    if ((p.padding_mode == TALC_PADDING_REFLECT && (vertical >= p.H || horizontal >= p.W)) ||
        (p.padding_mode == TALC_PADDING_CIRCULAR && (vertical > p.H || horizontal > p.W)))
        p.padding_mode = TALC_PADDING_REPLICATE;
    cr_assert(talc_conv2d_problem_check(&p), "random problem %d: %s", (int)seed,
              talc_error_message());
    return p;
}

// ---- Host operands ------------------------------------------------------------------------------------------

/* What a fill means for one operand of one problem. */
typedef struct filler {
    conv2d_fill fill;
    talc_dtype dtype;
    int64_t largest;
    double scale;
    uint64_t seed;
} filler;

static double *filled(int64_t count, const filler *f, double constant)
{
    double *values = malloc((size_t)count * sizeof *values + 1);
    cr_assert_not_null(values);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = random_bits(f->seed, (uint64_t)i);
        const int64_t integer = (int64_t)(bits % (uint64_t)(2 * f->largest + 1)) - f->largest;
        const double uniform = ((double)(bits >> 11) * 0x1p-52 - 1) * f->scale;
        const double value = f->fill == FILL_INTEGERS ? (double)integer
                             : f->fill == FILL_RANDOM ? uniform
                                                      : constant;
        values[i] = f->dtype == TALC_F32 ? (double)(float)value : value;
    }
    return values;
}

conv2d_data conv2d_data_new(const talc_conv2d_problem *p, conv2d_fill fill, uint64_t seed)
{
    const int64_t K = p->C / p->groups * p->KH * p->KW;
    const bool curved =
        p->activation == TALC_ACTIVATION_SIGMOID || p->activation == TALC_ACTIVATION_TANH;
    const int64_t OH =
        oracle_extent(p->H, p->KH, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom);
    const int64_t OW =
        oracle_extent(p->W, p->KW, p->stride_w, p->dilation_w, p->pad_left, p->pad_right);
    conv2d_data data = { .problem = *p,
                         .x_count = p->N * p->C * p->H * p->W,
                         .w_count = p->OC * K,
                         .y_count = p->N * p->OC * OH * OW };
    filler f = { fill, p->dtype, curved ? 1 : 8, 1, 4 * seed };
    data.x = filled(data.x_count, &f, 1.0 / 3);
    f.seed++;
    data.bias = p->bias ? filled(p->OC, &f, 0.1) : NULL;
    /* A negative bias before a ReLU may leave a channel of nothing but zeros, which tests nothing. */
    for (int64_t oc = 0; p->bias && p->activation == TALC_ACTIVATION_RELU && oc < p->OC; oc += 2)
        data.bias[oc] = fabs(data.bias[oc]);
    f.seed++;
    data.residual = p->residual ? filled(data.y_count, &f, 0.1) : NULL;
    f.seed++;
    f.scale = sqrt(3.0 / (double)K);
    data.w = filled(data.w_count, &f, curved ? 0.7 / (double)K : 0.7);
    return data;
}

void conv2d_data_free(conv2d_data *data)
{
    free(data->x);
    free(data->w);
    free(data->bias);
    free(data->residual);
}

oracle_conv2d conv2d_oracle(const conv2d_data *data)
{
    return oracle_new(&data->problem, data->x, data->w, data->bias, data->residual);
}

// ---- On a device --------------------------------------------------------------------------------------------

talc_tensor *random_tensor(talc_device *device, talc_dtype dtype, talc_dims dims, uint64_t seed)
{
    int64_t count = 1;
    for (int i = 0; i < dims.rank; i++)
        count *= dims.dim[i];
    const filler f = { FILL_RANDOM, dtype, 1, 1, seed };
    double *values = filled(count, &f, 0);
    talc_tensor *wide = talc_from_host(device, TALC_F64, dims, values);
    talc_tensor *tensor = talc_cast(wide, dtype);
    talc_release(wide);
    free(values);
    cr_assert(tensor != NULL, "random_tensor: %s", talc_error_message());
    return tensor;
}

static int64_t zero_asked_for(int64_t value)
{
    return value == 0 ? TALC_ZERO : value;
}

talc_conv2d_options conv2d_options(const talc_conv2d_problem *p, const talc_tensor *residual,
                                   const char *algorithm)
{
    return (talc_conv2d_options){
        .stride = { p->stride_h, p->stride_w },
        .padding = { p->pad_top, p->pad_left },
        .padding_end = { zero_asked_for(p->pad_bottom), zero_asked_for(p->pad_right) },
        .padding_mode = p->padding_mode,
        .dilation = { p->dilation_h, p->dilation_w },
        .groups = p->groups,
        .activation = p->activation,
        .residual = residual,
        .algorithm = algorithm,
    };
}

conv2d_operands conv2d_operands_new(talc_device *device, const conv2d_data *data, int shift)
{
    const talc_conv2d_problem *p = &data->problem;
    const int64_t OH =
        oracle_extent(p->H, p->KH, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom);
    const int64_t OW =
        oracle_extent(p->W, p->KW, p->stride_w, p->dilation_w, p->pad_left, p->pad_right);
    conv2d_operands operands = {
        .x = guard_new(device, p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W), data->x, shift),
        .w = guard_new(device, p->dtype, TALC_DIMS(p->OC, p->C / p->groups, p->KH, p->KW), data->w,
                       shift),
    };
    if (p->bias)
        operands.bias = guard_new(device, p->dtype, TALC_DIMS(p->OC), data->bias, shift);
    if (p->residual)
        operands.residual =
            guard_new(device, p->dtype, TALC_DIMS(p->N, p->OC, OH, OW), data->residual, shift);
    return operands;
}

static bool intact(const guarded *guard)
{
    return guard->tensor == NULL || guard_intact(guard, true);
}

bool conv2d_operands_intact(const conv2d_operands *o)
{
    return intact(&o->x) && intact(&o->w) && intact(&o->bias) && intact(&o->residual);
}

void conv2d_operands_free(conv2d_operands *o)
{
    guard_free(&o->x);
    guard_free(&o->w);
    guard_free(&o->bias);
    guard_free(&o->residual);
}

talc_tensor *conv2d_run(const conv2d_operands *o, const talc_conv2d_problem *problem,
                        const char *algorithm)
{
    const talc_conv2d_options options = conv2d_options(problem, o->residual.tensor, algorithm);
    return talc_conv2d(o->x.tensor, o->w.tensor, o->bias.tensor, &options);
}

double *conv2d_values(talc_device *device, const conv2d_data *data, const char *algorithm)
{
    const talc_conv2d_explanation explanation = conv2d_explanation(device, &data->problem);
    for (int i = 0; i < explanation.count && algorithm != NULL; i++)
        if (explanation.candidates[i].refused &&
            strcmp(explanation.candidates[i].name, algorithm) == 0)
            algorithm = NULL;
    talc_scope *scope = talc_scope_enter();
    conv2d_operands operands = conv2d_operands_new(device, data, 0);
    const talc_tensor *y = conv2d_run(&operands, &data->problem, algorithm);
    char text[TALC_CONV2D_TEXT];
    cr_assert(y != NULL, "%s: %s", talc_conv2d_problem_text(&data->problem, text),
              talc_error_message());
    double *values = host_doubles(y);
    conv2d_operands_free(&operands);
    talc_scope_leave(scope);
    return values;
}

talc_conv2d_explanation conv2d_explanation(talc_device *device, const talc_conv2d_problem *problem)
{
    talc_conv2d_explanation explanation;
    cr_assert(talc_conv2d_explain(device, problem, NULL, &explanation), "explain: %s",
              talc_error_message());
    cr_assert(explanation.chosen >= 0, "conv2d: no algorithm takes %s",
              talc_conv2d_problem_text(problem, (char[TALC_CONV2D_TEXT]){ 0 }));
    return explanation;
}
