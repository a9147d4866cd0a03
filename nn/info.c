#include "nn/info.h"

#include "nn/entries.h"
#include "nn/state.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NORMALISED = 4, EXTENT_MAX = 1 << 20, CLASSES_MAX = 65536, NUMBERS_TEXT = 128 };

static const char *const NETWORK = "talc.network", *const IMAGE = "talc.image",
                         *const MEAN = "talc.mean", *const DEVIATION = "talc.deviation",
                         *const CLASSES = "talc.classes", *const NAMES = "talc.class_names";

// ---- What it may be -----------------------------------------------------------------------------

static int normalised(const talc_model_info *info)
{
    return info->channels < NORMALISED ? (int)info->channels : NORMALISED;
}

/* NULL, or what is wrong with the numbers. */
static const char *number_fault(const talc_model_info *info)
{
    TALC_DEFAULT_FENV;
    const int64_t extents[] = { info->channels, info->height, info->width };
    for (int i = 0; i < 3; i++)
        if (extents[i] < 0 || extents[i] > EXTENT_MAX)
            return "an extent of the image is outside 0..1048576";
    for (int c = 0; c < NORMALISED; c++)
        if (!isfinite(info->mean[c]) || !isfinite(info->deviation[c]) || info->deviation[c] < 0)
            return "mean and deviation must be finite, the deviation not negative";
        else if (c >= normalised(info) && (info->mean[c] != 0 || info->deviation[c] != 0))
            return "a mean or deviation is of a channel that the image has not";
    if (info->channels == 0 && (info->height != 0 || info->width != 0))
        return "an image has no channels";
    if (info->classes < 0 || info->classes > CLASSES_MAX)
        return "the number of classes is outside 0..65536";
    return info->class_names != NULL && info->classes == 0 ? "names of classes without their number"
                                                           : NULL;
}

// ---- Copies -------------------------------------------------------------------------------------

/* In one block: the struct, the pointers to the names, and text. NULL with a failure. */
static talc_model_info *info_new(const char *who, const talc_model_info *of, size_t text)
{
    const size_t names =
        of->class_names == NULL ? 0 : (size_t)of->classes * sizeof *of->class_names;
    talc_model_info *info = talc_memory_new(sizeof *info + names + text, who);
    if (info == NULL)
        return NULL;
    *info = *of;
    info->class_names = names == 0 ? NULL : (const char **)(info + 1);
    return info;
}

static bool text_fits(const char *who, const char *what, const char *text)
{
    if (!talc_operand_missing(who, what, text) && !talc_is_utf8(text))
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s '%s' is not UTF-8", who, what, TALC_SHOWN(text));
    return !talc_failed();
}

static bool describes(const char *who, const talc_model_info *info, size_t *text)
{
    const char *fault = number_fault(info);
    if (fault != NULL)
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s", who, fault);
    *text = info->network == NULL || !text_fits(who, "network", info->network)
                ? 0
                : strlen(info->network) + 1;
    for (int64_t i = 0; info->class_names != NULL && i < info->classes && !talc_failed(); i++)
        if (text_fits(who, "the name of a class", info->class_names[i]))
            *text += strlen(info->class_names[i]) + 1;
    return !talc_failed();
}

/* Where the next text goes. */
static char *append(char *at, const char **from)
{
    const size_t bytes = strlen(*from) + 1;
    memcpy(at, *from, bytes);
    *from = at;
    return at + bytes;
}

static talc_model_info *info_copy(const char *who, const talc_model_info *info)
{
    size_t text;
    talc_model_info *copy = describes(who, info, &text) ? info_new(who, info, text) : NULL;
    if (copy == NULL)
        return NULL;
    const char **names = (const char **)copy->class_names;
    char *at = names == NULL ? (char *)(copy + 1) : (char *)(names + copy->classes);
    if (copy->network != NULL)
        at = append(at, &copy->network);
    for (int64_t i = 0; names != NULL && i < copy->classes; i++) {
        names[i] = info->class_names[i];
        at = append(at, &names[i]);
    }
    return copy;
}

void talc_model_info_free(talc_model_info *info)
{
    talc_memory_free(info);
}

bool talc_module_describe(talc_module *module, const talc_model_info *info)
{
    static const char *const who = "module_describe";
    if (talc_operand_missing(who, "module", module))
        return false;
    talc_model_info *copy = info == NULL ? NULL : info_copy(who, info);
    if (!talc_failed())
        talc_module_take_info(module, copy);
    return !talc_failed();
}

void talc_module_take_info(talc_module *module, talc_model_info *info)
{
    talc_model_info_free(module->entries->info);
    module->entries->info = info;
}

void talc_module_take_read(talc_module *module, talc_model_info *info)
{
    if (info->network != NULL || info->channels > 0 || info->classes > 0)
        talc_module_take_info(module, info);
    else
        talc_model_info_free(info);
}

const talc_model_info *talc_module_info(const talc_module *module)
{
    return module == NULL ? NULL : module->entries->info;
}

// ---- Numbers as text ----------------------------------------------------------------------------

/* What stands between units and tenths in the thread's locale: "." or ",". */
static const char *point(char text[8])
{
    snprintf(text, 8, "%.1f", 0.5); /* "0.5" */
    text[strlen(text) - 1] = '\0';
    return text + 1;
}

/* The shortest decimal that is read as the same number, with a point in every locale. */
static int write_number(double value, char *to, size_t capacity)
{
    char mark[8], text[40] = "";
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    char *at = strstr(text, point(mark));
    if (at != NULL) {
        const size_t length = strlen(mark + 1);
        *at = '.';
        memmove(at + 1, at + length, strlen(at + length) + 1);
    }
    return snprintf(to, capacity, "%s", text);
}

static void write_numbers(const double *values, int count, char text[NUMBERS_TEXT])
{
    TALC_DEFAULT_FENV;
    int used = 0;
    for (int i = 0; i < count; i++) {
        used += snprintf(text + used, (size_t)(NUMBERS_TEXT - used), i > 0 ? " " : "");
        used += write_number(values[i], text + used, (size_t)(NUMBERS_TEXT - used));
    }
}

/* `count` finite decimals with a blank between, and nothing else. */
static bool read_numbers(const char *text, int count, double *values)
{
    TALC_DEFAULT_FENV;
    char local[NUMBERS_TEXT + 32], mark[8];
    if (strlen(text) >= NUMBERS_TEXT || text[strspn(text, "0123456789+-.e ")] != '\0')
        return false;
    const char *sign = point(mark);
    size_t used = 0;
    for (; *text != '\0' && used + strlen(sign) < sizeof local; text++)
        if (*text != '.')
            local[used++] = *text;
        else
            used += (size_t)snprintf(local + used, sizeof local - used, "%s", sign);
    local[used] = '\0';
    char *at = local;
    for (int i = 0; i < count; i++) {
        char *end;
        at += i > 0 && *at == ' ';
        values[i] = strtod(at, &end);
        if (end == at || *at == ' ' || !isfinite(values[i]))
            return false;
        at = end;
    }
    return *text == '\0' && *at == '\0';
}

/* A number of digits alone, at most `max`, and where it ends; NULL for another text. */
static const char *read_count(const char *text, int64_t max, int64_t *count)
{
    const char *at = text;
    for (*count = 0; *at >= '0' && *at <= '9' && *count <= max; at++)
        *count = 10 * *count + (*at - '0');
    return at == text || *count > max ? NULL : at;
}

// ---- Writing ------------------------------------------------------------------------------------

/* One name a line; returns the end. */
static char *write_names(const talc_model_info *info, char *at)
{
    for (int64_t i = 0; i < info->classes; i++) {
        if (i > 0)
            *at++ = '\n';
        for (const char *c = info->class_names[i]; *c != '\0'; c++) {
            if (*c == '\n' || *c == '\\')
                *at++ = '\\';
            *at++ = *c == '\n' ? 'n' : *c;
        }
    }
    *at = '\0';
    return at + 1;
}

const char **talc_info_metadata(const talc_module *module, const char *const *own)
{
    static const talc_model_info nothing;
    const talc_model_info *info = module->entries->info == NULL ? &nothing : module->entries->info;
    enum { TEXTS = 4, KEYS = 7 };
    size_t count = 0, names = 1;
    while (own[count] != NULL)
        count++;
    for (int64_t i = 0; info->class_names != NULL && i < info->classes; i++)
        names += 2 * strlen(info->class_names[i]) + 1;
    const size_t pointers = (count + (size_t)2 * KEYS + 1) * sizeof(char *);
    const char **all = talc_memory_new(pointers + TEXTS * NUMBERS_TEXT + names, "module_save");
    if (all == NULL)
        return NULL;
    memcpy(all, own, count * sizeof *all);
    char(*text)[NUMBERS_TEXT] = (char(*)[NUMBERS_TEXT])((char *)all + pointers);
    const char **next = all + count;
#define ENTRY(key, value) (*next++ = (key), *next++ = (value))
    if (info->network != NULL)
        ENTRY(NETWORK, info->network);
    if (info->channels > 0) {
        snprintf(text[0], sizeof text[0], "%" PRId64 "x%" PRId64 "x%" PRId64, info->channels,
                 info->height, info->width);
        write_numbers(info->mean, normalised(info), text[1]);
        write_numbers(info->deviation, normalised(info), text[2]);
        ENTRY(IMAGE, text[0]);
        ENTRY(MEAN, text[1]);
        ENTRY(DEVIATION, text[2]);
    }
    if (info->classes > 0) {
        snprintf(text[3], sizeof text[3], "%" PRId64, info->classes);
        ENTRY(CLASSES, text[3]);
    }
    if (info->class_names != NULL) {
        write_names(info, text[TEXTS]);
        ENTRY(NAMES, text[TEXTS]);
    }
#undef ENTRY
    return all;
}

// ---- Reading ------------------------------------------------------------------------------------

/* Cuts a text of one name a line into its names, without their escapes; false unless there are as
 * many as classes. */
static bool read_names(char *text, const char **names, int64_t classes)
{
    char *from = text, *to = text;
    for (int64_t i = 0; i < classes; i++) {
        names[i] = to;
        for (; *from != '\0' && *from != '\n'; from++) {
            const char escaped = from[1];
            if (*from == '\\' && escaped != 'n' && escaped != '\\')
                return false;
            *to++ = *from != '\\' ? *from : *++from == 'n' ? '\n' : '\\';
        }
        if ((*from == '\0') != (i == classes - 1))
            return false;
        from += *from == '\n';
        *to++ = '\0';
    }
    return true;
}

/* What does not hold text; NULL: nothing does. */
static const char *read_plain(const talc_safetensors *file, talc_model_info *info)
{
    const char *image = talc_safetensors_metadata(file, IMAGE), *at = image;
    int64_t *const extents[] = { &info->channels, &info->height, &info->width };
    for (int i = 0; i < 3 && at != NULL; i++) {
        at = i > 0 && *at++ != 'x' ? NULL : at;
        at = at == NULL ? NULL : read_count(at, EXTENT_MAX, extents[i]);
    }
    if (image != NULL && (at == NULL || *at != '\0' || info->channels == 0))
        return IMAGE;
    const char *const keys[] = { MEAN, DEVIATION };
    double *const values[] = { info->mean, info->deviation };
    for (int i = 0; i < 2; i++) {
        const char *text = talc_safetensors_metadata(file, keys[i]);
        if (text != NULL && (image == NULL || !read_numbers(text, normalised(info), values[i])))
            return keys[i];
    }
    const char *classes = talc_safetensors_metadata(file, CLASSES);
    const char *end = classes == NULL ? NULL : read_count(classes, CLASSES_MAX, &info->classes);
    if (classes != NULL && (end == NULL || *end != '\0' || info->classes == 0))
        return CLASSES;
    if (talc_safetensors_metadata(file, NAMES) != NULL && info->classes == 0)
        return NAMES;
    return number_fault(info) == NULL ? NULL : DEVIATION;
}

talc_model_info *talc_info_read(const char *who, const char *path, const talc_safetensors *file)
{
    static const char *const some[1];
    talc_model_info plain = { 0 }, *info = NULL;
    const char *names = talc_safetensors_metadata(file, NAMES);
    const char *network = talc_safetensors_metadata(file, NETWORK);
    const char *wrong = read_plain(file, &plain);
    const size_t capacity = names == NULL ? 0 : strlen(names) + 1,
                 more = network == NULL ? 0 : strlen(network) + 1;
    plain.class_names = names == NULL ? NULL : some;
    if (wrong == NULL && (info = info_new(who, &plain, capacity + more)) != NULL) {
        const char **pointers = (const char **)info->class_names;
        char *text = pointers == NULL ? (char *)(info + 1) : (char *)(pointers + info->classes);
        if (names != NULL)
            memcpy(text, names, capacity);
        if (names != NULL && !read_names(text, pointers, info->classes))
            wrong = NAMES;
        info->network = network == NULL ? NULL : memcpy(text + capacity, network, more);
    }
    if (wrong == NULL)
        return info;
    talc_model_info_free(info);
    talc_fail(TALC_BAD_FORMAT, "%s: '%s': the metadata '%s' is not what talc writes: '%s'", who,
              TALC_SHOWN(path), wrong, TALC_SHOWN(talc_safetensors_metadata(file, wrong)));
    return NULL;
}

talc_model_info *talc_model_info_read(const char *path)
{
    static const char *const who = "model_info_read";
    if (talc_operand_missing(who, "path", path))
        return NULL;
    talc_safetensors *file = talc_safetensors_open(path);
    talc_model_info *info = file == NULL ? NULL : talc_info_read(who, path, file);
    talc_safetensors_close(file);
    return info;
}
