/// Host memory of the library's own records. Private to talc.
///
/// Every allocation of the library, host records and device blocks alike, asks
/// talc_allocation_allowed first, so that the tests can make any one of them fail.
#ifndef TALC_TENSOR_MEMORY_H
#define TALC_TENSOR_MEMORY_H

#include "tensor/error.h"

/// Decides whether an allocation of `bytes` may succeed; NULL, the normal case, allows all. Set by
/// tests only, while no other thread uses the library.
extern bool (*talc_allocation_hook)(size_t bytes);

bool talc_allocation_allowed(size_t bytes);

/// Zeroed memory, freed by talc_memory_free; NULL with TALC_NO_MEMORY raised. `what` names it in
/// the message.
void *talc_memory_new(size_t bytes, const char *what);
void talc_memory_free(void *memory); ///< NULL passes

/// Room for one more element of `size` bytes in a list of `count`: the list itself while there is
/// some of *room, else a longer one in its place. NULL with TALC_NO_MEMORY raised, the list and
/// *room as they were.
void *talc_memory_grown(void *list, size_t count, size_t *capacity, size_t size, const char *what);

/// A copy of a string, freed by talc_memory_free.
char *talc_memory_string(const char *text);

/// What a caller gets to name an open scope or stream: no address, and never the same again in this
/// process, so that one that is left twice, or on another thread, is not taken for another.
void *talc_handle_new(void);

/// *product = a * b, or false when it does not fit. Negative factors do not fit.
bool talc_multiply(int64_t a, int64_t b, int64_t *product);
/// *sum = a + b, or false when it does not fit.
bool talc_add_checked(int64_t a, int64_t b, int64_t *sum);

#endif
