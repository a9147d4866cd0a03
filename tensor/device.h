/// Devices: where tensors live and ops run, and their memory.
///
/// talc_device_get and talc_device_default (backends/backends.h) find one. Memory comes from a
/// caching pool that each device has; the pool's counts are readable, and running out of memory is
/// an error the program survives.
///
/// The second half of this header is the interface that a backend implements; programs do not need
/// it.
#ifndef TALC_TENSOR_DEVICE_H
#define TALC_TENSOR_DEVICE_H

#include "tensor.h"

TALC_BEGIN_DECLARATIONS

/// The device's name as talc_device_get takes it: "cpu", "cuda:0". "?" for NULL.
TALC_API const char *talc_device_name(const talc_device *device);

/// True when the host may touch the device's memory directly.
TALC_API bool talc_device_is_host(const talc_device *device);

/// The CPU, on which modules make their parameters. Implemented next to talc_device_get.
TALC_API talc_device *talc_device_host(void);

/// Waits for all work that any thread has queued on the device by now, on every stream, and raises
/// what went wrong in it. Only a stream that the program is capturing itself is passed over, as
/// such work does not run.
TALC_API bool talc_device_synchronize(talc_device *device);

/// Times a device's work between two points, by the device's own clock; other work on a GPU counts
/// only as far as it delays that.
typedef struct talc_timer talc_timer;

/// Starts a timer after the work queued so far. NULL with a failure; work that is being recorded
/// cannot be timed.
TALC_API talc_timer *talc_timer_start(talc_device *device);

/// Stops it after the work queued so far, waits for that work, and returns the seconds between.
/// Frees the timer in any case; negative with a failure, and for NULL.
TALC_API double talc_timer_stop(talc_timer *timer);

/// Memory of a device, in bytes: its pool, and what libraries hold outside it.
typedef struct talc_memory {
    size_t live;     ///< held by tensors and running ops now
    size_t peak;     ///< the maximum that was live since the start or talc_memory_reset_peak
    size_t reserved; ///< taken from the system for the pool: live and cached
    /// Taken from the system besides, until the device is closed: on a GPU 32 MiB for cuBLAS for
    /// each of the streams that have run products at the same time.
    size_t libraries;
    size_t free;  ///< what the system still has; 0 when unknown
    size_t total; ///< what the device has; 0 when unknown
} talc_memory;

/// The counts now; all 0 for NULL.
TALC_API talc_memory talc_device_memory(talc_device *device);

/// Makes the peak what is live now. Cached blocks beyond a quarter of it and 64 MiB go back to the
/// system.
TALC_API void talc_memory_reset_peak(talc_device *device);

/// How many results of algorithms on tensor cores were computed again by FFMA since the last call,
/// since elements far smaller than those around them, or not finite, may have made them wrong.
/// Waits for the calling thread's stream. 0 for NULL, and where there are no such algorithms.
TALC_API uint64_t talc_device_recomputed(talc_device *device);

/// Gives cached blocks, and page-locked memory that is kept for the next talc_pinned, back to the
/// system; returns how many bytes. What is free of a block whose other part is in use stays.
TALC_API size_t talc_memory_trim(talc_device *device);

/// The maximum of workspace that an op may use on this device, in bytes: 32 MiB on the CPU unless
/// TALC_WORKSPACE_MB says otherwise. Algorithms that can work in chunks make them this small;
/// others refuse. What libraries keep (talc_memory) is not counted, as it does not grow with the
/// problem.
TALC_API size_t talc_workspace_limit(const talc_device *device);

/// Sets it, for all threads. False, with a failure, for NULL.
TALC_API bool talc_workspace_set_limit(talc_device *device, size_t bytes);

/// Closes a device: its memory, streams and libraries are given back, and talc_device_get opens it
/// again. No other thread may be using it. The pointer stays valid; until then only queries answer,
/// all else refuses it. False, with a failure that says how many bytes, while tensors on it live,
/// and while a stream is entered; NULL and a closed device pass.
TALC_API bool talc_device_close(talc_device *device);

// ---- What a backend implements ------------------------------------------------------------------

/// A strided copy within one device, casting: dst[i...] = (dst_dtype)src[i...]. Adjacent dimensions
/// that can be walked as one are already merged. Strides in elements; src strides may be 0.
typedef struct talc_copy_problem {
    talc_dtype dst_dtype, src_dtype;
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t dst_strides[TALC_MAX_RANK];
    int64_t src_strides[TALC_MAX_RANK];
} talc_copy_problem;

/// A strided write of one value.
typedef struct talc_fill_problem {
    talc_dtype dtype;
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t strides[TALC_MAX_RANK];
    double value;
} talc_fill_problem;

/// The maximum number of arrays that one join takes.
enum { TALC_JOIN_PARTS = 8 };

/// Rows of bytes from several arrays, side by side: dst[r * pitch + start + b] = from[r * bytes +
/// b], with `start` and `bytes` of each part and b < bytes. No part is empty, and dst overlaps no
/// source.
typedef struct talc_join_problem {
    int64_t rows;
    size_t pitch; ///< bytes from a row of dst to the next
    int count;    ///< 1 .. TALC_JOIN_PARTS
    struct {
        const void *from;
        size_t start, bytes;
    } parts[TALC_JOIN_PARTS];
} talc_join_problem;

typedef enum talc_distribution { TALC_UNIFORM, TALC_NORMAL, TALC_INTEGERS } talc_distribution;

/// `count` contiguous random elements; element i depends on (seed, call, i) alone
/// (tensor/philox.h).
typedef struct talc_random_problem {
    talc_dtype dtype;
    talc_distribution distribution;
    int64_t count;
    double a, b; ///< uniform: [a, b); normal: mean a, standard deviation b
    /// Uniform: the ends of [a, b) that dtype holds; results are clamped to them.
    double lowest, highest;
    int64_t low; ///< integers: low .. low + range - 1
    uint64_t range;
    uint64_t seed, call;
    const uint64_t
        *counter; ///< seed and call, in the device's memory, instead of those; NULL: none
} talc_random_problem;

typedef struct talc_device_properties {
    char description[128];            ///< processor or GPU name
    int units;                        ///< threads used, or multiprocessors
    size_t memory_total, memory_free; ///< bytes; 0 when unknown
} talc_device_properties;

/// What a device can do apart from ops. Functions that fail raise the failure with talc_fail and
/// return its status. Work is ordered: each call acts as if it ran after all earlier ones on this
/// device and, where it has streams, on the stream of the calling thread. Those marked so may be
/// NULL.
typedef struct talc_device_interface {
    /// Memory from the system, at least 64-byte aligned; NULL when there is none (no failure is
    /// raised).
    void *(*allocate)(talc_device *device, size_t bytes);
    void (*deallocate)(talc_device *device, void *data, size_t bytes);
    talc_status (*copy)(talc_device *device, const talc_copy_problem *problem, void *dst,
                        const void *src);
    talc_status (*join)(talc_device *device, const talc_join_problem *problem, void *dst);
    talc_status (*fill)(talc_device *device, const talc_fill_problem *problem, void *dst);
    talc_status (*random)(talc_device *device, const talc_random_problem *problem, void *dst);
    /// Contiguous bytes from and to pageable host memory; complete on return.
    talc_status (*upload)(talc_device *device, void *dst, const void *host, size_t bytes);
    talc_status (*download)(talc_device *device, void *host, const void *src, size_t bytes);
    /// Waits for the calling thread's stream; then for those of all threads (talc_streams_each),
    /// NULL where there are no streams.
    talc_status (*synchronize)(talc_device *device);
    talc_status (*synchronize_all)(talc_device *device);
    uint64_t (*recomputed)(talc_device *device); ///< see talc_device_recomputed; may be NULL
    /// Makes a timer that starts here in the order of work, into *timer; then stops it here, waits
    /// and frees it.
    talc_status (*timer_start)(talc_device *device, void **timer);
    talc_status (*timer_stop)(talc_device *device, void *timer, double *seconds);
    void (*properties)(talc_device *device, talc_device_properties *properties);
    /// On devices that can repeat work as one; NULL elsewhere. From record_begin to record_end what
    /// this thread asks of the device, other threads' work not, is noted and not done. record_end
    /// returns what was noted, NULL with a failure raised, and ends noting in any case; replay does
    /// it, and may be called again at once; record_free waits for replays that still run.
    talc_status (*record_begin)(talc_device *device);
    void *(*record_end)(talc_device *device);
    talc_status (*replay)(talc_device *device, void *noted);
    void (*record_free)(talc_device *device, void *noted);
    /// Names what this thread asks of the device from begin to end, for a profiler; calls nest.
    /// Called only on devices whose `ranges` is set, so NULL elsewhere.
    void (*range_begin)(talc_device *device, const char *name);
    void (*range_end)(talc_device *device);
    /// Raises why the device no longer works, if it does not; `who` names the op. NULL: it always
    /// does.
    talc_status (*alive)(talc_device *device, const char *who);
    /// Host memory that the device reaches itself (talc_pinned): taken, NULL with a failure raised,
    /// and given back, which lets copies end first; `trim` frees what is kept for reuse and counts
    /// its bytes, NULL where nothing is. Copies of contiguous bytes are queued; `await` waits for
    /// those of one block and raises what went wrong by then. NULL, all: there is no such memory.
    void *(*pin)(talc_device *device, size_t bytes);
    void (*unpin)(talc_device *device, void *host);
    size_t (*trim)(talc_device *device);
    talc_status (*send)(talc_device *device, void *dst, const void *host, size_t bytes);
    talc_status (*receive)(talc_device *device, void *host, const void *src, size_t bytes);
    talc_status (*await)(talc_device *device, const void *host);
    /// Contiguous bytes from another device of the same interface, in order with the work of both.
    /// NULL: through the host.
    talc_status (*from_peer)(talc_device *device, void *dst, talc_device *peer, const void *src,
                             size_t bytes);
    /// What is queued on `stream` from now on waits for what is queued on `after` by now; both are
    /// numbers of tensor/streams.h. NULL: there are no streams.
    talc_status (*order)(talc_device *device, int stream, int after);
    /// Raises why a caller's stream, not NULL, cannot be entered: one of another device, say. NULL:
    /// any can.
    talc_status (*takes_stream)(talc_device *device, void *stream);
    /// The calling thread's stream, as callers know streams. NULL where there are none.
    void *(*stream)(talc_device *device);
    /// A new stream for talc_stream_enter, NULL with a failure raised; given back once it is left.
    /// NULL, both, where there are none.
    void *(*stream_new)(talc_device *device);
    void (*stream_free)(talc_device *device, void *stream);
    /// Gives back what opening took; the pool is gone already. NULL: nothing.
    void (*close)(talc_device *device);
    /// What a backward pass adds gradients with, ops like any other: a + b of one shape; x summed
    /// over some dimensions, which stay with extent 1 where `keep_dims`.
    talc_tensor *(*add)(const talc_tensor *a, const talc_tensor *b);
    talc_tensor *(*sum)(const talc_tensor *x, talc_dims axes, bool keep_dims);
    /// For work beside the calling thread's, of a library that takes streams. What is queued from
    /// now on on `stream`, of stream_new, waits for what the thread has asked of the device by now,
    /// also while that is being recorded; with `back`, the other way round. Then whether all that
    /// was queued on it is done. NULL, both, where there are no streams.
    talc_status (*stream_wait)(talc_device *device, void *stream, bool back);
    bool (*stream_idle)(talc_device *device, void *stream);
} talc_device_interface;

struct talc_pool;
struct talc_streams;
struct talc_backend;

/// A device. Backends make these; everyone else reads.
struct talc_device {
    char name[24];
    bool is_host;
    const talc_device_interface *interface;
    const struct talc_backend *backend; ///< its algorithm tables (ops/backend.h)
    struct talc_pool *pool;             ///< NULL while the device is closed
    struct talc_streams *streams;       ///< of callers (tensor/streams.h); NULL before the first
    size_t workspace_limit;
    bool ranges; ///< a profiler listens to range_begin and range_end
    void *state; ///< the backend's own
    /// Why work that is queued has not come out as it should, though the device works: a member of
    /// a group is gone. The next call that waits raises it, once (tensor/pool.h). NULL: it has.
    const char *spoiled;
};

/// Sets up what every device has; a backend calls it on a zeroed device whose first four fields are
/// set.
TALC_API talc_status talc_device_open(talc_device *device);

TALC_END_DECLARATIONS

#endif
