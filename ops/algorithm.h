/// Algorithms: what a backend supplies for each op.
///
/// A backend has, for each op, a list of algorithms, most specialised first, the general
/// `reference` last, ended by an algorithm without a name. Of those that can do the problem, are of
/// an admitted precision class and fit the workspace limit, the one of the least estimated time
/// runs, of equal ones the first, or the first where the list does not estimate; `reference` where
/// no other can.
#ifndef TALC_OPS_ALGORITHM_H
#define TALC_OPS_ALGORITHM_H

#include "../tensor/device.h"
#include "../tensor/precision.h"

#include <stdio.h>
#include <string.h>

TALC_BEGIN_DECLARATIONS

/// How an algorithm computes, so that its error bound follows (tensor/precision.h).
typedef struct talc_arithmetic {
    const char *text;         ///< for people: "f32 FMA", "f64 accumulation"
    talc_precision precision; ///< its class
    bool wide_accumulator;    ///< sums are kept in f64 even for f32 data: one rounding an output
} talc_arithmetic;

/// What a problem asks for: the op itself, or its gradient by the input or by the weights.
typedef enum talc_direction { TALC_FORWARD, TALC_GRAD_INPUT, TALC_GRAD_WEIGHT } talc_direction;

/// How an algorithm would do a problem. Made once a call, and handed to the run.
typedef struct talc_plan {
    size_t workspace; ///< bytes, at most the limit wherever the algorithm can work in chunks that
                      ///< small
    double seconds;   ///< estimated; 0 in a list that does not estimate, and of `reference`
    size_t cached;    ///< bytes at the beginning of the workspace that follow from a convolution's
                      ///< weights alone
    int64_t cached_form; ///< what else they depend on: all that may differ between plans of the
                         ///< algorithm for the same weights
    /// Why a library that the algorithm needs is missing, NULL when it is there. Asked of the
    /// algorithm that would run alone, as an answer loads the library; NULL: the algorithm needs
    /// none.
    const char *(*missing)(void);
    union {
        int64_t alignment;
        unsigned char bytes[240];
    } data; ///< what the algorithm keeps for its run
} talc_plan;

/// Keeps an algorithm's own plan, at most sizeof plan.data bytes of plain data, and gives it back.
static inline void talc_plan_store(talc_plan *plan, const void *data, size_t bytes)
{
    memcpy(plan->data.bytes, data, bytes < sizeof plan->data ? bytes : sizeof plan->data);
}

static inline const void *talc_plan_data(const talc_plan *plan)
{
    return &plan->data;
}

/// What every op's arguments begin with.
typedef struct talc_arguments {
    void *workspace;   ///< plan.workspace bytes, 64-byte aligned; NULL for none
    void *cached;      ///< its first plan.cached bytes, which the workspace then lacks; or NULL
    bool cached_ready; ///< they are there from an earlier run
} talc_arguments;

/// An algorithm. `problem` and `arguments` are those of the op: talc_softmax_problem and
/// talc_softmax_arguments, and so on.
typedef struct talc_algorithm {
    const char *name; ///< the method: "im2col"; NULL ends a list
    /// What tells algorithms of one name apart beside their class: "warp tiles"; NULL where there
    /// is none.
    const char *form;
    talc_arithmetic arithmetic;
    /// NULL when the algorithm can do the problem, with the plan filled, which is 0 beforehand but
    /// for `data`; else why it cannot. Follows from the problem, the device's properties and the
    /// limit alone; on the CPU workspace, and tasks that leave every result its bits, also follow
    /// from the number of threads. An algorithm never refuses because another is faster.
    const char *(*plan)(const talc_device *device, const void *problem, size_t limit,
                        talc_plan *plan);
    /// Runs a non-empty problem.
    talc_status (*run)(talc_device *device, const void *problem, const talc_plan *plan,
                       const void *arguments);
} talc_algorithm;

/// What keeps an algorithm from doing a problem, a library that is missing included, with `plan`
/// filled; NULL when nothing does.
const char *talc_algorithm_refuses(const talc_algorithm *algorithm, const talc_device *device,
                                   const void *problem, size_t limit, talc_plan *plan);

/// Runs an algorithm with a plan of its own, in the default floating-point environment whatever the
/// caller has set.
talc_status talc_algorithm_run(const talc_algorithm *algorithm, talc_device *device,
                               const void *problem, const talc_plan *plan, const void *arguments);

/// The plan of algorithms that can do every problem and need nothing for it.
const char *talc_plan_any(const talc_device *device, const void *problem, size_t limit,
                          talc_plan *plan);

enum { TALC_ALGORITHM_TEXT = 64 };

/// "im2col", or "depthwise(warp tiles)" where it has a form: what forces it alone among those of
/// its class.
const char *talc_algorithm_text(const talc_algorithm *algorithm, char text[TALC_ALGORITHM_TEXT]);

/// Whether an algorithm of this name and form, which may be NULL, is among those that are asked for
/// by "name" or "name(form)".
TALC_API bool talc_algorithm_is_asked_for(const char *name, const char *form, const char *asked);

/// An algorithm's decision as an explanation tells of it.
typedef struct talc_candidate {
    const char *name, *form;         ///< the algorithm's; form may be NULL
    char title[TALC_ALGORITHM_TEXT]; ///< name(form), or the name alone: what forces it
    talc_arithmetic arithmetic;
    size_t workspace; ///< bytes that it would use under the limit
    double seconds;   ///< estimated; 0 where the list does not estimate
    bool refused;
    char reason[96]; ///< why it was refused; "" when it was not
} talc_candidate;

enum { TALC_MAX_ALGORITHMS = 32 };

/// A whole decision, before anything runs.
typedef struct talc_explanation {
    char op[32], device[24];
    char asked_for[TALC_ALGORITHM_TEXT]; ///< the name, or name(form), of those that alone may run;
                                         ///< "" where any may
    size_t workspace_limit;
    int count;  ///< candidates, in the order of the list
    int chosen; ///< index, -1 when every one refuses
    talc_candidate candidates[TALC_MAX_ALGORITHMS];
} talc_explanation;

/// Whether a candidate is another one than that asked for by name: it refuses for that alone, and
/// is not printed.
TALC_API bool talc_candidate_is_passed_over(const talc_explanation *explanation, int index);

/// Prints an explanation for people.
TALC_API void talc_explanation_print(FILE *file, const talc_explanation *explanation);

/// Forces one algorithm by name for this thread's calls of an op: "conv2d", "linear", "max_pool2d",
/// "sum", "relu", ..., the name that begins its error messages. Where algorithms share the name, it
/// is chosen among those of an admitted class as without force; "name(form)" forces one of them.
/// NULL takes that back. Whether the device has such an algorithm shows when the op runs; concat,
/// which has no algorithms, takes no notice. An algorithm named in an op's options wins. Errors:
/// NULL op, more than 16 ops forced, an op that is empty, a name of more than 63 characters.
TALC_API bool talc_algorithm_force(const char *op, const char *name);

/// The name forced on this thread for an op; NULL when there is none, and for a NULL op. Lasts
/// until the next force.
TALC_API const char *talc_algorithm_forced(const char *op);

TALC_END_DECLARATIONS

#endif
