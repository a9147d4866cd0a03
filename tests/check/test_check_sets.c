/* The sets of problems: every one reads, none stands twice, and what each set has to hold is
 * there. */
#include "check/engine/family.h"
#include "tests/support/hooks.h"

#include <stdlib.h>
#include <string.h>

enum { MAX = 24000 };

typedef struct listed {
    char text[TALC_CHECK_TEXT];
} listed;

static listed problems[MAX];

static int compare(const void *a, const void *b)
{
    return strcmp(((const listed *)a)->text, ((const listed *)b)->text);
}

/* Fills `problems` with a set, in order. */
static int64_t read_set(const char *set)
{
    int64_t count = 0;
    while (count < MAX && talc_check_set_problem(set, count, 0, problems[count].text) != NULL)
        count++;
    assert_no_failure();
    cr_assert(count < MAX, "%s is longer than this test thinks", set);
    cr_assert(talc_check_set_problem(set, count + 1, 0, problems[count].text) == NULL);
    cr_assert(talc_check_set_problem(set, INT64_MAX, 0, problems[count].text) == NULL);
    cr_assert(talc_check_set_problem(set, -1, 0, problems[count].text) == NULL);
    assert_no_failure();
    return count;
}

static bool is_of(const char *text, const char *op)
{
    const char *colon = strchr(text, ':');
    const size_t length = colon == NULL ? 0 : (size_t)(colon - text);
    return length == strlen(op) && strncmp(text, op, length) == 0;
}

static int64_t count_of(int64_t count, const char *op)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        found += is_of(problems[i].text, op);
    return found;
}

static int64_t gradients_of(int64_t count, const char *op)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        found += is_of(problems[i].text, op) && strstr(problems[i].text, "_dx") != NULL;
    return found;
}

/* Every op of every direction but conv2d's has as many problems. Of gradients, `less` fewer where
 * the op is elementwise. */
static void assert_every_op(const char *set, int64_t count, int64_t min, int64_t min_gradients,
                            int64_t less)
{
    const check_direction *direction;
    for (int d = 0; (direction = talc_check_direction_at(d)) != NULL; d++)
        for (int i = 0; direction != &talc_check_conv2d && direction->ops[i] != NULL; i++) {
            const bool gradient = direction->of == TALC_GRAD_INPUT;
            const int64_t wanted =
                !gradient ? min
                          : min_gradients - (direction == talc_check_unary.gradient ? less : 0);
            char op[64];
            snprintf(op, sizeof op, "%.*s", (int)strcspn(direction->ops[i], "."),
                     direction->ops[i]);
            cr_assert((gradient ? gradients_of(count, op) : count_of(count, op)) >= wanted,
                      "%s: too few of %s", set, direction->ops[i]);
        }
}

Test(check_sets, every_problem_reads_prints_the_same_and_stands_once)
{
    static const struct {
        const char *set;
        int64_t min, max, convolutions;
    } sets[] = { { "quick", 60, 380, 50 }, { "edges", 300, 3500, 260 }, { "models", 90, 200, 60 } };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const char *set = sets[i].set;
        const int64_t count = read_set(set);
        cr_assert(count >= sets[i].min && count <= sets[i].max, "%s: %d problems", set, (int)count);
        cr_assert(count_of(count, "") >= sets[i].convolutions, "%s has too few of conv2d", set);
        for (int64_t j = 0; j < count; j++) {
            char again[TALC_CHECK_TEXT];
            cr_assert(talc_check_problem_text(problems[j].text, again) == again, "%s: %s", set,
                      talc_error_message());
            cr_assert(strcmp(again, problems[j].text) == 0, "%s reads as %s", problems[j].text,
                      again);
        }
        qsort(problems, (size_t)count, sizeof *problems, compare);
        for (int64_t j = 1; j < count; j++)
            cr_assert(strcmp(problems[j - 1].text, problems[j].text) != 0, "%s has %s twice", set,
                      problems[j].text);
    }
}

Test(check_sets, quick_and_edges_have_every_op)
{
    static const char *const sets[] = { "quick", "edges" };
    for (int i = 0; i < 2; i++) {
        const int64_t count = read_set(sets[i]);
        assert_every_op(sets[i], count, 1 + 4 * i, 1 + 7 * i, 3 * i);
    }
}

static int64_t convolutions_ending_in(int64_t count, const char *end)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        const size_t length = strlen(problems[i].text);
        found += is_of(problems[i].text, "") && length > 3 &&
                 strcmp(problems[i].text + length - 3, end) == 0;
    }
    return found;
}

/* Of the convolutions in `quick` and `edges` a third or so stand there for each gradient too, and
 * of the random ones a quarter. */
Test(check_sets, gradients_have_their_share)
{
    static const char *const sets[] = { "quick", "edges" };
    static const char *const ends[] = { "_dx", "_dw" };
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            const int64_t count = read_set(sets[i]), found = convolutions_ending_in(count, ends[j]),
                          forward = count_of(count, "") - convolutions_ending_in(count, "_dx") -
                                    convolutions_ending_in(count, "_dw");
            cr_assert(found * 10 >= forward * 3 && found * 10 <= forward * 5,
                      "%s: %d of %d convolutions end in %s", sets[i], (int)found, (int)forward,
                      ends[j]);
        }
}

static const char *random_text(int64_t index, uint64_t seed, char text[TALC_CHECK_TEXT])
{
    const char *given = talc_check_set_problem("random", index, seed, text);
    cr_assert(given == text, "random %d: %s", (int)index, talc_error_message());
    return given;
}

/* How many of the first problems differ under two seeds. */
static int differing(uint64_t a, uint64_t b)
{
    char first[TALC_CHECK_TEXT], second[TALC_CHECK_TEXT];
    int count = 0;
    for (int64_t i = 0; i < 200; i++)
        count += strcmp(random_text(i, a, first), random_text(i, b, second)) != 0;
    return count;
}

/* The largest number that follows `letter` among the extents of the problems that hold `part`. */
static int64_t largest(int64_t count, const char *op, char letter, const char *part)
{
    int64_t max = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *extent = strchr(problems[i].text, ':');
        if (!is_of(problems[i].text, op) || strstr(problems[i].text, part) == NULL)
            continue;
        const size_t extents = strcspn(extent, "_");
        const char *at = memchr(extent, letter, extents);
        const int64_t number = at == NULL ? 0 : strtoll(at + 1, NULL, 10);
        max = number > max ? number : max;
    }
    return max;
}

/* A kernel that is wrong past a tile is found only where there is more than a tile. */
Test(check_sets, edges_go_past_the_tiles_of_every_op)
{
    static const struct {
        const char *op;
        char letter;
        const char *part;
        int64_t min;
    } cases[] = {
        { "max_pool2d", 'c', "", 129 },
        { "avg_pool2d", 'c', "", 129 },
        { "adaptive_avg_pool2d", 'c', "", 129 },
        { "batch_norm2d", 'c', "_train", 257 },
        { "batch_norm2d", 'c', "_relu", 129 },
        { "matmul", 'k', "_ta", 513 },
        { "matmul", 'k', "_tb", 513 },
        { "matmul", 'k', "_ta_tb", 513 },
        { "matmul", 'k', "_f64", 513 },
        { "max_pool2d", 'c', "_dx", 129 },
        { "avg_pool2d", 'c', "_dx", 129 },
        { "adaptive_avg_pool2d", 'c', "_dx", 129 },
        { "batch_norm2d", 'c', "_train_dx", 257 },
    };
    const int64_t count = read_set("edges");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t max = largest(count, cases[i].op, cases[i].letter, cases[i].part);
        cr_assert(max >= cases[i].min, "%s%s: %c goes to %d", cases[i].op, cases[i].part,
                  cases[i].letter, (int)max);
    }
}

Test(check_sets, random_depends_on_index_and_seed_alone)
{
    cr_assert(differing(7, 7) == 0);
    cr_assert(differing(7, 8) > 190);
    /* One seed is not another one shifted. */
    char first[TALC_CHECK_TEXT], second[TALC_CHECK_TEXT];
    int same = 0;
    for (int64_t i = 0; i < 200; i++)
        same += strcmp(random_text(i + 1, 7, first), random_text(i, 8, second)) == 0;
    cr_assert(same < 10);
    cr_assert(strlen(random_text(INT64_MAX, UINT64_MAX, first)) > 0);
}

Test(check_sets, random_is_mostly_conv2d_and_has_every_op)
{
    for (int64_t i = 0; i < MAX; i++) {
        char again[TALC_CHECK_TEXT];
        random_text(i, 3, problems[i].text);
        cr_assert(talc_check_problem_text(problems[i].text, again) != NULL, "%s",
                  talc_error_message());
        cr_assert(strcmp(again, problems[i].text) == 0);
    }
    const int64_t convolutions = count_of(MAX, "");
    cr_assert(convolutions > MAX / 2 && convolutions < MAX * 3 / 4, "%d convolutions",
              (int)convolutions);
    assert_every_op("random", MAX, 3, 3, 0);
    cr_assert(convolutions_ending_in(MAX, "_dx") > convolutions / 5 &&
              convolutions_ending_in(MAX, "_dw") > convolutions / 5);
}

Test(check_sets, problem_text_is_full)
{
    char text[TALC_CHECK_TEXT];
    cr_assert(strcmp(talc_check_problem_text("conv2d:n1c2h3w4o5k1x1", text),
                     "n1c2h3w4o5k1x1s1x1p0x0d1x1g1") == 0);
    cr_assert(strcmp(talc_check_problem_text("matmul:m2n3k4", text), "matmul:b1m2n3k4") == 0);
    cr_assert(talc_check_problem_text("n1q", text) == NULL);
    assert_failure(TALC_BAD_ARGUMENT, "conv2d: problem 'n1q': expected 'c' at position 2");
    cr_assert(talc_check_problem_text(NULL, text) == NULL);
    assert_failure(TALC_NULL_ARGUMENT, "check: problem is NULL");
    cr_assert(talc_check_problem_text("matmul:m2n3k4", NULL) == NULL);
    assert_failure(TALC_NULL_ARGUMENT, "check: text is NULL");
}

Test(check_sets, bad_sets)
{
    char text[TALC_CHECK_TEXT];
    cr_assert(talc_check_set_problem("fast", 0, 0, text) == NULL);
    assert_failure(TALC_NOT_FOUND,
                   "check: there is no set 'fast'; the sets are quick, edges, models, random");
    cr_assert(talc_check_set_problem("quick ", -1, 0, text) == NULL);
    assert_failure(TALC_NOT_FOUND,
                   "check: there is no set 'quick '; the sets are quick, edges, models, random");
    cr_assert(talc_check_set_problem(NULL, 0, 0, text) == NULL);
    assert_failure(TALC_NULL_ARGUMENT, "check: set is NULL");
    cr_assert(talc_check_set_problem("quick", 0, 0, NULL) == NULL);
    assert_failure(TALC_NULL_ARGUMENT, "check: text is NULL");
}
