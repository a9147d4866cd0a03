/// The public enums, structs and functions, which declarations.py reads from the headers when talc
/// is built.
#ifndef TALC_TOOLS_CLI_DECLARATIONS_H
#define TALC_TOOLS_CLI_DECLARATIONS_H

#include <stddef.h>

/// A member of an enum, which has a value; a field of a struct; the result of a function, then its
/// parameters.
typedef struct declared {
    const char *name; ///< NULL behind the last
    const char *type; ///< as C writes it: "int64_t[2]"; "" of nested structs and of functions
    size_t offset, size;
    long long value;
} declared;

typedef struct declaration {
    const char *name; ///< NULL behind the last
    size_t size;
    const declared *members;
} declaration;

extern const declaration declared_enums[], declared_structs[], declared_functions[];

#endif
