#include "backends/cuda/conv2d/linear.h"

bool talc_cuda_conv2d_is_linear(const talc_conv2d_problem *p)
{
    return p->groups == 1 && p->OH * p->OW == 1 && p->KH == p->H && p->KW == p->W &&
           p->pad_top == 0 && p->pad_left == 0 && p->pad_bottom == 0 && p->pad_right == 0;
}

talc_matmul_problem talc_cuda_conv2d_linear(const talc_conv2d_problem *p)
{
    const int64_t K = p->C * p->KH * p->KW;
    talc_matmul_problem m = {
        .dtype = p->dtype,
        .M = p->N,
        .N = p->OC,
        .K = K,
        .lda = K,
        .ldb = K,
        .transpose_b = true,
        .batch = 1,
        .bias = p->bias,
        .residual = p->residual,
        .activation = p->activation,
    };
    if (p->direction != TALC_FORWARD)
        m.N = K, m.K = p->OC, m.lda = p->OC, m.transpose_b = false;
    if (p->direction == TALC_GRAD_WEIGHT)
        m.M = p->OC, m.K = p->N, m.transpose_a = true;
    return m;
}
