/// Precision classes: how accurate an algorithm's results are.
///
/// With u the unit roundoff (2^-24 for f32, 2^-53 for f64), K the number of products that make up
/// an output and S = sum |x||w| + |bias| of that output:
///
///   STRICT    every output is within (K + 2) u S of the exact value on any data, and a NaN or
///             infinity in the input touches only the outputs whose window holds it. Always
///             admitted.
///   NORMWISE  as accurate in norm, but an output's error follows the largest values near it (FFT).
///   TF32      operands rounded to 10 bits of fraction: a relative error of about 3e-4. A denormal
///             operand may count as 0.
///
/// A caller admits classes per thread here or per call in an op's options. An algorithm of another
/// class refuses.
#ifndef TALC_TENSOR_PRECISION_H
#define TALC_TENSOR_PRECISION_H

#include "api.h"

TALC_BEGIN_DECLARATIONS

typedef enum talc_precision { TALC_STRICT = 1, TALC_NORMWISE = 2, TALC_TF32 = 4 } talc_precision;

/// "strict", "normwise", "tf32"; "?" for another number.
TALC_API const char *talc_precision_name(talc_precision precision);

/// The classes that this thread admits, as flags: TALC_STRICT unless TALC_PRECISION in the
/// environment says more.
TALC_API unsigned talc_precision_admitted(void);

/// Sets them for this thread; STRICT stays admitted. False, with a failure, for an unknown flag.
TALC_API bool talc_precision_admit(unsigned classes);

TALC_END_DECLARATIONS

#endif
