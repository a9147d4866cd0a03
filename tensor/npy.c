#include "tensor/npy.h"

#include "tensor/file.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    MAGIC_BYTES = 6,
    VERSION_1_PREFIX = 10, /* magic, two bytes of version, two of header length */
    VERSION_2_PREFIX = 12, /* four of header length */
    MAX_HEADER = 64 << 10,
    DATA_ALIGNMENT = 64,
    STRING_TEXT = 64,
};

static const char MAGIC[MAGIC_BYTES] = { '\x93', 'N', 'U', 'M', 'P', 'Y' };

static const struct {
    const char *name;
    talc_dtype dtype;
} types[] = {
    // clang-format off
    { "f4", TALC_F32 }, { "f8", TALC_F64 }, { "i8", TALC_I64 }, { "i4", TALC_I32 }, { "u1", TALC_U8 }, { "b1", TALC_U8 },
    // clang-format on
};

/* The header's dictionary, as far as talc goes into it. */
typedef struct npy_header {
    talc_dtype dtype;
    bool little_endian;
    bool booleans;
    bool fortran_order;
    talc_dims dims;
} npy_header;

// ---- The dictionary, a Python literal -----------------------------------------------------------

typedef struct parser {
    const char *path;
    const char *text; /* ends with a NUL */
    size_t at;
    int version;
} parser;

static talc_status syntax_error(const parser *p, const char *expected)
{
    return talc_fail(TALC_BAD_FORMAT, "npy_load: '%s': %s expected at byte %zu of the header: %s",
                     TALC_SHOWN(p->path), expected, p->at, TALC_SHOWN(p->text + p->at));
}

/* The next character that is no space; numpy does not read every carriage return. */
static char peek(parser *p)
{
    while (p->text[p->at] == ' ' || p->text[p->at] == '\t' || p->text[p->at] == '\n')
        p->at++;
    return p->text[p->at];
}

/* Passes one character if it comes next. */
static bool take(parser *p, char c)
{
    if (c == '\0' || peek(p) != c)
        return false;
    p->at++;
    return true;
}

static bool take_word(parser *p, const char *word)
{
    (void)peek(p);
    size_t length = strlen(word);
    if (strncmp(p->text + p->at, word, length) != 0)
        return false;
    p->at += length;
    return true;
}

/* 'text' or "text", without escapes; longer ones are no key or type of ours. */
static talc_status parse_string(parser *p, char text[STRING_TEXT])
{
    char quote = peek(p);
    if (quote != '\'' && quote != '"')
        return syntax_error(p, "a string");
    size_t start = p->at + 1, length = 0;
    while (p->text[start + length] != quote && p->text[start + length] != '\\' &&
           p->text[start + length] != '\0')
        length++;
    if (p->text[start + length] != quote || length >= STRING_TEXT)
        return syntax_error(p, "a string of at most 63 plain characters");
    memcpy(text, p->text + start, length);
    text[length] = '\0';
    p->at = start + length + 1;
    return TALC_OK;
}

/* A number from 0 to 2^63-1, with the L that Python 2 wrote, whose files have version 1 or 2.
 * Leading zeros are not allowed. */
static talc_status parse_extent(parser *p, int64_t *extent)
{
    char c = peek(p);
    if (c < '0' || c > '9')
        return syntax_error(p, "an extent");
    if (c == '0' && p->text[p->at + 1] >= '0' && p->text[p->at + 1] <= '9')
        return syntax_error(p, "an extent without leading zeros");
    int64_t value = 0;
    for (; p->text[p->at] >= '0' && p->text[p->at] <= '9'; p->at++)
        if (!talc_multiply(value, 10, &value) ||
            !talc_add_checked(value, p->text[p->at] - '0', &value))
            return syntax_error(p, "an extent below 2^63");
    if (p->text[p->at] == 'L' && p->version < 3)
        p->at++;
    *extent = value;
    return TALC_OK;
}

/* (), (3,), (2, 3) or (2, 3,). */
static talc_status parse_shape(parser *p, talc_dims *dims)
{
    if (!take(p, '('))
        return syntax_error(p, "a tuple");
    bool comma = true;
    while (!take(p, ')')) {
        if (!comma)
            return syntax_error(p, "',' or ')'");
        if (dims->rank == TALC_MAX_RANK)
            return talc_fail(TALC_BAD_FORMAT, "npy_load: '%s': a rank above %d",
                             TALC_SHOWN(p->path), TALC_MAX_RANK);
        if (parse_extent(p, &dims->dim[dims->rank]) != TALC_OK)
            return talc_error_status();
        dims->rank++;
        comma = take(p, ',');
    }
    if (dims->rank == 1 && !comma)
        return syntax_error(p, "',' after the only extent of the tuple");
    return TALC_OK;
}

static talc_status parse_type(parser *p, npy_header *header)
{
    char text[STRING_TEXT] = "";
    if (peek(p) == '[' || peek(p) == '(')
        return talc_fail(TALC_UNSUPPORTED,
                         "npy_load: '%s' has a structured dtype; talc reads f4, f8, i8, i4, "
                         "u1 and b1",
                         TALC_SHOWN(p->path));
    if (parse_string(p, text) != TALC_OK)
        return talc_error_status();
    bool ordered = text[0] != '\0' && strchr("<>=|", text[0]) != NULL;
    header->little_endian = text[0] == '<' || (text[0] != '>' && talc_host_little_endian());
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(text + ordered, types[i].name) == 0) {
            header->dtype = types[i].dtype;
            header->booleans = strcmp(types[i].name, "b1") == 0;
            return TALC_OK;
        }
    return talc_fail(TALC_UNSUPPORTED,
                     "npy_load: '%s' holds elements of type '%s'; talc reads f4, f8, i8, i4, u1 "
                     "and b1",
                     TALC_SHOWN(p->path), TALC_SHOWN(text));
}

static talc_status parse_boolean(parser *p, bool *value)
{
    *value = take_word(p, "True");
    return *value || take_word(p, "False") ? TALC_OK : syntax_error(p, "True or False");
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and white space; each key once, in
 * any order. */
static talc_status parse_header(parser *p, npy_header *header)
{
    enum { DESCR = 1, FORTRAN_ORDER = 2, SHAPE = 4, ALL = 7 };
    unsigned seen = 0;
    if (p->text[0] != '{' || !take(p, '{')) /* Python knows no dictionary behind an indent */
        return syntax_error(p, "'{'");
    bool comma = true;
    while (!take(p, '}')) {
        char key[STRING_TEXT];
        if (!comma)
            return syntax_error(p, "',' or '}'");
        if (parse_string(p, key) != TALC_OK)
            return talc_error_status();
        unsigned known = strcmp(key, "descr") == 0           ? DESCR
                         : strcmp(key, "fortran_order") == 0 ? FORTRAN_ORDER
                         : strcmp(key, "shape") == 0         ? SHAPE
                                                             : 0;
        if (known == 0 || (seen & known) != 0)
            return talc_fail(TALC_BAD_FORMAT, "npy_load: '%s': the header has %s key '%s'",
                             TALC_SHOWN(p->path), known == 0 ? "the unknown" : "twice the",
                             TALC_SHOWN(key));
        seen |= known;
        if (!take(p, ':'))
            return syntax_error(p, "':'");
        talc_status status = known == DESCR           ? parse_type(p, header)
                             : known == FORTRAN_ORDER ? parse_boolean(p, &header->fortran_order)
                                                      : parse_shape(p, &header->dims);
        if (status != TALC_OK)
            return status;
        comma = take(p, ',');
    }
    if (peek(p) != '\0')
        return syntax_error(p, "the end");
    if (seen != ALL)
        return talc_fail(TALC_BAD_FORMAT,
                         "npy_load: '%s': the header lacks 'descr', 'fortran_order' or 'shape'",
                         TALC_SHOWN(p->path));
    return TALC_OK;
}

// ---- Reading ------------------------------------------------------------------------------------

/* The header's version and place: its length, and where the elements start. */
static talc_status read_prefix(const talc_file *file, int *version, size_t *length, int64_t *data)
{
    unsigned char prefix[VERSION_2_PREFIX] = { 0 };
    size_t available = file->size < VERSION_2_PREFIX ? (size_t)file->size : VERSION_2_PREFIX;
    if (talc_file_read(file, "npy_load", 0, prefix, available) != TALC_OK)
        return talc_error_status();
    if (available < VERSION_1_PREFIX || memcmp(prefix, MAGIC, MAGIC_BYTES) != 0)
        return talc_fail(TALC_BAD_FORMAT, "npy_load: '%s' is not a .npy file",
                         TALC_SHOWN(file->path));
    if (prefix[6] < 1 || prefix[6] > 3 || prefix[7] != 0)
        return talc_fail(TALC_BAD_FORMAT,
                         "npy_load: '%s' is of version %d.%d, talc reads 1.0 to 3.0",
                         TALC_SHOWN(file->path), prefix[6], prefix[7]);
    *version = prefix[6];
    *length = prefix[8] | (size_t)prefix[9] << 8;
    *data = VERSION_1_PREFIX;
    if (prefix[6] > 1) {
        *length |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
        *data = VERSION_2_PREFIX;
    }
    *data += (int64_t)*length;
    if (*data > file->size)
        return talc_fail(TALC_BAD_FORMAT,
                         "npy_load: '%s': a header of %zu byte%s in a file of %" PRId64,
                         TALC_SHOWN(file->path), *length, TALC_PLURAL(*length), file->size);
    if (*length > MAX_HEADER)
        return talc_fail(TALC_BAD_FORMAT,
                         "npy_load: '%s': a header of %zu bytes, talc reads up to %d",
                         TALC_SHOWN(file->path), *length, MAX_HEADER);
    return TALC_OK;
}

static talc_status read_header(const talc_file *file, npy_header *header, int64_t *data)
{
    parser p = { .path = file->path };
    size_t length = 0;
    if (read_prefix(file, &p.version, &length, data) != TALC_OK)
        return talc_error_status();
    char *text = talc_memory_new(length + 1, "npy_load");
    if (text == NULL)
        return talc_error_status();
    talc_status status = talc_file_read(file, "npy_load", *data - (int64_t)length, text, length);
    if (status == TALC_OK && strlen(text) != length)
        status = talc_fail(TALC_BAD_FORMAT, "npy_load: '%s': the header has a NUL byte",
                           TALC_SHOWN(file->path));
    p.text = text;
    if (status == TALC_OK)
        status = parse_header(&p, header);
    talc_memory_free(text);
    return status;
}

static talc_status check_size(const talc_file *file, const npy_header *header, int64_t data)
{
    int64_t numel;
    if (talc_shape_check("npy_load", header->dtype, header->dims, &numel) != TALC_OK)
        return talc_error_status();
    int64_t bytes = numel * (int64_t)talc_dtype_size(header->dtype);
    if (bytes == file->size - data)
        return TALC_OK;
    char text[TALC_DIMS_TEXT];
    return talc_fail(TALC_BAD_FORMAT,
                     "npy_load: '%s': %s of %s needs %" PRId64 " byte%s, the file has %" PRId64,
                     TALC_SHOWN(file->path), talc_dims_text(header->dims, text),
                     talc_dtype_name(header->dtype), bytes, TALC_PLURAL(bytes), file->size - data);
}

/* The elements in the order of the file. */
static talc_tensor *read_elements(const talc_file *file, const npy_header *header, int64_t data,
                                  talc_dims dims, talc_device *device)
{
    talc_tensor *tensor = talc_tensor_new("npy_load", device, header->dtype, dims);
    if (tensor != NULL && talc_file_read_tensor(file, "npy_load", data, header->little_endian,
                                                header->booleans, tensor) != TALC_OK) {
        talc_release(tensor);
        tensor = NULL;
    }
    return tensor;
}

/* In Fortran's order the first dimension changes fastest: the elements of the reversed shape,
 * row-major. */
static talc_tensor *read_fortran(const talc_file *file, const npy_header *header, int64_t data,
                                 talc_device *device)
{
    const int rank = header->dims.rank;
    talc_dims reversed = { .rank = rank }, axes = { .rank = rank };
    for (int i = 0; i < rank; i++) {
        reversed.dim[i] = header->dims.dim[rank - 1 - i];
        axes.dim[i] = rank - 1 - i;
    }
    talc_tensor *stored = read_elements(file, header, data, reversed, device);
    talc_tensor *view = stored == NULL ? NULL : talc_permute(stored, axes);
    talc_tensor *result = view == NULL ? NULL : talc_contiguous_for("npy_load", view);
    talc_release(view);
    talc_release(stored);
    return result;
}

talc_tensor *talc_npy_load(talc_device *device, const char *path)
{
    if (talc_operand_missing("npy_load", "device", device) ||
        talc_operand_missing("npy_load", "path", path))
        return NULL;
    talc_file file;
    if (talc_file_open(&file, "npy_load", path) != TALC_OK)
        return NULL;
    npy_header header = { 0 };
    int64_t data = 0;
    talc_tensor *tensor = NULL;
    if (read_header(&file, &header, &data) == TALC_OK &&
        check_size(&file, &header, data) == TALC_OK)
        tensor = header.fortran_order ? read_fortran(&file, &header, data, device)
                                      : read_elements(&file, &header, data, header.dims, device);
    talc_file_close(&file);
    return tensor;
}

// ---- Writing ------------------------------------------------------------------------------------

/* The bytes in front of the elements; returns how many, a multiple of 64. */
static size_t header_bytes(const talc_tensor *tensor, char bytes[4 * DATA_ALIGNMENT + 1])
{
    static const char *const codes[] = { [TALC_F32] = "<f4",
                                         [TALC_F64] = "<f8",
                                         [TALC_I64] = "<i8",
                                         [TALC_I32] = "<i4",
                                         [TALC_U8] = "|u1" };
    enum { SPACE = 4 * DATA_ALIGNMENT + 1 };
    memcpy(bytes, MAGIC, MAGIC_BYTES);
    size_t used = VERSION_1_PREFIX;
    used += (size_t)snprintf(bytes + used, SPACE - used,
                             "{'descr': '%s', 'fortran_order': False, 'shape': (",
                             codes[tensor->dtype]);
    for (int i = 0; i < tensor->rank; i++)
        used += (size_t)snprintf(bytes + used, SPACE - used, i == 0 ? "%" PRId64 : ", %" PRId64,
                                 tensor->dims[i]);
    used += (size_t)snprintf(bytes + used, SPACE - used, tensor->rank == 1 ? ",), }" : "), }");
    size_t total = (used + 1 + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
    memset(bytes + used, ' ', total - used);
    bytes[total - 1] = '\n';
    bytes[6] = 1;
    bytes[7] = 0;
    bytes[8] = (char)((total - VERSION_1_PREFIX) & 0xff);
    bytes[9] = (char)((total - VERSION_1_PREFIX) >> 8);
    return total;
}

bool talc_npy_save(const char *path, const talc_tensor *tensor)
{
    if (talc_operand_missing("npy_save", "path", path) ||
        talc_operand_missing("npy_save", "tensor", tensor))
        return false;
    char bytes[4 * DATA_ALIGNMENT + 1];
    size_t length = header_bytes(tensor, bytes);
    talc_file_writer writer;
    if (talc_file_create(&writer, "npy_save", path) != TALC_OK)
        return false;
    if (talc_file_write(&writer, "npy_save", bytes, length) != TALC_OK ||
        talc_file_write_tensor(&writer, "npy_save", tensor) != TALC_OK) {
        talc_file_abandon(&writer);
        return false;
    }
    return talc_file_commit(&writer, "npy_save") == TALC_OK;
}
