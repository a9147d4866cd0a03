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
    int32_t w, x;
} talc_cpu_term;

enum { TALC_CPU_ROWS = 12, TALC_CPU_VECTORS = 3 };

/// y[i][v] = (add ? y[i][v] : 0) + sum over terms t of w[i][terms[t].w] * x[v][terms[t].x], and
/// where it `ends` that plus bias[i], of which there may be none, between `low` and `high`.
typedef struct talc_cpu_tile {
    int64_t count;
    const talc_cpu_term *terms;
    const void *w[TALC_CPU_ROWS];
    const void *x[TALC_CPU_VECTORS];
    void *y;
    int64_t y_step; ///< elements from a row of y to the next
    bool add, ends;
    const void *bias;
    double low, high;
} talc_cpu_tile;

typedef void talc_cpu_tile_function(const talc_cpu_tile *tile);

enum { TALC_CPU_DEPTHWISE_TAPS = 12 };

/// Rows of `depthwise`'s outputs, i < outputs:
///
///     y[i][q] = (add ? y[i][q] : 0) + sum over u in `rows`, k < KW, with 0 <= u - i*shift < KH, of
///               w[(u - i*shift)*w_row + k*w_column] * x[u*x_step + offsets[k] + q]
///
/// in order, so that row u of x is read once for all of them. x may be read as far behind its last
/// column as a vector is long. Where they are added, `columns` is a multiple of `lanes`.
typedef struct talc_cpu_depthwise_sums {
    int64_t outputs, columns, shift, KH, KW;
    talc_range rows;
    const void *x, *w;
    const int64_t *offsets;
    int64_t x_step, w_row, w_column, w_shift; ///< w_shift: shift * w_row
    void *y;
    int64_t y_step;
    bool add;
} talc_cpu_depthwise_sums;

/// sums[i] += sum over r < rows, q < columns of dy[r*dy_step + q] * x[r*x_step + offsets[i] + q], a
/// sum for each lane, which f64 adds. Both are read to the end of the last vector.
typedef struct talc_cpu_depthwise_products {
    int64_t rows, columns;
    const void *x, *dy;
    int64_t x_step, dy_step;
    const int64_t *offsets;
    double *sums;
} talc_cpu_depthwise_products;

/// The microkernels of one element type.
typedef struct talc_cpu_kernels {
    int64_t lanes;                      ///< elements of a vector
    int64_t rows[TALC_CPU_VECTORS + 1]; ///< at most, of a tile of so many vectors
    talc_cpu_tile_function *tile[TALC_CPU_VECTORS + 1][TALC_CPU_ROWS + 1]; ///< by vectors and rows
    int64_t depthwise_rows;                                                ///< of outputs at most
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
