/// The microkernels of `implicit_gemm`: the inner loops that keep a tile of sums in registers.
/// Private to backends/cpu.
///
/// A tile has some rows and up to three vectors of columns. For each term of the sums one element
/// of each row's operand is broadcast, a vector of each column's is loaded, and all products are
/// added: 4 rows and 3 vectors take 7 loads for 12 fused multiply-adds. Neither operand is packed:
/// a table says how far the elements of each term stand from the first ones, so that filter taps
/// are offsets into the image.
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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Where a term of a sum finds its elements, counted in elements from those of the first term.
typedef struct talc_cpu_term {
    int32_t w, x;
} talc_cpu_term;

enum { TALC_CPU_ROWS = 12, TALC_CPU_VECTORS = 3 };

/// y[i][v] = (add ? y[i][v] : 0) + sum over terms t of w[i][terms[t].w] * x[v][terms[t].x]
typedef struct talc_cpu_tile {
    int64_t count;
    const talc_cpu_term *terms;
    const void *w[TALC_CPU_ROWS];
    const void *x[TALC_CPU_VECTORS];
    void *y;
    bool add;
} talc_cpu_tile;

typedef void talc_cpu_tile_function(const talc_cpu_tile *tile);

/// The microkernels of one element type.
typedef struct talc_cpu_kernels {
    int64_t lanes;                      ///< elements of a vector
    int64_t rows[TALC_CPU_VECTORS + 1]; ///< at most, of a tile of so many vectors
    talc_cpu_tile_function *tile[TALC_CPU_VECTORS + 1][TALC_CPU_ROWS + 1]; ///< by vectors and rows
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
