/// Where the numbers of a module stop being finite, for a loss that is NaN or infinite.
///
///     char where[TALC_NONFINITE_TEXT];
///     if (!isfinite(talc_item(loss)) && talc_module_nonfinite(net, images, where))
///         fprintf(stderr, "%s\n", where);               // the output of conv2 (Conv2d)
#ifndef TALC_NN_FINITE_H
#define TALC_NN_FINITE_H

#include "module.h"

TALC_BEGIN_DECLARATIONS

enum { TALC_NONFINITE_TEXT = 512 }; ///< bytes of the text, its NUL included

/// Applies a module to x, layer by layer and without recording, and says what is the first, in the
/// order in which the layers run, that has a NaN or an infinity: "the input", "the parameter weight
/// of conv2 (Conv2d)", "the input of fc1 (Linear)" when no layer before it had one, as after an op
/// of the program's own, or "the output of conv2 (Conv2d)". False, and "", when all is finite, and
/// on failure. It waits for the device after every layer. The mode stays as it is: in train mode
/// running statistics move. Errors: NULL, no memory, and what the module fails with.
TALC_API bool talc_module_nonfinite(talc_module *module, talc_tensor *x,
                                    char where[TALC_NONFINITE_TEXT]);

TALC_END_DECLARATIONS

#endif
