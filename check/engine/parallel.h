/// Spreading the check's own loops over the cores: filling, encoding, the oracle, judging. Private
/// to check/.
///
/// The threads are the check's own, so that it shares no code with what it checks. Chunks follow
/// from the count alone, and what they find is joined in their order: no result depends on the
/// number of threads.
#ifndef TALC_CHECK_ENGINE_PARALLEL_H
#define TALC_CHECK_ENGINE_PARALLEL_H

#include <stdint.h>

enum { CHECK_CHUNKS = 64 };

/// Elements first .. end - 1, which are chunk `index` of at most CHECK_CHUNKS. May raise no
/// failure.
typedef void check_chunk(void *context, int index, int64_t first, int64_t end);

/// Does all chunks of `count` elements and waits for them. `cost` is about how many nanoseconds an
/// element takes: too little work for a second thread is done by the caller. At most talc_threads()
/// run at once, other loops of the check included.
void talc_check_parallel(int64_t count, double cost, check_chunk *chunk, void *context);

/// Counts `change` more threads as busy (or fewer): those that check problems at once
/// (check/engine/many.c).
void talc_check_busy(int change);

#endif
