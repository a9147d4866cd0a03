/// Weight gradients in parts. Private to backends/cpu.
///
/// dw is a sum over all images and outputs. A small filter leaves little else to share out, so
/// these terms, numbered by the row that sums them, are divided into parts. Each part has a dw of
/// its own in the workspace, and the parts are added in order. How many there are follows from the
/// problem, the workspace limit and the other tasks, never from the threads.
#ifndef TALC_BACKENDS_CPU_CONV2D_SPLIT_K_H
#define TALC_BACKENDS_CPU_CONV2D_SPLIT_K_H

#include "ops/conv2d.h"

typedef struct talc_cpu_partial {
    int64_t terms; ///< that are divided
    int64_t parts; ///< 1: dw itself takes the sums
    size_t bytes;  ///< of one part in the workspace
} talc_cpu_partial;

/// Enough parts that `others` tasks each make at least 16, in at most half the limit.
talc_cpu_partial talc_cpu_partial_of(const talc_conv2d_problem *problem, int64_t others,
                                     int64_t terms, size_t limit);

/// Bytes at the start of the workspace.
size_t talc_cpu_partial_bytes(const talc_cpu_partial *partial);

/// The terms of a part.
talc_range talc_cpu_partial_terms(const talc_cpu_partial *partial, int64_t part);

/// Where a part's element `offset` of dw stands.
void *talc_cpu_partial_at(const talc_cpu_partial *partial, const talc_conv2d_problem *problem,
                          const talc_conv2d_arguments *arguments, int64_t part, int64_t offset);

/// Adds the parts up in dw.
talc_status talc_cpu_partial_sum(const talc_cpu_partial *partial,
                                 const talc_conv2d_problem *problem,
                                 const talc_conv2d_arguments *arguments);

#endif
