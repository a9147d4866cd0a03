/// Pieces of large blocks. Private to tensor/pool.c, which holds its lock.
///
/// A cached block that is large serves a smaller request by a piece, and the rest stays cached. A
/// piece that is freed grows together with its free neighbours, in the end to the whole block,
/// which alone can be given back to the system. All pieces of a block are of one stream.
#ifndef TALC_TENSOR_PIECES_H
#define TALC_TENSOR_PIECES_H

#include "tensor/cache.h"

typedef struct talc_piece {
    struct talc_piece *before, *after; ///< its neighbours in memory
    talc_block block;
    bool free;
    size_t cached; ///< its place in the cache; 0: none
} talc_piece;

/// Cuts a block after `capacity` bytes. False without memory, and the block is as it was.
bool talc_piece_split(talc_block *block, size_t capacity, talc_block *rest);

/// A piece that is freed, with its free neighbours, which leave the cache.
talc_block talc_piece_join(talc_cache *cache, talc_block block);

#endif
