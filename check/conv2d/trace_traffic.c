/// What an algorithm moves, by enumerating the addresses of its owners.
///
/// Of each level, outermost first, the different elements that one owner there needs are counted
/// and added up: what has to come to it, however well it keeps them. Of a GPU's warps each load and
/// store is looked at: the sectors of 32 bytes that its 32 addresses lie in, and in shared memory
/// the wavefronts that it takes, as a bank gives a word of 4 bytes at a time.
#include "check/conv2d/trace.h"

#include "tensor/memory.h"

#include <stdio.h>
#include <string.h>

enum { LANES = 32, BANKS = 32, SECTOR = 32, MAX_STEPS = 1 << 25 };

typedef struct counting {
    const talc_trace *trace;
    trace_algorithm *algorithm;
    talc_trace_count *counts;
    int capacity, count;
    int64_t size; /* bytes of an element */
    int64_t owners;
} counting;

static void add(counting *c, const char *name, const char *of, const char *unit, double count,
                double least)
{
    if (c->count < c->capacity) {
        talc_trace_count *to = &c->counts[c->count];
        *to = (talc_trace_count){ .unit = unit, .count = count, .least = least };
        snprintf(to->name, sizeof to->name, "%s%s", name, of);
    }
    c->count++;
}

/* Whether an owner sums term k: of splits that the map tells, one does. */
static bool has_term(const counting *c, const int64_t numbers[], int64_t k)
{
    const talc_owner_map *map = &c->algorithm->map;
    const talc_conv2d_problem *p = &c->trace->problem;
    for (int i = 0; i < map->loops; i++)
        for (int level = 0; level < map->levels && map->loop[i].kind == TALC_LEVEL_SPLIT; level++)
            if (map->level[level].kind == TALC_LEVEL_SPLIT)
                return talc_loop_at(&map->loop[i], k, p->KH * p->KW) == numbers[level];
    return true;
}

static int64_t element_of(const counting *c, int64_t owner, int64_t numbers[])
{
    talc_trace_numbers(&c->algorithm->map, owner, numbers);
    return c->algorithm->map.element(&c->algorithm->map, numbers);
}

// ---- Levels -------------------------------------------------------------------------------------

/* Different elements of both operands that groups of `together` owners read, one group after the
 * other; a group of all is the least. `seen` has the last group that read an element. */
static double distinct(const counting *c, int64_t together, int64_t *seen)
{
    const talc_trace *t = c->trace;
    memset(seen, -1, (size_t)(t->first.count + t->second.count) * sizeof *seen);
    double count = 0;
    for (int64_t owner = 0; owner < c->owners; owner++) {
        int64_t numbers[TALC_MAP_LEVELS];
        const int64_t element = element_of(c, owner, numbers), group = owner / together;
        talc_trace_term term;
        for (int64_t k = 0; k < t->inner && element >= 0; k++) {
            if (!has_term(c, numbers, k) || !talc_trace_term_at(t, element, k, &term))
                continue;
            int64_t *const of[] = { &seen[term.first_element],
                                    term.second_element < 0
                                        ? NULL
                                        : &seen[t->first.count + term.second_element] };
            for (int i = 0; i < 2; i++)
                if (of[i] != NULL && *of[i] != group)
                    *of[i] = group, count++;
        }
    }
    return count;
}

static bool count_levels(counting *c)
{
    const talc_owner_map *map = &c->algorithm->map;
    const talc_trace *t = c->trace;
    int64_t *seen = talc_memory_new((size_t)(t->first.count + t->second.count + 1) * sizeof *seen,
                                    "a trace's traffic");
    if (seen == NULL)
        return false;
    const double size = (double)c->size, least = distinct(c, c->owners, seen) * size;
    int64_t together = c->owners;
    for (int i = 0; i < map->levels; i++) {
        const talc_level *level = &map->level[i];
        together /= level->extent;
        if ((i == 0 || level->extent > 1) && level->kind != TALC_LEVEL_SEQUENCE &&
            level->kind != TALC_LEVEL_SPLIT)
            add(c, "different operands of each ", level->name, "bytes",
                distinct(c, together, seen) * size, least);
    }
    talc_memory_free(seen);
    return true;
}

// ---- Warps --------------------------------------------------------------------------------------

/* Sectors of the elements that lanes access at once; -1: none. 0 where no lane accesses any. */
static int sectors_of(const counting *c, const int64_t elements[LANES])
{
    int64_t sectors[LANES];
    int count = 0;
    for (int lane = 0; lane < LANES; lane++) {
        const int64_t sector = elements[lane] * c->size / SECTOR;
        bool known = elements[lane] < 0;
        for (int i = 0; i < count && !known; i++)
            known = sectors[i] == sector;
        if (!known)
            sectors[count++] = sector;
    }
    return count;
}

/* The most different words of one bank; -1: none. */
static int wavefronts_of(const int64_t words[LANES])
{
    int most = 0;
    for (int bank = 0; bank < BANKS; bank++) {
        int count = 0;
        for (int lane = 0; lane < LANES; lane++) {
            bool counts = words[lane] >= 0 && words[lane] % BANKS == bank;
            for (int before = 0; before < lane && counts; before++)
                counts = words[before] != words[lane];
            count += counts;
        }
        most = count > most ? count : most;
    }
    return most;
}

typedef struct warp_counts {
    double loads, load_sectors, load_bytes, stores, store_sectors, reads, wavefronts;
} warp_counts;

/* The loads and reads of term k in register `at` of a warp whose first owner is `warp`. A load
 * whose addresses are those of the register before is not repeated. */
static void count_term(const counting *c, int64_t warp, int64_t registers, int64_t at, int64_t k,
                       int64_t before[LANES], warp_counts *w)
{
    const talc_owner_map *map = &c->algorithm->map;
    int64_t elements[LANES], words[LANES], numbers[TALC_MAP_LEVELS];
    int active = 0;
    for (int lane = 0; lane < LANES; lane++) {
        const int64_t element = element_of(c, warp + lane * registers + at, numbers);
        talc_trace_term term;
        const bool has = element >= 0 && has_term(c, numbers, k) &&
                         talc_trace_term_at(c->trace, element, k, &term);
        elements[lane] = has ? term.second_element : -1;
        words[lane] = has && map->shared != NULL ? map->shared(map, numbers, k) : -1;
        active += elements[lane] >= 0;
    }
    const int wavefronts = wavefronts_of(words);
    w->reads += wavefronts > 0, w->wavefronts += wavefronts;
    if (!map->reads || active == 0 || memcmp(elements, before, sizeof elements) == 0)
        return;
    memcpy(before, elements, sizeof elements);
    w->loads++, w->load_bytes += (double)(active * c->size);
    w->load_sectors += sectors_of(c, elements);
}

/* Stores of a warp, by the first split. */
static void count_store(const counting *c, int64_t warp, int64_t registers, int64_t at,
                        warp_counts *w)
{
    const talc_owner_map *map = &c->algorithm->map;
    int64_t elements[LANES], numbers[TALC_MAP_LEVELS];
    for (int lane = 0; lane < LANES; lane++) {
        elements[lane] = element_of(c, warp + lane * registers + at, numbers);
        for (int i = 0; i < map->levels; i++)
            if (map->level[i].kind == TALC_LEVEL_SPLIT && numbers[i] > 0)
                elements[lane] = -1;
    }
    const int sectors = sectors_of(c, elements);
    w->stores += sectors > 0, w->store_sectors += sectors;
}

static void count_warps(counting *c)
{
    const talc_owner_map *map = &c->algorithm->map;
    warp_counts w = { 0 };
    int64_t registers = c->owners;
    bool lanes = false;
    for (int i = 0; i < map->levels && !lanes; i++) {
        registers /= map->level[i].extent;
        lanes = map->level[i].kind == TALC_LEVEL_LANE && map->level[i].extent == LANES;
    }
    if (!lanes || !(map->reads || map->stores || map->shared != NULL))
        return;
    for (int64_t warp = 0; warp < c->owners; warp += LANES * registers) {
        for (int64_t k = 0; k < c->trace->inner; k++) {
            int64_t before[LANES] = { 0 };
            for (int64_t at = 0; at < registers; at++)
                count_term(c, warp, registers, at, k, before, &w);
        }
        for (int64_t at = 0; at < registers && map->stores; at++)
            count_store(c, warp, registers, at, &w);
    }
    const double result = (double)(c->trace->result.count * c->size);
    if (map->reads) {
        add(c, "loads of x by warps", "", "requests", w.loads, 0);
        add(c, "sectors of these loads", "", "of 32 bytes", w.load_sectors, w.load_bytes / SECTOR);
    }
    if (map->stores) {
        add(c, "stores by warps", "", "requests", w.stores, 0);
        add(c, "sectors of these stores", "", "of 32 bytes", w.store_sectors, result / SECTOR);
    }
    if (map->shared != NULL)
        add(c, "reads of shared memory by warps", "", "wavefronts", w.wavefronts, w.reads);
}

int talc_trace_traffic(talc_trace *trace, int algorithm, talc_trace_count *counts, int capacity)
{
    trace_algorithm *a = talc_trace_mapped(trace, algorithm);
    if (a == NULL)
        return 0;
    counting c = { .trace = trace,
                   .algorithm = a,
                   .counts = counts,
                   .capacity = capacity,
                   .size = (int64_t)talc_dtype_size(trace->problem.dtype),
                   .owners = 1 };
    for (int i = 0; i < a->map.levels; i++)
        c.owners *= a->map.level[i].extent;
    int64_t terms = 0;
    for (int64_t i = 0; i < trace->result.count; i++)
        terms += talc_trace_terms(trace, i, NULL, 0);
    add(&c, "products", "", "", (double)terms, (double)terms);
    add(&c, "operands if each product loaded both", "", "bytes", 2. * (double)(terms * c.size), 0);
    if ((double)trace->result.count * (double)trace->inner > MAX_STEPS || c.owners > MAX_STEPS)
        return c.count;
    if (!count_levels(&c))
        return 0;
    count_warps(&c);
    return c.count;
}
