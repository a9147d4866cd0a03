#include "ops/owner_map.h"

const char *talc_level_kind_name(talc_level_kind kind)
{
    static const char *const names[] = { "task", "tile",     "vector", "lane",    "block",
                                         "warp", "register", "split",  "sequence" };
    return (unsigned)kind < TALC_LEVEL_KIND_COUNT ? names[kind] : "?";
}

const char *talc_loop_index_name(talc_loop_index index)
{
    static const char *const names[] = { "term", "channel", "tap" };
    return (unsigned)index < TALC_LOOP_INDEX_COUNT ? names[index] : "?";
}
