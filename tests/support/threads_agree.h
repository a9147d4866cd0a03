/// Forward passes of one module by several threads at once.
#ifndef TALC_TESTS_THREADS_AGREE_H
#define TALC_TESTS_THREADS_AGREE_H

#include "talc.h"

/// Fails the test unless four threads that begin together, and this one after them, get the same
/// elements to the bit.
void assert_threads_agree(talc_module *module, talc_tensor *x);

#endif
