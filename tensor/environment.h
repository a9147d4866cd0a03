/// The environment variables, read once. Private to talc; calls of the API win over them.
///
///     TALC_VERBOSE       error, dispatch, exec: comma-joined; a line on stderr for each failure,
///                        each algorithm chosen or refused, each op run
///     TALC_SYNC          1: wait for the device after each op and name the op that failed
///     TALC_PRECISION     strict, normwise, tf32: classes admitted by default, comma-joined
///     TALC_THREADS       CPU threads, 1 .. 1024
///     TALC_AFFINITY      1: each CPU thread but the calling one keeps to a processor of its own,
///                        in several processes of a host (LOCAL_RANK) each to another
///     TALC_CPU           portable, avx2, avx512: vector instructions of `implicit_gemm`; unset:
///                        the widest there are. portable plans for a L2 cache of 1 MiB,
///                        whatever the machine has
///     TALC_WORKSPACE_MB  workspace limit of each device in MiB, 1 .. 1048576
///     TALC_DEVICE        what talc_device_default gives; unset: the first GPU, else the CPU
///     LOCAL_RANK         which of the host's processes of a group this is, and so which GPU is its
///                        own, as torchrun sets it; else OMPI_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID
///     TALC_FUSE          0: modules are applied one by one (nn/fuse.h)
///     OPENBLAS_CORETYPE  OpenBLAS's own: whose kernels it runs; unset: those with the vectors that
///                        talc uses
///     COLUMNS            how wide tables are (tensor/table.h); a shell's own, so that a value that
///                        is no width is unset without a word
///
/// An unknown value warns once on stderr and counts as unset.
#ifndef TALC_TENSOR_ENVIRONMENT_H
#define TALC_TENSOR_ENVIRONMENT_H

#include "tensor/api.h"

enum { TALC_VERBOSE_ERROR = 1, TALC_VERBOSE_DISPATCH = 2, TALC_VERBOSE_EXEC = 4 };

/// Generations of vector units, each wider than those before.
typedef enum talc_vector_units {
    TALC_VECTORS_BEST,
    TALC_VECTORS_PORTABLE,
    TALC_VECTORS_AVX2,
    TALC_VECTORS_AVX512
} talc_vector_units;

typedef struct talc_environment_values {
    unsigned verbose; ///< TALC_VERBOSE_ flags
    bool sync;
    unsigned precision; ///< talc_precision flags beyond STRICT
    int threads;        ///< 0: unset
    bool affinity;
    talc_vector_units cpu;      ///< TALC_VECTORS_BEST: unset
    size_t workspace_megabytes; ///< 0: unset
    char device[24];            ///< "": unset
    bool fuse;                  ///< unless it is 0
    bool openblas_core;         ///< OPENBLAS_CORETYPE is set
    int columns;                ///< 0: unset
    int local_rank;             ///< -1: unset
    const char *local_rank_of;  ///< the variable that says so
} talc_environment_values;

const talc_environment_values *talc_environment(void);

/// A line on stderr, "talc: " before it: for what is no failure, but surely not meant.
void talc_warn(const char *format, ...) TALC_PRINTF(1, 2);

/// Says on stderr that a variable's value is ignored, and what it takes.
void talc_environment_warn(const char *name, const char *value, const char *wanted);

#endif
