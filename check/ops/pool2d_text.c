/// Problems of the pooling family: from text, to text, at random.
#include "check/engine/data.h"
#include "check/ops/pool2d.h"
#include "tensor/memory.h"

#include <inttypes.h>

// ---- Problem ------------------------------------------------------------------------------------

/* Parts of a text, for the position of a mistake. */
enum { SIZES, KERNEL, STRIDE, PADDING, DILATION, OUTPUT, PARTS };

typedef struct mistake {
    int part;
    const char *wanted; /* NULL: there is none */
} mistake;

/* How many windows start inside: 0 when not one fits, or the numbers are too large. */
static int64_t windows(int64_t extent, int64_t kernel, int64_t stride, int64_t pad_begin,
                       int64_t pad_end, int64_t dilation, bool ceil_mode)
{
    int64_t span, padded;
    if (!talc_multiply(kernel - 1, dilation, &span) ||
        !talc_add_checked(extent, pad_begin, &padded) ||
        !talc_add_checked(padded, pad_end, &padded))
        return 0;
    const int64_t room = padded - 1 - span;
    if (!ceil_mode)
        return room < 0 ? 0 : room / stride + 1;
    /* ceil(room / stride) + 1, of which the last must start before the bottom padding. */
    int64_t count = room > 0 ? room / stride + (room % stride != 0) + 1 : room > -stride ? 1 : 0;
    if (count > 1 && count - 1 > (extent + pad_begin - 1) / stride)
        count--;
    return count;
}

/* Whether padding is smaller than a window, which may pass 2^63. */
static bool below_window(int64_t pad, int64_t kernel, int64_t dilation)
{
    return pad == 0 || (kernel > 1 && (pad - 1) / (kernel - 1) < dilation);
}

static mistake check_windows(const talc_pool2d_problem *p)
{
    if (p->KH < 1 || p->KW < 1)
        return (mistake){ KERNEL, "a kernel of at least 1x1" };
    if (p->stride_h < 1 || p->stride_w < 1)
        return (mistake){ STRIDE, "a stride of at least 1x1" };
    if (p->dilation_h < 1 || p->dilation_w < 1)
        return (mistake){ DILATION, "a dilation of at least 1x1" };
    if (!talc_pool2d_is_max(p) && (p->dilation_h > 1 || p->dilation_w > 1))
        return (mistake){ DILATION, "no dilation, which only max_pool2d has" };
    if (!below_window(p->pad_top, p->KH, p->dilation_h) ||
        !below_window(p->pad_bottom, p->KH, p->dilation_h) ||
        !below_window(p->pad_left, p->KW, p->dilation_w) ||
        !below_window(p->pad_right, p->KW, p->dilation_w))
        return (mistake){ PADDING, "a padding smaller than the kernel with its dilation" };
    return (mistake){ 0, NULL };
}

/* Checks what was read and finds OH and OW. */
static mistake complete(check_pool2d_problem *own)
{
    talc_pool2d_problem *p = &own->p;
    int64_t count;
    if (p->C < 1 || p->H < 1 || p->W < 1)
        return (mistake){ SIZES, "sizes of at least 1, but for n," };
    if (!talc_check_elements(p->dtype, 4, (int64_t[]){ p->N, p->C, p->H, p->W }, &count))
        return (mistake){ SIZES, "an input below 2^63 bytes" };
    if (!talc_pool2d_is_adaptive(p)) {
        const mistake found = check_windows(p);
        if (found.wanted != NULL)
            return found;
        p->OH = windows(p->H, p->KH, p->stride_h, p->pad_top, p->pad_bottom, p->dilation_h,
                        own->ceil_mode);
        p->OW = windows(p->W, p->KW, p->stride_w, p->pad_left, p->pad_right, p->dilation_w,
                        own->ceil_mode);
        if (p->OH == 0 || p->OW == 0)
            return (mistake){ KERNEL, "a kernel that fits the padded input" };
    } else if (p->OH > INT32_MAX || p->OW > INT32_MAX) {
        return (mistake){ OUTPUT, "an output of at most 2147483647x2147483647" };
    }
    if (!talc_check_elements(TALC_F64, 4, (int64_t[]){ p->N, p->C, p->OH, p->OW }, &count))
        return (mistake){ SIZES, "an output below 2^63 bytes" };
    return (mistake){ 0, NULL };
}

// ---- Text ---------------------------------------------------------------------------------------

/* "p" and top, left, and bottom, right where they differ. */
static bool read_padding(check_reader *r, talc_pool2d_problem *p)
{
    if (!talc_check_read_pair(r, 'p', true, &p->pad_top, &p->pad_left))
        return false;
    p->pad_bottom = p->pad_top;
    p->pad_right = p->pad_left;
    return *r->at != 'x' || (talc_check_read_field(r, 'x', false, &p->pad_bottom) &&
                             talc_check_read_field(r, 'x', false, &p->pad_right));
}

static bool read_sizes(check_reader *r, talc_pool2d_problem *p, const char *places[PARTS])
{
    places[SIZES] = r->at;
    if (!talc_check_read_image(r, &p->N, &p->C, &p->H, &p->W))
        return false;
    places[OUTPUT] = places[KERNEL] = r->at;
    if (talc_pool2d_is_adaptive(p))
        return talc_check_read_pair(r, 'o', false, &p->OH, &p->OW);
    if (!talc_check_read_pair(r, 'k', false, &p->KH, &p->KW))
        return false;
    p->stride_h = p->KH;
    p->stride_w = p->KW;
    p->dilation_h = p->dilation_w = 1;
    places[STRIDE] = r->at;
    if (!talc_check_read_pair(r, 's', true, &p->stride_h, &p->stride_w))
        return false;
    places[PADDING] = r->at;
    if (!read_padding(r, p))
        return false;
    places[DILATION] = r->at;
    return talc_check_read_pair(r, 'd', true, &p->dilation_h, &p->dilation_w);
}

#define FIELD(name) offsetof(check_pool2d_problem, name)

static const check_word words[] = {
    { "ceil", CHECK_FLAG, FIELD(ceil_mode), 1 },
    { "exclude", CHECK_FLAG, FIELD(p.exclude_padding), 1 },
    { "indices", CHECK_FLAG, FIELD(p.indices), 1 },
    { "divisor", CHECK_COUNT, FIELD(p.divisor), 0 },
    { "dx", CHECK_CHOICE, FIELD(p.direction), TALC_GRAD_INPUT },
    CHECK_FLOAT_WORDS(FIELD(p.dtype)),
    { .word = NULL },
};

bool talc_check_pool2d_parse(check_reader *r, int op, check_problem *problem)
{
    enum { CEIL = 1, EXCLUDE = 2, INDICES = 4, DIVISOR = 8 };
    static const unsigned refused[] = { EXCLUDE | DIVISOR, INDICES,
                                        CEIL | EXCLUDE | INDICES | DIVISOR,
                                        CEIL | EXCLUDE | DIVISOR };
    check_pool2d_problem *own = writable(problem);
    const char *places[PARTS];
    own->p.kind = (talc_pool2d_kind)op;
    if (!read_sizes(r, &own->p, places))
        return false;
    const char *first_word = r->at;
    if (!talc_check_read_words(r, words, refused[op], own))
        return false;
    if (own->p.direction == TALC_GRAD_INPUT && own->p.indices)
        return talc_check_unexpected_at(r, first_word, "no indices, which a gradient always has");
    if (own->p.direction == TALC_GRAD_INPUT)
        own->p.indices = talc_pool2d_is_max(&own->p);
    const mistake found = complete(own);
    return found.wanted == NULL || talc_check_unexpected_at(r, places[found.part], found.wanted);
}

void talc_check_pool2d_print(const check_problem *problem, char text[TALC_CHECK_TEXT])
{
    const talc_pool2d_problem *p = &read_only(problem)->p;
    talc_check_append_image(text, p->N, p->C, p->H, p->W);
    if (talc_pool2d_is_adaptive(p))
        talc_check_append(text, "o%" PRId64 "x%" PRId64, p->OH, p->OW);
    else
        talc_check_append(text,
                          "k%" PRId64 "x%" PRId64 "s%" PRId64 "x%" PRId64 "p%" PRId64 "x%" PRId64,
                          p->KH, p->KW, p->stride_h, p->stride_w, p->pad_top, p->pad_left);
    if (p->pad_bottom != p->pad_top || p->pad_right != p->pad_left)
        talc_check_append(text, "x%" PRId64 "x%" PRId64, p->pad_bottom, p->pad_right);
    if (p->kind == TALC_POOL2D_MAX)
        talc_check_append(text, "d%" PRId64 "x%" PRId64, p->dilation_h, p->dilation_w);
    check_pool2d_problem shown = *read_only(problem);
    shown.p.indices = p->indices && p->direction == TALC_FORWARD;
    talc_check_append_words(text, words, &shown);
}

// ---- Random problems ----------------------------------------------------------------------------

/* Half a kernel at most and the same on opposite sides, as most networks have it, or anything below
 * a window. */
static void draw_padding(uint64_t *state, talc_pool2d_problem *p)
{
    const int64_t most_h = p->dilation_h * (p->KH - 1), most_w = p->dilation_w * (p->KW - 1);
    p->pad_top = p->pad_bottom = talc_check_draw(state, 0, p->KH / 2);
    p->pad_left = p->pad_right = talc_check_draw(state, 0, p->KW / 2);
    if (talc_check_draw(state, 0, 2) > 0)
        return;
    p->pad_top = talc_check_draw(state, 0, most_h);
    p->pad_left = talc_check_draw(state, 0, most_w);
    p->pad_bottom = talc_check_draw(state, 0, most_h);
    p->pad_right = talc_check_draw(state, 0, most_w);
}

static void draw_windows(uint64_t *state, check_pool2d_problem *own)
{
    talc_pool2d_problem *p = &own->p;
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
    own->ceil_mode = talc_check_draw(state, 0, 1) != 0;
    p->indices = max && talc_check_draw(state, 0, 1) != 0;
    p->exclude_padding = p->kind == TALC_POOL2D_AVG && talc_check_draw(state, 0, 1) != 0;
    if (p->kind == TALC_POOL2D_AVG && talc_check_draw(state, 0, 3) == 0)
        p->divisor = talc_check_draw(state, 1, 9);
}

static int64_t draw_extent(uint64_t *state)
{
    return CHECK_PICK(state, 1, 2, 3, 4, 5, 7, 8, 13, 15, 16, 17, 28, 33);
}

bool talc_check_pool2d_random(uint64_t *state, check_problem *problem)
{
    check_pool2d_problem *own = writable(problem);
    talc_pool2d_problem *p = &own->p;
    p->kind = (talc_pool2d_kind)talc_check_draw(state, 0, TALC_POOL2D_KIND_COUNT - 1);
    p->dtype = talc_check_draw_float(state);
    p->N = talc_check_draw(state, 1, 3);
    p->C = talc_check_draw(state, 1, 5);
    p->H = draw_extent(state);
    p->W = talc_check_draw(state, 0, 3) == 0 ? talc_check_draw(state, 60, 300) : draw_extent(state);
    if (talc_pool2d_is_adaptive(p)) {
        p->OH = talc_check_draw(state, 1, p->H + 2);
        p->OW = talc_check_draw(state, 1, p->W + 2);
        p->indices = talc_pool2d_is_max(p) && talc_check_draw(state, 0, 1) != 0;
    } else {
        draw_windows(state, own);
    }
    return complete(own).wanted == NULL;
}
