/* Who computes which output of implicit_gemm, of products on tensor cores, of the weight gradient
 * and of 1x1 convolutions: of any problem, on GPUs that need not be there, the blocks, warps, lanes
 * and registers of a plan have each output once for each split, and the splits have each K tile
 * once. */
#include "tests/support/hooks.h"
#include "tests/support/random_problem.h"

#include "backends/cuda/conv2d/implicit_gemm/plan.h"
#include "backends/cuda/gemm/positions_tile_map.h"
#include "backends/cuda/conv2d/weight_gradient_tile_map.h"
#include "backends/cuda/gemm/tile_map.h"
#include "tensor/extent.h"

#include <stdlib.h>

/* Counts, of each output, the sums of it that the threads of a tile have. */
static void count_tile(const talc_gemm_layout *g, const talc_gemm_form *form, int t,
                       unsigned char *counts, unsigned char *k_tiles)
{
    const talc_gemm_tile a = talc_gemm_dx_tile_of(g, t);
    cr_assert((a.k_tiles > 0 || g->interleaves) && a.k_tile + a.k_tiles <= g->k_tiles);
    for (int thread = 0; thread < TALC_GEMM_MULTIPLIERS * 128; thread++) {
        const talc_gemm_warp_tile w = talc_gemm_warp_tile_of(g, &a, thread);
        for (int i = 0; i < TALC_GEMM_BLOCKS * form->rows * 4; i++) {
            const talc_gemm_sum sum =
                talc_gemm_sum_of(w.lane, i / (form->rows * 4), i % (form->rows * 4));
            const int position = w.first_position + sum.row * g->row_shift + sum.column;
            const talc_gemm_pixel at = talc_gemm_pixel_of(g, &a, position);
            const int64_t y = sum.channel < w.channels
                                  ? talc_gemm_output_of(g, a.g, w.first + sum.channel, at)
                                  : -1;
            if (y < 0)
                continue;
            cr_assert(y < g->outputs);
            talc_gemm_pixel place = at;
            int row = w.first + sum.channel;
            counts[y]++, k_tiles[y] = (unsigned char)(k_tiles[y] + a.k_tiles);
            if (g->interleaves) { /* a phase of h may have no taps, and then no K tiles */
                const talc_gemm_dx_row r = talc_gemm_dx_row_of(&g->dx, row);
                int h = 0;
                while (g->dx.phase_h[h].phase != r.phase_h)
                    h++;
                cr_assert(a.k_tiles > 0 || h >= g->dx.with_taps);
                k_tiles[y] = (unsigned char)g->k_tiles;
                row = talc_gemm_row_with(&g->dx, r.channel, at.row * g->dx.stride_h + r.phase_h,
                                         at.column * g->dx.stride_w + r.phase_w, &place);
            }
            cr_assert(row == w.first + sum.channel && place.n == at.n && place.row == at.row &&
                      place.column == at.column);
            const int first =
                talc_gemm_tile_with(g, a.g, a.channel_tile, at, talc_divisor_of(g->tile_rows),
                                    talc_divisor_of(g->tile_columns));
            cr_assert_eq(first + a.split, t);
        }
    }
}

/* A halo tile that is packed is that of all tiles that read it. */
static void check_halo_tile(const talc_gemm_layout *g, int t)
{
    const talc_gemm_tile a = talc_gemm_dx_tile_of(g, t);
    cr_assert(a.halo_tile >= 0 && a.halo_tile < g->groups * g->pixel_tiles);
    if (g->carry)
        return;
    const talc_gemm_tile b = talc_gemm_dx_tile_of(g, talc_gemm_first_reader(g, a.halo_tile));
    cr_assert(b.halo_tile == a.halo_tile && b.g == a.g && b.n == a.n && b.row == a.row &&
                  b.column == a.column,
              "halo tile %d of tile %d: group %d, image %d, row %d, column %d", a.halo_tile, t, b.g,
              b.n, b.row, b.column);
}

static void check_layout(const talc_gemm_layout *g, const talc_gemm_form *form, int multiprocessors)
{
    unsigned char *counts = calloc((size_t)g->outputs, 1), *k_tiles = calloc((size_t)g->outputs, 1);
    const int runs = g->tiles / talc_gemm_run_of(g),
              blocks = (int)talc_smaller(runs, multiprocessors);
    int tiles = 0;
    for (int block = 0; block < blocks; block++)
        for (int t = talc_gemm_first_tile(g, block); t < g->tiles;
             t = talc_gemm_next_tile(g, t, blocks), tiles++) {
            count_tile(g, form, t, counts, k_tiles);
            check_halo_tile(g, t);
        }
    cr_assert_eq(tiles, g->tiles);
    for (int64_t i = 0; i < g->outputs; i++)
        cr_assert(counts[i] == g->splits && k_tiles[i] == (g->k_tiles & 255),
                  "output %lld: %d sums of %d K tiles, of %d splits and %d K tiles", (long long)i,
                  counts[i], k_tiles[i], g->splits, g->k_tiles);
    free(counts);
    free(k_tiles);
}

Test(tile_map, each_output_has_one_owner_in_each_split)
{
    const talc_gemm_form *const forms[] = { &TALC_GEMM_WGMMA, &TALC_GEMM_WGMMA_TF32,
                                            &TALC_GEMM_ROWS_TF32, &TALC_GEMM_MMA,
                                            &TALC_GEMM_MMA_TF32 };
    /* So few multiprocessors that blocks take many tiles. */
    const talc_gemm_gpu gpus[] = { { 90, 132, 232448 }, { 80, 3, 166912 }, { 90, 5, 232448 } };
    int seen[TALC_GEMM_ARRANGEMENTS] = { 0 }, split = 0, folded = 0;
    uint64_t state = 1;
    for (int i = 0; i < 400; i++) {
        talc_conv2d_problem p = random_problem(&state);
        p.direction = i % 4 == 3 && p.OH > 0 && p.OW > 0 ? TALC_GRAD_INPUT : TALC_FORWARD;
        const talc_gemm_form *form = forms[i % 5];
        const talc_gemm_gpu gpu = gpus[form->wgmma ? i % 2 * 2 : i % 3];
        talc_gemm_layout g;
        if (!talc_gemm_layout_of(&p, &g))
            continue;
        talc_gemm_choice choice;
        double seconds;
        if (talc_gemm_choose(&g, form, &p, gpu, (size_t)1 << 30, &choice, &seconds)) {
            split += g.splits > 1, folded += g.folded;
            check_layout(&g, form, gpu.multiprocessors);
        }
        /* The arrangements that are not the fastest, and splits. */
        choice = (talc_gemm_choice){
            i % TALC_GEMM_ARRANGEMENTS, TALC_GEMM_STEP, i % 3, false, i % 8 > 3, i % 3
        };
        if (choice.arrangement >= TALC_GEMM_SAME_CARRY)
            choice.split_k_tiles = 0;
        if (talc_gemm_set_tiles(&g, form, &p, gpu, choice)) {
            seen[choice.arrangement]++;
            check_layout(&g, form, gpu.multiprocessors);
        }
    }
    cr_assert(split > 10 && folded > 10, "%d split, %d folded", split, folded);
    for (int i = 0; i < TALC_GEMM_ARRANGEMENTS; i++)
        cr_assert(seen[i] > 0, "arrangement %d is not seen", i);
}

/* Whether what a step reads for an output is the element of its tap, or one that is as zero. */
static void check_tap(const talc_gemm_layout *g, const talc_gemm_tile *a, int q, int shift, int kh,
                      int kw, int rows)
{
    const talc_gemm_pixel at = talc_gemm_pixel_of(g, a, q);
    if (at.n >= g->N || at.row >= g->OH || at.column >= g->OW)
        return;
    const int phase = shift / g->positions, position = q + shift % g->positions;
    cr_assert(position < g->positions && phase < g->phases);
    talc_gemm_tile below = *a;
    below.row += rows;
    const talc_gemm_pixel read = talc_gemm_pixel_of(g, &below, position);
    const int h = read.row * g->stride_h - g->top + phase / g->phases_w * g->phase_h_step,
              w = read.column * g->stride_w - g->left + phase % g->phases_w * g->phase_w_step,
              of_tap_h = at.row * g->stride_h - g->top + kh * g->dilation_h,
              of_tap_w = at.column * g->stride_w - g->left + kw * g->dilation_w;
    const bool same = read.n == at.n && h == of_tap_h && w == of_tap_w,
               outside = of_tap_h < 0 || of_tap_h >= g->H || of_tap_w < 0 || of_tap_w >= g->W,
               zero = read.n >= g->N || h < 0 || h >= g->H || w < 0 || w >= g->W;
    cr_assert(same || (outside && zero && g->mode == TALC_PADDING_ZEROS),
              "tap %d, %d of output %d, %d reads %d, %d", kh, kw, at.row, at.column, h, w);
}

static int check_taps(const talc_gemm_layout *g, const talc_gemm_form *form)
{
    const int sixteens = g->channels / TALC_GEMM_STEP, t = g->tiles / 2;
    const talc_gemm_tile a = talc_gemm_tile_of(g, t);
    int seen = 0;
    for (int k_tile = 0; k_tile < g->bands; k_tile++) {
        const talc_gemm_k_tile k = talc_gemm_k_tile_of(g, k_tile);
        cr_assert(k.of_band == 0 && k.band == k_tile);
        for (int s = 0; s < g->taps * sixteens; s += sixteens) {
            const int tap = k.band * g->taps + s / sixteens;
            if (tap >= g->KH * g->KW)
                continue;
            for (int i = 0; i < form->rows * TALC_GEMM_COLUMNS; i++)
                check_tap(g, &a, i / TALC_GEMM_COLUMNS * g->row_shift + i % TALC_GEMM_COLUMNS,
                          talc_gemm_shift_of(g, s), tap / g->KW, tap % g->KW,
                          talc_gemm_rows_before(g, k.band));
            seen++;
        }
    }
    cr_assert_eq(seen, g->KH * g->KW);
    return g->bands;
}

Test(tile_map, each_step_reads_the_elements_of_its_tap)
{
    const talc_gemm_gpu gpu = { 90, 132, 232448 };
    uint64_t state = 7;
    int banded = 0, strided = 0;
    for (int i = 0; i < 600; i++) {
        const talc_conv2d_problem p = random_problem(&state);
        const talc_gemm_form *form = i % 2 == 0 ? &TALC_GEMM_WGMMA_TF32 : &TALC_GEMM_MMA;
        const talc_gemm_choice choice = {
            i % TALC_GEMM_ARRANGEMENTS, TALC_GEMM_STEP * (1 + i % 2), 0, false, false, i % 4
        };
        talc_gemm_layout g;
        if (!talc_gemm_layout_of(&p, &g) || !talc_gemm_set_tiles(&g, form, &p, gpu, choice))
            continue;
        banded += check_taps(&g, form) > 1, strided += g.phases > 1;
    }
    cr_assert(banded > 20 && strided > 20, "%d in bands, %d of several phases", banded, strided);
}

/* Of an element of dx, the products that the steps of its row make, counted by tap. */
static void count_taps(const talc_gemm_layout *g, int row, talc_gemm_pixel at, int *counts)
{
    const talc_gemm_dx *dx = &g->dx;
    const talc_gemm_dx_row r = talc_gemm_dx_row_of(dx, row);
    const talc_gemm_steps steps = talc_gemm_steps_of(g, row / TALC_GEMM_CHANNELS, 2);
    for (int s = steps.first; s < steps.first + steps.count; s++) {
        const int tap = s / (g->channels / TALC_GEMM_STEP), down = tap / g->taps_w;
        if (s % (g->channels / TALC_GEMM_STEP) != 0 || down >= g->taps_h)
            continue;
        const int h = down * g->dilation_h - g->top, w = tap % g->taps_w * g->dilation_w - g->left,
                  kh =
                      talc_gemm_tap_of(r.phase_h, dx->stride_h, dx->dilation_h, dx->top, dx->KH, h),
                  kw = talc_gemm_tap_of(r.phase_w, dx->stride_w, dx->dilation_w, dx->left, dx->KW,
                                        w);
        if (kh >= 0 && kw >= 0 && at.row + h >= 0 && at.row + h < g->H && at.column + w >= 0 &&
            at.column + w < g->W)
            counts[kh * dx->KW + kw]++;
    }
}

Test(tile_map, each_tap_that_an_input_gradient_reads_is_multiplied_once)
{
    const talc_gemm_gpu gpu = { 90, 132, 232448 };
    uint64_t state = 12;
    int64_t reads = 0, none = 0;
    for (int i = 0; i < 300; i++) {
        talc_conv2d_problem p = random_problem(&state);
        talc_gemm_layout g;
        const talc_gemm_choice choice = { i % TALC_GEMM_SAME_CARRY, 32, 0, false, false, 1 };
        p.direction = TALC_GRAD_INPUT;
        if (p.OH <= 0 || p.OW <= 0 || !talc_gemm_layout_of(&p, &g) ||
            !talc_gemm_set_tiles(&g, &TALC_GEMM_WGMMA_TF32, &p, gpu, choice))
            continue;
        for (int row = 0; row < g.group_out; row++)
            for (int at = 0; at < g.OH * g.OW; at++) {
                const talc_gemm_pixel pixel = { 0, at / g.OW, at % g.OW };
                const int64_t to = talc_gemm_output_of(&g, 0, row, pixel);
                int counts[25] = { 0 };
                if (to < 0)
                    continue;
                count_taps(&g, row, pixel, counts);
                const int64_t h = to / p.W % p.H, w = to % p.W;
                for (int64_t k = 0; k < p.KH * p.KW; k++) {
                    const int64_t down = h + p.pad_top - k / p.KW * p.dilation_h,
                                  across = w + p.pad_left - k % p.KW * p.dilation_w;
                    const int expected = down >= 0 && across >= 0 && down % p.stride_h == 0 &&
                                         across % p.stride_w == 0 && down / p.stride_h < p.OH &&
                                         across / p.stride_w < p.OW;
                    cr_assert_eq(counts[k], expected, "problem %d, element %lld, tap %lld: %d", i,
                                 (long long)to, (long long)k, counts[k]);
                    reads += expected, none += 1 - expected;
                }
            }
    }
    cr_assert(reads > 100000 && none > 100000, "%lld and %lld", (long long)reads, (long long)none);
}

Test(tile_map, each_output_of_a_product_has_one_owner_in_each_split)
{
    uint64_t state = 3;
    for (int i = 0; i < 60; i++) {
        const int products = (int)between(&state, 1, 3), panels = (int)between(&state, 1, 2);
        talc_product_layout l =
            talc_product_layout_of(products, (int)between(&state, 1, 40),
                                   (int)between(&state, 1, 3), panels, (int)between(&state, 1, 3));
        l.k_tiles = (int)between(&state, l.splits, 9);
        const int64_t M = (int64_t)l.m_tiles * TALC_PRODUCT_PANEL,
                      N = (int64_t)l.n_tiles * panels * TALC_PRODUCT_PANEL;
        unsigned char *k_tiles = calloc((size_t)(products * M * N), 1);
        for (int t = 0; t < l.work; t++) {
            const talc_product_tile w = talc_product_tile_of(&l, t);
            cr_assert(w.k_tile < w.end && w.split < l.splits && w.product < products);
            for (int j = 0; j < 256 * panels * 64; j++) {
                const talc_fragment f =
                    talc_product_sum_of(&l, &w, j % 256, j / 256 / 64, j / 256 % 64);
                cr_assert(f.row < M && f.column < N);
                k_tiles[(w.product * M + f.row) * N + f.column] +=
                    (unsigned char)(w.end - w.k_tile);
            }
        }
        for (int64_t y = 0; y < products * M * N; y++)
            cr_assert_eq(k_tiles[y], l.k_tiles, "product %d: output %lld", i, (long long)y);
        free(k_tiles);
    }
}

/* Some threads stand for outputs beyond the last: whole tiles are counted, and what exists is
 * looked at. */
Test(tile_map, each_output_of_a_streamed_product_has_one_owner_in_each_split)
{
    uint64_t state = 4;
    for (int i = 0; i < 60; i++) {
        const int products = (int)between(&state, 1, 3), columns = 32 << between(&state, 0, 2);
        const int64_t R = between(&state, 1, 700), C = between(&state, 1, 300);
        const bool along_k = between(&state, 0, 1) == 1;
        const int splits = (int)between(&state, 1, 3);
        const talc_stream_layout l =
            talc_stream_layout_of(products, R, C, columns, (int)between(&state, splits, 9), splits);
        unsigned char *k_tiles = calloc((size_t)(products * R * C), 1);
        for (int t = 0; t < l.work; t++) {
            const talc_product_tile w = talc_stream_tile_of(&l, t);
            cr_assert(w.k_tile < w.end && w.split < splits && w.product < products);
            for (int j = 0; j < 256 * columns / 2; j++) {
                const talc_fragment f = talc_stream_sum_of(&w, along_k, columns, j % 256, j / 256);
                if (f.row < R && f.column < C)
                    k_tiles[(w.product * R + f.row) * C + f.column] +=
                        (unsigned char)(w.end - w.k_tile);
            }
        }
        for (int64_t y = 0; y < products * R * C; y++)
            cr_assert_eq(k_tiles[y], l.k_tiles, "product %d: output %lld", i, (long long)y);
        free(k_tiles);
    }
}

static talc_weight_layout random_weights(uint64_t *state)
{
    talc_weight_layout l = { .by_wgmma = between(state, 0, 1) == 1 };
    l.groups = (int)between(state, 1, 2), l.taps = (int)between(state, 1, 25);
    l.group_in = (int)between(state, 1, 150), l.group_out = (int)between(state, 1, 150);
    l.channels = 64 >> between(state, 0, l.by_wgmma ? 1 : 2);
    l.tiles = (int)between(state, 1, 4), l.splits = (int)between(state, 1, l.tiles);
    l.x_blocks = (int)talc_ceil_div(l.group_in, l.channels);
    l.dy_blocks = (int)talc_ceil_div(l.group_out, TALC_WEIGHT_OC);
    l.nb = l.by_wgmma ? 24 : 18;
    talc_weight_set_columns(&l);
    l.nb = l.by_wgmma ? l.columns : l.columns <= 6 ? 6 : l.columns <= 9 ? 9 : 18;
    talc_weight_set_columns(&l);
    return l;
}

/* The weights that warps add up for a block, each once: of a warp four output channels of 8 input
 * channels of one tap. */
static int64_t added_by_quads(const talc_weight_layout *l, int block, talc_weight_share w,
                              unsigned char *owners)
{
    int64_t added = 0;
    for (int plane = 0; plane < l->channels / TALC_WEIGHT_PLANE; plane++)
        for (int quad = 0; quad < TALC_WEIGHT_QUADS; quad++) {
            talc_weight_place place = talc_weight_place_of(l, plane, 0, quad);
            for (int tap = 0; tap < l->group_taps; tap++, talc_weight_next_tap(l, &place))
                for (int lane = 0; lane < 32; lane++) {
                    const int at = place.at + lane;
                    cr_assert_eq(place.at, talc_weight_place_of(l, plane, tap, quad).at);
                    cr_assert(at >= 0 && at < talc_weight_block_sums(l));
                    const talc_weight_element e = talc_weight_element_of(l, block, at);
                    if (e.tap < 0)
                        continue;
                    const int row = talc_weight_quad_row(quad, lane),
                              ic = plane * TALC_WEIGHT_PLANE +
                                   talc_fragment_of(lane / 4, lane % 4).column;
                    const talc_weight_element same = talc_weight_element_at(l, block, row, ic, tap);
                    cr_assert(e.g == same.g && e.oc == same.oc && e.ic == same.ic &&
                              e.tap == same.tap && e.tap == w.first_tap + tap);
                    cr_assert(e.ic % l->channels == ic && e.oc % TALC_WEIGHT_OC == row);
                    added += owners[(((int64_t)e.g * l->group_out + e.oc) * l->group_in + e.ic) *
                                        l->taps +
                                    e.tap]++ == 0;
                }
        }
    return added;
}

Test(tile_map, each_weight_has_one_owner_in_each_split)
{
    uint64_t state = 6;
    for (int i = 0; i < 40; i++) {
        const talc_weight_layout l = random_weights(&state);
        const int64_t count = (int64_t)l.groups * l.group_out * l.group_in * l.taps;
        unsigned char *sums = calloc((size_t)count, 1), *tiles = calloc((size_t)count, 1),
                      *owners = calloc((size_t)count, 1);
        int64_t added = 0;
        const int blocks = l.groups * l.dy_blocks * l.x_blocks * l.tap_groups,
                  threads = talc_weight_threads(&l);
        for (int j = 0; j < blocks * l.splits; j++) {
            const talc_weight_share w = talc_weight_share_of(&l, j / l.splits, j % l.splits);
            cr_assert(w.own == j && w.first < w.last && w.taps > 0 &&
                      w.first_tap + w.taps <= l.taps);
            for (int k = 0; k < talc_weight_block_sums(&l); k++) {
                const int at = talc_weight_sum_at(threads, k / 4 % threads, k / 4 / threads, k % 4);
                cr_assert(at >= 0 && at < talc_weight_block_sums(&l));
                const talc_weight_element e = talc_weight_element_of(&l, j / l.splits, at);
                if (e.tap < 0)
                    continue;
                cr_assert(e.g == w.g && e.tap >= w.first_tap && e.tap < w.first_tap + w.taps);
                cr_assert(e.ic / l.channels == w.ic &&
                          e.g * l.dy_blocks + e.oc / TALC_WEIGHT_OC == w.oc);
                const int64_t dw =
                    (((int64_t)e.g * l.group_out + e.oc) * l.group_in + e.ic) * l.taps + e.tap;
                sums[dw]++, tiles[dw] = (unsigned char)(tiles[dw] + w.last - w.first);
            }
            added += j % l.splits == 0 ? added_by_quads(&l, j / l.splits, w, owners) : 0;
        }
        cr_assert_eq(added, count, "layout %d: %lld weights are added up", i, (long long)added);
        for (int64_t dw = 0; dw < count; dw++)
            cr_assert(sums[dw] == l.splits && tiles[dw] == l.tiles,
                      "layout %d, weight %lld: %d sums of %d splits, of %d tiles of %d", i,
                      (long long)dw, sums[dw], l.splits, tiles[dw], l.tiles);
        free(sums);
        free(tiles);
        free(owners);
    }
}

/* Of the taps and channels of a folded problem some are weights, each once; the others are none. */
Test(tile_map, each_weight_is_a_folded_tap_and_channel_once)
{
    const talc_gemm_gpu gpu = { 90, 132, 232448 };
    uint64_t state = 11;
    int folded = 0;
    for (int i = 0; i < 4000; i++) {
        talc_conv2d_problem p = random_problem(&state);
        p.direction = TALC_GRAD_WEIGHT;
        const talc_gemm_choice choice = { .channels = TALC_GEMM_STEP, .folded = true };
        talc_gemm_layout g;
        if (!talc_gemm_layout_of(&p, &g) || !talc_gemm_folds(&g, &p) ||
            !talc_gemm_set_tiles(&g, &TALC_GEMM_MMA, &p, gpu, choice))
            continue;
        const int weights = g.group_in * g.KH * g.KW;
        unsigned char *counts = calloc((size_t)weights, 1);
        for (int tap = 0; tap < g.taps; tap++)
            for (int channel = 0; channel < g.in; channel++) {
                const talc_gemm_weight w = talc_gemm_weight_of(&g, tap, channel);
                cr_assert(w.ic >= 0 && w.ic < g.group_in && w.kh >= 0 && w.kw >= 0);
                if (w.kh < g.KH && w.kw < g.KW)
                    counts[(w.ic * g.KH + w.kh) * g.KW + w.kw]++;
            }
        for (int w = 0; w < weights; w++)
            cr_assert_eq(counts[w], 1, "problem %d: weight %d", i, w);
        free(counts);
        folded++;
    }
    cr_assert(folded > 100, "%d", folded);
}

/* Counts a thread's sums of eight channels, from `channel` of its block on. */
static void count_eight(unsigned char *counts, int positions, int group_out, bool vectors, int lane,
                        int position, const talc_pointwise_channels *own, int channel)
{
    for (int i = 0; i < TALC_POINTWISE_FOUR * 2; i++) {
        const int at = position + talc_pointwise_behind(vectors, i / 2),
                  c = channel + talc_pointwise_first_channel(lane) + i % 2;
        if (at < positions && c < own->count)
            counts[(own->g * group_out + own->first + c) * positions + at]++;
    }
}

Test(tile_map, each_output_of_a_1x1_convolution_has_one_owner)
{
    uint64_t state = 8;
    for (int i = 0; i < 60; i++) {
        const bool vectors = between(&state, 0, 1) == 1;
        const int groups = (int)between(&state, 1, 3), group_out = (int)between(&state, 1, 90),
                  positions = (int)between(&state, 1, 300) * 4, range = 8 << between(&state, 0, 4),
                  ranges = (int)talc_ceil_div(group_out, range), warps = 8,
                  blocks = (int)between(&state, 1, 3), tiles = (int)talc_ceil_div(positions, 32);
        unsigned char *counts = calloc((size_t)(groups * group_out * positions), 1);
        for (int j = 0; j < blocks * groups * ranges * warps * 32; j++) {
            const int lane = j % 32, warp = j / 32 % warps, x = j / 32 / warps % blocks,
                      y = j / 32 / warps / blocks;
            const talc_pointwise_channels own =
                talc_pointwise_channels_of(group_out, range, ranges, y);
            for (int t = talc_pointwise_first_tile(x, warps, warp); t < tiles; t += blocks * warps)
                for (int c = 0; c < own.count; c += TALC_POINTWISE_EIGHT)
                    count_eight(counts, positions, group_out, vectors, lane,
                                t * TALC_POINTWISE_POSITIONS +
                                    talc_pointwise_first_position(vectors, lane),
                                &own, c);
        }
        for (int y = 0; y < groups * group_out * positions; y++)
            cr_assert_eq(counts[y], 1, "problem %d, output %d: %d", i, y, counts[y]);
        free(counts);
    }
}

Test(tile_map, each_output_of_gather_gemm_is_stored_by_one_block_of_a_cluster)
{
    uint64_t state = 10;
    for (int i = 0; i < 60; i++) {
        static const int shapes[][2] = { { 1, 64 }, { 1, 32 }, { 2, 32 } }; /* width, n */
        const int width = shapes[i % 3][0], n = shapes[i % 3][1], range = 2 / width * n;
        const bool vectors = between(&state, 0, 1) == 1;
        const int groups = (int)between(&state, 1, 2), group_out = (int)between(&state, 1, 150),
                  positions = (int)between(&state, 1, 150) * 4, blocks = 1 << between(&state, 0, 3),
                  tile = width * TALC_GATHER_POSITIONS,
                  ranges = (int)talc_ceil_div(group_out, range);
        unsigned char *counts = calloc((size_t)(groups * group_out * positions), 1);
        for (int j = 0; j < groups * ranges * blocks * 256; j++) {
            const int thread = j % 256, z = j / 256 % blocks, y = j / 256 / blocks;
            const talc_pointwise_channels own =
                talc_pointwise_channels_of(group_out, range, ranges, y);
            const talc_gather_place at =
                talc_gather_place_of(width, n, vectors, thread / 128, thread);
            const talc_gather_eights eights = talc_gather_eights_of(n, blocks, z, thread / 128);
            for (int x = 0; x < positions; x += tile)
                for (int e = eights.begin; e < eights.end; e++)
                    count_eight(counts, positions, group_out, vectors, thread % 32, x + at.position,
                                &own, at.channel + e * TALC_POINTWISE_EIGHT);
        }
        for (int y = 0; y < groups * group_out * positions; y++)
            cr_assert_eq(counts[y], 1, "problem %d, output %d: %d", i, y, counts[y]);
        free(counts);
    }
}

Test(tile_map, divisors_divide)
{
    uint64_t state = 2;
    for (int i = 0; i < 100000; i++) {
        const uint32_t by = next_random(&state) >> 1 >> next_random(&state) % 31 | 1,
                       n = next_random(&state) >> 1 >> next_random(&state) % 31;
        const talc_divisor d = talc_divisor_of(by);
        cr_assert_eq((uint32_t)((((uint64_t)n * d.factor >> 32) + n) >> d.shift), n / by);
    }
}
