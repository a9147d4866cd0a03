/// One convolution in every detail: the terms of each sum, where each operand is read again, and
/// who computes the sum in each algorithm.
///
///     talc_trace *trace = talc_trace_new("n1c2h5w6o4k3x3p1", NULL);
///     talc_trace_term terms[18];
///     int64_t count = talc_trace_terms(trace, 15, terms, 18);
///     talc_trace_free(trace);
///
/// What a trace says of a problem follows from the formula of ops/conv2d.h and is cheap to look up.
/// talc_trace_measure finds the same by experiment: it runs an algorithm on impulses through the
/// public interface.
///
/// The three directions read alike: a result is the sum of products of `first` and `second`, which
/// are w and x of y, w and dy of dx, and dy and x of dw; and it is a matrix product,
///
///     result[row, column] = sum over k of A[row, k] * B[k, column],
///
/// one for each image and group (dw: for each group), A with elements of `first`, B of `second`:
///
///     y   row: output channel of the group   k: (ic * KH + kh) * KW + kw   column: oh * OW + ow
///     dx  row: input channel of the group    k: (oc * KH + kh) * KW + kw   column: ih * W + iw
///     dw  row: output channel of the group   k: (n * OH + oh) * OW + ow    column: (ic * KH + kh)
///                                                                                  * KW + kw
///
/// B of y is the im2col matrix; that of dw is the same one with rows and columns exchanged.
#ifndef TALC_CHECK_TRACE_H
#define TALC_CHECK_TRACE_H

#include "../ops/conv2d.h"
#include "../ops/owner_map.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_trace_options {
    const char *gpu; ///< "h200", "h100", "a100": what CUDA's algorithms are planned for; NULL: h200
    const char *cpu; ///< "portable", "avx2", "avx512"; NULL: what this machine has
} talc_trace_options;

typedef struct talc_trace_operand {
    const char *name; ///< "x", "w", "y", "dy", "dx", "dw"
    int64_t dims[4];
    int64_t count;
    const double *values; ///< small whole numbers; as they lie in memory
} talc_trace_operand;

/// A trace. Read only.
typedef struct talc_trace {
    char text[TALC_CONV2D_TEXT];
    talc_conv2d_problem problem;
    talc_trace_operand first, second, result;
    int64_t products, rows, inner, columns; ///< of the matrix product; inner: terms of a sum
    int algorithms;                         ///< of the CPU, then of CUDA
} talc_trace;

/// The trace of a problem's text, of any direction, at most 2^24 elements an operand. `options` may
/// be NULL. NULL with a failure. The program frees it.
TALC_API talc_trace *talc_trace_new(const char *problem, const talc_trace_options *options);
TALC_API void talc_trace_free(talc_trace *trace);

/// Where an element of the result stands in the matrix product.
typedef struct talc_trace_place {
    int64_t product, row, column;
} talc_trace_place;
TALC_API talc_trace_place talc_trace_place_of(const talc_trace *trace, int64_t element);

/// The indices of an element, and the element of indices.
TALC_API void talc_trace_indices(const talc_trace_operand *operand, int64_t element,
                                 int64_t indices[4]);
TALC_API int64_t talc_trace_element(const talc_trace_operand *operand, const int64_t indices[4]);

/// A term of a sum. The indices of `second` may lie outside of the image: x' is then 0 and
/// second_element -1, or with another padding mode the element that stands there.
typedef struct talc_trace_term {
    int64_t k;
    int64_t first_element, second_element;
    int64_t first[4], second[4]; ///< their indices
    double first_value, second_value;
} talc_trace_term;

/// The terms of an element of the result in the order of k: at most `capacity` of them into
/// `terms`, which may be NULL. How many there are: `inner`, of dx fewer, as it sums over outputs
/// that there are.
TALC_API int64_t talc_trace_terms(const talc_trace *trace, int64_t element, talc_trace_term *terms,
                                  int64_t capacity);

/// Term k of an element, 0 .. inner - 1. False where dx has none.
TALC_API bool talc_trace_term_at(const talc_trace *trace, int64_t element, int64_t k,
                                 talc_trace_term *term);

/// How many elements of the result read an element of `first` (second: of `second`).
TALC_API int64_t talc_trace_readers(const talc_trace *trace, bool second, int64_t element);

/// What an algorithm tells of who computes what.
typedef struct talc_trace_algorithm {
    const char *device, *name, *form; ///< "cpu"; form may be NULL
    char title[TALC_ALGORITHM_TEXT];  ///< "implicit_gemm(mma)"
    talc_precision precision;         ///< its class
    const char *target;               ///< what it is planned for: "avx2", "h200"
    bool has_map;                     ///< else no map yet, or it refuses
    const char *refusal;              ///< why; NULL
    const talc_owner_map *map;        ///< levels, loops, text
} talc_trace_algorithm;

/// Algorithm `index` of the trace, 0 .. algorithms - 1.
TALC_API talc_trace_algorithm talc_trace_algorithm_at(const talc_trace *trace, int index);

/// The owners of an element by an algorithm that has a map: their numbers, map->levels of each, one
/// owner after the other, at most `capacity` owners. How many there are: one, or one a split; of
/// more than one split some may have no terms. -1, with a failure, without a map, or where owners
/// are too many to look through (2^26). The first call for an algorithm looks through all.
TALC_API int64_t talc_trace_owners(talc_trace *trace, int algorithm, int64_t element,
                                   int64_t *numbers, int64_t capacity);

/// How many terms of a sum a split has, of a map that tells it; else -1.
TALC_API int64_t talc_trace_terms_of_split(const talc_trace *trace, const talc_owner_map *map,
                                           int64_t split);

/// A count of what a problem moves. `least`: what no algorithm can do without; 0 where there is no
/// such bound.
typedef struct talc_trace_count {
    char name[64];    ///< "different operands of each block"
    const char *unit; ///< "bytes"
    double count, least;
} talc_trace_count;

/// The counts of an algorithm, at most `capacity`; how many there are, 0 without a map. Of each
/// level the bytes of the different operands that an owner there needs, of all owners together; of
/// lanes that read x or write y by themselves, the sectors of 32 bytes of their warps' requests; of
/// reads of shared memory that the map tells, the wavefronts, one a request without bank conflicts.
/// Only the first two of more than 2^25 products.
TALC_API int talc_trace_traffic(talc_trace *trace, int algorithm, talc_trace_count *counts,
                                int capacity);

/// Runs the algorithm of that name, or name(form), on impulses on the device, and compares what
/// each product is made of with the trace's terms: the pairs of elements that differ, and of those
/// the first element of the result; 0 where all are equal. NULL for the algorithm that the library
/// chooses. `precision`: admitted classes; 0: the thread's. Bias, residual and activation are left
/// out. False with a failure when it could not run; TALC_TOO_LARGE with more than 2^26 products, or
/// 2^35 in all runs, of which there are two for each element of `first`.
typedef struct talc_trace_measurement {
    char algorithm[TALC_ALGORITHM_TEXT];
    int64_t runs, pairs, wrong;
    /// Of the first that is wrong: the element of the result, the one of `first`, and the one of
    /// `second` that the algorithm multiplies it with, or -1.
    int64_t element, first, second;
} talc_trace_measurement;
TALC_API bool talc_trace_measure(talc_trace *trace, talc_device *device, const char *algorithm,
                                 unsigned precision, talc_trace_measurement *measurement);

TALC_END_DECLARATIONS

#endif
