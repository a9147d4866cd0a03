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

static const char WHAT[] = "a trace's traffic";
enum { LANES = 32, BANKS = 32, SECTOR = 32, MAX_STEPS = 1 << 25 };

/* The element that an owner computes, and its split. */
typedef struct owned {
    int32_t element, split; /* element -1: none */
} owned;

typedef struct counting {
    talc_trace *trace;
    trace_algorithm *algorithm;
    talc_trace_count *counts;
    int capacity, count;
    int64_t size; /* bytes of an element */
    int64_t owners;
    owned *of;               /* of each owner */
    const trace_pair *terms; /* of each element and k */
    int *splits;             /* of each k the split that has it; NULL: not told */
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

/* Term k of an owner; NULL where it has none. */
static const trace_pair *term_of(const counting *c, int64_t owner, int64_t k)
{
    const owned *own = &c->of[owner];
    if (own->element < 0 || (c->splits != NULL && c->splits[k] != own->split))
        return NULL;
    const trace_pair *term = &c->terms[own->element * c->trace->inner + k];
    return term->first < 0 ? NULL : term;
}

/* The splits' number of each k, where the map tells. */
static bool find_splits(counting *c)
{
    const talc_owner_map *map = &c->algorithm->map;
    const talc_conv2d_problem *p = &c->trace->problem;
    int at = 0;
    while (at < map->loops && map->loop[at].kind != TALC_LEVEL_SPLIT)
        at++;
    if (at == map->loops || c->algorithm->splits == 1)
        return true;
    c->splits = talc_memory_new((size_t)c->trace->inner * sizeof *c->splits + 1, WHAT);
    for (int64_t k = 0; k < c->trace->inner && c->splits != NULL; k++)
        c->splits[k] = (int)talc_loop_at(&map->loop[at], k, p->KH * p->KW);
    return c->splits != NULL;
}

static bool prepare(counting *c)
{
    const trace_algorithm *a = c->algorithm;
    c->terms = talc_trace_pairs(c->trace);
    c->of = talc_memory_new((size_t)c->owners * sizeof *c->of + 1, WHAT);
    if (c->terms == NULL || c->of == NULL || !find_splits(c))
        return false;
    memset(c->of, -1, (size_t)c->owners * sizeof *c->of);
    for (int64_t i = 0; i < c->trace->result.count * a->splits; i++)
        c->of[a->owners[i]] = (owned){ (int32_t)(i / a->splits), (int32_t)(i % a->splits) };
    return true;
}

// ---- Levels -------------------------------------------------------------------------------------

/* Of each level, the different elements of both operands that its groups of owners read, one group
 * after the other; the group of all is the least. `seen` has of each operand's element and each
 * level the last group that read it. */
static void count_distinct(const counting *c, int levels, const int64_t together[], int32_t *seen,
                           double counts[])
{
    const talc_trace *t = c->trace;
    for (int64_t owner = 0; owner < c->owners; owner++) {
        int32_t group[TALC_MAP_LEVELS + 1];
        if (c->of[owner].element < 0)
            continue;
        for (int i = 0; i < levels; i++)
            group[i] = (int32_t)(owner / together[i]);
        for (int64_t k = 0; k < t->inner; k++) {
            const trace_pair *term = term_of(c, owner, k);
            if (term == NULL)
                continue;
            int32_t *const first = &seen[term->first * levels],
                           *const second = &seen[(t->first.count + term->second) * levels];
            for (int i = 0; i < levels; i++) {
                counts[i] += first[i] != group[i];
                first[i] = group[i];
            }
            for (int i = 0; i < levels && term->second >= 0; i++) {
                counts[i] += second[i] != group[i];
                second[i] = group[i];
            }
        }
    }
}

static bool count_levels(counting *c)
{
    const talc_owner_map *map = &c->algorithm->map;
    const talc_trace *t = c->trace;
    const char *names[TALC_MAP_LEVELS + 1];
    int64_t together[TALC_MAP_LEVELS + 1] = { c->owners }, in_group = c->owners;
    double counts[TALC_MAP_LEVELS + 1] = { 0 };
    int levels = 1;
    for (int i = 0; i < map->levels; i++) {
        const talc_level *level = &map->level[i];
        in_group /= level->extent;
        if ((i == 0 || level->extent > 1) && level->kind != TALC_LEVEL_SEQUENCE &&
            level->kind != TALC_LEVEL_SPLIT)
            names[levels] = level->name, together[levels++] = in_group;
    }
    const size_t bytes = (size_t)(t->first.count + t->second.count + 1) * (size_t)levels * 4;
    int32_t *seen = talc_memory_new(bytes, WHAT);
    if (seen == NULL)
        return false;
    memset(seen, -1, bytes);
    count_distinct(c, levels, together, seen, counts);
    talc_memory_free(seen);
    const double size = (double)c->size;
    for (int i = 1; i < levels; i++)
        add(c, "different operands of each ", names[i], "bytes", counts[i] * size,
            counts[0] * size);
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
        for (int i = count - 1; i >= 0 && !known; i--)
            known = sectors[i] == sector;
        if (!known)
            sectors[count++] = sector;
    }
    return count;
}

/* The most different words of one bank; -1: none. */
static int wavefronts_of(const int64_t words[LANES])
{
    int of_bank[BANKS] = { 0 }, most = 0;
    for (int lane = 0; lane < LANES; lane++) {
        bool known = words[lane] < 0;
        for (int before = lane - 1; before >= 0 && !known; before--)
            known = words[before] == words[lane];
        int *const count = &of_bank[known ? 0 : words[lane] % BANKS];
        *count += !known;
        most = *count > most ? *count : most;
    }
    return most;
}

typedef struct warp_counts {
    double loads, load_sectors, load_bytes, stores, store_sectors, reads, wavefronts;
} warp_counts;

/* The loads of x and the reads of shared memory for term k in register `at` of a warp whose first
 * owner is `warp`. A load whose addresses are those of the register before is not repeated, and a
 * read of shared memory neither. */
static void count_term(const counting *c, int64_t warp, int64_t registers, int64_t at, int64_t k,
                       int64_t before[2][LANES], warp_counts *w)
{
    const talc_owner_map *map = &c->algorithm->map;
    int64_t elements[LANES], words[LANES], numbers[TALC_MAP_LEVELS];
    int active = 0;
    bool any = false;
    for (int lane = 0; lane < LANES; lane++) {
        const trace_pair *term = term_of(c, warp + lane * registers + at, k);
        elements[lane] = term != NULL ? term->second : -1;
        any = any || term != NULL;
        active += elements[lane] >= 0;
    }
    for (int lane = 0; lane < LANES && any && map->shared != NULL; lane++) {
        talc_trace_numbers(map, warp + lane * registers + at, numbers);
        words[lane] = map->shared(map, numbers, k);
    }
    if (any && map->shared != NULL && memcmp(words, before[0], sizeof words) != 0) {
        const int wavefronts = wavefronts_of(words);
        memcpy(before[0], words, sizeof words);
        w->reads += wavefronts > 0, w->wavefronts += wavefronts;
    }
    if (!map->reads || active == 0 || memcmp(elements, before[1], sizeof elements) == 0)
        return;
    memcpy(before[1], elements, sizeof elements);
    w->loads++, w->load_bytes += (double)(active * c->size);
    w->load_sectors += sectors_of(c, elements);
}

/* Stores of a warp, by the first split. */
static void count_store(const counting *c, int64_t warp, int64_t registers, int64_t at,
                        warp_counts *w)
{
    int64_t elements[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        const owned *own = &c->of[warp + lane * registers + at];
        elements[lane] = own->split > 0 ? -1 : own->element;
    }
    const int sectors = sectors_of(c, elements);
    w->stores += sectors > 0, w->store_sectors += sectors;
}

static bool is_idle(const counting *c, int64_t first, int64_t owners)
{
    for (int64_t i = first; i < first + owners; i++)
        if (c->of[i].element >= 0)
            return false;
    return true;
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
        if (is_idle(c, warp, LANES * registers))
            continue;
        for (int64_t k = 0; k < c->trace->inner && (map->reads || map->shared != NULL); k++) {
            int64_t before[2][LANES];
            memset(before, -2, sizeof before);
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
    const double terms = (double)talc_trace_all_terms(trace);
    add(&c, "products", "", "", terms, terms);
    add(&c, "operands if each product loaded both", "", "bytes", 2 * terms * (double)c.size, 0);
    if ((double)trace->result.count * (double)trace->inner > MAX_STEPS || c.owners > MAX_STEPS)
        return c.count;
    const bool counted = prepare(&c) && count_levels(&c);
    if (counted)
        count_warps(&c);
    talc_memory_free(c.of);
    talc_memory_free(c.splits);
    return counted ? c.count : 0;
}
