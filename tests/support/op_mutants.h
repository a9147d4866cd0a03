/// What wrong algorithms of ops are made of: the reference of the CPU, asked for something else or
/// with its results corrupted.
#ifndef TALC_TESTS_OP_MUTANTS_H
#define TALC_TESTS_OP_MUTANTS_H

#include "ops/backend.h"
#include "tests/support/mutants.h"

#define ARITHMETIC                                                                                 \
    {                                                                                              \
        "f64 accumulation", TALC_STRICT, true                                                      \
    }

/// The device's algorithm `reference` of an op, as which a mutant plans and computes what it does
/// not get wrong.
static inline const talc_algorithm *reference_in(const talc_algorithm *algorithm)
{
    while (strcmp(algorithm->name, "reference") != 0)
        algorithm++;
    return algorithm;
}

#define DEFINE_REFERENCE(op)                                                                       \
    static const char *op##_plan(const talc_device *device, const void *problem, size_t limit,     \
                                 talc_plan *plan)                                                  \
    {                                                                                              \
        return reference_in(device->backend->algorithms[TALC_OP_##op])                             \
            ->plan(device, problem, limit, plan);                                                  \
    }                                                                                              \
    static talc_status op##_by_reference(talc_device *device, const talc_##op##_problem *problem,  \
                                         const talc_##op##_arguments *arguments)                   \
    {                                                                                              \
        talc_plan plan = { 0 };                                                                    \
        (void)op##_plan(device, problem, talc_workspace_limit(device), &plan);                     \
        return reference_in(device->backend->algorithms[TALC_OP_##op])                             \
            ->run(device, problem, &plan, arguments);                                              \
    }

#define MUTANT_ALGORITHM(op, name, function)                                                       \
    static talc_status name##_run(talc_device *device, const void *problem, const talc_plan *plan, \
                                  const void *arguments)                                           \
    {                                                                                              \
        (void)plan;                                                                                \
        return function(device, problem, arguments);                                               \
    }                                                                                              \
    static const talc_algorithm name = { #name, NULL, ARITHMETIC, op##_plan, name##_run };

/// One that does this instead, of the device, the problem `p` and the arguments `a`.
#define MUTANT_INSTEAD(op, name, ...)                                                              \
    static talc_status name##_function(talc_device *device, const talc_##op##_problem *p,          \
                                       const talc_##op##_arguments *a)                             \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }                                                                                              \
    MUTANT_ALGORITHM(op, name, name##_function)

/// An algorithm that solves another problem than it was given, `other`, of other arguments,
/// `given`.
#define MUTANT_OTHER(op, name, ...)                                                                \
    static talc_status name##_function(talc_device *device, const talc_##op##_problem *p,          \
                                       const talc_##op##_arguments *a)                             \
    {                                                                                              \
        talc_##op##_problem other = *p;                                                            \
        talc_##op##_arguments given = *a;                                                          \
        __VA_ARGS__;                                                                               \
        return op##_by_reference(device, &other, &given);                                          \
    }                                                                                              \
    MUTANT_ALGORITHM(op, name, name##_function)

/// One whose results are corrupted when they are there.
#define MUTANT_CORRUPTED(op, name, ...)                                                            \
    static talc_status name##_function(talc_device *device, const talc_##op##_problem *p,          \
                                       const talc_##op##_arguments *a)                             \
    {                                                                                              \
        const talc_status status = op##_by_reference(device, p, a);                                \
        __VA_ARGS__;                                                                               \
        return status;                                                                             \
    }                                                                                              \
    MUTANT_ALGORITHM(op, name, name##_function)

static inline double load(talc_dtype dtype, const void *array, int64_t i)
{
    return dtype == TALC_F32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static inline void store(talc_dtype dtype, void *array, int64_t i, double value)
{
    if (dtype == TALC_F32)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

static inline size_t size_of(talc_dtype dtype)
{
    return dtype == TALC_F32 ? sizeof(float) : sizeof(double);
}

#endif
