/// Blocks of CUDA kernels on the CPU: what tests run where there is no GPU.
///
/// A kernel is compiled as C++, with this header before it and tests/emulation/ before the
/// project's root on the include path, so that it gets this folder's barriers, copies and
/// tensor-core products in place of those in PTX. Its threads are fibers of one thread, which take
/// turns wherever they wait for others: at shuffles, votes and barriers. A block whose threads all
/// wait ends the test.
///
/// Emulated are the order of things and the arithmetic, up to the order in which a tensor core
/// adds; not caches, races between warps that run at once, or the time that anything takes.
/// Asynchronous copies arrive as late as they may.
#ifndef TALC_TESTS_EMULATION_H
#define TALC_TESTS_EMULATION_H

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

using std::isinf;
using std::isnan;
using std::max;
using std::min;

/* What the host's compiler does not know. */
#ifndef __noinline__
#define __noinline__
#endif
#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif

/* The running thread's. */
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation
{

/// Runs the blocks of a grid one after the other, each with `shared` bytes of shared memory, which
/// begin as bytes that are no number. False, with a line on stderr, where threads wait for each
/// other.
bool run_grid(dim3 grid, unsigned threads, size_t shared, const std::function<void()> &kernel);

/// Lets another thread run.
void yield();

/// Tells that a thread got on, so that those who wait for it look again.
void progress();

/// The block's shared memory, and its address for instructions.
char *shared_memory();
constexpr uint32_t SHARED_BASE = 4096;

/// Gives a value to the warp's other lanes, and takes theirs.
void exchange(uint64_t mine, uint64_t (&all)[32]);

template <typename T> T of_lane(T value, unsigned lane)
{
    uint64_t bits = 0, all[32];
    memcpy(&bits, &value, sizeof value);
    exchange(bits, all);
    memcpy(&value, &all[lane], sizeof value);
    return value;
}

} // namespace emulation

// ---- Functions of CUDA's device code ------------------------------------------------------------

template <typename T> T __shfl_sync(unsigned, T value, int lane)
{
    return emulation::of_lane(value, (unsigned)lane);
}

template <typename T> T __shfl_xor_sync(unsigned, T value, int apart)
{
    return emulation::of_lane(value, threadIdx.x % 32 ^ (unsigned)apart);
}

unsigned __ballot_sync(unsigned, bool vote);
inline bool __any_sync(unsigned lanes, bool vote)
{
    return __ballot_sync(lanes, vote) != 0;
}
inline bool __all_sync(unsigned lanes, bool vote)
{
    return __ballot_sync(lanes, vote) == ~0u;
}

void __syncthreads();

template <typename T> T __ldg(const T *at)
{
    return *at;
}

inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}
inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}
inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline unsigned __float_as_uint(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
inline float __uint_as_float(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
inline int __float_as_int(float x)
{
    return (int)__float_as_uint(x);
}
inline float __int_as_float(int bits)
{
    return __uint_as_float((unsigned)bits);
}
template <typename T, typename U> T atomicAdd(T *at, U value)
{
    const T before = *at;
    *at += (T)value;
    return before;
}

#endif
