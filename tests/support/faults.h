/// Makes the k-th allocation of a scenario fail, for every k, and checks what must hold afterwards.
#ifndef TALC_TESTS_FAULTS_H
#define TALC_TESTS_FAULTS_H

#include "tests/support/hooks.h"

/// What a scenario may use, and where it puts its results.
typedef struct fault_run {
    talc_device *device;
    void *fixture; ///< what the scenario's `begin` made
    char *results; ///< bytes of everything kept, one after the other
    size_t size, capacity;
} fault_run;

typedef struct fault_scenario {
    const char *name;
    /// Makes what the scenario reads, while nothing fails: in the current scope, or owned by the
    /// fixture. NULL: nothing.
    void *(*begin)(talc_device *device);
    /// The calls under test. Frees what it makes outside scopes, also after a failure. May stop at
    /// the first failure.
    void (*run)(fault_run *run);
    /// Writes what the fixture holds, to show that it has not changed. NULL: nothing.
    void (*inputs)(fault_run *run);
    void (*end)(void *fixture); ///< NULL: nothing to free
} fault_scenario;

/// Adds a tensor's elements to the results.
void fault_keep(fault_run *run, const talc_tensor *tensor);

/// Adds bytes: a file's content, a text.
void fault_keep_bytes(fault_run *run, const void *bytes, size_t count);

/// Runs the scenario undisturbed, then with the k-th allocation failing once and with all from the
/// k-th on failing, for k = 1, 2, ... until no allocation is left to fail. After each: either
/// TALC_NO_MEMORY with a message, or, where the library managed without, the undisturbed results;
/// live bytes on the CPU and the fake devices as before; inputs unchanged; and the next undisturbed
/// run gives the same bits. Returns how many runs failed.
int assert_survives_allocation_failures(const fault_scenario *scenario, talc_device *device);

/// The same on the CPU and the fake device, with at least `at_least` failing runs on each; nothing
/// is left behind then. It ends a test.
void assert_survives_everywhere(const fault_scenario *scenario, int at_least);

/// A test of that alone; the scenario follows.
#define TEST_SURVIVES(suite, test, at_least, ...)                                                  \
    Test(suite, test)                                                                              \
    {                                                                                              \
        assert_survives_everywhere(&(fault_scenario){ __VA_ARGS__ }, at_least);                    \
    }

#endif
