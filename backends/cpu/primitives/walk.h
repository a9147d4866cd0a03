/// Walking strided arrays row by row, in tasks for threads. Private to backends/cpu.
///
/// A row is the last dimension; long rows are divided into segments. The segments of all rows,
/// counted in order, are divided into tasks of about 32768 elements, whatever the number of
/// threads.
#ifndef TALC_BACKENDS_CPU_PRIMITIVES_WALK_H
#define TALC_BACKENDS_CPU_PRIMITIVES_WALK_H

#include "tensor/tensor.h"

enum { TALC_WALK_OPERANDS = 4 };

/// Elements to skip to the one that is number `index` in the row-major order of `dims`; 0 for rank
/// 0 and below.
static inline int64_t talc_walk_offset(int rank, const int64_t *dims, const int64_t *strides,
                                       int64_t index)
{
    int64_t offset = 0;
    for (int i = rank - 1; i >= 0; i--) {
        offset += index % dims[i] * strides[i];
        index /= dims[i];
    }
    return offset;
}

typedef struct talc_walk {
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t segment;  ///< elements of a row that one step covers
    int64_t segments; ///< steps a row
    int64_t steps;    ///< in all
    int64_t per_task; ///< steps a task
    int64_t tasks;
} talc_walk;

/// Where a step starts: the elements to skip in each operand, and how many elements of the row it
/// covers.
typedef struct talc_walk_position {
    int64_t step, end; ///< current, and one past the task's last
    int64_t index[TALC_MAX_RANK];
    int64_t segment; ///< which part of the row
    int64_t length;
    int64_t offset[TALC_WALK_OPERANDS];
} talc_walk_position;

/// Elements between neighbours of a row.
static inline int64_t talc_walk_row_stride(const talc_walk *walk, const int64_t *strides)
{
    return walk->rank == 0 ? 1 : strides[walk->rank - 1];
}

/// A walk over a non-empty shape.
talc_walk talc_walk_of(int rank, const int64_t dims[TALC_MAX_RANK]);

/// The first step of a task. `strides` has one list for each of `count` operands. False when there
/// is none.
bool talc_walk_start(const talc_walk *walk, int64_t task, const int64_t *const strides[], int count,
                     talc_walk_position *at);
bool talc_walk_next(const talc_walk *walk, const int64_t *const strides[], int count,
                    talc_walk_position *at);

#endif
