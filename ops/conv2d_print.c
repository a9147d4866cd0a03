/// An explanation of a convolution, for people.
#include "ops/conv2d.h"

#include "tensor/memory.h"

#include <inttypes.h>

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
