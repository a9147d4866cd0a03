/// What the files of check/trace.h share. Private to check/.
#ifndef TALC_CHECK_CONV2D_TRACE_H
#define TALC_CHECK_CONV2D_TRACE_H

#include "check/trace.h"

enum { TRACE_ALGORITHMS = 2 * TALC_MAX_ALGORITHMS };

typedef struct trace_algorithm {
    talc_trace_algorithm shown;
    talc_owner_map map;
    int64_t *owners; ///< [element][split]: numbers in one; NULL until somebody asks
    int64_t splits;
} trace_algorithm;

/* A term as elements of both operands: `second` -1 of padding, `first` -1 where dx has none. */
typedef struct trace_pair {
    int32_t first, second;
} trace_pair;

typedef struct trace_record {
    talc_trace base;
    double *values[3]; ///< first, second, result
    trace_algorithm algorithms[TRACE_ALGORITHMS];
    int64_t terms;     ///< of all sums; 0 until somebody asks
    trace_pair *pairs; ///< the same
} trace_record;

/// Fills `algorithms` with what the backends' tables have. False with a failure.
bool talc_trace_find_algorithms(trace_record *record, const talc_trace_options *options);

/// The terms of each element and k, and how many there are of all sums; NULL with a failure.
const trace_pair *talc_trace_pairs(talc_trace *trace);
int64_t talc_trace_all_terms(talc_trace *trace);

/// The algorithm with its owners, where it has a map; NULL with a failure.
trace_algorithm *talc_trace_mapped(talc_trace *trace, int algorithm);

/// What has the problem computed by an algorithm of its title, in these classes.
talc_conv2d_options talc_trace_conv2d_options(const talc_conv2d_problem *problem,
                                              const char *algorithm, unsigned precision);

/// The numbers of owner `index` of all.
void talc_trace_numbers(const talc_owner_map *map, int64_t index, int64_t numbers[]);

#endif
