/// Marks of the public interface: linkage, visibility, printf checking.
#ifndef TALC_TENSOR_API_H
#define TALC_TENSOR_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define TALC_BEGIN_DECLARATIONS extern "C" {
#define TALC_END_DECLARATIONS   }
#else
#define TALC_BEGIN_DECLARATIONS
#define TALC_END_DECLARATIONS
#endif

#if defined(__GNUC__)
#define TALC_API __attribute__((visibility("default")))
#define TALC_PRINTF(format_index, args_index)                                                      \
    __attribute__((format(printf, format_index, args_index)))
#else
#define TALC_API
#define TALC_PRINTF(format_index, args_index)
#endif

/// Functions that C and CUDA code share compile for both sides.
#ifdef __CUDACC__
#define TALC_HOST_DEVICE __host__ __device__
#else
#define TALC_HOST_DEVICE
#endif

#endif
