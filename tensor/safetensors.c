#include "tensor/safetensors.h"

#include "tensor/file.h"
#include "tensor/device.h"
#include "tensor/memory.h"
#include "tensor/recording.h"
#include "tensor/safetensors_format.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Every element type of the format. Those without a talc type have a size all the same, so that a
 * file that holds some of them can be checked and its other tensors read. */
static const struct {
    const char *name;
    int bits;
    talc_dtype dtype;
} types[] = {
#define NATIVE_ROW(constant, name, type, safetensors)                                              \
    { safetensors, 8 * (int)sizeof(type), constant },
    TALC_DTYPE_TABLE(NATIVE_ROW)
#undef NATIVE_ROW
    // clang-format off
    { "BOOL",    8, TALC_U8 }, { "F16", 16, TALC_F32 }, { "BF16", 16, TALC_F32 },
    { "I8",      8, TALC_DTYPE_COUNT }, { "I16",     16, TALC_DTYPE_COUNT }, { "U16",     16, TALC_DTYPE_COUNT },
    { "U32",    32, TALC_DTYPE_COUNT }, { "U64",     64, TALC_DTYPE_COUNT },
    { "C64",    64, TALC_DTYPE_COUNT },
    { "F8_E5M2",  8, TALC_DTYPE_COUNT },
    { "F8_E4M3", 8, TALC_DTYPE_COUNT }, { "F8_E8M0",  8, TALC_DTYPE_COUNT }, { "F6_E2M3",  6, TALC_DTYPE_COUNT },
    { "F6_E3M2", 6, TALC_DTYPE_COUNT }, { "F4",       4, TALC_DTYPE_COUNT },
    // clang-format on
};
enum { TYPES = sizeof types / sizeof *types };

typedef struct file_entry {
    const char *name; /* the header's key */
    int type;
    talc_dims dims;
    int64_t begin, end; /* bytes from the start of the data */
} file_entry;

/* What a search by name compares. */
typedef struct named_index {
    const char *name;
    int64_t index;
} named_index;

struct talc_safetensors {
    talc_file file;
    json_t *header;
    int64_t data; /* where the data starts in the file */
    int64_t count;
    file_entry *entries;  /* in the order of their data */
    named_index *by_name; /* sorted */
};

// ---- The header ---------------------------------------------------------------------------------

static talc_status bad_header(const talc_safetensors *s, const char *what)
{
    return talc_fail(TALC_BAD_FORMAT, "safetensors_open: '%s': %s", TALC_SHOWN(s->file.path), what);
}

static talc_status bad_tensor(const talc_safetensors *s, const char *name, const char *what)
{
    return talc_fail(TALC_BAD_FORMAT, "safetensors_open: '%s': tensor '%s': %s",
                     TALC_SHOWN(s->file.path), TALC_SHOWN(name), what);
}

/* The JSON parser takes tens of bytes for each bracket and number it meets. Valid headers nest
 * three deep, have two short arrays a tensor, and little else; whatever else a hostile file holds
 * is refused before it is parsed.
 * *longest becomes a bound on the bytes of a string or number. */
static const char *structure_fault(const char *text, size_t length, size_t *longest)
{
    enum { MAX_DEPTH = 3, MAX_ELEMENTS = 64, MAX_COMMAS = 1000000 };
    int depth = 0;
    int64_t opened = 0, commas = 0, all_commas = 0; /* commas: since the last bracket */
    bool in_string = false;
    size_t after = 0; /* the last bracket, comma or colon */
    *longest = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (!in_string && strchr("{}[],:", c) != NULL) {
            *longest = i - after > *longest ? i - after : *longest;
            after = i + 1;
        }
        if (in_string) {
            if (c == '\\')
                i++;
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            commas = 0;
            if (++depth > MAX_DEPTH)
                return "the header nests deeper than 3 levels";
            if (++opened > 3 * (int64_t)MAX_TENSORS + 2)
                return "the header has more than 65536 tensors";
        } else if (c == '}' || c == ']') {
            if (--depth == 0 && strspn(text + i + 1, " \t\r\n") != length - i - 1)
                return "the header goes on after its object";
        } else if (c == ',') {
            if (++commas > MAX_ELEMENTS && depth == MAX_DEPTH)
                return "the header has an array of more than 64 elements";
            if (++all_commas > MAX_COMMAS)
                return "the header has more than 1000000 commas";
        }
    }
    return depth == 0 ? NULL : "the header ends within its object";
}

/* jansson collects the bytes of a string or number in a buffer, which it keeps from one to the
 * next, and takes no notice when that cannot grow: the byte is lost, and a name is another one. So
 * a string longer than all of the header's comes first, in an array with the header, and the buffer
 * grows there alone: at 16 bytes, and each time it is full to twice its size. These are all within
 * an escape, so what loses a byte there is no string, and the text is refused. */
static char *primed(const char *text, size_t length, size_t longest, size_t *before)
{
    static const char escape[] = "\\u0041";
    const size_t step = sizeof escape - 1, count = longest / step + 1;
    *before = strlen("[\"aaa") + count * step + strlen("\",");
    char *all = talc_memory_new(*before + length + sizeof "]", "safetensors_open"), *at = all;
    if (all == NULL)
        return NULL;
    at = stpcpy(at, "[\"aaa");
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, escape);
    at = stpcpy(at, "\",");
    memcpy(at, text, length);
    at[length] = ']';
    return all;
}

/* The header's object; NULL, with *error, when jansson makes none. */
static json_t *parsed(const char *all, size_t length, json_error_t *error)
{
    json_t *both = json_loadb(all, length, JSON_REJECT_DUPLICATES, error);
    json_t *header = json_incref(json_array_get(both, 1));
    json_decref(both);
    return header;
}

static talc_status parse_header(talc_safetensors *s, const char *text, size_t length)
{
    if (text[0] != '{')
        return bad_header(s, "the header does not begin with '{'");
    size_t longest, before;
    const char *fault = strlen(text) != length ? "the header has a NUL byte"
                                               : structure_fault(text, length, &longest);
    if (fault != NULL)
        return bad_header(s, fault);
    char *all = primed(text, length, longest, &before);
    if (all == NULL)
        return talc_error_status();
    /* jansson gives some allocations that fail as mistakes in the text. So a text is wrong when it
     * is so twice, and there is memory for a value. */
    json_error_t error;
    for (int i = 0; i < 2 && s->header == NULL; i++)
        s->header = parsed(all, before + length + 1, &error);
    talc_memory_free(all);
    if (s->header != NULL)
        return TALC_OK;
    json_t *value = json_object();
    json_decref(value);
    if (value == NULL || error.position <= (int)before)
        return talc_fail(TALC_NO_MEMORY,
                         "safetensors_open: out of host memory for a header of %zu bytes", length);
    return talc_fail(TALC_BAD_FORMAT, "safetensors_open: '%s': the header is not JSON: byte %d: %s",
                     TALC_SHOWN(s->file.path), error.position - (int)before,
                     TALC_SHOWN(error.text));
}

/* Files that are taken for weights: what they begin with, what they are, and what to do. */
static const struct {
    const char *magic, *is;
} strangers[] = {
    { "version https://git-lfs",
      "a Git LFS pointer, which stands for the file: git lfs pull gets it" },
    { "<!", "an HTML page: download the file itself, not the page that shows it" },
    { "<h", "an HTML page: download the file itself, not the page that shows it" },
    { "PK\3\4",
      "a zip, as torch.save writes it: tools/torch/pt2safetensors.py converts a checkpoint" },
    { "\x89PNG", "a PNG image" },
    { "\xff\xd8\xff", "a JPEG image" },
    { "\x93NUMPY", "an array of NumPy's" },
    { "\x1f\x8b", "compressed by gzip: gunzip it first" },
    { "\x80\2",
      "a pickle, as torch.save wrote it: tools/torch/pt2safetensors.py converts a checkpoint" },
    { "\x80\3",
      "a pickle: torch.save a state_dict of it, which tools/torch/pt2safetensors.py converts" },
    { "\x80\4",
      "a pickle: torch.save a state_dict of it, which tools/torch/pt2safetensors.py converts" },
    { "\x80\5",
      "a pickle: torch.save a state_dict of it, which tools/torch/pt2safetensors.py converts" },
};

/* Raises what a file is that is no safetensors file, and returns true, where its first bytes say
 * so. */
static bool is_stranger(const talc_safetensors *s)
{
    char text[64] = "";
    const size_t count =
        s->file.size < (int64_t)sizeof text - 1 ? (size_t)s->file.size : sizeof text - 1;
    if (talc_file_read(&s->file, "safetensors_open", 0, text, count) != TALC_OK)
        return true;
    if (text[LENGTH_BYTES] == '{') /* a header that was cut */
        return false;
    const char *begin = text + (memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);
    begin += strspn(begin, " \t\r\n");
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
        if (strncasecmp(begin, strangers[i].magic, strlen(strangers[i].magic)) == 0) {
            talc_fail(TALC_BAD_FORMAT, "safetensors_open: '%s' is %s", TALC_SHOWN(s->file.path),
                      strangers[i].is);
            return true;
        }
    return false;
}

/* Reads N and the header. */
static talc_status read_header(talc_safetensors *s)
{
    unsigned char prefix[LENGTH_BYTES];
    if (s->file.size < LENGTH_BYTES + 2)
        return talc_fail(
            TALC_BAD_FORMAT,
            "safetensors_open: '%s': %" PRId64 " byte%s too few for a safetensors file",
            TALC_SHOWN(s->file.path), s->file.size, s->file.size == 1 ? " is" : "s are");
    if (talc_file_read(&s->file, "safetensors_open", 0, prefix, sizeof prefix) != TALC_OK)
        return talc_error_status();
    uint64_t length = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | prefix[i];
    const bool fits = length >= 2 && length <= (uint64_t)(s->file.size - LENGTH_BYTES);
    if ((!fits || length > MAX_HEADER) && is_stranger(s))
        return talc_error_status();
    if (!fits)
        return talc_fail(TALC_BAD_FORMAT,
                         "safetensors_open: '%s': a header of %" PRIu64
                         " byte%s in a file of %" PRId64,
                         TALC_SHOWN(s->file.path), length, TALC_PLURAL(length), s->file.size);
    if (length > MAX_HEADER)
        return talc_fail(TALC_BAD_FORMAT,
                         "safetensors_open: '%s': a header of %" PRIu64
                         " bytes, talc reads up to %d",
                         TALC_SHOWN(s->file.path), length, MAX_HEADER);
    s->data = LENGTH_BYTES + (int64_t)length;
    char *text = talc_memory_new((size_t)length + 1, "safetensors_open");
    if (text == NULL)
        return talc_error_status();
    talc_status status =
        talc_file_read(&s->file, "safetensors_open", LENGTH_BYTES, text, (size_t)length);
    if (status == TALC_OK && text[0] != '{' && is_stranger(s))
        status = talc_error_status();
    if (status == TALC_OK)
        status = parse_header(s, text, (size_t)length);
    talc_memory_free(text);
    return status;
}

// ---- Its entries --------------------------------------------------------------------------------

static bool natural(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* dims, from "shape". */
static talc_status read_shape(const talc_safetensors *s, file_entry *entry, const json_t *shape)
{
    if (!json_is_array(shape))
        return bad_tensor(s, entry->name, "no array \"shape\"");
    if (json_array_size(shape) > TALC_MAX_RANK)
        return bad_tensor(s, entry->name, "a rank above 8");
    entry->dims.rank = (int)json_array_size(shape);
    for (int i = 0; i < entry->dims.rank; i++) {
        const json_t *extent = json_array_get(shape, (size_t)i);
        if (!natural(extent))
            return bad_tensor(s, entry->name,
                              "\"shape\" holds something else than numbers from 0 to 2^63-1");
        entry->dims.dim[i] = json_integer_value(extent);
    }
    return TALC_OK;
}

/* What shape and type need; false when that is no whole number of bytes or does not fit. Zero
 * extents count as 1 first, so that the others have to multiply within bounds even in an empty
 * tensor. */
static bool bytes_needed(const file_entry *entry, int64_t *bytes)
{
    int64_t bits = types[entry->type].bits;
    bool empty = false;
    for (int i = 0; i < entry->dims.rank; i++) {
        int64_t extent = entry->dims.dim[i];
        empty = empty || extent == 0;
        if (!talc_multiply(bits, extent == 0 ? 1 : extent, &bits))
            return false;
    }
    *bytes = empty ? 0 : bits / 8;
    return empty || bits % 8 == 0;
}

static talc_status read_entry(const talc_safetensors *s, file_entry *entry, const char *name,
                              const json_t *value)
{
    entry->name = name;
    if (strlen(name) > MAX_NAME)
        return bad_tensor(s, name, "a name of more than 1024 bytes");
    if (!json_is_object(value) || json_object_size(value) != 3)
        return bad_tensor(s, name, "no object of \"dtype\", \"shape\" and \"data_offsets\"");
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    if (dtype == NULL)
        return bad_tensor(s, name, "no string \"dtype\"");
    for (entry->type = 0; entry->type < TYPES && strcmp(types[entry->type].name, dtype) != 0;)
        entry->type++;
    if (entry->type == TYPES) {
        return talc_fail(TALC_BAD_FORMAT, "safetensors_open: '%s': tensor '%s': unknown dtype '%s'",
                         TALC_SHOWN(s->file.path), TALC_SHOWN(name), TALC_SHOWN(dtype));
    }
    if (read_shape(s, entry, json_object_get(value, "shape")) != TALC_OK)
        return talc_error_status();
    const json_t *offsets = json_object_get(value, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !natural(begin) || !natural(end))
        return bad_tensor(s, name, "\"data_offsets\" are not two numbers from 0 to 2^63-1");
    entry->begin = json_integer_value(begin);
    entry->end = json_integer_value(end);
    int64_t bytes;
    if (!bytes_needed(entry, &bytes))
        return bad_tensor(s, name, "a shape whose size is no number of bytes below 2^60");
    if (entry->end < entry->begin || entry->end - entry->begin != bytes) {
        char text[TALC_DIMS_TEXT];
        return talc_fail(TALC_BAD_FORMAT,
                         "safetensors_open: '%s': tensor '%s': %s of %s needs %" PRId64
                         " bytes, data_offsets are [%" PRId64 ",%" PRId64 "]",
                         TALC_SHOWN(s->file.path), TALC_SHOWN(name),
                         talc_dims_text(entry->dims, text), dtype, bytes, entry->begin, entry->end);
    }
    return TALC_OK;
}

static int compare_places(const void *a, const void *b)
{
    const file_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const named_index *)a)->name, ((const named_index *)b)->name);
}

/* The data of all tensors covers the rest of the file, each byte once. */
static talc_status check_coverage(const talc_safetensors *s)
{
    int64_t position = 0;
    for (int64_t i = 0; i < s->count; i++) {
        const file_entry *entry = &s->entries[i];
        if (entry->begin != position) {
            return talc_fail(TALC_BAD_FORMAT,
                             "safetensors_open: '%s': tensor '%s' begins at byte %" PRId64
                             " of the data, the one before it ends at %" PRId64,
                             TALC_SHOWN(s->file.path), TALC_SHOWN(entry->name), entry->begin,
                             position);
        }
        position = entry->end;
    }
    if (position != s->file.size - s->data)
        return talc_fail(TALC_BAD_FORMAT,
                         "safetensors_open: '%s': tensors of %" PRId64 " byte%s, but %" PRId64
                         " byte%s of data",
                         TALC_SHOWN(s->file.path), position, TALC_PLURAL(position),
                         s->file.size - s->data, TALC_PLURAL(s->file.size - s->data));
    return TALC_OK;
}

static talc_status check_metadata(const talc_safetensors *s, json_t *metadata)
{
    if (json_is_null(metadata))
        return TALC_OK;
    if (!json_is_object(metadata))
        return bad_header(s, METADATA " is no object");
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return bad_header(s, METADATA " holds something else than strings");
    }
    return TALC_OK;
}

static talc_status read_entries(talc_safetensors *s)
{
    size_t max = json_object_size(s->header);
    if (max > MAX_TENSORS + 1)
        return bad_header(s, "the header has more than 65536 tensors");
    s->entries = talc_memory_new(max * sizeof *s->entries, "safetensors_open");
    s->by_name = talc_memory_new(max * sizeof *s->by_name, "safetensors_open");
    if (s->entries == NULL || s->by_name == NULL)
        return talc_error_status();
    const char *name;
    json_t *value;
    json_object_foreach(s->header, name, value)
    {
        talc_status status = strcmp(name, METADATA) == 0
                                 ? check_metadata(s, value)
                                 : read_entry(s, &s->entries[s->count++], name, value);
        if (status != TALC_OK)
            return status;
    }
    if (s->count > MAX_TENSORS)
        return bad_header(s, "the header has more than 65536 tensors");
    if (s->count > 0)
        qsort(s->entries, (size_t)s->count, sizeof *s->entries, compare_places);
    for (int64_t i = 0; i < s->count; i++)
        s->by_name[i] = (named_index){ s->entries[i].name, i };
    if (s->count > 0)
        qsort(s->by_name, (size_t)s->count, sizeof *s->by_name, compare_names);
    return check_coverage(s);
}

// ---- Public: reading ----------------------------------------------------------------------------

talc_safetensors *talc_safetensors_open(const char *path)
{
    if (talc_operand_missing("safetensors_open", "path", path))
        return NULL;
    talc_safetensors *s = talc_memory_new(sizeof *s, "safetensors_open");
    if (s == NULL)
        return NULL;
    if (talc_file_open(&s->file, "safetensors_open", path) != TALC_OK) {
        talc_memory_free(s);
        return NULL;
    }
    if (read_header(s) != TALC_OK || read_entries(s) != TALC_OK) {
        talc_safetensors_close(s);
        return NULL;
    }
    return s;
}

void talc_safetensors_close(talc_safetensors *file)
{
    if (file == NULL)
        return;
    talc_file_close(&file->file);
    json_decref(file->header);
    talc_memory_free(file->entries);
    talc_memory_free(file->by_name);
    talc_memory_free(file);
}

int64_t talc_safetensors_count(const talc_safetensors *file)
{
    return file == NULL ? 0 : file->count;
}

static const file_entry *entry_at(const talc_safetensors *file, int64_t index)
{
    return file == NULL || index < 0 || index >= file->count ? NULL : &file->entries[index];
}

const char *talc_safetensors_name(const talc_safetensors *file, int64_t index)
{
    const file_entry *entry = entry_at(file, index);
    return entry == NULL ? NULL : entry->name;
}

int64_t talc_safetensors_find(const talc_safetensors *file, const char *name)
{
    if (file == NULL || name == NULL || file->count == 0)
        return -1;
    const named_index wanted = { .name = name };
    const named_index *found =
        bsearch(&wanted, file->by_name, (size_t)file->count, sizeof *file->by_name, compare_names);
    return found == NULL ? -1 : found->index;
}

talc_dtype talc_safetensors_dtype(const talc_safetensors *file, int64_t index)
{
    const file_entry *entry = entry_at(file, index);
    return entry == NULL ? TALC_DTYPE_COUNT : types[entry->type].dtype;
}

const char *talc_safetensors_dtype_name(const talc_safetensors *file, int64_t index)
{
    const file_entry *entry = entry_at(file, index);
    return entry == NULL ? NULL : types[entry->type].name;
}

talc_dims talc_safetensors_dims(const talc_safetensors *file, int64_t index)
{
    const file_entry *entry = entry_at(file, index);
    return entry == NULL ? TALC_SCALAR : entry->dims;
}

const char *talc_safetensors_metadata(const talc_safetensors *file, const char *key)
{
    if (file == NULL || key == NULL)
        return NULL;
    return json_string_value(json_object_get(json_object_get(file->header, METADATA), key));
}

/* The f32 with the value of an F16 or BF16. */
static float widened(uint32_t half, bool bf16)
{
    const uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 0x1f, rest = half & 0x3ff;
    uint32_t bits = half << 16;
    if (!bf16)
        bits = exponent == 0x1f ? sign | 0x7f800000 | rest << 13
                                : sign | (exponent + 112) << 23 | rest << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    /* A subnormal F16 is so many times 2^-24. */
    const float tiny = (float)rest / 16777216;
    return bf16 || exponent != 0 ? value : sign != 0 ? -tiny : tiny;
}

/* Reads a contiguous f32 tensor of two bytes an element. */
static talc_status read_halves(const talc_file *file, const char *who, int64_t offset, bool bf16,
                               talc_tensor *tensor)
{
    enum { AT_ONCE = TALC_STAGING_BYTES / sizeof(float) };
    if (talc_recording_refuses(who, tensor->device, "read a file"))
        return talc_error_status();
    const int64_t all = talc_numel(tensor);
    const int64_t max = all < AT_ONCE ? all : AT_ONCE;
    float *values = talc_memory_new((size_t)max * (sizeof *values + 2), who);
    if (values == NULL)
        return talc_error_status();
    unsigned char *halves = (unsigned char *)(values + max);
    talc_status status = TALC_OK;
    for (int64_t done = 0; done < all && status == TALC_OK; done += max) {
        const int64_t count = all - done < max ? all - done : max;
        status = talc_file_read(file, who, offset + 2 * done, halves, (size_t)(2 * count));
        if (status != TALC_OK)
            break;
        for (int64_t i = 0; i < count; i++)
            values[i] = widened(halves[2 * i] | (uint32_t)halves[2 * i + 1] << 8, bf16);
        status = tensor->device->interface->upload(tensor->device, (float *)tensor->data + done,
                                                   values, (size_t)count * sizeof *values);
    }
    talc_memory_free(values);
    return status;
}

static talc_status read_elements(const talc_safetensors *file, const char *who,
                                 const file_entry *entry, talc_tensor *tensor)
{
    const int64_t offset = file->data + entry->begin;
    const char *type = types[entry->type].name;
    const bool bf16 = strcmp(type, "BF16") == 0;
    return bf16 || strcmp(type, "F16") == 0
               ? read_halves(&file->file, who, offset, bf16, tensor)
               : talc_file_read_tensor(&file->file, who, offset, true, strcmp(type, "BOOL") == 0,
                                       tensor);
}

static talc_tensor *read_tensor(const char *who, const talc_safetensors *file, int64_t index,
                                talc_device *device)
{
    const file_entry *entry = entry_at(file, index);
    if (entry == NULL) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: tensor %" PRId64 " of a file of %" PRId64, who, index,
                  file->count);
        return NULL;
    }
    if (types[entry->type].dtype == TALC_DTYPE_COUNT) {
        talc_fail(TALC_UNSUPPORTED, "%s: tensor '%s' is %s, which talc does not read", who,
                  TALC_SHOWN(entry->name), types[entry->type].name);
        return NULL;
    }
    talc_tensor *tensor = talc_tensor_new(who, device, types[entry->type].dtype, entry->dims);
    if (tensor != NULL && read_elements(file, who, entry, tensor) != TALC_OK) {
        talc_release(tensor);
        tensor = NULL;
    }
    return tensor;
}

talc_tensor *talc_safetensors_read(const talc_safetensors *file, int64_t index, talc_device *device)
{
    if (talc_operand_missing("safetensors_read", "file", file))
        return NULL;
    return read_tensor("safetensors_read", file, index, device);
}

bool talc_safetensors_read_into(const talc_safetensors *file, int64_t index, talc_tensor *tensor)
{
    static const char *const who = "safetensors_read_into";
    if (talc_operand_missing(who, "file", file) || talc_operand_missing(who, "tensor", tensor))
        return false;
    const file_entry *entry = entry_at(file, index);
    char want[TALC_DIMS_TEXT], have[TALC_DIMS_TEXT];
    if (entry != NULL && !talc_shape_equal(entry->dims, talc_dims_of(tensor))) {
        talc_fail(TALC_BAD_SHAPE, "%s: '%s' is %s in the file, the tensor %s", who,
                  TALC_SHOWN(entry->name), talc_dims_text(entry->dims, want),
                  talc_dims_text(talc_dims_of(tensor), have));
        return false;
    }
    if (entry != NULL && types[entry->type].dtype != TALC_DTYPE_COUNT &&
        types[entry->type].dtype != tensor->dtype) {
        talc_fail(TALC_BAD_DTYPE, "%s: '%s' is %s in the file, the tensor %s", who,
                  TALC_SHOWN(entry->name), types[entry->type].name, talc_dtype_name(tensor->dtype));
        return false;
    }
    talc_tensor *read = read_tensor(who, file, index, tensor->device);
    bool ok = read != NULL && talc_copy_for(who, tensor, read);
    talc_release(read);
    return ok;
}
