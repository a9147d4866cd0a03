/// Elementwise ops, from the table in ops/elementwise_table.h.
///
///     y[i...] = f(x[i...])        y[i...] = f(a[i...], b[i...])
///
/// Memory-bound; map.cuh has the ways through strided operands.
#include "backends/cuda/row.cuh"
#include "backends/cuda/map.cuh"

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

/* What has one argument, as if it had two. */
template <typename F> struct first_only {
    template <typename T> static __device__ T value_at(T a, T)
    {
        return F::value_at(a);
    }
};

// ---- One operand --------------------------------------------------------------------------------------------

template <typename T>
static void unary_float(talc_device *device, talc_unary_function function, const map_problem &m)
{
    switch (function) {
#define CASE(constant, name, value, derivative)                                                    \
    case constant:                                                                                 \
        map<first_only<name##_of>, 1, T>(device, m, (T)0);                                         \
        break;
        TALC_UNARY_TABLE(CASE)
#undef CASE
    default:
        break;
    }
}

static const char *plan_unary(const talc_device *, const talc_unary_problem *, size_t, talc_plan *)
{
    return NULL;
}

static talc_status unary_run(talc_device *device, const talc_unary_problem *p, const talc_plan *,
                             const talc_unary_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "elementwise");
    if (status != TALC_OK)
        return status;
    map_problem m = {};
    m.rank = p->rank;
    memcpy(m.dims, p->dims, sizeof m.dims);
    memcpy(m.strides[0], p->y_strides, sizeof m.dims);
    memcpy(m.strides[1], p->x_strides, sizeof m.dims);
    m.y = arguments->y, m.a = arguments->x;
    /* ops/ lets only neg through for integers. */
    if (p->dtype == TALC_F32)
        unary_float<float>(device, p->function, m);
    else if (p->dtype == TALC_F64)
        unary_float<double>(device, p->function, m);
    else if (p->dtype == TALC_I64)
        map<first_only<neg_of>, 1, uint64_t>(device, m, (uint64_t)0);
    else if (p->dtype == TALC_I32)
        map<first_only<neg_of>, 1, uint32_t>(device, m, (uint32_t)0);
    else
        map<first_only<neg_of>, 1, uint8_t>(device, m, (uint8_t)0);
    return talc_cuda_launched(device, "elementwise");
}

const talc_algorithm talc_cuda_unary[] = {
    talc_cuda_row<plan_unary, unary_run>("direct", { "the data's own type", TALC_STRICT, false }),
    { NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};

// ---- Two operands -------------------------------------------------------------------------------------------

template <typename F, typename T>
static void binary(talc_device *device, const map_problem &m, T scalar)
{
    if (m.b != NULL)
        map<F, 2, T>(device, m, scalar);
    else
        map<F, 1, T>(device, m, scalar);
}

template <typename T>
static void binary_float(talc_device *device, talc_binary_function function, const map_problem &m,
                         double scalar)
{
    switch (function) {
#define CASE(constant, name, value, derivative_a, derivative_b)                                    \
    case constant:                                                                                 \
        binary<name##_of, T>(device, m, (T)scalar);                                                \
        break;
        TALC_BINARY_TABLE(CASE)
#undef CASE
    default:
        break;
    }
}

/* ops/ lets no integer division through. */
template <typename T>
static void binary_integer(talc_device *device, talc_binary_function function, const map_problem &m,
                           T scalar)
{
    if (function == TALC_ADD)
        binary<add_of, T>(device, m, scalar);
    else if (function == TALC_SUB)
        binary<sub_of, T>(device, m, scalar);
    else if (function == TALC_MUL)
        binary<mul_of, T>(device, m, scalar);
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

static const char *plan_binary(const talc_device *, const talc_binary_problem *, size_t,
                               talc_plan *)
{
    return NULL;
}

static talc_status binary_run(talc_device *device, const talc_binary_problem *p, const talc_plan *,
                              const talc_binary_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "elementwise");
    if (status != TALC_OK)
        return status;
    map_problem m = {};
    m.rank = p->rank;
    memcpy(m.dims, p->dims, sizeof m.dims);
    memcpy(m.strides[0], p->y_strides, sizeof m.dims);
    memcpy(m.strides[1], p->a_strides, sizeof m.dims);
    memcpy(m.strides[2], p->b_strides, sizeof m.dims);
    m.y = arguments->y, m.a = arguments->a, m.b = p->b_is_scalar ? NULL : arguments->b;
    if (p->dtype == TALC_F32)
        binary_float<float>(device, p->function, m, p->scalar);
    else if (p->dtype == TALC_F64)
        binary_float<double>(device, p->function, m, p->scalar);
    else if (p->dtype == TALC_I64)
        binary_integer<uint64_t>(device, p->function, m,
                                 (uint64_t)to_integer(p->scalar, -0x1p63, 0x1p63));
    else if (p->dtype == TALC_I32)
        binary_integer<uint32_t>(device, p->function, m,
                                 (uint32_t)to_integer(p->scalar, INT_MIN, INT_MAX));
    else
        binary_integer<uint8_t>(device, p->function, m,
                                (uint8_t)to_integer(p->scalar, 0, UCHAR_MAX));
    return talc_cuda_launched(device, "elementwise");
}

const talc_algorithm talc_cuda_binary[] = {
    talc_cuda_row<plan_binary, binary_run>("direct", { "the data's own type", TALC_STRICT, false }),
    { NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
