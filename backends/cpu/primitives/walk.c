#include "backends/cpu/primitives/walk.h"

#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

#include <string.h>

static const int64_t SEGMENT_ELEMENTS = 32768;

talc_walk talc_walk_of(int rank, const int64_t dims[TALC_MAX_RANK])
{
    talc_walk walk = { .rank = rank };
    memcpy(walk.dims, dims, sizeof walk.dims);
    int64_t row = rank == 0 ? 1 : dims[rank - 1];
    int64_t rows = 1;
    for (int i = 0; i + 1 < rank; i++)
        rows *= dims[i];
    walk.segment = talc_smaller(row, SEGMENT_ELEMENTS);
    walk.segments = talc_ceil_div(row, walk.segment);
    walk.steps = rows * walk.segments;
    walk.per_task = talc_ceil_div(SEGMENT_ELEMENTS, walk.segment);
    walk.tasks = talc_ceil_div(walk.steps, walk.per_task);
    return walk;
}

/* Length and offsets from index and segment. */
static void locate(const talc_walk *walk, const int64_t *const strides[], int count,
                   talc_walk_position *at)
{
    int last = walk->rank - 1;
    int64_t row = walk->rank == 0 ? 1 : walk->dims[last];
    int64_t first = at->segment * walk->segment;
    at->length = talc_smaller(walk->segment, row - first);
    for (int operand = 0; operand < count; operand++) {
        int64_t offset = walk->rank == 0 ? 0 : first * strides[operand][last];
        for (int i = 0; i < last; i++)
            offset += at->index[i] * strides[operand][i];
        at->offset[operand] = offset;
    }
}

bool talc_walk_start(const talc_walk *walk, int64_t task, const int64_t *const strides[], int count,
                     talc_walk_position *at)
{
    at->step = task * walk->per_task;
    at->end = talc_smaller(walk->steps, at->step + walk->per_task);
    if (at->step >= at->end)
        return false;
    at->segment = at->step % walk->segments;
    int64_t row = at->step / walk->segments;
    for (int i = walk->rank - 2; i >= 0; i--) {
        at->index[i] = row % walk->dims[i];
        row /= walk->dims[i];
    }
    locate(walk, strides, count, at);
    return true;
}

bool talc_walk_next(const talc_walk *walk, const int64_t *const strides[], int count,
                    talc_walk_position *at)
{
    if (++at->step >= at->end)
        return false;
    if (++at->segment == walk->segments) {
        at->segment = 0;
        for (int i = walk->rank - 2; i >= 0 && ++at->index[i] == walk->dims[i]; i--)
            at->index[i] = 0;
    }
    locate(walk, strides, count, at);
    return true;
}
