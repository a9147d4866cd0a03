/// The family of padding and upsampling: "pad:3x5x7p1x2x0x3c0x1_reflect",
/// "upsample2d:n2c3h5w7o8x9_bilinear", and their input gradients, with the word dx.
///
/// pad: p has elements before and after the last dimension, then the one ahead of it, and so on; c
/// likewise those that are cut off; value: another number than 0. upsample2d: o has the output's
/// extents, f7x3 instead of it the scale factor 7/3; nearest without a word, else bilinear,
/// bicubic, exact, which is nearest_exact, or aligned, which is bilinear with align_corners; then
/// what else talc_upsample2d_options has.
///
/// Along each axis w[o, i] says how much of element i output o shows, which is 0 or 1 unless it is
/// linear or cubic:
///
///     y[o...] = sum over i... of w[o, i] ... x[i...],
///     dx[i...] = sum over o... of w[o, i] ... dy[o...]
///
/// Linear, w is the hat max(0, 1 - |place - i|); cubic, the sum of k(|place - j|) over the j that i
/// stands for, k being Keys' polynomials. A term goes through at most K + 2
/// roundings: of four, in two means, each two products, two sums and two weights. What is shown
/// alone has none. A cubic weight is off by 10 u at most, whose parts may be of opposite signs, and
/// by 19 u where their sum divides it; for each cubic axis that many are added to K.
#include "ops/resample.h"

#include "check/conv2d/conv2d.h"
#include "check/engine/data.h"
#include "check/engine/layout.h"
#include "check/engine/expected.h"
#include "ops/backend.h"
#include "tensor/extent.h"

#include <math.h>

typedef struct resample_problem {
    talc_resample_problem p;
    int kind; /* of the axes that are no copy: a talc_resample_kind, ALIGNED or EXACT */
    talc_upsample_coordinates coordinates;
    talc_upsample_rounding rounding;
    bool keys, exclude;
    talc_padding_mode mode;
    bool value;
    check_layout x;                                       /* what is padded, by `pad` */
    int64_t pad[TALC_MAX_RANK][2], cut[TALC_MAX_RANK][2]; /* before and after */
    int64_t out[2];                                       /* extents of what is scaled */
    int64_t up, down; /* the scale factor is up / down; 0: none is given */
} resample_problem;

_Static_assert(sizeof(resample_problem) <= CHECK_PROBLEM_BYTES, "a problem has to fit");

static const resample_problem *read_resample(const check_problem *problem)
{
    return (const resample_problem *)(const void *)problem;
}

static resample_problem *write_resample(check_problem *problem)
{
    return (resample_problem *)(void *)problem;
}

enum { X, VALUE, Y, HEIGHT = 2, IMAGE_RANK = 4 };
enum { ALIGNED = TALC_RESAMPLE_CUBIC + 1, EXACT };

// ---- Problem ------------------------------------------------------------------------------------

static bool mixes(const resample_problem *self)
{
    return self->kind > TALC_RESAMPLE_NEAREST && self->kind != EXACT;
}

static const char *wrong_padding(const talc_resample_axis *a, int behind)
{
    const int64_t max = talc_larger(a->begin, a->out - a->in - a->begin);
    const bool cuts = talc_smaller(a->begin, a->out - a->in - a->begin) < 0;
    if (a->out < 0)
        return "padding that leaves an extent of at least 0";
    if (a->mode == TALC_PADDING_ZEROS || (max == 0 && !cuts))
        return NULL;
    return behind > 3                                 ? "a mode that pads the last 3 dimensions"
           : a->mode == TALC_PADDING_CIRCULAR && cuts ? "circular padding that cuts nothing off"
           : max > 0 && max > (a->mode == TALC_PADDING_REFLECT    ? a->in - 1
                               : a->mode == TALC_PADDING_CIRCULAR ? a->in
                               : a->in > 0                        ? INT64_MAX
                                                                  : 0)
               ? "padding that the extent allows"
               : NULL;
}

/* Where PyTorch has the extent of the image as output, it copies; where outputs lie at elements, it
 * is a copy too. */
static void scale(const resample_problem *self, talc_resample_axis *a)
{
    const double in = (double)a->in, out = (double)a->out;
    const bool given = self->coordinates != TALC_COORDINATES_DEFAULT;
    const bool nearest = self->kind == TALC_RESAMPLE_NEAREST;
    const talc_upsample_coordinates coordinates = self->kind == ALIGNED
                                                      ? TALC_COORDINATES_ALIGN_CORNERS
                                                  : given   ? self->coordinates
                                                  : nearest ? TALC_COORDINATES_ASYMMETRIC
                                                            : TALC_COORDINATES_HALF_PIXEL;
    const bool corners = coordinates == TALC_COORDINATES_ALIGN_CORNERS;
    const bool point = coordinates == TALC_COORDINATES_PYTORCH_HALF_PIXEL && a->out == 1;
    const bool half = !corners && !point && coordinates != TALC_COORDINATES_ASYMMETRIC;
    a->kind = self->kind == ALIGNED ? TALC_RESAMPLE_LINEAR
              : self->kind == EXACT ? TALC_RESAMPLE_NEAREST
                                    : (talc_resample_kind)self->kind;
    a->scale = point     ? 0
               : corners ? (a->out == 1 ? 0 : (in - 1) / (out - 1))
               : nearest && !given && a->out - a->in == a->in ? 0.5
               : self->up > 0 ? 1 / ((double)self->up / (double)self->down)
                              : in / out;
    a->shift = half ? 0.5 : 0;
    a->offset = half ? -0.5 : 0;
    if (coordinates == TALC_COORDINATES_HALF_PIXEL_SYMMETRIC)
        a->shift += (in / a->scale - out) / 2;
    if (a->in == a->out &&
        ((!given && a->kind != TALC_RESAMPLE_CUBIC) || (a->scale == 1 && a->shift == -a->offset))) {
        *a = (talc_resample_axis){ .in = a->in, .out = a->out };
        return;
    }
    a->offset += self->rounding == TALC_ROUNDING_PREFER_CEIL || self->kind == EXACT ? 0.5
                 : self->rounding == TALC_ROUNDING_PREFER_FLOOR                     ? -0.5
                                                                                    : 0;
    a->up = self->rounding == TALC_ROUNDING_CEIL || self->rounding == TALC_ROUNDING_PREFER_FLOOR;
    if (nearest && given)
        a->offset += (a->up ? -0x1p-23 : 0x1p-23) * in;
    a->coefficient = a->kind != TALC_RESAMPLE_CUBIC ? 0 : self->keys ? -0.5 : -0.75;
    a->inside = self->exclude;
}

/* What is both padded and cut off is so by the difference. */
static const char *lay_padding(resample_problem *self, const char **key)
{
    self->p.rank = self->x.rank;
    for (int i = 0; i < self->p.rank; i++) {
        talc_resample_axis *a = &self->p.axes[i];
        *key = "p";
        if (self->x.dims[i] > INT64_MAX / 4)
            return "extents below 2^61";
        *key = "";
        a->in = a->out = self->x.dims[i];
        a->begin = self->pad[i][0] - self->cut[i][0];
        for (int side = 0; side < 2; side++) {
            const int64_t added = self->pad[i][side] - self->cut[i][side];
            self->pad[i][side] = talc_larger(added, 0);
            self->cut[i][side] = talc_larger(-added, 0);
            a->out += added;
        }
    }
    return NULL;
}

static const char *lay_image(resample_problem *self, const char **key)
{
    talc_resample_axis *a = self->p.axes;
    self->p.rank = IMAGE_RANK;
    a[0].out = a[0].in;
    a[1].out = a[1].in;
    for (int i = HEIGHT; i < IMAGE_RANK; i++) {
        if (self->down > 0 || self->up > 0) {
            const double out = (double)a[i].in * ((double)self->up / (double)self->down);
            *key = "f";
            if (self->up < 1 || self->down < 1 || !(out < 0x1p62))
                return "a factor above 0, an output below 2^62";
            *key = "";
            self->out[i - HEIGHT] = (int64_t)out;
        }
        a[i].out = self->out[i - HEIGHT];
    }
    return NULL;
}

static const char *complete(check_problem *problem, const char **key)
{
    resample_problem *self = write_resample(problem);
    talc_resample_problem *p = &self->p;
    if (self->kind >= ALIGNED && self->coordinates != TALC_COORDINATES_DEFAULT)
        return "aligned and exact without other coordinates";
    if (self->rounding != TALC_ROUNDING_FLOOR && self->kind != TALC_RESAMPLE_NEAREST)
        return "rounding of nearest";
    if ((self->keys || self->exclude) && self->kind != TALC_RESAMPLE_CUBIC)
        return "keys and exclude of bicubic";
    const char *misfit =
        self->kind == TALC_RESAMPLE_PAD ? lay_padding(self, key) : lay_image(self, key);
    if (misfit != NULL)
        return misfit;
    int64_t in[TALC_MAX_RANK], out[TALC_MAX_RANK], count;
    if ((p->direction != TALC_FORWARD || mixes(self)) && !talc_dtype_is_float(p->dtype))
        return "elements of f32 or f64";
    for (int i = 0; i < p->rank; i++) {
        talc_resample_axis *a = &p->axes[i];
        if (self->kind != TALC_RESAMPLE_PAD && i >= HEIGHT && (a->in < 1 || a->out < 1))
            return "an image and an output of at least 1x1";
        if (self->kind != TALC_RESAMPLE_PAD && i >= HEIGHT)
            scale(self, a);
        a->mode = self->mode;
        const char *wanted = self->kind == TALC_RESAMPLE_PAD ? wrong_padding(a, p->rank - i) : NULL;
        if (wanted != NULL)
            return wanted;
        in[i] = a->in;
        out[i] = a->out;
    }
    return talc_check_elements(p->dtype, p->rank, in, &count) &&
                   talc_check_elements(p->dtype, p->rank, out, &count)
               ? NULL
               : "an input and an output below 2^63 bytes";
}

// ---- Text ---------------------------------------------------------------------------------------

#define FIELD(name) offsetof(resample_problem, name)

enum { PAD = 1, UPSAMPLE = 2 };

static const check_key keys[] = {
    { "", CHECK_DIMS, .offset = FIELD(x), 1, .ops = PAD },
    { "p", CHECK_PAD, .offset = FIELD(pad), .ops = PAD, .flags = CHECK_OPTIONAL },
    { "c", CHECK_PAD, .offset = FIELD(cut), .ops = PAD, .flags = CHECK_OPTIONAL },
    { "n", CHECK_NUMBER, .offset = FIELD(p.axes[0].in), .ops = UPSAMPLE },
    { "c", CHECK_NUMBER, .offset = FIELD(p.axes[1].in), .ops = UPSAMPLE },
    { "h", CHECK_NUMBER, .offset = FIELD(p.axes[2].in), .ops = UPSAMPLE },
    { "w", CHECK_NUMBER, .offset = FIELD(p.axes[3].in), .ops = UPSAMPLE },
    { "f", CHECK_RATIO, .offset = FIELD(up), .ops = UPSAMPLE, .flags = CHECK_OPTIONAL },
    { "o", CHECK_PAIR, .offset = FIELD(out), .ops = UPSAMPLE, .flags = CHECK_OTHERWISE },
    { "_reflect", CHECK_CHOICE, .offset = FIELD(mode), TALC_PADDING_REFLECT, PAD },
    { "_replicate", CHECK_CHOICE, .offset = FIELD(mode), TALC_PADDING_REPLICATE, PAD },
    { "_circular", CHECK_CHOICE, .offset = FIELD(mode), TALC_PADDING_CIRCULAR, PAD },
    { "_value", CHECK_FLAG, .offset = FIELD(value), .ops = PAD },
    { "_bilinear", CHECK_CHOICE, .offset = FIELD(kind), TALC_RESAMPLE_LINEAR, UPSAMPLE },
    { "_bicubic", CHECK_CHOICE, .offset = FIELD(kind), TALC_RESAMPLE_CUBIC, UPSAMPLE },
    { "_aligned", CHECK_CHOICE, .offset = FIELD(kind), ALIGNED, UPSAMPLE },
    { "_exact", CHECK_CHOICE, .offset = FIELD(kind), EXACT, UPSAMPLE },
    { "_half", CHECK_CHOICE, .offset = FIELD(coordinates), TALC_COORDINATES_HALF_PIXEL, UPSAMPLE },
    { "_pytorch", CHECK_CHOICE, .offset = FIELD(coordinates), TALC_COORDINATES_PYTORCH_HALF_PIXEL,
      UPSAMPLE },
    { "_symmetric", CHECK_CHOICE, .offset = FIELD(coordinates),
      TALC_COORDINATES_HALF_PIXEL_SYMMETRIC, UPSAMPLE },
    { "_asymmetric", CHECK_CHOICE, .offset = FIELD(coordinates), TALC_COORDINATES_ASYMMETRIC,
      UPSAMPLE },
    { "_corners", CHECK_CHOICE, .offset = FIELD(coordinates), TALC_COORDINATES_ALIGN_CORNERS,
      UPSAMPLE },
    { "_ceil", CHECK_CHOICE, .offset = FIELD(rounding), TALC_ROUNDING_CEIL, UPSAMPLE },
    { "_prefer_floor", CHECK_CHOICE, .offset = FIELD(rounding), TALC_ROUNDING_PREFER_FLOOR,
      UPSAMPLE },
    { "_prefer_ceil", CHECK_CHOICE, .offset = FIELD(rounding), TALC_ROUNDING_PREFER_CEIL,
      UPSAMPLE },
    { "_keys", CHECK_FLAG, .offset = FIELD(keys), .ops = UPSAMPLE },
    { "_exclude", CHECK_FLAG, .offset = FIELD(exclude), .ops = UPSAMPLE },
    { "_dx", CHECK_CHOICE, .offset = FIELD(p.direction), TALC_GRAD_INPUT },
    CHECK_FLOAT_KEYS(FIELD(p.dtype)),
    CHECK_INTEGER_KEYS(FIELD(p.dtype), .ops = 0),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    write_resample(problem)->kind = op == 0 ? TALC_RESAMPLE_PAD : TALC_RESAMPLE_NEAREST;
}

static int op_of(const check_problem *problem)
{
    return read_resample(problem)->kind != TALC_RESAMPLE_PAD;
}

// ---- Random problems ----------------------------------------------------------------------------

static void draw_pad(uint64_t *state, resample_problem *self)
{
    talc_check_random_dims(state, &self->x);
    self->mode = (talc_padding_mode)talc_check_draw(state, 0, TALC_PADDING_MODE_COUNT - 1);
    self->value = self->mode == TALC_PADDING_ZEROS && self->p.direction == TALC_FORWARD &&
                  talc_check_draw(state, 0, 1) != 0;
    for (int i = 0; i < self->x.rank; i++) {
        if (i + 3 < self->x.rank && self->mode != TALC_PADDING_ZEROS)
            continue;
        const int64_t added[] = { CHECK_PICK(state, 0, 0, 1, 2, 5, -1, -3),
                                  CHECK_PICK(state, 0, 0, 1, 3, 17, -1, -2) };
        for (int side = 0; side < 2; side++) {
            self->pad[i][side] = talc_larger(added[side], 0);
            self->cut[i][side] = talc_larger(-added[side], 0);
        }
    }
}

static void draw_upsample(uint64_t *state, resample_problem *self)
{
    talc_resample_axis *a = self->p.axes;
    self->kind = (int)CHECK_PICK(state, TALC_RESAMPLE_NEAREST, TALC_RESAMPLE_NEAREST,
                                 TALC_RESAMPLE_LINEAR, TALC_RESAMPLE_CUBIC, ALIGNED, EXACT);
    if (self->kind < ALIGNED && talc_check_draw(state, 0, 1) != 0)
        self->coordinates =
            (talc_upsample_coordinates)talc_check_draw(state, 0, TALC_COORDINATES_COUNT - 1);
    if (self->kind == TALC_RESAMPLE_NEAREST && talc_check_draw(state, 0, 1) != 0)
        self->rounding = (talc_upsample_rounding)talc_check_draw(state, 0, TALC_ROUNDING_COUNT - 1);
    self->keys = self->kind == TALC_RESAMPLE_CUBIC && talc_check_draw(state, 0, 3) == 0;
    self->exclude = self->kind == TALC_RESAMPLE_CUBIC && talc_check_draw(state, 0, 3) == 0;
    a[0].in = talc_check_draw(state, 1, 3);
    a[1].in = talc_check_draw(state, 1, 5);
    const bool factor = talc_check_draw(state, 0, 3) == 0;
    self->up = factor ? talc_check_draw(state, 1, 9) : 0;
    self->down = factor ? talc_check_draw(state, 1, 4) : 0;
    for (int i = HEIGHT; i < IMAGE_RANK; i++) {
        a[i].in = CHECK_PICK(state, 1, 2, 3, 4, 7, 8, 15, 16, 17, 33);
        if (!factor)
            self->out[i - HEIGHT] =
                talc_check_draw(state, 0, 2) == 0 ? 2 * a[i].in : talc_check_draw(state, 1, 40);
    }
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    resample_problem *self = write_resample(problem);
    self->p.direction = direction;
    self->p.dtype = talc_check_draw_float(state);
    if (talc_check_draw(state, 0, 1) != 0)
        draw_pad(state, self);
    else
        draw_upsample(state, self);
    if (direction == TALC_FORWARD && !mixes(self) && talc_check_draw(state, 0, 3) == 0)
        self->p.dtype = (talc_dtype)CHECK_PICK(state, TALC_I64, TALC_I32, TALC_U8);
    return self->kind != TALC_RESAMPLE_PAD || self->x.rank > 0;
}

// ---- Operands and data --------------------------------------------------------------------------

static talc_dims dims_of(const talc_resample_problem *p, bool out)
{
    talc_dims dims = { .rank = p->rank };
    for (int i = 0; i < p->rank; i++)
        dims.dim[i] = out ? p->axes[i].out : p->axes[i].in;
    return dims;
}

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const resample_problem *self = read_resample(problem);
    const talc_resample_problem *p = &self->p;
    const bool forward = p->direction == TALC_FORWARD;
    list[X] = talc_check_operand(forward ? "x" : "dy", CHECK_READ, p->dtype, dims_of(p, !forward));
    if (self->value)
        list[VALUE] = talc_check_operand("value", CHECK_READ, p->dtype, TALC_DIMS(1));
    list[Y] =
        talc_check_operand(forward ? "y" : "dx", CHECK_WRITTEN, p->dtype, dims_of(p, forward));
}

/* Outputs that show one element, at most. */
static double readers(const talc_resample_problem *p)
{
    double max = 1;
    for (int i = 0; i < p->rank; i++) {
        const talc_resample_axis *a = &p->axes[i];
        const int64_t added = talc_larger(a->begin, 0) + talc_larger(a->out - a->in - a->begin, 0);
        const double taps = a->kind == TALC_RESAMPLE_CUBIC ? 4 : 2;
        max *= a->kind != TALC_RESAMPLE_PAD    ? taps * (floor((double)a->out / (double)a->in) + 2)
               : a->mode == TALC_PADDING_ZEROS ? 1
                                               : 1 + (double)added;
    }
    return max;
}

static const double LARGEST = 64;

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const resample_problem *self = read_resample(problem);
    if (!talc_dtype_is_float(self->p.dtype))
        return kind == TALC_CHECK_EXACT;
    return kind == TALC_CHECK_EXACT ? !mixes(self) && readers(&self->p) * LARGEST <
                                                          talc_check_format(self->p.dtype).integers
                                    : kind <= TALC_CHECK_INFINITY;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    check_operand list[CHECK_OPERANDS];
    talc_check_operands(&talc_check_resample, problem, list);
    for (int i = X; i <= VALUE; i++) {
        talc_check_fill(values->of[i], list[i].count, list[i].dtype,
                        i == X || kind == TALC_CHECK_EXACT ? kind : TALC_CHECK_RANDOM, LARGEST, 1,
                        talc_check_bits(seed, (uint64_t)i));
        for (int64_t e = 0; e < list[i].count && !talc_dtype_is_float(list[i].dtype); e++)
            values->of[i][e] += LARGEST; /* also an unsigned one */
    }
}

// ---- Oracle -------------------------------------------------------------------------------------

/* How much of an element that lies at a distance from an output it shows: in factors, as it is near
 * 0 where they are. */
static long double cubic(long double a, long double d)
{
    d = fabsl(d);
    return d <= 1  ? (1 - d) * (1 + d - (a + 2) * d * d)
           : d < 2 ? a * (d - 1) * (d - 2) * (d - 2)
                   : 0;
}

/* How much of element i output o shows. */
static long double shown(const talc_resample_axis *a, int64_t o, int64_t i)
{
    const double last = (double)(a->in - 1);
    if (a->kind == TALC_RESAMPLE_PAD)
        return talc_check_source(a->mode, o - a->begin, a->in) == i;
    if (a->kind == TALC_RESAMPLE_NEAREST) {
        const float product = ((float)o + (float)a->shift) * (float)a->scale;
        const double place = (double)product + a->offset;
        return fmax(0, fmin(a->up ? ceil(place) : floor(place), last)) == (double)i;
    }
    /* The product is rounded, as the op's is: no fused multiplication. */
    const double scaled = a->scale * ((double)o + a->shift), place = scaled + a->offset;
    if (a->kind == TALC_RESAMPLE_LINEAR)
        return fmaxl(0, 1 - fabsl((long double)fmin(fmax(place, 0), last) - (long double)i));
    if (i > 0 && (double)i < last && fabs(place - (double)i) >= 2)
        return 0;
    long double weight = 0, sum = 0;
    for (int64_t j = (int64_t)floor(place) - 1; j <= (int64_t)floor(place) + 2; j++) {
        const bool counts = !a->inside || (j >= 0 && j < a->in);
        const long double part =
            counts ? cubic(a->coefficient, (long double)place - (long double)j) : 0;
        sum += part;
        weight += talc_between(j, 0, a->in - 1) == i ? part : 0;
    }
    return a->inside ? weight / sum : weight;
}

typedef struct showing {
    const talc_resample_problem *p;
    const double *of;
    int64_t at[TALC_MAX_RANK]; /* of the result */
} showing;

/* Adds what axes `axis` and on show, from element `from` of those before. */
static void add_shown(const showing *s, int axis, int64_t from, long double weight,
                      check_expected *expected)
{
    const talc_resample_axis *a = &s->p->axes[axis];
    const bool forward = s->p->direction == TALC_FORWARD;
    if (axis == s->p->rank) {
        const long double term = weight * s->of[from];
        expected->value += term;
        /* What underflows is a term still. */
        expected->S += !isfinite(term) ? 0 : fmax((double)fabsl(term), term != 0 ? 0x1p-1074 : 0);
        expected->K++;
        return;
    }
    const int64_t extent = forward ? a->in : a->out, at = s->at[axis];
    const bool one =
        a->kind == TALC_RESAMPLE_PAD && (forward || a->in == a->out) && (forward || a->begin == 0);
    const int64_t first = one ? talc_check_source(a->mode, at - a->begin, a->in) : 0;
    const int64_t end = !one ? extent : first < 0 ? 0 : first + 1;
    for (int64_t k = talc_larger(first, 0); k < end; k++) {
        const long double w = forward ? shown(a, at, k) : shown(a, k, at);
        if (w != 0)
            add_shown(s, axis + 1, from * extent + k, weight * w, expected);
    }
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    (void)operand;
    const talc_resample_problem *p = &read_resample(problem)->p;
    const bool forward = p->direction == TALC_FORWARD;
    showing s = { .p = p, .of = values->of[X] };
    check_expected expected = { .value = 0 };
    talc_check_coordinates(p->rank, dims_of(p, forward).dim, index, s.at);
    add_shown(&s, 0, 0, 1, &expected);
    expected.border = expected.K == 0;
    if (expected.border && forward)
        expected.value = values->of[VALUE] != NULL ? values->of[VALUE][0]
                                                   : talc_check_cast(TALC_F64, p->dtype, p->value);
    bool mixes = false;
    double roundings = 0; /* of cubic weights */
    for (int i = 0; i < p->rank; i++) {
        mixes = mixes || p->axes[i].kind > TALC_RESAMPLE_NEAREST;
        if (p->axes[i].kind == TALC_RESAMPLE_CUBIC)
            roundings += p->axes[i].inside ? 19 : 10;
    }
    if (expected.K <= 1 && !mixes)
        expected.K = expected.S = 0;
    else if (expected.K > 0)
        expected.K += roundings;
    return expected;
}

/* Each axis is gone over whole for each element that the axes before it show. */
static double terms(const check_problem *problem)
{
    talc_resample_problem p = read_resample(problem)->p;
    const bool forward = p.direction == TALC_FORWARD;
    double sum = 0;
    for (p.rank = forward ? 1 : 0; p.rank < read_resample(problem)->p.rank; p.rank++) {
        const talc_resample_axis *a = &p.axes[p.rank];
        if (!forward || a->kind != TALC_RESAMPLE_PAD)
            sum += (double)(forward ? a->in : a->out) * (forward ? 4 : readers(&p));
    }
    return sum + 1;
}

static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    resample_problem *self = write_resample(problem);
    self->p = *(const talc_resample_problem *)ran->problem;
    return true;
}

/* Of no dy all of dx is 0, without an algorithm. */
static bool is_empty(const check_problem *problem)
{
    check_operand list[CHECK_OPERANDS];
    talc_check_operands(&talc_check_resample, problem, list);
    return read_resample(problem)->p.direction != TALC_FORWARD && list[X].count == 0;
}

// ---- In models ----------------------------------------------------------------------------------

/* The value of the padding moves nowhere. */
static bool expected_of_run(const check_direction *direction, const check_ran *ran,
                            check_model_expected *expected)
{
    if (!talc_check_linear(direction, ran, expected))
        return false;
    for (int64_t i = 0; i < ran->output.count; i++)
        expected->spread[i] = expected->element[i].border ? 0 : expected->spread[i];
    return true;
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "pad:2x3x5x7p1x2x0x3_value", "pad:3x5x7p2x1x1x0c0x0x0x2_reflect",
    "pad:3x5x17p3x0x0x2_replicate_f64", "pad:3x5x7p7x2x1x5_circular_u8",
    "upsample2d:n2c3h5w7o10x14", "upsample2d:n1c2h5w7o3x16_i64",
    "upsample2d:n2c3h5w7o10x14_bilinear", "upsample2d:n2c3h5w7o11x4_aligned",
    "upsample2d:n1c2h7w6f7x3_bilinear_f64",
    "{pad:3x5x7p1x2x0x3c0x0x1x0|pad:3x5x7p2x1x4x1_reflect|pad:3x5x17p3x0x0x2_replicate_f64|pad:3x5x7p7x2x1x5_circular}_dx",
    "upsample2d:n2c3h5w7o{10x14|3x16}{|_bilinear|_aligned}_dx",
    "upsample2d:n2c3h5w7o{10x14|3x16}_bicubic{|_dx}", "upsample2d:n1c2h7w6f7x3_bicubic_corners_f64",
    "upsample2d:n1c2h5w8o7x12_{exact|half_prefer_ceil}{_u8|_dx}", "upsample2d:n1c2h5w8o2x11_corners_ceil",
    NULL,
};

static const char *const edges[] = {
    /* Padding: each side, each mode, all that the mode allows; cut to nothing; an empty image;
     * ranks; wide rows; every type. */
    "pad:5x7p{1x0|0x0x0x1|9x40x3x2}{_value|_replicate}",
    "pad:5x7p{0x1|0x0x1x0|9x40x3x2}{|_replicate}_dx", "pad:5x7c{3x4|0x0x5x0}",
    "pad:1x5x7p{6x6x4x4_reflect|1x2x3x4_reflect|7x7x5x5_circular|1x2x3x4_circular}{|_dx}",
    "pad:2x1x1p{3x2x1x4_replicate|1x0x1x1_circular}{|_dx}",
    "pad:5x7p2x0c0x3_{reflect|replicate}{|_dx}", "pad:0x3p1x2x2x1_value",
    "pad:7p2x3{_value|_reflect_dx}", "pad:2x3x2x3x2x3x2x3p1x0x0x1x1x1x0x0x2x1{|_dx}",
    "pad:3x4x5x6p1x2x3x1x2x0_{reflect_f64|replicate|circular_f64}{|_dx}",
    "pad:9x{15|16|17|1021}p1x1", "pad:3x10001p5x3_reflect{|_dx}", "pad:10001x3p1x1{|_dx}",
    "pad:5x33p1x2_{value_i64|value_i32|value_u8|reflect_u8|circular_i32|replicate_i64}",

    /* Upsampling: one element, to one, as many, fewer, twice, factors, wide rows, many planes,
     * every type. */
    "upsample2d:n1c2h1w1o3x5{|_bilinear|_aligned}{|_dx}",
    "upsample2d:n2c3h5w7o{1x1|5x14|4x3|11x29}{|_bilinear|_aligned}{|_dx}",
    "upsample2d:n1c2h9w8f{3x2|2x3}{|_bilinear|_aligned}{|_dx}",
    "upsample2d:n1c2h3w129o7x300{|_bilinear|_aligned_f64}{|_dx}",
    "upsample2d:n70c33h3w2o6x4{|_bilinear|_aligned_f64}{|_dx}",
    "upsample2d:n0c2h3w2o6x4{|_bilinear_dx}", "upsample2d:n1c3h5w7o9x16_{i64|i32|u8}",
    "upsample2d:n1c2h2w3o70x65{|_bilinear|_aligned}_dx",

    /* The other ways: of both extents, to one, twice, halves, ties, fractions, the same extent. */
    "upsample2d:n1c2h1w1o3x5{_bicubic|_half_ceil|_bicubic_exclude}{|_dx}",
    "upsample2d:n2c3h5w7o{1x1|5x14|4x3|11x29}_{bicubic|bicubic_exclude|bicubic_corners_keys}{|_dx}",
    "upsample2d:n1c2h9w8f{3x2|2x3|21x20}_bicubic{|_pytorch|_symmetric|_asymmetric|_asymmetric_exclude}{|_dx}",
    "upsample2d:n1c2h9w8f{3x2|2x3|21x20}_bilinear_{half|pytorch|symmetric|asymmetric|corners}{|_dx}",
    "upsample2d:n1c2h9w8f{3x2|2x3|21x20}_{ceil|prefer_floor|prefer_ceil}{|_dx}",
    "upsample2d:n1c2h9w8f{3x2|2x3|21x20}_{exact|exact_dx}", "upsample2d:n1c2h9w8f{3x2|2x3|21x20}_{half|pytorch|symmetric|corners}{|_ceil|_prefer_floor|_prefer_ceil}{|_dx}",
    "upsample2d:n1c2h8w9o{4x13|1x18}_{half|pytorch|symmetric|corners|asymmetric}_{ceil|prefer_floor|prefer_ceil}",
    "upsample2d:n1c3h5w7o9x16_half_prefer_{ceil_i64|floor_i32|floor_u8|ceil_dx_f64}",
    "upsample2d:n1c2h3w129o7x300_bicubic{|_f64}{|_dx}", "upsample2d:n1c1h1w1100o2x{7|1200}_bicubic{|_dx}",
    "upsample2d:n70c33h3w2o6x4_bicubic{|_exclude_f64}{|_dx}", "upsample2d:n0c2h3w2o6x4_bicubic{|_dx}",
    "upsample2d:n1c2h2w3o70x65_bicubic_dx",
    NULL,
};
// clang-format on

// ---- The directions -----------------------------------------------------------------------------

static const check_family family = {
    .texts = "pad:3x5x7p1x2x0x3c0x1_reflect\n"
             "    p: elements before and after the last dimension, then the one ahead of it, and\n"
             "    so on; c: likewise, cut off; replicate, circular; value: not 0\n"
             "upsample2d:n2c3h5w7o8x9_bilinear\n"
             "    f7x3 in place of o: the scale factor 7/3, f2: 2; aligned: bilinear with\n"
             "    aligned corners; bicubic; exact: nearest_exact; without any of them nearest;\n"
             "    half, pytorch, symmetric, asymmetric, corners: coordinates; ceil, prefer_floor,\n"
             "    prefer_ceil: of nearest; keys: bicubic's coefficient -0.5; exclude:\n"
             "    exclude_outside\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .op = op_of,
    .random = random_problem,
};

#define POINTER(name) offsetof(talc_resample_arguments, name)
#define DIRECTION(direction, names, other)                                                         \
    {                                                                                              \
        .family = &family, .of = direction, .ops = names, .gradient = other,                       \
        .problem_of_run = problem_of_run, .expected_of_run = expected_of_run, .factors = 1U << X,  \
        .weighs = true, .operands = operands, .takes = takes, .fill = fill,                        \
        .expected = expected_of, .terms = terms, .list = TALC_OP_resample,                         \
        .arguments = { POINTER(x), POINTER(value), POINTER(y) }, .is_empty = is_empty,             \
    }

static const char *const forward_ops[] = { "pad", "upsample2d", NULL };
static const char *const gradient_ops[] = { "pad.grad_input", "upsample2d.grad_input", NULL };

static const check_direction gradient = DIRECTION(TALC_GRAD_INPUT, gradient_ops, NULL);
const check_direction talc_check_resample = DIRECTION(TALC_FORWARD, forward_ops, &gradient);
