/// What talc_check needs to know of an op: one family of rows a file, check/NAME.c. Private to check/.
///
/// A family reads and prints its problems, fills operands, runs rows, and is their oracle: it says for one element of an
/// output, from the formula in the op's header alone, what it must be and how large the terms of its sum are. Nothing of
/// it may come from ops/ or backends/ but types.
///
/// Operands are host arrays of double holding values of the operand's type.
#ifndef TALC_CHECK_FAMILY_H
#define TALC_CHECK_FAMILY_H

#include "check/check.h"

enum { CHECK_OPERANDS = 8, CHECK_PROBLEM_BYTES = 1024 };

/// A problem of any family, in place.
typedef union check_problem {
    char bytes[CHECK_PROBLEM_BYTES];
    int64_t alignment;
} check_problem;

typedef enum check_role { CHECK_READ, CHECK_WRITTEN, CHECK_UPDATED } check_role;

typedef struct check_operand {
    const char *name; ///< "x", as in the op's header
    check_role role;
    talc_dtype dtype;
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t count; ///< product of dims
} check_operand;

/// What the elements of a row or channel have in common: its largest and sum, say; what stands where is the family's own.
typedef struct check_common {
    long double of[3];
} check_common;

/// Elements of each operand, in the order of check_family.operands. Of an updated one, what it holds before.
typedef struct check_values {
    double *of[CHECK_OPERANDS];
    const check_common *common; ///< of each group; NULL: each element works out its own
} check_values;

/// What an element of an output must be. Its bound follows from K, S and the row's arithmetic (check/bound.h).
typedef struct check_due {
    long double value;
    double K; ///< terms of its sum, a bias or residual not counted; 0: not a sum
    double S; ///< sum of their sizes, with bias and residual; 0 for results without rounding
    double
        extra; ///< what else it may be off, in absolute terms: the rounding of a division, a sigmoid, an exp
    double
        alike; ///< and how much more where roundings need not be random: those of equal terms all go one way
    bool border; ///< its window reaches into the padding
    bool any;    ///< whatever the row gives is right
} check_due;

typedef struct check_family {
    const char *const *ops; ///< the op names that texts begin with, NULL at the end

    /// Reads what follows "op:"; all checks of the op that need no tensor. False with a failure that gives the position.
    bool (*parse)(const char *op, const char *text, check_problem *problem);
    /// The whole text, "op:" included unless the op is conv2d.
    const char *(*print)(const check_problem *problem, char text[TALC_CHECK_TEXT]);
    /// The op's name, as talc_algorithm_force takes it.
    const char *(*op)(const check_problem *problem);
    /// A small problem that depends on the seed alone; edge values often.
    void (*random)(uint64_t seed, check_problem *problem);

    /// Lists the operands that the problem has; returns how many.
    int (*operands)(const check_problem *problem, check_operand operands[CHECK_OPERANDS]);
    /// Whether data of this kind means something for the problem: softmax, say, has no exact data.
    bool (*takes)(const check_problem *problem, talc_check_kind kind);
    /// Fills everything that is read (check/data.h helps): values.of[i] has room for operand i. The same arguments give the
    /// same numbers.
    void (*fill)(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values);
    /// Moves what is odd about NAN and INFINITY in filled data to the next place, `round` 0, 1, ...; false when there is none
    /// left. NULL: `fill` has the only one.
    bool (*spoil)(const check_problem *problem, talc_check_kind kind, int round, uint64_t seed,
                  const check_values *values);
    /// Groups of elements that have something in common; 0: there are none. NULL, all three functions: in no problem.
    int64_t (*groups)(const check_problem *problem);
    /// The group of an element that is written or updated.
    int64_t (*group_of)(const check_problem *problem, int operand, int64_t index);
    check_common (*learn)(const check_problem *problem, const check_values *values, int64_t group);
    /// Element `index` of operand `operand`, which is written or updated.
    check_due (*due)(const check_problem *problem, const check_values *values, int operand,
                     int64_t index);
    /// Cost of one due element, in terms, with its part in that of its group; for the choice between all elements and a
    /// sample.
    double (*terms)(const check_problem *problem);

    /// Where a backend keeps its list of rows, as an offset into struct talc_backend.
    size_t list;
    /// The problem as its rows take it, and whether it has no result to compute.
    const void *(*posed)(const check_problem *problem);
    bool (*is_empty)(const check_problem *problem);
    /// Runs a row on device pointers to contiguous operands, in the order of `operands`.
    talc_status (*run)(const talc_algorithm *row, talc_device *device, const check_problem *problem,
                       void *const pointers[CHECK_OPERANDS], const talc_plan *plan,
                       void *workspace);
} check_family;

extern const check_family talc_check_conv2d, talc_check_pool2d, talc_check_matmul,
    talc_check_batch_norm2d, talc_check_reduce, talc_check_softmax, talc_check_cross_entropy;

/// All of them, NULL at the end.
extern const check_family *const talc_check_families[];

/// Row `index` of the device's list; NULL after the last.
const talc_algorithm *talc_check_row_at(const check_family *family, const talc_device *device,
                                        int index);

/// Why the row cannot do the problem under `limit`; NULL when it can, with its plan.
const char *talc_check_plan(const check_family *family, const talc_algorithm *row,
                            const talc_device *device, const check_problem *problem, size_t limit,
                            talc_plan *plan);

/// Finds the family of a text and reads the problem; NULL with a failure.
const check_family *talc_check_parse(const char *text, check_problem *problem);

#endif
