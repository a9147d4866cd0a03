/* The microkernels of each generation, compiled for a target that has AVX-512: none takes another's
 * place. */
#include "backends/cpu/primitives/microkernel.h"

#include <string.h>

int main(void)
{
    return strcmp(talc_cpu_microkernels_portable.name, "portable") != 0 ||
           strcmp(talc_cpu_microkernels_avx2.name, "avx2") != 0 ||
           strcmp(talc_cpu_microkernels_avx512.name, "avx512") != 0;
}
