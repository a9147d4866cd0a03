/// The microkernels of `implicit_gemm`, `pointwise` and `depthwise`: the inner loops that keep a
/// tile of sums in registers. Private to backends/cpu.
///
/// A tile has some rows and up to three vectors of columns. For each term of the sums one element
/// of each row's operand is broadcast, a vector of each column's is loaded, and all products are
/// added: 4 rows and 3 vectors take 7 loads for 12 fused multiply-adds. Neither operand has to be
/// packed: a table says how far the elements of each term stand from the first ones, so that filter
/// taps are offsets into the image.
///
/// microkernel.c is compiled once for each generation of vector units. A sum adds its terms in
/// order, whatever the tile, so that avx2 and avx512 give the same bits; portable rounds each
/// product unless its target fuses them.
///
/// Source: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
/// 34(3), 2008; Van Zee and van de Geijn, "BLIS", ACM TOMS 41(3), 2015; offsets for taps: Dukhan,
/// "The indirect convolution algorithm", arXiv 1907.02129.
#ifndef TALC_BACKENDS_CPU_PRIMITIVES_MICROKERNEL_H
#define TALC_BACKENDS_CPU_PRIMITIVES_MICROKERNEL_H

#include "ops/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Where a term of a sum finds its elements, counted in elements from those of the first term.
typedef struct talc_cpu_term {
    int32_t a, b;
} talc_cpu_term;

/// The most rows of a tile, the largest MR of BLIS, and the most vectors: NR is these times the
/// lanes.
enum { TALC_CPU_ROWS = 12, TALC_CPU_VECTORS = 3 };

/// c[i][v] = (accumulate ? c[i][v] : 0) + sum over terms t of a[i][terms[t].a] * b[v][terms[t].b],
/// with `epilogue` that plus bias[i], of which there may be none, between `low` and `high`.
typedef struct talc_cpu_tile {
    int64_t count;
    const talc_cpu_term *terms;
    const void *a[TALC_CPU_ROWS];
    const void *b[TALC_CPU_VECTORS];
    /// Elements from those of b[0] to what is prefetched into the L1 cache beside them, where
    /// vectors have fewer than 64 bytes.
    int64_t prefetch_distance;
    void *c;
    int64_t ldc; ///< elements from a row of c to the next
    bool accumulate, epilogue;
    const void *bias;
    double low, high;
} talc_cpu_tile;

typedef void talc_cpu_tile_function(const talc_cpu_tile *tile);

/// A vector whose elements stand in up to so many runs of neighbours: those in `lanes` of run i are
/// at[i] + lane.
enum { TALC_CPU_RUNS = 4 };
typedef struct talc_cpu_runs {
    int32_t at[TALC_CPU_RUNS];
    uint16_t lanes[TALC_CPU_RUNS]; ///< 0: there are no more runs
} talc_cpu_runs;

enum { TALC_CPU_LANES = 16, TALC_CPU_DEPTHWISE_TAPS = 12 };

/// A row of `depthwise`'s outputs, of as many planes as a vector has lanes, each in a lane of its
/// own: in vectors,
///
///     y[q*y_step] = sum over r < rows, k < taps, in order, of w[r][w_first + k*w_tap]
///                   * x[r][x_first + k*x_tap + q*x_step],      q < outputs
///
/// with `epilogue` that plus `bias`, between `low` and `high`. x_first, x_tap, w_first and
/// w_tap count elements, x_step and y_step vectors.
typedef struct talc_cpu_depthwise_sums {
    int64_t outputs, rows, taps;
    const void *const *x, *const *w;
    int64_t x_first, x_tap, x_step, w_first, w_tap, y_step;
    void *y;
    bool epilogue;
    const void *bias;
    double low, high;
} talc_cpu_depthwise_sums;

/// sums[i] += sum over q < outputs of dy[q] * x[i][q*x_step], in vectors of which each lane has a
/// plane.
typedef struct talc_cpu_depthwise_products {
    int64_t outputs, x_step;
    const void *dy, *x[TALC_CPU_DEPTHWISE_TAPS];
    void *sums;
} talc_cpu_depthwise_products;

/// The microkernels of one element type.
typedef struct talc_cpu_kernels {
    int64_t lanes;                      ///< elements of a vector
    int64_t rows[TALC_CPU_VECTORS + 1]; ///< at most, of a tile of so many vectors
    talc_cpu_tile_function *tile[TALC_CPU_VECTORS + 1][TALC_CPU_ROWS + 1]; ///< by vectors and rows
    /// to[way*to_way + row*to_row + i] = from[row*from_row + i*stride + way] for i < count and at
    /// most as many ways as a stride; at stride 1 ways are `count` elements apart in a row. The
    /// rows `next` elements further on are fetched into the caches.
    void (*strided)(int64_t rows, int64_t count, int64_t ways, const void *from, int64_t from_row,
                    int64_t stride, void *to, int64_t to_row, int64_t to_way, int64_t next);
    /// Vectors of `from`, TALC_CPU_VECTORS at a time to tiles `to_tile` apart; lanes of no run
    /// become 0. NULL without masked loads.
    void (*gather)(const talc_cpu_runs *runs, int64_t tiles, const void *from, void *to,
                   int64_t to_tile);
    /// Element i of each lane's array, to vector i; and back. Vectors are aligned.
    void (*to_lanes)(const void *const *from, int64_t count, void *to);
    void (*from_lanes)(const void *from, int64_t count, void *const *to);
    void (*depthwise_sums)(const talc_cpu_depthwise_sums *sums);
    /// Of at most TALC_CPU_DEPTHWISE_TAPS taps.
    void (*depthwise_products)(int taps, const talc_cpu_depthwise_products *products);
} talc_cpu_kernels;

/// One generation of vector units.
typedef struct talc_cpu_microkernels {
    const char *name;
    talc_cpu_kernels f32, f64;
} talc_cpu_microkernels;

extern const talc_cpu_microkernels talc_cpu_microkernels_portable;
#if defined(__x86_64__)
extern const talc_cpu_microkernels talc_cpu_microkernels_avx2, talc_cpu_microkernels_avx512;
#endif

#endif
