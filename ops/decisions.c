#include "ops/decisions.h"

/* Few enough to stay small, 300 KB, and enough for a large network's forward and backward pass. */
enum { SETS = 128, WAYS = 4, PROBLEM_BYTES = 320 };

typedef struct decision_key {
    const talc_device *device;
    const talc_algorithm *list;
    size_t limit, bytes;
    int64_t precision;
    char forced[TALC_ALGORITHM_TEXT];
    unsigned char problem[PROBLEM_BYTES];
} decision_key;

typedef struct decision {
    uint64_t hash; /* 0: the entry is free */
    decision_key key;
    talc_considered chosen;
} decision;

/* In the set of a hash a new decision takes the place of the oldest. */
static decision decisions[SETS][WAYS];
static unsigned char oldest[SETS];

/* Whoever finds it set goes without: deciding anew is cheaper than a queue, and a fork while
 * another thread holds it costs the child time alone. */
static bool busy;

/* Whether there is one: lists that do not estimate, as the CPU's, leave none. */
static bool any;

/* The part of a key that is compared, a multiple of 8 bytes; 0 for what is not remembered. */
static size_t key_of(const talc_choice *choice, const talc_algorithm *list, const void *problem,
                     size_t bytes, decision_key *key)
{
    const size_t forced = choice->forced == NULL ? 0 : strlen(choice->forced);
    if (bytes == 0 || bytes > PROBLEM_BYTES || forced >= TALC_ALGORITHM_TEXT)
        return 0;
    const size_t words = (offsetof(decision_key, problem) + bytes + 7) / 8;
    memset(key, 0, words * 8);
    key->device = choice->device;
    key->list = list;
    key->limit = choice->limit;
    key->bytes = bytes;
    key->precision = choice->precision;
    if (choice->forced != NULL)
        memcpy(key->forced, choice->forced, forced);
    memcpy(key->problem, problem, bytes);
    return words * 8;
}

/* Every bit of a word reaches the low ones by the shift (Knuth, TAOCP 3, 6.4, multiplication). */
static uint64_t hash_of(const decision_key *key, size_t bytes)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word;
        memcpy(&word, (const unsigned char *)key + i, 8);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash == 0 ? 1 : hash;
}

bool talc_decision_find(const talc_choice *choice, const talc_algorithm *list, const void *problem,
                        size_t bytes, talc_considered *found)
{
    decision_key key;
    if (!__atomic_load_n(&any, __ATOMIC_RELAXED))
        return false;
    const size_t compared = key_of(choice, list, problem, bytes, &key);
    const uint64_t hash = hash_of(&key, compared);
    if (compared == 0 || __atomic_test_and_set(&busy, __ATOMIC_ACQUIRE))
        return false;
    bool is_known = false;
    for (const decision *at = decisions[hash % SETS]; at < decisions[hash % SETS] + WAYS; at++)
        if (at->hash == hash && memcmp(&at->key, &key, compared) == 0) {
            *found = at->chosen;
            is_known = true;
            break;
        }
    __atomic_clear(&busy, __ATOMIC_RELEASE);
    return is_known;
}

void talc_decision_add(const talc_choice *choice, const talc_algorithm *list, const void *problem,
                       size_t bytes)
{
    decision_key key;
    const size_t compared = key_of(choice, list, problem, bytes, &key);
    const uint64_t hash = hash_of(&key, compared);
    if (compared == 0 || __atomic_test_and_set(&busy, __ATOMIC_ACQUIRE))
        return;
    const size_t set = hash % SETS;
    decision *at = &decisions[set][oldest[set]];
    oldest[set] = (unsigned char)((oldest[set] + 1) % WAYS);
    at->hash = hash;
    memcpy(&at->key, &key, compared);
    at->chosen = choice->algorithms[choice->chosen];
    __atomic_store_n(&any, true, __ATOMIC_RELAXED);
    __atomic_clear(&busy, __ATOMIC_RELEASE);
}
