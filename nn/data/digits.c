/// Digits that are drawn: a training set that needs no file.
///
/// An image follows from (seed, number) alone: its random numbers are the words of call `number` of
/// the generator `seed`, in the order of their use. Only + - * / and sqrt are used on them, so
/// every machine draws the same bits.
///
/// A figure's strokes become short segments. A grid of control points, each moved at random, bends
/// them (bilinear between the points, so that strokes that meet still do); an affine map turns,
/// shears, scales and moves them; a pen of random thickness draws them, with edges as wide as a
/// pixel; then comes noise.
#include "nn/data/dataset.h"

#include "nn/data/digit_figures.h"
#include "tensor/extent.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/philox.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>

static const char *const WHO = "dataset_digits";

enum {
    SIDE = 28,
    GRID = 4,         /* control points each way */
    ARC_SEGMENTS = 14 /* of one arc: at most a third of a pixel beside it */
};

/* How much the figures differ. LeNet-5 that was trained on 8,000 of them reads 98 % and more of
 * others, a linear classifier less than 93 %. */
static const double SIZE = 21;                      /* pixels of the square that figures stand in */
static const double SMALLEST = 0.75, LARGEST = 1.1; /* each way */
static const double TURN = 0.04;                    /* turns, each way: 14 degrees */
static const double SHEAR = 0.25;
static const double SHIFT = 2.5;                    /* pixels */
static const double BEND = 0.045;                   /* of a control point, in the square */
static const double THINNEST = 0.6, THICKEST = 1.5; /* half the width of the pen, in pixels */
static const double PALEST = 0.7;                   /* ink, of 1 */
static const double NOISE = 0.25;                   /* at most, of 1 */

// ---- Random numbers -----------------------------------------------------------------------------

typedef struct draws {
    uint64_t seed, call, used;
    talc_philox_block block;
} draws;

static uint32_t draw_word(draws *d)
{
    if (d->used % 4 == 0)
        d->block = talc_philox(d->seed, d->call, d->used / 4);
    return d->block.word[d->used++ % 4];
}

static double draw(draws *d, double low, double high)
{
    return low + (high - low) * talc_uniform24(draw_word(d));
}

static double draw_around(draws *d, double reach)
{
    return draw(d, -reach, reach);
}

// ---- One figure ---------------------------------------------------------------------------------

typedef struct point {
    double x, y;
} point;

/* How one image's strokes lie in it. */
typedef struct hand {
    point moved[GRID][GRID];
    double xx, xy, yx, yy; /* from the square, around its centre, to pixels */
    point centre;
    double radius;
} hand;

static hand draw_hand(draws *d)
{
    hand h;
    for (int i = 0; i < GRID; i++)
        for (int j = 0; j < GRID; j++) {
            h.moved[i][j].x = draw_around(d, BEND);
            h.moved[i][j].y = draw_around(d, BEND);
        }
    double cosine, sine;
    const double turn = draw_around(d, TURN);
    talc_random_cos_sin(turn < 0 ? turn + 1 : turn, &cosine, &sine);
    const double width = SIZE * draw(d, SMALLEST, LARGEST);
    const double height = SIZE * draw(d, SMALLEST, LARGEST), shear = draw_around(d, SHEAR);
    h.xx = cosine * width;
    h.xy = (cosine * shear - sine) * height;
    h.yx = sine * width;
    h.yy = (sine * shear + cosine) * height;
    h.centre.x = SIDE / 2.0 + draw_around(d, SHIFT);
    h.centre.y = SIDE / 2.0 + draw_around(d, SHIFT);
    h.radius = draw(d, THINNEST, THICKEST);
    return h;
}

static double between(double a, double b, double share)
{
    return a + (b - a) * share;
}

/* A point of the square, bent and mapped to pixels. */
static point placed(const hand *h, point p)
{
    const double u = p.x * (GRID - 1), v = p.y * (GRID - 1);
    const int j = (int)talc_between((int64_t)u, 0, GRID - 2),
              i = (int)talc_between((int64_t)v, 0, GRID - 2);
    const point *above = &h->moved[i][j], *below = &h->moved[i + 1][j];
    const double right = u - j, down = v - i;
    const double x = p.x - 0.5 +
                     between(between(above[0].x, above[1].x, right),
                             between(below[0].x, below[1].x, right), down);
    const double y = p.y - 0.5 +
                     between(between(above[0].y, above[1].y, right),
                             between(below[0].y, below[1].y, right), down);
    return (point){ h->centre.x + h->xx * x + h->xy * y, h->centre.y + h->yx * x + h->yy * y };
}

/* The stroke at `share` of its length, 0 .. 1. */
static point on_stroke(const talc_stroke *s, double share)
{
    if (s->from == s->to)
        return (point){ between(s->x, s->rx, share), between(s->y, s->ry, share) };
    const double turn = between(s->from, s->to, share);
    double cosine, sine;
    talc_random_cos_sin(turn - floor(turn), &cosine, &sine);
    return (point){ s->x + s->rx * cosine, s->y + s->ry * sine };
}

// ---- Drawing ------------------------------------------------------------------------------------

static double nearest(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* How far p is from the segment a b. */
static double distance(point p, point a, point b)
{
    const double dx = b.x - a.x, dy = b.y - a.y, px = p.x - a.x, py = p.y - a.y;
    const double length = dx * dx + dy * dy;
    const double share = length > 0 ? nearest((px * dx + py * dy) / length, 0, 1) : 0;
    const double x = px - share * dx, y = py - share * dy;
    return sqrt(x * x + y * y);
}

static int64_t pixel(double at)
{
    return talc_between((int64_t)floor(at), 0, SIDE - 1);
}

/* Ink is 1 inside the pen's path, 0 a pixel outside it; of overlapping segments the most counts. */
static void draw_segment(double ink[SIDE][SIDE], point a, point b, double radius)
{
    const double reach = radius + 0.5;
    const int64_t first = pixel((a.x < b.x ? a.x : b.x) - reach),
                  last = pixel((a.x > b.x ? a.x : b.x) + reach);
    const int64_t top = pixel((a.y < b.y ? a.y : b.y) - reach),
                  bottom = pixel((a.y > b.y ? a.y : b.y) + reach);
    for (int64_t h = top; h <= bottom; h++)
        for (int64_t w = first; w <= last; w++) {
            const point centre = { (double)w + 0.5, (double)h + 0.5 };
            const double here = nearest(reach - distance(centre, a, b), 0, 1);
            if (here > ink[h][w])
                ink[h][w] = here;
        }
}

static void draw_figure(double ink[SIDE][SIDE], const talc_figure *figure, const hand *h)
{
    for (int i = 0; i < TALC_STROKES_MAX && figure->strokes[i].x != 0; i++) {
        const talc_stroke *stroke = &figure->strokes[i];
        const int segments = stroke->from == stroke->to ? GRID : ARC_SEGMENTS;
        point a = placed(h, on_stroke(stroke, 0));
        for (int k = 1; k <= segments; k++) {
            const point b = placed(h, on_stroke(stroke, (double)k / segments));
            draw_segment(ink, a, b, h->radius);
            a = b;
        }
    }
}

static void draw_digit(uint64_t seed, int64_t number, int digit, uint8_t *pixels)
{
    draws d = { .seed = seed, .call = (uint64_t)number };
    double ink[SIDE][SIDE] = { { 0 } };
    const int variant = (int)draw(&d, 0, TALC_FIGURE_VARIANTS);
    const hand h = draw_hand(&d);
    draw_figure(ink, &talc_figures[digit][variant], &h);
    const double dark = draw(&d, PALEST, 1), noise = draw(&d, 0, NOISE);
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            /* The difference of a word's halves: a triangle over -1 .. 1. */
            const uint32_t word = draw_word(&d);
            const double speck = ((double)(word >> 16) - (double)(word & 0xffff)) * 0x1p-16;
            pixels[i * SIDE + j] =
                (uint8_t)(255 * nearest(dark * ink[i][j] + noise * speck, 0, 1) + 0.5);
        }
}

talc_dataset *talc_dataset_digits(int64_t count, uint64_t seed)
{
    TALC_DEFAULT_FENV;
    if (talc_failed())
        return NULL;
    if (count < 1) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: count %" PRId64 " must be at least 1", WHO, count);
        return NULL;
    }
    talc_samples *samples = talc_samples_new(WHO, count, TALC_DIMS(1, SIDE, SIDE));
    if (samples == NULL)
        return NULL;
    samples->classes = 10; /* also where a few images lack some */
    for (int64_t i = 0; i < count; i++) {
        samples->labels[i] = i % 10;
        draw_digit(seed, i, (int)(i % 10), samples->pixels + i * samples->image_bytes);
    }
    return talc_samples_dataset(WHO, samples);
}
