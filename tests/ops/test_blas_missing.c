/* The CUDA backend where cuBLAS is missing or lacks a function: which algorithms refuse and what
 * they say, and that all others go on. The linker puts __wrap_dlopen and __wrap_dlsym in place of
 * the calls (-Wl,--wrap). cuBLAS is looked for once a process, and every Test is one. */
#include "tests/support/hooks.h"

#include "backends/cuda/device/blas.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *lacks; /* a function; NULL: there is no library */
static int library;       /* stands for the one that lacks it */
static int openings;

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlopen(const char *name, int flags)
{
    if (name == NULL || strstr(name, "cublas") == NULL)
        return __real_dlopen(name, flags);
    openings++;
    return lacks == NULL ? NULL : &library;
}

void *__wrap_dlsym(void *handle, const char *name)
{
    if (handle != &library)
        return __real_dlsym(handle, name);
    return strcmp(name, lacks) == 0 ? NULL : &library;
}

static const char *not_installed(void)
{
    static char text[64];
    snprintf(text, sizeof text, "cuBLAS is not installed (libcublas.so.%d)", CUDART_VERSION / 1000);
    return text;
}

// ---- What the algorithms say
// --------------------------------------------------------------------------

static talc_cuda_state state = { .multiprocessors = 132 };
static const talc_device gpu = { .name = "cuda:0", .state = &state };

static const talc_matmul_problem product = {
    .dtype = TALC_F32, .M = 300, .N = 300, .K = 300, .lda = 300, .ldb = 300, .batch = 1
};

static const char *matmul_refusal(const char *name)
{
    for (const talc_algorithm *algorithm = talc_cuda_matmul; algorithm->name != NULL; algorithm++)
        if (strcmp(algorithm->name, name) == 0)
            return talc_algorithm_refuses(algorithm, &gpu, &product, (size_t)32 << 20,
                                          &(talc_plan){ .workspace = 0 });
    return "there is no such algorithm";
}

/* Of the algorithms that can do the problem, the one of the least estimate, as the choice takes
 * it. */
static const char *fastest_algorithm(const talc_matmul_problem *problem)
{
    const char *min = NULL;
    double seconds = INFINITY;
    for (const talc_algorithm *algorithm = talc_cuda_matmul; algorithm->name != NULL; algorithm++) {
        talc_plan plan = { .workspace = 0 };
        if (algorithm->plan(&gpu, problem, (size_t)32 << 20, &plan) != NULL)
            continue;
        cr_assert(plan.seconds > 0, "%s does not estimate", algorithm->name);
        if (plan.seconds < seconds) {
            seconds = plan.seconds;
            min = algorithm->name;
        }
    }
    return min;
}

Test(blas_missing, the_library_is_asked_for_where_it_is_faster)
{
    /* By measurement on an H200: `direct` is before cuBLAS up to some millions of products of sums
     * of up to some hundreds, `dot` where B is a few MB or there are many of them, and by its
     * estimate alone for more than four algorithms of few products. */
    static const struct {
        int64_t batch, M, N, K;
        bool transpose_b;
        const char *expected;
        const char *f64; /* which has no small tiles; NULL: the same */
    } cases[] = {
        { 1, 64, 64, 64, false, "direct", NULL },
        { 1, 128, 128, 256, false, "direct", "cublas" },
        { 1, 512, 2048, 512, false, "cublas", NULL },
        { 1, 8, 8, 257, true, "dot", NULL },
        { 1, 8, 8, 2048, true, "dot", NULL },
        { 1, 1, 8, 257, false, "direct", "cublas" },
        { 1, 1, 8, 2048, false, "cublas", NULL },
        { 1024, 64, 64, 1, false, "direct", NULL },
        { 2048, 64, 64, 1, false, "cublas", NULL },
        { 1, 8, 8, 0, true, "dot", NULL },
        { 1, 20000, 20000, 1, false, "cublas", NULL },
        { 1, 8192, 8192, 8192, false, "cublas", NULL },
        { 1, 8, 8, 1 << 24, false, "cublas", NULL },
        { 1, 1, 1 << 16, 4096, true, "cublas", NULL },
        { 1, 4, 1000, 64, true, "dot", NULL },
        { 4096, 4, 16, 4096, true, "dot", NULL },
        { 1, 32, 672, 28, true, "dot", NULL },
        { 1, 32, 48, 1152, true, "dot", NULL },
        { 1, 5, 1000, 4096, true, "cublas", NULL },
        { 1, 4, 8, 0, true, "dot", NULL },
        { 1, 128, 128, 256, true, "direct", "dot" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int f64 = 0; f64 < 2; f64++) {
            talc_matmul_problem p = { .dtype = f64 ? TALC_F64 : TALC_F32,
                                      .batch = cases[i].batch,
                                      .batch_rank = cases[i].batch > 1,
                                      .batch_dims = { cases[i].batch },
                                      .M = cases[i].M,
                                      .N = cases[i].N,
                                      .K = cases[i].K,
                                      .transpose_b = cases[i].transpose_b };
            p.a_strides[0] = p.M * p.K;
            p.b_strides[0] = p.K * p.N;
            const char *min = fastest_algorithm(&p);
            const char *expected = f64 && cases[i].f64 != NULL ? cases[i].f64 : cases[i].expected;
            cr_expect(min != NULL && strcmp(min, expected) == 0, "%zu f64 %d: %s", i, f64,
                      min == NULL ? "none" : min);
        }
}

static const char *conv2d_refusal(const char *name)
{
    const talc_conv2d_problem pointwise = { .dtype = TALC_F32,
                                            .N = 1,
                                            .C = 512,
                                            .H = 64,
                                            .W = 64,
                                            .OC = 512,
                                            .KH = 1,
                                            .KW = 1,
                                            .stride_h = 1,
                                            .stride_w = 1,
                                            .dilation_h = 1,
                                            .dilation_w = 1,
                                            .groups = 1,
                                            .OH = 64,
                                            .OW = 64 };
    for (const talc_algorithm *algorithm = talc_cuda_conv2d; algorithm->name != NULL; algorithm++)
        if (talc_algorithm_is_asked_for(algorithm->name, algorithm->form, name))
            return talc_algorithm_refuses(algorithm, &gpu, &pointwise, (size_t)32 << 20,
                                          &(talc_plan){ .workspace = 0 });
    return "there is no such algorithm";
}

static void products_refuse(const char *expected)
{
    const char *found[] = { talc_cuda_blas_refuses(), matmul_refusal("cublas"),
                            conv2d_refusal("im2col(cublas)"), conv2d_refusal("pointwise(cublas)") };
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        cr_assert(found[i] != NULL && strcmp(found[i], expected) == 0, "%zu: %s", i,
                  found[i] == NULL ? "no refusal" : found[i]);
    cr_assert(matmul_refusal("direct") == NULL && conv2d_refusal("direct(textbook)") == NULL &&
              conv2d_refusal("pointwise(small tiles)") == NULL);

    /* An algorithm that did not ask. Nothing of the device is touched. */
    const float a = 1, b = 1;
    float c = 7;
    talc_device device = { .name = "cuda:0" };
    const talc_cuda_product one = { .dtype = TALC_F32,
                                    .M = 1,
                                    .N = 1,
                                    .K = 1,
                                    .a = &a,
                                    .b = &b,
                                    .c = &c,
                                    .lda = 1,
                                    .ldb = 1,
                                    .ldc = 1,
                                    .batch = 1 };
    cr_assert(talc_cuda_multiply(&device, "matmul", &one) == TALC_UNSUPPORTED);
    assert_failure_with(TALC_UNSUPPORTED, "matmul: cuda:0: %s", expected);
    cr_assert(c == 7);
}

Test(blas_missing, no_library)
{
    products_refuse(not_installed());
    cr_assert(openings == 3, "looked %d times", openings); /* by number, by name, in the toolkit */
}

Test(blas_missing, a_library_without_the_first_function)
{
    lacks = "cublasCreate_v2";
    products_refuse("the cuBLAS found is too old: it has no cublasCreate_v2");
    cr_assert(openings == 1, "looked %d times", openings);
}

Test(blas_missing, a_library_without_the_last_function)
{
    lacks = "cublasGemmStridedBatchedEx_64";
    products_refuse("the cuBLAS found is too old: it has no cublasGemmStridedBatchedEx_64");
}

// ---- On a GPU -----------------------------------------------------------------------------------

static void refused_for_want_of_cublas(const talc_tensor *y, const char *op)
{
    cr_assert_null(y);
    cr_assert(talc_error_status() == TALC_UNSUPPORTED);
    const char *said = talc_error_message();
    cr_assert(strncmp(said, op, strlen(op)) == 0 && strstr(said, not_installed()) != NULL, "%s",
              said);
    talc_error_clear();
}

Test(blas_missing, the_device_lives_on)
{
    talc_device *device = tested_device();
    if (talc_device_is_host(device))
        cr_skip("no GPU");
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(300, 300));
    talc_tensor *image = talc_view(x, TALC_DIMS(1, 1, 300, 300));
    talc_tensor *w = talc_ones(device, TALC_F32, TALC_DIMS(1, 1, 3, 3));
    for (int time = 0; time < 2; time++) {
        talc_algorithm_force("matmul", "cublas");
        refused_for_want_of_cublas(talc_matmul(x, x), "matmul on cuda:0: ");
        talc_algorithm_force("matmul", NULL);
        refused_for_want_of_cublas(
            talc_conv2d(image, w, NULL, &(talc_conv2d_options){ .algorithm = "im2col" }),
            "conv2d on cuda:0: ");
        cr_assert(talc_item(talc_select(talc_select(talc_matmul(x, x), 0, 7), 0, 9)) == 300, "%s",
                  talc_error_message());
        cr_assert(talc_item(talc_sum(talc_conv2d(image, w, NULL, NULL), TALC_SCALAR, false)) ==
                      9 * 298 * 298,
                  "%s", talc_error_message());
    }
}
