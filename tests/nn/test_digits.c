/// Drawn digits: the same on every call, unlike each other, and what their labels say.
#include "tests/support/hooks.h"

#include <string.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE };

Test(digits, an_image_follows_from_seed_and_number)
{
    owned_dataset *some = talc_dataset_digits(40, 5), *more = talc_dataset_digits(100, 5);
    owned_dataset *others = talc_dataset_digits(40, 6);
    const talc_dims dims = talc_dataset_dims(some);
    cr_assert(dims.rank == 3 && dims.dim[0] == 1 && dims.dim[1] == SIDE && dims.dim[2] == SIDE);
    cr_assert(talc_dataset_count(more) == 100 && talc_dataset_classes(more) == 10);
    for (int i = 0; i < 40; i++) {
        const uint8_t *pixels = talc_dataset_pixels(some, i);
        cr_assert(memcmp(pixels, talc_dataset_pixels(more, i), PIXELS) == 0);
        cr_assert(memcmp(pixels, talc_dataset_pixels(others, i), PIXELS) != 0);
        cr_assert(talc_dataset_label(some, i) == i % 10);
        for (int k = 0; k < i; k++)
            cr_assert(memcmp(pixels, talc_dataset_pixels(some, k), PIXELS) != 0);
    }
}

static double distance(const uint8_t *pixels, const double *mean)
{
    double sum = 0;
    for (int i = 0; i < PIXELS; i++)
        sum += (pixels[i] - mean[i]) * (pixels[i] - mean[i]);
    return sum;
}

/* A few images may lack a figure, which is a class all the same: what was trained on many is tested
 * on few. */
Test(digits, there_are_ten_classes_of_any_number)
{
    owned_dataset *few = talc_dataset_digits(3, 1);
    cr_assert(talc_dataset_count(few) == 3 && talc_dataset_classes(few) == 10);
    cr_assert_str_eq(talc_dataset_class(few, 9), "9");
}

/* The nearest of the classes' mean images: right far more often than one in ten, and far from
 * always. */
Test(digits, figures_are_what_their_labels_say_and_differ)
{
    enum { TRAIN = 4000, TEST = 1000 };
    static double mean[10][PIXELS];
    owned_dataset *train = talc_dataset_digits(TRAIN, 1), *test = talc_dataset_digits(TEST, 2);
    for (int i = 0; i < TRAIN; i++)
        for (int p = 0; p < PIXELS; p++)
            mean[talc_dataset_label(train, i)][p] +=
                talc_dataset_pixels(train, i)[p] / (TRAIN / 10.0);
    int right = 0;
    double ink = 0;
    for (int i = 0; i < TEST; i++) {
        const uint8_t *pixels = talc_dataset_pixels(test, i);
        int nearest = 0;
        for (int c = 1; c < 10; c++)
            if (distance(pixels, mean[c]) < distance(pixels, mean[nearest]))
                nearest = c;
        right += nearest == talc_dataset_label(test, i);
        int dark = 0;
        for (int p = 0; p < PIXELS; p++)
            dark += pixels[p] > 140;
        cr_assert(dark > 5 && dark < 250, "image %d has %d dark pixels", i, dark);
        ink += dark / (double)TEST;
    }
    cr_assert(right > 400 && right < 850, "%d of %d", right, TEST);
    cr_assert(ink > 50 && ink < 130, "%g dark pixels an image", ink);
}
