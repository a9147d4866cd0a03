#include "backends/cuda/device/blas.h"

#include "backends/cuda/device/users.h"
#include "tensor/error.h"
#include "tensor/extent.h"
#include "tensor/pool.h"
#include "tensor/recording.h"
#include "tensor/streams.h"

#include <cublas_v2.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What cuBLAS asks for on Hopper when it allocates itself. */
static const size_t WORKSPACE = (size_t)32 << 20;

/* Products in one call: what the last dimension of a grid holds. */
static const int64_t MAX_PRODUCTS = 65535;

// ---- The library --------------------------------------------------------------------------------

#define FUNCTIONS(X)                                                                               \
    X(cublasCreate_v2)                                                                             \
    X(cublasDestroy_v2)                                                                            \
    X(cublasSetStream_v2)                                                                          \
    X(cublasSetWorkspace_v2)                                                                       \
    X(cublasGetStatusString)                                                                       \
    X(cublasGemmEx_64)                                                                             \
    X(cublasGemmStridedBatchedEx_64)

#define FUNCTION_FIELD(name) __typeof__(name) *name;

static struct {
    FUNCTIONS(FUNCTION_FIELD)
    char missing[96]; /* what keeps it from being used; empty when nothing does */
} blas;
static atomic_bool loaded;

/* Held while the library or a handle of it is opened, which the end of the process waits for. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static void *open_library(void)
{
    char name[32];
    snprintf(name, sizeof name, "libcublas.so.%d", CUDART_VERSION / 1000);
    const char *const names[] = { name, "libcublas.so", TALC_CUDA_LIBRARIES "/libcublas.so" };
    void *library = NULL;
    const char *error = NULL; /* why one that is there does not open */
    for (int i = 0; i < 3 && library == NULL && error == NULL; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        error = library != NULL ? NULL : dlerror();
        if (error != NULL && strstr(error, "No such file") != NULL)
            error = NULL;
    }
    if (library == NULL && error == NULL)
        snprintf(blas.missing, sizeof blas.missing, "cuBLAS is not installed (%s)", name);
    else if (library == NULL)
        snprintf(blas.missing, sizeof blas.missing, "cuBLAS cannot be opened: %s", error);
    return library;
}

/* C has no cast from an object pointer to a function pointer; POSIX has the assignment through
 * one. */
#define FUNCTION_LOAD(name)                                                                        \
    if (blas.missing[0] == '\0' && (*(void **)&blas.name = dlsym(library, #name)) == NULL)         \
        snprintf(blas.missing, sizeof blas.missing, "the cuBLAS found is too old: it has no %s",   \
                 #name);

/* It stays open: threads may be in it until the process ends. */
static void load(void)
{
    void *library = open_library();
    if (library == NULL)
        return;
    FUNCTIONS(FUNCTION_LOAD)
}

const char *talc_cuda_blas_refuses(void)
{
    if (!atomic_load(&loaded)) {
        talc_cuda_user_count();
        if (talc_cuda_user_late())
            return "the process ends";
        pthread_mutex_lock(&opening);
        if (!atomic_load(&loaded))
            load();
        atomic_store(&loaded, true);
        pthread_mutex_unlock(&opening);
    }
    return blas.missing[0] == '\0' ? NULL : blas.missing;
}

const char *talc_cuda_blas_refuses_tf32(const talc_device *device, talc_dtype dtype)
{
    if (dtype != TALC_F32)
        return "the data is not f32";
    if (talc_cuda_state_of(device)->capability < 80)
        return "the GPU has no TF32: its compute capability is less than 8.0";
    return NULL;
}

// ---- A handle a stream --------------------------------------------------------------------------

/* Products on two streams may run at once, and two threads launch them at once, so each has a
 * handle and a workspace, by the stream's number; a number's next stream runs after all that had it
 * before. */
struct handle {
    pthread_mutex_t lock; /* held while a product is launched */
    cublasHandle_t blas;
    void *workspace;
    cudaStream_t stream; /* NULL while it is to be set anew */
    talc_device *device;
};
static struct handle handles[TALC_CUDA_GPUS][TALC_STREAMS];

static void prepare(void)
{
    for (int gpu = 0; gpu < TALC_CUDA_GPUS; gpu++)
        for (int number = 0; number < TALC_STREAMS; number++)
            pthread_mutex_init(&handles[gpu][number].lock, NULL);
}

static struct handle *handles_of(int gpu)
{
    static pthread_once_t prepared = PTHREAD_ONCE_INIT;
    pthread_once(&prepared, prepare);
    return handles[gpu];
}

static talc_status blas_status(talc_device *device, const char *who, cublasStatus_t error)
{
    if (error == CUBLAS_STATUS_SUCCESS)
        return TALC_OK;
    const talc_status status = talc_cuda_status(device, who, cudaGetLastError());
    if (status != TALC_OK)
        return status;
    if (error == CUBLAS_STATUS_ALLOC_FAILED)
        return talc_device_out_of_memory(device, who, 0);
    return talc_fail(TALC_UNSUPPORTED, "%s: %s: cuBLAS: %s", who, device->name,
                     blas.cublasGetStatusString(error));
}

static void close_handle(struct handle *h)
{
    if (h->blas != NULL && talc_cuda_usable(h->device))
        (void)blas.cublasDestroy_v2(h->blas);
    if (h->device != NULL)
        talc_library_memory_free(h->device, h->workspace, WORKSPACE);
    h->blas = NULL;
    h->workspace = NULL;
    h->stream = NULL;
    h->device = NULL;
}

static void close_handles(int gpu)
{
    struct handle *all = handles_of(gpu);
    for (int number = 0; number < TALC_STREAMS; number++) {
        pthread_mutex_lock(&all[number].lock);
        close_handle(&all[number]);
        pthread_mutex_unlock(&all[number].lock);
    }
}

/* Never unlocked: nobody opens anything from here on. */
void talc_cuda_blas_settle(void)
{
    enum { PATIENCE = 10 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE;
    (void)pthread_mutex_timedlock(&opening, &until);
}

void talc_cuda_blas_close(talc_device *device)
{
    close_handles(talc_cuda_state_of(device)->index);
}

/* Runs before the libraries' own ends, since it is registered after they were opened. */
static void close_at_exit(void)
{
    if (talc_cuda_used_by_others())
        return;
    for (int gpu = 0; gpu < TALC_CUDA_GPUS; gpu++)
        close_handles(gpu);
}

static void register_end(void)
{
    (void)atexit(close_at_exit);
}

/* Setting the stream takes the workspace away, so that is set after it. `workspace` serves one
 * call; NULL: the stream's own. */
static talc_status use_stream(talc_device *device, const char *who, struct handle *h,
                              void *workspace)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    if (workspace == NULL && h->stream == stream)
        return TALC_OK;
    if (workspace == NULL && h->workspace == NULL)
        h->workspace = talc_library_memory_new(device, who, WORKSPACE);
    if (workspace == NULL && h->workspace == NULL)
        return talc_error_status();
    cublasStatus_t error = blas.cublasSetStream_v2(h->blas, stream);
    if (error == CUBLAS_STATUS_SUCCESS)
        error = blas.cublasSetWorkspace_v2(h->blas, workspace == NULL ? h->workspace : workspace,
                                           WORKSPACE);
    h->stream = error == CUBLAS_STATUS_SUCCESS && workspace == NULL ? stream : NULL;
    return blas_status(device, who, error);
}

static talc_status open_handle(talc_device *device, const char *who, struct handle *h)
{
    static pthread_once_t registered = PTHREAD_ONCE_INIT;
    h->device = device;
    pthread_mutex_lock(&opening);
    cublasStatus_t made = blas.cublasCreate_v2(&h->blas);
    if (made != CUBLAS_STATUS_SUCCESS && talc_memory_trim(device) > 0) {
        (void)cudaGetLastError();
        made = blas.cublasCreate_v2(&h->blas);
    }
    pthread_mutex_unlock(&opening);
    if (made != CUBLAS_STATUS_SUCCESS)
        h->blas = NULL;
    talc_status status = blas_status(device, who, made);
    if (status == TALC_OK)
        status = use_stream(device, who, h, NULL);
    if (status != TALC_OK)
        close_handle(h);
    else
        pthread_once(&registered, register_end);
    return status;
}

// ---- Products -----------------------------------------------------------------------------------

static const void *at(talc_dtype dtype, const void *data, int64_t elements)
{
    return (const char *)data + elements * (int64_t)talc_dtype_size(dtype);
}

/* What cuBLAS calls an element type, and the arithmetic of its products, which alone says it: the
 * handle's math mode is the default. */
typedef struct product_types {
    cudaDataType stored;
    cublasComputeType_t computed;
} product_types;

/* False for a type that it does not multiply here. */
static bool types_of(const talc_cuda_product *product, product_types *types)
{
    switch (product->dtype) {
    case TALC_F32:
        *types = (product_types){ CUDA_R_32F, product->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                            : CUBLAS_COMPUTE_32F_PEDANTIC };
        return true;
    case TALC_F64:
        *types = (product_types){ CUDA_R_64F, CUBLAS_COMPUTE_64F_PEDANTIC };
        return true;
    default:
        return false;
    }
}

/* A factor, in the type that products are computed in. */
typedef union scalar {
    float f32;
    double f64;
} scalar;

static scalar scalar_of(product_types types, double value)
{
    return types.computed == CUBLAS_COMPUTE_64F_PEDANTIC ? (scalar){ .f64 = value }
                                                         : (scalar){ .f32 = (float)value };
}

/* Products first .. first + count - 1. cuBLAS knows columns only: a row-major matrix is its own
 * transpose stored by columns, and C^T = op(B)^T op(A)^T. */
static cublasStatus_t call(cublasHandle_t handle, const talc_cuda_product *p, product_types own,
                           int64_t first, int64_t count)
{
    const cudaDataType type = own.stored;
    const cublasOperation_t op_a = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const scalar one = scalar_of(own, 1), add = scalar_of(own, p->add ? 1 : 0);
    const void *a = at(p->dtype, p->a, first * p->a_stride);
    const void *b = at(p->dtype, p->b, first * p->b_stride);
    void *c = (char *)p->c + first * p->c_stride * (int64_t)talc_dtype_size(p->dtype);
    if (count == 1)
        return blas.cublasGemmEx_64(handle, op_b, op_a, p->N, p->M, p->K, &one, b, type, p->ldb, a,
                                    type, p->lda, &add, c, type, p->ldc, own.computed,
                                    CUBLAS_GEMM_DEFAULT);
    return blas.cublasGemmStridedBatchedEx_64(
        handle, op_b, op_a, p->N, p->M, p->K, &one, b, type, p->ldb, p->b_stride, a, type, p->lda,
        p->a_stride, &add, c, type, p->ldc, p->c_stride, count, own.computed, CUBLAS_GEMM_DEFAULT);
}

talc_status talc_cuda_multiply(talc_device *device, const char *who,
                               const talc_cuda_product *product)
{
    const char *missing = talc_cuda_blas_refuses();
    if (missing != NULL)
        return talc_fail(TALC_UNSUPPORTED, "%s: %s: %s", who, device->name, missing);
    product_types types;
    if (!types_of(product, &types))
        return talc_fail(TALC_BAD_DTYPE, "%s: %s: there are no cuBLAS products of %s", who,
                         device->name, talc_dtype_name(product->dtype));
    struct handle *h = &handles_of(talc_cuda_state_of(device)->index)[talc_stream_number(device)];
    pthread_mutex_lock(&h->lock);
    talc_status status = h->blas != NULL ? TALC_OK : open_handle(device, who, h);
    talc_block own = { 0 };
    /* A graph may run beside other work, so it has a workspace of its own. */
    if (status == TALC_OK && talc_recording_serving(device) != NULL)
        status = talc_block_new(device, who, WORKSPACE, &own);
    if (status == TALC_OK)
        status = use_stream(device, who, h, own.data);
    for (int64_t first = 0; status == TALC_OK && first < product->batch; first += MAX_PRODUCTS)
        status = blas_status(device, who,
                             call(h->blas, product, types, first,
                                  talc_smaller(MAX_PRODUCTS, product->batch - first)));
    talc_block_free(device, own);
    pthread_mutex_unlock(&h->lock);
    return status;
}
