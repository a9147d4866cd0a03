#include "tests/support/oracle.h"

#include "check/engine/verdict.h"
#include "tests/support/operands.h"
#include "tests/support/problem_data.h"

static void elements_of(const talc_tensor *tensor, double *values)
{
    for (int64_t i = 0; i < talc_numel(tensor); i++)
        values[i] = element_at(tensor, i);
}

void assert_expected(const char *what, const char *problem, const talc_tensor *const operands[],
                     const talc_tensor *y, bool wide)
{
    const talc_arithmetic arithmetic = { "", TALC_STRICT, wide };
    owned_problem_data self = read_problem(problem);
    check_oracle oracle;
    check_values results;
    talc_check_outcome outcome = { .passed = false };
    cr_assert(talc_check_values_new(self.direction, &self.problem, &results));
    cr_assert(talc_check_oracle_new(self.direction, &self.problem, 1, false, &oracle));
    for (int i = 0; i < CHECK_OPERANDS; i++) {
        if (self.list[i].role == CHECK_ABSENT)
            continue;
        const bool written = self.list[i].role == CHECK_WRITTEN;
        const talc_tensor *tensor = written ? y : *operands++;
        cr_assert(talc_numel(tensor) == self.list[i].count && tensor->dtype == self.list[i].dtype,
                  "%s: %s is no operand of %s", what, self.list[i].name, problem);
        elements_of(tensor, written ? results.of[i] : self.values.of[i]);
    }
    talc_check_oracle_update(&oracle, &self.values);
    talc_check_verdict(&oracle, &arithmetic, TALC_CHECK_RANDOM, &results, &outcome);
    cr_assert(outcome.passed && outcome.compared == talc_numel(y), "%s: %s", what, outcome.reason);
    talc_check_oracle_free(&oracle);
    talc_check_values_free(&results);
}

const char *extents_text(talc_dims dims, char text[TALC_DIMS_TEXT])
{
    int length = 0;
    text[0] = '\0';
    for (int i = 0; i < dims.rank; i++)
        length += sprintf(text + length, "%s%lld", i == 0 ? "" : "x", (long long)dims.dim[i]);
    return text;
}
