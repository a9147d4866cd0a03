/* The cross-check against gradients of convolutions that are wrong: each is rejected, by the kind
 * of check that is made for such a mistake, and by the set `quick`. */
#include "tests/support/conv2d_gradient_mutants.h"
#include "tests/support/hooks.h"
#include "tests/support/mutants.h"

#include "ops/conv2d.h"

#include <stdio.h>
#include <string.h>

/* Checks an algorithm; the kinds that failed. */
static uint64_t failed_kinds(const talc_algorithm *algorithm, const char *problem, uint64_t kinds,
                             char reason[256])
{
    owned_check *check =
        talc_check_new(&(talc_check_options){ .device = cpu_device(), .kinds = kinds, .seed = 1 });
    cr_assert(talc_check_algorithm(check, problem, algorithm), "%s: %s", problem,
              talc_error_message());
    cr_assert_eq(talc_check_summary_at(check, 0)->refused, 0, "%s is refused", problem);
    uint64_t failed = 0;
    for (int i = 0; i < talc_check_failure_count(check); i++)
        failed |= (uint64_t)1 << talc_check_failure_at(check, i)->kind;
    reason[0] = '\0';
    if (failed != 0)
        snprintf(reason, 256, "%s", talc_check_failure_at(check, 0)->reason);
    return failed;
}

Test(check_gradient_mutants, every_mutant_is_rejected_by_its_kind)
{
    for (int i = 0; i < conv2d_gradient_mutant_count; i++) {
        const conv2d_gradient_mutant *m = &conv2d_gradient_mutants[i];
        char reason[256], names[400];
        const uint64_t right =
            failed_kinds(conv2d_gradient_mutant_algorithm(GRADIENT_RIGHT), m->problem, 0, reason);
        cr_expect(right == 0, "the right row fails %s: %s", m->problem, reason);
        const uint64_t all =
            failed_kinds(conv2d_gradient_mutant_algorithm(m->mistake), m->problem, 0, reason);
        mutant_kind_names(all, names, sizeof names);
        fprintf(stderr, "%-18s %-30s %s\n", m->name, m->problem, names);
        const uint64_t alone = failed_kinds(conv2d_gradient_mutant_algorithm(m->mistake),
                                            m->problem, (uint64_t)1 << m->kind, reason);
        cr_expect(alone != 0 && (all >> m->kind & 1) != 0, "'%s' (%s) passes '%s' on %s", m->name,
                  m->description, talc_check_kind_name(m->kind), m->problem);
    }
}

/* The gradients of the set `quick` that cost little, of which the mutants are slow. */
static int quick_gradients(char texts[][TALC_CHECK_TEXT], int max)
{
    static const double FLOPS = 1e6;
    int count = 0;
    for (int64_t i = 0; count < max && talc_check_set_problem("quick", i, 0, texts[count]) != NULL;
         i++) {
        talc_conv2d_problem p;
        if (strchr(texts[count], ':') != NULL)
            continue;
        cr_assert(talc_conv2d_problem_parse(texts[count], &p), "%s", talc_error_message());
        count += p.direction != TALC_FORWARD && talc_conv2d_flops(&p) <= FLOPS;
    }
    return count;
}

Test(check_gradient_mutants, the_quick_set_rejects_every_mutant)
{
    enum { MAX = 100 };
    static char texts[MAX][TALC_CHECK_TEXT];
    const int count = quick_gradients(texts, MAX);
    char reason[256];
    cr_assert(count > 30 && count < MAX, "%d problems", count);
    for (int i = 0; i < count; i++)
        cr_expect(failed_kinds(conv2d_gradient_mutant_algorithm(GRADIENT_RIGHT), texts[i], 0,
                               reason) == 0,
                  "the right row fails %s: %s", texts[i], reason);
    for (int mistake = GRADIENT_RIGHT + 1; mistake < GRADIENT_MISTAKES; mistake++) {
        bool rejected = false;
        for (int i = 0; i < count && !rejected; i++)
            rejected = failed_kinds(conv2d_gradient_mutant_algorithm((gradient_mistake)mistake),
                                    texts[i], 0, reason) != 0;
        cr_expect(rejected, "mistake %d survives", mistake);
    }
}

/* A difference is told with the gradient's own name and both numbers. */
Test(check_gradient_mutants, a_difference_names_the_gradient)
{
    static const struct {
        gradient_mistake mistake;
        talc_check_kind kind;
        const char *problem, *reason;
    } cases[] = {
        { GRADIENT_LAST_ROWS, TALC_CHECK_EXACT, "n1c2h8w9o3k3x3s2x2_dx",
          "dx[0,0,7,0] (border) is nan, expected 0; 18 of 144 are wrong, all at h = 7; 18 elements "
          "were "
          "not written" },
        { GRADIENT_LAST_IMAGE, TALC_CHECK_BATCH, "n1c1h3w3o1k1x1_dw",
          "n3c1h3w3o1k1x1s1x1p0x0d1x1g1_dw: dw[0, 0, 0, 0] is " },
        { GRADIENT_EXCHANGED, TALC_CHECK_ADJOINT, "n1c2h3w3o3k1x1_dx",
          "n1c2h3w3o3k1x1s1x1p0x0d1x1g1_dx: <conv(x, w), dy> is " },
        { GRADIENT_BORDER_TAP, TALC_CHECK_ADJOINT, "n1c2h3w3o3k1x1_dw", ", <w, dw> is " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char reason[256];
        cr_assert(failed_kinds(conv2d_gradient_mutant_algorithm(cases[i].mistake), cases[i].problem,
                               (uint64_t)1 << cases[i].kind, reason) != 0);
        cr_expect(strstr(reason, cases[i].reason) != NULL, "%s", reason);
    }
}
