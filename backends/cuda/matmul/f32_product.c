#include "backends/cuda/matmul/f32_product.h"

#include "backends/cuda/matmul/estimate.h"
#include "backends/cuda/matmul/tensor_cores.h"

static talc_matmul_problem problem_of(const talc_cuda_product *product)
{
    return (talc_matmul_problem){
        .dtype = product->dtype,
        .M = product->M,
        .N = product->N,
        .K = product->K,
        .transpose_a = product->transpose_a,
        .transpose_b = product->transpose_b,
        .lda = product->lda,
        .ldb = product->ldb,
        .batch = product->batch,
        .batch_rank = 1,
        .batch_dims = { product->batch },
        .a_strides = { product->a_stride },
        .b_strides = { product->b_stride },
    };
}

/* Whether tensor cores are faster; their plan. */
static bool planned(const talc_device *device, const talc_cuda_product *product,
                    const talc_matmul_problem *p, size_t limit, talc_plan *plan)
{
    if (product->add || product->ldc != product->N ||
        (product->batch > 1 && product->c_stride != product->M * product->N))
        return false;
    *plan = (talc_plan){ .workspace = 0 };
    return talc_cuda_tensor_cores_plan(device, p, limit, plan) == NULL &&
           plan->seconds < talc_cuda_matmul_cublas_seconds(device, p);
}

size_t talc_cuda_product_workspace(const talc_device *device, const talc_cuda_product *product,
                                   size_t limit, double *seconds)
{
    const talc_matmul_problem p = problem_of(product);
    talc_plan plan;
    if (!planned(device, product, &p, limit, &plan))
        return 0;
    *seconds = plan.seconds;
    return plan.workspace;
}

talc_status talc_cuda_product_run(talc_device *device, const char *who,
                                  const talc_cuda_product *product, void *workspace, size_t bytes)
{
    const talc_matmul_problem p = problem_of(product);
    talc_plan plan;
    if (workspace == NULL || !planned(device, product, &p, bytes, &plan))
        return talc_cuda_multiply(device, who, product);
    const talc_matmul_arguments arguments = {
        .base = { workspace },
        .y = product->c,
        .a = product->a,
        .b = product->b,
    };
    return talc_cuda_tensor_cores_run(device, &p, &plan, &arguments);
}
