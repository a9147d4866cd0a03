/// A problem of the cross-check with room for its operands.
#ifndef TALC_TESTS_PROBLEM_DATA_H
#define TALC_TESTS_PROBLEM_DATA_H

#include "check/engine/case.h"
#include "check/engine/family.h"
#include "tests/support/hooks.h"

#include <math.h>

typedef struct problem_data {
    check_problem problem;
    const check_direction *direction;
    check_operand list[CHECK_OPERANDS];
    check_values values;
} problem_data;

static inline void problem_data_free(problem_data *self)
{
    talc_check_values_free(&self->values);
}

#define owned_problem_data OWNED(problem_data_free) problem_data

/// Reads it; problem_data_free gives the room back.
static inline problem_data read_problem(const char *text)
{
    problem_data self;
    self.direction = talc_check_parse(text, &self.problem);
    cr_assert(self.direction != NULL, "%s: %s", text, talc_error_message());
    talc_check_operands(self.direction, &self.problem, self.list);
    cr_assert(talc_check_values_new(self.direction, &self.problem, &self.values));
    return self;
}

static inline check_expected expected_at(const problem_data *self, int operand, int64_t index)
{
    return self->direction->expected(&self->problem, &self->values, operand, index);
}

/// Equal, or both not a number.
static inline bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

#endif
