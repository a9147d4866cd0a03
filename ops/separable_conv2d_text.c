/// The problem of a separable convolution: its checks, as text, and from text.
#include "ops/separable_conv2d.h"

#include "tensor/memory.h"
#include "tensor/shown.h"
#include "tensor/storage.h"
#include "tensor/within.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char OP[] = "separable_conv2d";

// ---- Checks -------------------------------------------------------------------------------------------------

static bool are_a_pair(const talc_conv2d_problem *first, const talc_conv2d_problem *second)
{
    if (first->direction != TALC_FORWARD || second->direction != TALC_FORWARD)
        talc_fail(TALC_BAD_ARGUMENT, "%s: the problem is a gradient, of which there is none", OP);
    else if (first->groups != first->C || first->OC != first->C || first->residual)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: the depthwise part has %" PRId64 " channels, %" PRId64
                  " output channels and groups=%" PRId64
                  "%s; it needs as many of each, and no residual",
                  OP, first->C, first->OC, first->groups, first->residual ? " and a residual" : "");
    else if (second->dtype != first->dtype || second->N != first->N || second->C != first->OC ||
             second->H != first->OH || second->W != first->OW)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: the pointwise part is not of what the depthwise part gives", OP);
    else if (second->KH != 1 || second->KW != 1 || second->stride_h != 1 || second->stride_w != 1 ||
             second->OH != second->H || second->OW != second->W || second->groups != 1 ||
             second->padding_mode != TALC_PADDING_ZEROS)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: the pointwise part must be 1x1, without stride, padding and groups", OP);
    return !talc_failed();
}

bool talc_separable_conv2d_problem_check(talc_separable_conv2d_problem *p)
{
    if (talc_operand_missing(OP, "problem", p))
        return false;
    const char *around = talc_within(OP);
    const bool fit = talc_conv2d_problem_check(&p->depthwise) &&
                     talc_conv2d_problem_check(&p->pointwise) &&
                     are_a_pair(&p->depthwise, &p->pointwise);
    talc_within(around);
    return fit;
}

// ---- Writing ------------------------------------------------------------------------------------------------

const char *talc_separable_conv2d_problem_text(const talc_separable_conv2d_problem *p,
                                               char text[TALC_SEPARABLE_CONV2D_TEXT])
{
    _Static_assert(TALC_SEPARABLE_CONV2D_TEXT == TALC_CONV2D_TEXT, "the first half has room");
    if (p == NULL) {
        snprintf(text, TALC_SEPARABLE_CONV2D_TEXT, "NULL");
        return text;
    }
    talc_conv2d_problem second = p->pointwise;
    char whole[TALC_CONV2D_TEXT];
    second.dtype = TALC_F32; /* which stands in the first half */
    const char *words = strchr(talc_conv2d_problem_text(&second, whole), '_');
    const size_t used = strlen(talc_conv2d_problem_text(&p->depthwise, text));
    snprintf(text + used, TALC_SEPARABLE_CONV2D_TEXT - used, "+o%" PRId64 "%s", second.OC,
             words == NULL ? "" : words);
    return text;
}

// ---- Reading ------------------------------------------------------------------------------------------------

static bool unexpected(const char *text, const char *wanted, size_t position)
{
    talc_fail(TALC_BAD_ARGUMENT, "%s: problem '%s': expected %s at position %zu", OP,
              TALC_SHOWN(text), wanted, position);
    return false;
}

/* "o128_bias_relu", as the text of a whole convolution behind the first. */
static bool parse_second(const char *text, const char *second, const talc_conv2d_problem *first,
                         talc_conv2d_problem *problem)
{
    const size_t at = (size_t)(second - text),
                 digits = strspn(second + (*second == 'o'), "0123456789");
    char whole[TALC_CONV2D_TEXT];
    if (*second != 'o')
        return unexpected(text, "'o'", at);
    if (digits == 0 || digits > 19)
        return unexpected(text, "a number below 2^63", at + 1);
    const char *words = second + 1 + digits;
    if (*words != '_' && *words != '\0')
        return unexpected(text, "'_' or the end", at + 1 + digits);
    snprintf(whole, sizeof whole, "n%" PRId64 "c%" PRId64 "h%" PRId64 "w%" PRId64 "%.*sk1x1%s%.99s",
             first->N, first->OC, first->OH, first->OW, (int)digits + 1, second,
             first->dtype == TALC_F64 ? "_f64" : "", words);
    return talc_conv2d_problem_parse(whole, problem);
}

bool talc_separable_conv2d_problem_parse(const char *text, talc_separable_conv2d_problem *problem)
{
    if (talc_operand_missing(OP, "problem text", text) ||
        talc_operand_missing(OP, "problem", problem))
        return false;
    const size_t length = strcspn(text, "+");
    char first[TALC_CONV2D_TEXT];
    if (text[length] == '\0' || length >= sizeof first)
        return unexpected(text, "'+'", length);
    memcpy(first, text, length);
    first[length] = '\0';
    talc_separable_conv2d_problem p;
    const char *around = talc_within(OP);
    const bool read = talc_conv2d_problem_parse(first, &p.depthwise) &&
                      parse_second(text, text + length + 1, &p.depthwise, &p.pointwise) &&
                      talc_separable_conv2d_problem_check(&p);
    talc_within(around);
    if (read)
        *problem = p;
    return read;
}
