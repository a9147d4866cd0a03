/// Rows of bytes from several arrays, side by side.
///
///     dst[r * pitch + start_i + b] = from_i[r * bytes_i + b]
///
/// A piece of work is a few rows of one part, or a stretch of a long one.
#include "backends/cpu/cpu.h"
#include "backends/cpu/threads.h"
#include "tensor/extent.h"

#include <string.h>

/* Bytes a piece: as long as a piece of a copy. */
enum { PIECE = 131072 };

typedef struct join_context {
    const talc_join_problem *problem;
    char *dst;
} join_context;

/* How a part is cut: a row into stretches, rows into groups. */
typedef struct cut {
    int64_t stretches, rows, pieces;
} cut;

static cut cut_of(const talc_join_problem *p, int part)
{
    const int64_t bytes = (int64_t)p->parts[part].bytes;
    cut c = { .stretches = talc_cpu_pieces(bytes, PIECE), .rows = talc_larger(1, PIECE / bytes) };
    c.pieces = c.stretches * talc_cpu_pieces(p->rows, c.rows);
    return c;
}

static void join_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    const join_context *c = context;
    const talc_join_problem *p = c->problem;
    int part = 0;
    cut at = cut_of(p, part);
    for (; piece >= at.pieces; at = cut_of(p, ++part))
        piece -= at.pieces;

    const size_t bytes = p->parts[part].bytes, skip = (size_t)(piece % at.stretches) * PIECE;
    const size_t length = at.stretches == 1 || bytes - skip < PIECE ? bytes - skip : PIECE;
    const int64_t first = piece / at.stretches * at.rows;
    const int64_t end = talc_smaller(first + at.rows, p->rows);
    for (int64_t r = first; r < end; r++)
        memcpy(c->dst + (size_t)r * p->pitch + p->parts[part].start + skip,
               (const char *)p->parts[part].from + (size_t)r * bytes + skip, length);
}

talc_status talc_cpu_join(talc_device *device, const talc_join_problem *problem, void *dst)
{
    (void)device;
    join_context context = { problem, dst };
    int64_t pieces = 0;
    for (int i = 0; i < problem->count; i++)
        pieces += cut_of(problem, i).pieces;
    if ((size_t)problem->rows * problem->pitch > PIECE)
        return talc_cpu_parallel(pieces, join_piece, &context);
    /* Threads take longer to wake than to copy so little. */
    for (int64_t i = 0; i < pieces; i++)
        join_piece(&context, i, 0);
    return TALC_OK;
}
