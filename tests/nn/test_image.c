/// Images resized, cropped, loaded in another size and saved.
#include "tests/support/fake_device.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/image_cases.h"
#include "tests/support/refused.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What image_cases.py makes: slopes with some noise. */
static talc_tensor *picture(int height, int width, int channels)
{
    talc_tensor *image = talc_zeros(cpu_device(), TALC_U8, TALC_DIMS(channels, height, width));
    uint8_t *bytes = talc_data(image, TALC_U8);
    uint32_t state = 1;
    for (int h = 0; h < height; h++)
        for (int w = 0; w < width; w++)
            for (int c = 0; c < channels; c++) {
                state = (state * 1103515245 + 12345) % (UINT32_C(1) << 31);
                bytes[(c * height + h) * width + w] =
                    (uint8_t)(h * 9 + w * 7 * (c + 1) + (int)(state >> 16) % 40);
            }
    return image;
}

static const uint8_t *bytes_of(const talc_tensor *image)
{
    cr_assert(image != NULL, "%s", talc_error_message());
    return talc_data_read(image, TALC_U8);
}

static bool equal(const talc_tensor *a, const talc_tensor *b)
{
    const void *of_a = bytes_of(a), *of_b = bytes_of(b);
    return talc_numel(a) == talc_numel(b) && memcmp(of_a, of_b, (size_t)talc_numel(a)) == 0;
}

// ---- Resize -------------------------------------------------------------------------------------

Test(image, a_resize_is_torchvisions)
{
    for (size_t i = 0; i < sizeof resized_images / sizeof *resized_images; i++) {
        const int oh = resized_images[i].oh, ow = resized_images[i].ow;
        const talc_tensor *got = talc_image_resize(
            picture(resized_images[i].height, resized_images[i].width, 1),
            (talc_image_size){ resized_images[i].asked_h, resized_images[i].asked_w });
        cr_assert(got != NULL, "%zu: %s", i, talc_error_message());
        cr_assert(got->rank == 3 && got->dims[1] == oh && got->dims[2] == ow,
                  "%zu: %dx%d became another size", i, oh, ow);
        cr_assert(memcmp(bytes_of(got), resized_images[i].pixels, (size_t)(oh * ow)) == 0, "%zu",
                  i);
    }
}

Test(image, a_bicubic_resize_is_pillows)
{
    for (size_t i = 0; i < sizeof bicubic_images / sizeof *bicubic_images; i++) {
        const int oh = bicubic_images[i].oh, ow = bicubic_images[i].ow;
        const talc_tensor *image = picture(bicubic_images[i].height, bicubic_images[i].width, 1),
                          *got = talc_image_resize_by(image, (talc_image_size){ oh, ow },
                                                      TALC_IMAGE_BICUBIC);
        cr_assert(memcmp(bytes_of(got), bicubic_images[i].pixels, (size_t)(oh * ow)) == 0, "%zu",
                  i);
        const talc_tensor *bilinear = talc_image_resize(image, (talc_image_size){ oh, ow });
        cr_assert(equal(bilinear, talc_image_resize_by(image, (talc_image_size){ oh, ow },
                                                       TALC_IMAGE_BILINEAR)));
    }
}

/* Beside an edge sums are below 0 and above 255, where the image shrinks, as far as it may, and
 * where it grows. */
Test(image, a_bicubic_resize_stays_among_bytes)
{
    talc_tensor *edge = talc_zeros(cpu_device(), TALC_U8, TALC_DIMS(1, 8, 8192));
    talc_fill(talc_slice(edge, 2, 4100, 8192, 1), 255);
    const int widths[] = { 2, 3, 11, 1000, 20000 };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const int ow = widths[i];
        const talc_tensor *got =
            talc_image_resize_by(edge, (talc_image_size){ 8, ow }, TALC_IMAGE_BICUBIC);
        const uint8_t *bytes = bytes_of(got);
        for (int w = 1; w < ow; w++)
            cr_assert(bytes[w] >= bytes[w - 1], "%d at %d of %d, behind %d", bytes[w], w, ow,
                      bytes[w - 1]);
        cr_assert(bytes[0] < 32 && bytes[ow - 1] > 223, "%d to %d", bytes[0], bytes[ow - 1]);
    }
    for (int value = 0; value < 256; value += 51) {
        const talc_tensor *flat = talc_full(cpu_device(), TALC_U8, TALC_DIMS(1, 1, 8192), value),
                          *got = talc_image_resize_by(flat, (talc_image_size){ 3, 2 },
                                                      TALC_IMAGE_BICUBIC);
        for (int k = 0; k < 6; k++)
            cr_assert(bytes_of(got)[k] == value, "%d became %d", value, bytes_of(got)[k]);
    }
}

/* The mean of all pixels in a triangle as wide as the shrink, in float64 and without a rounding
 * between the passes: within a byte. */
static double resized_at(const uint8_t *in, int64_t H, int64_t W, int64_t OH, int64_t OW,
                         int64_t oh, int64_t ow)
{
    const double sh = (double)H / (double)OH, sw = (double)W / (double)OW;
    double sum = 0, weight = 0;
    for (int64_t h = 0; h < H; h++)
        for (int64_t w = 0; w < W; w++) {
            const double dh = fabs((double)h + 0.5 - ((double)oh + 0.5) * sh) / fmax(sh, 1),
                         dw = fabs((double)w + 0.5 - ((double)ow + 0.5) * sw) / fmax(sw, 1);
            const double share = dh < 1 && dw < 1 ? (1 - dh) * (1 - dw) : 0;
            sum += share * in[h * W + w];
            weight += share;
        }
    return sum / weight;
}

Test(image, a_resize_is_the_mean_of_what_is_near)
{
    const int sizes[][4] = { { 31, 17, 5, 40 }, { 1, 1, 9, 4 },    { 1, 50, 3, 7 },
                             { 64, 3, 2, 2 },   { 23, 29, 23, 5 }, { 23, 29, 5, 29 },
                             { 7, 7, 7, 7 },    { 2, 2000, 2, 3 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int *s = sizes[i];
        owned_scope *scope = talc_scope_enter();
        const talc_tensor *image = picture(s[0], s[1], 2),
                          *got = talc_image_resize(image, (talc_image_size){ s[2], s[3] });
        for (int p = 0; p < 2; p++)
            for (int oh = 0; oh < s[2]; oh++)
                for (int ow = 0; ow < s[3]; ow++) {
                    const double expected = resized_at(bytes_of(image) + p * s[0] * s[1], s[0],
                                                       s[1], s[2], s[3], oh, ow);
                    const int is = bytes_of(got)[(p * s[2] + oh) * s[3] + ow];
                    cr_assert(fabs(is - expected) <= 1.01, "%zu: %d at %d,%d,%d, expected %g", i,
                              is, p, oh, ow, expected);
                }
    }
}

Test(image, a_resize_takes_views_and_keeps_what_is_even)
{
    const talc_tensor *wide = picture(12, 40, 3), *view = talc_slice(wide, 2, 3, 37, 2);
    const talc_image_size size = { 5, 8 };
    cr_assert(equal(talc_image_resize(view, size), talc_image_resize(talc_clone(view), size)));
    cr_assert(equal(talc_image_crop(view, size), talc_image_crop(talc_clone(view), size)));
    const talc_tensor *turned = talc_transpose(wide, 1, 2);
    cr_assert(equal(talc_image_resize(turned, size), talc_image_resize(talc_clone(turned), size)));
    /* Batches are planes too; a plane alone is an image. */
    const talc_tensor *four = talc_unsqueeze(wide, 0), *two = talc_select(wide, 0, 1);
    cr_assert(equal(talc_image_resize(four, size), talc_image_resize(wide, size)));
    cr_assert(equal(talc_image_resize(two, size),
                    talc_clone(talc_select(talc_image_resize(wide, size), 0, 1))));
    for (int value = 0; value < 256; value += 51) {
        const talc_tensor *flat = talc_full(cpu_device(), TALC_U8, TALC_DIMS(1, 1, 9000), value);
        const talc_tensor *got = talc_image_resize(flat, (talc_image_size){ 3, 7 });
        for (int i = 0; i < 21; i++)
            cr_assert(bytes_of(got)[i] == value, "%d became %d", value, bytes_of(got)[i]);
    }
    cr_assert(equal(talc_image_resize(wide, (talc_image_size){ 12, 40 }), wide));
}

// ---- Crop ---------------------------------------------------------------------------------------

/* Where Python's int(round((in - out) / 2.0)) begins; below 0, the zeros that torchvision puts
 * before, (out - in) // 2. */
Test(image, a_crop_is_torchvisions)
{
    const struct {
        int in, out, start;
    } cases[] = { { 8, 4, 2 }, { 5, 2, 2 },  { 7, 2, 2 },  { 3, 2, 0 },      { 4, 1, 2 },
                  { 9, 2, 4 }, { 9, 4, 2 },  { 9, 9, 0 },  { 2, 5, -1 },     { 2, 6, -2 },
                  { 1, 2, 0 }, { 3, 8, -2 }, { 1, 8, -3 }, { 256, 225, 16 }, { 256, 227, 14 } };
    enum { CASES = sizeof cases / sizeof *cases };
    for (int i = 0; i < CASES * CASES; i++) {
        const int H = cases[i / CASES].in, W = cases[i % CASES].in, OH = cases[i / CASES].out,
                  OW = cases[i % CASES].out;
        owned_scope *scope = talc_scope_enter();
        const talc_tensor *image = picture(H, W, 2),
                          *got = talc_image_crop(image, (talc_image_size){ OH, OW });
        cr_assert(got != NULL && got->dims[1] == OH && got->dims[2] == OW);
        for (int p = 0; p < 2; p++)
            for (int oh = 0; oh < OH; oh++)
                for (int ow = 0; ow < OW; ow++) {
                    const int h = oh + cases[i / CASES].start, w = ow + cases[i % CASES].start;
                    const bool inside = h >= 0 && h < H && w >= 0 && w < W;
                    const int expected = inside ? bytes_of(image)[(p * H + h) * W + w] : 0;
                    cr_assert(bytes_of(got)[(p * OH + oh) * OW + ow] == expected,
                              "%dx%d to %dx%d at %d,%d,%d", H, W, OH, OW, p, oh, ow);
                }
    }
    const talc_tensor *square = talc_image_crop(picture(9, 11, 1), (talc_image_size){ 4, 0 });
    cr_assert(square != NULL && square->dims[1] == 4 && square->dims[2] == 4);
}

// ---- Load ---------------------------------------------------------------------------------------

Test(image, a_loaded_image_is_resized_then_cropped)
{
    const char *path = file_path("x.jpg");
    file_write(path, image_files[0].bytes, image_files[0].count);
    const talc_tensor *whole = talc_image_load(path, &(talc_image_options){ .dtype = TALC_U8 });
    const talc_image_size sizes[] = { { 0, 0 }, { 9, 0 }, { 30, 5 }, { 13, 17 }, { 20, 20 } };
    for (int i = 0; i < 25; i++) {
        const talc_image_size resize = sizes[i / 5], crop = sizes[i % 5];
        const talc_image_filter filter = i % 2 == 0 ? TALC_IMAGE_BILINEAR : TALC_IMAGE_BICUBIC;
        owned_scope *scope = talc_scope_enter();
        const talc_tensor *expected = whole;
        if (resize.height > 0)
            expected = talc_image_resize_by(expected, resize, filter);
        if (crop.height > 0)
            expected = talc_image_crop(expected, crop);
        talc_image_options options = {
            .resize = resize, .crop = crop, .dtype = TALC_U8, .filter = filter
        };
        cr_assert(equal(talc_image_load(path, &options), expected), "%d", i);
        options.dtype = TALC_F32;
        options.mean[1] = 0.5;
        options.deviation[1] = 0.25;
        options.height = expected->dims[2];
        options.width = expected->dims[3];
        const talc_tensor *floats = talc_image_load(path, &options);
        cr_assert(floats != NULL, "%s", talc_error_message());
        const float *element = talc_data_read(floats, TALC_F32);
        const int64_t plane = options.height * options.width;
        for (int64_t j = 0; j < 3 * plane; j++) {
            const double share = bytes_of(expected)[j] / 255.0;
            cr_assert(element[j] == (float)(j / plane == 1 ? (share - 0.5) / 0.25 : share));
        }
    }
}

// ---- Save ---------------------------------------------------------------------------------------

static const talc_tensor *read_back(const char *path)
{
    return talc_image_load(path, &(talc_image_options){ .dtype = TALC_U8 });
}

Test(image, a_saved_image_is_read_back)
{
    const char *path = file_path("x.png");
    talc_device *devices[] = { cpu_device(), fake_device() };
    for (int channels = 1; channels <= 3; channels += 2) {
        const talc_tensor *image = picture(5, 7, channels);
        for (int d = 0; d < 2; d++) {
            const talc_tensor *there = talc_to(image, devices[d], TALC_U8);
            cr_assert(talc_image_save(path, there), "%s", talc_error_message());
            cr_assert(equal(read_back(path), image) && read_back(path)->dims[1] == channels);
            cr_assert(talc_image_save(path, talc_unsqueeze(there, 0)));
            cr_assert(equal(read_back(path), image));
            const talc_tensor *turned = talc_transpose(there, 1, 2);
            cr_assert(talc_image_save(path, turned), "%s", talc_error_message());
            cr_assert(equal(read_back(path), talc_clone(talc_to(talc_transpose(image, 1, 2),
                                                                cpu_device(), TALC_U8))));
        }
        for (int wide = 0; wide < 2; wide++) {
            const talc_dtype dtype = wide ? TALC_F64 : TALC_F32;
            const talc_tensor *shares = talc_mul_scalar(talc_cast(image, dtype), 1 / 255.0);
            cr_assert(talc_image_save(path, shares), "%s", talc_error_message());
            cr_assert(equal(read_back(path), image));
        }
    }
    cr_assert(talc_image_save(path, talc_select(picture(5, 7, 3), 0, 2)));
    cr_assert(equal(read_back(path), talc_clone(talc_select(picture(5, 7, 3), 0, 2))));
    /* To the nearest 255th, halves up. */
    const double shares[] = { 0, 0.49 / 255, 0.5 / 255, 1.49 / 255, 254.5 / 255, 1 };
    cr_assert(
        talc_image_save(path, talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(2, 3), shares)));
    cr_assert(memcmp(bytes_of(read_back(path)), (const uint8_t[]){ 0, 0, 1, 1, 255, 255 }, 6) == 0);
}

// ---- Refused ------------------------------------------------------------------------------------

// clang-format off
Test(image, refusals)
{
    talc_device *cpu = cpu_device();
    talc_tensor *image = picture(20, 30, 3), *floats = talc_full(cpu, TALC_F32, TALC_DIMS(3, 4, 5), 0.5);
    talc_tensor *there = talc_to(image, fake_device(), TALC_U8), *line = talc_zeros(cpu, TALC_U8, TALC_DIMS(7));
    talc_tensor *none = talc_zeros(cpu, TALC_U8, TALC_DIMS(3, 0, 4)), *two = talc_zeros(cpu, TALC_U8, TALC_DIMS(2, 4, 4));
    talc_tensor *long_row = talc_zeros(cpu, TALC_U8, TALC_DIMS(1, 1048577)), *wide = talc_zeros(cpu, TALC_U8, TALC_DIMS(1, 20000));
    talc_tensor *batch = talc_zeros(cpu, TALC_U8, TALC_DIMS(2, 1, 2, 4)), *integers = talc_cast(image, TALC_I64);
    refused_watch(image);
#define SIZE(...) ((talc_image_size){ __VA_ARGS__ })
    REFUSED(TALC_NULL_ARGUMENT, "image_resize: image is NULL", talc_image_resize(NULL, SIZE(1, 0)));
    REFUSED(TALC_BAD_DTYPE, "image_resize: the image is f32, it must be u8", talc_image_resize(floats, SIZE(1, 0)));
    REFUSED(TALC_BAD_DEVICE, "image_resize: the image is on fake, it must be on the CPU", talc_image_resize(there, SIZE(1, 0)));
    REFUSED(TALC_BAD_SHAPE, "image_resize: the image [7] must be [...,H,W] with no extent 0", talc_image_resize(line, SIZE(1, 0)));
    REFUSED(TALC_BAD_SHAPE, "image_resize: the image [3,0,4] must be [...,H,W] with no extent 0", talc_image_resize(none, SIZE(1, 0)));
    REFUSED(TALC_BAD_ARGUMENT, "image_resize: filter 2 is outside 0..1", talc_image_resize_by(image, SIZE(1, 0), TALC_IMAGE_FILTER_COUNT));
    REFUSED(TALC_BAD_ARGUMENT, "image_resize: resize 0x1 must be at least 1x1", talc_image_resize(image, SIZE(0, 0)));
    REFUSED(TALC_BAD_ARGUMENT, "image_resize: resize 0x5 must be at least 1x1", talc_image_resize(image, SIZE(0, 5)));
    REFUSED(TALC_BAD_ARGUMENT, "image_resize: resize 5x-1 must be at least 1x1", talc_image_resize(image, SIZE(5, -1)));
    REFUSED(TALC_TOO_LARGE, "image_resize: resize 5x1048577 has a side of more than 1048576 pixels", talc_image_resize(image, SIZE(5, 1048577)));
    REFUSED(TALC_TOO_LARGE, "image_resize: resize 9223372036854775807x1 has a side of more than 1048576 pixels", talc_image_resize(image, SIZE(INT64_MAX, 0)));
    REFUSED(TALC_TOO_LARGE, "image_resize: the image 1x1048577 has a side of more than 1048576 pixels", talc_image_resize(long_row, SIZE(1, 0)));
    REFUSED(TALC_TOO_LARGE, "image_resize: resize to 60x1200000 has a side of more than 1048576 pixels", talc_image_resize(wide, SIZE(60, 0)));
    REFUSED(TALC_TOO_LARGE, "image_resize: resize to 17000x17000, 289000000 pixels, at most 268435456 are allowed", talc_image_resize(image, SIZE(17000, 17000)));
    REFUSED(TALC_TOO_LARGE, "image_resize: resize takes 20000x20000, 400000000 pixels, at most 268435456 are allowed", talc_image_resize(talc_transpose(wide, 0, 1), SIZE(5, 20000)));
    REFUSED(TALC_BAD_SHAPE, "image_resize: resize from 1x20000 to 1x4 is more than 4096 to one", talc_image_resize(wide, SIZE(1, 4)));
    cr_assert(talc_image_resize(talc_slice(wide, 1, 0, 4096, 1), SIZE(1, 1)) != NULL);
    REFUSED(TALC_NULL_ARGUMENT, "image_crop: image is NULL", talc_image_crop(NULL, SIZE(1, 0)));
    REFUSED(TALC_BAD_DTYPE, "image_crop: the image is f32, it must be u8", talc_image_crop(floats, SIZE(1, 0)));
    REFUSED(TALC_BAD_ARGUMENT, "image_crop: crop 0x0 must be at least 1x1", talc_image_crop(image, SIZE(0, 0)));
    REFUSED(TALC_BAD_ARGUMENT, "image_crop: crop -3x-3 must be at least 1x1", talc_image_crop(image, SIZE(-3, 0)));
    REFUSED(TALC_TOO_LARGE, "image_crop: crop 1048577x1 has a side of more than 1048576 pixels", talc_image_crop(image, SIZE(1048577, 1)));
    REFUSED(TALC_TOO_LARGE, "image_crop: crop 17000x17000, 289000000 pixels, at most 268435456 are allowed", talc_image_crop(image, SIZE(17000, 0)));

    char path[512], message[1024];
    snprintf(path, sizeof path, "%s", file_path("x.jpg"));
    file_write(path, image_files[0].bytes, image_files[0].count);
#define LOAD(...) talc_image_load(path, &(talc_image_options){ __VA_ARGS__ })
    REFUSED(TALC_BAD_DTYPE, "image_load: images of f64 are not made, they must be f32 or u8", LOAD(.dtype = TALC_F64));
    REFUSED(TALC_BAD_ARGUMENT, "image_load: mean 0.5 and deviation 0 are of f32, u8 has bytes", LOAD(.dtype = TALC_U8, .mean = { 0, 0.5 }));
    REFUSED(TALC_BAD_ARGUMENT, "image_load: mean 0 and deviation 2 are of f32, u8 has bytes", LOAD(.dtype = TALC_U8, .deviation = { 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "image_load: filter -1 is outside 0..1", LOAD(.filter = (talc_image_filter)-1));
    REFUSED(TALC_BAD_ARGUMENT, "image_load: resize 0x3 must be at least 1x1", LOAD(.resize = { 0, 3 }));
    REFUSED(TALC_BAD_ARGUMENT, "image_load: crop -1x-1 must be at least 1x1", LOAD(.crop = { -1, 0 }));
    REFUSED(TALC_TOO_LARGE, "image_load: resize to 20x26, 520 pixels, at most 400 are allowed", LOAD(.resize = { 20, 0 }, .pixels = 400));
    REFUSED(TALC_TOO_LARGE, "image_load: crop 30x30, 900 pixels, at most 400 are allowed", LOAD(.crop = { 30, 0 }, .pixels = 400));
    snprintf(message, sizeof message, "image_load: '%s' is 8x8, 9x8 is asked for (height x width)", path);
    REFUSED(TALC_BAD_SHAPE, message, LOAD(.crop = { 8, 0 }, .height = 9));

    REFUSED(TALC_NULL_ARGUMENT, "image_save: path is NULL", talc_image_save(NULL, image));
    REFUSED(TALC_NULL_ARGUMENT, "image_save: image is NULL", talc_image_save(path, NULL));
    REFUSED(TALC_BAD_SHAPE, "image_save: the image [7] must be [H,W], [C,H,W] or [1,C,H,W] with 1 or 3 channels", talc_image_save(path, line));
    REFUSED(TALC_BAD_SHAPE, "image_save: the image [2,4,4] must be [H,W], [C,H,W] or [1,C,H,W] with 1 or 3 channels", talc_image_save(path, two));
    REFUSED(TALC_BAD_SHAPE, "image_save: the image [3,0,4] must be [H,W], [C,H,W] or [1,C,H,W] with 1 or 3 channels", talc_image_save(path, none));
    REFUSED(TALC_BAD_SHAPE, "image_save: the image [2,1,2,4] must be [H,W], [C,H,W] or [1,C,H,W] with 1 or 3 channels", talc_image_save(path, batch));
    REFUSED(TALC_BAD_DTYPE, "image_save: the image is i64, it must be u8, f32 or f64", talc_image_save(path, integers));
    REFUSED(TALC_TOO_LARGE, "image_save: the image [1,1048577] has a side of more than 1000000 pixels", talc_image_save(path, long_row));
    ((float *)talc_data(floats, TALC_F32))[20 + 5 + 2] = -0.25f;
    REFUSED(TALC_BAD_ARGUMENT, "image_save: the image holds -0.25 in channel 1, row 1, column 2; pixels are 0 .. 1", talc_image_save(path, floats));
    ((float *)talc_data(floats, TALC_F32))[4] = NAN;
    REFUSED(TALC_BAD_ARGUMENT, "image_save: the image holds nan in channel 0, row 0, column 4; pixels are 0 .. 1", talc_image_save(path, floats));
    cr_assert(read_back(path) != NULL); /* the old file */
    snprintf(path, sizeof path, "%s/x.png", file_path("no"));
    snprintf(message, sizeof message, "image_save: ");
    REFUSED_LIKE(TALC_IO_ERROR, message, talc_image_save(path, image));
    refused_end(40);
}
// clang-format on

// ---- Out of memory ------------------------------------------------------------------------------

static void run_sizes(fault_run *run)
{
    const talc_tensor *image = talc_zeros(cpu_device(), TALC_U8, TALC_DIMS(2, 9, 6));
    const talc_tensor *turned = image == NULL ? NULL : talc_transpose(image, 1, 2);
    fault_keep(run, talc_image_resize(turned, (talc_image_size){ 3, 20 }));
    fault_keep(run, talc_image_crop(turned, (talc_image_size){ 3, 20 }));
}

static void run_save(fault_run *run)
{
    const talc_tensor *image = talc_full(run->device, TALC_F32, TALC_DIMS(3, 9, 6), 0.25);
    const talc_tensor *turned = image == NULL ? NULL : talc_transpose(image, 1, 2);
    const bool saved = talc_image_save(file_path("x.png"), turned);
    cr_assert(saved != talc_failed());
    size_t count = 0;
    char *bytes = saved ? file_bytes(file_path("x.png"), &count) : NULL;
    fault_keep_bytes(run, bytes, count);
    free(bytes);
}

TEST_SURVIVES(image, sizes_survive, 10, "sizes", NULL, run_sizes, NULL, NULL)
TEST_SURVIVES(image, saving_survives, 10, "saving", NULL, run_save, NULL, NULL)
