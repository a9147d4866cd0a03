/// What is random about an image: torchvision's get_params, from a counter.
#include "nn/data/augment_planes.h"

#include "tensor/extent.h"
#include "tensor/fenv.h"
#include "tensor/philox.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>

enum { TRIES = 10, FLIP = 40, ANGLE = 41, FACTORS = 42, ORDER = 46, ERASES = 47, ERASE = 48 };

// ---- Options ------------------------------------------------------------------------------------

bool talc_augment_any(const talc_augment *a)
{
    return a->scale[1] != 0 || a->flip != 0 || a->rotation != 0 || a->brightness != 0 ||
           a->contrast != 0 || a->saturation != 0 || a->hue != 0 || a->erase != 0;
}

static void check_number(const char *who, const char *what, double value, double max)
{
    if (!(value >= 0 && value <= max))
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s %g is outside 0..%g", who, what, value, max);
}

/* Both zero: the default. */
static void check_range(const char *who, const char *what, const double range[2], double max)
{
    if ((range[0] != 0 || range[1] != 0) &&
        !(range[0] > 0 && range[0] <= range[1] && range[1] <= max))
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: %s %g to %g must be above 0, the first number at most the second, which is "
                  "at most %g",
                  who, what, range[0], range[1], max);
}

bool talc_augment_fits(const char *who, const talc_augment *a)
{
    enum { MAX_RATIO = 1000000, MAX_FACTOR = 1000, HALF_TURN = 180 };
    check_range(who, "scale", a->scale, 1);
    check_range(who, "ratio", a->ratio, MAX_RATIO);
    check_number(who, "flip", a->flip, 1);
    check_number(who, "rotation", a->rotation, HALF_TURN);
    check_number(who, "brightness", a->brightness, MAX_FACTOR);
    check_number(who, "contrast", a->contrast, MAX_FACTOR);
    check_number(who, "saturation", a->saturation, MAX_FACTOR);
    check_number(who, "hue", a->hue, 0.5);
    check_number(who, "erase", a->erase, 1);
    check_range(who, "erase_scale", a->erase_scale, 1);
    check_range(who, "erase_ratio", a->erase_ratio, MAX_RATIO);
    return !talc_failed();
}

// ---- Drawing ------------------------------------------------------------------------------------

typedef struct generator {
    uint64_t seed, call, sample;
} generator;

static uint64_t draw(const generator *g, int k)
{
    const uint64_t block = g->sample + ((uint64_t)(k / 2 + 1) << 40);
    return talc_philox_pair(talc_philox(g->seed, g->call, block), k % 2);
}

static double draw_between(const generator *g, int k, double low, double high)
{
    return low + (high - low) * talc_uniform53(draw(g, k));
}

static int64_t draw_below(const generator *g, int k, int64_t count)
{
    return (int64_t)talc_integer_below(draw(g, k), (uint64_t)count);
}

/* A try, of an area and a ratio whose logarithm is uniform: area = sides[0] * sides[1], ratio =
 * sides[0] / sides[1], each rounded to the nearest, a half to the even number. */
static void draw_sides(const generator *g, int k, double area, const double scale[2],
                       const double ratio[2], double sides[2])
{
    const double share = area * draw_between(g, k, scale[0], scale[1]);
    const double r = exp(draw_between(g, k + 1, log(ratio[0]), log(ratio[1])));
    sides[0] = rint(sqrt(share * r));
    sides[1] = rint(sqrt(share / r));
}

static void choose(const double given[2], double low, double high, double chosen[2])
{
    const bool none = given[0] == 0 && given[1] == 0;
    chosen[0] = none ? low : given[0];
    chosen[1] = none ? high : given[1];
}

/* The largest part in the middle that has a ratio within the bounds. */
static void take_middle(talc_image_size image, const double ratio[2], talc_augment_params *p)
{
    const double height = (double)image.height, width = (double)image.width;
    p->crop = image;
    if (width / height < ratio[0])
        p->crop.height = (int64_t)rint(width / ratio[0]);
    else if (width / height > ratio[1])
        p->crop.width = (int64_t)rint(height * ratio[1]);
    p->crop.height = talc_smaller(talc_larger(p->crop.height, 1), image.height);
    p->crop.width = talc_smaller(talc_larger(p->crop.width, 1), image.width);
    p->top = (image.height - p->crop.height) / 2;
    p->left = (image.width - p->crop.width) / 2;
}

static void draw_crop(const generator *g, const talc_augment *a, talc_image_size image,
                      talc_augment_params *p)
{
    double ratio[2], sides[2];
    choose(a->ratio, 3.0 / 4, 4.0 / 3, ratio);
    for (int k = 0; k < 4 * TRIES; k += 4) {
        draw_sides(g, k, (double)image.height * (double)image.width, a->scale, ratio, sides);
        if (!(sides[0] >= 1 && sides[0] <= (double)image.width && sides[1] >= 1 &&
              sides[1] <= (double)image.height))
            continue;
        p->crop = (talc_image_size){ (int64_t)sides[1], (int64_t)sides[0] };
        p->top = draw_below(g, k + 2, image.height - p->crop.height + 1);
        p->left = draw_below(g, k + 3, image.width - p->crop.width + 1);
        return;
    }
    take_middle(image, ratio, p);
}

static void draw_erasing(const generator *g, const talc_augment *a, talc_augment_params *p)
{
    double scale[2], ratio[2], sides[2];
    choose(a->erase_scale, 0.02, 0.33, scale);
    choose(a->erase_ratio, 0.3, 3.3, ratio);
    const double height = (double)p->size.height, width = (double)p->size.width;
    for (int k = ERASE; k < ERASE + 4 * TRIES; k += 4) {
        draw_sides(g, k, height * width, scale, ratio, sides);
        if (!(sides[0] >= 1 && sides[0] < height && sides[1] >= 1 && sides[1] < width))
            continue;
        p->erase = (talc_image_size){ (int64_t)sides[0], (int64_t)sides[1] };
        p->erase_top = draw_below(g, k + 2, p->size.height - p->erase.height + 1);
        p->erase_left = draw_below(g, k + 3, p->size.width - p->erase.width + 1);
        return;
    }
}

static double draw_factor(const generator *g, int k, double by)
{
    return by == 0 ? 1 : draw_between(g, k, fmax(0, 1 - by), 1 + by);
}

/* One of the 24 orders, by the number of each among those that are left. */
static void draw_order(const generator *g, int order[4])
{
    int left[] = { 0, 1, 2, 3 };
    int64_t number = draw_below(g, ORDER, 24);
    for (int i = 0; i < 4; i++) {
        const int at = (int)(number % (4 - i));
        number /= 4 - i;
        order[i] = left[at];
        for (int k = at; k < 3; k++)
            left[k] = left[k + 1];
    }
}

void talc_augment_drawn(const talc_augment *a, talc_image_size image, talc_image_size result,
                        uint64_t seed, int64_t epoch, int64_t sample, talc_augment_params *p)
{
    TALC_DEFAULT_FENV;
    const generator g = { seed, 2 * (uint64_t)epoch + 1, (uint64_t)sample };
    *p = (talc_augment_params){ .size = result, .crop = image };
    if (a->scale[1] != 0)
        draw_crop(&g, a, image, p);
    p->flip = talc_uniform53(draw(&g, FLIP)) < a->flip;
    p->angle = a->rotation == 0 ? 0 : draw_between(&g, ANGLE, -a->rotation, a->rotation);
    p->brightness = draw_factor(&g, FACTORS, a->brightness);
    p->contrast = draw_factor(&g, FACTORS + 1, a->contrast);
    p->saturation = draw_factor(&g, FACTORS + 2, a->saturation);
    p->hue = a->hue == 0 ? 0 : draw_between(&g, FACTORS + 3, -a->hue, a->hue);
    draw_order(&g, p->order);
    if (talc_uniform53(draw(&g, ERASES)) < a->erase)
        draw_erasing(&g, a, p);
}

bool talc_augment_draw(const talc_augment *augment, talc_image_size image, talc_image_size result,
                       uint64_t seed, int64_t epoch, int64_t sample, talc_augment_params *params)
{
    static const char *const who = "augment_draw";
    if (talc_operand_missing(who, "augment", augment) ||
        talc_operand_missing(who, "params", params) || !talc_augment_fits(who, augment))
        return false;
    if (image.height < 1 || image.width < 1 || result.height < 1 || result.width < 1)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: image %" PRId64 "x%" PRId64 " and result %" PRId64 "x%" PRId64
                  " must be at least 1x1",
                  who, image.height, image.width, result.height, result.width);
    else if (epoch < 0 || sample < 0)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: epoch %" PRId64 " and sample %" PRId64 " must be at least 0", who, epoch,
                  sample);
    if (talc_failed())
        return false;
    talc_augment_drawn(augment, image, result, seed, epoch, sample, params);
    return true;
}
