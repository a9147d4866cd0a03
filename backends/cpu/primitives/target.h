/// Compiling a hot function once for each generation of vector units, chosen when the program is
/// loaded. Private to backends/cpu.
///
/// The build's baseline may be as old as SSE2; the others are AVX2 and AVX-512, both with fused
/// products for files that allow them. Needs gcc 12 and ifunc (glibc); elsewhere, and under
/// sanitizers, whose instrumentation runs before ifuncs may, functions are compiled once.
#ifndef TALC_BACKENDS_CPU_PRIMITIVES_TARGET_H
#define TALC_BACKENDS_CPU_PRIMITIVES_TARGET_H

#include <features.h>

#if defined(__x86_64__) && defined(__GLIBC__) && __GNUC__ >= 12 && !defined(__clang__) &&          \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TALC_TARGET_CLONES                                                                         \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TALC_TARGET_CLONES
#endif

/// Of a function that takes constants of its callers, or their vector units.
#define TALC_ALWAYS_INLINE static inline __attribute__((always_inline))

/// Before a loop whose iterations do not read what others write, though compilers cannot know it:
/// where a result takes the place of an operand. Clang would warn of every such loop that it does
/// not turn into vector code.
#if defined(__clang__)
#define TALC_INDEPENDENT
#else
#define TALC_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
