#include "check/engine/traits.h"

#include "ops/conv2d.h"

#include <inttypes.h>
#include <string.h>

/* Of convolutions; other problems have none. */
static const char *const names[CHECK_TRAITS] = {
    "more than one image",
    "groups > 1",
    "a stride > 1",
    "a stride that differs across",
    "dilation > 1",
    "dilation that differs across",
    "padding",
    "padding that differs on its sides",
    "a kernel that is not square",
    "an image that is not square",
    "a bias",
    "a residual or an activation",
    "elements of f64",
};

static void see(const talc_conv2d_problem *p, bool has[CHECK_TRAITS])
{
    const bool values[] = {
        p->N > 1,
        p->groups > 1,
        p->stride_h > 1 || p->stride_w > 1,
        p->stride_h != p->stride_w,
        p->dilation_h > 1 || p->dilation_w > 1,
        p->dilation_h != p->dilation_w,
        (p->pad_top | p->pad_left | p->pad_bottom | p->pad_right) != 0,
        p->pad_top != p->pad_left || p->pad_top != p->pad_bottom || p->pad_left != p->pad_right,
        p->KH != p->KW,
        p->H != p->W,
        p->bias,
        p->residual || p->activation != TALC_ACTIVATION_NONE,
        p->dtype == TALC_F64,
    };
    _Static_assert(sizeof values / sizeof *values == CHECK_TRAITS, "one for each name");
    memcpy(has, values, sizeof values);
}

void talc_check_tally_add(check_tally *tally, const check_direction *direction,
                          const check_problem *problem, bool failed)
{
    bool has[CHECK_TRAITS] = { false };
    if (direction == &talc_check_conv2d)
        see((const talc_conv2d_problem *)(const void *)problem, has);
    tally->ran++;
    tally->failed += failed;
    for (int i = 0; i < CHECK_TRAITS; i++) {
        tally->ran_with[i] += has[i];
        tally->failed_with[i] += has[i] && failed;
    }
}

void talc_check_tally_join(check_tally *tally, const check_tally *other)
{
    tally->ran += other->ran;
    tally->failed += other->failed;
    tally->own |= other->own;
    for (int i = 0; i < CHECK_TRAITS; i++) {
        tally->ran_with[i] += other->ran_with[i];
        tally->failed_with[i] += other->failed_with[i];
    }
}

/* The trait of all that failed that the fewest problems have, other than those before; -1: every
 * problem has what they have. */
static int sharpest(const check_tally *tally, int other_than)
{
    int best = -1;
    for (int i = 0; i < CHECK_TRAITS; i++)
        if (i != other_than && tally->failed_with[i] == tally->failed &&
            tally->ran_with[i] < tally->ran &&
            (best < 0 || tally->ran_with[i] < tally->ran_with[best]))
            best = i;
    return best;
}

const char *talc_check_traits_text(const check_tally *tally, char text[CHECK_TRAITS_TEXT])
{
    text[0] = '\0';
    const int first = tally->failed < 2 ? -1 : sharpest(tally, -1);
    if (first < 0)
        return text;
    const int second = sharpest(tally, first);
    const bool two =
        second >= 0 && tally->ran_with[second] == tally->ran_with[first]; /* as telling */
    const int64_t others = tally->ran_with[first] - tally->failed;
    char passing[48] = "as has none that passes";
    if (others > 0)
        snprintf(passing, sizeof passing, "as have %" PRId64 " that pass", others);
    snprintf(text, CHECK_TRAITS_TEXT, "; all have %s%s%s, %s", names[first], two ? " and " : "",
             two ? names[second] : "", passing);
    return text;
}
