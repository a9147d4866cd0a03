#include "backends/cuda/matmul/f32_product.h"

#include "backends/cuda/matmul/forms.h"

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

const char *talc_cuda_product_plan(const talc_device *device, const talc_cuda_product *product,
                                   size_t limit, talc_plan *plan)
{
    const talc_matmul_problem p = problem_of(product);
    if (product->add)
        return "sums go on from what is there";
    if (product->ldc != product->N ||
        (product->batch > 1 && product->c_stride != product->M * product->N))
        return "there are gaps between the results of products";
    return talc_cuda_matmul_tensor_cores_plan(device, &p, limit, plan);
}

talc_status talc_cuda_product_run(talc_device *device, const char *who,
                                  const talc_cuda_product *product, void *workspace, size_t bytes)
{
    if (workspace == NULL)
        return talc_cuda_multiply(device, who, product);
    const talc_matmul_problem p = problem_of(product);
    talc_plan plan = { .workspace = 0 };
    const char *refusal = talc_cuda_product_plan(device, product, bytes, &plan);
    if (refusal != NULL)
        return talc_fail(TALC_UNSUPPORTED, "%s: %s", who, refusal);
    const talc_matmul_arguments arguments = {
        .base = { workspace },
        .y = product->c,
        .a = product->a,
        .b = product->b,
    };
    return talc_cuda_matmul_tensor_cores_run(device, &p, &plan, &arguments);
}
