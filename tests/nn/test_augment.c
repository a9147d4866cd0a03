/// Augmentation: what becomes of an image and a mask, against torchvision's numbers, and what is
/// drawn.
#include "tests/support/augment_cases.h"
#include "tests/support/faults.h"
#include "tests/support/hooks.h"
#include "tests/support/refused.h"

#include "tensor/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- Against torchvision ------------------------------------------------------------------------

/* What image_cases.py makes: slopes with some noise. */
static talc_tensor *picture(int channels)
{
    talc_tensor *image =
        talc_zeros(cpu_device(), TALC_U8, TALC_DIMS(channels, AUGMENT_HEIGHT, AUGMENT_WIDTH));
    uint8_t *bytes = talc_data(image, TALC_U8);
    uint32_t state = 1;
    for (int h = 0; h < AUGMENT_HEIGHT; h++)
        for (int w = 0; w < AUGMENT_WIDTH; w++)
            for (int c = 0; c < 3; c++) {
                state = (state * 1103515245 + 12345) % (UINT32_C(1) << 31);
                if (c < channels)
                    bytes[(c * AUGMENT_HEIGHT + h) * AUGMENT_WIDTH + w] =
                        (uint8_t)(h * 9 + w * 7 * (c + 1) + (int)(state >> 16) % 40);
            }
    return image;
}

/* Rotating and turning the hue, whose order of operations is another, may be off by 1 in a few. */
static void assert_near(const talc_tensor *got, const uint8_t *expected, bool exact, size_t number)
{
    const uint8_t *bytes = talc_data_read(got, TALC_U8);
    const int64_t numel = talc_numel(got);
    int64_t off = 0;
    for (int64_t i = 0; i < numel; i++) {
        const int difference = abs(bytes[i] - expected[i]);
        off += difference;
        cr_assert(difference <= !exact, "case %zu, element %d: %d instead of %d", number, (int)i,
                  bytes[i], expected[i]);
    }
    cr_assert(off * 50 <= numel, "case %zu: %d of %d are off by 1", number, (int)off, (int)numel);
}

Test(augment, images_and_masks_become_what_torchvision_makes_of_them)
{
    talc_tensor *image = picture(3), *mask = picture(1);
    for (size_t i = 0; i < sizeof augment_cases / sizeof *augment_cases; i++) {
        owned_scope *scope = talc_scope_enter();
        const talc_augment_params *p = &augment_cases[i].params;
        const bool exact = p->angle == 0 && p->hue == 0;
        talc_tensor *got = talc_augment_image(image, p), *moved = talc_augment_mask(mask, p);
        cr_assert(got != NULL && moved != NULL, "case %zu: %s", i, talc_error_message());
        cr_assert(got->rank == 3 && got->dims[0] == 3 && got->dims[1] == p->size.height &&
                  got->dims[2] == p->size.width);
        assert_near(got, augment_cases[i].image, exact, i);
        assert_near(moved, augment_cases[i].mask, true, i);
        /* Elements of 8 bytes move as those of 1. */
        moved = talc_augment_mask(talc_cast(mask, TALC_I64), p);
        assert_near(talc_cast(moved, TALC_U8), augment_cases[i].mask, true, i);
    }
}

/* A batch of images gets what each would; one channel has neither saturation nor hue. */
Test(augment, images_of_a_batch_and_of_one_channel)
{
    const talc_augment_params *p = &augment_cases[12].params;
    talc_tensor *image = picture(3),
                *both = talc_stack((const talc_tensor *[]){ image, image }, 2, 0);
    talc_tensor *got = talc_augment_image(both, p), *one = talc_augment_image(image, p);
    for (int i = 0; i < 2; i++)
        cr_assert(memcmp(talc_data_read(talc_contiguous(talc_select(got, 0, i)), TALC_U8),
                         talc_data_read(one, TALC_U8), talc_nbytes(one)) == 0);
    talc_augment_params grey = *p, plain = *p;
    plain.saturation = 1, plain.hue = 0;
    talc_tensor *a = talc_augment_image(picture(1), &grey),
                *b = talc_augment_image(picture(1), &plain);
    cr_assert(memcmp(talc_data_read(a, TALC_U8), talc_data_read(b, TALC_U8), talc_nbytes(a)) == 0);
}

// ---- Draws --------------------------------------------------------------------------------------

enum { DRAWS = 4000 };

static const talc_image_size photo = { 300, 400 }, small = { 64, 64 };

static talc_augment_params drawn(const talc_augment *a, uint64_t seed, int64_t epoch, int64_t i)
{
    talc_augment_params p;
    cr_assert(talc_augment_draw(a, photo, small, seed, epoch, i, &p), "%s", talc_error_message());
    return p;
}

/* The mean of numbers that are uniform in low .. high, to within 5 standard deviations. */
static void assert_uniform(const char *what, double sum, double low, double high)
{
    const double mean = sum / DRAWS, tolerance = 5 * (high - low) / sqrt(12.0 * DRAWS);
    cr_assert(fabs(mean - (low + high) / 2) < tolerance, "%s: mean %g of %g .. %g", what, mean, low,
              high);
}

Test(augment, draws_have_torchvisions_distributions)
{
    const talc_augment a = { .scale = { 0.1, 0.5 },
                             .flip = 0.3,
                             .rotation = 20,
                             .brightness = 0.4,
                             .contrast = 2,
                             .saturation = 0.2,
                             .hue = 0.1,
                             .erase = 0.6 };
    double area = 0, ratio = 0, top = 0, angle = 0, factors[4] = { 0 }, erased = 0;
    int flips = 0, erases = 0, orders[256] = { 0 };
    for (int64_t i = 0; i < DRAWS; i++) {
        const talc_augment_params p = drawn(&a, 3, 2, i);
        const double height = (double)p.crop.height, width = (double)p.crop.width;
        cr_assert(p.top >= 0 && p.top + p.crop.height <= photo.height && p.left >= 0 &&
                  p.left + p.crop.width <= photo.width);
        cr_assert(height * width > 0.09 * 120000 && height * width < 0.51 * 120000);
        area += height * width / 120000;
        ratio += log(width / height);
        top += (double)p.top / (double)(photo.height - p.crop.height + (p.top == 0));
        angle += p.angle;
        flips += p.flip;
        const double all[] = { p.brightness, p.contrast, p.saturation, p.hue };
        for (int k = 0; k < 4; k++)
            factors[k] += all[k];
        erases += p.erase.height > 0;
        cr_assert(p.erase_top + p.erase.height <= 64 && p.erase_left + p.erase.width <= 64);
        erased += (double)(p.erase.height * p.erase.width) / (64 * 64);
        orders[p.order[0] * 64 + p.order[1] * 16 + p.order[2] * 4 + p.order[3]]++;
    }
    assert_uniform("area", area, 0.1, 0.5);
    assert_uniform("log of the ratio", ratio, log(3.0 / 4), log(4.0 / 3));
    assert_uniform("top", top, 0, 1);
    assert_uniform("angle", angle, -20, 20);
    assert_uniform("brightness", factors[0], 0.6, 1.4);
    assert_uniform("contrast", factors[1], 0, 3);
    assert_uniform("saturation", factors[2], 0.8, 1.2);
    assert_uniform("hue", factors[3], -0.1, 0.1);
    cr_assert(abs(flips - DRAWS * 3 / 10) < 5 * 29, "%d flips", flips);
    cr_assert(abs(erases - DRAWS * 6 / 10) < 5 * 31, "%d are erased", erases);
    cr_assert(fabs(erased / erases - 0.175) < 0.01, "%g of the area", erased / erases);
    int seen = 0;
    for (int i = 0; i < 256; i++) {
        seen += orders[i] > 0;
        cr_assert(orders[i] == 0 || abs(orders[i] - DRAWS / 24) < 5 * 13, "order %d: %d", i,
                  orders[i]);
    }
    cr_assert(seen == 24, "%d orders", seen);
}

/* Number k of sample 7, as the header words it. */
static double number(int k)
{
    const talc_philox_block b =
        talc_philox(3, 2 * 2 + 1, 7 + (UINT64_C(1) << 40) * (uint64_t)(k / 2 + 1));
    return talc_uniform53((uint64_t)b.word[2 * (k % 2) + 1] << 32 | b.word[2 * (k % 2)]);
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-12;
}

Test(augment, each_draw_has_its_number)
{
    const talc_augment a = { .scale = { 0.25, 0.26 },
                             .ratio = { 1, 1.1 },
                             .rotation = 20,
                             .brightness = 0.4,
                             .contrast = 2,
                             .saturation = 0.2,
                             .hue = 0.1,
                             .erase = 1,
                             .erase_scale = { 0.1, 0.1 },
                             .erase_ratio = { 1, 1 } };
    const talc_augment_params p = drawn(&a, 3, 2, 7);
    const double share = 120000 * (0.25 + 0.01 * number(0)), ratio = exp(log(1.1) * number(1));
    cr_assert(p.crop.width == (int64_t)(sqrt(share * ratio) + 0.5) &&
              p.crop.height == (int64_t)(sqrt(share / ratio) + 0.5));
    cr_assert(p.top == (int64_t)(number(2) * (double)(301 - p.crop.height)) &&
              p.left == (int64_t)(number(3) * (double)(401 - p.crop.width)));
    cr_assert(
        is_near(p.angle, 40 * number(41) - 20) && is_near(p.brightness, 0.6 + 0.8 * number(42)) &&
        is_near(p.contrast, 3 * number(43)) && is_near(p.saturation, 0.8 + 0.4 * number(44)) &&
        is_near(p.hue, 0.2 * number(45) - 0.1));
    cr_assert(p.order[0] == (int)(24 * number(46)) % 4);
    cr_assert(p.erase.height == 20 && p.erase.width == 20 &&
              p.erase_top == (int64_t)(number(50) * 45) &&
              p.erase_left == (int64_t)(number(51) * 45));
    talc_augment flips = { .flip = number(40) };
    cr_assert(!drawn(&flips, 3, 2, 7).flip);
    flips.flip += 1e-9;
    cr_assert(drawn(&flips, 3, 2, 7).flip);
}

/* No option moves what another one draws; seed, epoch and sample do. */
Test(augment, draws_follow_from_seed_epoch_and_sample)
{
    const talc_augment a = { .scale = { 0.1, 0.5 }, .rotation = 20, .erase = 1 },
                       alone = { .rotation = 20 };
    const talc_augment_params p = drawn(&a, 3, 2, 7), q = drawn(&a, 3, 2, 7);
    cr_assert(memcmp(&p, &q, sizeof p) == 0 && drawn(&alone, 3, 2, 7).angle == p.angle);
    cr_assert(drawn(&a, 4, 2, 7).angle != p.angle && drawn(&a, 3, 1, 7).angle != p.angle &&
              drawn(&a, 3, 2, 6).angle != p.angle);
    cr_assert(drawn(&alone, 3, 2, 7).crop.height == photo.height &&
              drawn(&alone, 3, 2, 7).erase.height == 0 && !drawn(&alone, 3, 2, 7).flip);
}

/* Where no part of the area fits, the largest in the middle. */
Test(augment, a_part_that_never_fits_is_the_middle)
{
    talc_augment_params p;
    const talc_augment wide = { .scale = { 1, 1 }, .ratio = { 2, 2 } },
                       high = { .scale = { 1, 1 }, .ratio = { 0.5, 0.5 } };
    cr_assert(talc_augment_draw(&wide, photo, small, 1, 0, 0, &p));
    cr_assert(p.crop.height == 200 && p.crop.width == 400 && p.top == 50 && p.left == 0);
    cr_assert(talc_augment_draw(&high, photo, small, 1, 0, 0, &p));
    cr_assert(p.crop.height == 300 && p.crop.width == 150 && p.top == 0 && p.left == 125);
}

// ---- Errors -------------------------------------------------------------------------------------

static bool draws(talc_augment a)
{
    talc_augment_params p;
    return talc_augment_draw(&a, photo, small, 0, 0, 0, &p);
}

static talc_tensor *applied(const talc_tensor *image, talc_augment_params p)
{
    return talc_augment_image(image, &p);
}

// clang-format off
Test(augment, wrong_arguments_are_refused)
{
    talc_augment_params p;
    const talc_augment none = { 0 };
    REFUSED(TALC_NULL_ARGUMENT, "augment_draw: augment is NULL", talc_augment_draw(NULL, photo, small, 0, 0, 0, &p));
    REFUSED(TALC_NULL_ARGUMENT, "augment_draw: params is NULL", talc_augment_draw(&none, photo, small, 0, 0, 0, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "augment_draw: image 0x4 and result 64x64 must be at least 1x1", talc_augment_draw(&none, (talc_image_size){ 0, 4 }, small, 0, 0, 0, &p));
    REFUSED(TALC_BAD_ARGUMENT, "augment_draw: epoch -1 and sample 0 must be at least 0", talc_augment_draw(&none, photo, small, 0, -1, 0, &p));
    REFUSED(TALC_BAD_ARGUMENT, "augment_draw: scale 0.5 to 0.1 must be above 0, the first number at most the second, which is at most 1", draws((talc_augment){ .scale = { 0.5, 0.1 } }));
    REFUSED(TALC_BAD_ARGUMENT, "augment_draw: scale 0.5 to 2 must be above 0, the first number at most the second, which is at most 1", draws((talc_augment){ .scale = { 0.5, 2 } }));
    REFUSED(TALC_BAD_ARGUMENT, "augment_draw: ratio nan to 1 must be above 0, the first number at most the second, which is at most 1e+06", draws((talc_augment){ .ratio = { NAN, 1 } }));
    REFUSED(TALC_BAD_ARGUMENT, "augment_draw: flip 1.5 is outside 0..1", draws((talc_augment){ .flip = 1.5 }));
    REFUSED(TALC_BAD_ARGUMENT, "augment_draw: rotation nan is outside 0..180", draws((talc_augment){ .rotation = NAN }));
    REFUSED(TALC_BAD_ARGUMENT, "augment_draw: brightness -1 is outside 0..1000", draws((talc_augment){ .brightness = -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "augment_draw: hue 0.6 is outside 0..0.5", draws((talc_augment){ .hue = 0.6 }));
    REFUSED(TALC_BAD_ARGUMENT, "augment_draw: erase 2 is outside 0..1", draws((talc_augment){ .erase = 2 }));

    talc_tensor *image = picture(3), *two = talc_slice(image, 0, 0, 2, 1), *floats = talc_cast(image, TALC_F32);
    refused_watch(image);
    const talc_augment_params whole = augment_cases[3].params;
    p = whole;
    REFUSED(TALC_NULL_ARGUMENT, "augment_image: image is NULL", talc_augment_image(NULL, &p));
    REFUSED(TALC_NULL_ARGUMENT, "augment_image: params is NULL", talc_augment_image(image, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "augment_mask: mask is NULL", talc_augment_mask(NULL, &p));
    REFUSED(TALC_BAD_DTYPE, "augment_image: the image is f32, it must be u8", talc_augment_image(floats, &p));
    REFUSED(TALC_BAD_SHAPE, "augment_image: the image [9,8] must be [...,C,H,W] with no extent 0", talc_augment_image(talc_select(image, 0, 0), &p));
    p.brightness = 0.5;
    REFUSED(TALC_BAD_SHAPE, "augment_image: the image has 2 channels, colours change in images of 1 or 3", talc_augment_image(two, &p));
    p = whole, p.top = 1;
    REFUSED(TALC_BAD_ARGUMENT, "augment_image: the part 9x8 at 1,0 is not inside the image 9x8", applied(image, p));
    p = whole, p.order[0] = 1;
    REFUSED(TALC_BAD_ARGUMENT, "augment_image: order 1, 1, 2, 3 must have each of 0..3 once", applied(image, p));
    p = whole, p.hue = 0.7;
    REFUSED(TALC_BAD_ARGUMENT, "augment_image: brightness 1, contrast 1 and saturation 1 must be finite and at least 0, hue 0.7 within -0.5..0.5, angle 30 finite", applied(image, p));
    p = whole, p.erase = (talc_image_size){ 1, 9 };
    REFUSED(TALC_BAD_ARGUMENT, "augment_image: what is erased, 1x9 at 0,0, is not inside the result 9x8", applied(image, p));
    p = whole, p.size = (talc_image_size){ 0, 8 };
    REFUSED(TALC_BAD_ARGUMENT, "augment_image: resize 0x8 must be at least 1x1", applied(image, p));
    refused_end(23);
}
// clang-format on

static void *begin_image(talc_device *device)
{
    (void)device;
    return picture(3);
}

static void run_augment(fault_run *run)
{
    const talc_augment_params *p = &augment_cases[12].params;
    fault_keep(run, talc_augment_image(run->fixture, p));
    fault_keep(run, talc_augment_mask(run->fixture, p));
}

TEST_SURVIVES(augment, every_allocation_may_fail, 10, "augment", begin_image, run_augment, NULL,
              NULL)
