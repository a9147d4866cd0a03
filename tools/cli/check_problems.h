/// The problems that talc check is asked for: sets, files, texts.
#ifndef TALC_TOOLS_CLI_CHECK_PROBLEMS_H
#define TALC_TOOLS_CLI_CHECK_PROBLEMS_H

#include <talc/talc.h>

typedef struct check_problems {
    const char *op; ///< only problems of this op are taken; NULL: all
    int64_t random; ///< how many of the random set, all of them of that op
    uint64_t seed;  ///< of it
    char **text;    ///< in full
    int64_t count, capacity;
    int64_t left_out; ///< problems of other ops
} check_problems;

/// Adds what an argument stands for: the problems of a set, the problem of a name or a text, those
/// of a file, one a line with # before comments. False with a talc failure: an unknown set, a text
/// that does not parse, an unreadable file.
bool check_problems_add(check_problems *self, const char *argument);

/// Keeps every `parts`-th problem, from the one at place `part` = 1 .. parts on.
void check_problems_keep(check_problems *self, int64_t part, int64_t parts);

void check_problems_free(check_problems *self);

#endif
