/// The caching pool of a device, and blocks from it. Private to talc.
///
/// Freed blocks are kept and handed out again: fresh pages cost more than most kernels. The cache is bounded: what
/// is reserved never exceeds the peak of what was live by more than 64 MiB. Reuse follows the order of calls, which
/// suits a device whose work is ordered.
#ifndef TALC_TENSOR_POOL_H
#define TALC_TENSOR_POOL_H

#include "tensor/device.h"

typedef struct talc_block {
    void *data;                       ///< NULL for no bytes
    size_t capacity;                  ///< bytes, at least those asked for
    struct talc_recording *recording; ///< whose the block is (tensor/recording.h); NULL: the pool's
} talc_block;

/// Takes a block of at least `bytes` from the device's pool, undefined content. When the system has no more, cached
/// blocks are given back and it is tried again; then TALC_NO_MEMORY, with asked, held and free bytes. `who` names
/// the op in the message.
talc_status talc_block_new(talc_device *device, const char *who, size_t bytes, talc_block *block);

/// Gives a block back to the pool; a block without data passes.
void talc_block_free(talc_device *device, talc_block block);

/// Makes an empty pool for a device, and gives everything back; talc_device_open and talc_device_close call them.
talc_status talc_pool_open(talc_device *device);
void talc_pool_close(talc_device *device);

#endif
