#include "check/engine/case.h"

#include "check/engine/data.h"
#include "check/engine/parallel.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <string.h>

enum {
    GUARD = 4096,     /* bytes on either side: more than a tile, a multiple of every alignment */
    ALIGNMENT = 64,   /* of operands, before any shift */
    UNWRITTEN = 0xFF, /* a NaN in f32 and f64 */
    UNWRITTEN_INT = 0xA5, /* no index, no small sum */
    FINITE = 0x3F         /* 0.747 in f32, 0.00048 in f64 */
};

/* The most of a workspace that is filled on the host and brought back. A larger one has only its
 * beginning filled there: the rest is copied from that on the device, and its guard bands alone
 * come back. */
static const size_t WORKSPACE_IMAGE = (size_t)64 << 10;

/* Where an operand or the workspace lies in the buffer: between its guard bands, which begin and
 * end the whole. */
typedef struct guarded {
    size_t start, begin, end, stop;
} guarded;

// ---- Host values --------------------------------------------------------------------------------

/* Moving elements between doubles and bytes; chunk by chunk. */
typedef struct transfer {
    talc_dtype dtype;
    double *values;
    unsigned char *bytes;
    unsigned char fill[sizeof(int64_t)]; /* of an element that was not written */
    int64_t unwritten[CHECK_CHUNKS];
} transfer;

static const double TRANSFER_COST = 1;

#define ENCODE(constant, name, T, safetensors)                                                     \
    case constant:                                                                                 \
        for (int64_t e = first; e < end; e++) {                                                    \
            const T element = (T)t->values[e];                                                     \
            memcpy(t->bytes + (size_t)e * sizeof element, &element, sizeof element);               \
        }                                                                                          \
        break;

static void encode(void *context, int index, int64_t first, int64_t end)
{
    const transfer *t = context;
    (void)index;
    switch (t->dtype) {
        TALC_DTYPE_TABLE(ENCODE)
    default:
        break;
    }
}

#define DECODE(constant, name, T, safetensors)                                                     \
    case constant: {                                                                               \
        T element;                                                                                 \
        for (int64_t e = first; e < end; e++) {                                                    \
            const unsigned char *bytes = t->bytes + (size_t)e * sizeof element;                    \
            memcpy(&element, bytes, sizeof element);                                               \
            t->values[e] = (double)element;                                                        \
            unwritten += memcmp(bytes, t->fill, sizeof element) == 0;                              \
        }                                                                                          \
        break;                                                                                     \
    }

static void decode(void *context, int index, int64_t first, int64_t end)
{
    transfer *t = context;
    int64_t unwritten = 0;
    switch (t->dtype) {
        TALC_DTYPE_TABLE(DECODE)
    default:
        break;
    }
    t->unwritten[index] = unwritten;
}

bool talc_check_values_new(const check_direction *direction, const check_problem *problem,
                           check_values *values)
{
    check_operand operands[CHECK_OPERANDS];
    talc_check_operands(direction, problem, operands);
    *values = (check_values){ .of = { NULL } };
    for (int i = 0; i < CHECK_OPERANDS; i++) {
        if (operands[i].role == CHECK_ABSENT)
            continue;
        values->of[i] = talc_memory_new((size_t)operands[i].count * sizeof(double) + 1, "check");
        if (values->of[i] == NULL) {
            talc_check_values_free(values);
            return false;
        }
    }
    return true;
}

void talc_check_values_free(check_values *values)
{
    for (int i = 0; i < CHECK_OPERANDS; i++)
        talc_memory_free(values->of[i]);
    *values = (check_values){ .of = { NULL } };
}

// ---- The buffer ---------------------------------------------------------------------------------

/* The operands of a run, then the workspace, one behind the other. */
enum { WORKSPACE = CHECK_OPERANDS, PLACES };

typedef struct check_stage {
    check_operand operands[CHECK_OPERANDS];
    guarded of[PLACES]; /* of an operand that is absent: nothing */
    size_t image; /* bytes in common with the host; what is left is the end of a large workspace */
    talc_tensor *buffer;
    talc_device *device;
} check_stage;

static int fill_of(const check_operand *operand, const check_run_options *options)
{
    if (options->finite)
        return FINITE;
    return talc_dtype_is_float(operand->dtype) ? UNWRITTEN : UNWRITTEN_INT;
}

/* Operands differ in how far they are off, so that none may take another's alignment for its
 * own. */
static size_t shift_of(const check_run_options *options, int operand, size_t size)
{
    if (options->shift_bytes == 0)
        return 0;
    return ((size_t)options->shift_bytes + size - 1) / size * size + (size_t)operand * size;
}

static guarded placed(size_t start, size_t bytes, size_t shift)
{
    guarded self = { .start = start, .begin = start + GUARD + shift };
    self.end = self.begin + bytes;
    self.stop = (self.end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GUARD;
    return self;
}

static void lay_out(check_stage *stage, const check_run_options *options, size_t workspace_bytes)
{
    size_t start = 0;
    for (int i = 0; i < CHECK_OPERANDS; i++) {
        const check_operand *operand = &stage->operands[i];
        stage->of[i] = (guarded){ start, start, start, start };
        if (operand->role == CHECK_ABSENT)
            continue;
        const size_t size = talc_dtype_size(operand->dtype);
        stage->of[i] = placed(start, (size_t)operand->count * size, shift_of(options, i, size));
        start = stage->of[i].stop;
    }
    const guarded *workspace = &stage->of[WORKSPACE];
    stage->of[WORKSPACE] = placed(start, workspace_bytes, 0);
    stage->image =
        workspace_bytes > WORKSPACE_IMAGE ? workspace->begin + WORKSPACE_IMAGE : workspace->stop;
}

/* The bytes of large workspaces' last guard bands come behind the image. */
static size_t buffer_bytes(const check_stage *stage)
{
    return stage->image + GUARD + ALIGNMENT;
}

static bool buffers_grow(check_buffers *buffers, size_t bytes)
{
    if (bytes <= buffers->bytes)
        return true;
    talc_check_buffers_free(buffers);
    buffers->image = talc_memory_new(bytes, "check");
    buffers->after = talc_memory_new(bytes, "check");
    buffers->bytes = bytes;
    if (buffers->image == NULL || buffers->after == NULL)
        talc_check_buffers_free(buffers);
    return buffers->bytes > 0;
}

void talc_check_buffers_free(check_buffers *buffers)
{
    talc_memory_free(buffers->image);
    talc_memory_free(buffers->after);
    *buffers = (check_buffers){ .image = NULL };
}

/* What the buffer is to hold before the run. */
static void draw(const check_stage *stage, const check_values *values,
                 const check_run_options *options, check_buffers *buffers)
{
    for (int i = 0; i < PLACES; i++) {
        const guarded *of = &stage->of[i];
        const size_t end = of->end < stage->image ? of->end : stage->image;
        memset(buffers->image + of->start, UNWRITTEN, of->begin - of->start);
        memset(buffers->image + end, UNWRITTEN, of->stop - of->end);
        if (i == WORKSPACE || stage->operands[i].role == CHECK_WRITTEN) {
            const int fill = i == WORKSPACE ? options->finite ? FINITE : UNWRITTEN
                                            : fill_of(&stage->operands[i], options);
            memset(buffers->image + of->begin, fill, end - of->begin);
            continue;
        }
        transfer to = { .dtype = stage->operands[i].dtype,
                        .values = values->of[i],
                        .bytes = buffers->image + of->begin };
        talc_check_parallel(stage->operands[i].count, TRANSFER_COST, encode, &to);
    }
}

static char *address(const check_stage *stage, size_t at)
{
    return (char *)stage->buffer->data + at;
}

/* Fills the rest of a large workspace with what its beginning holds, twice as much with each
 * copy. */
static talc_status spread(const check_stage *stage)
{
    const guarded *workspace = &stage->of[WORKSPACE];
    talc_copy_problem problem = { .dst_dtype = TALC_U8,
                                  .src_dtype = TALC_U8,
                                  .rank = 1,
                                  .dst_strides = { 1 },
                                  .src_strides = { 1 } };
    talc_status status = TALC_OK;
    for (size_t filled = stage->image; filled < workspace->end && status == TALC_OK;
         filled += (size_t)problem.dims[0]) {
        const size_t have = filled - workspace->begin, left = workspace->end - filled;
        problem.dims[0] = (int64_t)(have < left ? have : left);
        status = stage->device->interface->copy(stage->device, &problem, address(stage, filled),
                                                address(stage, workspace->begin));
    }
    return status;
}

static bool upload(check_stage *stage, const check_buffers *buffers)
{
    const guarded *workspace = &stage->of[WORKSPACE];
    const talc_device_interface *interface = stage->device->interface;
    stage->buffer =
        talc_tensor_new("check", stage->device, TALC_U8, TALC_DIMS((int64_t)workspace->stop));
    if (stage->buffer == NULL || interface->upload(stage->device, stage->buffer->data,
                                                   buffers->image, stage->image) != TALC_OK)
        return false;
    return stage->image == workspace->stop ||
           (spread(stage) == TALC_OK &&
            interface->upload(stage->device, address(stage, workspace->end),
                              buffers->image + stage->image,
                              workspace->stop - workspace->end) == TALC_OK);
}

static bool download(const check_stage *stage, check_buffers *buffers)
{
    const guarded *workspace = &stage->of[WORKSPACE];
    const talc_device_interface *interface = stage->device->interface;
    if (stage->image == workspace->stop)
        return interface->download(stage->device, buffers->after, stage->buffer->data,
                                   stage->image) == TALC_OK;
    return interface->download(stage->device, buffers->after, stage->buffer->data,
                               workspace->begin) == TALC_OK &&
           interface->download(stage->device, buffers->after + stage->image,
                               address(stage, workspace->end),
                               workspace->stop - workspace->end) == TALC_OK;
}

// ---- A run --------------------------------------------------------------------------------------

static bool same(const check_buffers *buffers, size_t begin, size_t end)
{
    return memcmp(buffers->image + begin, buffers->after + begin, end - begin) == 0;
}

static void read_results(const check_stage *stage, int i, const check_run_options *options,
                         const check_buffers *buffers, const check_values *results,
                         check_run_report *report)
{
    const check_operand *operand = &stage->operands[i];
    transfer from = { .dtype = operand->dtype,
                      .values = results->of[i],
                      .bytes = buffers->after + stage->of[i].begin };
    memset(from.fill, fill_of(operand, options), sizeof from.fill);
    talc_check_parallel(operand->count, TRANSFER_COST, decode, &from);
    for (int p = 0; p < CHECK_CHUNKS && operand->role == CHECK_WRITTEN; p++)
        report->unwritten += from.unwritten[p];
}

/* Looks at what became of operand i, the workspace being the last. */
static void inspect(const check_stage *stage, int i, const check_run_options *options,
                    const check_buffers *buffers, const check_values *results,
                    check_run_report *report)
{
    const guarded *of = &stage->of[i];
    const bool is_workspace = i == WORKSPACE;
    const char *name = is_workspace ? "the workspace" : stage->operands[i].name;
    const size_t end = of->end < stage->image ? of->end : stage->image;
    if (!same(buffers, of->start, of->begin) || !same(buffers, end, end + (of->stop - of->end)))
        report->written = name;
    if (is_workspace)
        return;
    if (talc_check_is_output(&stage->operands[i]))
        read_results(stage, i, options, buffers, results, report);
    else if (!same(buffers, of->begin, of->end))
        report->changed = name;
}

static void record_failure(check_run_report *report, talc_status status)
{
    report->status = status;
    snprintf(report->failure, sizeof report->failure, "%s", talc_error_message());
    talc_error_clear();
}

/* The caller's floating-point environment while it asks an algorithm for its plan and its results,
 * which is to stand behind that too. */
static talc_fenv caller_enter(const check_run_options *options)
{
    const talc_fenv own = talc_fenv_now();
    if (options->foreign)
        talc_fenv_set(own, talc_fenv_foreign());
    return own;
}

static void caller_leave(const check_run_options *options, talc_fenv own, check_run_report *report)
{
    const talc_fenv now = talc_fenv_now();
    if (!talc_fenv_same(now, options->foreign ? talc_fenv_foreign() : own))
        report->left_fenv = true;
    talc_fenv_set(now, own);
}

/* The plan of what the algorithm runs before; nothing where that is nothing. */
static talc_plan first_plan(const check_direction *direction, const talc_algorithm *algorithm,
                            const talc_device *device, const check_problem *problem, size_t limit)
{
    check_problem first;
    talc_plan plan = { .workspace = 0 };
    if (direction->first != NULL && direction->first(problem, &first, NULL))
        talc_algorithm_refuses(algorithm, device, &first, limit, &plan);
    return plan;
}

/* Of any op. */
typedef union check_arguments {
    talc_arguments base;
    char bytes[CHECK_ARGUMENTS_BYTES];
} check_arguments;

/* Runs the algorithm on what the buffer holds, and before that what comes first. */
static talc_status run(const check_direction *direction, const talc_algorithm *algorithm,
                       const check_problem *problem, const check_stage *stage,
                       const check_run_options *options, const talc_plan *before,
                       const talc_plan *plan, check_run_report *report)
{
    check_arguments arguments = { .bytes = { 0 } };
    arguments.base.workspace = address(stage, stage->of[WORKSPACE].begin);
    for (int i = 0; i < CHECK_OPERANDS; i++) {
        void *operand = address(stage, stage->of[i].begin);
        if (stage->operands[i].role != CHECK_ABSENT)
            memcpy(arguments.bytes + direction->arguments[i], &operand, sizeof operand);
    }
    check_problem first;
    check_arguments of_first = arguments;
    talc_status status = TALC_OK;
    const talc_fenv own = caller_enter(options);
    if (direction->first != NULL && direction->first(problem, &first, &of_first))
        status = talc_algorithm_run(algorithm, stage->device, &first, before, &of_first);
    if (status == TALC_OK)
        status = talc_algorithm_run(algorithm, stage->device, problem, plan, &arguments);
    caller_leave(options, own, report);
    return status == TALC_OK && !talc_device_synchronize(stage->device) ? talc_error_status()
                                                                        : status;
}

bool talc_check_run(const check_direction *direction, const talc_algorithm *algorithm,
                    talc_device *device, const check_problem *problem, const check_values *values,
                    const check_run_options *options, check_buffers *buffers,
                    const check_values *results, check_run_report *report)
{
    *report = (check_run_report){ .status = TALC_OK };
    talc_scope *scope = talc_scope_enter();
    if (scope == NULL)
        return false;
    check_stage stage = { .device = device };
    talc_check_operands(direction, problem, stage.operands);
    const size_t limit = options->workspace_limit == SIZE_MAX ? talc_workspace_limit(device)
                                                              : options->workspace_limit;
    talc_plan plan;
    const talc_fenv own = caller_enter(options);
    const char *refusal = talc_check_plan(direction, algorithm, device, problem, limit, &plan);
    caller_leave(options, own, report);
    if (refusal != NULL) {
        report->status = TALC_UNSUPPORTED;
        snprintf(report->failure, sizeof report->failure,
                 "it refuses with a workspace limit of %zu bytes: %s", limit, refusal);
        talc_scope_leave(scope);
        return true;
    }
    const talc_plan before = first_plan(direction, algorithm, device, problem, limit);
    lay_out(&stage, options, before.workspace > plan.workspace ? before.workspace : plan.workspace);
    bool done = buffers_grow(buffers, buffer_bytes(&stage));
    if (done) {
        draw(&stage, values, options, buffers);
        done = upload(&stage, buffers);
    }
    if (done) {
        const talc_status status =
            run(direction, algorithm, problem, &stage, options, &before, &plan, report);
        if (status != TALC_OK || talc_failed())
            record_failure(report, talc_failed() ? talc_error_status() : status);
        done = download(&stage, buffers);
        for (int i = 0; i < PLACES && done; i++)
            inspect(&stage, i, options, buffers, results, report);
    }
    talc_scope_leave(scope);
    return done;
}
