/// What every algorithm row of a backend's table begins with.
///
/// A backend supplies, for each op, a list of rows, most specialised first, the general `reference` last, ended by a
/// row without a name. The first row that does not refuse, is of an admitted precision class and fits the workspace
/// limit runs.
#ifndef TALC_OPS_ALGORITHM_H
#define TALC_OPS_ALGORITHM_H

#include "../tensor/device.h"
#include "../tensor/precision.h"

TALC_BEGIN_DECLARATIONS

/// How an algorithm computes, so that its error bound follows (tensor/precision.h).
typedef struct talc_arithmetic {
    const char *text;         ///< for people: "f32 FMA", "f64 accumulation"
    talc_precision precision; ///< its class
    bool wide_accumulator;    ///< sums are kept in f64 even for f32 data: one rounding an output
} talc_arithmetic;

/// What a problem asks for: the op itself, or its gradient by the input or by the weights.
typedef enum talc_direction { TALC_FORWARD, TALC_GRAD_INPUT, TALC_GRAD_WEIGHT } talc_direction;

typedef struct talc_algorithm {
    const char *name; ///< the method: "im2col"; NULL ends a list
    talc_arithmetic arithmetic;
} talc_algorithm;

/// Forces one algorithm by name for this thread's calls of an op: "conv2d", "linear", "max_pool2d", "sum", "relu", ..., the
/// name that begins its error messages. NULL takes that back. Whether the device has such a row shows when the op runs;
/// concat, which has no rows, takes no notice. An algorithm named in an op's options wins. Errors: NULL op, more than 16
/// ops forced, a name that is empty or over 31 characters.
TALC_API bool talc_algorithm_force(const char *op, const char *name);

/// The name forced on this thread for an op; NULL when there is none, and for a NULL op. Lasts until the next force.
TALC_API const char *talc_algorithm_forced(const char *op);

TALC_END_DECLARATIONS

#endif
