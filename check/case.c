#include "check/case.h"

#include "check/data.h"
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

/* An operand or the workspace on the device, and what its buffer held before the run. */
typedef struct guarded {
    talc_tensor *buffer;
    unsigned char *image;
    size_t begin, end; /* of the operand within the buffer */
} guarded;

// ---- Host values --------------------------------------------------------------------------------------------

static void encode(talc_dtype dtype, double value, unsigned char *at)
{
    switch (dtype) {
    case TALC_F32:
        memcpy(at, &(float){ (float)value }, sizeof(float));
        break;
    case TALC_F64:
        memcpy(at, &value, sizeof value);
        break;
    case TALC_I64:
        memcpy(at, &(int64_t){ (int64_t)value }, sizeof(int64_t));
        break;
    case TALC_I32:
        memcpy(at, &(int32_t){ (int32_t)value }, sizeof(int32_t));
        break;
    default:
        *at = (unsigned char)value;
    }
}

static double decode(talc_dtype dtype, const unsigned char *at)
{
    float f32;
    double f64;
    int64_t i64;
    int32_t i32;
    switch (dtype) {
    case TALC_F32:
        memcpy(&f32, at, sizeof f32);
        return f32;
    case TALC_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case TALC_I64:
        memcpy(&i64, at, sizeof i64);
        return (double)i64;
    case TALC_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    default:
        return *at;
    }
}

bool talc_check_values_new(const check_family *family, const check_problem *problem,
                           check_values *values)
{
    check_operand operands[CHECK_OPERANDS];
    const int count = family->operands(problem, operands);
    *values = (check_values){ .of = { NULL } };
    for (int i = 0; i < count; i++) {
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

// ---- Guarded buffers ----------------------------------------------------------------------------------------

/* `bytes` between guard bands, `shift` off alignment, holding the fill; not on the device yet. */
static bool guarded_new(guarded *self, size_t bytes, size_t shift, int fill)
{
    self->begin = GUARD + shift;
    self->end = self->begin + bytes;
    const size_t total = (self->end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GUARD;
    self->image = talc_memory_new(total, "check");
    if (self->image == NULL)
        return false;
    memset(self->image, UNWRITTEN, total);
    memset(self->image + self->begin, fill, bytes);
    return true;
}

static size_t guarded_bytes(const guarded *self)
{
    return (self->end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GUARD;
}

static bool guarded_upload(guarded *self, talc_device *device)
{
    self->buffer =
        talc_from_host(device, TALC_U8, TALC_DIMS((int64_t)guarded_bytes(self)), self->image);
    return self->buffer != NULL;
}

static void *guarded_pointer(const guarded *self)
{
    return (char *)self->buffer->data + self->begin;
}

/* What a run left of a buffer. */
typedef struct aftermath {
    unsigned char *bytes;
    bool bands, elements; /* are as they were */
} aftermath;

static bool guarded_download(const guarded *self, aftermath *after)
{
    const size_t total = guarded_bytes(self);
    after->bytes = talc_memory_new(total, "check");
    if (after->bytes == NULL || !talc_to_host(self->buffer, after->bytes, total))
        return false;
    after->bands =
        memcmp(after->bytes, self->image, self->begin) == 0 &&
        memcmp(after->bytes + self->end, self->image + self->end, total - self->end) == 0;
    after->elements =
        memcmp(after->bytes + self->begin, self->image + self->begin, self->end - self->begin) == 0;
    return true;
}

// ---- A run --------------------------------------------------------------------------------------------------

/* The operands of a run, then the workspace. */
typedef struct check_stage {
    int count;
    check_operand operands[CHECK_OPERANDS];
    guarded of[CHECK_OPERANDS + 1];
} check_stage;

static int fill_of(const check_operand *operand, const check_run_options *options)
{
    if (options->finite)
        return FINITE;
    return operand->dtype == TALC_F32 || operand->dtype == TALC_F64 ? UNWRITTEN : UNWRITTEN_INT;
}

/* Operands differ in how far they are off, so that none may take another's alignment for its own. */
static size_t shift_of(const check_run_options *options, int operand, size_t size)
{
    if (options->shift_bytes == 0)
        return 0;
    return ((size_t)options->shift_bytes + size - 1) / size * size + (size_t)operand * size;
}

static bool set_up(check_stage *stage, talc_device *device, const check_values *values,
                   const check_run_options *options, size_t workspace_bytes)
{
    for (int i = 0; i < stage->count; i++) {
        const check_operand *operand = &stage->operands[i];
        const size_t size = talc_dtype_size(operand->dtype);
        if (!guarded_new(&stage->of[i], (size_t)operand->count * size, shift_of(options, i, size),
                         fill_of(operand, options)))
            return false;
        if (operand->role != CHECK_WRITTEN)
            for (int64_t e = 0; e < operand->count; e++)
                encode(operand->dtype, values->of[i][e],
                       stage->of[i].image + stage->of[i].begin + (size_t)e * size);
        if (!guarded_upload(&stage->of[i], device))
            return false;
    }
    return guarded_new(&stage->of[stage->count], workspace_bytes, 0,
                       options->finite ? FINITE : UNWRITTEN) &&
           guarded_upload(&stage->of[stage->count], device);
}

static int64_t unwritten_elements(const check_operand *operand, const unsigned char *bytes,
                                  const check_run_options *options)
{
    const size_t size = talc_dtype_size(operand->dtype);
    unsigned char fill[sizeof(int64_t)];
    memset(fill, fill_of(operand, options), sizeof fill);
    int64_t count = 0;
    for (int64_t e = 0; e < operand->count; e++)
        count += memcmp(bytes + (size_t)e * size, fill, size) == 0;
    return count;
}

/* Brings back operand i, the workspace being the last, and looks at what became of it. */
static bool collect(const check_stage *stage, int i, const check_run_options *options,
                    const check_values *results, check_run_report *report)
{
    const char *name = i == stage->count ? "the workspace" : stage->operands[i].name;
    aftermath after = { .bytes = NULL };
    const bool done = guarded_download(&stage->of[i], &after);
    if (done) {
        const check_operand *operand = &stage->operands[i];
        const unsigned char *bytes = after.bytes + stage->of[i].begin;
        if (!after.bands)
            report->written = name;
        if (i < stage->count && operand->role == CHECK_READ && !after.elements)
            report->changed = name;
        if (i < stage->count && operand->role != CHECK_READ) {
            for (int64_t e = 0; e < operand->count; e++)
                results->of[i][e] =
                    decode(operand->dtype, bytes + (size_t)e * talc_dtype_size(operand->dtype));
            if (operand->role == CHECK_WRITTEN)
                report->unwritten += unwritten_elements(operand, bytes, options);
        }
    }
    talc_memory_free(after.bytes);
    return done;
}

static void note_failure(check_run_report *report, talc_status status)
{
    report->status = status;
    snprintf(report->failure, sizeof report->failure, "%s", talc_error_message());
    talc_error_clear();
}

bool talc_check_run(const check_family *family, const talc_algorithm *row, talc_device *device,
                    const check_problem *problem, const check_values *values,
                    const check_run_options *options, const check_values *results,
                    check_run_report *report)
{
    *report = (check_run_report){ .status = TALC_OK };
    talc_scope *scope = talc_scope_enter();
    if (scope == NULL)
        return false;
    check_stage stage = { .count = 0 };
    stage.count = family->operands(problem, stage.operands);
    const size_t limit = options->workspace_limit == SIZE_MAX ? talc_workspace_limit(device)
                                                              : options->workspace_limit;
    const size_t workspace_bytes = talc_check_workspace(family, row, device, problem, limit);

    bool done = set_up(&stage, device, values, options, workspace_bytes);
    if (done) {
        void *pointers[CHECK_OPERANDS] = { NULL };
        for (int i = 0; i < stage.count; i++)
            pointers[i] = guarded_pointer(&stage.of[i]);
        talc_status status = family->run(row, device, problem, pointers,
                                         guarded_pointer(&stage.of[stage.count]), workspace_bytes);
        if (status == TALC_OK && !talc_device_synchronize(device))
            status = talc_error_status();
        if (status != TALC_OK || talc_failed())
            note_failure(report, talc_failed() ? talc_error_status() : status);
        for (int i = 0; i <= stage.count && done; i++)
            done = collect(&stage, i, options, results, report);
    }
    for (int i = 0; i <= stage.count; i++)
        talc_memory_free(stage.of[i].image);
    talc_scope_leave(scope);
    return done;
}
