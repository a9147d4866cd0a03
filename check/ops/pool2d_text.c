/// Problems of the pooling family: their texts, and random ones.
#include "check/engine/data.h"
#include "check/ops/pool2d.h"
#include "tensor/memory.h"

enum { ABSENT = -1 };

// ---- Problem ------------------------------------------------------------------------------------

/* How many windows start inside: 0 when not one fits, or the numbers are too large. */
static int64_t windows(int64_t extent, int64_t kernel, int64_t stride, int64_t pad_begin,
                       int64_t pad_end, int64_t dilation, bool ceil_mode)
{
    int64_t span, padded;
    if (!talc_multiply(kernel - 1, dilation, &span) ||
        !talc_add_checked(extent, pad_begin, &padded) ||
        !talc_add_checked(padded, pad_end, &padded))
        return 0;
    const int64_t last_start = padded - 1 - span;
    if (!ceil_mode)
        return last_start < 0 ? 0 : last_start / stride + 1;
    /* ceil(room / stride) + 1, of which the last must start before the bottom padding. */
    int64_t count = last_start > 0         ? last_start / stride + (last_start % stride != 0) + 1
                    : last_start > -stride ? 1
                                           : 0;
    if (count > 1 && count - 1 > (extent + pad_begin - 1) / stride)
        count--;
    return count;
}

/* Whether padding is smaller than a window, which may pass 2^63. */
static bool below_window(int64_t pad, int64_t kernel, int64_t dilation)
{
    return pad == 0 || (kernel > 1 && (pad - 1) / (kernel - 1) < dilation);
}

static const char *at(const char **key, const char *position, const char *wanted)
{
    *key = position;
    return wanted;
}

static const char *wrong_windows(const talc_pool2d_problem *p, const char **key)
{
    if (p->KH < 1 || p->KW < 1)
        return at(key, "k", "a kernel of at least 1x1");
    if (p->stride_h < 1 || p->stride_w < 1)
        return at(key, "s", "a stride of at least 1x1");
    if (p->dilation_h < 1 || p->dilation_w < 1)
        return at(key, "d", "a dilation of at least 1x1");
    if (!talc_pool2d_is_max(p) && (p->dilation_h > 1 || p->dilation_w > 1))
        return at(key, "d", "no dilation, which only max_pool2d has");
    if (!below_window(p->pad_top, p->KH, p->dilation_h) ||
        !below_window(p->pad_bottom, p->KH, p->dilation_h) ||
        !below_window(p->pad_left, p->KW, p->dilation_w) ||
        !below_window(p->pad_right, p->KW, p->dilation_w))
        return at(key, "p", "a padding smaller than the kernel with its dilation");
    return NULL;
}

static const char *complete(check_problem *problem, const char **key)
{
    check_pool2d_problem *self = writable(problem);
    talc_pool2d_problem *p = &self->p;
    const bool gradient = p->direction == TALC_GRAD_INPUT;
    int64_t count;
    if (gradient && self->indices)
        return at(key, "_", "no indices, which a gradient always has");
    p->indices = gradient ? talc_pool2d_is_max(p) : self->indices;
    if (p->stride_h == ABSENT) {
        p->stride_h = p->KH;
        p->stride_w = p->KW;
    }
    if (p->C < 1 || p->H < 1 || p->W < 1)
        return "sizes of at least 1, but for n,";
    if (!talc_check_elements(p->dtype, 4, (int64_t[]){ p->N, p->C, p->H, p->W }, &count))
        return "an input below 2^63 bytes";
    if (!talc_pool2d_is_adaptive(p)) {
        const char *wanted = wrong_windows(p, key);
        if (wanted != NULL)
            return wanted;
        p->OH = windows(p->H, p->KH, p->stride_h, p->pad_top, p->pad_bottom, p->dilation_h,
                        self->ceil_mode);
        p->OW = windows(p->W, p->KW, p->stride_w, p->pad_left, p->pad_right, p->dilation_w,
                        self->ceil_mode);
        if (p->OH == 0 || p->OW == 0)
            return at(key, "k", "a kernel that fits the padded input");
    } else if (p->OH > INT32_MAX || p->OW > INT32_MAX) {
        return at(key, "o", "an output of at most 2147483647x2147483647");
    }
    if (!talc_check_elements(TALC_F64, 4, (int64_t[]){ p->N, p->C, p->OH, p->OW }, &count))
        return "an output below 2^63 bytes";
    return NULL;
}

// ---- Text ---------------------------------------------------------------------------------------

enum { MAX = 1, AVG = 2, ADAPTIVE = 4 | 8, ADAPTIVE_MAX = 8, WINDOWS = MAX | AVG };

#define FIELD(name) offsetof(check_pool2d_problem, name)

static const check_key keys[] = {
    CHECK_IMAGE_KEYS(FIELD(p.N), FIELD(p.C), FIELD(p.H), FIELD(p.W)),
    { "o", CHECK_PAIR, .offset = FIELD(p.OH), .ops = ADAPTIVE },
    { "k", CHECK_PAIR, .offset = FIELD(p.KH), .ops = WINDOWS },
    { "s", CHECK_PAIR, .offset = FIELD(p.stride_h), .ops = WINDOWS, .flags = CHECK_OPTIONAL },
    { "p", CHECK_SIDES, .offset = FIELD(p.pad_top), .ops = WINDOWS, .flags = CHECK_OPTIONAL },
    { "d", CHECK_PAIR, .offset = FIELD(p.dilation_h), .ops = MAX, .flags = CHECK_OPTIONAL },
    { "d", CHECK_PAIR, .offset = FIELD(p.dilation_h), .ops = AVG,
      .flags = CHECK_OPTIONAL | CHECK_SILENT },
    { "_ceil", CHECK_FLAG, .offset = FIELD(ceil_mode), .ops = WINDOWS },
    { "_exclude", CHECK_FLAG, .offset = FIELD(p.exclude_padding), .ops = AVG },
    { "_indices", CHECK_FLAG, .offset = FIELD(indices), .ops = MAX | ADAPTIVE_MAX },
    { "_divisor", CHECK_COUNT, .offset = FIELD(p.divisor), .ops = AVG },
    { "_dx", CHECK_CHOICE, .offset = FIELD(p.direction), TALC_GRAD_INPUT },
    CHECK_FLOAT_KEYS(FIELD(p.dtype)),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    talc_pool2d_problem *p = &writable(problem)->p;
    p->kind = (talc_pool2d_kind)op;
    if (talc_pool2d_is_adaptive(p))
        return;
    p->stride_h = p->stride_w = ABSENT;
    p->dilation_h = p->dilation_w = 1;
}

// ---- Random problems ----------------------------------------------------------------------------

/* Half a kernel at most and the same on opposite sides, as most networks have it, or anything below
 * a window. */
static void draw_padding(uint64_t *state, talc_pool2d_problem *p)
{
    const int64_t max_h = p->dilation_h * (p->KH - 1), max_w = p->dilation_w * (p->KW - 1);
    p->pad_top = p->pad_bottom = talc_check_draw(state, 0, p->KH / 2);
    p->pad_left = p->pad_right = talc_check_draw(state, 0, p->KW / 2);
    if (talc_check_draw(state, 0, 2) > 0)
        return;
    p->pad_top = talc_check_draw(state, 0, max_h);
    p->pad_left = talc_check_draw(state, 0, max_w);
    p->pad_bottom = talc_check_draw(state, 0, max_h);
    p->pad_right = talc_check_draw(state, 0, max_w);
}

static void draw_windows(uint64_t *state, check_pool2d_problem *self)
{
    talc_pool2d_problem *p = &self->p;
    const bool max = talc_pool2d_is_max(p);
    p->KH = CHECK_PICK(state, 1, 2, 2, 3, 3, 3, 4, 5, 7, 9);
    p->KW = CHECK_PICK(state, 1, 2, 2, 3, 3, 3, 4, 5, 7, 9);
    p->stride_h = talc_check_draw(state, 1, p->KH + 1);
    p->stride_w = talc_check_draw(state, 1, p->KW + 1);
    /* Kernels are written for the windows that networks have, and independent draws hardly meet
     * them. */
    if (talc_check_draw(state, 0, 1) == 0) {
        p->KH = p->KW = talc_check_draw(state, 2, 3);
        p->stride_h = p->stride_w = talc_check_draw(state, 1, 2);
    }
    p->dilation_h = max && talc_check_draw(state, 0, 2) == 0 ? talc_check_draw(state, 1, 3) : 1;
    p->dilation_w = max && talc_check_draw(state, 0, 2) == 0 ? talc_check_draw(state, 1, 3) : 1;
    draw_padding(state, p);
    self->ceil_mode = talc_check_draw(state, 0, 1) != 0;
    self->indices = max && talc_check_draw(state, 0, 1) != 0;
    p->exclude_padding = p->kind == TALC_POOL2D_AVG && talc_check_draw(state, 0, 1) != 0;
    if (p->kind == TALC_POOL2D_AVG && talc_check_draw(state, 0, 3) == 0)
        p->divisor = talc_check_draw(state, 1, 9);
}

static int64_t draw_extent(uint64_t *state)
{
    return CHECK_PICK(state, 1, 2, 3, 4, 5, 7, 8, 13, 15, 16, 17, 28, 33);
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    check_pool2d_problem *self = writable(problem);
    talc_pool2d_problem *p = &self->p;
    p->kind = (talc_pool2d_kind)talc_check_draw(state, 0, TALC_POOL2D_KIND_COUNT - 1);
    p->dtype = talc_check_draw_float(state);
    p->N = talc_check_draw(state, 1, 3);
    p->C = talc_check_draw(state, 1, 5);
    p->H = draw_extent(state);
    p->W = talc_check_draw(state, 0, 3) == 0 ? talc_check_draw(state, 60, 300) : draw_extent(state);
    if (talc_pool2d_is_adaptive(p)) {
        p->OH = talc_check_draw(state, 1, p->H + 2);
        p->OW = talc_check_draw(state, 1, p->W + 2);
        self->indices = talc_pool2d_is_max(p) && talc_check_draw(state, 0, 1) != 0;
    } else {
        draw_windows(state, self);
    }
    if (complete(problem, &(const char *){ "" }) != NULL)
        return false;
    p->direction = direction;
    self->indices &= direction == TALC_FORWARD;
    return true;
}

static int op_of(const check_problem *problem)
{
    return (int)read_only(problem)->p.kind;
}

const check_family talc_check_pool2d_family = {
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .op = op_of,
    .random = random_problem,
};
