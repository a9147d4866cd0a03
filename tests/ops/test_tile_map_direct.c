/* Who computes which output of direct, and who writes which element of im2col's matrix: of any
 * problem, on GPUs that need not be there, each has one owner. */
#include "tests/support/hooks.h"
#include "tests/support/random_problem.h"

#include "backends/cuda/conv2d/direct_small.h"
#include "backends/cuda/conv2d/direct_tile_map.h"
#include "backends/cuda/conv2d/im2col_tile_map.h"

#include <math.h>
#include <stdlib.h>

/* Every term of every output, of all splits. */
static void check_textbook(const talc_conv2d_problem *p, int multiprocessors)
{
    const talc_textbook_layout l = talc_textbook_layout_of(p, multiprocessors);
    const int64_t OC = p->OC / p->groups, outputs = p->N * p->OC * l.pixels,
                  K = p->C / p->groups * p->KH * p->KW;
    int64_t *const terms = calloc((size_t)outputs, sizeof *terms);
    for (int64_t block = 0; block < l.blocks; block++)
        for (int thread = 0; thread < TALC_TEXTBOOK_THREADS; thread++) {
            const talc_textbook_thread t = talc_textbook_thread_of(p, &l, l.splits, block, thread);
            cr_assert(t.n < p->N && t.g < p->groups && t.split < l.splits);
            if (t.pixel >= l.pixels)
                continue;
            int64_t own = 0;
            for (int64_t from = 0; from < K; from += TALC_TEXTBOOK_K) {
                const int64_t first = talc_textbook_first_term(from, l.splits, t.split);
                const int count = talc_textbook_terms(first, K, l.splits);
                cr_assert(count >= 0 && (count == 0 || first + count <= K));
                /* The sum of k + 1. */
                own += count * (first + 1) + count * (int64_t)(count - 1) / 2;
            }
            for (int64_t oc = t.first; oc < t.first + TALC_TEXTBOOK_CHANNELS && oc < OC; oc++)
                terms[(t.n * p->OC + t.g * OC + oc) * l.pixels + t.pixel] += own;
        }
    for (int64_t i = 0; i < outputs; i++)
        cr_assert_eq(terms[i], K * (K + 1) / 2, "output %lld of %d splits", (long long)i, l.splits);
    free(terms);
}

Test(tile_map_direct, each_output_of_textbook_has_each_term_once)
{
    uint64_t state = 5;
    int splits = 0;
    for (int i = 0; i < 120; i++) {
        const talc_conv2d_problem p = random_problem(&state);
        const int multiprocessors = i % 2 == 0 ? 132 : 1;
        splits += talc_textbook_layout_of(&p, multiprocessors).splits > 1;
        check_textbook(&p, multiprocessors);
    }
    cr_assert(splits > 10 && splits < 110, "%d of 120", splits);
}

/* The warps of a split sum the same outputs; one of them stores each. */
static void check_small(const talc_small_shape *s, const talc_small_tiles *t)
{
    const talc_small_layout l = talc_small_layout_of(s, t);
    const int64_t outputs = (int64_t)s->N * s->groups * s->OC * s->plane;
    unsigned char *const sums = calloc((size_t)outputs, 1), *const stores =
                                                                calloc((size_t)outputs, 1);
    for (int64_t block = 0; block < t->blocks; block++) {
        const talc_small_block b = talc_small_block_of(&l, (uint32_t)block);
        cr_assert(b.phase < s->phase_count && b.group < s->groups);
        for (int thread = 0; thread < TALC_SMALL_WARPS * 32; thread++) {
            const talc_small_warp w = talc_small_warp_of(t, thread / 32);
            const talc_small_unit u = talc_small_unit_of(&l, w.unit + thread % 32);
            const int count = talc_small_outputs_of(&l, &b, &u),
                      stored = talc_small_stored_channels(t);
            cr_assert(w.split < t->splits && w.number < t->channel_groups * t->unit_groups);
            for (int c = 0; c < TALC_SMALL_CHANNELS && b.channel + w.channel + c < s->OC; c++)
                for (int j = 0; j < count; j++) {
                    const int oc = b.group * s->OC + b.channel + w.channel + c;
                    const int64_t at = talc_small_first_of(&l, &b, &u, oc) + j * s->out_column;
                    cr_assert(at < outputs);
                    sums[at]++;
                    stores[at] = (unsigned char)(stores[at] + (c / stored == w.split));
                }
        }
    }
    for (int64_t i = 0; i < outputs; i++)
        cr_assert(sums[i] == t->splits && stores[i] == 1,
                  "output %lld: %d sums of %d splits, %d stores", (long long)i, sums[i], t->splits,
                  stores[i]);
    free(sums);
    free(stores);
}

Test(tile_map_direct, each_output_of_small_is_summed_once_a_split_and_stored_once)
{
    uint64_t state = 7;
    int gradients = 0, forward = 0, split = 0;
    for (int i = 0; i < 600; i++) {
        talc_conv2d_problem p = random_problem(&state);
        p.direction = i % 2 == 0 ? TALC_FORWARD : TALC_GRAD_INPUT;
        const int multiprocessors = i % 5 == 0 ? 8 : 132;
        talc_small_shape s;
        talc_small_tiles t;
        if (!talc_small_shape_of(&p, &s) ||
            !(talc_small_choose(&s, multiprocessors, 99 << 10, &t) < (double)INFINITY))
            continue;
        check_small(&s, &t);
        forward += p.direction == TALC_FORWARD, gradients += s.phase_count > 1;
        split += t.splits > 1;
    }
    cr_assert(forward > 50 && gradients > 50 && split > 50, "%d forward, %d of phases, %d split",
              forward, gradients, split);
}

Test(tile_map_direct, each_element_of_im2cols_matrix_is_written_once)
{
    uint64_t state = 9;
    for (int i = 0; i < 200; i++) {
        const int64_t columns = between(&state, 1, i % 2 == 0 ? 300 : 9000),
                      channels = between(&state, 1, 70), slices = between(&state, 1, 5);
        const talc_im2col_grid g =
            talc_im2col_grid_of(slices, channels, between(&state, 1, 25), columns, 7);
        cr_assert(g.threads % 32 == 0 && g.rows <= channels && g.slices <= slices);
        unsigned char *const written = calloc((size_t)columns, 1);
        for (int64_t block = 0; block < g.blocks; block++)
            for (int thread = 0; thread < g.threads; thread++)
                for (int c = 0; c < TALC_IM2COL_COLUMNS; c++) {
                    const int64_t at = block * g.threads * TALC_IM2COL_COLUMNS +
                                       talc_im2col_first_column(thread) + talc_im2col_behind(c);
                    if (at < columns)
                        written[at]++;
                }
        for (int64_t j = 0; j < columns; j++)
            cr_assert_eq(written[j], 1, "column %lld of %lld", (long long)j, (long long)columns);
        free(written);
    }
}
