/// Compiling a hot function once for each generation of vector units, chosen when the program is loaded. Private to
/// backends/cpu.
///
/// The build's baseline may be as old as SSE2. Needs gcc and ifunc (glibc); elsewhere, and under sanitizers, whose
/// instrumentation runs before ifuncs may, functions are compiled once.
#ifndef TALC_BACKENDS_CPU_TARGET_H
#define TALC_BACKENDS_CPU_TARGET_H

#include <features.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TALC_TARGET_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TALC_TARGET_CLONES
#endif

/// Before a loop whose iterations do not read what others write, though compilers cannot know it: where a result takes the place of an
/// operand. Clang would warn of every such loop that it does not turn into vector code.
#if defined(__clang__)
#define TALC_INDEPENDENT
#else
#define TALC_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
