/// Datasets: files written here by hand, by zlib and by libpng, and what they must hold.
#include "tests/support/data_files.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"

#include "tensor/memory.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

// ---- IDX ----------------------------------------------------------------------------------------

/* Three images of 2x3 whose pixels count up, with labels 2, 0, 4. */
static const uint8_t images_3x2x3[] = { 0,  0,  8,  3,  0,  0,  0,  3,  0,  0,  0,  2,
                                        0,  0,  0,  3,  10, 11, 12, 13, 14, 15, 20, 21,
                                        22, 23, 24, 25, 30, 31, 32, 33, 34, 255 };
static const uint8_t labels_3[] = { 0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 4 };

static void assert_three(talc_dataset *dataset)
{
    cr_assert(dataset != NULL, "%s", talc_error_message());
    const talc_dims dims = talc_dataset_dims(dataset);
    cr_assert(talc_dataset_count(dataset) == 3 && talc_dataset_classes(dataset) == 5);
    cr_assert(dims.rank == 3 && dims.dim[0] == 1 && dims.dim[1] == 2 && dims.dim[2] == 3);
    for (int i = 0; i < 3; i++) {
        cr_assert(memcmp(talc_dataset_pixels(dataset, i), images_3x2x3 + 16 + 6 * i, 6) == 0);
        cr_assert(talc_dataset_label(dataset, i) == labels_3[8 + i]);
    }
    cr_assert(strcmp(talc_dataset_class(dataset, 4), "4") == 0);
    cr_assert(talc_dataset_class(dataset, 5) == NULL && talc_dataset_class(dataset, -1) == NULL);
    cr_assert(talc_dataset_pixels(dataset, 3) == NULL && talc_dataset_pixels(dataset, -1) == NULL);
    cr_assert(talc_dataset_label(dataset, 3) == -1 && talc_dataset_label(NULL, 0) == -1);
    talc_dataset_free(dataset);
}

Test(data, idx_files_are_read_plain_and_by_gzip)
{
    const char *images = file_path("images"), *labels = file_path("labels");
    file_write(images, images_3x2x3, sizeof images_3x2x3);
    file_write(labels, labels_3, sizeof labels_3);
    assert_three(talc_dataset_idx(images, labels));
    const char *packed = file_path("images.gz");
    write_gzip(packed, images_3x2x3, sizeof images_3x2x3, "wb");
    assert_three(talc_dataset_idx(packed, labels));
    /* gzip allows several members, one after the other. */
    write_gzip(packed, images_3x2x3, 9, "wb");
    write_gzip(packed, images_3x2x3 + 9, sizeof images_3x2x3 - 9, "ab");
    assert_three(talc_dataset_idx(packed, labels));
}

Test(data, idx_images_may_have_channels)
{
    const uint8_t bytes[] = { 0, 0, 8, 4, 0, 0, 0, 1, 0, 0, 0, 3, 0,
                              0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6 };
    const uint8_t label[] = { 0, 0, 8, 1, 0, 0, 0, 1, 7 };
    file_write(file_path("i"), bytes, sizeof bytes);
    file_write(file_path("l"), label, sizeof label);
    owned_dataset *dataset = talc_dataset_idx(file_path("i"), file_path("l"));
    const talc_dims dims = talc_dataset_dims(dataset);
    cr_assert(dims.dim[0] == 3 && dims.dim[1] == 1 && dims.dim[2] == 2);
    cr_assert(talc_dataset_pixels(dataset, 0)[5] == 6 && talc_dataset_classes(dataset) == 8);
}

static void append_zeros(const char *path, int count)
{
    FILE *file = fopen(path, "ab");
    cr_assert_not_null(file);
    for (int i = 0; i < count; i++)
        putc(0, file);
    cr_assert(fclose(file) == 0);
}

/* More than zlib's window and than one read of the file. */
Test(data, large_gzip_content_is_read_whole)
{
    enum { COUNT = 3000, SIDE = 16, HEADER = 16 };
    uint8_t *bytes = calloc(1, HEADER + COUNT * SIDE * SIDE);
    const uint8_t header[HEADER] = { 0, 0, 8, 3,    0, 0, COUNT >> 8, COUNT & 255,
                                     0, 0, 0, SIDE, 0, 0, 0,          SIDE };
    memcpy(bytes, header, HEADER);
    uint32_t state = 1;
    for (int i = 0; i < COUNT * SIDE * SIDE; i++) {
        state = state * 1664525 + 1013904223;
        bytes[HEADER + i] = (uint8_t)(state >> 24);
    }
    uint8_t labels[8 + COUNT] = { 0, 0, 8, 1, 0, 0, COUNT >> 8, COUNT & 255 };
    write_gzip(file_path("i.gz"), bytes, HEADER + COUNT * SIDE * SIDE, "wb");
    /* Two members, and zeros behind each: more of them than one read of the file. */
    write_gzip(file_path("l.gz"), labels, 1000, "wb");
    append_zeros(file_path("l.gz"), 1);
    write_gzip(file_path("l.gz"), labels + 1000, sizeof labels - 1000, "ab");
    append_zeros(file_path("l.gz"), 100000);
    append_zeros(file_path("i.gz"), 512);
    owned_dataset *dataset = talc_dataset_idx(file_path("i.gz"), file_path("l.gz"));
    cr_assert(dataset != NULL, "%s", talc_error_message());
    for (int i = 0; i < COUNT; i++)
        cr_assert(memcmp(talc_dataset_pixels(dataset, i), bytes + HEADER + i * SIDE * SIDE,
                         SIDE * SIDE) == 0);
    free(bytes);
}

Test(data, mnist_files_are_found_by_their_names)
{
    file_write(file_path("train-images-idx3-ubyte"), images_3x2x3, sizeof images_3x2x3);
    write_gzip(file_path("train-labels-idx1-ubyte.gz"), labels_3, sizeof labels_3, "wb");
    write_gzip(file_path("t10k-images-idx3-ubyte.gz"), images_3x2x3, sizeof images_3x2x3, "wb");
    file_write(file_path("t10k-labels-idx1-ubyte"), labels_3, sizeof labels_3);
    assert_three(talc_dataset_mnist(file_path(""), true));
    assert_three(talc_dataset_mnist(file_path(""), false));
    file_remove_all();
    /* As some mirrors have them. */
    file_write(file_path("train-images.idx3-ubyte"), images_3x2x3, sizeof images_3x2x3);
    file_write(file_path("train-labels.idx1-ubyte"), labels_3, sizeof labels_3);
    write_gzip(file_path("t10k-images.idx3-ubyte.gz"), images_3x2x3, sizeof images_3x2x3, "wb");
    write_gzip(file_path("t10k-labels.idx1-ubyte.gz"), labels_3, sizeof labels_3, "wb");
    assert_three(talc_dataset_mnist(file_path(""), true));
    assert_three(talc_dataset_mnist(file_path(""), false));
}

// ---- PNG ----------------------------------------------------------------------------------------

/* What a 2x3 image of each kind must become; the expected bytes are [C,H,W] worked out by hand. */
typedef struct png_case {
    const char *name;
    int type, depth, interlace;
    uint8_t rows[2][24];
    uint8_t grey[6]; /* as one channel */
    uint8_t rgb[18]; /* as three */
    bool color;
} png_case;

// clang-format off
static const png_case png_cases[] = {
    { "grey", PNG_COLOR_TYPE_GRAY, 8, PNG_INTERLACE_NONE, { { 0, 100, 255 }, { 7, 8, 9 } },
      { 0, 100, 255, 7, 8, 9 }, { 0, 100, 255, 7, 8, 9, 0, 100, 255, 7, 8, 9, 0, 100, 255, 7, 8, 9 }, false },
    { "interlaced grey", PNG_COLOR_TYPE_GRAY, 8, PNG_INTERLACE_ADAM7, { { 0, 100, 255 }, { 7, 8, 9 } },
      { 0, 100, 255, 7, 8, 9 }, { 0, 100, 255, 7, 8, 9, 0, 100, 255, 7, 8, 9, 0, 100, 255, 7, 8, 9 }, false },
    { "one bit", PNG_COLOR_TYPE_GRAY, 1, PNG_INTERLACE_NONE, { { 0xa0 }, { 0x40 } },
      { 255, 0, 255, 0, 255, 0 }, { 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0 }, false },
    { "grey and alpha", PNG_COLOR_TYPE_GRAY_ALPHA, 8, PNG_INTERLACE_NONE, { { 1, 0, 2, 128, 3, 255 }, { 4, 9, 5, 9, 6, 9 } },
      { 1, 2, 3, 4, 5, 6 }, { 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6 }, false },
    /* 16 bits, divided by 257: 0x0102 is 258, 1.004; 0x02ff is 767, 2.98. */
    { "16 bits", PNG_COLOR_TYPE_GRAY, 16, PNG_INTERLACE_NONE, { { 1, 2, 0x81, 0x81, 0xff, 0xff }, { 0, 0, 0x7f, 0x7f, 2, 0xff } },
      { 1, 129, 255, 0, 127, 3 }, { 1, 129, 255, 0, 127, 3, 1, 129, 255, 0, 127, 3, 1, 129, 255, 0, 127, 3 }, false },
    { "rgb", PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_NONE, { { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, { 10, 11, 12, 13, 14, 15, 16, 17, 18 } },
      { 0 }, { 1, 4, 7, 10, 13, 16, 2, 5, 8, 11, 14, 17, 3, 6, 9, 12, 15, 18 }, true },
    { "interlaced rgb and alpha", PNG_COLOR_TYPE_RGB_ALPHA, 8, PNG_INTERLACE_ADAM7,
      { { 1, 2, 3, 99, 4, 5, 6, 0, 7, 8, 9, 255 }, { 10, 11, 12, 1, 13, 14, 15, 2, 16, 17, 18, 3 } },
      { 0 }, { 1, 4, 7, 10, 13, 16, 2, 5, 8, 11, 14, 17, 3, 6, 9, 12, 15, 18 }, true },
    { "palette", PNG_COLOR_TYPE_PALETTE, 8, PNG_INTERLACE_NONE, { { 0, 1, 2 }, { 2, 1, 0 } },
      { 0 }, { 10, 40, 70, 70, 40, 10, 20, 50, 80, 80, 50, 20, 30, 60, 90, 90, 60, 30 }, true },
};
// clang-format on

enum { PNG_CASES = sizeof png_cases / sizeof *png_cases };

static void write_case(const char *path, const png_case *c)
{
    write_png(path, &(written_png){ .type = c->type,
                                    .depth = c->depth,
                                    .interlace = c->interlace,
                                    .height = 2,
                                    .width = 3,
                                    .rows = { c->rows[0], c->rows[1] } });
}

Test(data, png_of_every_kind_becomes_bytes)
{
    for (int i = 0; i < PNG_CASES; i++) {
        const png_case *c = &png_cases[i];
        write_case(made_file("alone", "a", "x.png"), c);
        owned_dataset *dataset = talc_dataset_folder(made_folder("alone"));
        cr_assert(dataset != NULL, "%s: %s", c->name, talc_error_message());
        cr_assert(talc_dataset_dims(dataset).dim[0] == (c->color ? 3 : 1), "%s", c->name);
        cr_assert(memcmp(talc_dataset_pixels(dataset, 0), c->color ? c->rgb : c->grey,
                         c->color ? 18 : 6) == 0,
                  "%s", c->name);
    }
    remove_made();
}

/* (p / 255 - mean) / deviation of each channel, of files as they are and of grey ones as three
 * channels. */
Test(data, one_png_becomes_a_normalised_image)
{
    const talc_image_options o = { .mean = { 0.5, 0.25, 0 }, .deviation = { 0.5, 0, 2 } };
    for (int i = 0; i < 2 * PNG_CASES; i++) {
        const png_case *c = &png_cases[i / 2];
        const int channels = i % 2 == 1 || c->color ? 3 : 1;
        const uint8_t *bytes = channels == 3 ? c->rgb : c->grey;
        talc_image_options options = o;
        options.channels = i % 2 == 1 ? 3 : 0;
        write_case(file_path("x.png"), c);
        talc_tensor *image = talc_image_load(file_path("x.png"), &options);
        cr_assert(image != NULL && image->dtype == TALC_F32, "%s", talc_error_message());
        char shape[TALC_DIMS_TEXT];
        cr_assert_str_eq(talc_dims_text(talc_dims_of(image), shape),
                         channels == 3 ? "[1,3,2,3]" : "[1,1,2,3]");
        float got[18];
        cr_assert(talc_to_host(image, got, talc_nbytes(image)));
        for (int j = 0; j < 6 * channels; j++) {
            const double scale[] = { 0.5, 1, 2 };
            const double expected = (bytes[j] / 255.0 - o.mean[j / 6]) / scale[j / 6];
            cr_assert(got[j] == (float)expected, "%s: %g at %d, expected %g", c->name,
                      (double)got[j], j, expected);
        }
    }
}

Test(data, an_image_of_another_size_or_kind_is_refused)
{
    const struct {
        talc_image_options options;
        const char *expected;
    } cases[] = {
        { { .height = 4 }, "image_load: '%s' is 2x3, 4x3 is asked for (height x width)" },
        { { .height = 2, .width = 224 },
          "image_load: '%s' is 2x3, 2x224 is asked for (height x width)" },
        { { .channels = 1 }, "image_load: '%s' has 3 channels, colours, 1 is asked for" },
        { { .channels = 2 }, "image_load: channels 2 must be 1 or 3" },
        { { .pixels = 5 }, "image_load: '%s' is 2x3, 6 pixels, at most 5 are allowed" },
        { { .pixels = -1 }, "image_load: pixels -1 must be at least 1, or 0 for 2^28" },
        { { .width = -1 }, "image_load: height 0 and width -1 must be at least 0" },
        { { .mean = { 0, NAN } },
          "image_load: mean nan must be finite and deviation 0 finite and at least 0" },
        { { .deviation = { -1 } },
          "image_load: mean 0 must be finite and deviation -1 finite and at least 0" },
    };
    write_case(file_path("x.png"), &png_cases[5]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_null(talc_image_load(file_path("x.png"), &cases[i].options));
        assert_failure_with(talc_error_status(), cases[i].expected, file_path("x.png"));
    }
    file_write(file_path("no.png"), "GIF89a, no PNG", 14);
    cr_assert_null(talc_image_load(file_path("no.png"), NULL));
    assert_failure_with(TALC_BAD_FORMAT,
                        "image_load: '%s' begins with 47494638, it is neither PNG nor JPEG",
                        file_path("no.png"));
    cr_assert_null(talc_image_load(NULL, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "image_load: path is NULL");
}

/* All seven passes of Adam7, and images of which some have no pixel. */
Test(data, an_interlaced_image_is_what_it_is_row_by_row)
{
    enum { MAX = 16 };
    uint8_t bytes[MAX][3 * MAX];
    written_png image = { .type = PNG_COLOR_TYPE_RGB, .depth = 8 };
    for (int h = 0; h < MAX; h++) {
        for (int i = 0; i < 3 * MAX; i++)
            bytes[h][i] = (uint8_t)(h * 50 + i * 7);
        image.rows[h] = bytes[h];
    }
    for (int size = 0; size < MAX * MAX; size++) {
        image.height = 1 + size / MAX;
        image.width = 1 + size % MAX;
        image.interlace = PNG_INTERLACE_ADAM7;
        write_png(file_path("x.png"), &image);
        owned_scope *scope = talc_scope_enter();
        const talc_tensor *got = talc_image_load(file_path("x.png"), NULL);
        cr_assert(got != NULL, "%s", talc_error_message());
        const float *element = talc_data_read(got, TALC_F32);
        for (int c = 0; c < 3; c++)
            for (int h = 0; h < image.height; h++)
                for (int w = 0; w < image.width; w++, element++)
                    cr_assert(*element == (float)(bytes[h][3 * w + c] / 255.0), "%dx%d: %d,%d,%d",
                              image.height, image.width, c, h, w);
    }
}

static size_t asked; /* bytes, of all allocations */

static bool count_bytes(size_t bytes)
{
    asked += bytes;
    return true;
}

/* A palette of one bit, all of it the first colour: some 100 kB of file can say billions of
 * bytes. */
Test(data, an_image_takes_its_tensor_or_is_refused)
{
    static const uint8_t row[29000 / 8];
    written_png image = { .type = PNG_COLOR_TYPE_PALETTE,
                          .depth = 1,
                          .height = 29000,
                          .width = 29000,
                          .rows = { row },
                          .same_rows = true };
    const char *path = made_file("bomb", "a", "x.png");
    write_png(path, &image);
    static const char *const refusal =
        "%s: '%s' is 29000x29000, 841000000 pixels, at most %d are allowed";
    asked = 0;
    talc_allocation_hook = count_bytes;
    cr_assert_null(talc_image_load(path, NULL));
    assert_failure_with(TALC_TOO_LARGE, refusal, "image_load", path, 1 << 28);
    cr_assert_null(talc_image_load(path, &(talc_image_options){ .pixels = 840999999 }));
    assert_failure_with(TALC_TOO_LARGE, refusal, "image_load", path, 840999999);
    cr_assert_null(talc_dataset_folder(made_folder("bomb")));
    assert_failure_with(TALC_TOO_LARGE, refusal, "dataset_folder", path, 1 << 28);
    cr_assert(asked < 1 << 20, "%zu bytes", asked);

    image.height = 1000;
    image.width = 2001;
    for (int pass = 0; pass < 2; pass++) {
        image.interlace = pass == 0 ? PNG_INTERLACE_NONE : PNG_INTERLACE_ADAM7;
        write_png(path, &image);
        asked = 0;
        const talc_tensor *read =
            talc_image_load(path, &(talc_image_options){ .pixels = 1000 * 2001 });
        cr_assert(read != NULL, "%s", talc_error_message());
        cr_assert(asked < talc_nbytes(read) + (1 << 18), "%zu bytes for %zu", asked,
                  talc_nbytes(read));
        cr_assert(talc_item(talc_max(talc_abs(talc_sub_scalar(talc_select(read, 1, 2), 30 / 255.0)),
                                     TALC_SCALAR, false)) < 1e-7);
    }
    talc_allocation_hook = NULL;
    remove_made();
}

/* Classes and files in the order of their bytes; hidden files, other files and files beside the
 * classes are passed over. */
Test(data, a_folder_is_read_in_the_order_of_its_names)
{
    static const char *const names[] = { "a.png", "b.PNG", "B.png" };
    for (int i = 0; i < PNG_CASES; i++)
        write_case(made_file("f", i < 3 ? "cat" : "Dog", i < 3 ? names[i] : png_cases[i].name),
                   &png_cases[i]);
    for (int i = 3; i < PNG_CASES; i++) {
        char name[64];
        snprintf(name, sizeof name, "%d.png", i);
        write_case(made_file("f", "Dog", name), &png_cases[i]);
    }
    file_write(made_file("f", "cat", ".hidden.png"), "x", 1);
    file_write(made_file("f", "cat", "notes.txt"), "x", 1);
    file_write(made_file("f", NULL, "loose.png"), "x", 1);
    owned_dataset *dataset = talc_dataset_folder(made_folder("f"));
    cr_assert(dataset != NULL, "%s", talc_error_message());
    cr_assert(talc_dataset_count(dataset) == PNG_CASES && talc_dataset_classes(dataset) == 2);
    cr_assert(strcmp(talc_dataset_class(dataset, 0), "Dog") == 0);
    cr_assert(strcmp(talc_dataset_class(dataset, 1), "cat") == 0);
    const int order[PNG_CASES] = { 3, 4, 5, 6, 7, 2, 0, 1 };
    for (int i = 0; i < PNG_CASES; i++) {
        cr_assert(talc_dataset_label(dataset, i) == (i < 5 ? 0 : 1));
        cr_assert(memcmp(talc_dataset_pixels(dataset, i), png_cases[order[i]].rgb, 18) == 0,
                  "sample %d is not %s", i, png_cases[order[i]].name);
    }
    remove_made();
}

// ---- Tensors and parts --------------------------------------------------------------------------

Test(data, tensors_are_copied_from_any_device_and_layout)
{
    talc_device *device = tested_device();
    const float floats[] = { 0, 1, .5f, .25f, 1 / 255.f, .998f, .3f, .7f };
    const int expected[] = { 0, 255, 128, 64, 1, 254, 77, 178 }; /* .3f is above .3, .7f below .7 */
    const int64_t numbers[] = { 5, 3 };
    talc_tensor *labels = talc_from_host(device, TALC_I64, TALC_DIMS(2), numbers);
    talc_tensor *images = talc_from_host(device, TALC_F32, TALC_DIMS(2, 2, 1, 2), floats);
    talc_tensor *bytes = talc_from_host(device, TALC_U8, TALC_DIMS(2, 1, 2, 2),
                                        (const uint8_t[]){ 1, 2, 3, 4, 5, 6, 7, 8 });
    owned_dataset *a = talc_dataset_tensors(images, labels);
    owned_dataset *b = talc_dataset_tensors(talc_cast(images, TALC_F64), labels);
    owned_dataset *c = talc_dataset_tensors(talc_transpose(bytes, 2, 3), labels);
    cr_assert(a != NULL && b != NULL && c != NULL, "%s", talc_error_message());
    for (int i = 0; i < 8; i++) {
        cr_assert(talc_dataset_pixels(a, i / 4)[i % 4] == expected[i], "element %d is %d", i,
                  talc_dataset_pixels(a, i / 4)[i % 4]);
        cr_assert(talc_dataset_pixels(b, i / 4)[i % 4] == expected[i]);
    }
    const uint8_t transposed[] = { 1, 3, 2, 4, 5, 7, 6, 8 };
    cr_assert(memcmp(talc_dataset_pixels(c, 0), transposed, 8) == 0);
    cr_assert(talc_dataset_label(a, 0) == 5 && talc_dataset_label(a, 1) == 3);
    cr_assert(talc_dataset_classes(a) == 6);
}

Test(data, parts_share_and_may_outlive_the_whole)
{
    talc_dataset *whole = talc_dataset_digits(30, 4);
    talc_dataset *part = talc_dataset_part(whole, 5, 25), *inner = talc_dataset_part(part, 3, 4);
    cr_assert(talc_dataset_pixels(part, 0) == talc_dataset_pixels(whole, 5));
    cr_assert(talc_dataset_label(inner, 0) == talc_dataset_label(whole, 8));
    cr_assert(talc_dataset_count(part) == 20 && talc_dataset_pixels(part, 20) == NULL);
    const uint8_t first = talc_dataset_pixels(whole, 8)[300];
    talc_dataset_free(whole);
    talc_dataset_free(part);
    cr_assert(talc_dataset_count(inner) == 1 && talc_dataset_pixels(inner, 0)[300] == first);
    cr_assert(talc_dataset_classes(inner) == 10);
    talc_dataset_free(inner);
    talc_dataset_free(NULL);
}

/* Images of one pixel, sample i of value i, with these labels. */
static talc_dataset *numbered(const int64_t *labels, int64_t count)
{
    uint8_t pixels[256];
    for (int i = 0; i < 256; i++)
        pixels[i] = (uint8_t)i;
    return talc_dataset_tensors(
        talc_from_host(cpu_device(), TALC_U8, TALC_DIMS(count, 1, 1, 1), pixels),
        talc_from_host(cpu_device(), TALC_I64, TALC_DIMS(count), labels));
}

Test(data, a_selection_has_its_samples_in_their_order)
{
    const int64_t labels[] = { 3, 1, 4, 1, 5, 9 }, indices[] = { 5, 0, 5, 2, 1 };
    talc_dataset *whole = numbered(labels, 6), *some = talc_dataset_select(whole, indices, 5);
    owned_dataset *part = talc_dataset_part(some, 1, 4);
    owned_dataset *inner = talc_dataset_select(part, (int64_t[]){ 2, 0 }, 2);
    talc_dataset_free(whole);
    for (int i = 0; i < 5; i++)
        cr_assert(talc_dataset_pixels(some, i)[0] == indices[i] &&
                  talc_dataset_label(some, i) == labels[indices[i]]);
    for (int i = 0; i < 3; i++)
        cr_assert(talc_dataset_pixels(part, i)[0] == indices[1 + i]);
    cr_assert(talc_dataset_pixels(inner, 0)[0] == 2 && talc_dataset_pixels(inner, 1)[0] == 0);
    cr_assert(talc_dataset_count(inner) == 2 && talc_dataset_classes(inner) == 10);
    cr_assert(strcmp(talc_dataset_class(inner, 9), "9") == 0);
    /* A loader's batches are of the selection too. */
    owned_loader *loader = talc_loader_new(some, NULL);
    talc_batch batch;
    talc_loader_start(loader, 0);
    cr_assert(talc_loader_next(loader, &batch) && batch.count == 5);
    for (int i = 0; i < 5; i++)
        cr_assert(talc_data(batch.labels, TALC_I64) != NULL &&
                  ((const int64_t *)talc_data(batch.labels, TALC_I64))[i] == labels[indices[i]]);
    talc_dataset_free(some);
}

/* A folder's order: all of one class, then all of the next. */
static const struct {
    double share;
    int64_t count[4], first[4]; /* of each class; `first` by hand */
} split_cases[] = {
    { 0.8, { 50, 50, 0, 0 }, { 40, 40, 0, 0 } },
    { 0.8, { 10, 20, 30, 40 }, { 8, 16, 24, 32 } },
    { 0.8,
      { 3, 3, 3, 3 },
      { 2, 2, 2, 2 } }, /* 2.4, and 2.8 with what that left; but both parts have each class */
    { 0.9, { 2, 2, 1, 2 }, { 1, 1, 1, 1 } },
    { 0.9, { 2, 2, 2, 100 }, { 1, 1, 1, 90 } }, /* what the others gave up is not the last one's */
    { 0.5, { 1, 1, 1, 1 }, { 1, 0, 1, 0 } },    /* 0.5 is rounded up */
    { 0.3, { 5, 7, 9, 11 }, { 2, 2, 2, 4 } },   /* 1.5, 2.1 - 0.5, 2.7 - 0.4, 3.3 + 0.3 */
    { 0.01, { 9, 2, 100, 0 }, { 1, 1, 1, 0 } },
};

Test(data, a_split_shares_out_each_class)
{
    for (size_t c = 0; c < sizeof split_cases / sizeof *split_cases; c++) {
        int64_t labels[256], all = 0;
        for (int k = 0; k < 4; k++)
            for (int64_t i = 0; i < split_cases[c].count[k]; i++)
                labels[all++] = k;
        owned_dataset *whole = numbered(labels, all);
        const talc_dataset_parts split = talc_dataset_split(whole, split_cases[c].share, 7),
                                 again = talc_dataset_split(whole, split_cases[c].share, 7),
                                 other = talc_dataset_split(whole, split_cases[c].share, 8);
        cr_assert(split.first != NULL && other.rest != NULL, "%s", talc_error_message());
        int64_t have[4] = { 0 }, sorted = 0;
        bool seen[256] = { false }, differs = false;
        for (int side = 0; side < 2; side++) {
            talc_dataset *part = side == 0 ? split.first : split.rest;
            talc_dataset *same = side == 0 ? again.first : again.rest;
            talc_dataset *third = side == 0 ? other.first : other.rest;
            for (int64_t i = 0; i < talc_dataset_count(part); i++) {
                const uint8_t sample = talc_dataset_pixels(part, i)[0];
                cr_assert(!seen[sample] && talc_dataset_label(part, i) == labels[sample]);
                cr_assert(talc_dataset_pixels(same, i)[0] == sample);
                differs = differs || talc_dataset_pixels(third, i)[0] != sample;
                seen[sample] = true;
                have[labels[sample]] += side == 0;
                sorted += i > 0 && talc_dataset_pixels(part, i - 1)[0] < sample;
            }
            cr_assert(talc_dataset_classes(part) == talc_dataset_classes(whole));
        }
        cr_assert(talc_dataset_count(split.first) + talc_dataset_count(split.rest) == all);
        cr_assert(memcmp(have, split_cases[c].first, sizeof have) == 0,
                  "case %zu: %d %d %d %d in the first part", c, (int)have[0], (int)have[1],
                  (int)have[2], (int)have[3]);
        cr_assert(all < 50 || (differs && sorted > all / 4 && sorted < 3 * all / 4));
        const talc_dataset_parts made[] = { split, again, other };
        for (int i = 0; i < 3; i++) {
            talc_dataset_free(made[i].first);
            talc_dataset_free(made[i].rest);
        }
    }
}

static void cut(void)
{
    talc_dataset *whole = numbered((int64_t[]){ 0, 0, 1, 1, 3, 3 }, 6);
    talc_dataset_parts split = talc_dataset_split(whole, 0.5, 1);
    talc_dataset *all = talc_dataset_part(whole, 0, 6); /* nothing to tell of so far */
    fprintf(stderr, "then: ");
    talc_dataset *part = talc_dataset_part(whole, 0, 4);
    talc_dataset *more = talc_dataset_select(whole, (int64_t[]){ 2 }, 1);
    talc_dataset *const made[] = { whole, split.first, split.rest, all, part, more };
    for (int i = 0; i < 6; i++)
        talc_dataset_free(made[i]);
}

Test(data, a_part_that_lacks_classes_is_told_of_once)
{
    const char *said = file_stderr_of(cut);
    const char *expected =
        "then: talc: dataset_part: the part of 4 samples lacks 1 of 3 classes, such as '3'; "
        "talc_dataset_split shares out each class\n";
    cr_assert(strcmp(said, expected) == 0, "%s", said);
}

Test(data, statistics_are_those_of_each_channel)
{
    const float images[2][2][1][2] = { { { { 0, 1 } }, { { 0.2f, 0.2f } } },
                                       { { { 1, 0.6f } }, { { 0.2f, 0.2f } } } };
    const int64_t labels[] = { 0, 1 };
    talc_device *cpu = talc_device_host();
    owned_dataset *dataset =
        talc_dataset_tensors(talc_from_host(cpu, TALC_F32, TALC_DIMS(2, 2, 1, 2), images),
                             talc_from_host(cpu, TALC_I64, TALC_DIMS(2), labels));
    double mean[] = { 9, 9, 9, 9 }, deviation[] = { 9, 9, 9, 9 };
    cr_assert(talc_dataset_statistics(dataset, mean, deviation));
    /* By hand: 0, 1, 1, 0.6 have mean 0.65 and squares 2.36, so variance 0.59 - 0.4225. */
    const double expected_mean[] = { 0.65, 0.2, 0, 0 },
                 expected_deviation[] = { sqrt(0.1675), 0, 0, 0 };
    for (int c = 0; c < 4; c++)
        cr_assert(fabs(mean[c] - expected_mean[c]) < 1e-15 &&
                      fabs(deviation[c] - expected_deviation[c]) < 1e-15,
                  "channel %d: %.17g and %.17g", c, mean[c], deviation[c]);
    owned_dataset *part = talc_dataset_part(dataset, 1, 2);
    cr_assert(talc_dataset_statistics(part, mean, deviation) && fabs(mean[0] - 0.8) < 1e-15);
}

// ---- Out of memory ------------------------------------------------------------------------------

static void keep_dataset(fault_run *run, talc_dataset *dataset)
{
    for (int64_t i = 0; dataset != NULL && i < talc_dataset_count(dataset); i++) {
        const int64_t label = talc_dataset_label(dataset, i);
        const talc_dims dims = talc_dataset_dims(dataset);
        fault_keep_bytes(run, talc_dataset_pixels(dataset, i),
                         (size_t)(dims.dim[0] * dims.dim[1] * dims.dim[2]));
        fault_keep_bytes(run, talc_dataset_class(dataset, label), 1);
    }
    talc_dataset_free(dataset);
}

static void run_files(fault_run *run)
{
    write_gzip(file_path("i.gz"), images_3x2x3, sizeof images_3x2x3, "wb");
    file_write(file_path("l"), labels_3, sizeof labels_3);
    keep_dataset(run, talc_dataset_idx(file_path("i.gz"), file_path("l")));
}

static void run_mnist(fault_run *run)
{
    write_gzip(file_path("t10k-images-idx3-ubyte.gz"), images_3x2x3, sizeof images_3x2x3, "wb");
    file_write(file_path("t10k-labels-idx1-ubyte"), labels_3, sizeof labels_3);
    keep_dataset(run, talc_dataset_mnist(file_path(""), false));
}

static void run_folder(fault_run *run)
{
    write_case(made_file("f", "a", "x.png"), &png_cases[0]);
    write_case(made_file("f", "b", "y.png"), &png_cases[PNG_CASES - 1]);
    keep_dataset(run, talc_dataset_folder(made_folder("f")));
}

static void run_tensors(fault_run *run)
{
    talc_tensor *images = talc_full(run->device, TALC_F32, TALC_DIMS(3, 1, 2, 4), 0.25);
    talc_tensor *labels = talc_zeros(run->device, TALC_I64, TALC_DIMS(3));
    owned_dataset *dataset = talc_dataset_tensors(talc_transpose(images, 2, 3), labels);
    keep_dataset(run, dataset == NULL ? NULL : talc_dataset_part(dataset, 1, 3));
}

static void run_parts(fault_run *run)
{
    talc_dataset *whole = numbered((int64_t[]){ 0, 0, 1, 1, 1 }, 5);
    const talc_dataset_parts split =
        whole == NULL ? (talc_dataset_parts){ 0 } : talc_dataset_split(whole, 0.5, 1);
    talc_dataset *some =
        split.rest == NULL ? NULL : talc_dataset_select(split.rest, (int64_t[]){ 1, 0, 1 }, 3);
    talc_dataset_free(whole);
    keep_dataset(run, split.first);
    talc_dataset_free(split.rest);
    keep_dataset(run, some);
}

static void run_digits(fault_run *run)
{
    keep_dataset(run, talc_dataset_digits(3, 1));
}

Test(data, every_allocation_may_fail)
{
    const fault_scenario scenarios[] = {
        { "idx", NULL, run_files, NULL, NULL },     { "mnist", NULL, run_mnist, NULL, NULL },
        { "folder", NULL, run_folder, NULL, NULL }, { "digits", NULL, run_digits, NULL, NULL },
        { "parts", NULL, run_parts, NULL, NULL },
    };
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        cr_assert(assert_survives_allocation_failures(&scenarios[i], cpu_device()) > 8, "%s",
                  scenarios[i].name);
    remove_made();
    const fault_scenario tensors = { "tensors", NULL, run_tensors, NULL, NULL };
    assert_survives_everywhere(&tensors, 16);
}
