/// Memory that is taken piece by piece and freed at once. Private to onnx/.
#ifndef TALC_ONNX_ARENA_H
#define TALC_ONNX_ARENA_H

#include <stddef.h>

typedef struct talc_onnx_arena {
    struct talc_onnx_chunk *chunks; ///< the newest first
} talc_onnx_arena;

/// Zeroed memory for any type; NULL with TALC_NO_MEMORY raised.
void *talc_onnx_take(talc_onnx_arena *arena, size_t bytes);

/// The memory at `old`, of `old_bytes`, with `bytes` in all, more or fewer: in place where nothing
/// was taken since then, else a copy. NULL with TALC_NO_MEMORY raised. An `old` of 0 bytes may be
/// NULL.
void *talc_onnx_take_more(talc_onnx_arena *arena, void *old, size_t old_bytes, size_t bytes);

void talc_onnx_arena_free(talc_onnx_arena *arena);

#endif
