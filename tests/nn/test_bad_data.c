/// What datasets and loaders refuse, word for word.
#include "tests/support/data_files.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/refused.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A message that names a file of this test, or two. */
static const char *about(const char *format, const char *path, const char *other)
{
    static char text[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, format, path, other);
#pragma GCC diagnostic pop
    return text;
}

// ---- IDX ----------------------------------------------------------------------------------------

/* Two images of 1x2 with two labels: what each case below corrupts. */
static const uint8_t good_images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4 };
static const uint8_t good_labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 0, 1 };

enum { GOOD_IMAGES = sizeof good_images, GOOD_LABELS = sizeof good_labels };

typedef struct idx_case {
    int at; /* bytes from here on are replaced */
    const char *bytes;
    int count, length; /* how many bytes; how long the file is then */
    const char *message;
} idx_case;

// clang-format off
static const idx_case idx_cases[] = {
    { 0, "\x89PNG", 4, GOOD_IMAGES, "dataset_idx: '%s' begins with 89504e47, an IDX file with 0000" },
    { 2, "\x0d", 1, GOOD_IMAGES, "dataset_idx: '%s' holds elements of type 0x0d, images are bytes, 0x08" },
    { 3, "\x01", 1, GOOD_IMAGES, "dataset_idx: '%s' has 1 dimensions, images have 3 or 4" },
    { 3, "\x05", 1, GOOD_IMAGES, "dataset_idx: '%s' has 5 dimensions, images have 3 or 4" },
    { 3, "\xff", 1, GOOD_IMAGES, "dataset_idx: '%s' has 255 dimensions, images have 3 or 4" },
    { 7, "\0", 1, GOOD_IMAGES, "dataset_idx: '%s' is empty" },
    { 15, "\0", 1, GOOD_IMAGES, "dataset_idx: '%s' is empty" },
    { 0, "", 0, 0, "dataset_idx: '%s' ends 4 bytes too early" },
    { 0, "", 0, 3, "dataset_idx: '%s' ends 1 byte too early" },
    { 0, "", 0, 14, "dataset_idx: '%s' ends 2 bytes too early" },
    { 0, "", 0, 19, "dataset_idx: '%s' says [2,1,2], but after its header come at most 3 bytes" },
    { 20, "\0", 1, 21, "dataset_idx: '%s' says [2,1,2], but after its header come 5 bytes" },
    { 4, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12, GOOD_IMAGES,
      "dataset_idx: '%s' says [4294967295,4294967295,4294967295], but after its header come at most 4 bytes" },
};

/* The same through gzip, whose length says little. */
static const idx_case gzip_cases[] = {
    { 0, "", 0, 19, "dataset_idx: '%s' ends 1 byte too early" },
    { 20, "\0", 1, 21, "dataset_idx: '%s' goes on after the last element" },
    { 0, "\x89PNG", 4, GOOD_IMAGES, "dataset_idx: '%s' begins with 89504e47, an IDX file with 0000" },
};
// clang-format on

static int corrupt(const idx_case *c, uint8_t bytes[64])
{
    memcpy(bytes, good_images, GOOD_IMAGES);
    memcpy(bytes + c->at, c->bytes, (size_t)c->count);
    return c->length;
}

Test(bad_data, idx)
{
    const char *images = file_path("images"), *labels = file_path("labels");
    const char *packed = file_path("images.gz");
    uint8_t bytes[64];
    file_write(labels, good_labels, GOOD_LABELS);
    for (size_t i = 0; i < sizeof idx_cases / sizeof *idx_cases; i++) {
        file_write(images, bytes, (size_t)corrupt(&idx_cases[i], bytes));
        REFUSED(TALC_BAD_FORMAT, about(idx_cases[i].message, images, ""),
                talc_dataset_idx(images, labels));
    }
    for (size_t i = 0; i < sizeof gzip_cases / sizeof *gzip_cases; i++) {
        write_gzip(packed, bytes, (size_t)corrupt(&gzip_cases[i], bytes), "wb");
        REFUSED(TALC_BAD_FORMAT, about(gzip_cases[i].message, packed, ""),
                talc_dataset_idx(packed, labels));
    }
    /* 2^62 bytes in a hundred: refused before memory is asked for. */
    memcpy(bytes, good_images, GOOD_IMAGES);
    memcpy(bytes + 4, "\x7f\xff\xff\xff\x7f\xff\xff\xff\0\0\0\1", 12);
    write_gzip(packed, bytes, GOOD_IMAGES, "wb");
    REFUSED_LIKE(TALC_BAD_FORMAT,
                 about("dataset_idx: '%s' says [2147483647,2147483647,1], but after its header "
                       "come at most ",
                       packed, ""),
                 talc_dataset_idx(packed, labels));

    file_write(images, good_images, GOOD_IMAGES);
    file_write(labels, "\0\0\x08\x01\0\0\0\3\0\0\0", 11);
    REFUSED(TALC_BAD_FORMAT, about("dataset_idx: '%s' has 2 images, '%s' 3 labels", images, labels),
            talc_dataset_idx(images, labels));
    file_write(labels, good_images, GOOD_IMAGES);
    REFUSED(TALC_BAD_FORMAT, about("dataset_idx: '%s' has 3 dimensions, labels have 1", labels, ""),
            talc_dataset_idx(images, labels));
    REFUSED(TALC_IO_ERROR,
            about("dataset_idx: cannot open '%s': No such file or directory", file_path("no"), ""),
            talc_dataset_idx(file_path("no"), labels));
    REFUSED_LIKE(TALC_IO_ERROR, "dataset_idx: ", talc_dataset_idx(images, file_path("")));
    REFUSED(TALC_NULL_ARGUMENT, "dataset_idx: images is NULL", talc_dataset_idx(NULL, labels));
    REFUSED(TALC_NULL_ARGUMENT, "dataset_idx: labels is NULL", talc_dataset_idx(images, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "dataset_mnist: directory is NULL", talc_dataset_mnist(NULL, true));
    REFUSED(TALC_NOT_FOUND,
            about("dataset_mnist: '%s' has neither train-images-idx3-ubyte nor "
                  "train-images.idx3-ubyte, plain or .gz",
                  file_path("x"), ""),
            talc_dataset_mnist(file_path("x"), true));
    refused_end(24);
}

/* Every byte of a gzip file changed, and the file cut at every length: refused, or still the same
 * content. */
Test(bad_data, damaged_gzip)
{
    const char *path = file_path("i.gz"), *labels = file_path("l");
    write_gzip(path, good_images, GOOD_IMAGES, "wb");
    file_write(labels, good_labels, GOOD_LABELS);
    size_t count = 0;
    char *bytes = file_bytes(path, &count);
    for (size_t i = 0; i < count; i++)
        for (int cut = 0; cut < 2; cut++) {
            bytes[i] = (char)(bytes[i] ^ (cut ? 0 : 0x55));
            file_write(path, bytes, cut ? i : count);
            bytes[i] = (char)(bytes[i] ^ (cut ? 0 : 0x55));
            talc_dataset *dataset = talc_dataset_idx(path, labels);
            if (dataset == NULL)
                cr_assert(talc_error_status() == TALC_BAD_FORMAT, "byte %zu: %s", i,
                          talc_error_message());
            else /* a time, a name of a system: nothing that counts */
                cr_assert(!cut && talc_dataset_count(dataset) == 2 &&
                              memcmp(talc_dataset_pixels(dataset, 0), good_images + 16, 4) == 0,
                          "byte %zu", i);
            talc_dataset_free(dataset);
            talc_error_clear();
        }
    file_write(path, bytes, count - 3);
    REFUSED(TALC_BAD_FORMAT,
            about("dataset_idx: the gzip data of '%s' is damaged: it ends early", path, ""),
            talc_dataset_idx(path, labels));
    /* Zeros may follow, and nothing else. */
    bytes = realloc(bytes, count + 3);
    memcpy(bytes + count, "\0\0x", 3);
    file_write(path, bytes, count + 2);
    talc_dataset_free(talc_dataset_idx(path, labels));
    assert_no_failure();
    file_write(path, bytes, count + 3);
    REFUSED(TALC_BAD_FORMAT,
            about("dataset_idx: the gzip data of '%s' is damaged: it ends early", path, ""),
            talc_dataset_idx(path, labels));
    bytes[count - 8] ^= 1;
    file_write(path, bytes, count);
    REFUSED(TALC_BAD_FORMAT,
            about("dataset_idx: the gzip data of '%s' is damaged: incorrect data check", path, ""),
            talc_dataset_idx(path, labels));
    free(bytes);
    refused_end(3);
}

// ---- Folders ------------------------------------------------------------------------------------

static const uint8_t row[4] = { 1, 2, 3, 4 };

static void write_grey(const char *path, int height, int width)
{
    write_png(path, &(written_png){ .type = PNG_COLOR_TYPE_GRAY,
                                    .depth = 8,
                                    .height = height,
                                    .width = width,
                                    .rows = { row, row, row, row } });
}

Test(bad_data, folders)
{
    REFUSED(TALC_NULL_ARGUMENT, "dataset_folder: directory is NULL", talc_dataset_folder(NULL));
    REFUSED(
        TALC_IO_ERROR,
        about("dataset_folder: cannot open '%s': No such file or directory", file_path("no"), ""),
        talc_dataset_folder(file_path("no")));
    const char *folder = made_folder("f");
    REFUSED(TALC_NOT_FOUND,
            about("dataset_folder: '%s' holds no folder; each is a class", folder, ""),
            talc_dataset_folder(folder));
    const char *class_b = made_folder("f/b");
    REFUSED(TALC_NOT_FOUND, about("dataset_folder: '%s' holds no *.png", class_b, ""),
            talc_dataset_folder(folder));

    const char *first = made_file("f", "a", "1.png"), *second = made_file("f", "b", "2.png");
    write_grey(first, 3, 4);
    write_grey(second, 2, 4);
    REFUSED(TALC_BAD_SHAPE,
            about("dataset_folder: '%s' is 2x4, '%s' 3x4 (height x width)", second, first),
            talc_dataset_folder(folder));
    file_write(second, "no image at all", 15);
    REFUSED(
        TALC_BAD_FORMAT,
        about("dataset_folder: '%s' begins with 6e6f2069, it is neither PNG nor JPEG", second, ""),
        talc_dataset_folder(folder));
    file_write(second, "", 0);
    REFUSED(TALC_BAD_FORMAT,
            about("dataset_folder: '%s' ends early: after byte 0 come 0 of 8", second, ""),
            talc_dataset_folder(folder));
    (void)remove(second);
    (void)mkdir(second, 0700);
    REFUSED(TALC_IO_ERROR,
            about("dataset_folder: '%s' is a directory, not a regular file", second, ""),
            talc_dataset_folder(folder));
    (void)rmdir(second);
    if (geteuid() != 0) { /* to whom nothing is unreadable */
        (void)chmod(class_b, 0);
        REFUSED(TALC_IO_ERROR,
                about("dataset_folder: cannot open '%s': Permission denied", class_b, ""),
                talc_dataset_folder(folder));
        (void)chmod(class_b, 0700);
    }
    cr_assert(mkfifo(second, 0600) == 0);
    REFUSED(TALC_IO_ERROR, about("dataset_folder: '%s' is a pipe, not a regular file", second, ""),
            talc_dataset_folder(folder));
    REFUSED(TALC_IO_ERROR, about("image_load: '%s' is a pipe, not a regular file", second, ""),
            talc_image_load(second, NULL));
    REFUSED(TALC_IO_ERROR, about("dataset_idx: '%s' is a pipe, not a regular file", second, ""),
            talc_dataset_idx(second, first));
    (void)remove(second);
    write_grey(second, 3, 4);
    /* A class that cannot be looked at is not left out. */
    char linked[600];
    snprintf(linked, sizeof linked, "%s/c", folder);
    cr_assert(symlink("c", linked) == 0);
    REFUSED(
        TALC_IO_ERROR,
        about("dataset_folder: cannot look at '%s': Too many levels of symbolic links", linked, ""),
        talc_dataset_folder(folder));
    (void)remove(linked);
    remove_made();
    refused_end(12);
}

/* Cut at every length and with every byte changed, an image is refused or read, and nothing
 * leaks. */
Test(bad_data, damaged_png)
{
    const char *folder = made_folder("f"), *path = made_file("f", "a", "x.png");
    write_grey(path, 4, 4);
    size_t count = 0;
    char *bytes = file_bytes(path, &count);
    for (size_t i = 0; i < count; i++)
        for (int cut = 0; cut < 2; cut++) {
            bytes[i] = (char)(bytes[i] ^ (cut ? 0 : 0x55));
            file_write(path, bytes, cut ? i : count);
            bytes[i] = (char)(bytes[i] ^ (cut ? 0 : 0x55));
            talc_dataset *dataset = talc_dataset_folder(folder);
            cr_assert(dataset == NULL || !cut, "cut at byte %zu it is read", i);
            cr_assert(dataset != NULL || talc_error_status() == TALC_BAD_FORMAT, "byte %zu: %s", i,
                      talc_error_message());
            talc_dataset_free(dataset);
            talc_error_clear();
        }
    /* A header that asks for 10^12 pixels: its checksum is right. */
    const char huge[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\x0f\x42\x40\0\x0f\x42\x40\x08\0\0\0\0";
    uint8_t whole[sizeof huge + 3 + 12];
    memcpy(whole, huge, sizeof huge - 1);
    uint32_t crc = 0xffffffff; /* of what follows the length: CRC-32 as PNG defines it */
    for (size_t i = 12; i < sizeof huge - 1; i++) {
        crc ^= whole[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    crc = ~crc;
    for (size_t i = 0; i < 4; i++)
        whole[sizeof huge - 1 + i] = (uint8_t)(crc >> (24 - 8 * i));
    memcpy(whole + sizeof huge + 3, "\0\0\0\0IDAT\x35\xaf\x06\x1e", 12);
    file_write(path, whole, sizeof whole);
    REFUSED(TALC_BAD_FORMAT,
            about("dataset_folder: '%s' says 1000000x1000000, which its 45 bytes cannot hold", path,
                  ""),
            talc_dataset_folder(folder));
    free(bytes);
    remove_made();
    refused_end(1);
}

// ---- Tensors, digits, parts, loaders ------------------------------------------------------------

// clang-format off
Test(bad_data, arguments)
{
    talc_device *cpu = cpu_device();
    talc_tensor *images = talc_zeros(cpu, TALC_F32, TALC_DIMS(2, 1, 3, 4)), *labels = talc_zeros(cpu, TALC_I64, TALC_DIMS(2));
    talc_tensor *wrong = talc_full(cpu, TALC_F32, TALC_DIMS(2, 1, 3, 4), 1.5), *negative = talc_full(cpu, TALC_I64, TALC_DIMS(2), -1);
    talc_tensor *integers = talc_cast(images, TALC_I64), *floats = talc_cast(labels, TALC_F32), *many = talc_full(cpu, TALC_I64, TALC_DIMS(2), 65536);
    refused_watch(images);
    refused_watch(labels);
    REFUSED(TALC_NULL_ARGUMENT, "dataset_tensors: images is NULL", talc_dataset_tensors(NULL, labels));
    REFUSED(TALC_NULL_ARGUMENT, "dataset_tensors: labels is NULL", talc_dataset_tensors(images, NULL));
    REFUSED(TALC_BAD_SHAPE, "dataset_tensors: images [2] must be [N,C,H,W] with no extent 0", talc_dataset_tensors(labels, labels));
    REFUSED(TALC_BAD_SHAPE, "dataset_tensors: images [0,1,3,4] must be [N,C,H,W] with no extent 0", talc_dataset_tensors(talc_slice(images, 0, 0, 0, 1), labels));
    REFUSED(TALC_BAD_DTYPE, "dataset_tensors: images are i64, they must be u8, f32 or f64", talc_dataset_tensors(integers, labels));
    REFUSED(TALC_BAD_DTYPE, "dataset_tensors: labels are f32, they must be i64", talc_dataset_tensors(images, floats));
    REFUSED(TALC_BAD_SHAPE, "dataset_tensors: labels [1] must be [2], one an image", talc_dataset_tensors(images, talc_slice(labels, 0, 0, 1, 1)));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_tensors: image 0 holds 1.5, pixels are 0 .. 1", talc_dataset_tensors(wrong, labels));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_tensors: label -1 of sample 0 is outside 0..65535", talc_dataset_tensors(images, negative));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_tensors: label 65536 of sample 0 is outside 0..65535", talc_dataset_tensors(images, many));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_digits: count 0 must be at least 1", talc_dataset_digits(0, 1));
    REFUSED(TALC_TOO_LARGE, "dataset_digits: 9223372036854775807 images [1,28,28] need more than 9223372036854775807 bytes", talc_dataset_digits(INT64_MAX, 1));

    talc_dataset *dataset = talc_dataset_tensors(images, labels);
    REFUSED(TALC_NULL_ARGUMENT, "dataset_part: dataset is NULL", talc_dataset_part(NULL, 0, 1));
    talc_dataset *five = talc_dataset_tensors(talc_zeros(cpu, TALC_F32, TALC_DIMS(2, 5, 1, 1)), labels);
    double mean[4] = { 9 }, deviation[4] = { 9 };
    REFUSED(TALC_NULL_ARGUMENT, "dataset_statistics: dataset is NULL", talc_dataset_statistics(NULL, mean, deviation));
    REFUSED(TALC_NULL_ARGUMENT, "dataset_statistics: mean is NULL", talc_dataset_statistics(dataset, NULL, deviation));
    REFUSED(TALC_NULL_ARGUMENT, "dataset_statistics: deviation is NULL", talc_dataset_statistics(dataset, mean, NULL));
    REFUSED(TALC_BAD_SHAPE, "dataset_statistics: the images have 5 channels, the statistics are of 4", talc_dataset_statistics(five, mean, deviation));
    cr_assert(mean[0] == 9 && deviation[0] == 9);
    talc_dataset_free(five);
    REFUSED(TALC_BAD_ARGUMENT, "dataset_part: samples 1 to 1 are none of a dataset of 2", talc_dataset_part(dataset, 1, 1));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_part: samples -1 to 1 are none of a dataset of 2", talc_dataset_part(dataset, -1, 1));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_part: samples 0 to 3 are none of a dataset of 2", talc_dataset_part(dataset, 0, 3));
    REFUSED(TALC_NULL_ARGUMENT, "dataset_select: dataset is NULL", talc_dataset_select(NULL, (int64_t[]){ 0 }, 1));
    REFUSED(TALC_NULL_ARGUMENT, "dataset_select: indices is NULL", talc_dataset_select(dataset, NULL, 1));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_select: count 0 must be at least 1", talc_dataset_select(dataset, (int64_t[]){ 0 }, 0));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_select: sample 2 at place 1 is outside 0..1", talc_dataset_select(dataset, (int64_t[]){ 0, 2 }, 2));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_select: sample -1 at place 0 is outside 0..1", talc_dataset_select(dataset, (int64_t[]){ -1 }, 1));
    REFUSED(TALC_TOO_LARGE, "dataset_select: 9223372036854775807 samples need more than 9223372036854775807 bytes", talc_dataset_select(dataset, (int64_t[]){ 0 }, INT64_MAX));
    REFUSED(TALC_NULL_ARGUMENT, "dataset_split: dataset is NULL", talc_dataset_split(NULL, 0.5, 1).first);
    REFUSED(TALC_BAD_ARGUMENT, "dataset_split: share 1 must be between 0 and 1", talc_dataset_split(dataset, 1, 1).first);
    REFUSED(TALC_BAD_ARGUMENT, "dataset_split: share 0 must be between 0 and 1", talc_dataset_split(dataset, 0, 1).rest);
    REFUSED(TALC_BAD_ARGUMENT, "dataset_split: share nan must be between 0 and 1", talc_dataset_split(dataset, NAN, 1).first);
    talc_dataset *one = talc_dataset_part(dataset, 0, 1);
    REFUSED(TALC_BAD_ARGUMENT, "dataset_split: share 0.5 of 1 sample leaves a part without any", talc_dataset_split(one, 0.5, 1).first);
    talc_dataset_free(one);

#define LOADER(...) talc_loader_new(dataset, &(talc_loader_options){ __VA_ARGS__ })
    REFUSED(TALC_NULL_ARGUMENT, "loader: dataset is NULL", talc_loader_new(NULL, NULL));
    REFUSED(TALC_BAD_DTYPE, "loader: images of i64 are not made, they must be f32 or f64", LOADER(.dtype = TALC_I64));
    REFUSED(TALC_BAD_ARGUMENT, "loader: batch -1 must be at least 1", LOADER(.batch = -1));
    REFUSED(TALC_BAD_ARGUMENT, "loader: batch 3 with drop_last leaves nothing of 2 samples", LOADER(.batch = 3, .drop_last = true));
    REFUSED(TALC_BAD_ARGUMENT, "loader: shift -1 is outside 0..2 for images of 3x4", LOADER(.shift = -1));
    REFUSED(TALC_BAD_ARGUMENT, "loader: shift 3 is outside 0..2 for images of 3x4", LOADER(.shift = 3));
    REFUSED(TALC_BAD_ARGUMENT, "loader: mean nan and deviation 0 of channel 0 must be finite, the deviation not negative", LOADER(.mean = { NAN }));
    REFUSED(TALC_BAD_ARGUMENT, "loader: mean 0 and deviation -1 of channel 0 must be finite, the deviation not negative", LOADER(.deviation = { -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "loader: mean 0.5 and deviation 0 are of channel 1, the images have 1", LOADER(.mean = { 0, 0.5 }));
    talc_loader *loader = LOADER(.batch = 2);
    talc_batch batch = { .index = 7 };
    REFUSED(TALC_NULL_ARGUMENT, "loader_start: loader is NULL", talc_loader_start(NULL, 0));
    REFUSED(TALC_BAD_ARGUMENT, "loader_start: epoch -1 and batch 0 must be at least 0, the batch at most 1", talc_loader_start(loader, -1));
    REFUSED(TALC_BAD_ARGUMENT, "loader_start: epoch 0 and batch 2 must be at least 0, the batch at most 1", talc_loader_start_at(loader, 0, 2));
    REFUSED(TALC_NULL_ARGUMENT, "loader_next: loader is NULL", talc_loader_next(NULL, &batch));
    REFUSED(TALC_NULL_ARGUMENT, "loader_next: batch is NULL", talc_loader_next(loader, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "loader_next: no epoch was begun; talc_loader_start does", talc_loader_next(loader, &batch));
    HARMLESS(batch.index == 7 && talc_loader_batches(NULL) == 0 && talc_loader_sample(NULL, 0) == -1 && talc_loader_sample(loader, 0) == -1);
    HARMLESS(talc_dataset_count(NULL) == 0 && talc_dataset_dims(NULL).rank == 0 && talc_dataset_classes(NULL) == 0);
    HARMLESS((talc_loader_free(NULL), talc_dataset_free(NULL), true));
    talc_loader_free(loader);
    talc_dataset_free(dataset);
    refused_end(49);
}
// clang-format on
