/// An explanation of a convolution, for people.
#include "ops/conv2d.h"

#include "tensor/memory.h"
#include "tensor/shape.h"
#include "tensor/table.h"

#include <inttypes.h>
#include <string.h>

/* The op and its problem, which is always whole, on one line where there is room. */
static void print_title(FILE *file, const char *op, const talc_conv2d_problem *p)
{
    char text[TALC_CONV2D_TEXT];
    talc_conv2d_problem_text(p, text);
    const bool fits = strlen(op) + 1 + strlen(text) <= (size_t)talc_line_width(file);
    fprintf(file, "%s%s%s\n", op, fits ? " " : "\n  ", text);
}

/* "  NAME [a,b,c,d]" */
static void print_operand(FILE *file, const char *name, talc_dims dims)
{
    char text[TALC_DIMS_TEXT];
    fprintf(file, "  %s %s", name, talc_dims_text(dims, text));
}

/* What a gradient is made of, what it costs, and who can. */
static void print_gradient(FILE *file, const talc_conv2d_explanation *e)
{
    const talc_conv2d_problem *p = &e->problem;
    const talc_dims x = TALC_DIMS(p->N, p->C, p->H, p->W), y = TALC_DIMS(p->N, p->OC, p->OH, p->OW),
                    w = TALC_DIMS(p->OC, p->C / p->groups, p->KH, p->KW);
    const bool input = p->direction == TALC_GRAD_INPUT;
    const double products = input ? (double)(p->OC / p->groups) * (double)(p->KH * p->KW)
                                  : (double)p->N * (double)p->OH * (double)p->OW;
    char limit[TALC_BYTES_TEXT], flops[TALC_COUNT_TEXT];
    print_title(file, e->decision.op, p);
    print_operand(file, input ? "dy" : "x", input ? y : x);
    print_operand(file, input ? "w" : "dy", input ? w : y);
    fprintf(file, "  ->");
    print_operand(file, input ? "dx" : "dw", input ? x : w);
    fprintf(file, "  %s\n", talc_dtype_name(p->dtype));
    if (p->padding_mode != TALC_PADDING_ZEROS)
        fprintf(file, "  padding %s becomes part of the image\n",
                talc_padding_mode_name(p->padding_mode));
    talc_print_wrapped(file, 4,
                       "  %s, at most %.0f products per element, the workspace limit is %s",
                       talc_count_text(e->flops, "FLOP", flops), products,
                       talc_bytes_text((double)e->decision.workspace_limit, limit));
}

static void print_problem(FILE *file, const talc_conv2d_problem *p)
{
    print_title(file, "conv2d", p);
    talc_print_wrapped(file, 4,
                       "  x [%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]  w [%" PRId64
                       ",%" PRId64 ",%" PRId64 ",%" PRId64 "]  ->  y [%" PRId64 ",%" PRId64
                       ",%" PRId64 ",%" PRId64 "]  %s",
                       p->N, p->C, p->H, p->W, p->OC, p->C / p->groups, p->KH, p->KW, p->N, p->OC,
                       p->OH, p->OW, talc_dtype_name(p->dtype));
    fprintf(file,
            "  OH = floor((%" PRId64 " + %" PRId64 " + %" PRId64 " - %" PRId64 "*(%" PRId64
            "-1) - 1) / %" PRId64 ") + 1 = %" PRId64 "\n",
            p->H, p->pad_top, p->pad_bottom, p->dilation_h, p->KH, p->stride_h, p->OH);
    fprintf(file,
            "  OW = floor((%" PRId64 " + %" PRId64 " + %" PRId64 " - %" PRId64 "*(%" PRId64
            "-1) - 1) / %" PRId64 ") + 1 = %" PRId64 "\n",
            p->W, p->pad_left, p->pad_right, p->dilation_w, p->KW, p->stride_w, p->OW);
    fprintf(file, "  padding %s, activation %s%s%s\n", talc_padding_mode_name(p->padding_mode),
            talc_activation_name(p->activation), p->bias ? ", bias" : "",
            p->residual ? ", residual" : "");
}

void talc_conv2d_explanation_print(FILE *file, const talc_conv2d_explanation *e)
{
    if (file == NULL || e == NULL || e->problem.groups < 1)
        return; /* nothing that talc_conv2d_explain filled in */
    if (e->problem.direction != TALC_FORWARD) {
        print_gradient(file, e);
        talc_explanation_print(file, &e->decision);
        return;
    }
    print_problem(file, &e->problem);

    const talc_conv2d_problem *p = &e->problem;
    char bytes[TALC_BYTES_TEXT], matrix[TALC_BYTES_TEXT], limit[TALC_BYTES_TEXT];
    char flops[TALC_COUNT_TEXT];
    int64_t K = p->C / p->groups * p->KH * p->KW;
    double whole_matrix = (double)p->C * (double)p->KH * (double)p->KW * (double)p->OH *
                          (double)p->OW * (double)p->N * (double)talc_dtype_size(p->dtype);
    talc_print_wrapped(
        file, 4, "  %s, at least %s moved (%.3g FLOP per byte), %" PRId64 " products per output",
        talc_count_text(e->flops, "FLOP", flops), talc_bytes_text(e->bytes, bytes),
        e->bytes > 0 ? e->flops / e->bytes : 0, K);
    talc_print_wrapped(file, 4,
                       "  the whole im2col matrix would take %s, the workspace limit is %s",
                       talc_bytes_text(whole_matrix, matrix),
                       talc_bytes_text((double)e->decision.workspace_limit, limit));
    talc_explanation_print(file, &e->decision);
}
