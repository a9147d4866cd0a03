#include "nn/data/image_file.h"

#include "nn/data/jpeg.h"
#include "nn/data/png.h"

#include <inttypes.h>
#include <string.h>

/* Which format the first bytes are of; a file that is shorter is left to PNG's reader. */
static talc_status look_open(const char *who, const talc_file *open, talc_image_file *file)
{
    enum { FIRST = 4 };
    uint8_t first[FIRST] = { 0 };
    *file = (talc_image_file){ .orientation = 1 };
    if (open->size >= FIRST && talc_file_read(open, who, 0, first, FIRST) != TALC_OK)
        return talc_error_status();
    file->jpeg = memcmp(first, "\xff\xd8\xff", 3) == 0;
    if (open->size >= FIRST && !file->jpeg && memcmp(first, "\x89PNG", FIRST) != 0)
        return talc_fail(TALC_BAD_FORMAT,
                         "%s: '%s' begins with %02x%02x%02x%02x, it is neither PNG nor JPEG", who,
                         TALC_SHOWN(open->path), first[0], first[1], first[2], first[3]);
    return file->jpeg ? talc_jpeg_look(who, open, file) : talc_png_look(who, open, file);
}

talc_status talc_image_file_look(const char *who, const char *path, int64_t max,
                                 talc_image_file *file)
{
    talc_file open;
    if (talc_file_open(&open, who, path) != TALC_OK)
        return talc_error_status();
    if (look_open(who, &open, file) == TALC_OK && file->width > max / file->height)
        talc_fail(TALC_TOO_LARGE,
                  "%s: '%s' is %" PRId64 "x%" PRId64 ", %" PRId64 " pixels, at most %" PRId64
                  " are allowed",
                  who, TALC_SHOWN(path), file->height, file->width, file->height * file->width,
                  max);
    talc_file_close(&open);
    return talc_error_status();
}

talc_status talc_image_file_read(const char *who, const char *path, const talc_image_file *file,
                                 int channels, talc_image_row *row, void *context)
{
    talc_file open;
    if (talc_file_open(&open, who, path) != TALC_OK)
        return talc_error_status();
    (void)(file->jpeg ? talc_jpeg_read : talc_png_read)(who, &open, file, channels, row, context);
    talc_file_close(&open);
    return talc_error_status();
}

void talc_image_file_describe(talc_image_file *file, int64_t height, int64_t width, bool color,
                              int orientation)
{
    const bool turned = orientation > 4;
    file->height = turned ? width : height;
    file->width = turned ? height : width;
    file->color = color;
    file->orientation = orientation;
}

talc_status talc_image_file_same(const char *who, const char *path, const talc_image_file *file,
                                 const talc_image_file *now)
{
    if (now->height == file->height && now->width == file->width && now->color == file->color &&
        now->orientation == file->orientation)
        return TALC_OK;
    return talc_fail(TALC_BAD_FORMAT, "%s: '%s' changed while it was read", who, TALC_SHOWN(path));
}

// ---- Upright ------------------------------------------------------------------------------------

talc_image_place talc_image_file_place(const talc_image_file *file)
{
    const int64_t H = file->height, W = file->width, last = H * W - 1;
    switch (file->orientation) {
    case 2: /* mirrored left to right */
        return (talc_image_place){ W - 1, W, -1 };
    case 3: /* by half a turn */
        return (talc_image_place){ last, -W, -1 };
    case 4: /* mirrored top to bottom */
        return (talc_image_place){ last - (W - 1), -W, 1 };
    case 5: /* rows are columns */
        return (talc_image_place){ 0, 1, W };
    case 6: /* to be shown a quarter to the right: the first row is the last column */
        return (talc_image_place){ W - 1, -1, W };
    case 7: /* rows are columns, from the end */
        return (talc_image_place){ last, -1, -W };
    case 8: /* a quarter to the left */
        return (talc_image_place){ last - (W - 1), 1, -W };
    default:
        return (talc_image_place){ 0, W, 1 };
    }
}

/* Where rows of bytes go. */
typedef struct planes {
    uint8_t *bytes; /* [channels,height,width] */
    int channels;
    int64_t plane;
    talc_image_place place;
} planes;

static void take_row(void *context, int64_t h, int64_t first, int64_t step, int64_t count,
                     const uint8_t *pixels)
{
    const planes *to = context;
    const int64_t right = step * to->place.right;
    for (int c = 0; c < to->channels; c++) {
        uint8_t *row = to->bytes + c * to->plane + to->place.start + h * to->place.down +
                       first * to->place.right;
        for (int64_t i = 0; i < count; i++)
            row[i * right] = pixels[i * to->channels + c];
    }
}

talc_status talc_image_file_planes(const char *who, const char *path, const talc_image_file *file,
                                   int channels, uint8_t *bytes)
{
    planes to = { bytes, channels, file->height * file->width, talc_image_file_place(file) };
    return talc_image_file_read(who, path, file, channels, take_row, &to);
}
