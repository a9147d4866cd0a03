/// Loaders: the order of an epoch, and what becomes of an image.
#include "tests/support/hooks.h"
#include "tests/support/loaders.h"

#include "tensor/philox.h"

#include <stdlib.h>
#include <string.h>

// ---- Order --------------------------------------------------------------------------------------

/* The shuffle as the header words it, written again; its random numbers are those of
 * test_random. */
static void shuffle(int64_t order[], int64_t count, uint64_t seed, uint64_t epoch)
{
    for (int64_t i = 0; i < count; i++)
        order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        const talc_philox_block b = talc_philox(seed, 2 * epoch, (uint64_t)(i / 2));
        const uint64_t high = b.word[2 * (i % 2) + 1], low = b.word[2 * (i % 2)];
        const uint64_t range = (uint64_t)i + 1;
        const int64_t j = (int64_t)((high * range + (low * range >> 32)) >> 32), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

Test(loader, the_order_follows_from_seed_and_epoch)
{
    owned_dataset *dataset = numbered_dataset();
    int64_t expected[SAMPLES], first[SAMPLES] = { 0 };
    int same = 0;
    for (int seed = 0; seed < 3; seed++) {
        owned_loader *loader = begun_loader(
            dataset, (talc_loader_options){ .batch = 7, .shuffle = true, .seed = seed }, 0);
        for (int64_t epoch = 0; epoch < 4; epoch++) {
            cr_assert(talc_loader_start(loader, epoch));
            shuffle(expected, SAMPLES, (uint64_t)seed, (uint64_t)epoch);
            int64_t position = 0, got[7];
            talc_batch batch;
            for (; talc_loader_next(loader, &batch); position += batch.count) {
                cr_assert(batch.count == (batch.index == 7 ? 1 : 7));
                cr_assert(talc_to_host(batch.labels, got, (size_t)batch.count * sizeof *got));
                cr_assert(memcmp(got, expected + position, (size_t)batch.count * sizeof *got) == 0);
            }
            cr_assert(position == SAMPLES && batch.images == NULL && batch.labels == NULL);
            same += epoch + seed > 0 && memcmp(expected, first, sizeof expected) == 0;
            if (epoch + seed == 0)
                memcpy(first, expected, sizeof expected);
            for (int64_t i = 0; i < SAMPLES; i++)
                cr_assert(talc_loader_sample(loader, i) == expected[i]);
            cr_assert(talc_loader_sample(loader, SAMPLES) == -1);
            cr_assert(talc_loader_sample(loader, -1) == -1);
        }
    }
    cr_assert(same == 0, "%d orders are that of seed 0, epoch 0", same);
}

/* Each of 3 samples stands at each place in a third of 3,000 epochs, to within 5 standard
 * deviations of 26. */
Test(loader, every_order_is_as_likely_as_the_others)
{
    owned_dataset *dataset = talc_dataset_digits(3, 1);
    owned_loader *loader =
        begun_loader(dataset, (talc_loader_options){ .shuffle = true, .no_thread = true }, 0);
    int seen[3][3] = { { 0 } };
    for (int64_t epoch = 0; epoch < 3000; epoch++) {
        cr_assert(talc_loader_start(loader, epoch));
        for (int i = 0; i < 3; i++)
            seen[i][talc_loader_sample(loader, i)]++;
    }
    for (int i = 0; i < 9; i++)
        cr_assert(abs(seen[i / 3][i % 3] - 1000) < 130, "%d of 3000", seen[i / 3][i % 3]);
}

Test(loader, without_shuffling_the_dataset_is_in_order_and_small_batches_can_be_dropped)
{
    owned_dataset *dataset = numbered_dataset(), *part = talc_dataset_part(dataset, 10, 30);
    owned_loader *loader =
        begun_loader(part, (talc_loader_options){ .batch = 8, .drop_last = true }, 5);
    cr_assert(talc_loader_batches(loader) == 2);
    talc_batch batch;
    int64_t position = 0;
    while (talc_loader_next(loader, &batch)) {
        const int64_t *labels = talc_data_read(batch.labels, TALC_I64);
        for (int64_t i = 0; i < batch.count; i++)
            cr_assert(labels[i] == 10 + position++);
    }
    assert_no_failure();
    cr_assert(position == 16);
}

// ---- Images -------------------------------------------------------------------------------------

/* One value of a sample, from the definitions in the header. */
static double expected_value(const talc_dataset *dataset, const talc_loader_options *o,
                             int64_t epoch, int64_t sample, int64_t c, int64_t h, int64_t w)
{
    const talc_philox_block b = talc_philox(o->seed, 2 * (uint64_t)epoch + 1, (uint64_t)sample);
    const uint64_t range = 2 * (uint64_t)o->shift + 1;
    h -= (int64_t)(b.word[0] * range >> 32) - o->shift;
    w -= (int64_t)(b.word[1] * range >> 32) - o->shift;
    int pixel = 0;
    if (h >= 0 && h < HEIGHT && w >= 0 && w < WIDTH) {
        w = o->flip && b.word[2] > INT32_MAX ? WIDTH - 1 - w : w;
        pixel = talc_dataset_pixels(dataset, sample)[(c * HEIGHT + h) * WIDTH + w];
    }
    const double deviation = o->deviation[c] == 0 ? 1 : o->deviation[c];
    return (pixel / 255.0 - o->mean[c]) / deviation;
}

static void assert_values(const talc_dataset *dataset, const talc_loader_options *o, int64_t epoch,
                          const talc_batch *batch)
{
    const int64_t numel = batch->count * IMAGE;
    owned_double *got = calloc((size_t)numel, sizeof *got);
    owned_scope *scope = talc_scope_enter();
    cr_assert(batch->images->dtype == o->dtype && batch->images->rank == 4);
    cr_assert(talc_to_host(talc_cast(batch->images, TALC_F64), got, (size_t)numel * sizeof *got));
    for (int64_t i = 0; i < numel; i++) {
        const int64_t n = i / IMAGE, sample = batch->index * o->batch + n;
        double expected = expected_value(dataset, o, epoch, sample, i / (HEIGHT * WIDTH) % CHANNELS,
                                         i / WIDTH % HEIGHT, i % WIDTH);
        expected = o->dtype == TALC_F32 ? (double)(float)expected : expected;
        cr_assert(got[i] == expected, "sample %d, element %d: %g instead of %g", (int)sample,
                  (int)(i % IMAGE), got[i], expected);
    }
}

Test(loader, images_are_normalised_moved_and_mirrored)
{
    talc_device *device = tested_device();
    owned_dataset *dataset = numbered_dataset();
    const talc_loader_options cases[] = {
        { .batch = 16, .device = device },
        { .batch = 16, .device = device, .mean = { .5, .25, 0 }, .deviation = { .1, 0, 2 } },
        { .batch = 16, .device = device, .shift = 1, .seed = 7 },
        { .batch = 16, .device = device, .shift = 4, .flip = true, .mean = { .1 }, .seed = 8 },
        { .batch = 16, .device = device, .flip = true, .dtype = TALC_F64, .deviation = { .3 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int64_t epoch = 0; epoch < 2; epoch++) {
            owned_loader *loader = begun_loader(dataset, cases[i], epoch);
            talc_batch batch;
            while (talc_loader_next(loader, &batch))
                assert_values(dataset, &cases[i], epoch, &batch);
            assert_no_failure();
        }
}
