/// Hopper's asynchronous matrix products and what goes with them: fences, register counts. Private
/// to backends/cuda. Source: PTX ISA 8.5, section 9.7.14 (wgmma).
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_WGMMA_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_WGMMA_CUH

#include <cuda_runtime.h>
#include <stdint.h>

namespace talc
{

/// Makes the thread's writes to shared memory visible to wgmma.
static __device__ __forceinline__ void fence_async_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- Registers ----------------------------------------------------------------------------------

template <int COUNT> static __device__ __forceinline__ void registers_up()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> static __device__ __forceinline__ void registers_down()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// ---- Products -----------------------------------------------------------------------------------

/// A matrix in shared memory without swizzle: its address and, in units of 16 bytes, how far it is
/// from one group of 8 columns to the next along the reduction, `leading`, and along the other
/// dimension, `stride`. Of a transposed one, too: there each 16 bytes are 8 elements of the other
/// dimension, and 8 of those along the reduction are next to each other.
struct shared_matrix {
    uint32_t at, stride;
};

static __device__ __forceinline__ shared_matrix shared_matrix_of(uint32_t address, int leading,
                                                                 int stride)
{
    /* In a cluster, the address begins with the block's number. */
    return { address % (1 << 18) / 16 | (uint32_t)leading << 16, (uint32_t)stride };
}

#define TALC_WGMMA_8(d, i)                                                                         \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])

/// d += a b, or d = a b where `add` is 0: a [64, 16] in registers, b [16, 64] in shared memory, f16
/// with f32 sums.
static __device__ __forceinline__ void wgmma(float (&d)[32], const uint4 &a, shared_matrix b,
                                             int add)
{
    asm volatile(
        "{\n.reg .pred add;\n.reg .b64 b;\nsetp.ne.b32 add, %38, 0;\nmov.b64 b, {%36, %37};\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, b, add, 1, 1, 0;\n}"
        : TALC_WGMMA_8(d, 0), TALC_WGMMA_8(d, 8), TALC_WGMMA_8(d, 16), TALC_WGMMA_8(d, 24)
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.at), "r"(b.stride), "r"(add));
}

/// The same with b [16, 128], and b [16, 32].
static __device__ __forceinline__ void wgmma(float (&d)[64], const uint4 &a, shared_matrix b,
                                             int add)
{
    asm volatile("{\n.reg .pred add;\n.reg .b64 b;\nsetp.ne.b32 add, %70, 0;\n"
                 "mov.b64 b, {%68, %69};\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "{%64, %65, %66, %67}, b, add, 1, 1, 0;\n}"
                 : TALC_WGMMA_8(d, 0), TALC_WGMMA_8(d, 8), TALC_WGMMA_8(d, 16), TALC_WGMMA_8(d, 24),
                   TALC_WGMMA_8(d, 32), TALC_WGMMA_8(d, 40), TALC_WGMMA_8(d, 48),
                   TALC_WGMMA_8(d, 56)
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.at), "r"(b.stride), "r"(add));
}

static __device__ __forceinline__ void wgmma(float (&d)[16], const uint4 &a, shared_matrix b,
                                             int add)
{
    asm volatile("{\n.reg .pred add;\n.reg .b64 b;\nsetp.ne.b32 add, %22, 0;\n"
                 "mov.b64 b, {%20, %21};\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "{%16, %17, %18, %19}, b, add, 1, 1, 0;\n}"
                 : TALC_WGMMA_8(d, 0), TALC_WGMMA_8(d, 8)
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.at), "r"(b.stride), "r"(add));
}

/// The same with a [64, 16] in shared memory and b [16, 128].
static __device__ __forceinline__ void wgmma(float (&d)[64], shared_matrix a, shared_matrix b,
                                             int add)
{
    asm volatile("{\n.reg .pred add;\n.reg .b64 a, b;\nsetp.ne.b32 add, %68, 0;\n"
                 "mov.b64 a, {%64, %65};\nmov.b64 b, {%66, %67};\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "a, b, add, 1, 1, 0, 0;\n}"
                 : TALC_WGMMA_8(d, 0), TALC_WGMMA_8(d, 8), TALC_WGMMA_8(d, 16), TALC_WGMMA_8(d, 24),
                   TALC_WGMMA_8(d, 32), TALC_WGMMA_8(d, 40), TALC_WGMMA_8(d, 48),
                   TALC_WGMMA_8(d, 56)
                 : "r"(a.at), "r"(a.stride), "r"(b.at), "r"(b.stride), "r"(add));
}

/// The same in TF32: a [64, 8] in registers and b [8, twice the count of sums] in shared memory,
/// whose groups of columns are four.
static __device__ __forceinline__ void wgmma_tf32(float (&d)[32], const uint4 &a, shared_matrix b,
                                                  int add)
{
    asm volatile(
        "{\n.reg .pred add;\n.reg .b64 b;\nsetp.ne.b32 add, %38, 0;\nmov.b64 b, {%36, %37};\n"
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, b, add, 1, 1;\n}"
        : TALC_WGMMA_8(d, 0), TALC_WGMMA_8(d, 8), TALC_WGMMA_8(d, 16), TALC_WGMMA_8(d, 24)
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.at), "r"(b.stride), "r"(add));
}

static __device__ __forceinline__ void wgmma_tf32(float (&d)[16], const uint4 &a, shared_matrix b,
                                                  int add)
{
    asm volatile(
        "{\n.reg .pred add;\n.reg .b64 b;\nsetp.ne.b32 add, %22, 0;\nmov.b64 b, {%20, %21};\n"
        "wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, b, add, 1, 1;\n}"
        : TALC_WGMMA_8(d, 0), TALC_WGMMA_8(d, 8)
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.at), "r"(b.stride), "r"(add));
}

/// The same with both transposed: a [64, 16] and b [16, 2 * the count of sums], 32 or 64, whose
/// reduction does not run along the 16 bytes.
static __device__ __forceinline__ void wgmma_transposed(float (&d)[16], shared_matrix a,
                                                        shared_matrix b, int add)
{
    asm volatile("{\n.reg .pred add;\n.reg .b64 a, b;\nsetp.ne.b32 add, %20, 0;\n"
                 "mov.b64 a, {%16, %17};\nmov.b64 b, {%18, %19};\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "a, b, add, 1, 1, 1, 1;\n}"
                 : TALC_WGMMA_8(d, 0), TALC_WGMMA_8(d, 8)
                 : "r"(a.at), "r"(a.stride), "r"(b.at), "r"(b.stride), "r"(add));
}

static __device__ __forceinline__ void wgmma_transposed(float (&d)[32], shared_matrix a,
                                                        shared_matrix b, int add)
{
    asm volatile("{\n.reg .pred add;\n.reg .b64 a, b;\nsetp.ne.b32 add, %36, 0;\n"
                 "mov.b64 a, {%32, %33};\nmov.b64 b, {%34, %35};\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "a, b, add, 1, 1, 1, 1;\n}"
                 : TALC_WGMMA_8(d, 0), TALC_WGMMA_8(d, 8), TALC_WGMMA_8(d, 16), TALC_WGMMA_8(d, 24)
                 : "r"(a.at), "r"(a.stride), "r"(b.at), "r"(b.stride), "r"(add));
}

#undef TALC_WGMMA_8

static __device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Until at most PENDING committed groups are left.
template <int PENDING> static __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

} // namespace talc

#endif
