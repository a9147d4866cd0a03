/// The last step of products, as backends/cuda/primitives/epilogue.cuh declares it; of activations
/// relu alone.
#ifndef TALC_TESTS_EMULATION_EPILOGUE_CUH
#define TALC_TESTS_EMULATION_EPILOGUE_CUH

#include "tests/emulation/emulation.h"
#include "ops/activation.h"

namespace talc
{

template <typename T> struct epilogue {
    const T *bias, *residual;
    talc_activation activation;

    bool is_empty() const
    {
        return bias == nullptr && residual == nullptr && activation == TALC_ACTIVATION_NONE;
    }
};

template <bool CALLS, typename T, int N> void activate_all(talc_activation activation, T (&v)[N])
{
    for (T &x : v)
        x = activation == TALC_ACTIVATION_RELU ? (x > 0 || isnan(x) ? x : 0) : x;
}

template <typename T> T talc_epilogue(const epilogue<T> &e, T sum, int64_t channel, int64_t at)
{
    T v[1] = { sum };
    if (e.bias != nullptr)
        v[0] += e.bias[channel];
    if (e.residual != nullptr)
        v[0] += e.residual[at];
    activate_all<false>(e.activation, v);
    return v[0];
}

} // namespace talc

#endif
