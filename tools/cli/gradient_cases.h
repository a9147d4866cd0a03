/// What `talc check grad` checks: the library's ops and the example models, by name.
#ifndef TALC_TOOLS_CLI_GRADIENT_CASES_H
#define TALC_TOOLS_CLI_GRADIENT_CASES_H

#include <talc/talc.h>

enum { GRADIENT_INPUTS = 4 };

/// An op on some inputs, or a module on one.
typedef struct gradient_case {
    const char *name, *what; ///< "conv2d", "strided, padded"; "" when there is nothing to add
    talc_differentiable *f;  ///< NULL: a module
    int count;               ///< of inputs
    talc_dims dims[GRADIENT_INPUTS];
    double low, high; ///< of their elements, of which none is near 0 where both signs occur
    talc_module *(*make)(void);
} gradient_case;

/// All of them, those of one name one after the other; the last has no name.
extern const gradient_case gradient_cases[];

/// Whether there are some of that name.
bool gradient_case_known(const char *name);

/// The names with commas between, cut where they do not fit.
const char *gradient_case_names(char *text, size_t size);

/// Makes the inputs or the module on the device, from the thread's generator, and checks. False
/// when the gradient is off by more than the tolerance, which is no failure, or with one.
bool gradient_case_check(const gradient_case *c, talc_device *device, uint64_t seed,
                         talc_gradient_report *report);

#endif
