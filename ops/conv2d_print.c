/// An explanation of a convolution, for people.
#include "ops/conv2d.h"

#include "tensor/memory.h"
#include "tensor/shape.h"

#include <inttypes.h>

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
    char text[TALC_CONV2D_TEXT], limit[TALC_BYTES_TEXT];
    fprintf(file, "%s %s\n", e->decision.op, talc_conv2d_problem_text(p, text));
    print_operand(file, input ? "dy" : "x", input ? y : x);
    print_operand(file, input ? "w" : "dy", input ? w : y);
    fprintf(file, "  ->");
    print_operand(file, input ? "dx" : "dw", input ? x : w);
    fprintf(file, "  %s\n", talc_dtype_name(p->dtype));
    if (p->padding_mode != TALC_PADDING_ZEROS)
        fprintf(file, "  padding %s becomes part of the image\n",
                talc_padding_mode_name(p->padding_mode));
    fprintf(file, "  %.4g GFLOP, at most %.0f products per element, the workspace limit is %s\n",
            e->flops / 1e9, products, talc_bytes_text((double)e->decision.workspace_limit, limit));
}

static void print_problem(FILE *file, const talc_conv2d_problem *p)
{
    char text[TALC_CONV2D_TEXT];
    fprintf(file, "conv2d %s\n", talc_conv2d_problem_text(p, text));
    fprintf(file,
            "  x [%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]  w [%" PRId64 ",%" PRId64
            ",%" PRId64 ",%" PRId64 "]  ->  y [%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
            "]  %s\n",
            p->N, p->C, p->H, p->W, p->OC, p->C / p->groups, p->KH, p->KW, p->N, p->OC, p->OH,
            p->OW, talc_dtype_name(p->dtype));
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
    int64_t K = p->C / p->groups * p->KH * p->KW;
    double whole_matrix = (double)p->C * (double)p->KH * (double)p->KW * (double)p->OH *
                          (double)p->OW * (double)p->N * (double)talc_dtype_size(p->dtype);
    fprintf(file,
            "  %.4g GFLOP, at least %s moved (%.3g FLOP per byte), %" PRId64
            " products per output\n",
            e->flops / 1e9, talc_bytes_text(e->bytes, bytes),
            e->bytes > 0 ? e->flops / e->bytes : 0, K);
    fprintf(file, "  the whole im2col matrix would take %s, the workspace limit is %s\n",
            talc_bytes_text(whole_matrix, matrix),
            talc_bytes_text((double)e->decision.workspace_limit, limit));

    talc_explanation_print(file, &e->decision);
}
