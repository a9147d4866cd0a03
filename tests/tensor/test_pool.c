#include "tests/support/hooks.h"

#include "tensor/memory.h"
#include "tensor/pool.h"
#include "tensor/storage.h"
#include "tensor/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const size_t MIB = (size_t)1 << 20;

static talc_memory memory(void)
{
    return talc_device_memory(cpu_device());
}

static talc_block take(size_t bytes)
{
    talc_block block;
    cr_assert(talc_block_new(cpu_device(), "test", bytes, &block) == TALC_OK);
    cr_assert(block.capacity >= bytes && (uintptr_t)block.data % 64 == 0);
    memset(block.data, 0xAB, bytes);
    return block;
}

static void give(talc_block block)
{
    talc_block_free(cpu_device(), block);
}

// ---- Counts -------------------------------------------------------------------------------------

Test(pool, live_peak_and_reserved_follow_the_blocks)
{
    cr_assert(memory().live == 0 && memory().peak == 0 && memory().reserved == 0);
    talc_block none = { .data = &none, .capacity = 7 };
    cr_assert(talc_block_new(cpu_device(), "test", 0, &none) == TALC_OK);
    cr_assert(none.data == NULL && none.capacity == 0);
    give(none);
    talc_block a = take(1000), b = take(100000);
    const size_t both = a.capacity + b.capacity;
    cr_assert(memory().live == both && memory().peak == both && memory().reserved == both);
    give(b);
    cr_assert(memory().live == a.capacity && memory().peak == both && memory().reserved == both);
    talc_memory_reset_peak(cpu_device());
    cr_assert(memory().peak == a.capacity);
    talc_block c = take(500);
    cr_assert(memory().peak == a.capacity + c.capacity && memory().live == memory().peak);
    give(a);
    give(c);
    cr_assert(memory().total > MIB && memory().free > MIB);
    const size_t reserved = memory().reserved;
    cr_assert(talc_memory_trim(cpu_device()) == reserved && memory().reserved == 0);
    cr_assert(talc_memory_trim(cpu_device()) == 0);
}

// ---- Reuse --------------------------------------------------------------------------------------

Test(pool, a_freed_block_serves_the_next_request_of_its_size)
{
    const size_t sizes[] = { 1,     255,   256,         257,     65535,
                             65536, 70000, 8 * MIB - 1, 8 * MIB, 9 * MIB + 1 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        talc_block block = take(sizes[i]);
        cr_assert(block.capacity - sizes[i] <= (sizes[i] >= 8 * MIB ? 2 * MIB
                                                : sizes[i] >= 65536 ? 4096
                                                                    : 256),
                  "%zu bytes in a block of %zu", sizes[i], block.capacity);
        give(block);
        const size_t reserved = memory().reserved;
        talc_block again = take(sizes[i]);
        cr_assert(again.data == block.data && memory().reserved == reserved, "%zu bytes", sizes[i]);
        give(again);
    }
}

Test(pool, a_much_larger_block_is_not_wasted_on_a_small_request)
{
    talc_block large = take(4 * MIB);
    give(large);
    talc_block small = take(MIB);
    cr_assert(small.data != large.data && small.capacity < 2 * MIB);
    talc_block close = take(4 * MIB - 100000);
    cr_assert(close.data == large.data, "an eighth may be wasted");
    give(small);
    give(close);
}

Test(pool, of_blocks_alike_the_newest_serves_and_the_oldest_goes)
{
    talc_block blocks[3], again[3];
    for (int i = 0; i < 3; i++)
        blocks[i] = take(40 * MIB);
    for (int i = 0; i < 3; i++)
        give(blocks[i]);
    for (int i = 0; i < 3; i++) {
        again[i] = take(40 * MIB);
        cr_assert(again[i].data == blocks[2 - i].data);
    }
    for (int i = 0; i < 3; i++)
        give(blocks[i]);
    talc_memory_reset_peak(cpu_device());
    cr_assert(memory().reserved == 40 * MIB, "at most 64 MiB stay");
    again[0] = take(40 * MIB);
    cr_assert(again[0].data == blocks[2].data);
    give(again[0]);
}

Test(pool, a_reset_peak_leaves_the_cache_a_quarter_of_what_is_live)
{
    talc_block live = take(80 * MIB), blocks[3];
    for (int i = 0; i < 3; i++)
        blocks[i] = take(28 * MIB);
    for (int i = 0; i < 3; i++)
        give(blocks[i]);
    talc_memory_reset_peak(cpu_device());
    cr_assert(memory().peak == 80 * MIB && memory().reserved == (80 + 3 * 28) * MIB);
    give(live);
    talc_memory_reset_peak(cpu_device());
    cr_assert(memory().peak == 0 && memory().reserved == 2 * 28 * MIB);
}

/* Microseconds for a block taken and given back while so many others are cached. */
static double cost_beside(int count)
{
    enum { ROUNDS = 500 };
    talc_scope *scope = talc_scope_enter();
    for (int i = 0; i < count; i++)
        talc_empty(cpu_device(), TALC_F32, TALC_DIMS(100));
    talc_scope_leave(scope);
    double best = 1e9;
    for (int attempt = 0; attempt < 20; attempt++) {
        const clock_t start = clock();
        for (int i = 0; i < ROUNDS; i++)
            talc_release(talc_empty(cpu_device(), TALC_F32, TALC_DIMS(50)));
        best = fmin(best, 1e6 * (double)(clock() - start) / CLOCKS_PER_SEC / ROUNDS);
    }
    return best;
}

Test(pool, a_block_costs_the_same_however_many_are_cached)
{
    const double few = cost_beside(100), many = cost_beside(100000);
    cr_assert(memory().reserved > 25 * MIB && memory().live == 0);
    cr_assert(many < 20 * (few + 0.1), "%g us beside 100 cached blocks, %g beside 100,000", few,
              many);
}

// ---- Pieces of large blocks ---------------------------------------------------------------------

static bool is_within(talc_block block, talc_block of)
{
    const char *first = block.data, *begin = of.data;
    return first >= begin && first + block.capacity <= begin + of.capacity;
}

/* In any order that they are freed in, pieces are one block again. */
Test(pool, a_large_block_serves_in_pieces_that_grow_together_again)
{
    static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                     { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        talc_block large = take(60 * MIB);
        give(large);
        talc_block pieces[] = { take(24 * MIB), take(9 * MIB), take(16 * MIB) };
        for (int k = 0; k < 3; k++) {
            cr_assert(is_within(pieces[k], large), "piece %d", k);
            for (int j = 0; j < k; j++)
                cr_assert((char *)pieces[k].data + pieces[k].capacity <= (char *)pieces[j].data ||
                          (char *)pieces[j].data + pieces[j].capacity <= (char *)pieces[k].data);
        }
        cr_assert(memory().reserved == 60 * MIB && memory().live == 50 * MIB);
        for (int k = 0; k < 3; k++) {
            cr_assert(k == 0 || talc_memory_trim(cpu_device()) == 0, "a piece is live");
            give(pieces[orders[i][k]]);
        }
        talc_block again = take(60 * MIB);
        cr_assert(again.data == large.data && memory().reserved == 60 * MIB);
        give(again);
        cr_assert(talc_memory_trim(cpu_device()) == 60 * MIB && memory().reserved == 0);
    }
}

Test(pool, a_small_request_takes_no_piece)
{
    talc_block large = take(60 * MIB);
    give(large);
    talc_block piece = take(54 * MIB);
    cr_assert(is_within(piece, large));
    for (size_t size = 5; size <= 7; size++) { /* the rest is 6 MiB */
        talc_block small = take(size * MIB);
        cr_assert(!is_within(small, large), "%zu MiB", size);
        give(small);
    }
    give(piece);
}

/* A piece needs two records, and the rest a place in the cache; memory for them may lack. */
Test(pool, a_large_block_is_taken_whole_without_memory_for_pieces)
{
    for (int records = 0; records < 5; records++) {
        talc_block large = take(60 * MIB);
        give(large);
        allow_allocations(1 + records); /* the block is asked for first */
        talc_block block = take(24 * MIB);
        (void)allow_all_allocations();
        cr_assert(block.data == large.data);
        cr_assert(block.capacity == (size_t)(records < 2 ? 60 : 24) * MIB, "%d records", records);
        give(block);
        cr_assert(memory().live == 0 && talc_memory_trim(cpu_device()) == 60 * MIB);
    }
}

static size_t max_reserved(void)
{
    return memory().peak + memory().peak / 4 + 64 * MIB;
}

/* Sizes that never repeat would fill an unbounded cache. */
Test(pool, the_cache_stays_within_a_quarter_and_64_mib_of_the_peak)
{
    for (size_t i = 0; i < 200; i++) {
        talc_block block = take(MIB + i * 300000);
        give(block);
        cr_assert(memory().reserved <= max_reserved(), "%zu reserved, peak %zu", memory().reserved,
                  memory().peak);
    }
    cr_assert(memory().reserved > 64 * MIB, "there is a cache");
    talc_block small = take(100);
    talc_memory_reset_peak(cpu_device());
    cr_assert(memory().peak == small.capacity && memory().reserved <= memory().peak + 64 * MIB);
    give(small);
}

static const talc_device_interface *honest;
static int from_system;

static void *count_allocations(talc_device *device, size_t bytes)
{
    from_system++;
    return honest->allocate(device, bytes);
}

/* A network's stages: each size five times at once, the next half as large. All of it is more than
 * the cache may hold. */
static void pass(void)
{
    talc_block live[5] = { { 0 } };
    for (size_t i = 0; i < 48; i++) {
        give(live[i % 5]);
        live[i % 5] = take(24 * MIB >> i / 12);
    }
    for (size_t i = 0; i < 5; i++)
        give(live[i]);
}

Test(pool, a_round_of_sizes_that_was_seen_takes_nothing_from_the_system)
{
    honest = cpu_device()->interface;
    talc_device_interface counting = *honest;
    counting.allocate = count_allocations;
    cpu_device()->interface = &counting;
    pass();
    cr_assert(from_system > 0);
    from_system = 0;
    const size_t peak = memory().peak;
    for (int round = 0; round < 3; round++)
        pass();
    cpu_device()->interface = honest;
    cr_assert(from_system == 0, "%d blocks", from_system);
    cr_assert(memory().peak == peak && memory().reserved <= max_reserved());
}

Test(pool, drawn_sequences_keep_the_counts_and_never_share_bytes)
{
    talc_block blocks[64] = { { 0 } };
    size_t live = 0;
    uint64_t state = 11;
    for (int i = 0; i < 20000; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        const int slot = (int)(state >> 33) % 64;
        if (blocks[slot].data != NULL) {
            const unsigned char *bytes = blocks[slot].data;
            cr_assert(bytes[0] == slot && bytes[blocks[slot].capacity - 1] == slot, "step %d", i);
            live -= blocks[slot].capacity;
            give(blocks[slot]);
            blocks[slot].data = NULL;
        } else {
            const size_t bytes_of = state >> 62 == 0 ? 50 * MIB : 30000;
            cr_assert(talc_block_new(cpu_device(), "test", 1 + (state >> 30) % bytes_of,
                                     &blocks[slot]) == TALC_OK);
            unsigned char *bytes = blocks[slot].data;
            bytes[0] = bytes[blocks[slot].capacity - 1] = (unsigned char)slot;
            live += blocks[slot].capacity;
        }
        cr_assert(memory().live == live && memory().reserved >= live && memory().peak >= live);
    }
    for (int i = 0; i < 64; i++)
        give(blocks[i]);
}

// ---- Running out --------------------------------------------------------------------------------

Test(pool, asking_for_too_much_is_an_error_that_the_program_survives)
{
    talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1000));
    const talc_memory before = memory();
    const int64_t huge = INT64_C(1) << 50;
    cr_assert_null(talc_empty(cpu_device(), TALC_U8, TALC_DIMS(huge)));
    cr_assert(talc_error_status() == TALC_NO_MEMORY);
    const char *expected =
        "empty: out of memory on cpu: asked 1.0 PiB (1125899906842624 bytes), held 4.0 KiB, free ";
    cr_assert(strncmp(talc_error_message(), expected, strlen(expected)) == 0, "%s",
              talc_error_message());
    cr_assert(strtod(talc_error_message() + strlen(expected), NULL) > 0, "%s",
              talc_error_message());
    talc_error_clear();
    cr_assert(memory().live == before.live && memory().peak == before.peak);
    cr_assert(talc_item(talc_select(talc_add(x, x), 0, 3)) == 2);
    assert_no_failure();
    talc_block block;
    cr_assert(talc_block_new(cpu_device(), "test", SIZE_MAX, &block) == TALC_NO_MEMORY &&
              block.data == NULL);
    talc_error_clear();
}

static size_t held;

static void *allocate_within_128_mib(talc_device *device, size_t bytes)
{
    void *data = held + bytes > 128 * MIB ? NULL : honest->allocate(device, bytes);
    held += data == NULL ? 0 : bytes;
    return data;
}

static void deallocate_held(talc_device *device, void *data, size_t bytes)
{
    held -= bytes;
    honest->deallocate(device, data, bytes);
}

/* A piece that stays would keep the rest of its block from any larger request. */
Test(pool, no_block_is_cut_once_the_device_lacked_memory)
{
    honest = cpu_device()->interface;
    static talc_device_interface scarce;
    scarce = *honest;
    scarce.allocate = allocate_within_128_mib;
    scarce.deallocate = deallocate_held;
    cpu_device()->interface = &scarce;
    talc_block live = take(30 * MIB);
    give(take(50 * MIB));
    talc_block piece = take(40 * MIB);
    cr_assert(held == 80 * MIB);
    give(piece);
    talc_block large = take(60 * MIB);
    cr_assert(held == 90 * MIB, "the cached block was given back");
    give(large);
    talc_block stays = take(10 * MIB);
    large = take(80 * MIB);
    cr_assert(held == 120 * MIB);
    give(large);
    give(stays);
    give(live);
    talc_memory_trim(cpu_device());
    cpu_device()->interface = honest;
    cr_assert(held == 0);
}

static size_t max_allowed;
static int attempts;

static bool small_only(size_t bytes)
{
    attempts++;
    return bytes <= max_allowed;
}

Test(pool, a_refused_allocation_leaves_nothing_behind)
{
    talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1000));
    const size_t live = memory().live;
    max_allowed = 1000;
    talc_allocation_hook = small_only;
    cr_assert_null(talc_add(x, x));
    talc_allocation_hook = NULL;
    cr_assert(attempts > 0 && talc_error_status() == TALC_NO_MEMORY);
    cr_assert(strncmp(talc_error_message(),
                      "add: out of memory on cpu: asked 3.9 KiB (4000 bytes), held ", 60) == 0,
              "%s", talc_error_message());
    talc_error_clear();
    cr_assert(memory().live == live);
    cr_assert_not_null(talc_add(x, x));
}

/* The lists of cached blocks and of their sizes are allocations too; without them a block goes back
 * to the system. */
Test(pool, a_block_that_cannot_be_cached_is_given_back)
{
    for (int lists = 0; lists < 3; lists++) {
        talc_block block = take(5000);
        allow_allocations(lists);
        give(block);
        cr_assert(allow_all_allocations() == (lists < 2));
        cr_assert(memory().live == 0 && memory().reserved == (lists < 2 ? 0 : block.capacity));
    }
}

/* What is asked or free may be unknown. */
Test(pool, running_out_says_what_is_known)
{
    cr_assert(talc_out_of_memory("op", "memory on x", 0, 4100, 0) == TALC_NO_MEMORY);
    assert_failure(TALC_NO_MEMORY,
                   "op: out of memory on x: asked an unknown size, held 4.0 KiB, free unknown");
    talc_out_of_memory("op", "paper", 1000, 0, 20);
    assert_failure(TALC_NO_MEMORY,
                   "op: out of paper: asked 1000 bytes (1000 bytes), held 0 bytes, free 20 bytes");
}

// ---- Memory of libraries ------------------------------------------------------------------------

static int refusals_left;

static bool refuse_mib(size_t bytes)
{
    const bool refuses = bytes == MIB && refusals_left > 0;
    refusals_left -= refuses;
    return !refuses;
}

Test(pool, memory_of_libraries_is_counted_beside_the_blocks)
{
    talc_block block = take(5000);
    const talc_memory before = memory();
    void *one = talc_library_memory_new(cpu_device(), "test", MIB);
    void *two = talc_library_memory_new(cpu_device(), "test", 3 * MIB);
    cr_assert(one != NULL && two != NULL);
    memset(two, 1, 3 * MIB);
    cr_assert(memory().libraries == 4 * MIB && memory().live == before.live &&
              memory().reserved == before.reserved && memory().peak == before.peak);
    cr_assert_null(talc_empty(cpu_device(), TALC_U8, TALC_DIMS(INT64_C(1) << 50)));
    cr_assert(strstr(talc_error_message(), " held 4.0 MiB, ") != NULL, "%s", talc_error_message());
    talc_error_clear();
    talc_library_memory_free(cpu_device(), one, MIB);
    cr_assert(memory().libraries == 3 * MIB);
    talc_library_memory_free(cpu_device(), two, 3 * MIB);
    talc_library_memory_free(cpu_device(), NULL, MIB);
    cr_assert(memory().libraries == 0);
    give(block);
}

Test(pool, memory_of_libraries_is_asked_for_again_without_the_cache)
{
    give(take(5000));
    refusals_left = 1;
    talc_allocation_hook = refuse_mib;
    void *memory_of_library = talc_library_memory_new(cpu_device(), "test", MIB);
    cr_assert(memory_of_library != NULL && memory().reserved == 0 && refusals_left == 0);
    talc_library_memory_free(cpu_device(), memory_of_library, MIB);
    give(take(5000));
    refusals_left = 2;
    cr_assert_null(talc_library_memory_new(cpu_device(), "test", MIB));
    talc_allocation_hook = NULL;
    const char *expected =
        "test: out of memory on cpu: asked 1.0 MiB (1048576 bytes), held 0 bytes, ";
    cr_assert(strncmp(talc_error_message(), expected, strlen(expected)) == 0, "%s",
              talc_error_message());
    talc_error_clear();
    cr_assert(memory().libraries == 0 && refusals_left == 0);
}

// ---- Workspace limit ----------------------------------------------------------------------------

Test(pool, the_workspace_limit_is_the_devices)
{
    cr_assert(talc_workspace_limit(cpu_device()) == 32 * MIB);
    cr_assert(talc_workspace_set_limit(cpu_device(), 5));
    cr_assert(talc_workspace_limit(cpu_device()) == 5);
}

Test(pool, byte_counts_read_well)
{
    char text[TALC_BYTES_TEXT];
    const struct {
        double bytes;
        const char *expected;
    } cases[] = { { 0, "0 bytes" },
                  { 1023, "1023 bytes" },
                  { 1024, "1.0 KiB" },
                  { 1023.94 * 1024, "1023.9 KiB" },
                  { 1023.95 * 1024, "1.0 MiB" },
                  { 32 << 20, "32.0 MiB" },
                  { 9.1e9, "8.5 GiB" },
                  { 0x1p50, "1.0 PiB" },
                  { 0x1p64, "16.0 EiB" },
                  { 0x1p70, "1024.0 EiB" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_str_eq(talc_bytes_text(cases[i].bytes, text), cases[i].expected);
}
