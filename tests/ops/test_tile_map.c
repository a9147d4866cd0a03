/* Who computes which output of implicit_gemm and of products on tensor cores: of any problem, on
 * GPUs that need not be there, the blocks, warps, lanes and registers of a plan have each output
 * once for each split, and the splits have each K tile once. */
#include "tests/support/hooks.h"
#include "tests/support/random_problem.h"

#include "backends/cuda/conv2d/implicit_gemm/plan.h"
#include "backends/cuda/matmul/tile_map.h"
#include "tensor/extent.h"

#include <stdlib.h>

/* Counts, of each output, the sums of it that the threads of a tile have. */
static void count_tile(const talc_gemm_layout *g, const talc_gemm_form *form, int t,
                       unsigned char *counts, unsigned char *k_tiles)
{
    const talc_gemm_tile a = talc_gemm_tile_of(g, t);
    cr_assert(a.k_tiles > 0 && a.k_tile + a.k_tiles <= g->k_tiles);
    for (int thread = 0; thread < TALC_GEMM_MULTIPLIERS * 128; thread++) {
        const talc_gemm_warp_tile w = talc_gemm_warp_tile_of(g, &a, thread);
        for (int i = 0; i < TALC_GEMM_BLOCKS * form->rows * 4; i++) {
            const talc_gemm_sum sum =
                talc_gemm_sum_of(w.lane, i / (form->rows * 4), i % (form->rows * 4));
            const int position = w.first_position + sum.row * g->row_shift + sum.column;
            const talc_gemm_pixel at = talc_gemm_pixel_of(g, &a, position);
            if (sum.channel >= w.channels || at.n >= g->N || at.row >= g->OH || at.column >= g->OW)
                continue;
            const int oc = a.g * g->group_out + w.first + sum.channel;
            const int64_t y = (((int64_t)at.n * g->OC + oc) * g->OH + at.row) * g->OW + at.column;
            counts[y]++, k_tiles[y] = (unsigned char)(k_tiles[y] + a.k_tiles);
            const int first =
                talc_gemm_tile_with(g, a.g, a.channel_tile, at, talc_divisor_of(g->tile_rows),
                                    talc_divisor_of(g->tile_columns));
            cr_assert_eq(first + a.split, t);
        }
    }
}

static void check_layout(const talc_gemm_layout *g, const talc_gemm_form *form, int multiprocessors)
{
    unsigned char *counts = calloc((size_t)g->outputs, 1), *k_tiles = calloc((size_t)g->outputs, 1);
    const int runs = g->tiles / talc_gemm_run_of(g),
              blocks = (int)talc_smaller(runs, multiprocessors);
    int tiles = 0;
    for (int block = 0; block < blocks; block++)
        for (int t = talc_gemm_first_tile(g, block); t < g->tiles;
             t = talc_gemm_next_tile(g, t, blocks), tiles++)
            count_tile(g, form, t, counts, k_tiles);
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
        const talc_conv2d_problem p = random_problem(&state);
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
        choice = (talc_gemm_choice){ i % TALC_GEMM_ARRANGEMENTS, TALC_GEMM_STEP, i % 3, false };
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
