#include "onnx/arena.h"

#include "tensor/memory.h"

#include <stdalign.h>
#include <string.h>

enum { CHUNK = 1 << 15, ALIGNMENT = alignof(max_align_t) };

struct talc_onnx_chunk {
    struct talc_onnx_chunk *next;
    size_t used, capacity;
    alignas(max_align_t) unsigned char bytes[];
};

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void *talc_onnx_take(talc_onnx_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        talc_fail(TALC_NO_MEMORY, "onnx_load: out of host memory: asked %zu bytes", bytes);
        return NULL;
    }
    struct talc_onnx_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->capacity - chunk->used < rounded(bytes)) {
        const size_t capacity = rounded(bytes) > CHUNK ? rounded(bytes) : CHUNK;
        chunk = talc_memory_new(sizeof *chunk + capacity, "onnx_load");
        if (chunk == NULL)
            return NULL;
        chunk->capacity = capacity;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    void *taken = chunk->bytes + chunk->used;
    chunk->used += rounded(bytes);
    return taken;
}

void *talc_onnx_take_more(talc_onnx_arena *arena, void *old, size_t old_bytes, size_t bytes)
{
    struct talc_onnx_chunk *chunk = arena->chunks;
    if (old_bytes > 0 && (unsigned char *)old + rounded(old_bytes) == chunk->bytes + chunk->used) {
        const size_t start = chunk->used - rounded(old_bytes);
        if (bytes < old_bytes)
            memset((char *)old + bytes, 0, old_bytes - bytes);
        if (bytes <= chunk->capacity - start && rounded(bytes) <= chunk->capacity - start) {
            chunk->used = start + rounded(bytes);
            return old;
        }
    }
    void *more = talc_onnx_take(arena, bytes);
    if (more != NULL && old_bytes > 0)
        memcpy(more, old, old_bytes);
    return more;
}

void talc_onnx_arena_free(talc_onnx_arena *arena)
{
    while (arena->chunks != NULL) {
        struct talc_onnx_chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        talc_memory_free(chunk);
    }
}
