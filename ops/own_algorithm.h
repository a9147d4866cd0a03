/// Algorithms of one's own: a program adds them to a backend's list of an op
/// (talc_algorithm_register, backends/backends.h), and they are then chosen, forced by name,
/// explained, checked, benchmarked and trained with as the library's own.
///
///     static const char *plan(const talc_device *device, const void *problem, size_t limit,
///                             talc_plan *planned)
///     {
///         const talc_conv2d_problem *p = problem;
///         return p->direction != TALC_FORWARD ? "only the forward direction" : NULL;
///     }
///
///     static talc_status run(talc_device *device, const void *problem, const talc_plan *planned,
///                            const void *arguments)
///     {
///         const talc_conv2d_arguments *a = arguments;      // pointers that the device knows
///         ...
///     }
///
///     static const talc_own_algorithm mine = {
///         TALC_OWN_ALGORITHM_OF(conv2d),
///         .device = "cpu",
///         .algorithm = { .name = "mine",
///                        .arithmetic = { "f32 products and sums", TALC_STRICT, false },
///                        .plan = plan,
///                        .run = run },
///     };
///
///     talc_algorithm_register("conv2d", &mine);
///
/// The problem and the arguments are plain data: the header of each op declares them
/// (talc_conv2d_problem, talc_conv2d_arguments), ops/ops.def lists the operands that an algorithm
/// reads and writes. One list serves an op and its gradients; where a problem has a direction, an
/// algorithm refuses those that it cannot do, and another computes them.
///
/// Where it stands: before the backend's own algorithms, the one that was registered last first. In
/// a list that estimates, as conv2d's on a GPU, the least estimate runs (talc_plan.seconds), and an
/// algorithm without one wherever it does not refuse; in a list that does not, the first that does
/// not refuse. docs/own_kernels.md has a whole one, and how the checks name a wrong one.
#ifndef TALC_OPS_OWN_ALGORITHM_H
#define TALC_OPS_OWN_ALGORITHM_H

#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

/// Of the structs here; changes whenever a program has to be compiled anew.
enum { TALC_OWN_ALGORITHM_VERSION = 1 };

typedef struct talc_own_algorithm {
    int version; ///< TALC_OWN_ALGORITHM_VERSION
    /// Of talc_plan and of the op's structs, as the program knows them.
    size_t plan_bytes, problem_bytes, arguments_bytes;
    const char *device; ///< the backend: "cpu", "cuda"
    talc_algorithm algorithm;
} talc_own_algorithm;

/// The first four fields of an algorithm of an op of ops/ops.def: TALC_OWN_ALGORITHM_OF(conv2d).
#define TALC_OWN_ALGORITHM_OF(op)                                                                  \
    TALC_OWN_ALGORITHM_VERSION, sizeof(talc_plan), sizeof(talc_##op##_problem),                    \
        sizeof(talc_##op##_arguments)

TALC_END_DECLARATIONS

#endif
