/// What talc's convolutions are compared with on any device, by talc's own means: rates, a product,
/// a copy.
#include "tools/bench/bench.h"
#include "tools/cli/tool.h"

#include <math.h>
#include <stdlib.h>

// ---- Rates --------------------------------------------------------------------------------------

/* The least time of some runs, after one to warm up; negative with a talc failure. */
static double min_of(talc_device *device, bool (*run)(const talc_tensor *, talc_tensor *),
                     const talc_tensor *a, talc_tensor *b)
{
    enum { RUNS = 8 };
    double min = INFINITY;
    for (int i = -1; i < RUNS; i++) {
        talc_timer *timer = talc_timer_start(device);
        const bool ran = timer != NULL && run(a, b);
        const double seconds = talc_timer_stop(timer);
        if (!ran || seconds < 0)
            return -1;
        min = i < 0 ? min : fmin(min, seconds);
    }
    return min;
}

static bool copy_once(const talc_tensor *a, talc_tensor *b)
{
    return talc_copy(b, a);
}

static bool multiply_once(const talc_tensor *a, talc_tensor *b)
{
    talc_scope *scope = talc_scope_enter();
    const bool ran = talc_matmul(a, b) != NULL;
    talc_scope_leave(scope);
    return ran;
}

bool bench_rates_measure(talc_device *device, bench_rates *rates)
{
    const bool host = talc_device_is_host(device);
    const int64_t elements = INT64_C(1) << (host ? 25 : 28), side = host ? 1024 : 8192;
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *x = talc_rand(device, TALC_F32, TALC_DIMS(elements));
    talc_tensor *y = talc_zeros(device, TALC_F32, TALC_DIMS(elements));
    const talc_tensor *a = talc_rand(device, TALC_F32, TALC_DIMS(side, side));
    talc_tensor *b = talc_rand(device, TALC_F32, TALC_DIMS(side, side));
    const double copying = talc_failed() ? -1 : min_of(device, copy_once, x, y);
    const double multiplying = talc_failed() ? -1 : min_of(device, multiply_once, a, b);
    talc_scope_leave(scope);
    rates->bytes = 2 * 4 * (double)elements / copying;
    rates->flops = 2 * (double)side * (double)side * (double)side / multiplying;
    return copying > 0 && multiplying > 0;
}

// ---- The bare product ---------------------------------------------------------------------------

typedef struct product {
    const talc_tensor *w, *columns;
} product;

static bool product_run(void *context)
{
    const product *self = context;
    talc_scope *scope = talc_scope_enter();
    const bool ran =
        talc_algorithm_force("matmul", "cublas") && talc_matmul(self->w, self->columns) != NULL;
    talc_scope_leave(scope);
    (void)talc_algorithm_force("matmul", NULL);
    return ran;
}

/* Its tensors belong to the scope of the problem. */
void bench_device_product(contender *self, const bench_operands *operands)
{
    const talc_conv2d_problem *p = &operands->problem;
    const int64_t M = p->OC / p->groups, N = p->OH * p->OW;
    const int64_t K = p->C / p->groups * p->KH * p->KW;
    const double bytes = ((double)K + (double)M) * (double)N * (double)talc_dtype_size(p->dtype);
    const double products = (double)(p->N * p->groups);
    const double free_bytes = (double)talc_device_memory(operands->x->device).free;
    const double count = fmin(products, floor(free_bytes / 4 / bytes));
    char text[TOOL_TEXT];
    *self = (contender){ .name = "bare product",
                         .peer = true,
                         .times = products / count,
                         .flops = talc_conv2d_flops(p),
                         .run = product_run,
                         .free = free };
    if (count < 1) {
        snprintf(self->reason, sizeof self->reason, "the matrices of one image take %s",
                 talc_bytes_text(bytes, text));
        return;
    }
    product *context = self->context = malloc(sizeof *context);
    if (context == NULL) {
        snprintf(self->reason, sizeof self->reason, "no memory");
        return;
    }
    *context = (product){
        .w = talc_rand(operands->x->device, p->dtype, TALC_DIMS(M, K)),
        .columns = talc_rand(operands->x->device, p->dtype, TALC_DIMS((int64_t)count, K, N)),
    };
    if (product_run(context))
        return;
    snprintf(self->reason, sizeof self->reason, "%.100s", talc_error_message());
    talc_error_clear();
}

// ---- The bare copy ------------------------------------------------------------------------------

typedef struct copy {
    const bench_operands *operands;
    int next;
    talc_tensor *to[BENCH_SETS];
} copy;

static bool copy_run(void *context)
{
    copy *self = context;
    const int set = self->next;
    self->next = (set + 1) % self->operands->sets;
    return talc_copy(self->to[set], self->operands->xs[set]);
}

void bench_device_copy(contender *self, const bench_operands *operands)
{
    const talc_tensor *x = operands->x;
    *self = (contender){ .name = "copy of x",
                         .peer = true,
                         .times = 1,
                         .bytes = 2 * (double)talc_nbytes(x),
                         .run = copy_run,
                         .free = free };
    copy *context = self->context = malloc(sizeof *context);
    if (context == NULL) {
        snprintf(self->reason, sizeof self->reason, "no memory");
        return;
    }
    *context = (copy){ .operands = operands };
    for (int i = 0; i < operands->sets; i++)
        context->to[i] = talc_clone(x);
    if (!talc_failed())
        return;
    snprintf(self->reason, sizeof self->reason, "%.100s", talc_error_message());
    talc_error_clear();
}
