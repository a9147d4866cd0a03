/// The floating-point environment that talc computes in: IEEE 754's default one, with rounding to
/// nearest, denormals as they are and no traps, whatever a caller has set. Private to talc.
///
///     const talc_fenv before = talc_fenv_enter();
///     ...                      // function calls: the compiler may move operations out of here
///     talc_fenv_leave(before); // the caller's again
///
/// Libraries that are built with -ffast-math set FTZ and DAZ (denormal results and operands count
/// as 0) for their threads as they are loaded; interval arithmetic sets a rounding mode. Pairs
/// nest, and cost a few nanoseconds: a control register is read, and written only where it differs.
#ifndef TALC_TENSOR_FENV_H
#define TALC_TENSOR_FENV_H

#include <stdbool.h>
#include <stdint.h>

/// The control registers of a thread: MXCSR on x86, FPCR on Arm, and the x87 unit's control word,
/// which `long double` obeys.
typedef struct talc_fenv {
    uint64_t control;
    uint16_t x87;
} talc_fenv;

#if defined(__x86_64__)

enum {
    TALC_MXCSR_CONTROL = 0xFFC0, /* without the status flags, which are left alone */
    TALC_X87_CONTROL = 0x0F3F,
    TALC_MXCSR = 0x1F80, /* all exceptions masked, and nothing else */
    TALC_X87 = 0x037F,   /* and 64 bits of mantissa */
    TALC_MXCSR_FOREIGN = 0xDFC0,
    TALC_X87_FOREIGN = 0x0B7F
};

static inline talc_fenv talc_fenv_now(void)
{
    uint32_t mxcsr;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (talc_fenv){ mxcsr, x87 };
}

static inline void talc_fenv_set(talc_fenv from, talc_fenv to)
{
    const uint32_t mxcsr = (uint32_t)to.control;
    if (((from.control ^ to.control) & TALC_MXCSR_CONTROL) != 0)
        __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr) : "memory");
    if (((from.x87 ^ to.x87) & TALC_X87_CONTROL) != 0)
        __asm__ volatile("fldcw %0" : : "m"(to.x87) : "memory");
}

static inline talc_fenv talc_fenv_default(void)
{
    return (talc_fenv){ TALC_MXCSR, TALC_X87 };
}

/// Flushes denormals and rounds upwards: what a caller's may be at its worst.
static inline talc_fenv talc_fenv_foreign(void)
{
    return (talc_fenv){ TALC_MXCSR_FOREIGN, TALC_X87_FOREIGN };
}

static inline bool talc_fenv_same(talc_fenv a, talc_fenv b)
{
    return ((a.control ^ b.control) & TALC_MXCSR_CONTROL) == 0 &&
           ((a.x87 ^ b.x87) & TALC_X87_CONTROL) == 0;
}

#elif defined(__aarch64__)

static inline talc_fenv talc_fenv_now(void)
{
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return (talc_fenv){ fpcr, 0 };
}

static inline void talc_fenv_set(talc_fenv from, talc_fenv to)
{
    if (from.control != to.control)
        __asm__ volatile("msr fpcr, %0" : : "r"(to.control) : "memory");
}

static inline talc_fenv talc_fenv_default(void)
{
    return (talc_fenv){ 0, 0 };
}

static inline talc_fenv talc_fenv_foreign(void)
{
    return (talc_fenv){ 1 << 24 | 1 << 22, 0 };
}

static inline bool talc_fenv_same(talc_fenv a, talc_fenv b)
{
    return a.control == b.control;
}

#else /* the caller's, then */

static inline talc_fenv talc_fenv_now(void)
{
    return (talc_fenv){ 0, 0 };
}

static inline void talc_fenv_set(talc_fenv from, talc_fenv to)
{
    (void)from, (void)to;
}

static inline talc_fenv talc_fenv_default(void)
{
    return (talc_fenv){ 0, 0 };
}

static inline talc_fenv talc_fenv_foreign(void)
{
    return (talc_fenv){ 0, 0 };
}

static inline bool talc_fenv_same(talc_fenv a, talc_fenv b)
{
    (void)a, (void)b;
    return true;
}

#endif

/// Makes the default environment the thread's; returns what stood, for talc_fenv_leave.
static inline talc_fenv talc_fenv_enter(void)
{
    const talc_fenv before = talc_fenv_now();
    talc_fenv_set(before, talc_fenv_default());
    return before;
}

/// Gives the thread back what talc_fenv_enter found. What stood as it has to stands still.
static inline void talc_fenv_leave(talc_fenv before)
{
    talc_fenv_set(talc_fenv_default(), before);
}

static inline void talc_fenv_end(const talc_fenv *before)
{
    talc_fenv_leave(*before);
}

/// From here to the end of the block.
#define TALC_DEFAULT_FENV                                                                          \
    const talc_fenv talc_fenv_before __attribute__((cleanup(talc_fenv_end), unused)) =             \
        talc_fenv_enter()

#endif
