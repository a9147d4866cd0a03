#include "ops/window.h"

#include "tests/support/hooks.h"

/* Each test walks every combination of small numbers and compares with counting by hand. */

Test(window, extent_counts_the_windows_that_fit)
{
    for (int H = 0; H <= 9; H++)
        for (int begin = 0; begin <= 3; begin++)
            for (int end = 0; end <= 3; end++)
                for (int dilation = 1; dilation <= 4; dilation++)
                    for (int K = 1; K <= 4; K++)
                        for (int stride = 1; stride <= 4; stride++) {
                            int count = 0;
                            for (int first = -begin; first + dilation * (K - 1) < H + end;
                                 first += stride)
                                count++;
                            int64_t extent = talc_window_extent(H, begin, end, dilation, K, stride);
                            cr_assert(extent == count,
                                      "H=%d padding=%d,%d dilation=%d K=%d stride=%d: %d not %d", H,
                                      begin, end, dilation, K, stride, (int)extent, count);
                        }
    cr_assert(talc_window_extent(INT64_C(1) << 40, 3, 3, 1, 7, 1) == INT64_C(1) << 40);
}

/* Whether `range` holds exactly those j of 0 .. count-1 for which start + j * step is in the
 * image. */
static bool holds_the_inside(talc_range range, int start, int step, int count, int extent)
{
    if (range.lo < 0 || range.lo > range.hi || range.hi > count)
        return false;
    for (int j = 0; j < count; j++) {
        const int i = start + j * step;
        if ((i >= 0 && i < extent) != (j >= range.lo && j < range.hi))
            return false;
    }
    return true;
}

Test(window, inside_holds_exactly_what_lands_in_the_image)
{
    for (int start = -12; start <= 12; start++)
        for (int step = 1; step <= 5; step++)
            for (int count = 0; count <= 8; count++)
                for (int extent = 0; extent <= 9; extent++)
                    cr_assert(holds_the_inside(talc_window_inside(start, step, count, extent),
                                               start, step, count, extent),
                              "start=%d step=%d count=%d extent=%d", start, step, count, extent);
}

/* A stride or dilation that is never followed may be any number. */
Test(window, steps_may_be_of_any_length)
{
    const int64_t steps[] = { INT64_MAX, INT64_MAX - 1, INT64_MAX / 2 + 1, INT64_C(1) << 62 };
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++)
        for (int start = -12; start <= 12; start++)
            for (int count = 0; count <= 3; count++)
                for (int extent = 0; extent <= 9; extent++) {
                    const talc_range range = talc_window_inside(start, steps[s], count, extent);
                    const int expected = start >= 0 && start < extent && count > 0;
                    cr_assert(
                        range.lo >= 0 && range.lo <= count && range.hi - range.lo == expected &&
                            (expected == 0 || range.lo == 0),
                        "step=%lld start=%d count=%d extent=%d: %lld to %lld", (long long)steps[s],
                        start, count, extent, (long long)range.lo, (long long)range.hi);
                }
}

Test(window, taps_and_outputs_tell_of_the_same_pairs)
{
    for (int extent = 1; extent <= 7; extent++)
        for (int pad = 0; pad <= 4; pad++)
            for (int dilation = 1; dilation <= 3; dilation++)
                for (int stride = 1; stride <= 3; stride++)
                    for (int o = 0; o < 8; o++)
                        for (int k = 0; k < 5; k++) {
                            const int i = o * stride - pad + k * dilation;
                            const bool inside = i >= 0 && i < extent;
                            talc_range taps = talc_window_taps(o, stride, pad, dilation, 5, extent);
                            talc_range outputs =
                                talc_window_outputs(k, stride, pad, dilation, 8, extent);
                            cr_assert((k >= taps.lo && k < taps.hi) == inside,
                                      "taps: o=%d k=%d pad=%d", o, k, pad);
                            cr_assert((o >= outputs.lo && o < outputs.hi) == inside,
                                      "outputs: o=%d k=%d pad=%d", o, k, pad);
                        }
}

/* The image 0 1 2 3 as numpy.pad draws it: constant, reflect, edge, wrap. */
Test(window, source_follows_the_padding_mode)
{
    static const struct {
        talc_padding_mode mode;
        int extent, begin;
        int expected[12];
        int count;
    } cases[] = {
        { TALC_PADDING_ZEROS, 4, 3, { -1, -1, -1, 0, 1, 2, 3, -1, -1, -1 }, 10 },
        { TALC_PADDING_REFLECT, 4, 3, { 3, 2, 1, 0, 1, 2, 3, 2, 1, 0 }, 10 },
        { TALC_PADDING_REPLICATE, 4, 3, { 0, 0, 0, 0, 1, 2, 3, 3, 3, 3 }, 10 },
        { TALC_PADDING_CIRCULAR, 4, 4, { 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3 }, 12 },
        { TALC_PADDING_REPLICATE, 1, 4, { 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 9 },
        { TALC_PADDING_CIRCULAR, 1, 1, { 0, 0, 0 }, 3 },
        { TALC_PADDING_REFLECT, 2, 1, { 1, 0, 1, 0 }, 4 },
        { TALC_PADDING_ZEROS, 0, 1, { -1, -1 }, 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int j = 0; j < cases[i].count; j++) {
            int64_t source = talc_window_source(cases[i].mode, j - cases[i].begin, cases[i].extent);
            cr_assert(source == cases[i].expected[j], "case %zu at %d: %d instead of %d", i,
                      j - cases[i].begin, (int)source, cases[i].expected[j]);
        }
}
