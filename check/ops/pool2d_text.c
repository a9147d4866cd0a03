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

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "max_pool2d:n2c3h9w8k2x2", "max_pool2d:n1c4h13w11k3x3s2x2p1x1_ceil_indices",
    "max_pool2d:n2c2h12w35k3x2s1x3p1x0d2x3", "max_pool2d:n3c5h8w8k3x3s1x1p1x1",
    "max_pool2d:n2c3h13w13k3x3s2x2p1x1", "avg_pool2d:n2c3h5w130k3x3s1x1",
    "avg_pool2d:n2c3h7w7k3x3s1x1p1x1_exclude", "adaptive_avg_pool2d:n2c3h7w6o7x6",
    "avg_pool2d:n1c3h11w9k4x3s3x2p2x1_ceil_exclude", "max_pool2d:n2c3h9w10k3x2s2x1p2x0x1x1_indices",
    "avg_pool2d:n2c3h9w10k3x2s2x1p0x1x2x0", "avg_pool2d:n1c2h9w37k3x3s1x1p1x1_divisor5",
    "avg_pool2d:n1c2h9w9k3x2_f64", "adaptive_avg_pool2d:n2c3h9w11o4x3",
    "adaptive_max_pool2d:n2c3h9w11o4x3", "max_pool2d:n2c3h9w8k2x2_dx",
    "max_pool2d:n1c4h13w11k3x3s2x2p1x1_ceil_dx", "max_pool2d:n2c2h12w35k3x2s1x3p1x0d2x3_dx_f64",
    "avg_pool2d:n1c3h11w9k4x3s3x2p2x1_ceil_exclude_dx", "avg_pool2d:n2c3h9w10k3x2s2x1p0x1x2x0_dx",
    "avg_pool2d:n1c2h9w37k3x3s1x1p1x1_divisor5_dx_f64",
    "{adaptive_avg_pool2d|adaptive_max_pool2d}:n2c3h9w11o4x3_dx",
    "adaptive_avg_pool2d:n2c3h7w6o10x4_dx",
    NULL,
};

static const char *const edges[] = {
    /* Maxima: kernels and strides, different ones for height and width. */
    "max_pool2d:n0c3h6w5k2x2", "max_pool2d:n2c3h9w8k{1x1|2x2|1x4|4x1}",
    "max_pool2d:n2c3h9w8k3x3s{1x1|2x2}p1x1", "max_pool2d:n1c2h11w10k2x3s3x1",
    "max_pool2d:n1c2h11w10k5x4s1x2p2x2", "max_pool2d:n1c2h7w9k7x9{|p3x4}",
    "max_pool2d:n1c2h13w11k2x2s5x4", "max_pool2d:n1c2h5w6k3x2s100x99",
    "max_pool2d:n2c1h1w17k1x3p0x1", "max_pool2d:n2c1h17w1k3x1p1x0", "max_pool2d:n1c5h1w1k1x1",
    "max_pool2d:n1c5h1w1k2x2s1x1p1x1",

    /* Maxima: widths around those of vectors; many images and channels. */
    "max_pool2d:n1c2h5w{15|16|17}k3x3s1x1p1x1", "max_pool2d:n1c2h5w{33|65}k2x2",
    "max_pool2d:n1c3h4w301k3x3s2x2p1x1", "max_pool2d:n65537c1h2w1k2x1",
    "max_pool2d:n33c17h3w4k2x2s1x1", "max_pool2d:n9c50h4w5k3x3s1x1p1x1",
    "max_pool2d:n40c8h7w7k3x3s2x2p1x1", "max_pool2d:n1c3h20w21k3x3s1x1p1x1_f64",
    "max_pool2d:n2c3h34w34k3x3s2x2", "max_pool2d:n1c2h9w132k5x5s1x1",
    "max_pool2d:n1c2h9w132k3x3s1x1p1x1_indices", "max_pool2d:n40c8h6w6k2x2_f64",

    /* Maxima: a last window partly outside, dilation, windows without an element, indices. */
    "max_pool2d:n1c2h8w9k3x3s2x2{|p1x1}_ceil", "max_pool2d:n1c2h9w10k3x3s1x1p2x0x1x2_indices",
    "max_pool2d:n1c2h9w10k2x2s2x2p1x0x0x1_ceil",
    "max_pool2d:n1c2h9w10k3x2s2x1p3x0x4x2d2x3_ceil_indices", "max_pool2d:n1c2h1w1k3x3s1x1p2x2",
    "max_pool2d:n1c2h9w37k5x5s1x1p4x0x0x4_f64", "max_pool2d:n1c2h9w10k3x3s2x2p0x0x1x1",
    "max_pool2d:n1c2h7w7k2x2s3x3p1x1_ceil", "max_pool2d:n1c2h4w4k1x1s3x3_ceil",
    "max_pool2d:n1c2h5w5k2x2s4x4p1x1_ceil", "max_pool2d:n1c2h9w10k3x3s1x1d2x3",
    "max_pool2d:n1c2h9w10k3x3s2x1p1x1d3x2", "max_pool2d:n1c2h12w10k2x4s3x2p1x2d4x2_ceil",
    "max_pool2d:n1c1h2w2k2x2s1x1p1x1d3x3", "max_pool2d:n2c3h9w8k2x2_indices",
    "max_pool2d:n1c2h8w9k3x3s2x2p1x1_ceil_indices", "max_pool2d:n1c2h9w10k3x2s2x1p1x1d2x3_indices",
    "max_pool2d:n1c2h9w8k3x3s2x2p1x1_f64", "max_pool2d:n1c2h9w8k2x2_indices_f64",
    "max_pool2d:n3c2h14w14k3x3s2x2p1x1_ceil", "max_pool2d:n3c2h14w22k3x3s2x2p1x1_ceil_indices",

    /* Averages: kernels, strides, padding that counts and that does not. */
    "avg_pool2d:n0c3h6w5k2x2", "avg_pool2d:n2c3h9w8k{1x1|2x2}",
    "avg_pool2d:n2c3h9w8k3x3s1x1p1x1{|_exclude}", "avg_pool2d:n2c3h9w8k3x3s2x2p1x1",
    "avg_pool2d:n1c2h9w8k4x1s3x1p2x0", "avg_pool2d:n1c2h9w8k1x4s1x3p0x2_exclude",
    "avg_pool2d:n1c2h7w9k7x9", "avg_pool2d:n1c2h7w9k7x9p3x4{|_exclude}",
    "avg_pool2d:n1c2h13w11k2x2s5x4", "avg_pool2d:n1c5h1w1k1x1",
    "avg_pool2d:n1c5h1w1k3x3s1x1p1x1{|_exclude}", "avg_pool2d:n65537c1h1w2k1x2",
    "avg_pool2d:n1c2h5w17k3x3s1x1p1x1", "avg_pool2d:n1c2h5w65k2x2",
    "avg_pool2d:n1c1h150w140k140x130",

    /* Averages: a last window partly outside, a divisor, f64. */
    "avg_pool2d:n1c2h8w9k3x3s2x2_ceil",
    "avg_pool2d:n1c2h8w9k3x3s2x2p1x1_{ceil|ceil_exclude|ceil_exclude_divisor5|ceil_exclude_f64}",
    "avg_pool2d:n1c2h9w10k3x3s1x1p2x0x1x2", "avg_pool2d:n1c2h9w10k2x2s2x2p1x0x0x1_ceil",
    "avg_pool2d:n1c2h9w10k4x3s3x2p0x2x3x1_ceil_exclude", "avg_pool2d:n1c2h1w1k3x3s1x1p2x2_exclude",
    "avg_pool2d:n1c2h9w37k5x5s1x1p4x0x0x4_exclude", "avg_pool2d:n1c2h9w10k3x3s2x2p0x0x1x1_f64",
    "avg_pool2d:n1c2h7w7k2x2s3x3p1x1_ceil", "avg_pool2d:n1c2h5w5k2x2s4x4p1x1_ceil_exclude",
    "avg_pool2d:n1c2h9w8k3x3s2x2p1x1_divisor7", "avg_pool2d:n1c2h9w8k3x3_divisor1",
    "avg_pool2d:n1c2h9w8k3x2s2x1p1x1_f64", "avg_pool2d:n9c50h6w6k2x2",
    "avg_pool2d:n9c50h5w4k3x3s1x1p1x1_exclude_f64", "avg_pool2d:n40c8h6w6k2x2_f64",
    "avg_pool2d:n40c8h5w5k5x5s1x1p2x2{|_f64}", "avg_pool2d:n1c2h9w132k5x5s1x1p2x2_f64",
    "avg_pool2d:n1c2h9w132k3x3s1x1", "avg_pool2d:n3c2h14w22k3x3s2x2p1x1_ceil",
    "avg_pool2d:n3c2h22w14k3x3s2x2p1x1_ceil_exclude",

    /* Adaptive averages: one output, as many as inputs, more, windows that overlap. */
    "adaptive_avg_pool2d:n0c2h5w4o2x2", "adaptive_avg_pool2d:n2c3h7w6o{1x1|7x6}",
    "adaptive_avg_pool2d:n1c3h7w6o3x4{|_f64}", "adaptive_avg_pool2d:n1c3h7w6o{10x13|1x6|7x1}",
    "adaptive_avg_pool2d:n1c3h1w1o3x2", "adaptive_avg_pool2d:n1c2h33w35o5x7",
    "adaptive_avg_pool2d:n1c2h64w65o1x1", "adaptive_avg_pool2d:n5c3h14w14o7x7",
    "adaptive_avg_pool2d:n2c3h70w6o35x3_f64",
    "adaptive_max_pool2d:n2c3h7w6o{1x1|7x6|10x13|0x4}{|_indices}",
    "adaptive_max_pool2d:n1c2h90w1000o2x9{|_indices_f64}", "adaptive_max_pool2d:n5c70h7w7o1x1",

    /* Pooling of wide images: rows longer than a block, aligned and not; tall windows, wide
     * windows. */
    "{max_pool2d|avg_pool2d}:n1c2h5w128k3x3s1x1p1x1",
    "max_pool2d:n2c3h37w131k3x3s1x1p1x1{|_indices}", "{max_pool2d|avg_pool2d}:n1c2h140w130k3x3s1x1",
    "max_pool2d:n1c2h9w513k3x3s1x1p0x1", "{max_pool2d|avg_pool2d}:n1c3h2w270k3x3s1x1p1x0",
    "max_pool2d:n1c1h1w300k3x3s1x1p1x1", "max_pool2d:n1c2h9w400k3x3s1x1p1x1_indices_f64",
    "max_pool2d:n1c2h9w257k3x3s1x1_f64", "max_pool2d:n1c2h9w260k3x3s2x2p1x1",
    "max_pool2d:n1c2h11w262k2x2", "max_pool2d:n1c2h7w300k5x5s1x1p2x2",
    "max_pool2d:n1c2h40w37k9x9s4x4p4x4_ceil", "max_pool2d:n3c5h40w37k8x8_indices",
    "max_pool2d:n1c2h64w300k30x10s3x5", "{max_pool2d|avg_pool2d}:n1c2h90w1000k40x12s11x13",
    "max_pool2d:n1c2h30w64k9x12s1x1p4x6_indices_f64", "avg_pool2d:n2c3h37w131k3x3s1x1p1x1_exclude",
    "avg_pool2d:n1c2h9w513k3x3s1x1p0x1_divisor7", "avg_pool2d:n1c2h9w257k3x3s1x1p1x1_exclude_f64",
    "avg_pool2d:n1c2h9w262k3x3s2x2p1x1_exclude", "avg_pool2d:n1c2h12w260k4x4",
    "avg_pool2d:n1c2h40w37k9x9s4x4p4x4_ceil_exclude", "avg_pool2d:n3c5h40w37k8x8",
    "avg_pool2d:n1c2h30w64k9x12s1x1p4x6_f64", "adaptive_avg_pool2d:n2c3h64w56o7x7",
    "adaptive_avg_pool2d:n2c33h16w16o7x7", "adaptive_avg_pool2d:n1c3h300w200o7x5",
    "adaptive_avg_pool2d:n1c2h1000w130o1x3", "adaptive_avg_pool2d:n1c2h90w1000o2x9_f64",
    "adaptive_avg_pool2d:n5c70h7w7o1x1",

    /* Pooling of narrow images, of few and of many of them, and with windows of every shape. */
    "max_pool2d:n3c50h7w7k3x3s1x1p1x1", "max_pool2d:n2c33h14w14k5x5s1x1p2x2_indices",
    "max_pool2d:n1c3h200w64k3x3s1x1p1x1", "max_pool2d:n1c3h100w81k5x5s1x1p1x2_indices",
    "max_pool2d:n2c70h13w13k3x3s2x2_ceil_indices", "max_pool2d:n2c70h14w28k2x2_ceil",
    "max_pool2d:n1c3h210w55k3x3s2x2p1x1_ceil_indices_f64",
    "max_pool2d:n1c2h40w300k5x5s1x1p2x2_indices", "max_pool2d:n1c2h40w257k5x5s1x1p1x0_f64",
    "max_pool2d:n2c40h6w4k5x5s1x1p2x2", "max_pool2d:n1c2h600w90k3x60s7x30",
    "max_pool2d:n1c2h90w40k2x3s9x2", "avg_pool2d:n3c50h7w7k3x3s1x1p1x1_exclude",
    "avg_pool2d:n1c3h200w56k5x5s1x1p2x2_exclude", "avg_pool2d:n2c33h15w14k5x5s1x1p2x1",
    "avg_pool2d:n1c3h100w64k3x3s1x1p1x1_divisor4_f64",
    "avg_pool2d:n2c70h13w13k3x3s2x2p1x0_ceil_exclude", "avg_pool2d:n2c70h14w14k2x2",
    "avg_pool2d:n1c2h40w300k5x5s1x1p2x2_exclude", "avg_pool2d:n1c2h300w300k100x100s90x90p10x10",
    "adaptive_avg_pool2d:n3c50h16w16o7x7_f64", "adaptive_avg_pool2d:n1c70h14w14o7x3",
    "adaptive_avg_pool2d:n1c3h500w500o7x7", "adaptive_avg_pool2d:n2c3h40w50o1x1",

    /* Pooling of more small images than a GPU has blocks at once. */
    "max_pool2d:n9001c1h5w7k3x3s1x1p1x1_indices", "max_pool2d:n9001c1h7w5k5x5s1x1p2x2_f64",
    "avg_pool2d:n9001c1h3w13k3x3s1x1p1x1_exclude", "adaptive_avg_pool2d:n9001c1h5w6o3x4",
    "adaptive_avg_pool2d:n4100c1h{7w7|14w14|28w27}o1x1", "adaptive_avg_pool2d:n4100c1h5w7o1x1_f64",
    "max_pool2d:n4100c1h7w7k7x7_indices", "max_pool2d:n4100c1h14w9k9x8s9x9_indices",

    /* Pooling: images about as large as a warp. */
    "max_pool2d:n9c7h8w8k3x3s1x1p1x1", "max_pool2d:n9c7h16w4k3x3s1x1p1x1_f64",
    "max_pool2d:n9c7h8w8k5x5s1x1p2x2_f64", "avg_pool2d:n9c7h8w16k3x3s1x1p1x1",
    "avg_pool2d:n9c7h4w8k3x3s1x1p1x1_exclude", "avg_pool2d:n9c7h10w12k5x5s1x1p2x2_exclude",
    "avg_pool2d:n9c7h4w14k5x5s1x1p2x2_exclude_f64",

    /* Pooling: rows of the output of two to nineteen columns. */
    "max_pool2d:n9c7h6w6k3x3s1x1p1x1", "max_pool2d:n9c7h12w12k5x5s1x1p2x2",
    "max_pool2d:n9c7h9w{19|9}k5x5s1x1p2x2", "max_pool2d:n9c7h5w5k5x5s1x1p2x2",
    "max_pool2d:n9c7h11w11k3x3s2x2p1x1", "max_pool2d:n9c7h13w13k3x3s2x2p1x1",
    "avg_pool2d:n9c7h2w6k3x3s1x1p1x1_exclude", "avg_pool2d:n9c7h5w5k3x3s1x1p1x1_exclude",
    "avg_pool2d:n9c7h3w3k5x5s1x1p2x2_exclude", "avg_pool2d:n9c7h9w19k5x5s1x1p2x2_exclude",
    "avg_pool2d:n9c7h6w10k5x5s1x1p2x2_divisor7", "avg_pool2d:n9c7h11w11k5x5s1x1p2x2_exclude",
    "avg_pool2d:n9c7h7w7k3x3s2x2p1x1_exclude", "avg_pool2d:n9c7h11w11k3x3s2x2p1x1_ceil_exclude",
    "avg_pool2d:n9c7h5w3k3x3s1x1p1x1_exclude_f64", "adaptive_avg_pool2d:n2c3h7w6o0x4",

    /* Channels around the widths of vectors and tiles. */
    "max_pool2d:n1c33h5w6k3x3s2x2p1x1_indices", "{max_pool2d|avg_pool2d}:n2c70h3w5k2x2",
    "{max_pool2d|avg_pool2d}:n1c130h3w3k2x2", "avg_pool2d:n1c33h5w6k3x3s2x2p1x1",
    "adaptive_avg_pool2d:n1c33h5w7o2x3", "adaptive_avg_pool2d:n2c70h3w5o2x2",
    "adaptive_avg_pool2d:n1c130h3w3o1x1",

    /* Input gradients: maxima: kernels, strides with elements that no window holds, windows that
     * overlap. */
    "max_pool2d:n0c3h6w5k2x2_dx", "max_pool2d:n2c3h9w8k{1x1|1x4|4x1}_dx",
    "max_pool2d:n2c3h9w8k3x3s{1x1|2x2}p1x1_dx{|_f64}", "max_pool2d:n1c2h11w10k2x3s3x1_dx",
    "max_pool2d:n1c2h5w6k3x2s100x99_dx", "max_pool2d:n1c5h1w1k{1x1|2x2s1x1p1x1}_dx",
    "max_pool2d:n1c2h64w300k30x10s3x5_dx",

    /* Maxima with dilation, also larger than the image, so that a window holds nothing. */
    "max_pool2d:n1c2h9w10k3x2s2x1p3x0x4x2d2x3_ceil_dx", "max_pool2d:n1c2h9w10k3x3s2x1p1x1d3x2_dx",
    "max_pool2d:n1c2h12w10k2x4s3x2p1x2d4x2_ceil_dx_f64", "max_pool2d:n1c1h2w2k2x2s1x1p1x1d3x3_dx",

    /* Maxima and averages: padding on each side, the last window, widths, many planes, many
     * channels. */
    "{max_pool2d|avg_pool2d}:n1c2h9w37k5x5s1x1p4x0x0x4_dx",
    "{max_pool2d|avg_pool2d}:n1c2h8w9k3x3s2x2p1x1_ceil_dx",
    "{max_pool2d|avg_pool2d}:n1c2h13w11k2x2s5x4_dx",
    "{max_pool2d|avg_pool2d}:n1c2h5w5k2x2s4x4p1x1_ceil_dx",
    "{max_pool2d|avg_pool2d}:n1c2h5w{15|16|17|128}k3x3s1x1p1x1_dx",
    "{max_pool2d|avg_pool2d}:n1c2h9w513k3x3s1x1p0x1_dx",
    "{max_pool2d|avg_pool2d}:n1c2h90w1000k40x12s11x13_dx",
    "{max_pool2d|avg_pool2d}:n2c33h15w14k5x5s1x1p2x1_dx",
    "{max_pool2d|avg_pool2d}:n9c50h4w5k3x3s1x1p1x1_dx",
    "{max_pool2d|avg_pool2d}:n65537c1h2w1k2x1_dx", "{max_pool2d|avg_pool2d}:n1c130h3w3k2x2_dx",
    "{max_pool2d|avg_pool2d}:n9c7h9w20k5x5s1x1p2x2_dx_f64",

    /* Averages: what the divisor counts; a window as large as the image; more columns than a tile.
     * */
    "avg_pool2d:n2c3h9w8k3x3s1x1p1x1_exclude_dx",
    "avg_pool2d:n1c2h9w10k4x3s3x2p0x2x3x1_ceil{|_exclude}_dx",
    "avg_pool2d:n1c2h9w8k3x3s2x2p1x1_{divisor7|ceil_exclude_divisor5}_dx",
    "avg_pool2d:n1c2h9w37k3x3s1x1p1x1_exclude_dx_f64",
    "avg_pool2d:n1c5h1w1k3x3s1x1p1x1{|_exclude}_dx", "avg_pool2d:n1c1h150w140k140x130_dx",
    "avg_pool2d:n1c1h3w5000k2x3s1x2_dx",

    /* Adaptive averages: fewer outputs than inputs, as many, more, none. */
    "adaptive_avg_pool2d:n2c3h7w6o{1x1|7x6|10x13|1x6|7x1|3x4|0x4}_dx",
    "adaptive_avg_pool2d:n1c3h7w6o{3x4|10x13}_dx_f64", "adaptive_avg_pool2d:n1c3h1w1o3x2_dx",
    "adaptive_avg_pool2d:n1c2h33w35o5x7_dx", "adaptive_avg_pool2d:n2c33h16w16o7x7_dx",
    "adaptive_avg_pool2d:n1c130h3w3o1x1_dx", "adaptive_avg_pool2d:n9001c1h5w6o3x4_dx",
    "adaptive_avg_pool2d:n1c1h2w40000o1x7_dx", "adaptive_avg_pool2d:n1c2h90w1000o2x9_dx_f64",
    "adaptive_max_pool2d:n2c3h7w6o{1x1|7x6|10x13|1x6|7x1|3x4|0x4}_dx",
    "adaptive_max_pool2d:n1c2h33w35o5x7_dx_f64",
    NULL,
};
// clang-format on

const check_family talc_check_pool2d_family = {
    .texts = "max_pool2d:n2c3h9w9k3x3s2x2p1x1d1x1_ceil_indices\n"
             "    s, p, d may be left out; s is then the kernel\n"
             "avg_pool2d:n2c3h9w9k3x3s2x2p1x1_ceil_exclude_divisor5\n"
             "adaptive_avg_pool2d:n2c3h9w9o3x4\n"
             "    adaptive_max_pool2d: likewise\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .op = op_of,
    .random = random_problem,
};
