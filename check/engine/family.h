/// What talc_check needs to know of an op: a family a file, check/ops/NAME.c, of one direction or
/// two. Private to check/.
///
/// A family reads, prints and draws its problems. A direction fills operands, runs algorithms, and
/// is their oracle: it says for one element of an output, from the formula in the op's header
/// alone, what it must be and how large the terms of its sum are. Nothing of it may come from ops/
/// or backends/ but types.
///
/// Operands are host arrays of double holding values of the operand's type.
#ifndef TALC_CHECK_ENGINE_FAMILY_H
#define TALC_CHECK_ENGINE_FAMILY_H

#include "check/check.h"
#include "check/engine/text.h"
#include "ops/backend.h"

enum { CHECK_OPERANDS = 10, CHECK_PROBLEM_BYTES = 1280, CHECK_ARGUMENTS_BYTES = 3072 };

/// A problem of any family, in place, zeroed before it is read or drawn. It begins with what the
/// op's algorithms take.
typedef union check_problem {
    char bytes[CHECK_PROBLEM_BYTES];
    int64_t alignment;
} check_problem;

/// The family's own view of a problem, which begins with what the op's algorithms take: read_only
/// and writable.
#define CHECK_PROBLEM(type, arguments)                                                             \
    _Static_assert(sizeof(type) <= CHECK_PROBLEM_BYTES, "a problem has to fit");                   \
    _Static_assert(sizeof(arguments) <= CHECK_ARGUMENTS_BYTES, "so have arguments");               \
    static inline const type *read_only(const check_problem *problem)                              \
    {                                                                                              \
        return (const type *)(const void *)problem;                                                \
    }                                                                                              \
    static inline type *writable(check_problem *problem)                                           \
    {                                                                                              \
        return (type *)(void *)problem;                                                            \
    }

typedef enum check_role { CHECK_ABSENT, CHECK_READ, CHECK_WRITTEN, CHECK_UPDATED } check_role;

typedef struct check_operand {
    const char *name; ///< "x", as in the op's header
    check_role role;
    talc_dtype dtype;
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t count; ///< product of dims
} check_operand;

/// What the elements of a row or channel have in common, its largest element and its sum, for
/// example; in an order of the family's own.
typedef struct check_common {
    long double of[7];
} check_common;

/// Elements of each operand, in the order of check_direction.operands, NULL for one that is absent.
/// Of an updated one, what it holds before.
typedef struct check_values {
    double *of[CHECK_OPERANDS];
    const check_common *common; ///< of each group; NULL: each element works out its own
} check_values;

/// What an element of an output must be. Its bound follows from K, S and the algorithm's arithmetic
/// (check/engine/bound.h).
typedef struct check_expected {
    long double value;
    double K;     ///< terms of its sum, a bias or residual not counted; 0: not a sum
    double S;     ///< sum of their sizes, with bias and residual; 0 for results without rounding
    double extra; ///< what else it may be off, in absolute terms: the rounding of a division, a
                  ///< sigmoid, an exp
    double
        correlated; ///< and how much more where roundings need not be random: those of equal terms
                    ///< all go one way
    double foreign; ///< what S is larger by in another library's formula of the same, such as x s +
                    ///< (bias - mean s) of batch norm
    bool border;    ///< its window reaches into the padding
    bool any;       ///< whatever the algorithm gives is right
} check_expected;

struct check_ran;
struct check_model_expected;
struct check_direction;

/// Problems of an op, of either direction: their texts, and random ones.
typedef struct check_family {
    /// Examples of texts, a line each, below each what its keys mean, 4 columns in, but for the
    /// words, which talc_check_print_texts lists.
    const char *texts;
    /// Its problems in the sets of these names, NULL at the end. A text may have choices in braces
    /// and stands for a problem with each, or with each combination:
    /// "n{1|2}c3h5w4o2k3x3{|_bias}" for four. `quick`: every feature once, on problems so small
    /// that all checks of all algorithms take seconds. `edges`: every axis at its edges.
    const char *const *quick, *const *edges;
    /// What texts hold behind "op:".
    const check_key *keys;
    /// Says which of the ops a problem is of, and what stands for keys that are left out. NULL:
    /// nothing.
    void (*begin)(check_problem *problem, int op);
    /// Works out the rest of a problem that was read or drawn; all checks of the op that need no
    /// tensor. NULL, or what was wanted, at the place of *key: one of the keys, "_" for the first
    /// word, or "", as it is before, for the beginning.
    const char *(*complete)(check_problem *problem, const char **key);
    /// In place of these three, for texts that are the op's own: reads what follows "op:" of
    /// that op, false with a failure that gives the position; appends that to a text.
    bool (*parse)(check_reader *reader, int op, check_problem *problem);
    void (*print)(const check_problem *problem, char text[TALC_CHECK_TEXT]);
    /// The index of the problem's op; NULL where there is only one.
    int (*op)(const check_problem *problem);
    /// Draws a small problem of a direction, edge values often, up to what `complete` works out;
    /// false when it is none, and another is drawn.
    bool (*random)(uint64_t *state, talc_direction direction, check_problem *problem);
} check_family;

/// One direction of an op: the forward pass, or its input gradient, whose problems' texts have the
/// word dx. conv2d's has all three. That of the forward pass is talc_check_NAME, and names the
/// other.
typedef struct check_direction {
    const check_family *family;
    talc_direction of;
    const char *const *ops; ///< what its ops are called, "NAME" or "NAME.grad_input", NULL at the
                            ///< end
    const struct check_direction *gradient; ///< the other direction; NULL: there is none

    /// The problem that a model has posed to the op, without its activation, over operands without
    /// gaps. False when it is too large. NULL: no check of models asks.
    bool (*problem_of_run)(const struct check_ran *ran, check_problem *problem);
    /// What the result must be in a model, and how far it may move when the inputs do
    /// (check/engine/expected.h has what it is made of). NULL: no check of models asks.
    bool (*expected_of_run)(const struct check_direction *self, const struct check_ran *ran,
                            struct check_model_expected *expected);
    unsigned factors; ///< a bit for each operand that the result is linear in together: x and w
    bool weighs;      ///< by weights of either sign: the result moves by S of how far a factor does
    unsigned picks;   ///< a bit for one that says which elements of the others count: an index
    /// The element of that one that output `index` reads; NULL: element `index`.
    int64_t (*picking_at)(const struct check_ran *ran, int64_t index);

    /// Describes the operands that the problem has (talc_check_operand), each in its place: those
    /// that are read or updated first, in the order in which the op tells an observer of them.
    void (*operands)(const check_problem *problem, check_operand operands[CHECK_OPERANDS]);
    /// Whether there is data of this kind for the problem: softmax, for example, has no exact data.
    bool (*takes)(const check_problem *problem, talc_check_kind kind);
    /// Fills everything that is read (check/engine/data.h helps): values.of[i] has room for operand
    /// i. The same arguments give the same numbers.
    void (*fill)(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values);
    /// Puts the NaN or infinity of filled data somewhere else, in each `round` 0, 1, ... in another
    /// place; false when there is none left. NULL: it stays where `fill` put it.
    bool (*inject)(const check_problem *problem, talc_check_kind kind, int round, uint64_t seed,
                   const check_values *values);
    /// Groups of elements that have something in common; 0: there are none. NULL, all three
    /// functions: in no problem. The last is always worked out: it may be one of no element, with
    /// what all have in common.
    int64_t (*groups)(const check_problem *problem);
    /// The group of an element that is written or updated.
    int64_t (*group_of)(const check_problem *problem, int operand, int64_t index);
    check_common (*learn)(const check_problem *problem, const check_values *values, int64_t group);
    /// Element `index` of operand `operand`, which is written or updated.
    check_expected (*expected)(const check_problem *problem, const check_values *values,
                               int operand, int64_t index);
    /// Cost of one due element, in terms, with its part in that of its group; for the choice
    /// between all elements and a sample. NULL: `cost` in all problems.
    double (*terms)(const check_problem *problem);
    double cost;

    /// What the algorithm runs before, with the same workspace, for results that the problem's run
    /// reads: a gradient's forward pass. Makes the problem, and `arguments`, those of the later
    /// run, its own unless they are NULL. False: nothing runs before. NULL: of no problem.
    bool (*first)(const check_problem *problem, check_problem *first, void *arguments);

    talc_op list; ///< whose algorithms do its problems
    /// Where an algorithm's arguments have each operand, as offsets into the op's
    /// talc_NAME_arguments.
    size_t arguments[CHECK_OPERANDS];
    /// Whether no algorithm computes the result, though it has elements; NULL: never.
    bool (*is_empty)(const check_problem *problem);
} check_direction;

#define TALC_OP(name, names, operands) extern const check_direction talc_check_##name;
#include "ops/ops.def"

/// Direction `index` of all ops, those of forward passes first; NULL after the last.
const check_direction *talc_check_direction_at(int index);

/// Algorithm `index` of the device's list; NULL after the last.
const talc_algorithm *talc_check_algorithm_at(const check_direction *direction,
                                              const talc_device *device, int index);

/// Why the algorithm cannot do the problem, or what it runs before, under `limit`; NULL when it
/// can, with its plan.
const char *talc_check_plan(const check_direction *direction, const talc_algorithm *algorithm,
                            const talc_device *device, const check_problem *problem, size_t limit,
                            talc_plan *plan);

/// Finds the direction of a text and reads the problem; NULL with a failure.
const check_direction *talc_check_parse(const char *text, check_problem *problem);

/// The problem that belongs to a seed.
void talc_check_random(const check_direction *direction, uint64_t seed, check_problem *problem);

/// The name of its op, as talc_algorithm_force takes it, and its whole text, "op:" included unless
/// that is conv2d.
const char *talc_check_op(const check_direction *direction, const check_problem *problem);
const char *talc_check_write(const check_direction *direction, const check_problem *problem,
                             char text[TALC_CHECK_TEXT]);

/// An operand of these dimensions.
check_operand talc_check_operand(const char *name, check_role role, talc_dtype dtype,
                                 talc_dims dims);

/// All operands of a problem, absent ones among them.
void talc_check_operands(const check_direction *direction, const check_problem *problem,
                         check_operand operands[CHECK_OPERANDS]);

static inline bool talc_check_is_output(const check_operand *operand)
{
    return operand->role == CHECK_WRITTEN || operand->role == CHECK_UPDATED;
}

/// What `terms` or `cost` says.
static inline double talc_check_cost(const check_direction *direction, const check_problem *problem)
{
    return direction->terms == NULL ? direction->cost : direction->terms(problem);
}

/// check_direction.takes of one that has data of every kind but exact ones.
bool talc_check_takes_inexact(const check_problem *problem, talc_check_kind kind);

/// nothing_expected: whether an output has no elements. is_empty: whether no algorithm computes the
/// result, for that or another reason.
bool talc_check_nothing_expected(const check_direction *direction, const check_problem *problem);
bool talc_check_is_empty(const check_direction *direction, const check_problem *problem);

#endif
