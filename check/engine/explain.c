/// Which algorithm an op would run, from the text of a problem alone.
#include "check/engine/family.h"
#include "ops/backend.h"
#include "ops/choice.h"
#include "tensor/error.h"
#include "tensor/fenv.h"
#include "tensor/shown.h"

static bool nothing_to_compute(const char *text)
{
    talc_fail(TALC_BAD_ARGUMENT, "explain: problem '%s' has nothing to compute", TALC_SHOWN(text));
    return false;
}

bool talc_explain(talc_device *device, const char *problem, const char *algorithm,
                  talc_explanation *explanation)
{
    TALC_DEFAULT_FENV;
    if (talc_operand_missing("explain", "device", device) ||
        talc_operand_missing("explain", "problem", problem) ||
        talc_operand_missing("explain", "explanation", explanation))
        return false;
    check_problem parsed;
    const check_direction *direction = talc_check_parse(problem, &parsed);
    if (direction == NULL)
        return false;
    if (talc_check_is_empty(direction, &parsed))
        return nothing_to_compute(problem);
    talc_choice_explain(talc_check_op(direction, &parsed), device,
                        talc_check_algorithm_at(direction, device, 0), &parsed, algorithm, 0,
                        explanation);
    return true;
}
