/// The choice among an op's algorithms. Private to talc.
///
/// Every op chooses here, so that forcing, precision, workspace limits, messages and TALC_VERBOSE
/// mean the same everywhere, and what is explained is what runs:
///
///     talc_choice choice;
///     if (!talc_choose(&choice, "softmax", device,
///                      talc_backend_algorithms(device->backend, TALC_OP_softmax), &problem,
///                      sizeof problem, NULL, 0))
///         return NULL;
///     status = talc_choice_run(&choice, talc_run_dims, y, &problem, &arguments.base);
#ifndef TALC_OPS_CHOICE_H
#define TALC_OPS_CHOICE_H

#include "ops/algorithm.h"
#include "tensor/run.h"

typedef struct talc_considered {
    const talc_algorithm *algorithm;
    const char *refusal; ///< its own; NULL when it can do the problem
    talc_plan plan;      ///< when it can
} talc_considered;

typedef struct talc_choice {
    const char *op;
    talc_device *device;
    const char *forced; ///< NULL: none is
    unsigned precision; ///< admitted classes
    size_t limit;       ///< workspace bytes
    int count;
    int chosen; ///< -1: none
    talc_considered algorithms[TALC_MAX_ALGORITHMS];
} talc_choice;

/// Chooses among `algorithms`, NULL for a backend without the op. A decision among three or more
/// that estimate is remembered for the problem's bytes (ops/decisions.h), unless that is 0.
/// `forced` is the caller's own choice, NULL for the thread's; classes 0 for the thread's. False,
/// with a failure that has every algorithm's reason, when none can run.
bool talc_choose(talc_choice *choice, const char *op, talc_device *device,
                 const talc_algorithm *algorithms, const void *problem, size_t problem_bytes,
                 const char *forced, unsigned precision);

/// The same decision, with what it says of every algorithm. Raises no failure.
void talc_choice_explain(const char *op, talc_device *device, const talc_algorithm *algorithms,
                         const void *problem, const char *forced, unsigned precision,
                         talc_explanation *explanation);

/// The algorithm that was chosen, and its plan.
const talc_algorithm *talc_chosen(const talc_choice *choice);
const talc_plan *talc_chosen_plan(const talc_choice *choice);

/// Runs it on a non-empty problem, with its workspace, in the frame of tensor/run.h; `write` writes
/// `subject` there.
talc_status talc_choice_run(const talc_choice *choice, talc_run_text *write, const void *subject,
                            const void *problem, talc_arguments *arguments);

#endif
