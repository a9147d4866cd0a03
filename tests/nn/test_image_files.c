/// PNG and JPEG files: what Pillow reads in them, turned files, damaged ones, ones that say too
/// much.
#include "tests/support/data_files.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/image_cases.h"
#include "tests/support/refused.h"

#include "nn/data/exif.h"
#include "tensor/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

enum { H = 13, W = 17, PLANE = H * W, FILES = sizeof image_files / sizeof *image_files };

static talc_tensor *load_bytes(const char *path)
{
    return talc_image_load(path, &(talc_image_options){ .dtype = TALC_U8 });
}

/* A copy of the file of that name, one byte longer for what a test adds. */
static uint8_t *copy_of(int file, size_t *count)
{
    uint8_t *bytes = calloc(1, image_files[file].count + 1);
    *count = image_files[file].count;
    memcpy(bytes, image_files[file].bytes, *count);
    return bytes;
}

static int file_named(const char *name)
{
    for (int i = 0; i < FILES; i++)
        if (strcmp(image_files[i].name, name) == 0)
            return i;
    cr_assert(false, "there is no file '%s'", name);
    return -1;
}

/* Where a marker's two bytes stand. */
static size_t marker_at(const uint8_t *bytes, size_t count, uint8_t marker)
{
    for (size_t i = 0; i + 1 < count; i++)
        if (bytes[i] == 0xff && bytes[i + 1] == marker)
            return i;
    cr_assert(false, "there is no marker %02x", marker);
    return 0;
}

// ---- What is read -------------------------------------------------------------------------------

/* The pixel that upright (y, x) shows: EXIF's words, the visual side of the file's row 0 and
 * column 0. */
static int stored_at(int orientation, int y, int x)
{
    switch (orientation) {
    case 1: /* top, left */
        return y * W + x;
    case 2: /* top, right */
        return y * W + (W - 1 - x);
    case 3: /* bottom, right */
        return (H - 1 - y) * W + (W - 1 - x);
    case 4: /* bottom, left */
        return (H - 1 - y) * W + x;
    case 5: /* left, top: the row is a column from the left */
        return x * W + y;
    case 6: /* right, top */
        return (H - 1 - x) * W + y;
    case 7: /* right, bottom */
        return (H - 1 - x) * W + (W - 1 - y);
    default: /* left, bottom */
        return x * W + (W - 1 - y);
    }
}

static void assert_turned(const talc_tensor *image, const uint8_t *pixels, int channels,
                          int orientation)
{
    const int height = orientation > 4 ? W : H, width = orientation > 4 ? H : W;
    cr_assert(image != NULL, "orientation %d: %s", orientation, talc_error_message());
    cr_assert(image->rank == 4 && image->dims[0] == 1 && image->dims[1] == channels &&
              image->dims[2] == height && image->dims[3] == width);
    const uint8_t *got = talc_data_read(image, TALC_U8);
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++, got++)
                cr_assert(*got == pixels[c * PLANE + stored_at(orientation, y, x)],
                          "orientation %d: %d at %d,%d,%d", orientation, *got, c, y, x);
}

Test(image_files, a_jpeg_is_what_pillow_reads)
{
    for (int i = 0; i < FILES; i++) {
        const int orientation = strcmp(image_files[i].name, "sharp") == 0 ? 6 : 1;
        file_write(file_path("x.png"), image_files[i].bytes, image_files[i].count);
        assert_turned(load_bytes(file_path("x.png")), image_files[i].pixels,
                      image_files[i].channels, orientation);
    }
    /* A grey file as three channels. */
    const int grey = file_named("grey");
    file_write(file_path("x.jpg"), image_files[grey].bytes, image_files[grey].count);
    const talc_tensor *wide = talc_image_load(
        file_path("x.jpg"), &(talc_image_options){ .channels = 3, .dtype = TALC_U8 });
    cr_assert(wide != NULL && wide->dims[1] == 3, "%s", talc_error_message());
    for (int c = 0; c < 3; c++)
        cr_assert(memcmp((const uint8_t *)talc_data_read(wide, TALC_U8) + c * PLANE,
                         image_files[grey].pixels, PLANE) == 0);
}

/* Without Adobe's marker, ink is stored as ink. */
Test(image_files, cmyk_without_adobes_marker_is_not_inverted)
{
    size_t count;
    uint8_t *bytes = copy_of(file_named("cmyk"), &count);
    const size_t at = marker_at(bytes, count, 0xee), length = 2 + bytes[at + 3];
    file_write(file_path("adobe"), bytes, count);
    memmove(bytes + at, bytes + at + length, count - at - length);
    file_write(file_path("plain"), bytes, count - length);
    const talc_tensor *adobe = load_bytes(file_path("adobe")),
                      *plain = load_bytes(file_path("plain"));
    cr_assert(plain != NULL, "%s", talc_error_message());
    /* Pillow writes RGB as CMY without black: stored c is the light, and without the marker ink on
     * a black of 255, which leaves no light. */
    const uint8_t *light = talc_data_read(adobe, TALC_U8), *dark = talc_data_read(plain, TALC_U8);
    bool some = false;
    for (int i = 0; i < 3 * PLANE; i++) {
        some = some || light[i] > 100;
        cr_assert(dark[i] <= 2, "%d at %d", dark[i], i);
    }
    cr_assert(some);
    free(bytes);
}

// ---- EXIF ---------------------------------------------------------------------------------------

/* "II*\0", the directory at 8, one entry: the orientation. */
static const uint8_t low_first[] = { 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3,
                                     0,   1,   0,  0, 0, 6, 0, 0, 0, 0, 0,    0, 0 };
static const uint8_t high_first[] = { 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0,
                                      3,   0,   0, 0,  1, 0, 6, 0, 0, 0, 0, 0,    0 };

enum { EXIF = sizeof low_first, LOW_VALUE = 18, HIGH_VALUE = 19 };

/* In memory of exactly that size, so that a sanitizer sees what is read beyond. */
static int orientation_of(const uint8_t *bytes, size_t count)
{
    uint8_t *copy = malloc(count == 0 ? 1 : count);
    memcpy(copy, bytes, count);
    const int orientation = talc_exif_orientation(copy, count);
    free(copy);
    return orientation;
}

Test(image_files, a_turned_file_is_upright)
{
    const int rgb = file_named("rgb");
    for (int orientation = 0; orientation < 10; orientation++)
        for (int high = 0; high < 2; high++) {
            const int expected = orientation >= 1 && orientation <= 8 ? orientation : 1;
            uint8_t exif[EXIF];
            memcpy(exif, high ? high_first : low_first, EXIF);
            exif[high ? HIGH_VALUE : LOW_VALUE] = (uint8_t)orientation;
            /* A JPEG: SOI, APP1, the rest. */
            FILE *file = fopen(file_path("x.jpg"), "wb");
            fwrite("\xff\xd8\xff\xe1\0\x22"
                   "Exif\0",
                   1, 12, file);
            fwrite(exif, 1, EXIF, file);
            fwrite(image_files[rgb].bytes + 2, 1, image_files[rgb].count - 2, file);
            fclose(file);
            owned_scope *scope = talc_scope_enter();
            assert_turned(load_bytes(file_path("x.jpg")), image_files[rgb].pixels, 3, expected);
            /* A PNG, whose rows are the pixels of the grey file; interlaced, it comes in parts. */
            const uint8_t *grey = image_files[file_named("grey")].pixels;
            written_png image = { .type = PNG_COLOR_TYPE_GRAY,
                                  .depth = 8,
                                  .interlace = high ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                                  .height = H,
                                  .width = W,
                                  .exif = exif,
                                  .exif_bytes = EXIF };
            for (int h = 0; h < H; h++)
                image.rows[h] = grey + h * W;
            write_png(file_path("x.png"), &image);
            assert_turned(load_bytes(file_path("x.png")), grey, 1, expected);
            const talc_tensor *floats = talc_image_load(file_path("x.png"), NULL);
            const uint8_t *bytes = talc_data_read(load_bytes(file_path("x.png")), TALC_U8);
            for (int i = 0; i < PLANE; i++)
                cr_assert(((const float *)talc_data_read(floats, TALC_F32))[i] ==
                          (float)(bytes[i] / 255.0));
        }
}

Test(image_files, damaged_exif_says_nothing)
{
    cr_assert(orientation_of(low_first, EXIF) == 6 && orientation_of(high_first, EXIF) == 6);
    for (size_t count = 0; count < 22; count++) /* the last entry has to be whole */
        cr_assert(orientation_of(low_first, count) == 1, "%zu bytes", count);
    cr_assert(orientation_of(low_first, 22) == 6);
    const struct {
        int at, value, expected;
    } cases[] = {
        { 0, 'M', 1 },       { 2, 43, 1 },        { 3, 1, 1 },         { 4, 9, 1 },
        { 4, 25, 1 },        { 4, 26, 1 },        { 7, 0xff, 1 },      { 8, 0, 1 },
        { 8, 0xff, 6 },      { 9, 0xff, 6 },      { 10, 0x13, 1 },     { 12, 4, 6 },
        { 12, 1, 1 },        { 14, 2, 1 },        { 14, 0, 1 },        { 17, 0xff, 1 },
        { LOW_VALUE, 8, 8 }, { LOW_VALUE, 9, 1 }, { LOW_VALUE, 0, 1 }, { 19, 1, 1 },
        { 20, 1, 6 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t exif[EXIF];
        memcpy(exif, low_first, EXIF);
        exif[cases[i].at] = (uint8_t)cases[i].value;
        cr_assert(orientation_of(exif, EXIF) == cases[i].expected, "byte %d = %d: %d", cases[i].at,
                  cases[i].value, orientation_of(exif, EXIF));
    }
    /* A thousand structures of damage at random: none reads beyond, each gives 1 .. 8. */
    uint32_t state = 1;
    for (int k = 0; k < 1000; k++) {
        uint8_t exif[EXIF];
        memcpy(exif, k % 2 ? low_first : high_first, EXIF);
        for (int i = 0; i < 4; i++) {
            state = state * 1664525 + 1013904223;
            exif[state >> 16 & 15] = (uint8_t)(state >> 24);
        }
        const int got = orientation_of(exif, EXIF - (state >> 28));
        cr_assert(got >= 1 && got <= 8);
    }
}

// ---- Refused ------------------------------------------------------------------------------------

static const char *about(const char *format, const char *path, const char *other)
{
    static char text[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, format, path, other);
#pragma GCC diagnostic pop
    return text;
}

/* A file of which some bytes from a marker on are others. */
static void write_changed(const char *path, const char *name, uint8_t marker, int offset,
                          const char *value, size_t size)
{
    size_t count;
    uint8_t *bytes = copy_of(file_named(name), &count);
    memcpy(bytes + marker_at(bytes, count, marker) + offset, value, size);
    file_write(path, bytes, count);
    free(bytes);
}

static size_t asked; /* bytes, of all allocations */

static bool count_bytes(size_t bytes)
{
    asked += bytes;
    return true;
}

enum { SOF0 = 0xc0, SOF2 = 0xc2, PRECISION = 4, SIDES = 5, COMPONENTS = 9 };

Test(image_files, what_is_no_image_of_8_bits_is_refused)
{
    const char *path = file_path("x.jpg");
    write_changed(path, "rgb", SOF0, PRECISION, "\x0c", 1);
    REFUSED(TALC_BAD_FORMAT,
            about("image_load: '%s': Unsupported JPEG data precision 12", path, ""),
            load_bytes(path));
    write_changed(path, "rgb", SOF0, 1, "\xc3", 1); /* lossless */
    REFUSED(TALC_BAD_FORMAT,
            about("image_load: '%s': Unsupported JPEG process: SOF type 0xc3", path, ""),
            load_bytes(path));
    write_changed(path, "rgb", SOF0, SIDES, "\0\0", 2);
    REFUSED(TALC_BAD_FORMAT,
            about("image_load: '%s': Empty JPEG image (DNL not supported)", path, ""),
            load_bytes(path));
    write_changed(path, "rgb", SOF0, SIDES, "\xff\xff\xff\xff", 4);
    REFUSED(TALC_BAD_FORMAT,
            about("image_load: '%s': Maximum supported image dimension is 65500 pixels", path, ""),
            load_bytes(path));
    file_write(path, "\xff\xd8\xff\xd9", 4);
    REFUSED_LIKE(TALC_BAD_FORMAT, about("image_load: '%s': ", path, ""), load_bytes(path));
    file_write(path, "\xff\xd8\xff", 3);
    REFUSED_LIKE(TALC_BAD_FORMAT, about("image_load: '%s' ends early: ", path, ""),
                 load_bytes(path));
    file_write(path, "\xff\xd8\xff\xe1\0\1", 6);
    REFUSED_LIKE(TALC_BAD_FORMAT, about("image_load: '%s': ", path, ""), load_bytes(path));
    file_write(path,
               "\xff\xd8\xff\xe1\xff\xff"
               "Exif",
               10);
    REFUSED(TALC_BAD_FORMAT, about("image_load: '%s' ends early: it has 10 bytes", path, ""),
            load_bytes(path));
    file_write(path, "\xff\xd8\xff\xfe\xff\xff", 6);
    REFUSED(TALC_BAD_FORMAT, about("image_load: '%s' ends early: it has 6 bytes", path, ""),
            load_bytes(path));
    file_write(path, "BM\x36\x10", 4);
    REFUSED(TALC_BAD_FORMAT,
            about("image_load: '%s' begins with 424d3610, it is neither PNG nor JPEG", path, ""),
            load_bytes(path));
    file_write(path, image_files[0].bytes, image_files[0].count);
    REFUSED(TALC_BAD_SHAPE,
            about("image_load: '%s' has 3 channels, colours, 1 is asked for", path, ""),
            talc_image_load(path, &(talc_image_options){ .channels = 1 }));
    REFUSED(TALC_TOO_LARGE,
            about("image_load: '%s' is 13x17, 221 pixels, at most 220 are allowed", path, ""),
            talc_image_load(path, &(talc_image_options){ .pixels = 220 }));
    refused_end(12);
}

/* Headers of small files that say the largest images: no memory is asked for them, by libjpeg
 * neither. */
Test(image_files, a_header_that_says_too_much_costs_nothing)
{
    const char *path = file_path("x.jpg");
    for (int progressive = 0; progressive < 2; progressive++) {
        write_changed(path, progressive ? "progressive" : "rgb", progressive ? SOF2 : SOF0, SIDES,
                      "\xff\xdc\xff\xdc", 4); /* 65,500 */
        asked = 0;
        talc_allocation_hook = count_bytes;
        const talc_tensor *image = load_bytes(path);
        talc_allocation_hook = NULL;
        cr_assert_null(image);
        cr_assert(talc_error_status() == TALC_BAD_FORMAT &&
                      strstr(talc_error_message(), "says 65500x65500, which its ") != NULL,
                  "%s", talc_error_message());
        talc_error_clear();
        cr_assert(asked < 1 << 18, "%zu bytes", asked);
    }
    /* A file that is long enough is held to the limit of pixels. */
    size_t count;
    uint8_t *bytes = copy_of(file_named("rgb"), &count);
    memcpy(bytes + marker_at(bytes, count, SOF0) + SIDES, "\xff\xdc\xff\xdc", 4);
    FILE *file = fopen(path, "wb");
    fwrite(bytes, 1, count, file);
    cr_assert(fseek(file, 5 << 20, SEEK_SET) == 0 && fputc(0, file) == 0 && fclose(file) == 0);
    asked = 0;
    talc_allocation_hook = count_bytes;
    const talc_tensor *image = load_bytes(path);
    talc_allocation_hook = NULL;
    cr_assert_null(image);
    assert_failure_with(TALC_TOO_LARGE,
                        "image_load: '%s' is 65500x65500, 4290250000 pixels, at most 268435456 are "
                        "allowed",
                        path);
    cr_assert(asked < 1 << 18, "%zu bytes", asked);
    free(bytes);
}

/* A progressive file of one scan for each bit of each coefficient; libjpeg passes over the image
 * for each. */
static void write_scans(const char *path, int scans)
{
    enum { MAX_BIT = 10, COEFFICIENTS = 64 };
    static jpeg_scan_info script[COEFFICIENTS * (MAX_BIT + 1)];
    int count = 0;
    script[count++] = (jpeg_scan_info){ 1, { 0 }, 0, 0, 0, 0 };
    for (int k = 1; k < COEFFICIENTS; k++)
        for (int bit = MAX_BIT; bit >= 0 && count < scans; bit--)
            script[count++] = (jpeg_scan_info){ 1, { 0 }, k, k, bit == MAX_BIT ? 0 : bit + 1, bit };
    cr_assert(count == scans);
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    FILE *file = fopen(path, "wb");
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = jpeg.image_height = 8;
    jpeg.input_components = 1;
    jpeg.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&jpeg);
    jpeg.scan_info = script;
    jpeg.num_scans = scans;
    jpeg_start_compress(&jpeg, TRUE);
    uint8_t row[8] = { 0, 255, 3, 200, 90, 12, 240, 77 }, *rows[] = { row };
    while (jpeg.next_scanline < 8)
        jpeg_write_scanlines(&jpeg, rows, 1);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    fclose(file);
}

Test(image_files, too_many_scans_are_refused)
{
    const char *path = file_path("x.jpg");
    write_scans(path, 500);
    cr_assert(load_bytes(path) != NULL, "%s", talc_error_message());
    write_scans(path, 501);
    cr_assert_null(load_bytes(path));
    assert_failure_with(TALC_BAD_FORMAT, "image_load: '%s' has more than 500 scans", path);
}

/* Bytes put into a file, at a place. */
static void write_with(const char *path, const char *name, size_t at, const char *more, size_t size)
{
    const int i = file_named(name);
    FILE *file = fopen(path, "wb");
    fwrite(image_files[i].bytes, 1, at, file);
    fwrite(more, 1, size, file);
    fwrite(image_files[i].bytes + at, 1, image_files[i].count - at, file);
    fclose(file);
}

Test(image_files, only_damage_that_costs_pixels_is_refused)
{
    const char *path = file_path("x.jpg");
    const int rgb = file_named("rgb");
    /* The end, among the pixels: libjpeg would fill up with grey. */
    write_with(path, "rgb", image_files[rgb].count - 12, "\xff\xd9", 2);
    cr_assert_null(load_bytes(path));
    assert_failure_with(TALC_BAD_FORMAT,
                        "image_load: '%s': Corrupt JPEG data: premature end of data segment", path);
    /* Bytes behind them. */
    write_with(path, "rgb", image_files[rgb].count - 2, "bytes that belong to nothing", 28);
    assert_turned(load_bytes(path), image_files[rgb].pixels, 3, 1);
    /* Other APP1, and a second EXIF, which says another orientation. */
    write_with(path, "sharp", 2, "\xff\xe1\0\x0chttp://ns/", 14);
    assert_turned(load_bytes(path), image_files[file_named("sharp")].pixels, 3, 6);
    char exif[12 + EXIF] = "\xff\xe1\0\x22"
                           "Exif\0";
    memcpy(exif + 10, low_first, EXIF);
    exif[10 + LOW_VALUE] = 3;
    write_with(path, "sharp", 2, exif, 10 + EXIF);
    assert_turned(load_bytes(path), image_files[file_named("sharp")].pixels, 3, 3);
}

/* Libjpeg would fill what is missing with grey, and say so on stderr. */
Test(image_files, a_cut_jpeg_is_refused)
{
    const char *path = file_path("x.jpg");
    for (int i = 0; i < FILES; i++)
        for (size_t count = 3; count < image_files[i].count; count++) {
            file_write(path, image_files[i].bytes, count);
            cr_assert_null(load_bytes(path), "%s: %zu of %zu bytes are read", image_files[i].name,
                           count, image_files[i].count);
            cr_assert(talc_error_status() == TALC_BAD_FORMAT, "%s", talc_error_message());
            talc_error_clear();
        }
}

static void load_damaged(void)
{
    const char *path = file_path("x.jpg");
    uint32_t state = 1;
    int refused = 0, read = 0;
    for (int i = 0; i < FILES; i++)
        for (size_t at = 0; at < 3 * image_files[i].count; at++) {
            size_t count;
            uint8_t *bytes = copy_of(i, &count);
            state = state * 1664525 + 1013904223;
            bytes[at % count] = (uint8_t)(state >> 24);
            for (size_t more = 0; more < at / count; more++) {
                state = state * 1664525 + 1013904223;
                bytes[(state >> 8) % count] = (uint8_t)(state >> 16);
            }
            file_write(path, bytes, count);
            free(bytes);
            talc_scope *scope = talc_scope_enter();
            const talc_tensor *image = load_bytes(path);
            cr_assert(image != NULL || talc_error_status() == TALC_BAD_FORMAT ||
                          talc_error_status() == TALC_TOO_LARGE,
                      "%s, %zu: %s", image_files[i].name, at, talc_error_message());
            refused += image == NULL;
            read += image != NULL;
            talc_error_clear();
            talc_scope_leave(scope);
        }
    cr_assert(refused > 1000 && read > 1000, "%d refused, %d read", refused, read);
}

/* With every byte changed, and others beside it: refused or read, and nothing is printed. */
Test(image_files, a_damaged_jpeg_is_refused_or_read)
{
    cr_assert_str_eq(file_stderr_of(load_damaged), "");
}

// ---- Out of memory ------------------------------------------------------------------------------

static void *begin_files(talc_device *device)
{
    (void)device;
    for (int i = 0; i < FILES; i++)
        file_write(file_path(image_files[i].name), image_files[i].bytes, image_files[i].count);
    return NULL;
}

static void run_files(fault_run *run)
{
    for (int i = 0; i < FILES; i++)
        fault_keep(run, load_bytes(file_path(image_files[i].name)));
}

static void run_resized(fault_run *run)
{
    for (int bytes = 0; bytes < 2; bytes++)
        fault_keep(run, talc_image_load(file_path("rgb"), &(talc_image_options){
                                                              .resize = { 9, 0 },
                                                              .crop = { 8, 11 },
                                                              .dtype = bytes ? TALC_U8 : TALC_F32,
                                                          }));
}

TEST_SURVIVES(image_files, reading_survives, 400, "image files", begin_files, run_files, NULL, NULL)
TEST_SURVIVES(image_files, reading_resized_survives, 200, "resized files", begin_files, run_resized,
              NULL, NULL)
