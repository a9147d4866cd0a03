/// Elementwise ops over strided operands.
///
///     y[i...] = f(x[i...])        y[i...] = f(a[i...], b[i...])
///
/// y is contiguous, the operands have any strides, 0 where they are broadcast. Rows run on threads
/// in tasks that depend on the shape alone. Arithmetic: the formula of ops/elementwise_table.h in
/// the data's own type.
#include "backends/cpu/primitives/activation.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/functions.h"
#include "backends/cpu/primitives/stream.h"
#include "backends/cpu/primitives/target.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/walk.h"
#include "ops/elementwise.h"

/* What f32 has a function of its own for. */
static inline double gelu_twice_slope(double x)
{
    typedef double T;
    return TALC_GELU_TWICE_SLOPE(x);
}

static inline double root_exponential(double x)
{
    typedef double T;
    return TALC_ROOT_EXPONENTIAL(x);
}

#undef TALC_GELU_TWICE_SLOPE
#define TALC_GELU_TWICE_SLOPE(x)                                                                   \
    _Generic(x, float : talc_cpu_gelu_twice_slope, default : gelu_twice_slope)(x)
#undef TALC_ROOT_EXPONENTIAL
#define TALC_ROOT_EXPONENTIAL(x)                                                                   \
    _Generic(x, float : talc_cpu_root_exponential, default : root_exponential)(x)

/* Whether a result is too large for the caches, in rows that are worth the trouble. */
static bool streams_rows(const talc_walk *walk, int64_t size)
{
    return talc_cpu_streams(walk->steps * walk->segment * size, walk->segment * size);
}

// ---- One operand --------------------------------------------------------------------------------

#define UNARY_CASE(constant, name, numbers, with, value, ...)                                      \
    case constant:                                                                                 \
        TALC_INDEPENDENT for (int64_t i = 0; i < n; i++)                                           \
        {                                                                                          \
            const T x = xs[i], t = (T)(with);                                                      \
            (void)t;                                                                               \
            y[i] = (T)(value);                                                                     \
        }                                                                                          \
        break;

/* y may be xs. */
#define UNARY_ROW(constant, suffix, type, A)                                                       \
    TALC_TARGET_CLONES static void unary_row_##suffix(const talc_unary_problem *problem,           \
                                                      int64_t n, type *y, const type *xs)          \
    {                                                                                              \
        typedef type T;                                                                            \
        const T p = (T)problem->numbers[0], q = (T)problem->numbers[1];                            \
        (void)p, (void)q;                                                                          \
        switch (problem->function) {                                                               \
            TALC_UNARY_TABLE(UNARY_CASE)                                                           \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }

/* ops/ lets only neg through. Integers wrap around, which unsigned arithmetic does and signed does
 * not. */
#define UNARY_ROW_INTEGER(constant, suffix, T, U)                                                  \
    static void unary_row_##suffix(const talc_unary_problem *problem, int64_t n, T *y,             \
                                   const T *xs)                                                    \
    {                                                                                              \
        (void)problem;                                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = (T)(0 - (U)xs[i]);                                                              \
    }

TALC_CPU_FLOATS(UNARY_ROW)
TALC_CPU_INTEGERS(UNARY_ROW_INTEGER)

/* A row whose elements lie apart is gathered in y first. */
static void unary_row(const talc_unary_problem *p, int64_t n, void *y, const void *x,
                      int64_t x_stride)
{
    switch (p->dtype) {
#define DISPATCH(constant, suffix, type, safetensors)                                              \
    case constant:                                                                                 \
        for (int64_t i = 0; i < n && x_stride != 1; i++)                                           \
            ((type *)y)[i] = ((const type *)x)[i * x_stride];                                      \
        unary_row_##suffix(p, n, y, x_stride == 1 ? x : y);                                        \
        break;
        TALC_DTYPE_TABLE(DISPATCH)
#undef DISPATCH
    default:
        break;
    }
}

typedef struct unary_context {
    const talc_unary_problem *problem;
    char *y;
    const char *x;
    talc_walk walk;
} unary_context;

static void unary_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const unary_context *c = context;
    const talc_unary_problem *p = c->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const int64_t *const strides[] = { p->y_strides, p->x_strides };
    const int64_t x_stride = talc_walk_row_stride(&c->walk, p->x_strides);
    const bool streams = streams_rows(&c->walk, size);
    _Alignas(TALC_CPU_CACHE_LINE) char buffer[TALC_CPU_PIECE];
    talc_walk_position at;
    for (bool more = talc_walk_start(&c->walk, task, strides, 2, &at); more;
         more = talc_walk_next(&c->walk, strides, 2, &at)) {
        char *y = c->y + at.offset[0] * size;
        const char *x = c->x + at.offset[1] * size;
        const char *const end = y + at.length * size;
        for (int64_t n; y < end; y += n * size, x += n * x_stride * size) {
            n = (int64_t)talc_cpu_piece(streams, y, (size_t)(end - y)) / size;
            unary_row(p, n, streams ? buffer : y, x, x_stride);
            if (streams)
                talc_cpu_stream_copy(y, buffer, (size_t)(n * size), x + n * x_stride * size);
        }
    }
    if (streams)
        talc_cpu_stream_end();
}

static talc_status unary_run(talc_device *device, const void *problem, const talc_plan *planned,
                             const void *arguments)
{
    (void)device, (void)planned;
    const talc_unary_problem *p = problem;
    const talc_unary_arguments *a = arguments;
    unary_context context = { p, a->y, a->x, talc_walk_of(p->rank, p->dims) };
    return talc_cpu_parallel(context.walk.tasks, unary_task, &context);
}

const talc_algorithm talc_cpu_unary[] = {
    { "reference", NULL, { "the data's own type", TALC_STRICT, false }, talc_plan_any, unary_run },
    { .name = NULL },
};

// ---- Two operands -------------------------------------------------------------------------------

/* Rows in the forms that a compiler can turn into vector code, both packed and b a constant, or in
 * any other. T is the data's type, W the type to compute in. A gradient whose row has a t saves x,
 * so that t is in B. */
#define BINARY_FORM(T, W, A, B, with, value, a_at, b_at)                                           \
    TALC_INDEPENDENT for (int64_t i = 0; i < n; i++)                                               \
    {                                                                                              \
        const W A = (W)a_row[a_at];                                                                \
        const W B = (W)b_row[b_at];                                                                \
        const W x = B, t = (W)(with);                                                              \
        (void)A, (void)x, (void)t;                                                                 \
        y_row[i] = (T)(value);                                                                     \
    }

#define BINARY_FORMS(T, W, A, B, with, value)                                                      \
    if (a_stride == 1 && b_stride == 1) {                                                          \
        BINARY_FORM(T, W, A, B, with, value, i, i)                                                 \
    } else if (a_stride == 1 && b_stride == 0) {                                                   \
        BINARY_FORM(T, W, A, B, with, value, i, 0)                                                 \
    } else {                                                                                       \
        BINARY_FORM(T, W, A, B, with, value, i *a_stride, i *b_stride)                             \
    }

#define BINARY_CASE(constant, name, kind, value, ...)                                              \
    case constant:                                                                                 \
        BINARY_FORMS(T, W, a, b, 0, value)                                                         \
        break;

#define GRADIENT_CASE(constant, name, numbers, with, value, saved, gradient)                       \
    case constant##_GRADIENT:                                                                      \
        if (a_stride == 1 && b_stride == 1) {                                                      \
            BINARY_FORM(T, T, dy, s, with, gradient, i, i)                                         \
        } else {                                                                                   \
            BINARY_FORM(T, T, dy, s, with, gradient, i *a_stride, i *b_stride)                     \
        }                                                                                          \
        break;

/* y may be a. */
#define GRADIENT_ROW(constant, suffix, type, A)                                                    \
    TALC_TARGET_CLONES static void gradient_row_##suffix(                                          \
        const talc_binary_problem *problem, int64_t n, type *y_row, const type *a_row,             \
        int64_t a_stride, const type *b_row, int64_t b_stride)                                     \
    {                                                                                              \
        typedef type T;                                                                            \
        const T p = (T)problem->numbers[0], q = (T)problem->numbers[1];                            \
        (void)p, (void)q;                                                                          \
        switch (problem->function) {                                                               \
            TALC_UNARY_TABLE(GRADIENT_CASE)                                                        \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }

TALC_CPU_FLOATS(GRADIENT_ROW)

#define BINARY_ROW_BODY(suffix)                                                                    \
    switch (problem->function) {                                                                   \
        TALC_BINARY_TABLE(BINARY_CASE)                                                             \
    default:                                                                                       \
        gradient_row_##suffix(problem, n, y_row, a_row, a_stride, b_row, b_stride);                \
    }

#define INTEGER_TALC_WRAPS(value)    BINARY_FORMS(T, W, a, b, 0, value)
#define INTEGER_TALC_COMPARES(value) BINARY_FORMS(T, T, a, b, 0, value)
#define INTEGER_TALC_FLOATS(value)

#define INTEGER_CASE(constant, name, kind, value, ...)                                             \
    case constant:                                                                                 \
        INTEGER_##kind(value) break;

#define BINARY_ROW_BODY_INTEGER                                                                    \
    switch (problem->function) {                                                                   \
        TALC_BINARY_TABLE(INTEGER_CASE)                                                            \
    default:                                                                                       \
        break;                                                                                     \
    }

#define BINARY_ROW(suffix, type, wide, body)                                                       \
    static void binary_row_##suffix(const talc_binary_problem *problem, int64_t n, type *y_row,    \
                                    const type *a_row, int64_t a_stride, const type *b_row,        \
                                    int64_t b_stride)                                              \
    {                                                                                              \
        typedef type T;                                                                            \
        typedef wide W;                                                                            \
        body                                                                                       \
    }

#define BINARY_ROW_FLOAT(constant, suffix, T, A)   BINARY_ROW(suffix, T, A, BINARY_ROW_BODY(suffix))
#define BINARY_ROW_INTEGER(constant, suffix, T, U) BINARY_ROW(suffix, T, U, BINARY_ROW_BODY_INTEGER)
TALC_CPU_FLOATS(BINARY_ROW_FLOAT)
TALC_CPU_INTEGERS(BINARY_ROW_INTEGER)

static void binary_row(const talc_binary_problem *p, int64_t n, void *y, const void *a,
                       int64_t a_stride, const void *b, int64_t b_stride)
{
    switch (p->dtype) {
#define DISPATCH(constant, suffix, type, safetensors)                                              \
    case constant:                                                                                 \
        binary_row_##suffix(p, n, y, a, a_stride, b, b_stride);                                    \
        break;
        TALC_DTYPE_TABLE(DISPATCH)
#undef DISPATCH
    default:
        break;
    }
}

typedef struct binary_context {
    const talc_binary_problem *problem;
    char *y;
    const char *a;
    const char *b;
    talc_walk walk;
} binary_context;

static void binary_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const binary_context *c = context;
    const talc_binary_problem *p = c->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const int64_t *const strides[] = { p->y_strides, p->a_strides, p->b_strides };
    const int64_t a_stride = talc_walk_row_stride(&c->walk, p->a_strides);
    const int64_t b_stride = p->b_is_scalar ? 0 : talc_walk_row_stride(&c->walk, p->b_strides);
    const bool streams = streams_rows(&c->walk, size);
    _Alignas(TALC_CPU_CACHE_LINE) char buffer[TALC_CPU_PIECE];
    talc_walk_position at;
    for (bool more = talc_walk_start(&c->walk, task, strides, 3, &at); more;
         more = talc_walk_next(&c->walk, strides, 3, &at)) {
        char *y = c->y + at.offset[0] * size;
        const char *a = c->a + at.offset[1] * size;
        const char *b = p->b_is_scalar ? c->b : c->b + at.offset[2] * size;
        const char *const end = y + at.length * size;
        for (int64_t n; y < end;
             y += n * size, a += n * a_stride * size, b += n * b_stride * size) {
            n = (int64_t)talc_cpu_piece(streams, y, (size_t)(end - y)) / size;
            binary_row(p, n, streams ? buffer : y, a, a_stride, b, b_stride);
            if (streams)
                talc_cpu_stream_copy(y, buffer, (size_t)(n * size), a + n * a_stride * size);
        }
    }
    if (streams)
        talc_cpu_stream_end();
}

static talc_status binary_run(talc_device *device, const void *problem, const talc_plan *planned,
                              const void *arguments)
{
    (void)planned;
    const talc_binary_problem *p = problem;
    const talc_binary_arguments *operands = arguments;
    binary_context context = { p, operands->y, operands->a, operands->b,
                               talc_walk_of(p->rank, p->dims) };
    /* A scalar becomes an operand of one element; the conversion is the device's own. */
    int64_t scalar;
    if (p->b_is_scalar) {
        const talc_fill_problem fill = { .dtype = p->dtype, .rank = 0, .value = p->scalar };
        talc_cpu_fill(device, &fill, &scalar);
        context.b = (const char *)&scalar;
    }
    return talc_cpu_parallel(context.walk.tasks, binary_task, &context);
}

const talc_algorithm talc_cpu_binary[] = {
    { "reference", NULL, { "the data's own type", TALC_STRICT, false }, talc_plan_any, binary_run },
    { .name = NULL },
};

// ---- Activations --------------------------------------------------------------------------------

/* They are the first rows of one operand; the gradients of all stand behind the rows of two. */
static talc_unary_function function_of(talc_activation activation)
{
    return (talc_unary_function)(activation - 1);
}

void talc_cpu_activate(talc_dtype dtype, talc_activation activation, int64_t count, void *y)
{
    if (activation != TALC_ACTIVATION_NONE)
        unary_row(&(talc_unary_problem){ .function = function_of(activation),
                                         .dtype = dtype,
                                         .numbers = { TALC_ACTIVATION_NUMBER } },
                  count, y, y, 1);
}

double talc_cpu_activation(talc_activation activation, double x)
{
    talc_cpu_activate(TALC_F64, activation, 1, &x);
    return x;
}

void talc_cpu_activation_gradient(talc_dtype dtype, talc_activation activation, int64_t count,
                                  void *g, const void *dy, const void *y)
{
    const talc_binary_problem p = {
        .function = (talc_binary_function)(TALC_RELU_GRADIENT + function_of(activation)),
        .numbers = { TALC_ACTIVATION_NUMBER },
    };
    TALC_CPU_CALL(dtype, gradient_row, (&p, count, g, dy, 1, y, 1));
}
