/// Elementwise ops, from the table in ops/elementwise_table.h.
///
///     y[i...] = f(x[i...])        y[i...] = f(a[i...], b[i...])
///
/// Memory-bound: where operands are dense, or b is one number, a thread moves 16 bytes at a time, several loads in flight;
/// other strides go element by element.
#include "backends/cuda/walk.cuh"

using namespace talc;

/* Each row of the tables as a type with the function inside. Integers, which only have the ring operations, are computed
 * without sign, so that they wrap around. */
#define UNARY_TYPE(constant, name, value, derivative)                                              \
    struct name##_of {                                                                             \
        template <typename T> static __device__ T value_at(T x)                                    \
        {                                                                                          \
            return (T)(value);                                                                     \
        }                                                                                          \
    };
TALC_UNARY_TABLE(UNARY_TYPE)

#define BINARY_TYPE(constant, name, value, derivative_a, derivative_b)                             \
    struct name##_of {                                                                             \
        template <typename T> static __device__ T value_at(T a, T b)                               \
        {                                                                                          \
            return (T)(value);                                                                     \
        }                                                                                          \
    };
TALC_BINARY_TABLE(BINARY_TYPE)

/* Bytes that one access moves, and accesses that a thread has in flight. */
constexpr int WIDTH = 16, IN_FLIGHT = 4;

template <typename T> struct alignas(WIDTH) pack {
    static constexpr int COUNT = WIDTH / sizeof(T);
    T of[COUNT];
};

static bool is_aligned(const void *pointer)
{
    return (uintptr_t)pointer % WIDTH == 0;
}

// ---- Dense operands -----------------------------------------------------------------------------------------

/* y[i] = f(i-th of a, i-th of b) for whole packs; b is an array, or one number for all. */
template <typename F, typename T, bool B_IS_ARRAY>
static __global__ void __launch_bounds__(BLOCK)
    dense_binary(T *y, const T *a, const T *b, T scalar, int64_t packs)
{
    constexpr int COUNT = pack<T>::COUNT;
    const pack<T> *a_packs = (const pack<T> *)a, *b_packs = (const pack<T> *)b;
    const int64_t stride = (int64_t)gridDim.x * BLOCK;
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < packs;
         i += stride * IN_FLIGHT) {
        pack<T> left[IN_FLIGHT], right[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (i + k * stride < packs) {
                left[k] = a_packs[i + k * stride];
                if (B_IS_ARRAY)
                    right[k] = b_packs[i + k * stride];
            }
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (i + k * stride < packs) {
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    left[k].of[e] =
                        F::value_at(left[k].of[e], B_IS_ARRAY ? right[k].of[e] : scalar);
                ((pack<T> *)y)[i + k * stride] = left[k];
            }
    }
}

/* What has one argument, as if it had two. */
template <typename F> struct first_only {
    template <typename T> static __device__ T value_at(T a, T)
    {
        return F::value_at(a);
    }
};

// ---- Any strides --------------------------------------------------------------------------------------------

template <typename F, typename T, bool B_IS_ARRAY, typename Index>
static __global__ void strided_binary(T *y, const T *a, const T *b, T scalar, Index first,
                                      Index count, const walk<3, Index> w)
{
    TALC_GRID_LOOP(Index, i, count)
    {
        int64_t at[3];
        w.offsets(first + i, at);
        y[at[0]] = F::value_at(a[at[1]], B_IS_ARRAY ? b[at[2]] : scalar);
    }
}

/* A problem of two operands; b is NULL when the scalar stands for it. */
struct operands {
    int rank;
    const int64_t *dims, *y_strides, *a_strides, *b_strides;
    void *y;
    const void *a, *b;
};

template <typename F, typename T, bool B_IS_ARRAY>
static void launch(talc_device *device, const operands &o, T scalar)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    const int64_t count = count_of(o.rank, o.dims);
    T *y = (T *)o.y;
    const T *a = (const T *)o.a, *b = (const T *)o.b;
    const bool dense = is_dense(o.rank, o.y_strides) && is_dense(o.rank, o.a_strides) &&
                       (!B_IS_ARRAY || is_dense(o.rank, o.b_strides)) && is_aligned(y) &&
                       is_aligned(a) && is_aligned(b);
    const int64_t packs = dense ? count / pack<T>::COUNT : 0, done = packs * pack<T>::COUNT;
    if (packs > 0)
        dense_binary<F, T, B_IS_ARRAY>
            <<<blocks_for(device, (packs + IN_FLIGHT - 1) / IN_FLIGHT), BLOCK, 0, stream>>>(
                y, a, b, scalar, packs);
    if (done < count)
        with_index(count, [&](auto zero) {
            using Index = decltype(zero);
            const walk<3, Index> w(o.rank, o.dims, { o.y_strides, o.a_strides, o.b_strides });
            strided_binary<F, T, B_IS_ARRAY, Index>
                <<<blocks_for(device, count - done), BLOCK, 0, stream>>>(
                    y, a, b, scalar, (Index)done, (Index)(count - done), w);
        });
}

// ---- One operand --------------------------------------------------------------------------------------------

template <typename T>
static void unary_float(talc_device *device, talc_unary_function function, const operands &o)
{
    switch (function) {
#define CASE(constant, name, value, derivative)                                                    \
    case constant:                                                                                 \
        launch<first_only<name##_of>, T, false>(device, o, (T)0);                                  \
        break;
        TALC_UNARY_TABLE(CASE)
#undef CASE
    default:
        break;
    }
}

static const char *unary_refuses(const talc_unary_problem *problem)
{
    (void)problem;
    return NULL;
}

static talc_status unary_run(talc_device *device, const talc_unary_problem *p,
                             const talc_unary_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "elementwise");
    if (status != TALC_OK)
        return status;
    const operands o = { p->rank,      p->dims,      p->y_strides, p->x_strides,
                         p->x_strides, arguments->y, arguments->x, NULL };
    /* ops/ lets only neg through for integers. */
    if (p->dtype == TALC_F32)
        unary_float<float>(device, p->function, o);
    else if (p->dtype == TALC_F64)
        unary_float<double>(device, p->function, o);
    else if (p->dtype == TALC_I64)
        launch<first_only<neg_of>, uint64_t, false>(device, o, 0);
    else if (p->dtype == TALC_I32)
        launch<first_only<neg_of>, uint32_t, false>(device, o, 0);
    else
        launch<first_only<neg_of>, uint8_t, false>(device, o, 0);
    return talc_cuda_launched(device, "elementwise");
}

const talc_unary_algorithm talc_cuda_unary[] = {
    { { "direct", { "the data's own type", TALC_STRICT, false } }, unary_refuses, unary_run },
    { { NULL, { NULL, TALC_STRICT, false } }, NULL, NULL },
};

// ---- Two operands -------------------------------------------------------------------------------------------

template <typename F, typename T>
static void binary(talc_device *device, const operands &o, T scalar)
{
    if (o.b != NULL)
        launch<F, T, true>(device, o, scalar);
    else
        launch<F, T, false>(device, o, scalar);
}

template <typename T>
static void binary_float(talc_device *device, talc_binary_function function, const operands &o,
                         double scalar)
{
    switch (function) {
#define CASE(constant, name, value, derivative_a, derivative_b)                                    \
    case constant:                                                                                 \
        binary<name##_of, T>(device, o, (T)scalar);                                                \
        break;
        TALC_BINARY_TABLE(CASE)
#undef CASE
    default:
        break;
    }
}

/* ops/ lets no integer division through. */
template <typename T>
static void binary_integer(talc_device *device, talc_binary_function function, const operands &o,
                           T scalar)
{
    if (function == TALC_ADD)
        binary<add_of, T>(device, o, scalar);
    else if (function == TALC_SUB)
        binary<sub_of, T>(device, o, scalar);
    else if (function == TALC_MUL)
        binary<mul_of, T>(device, o, scalar);
}

/* A double as an integer of low .. high: truncated, saturated, NaN 0, as fill does it. */
static int64_t to_integer(double value, double low, double high)
{
    if (value != value)
        return 0;
    if (value <= low)
        return (int64_t)low;
    return value >= high ? (high >= 0x1p63 ? INT64_MAX : (int64_t)high) : (int64_t)value;
}

static const char *binary_refuses(const talc_binary_problem *problem)
{
    (void)problem;
    return NULL;
}

static talc_status binary_run(talc_device *device, const talc_binary_problem *p,
                              const talc_binary_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "elementwise");
    if (status != TALC_OK)
        return status;
    const operands o = { p->rank,      p->dims,
                         p->y_strides, p->a_strides,
                         p->b_strides, arguments->y,
                         arguments->a, p->b_is_scalar ? NULL : arguments->b };
    if (p->dtype == TALC_F32)
        binary_float<float>(device, p->function, o, p->scalar);
    else if (p->dtype == TALC_F64)
        binary_float<double>(device, p->function, o, p->scalar);
    else if (p->dtype == TALC_I64)
        binary_integer<uint64_t>(device, p->function, o,
                                 (uint64_t)to_integer(p->scalar, -0x1p63, 0x1p63));
    else if (p->dtype == TALC_I32)
        binary_integer<uint32_t>(device, p->function, o,
                                 (uint32_t)to_integer(p->scalar, INT_MIN, INT_MAX));
    else
        binary_integer<uint8_t>(device, p->function, o,
                                (uint8_t)to_integer(p->scalar, 0, UCHAR_MAX));
    return talc_cuda_launched(device, "elementwise");
}

const talc_binary_algorithm talc_cuda_binary[] = {
    { { "direct", { "the data's own type", TALC_STRICT, false } }, binary_refuses, binary_run },
    { { NULL, { NULL, TALC_STRICT, false } }, NULL, NULL },
};
