/// A problem of the cross-check with room for its operands.
#ifndef TALC_TESTS_POSED_H
#define TALC_TESTS_POSED_H

#include "check/engine/case.h"
#include "check/engine/family.h"
#include "tests/support/hooks.h"

#include <math.h>

typedef struct posed {
    check_problem problem;
    const check_family *family;
    check_operand list[CHECK_OPERANDS];
    check_values values;
} posed;

/// Reads it; talc_check_values_free(&self.values) gives the room back.
static inline posed pose(const char *text)
{
    posed self;
    self.family = talc_check_parse(text, &self.problem);
    cr_assert(self.family != NULL, "%s: %s", text, talc_error_message());
    talc_check_operands(self.family, &self.problem, self.list);
    cr_assert(talc_check_values_new(self.family, &self.problem, &self.values));
    return self;
}

static inline check_expected expected_at(const posed *self, int operand, int64_t index)
{
    return self->family->expected(&self->problem, &self->values, operand, index);
}

/// Equal, or both not a number.
static inline bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

#endif
