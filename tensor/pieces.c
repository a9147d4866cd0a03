#include "tensor/pieces.h"

#include "tensor/memory.h"

#include <stdlib.h>

/* NULL without memory, which is no failure here. */
static talc_piece *piece_new(void)
{
    return talc_allocation_allowed(sizeof(talc_piece)) ? calloc(1, sizeof(talc_piece)) : NULL;
}

bool talc_piece_split(talc_block *block, size_t capacity, talc_block *rest)
{
    talc_piece *second = piece_new(),
               *first = block->piece == NULL && second != NULL ? piece_new() : block->piece;
    if (first == NULL || second == NULL) {
        free(second);
        return false;
    }
    *rest = *block;
    rest->data = (char *)block->data + capacity;
    rest->capacity -= capacity;
    rest->piece = second;
    second->block = *rest;
    second->before = first, second->after = first->after;
    if (second->after != NULL)
        second->after->before = second;
    block->capacity = capacity;
    block->piece = first;
    first->after = second;
    first->block = *block;
    return true;
}

static void leave(talc_cache *cache, talc_piece *piece)
{
    if (piece->cached != 0)
        (void)talc_cache_take(cache, talc_cache_at(cache, piece->cached));
    piece->cached = 0;
}

/* Takes the piece behind this one into it. */
static void absorb(talc_piece *piece)
{
    talc_piece *after = piece->after;
    piece->block.capacity += after->block.capacity;
    piece->after = after->after;
    if (piece->after != NULL)
        piece->after->before = piece;
    free(after);
}

talc_block talc_piece_join(talc_cache *cache, talc_block block)
{
    talc_piece *piece = block.piece;
    piece->block = block;
    if (piece->after != NULL && piece->after->free) {
        leave(cache, piece->after);
        absorb(piece);
    }
    if (piece->before != NULL && piece->before->free) {
        piece = piece->before;
        leave(cache, piece);
        absorb(piece);
    }
    piece->free = true;
    block = piece->block;
    if (piece->before == NULL && piece->after == NULL) {
        block.piece = NULL;
        free(piece);
    }
    return block;
}
