#include "nn/data/jpeg.h"

#include "nn/data/exif.h"
#include "tensor/memory.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum { BUFFER = 16384, MAX_MARKER = 65535, MAX_SCANS = 500 };

/* What libjpeg's functions share; it stands outside those that a failure leaves, whose own
 * variables are lost then. */
typedef struct reading {
    const char *who;
    const talc_file *file;
    int64_t at; /* in the file, of what follows the buffer */
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    struct jpeg_memory_mgr memory; /* libjpeg's own functions, which those here call */
    jmp_buf failed;
    int orientation; /* 0: no EXIF was read yet */
    uint8_t *row, *marker;
    uint8_t buffer[BUFFER];
} reading;

static reading *reading_of(j_common_ptr jpeg)
{
    return jpeg->client_data;
}

// ---- Errors -------------------------------------------------------------------------------------

static _Noreturn void fail(reading *r)
{
    longjmp(r->failed, 1);
}

/* A failure that stands, of memory or of the file, stays. */
static void on_error(j_common_ptr jpeg)
{
    reading *r = reading_of(jpeg);
    char text[JMSG_LENGTH_MAX];
    r->errors.format_message(jpeg, text);
    if (r->errors.msg_code == JERR_OUT_OF_MEMORY)
        talc_fail(TALC_NO_MEMORY, "%s: out of host memory for '%s'", r->who,
                  TALC_SHOWN(r->file->path));
    talc_fail(TALC_BAD_FORMAT, "%s: '%s': %s", r->who, TALC_SHOWN(r->file->path), TALC_SHOWN(text));
    fail(r);
}

/* Levels from 0 on are of tracing. Where a warning says that pixels will be guessed, it is an
 * error; these leave them right. */
static void on_message(j_common_ptr jpeg, int level)
{
    static const int harmless[] = { JWRN_EXTRANEOUS_DATA, JWRN_ADOBE_XFORM, JWRN_JFIF_MAJOR,
                                    JWRN_NOT_SEQUENTIAL, JWRN_TOO_MUCH_DATA };
    if (level >= 0)
        return;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (jpeg->err->msg_code == harmless[i])
            return;
    on_error(jpeg);
}

static void say_nothing(j_common_ptr jpeg)
{
    (void)jpeg;
}

// ---- Memory -------------------------------------------------------------------------------------

static void ask(j_common_ptr jpeg, size_t bytes)
{
    if (!talc_allocation_allowed(bytes))
        ERREXIT1(jpeg, JERR_OUT_OF_MEMORY, 0);
}

static void *alloc_small(j_common_ptr jpeg, int pool, size_t bytes)
{
    ask(jpeg, bytes);
    return reading_of(jpeg)->memory.alloc_small(jpeg, pool, bytes);
}

static void *alloc_large(j_common_ptr jpeg, int pool, size_t bytes)
{
    ask(jpeg, bytes);
    return reading_of(jpeg)->memory.alloc_large(jpeg, pool, bytes);
}

static JSAMPARRAY alloc_sarray(j_common_ptr jpeg, int pool, JDIMENSION samples, JDIMENSION rows)
{
    ask(jpeg, (size_t)samples * rows);
    return reading_of(jpeg)->memory.alloc_sarray(jpeg, pool, samples, rows);
}

static JBLOCKARRAY alloc_barray(j_common_ptr jpeg, int pool, JDIMENSION blocks, JDIMENSION rows)
{
    ask(jpeg, (size_t)blocks * rows * sizeof(JBLOCK));
    return reading_of(jpeg)->memory.alloc_barray(jpeg, pool, blocks, rows);
}

/* The coefficients of a progressive file's whole image. */
static void realize_virt_arrays(j_common_ptr jpeg)
{
    const struct jpeg_decompress_struct *d = &reading_of(jpeg)->jpeg;
    ask(jpeg, (size_t)d->image_width * d->image_height);
    reading_of(jpeg)->memory.realize_virt_arrays(jpeg);
}

/* The tests can make any of these fail, as every allocation of talc. */
static void watch_memory(reading *r)
{
    struct jpeg_memory_mgr *mem = r->jpeg.mem;
    r->memory = *mem;
    mem->alloc_small = alloc_small;
    mem->alloc_large = alloc_large;
    mem->alloc_sarray = alloc_sarray;
    mem->alloc_barray = alloc_barray;
    mem->realize_virt_arrays = realize_virt_arrays;
}

// ---- The file -----------------------------------------------------------------------------------

static void do_nothing(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

static void ends_early(reading *r)
{
    talc_fail(TALC_BAD_FORMAT, "%s: '%s' ends early: it has %" PRId64 " byte%s", r->who,
              TALC_SHOWN(r->file->path), r->file->size, TALC_PLURAL(r->file->size));
    fail(r);
}

static boolean fill_input_buffer(j_decompress_ptr jpeg)
{
    reading *r = jpeg->client_data;
    const int64_t left = r->file->size - r->at;
    const size_t count = left < BUFFER ? (size_t)left : BUFFER;
    if (count == 0)
        ends_early(r);
    if (talc_file_read(r->file, r->who, r->at, r->buffer, count) != TALC_OK)
        fail(r);
    r->at += (int64_t)count;
    r->source.next_input_byte = r->buffer;
    r->source.bytes_in_buffer = count;
    return TRUE;
}

static void skip_input_data(j_decompress_ptr jpeg, long count)
{
    reading *r = jpeg->client_data;
    const size_t held = r->source.bytes_in_buffer;
    if (count <= 0)
        return;
    if ((size_t)count <= held) {
        r->source.next_input_byte += count;
        r->source.bytes_in_buffer -= (size_t)count;
        return;
    }
    const int64_t beyond = count - (int64_t)held;
    if (beyond > r->file->size - r->at)
        ends_early(r);
    r->at += beyond;
    r->source.bytes_in_buffer = 0;
}

static uint8_t next_byte(j_decompress_ptr jpeg)
{
    struct jpeg_source_mgr *source = jpeg->src;
    if (source->bytes_in_buffer == 0)
        (void)source->fill_input_buffer(jpeg);
    source->bytes_in_buffer--;
    return *source->next_input_byte++;
}

/* APP1: EXIF where it begins so, of which the first counts; XMP too comes in such. */
static boolean read_app1(j_decompress_ptr jpeg)
{
    static const uint8_t exif[] = { 'E', 'x', 'i', 'f', 0, 0 };
    reading *r = jpeg->client_data;
    const size_t high = next_byte(jpeg), length = high << 8 | next_byte(jpeg);
    if (length < 2)
        ERREXIT(jpeg, JERR_BAD_LENGTH);
    const size_t count = length - 2;
    if (r->orientation != 0 || count < sizeof exif) {
        skip_input_data(jpeg, (long)count);
        return TRUE;
    }
    for (size_t i = 0; i < count; i++)
        r->marker[i] = next_byte(jpeg);
    if (memcmp(r->marker, exif, sizeof exif) == 0)
        r->orientation = talc_exif_orientation(r->marker + sizeof exif, count - sizeof exif);
    return TRUE;
}

/* A scan of few bytes costs as much work as one of many. */
static void count_scans(j_common_ptr jpeg)
{
    reading *r = reading_of(jpeg);
    if (r->jpeg.input_scan_number > MAX_SCANS) {
        talc_fail(TALC_BAD_FORMAT, "%s: '%s' has more than %d scans", r->who,
                  TALC_SHOWN(r->file->path), MAX_SCANS);
        fail(r);
    }
}

// ---- Reading ------------------------------------------------------------------------------------

/* Whether so few bytes can be such an image: each block of 8x8 samples takes a bit at least, and of
 * two components that share out the largest factors of both directions, which are 4, each has a
 * block for 256 pixels. Arithmetic coding, which is rare, has no such bound. */
static void check_size(reading *r)
{
    enum { MAX_PIXELS = 8 * 128 }; /* of a byte */
    const int64_t height = r->jpeg.image_height, width = r->jpeg.image_width;
    if (r->jpeg.arith_code || height * width / MAX_PIXELS <= r->file->size)
        return;
    talc_fail(TALC_BAD_FORMAT,
              "%s: '%s' says %" PRId64 "x%" PRId64 ", which its %" PRId64 " bytes cannot hold",
              r->who, TALC_SHOWN(r->file->path), height, width, r->file->size);
    fail(r);
}

static void read_header(reading *r, talc_image_file *image)
{
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    (void)jpeg_read_header(jpeg, TRUE);
    if (jpeg->num_components == 2 || jpeg->num_components > 4) {
        talc_fail(TALC_BAD_FORMAT, "%s: '%s' has %d components, images have 1, 3 or 4", r->who,
                  TALC_SHOWN(r->file->path), jpeg->num_components);
        fail(r);
    }
    check_size(r);
    talc_image_file_describe(image, jpeg->image_height, jpeg->image_width, jpeg->num_components > 1,
                             r->orientation == 0 ? 1 : r->orientation);
}

/* Ink of 4 colours as light of 3, in place. Adobe's programs, which leave a marker, store what is
 * left of the light. */
static void convert_inks(uint8_t *pixels, int64_t count, bool light)
{
    for (int64_t i = 0; i < count; i++) {
        const int flip = light ? 0 : 255, key = pixels[4 * i + 3] ^ flip;
        for (int64_t c = 0; c < 3; c++)
            pixels[3 * i + c] = (uint8_t)(((pixels[4 * i + c] ^ flip) * key + 127) / 255);
    }
}

/* From the end, so that none is overwritten before it is read. */
static void widen_grey(uint8_t *pixels, int64_t count)
{
    for (int64_t i = count - 1; i >= 0; i--)
        memset(pixels + 3 * i, pixels[i], 3);
}

static void read_rows(reading *r, int channels, talc_image_row *row, void *context)
{
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    const int64_t W = jpeg->image_width;
    jpeg->out_color_space = jpeg->num_components == 1   ? JCS_GRAYSCALE
                            : jpeg->num_components == 3 ? JCS_RGB
                                                        : JCS_CMYK;
    (void)jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        const int64_t h = jpeg->output_scanline;
        (void)jpeg_read_scanlines(jpeg, &r->row, 1);
        if (jpeg->num_components == 4)
            convert_inks(r->row, W, jpeg->saw_Adobe_marker);
        else if (jpeg->num_components == 1 && channels == 3)
            widen_grey(r->row, W);
        row(context, h, 0, 1, W, r->row);
    }
    (void)jpeg_finish_decompress(jpeg);
}

static bool begin(reading *r)
{
    r->marker = talc_memory_new(MAX_MARKER, r->who);
    if (r->marker == NULL)
        return false;
    r->jpeg.err = jpeg_std_error(&r->errors);
    r->errors.error_exit = on_error;
    r->errors.emit_message = on_message;
    r->errors.output_message = say_nothing;
    r->jpeg.client_data = r;
    return true;
}

/* Between setjmp and here no variable changes that is read after a failure. */
static void start(reading *r)
{
    if (!talc_allocation_allowed(sizeof r->memory))
        ERREXIT1(&r->jpeg, JERR_OUT_OF_MEMORY, 0);
    jpeg_create_decompress(&r->jpeg);
    watch_memory(r);
    r->source = (struct jpeg_source_mgr){ .init_source = do_nothing,
                                          .fill_input_buffer = fill_input_buffer,
                                          .skip_input_data = skip_input_data,
                                          .resync_to_restart = jpeg_resync_to_restart,
                                          .term_source = do_nothing };
    r->jpeg.src = &r->source;
    r->progress.progress_monitor = count_scans;
    r->jpeg.progress = &r->progress;
    jpeg_set_marker_processor(&r->jpeg, JPEG_APP0 + 1, read_app1);
}

/* Both below: the header, and where `row` is given the pixels. */
static void work(reading *r, const talc_image_file *image, talc_image_file *now, int channels,
                 talc_image_row *row, void *context)
{
    if (setjmp(r->failed) != 0)
        return;
    start(r);
    read_header(r, now);
    if (row == NULL || talc_image_file_same(r->who, r->file->path, image, now) != TALC_OK)
        return;
    const int samples = r->jpeg.num_components > channels ? r->jpeg.num_components : channels;
    r->row = talc_memory_new((size_t)r->jpeg.image_width * (size_t)samples, r->who);
    if (r->row != NULL)
        read_rows(r, channels, row, context);
}

static talc_status run(const char *who, const talc_file *file, const talc_image_file *image,
                       talc_image_file *now, int channels, talc_image_row *row, void *context)
{
    reading *r = talc_memory_new(sizeof *r, who);
    if (r == NULL)
        return talc_error_status();
    r->who = who;
    r->file = file;
    if (begin(r))
        work(r, image, now, channels, row, context);
    jpeg_destroy_decompress(&r->jpeg);
    talc_memory_free(r->row);
    talc_memory_free(r->marker);
    talc_memory_free(r);
    return talc_error_status();
}

talc_status talc_jpeg_look(const char *who, const talc_file *file, talc_image_file *image)
{
    return run(who, file, NULL, image, 0, NULL, NULL);
}

talc_status talc_jpeg_read(const char *who, const talc_file *file, const talc_image_file *image,
                           int channels, talc_image_row *row, void *context)
{
    talc_image_file now = *image;
    return run(who, file, image, &now, channels, row, context);
}
