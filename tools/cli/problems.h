/// Convolution problems that have names: those that talc is measured on.
#ifndef TALC_TOOLS_CLI_PROBLEMS_H
#define TALC_TOOLS_CLI_PROBLEMS_H

#include <talc/talc.h>

typedef struct named_problem {
    const char *set;  ///< "seeds", "cpu", "gpu"; a problem stands once
    const char *name; ///< "A1"; NULL ends the table
    const char *text; ///< as talc_conv2d_problem_parse reads it
    const char *what; ///< for people
} named_problem;

/// Every named problem, the sets one after another.
extern const named_problem named_problems[];

/// The named problem, NULL when there is none.
const named_problem *problem_named(const char *name);

/// The problem of a name, or of one that ends in _dx or _dw: its gradient. False, without a
/// failure, when there is none.
bool problem_read_named(const char *text, talc_conv2d_problem *problem);

/// The problem of a name or a problem string; false, with a talc failure, when it is neither.
bool problem_read(const char *text, talc_conv2d_problem *problem);

#endif
