/// What the processor has: vector units and caches. Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_PRIMITIVES_PROCESSOR_H
#define TALC_BACKENDS_CPU_PRIMITIVES_PROCESSOR_H

#include "backends/cpu/primitives/microkernel.h"
#include "tensor/tensor.h"

/// The microkernels for the widest vector unit that the processor has, or those of TALC_CPU.
const talc_cpu_microkernels *talc_cpu_microkernels_used(void);

/// Those of that name, "portable", "avx2" or "avx512", for plans: this processor may lack what they
/// need. NULL where there are none.
const talc_cpu_microkernels *talc_cpu_microkernels_named(const char *name);

/// Those of an element type that has kernels.
const talc_cpu_kernels *talc_cpu_kernels_of(talc_dtype dtype);

/// Bytes of a core's L2 cache; 1 MiB where the machine does not say, and under TALC_CPU=portable,
/// so that its plans are the same on every machine.
int64_t talc_cpu_cache_bytes(void);

#endif
