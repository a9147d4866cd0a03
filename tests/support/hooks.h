/// What every test program does around each test. See CONTRIBUTING.md for why Criterion alone is
/// not enough.
#ifndef TALC_TESTS_HOOKS_H
#define TALC_TESTS_HOOKS_H

#include "talc.h"
#include "tests/support/owned.h"

#include <criterion/criterion.h>

/// The CPU.
talc_device *cpu_device(void);

/// The device under test: the one that TALC_TEST_DEVICE names, "fake" for the tests' own; the CPU
/// when it is not set. The tests of the suite `device` take theirs from here, and look at its
/// memory only through copies.
talc_device *tested_device(void);

/// Passes when this thread has no failure; shows the message when it has.
#define assert_no_failure() cr_assert(!talc_failed(), "failure: %s", talc_error_message())

/// Passes when exactly this failure stands, and clears it.
void assert_failure(talc_status status, const char *message);

/// The same for a message that is printed by a format.
void assert_failure_with(talc_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/// Lets the library's next `count` allocations succeed, and none after them.
void allow_allocations(int64_t count);

/// Lets all succeed again; whether one was refused meanwhile.
bool allow_all_allocations(void);

/// Frees what the thread's scopes hold and fails the test when the pool of the CPU, of the device
/// under test or of a fake device has live bytes or the leak checker, where one is built in, finds
/// a leak. Fake devices are closed then.
void assert_all_freed(void);

/// What every test ends with, by the macro below: no failure stands, its files go away, and all is
/// freed.
void assert_test_over(void);

/// Criterion's own Test, for one that ends on a lost device, of which nothing can be asked.
#define OpenEndedTest(suite, name) CR_EXPAND(CR_TEST_BASE(suite, name, .sentinel_ = 0))

/// Criterion's Test, whose body assert_test_over() follows: Criterion does not fail a test for a
/// leak, nor for an assertion of a suite's `fini`.
#undef Test
#define Test(...) TEST_THAT_ENDS(__VA_ARGS__, .sentinel_ = 0)
#define TEST_THAT_ENDS(suite, name, ...)                                                           \
    static void test_##suite##_##name(void);                                                       \
    CR_EXPAND(CR_TEST_BASE(suite, name, __VA_ARGS__))                                              \
    {                                                                                              \
        test_##suite##_##name();                                                                   \
        assert_test_over();                                                                        \
    }                                                                                              \
    static void test_##suite##_##name(void)

#endif
