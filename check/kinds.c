#include "check/check.h"

const char *talc_check_kind_name(talc_check_kind kind)
{
    static const char *const names[] = {
        "exact",    "random",  "constant",  "wide",   "huge",       "tiny",      "nan",
        "infinity", "guards",  "inputs",    "trust",  "misaligned", "workspace", "rerun",
        "threads",  "status",  "batch",     "groups", "dilation",   "stride",    "pointwise",
        "padding",  "adjoint", "linearity", "shift",
    };
    _Static_assert(sizeof names / sizeof *names == TALC_CHECK_KIND_COUNT, "a name for every kind");
    return (unsigned)kind < TALC_CHECK_KIND_COUNT ? names[kind] : "?";
}
