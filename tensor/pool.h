/// The caching pool of a device, and blocks from it. Private to talc.
///
/// Freed blocks are kept and handed out again: fresh pages cost more than most kernels. The cache
/// is bounded: what is reserved exceeds the peak of what was live by no more than a quarter and
/// 64 MiB, and by what is free between pieces of large blocks (tensor/pieces.h). A block belongs to
/// the stream of the thread that took it: on that, reuse follows the order of calls; another stream
/// that is handed it waits for that one first.
#ifndef TALC_TENSOR_POOL_H
#define TALC_TENSOR_POOL_H

#include "tensor/device.h"

typedef struct talc_block {
    void *data;      ///< NULL for no bytes
    size_t capacity; ///< bytes, at least those asked for
    int stream;      ///< after whose work it may be used again, by number (tensor/streams.h)
    struct talc_piece *piece;         ///< of a larger block (tensor/pieces.h); NULL: it is whole
    struct talc_recording *recording; ///< whose the block is (tensor/recording.h); NULL: the pool's
} talc_block;

/// Takes a block of at least `bytes` from the device's pool, undefined content. When the system has
/// no more, cached blocks are given back and it is tried again; then TALC_NO_MEMORY, with asked,
/// held and free bytes. `who` names the op in the message.
talc_status talc_block_new(talc_device *device, const char *who, size_t bytes, talc_block *block);

/// Gives a block back to the pool; a block without data passes. Only work of its own stream may
/// have used it.
void talc_block_free(talc_device *device, talc_block block);

/// The same for a block that other streams have used too, bit i for the one of number i: the
/// block's waits for them.
void talc_block_free_after(talc_device *device, talc_block block, uint32_t streams);

/// Memory that a library keeps for its own use: the system's, not the pool's. When the system has
/// no more, cached blocks are given back first; NULL with a failure as of talc_block_new.
void *talc_library_memory_new(talc_device *device, const char *who, size_t bytes);

/// Gives it back, that of a closed device too; NULL passes.
void talc_library_memory_free(talc_device *device, void *data, size_t bytes);

/// Raises TALC_NO_MEMORY: "who: out of WHAT: asked 8.4 MB (8388608 bytes), held 1.2 GB, free 0
/// bytes". 0 asked or free: unknown.
talc_status talc_out_of_memory(const char *who, const char *what, size_t asked, size_t held,
                               size_t free_bytes);

/// The same for the device's own memory; when it is lost, that instead. Takes no lock.
talc_status talc_device_out_of_memory(talc_device *device, const char *who, size_t asked);

/// Gives page-locked memory back; in a child of fork nothing happens, as it is the parent's.
void talc_pinned_free(talc_device *device, void *data);

/// True, with a failure raised, in a child of fork for a device other than the host's that its
/// parent opened. `who` names the call.
bool talc_device_forked(const talc_device *device, const char *who);

/// True, with a failure raised, for a device that is lost, closed or the parent process's. `who`
/// names the call.
bool talc_device_gone(talc_device *device, const char *who);

/// What a call that has waited for the device's work, with that status, is to return: that, or else
/// what spoiled the work, raised as TALC_PEER_LOST.
talc_status talc_device_waited(talc_device *device, talc_status status);

/// Makes an empty pool for a device, and gives everything back; talc_device_open and
/// talc_device_close call them.
talc_status talc_pool_open(talc_device *device);
void talc_pool_close(talc_device *device);

#endif
