#include "tools/bench/bench_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const bench_op *bench_op_at(int index)
{
    const bench_op *const tables[] = { bench_ops, bench_calls };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const bench_op *op = tables[i]; op->name != NULL; op++)
            if (index-- == 0)
                return op;
    return NULL;
}

const bench_op *bench_op_named(const char *name)
{
    const bench_op *op;
    for (int i = 0; (op = bench_op_at(i)) != NULL; i++)
        if (strcmp(op->name, name) == 0)
            break;
    return op;
}

// ---- Operands -----------------------------------------------------------------------------------

bool bench_data_make(bench_data *self, talc_device *device, int64_t megabytes)
{
    *self = (bench_data){ .count = megabytes << 18 };
    const size_t bytes = (size_t)self->count * sizeof(float);
    talc_manual_seed(1);
    self->few = bench_few_make(device);
    if (megabytes == 0)
        return !talc_failed();
    self->x = talc_uniform(device, TALC_F32, TALC_DIMS(self->count), -1, 1);
    self->other = talc_uniform(device, TALC_F32, TALC_DIMS(self->count), 0.5, 1);
    self->doubles = talc_cast(talc_slice(self->x, 0, 0, self->count / 2, 1), TALC_F64);
    const talc_tensor *part =
        talc_cast(talc_add_scalar(talc_mul_scalar(self->x, 100), 100), TALC_U8);
    self->bytes = talc_concat((const talc_tensor *[]){ part, part, part, part }, 4, 0);
    self->halves = talc_full(device, TALC_F32, TALC_DIMS(BENCH_CHANNELS), 0.5);
    self->quarters = talc_full(device, TALC_F32, TALC_DIMS(BENCH_CHANNELS), 0.25 - 1e-5);
    self->on_host = malloc(bytes);
    self->other_on_host = malloc(bytes);
    if (self->on_host == NULL || self->other_on_host == NULL)
        talc_fail(TALC_NO_MEMORY, "bench: no memory for the operands on the host");
    return !talc_failed() && talc_to_host(self->x, self->on_host, bytes) &&
           talc_to_host(self->other, self->other_on_host, bytes);
}

void bench_data_free(bench_data *self)
{
    free(self->on_host);
    free(self->other_on_host);
    *self = (bench_data){ .count = 0 };
}

// ---- A contender --------------------------------------------------------------------------------

typedef struct op_run {
    const bench_op *op;
    const bench_data *data;
} op_run;

static bool run_once(void *context)
{
    const op_run *self = context;
    talc_scope *scope = talc_scope_enter();
    const bool ran = self->op->run(self->data, self->op) != NULL;
    talc_scope_leave(scope);
    return ran;
}

/* The first result, the last, and some between. */
static bool verify(const bench_op *op, const bench_data *data, const talc_tensor *y,
                   talc_check_sample_report *report)
{
    enum { SAMPLES = 48 };
    const int64_t count = talc_numel(y), step = count / SAMPLES + 1;
    const talc_tensor *flat = talc_reshape(y, TALC_DIMS(count));
    *report = (talc_check_sample_report){ .count = 0 };
    for (int64_t i = 0; i <= SAMPLES && report->count < count; i++, report->count++) {
        const int64_t at = i * step + i * i < count ? i * step + i * i : count - 1;
        const bench_gather g = op->element_gather(data, op, at);
        double bound;
        const double expected = op->expected(data, op, &g, &bound),
                     got = talc_item(talc_select(flat, 0, at));
        const double error = fabs(got - expected);
        const double part = error == 0 ? 0 : bound > 0 ? error / bound : INFINITY;
        report->error = error > report->error ? error : report->error;
        report->share = part <= report->share ? report->share : part;
    }
    return !talc_failed();
}

bool bench_op_run(contender *self, const bench_op *op, const bench_data *data,
                  const bench_settings *settings)
{
    op_run context = { op, data };
    *self = (contender){
        .name = op->name, .times = 1, .precision = TALC_STRICT, .run = run_once, .context = &context
    };
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *y = op->run(data, op);
    bool done = y != NULL;
    if (talc_error_status() == TALC_NOT_FOUND) {
        snprintf(self->reason, sizeof self->reason, "%.100s", talc_error_message());
        talc_error_clear();
    }
    if (done && talc_numel(y) == 0) {
        snprintf(self->reason, sizeof self->reason, "x is smaller than one of its planes");
        done = false;
    }
    if (done && op->element_gather != NULL) {
        self->bytes = op->reads * (double)talc_nbytes(data->x) + (double)talc_nbytes(y);
        done = verify(op, data, y, &self->check);
    }
    self->host_clock = op->element_gather == NULL;
    talc_scope_leave(scope);
    done = done && contender_time(self, settings->device, settings->repeats);
    self->context = NULL;
    return done || self->reason[0] != '\0';
}
