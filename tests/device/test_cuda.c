/// What GPUs alone have: names, grids past the hardware's limits, copies between two. Runs where
/// there is one.
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include "tensor/storage.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Names --------------------------------------------------------------------------------------

Test(cuda, names_of_gpus_that_are_not_there)
{
    static const char *const names[] = { "cuda:99", "cuda:x",     "cuda:",  "cuda:-1",
                                         "cuda:0x", "cuda:00000", "cuda: 0" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char expected[160];
        snprintf(expected, sizeof expected,
                 "device_get: there is no device '%s'; the GPUs are cuda:0 to cuda:", names[i]);
        cr_assert_null(talc_device_get(names[i]));
        cr_assert(talc_error_status() == TALC_BAD_DEVICE);
        cr_assert(strncmp(talc_error_message(), expected, strlen(expected)) == 0, "%s",
                  talc_error_message());
        talc_error_clear();
    }
    cr_assert(talc_device_get("cuda") == talc_device_get("cuda:0"));
}

Test(cuda, the_default_device_is_the_first_gpu)
{
    unsetenv("TALC_DEVICE");
    cr_assert(talc_device_default() == talc_device_get("cuda:0"), "%s",
              talc_device_name(talc_device_default()));
}

Test(cuda, operands_on_two_devices_are_named)
{
    talc_device *gpu = talc_device_get("cuda");
    talc_tensor *here = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(3));
    talc_tensor *there = talc_ones(gpu, TALC_F32, TALC_DIMS(3));
    cr_assert_null(talc_add(here, there));
    assert_failure(TALC_BAD_DEVICE, "add: a is on cpu, b on cuda:0");
    cr_assert_null(talc_matmul(there, here));
    assert_failure(TALC_BAD_DEVICE, "matmul: a is on cuda:0, b on cpu");
}

// ---- Grids --------------------------------------------------------------------------------------

static talc_tensor *ones(const talc_tensor *x, talc_dims dims)
{
    return talc_ones(x->device, TALC_F32, dims);
}

static talc_tensor *labels_of(const talc_tensor *x)
{
    return talc_argmax(x, TALC_DIMS(1), false);
}

/* A product of a row and a column of each plane. */
static talc_tensor *products(const talc_tensor *x)
{
    const int64_t inner = x->dims[2] * x->dims[3];
    talc_tensor *rows = talc_reshape(x, TALC_DIMS(x->dims[0] * x->dims[1], 1, inner));
    talc_tensor *columns = talc_reshape(x, TALC_DIMS(x->dims[0] * x->dims[1], inner, 1));
    return talc_matmul(rows, columns);
}

// clang-format off
#define GRIDS(X)                                                                                                       \
    X(conv2d_1x1,       talc_conv2d(x, ones(x, TALC_DIMS(2, x->dims[1], 1, 1)), NULL, NULL))                           \
    X(conv2d_2x2,       talc_conv2d(x, ones(x, TALC_DIMS(1, x->dims[1], 2, 2)), NULL, &(talc_conv2d_options){ .padding = { 1, 1 } })) \
    X(conv2d_depthwise, talc_conv2d(x, ones(x, TALC_DIMS(x->dims[1], 1, 2, 2)), NULL, &(talc_conv2d_options){ .padding = { 1, 1 }, .groups = x->dims[1] })) \
    X(max_pool2d,       talc_max_pool2d(x, &(talc_pool2d_options){ .kernel = { 2, 2 }, .padding = { 1, 1 } }))         \
    X(avg_pool2d,       talc_avg_pool2d(x, &(talc_pool2d_options){ .kernel = { 2, 2 }, .padding = { 1, 1 } }))         \
    X(adaptive,         talc_adaptive_avg_pool2d(x, 1, 1))                                                             \
    X(batch_norm2d,     talc_batch_norm2d(x, NULL, NULL, ones(x, TALC_DIMS(x->dims[1])), ones(x, TALC_DIMS(x->dims[1])), NULL)) \
    X(argmax,           labels_of(x))                                                                                  \
    X(cross_entropy,    talc_cross_entropy_with(x, labels_of(x), &(talc_cross_entropy_options){ .reduction = TALC_REDUCTION_NONE })) \
    X(concat_0,         talc_concat((const talc_tensor *const[]){ x, x }, 2, 0))                                       \
    X(concat_3,         talc_concat((const talc_tensor *const[]){ x, x }, 2, 3))                                       \
    X(softmax_0,        talc_softmax(x, 0))                                                                            \
    X(softmax_1,        talc_softmax(x, 1))                                                                            \
    X(softmax_2,        talc_softmax(x, 2))                                                                            \
    X(softmax_3,        talc_softmax(x, 3))                                                                            \
    X(sum_0,            talc_sum(x, TALC_DIMS(0), false))                                                              \
    X(sum_1,            talc_sum(x, TALC_DIMS(1), false))                                                              \
    X(sum_2,            talc_sum(x, TALC_DIMS(2), false))                                                              \
    X(sum_3,            talc_sum(x, TALC_DIMS(3), false))                                                              \
    X(max_1_3,          talc_max(x, TALC_DIMS(1, 3), false))                                                           \
    X(transposed_0_3,   talc_contiguous(talc_transpose(x, 0, 3)))                                                      \
    X(transposed_1_2,   talc_contiguous(talc_transpose(x, 1, 2)))                                                      \
    X(add,              talc_add(talc_transpose(x, 1, 2), ones(x, TALC_DIMS(1))))                                      \
    X(matmul,           products(x))
// clang-format on

#define GRID(name, expression)                                                                     \
    static talc_tensor *run_##name(const talc_tensor *x)                                           \
    {                                                                                              \
        return expression;                                                                         \
    }
GRIDS(GRID)

#define GRID_ROW(name, expression) { #name, run_##name },

static const struct {
    const char *name;
    talc_tensor *(*run)(const talc_tensor *x);
} grids[] = { GRIDS(GRID_ROW) };

/* Extents past the 65,535 blocks that the second and third dimension of a grid hold, in each
 * place. */
Test(cuda, extents_past_a_grids_limits_are_right)
{
    enum { LONG = 70001 };
    talc_device *gpu = talc_device_get("cuda");
    const talc_dims shapes[] = { TALC_DIMS(LONG, 1, 2, 2), TALC_DIMS(1, LONG, 2, 2),
                                 TALC_DIMS(2, 1, LONG, 2), TALC_DIMS(2, 2, 1, LONG),
                                 TALC_DIMS(300, 300, 1, 1) };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        talc_manual_seed(5);
        const talc_tensor *x = talc_rand(cpu_device(), TALC_F32, shapes[s]);
        const talc_tensor *there = talc_to(x, gpu, TALC_F32);
        for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
            owned_scope *scope = talc_scope_enter();
            char text[TALC_DIMS_TEXT];
            const talc_tensor *expected = talc_cast(grids[i].run(x), TALC_F32);
            cr_assert(expected != NULL, "%s: %s", grids[i].name, talc_error_message());
            const talc_tensor *got = grids[i].run(there);
            cr_assert(got != NULL, "%s of %s: %s", grids[i].name, talc_dims_text(shapes[s], text),
                      talc_error_message());
            got = talc_to(got, cpu_device(), TALC_F32);
            cr_assert(got != NULL && talc_same_dims(expected, got), "%s of %s: %s", grids[i].name,
                      talc_dims_text(shapes[s], text), talc_error_message());
            expected = talc_contiguous(expected);
            const float *a = talc_data(expected, TALC_F32), *b = talc_data(got, TALC_F32);
            for (int64_t k = 0; k < talc_numel(expected); k++)
                cr_assert(fabsf(a[k] - b[k]) <= 1e-4F * fabsf(a[k]) + 1e-9F,
                          "%s of %s: element %d is %.9g, %.9g on the CPU", grids[i].name,
                          talc_dims_text(shapes[s], text), (int)k, (double)b[k], (double)a[k]);
        }
    }
}

// ---- Softmaxes that repeat ----------------------------------------------------------------------

/* Forced, or NULL with the refusal. */
static talc_tensor *softmax_by(const char *algorithm, const talc_tensor *x)
{
    talc_algorithm_force("softmax", algorithm);
    talc_tensor *y = talc_softmax(x, 1);
    talc_algorithm_force("softmax", NULL);
    return y;
}

/* Rows that are one row lie along memory like others, and so does their result; channels that are
 * one lie across it. */
Test(cuda, a_softmax_of_an_expanded_tensor_is_where_its_result_is)
{
    talc_device *gpu = talc_device_get("cuda");
    const talc_tensor *row = talc_rand(gpu, TALC_F32, TALC_DIMS(1, 40000));
    const talc_tensor *rows = talc_expand(row, TALC_DIMS(5, 40000));
    static const char *const algorithms[] = { "cluster", "two_pass", NULL };
    for (int i = 0; i < 3; i++) {
        const talc_tensor *y = softmax_by(algorithms[i], rows);
        if (y == NULL && strstr(talc_error_message(), "compute capability") != NULL) {
            talc_error_clear();
            continue;
        }
        assert_no_failure();
        assert_same_bits("rows", softmax_by(algorithms[i], talc_contiguous(rows)), y);
    }
    const talc_tensor *plane = talc_rand(gpu, TALC_F32, TALC_DIMS(2, 1, 300));
    cr_assert_null(softmax_by("warp", talc_expand(plane, TALC_DIMS(2, 129, 300))));
    cr_assert(strstr(talc_error_message(), "the axis is strided and longer than 512 bytes"), "%s",
              talc_error_message());
    talc_error_clear();
    const talc_tensor *planes = talc_expand(plane, TALC_DIMS(2, 100, 300));
    assert_same_bits("planes", softmax_by("warp", talc_contiguous(planes)),
                     softmax_by("warp", planes));
}

// ---- Two GPUs -----------------------------------------------------------------------------------

enum { MANY = 1 << 22, LARGE = 25 << 20, LATE = 50 };

static void find_two(talc_device *gpus[2])
{
    gpus[0] = talc_device_get("cuda:0");
    gpus[1] = talc_device_get("cuda:1");
    if (gpus[1] != NULL)
        return;
    talc_error_clear();
    cr_skip_test("there is one GPU");
}

static void close_two(talc_device *const gpus[2])
{
    talc_scope_leave_all();
    cr_assert(talc_device_close(gpus[1]) && talc_device_close(gpus[0]), "%s", talc_error_message());
    assert_all_freed();
}

static double min(const talc_tensor *x)
{
    return -talc_item(talc_max(talc_neg(x), TALC_SCALAR, false));
}

/* Each device is late in turn, so a wait that is missing shows. */
Test(cuda, copies_between_gpus_keep_the_order_of_both)
{
    talc_device *gpus[2];
    find_two(gpus);
    for (int round = 0; round < 6; round++) {
        talc_device *from = gpus[round % 2], *to = gpus[1 - round % 2];
        owned_scope *scope = talc_scope_enter();
        gpu_stall(from, talc_stream_current(from), LATE);
        talc_tensor *x = talc_full(from, TALC_F32, TALC_DIMS(MANY), 3);
        gpu_stall(to, talc_stream_current(to), round / 2 * LATE);
        talc_tensor *y = talc_to(x, to, TALC_F32);
        talc_release(x);
        talc_tensor *next = talc_full(from, TALC_F32, TALC_DIMS(MANY), 9); /* in x's memory */
        talc_tensor *back = talc_to(talc_add_scalar(y, 1), from, TALC_F64);
        assert_no_failure();
        cr_assert(min(back) == 4 && talc_item(talc_max(back, TALC_SCALAR, false)) == 4);
        cr_assert(min(y) == 3 && talc_item(talc_max(y, TALC_SCALAR, false)) == 3);
        cr_assert(min(next) == 9);
        cr_assert(talc_copy(
            next, talc_slice(talc_full(to, TALC_F32, TALC_DIMS(2 * MANY), 5), 0, 0, TALC_END, 2)));
        cr_assert(min(next) == 5, "%s", talc_error_message());
    }
    close_two(gpus);
}

Test(cuda, operands_on_two_gpus_are_named)
{
    talc_device *gpus[2];
    find_two(gpus);
    talc_tensor *a = talc_ones(gpus[0], TALC_F32, TALC_DIMS(3, 3));
    talc_tensor *b = talc_ones(gpus[1], TALC_F32, TALC_DIMS(3, 3));
    cr_assert_null(talc_add(a, b));
    assert_failure(TALC_BAD_DEVICE, "add: a is on cuda:0, b on cuda:1");
    cr_assert_null(talc_matmul(b, a));
    assert_failure(TALC_BAD_DEVICE, "matmul: a is on cuda:1, b on cuda:0");
    close_two(gpus);
}

/* A thread whose work on a device takes blocks of the size that the copies have, so that one which
 * is handed on too early is overwritten. */
typedef struct company {
    talc_device *device;
    _Atomic bool stop;
    int64_t rounds;
    bool right;
} company;

static void *keep_company(void *context)
{
    company *self = context;
    self->right = true;
    do {
        owned_scope *scope = talc_scope_enter();
        talc_tensor *x = talc_full(self->device, TALC_F32, TALC_DIMS(LARGE), (double)self->rounds);
        talc_tensor *y = talc_add_scalar(x, 1);
        talc_release(x);
        talc_full(self->device, TALC_F32, TALC_DIMS(LARGE), -7);
        self->right = self->right && min(y) == (double)(self->rounds + 1);
        self->rounds++;
    } while (!self->stop && !talc_failed());
    self->right = self->right && !talc_failed();
    talc_error_clear();
    return NULL;
}

static void assert_bytes(const talc_tensor *got, const void *expected, const char *what)
{
    const size_t bytes = talc_nbytes(got);
    void *bytes_got = malloc(bytes);
    cr_assert(talc_to_host(got, bytes_got, bytes), "%s: %s", what, talc_error_message());
    cr_assert(memcmp(bytes_got, expected, bytes) == 0, "%s", what);
    free(bytes_got);
}

/* What view_of shows of x [LARGE / 1024, 1024], worked out on the host. */
enum {
    ROWS = LARGE / 1024,
    COLUMNS = 1024,
    FIRST = 3,
    STEP = 2,
    SHOWN = (COLUMNS - FIRST + 1) / STEP
};

static talc_tensor *view_of(const talc_tensor *x)
{
    talc_tensor *matrix = talc_reshape(x, TALC_DIMS(ROWS, COLUMNS));
    return talc_slice(talc_transpose(matrix, 0, 1), 0, FIRST, TALC_END, STEP);
}

static float *shown_by_view(const float *x)
{
    float *shown = malloc((size_t)SHOWN * ROWS * sizeof *shown);
    for (int64_t c = 0; c < SHOWN; c++)
        for (int64_t r = 0; r < ROWS; r++)
            shown[c * ROWS + r] = x[r * COLUMNS + FIRST + c * STEP];
    return shown;
}

/* 100 MB of numbers that differ, whole and as a view, each source given back while it is read. The
 * same numbers on either device, as they follow from the seed. */
static void copy_and_release(talc_device *from, talc_device *to, const float *expected,
                             const float *expected_of_view)
{
    talc_scope *scope = talc_scope_enter();
    gpu_stall(from, talc_stream_current(from), LATE);
    talc_manual_seed(11);
    talc_tensor *x = talc_rand(from, TALC_F32, TALC_DIMS(LARGE));
    gpu_stall(to, talc_stream_current(to), LATE);
    talc_tensor *y = talc_to(x, to, TALC_F32);
    talc_tensor *view = view_of(x), *seen = talc_to(view, to, TALC_F32);
    talc_tensor *target = talc_zeros(to, TALC_F32, TALC_DIMS(SHOWN, ROWS));
    cr_assert(talc_copy(target, view), "%s", talc_error_message());
    talc_scope_return(scope, y);
    talc_scope_return(scope, seen);
    talc_scope_return(scope, target);
    talc_scope_leave(scope); /* x and its copies on the way */
    scope = talc_scope_enter();
    for (int i = 0; i < 3; i++)
        talc_full(from, TALC_F32, TALC_DIMS(LARGE), -1 - i); /* in their memory */
    assert_bytes(y, expected, "whole");
    assert_bytes(seen, expected_of_view, "view");
    assert_bytes(target, expected_of_view, "view into a tensor");
    talc_release(y);
    talc_release(seen);
    talc_release(target);
    talc_scope_leave(scope);
    assert_no_failure();
}

Test(cuda, large_copies_between_gpus_whose_sources_are_given_back, .timeout = 120)
{
    talc_device *gpus[2];
    find_two(gpus);
    talc_manual_seed(11);
    talc_tensor *here = talc_rand(cpu_device(), TALC_F32, TALC_DIMS(LARGE));
    const float *expected = talc_data(here, TALC_F32);
    float *expected_of_view = shown_by_view(expected);
    for (int round = 0; round < 4; round++) {
        talc_device *from = gpus[round % 2], *to = gpus[1 - round % 2];
        company other = { .device = round < 2 ? to : from };
        pthread_t thread;
        cr_assert(pthread_create(&thread, NULL, keep_company, &other) == 0);
        for (int i = 0; i < 3; i++)
            copy_and_release(from, to, expected, expected_of_view);
        other.stop = true;
        pthread_join(thread, NULL);
        cr_assert(other.right && other.rounds > 0, "after %d rounds", (int)other.rounds);
    }
    free(expected_of_view);
    close_two(gpus);
}
