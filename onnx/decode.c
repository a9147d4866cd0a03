#include "onnx/onnx.pb.h"

#include <inttypes.h>
#include <pb_decode.h>
#include <stdalign.h>
#include <string.h>

enum { BUFFER = 1 << 14, FREE_BYTES = 1 << 20, BYTES_PER_BYTE = 64 };

typedef struct decoder {
    const talc_file *file;
    talc_onnx_arena *kept, *decoded;
    int64_t position;        /* of the next byte */
    int64_t buffered;        /* the position of the first byte of the buffer */
    size_t in_buffer;        /* bytes */
    const char *fault;       /* what is wrong with the file; NULL: nothing, or it was raised */
    size_t delivered, asked; /* bytes that were read, not passed over; bytes of memory */
    unsigned char buffer[BUFFER];
} decoder;

/* A message and whose it is: for a number that is not packed, nanopb calls with another stream. */
typedef struct owned_message {
    decoder *decoder;
    alignas(max_align_t) unsigned char message[];
} owned_message;

// ---- The stream ---------------------------------------------------------------------------------

static bool deliver(pb_istream_t *stream, pb_byte_t *to, size_t count)
{
    decoder *d = stream->state;
    d->delivered += count;
    while (count > 0) {
        const int64_t ahead = d->position - d->buffered;
        if (ahead < 0 || ahead >= (int64_t)d->in_buffer) {
            const int64_t left = d->file->size - d->position;
            d->in_buffer = left < BUFFER ? (size_t)left : BUFFER;
            d->buffered = d->position;
            if (talc_file_read(d->file, "onnx_load", d->position, d->buffer, d->in_buffer) !=
                TALC_OK) {
                d->in_buffer = 0;
                return false;
            }
            continue;
        }
        const size_t ready = d->in_buffer - (size_t)ahead, taken = ready < count ? ready : count;
        memcpy(to, d->buffer + ahead, taken);
        to += taken;
        count -= taken;
        d->position += (int64_t)taken;
    }
    return true;
}

// ---- Fields -------------------------------------------------------------------------------------

/* Adds memory for `more` items to a list. What the file holds bounds it: `left` bytes are there. */
static bool reserve(decoder *d, talc_onnx_arena *arena, talc_onnx_field *field, size_t size,
                    size_t more, size_t left)
{
    const size_t needed = field->count + more;
    if (needed <= field->capacity)
        return true;
    const size_t doubled = 2 * field->capacity, capacity = needed > doubled ? needed : doubled;
    d->asked += (capacity - field->capacity) * size;
    if (d->asked > FREE_BYTES + BYTES_PER_BYTE * (d->delivered + left)) {
        talc_fail(TALC_BAD_FORMAT,
                  "onnx_load: '%s': byte %" PRId64 ": more empty parts than a model has",
                  TALC_SHOWN(d->file->path), d->position);
        return false;
    }
    void *items = talc_onnx_take_more(arena, field->items, field->capacity * size, capacity * size);
    if (items == NULL)
        return false;
    field->items = items;
    field->capacity = capacity;
    return true;
}

static char *read_text(decoder *d, pb_istream_t *stream)
{
    talc_onnx_field text = { .count = 0 };
    const size_t length = stream->bytes_left;
    if (!reserve(d, d->kept, &text, 1, length + 1, length) || !pb_read(stream, text.items, length))
        return NULL;
    if (memchr(text.items, 0, length) != NULL) {
        talc_fail(TALC_BAD_FORMAT, "onnx_load: '%s': byte %" PRId64 ": a text with a NUL byte",
                  TALC_SHOWN(d->file->path), d->position);
        return NULL;
    }
    return text.items;
}

static bool wrong_type(pb_istream_t *stream)
{
    stream->errmsg = "wrong wire type";
    return false;
}

static bool read_numbers(decoder *d, pb_istream_t *stream, pb_type_t type, bool packed,
                         talc_onnx_field *field)
{
    const bool fixed32 = type == PB_LTYPE_FIXED32, fixed64 = type == PB_LTYPE_FIXED64;
    const size_t width = fixed32 ? 4 : fixed64 ? 8 : 1, size = fixed32 ? 4 : 8;
    if (packed ? stream->bytes_left % width != 0 : width > 1 && stream->bytes_left != width)
        return wrong_type(stream);
    const size_t more = packed ? stream->bytes_left / width : 1;
    if (!reserve(d, d->kept, field, size, more, packed ? stream->bytes_left : 0))
        return false;
    while (stream->bytes_left > 0) {
        void *to = (char *)field->items + field->count * size;
        if (!(fixed32   ? pb_decode_fixed32(stream, to)
              : fixed64 ? pb_decode_fixed64(stream, to)
                        : pb_decode_varint(stream, to)))
            return false;
        field->count++;
    }
    /* A varint may have more bytes than one: what is left over goes to what comes next. */
    const size_t over = packed && width == 1 ? field->capacity - field->count : 0;
    if (over > 0) {
        (void)talc_onnx_take_more(d->kept, field->items, field->capacity * size,
                                  field->count * size);
        d->asked -= over * size;
        field->capacity -= over;
    }
    return true;
}

#define MESSAGES(X)                                                                                \
    X(Model)                                                                                       \
    X(Opset)                                                                                       \
    X(Function)                                                                                    \
    X(Graph)                                                                                       \
    X(Node)                                                                                        \
    X(Attribute) X(Tensor) X(SparseTensor) X(Named) X(Entry) X(ValueInfo) X(Type) X(TensorType)    \
        X(Shape) X(Dim)

static size_t size_of(const pb_msgdesc_t *message)
{
#define MESSAGE_SIZE(name) { &talc_proto_##name##_msg, sizeof(talc_proto_##name) },
    static const struct {
        const pb_msgdesc_t *message;
        size_t size;
    } sizes[] = { MESSAGES(MESSAGE_SIZE) };
#undef MESSAGE_SIZE
    size_t i = 0;
    while (sizes[i].message != message)
        i++;
    return sizes[i].size;
}

static void *read_message(decoder *d, pb_istream_t *stream, const pb_msgdesc_t *description)
{
    talc_onnx_field memory = { .count = 0 };
    const size_t size = sizeof(owned_message) + size_of(description);
    if (!reserve(d, d->decoded, &memory, 1, size, stream->bytes_left))
        return NULL;
    owned_message *owned = memory.items;
    owned->decoder = d;
    return pb_decode_ex(stream, description, owned->message, PB_DECODE_NOINIT) ? owned->message
                                                                               : NULL;
}

static bool read_field(decoder *d, pb_istream_t *stream, const pb_field_t *at)
{
    talc_onnx_field *field = at->pData;
    const pb_type_t type = PB_LTYPE(at->type);
    const bool delimited = stream->callback == deliver;
    if (type <= PB_LTYPE_LAST_PACKABLE)
        return read_numbers(d, stream, type, delimited, field);
    if (!delimited)
        return wrong_type(stream);
    if (type == PB_LTYPE_BYTES) {
        field->offset = d->position;
        field->count = stream->bytes_left;
        d->position += (int64_t)stream->bytes_left;
        stream->bytes_left = 0;
        return true;
    }
    const bool is_text = type == PB_LTYPE_STRING;
    void *item = is_text ? (void *)read_text(d, stream) : read_message(d, stream, at->submsg_desc);
    if (item == NULL)
        return false;
    if (PB_HTYPE(at->type) != PB_HTYPE_REPEATED) {
        field->text = item;
        return true;
    }
    if (!reserve(d, is_text ? d->kept : d->decoded, field, sizeof item, 1, 0))
        return false;
    ((void **)field->items)[field->count++] = item;
    return true;
}

/* What nanopb calls for each field of onnx.proto but single numbers, each time the file has it. It
 * knows of a failure no more than that there was one. */
bool talc_onnx_read_field(pb_istream_t *stream, pb_ostream_t *out, const pb_field_t *at)
{
    (void)out;
    decoder *d =
        ((owned_message *)((char *)at->message - offsetof(owned_message, message)))->decoder;
    const bool read = read_field(d, stream, at);
    if (!read && d->fault == NULL)
        d->fault = PB_GET_ERROR(stream);
    return read;
}

void *talc_onnx_decode(const talc_file *file, talc_onnx_arena *kept, talc_onnx_arena *decoded)
{
    decoder d = { .file = file, .kept = kept, .decoded = decoded };
    pb_istream_t stream = { .callback = deliver, .state = &d, .bytes_left = (size_t)file->size };
    void *model = read_message(&d, &stream, &talc_proto_Model_msg);
    if (model == NULL && !talc_failed())
        talc_fail(
            TALC_BAD_FORMAT, "onnx_load: '%s' is no ONNX file, or damaged: byte %" PRId64 ": %s",
            TALC_SHOWN(file->path), d.position, d.fault != NULL ? d.fault : PB_GET_ERROR(&stream));
    return model;
}
