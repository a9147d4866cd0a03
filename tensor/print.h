/// Tensors as text.
///
///     tensor f32 [2,3] on cpu
///     [[ 0.0000,  1.5000, -2.2500],
///      [ 3.0000,      nan,  5.0000]]
///
/// All numbers of a tensor share one form: whole numbers as `3.`; else four decimals, or scientific
/// with four where the largest magnitude is outside 0.001 .. 99999. A tensor of more than 1000
/// elements shows the first and the last three of each dimension longer than six, and only these
/// are read from the device. Rows wrap at 80 columns. These three numbers are talc_print_options.
#ifndef TALC_TENSOR_PRINT_H
#define TALC_TENSOR_PRINT_H

#include "tensor.h"

#include <stdio.h>

TALC_BEGIN_DECLARATIONS

/// Prints a tensor, "NULL" for NULL. While a failure stands, elements cannot be read: then the
/// first line and the failure's message are printed. False when elements were not read, with the
/// failure raised, and when the stream has an error, which ferror tells and talc does not raise.
TALC_API bool talc_print(FILE *file, const talc_tensor *tensor);

/// Zero means the default.
typedef struct talc_print_options {
    int64_t width;     ///< columns of a line, at least 20; 0: 80
    int64_t precision; ///< decimals of numbers that are not whole, up to 17; 0: 4; TALC_ZERO: none
    int64_t threshold; ///< elements of a tensor that is shown whole; 0: 1000
} talc_print_options;

/// The same by options, which may be NULL. Errors besides: a width below 20, a precision that is
/// not 0 to 17, a negative threshold.
TALC_API bool talc_print_with(FILE *file, const talc_tensor *tensor,
                              const talc_print_options *options);

TALC_END_DECLARATIONS

#endif
