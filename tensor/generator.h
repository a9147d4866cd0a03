/// What ops that draw random numbers on their way need of the thread's generator. Private to talc.
#ifndef TALC_TENSOR_GENERATOR_H
#define TALC_TENSOR_GENERATOR_H

#include "tensor/random.h"

/// Puts the generator back as it was before a call that failed, which does not count; works while
/// the failure stands.
void talc_generator_restore(talc_generator before);

#endif
