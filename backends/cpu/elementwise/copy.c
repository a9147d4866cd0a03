/// Strided casting copy and fill.
///
///     dst[i0, i1, ...] = (dst_dtype) src[i0, i1, ...]
///
/// The last dimension is the row that the inner loop walks; the others are counted by an index,
/// which each task starts at its own first row. Integer targets truncate and saturate, NaN gives 0.
#include "backends/cpu/cpu.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/walk.h"
#include "tensor/extent.h"

#include <math.h>
#include <string.h>

// ---- Casts --------------------------------------------------------------------------------------

/* C leaves a float outside the target's range undefined, so the range is tested first. 2^63 is
 * exact as a double, INT64_MAX is not. */
static int64_t to_i64(double x)
{
    if (!(x > -0x1p63))
        return isnan(x) ? 0 : INT64_MIN;
    return x >= 0x1p63 ? INT64_MAX : (int64_t)x;
}

/* From an integer or a float of type S by way of the widest type of its kind. */
#define CAST_f32(x, is_float) ((float)(x))
#define CAST_f64(x, is_float) ((double)(x))
#define CAST_i64(x, is_float) ((is_float) ? to_i64((double)(x)) : (int64_t)(x))
#define CAST_i32(x, is_float) ((int32_t)talc_between(CAST_i64(x, is_float), INT32_MIN, INT32_MAX))
#define CAST_u8(x, is_float)  ((uint8_t)talc_between(CAST_i64(x, is_float), 0, UINT8_MAX))

_Static_assert(TALC_DTYPE_COUNT == 5, "copy_row lists every pair of types");

// ---- Rows ---------------------------------------------------------------------------------------

/* One row of n elements. */
static void copy_row(const talc_copy_problem *p, int64_t n, void *dst, int64_t dst_stride,
                     const void *src, int64_t src_stride)
{
    if (p->dst_dtype == p->src_dtype && dst_stride == 1 && src_stride == 1) {
        memcpy(dst, src, (size_t)n * talc_dtype_size(p->dst_dtype));
        return;
    }
    /* Every pair of types: the outer table gives the source, the inner the target. */
#define COPY_LOOP(target, T, S)                                                                    \
    {                                                                                              \
        T *to = dst;                                                                               \
        const S *from = src;                                                                       \
        const bool from_float = talc_dtype_is_float(p->src_dtype);                                 \
        (void)from_float;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i * dst_stride] = CAST_##target(from[i * src_stride], from_float);                  \
        return;                                                                                    \
    }
#define COPY_FROM(constant, S)                                                                     \
    case constant:                                                                                 \
        switch (p->dst_dtype) {                                                                    \
        case TALC_F32:                                                                             \
            COPY_LOOP(f32, float, S)                                                               \
        case TALC_F64:                                                                             \
            COPY_LOOP(f64, double, S)                                                              \
        case TALC_I64:                                                                             \
            COPY_LOOP(i64, int64_t, S)                                                             \
        case TALC_I32:                                                                             \
            COPY_LOOP(i32, int32_t, S)                                                             \
        case TALC_U8:                                                                              \
            COPY_LOOP(u8, uint8_t, S)                                                              \
        default:                                                                                   \
            return;                                                                                \
        }
    switch (p->src_dtype) {
        COPY_FROM(TALC_F32, float)
        COPY_FROM(TALC_F64, double)
        COPY_FROM(TALC_I64, int64_t)
        COPY_FROM(TALC_I32, int32_t)
        COPY_FROM(TALC_U8, uint8_t)
    default:
        return;
    }
#undef COPY_FROM
#undef COPY_LOOP
}

typedef struct copy_context {
    const talc_copy_problem *problem;
    char *dst;
    const char *src;
    talc_walk walk;
} copy_context;

static void copy_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const copy_context *c = context;
    const talc_copy_problem *p = c->problem;
    const int64_t *const strides[] = { p->dst_strides, p->src_strides };
    talc_walk_position at;
    for (bool more = talc_walk_start(&c->walk, task, strides, 2, &at); more;
         more = talc_walk_next(&c->walk, strides, 2, &at))
        copy_row(p, at.length, c->dst + at.offset[0] * (int64_t)talc_dtype_size(p->dst_dtype),
                 talc_walk_row_stride(&c->walk, p->dst_strides),
                 c->src + at.offset[1] * (int64_t)talc_dtype_size(p->src_dtype),
                 talc_walk_row_stride(&c->walk, p->src_strides));
}

talc_status talc_cpu_copy(talc_device *device, const talc_copy_problem *problem, void *dst,
                          const void *src)
{
    (void)device;
    copy_context context = { problem, dst, src, talc_walk_of(problem->rank, problem->dims) };
    return talc_cpu_parallel(context.walk.tasks, copy_task, &context);
}

// ---- Fill ---------------------------------------------------------------------------------------

typedef struct fill_context {
    const talc_fill_problem *problem;
    char *dst;
    talc_walk walk;
} fill_context;

static void fill_row(const talc_fill_problem *p, int64_t n, void *dst, int64_t stride)
{
#define FILL_CASE(constant, name, T, safetensors)                                                  \
    case constant: {                                                                               \
        T *to = dst;                                                                               \
        const T value = CAST_##name(p->value, true);                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i * stride] = value;                                                                \
        return;                                                                                    \
    }
    switch (p->dtype) {
        TALC_DTYPE_TABLE(FILL_CASE)
    default:
        return;
    }
#undef FILL_CASE
}

static void fill_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const fill_context *c = context;
    const talc_fill_problem *p = c->problem;
    const int64_t *const strides[] = { p->strides };
    talc_walk_position at;
    for (bool more = talc_walk_start(&c->walk, task, strides, 1, &at); more;
         more = talc_walk_next(&c->walk, strides, 1, &at))
        fill_row(p, at.length, c->dst + at.offset[0] * (int64_t)talc_dtype_size(p->dtype),
                 talc_walk_row_stride(&c->walk, p->strides));
}

talc_status talc_cpu_fill(talc_device *device, const talc_fill_problem *problem, void *dst)
{
    (void)device;
    fill_context context = { problem, dst, talc_walk_of(problem->rank, problem->dims) };
    return talc_cpu_parallel(context.walk.tasks, fill_task, &context);
}
