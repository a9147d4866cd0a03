/// Tables of calls that must be refused: what each answers, and that it changes and keeps nothing.
#ifndef TALC_TESTS_REFUSED_H
#define TALC_TESTS_REFUSED_H

#include "talc.h"

#include <math.h>

/// Watches a tensor until refused_end: its elements, shape and version must never change.
void refused_watch(talc_tensor *tensor);

/// `call` returns NULL or false, with this status and exactly this message; watched tensors, live
/// bytes on the CPU and the fake device, and the innermost scope's tensors are then as before. A
/// failing row is shown and the table goes on.
#define REFUSED(status, message, call)                                                             \
    do {                                                                                           \
        refused_before();                                                                          \
        refused_after(__FILE__, __LINE__, #call, (call) != 0, status, message);                    \
    } while (0)

/// The same where the message holds an address or a text of the system: it has to begin like this.
#define REFUSED_LIKE(status, beginning, call)                                                      \
    do {                                                                                           \
        refused_before();                                                                          \
        refused_after_like(__FILE__, __LINE__, #call, (call) != 0, status, beginning);             \
    } while (0)

/// A call that bad input does not make fail: it gives `expression` true and raises nothing.
#define HARMLESS(expression)                                                                       \
    do {                                                                                           \
        refused_before();                                                                          \
        refused_harmless(__FILE__, __LINE__, #expression, (expression));                           \
    } while (0)

/// Fails the test when a row failed, fewer than `at_least` rows ran, or anything is left behind:
/// files are removed, the rest must be freed. It ends a test.
void refused_end(int at_least);

void refused_before(void);
void refused_after(const char *file, int line, const char *call, bool gave, talc_status status,
                   const char *message);
void refused_after_like(const char *file, int line, const char *call, bool gave, talc_status status,
                        const char *beginning);
void refused_harmless(const char *file, int line, const char *expression, bool holds);

#endif
