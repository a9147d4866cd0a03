/// Samples that are made or read when they are asked for: callbacks, image folders, mixtures, draws
/// by weight, and the augmentation of a loader, on any number of threads.
#include "tests/support/data_files.h"
#include "tests/support/fake_device.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/image_cases.h"
#include "tests/support/loaders.h"
#include "tests/support/refused.h"

#include "tensor/philox.h"

#include <math.h>
#include <png.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// ---- Callbacks ----------------------------------------------------------------------------------

enum { SIDE_H = 12, SIDE_W = 10, PLANE = SIDE_H * SIDE_W, COUNT = 23 };

/* What a dataset's function is to do, and what came of it. */
typedef struct maker {
    atomic_int calls, frees, elsewhere;
    pthread_t program;
    int64_t fails_at;  /* slowly; -1: never */
    int64_t fails_too; /* at once; 0: never */
    bool is_slow;
    bool says_why;
} maker;

static void count_free(void *context)
{
    ((maker *)context)->frees++;
}

static uint8_t value_at(int64_t sample, int64_t element)
{
    return (uint8_t)(talc_philox(9, (uint64_t)sample, (uint64_t)element).word[0] >> 24);
}

/* Three planes of noise, and as the mask the first of them, in i64. */
static talc_status make_masked(void *context, int64_t index, void *image, void *target)
{
    maker *m = context;
    m->calls++;
    m->elsewhere += !pthread_equal(pthread_self(), m->program);
    if (m->is_slow)
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    for (int64_t i = 0; i < 3 * PLANE; i++)
        ((uint8_t *)image)[i] = value_at(index, i);
    for (int64_t i = 0; i < PLANE; i++)
        ((int64_t *)target)[i] = value_at(index, i);
    /* What a function makes on the way is not its business to free. */
    if (talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(100)) == NULL)
        return talc_error_status();
    if (index == m->fails_too && index > 0)
        return TALC_NOT_FOUND;
    if (index != m->fails_at)
        return TALC_OK;
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    return m->says_why ? talc_fail(TALC_IO_ERROR, "sample %d is gone", (int)index) : TALC_IO_ERROR;
}

static talc_callbacks masked(maker *m, bool in_threads)
{
    *m = (maker){ .program = pthread_self(), .fails_at = -1 };
    return (talc_callbacks){ .context = m,
                             .count = COUNT,
                             .image = TALC_DIMS(3, SIDE_H, SIDE_W),
                             .image_dtype = TALC_U8,
                             .target = TALC_DIMS(SIDE_H, SIDE_W),
                             .target_dtype = TALC_I64,
                             .in_threads = in_threads,
                             .get = make_masked,
                             .free = count_free };
}

static talc_dataset *masked_dataset(maker *m, bool in_threads)
{
    const talc_callbacks callbacks = masked(m, in_threads);
    talc_dataset *dataset = talc_dataset_callbacks(&callbacks);
    cr_assert(dataset != NULL, "%s", talc_error_message());
    return dataset;
}

Test(samples, a_callback_makes_images_and_masks)
{
    maker m;
    owned_dataset *dataset = masked_dataset(&m, true);
    cr_assert(talc_dataset_count(dataset) == COUNT && talc_dataset_dims(dataset).dim[1] == SIDE_H);
    cr_assert(talc_dataset_label(dataset, 0) == -1 && talc_dataset_pixels(dataset, 0) == NULL &&
              talc_dataset_classes(dataset) == 0);
    owned_loader *loader =
        begun_loader(dataset, (talc_loader_options){ .device = tested_device(), .batch = 5 }, 0);
    talc_batch batch;
    int64_t sample = 0;
    while (talc_loader_next(loader, &batch)) {
        uint8_t *bytes = malloc((size_t)batch.count * 3 * PLANE * 4);
        int64_t masks[5 * PLANE];
        cr_assert(batch.labels->rank == 3 && batch.labels->dims[1] == SIDE_H &&
                  batch.labels->dims[2] == SIDE_W && batch.labels->dtype == TALC_I64);
        cr_assert(talc_to_host(batch.images, bytes, talc_nbytes(batch.images)) &&
                  talc_to_host(batch.labels, masks, talc_nbytes(batch.labels)));
        for (int64_t n = 0; n < batch.count; n++, sample++) {
            for (int64_t i = 0; i < 3 * PLANE; i++)
                cr_assert(((float *)(void *)bytes)[n * 3 * PLANE + i] ==
                          (float)(value_at(sample, i) / 255.0));
            for (int64_t i = 0; i < PLANE; i++)
                cr_assert(masks[n * PLANE + i] == value_at(sample, i));
        }
        free(bytes);
    }
    cr_assert(sample == COUNT && m.calls == COUNT);
}

static talc_status make_numbers(void *context, int64_t index, void *image, void *target)
{
    (void)context;
    for (int i = 0; i < 5; i++)
        ((float *)image)[i] = (float)index + 0.1F * (float)i;
    ((double *)target)[index % 2] = (double)index;
    return TALC_OK;
}

/* Numbers of any shape as they are, and what a function does not write is 0. */
Test(samples, a_callback_makes_numbers)
{
    owned_dataset *dataset = talc_dataset_callbacks(&(talc_callbacks){ .count = 7,
                                                                       .image = TALC_DIMS(5),
                                                                       .target = TALC_DIMS(2),
                                                                       .target_dtype = TALC_F64,
                                                                       .classes = 3,
                                                                       .get = make_numbers });
    cr_assert(talc_dataset_classes(dataset) == 3 &&
              strcmp(talc_dataset_class(dataset, 2), "2") == 0);
    for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
        owned_loader *loader =
            begun_loader(dataset, (talc_loader_options){ .batch = 7, .dtype = dtype }, 0);
        talc_batch batch;
        cr_assert(talc_loader_next(loader, &batch) && batch.images->rank == 2);
        const void *images = talc_data_read(batch.images, dtype);
        const double *targets = talc_data_read(batch.labels, TALC_F64);
        for (int i = 0; i < 35; i++) {
            const float expected = (float)(i / 5) + 0.1F * (float)(i % 5);
            cr_assert(dtype == TALC_F32 ? ((const float *)images)[i] == expected
                                        : ((const double *)images)[i] == (double)expected);
        }
        for (int i = 0; i < 14; i++)
            cr_assert(targets[i] == (i / 2 % 2 == i % 2 ? i / 2 : 0), "element %d", i);
    }
    owned_dataset *whole = talc_dataset_part(dataset, 2, 7);
    talc_dataset_parts parts = talc_dataset_split(whole, 0.4, 1);
    cr_assert(talc_dataset_count(parts.first) == 2 && talc_dataset_count(parts.rest) == 3);
    talc_dataset_free(parts.first);
    talc_dataset_free(parts.rest);
}

Test(samples, a_callback_is_called_where_it_asks_to_be)
{
    for (int in_threads = 0; in_threads < 2; in_threads++) {
        maker m;
        talc_dataset *dataset = masked_dataset(&m, in_threads == 1);
        owned_dataset *part = talc_dataset_mix((talc_dataset *[]){ dataset }, NULL, 1);
        talc_dataset_free(dataset);
        owned_loader *loader =
            begun_loader(part, (talc_loader_options){ .batch = 4, .threads = 3 }, 0);
        talc_batch batch;
        while (talc_loader_next(loader, &batch))
            assert_no_failure();
        cr_assert(m.calls == COUNT && m.elsewhere == in_threads * COUNT, "%d of %d elsewhere",
                  m.elsewhere, m.calls);
        cr_assert(m.frees == 0);
    }
}

Test(samples, a_context_is_freed_with_the_last_that_has_it)
{
    maker m;
    talc_dataset *dataset = masked_dataset(&m, true);
    talc_loader *loader = talc_loader_new(dataset, &(talc_loader_options){ .threads = 2 });
    talc_dataset_free(dataset);
    cr_assert(talc_loader_start(loader, 0) && m.frees == 0);
    talc_loader_free(loader);
    cr_assert(m.frees == 1);
}

/* Other batches come as they would, and the same call may be repeated. */
Test(samples, a_failing_callback_fails_its_batch)
{
    for (int i = 0; i < 12; i++) {
        maker m;
        owned_dataset *dataset = masked_dataset(&m, i % 2 == 0);
        m.fails_at = 9;
        m.says_why = i % 4 < 2;
        owned_loader *loader = begun_loader(
            dataset,
            (talc_loader_options){
                .batch = 4, .threads = 1 + i % 3, .device = i < 6 ? NULL : fake_device() },
            0);
        talc_batch batch;
        cr_assert(talc_loader_next(loader, &batch) && talc_loader_next(loader, &batch));
        for (int k = 0; k < 3; k++) {
            cr_assert(!talc_loader_next(loader, &batch) && batch.index == 1);
            assert_failure(m.says_why ? TALC_IO_ERROR : TALC_IO_ERROR,
                           m.says_why
                               ? "sample 9 is gone"
                               : "loader: the callback failed for sample 9: a file could not "
                                 "be read or written");
        }
        m.fails_at = -1;
        for (int k = 2; k < 6; k++)
            cr_assert(talc_loader_next(loader, &batch) && batch.index == k);
        cr_assert(!talc_loader_next(loader, &batch));
        assert_no_failure();
    }
}

/* Whichever thread is the first to fail. */
Test(samples, of_failures_in_a_batch_the_first_sample_s_is_told)
{
    maker m;
    owned_dataset *dataset = masked_dataset(&m, true);
    m.fails_at = 5;
    m.fails_too = 7;
    for (int threads = 1; threads < 6; threads++) {
        owned_loader *loader =
            begun_loader(dataset, (talc_loader_options){ .batch = 8, .threads = threads }, 0);
        talc_batch batch;
        cr_assert(!talc_loader_next(loader, &batch));
        assert_failure(TALC_IO_ERROR, "loader: the callback failed for sample 5: a file could not "
                                      "be read or written");
    }
}

/* On a thread of the loader, whose own scope lasts as long as it does. */
Test(samples, what_a_callback_makes_is_freed_when_it_returns)
{
    maker m;
    owned_dataset *dataset = masked_dataset(&m, true);
    owned_loader *loader = begun_loader(dataset, (talc_loader_options){ .batch = 4 }, 0);
    size_t live = 0;
    for (int64_t epoch = 0; epoch < 5; epoch++) {
        talc_batch batch;
        cr_assert(talc_loader_start(loader, epoch));
        while (talc_loader_next(loader, &batch))
            assert_no_failure();
        const size_t now = talc_device_memory(cpu_device()).live;
        cr_assert(epoch == 0 || now == live, "%zu bytes, then %zu", live, now);
        live = now;
    }
}

// ---- Image folders ------------------------------------------------------------------------------

static const char *folder_file(const char *class, const char *name, const void *bytes, size_t count)
{
    const char *path = made_file("photos", class, name);
    file_write(path, bytes, count);
    return path;
}

/* JPEG of 13x17, of 17x13 as its EXIF turns it, grey, progressive; and a PNG of 3x5. */
static const char *made_photos(void)
{
    static const uint8_t row[] = { 0, 50, 100, 150, 200 };
    folder_file("a", "0.jpg", jpeg_rgb, sizeof jpeg_rgb);
    folder_file("a", "1.JPEG", jpeg_sharp, sizeof jpeg_sharp);
    folder_file("a", "notes.txt", "no", 2);
    folder_file("b", "0.jpg", jpeg_grey, sizeof jpeg_grey);
    folder_file("b", "1.jpeg", jpeg_progressive, sizeof jpeg_progressive);
    write_png(made_file("photos", "b", "2.png"), &(written_png){ .type = PNG_COLOR_TYPE_GRAY,
                                                                 .depth = 8,
                                                                 .height = 3,
                                                                 .width = 5,
                                                                 .rows = { row },
                                                                 .same_rows = true });
    return made_folder("photos");
}

static const char *const photo_names[] = { "a/0.jpg", "a/1.JPEG", "b/0.jpg", "b/1.jpeg",
                                           "b/2.png" };

static const char *photo_path(int64_t i)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", made_folder("photos"), photo_names[i]);
    return path;
}

static talc_dataset *photos_of(talc_image_folder_options options)
{
    talc_dataset *dataset = talc_dataset_image_folder(made_photos(), &options);
    cr_assert(dataset != NULL, "%s", talc_error_message());
    return dataset;
}

Test(samples, images_of_a_folder_are_resized_and_cropped_as_image_load_does)
{
    const talc_image_folder_options cases[] = { { .size = { 8, 8 }, .resize = { 9, 0 } },
                                                { .size = { 7, 0 }, .resize = { 20, 30 } },
                                                { .size = { 6, 11 } } };
    for (int k = 0; k < 3; k++) {
        owned_dataset *dataset = photos_of(cases[k]);
        const talc_image_size size = { cases[k].size.height, k == 1 ? 7 : cases[k].size.width },
                              resize = k == 2 ? size : cases[k].resize;
        cr_assert(talc_dataset_count(dataset) == 5 && talc_dataset_classes(dataset) == 2 &&
                  strcmp(talc_dataset_class(dataset, 1), "b") == 0);
        owned_loader *loader = begun_loader(
            dataset, (talc_loader_options){ .batch = 2, .mean = { .5, .25, .125 }, .threads = 2 },
            0);
        talc_batch batch;
        int64_t sample = 0;
        while (talc_loader_next(loader, &batch))
            for (int64_t n = 0; n < batch.count; n++, sample++) {
                owned_scope *scope = talc_scope_enter();
                talc_tensor *expected = talc_image_load(
                    photo_path(sample),
                    &(talc_image_options){
                        .channels = 3, .resize = resize, .crop = size, .mean = { .5, .25, .125 } });
                cr_assert(expected != NULL, "%s", talc_error_message());
                cr_assert(memcmp(talc_data_read(expected, TALC_F32),
                                 (const float *)talc_data_read(batch.images, TALC_F32) +
                                     n * talc_numel(expected),
                                 talc_nbytes(expected)) == 0,
                          "case %d, sample %d", k, (int)sample);
                cr_assert(talc_dataset_label(dataset, sample) == sample / 2 - (sample == 4) &&
                          ((const int64_t *)talc_data_read(batch.labels, TALC_I64))[n] ==
                              talc_dataset_label(dataset, sample));
            }
        cr_assert(sample == 5);
        assert_no_failure();
    }
    remove_made();
}

static const talc_augment lively = { .scale = { 0.2, 1 },
                                     .flip = 0.5,
                                     .rotation = 25,
                                     .brightness = 0.4,
                                     .contrast = 0.4,
                                     .saturation = 0.4,
                                     .hue = 0.1,
                                     .erase = 0.5 };

/* What a loader makes of sample i in epoch 3, by the public functions. */
static void assert_augmented(const talc_dataset *dataset, const talc_batch *batch, int64_t n,
                             int64_t i)
{
    owned_scope *scope = talc_scope_enter();
    const talc_dims dims = talc_dataset_dims(dataset);
    talc_tensor *whole =
        talc_image_load(photo_path(i), &(talc_image_options){ .channels = 3, .dtype = TALC_U8 });
    talc_augment_params p;
    cr_assert(talc_augment_draw(&lively, (talc_image_size){ whole->dims[2], whole->dims[3] },
                                (talc_image_size){ dims.dim[1], dims.dim[2] }, 6, 3, i, &p));
    talc_tensor *made = talc_augment_image(whole, &p);
    const uint8_t *bytes = talc_data_read(made, TALC_U8);
    const float *got =
        (const float *)talc_data_read(batch->images, TALC_F32) + n * talc_numel(made);
    for (int64_t k = 0; k < talc_numel(made); k++) {
        const int64_t h = k / dims.dim[2] % dims.dim[1], w = k % dims.dim[2];
        const bool erased = h >= p.erase_top && h < p.erase_top + p.erase.height &&
                            w >= p.erase_left && w < p.erase_left + p.erase.width;
        const float expected = erased ? 0 : (float)((bytes[k] / 255.0 - 0.5) / 0.25);
        cr_assert(got[k] == expected, "sample %d, element %d: %g instead of %g", (int)i, (int)k,
                  (double)got[k], (double)expected);
    }
}

Test(samples, images_of_a_folder_are_augmented_from_their_own_sizes)
{
    owned_dataset *dataset = photos_of((talc_image_folder_options){ .size = { 9, 7 } });
    owned_loader *loader = begun_loader(dataset,
                                        (talc_loader_options){ .batch = 2,
                                                               .seed = 6,
                                                               .shuffle = true,
                                                               .augment = lively,
                                                               .mean = { .5, .5, .5 },
                                                               .deviation = { .25, .25, .25 } },
                                        3);
    talc_batch batch;
    int64_t sample = 0;
    while (talc_loader_next(loader, &batch))
        for (int64_t n = 0; n < batch.count; n++)
            assert_augmented(dataset, &batch, n, talc_loader_sample(loader, sample++));
    cr_assert(sample == 5);
    remove_made();
}

/* A file that is damaged after it was listed. */
Test(samples, a_broken_file_is_named)
{
    owned_dataset *dataset = photos_of((talc_image_folder_options){ .size = { 9, 7 } });
    const char *path = folder_file("a", "1.JPEG", jpeg_sharp, sizeof jpeg_sharp - 40);
    char message[600];
    snprintf(message, sizeof message, "loader: '%s' ends early: it has %zu bytes", path,
             sizeof jpeg_sharp - 40);
    for (int threads = 0; threads < 4; threads++) {
        owned_loader *loader = begun_loader(
            dataset,
            (talc_loader_options){ .batch = 5, .threads = threads, .no_thread = threads == 0 }, 0);
        talc_batch batch;
        for (int k = 0; k < 2; k++) {
            cr_assert(!talc_loader_next(loader, &batch));
            assert_failure(TALC_BAD_FORMAT, message);
        }
    }
    double mean[4], deviation[4];
    cr_assert(!talc_dataset_statistics(dataset, mean, deviation));
    message[0] = '\0';
    snprintf(message, sizeof message, "dataset_statistics: '%s' ends early: it has %zu bytes", path,
             sizeof jpeg_sharp - 40);
    assert_failure(TALC_BAD_FORMAT, message);
    remove_made();
}

Test(samples, statistics_are_of_images_in_their_size)
{
    owned_dataset *dataset = photos_of((talc_image_folder_options){ .size = { 9, 7 } });
    talc_tensor *images[5];
    for (int i = 0; i < 5; i++)
        images[i] = talc_image_load(
            photo_path(i),
            &(talc_image_options){ .channels = 3, .resize = { 9, 7 }, .dtype = TALC_U8 });
    talc_tensor *all = talc_concat((const talc_tensor *const *)images, 5, 0);
    owned_dataset *copied =
        talc_dataset_tensors(all, talc_zeros(cpu_device(), TALC_I64, TALC_DIMS(5)));
    double mean[2][4], deviation[2][4];
    cr_assert(talc_dataset_statistics(dataset, mean[0], deviation[0]) &&
              talc_dataset_statistics(copied, mean[1], deviation[1]));
    cr_assert(memcmp(mean[0], mean[1], sizeof mean[0]) == 0 && mean[0][2] != 0 &&
              memcmp(deviation[0], deviation[1], sizeof mean[0]) == 0);
    remove_made();
}

// ---- Threads ------------------------------------------------------------------------------------

/* Any number of threads makes the same batches, from any batch on. */
static void assert_same_on_threads(talc_dataset *dataset, talc_loader_options options)
{
    enum { BYTES = 1 << 20 };
    owned_char *expected = malloc(BYTES), *got = malloc(BYTES);
    options.batch = 5;
    options.shuffle = true;
    options.seed = 11;
    options.no_thread = true;
    owned_loader *alone = begun_loader(dataset, options, 2);
    const size_t all = rest_of_epoch(alone, expected);
    cr_assert(all > 0 && all < BYTES);
    options.no_thread = false;
    for (options.threads = 1; options.threads <= 7; options.threads++) {
        owned_loader *loader = begun_loader(dataset, options, 1);
        talc_batch batch;
        for (int64_t from = 0; from < talc_loader_batches(loader); from++) {
            cr_assert(talc_loader_start_at(loader, 2, from));
            const size_t left = rest_of_epoch(loader, got);
            cr_assert(memcmp(expected + all - left, got, left) == 0 && (from > 0 || left == all),
                      "%d threads, from batch %d", options.threads, (int)from);
            /* Another epoch is left in the middle. */
            cr_assert(talc_loader_start(loader, 9) && talc_loader_next(loader, &batch));
        }
    }
}

Test(samples, threads_and_resuming_change_no_bit)
{
    maker m;
    owned_dataset *made = masked_dataset(&m, true),
                  *photos = photos_of((talc_image_folder_options){ .size = { 9, 7 } });
    talc_dataset *thrice[] = { photos, photos, photos };
    owned_dataset *mixed = talc_dataset_mix(thrice, (double[]){ 1, 0, 3 }, 3);
    assert_same_on_threads(made,
                           (talc_loader_options){ .augment = lively, .masks = true, .shift = 2 });
    assert_same_on_threads(photos, (talc_loader_options){ .augment = lively });
    assert_same_on_threads(mixed, (talc_loader_options){ .augment = lively, .samples = 31 });
    remove_made();
}

/* While threads are in the middle of batches. */
Test(samples, a_loader_of_many_threads_may_end_at_any_moment)
{
    maker m;
    owned_dataset *dataset = masked_dataset(&m, true);
    for (int i = 0; i < 300; i++) {
        owned_loader *loader = begun_loader(
            dataset, (talc_loader_options){ .batch = 6, .threads = 1 + i % 5, .augment = lively },
            i);
        talc_batch batch;
        for (int k = 0; k < i % 4; k++)
            cr_assert(talc_loader_next(loader, &batch));
        if (i % 3 == 0)
            cr_assert(talc_loader_start_at(loader, 3, i % 5) &&
                      (i % 5 == 4 || talc_loader_next(loader, &batch)));
    }
}

/* Its parent's threads were in the middle of samples; it starts threads of its own. */
Test(samples, a_child_of_fork_makes_batches_by_its_own_threads)
{
    enum { BYTES = COUNT * PLANE * (3 * 4 + 8) };
    maker m;
    owned_dataset *dataset = masked_dataset(&m, true);
    owned_char *expected = malloc(BYTES), *got = malloc(BYTES);
    owned_loader *loader =
        begun_loader(dataset, (talc_loader_options){ .batch = 6, .threads = 2 }, 0);
    cr_assert(rest_of_epoch(loader, expected) == BYTES);
    m.is_slow = true;
    cr_assert(talc_loader_start(loader, 1));
    while (m.calls < COUNT + 2)
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        m.is_slow = false;
        const bool same = talc_loader_start(loader, 0) && rest_of_epoch(loader, got) == BYTES &&
                          memcmp(got, expected, BYTES) == 0;
        talc_loader_free(loader);
        _exit(same ? 0 : 1);
    }
    int status = 1;
    cr_assert(waitpid(child, &status, 0) == child && status == 0, "%d", status);
}

// ---- Masks --------------------------------------------------------------------------------------

/* Where nothing is between pixels, the image's first plane still is its mask. */
Test(samples, masks_move_as_their_images)
{
    const talc_loader_options cases[] = {
        { .flip = true, .shift = 3 },
        { .augment = { .flip = 0.5 } },
        { .augment = { .flip = 0.5, .rotation = 180 }, .shift = 3 },
        { .augment = { .scale = { 0.3, 0.6 } } },
    };
    maker m;
    owned_dataset *dataset = masked_dataset(&m, true);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        talc_loader_options o = cases[k];
        o.masks = true;
        o.batch = COUNT;
        owned_loader *loader = begun_loader(dataset, o, 0);
        talc_batch batch;
        cr_assert(talc_loader_next(loader, &batch), "%s", talc_error_message());
        const float *images = talc_data_read(batch.images, TALC_F32);
        const int64_t *masks = talc_data_read(batch.labels, TALC_I64);
        int moved = 0;
        for (int64_t n = 0; n < COUNT; n++) {
            owned_scope *scope = talc_scope_enter();
            talc_augment_params p;
            talc_tensor *mask = talc_zeros(cpu_device(), TALC_I64, TALC_DIMS(SIDE_H, SIDE_W));
            int64_t *plane = talc_data(mask, TALC_I64);
            for (int64_t i = 0; i < PLANE; i++)
                plane[i] = value_at(n, i);
            cr_assert(talc_augment_draw(&o.augment, (talc_image_size){ SIDE_H, SIDE_W },
                                        (talc_image_size){ SIDE_H, SIDE_W }, 0, 0, n, &p));
            const int64_t *expected = talc_data_read(talc_augment_mask(mask, &p), TALC_I64);
            for (int64_t i = 0; i < PLANE; i++) {
                const int64_t got = masks[n * PLANE + i];
                moved += got != value_at(n, i);
                if (k < 2)
                    cr_assert(got == (int64_t)lrintf(255 * images[n * 3 * PLANE + i]),
                              "case %zu, sample %d, element %d", k, (int)n, (int)i);
                if (o.shift == 0)
                    cr_assert(got == expected[i], "case %zu, sample %d", k, (int)n);
            }
        }
        cr_assert(moved > 500, "case %zu: %d elements moved", k, moved);
    }
}

enum { BIG = 40 };

/* A rectangle off the middle, and itself as its mask. */
static talc_status make_rectangle(void *context, int64_t index, void *image, void *target)
{
    (void)context;
    for (int64_t h = 5 + index; h < 20 + index; h++)
        for (int64_t w = 10; w < 20 + index; w++) {
            ((uint8_t *)image)[h * BIG + w] = 255;
            ((int64_t *)target)[h * BIG + w] = 1;
        }
    return TALC_OK;
}

/* Between pixels an image is blurred and a mask is not, so only what is clear is compared. */
Test(samples, masks_stay_on_what_they_mark)
{
    owned_dataset *dataset =
        talc_dataset_callbacks(&(talc_callbacks){ .count = 8,
                                                  .image = TALC_DIMS(1, BIG, BIG),
                                                  .image_dtype = TALC_U8,
                                                  .target = TALC_DIMS(BIG, BIG),
                                                  .target_dtype = TALC_I64,
                                                  .get = make_rectangle });
    owned_loader *loader = begun_loader(
        dataset,
        (talc_loader_options){ .masks = true,
                               .shift = 3,
                               .augment = { .scale = { 0.4, 1 }, .flip = 0.5, .rotation = 180 } },
        0);
    talc_batch batch;
    cr_assert(talc_loader_next(loader, &batch));
    const float *image = talc_data_read(batch.images, TALC_F32);
    const int64_t *mask = talc_data_read(batch.labels, TALC_I64);
    int inside = 0;
    for (int i = 0; i < 8 * BIG * BIG; i++) {
        inside += mask[i] == 1;
        cr_assert(mask[i] == 1 ? image[i] > 0.1F : image[i] < 0.9F,
                  "sample %d, row %d, column %d: %g where the mask is %d", i / BIG / BIG,
                  i / BIG % BIG, i % BIG, (double)image[i], (int)mask[i]);
    }
    cr_assert(inside > 1000, "%d pixels", inside);
}

// ---- Weights ------------------------------------------------------------------------------------

Test(samples, draws_follow_their_weights)
{
    enum { DRAWS = 20000 };
    owned_dataset *dataset = talc_dataset_digits(5, 1);
    const double weights[] = { 1, 0, 4, 2.5, 0 };
    owned_loader *loader = begun_loader(
        dataset,
        (talc_loader_options){
            .batch = 64, .seed = 4, .samples = DRAWS, .weights = weights, .no_thread = true },
        7);
    cr_assert(talc_loader_batches(loader) == (DRAWS + 63) / 64);
    int seen[5] = { 0 };
    for (int64_t i = 0; i < DRAWS; i++) {
        const int64_t sample = talc_loader_sample(loader, i);
        const talc_philox_block b = talc_philox(4, 14, (uint64_t)i / 2);
        const double u = talc_uniform53(talc_philox_pair(b, i % 2)) * 7.5;
        cr_assert(sample == (u < 1 ? 0 : u < 5 ? 2 : 3), "draw %d", (int)i);
        seen[sample]++;
    }
    cr_assert(talc_loader_sample(loader, DRAWS) == -1);
    for (int i = 0; i < 5; i++)
        cr_assert(fabs(seen[i] - DRAWS * weights[i] / 7.5) < 5 * 72 * (weights[i] > 0) + 0.5,
                  "sample %d came %d times", i, seen[i]);
    owned_loader *plain = begun_loader(dataset, (talc_loader_options){ .weights = weights }, 0);
    talc_batch batch;
    cr_assert(talc_loader_next(plain, &batch) && batch.count == 5);
}

/* A sample that comes twice in an epoch is changed anew. */
Test(samples, a_sample_that_is_drawn_twice_is_augmented_twice)
{
    owned_dataset *dataset = talc_dataset_digits(2, 1);
    owned_loader *loader = begun_loader(dataset,
                                        (talc_loader_options){ .weights = (double[]){ 0, 1 },
                                                               .samples = 8,
                                                               .augment = { .rotation = 30 } },
                                        0);
    talc_batch batch;
    cr_assert(talc_loader_next(loader, &batch) && batch.count == 8);
    const char *images = talc_data_read(batch.images, TALC_F32);
    const size_t bytes = talc_nbytes(batch.images) / 8;
    for (size_t i = 0; i < 8; i++)
        for (size_t k = 0; k < i; k++)
            cr_assert(memcmp(images + i * bytes, images + k * bytes, bytes) != 0);
}

// ---- Mixtures -----------------------------------------------------------------------------------

Test(samples, a_mixture_has_one_dataset_after_the_other)
{
    talc_dataset *a = talc_dataset_digits(7, 1), *b = talc_dataset_digits(12, 2),
                 *part = talc_dataset_select(b, (int64_t[]){ 11, 3, 4 }, 3);
    owned_dataset *mixed = talc_dataset_mix((talc_dataset *[]){ a, part, a }, NULL, 3);
    cr_assert(talc_dataset_count(mixed) == 17 && talc_dataset_classes(mixed) == 10 &&
              strcmp(talc_dataset_class(mixed, 9), "9") == 0);
    owned_loader *loader = begun_loader(mixed, (talc_loader_options){ .batch = 17 }, 0);
    talc_batch batch;
    cr_assert(talc_loader_next(loader, &batch) && batch.count == 17);
    const float *images = talc_data_read(batch.images, TALC_F32);
    const int64_t *labels = talc_data_read(batch.labels, TALC_I64);
    for (int64_t i = 0; i < 17; i++) {
        const talc_dataset *from = i < 7 || i >= 10 ? a : part;
        const int64_t at = i < 7 ? i : i < 10 ? i - 7 : i - 10;
        cr_assert(labels[i] == talc_dataset_label(from, at) &&
                  talc_dataset_label(mixed, i) == labels[i]);
        for (int64_t k = 0; k < 28 * 28; k++)
            cr_assert(images[i * 28 * 28 + k] == (float)(talc_dataset_pixels(from, at)[k] / 255.0));
    }
    talc_dataset_free(a);
    talc_dataset_free(b);
    talc_dataset_free(part);
    cr_assert(talc_loader_start(loader, 1) && talc_loader_next(loader, &batch));
}

/* A small dataset gets its share, and so does a part of the mixture. */
Test(samples, a_mixture_is_drawn_from_by_weight)
{
    talc_dataset *few = talc_dataset_digits(10, 1), *many = talc_dataset_digits(990, 2);
    owned_dataset *mixed = talc_dataset_mix((talc_dataset *[]){ few, many }, (double[]){ 3, 1 }, 2);
    talc_dataset_free(few);
    talc_dataset_free(many);
    owned_loader *loader = begun_loader(mixed, (talc_loader_options){ .samples = 4000 }, 0);
    int of_few = 0;
    for (int64_t i = 0; i < 4000; i++)
        of_few += talc_loader_sample(loader, i) < 10;
    cr_assert(abs(of_few - 3000) < 5 * 28, "%d of 4000", of_few);
    owned_loader *default_count = begun_loader(mixed, (talc_loader_options){ .batch = 100 }, 0);
    cr_assert(talc_loader_batches(default_count) == 10);
    owned_dataset *part = talc_dataset_part(mixed, 9, 11);
    owned_loader *of_part = begun_loader(part, (talc_loader_options){ .samples = 10000 }, 0);
    int first = 0;
    for (int64_t i = 0; i < 10000; i++)
        first += talc_loader_sample(of_part, i) == 0;
    cr_assert(first > 9900 && first < 10000, "%d of 10000", first); /* 0.3 to 1 / 990 */
}

// ---- Errors -------------------------------------------------------------------------------------

static talc_dataset *called(maker *m, void (*change)(talc_callbacks *))
{
    talc_callbacks c = masked(m, true);
    change(&c);
    return talc_dataset_callbacks(&c);
}

static void no_get(talc_callbacks *c)
{
    c->get = NULL;
}
static void no_count(talc_callbacks *c)
{
    c->count = 0;
}
static void integers(talc_callbacks *c)
{
    c->image_dtype = TALC_I64;
}
static void no_type(talc_callbacks *c)
{
    c->target_dtype = 77;
}
static void flat(talc_callbacks *c)
{
    c->image = TALC_DIMS(SIDE_H, SIDE_W);
}
static void empty(talc_callbacks *c)
{
    c->target = TALC_DIMS(3, 0);
}
static void huge(talc_callbacks *c)
{
    c->target = TALC_DIMS(INT64_MAX / 8, 2);
}
static void deep(talc_callbacks *c)
{
    c->target.rank = 8;
}
static void classes(talc_callbacks *c)
{
    c->classes = -1;
}

// clang-format off
Test(samples, wrong_arguments_are_refused)
{
    maker m;
    REFUSED(TALC_NULL_ARGUMENT, "dataset_callbacks: callbacks is NULL", talc_dataset_callbacks(NULL));
    REFUSED(TALC_NULL_ARGUMENT, "dataset_callbacks: get is NULL", called(&m, no_get));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_callbacks: count 0 must be at least 1", called(&m, no_count));
    REFUSED(TALC_BAD_DTYPE, "dataset_callbacks: the image is i64, it must be f32 or u8", called(&m, integers));
    REFUSED(TALC_BAD_DTYPE, "dataset_callbacks: the target has no type of talc's, 77", called(&m, no_type));
    REFUSED(TALC_BAD_SHAPE, "dataset_callbacks: an image of bytes is [C,H,W], its rank is not 2", called(&m, flat));
    REFUSED(TALC_BAD_SHAPE, "dataset_callbacks: the target [3,0] must have rank 0..7 and no extent below 1", called(&m, empty));
    REFUSED(TALC_TOO_LARGE, "dataset_callbacks: the target [1152921504606846975,2] needs more than 9223372036854775807 bytes", called(&m, huge));
    REFUSED(TALC_BAD_SHAPE, "dataset_callbacks: the target [12,10,0,0,0,0,0,0] must have rank 0..7 and no extent below 1", called(&m, deep));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_callbacks: classes -1 are outside 0..65536", called(&m, classes));
    cr_assert(m.frees == 0);

    const talc_image_folder_options size = { .size = { 9, 7 } };
    const char *folder = made_folder("photos");
    char message[600];
    REFUSED(TALC_NULL_ARGUMENT, "dataset_image_folder: directory is NULL", talc_dataset_image_folder(NULL, &size));
    REFUSED(TALC_NULL_ARGUMENT, "dataset_image_folder: options is NULL", talc_dataset_image_folder(folder, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_image_folder: crop 0x0 must be at least 1x1", talc_dataset_image_folder(folder, &(talc_image_folder_options){ 0 }));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_image_folder: resize 0x3 must be at least 1x1", talc_dataset_image_folder(folder, &(talc_image_folder_options){ .size = { 9, 7 }, .resize = { 0, 3 } }));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_image_folder: channels 2 must be 1 or 3", talc_dataset_image_folder(folder, &(talc_image_folder_options){ .size = { 9, 7 }, .channels = 2 }));
    snprintf(message, sizeof message, "dataset_image_folder: '%s' holds no folder; each is a class", folder);
    REFUSED(TALC_NOT_FOUND, message, talc_dataset_image_folder(folder, &size));
    snprintf(message, sizeof message, "dataset_image_folder: '%s' holds no *.jpg, *.jpeg or *.png", made_folder("photos/c"));
    REFUSED(TALC_NOT_FOUND, message, talc_dataset_image_folder(folder, &size));

    talc_dataset *digits = talc_dataset_digits(3, 1), *made = masked_dataset(&m, true);
    talc_dataset *numbers = talc_dataset_callbacks(&(talc_callbacks){ .count = 2, .image = TALC_DIMS(1, 28, 28), .target_dtype = TALC_I64, .get = make_numbers });
    talc_dataset *two = talc_dataset_callbacks(&(talc_callbacks){ .count = 2, .image = TALC_DIMS(2, 4, 4), .image_dtype = TALC_U8, .target_dtype = TALC_I64, .get = make_numbers });
    REFUSED(TALC_NULL_ARGUMENT, "dataset_mix: datasets is NULL", talc_dataset_mix(NULL, NULL, 1));
    REFUSED(TALC_NULL_ARGUMENT, "dataset_mix: a dataset is NULL", talc_dataset_mix((talc_dataset *[]){ NULL }, NULL, 1));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_mix: count 0 is outside 1..65536", talc_dataset_mix(&digits, NULL, 0));
    REFUSED(TALC_BAD_SHAPE, "dataset_mix: the images of dataset 1 are f32 [1,28,28], of 0 u8 [1,28,28]", talc_dataset_mix((talc_dataset *[]){ digits, numbers }, NULL, 2));
    REFUSED(TALC_BAD_SHAPE, "dataset_mix: the images of dataset 1 are u8 [3,12,10], of 0 u8 [1,28,28]", talc_dataset_mix((talc_dataset *[]){ digits, made }, NULL, 2));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_mix: weight -1 of dataset 1 must be finite and at least 0", talc_dataset_mix((talc_dataset *[]){ digits, digits }, (double[]){ 1, -1 }, 2));
    REFUSED(TALC_BAD_ARGUMENT, "dataset_mix: the weights add up to 0", talc_dataset_mix((talc_dataset *[]){ digits, digits }, (double[]){ 0, 0 }, 2));

#define LOADER(dataset, ...) talc_loader_new(dataset, &(talc_loader_options){ __VA_ARGS__ })
    REFUSED(TALC_BAD_ARGUMENT, "loader: threads -1 are outside 1..64", LOADER(digits, .threads = -1));
    REFUSED(TALC_BAD_ARGUMENT, "loader: threads 65 are outside 1..64", LOADER(digits, .threads = 65));
    REFUSED(TALC_BAD_ARGUMENT, "loader: weight nan of sample 1 must be finite and at least 0", LOADER(digits, .weights = (double[]){ 1, NAN, 1 }));
    REFUSED(TALC_BAD_ARGUMENT, "loader: the weights add up to 0", LOADER(digits, .weights = (double[]){ 0, 0, 0 }));
    REFUSED(TALC_BAD_ARGUMENT, "loader: samples 5 must be 0 where there are no weights", LOADER(digits, .samples = 5));
    REFUSED(TALC_BAD_ARGUMENT, "loader: samples -5 must be at least 1", LOADER(digits, .samples = -5, .weights = (double[]){ 1, 1, 1 }));
    REFUSED(TALC_BAD_ARGUMENT, "loader: rotation 200 is outside 0..180", LOADER(digits, .augment = { .rotation = 200 }));
    REFUSED(TALC_BAD_ARGUMENT, "loader: flip and augment.flip 0.5 exclude each other", LOADER(digits, .flip = true, .augment = { .flip = 0.5 }));
    REFUSED(TALC_BAD_SHAPE, "loader: the images have 2 channels, colours change in images of 1 or 3", LOADER(two, .augment = { .hue = 0.1 }));
    REFUSED(TALC_BAD_SHAPE, "loader: targets [] are no masks of images of 28x28, they must be [...,H,W]", LOADER(digits, .masks = true));
    REFUSED(TALC_BAD_DTYPE, "loader: the images are f32, only bytes are augmented, mirrored and moved", LOADER(numbers, .shift = 1));
    REFUSED(TALC_BAD_DTYPE, "loader: the images are f32, only bytes are augmented, mirrored and moved", LOADER(numbers, .augment = { .flip = 1 }));
    double mean[4], deviation[4];
    REFUSED(TALC_BAD_DTYPE, "dataset_statistics: the images are f32, the statistics are of bytes", talc_dataset_statistics(numbers, mean, deviation));
    talc_dataset_free(digits);
    talc_dataset_free(made);
    talc_dataset_free(numbers);
    talc_dataset_free(two);
    refused_end(37);
    remove_made();
}

Test(samples, classes_of_a_mixture_have_the_same_names)
{
    owned_dataset *photos = photos_of((talc_image_folder_options){ .size = { 28, 28 }, .resize = { 28, 28 } });
    owned_dataset *drawn = talc_dataset_callbacks(&(talc_callbacks){ .count = 2, .image = TALC_DIMS(3, 28, 28), .image_dtype = TALC_U8, .target_dtype = TALC_I64, .classes = 1, .get = make_numbers });
    cr_assert_null(talc_dataset_mix((talc_dataset *[]){ photos, drawn }, NULL, 2));
    assert_failure(TALC_BAD_ARGUMENT, "dataset_mix: class 0 of dataset 1 is '0', of 0 'a'");
    remove_made();
}
// clang-format on

// ---- Memory -------------------------------------------------------------------------------------

static void keep_epoch(fault_run *run, talc_dataset *dataset, talc_loader_options options)
{
    options.device = run->device;
    options.batch = 2;
    options.no_thread = true;
    owned_loader *loader = talc_loader_new(dataset, &options);
    talc_batch batch;
    (void)talc_loader_start(loader, 1);
    while (talc_loader_next(loader, &batch)) {
        fault_keep(run, batch.images);
        fault_keep(run, batch.labels);
    }
}

static void run_callbacks(fault_run *run)
{
    maker m;
    talc_callbacks callbacks = masked(&m, false);
    callbacks.count = 3;
    owned_dataset *dataset = talc_dataset_callbacks(&callbacks);
    keep_epoch(run, dataset, (talc_loader_options){ .augment = lively, .masks = true });
}

static void run_mixture(fault_run *run)
{
    owned_dataset *a = talc_dataset_digits(2, 1);
    talc_dataset *twice[] = { a, a };
    owned_dataset *mixed = a == NULL ? NULL : talc_dataset_mix(twice, (double[]){ 1, 2 }, 2);
    keep_epoch(run, mixed, (talc_loader_options){ .samples = 5 });
}

static void run_photos(fault_run *run)
{
    owned_dataset *dataset = talc_dataset_image_folder(
        made_folder("photos"),
        &(talc_image_folder_options){ .size = { 9, 7 }, .resize = { 10, 0 } });
    keep_epoch(run, dataset, (talc_loader_options){ .augment = { .rotation = 5 } });
}

TEST_SURVIVES(samples, every_allocation_of_callbacks_may_fail, 20, "callbacks", NULL, run_callbacks,
              NULL, NULL)
TEST_SURVIVES(samples, every_allocation_of_a_mixture_may_fail, 20, "mixture", NULL, run_mixture,
              NULL, NULL)

Test(samples, every_allocation_of_a_folder_may_fail)
{
    (void)made_photos();
    assert_survives_everywhere(&(fault_scenario){ "photos", NULL, run_photos, NULL, NULL }, 50);
    remove_made();
}
