/// Random elements, as tensor/philox.h defines them.
///
///     y[i] = distribution(philox(seed, call, i))
///
/// A thread draws whole Philox blocks, four f32 numbers or two of a wider type. Compiled without
/// contraction of products and sums, so that every bit is the CPU's.
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/index.cuh"
#include "tensor/philox.h"

#include <type_traits>

using namespace talc;

static __device__ double clamp(const talc_random_problem &p, double value)
{
    return value < p.lowest ? p.lowest : value > p.highest ? p.highest : value;
}

/* The numbers of one block, from element `first` on. */
static __device__ void draw(const talc_random_problem &p, int64_t first, float (&y)[4])
{
    const talc_philox_block block = talc_philox(p.seed, p.call, (uint64_t)(first / 4));
    for (int i = 0; i < 4 && p.distribution == TALC_UNIFORM; i++)
        y[i] = (float)clamp(p, (double)(float)(p.a + (p.b - p.a) * talc_uniform24(block.word[i])));
    for (int i = 0; i < 4 && p.distribution == TALC_NORMAL; i += 2) {
        double z[2];
        talc_normal_pair32(block.word[i], block.word[i + 1], &z[0], &z[1]);
        y[i] = (float)(p.a + p.b * z[0]);
        y[i + 1] = (float)(p.a + p.b * z[1]);
    }
}

static __device__ void draw(const talc_random_problem &p, int64_t first, double (&y)[2])
{
    const talc_philox_block block = talc_philox(p.seed, p.call, (uint64_t)(first / 2));
    const uint64_t u = talc_philox_pair(block, 0), v = talc_philox_pair(block, 1);
    if (p.distribution == TALC_UNIFORM) {
        y[0] = clamp(p, p.a + (p.b - p.a) * talc_uniform53(u));
        y[1] = clamp(p, p.a + (p.b - p.a) * talc_uniform53(v));
    } else {
        double z[2];
        talc_normal_pair53(u, v, &z[0], &z[1]);
        y[0] = p.a + p.b * z[0];
        y[1] = p.a + p.b * z[1];
    }
}

template <typename T>
static __device__ void draw(const talc_random_problem &p, int64_t first, T (&y)[2])
{
    const talc_philox_block block = talc_philox(p.seed, p.call, (uint64_t)(first / 2));
    for (int i = 0; i < 2; i++)
        y[i] = (T)((uint64_t)p.low + talc_integer_below(talc_philox_pair(block, i), p.range));
}

template <typename T, int N> static __global__ void random_kernel(talc_random_problem p, T *y)
{
    if (p.counter != nullptr)
        p.seed = p.counter[0], p.call = p.counter[1];
    const int64_t blocks = (p.count + N - 1) / N;
    TALC_GRID_LOOP(int64_t, b, blocks)
    {
        T drawn[N];
        draw(p, b * N, drawn);
        for (int i = 0; i < N; i++)
            if (b * N + i < p.count)
                y[b * N + i] = drawn[i];
    }
}

template <typename T, int N>
static void launch(talc_device *device, const talc_random_problem *p, void *y)
{
    random_kernel<T, N><<<grid_for_threads(device, talc_ceil_div(p->count, N)), BLOCK, 0,
                          talc_cuda_stream(device)>>>(*p, (T *)y);
}

talc_status talc_cuda_random(talc_device *device, const talc_random_problem *p, void *y)
{
    const talc_status status = talc_cuda_enter(device, "random");
    if (status != TALC_OK)
        return status;
    return with_element(p->dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        launch<T, std::is_same_v<T, float> ? 4 : 2>(device, p, y);
        return talc_cuda_launched(device, "random");
    });
}
