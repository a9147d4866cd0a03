/// What a reduction keeps of the elements that it has seen. Private to backends/cuda.
///
/// A state belongs to one output. `add` takes elements k, k + step, k + 2 step ... of the reduction; a thread adds in ascending
/// order. `join` takes what another state has seen. `result` is y's element. States are plain data, and a fresh one has seen
/// nothing.
#ifndef TALC_BACKENDS_CUDA_REDUCE_STATES_CUH
#define TALC_BACKENDS_CUDA_REDUCE_STATES_CUH

#include "backends/cuda/group.cuh"

#include <limits>
#include <type_traits>

namespace talc
{

/// Sums, in f64 for floating point, after f32 sums of four elements where there are as many; in 64 bits, which wrap around,
/// for integers.
template <typename T> struct total {
    using sum_type = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
    using result_type = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
    sum_type value = 0;

    template <int COUNT> __device__ void add(const vec<T, COUNT> &x, int64_t, int)
    {
        constexpr int SINGLES = std::is_same_v<T, float> ? COUNT / 4 * 4 : 0;
#pragma unroll
        for (int e = 0; e < SINGLES; e += 4)
            value += (double)((x.of[e] + x.of[e + 1]) + (x.of[e + 2] + x.of[e + 3]));
#pragma unroll
        for (int e = SINGLES; e < COUNT; e++)
            value += (sum_type)x.of[e]; /* signed integers become what they are modulo 2^64 */
    }
    __device__ void join(const total &other)
    {
        value += other.value;
    }
    __device__ result_type result(double mean_of) const
    {
        if constexpr (std::is_floating_point_v<T>)
            return (T)(mean_of > 0 ? value / mean_of : value);
        else
            return (int64_t)value;
    }
};

/// No floating point number is below it.
template <typename T>
constexpr T LOWEST = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                                 : std::numeric_limits<T>::lowest();

/// A type of whole words, which lanes can exchange.
template <typename T> using word_of = std::conditional_t<sizeof(T) < 4, int32_t, T>;

/// The largest. A NaN replaces what is there, and nothing replaces a NaN.
template <typename T> struct maximum {
    using result_type = T;
    word_of<T> value = LOWEST<T>;

    __device__ void add_one(word_of<T> x)
    {
        value = larger_or_nan(value, x);
    }
    template <int COUNT> __device__ void add(const vec<T, COUNT> &x, int64_t, int)
    {
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            add_one(x.of[e]);
    }
    __device__ void join(const maximum &other)
    {
        add_one(other.value);
    }
    __device__ result_type result(double) const
    {
        return (T)value;
    }
};

/// Where the largest stands: the first of several. A state that saw nothing above LOWEST says 0, which is right where there is
/// nothing else: then all elements are LOWEST.
template <typename T> struct place {
    using result_type = int64_t;
    int64_t at = 0;
    word_of<T> value = LOWEST<T>;

    /* Counting within the pack first keeps 64-bit numbers out of the steps. A comparison with NaN is false. */
    template <int COUNT> __device__ void add(const vec<T, COUNT> &x, int64_t k, int step)
    {
        int found = -1;
#pragma unroll
        for (int e = 0; e < COUNT; e++) {
            const word_of<T> next = x.of[e];
            if (!(next <= value) && value == value) {
                value = next;
                found = e;
            }
        }
        if (found >= 0)
            at = k + (int64_t)found * step;
    }
    __device__ void join(const place &other)
    {
        const bool nan = value != value, other_nan = other.value != other.value;
        const bool earlier = other.at < at;
        if (nan || other_nan ? other_nan && (!nan || earlier)
                             : other.value > value || (other.value == value && earlier))
            *this = other;
    }
    __device__ result_type result(double) const
    {
        return at;
    }
};

/// Where the results go: y, or [parts][outputs] states, of which a block's part is its number in y.
template <typename State> struct target {
    typename State::result_type *y;
    State *partials; /* NULL: y */
    int64_t outputs;
    double mean_of; /* K for means, else 0 */

    __device__ void write(int64_t output, const State &state) const
    {
        if (partials != NULL)
            partials[blockIdx.y * outputs + output] = state;
        else
            y[output] = state.result(mean_of);
    }
};

} // namespace talc

#endif
