/// How implicit_gemm divides a problem into tiles, halo tiles and steps. Plain C without CUDA, so
/// that a plan for any GPU can be made anywhere. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PLAN_H
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PLAN_H

#include "backends/cuda/conv2d/implicit_gemm/tile_map.h"
#include "backends/cuda/gemm/gemm.h"
#include "ops/conv2d.h"

TALC_BEGIN_DECLARATIONS

enum {
    /// Input channels of one product (a step), and those that are contiguous in shared memory.
    TALC_GEMM_STEP = 16,
    TALC_GEMM_PLANE = 8,
    TALC_GEMM_MAX_BUFFERS = 4,
    TALC_GEMM_MAX_STEPS = 1024,
    TALC_GEMM_MAX_FOLDED = 128,
    /// Floats of a sector, the unit of transfers to memory.
    TALC_GEMM_SECTOR = 8,
    /// Floats from one row of the store buffer to the next, which begins 8 banks later.
    TALC_GEMM_STORE_PITCH = TALC_GEMM_COLUMNS + TALC_GEMM_SECTOR,
    /// One stage of rows is converted while the other is filled (staged.cuh).
    TALC_GEMM_STAGES = 2,
    TALC_GEMM_MAX_STAGED_K_TILES = 8,
    TALC_GEMM_MAX_STAGED_POSITIONS = 768,
    TALC_GEMM_HALO_INFO = 16, ///< bytes of what is known of a halo tile
};

/// What the kernel's forms differ in. implicit_gemm.cu and implicit_gemm_mma.cu multiply by them.
typedef struct talc_gemm_form {
    bool wgmma;   ///< the instruction that multiplies; else mma.sync
    int products; ///< f16 products that make one f32 product: 3 in the strict class, or 1
    int rows;     ///< of a warpgroup's tile
    int columns;  ///< of such a row; less than TALC_GEMM_COLUMNS where tiles are only packed
    int loaders;  ///< threads that load halo tiles
    int depth;    ///< steps whose weights are in flight to each thread
    int run;      ///< steps whose weights are fetched and read together
    bool staged;  ///< halo tiles are made from rows that bulk copies brought to shared memory
    bool packs;   ///< halo tiles may be written to memory first, and bulk copies bring them
    double loads; ///< for the estimate: elements of x that a block loads and converts in a cycle
} talc_gemm_form;

/* wgmma: a run is the steps whose products accumulate to the same registers one after the other;
 * each change to other accumulators costs the tensor cores time.
 *
 * mma.sync: with 384 threads each has 168 registers, 64 of them sums. With more threads, or with
 * the sums of 8 rows, no registers are left to load the next matrices while the tensor cores
 * multiply: each sum would wait for the one before it. */
#ifdef __cplusplus
#define TALC_GEMM_FORM constexpr talc_gemm_form
#else
#define TALC_GEMM_FORM static const talc_gemm_form
#endif
TALC_GEMM_FORM TALC_GEMM_WGMMA = { true, 3, 8, 32, 256, 6, 3, false, true, 1.25 };
TALC_GEMM_FORM TALC_GEMM_WGMMA_TF32 = { true, 1, 8, 32, 256, 8, 2, false, true, 1.6 };
TALC_GEMM_FORM TALC_GEMM_ROWS_TF32 = { true, 1, 8, 32, 128, 9, 3, true, false, 1.6 };
TALC_GEMM_FORM TALC_GEMM_MMA = { false, 3, 4, 32, 128, 3, 1, false, false, 0.8 };
TALC_GEMM_FORM TALC_GEMM_MMA_TF32 = { false, 1, 4, 32, 128, 6, 2, false, false, 1 };

/// What of a GPU a plan depends on.
typedef struct talc_gemm_gpu {
    int capability; ///< 90: compute capability 9.0
    int multiprocessors;
    int block_shared; ///< bytes of shared memory that a block may ask for
} talc_gemm_gpu;

/// How the two warpgroups share a tile. SAME: the same positions, other channels. BELOW and BESIDE:
/// positions below or beside. FLAT_SAME and FLAT_BEHIND: flat tiles, with the same positions or
/// those behind. SAME_CARRY and BELOW_CARRY carry sectors over along a row.
typedef enum talc_gemm_arrangement {
    TALC_GEMM_SAME,
    TALC_GEMM_BELOW,
    TALC_GEMM_BESIDE,
    TALC_GEMM_FLAT_SAME,
    TALC_GEMM_FLAT_BEHIND,
    TALC_GEMM_SAME_CARRY,
    TALC_GEMM_BELOW_CARRY,
    TALC_GEMM_ARRANGEMENTS
} talc_gemm_arrangement;

/// What a plan stores.
typedef struct talc_gemm_choice {
    int arrangement, channels; ///< and the channels of a K tile
    int split_k_tiles;         ///< the K tiles of a split; 0: all
    bool folded;               ///< the phases of the stride are folded into channels
    bool packs;                ///< halo tiles are written to memory first
    int bands;                 ///< of rows of the kernel; 0: 1
} talc_gemm_choice;

/// The forward problem at stride 1 of an input gradient (tile_map.h); another direction's stays as
/// it is. Returns why there is none, or NULL. The functions below take the gradient's.
const char *talc_gemm_forward_of(const talc_conv2d_problem *p, talc_conv2d_problem *forward);

/// Sets the problem in 32 bits, without tiles. Returns false where it is empty or does not fit.
bool talc_gemm_layout_of(const talc_conv2d_problem *p, talc_gemm_layout *g);

/// Sets the tiles and halo tiles of a choice, of a problem that talc_gemm_layout_of has set.
/// Returns false where they do not fit.
bool talc_gemm_set_tiles(talc_gemm_layout *g, const talc_gemm_form *form,
                         const talc_conv2d_problem *p, talc_gemm_gpu gpu, talc_gemm_choice choice);

/// Whether the phases of the stride may be folded into channels: these are few then, a product has
/// 16, and the taps of a phase are neighbours.
bool talc_gemm_folds(const talc_gemm_layout *g, const talc_conv2d_problem *p);

/// Finds the fastest tiles of a problem that talc_gemm_layout_of has set, sets them, and estimates
/// their time by a model that was measured on an H200. Returns false where none fit. Split-K is
/// chosen only where the workspace stays below the limit.
bool talc_gemm_choose(talc_gemm_layout *g, const talc_gemm_form *form, const talc_conv2d_problem *p,
                      talc_gemm_gpu gpu, size_t limit, talc_gemm_choice *choice, double *seconds);

/// Why the form does not do a problem on such a GPU; else NULL, with layout, choice and seconds.
const char *talc_gemm_plan(talc_gemm_layout *g, const talc_gemm_form *form,
                           const talc_conv2d_problem *p, talc_gemm_gpu gpu, size_t limit,
                           talc_gemm_choice *choice, double *seconds);

/// The fewest products of any sum that is not empty.
int64_t talc_gemm_fewest_products(const talc_conv2d_problem *p);

/// Shared memory that a block may ask for: what the GPU has, less what the kernel declares; of a
/// staged form also less the offsets of positions.
int64_t talc_gemm_max_shared(talc_gemm_gpu gpu);
int64_t talc_gemm_shared_capacity(const talc_gemm_form *form, talc_gemm_gpu gpu);

/// Bytes of shared memory of a block.
size_t talc_gemm_shared_bytes(const talc_gemm_layout *g, const talc_gemm_form *form);

/// Where the operand of a step begins in the halo tile, in positions of 8 channels. Steps beyond
/// the last have zero weights and read the first operand.
int talc_gemm_shift_of(const talc_gemm_layout *g, int step);

/// Output channels of all tiles, those of the last one that do not exist among them.
int64_t talc_gemm_channel_rows(const talc_gemm_layout *g);

/// Halo tiles that a kernel of its own writes, each a K tile, and their bytes with what the kernel
/// knows of them; 0 where none does.
int64_t talc_gemm_packed_halo_tiles(const talc_gemm_layout *g);
size_t talc_gemm_packed_halo_bytes(const talc_gemm_layout *g);

/// Bytes of the packed weights; of all that depends on the weights alone, which has their exponents
/// and thresholds behind them; of the limits below which sums of split-K are recomputed; and of the
/// whole workspace.
size_t talc_gemm_packed_bytes(const talc_gemm_layout *g, const talc_gemm_form *form);
size_t talc_gemm_cached_bytes(const talc_gemm_layout *g, const talc_gemm_form *form);
size_t talc_gemm_limits_bytes(const talc_gemm_layout *g);
size_t talc_gemm_workspace(const talc_gemm_layout *g, const talc_gemm_form *form);

TALC_END_DECLARATIONS

#endif
