/// Who computes which element of a result: what an algorithm can tell of its own geometry.
///
/// An owner is a number at each level: block 3, warp 1, lane 17, sum 2. `element` says what the
/// owner computes, by the same functions that the kernel finds its outputs with. Every element has
/// one owner; where a sum is split (split-K), one at each number of the level of kind
/// TALC_LEVEL_SPLIT.
#ifndef TALC_OPS_OWNER_MAP_H
#define TALC_OPS_OWNER_MAP_H

#include "../tensor/precision.h"

TALC_BEGIN_DECLARATIONS

typedef enum talc_level_kind {
    TALC_LEVEL_TASK,     ///< one thread of the CPU at a time
    TALC_LEVEL_TILE,     ///< of outputs
    TALC_LEVEL_VECTOR,   ///< a vector register of a microkernel
    TALC_LEVEL_LANE,     ///< of a vector, or a thread of a warp
    TALC_LEVEL_BLOCK,    ///< of a GPU
    TALC_LEVEL_WARP,     ///< of a block
    TALC_LEVEL_REGISTER, ///< of a thread
    TALC_LEVEL_SPLIT,    ///< a share of the terms (split-K)
    TALC_LEVEL_SEQUENCE, ///< one after the other: of loops alone
    TALC_LEVEL_KIND_COUNT
} talc_level_kind;

/// "task", "tile", "vector", "lane", "block", "warp", "register", "split", "sequence"; "?" for
/// another number.
TALC_API const char *talc_level_kind_name(talc_level_kind kind);

typedef struct talc_level {
    const char *name; ///< "block"
    talc_level_kind kind;
    int64_t extent; ///< numbers are 0 .. extent - 1
} talc_level;

/// What a loop over the terms of a sum counts.
typedef enum talc_loop_index {
    TALC_LOOP_TERM,    ///< the term's number k
    TALC_LOOP_CHANNEL, ///< its channel: k / (KH * KW)
    TALC_LOOP_TAP,     ///< kh * KW + kw: k % (KH * KW)
    TALC_LOOP_INDEX_COUNT
} talc_loop_index;

/// "term", "channel", "tap"; "?" for another number.
TALC_API const char *talc_loop_index_name(talc_loop_index index);

/// A loop over terms, outermost first. It stands at (index / step) % extent when a term is added.
typedef struct talc_loop {
    const char *name; ///< "K tile"
    talc_loop_index index;
    int64_t step, extent;
    talc_level_kind kind; ///< TALC_LEVEL_SEQUENCE; of a split, whose number it is, TALC_LEVEL_SPLIT
} talc_loop;

/// Where the loop stands at term k of a kernel of so many taps.
static inline int64_t talc_loop_at(const talc_loop *loop, int64_t k, int64_t taps)
{
    const int64_t index = loop->index == TALC_LOOP_TERM      ? k
                          : loop->index == TALC_LOOP_CHANNEL ? k / taps
                                                             : k % taps;
    return index / loop->step % loop->extent;
}

/// How a block of a GPU loads what it multiplies next: loader warps fill buffers of shared memory
/// one after the other, each with what the body of the outermost sequential loop needs, and groups
/// of warps multiply from them, the second some rounds of that loop behind the first. All 0 where
/// every warp does both.
typedef struct talc_pipeline {
    int loaders, multipliers, buffers, lag;
} talc_pipeline;

enum { TALC_MAP_LEVELS = 8, TALC_MAP_LOOPS = 6, TALC_MAP_TEXT = 208 };

typedef struct talc_owner_map talc_owner_map;
struct talc_owner_map {
    int levels, loops;
    talc_level level[TALC_MAP_LEVELS]; ///< outermost first
    talc_loop loop[TALC_MAP_LOOPS];
    char text[TALC_MAP_TEXT]; ///< in words: "tiles of 8 rows of 32 outputs, halo tile 10 x 34"
    /// The element of the result that an owner computes, counted as it lies in memory; -1: none.
    int64_t (*element)(const talc_owner_map *map, const int64_t numbers[TALC_MAP_LEVELS]);
    /// What each lane of a GPU does by itself: it reads its elements of x where they stand in
    /// memory, a term at a time; it writes its results to memory, a register at a time.
    bool reads, stores;
    /// The word of shared memory that a lane reads for term k, -1 where it has read it before;
    /// NULL: not told.
    int64_t (*shared)(const talc_owner_map *map, const int64_t numbers[TALC_MAP_LEVELS], int64_t k);
    talc_pipeline pipeline;
    union {
        int64_t alignment;
        unsigned char bytes[2048];
    } data; ///< what `element` needs
};

/// The processor that an algorithm is planned for.
typedef struct talc_map_target {
    const char *name;    ///< "h200"; of a CPU its vectors: "portable", "avx2", "avx512"
    int64_t cache_bytes; ///< CPU: of a core's L2 cache; 0: this machine's
    int capability;      ///< GPU: 90 is compute capability 9.0
    int multiprocessors; ///< GPU
    int block_shared;    ///< GPU: bytes of shared memory that a block may ask for
} talc_map_target;

/// What a map function says of a problem that the algorithm may do, but that it has no map of.
#define TALC_NO_MAP "no map yet"

/// Fills the map for a problem of the algorithm's op, with a workspace of at most `limit` bytes.
/// NULL; else why the algorithm does not do this problem, or TALC_NO_MAP.
typedef const char *talc_map_function(const talc_map_target *target, const void *problem,
                                      size_t limit, talc_owner_map *map);

/// An algorithm of a backend's table, which may not be part of this build.
typedef struct talc_mapped_algorithm {
    const char *name, *form; ///< form may be NULL; name NULL ends a list
    talc_precision precision;
    talc_map_function *map; ///< NULL: it has none yet
} talc_mapped_algorithm;

TALC_END_DECLARATIONS

#endif
