/// The CPU backend's thread pool. Private to backends/cpu.
///
/// Work is cut into numbered pieces whose content depends on the problem alone, never on how many threads there
/// are or which of them runs a piece: so results are the same to the bit for every thread count.
#ifndef TALC_BACKENDS_CPU_THREADS_H
#define TALC_BACKENDS_CPU_THREADS_H

#include "tensor/error.h"

/// One piece of work. `worker`, 0 .. talc_cpu_threads()-1, tells concurrent pieces apart, for scratch space.
typedef void talc_piece_function(void *context, int64_t piece, int worker);

/// Runs pieces 0 .. count-1, spread over the threads; returns when all are done. A failure that a piece raises is
/// raised in the calling thread and returned. Called from within a piece, or while another thread's work occupies
/// the pool, it runs the pieces in the calling thread.
talc_status talc_cpu_parallel(int64_t count, talc_piece_function *piece, void *context);

/// The same with at most `workers` pieces at a time, and `worker` below that number: for work whose scratch space is
/// limited.
talc_status talc_cpu_parallel_limited(int64_t count, int workers, talc_piece_function *piece,
                                      void *context);

/// How many threads work at once, the caller included.
int talc_cpu_threads(void);

/// How many processors the process may use.
int talc_cpu_processors(void);

/// From here on this thread runs all its pieces itself.
void talc_cpu_stay_alone(void);

/// Pieces of about `step` elements that cover `total`: how many there are. Piece i covers elements
/// i * step .. min((i + 1) * step, total) - 1.
int64_t talc_cpu_pieces(int64_t total, int64_t step);

#endif
