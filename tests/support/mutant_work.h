/// What the files of the mutants share. Private to tests/support/mutant*.c.
#ifndef TALC_TESTS_MUTANT_WORK_H
#define TALC_TESTS_MUTANT_WORK_H

#include "tests/support/mutants.h"

enum { MUTANT_COLUMNS = 8, MUTANT_CHANNELS = 4 };

/// What the algorithm does.
extern mutant mutant_current;

static inline bool mutant_is(mutant which)
{
    return mutant_current == which;
}

static inline void mutant_swap(int64_t *a, int64_t *b)
{
    const int64_t kept = *a;
    *a = *b;
    *b = kept;
}

/// A run; the problem is as the mutant sees it.
typedef struct mutant_work {
    talc_conv2d_problem p;
    talc_conv2d_arguments a;
    size_t workspace_bytes;
    int64_t terms, IC, OCg; ///< of a sum, and channels of a group
    int64_t width;          ///< columns of the tile
    bool backwards;
    double first;   ///< the first result
    double largest; ///< of |x|
} mutant_work;

/// Where an output is.
typedef struct mutant_position {
    int64_t n, g, oc, oh, ow;
} mutant_position;

double mutant_load(const mutant_work *k, const void *array, int64_t i);
void mutant_store(const mutant_work *k, void *array, int64_t i, double value);
size_t mutant_element_size(const talc_conv2d_problem *problem);

/// Makes of the problem what the mutant takes it for.
void mutant_distort(talc_conv2d_problem *problem);

/// Puts term t of `columns` outputs from at->ow on into the tile, whose rows lie `pitch` apart.
void mutant_gather(const mutant_work *k, const mutant_position *at, int64_t t, int64_t columns,
                   int64_t pitch);

/// The output in column j of the tile, activation and all; `slot` of the workspace holds the sum
/// meanwhile.
double mutant_output(const mutant_work *k, const mutant_position *at, int64_t j, int64_t slot);

#endif
