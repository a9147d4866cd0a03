/// What a reduction keeps of the elements that it has seen. Private to backends/cuda.
///
/// A state belongs to one output. `add` takes elements k, k + step, k + 2 step ... of the
/// reduction; a thread adds in ascending order. `join` combines it with another state. `result` is
/// y's element. States are plain data, and a fresh one has seen nothing.
///
/// A thread that counts its elements in 32 bits adds them to a `counted`, and makes it a state when
/// it has them all: position(k) says where its element k stands, and position(0) where its first
/// one does.
#ifndef TALC_BACKENDS_CUDA_REDUCE_STATES_CUH
#define TALC_BACKENDS_CUDA_REDUCE_STATES_CUH

#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/group.cuh"

#include <limits>
#include <type_traits>

namespace talc
{

/// Sums, in f64 for floating point, after f32 sums of four elements where there are as many; in 64
/// bits, which wrap around, for integers.
template <typename T> struct total {
    static constexpr bool ORDERED = false;
    using element = T;
    using sum_type = total_of<T>;
    using result_type = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
    using counted = total;
    sum_type value = 0;

    total() = default;
    template <typename Position> __device__ total(const counted &seen, Position) : value(seen.value)
    {
    }
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
    __device__ result_type result(double divisor) const
    {
        if constexpr (std::is_floating_point_v<T>)
            return (T)(divisor == 1 ? value : value / divisor);
        else
            return (int64_t)value;
    }
};

/// No floating point number is below it.
template <typename T>
constexpr T LOWEST = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                                 : std::numeric_limits<T>::lowest();

/// The elements' order: as they are, or flipped, so that the largest is the smallest of what they
/// were made from, which they give back when flipped again. So one kernel serves both.
template <typename T> struct order {
    unsigned_of<T> flips; ///< bits: of integers all, as the lowest one has no negative

    explicit order(bool smallest)
        : flips(!smallest                     ? 0
                : std::is_floating_point_v<T> ? (unsigned_of<T>)1 << (8 * sizeof(T) - 1)
                                              : ~(unsigned_of<T>)0)
    {
    }
    __device__ T operator()(T x) const
    {
        unsigned_of<T> bits;
        memcpy(&bits, &x, sizeof bits);
        bits ^= flips;
        memcpy(&x, &bits, sizeof bits);
        return x;
    }
};

/// The largest. A NaN replaces what is there, and nothing replaces a NaN.
template <typename T> struct maximum {
    static constexpr bool ORDERED = true;
    using element = T;
    using result_type = T;
    using counted = maximum;
    T value = LOWEST<T>;

    maximum() = default;
    template <typename Position>
    __device__ maximum(const counted &seen, Position) : value(seen.value)
    {
    }
    template <int COUNT> __device__ void add(const vec<T, COUNT> &x, int64_t, int)
    {
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            value = larger_or_nan(value, x.of[e]);
    }
    __device__ void join(const maximum &other)
    {
        value = larger_or_nan(value, other.value);
    }
    __device__ result_type result(double) const
    {
        return value;
    }
};

/// Where the largest stands: the first of several. A state that saw nothing above LOWEST says 0,
/// which is right where there is nothing else: then all elements are LOWEST. Packed: lanes exchange
/// no padding.
template <typename T, typename Index = int64_t>
struct __attribute__((packed, aligned(4))) argument_of_max {
    static constexpr bool ORDERED = true;
    using element = T;
    using result_type = int64_t;
    using counted = argument_of_max<T, int>;
    Index at = 0;
    T value = LOWEST<T>;

    argument_of_max() = default;
    template <typename Position>
    __device__ argument_of_max(const counted &seen, Position position)
        : at(position(seen.at)), value(seen.value)
    {
    }
    /* The largest of a few first, then where it stands, in steps that do not wait for each other;
     * f64 has no instruction for the first. A comparison with NaN is false. */
    template <int COUNT> __device__ void add(const vec<T, COUNT> &x, Index k, int step)
    {
        constexpr int FEW = std::is_same_v<T, double> ? 1
                            : COUNT % 4 == 0          ? 4
                            : COUNT % 2 == 0          ? 2
                                                      : 1;
#pragma unroll
        for (int first = 0; first < COUNT; first += FEW) {
            T of[FEW];
#pragma unroll
            for (int e = 0; e < FEW; e++)
                of[e] = x.of[first + e];
            T max = of[0];
#pragma unroll
            for (int e = 1; e < FEW; e++)
                max = larger_or_nan(max, of[e]);
            if (!(max <= value) && value == value) {
                int found = FEW - 1;
#pragma unroll
                for (int e = FEW - 2; e >= 0; e--)
                    found = of[e] == max ? e : found;
                if (__builtin_expect(max != max, 0))
#pragma unroll
                    for (int e = FEW - 1; e >= 0; e--)
                        found = of[e] != of[e] ? e : found;
                value = max;
                at = k + (Index)(first + found) * step;
            }
        }
    }
    __device__ void join(const argument_of_max &other)
    {
        const T max = larger_or_nan((T)value, (T)other.value);
        const bool own = value == max || value != value;
        const bool others = other.value == max || other.value != other.value;
        if (others && (!own || other.at < at))
            *this = other;
    }
    __device__ result_type result(double) const
    {
        return at;
    }
};

/// What elements are multiplied with in moments: of f64 a power of two once their squares are too
/// large.
template <typename T> struct scaled_elements {
    static constexpr double unit = 1;
    __device__ void scale()
    {
    }
};
template <> struct scaled_elements<double> {
    double unit = 1;
    __device__ void scale()
    {
        unit = 0x1p-600;
    }
};

/// The moments of a variance, in f64: of a thread's elements the sum and the squares of their
/// distances from the first one, of joined states the squares around the mean, which `shift` is
/// then. No distance passes that of two elements.
template <typename T> struct moments : scaled_elements<T> {
    static constexpr bool ORDERED = false;
    using element = T;
    using result_type = T;
    using counted = moments;
    using scaled_elements<T>::unit;
    /* Elements farther apart are scaled, lest their squares be infinite where the variance is not:
     * those of FAR, times every element there may be, are finite. */
    static constexpr double FAR = 1e140;
    static constexpr bool MAY_BE_LARGE = std::is_same_v<T, double>;
    double shift = 0, sum = 0, squares = 0;
    int64_t count = 0;

    moments() = default;
    template <typename Position> __device__ moments(const counted &seen, Position)
    {
        *this = seen;
    }
    template <int COUNT> __device__ void add(const vec<T, COUNT> &x, int64_t, int)
    {
        if (count == 0)
            shift = (double)x.of[0];
        count += COUNT;
        bool near = true;
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            near &= fabs((double)x.of[e] - shift) <= FAR; /* false of NaN */
        if (MAY_BE_LARGE && unit == 1 && !near)
            scale();
#pragma unroll
        for (int e = 0; e < COUNT; e++) {
            const double apart =
                MAY_BE_LARGE ? fma((double)x.of[e], unit, -shift) : (double)x.of[e] - shift;
            sum += apart;
            squares += apart * apart;
        }
    }
    __device__ void scale()
    {
        if (unit != 1)
            return;
        scaled_elements<T>::scale();
        shift *= unit;
        sum *= unit;
        squares = squares * unit * unit;
    }
    __device__ double mean() const
    {
        return shift + sum / (double)count;
    }
    __device__ double squares_around_mean() const
    {
        return squares - sum * (sum / (double)count);
    }
    __device__ void join(const moments &other)
    {
        if (other.count == 0)
            return;
        if (count == 0) {
            *this = other;
            return;
        }
        moments next = other;
        if (MAY_BE_LARGE && !(unit == next.unit && fabs(next.mean() - mean()) <= FAR)) {
            scale();
            next.scale();
        }
        const double own = mean(), all = (double)(count + next.count);
        const double share = (double)next.count / all, apart = next.mean() - own;
        squares = squares_around_mean() + next.squares_around_mean() +
                  apart * ((double)count * share) * apart;
        shift = own + apart * share;
        sum = 0;
        count += next.count;
    }
    __device__ result_type result(double divisor) const
    {
        return (T)(squares_around_mean() / divisor / unit / unit);
    }
};

/// The largest element and the sum of exp(x - largest): exponentials in the data's type, their sum
/// in f64. An element that is as large as the largest, also where that is infinite, adds 1.
template <typename T> struct exponentials {
    static constexpr bool ORDERED = false;
    using element = T;
    using result_type = T;
    using counted = exponentials;
    double sum = 0;
    T max = LOWEST<T>;
    T unused = 0; /* lanes exchange no padding */

    exponentials() = default;
    template <typename Position> __device__ exponentials(const counted &seen, Position)
    {
        *this = seen;
    }
    static __device__ T below(T x, T largest)
    {
        return x == largest ? (T)1 : exp(x - largest);
    }
    /* A sum below another largest. Its factor is exact enough to be applied once for every
     * element. */
    __device__ void rescale(T largest)
    {
        if (largest == max)
            return;
        sum *= exp((double)max - (double)largest);
        max = largest;
    }
    template <int COUNT> __device__ void add(const vec<T, COUNT> &x, int64_t, int)
    {
        T largest = max;
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            largest = larger_or_nan(largest, x.of[e]);
        rescale(largest);
        T few = 0;
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            few += below(x.of[e], max);
        sum += (double)few;
    }
    __device__ void join(const exponentials &other)
    {
        exponentials scaled = other;
        const T largest = larger_or_nan(max, other.max);
        rescale(largest);
        scaled.rescale(largest);
        sum += scaled.sum;
    }
    __device__ result_type result(double) const
    {
        return (T)(log(sum) + (double)max);
    }
};

/// Where an output's elements stand. Outputs that lie along one dimension, as rows do, need none of
/// a walk's steps.
static __device__ __forceinline__ int64_t offset_of(const strided_index<1, uint64_t> &kept,
                                                    int64_t output)
{
    if (kept.rank == 1)
        return output * kept.strides[0][0];
    int64_t at[1];
    kept.offsets((uint64_t)output, at);
    return at[0];
}

/// The elements of x.
template <typename T> struct source {
    const T *at;

    __device__ source operator+(int64_t offset) const
    {
        return { at + offset };
    }
    /* The first `count` vectors; next() is the offset of one after the other. */
    template <int COUNT, int BATCH, typename Next>
    __device__ __forceinline__ void load(vec<T, COUNT> (&values)[BATCH], int count, Next next) const
    {
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int64_t offset = next();
            if (k < count)
                values[k] = *(const vec<T, COUNT> *)(at + offset);
        }
    }
};

/// Integers of any type, as i64. Networks reduce none, so their types share kernels.
template <> struct source<int64_t> {
    const void *at;
    talc_dtype dtype;
    int64_t first;

    __device__ source operator+(int64_t offset) const
    {
        return { at, dtype, first + offset };
    }
    template <int BATCH, typename Next>
    __device__ __forceinline__ void load(vec<int64_t, 1> (&values)[BATCH], int count,
                                         Next next) const
    {
        int64_t offsets[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            offsets[k] = next();
        switch (dtype) {
#define TALC_CASE(constant, name, T, safetensors)                                                  \
    case constant:                                                                                 \
        if constexpr (std::is_integral_v<T>)                                                       \
            _Pragma("unroll") for (int k = 0; k < BATCH; k++) if (k < count) values[k].of[0] =     \
                (int64_t)((const T *)at)[first + offsets[k]];                                      \
        break;
            TALC_DTYPE_TABLE(TALC_CASE)
#undef TALC_CASE
        default:
            break;
        }
    }
};

/// Where the results go: y, or [parts][outputs] states, of which a block's part is its number in y.
template <typename State> struct target {
    using T = typename State::element;
    typename State::result_type *y;
    State *partials; /* NULL: y */
    int64_t outputs;
    double divisor; /* of sums and variances */
    order<T> in_order;
    talc_dtype dtype; /* of integers: of x */

    /* As the state takes them. */
    template <int COUNT> __device__ vec<T, COUNT> ordered(vec<T, COUNT> x) const
    {
        if constexpr (State::ORDERED)
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                x.of[e] = in_order(x.of[e]);
        return x;
    }
    __device__ void write(int64_t output, const State &state) const
    {
        if (partials != NULL)
            partials[blockIdx.y * outputs + output] = state;
        else if constexpr (std::is_same_v<State, maximum<int64_t>>)
            store_as<int64_t>(y, dtype, output, in_order(state.result(divisor)));
        else if constexpr (std::is_same_v<State, maximum<T>>)
            y[output] = in_order(state.result(divisor));
        else
            y[output] = state.result(divisor);
    }
};

} // namespace talc

#endif
