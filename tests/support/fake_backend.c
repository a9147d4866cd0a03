#include "tests/support/fake_backend.h"

#include "backends/cpu/cpu.h"
#include "tests/support/hooks.h"

#include <string.h>

enum { MAX_ROWS = 56, PROBLEM_BYTES = 1024 };

/* The CPU's algorithms of all ops, one list behind the other, each ended by an algorithm without a
 * name. */
static struct {
    const talc_algorithm *cpu;
    size_t problem_bytes, arguments_bytes;
} faked[MAX_ROWS];
static talc_algorithm fakes[MAX_ROWS];
static int fake_count;

/* What is queued in place of the problem. */
typedef struct planned_problem {
    talc_plan plan;
    union {
        char bytes[PROBLEM_BYTES];
        int64_t alignment;
    } problem;
} planned_problem;

static talc_status execute(talc_device *device, const void *algorithm, const void *problem,
                           const void *arguments)
{
    const planned_problem *planned = problem;
    return ((const talc_algorithm *)algorithm)
        ->run(device, &planned->problem, &planned->plan, arguments);
}

static talc_status enqueue(int index, talc_device *device, const void *problem,
                           const talc_plan *plan, const void *arguments)
{
    planned_problem planned = { .plan = *plan };
    memcpy(&planned.problem, problem, faked[index].problem_bytes);
    return fake_device_enqueue(device, execute, faked[index].cpu, &planned, sizeof planned,
                               arguments, faked[index].arguments_bytes);
}

/* An algorithm's `run` does not know which algorithm it is, so there is one for each place. */
#define FAKE_RUN(index)                                                                            \
    static talc_status run_##index(talc_device *device, const void *problem,                       \
                                   const talc_plan *plan, const void *arguments)                   \
    {                                                                                              \
        return enqueue(index, device, problem, plan, arguments);                                   \
    }
// clang-format off
#define FAKE_PLACES(X)                                                                             \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)          \
    X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)  \
    X(32) X(33) X(34) X(35) X(36) X(37) X(38) X(39) X(40) X(41) X(42) X(43) X(44) X(45) X(46) X(47)  \
    X(48) X(49) X(50) X(51) X(52) X(53) X(54) X(55)
// clang-format on
FAKE_PLACES(FAKE_RUN)
#define FAKE_NAME(index) run_##index,
static talc_status (*const runs[])(talc_device *, const void *, const talc_plan *,
                                   const void *) = { FAKE_PLACES(FAKE_NAME) };

static const talc_algorithm *fake_algorithms(const talc_algorithm *cpu, size_t problem_bytes,
                                             size_t arguments_bytes)
{
    const int first = fake_count;
    cr_assert(problem_bytes <= PROBLEM_BYTES);
    do {
        cr_assert(fake_count < MAX_ROWS, "fake device: the CPU has more algorithms");
        faked[fake_count].cpu = cpu;
        faked[fake_count].problem_bytes = problem_bytes;
        faked[fake_count].arguments_bytes = arguments_bytes;
        fakes[fake_count] = *cpu;
        fakes[fake_count].run = runs[fake_count];
        fake_count++;
    } while (cpu++->name != NULL);
    return fakes + first;
}

const struct talc_backend *fake_backend(void)
{
    static struct talc_backend fake = { .name = "fake" };
    fake_count = 0;
#define TALC_OP(op, names, operands)                                                               \
    fake.algorithms[TALC_OP_##op] =                                                                \
        fake_algorithms(talc_cpu_backend.algorithms[TALC_OP_##op], sizeof(talc_##op##_problem),    \
                        sizeof(talc_##op##_arguments));
#include "ops/ops.def"
    return &fake;
}
