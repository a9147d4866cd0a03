/// Spreading the check's own loops over the cores: filling, encoding, the oracle, judging. Private to check/.
///
/// Threads of its own, so that nothing here shares code with what is checked. Pieces follow from the count alone, and what they
/// find is joined in their order: no result depends on the number of threads.
#ifndef TALC_CHECK_PARALLEL_H
#define TALC_CHECK_PARALLEL_H

#include <stdint.h>

enum { CHECK_PIECES = 64 };

/// Elements first .. end - 1, which are piece `index` of at most CHECK_PIECES. May raise no failure.
typedef void check_piece(void *context, int index, int64_t first, int64_t end);

/// Does all pieces of `count` elements and waits for them. `cost` is about how many nanoseconds an element takes: little work
/// stays on this thread. At most talc_threads() work at once, those that are busy elsewhere in the check counted.
void talc_check_parallel(int64_t count, double cost, check_piece *piece, void *context);

/// Counts `change` more threads as busy: they check problems of their own.
void talc_check_busy(int change);

#endif
