#include "nn/checkpoint.h"

#include "nn/optimizer_state.h"
#include "nn/pass.h"
#include "nn/state.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/random.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"
#include "tensor/within.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const BESIDES = TALC_OPTIMIZER_NAMES;

enum { TEXT = 512 };

/* So that every count is a double, as formulas have it, and counts on. */
static const int64_t MAX_STEPS = INT64_C(1) << 53;

// ---- Records as text ----------------------------------------------------------------------------
//
// "lr=0x1999999999999ap-57 momentum=0x1ccccccccccccdp-53 ...": every member, numbers in
// hexadecimal, so that they come back exactly.

typedef enum field_type {
    FIELD_DOUBLE,
    FIELD_INT64,
    FIELD_UINT64,
    FIELD_BOOL,
    FIELD_INT
} field_type;

typedef struct field {
    const char *name;
    field_type type;
    size_t offset;
} field;

#define OPTION(type, name)                                                                         \
    {                                                                                              \
#name, type, offsetof(talc_optimizer_options, name)                                        \
    }
static const field option_fields[] = {
    OPTION(FIELD_INT, kind),
    OPTION(FIELD_DOUBLE, lr),
    OPTION(FIELD_DOUBLE, weight_decay),
    OPTION(FIELD_DOUBLE, momentum),
    OPTION(FIELD_DOUBLE, dampening),
    OPTION(FIELD_BOOL, nesterov),
    OPTION(FIELD_DOUBLE, beta1),
    OPTION(FIELD_DOUBLE, beta2),
    OPTION(FIELD_DOUBLE, alpha),
    OPTION(FIELD_BOOL, centered),
    OPTION(FIELD_DOUBLE, eps),
    { .name = NULL },
};

#define SCHEDULE(type, name)                                                                       \
    {                                                                                              \
#name, type, offsetof(talc_schedule, name)                                                 \
    }
static const field schedule_fields[] = {
    SCHEDULE(FIELD_INT, kind),
    SCHEDULE(FIELD_INT64, steps),
    SCHEDULE(FIELD_INT64, every),
    SCHEDULE(FIELD_DOUBLE, gamma),
    SCHEDULE(FIELD_DOUBLE, floor),
    SCHEDULE(FIELD_DOUBLE, rise),
    SCHEDULE(FIELD_DOUBLE, div),
    SCHEDULE(FIELD_DOUBLE, final_div),
    SCHEDULE(FIELD_INT64, warmup),
    SCHEDULE(FIELD_DOUBLE, warmup_start),
    { .name = NULL },
};

/* What a run is beside its tensors. */
typedef struct run_state {
    int64_t epoch, batch, steps;
    uint64_t seed, call;
    int groups;
} run_state;

#define RUN(type, name)                                                                            \
    {                                                                                              \
#name, type, offsetof(run_state, name)                                                     \
    }
static const field run_fields[] = {
    RUN(FIELD_INT64, epoch), RUN(FIELD_INT64, batch), RUN(FIELD_INT64, steps),
    RUN(FIELD_UINT64, seed), RUN(FIELD_UINT64, call), RUN(FIELD_INT, groups),
    { .name = NULL },
};

/* As an integer and a power of two, since a locale may have a comma in place of the point that %a
 * writes. */
static int write_real(double value, char *to, size_t capacity)
{
    int exponent = 0;
    if (!isfinite(value))
        return snprintf(to, capacity, "%f", value);
    int64_t digits = (int64_t)ldexp(frexp(value, &exponent), DBL_MANT_DIG);
    exponent -= DBL_MANT_DIG;
    for (; digits != 0 && digits % 16 == 0; exponent += 4)
        digits /= 16;
    return snprintf(to, capacity, "%s0x%" PRIx64 "p%d", digits < 0 ? "-" : "",
                    (uint64_t)(digits < 0 ? -digits : digits), digits == 0 ? 0 : exponent);
}

static void write_record(const field *fields, const void *record, char text[TEXT])
{
    TALC_DEFAULT_FENV;
    int used = 0;
    for (const field *f = fields; f->name != NULL; f++) {
        const void *at = (const char *)record + f->offset;
        char *to = text + used;
        const size_t capacity = (size_t)(TEXT - used);
        const char *gap = used > 0 ? " " : "";
        switch (f->type) {
        case FIELD_DOUBLE:
            used += snprintf(to, capacity, "%s%s=", gap, f->name);
            used += write_real(*(const double *)at, text + used, (size_t)(TEXT - used));
            break;
        case FIELD_INT64:
            used += snprintf(to, capacity, "%s%s=%" PRId64, gap, f->name, *(const int64_t *)at);
            break;
        case FIELD_UINT64:
            used += snprintf(to, capacity, "%s%s=%" PRIu64, gap, f->name, *(const uint64_t *)at);
            break;
        case FIELD_BOOL:
            used += snprintf(to, capacity, "%s%s=%d", gap, f->name, *(const bool *)at);
            break;
        case FIELD_INT:
            used += snprintf(to, capacity, "%s%s=%d", gap, f->name, *(const int *)at);
            break;
        }
    }
}

static bool run_fits(const char *who, const run_state *run)
{
    if (run->epoch < 0 || run->batch < 0 || run->steps < 0)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: progress of epoch %" PRId64 ", batch %" PRId64 " and step %" PRId64
                  " must not be negative",
                  who, run->epoch, run->batch, run->steps);
    else if (run->epoch > MAX_STEPS || run->batch > MAX_STEPS || run->steps > MAX_STEPS)
        talc_fail(TALC_TOO_LARGE,
                  "%s: progress of epoch %" PRId64 ", batch %" PRId64 " and step %" PRId64
                  " must be at most %" PRId64 " each",
                  who, run->epoch, run->batch, run->steps, MAX_STEPS);
    return !talc_failed();
}

/* A whole number from `low` to `high`; gives where it ends, NULL when it is none. */
static const char *read_whole(const char *text, int64_t low, int64_t high, int64_t *number)
{
    char *end = NULL;
    if (*text != '-' && (*text < '0' || *text > '9'))
        return NULL;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return end == text || errno != 0 || *number < low || *number > high ? NULL : end;
}

/* One number; gives where it ends, NULL when it is none that the field can hold. */
static const char *read_number(const char *text, const field *f, void *record)
{
    TALC_DEFAULT_FENV;
    void *at = (char *)record + f->offset;
    char *end = NULL;
    const char *past = NULL;
    int64_t whole = 0;
    errno = 0;
    switch (f->type) {
    case FIELD_DOUBLE:
        *(double *)at = strtod(text, &end);
        return end == text || errno != 0 ? NULL : end;
    case FIELD_UINT64:
        *(uint64_t *)at = strtoull(text, &end, 10);
        return *text < '0' || *text > '9' || errno != 0 ? NULL : end;
    case FIELD_INT64:
        return read_whole(text, INT64_MIN, INT64_MAX, at);
    case FIELD_BOOL:
        past = read_whole(text, 0, 1, &whole);
        *(bool *)at = whole == 1;
        return past;
    case FIELD_INT:
        past = read_whole(text, INT_MIN, INT_MAX, &whole);
        *(int *)at = past == NULL ? 0 : (int)whole;
        return past;
    }
    return NULL;
}

/* The record that the file has under `key`; every field has to be there, in order. */
static bool read_record(const char *path, const talc_safetensors *file, const char *key,
                        const field *fields, void *record)
{
    const char *text = talc_safetensors_metadata(file, key), *at = text;
    for (const field *f = fields; f->name != NULL && at != NULL; f++) {
        const size_t length = strlen(f->name);
        at += *at == ' ';
        at = strncmp(at, f->name, length) == 0 && at[length] == '='
                 ? read_number(at + length + 1, f, record)
                 : NULL;
    }
    if (at != NULL && *at == '\0')
        return true;
    if (text == NULL)
        talc_fail(TALC_BAD_FORMAT, "checkpoint_load: '%s' is no checkpoint: it lacks '%s'",
                  TALC_SHOWN(path), key);
    else
        talc_fail(TALC_BAD_FORMAT, "checkpoint_load: '%s': '%s' is not what talc writes: '%s'",
                  TALC_SHOWN(path), key, TALC_SHOWN(text));
    return false;
}

/* "talc.optimizer.1", the options of a group. */
static void group_key(int group, char key[64])
{
    snprintf(key, 64, "talc.optimizer.%d", group);
}

/* "optimizer.conv1.weight.exp_avg", freed by talc_memory_free. */
static char *state_name(const char *path, const char *state)
{
    const size_t bytes = strlen(BESIDES) + strlen(path) + 1 + strlen(state) + 1;
    char *name = talc_memory_new(bytes, "checkpoint");
    if (name != NULL)
        snprintf(name, bytes, "%s%s.%s", BESIDES, path, state);
    return name;
}

// ---- Saving -------------------------------------------------------------------------------------

static bool add_state(talc_names *names, const char *path, const char *state,
                      const talc_tensor *tensor)
{
    char *name = tensor == NULL ? NULL : state_name(path, state);
    const bool added = name != NULL && talc_names_add(names, name, tensor);
    talc_memory_free(name);
    return added;
}

/* Steps and group, and what the optimizer keeps, as the next step has it: of the parameter's dtype,
 * and zeros where a later group asks for it. A parameter that no step has reached has nothing but
 * the first two. */
static bool add_optimized(talc_names *names, const talc_optimizer *optimizer,
                          const talc_optimized *of)
{
    const int64_t counts[] = { of->steps, of->group };
    if (!add_state(names, of->path, "step",
                   talc_from_host(talc_device_host(), TALC_I64, TALC_DIMS(2), counts)))
        return false;
    for (int k = 0; k < TALC_UPDATE_STATES; k++) {
        const char *state = talc_optimizer_state_name(&optimizer->groups[of->group], k);
        if (state == NULL || (of->states[k] == NULL && of->steps == 0))
            continue;
        const talc_tensor *tensor = of->states[k] == NULL
                                        ? talc_zeros_like(of->parameter)
                                        : talc_cast(of->states[k], of->parameter->dtype);
        if (!add_state(names, of->path, state, tensor))
            return false;
    }
    return true;
}

/* Keys and values, in turn, after "format". Each value has TEXT characters behind the list. */
static const char **metadata_new(const talc_optimizer *optimizer, const run_state *run)
{
    const size_t entries = (size_t)optimizer->group_count + 3;
    const size_t list = (2 * entries + 1) * sizeof(char *);
    const char **metadata = talc_memory_new(list + entries * (64 + TEXT), "checkpoint");
    if (metadata == NULL)
        return NULL;
    char *text = (char *)metadata + list;
    metadata[0] = "format";
    metadata[1] = "pt";
    metadata[2] = TALC_RUN_KEY;
    metadata[3] = text;
    write_record(run_fields, run, text);
    text += 64 + TEXT;
    metadata[4] = "talc.schedule";
    metadata[5] = text;
    write_record(schedule_fields, &optimizer->schedule, text);
    for (int i = 0; i < optimizer->group_count; i++) {
        text += 64 + TEXT;
        group_key(i, text + TEXT);
        write_record(option_fields, &optimizer->groups[i], text);
        metadata[6 + 2 * i] = text + TEXT;
        metadata[7 + 2 * i] = text;
    }
    return metadata;
}

bool talc_checkpoint_save(const char *path, talc_module *module, const talc_optimizer *optimizer,
                          const talc_progress *progress)
{
    static const char *const who = "checkpoint_save";
    if (talc_operand_missing(who, "path", path) || talc_operand_missing(who, "module", module) ||
        talc_operand_missing(who, "optimizer", optimizer) ||
        talc_operand_missing(who, "progress", progress))
        return false;
    const talc_generator generator = talc_generator_get();
    const run_state run = { progress->epoch, progress->batch, optimizer->steps,
                            generator.seed,  generator.call,  optimizer->group_count };
    if (!run_fits(who, &run))
        return false;
    const size_t capacity = (size_t)talc_module_tensor_count(module) +
                            (size_t)optimizer->count * (1 + TALC_UPDATE_STATES);
    const char *around = talc_within(who);
    talc_scope *scope = talc_scope_enter();
    talc_names names = { .list = talc_memory_new(capacity * sizeof *names.list, who) };
    const char **own = metadata_new(optimizer, &run);
    const char **metadata = own == NULL ? NULL : talc_info_metadata(module, own);
    talc_pass pass; /* loads wait for what is read here */
    talc_pass_begin(&pass, module);
    bool ok = names.list != NULL && metadata != NULL && talc_names_add_module(&names, module);
    for (int i = 0; i < optimizer->count && ok; i++)
        ok = add_optimized(&names, optimizer, &optimizer->list[i]);
    ok = ok && talc_safetensors_save(path, names.list, names.count, metadata);
    talc_pass_end(&pass);
    talc_names_free(&names);
    talc_memory_free(metadata);
    talc_memory_free(own);
    talc_scope_leave(scope);
    talc_within(around);
    return ok;
}

// ---- Loading ------------------------------------------------------------------------------------

/* What a file has of one parameter; the tensors are the calling scope's. */
typedef struct loaded_state {
    int64_t steps;
    talc_tensor *states[TALC_UPDATE_STATES];
} loaded_state;

typedef struct loading {
    const char *path;
    const talc_safetensors *file;
    talc_module *module;
    const talc_optimizer *optimizer;
    int64_t matched; /* names that begin with BESIDES, the module's not counted */
} loading;

/* The index of a parameter's state; -1 when the file has none, -2 with a failure. */
static int64_t find_state(const loading *load, const char *path, const char *state)
{
    char *name = state_name(path, state);
    const int64_t index = name == NULL ? -2 : talc_safetensors_find(load->file, name);
    talc_memory_free(name);
    return index;
}

static bool read_counts(loading *load, const talc_optimized *of, loaded_state *into)
{
    const int64_t index = find_state(load, of->path, "step");
    if (index == -1)
        talc_fail(TALC_NOT_FOUND, "checkpoint_load: '%s' lacks the optimizer's state of '%s'",
                  TALC_SHOWN(load->path), TALC_SHOWN(of->path));
    if (index < 0)
        return false;
    load->matched++;
    int64_t counts[2];
    const talc_tensor *tensor = talc_safetensors_read(load->file, index, talc_device_host());
    if (tensor != NULL &&
        (tensor->dtype != TALC_I64 || !talc_shape_equal(talc_dims_of(tensor), TALC_DIMS(2))))
        talc_fail(TALC_BAD_FORMAT, "checkpoint_load: '%s': the steps of '%s' are no two i64",
                  TALC_SHOWN(load->path), TALC_SHOWN(of->path));
    if (talc_failed() || !talc_to_host(tensor, counts, sizeof counts))
        return false;
    if (counts[0] < 0 || counts[0] > MAX_STEPS)
        talc_fail(TALC_BAD_FORMAT,
                  "checkpoint_load: '%s': '%s' has had %" PRId64
                  " steps, must be from 0 to %" PRId64,
                  TALC_SHOWN(load->path), TALC_SHOWN(of->path), counts[0], MAX_STEPS);
    else if (counts[1] != of->group)
        talc_fail(TALC_BAD_ARGUMENT,
                  "checkpoint_load: '%s': '%s' is of group %" PRId64
                  " in the file, of group %d in the optimizer",
                  TALC_SHOWN(load->path), TALC_SHOWN(of->path), counts[1], of->group);
    into->steps = counts[0];
    return !talc_failed();
}

static bool read_state(loading *load, const talc_optimized *of, const char *state, int64_t index,
                       talc_tensor **into)
{
    char in_file[TALC_DIMS_TEXT], expected[TALC_DIMS_TEXT];
    const talc_dims dims = talc_safetensors_dims(load->file, index);
    const talc_tensor *p = of->parameter;
    if (talc_safetensors_dtype(load->file, index) != p->dtype ||
        !talc_shape_equal(dims, talc_dims_of(p)))
        talc_fail(TALC_BAD_SHAPE,
                  "checkpoint_load: '%s': %s of '%s' is %s %s in the file, the parameter %s %s",
                  TALC_SHOWN(load->path), state, TALC_SHOWN(of->path),
                  talc_safetensors_dtype_name(load->file, index), talc_dims_text(dims, in_file),
                  talc_dtype_name(p->dtype), talc_dims_text(talc_dims_of(p), expected));
    *into = talc_failed() ? NULL : talc_safetensors_read(load->file, index, p->device);
    return *into != NULL;
}

static bool read_optimized(loading *load, const talc_optimized *of, loaded_state *into)
{
    if (!read_counts(load, of, into))
        return false;
    for (int k = 0; k < TALC_UPDATE_STATES; k++) {
        const char *state = talc_optimizer_state_name(&load->optimizer->groups[of->group], k);
        const int64_t index = state == NULL ? -1 : find_state(load, of->path, state);
        if (index >= 0 && !read_state(load, of, state, index, &into->states[k]))
            return false;
        load->matched += index >= 0;
        if (state != NULL && index == -1 && into->steps > 0)
            talc_fail(TALC_NOT_FOUND, "checkpoint_load: '%s' lacks %s of '%s'",
                      TALC_SHOWN(load->path), state, TALC_SHOWN(of->path));
        if (talc_failed())
            return false;
    }
    return true;
}

/* What the optimizer did not look for is of another one. */
static bool nothing_besides(const loading *load)
{
    int64_t left = -load->matched;
    const char *extra = NULL;
    for (int64_t i = 0; i < talc_safetensors_count(load->file); i++) {
        const char *name = talc_safetensors_name(load->file, i);
        if (strncmp(name, BESIDES, strlen(BESIDES)) != 0 ||
            talc_module_find(load->module, name) != NULL)
            continue;
        left++;
        extra = name;
    }
    if (left > 0)
        talc_fail(TALC_NOT_FOUND,
                  "checkpoint_load: '%s' has %" PRId64
                  " tensors of an optimizer's state that this one has not, such as '%s'",
                  TALC_SHOWN(load->path), left, TALC_SHOWN(extra));
    return left == 0;
}

/* The file's options, one for each group of the optimizer; freed by talc_memory_free. */
static talc_optimizer_options *read_groups(const loading *load, const run_state *run)
{
    const talc_optimizer *optimizer = load->optimizer;
    if (run->groups != optimizer->group_count) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "checkpoint_load: '%s' has %d groups of parameters, the optimizer %d",
                  TALC_SHOWN(load->path), run->groups, optimizer->group_count);
        return NULL;
    }
    talc_optimizer_options *groups =
        talc_memory_new((size_t)run->groups * sizeof *groups, "checkpoint_load");
    for (int i = 0; i < run->groups && groups != NULL && !talc_failed(); i++) {
        char key[64];
        group_key(i, key);
        if (read_record(load->path, load->file, key, option_fields, &groups[i]) &&
            talc_optimizer_in_range(&groups[i]) && groups[i].kind != optimizer->groups[i].kind)
            talc_fail(TALC_BAD_ARGUMENT, "checkpoint_load: '%s' is of %s, the optimizer is %s",
                      TALC_SHOWN(load->path), talc_optimizer_kind_name(groups[i].kind),
                      talc_optimizer_kind_name(optimizer->groups[i].kind));
    }
    if (!talc_failed())
        return groups;
    talc_memory_free(groups);
    return NULL;
}

/* From here on nothing can fail. */
static void commit(talc_optimizer *optimizer, loaded_state *states)
{
    for (int i = 0; i < optimizer->count; i++) {
        talc_optimized *of = &optimizer->list[i];
        of->steps = states[i].steps;
        for (int k = 0; k < TALC_UPDATE_STATES; k++) {
            talc_release(of->states[k]);
            of->states[k] = talc_retain(states[i].states[k]);
        }
    }
}

static bool load_all(loading *load, talc_module *module, talc_optimizer *optimizer,
                     talc_progress *progress)
{
    run_state run = { 0 };
    talc_schedule schedule = { 0 };
    if (!read_record(load->path, load->file, TALC_RUN_KEY, run_fields, &run) ||
        !run_fits("checkpoint_load", &run) ||
        !read_record(load->path, load->file, "talc.schedule", schedule_fields, &schedule))
        return false;
    talc_replacement *replacements = talc_state_read(load->file, load->path, module, NULL, NULL);
    talc_optimizer_options *groups = replacements == NULL ? NULL : read_groups(load, &run);
    loaded_state *states =
        groups == NULL
            ? NULL
            : talc_memory_new((size_t)optimizer->count * sizeof *states, "checkpoint_load");
    bool ok = states != NULL;
    for (int i = 0; i < optimizer->count && ok; i++)
        ok = read_optimized(load, &optimizer->list[i], &states[i]);
    /* Checked as a program's own would be, by an optimizer that is not there yet. */
    talc_optimizer checked = { 0 };
    ok = ok && nothing_besides(load) && talc_optimizer_schedule(&checked, &schedule);
    talc_model_info *info = ok ? talc_info_read("checkpoint_load", load->path, load->file) : NULL;
    ok = ok && info != NULL;
    if (ok) {
        talc_module_take_read(module, info);
        talc_module_replace(module, replacements);
        commit(optimizer, states);
        memcpy(optimizer->groups, groups, (size_t)run.groups * sizeof *groups);
        optimizer->schedule = schedule;
        optimizer->steps = run.steps;
        talc_generator_set((talc_generator){ .seed = run.seed, .call = run.call });
        *progress = (talc_progress){ run.epoch, run.batch };
    }
    talc_memory_free(replacements);
    talc_memory_free(groups);
    talc_memory_free(states);
    return ok;
}

bool talc_checkpoint_load(const char *path, talc_module *module, talc_optimizer *optimizer,
                          talc_progress *progress)
{
    static const char *const who = "checkpoint_load";
    if (talc_operand_missing(who, "path", path) || talc_operand_missing(who, "module", module) ||
        talc_operand_missing(who, "optimizer", optimizer) ||
        talc_operand_missing(who, "progress", progress))
        return false;
    const char *around = talc_within(who);
    talc_safetensors *file = talc_safetensors_open(path);
    loading load = { .path = path, .file = file, .module = module, .optimizer = optimizer };
    talc_scope *scope = talc_scope_enter();
    const bool loaded =
        file != NULL && scope != NULL && load_all(&load, module, optimizer, progress);
    talc_scope_leave(scope);
    talc_safetensors_close(file);
    talc_within(around);
    return loaded;
}
