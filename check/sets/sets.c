#include "check/sets/sets.h"

#include "check/engine/data.h"
#include "check/engine/family.h"
#include "tensor/fenv.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <string.h>

/* The choices of a list that begins at a brace. */
static int64_t choices_of(const char *list)
{
    int64_t count = 1;
    for (; *list != '}'; list++)
        count += *list == '|';
    return count;
}

/* How many problems a text of a set stands for. */
static int64_t problems_of(const char *text)
{
    int64_t count = 1;
    for (const char *list = strchr(text, '{'); list != NULL; list = strchr(list + 1, '{'))
        count *= choices_of(list);
    return count;
}

/* Writes the problem of that number, 0 .. problems_of - 1. */
static void choose(const char *text, int64_t number, char problem[TALC_CHECK_TEXT])
{
    problem[0] = '\0';
    for (const char *list; (list = strchr(text, '{')) != NULL; text = strchr(list, '}') + 1) {
        const int64_t count = choices_of(list);
        talc_check_append(problem, "%.*s", (int)(list - text), text);
        for (int64_t i = number % count; i > 0; i--)
            list = strchr(list, '|') + 1;
        list += *list == '{';
        talc_check_append(problem, "%.*s", (int)strcspn(list, "|}"), list);
        number /= count;
    }
    talc_check_append(problem, "%s", text);
}

/* The text in full, as its family prints it. */
static const char *in_full(const char *problem, char text[TALC_CHECK_TEXT])
{
    check_problem read;
    const check_direction *direction = talc_check_parse(problem, &read);
    return direction == NULL ? NULL : talc_check_write(direction, &read, text);
}

const char *talc_check_problem_text(const char *problem, char text[TALC_CHECK_TEXT])
{
    if (talc_operand_missing("check", "problem", problem) ||
        talc_operand_missing("check", "text", text))
        return NULL;
    return in_full(problem, text);
}

/* Of every sixteen ten are convolutions, the directions of other families take turns. */
static const check_direction *direction_of(int64_t index)
{
    int others = 0;
    for (int d = 0; talc_check_direction_at(d) != NULL; d++)
        others += talc_check_direction_at(d) != &talc_check_conv2d;
    if (index % 16 < 10)
        return &talc_check_conv2d;
    int64_t turn = (index / 16 * 6 + index % 16 - 10) % others;
    for (int d = 0;; d++)
        if (talc_check_direction_at(d) != &talc_check_conv2d && turn-- == 0)
            return talc_check_direction_at(d);
}

static const char *random_problem(int64_t index, uint64_t seed, char text[TALC_CHECK_TEXT])
{
    const check_direction *direction = direction_of(index);
    check_problem problem;
    talc_check_random(direction, talc_check_bits(seed, (uint64_t)index), &problem);
    return talc_check_write(direction, &problem, text);
}

/* List `index` of a set: those of the families, or the one list of models. NULL after the last, and
 * at once for a set without lists. */
static const char *const *list_of(const char *set, int index)
{
    if (strcmp(set, "models") == 0)
        return index == 0 ? talc_check_models : NULL;
    const check_family *family =
        index < TALC_OP_COUNT ? talc_check_direction_at(index)->family : NULL;
    return family == NULL              ? NULL
           : strcmp(set, "quick") == 0 ? family->quick
           : strcmp(set, "edges") == 0 ? family->edges
                                       : NULL;
}

const char *talc_check_set_problem(const char *set, int64_t index, uint64_t seed,
                                   char text[TALC_CHECK_TEXT])
{
    TALC_DEFAULT_FENV;
    if (talc_operand_missing("check", "set", set) || talc_operand_missing("check", "text", text))
        return NULL;
    const bool random = strcmp(set, "random") == 0;
    if (!random && list_of(set, 0) == NULL) {
        talc_fail(TALC_NOT_FOUND,
                  "check: there is no set '%s'; the sets are quick, edges, models, random",
                  TALC_SHOWN(set));
        return NULL;
    }
    if (index < 0)
        return NULL;
    if (random)
        return random_problem(index, seed, text);
    const char *const *problems;
    for (int i = 0; (problems = list_of(set, i)) != NULL; i++)
        for (; *problems != NULL; problems++) {
            if (index < problems_of(*problems)) {
                char problem[TALC_CHECK_TEXT];
                choose(*problems, index, problem);
                return in_full(problem, text);
            }
            index -= problems_of(*problems);
        }
    return NULL;
}
