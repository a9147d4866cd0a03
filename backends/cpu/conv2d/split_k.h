/// Split-K for weight gradients. Private to backends/cpu.
///
/// dw is a sum over all images and outputs. A small filter leaves little else to share out, so
/// these terms, numbered as the algorithm that sums them does, are divided into splits. Each split
/// has a dw of its own in the workspace, and these are added in order. How many there are follows
/// from the problem, the workspace limit and the other tasks, never from the threads.
#ifndef TALC_BACKENDS_CPU_CONV2D_SPLIT_K_H
#define TALC_BACKENDS_CPU_CONV2D_SPLIT_K_H

#include "ops/conv2d.h"

typedef struct talc_cpu_split_k {
    int64_t terms;  ///< that are divided
    int64_t splits; ///< 1: dw itself takes the sums
    size_t bytes;   ///< of one split in the workspace
} talc_cpu_split_k;

/// Enough splits that `others` tasks each make at least 16, in at most half the limit.
talc_cpu_split_k talc_cpu_split_k_of(const talc_conv2d_problem *problem, int64_t others,
                                     int64_t terms, size_t limit);

/// Bytes at the start of the workspace.
size_t talc_cpu_split_k_bytes(const talc_cpu_split_k *split_k);

/// The terms of a split.
talc_range talc_cpu_split_k_terms(const talc_cpu_split_k *split_k, int64_t split);

/// Where a split's element `offset` of dw stands.
void *talc_cpu_split_k_at(const talc_cpu_split_k *split_k, const talc_conv2d_problem *problem,
                          const talc_conv2d_arguments *arguments, int64_t split, int64_t offset);

/// Adds the splits up in dw.
talc_status talc_cpu_split_k_sum(const talc_cpu_split_k *split_k,
                                 const talc_conv2d_problem *problem,
                                 const talc_conv2d_arguments *arguments);

#endif
