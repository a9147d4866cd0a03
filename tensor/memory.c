#include "tensor/memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool (*talc_allocation_hook)(size_t bytes) = NULL;

bool talc_allocation_allowed(size_t bytes)
{
    return talc_allocation_hook == NULL || talc_allocation_hook(bytes);
}

void *talc_memory_new(size_t bytes, const char *what)
{
    void *memory = talc_allocation_allowed(bytes) ? calloc(1, bytes == 0 ? 1 : bytes) : NULL;
    if (memory == NULL)
        talc_fail(TALC_NO_MEMORY, "%s: out of host memory: asked %zu byte%s", what, bytes,
                  TALC_PLURAL(bytes));
    return memory;
}

void talc_memory_free(void *memory)
{
    free(memory);
}

void *talc_memory_grown(void *list, size_t count, size_t *capacity, size_t size, const char *what)
{
    if (count < *capacity)
        return list;
    const size_t more = *capacity == 0 ? 16 : 2 * *capacity;
    void *grown = talc_memory_new(more * size, what);
    if (grown == NULL)
        return NULL;
    if (count > 0)
        memcpy(grown, list, count * size);
    talc_memory_free(list);
    *capacity = more;
    return grown;
}

char *talc_memory_string(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = talc_memory_new(bytes, "string");
    if (copy != NULL)
        memcpy(copy, text, bytes);
    return copy;
}

void *talc_handle_new(void)
{
    enum { AT_ONCE = 1024 }; /* numbers that a thread takes, so that threads seldom meet */
    static atomic_uintptr_t taken;
    static _Thread_local uintptr_t last;
    if (last % AT_ONCE == 0)
        last = atomic_fetch_add(&taken, AT_ONCE);
    return (void *)++last;
}

bool talc_multiply(int64_t a, int64_t b, int64_t *product)
{
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, product);
}

bool talc_add_checked(int64_t a, int64_t b, int64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}
