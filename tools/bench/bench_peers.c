/// What talc's convolutions are compared with: a bare matrix product, and a bare copy.
#include "tools/bench/bench.h"
#include "tools/cli/tool.h"

#include <cblas.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Fills with numbers of [0, 1) that are not all alike; products of zeros or denormals could run at
 * another speed. */
static void fill_f32(float *data, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(i * 2654435761u % 65536) / 65536.0f;
}

// ---- The bare product ---------------------------------------------------------------------------

/* A batch's images come from memory one after the other, so the product's operands do too: one
 * image multiplied again and again would stay in cache. More than this much is not kept. */
static const double PRODUCT_BYTES = 1 << 30;

/* OpenBLAS is opened as talc opens it, so that there is one. */
#define FUNCTIONS(X)         X(cblas_sgemm) X(openblas_get_num_threads) X(openblas_set_num_threads)
#define FUNCTION_FIELD(name) __typeof__(name) *name;
#define FUNCTION_LOAD(name)                                                                        \
    if (library == NULL || (*(void **)&blas.name = dlsym(library, #name)) == NULL)                 \
        return false;

static struct {
    FUNCTIONS(FUNCTION_FIELD)
} blas;

static bool open_blas(void)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    FUNCTIONS(FUNCTION_LOAD)
    return true;
}

typedef struct product {
    int M, K, N;
    int64_t count;    ///< products, of different b and c
    float *a, *b, *c; ///< [M,K], [count,K,N], [count,M,N]
} product;

static void product_free(void *context)
{
    product *self = context;
    free(self->a);
    free(self->b);
    free(self->c);
    free(self);
}

static bool product_run(void *context)
{
    const product *self = context;
    const int threads = blas.openblas_get_num_threads();
    blas.openblas_set_num_threads(talc_threads());
    for (int64_t i = 0; i < self->count; i++)
        blas.cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, self->M, self->N, self->K, 1.0f,
                         self->a, self->K, self->b + i * self->K * self->N, self->N, 0.0f,
                         self->c + i * self->M * self->N, self->N);
    blas.openblas_set_num_threads(threads);
    return true;
}

void bench_product(contender *self, const bench_operands *operands)
{
    const talc_conv2d_problem *p = &operands->problem;
    const double M = (double)(p->OC / p->groups), N = (double)(p->OH * p->OW);
    const double K = (double)(p->C / p->groups * p->KH * p->KW);
    const double bytes = (M * K + K * N + M * N) * sizeof(float);
    const double products = (double)(p->N * p->groups), fitting = floor(PRODUCT_BYTES / bytes);
    const double count = fmax(1, fmin(products, fitting));
    char text[TOOL_TEXT];
    *self = (contender){ .name = "bare product",
                         .peer = true,
                         .times = products / count,
                         .flops = talc_conv2d_flops(p) };
    if (p->dtype != TALC_F32)
        snprintf(self->reason, sizeof self->reason, "f32 only");
    else if (M > INT32_MAX || N > INT32_MAX || K > INT32_MAX ||
             bytes > (double)tool_memory_available() / 2)
        snprintf(self->reason, sizeof self->reason, "the matrices of one image take %s",
                 talc_bytes_text(bytes, text));
    else if (!open_blas())
        snprintf(self->reason, sizeof self->reason, "OpenBLAS is not installed");
    if (self->reason[0] != '\0')
        return;

    product *context = calloc(1, sizeof *context);
    if (context != NULL) {
        *context = (product){ .M = (int)M, .K = (int)K, .N = (int)N };
        context->count = (int64_t)count;
        context->a = malloc((size_t)(M * K) * sizeof(float));
        context->b = malloc((size_t)(count * K * N) * sizeof(float));
        context->c = calloc((size_t)(count * M * N), sizeof(float));
        self->context = context;
        self->free = product_free;
        self->run = product_run;
    }
    if (context == NULL || context->a == NULL || context->b == NULL || context->c == NULL) {
        snprintf(self->reason, sizeof self->reason, "no memory for %s",
                 talc_bytes_text(bytes, text));
        return;
    }
    fill_f32(context->a, (size_t)(M * K));
    fill_f32(context->b, (size_t)(count * K * N));
}

// ---- The bare copy ------------------------------------------------------------------------------

enum { COPY_THREADS = 64 };

typedef struct copy {
    char *dst;
    const char *src;
    size_t bytes;
    int threads;
} copy;

typedef struct copy_part {
    char *dst;
    const char *src;
    size_t bytes;
} copy_part;

static void *copy_one(void *context)
{
    const copy_part *part = context;
    memcpy(part->dst, part->src, part->bytes);
    return NULL;
}

static bool copy_run(void *context)
{
    const copy *self = context;
    pthread_t threads[COPY_THREADS];
    copy_part parts[COPY_THREADS];
    int started = 0;
    for (int i = 0; i < self->threads; i++) {
        const size_t start = self->bytes / (size_t)self->threads * (size_t)i;
        const size_t end = i + 1 == self->threads
                               ? self->bytes
                               : self->bytes / (size_t)self->threads * (size_t)(i + 1);
        parts[i] = (copy_part){ self->dst + start, self->src + start, end - start };
    }
    while (started + 1 < self->threads &&
           pthread_create(&threads[started], NULL, copy_one, &parts[started]) == 0)
        started++;
    for (int i = started; i < self->threads; i++)
        copy_one(&parts[i]);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return true;
}

static void copy_free(void *context)
{
    copy *self = context;
    free(self->dst);
    free(self);
}

void bench_copy(contender *self, const bench_operands *operands)
{
    const talc_tensor *x = operands->x;
    const size_t bytes = talc_nbytes(x);
    *self = (contender){ .name = "copy of x", .peer = true, .times = 1 };
    copy *context = calloc(1, sizeof *context);
    if (context == NULL || (context->dst = malloc(bytes)) == NULL) {
        free(context);
        snprintf(self->reason, sizeof self->reason, "no memory for a second input");
        return;
    }
    context->src = x->data;
    context->bytes = bytes;
    context->threads = talc_threads() < COPY_THREADS ? talc_threads() : COPY_THREADS;
    memset(context->dst, 0, bytes);
    self->context = context;
    self->free = copy_free;
    self->run = copy_run;
}
