/// The problem of a convolution as text, and from text.
#include "ops/conv2d.h"
#include "ops/elementwise.h"

#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *talc_padding_mode_name(talc_padding_mode mode)
{
    static const char *const names[] = { "zeros", "reflect", "replicate", "circular" };
    return (unsigned)mode < TALC_PADDING_MODE_COUNT ? names[mode] : "?";
}

// ---- Writing ------------------------------------------------------------------------------------

const char *talc_conv2d_problem_text(const talc_conv2d_problem *p, char text[TALC_CONV2D_TEXT])
{
    if (p == NULL) {
        snprintf(text, TALC_CONV2D_TEXT, "NULL");
        return text;
    }
    int used = snprintf(text, TALC_CONV2D_TEXT,
                        "n%" PRId64 "c%" PRId64 "h%" PRId64 "w%" PRId64 "o%" PRId64 "k%" PRId64
                        "x%" PRId64 "s%" PRId64 "x%" PRId64 "p%" PRId64 "x%" PRId64,
                        p->N, p->C, p->H, p->W, p->OC, p->KH, p->KW, p->stride_h, p->stride_w,
                        p->pad_top, p->pad_left);
    if (p->pad_bottom != p->pad_top || p->pad_right != p->pad_left)
        used += snprintf(text + used, (size_t)(TALC_CONV2D_TEXT - used), "x%" PRId64 "x%" PRId64,
                         p->pad_bottom, p->pad_right);
    snprintf(text + used, (size_t)(TALC_CONV2D_TEXT - used),
             "d%" PRId64 "x%" PRId64 "g%" PRId64 "%s%s%s%s%s%s%s%s", p->dilation_h, p->dilation_w,
             p->groups, p->dtype == TALC_F64 ? "_f64" : "", p->bias ? "_bias" : "",
             p->residual ? "_residual" : "", p->activation == TALC_ACTIVATION_NONE ? "" : "_",
             p->activation == TALC_ACTIVATION_NONE ? "" : talc_activation_name(p->activation),
             p->padding_mode == TALC_PADDING_ZEROS ? "" : "_",
             p->padding_mode == TALC_PADDING_ZEROS ? "" : talc_padding_mode_name(p->padding_mode),
             p->direction == TALC_GRAD_INPUT    ? "_dx"
             : p->direction == TALC_GRAD_WEIGHT ? "_dw"
                                                : "");
    return text;
}

// ---- Reading ------------------------------------------------------------------------------------

/* A text being read. */
typedef struct reader {
    const char *text;
    const char *at;
    unsigned kinds; /* of the words so far, as flags */
} reader;

static bool unexpected(const reader *r, const char *wanted)
{
    talc_fail(TALC_BAD_ARGUMENT, "conv2d: problem '%s': expected %s at position %td",
              TALC_SHOWN(r->text), wanted, r->at - r->text);
    return false;
}

static bool read_number(reader *r, int64_t *number)
{
    if (*r->at < '0' || *r->at > '9')
        return unexpected(r, "a number");
    int64_t value = 0;
    for (; *r->at >= '0' && *r->at <= '9'; r->at++)
        if (!talc_multiply(value, 10, &value) || !talc_add_checked(value, *r->at - '0', &value))
            return unexpected(r, "a number below 2^63");
    *number = value;
    return true;
}

/* A letter and one number. */
static bool read_field(reader *r, char letter, int64_t *number)
{
    if (*r->at != letter)
        return unexpected(r, (char[]){ '\'', letter, '\'', '\0' });
    r->at++;
    return read_number(r, number);
}

/* A letter and two numbers with x between, or one for both; may be absent when optional. */
static bool read_pair(reader *r, char letter, bool optional, int64_t *first, int64_t *second)
{
    if (optional && *r->at != letter)
        return true;
    if (!read_field(r, letter, first))
        return false;
    *second = *first;
    return *r->at != 'x' || read_field(r, 'x', second);
}

static bool read_padding(reader *r, talc_conv2d_problem *p)
{
    if (!read_pair(r, 'p', true, &p->pad_top, &p->pad_left))
        return false;
    p->pad_bottom = p->pad_top;
    p->pad_right = p->pad_left;
    return *r->at != 'x' ||
           (read_field(r, 'x', &p->pad_bottom) && read_field(r, 'x', &p->pad_right));
}

/* What follows an underscore. */
enum { WORD_DTYPE, WORD_BIAS, WORD_RESIDUAL, WORD_ACTIVATION, WORD_MODE, WORD_DIRECTION };

static void apply_word(talc_conv2d_problem *p, int kind, int value)
{
    if (kind == WORD_DTYPE)
        p->dtype = (talc_dtype)value;
    else if (kind == WORD_BIAS)
        p->bias = true;
    else if (kind == WORD_RESIDUAL)
        p->residual = true;
    else if (kind == WORD_ACTIVATION)
        p->activation = (talc_activation)value;
    else if (kind == WORD_MODE)
        p->padding_mode = (talc_padding_mode)value;
    else
        p->direction = (talc_direction)value;
}

static bool read_word(reader *r, talc_conv2d_problem *p)
{
    static const char *const seconds[] = { "no second type",         "no second bias",
                                           "no second residual",     "no second activation",
                                           "no second padding mode", "no second direction" };
    static const struct {
        const char *word;
        int kind, value;
    } words[] = {
        { "f32", WORD_DTYPE, TALC_F32 },
        { "f64", WORD_DTYPE, TALC_F64 },
        { "bias", WORD_BIAS, true },
        { "residual", WORD_RESIDUAL, true },
#define TALC_WORD(constant, name, ...) { #name, WORD_ACTIVATION, constant + 1 },
        TALC_ACTIVATION_TABLE(TALC_WORD)
#undef TALC_WORD
            { "zeros", WORD_MODE, TALC_PADDING_ZEROS },
        { "reflect", WORD_MODE, TALC_PADDING_REFLECT },
        { "replicate", WORD_MODE, TALC_PADDING_REPLICATE },
        { "circular", WORD_MODE, TALC_PADDING_CIRCULAR },
        { "dx", WORD_DIRECTION, TALC_GRAD_INPUT },
        { "dw", WORD_DIRECTION, TALC_GRAD_WEIGHT },
    };
    r->at++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i].word); /* a word may have a '_' in it */
        if (strncmp(words[i].word, r->at, length) != 0 ||
            (r->at[length] != '_' && r->at[length] != '\0'))
            continue;
        unsigned flag = 1u << words[i].kind;
        if ((r->kinds & flag) != 0)
            return unexpected(r, seconds[words[i].kind]);
        r->kinds |= flag;
        apply_word(p, words[i].kind, words[i].value);
        r->at += length;
        return true;
    }
#define TALC_LISTED(constant, name, ...) #name ", "
    return unexpected(r, "f32, f64, bias, residual, " TALC_ACTIVATION_TABLE(
                             TALC_LISTED) "reflect, replicate, circular, dx or dw");
#undef TALC_LISTED
}

bool talc_conv2d_problem_parse(const char *text, talc_conv2d_problem *problem)
{
    if (talc_operand_missing("conv2d", "problem text", text) ||
        talc_operand_missing("conv2d", "problem", problem))
        return false;
    reader r = { .text = text, .at = text };
    talc_conv2d_problem p = { .dtype = TALC_F32,
                              .stride_h = 1,
                              .stride_w = 1,
                              .dilation_h = 1,
                              .dilation_w = 1,
                              .groups = 1 };
    if (!read_field(&r, 'n', &p.N) || !read_field(&r, 'c', &p.C) || !read_field(&r, 'h', &p.H) ||
        !read_field(&r, 'w', &p.W) || !read_field(&r, 'o', &p.OC) ||
        !read_pair(&r, 'k', false, &p.KH, &p.KW) ||
        !read_pair(&r, 's', true, &p.stride_h, &p.stride_w) || !read_padding(&r, &p) ||
        !read_pair(&r, 'd', true, &p.dilation_h, &p.dilation_w) ||
        (*r.at == 'g' && !read_field(&r, 'g', &p.groups)))
        return false;
    while (*r.at == '_')
        if (!read_word(&r, &p))
            return false;
    if (*r.at != '\0')
        return unexpected(&r, "'_' or the end");
    if (!talc_conv2d_problem_check(&p))
        return false;
    *problem = p;
    return true;
}
