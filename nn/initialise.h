/// Initialisers of parameters, by PyTorch's formulas (torch.nn.init).
///
///     talc_initialise(weight, &(talc_initialiser){ .kind = TALC_INIT_ORTHOGONAL });
///     talc_module_initialise(net, "*.conv*.weight",
///                            &(talc_initialiser){ .kind = TALC_INIT_KAIMING_NORMAL,
///                                                 .mode = TALC_FAN_OUT });
///
/// A weight [out, in, ...] has fan_in = in * K and fan_out = out * K, K being the product of the
/// extents behind; of a grouped convolution's weight, whose second extent is in/groups, the same
/// formula, as PyTorch counts it. With gain g
///
///     constant           value
///     uniform            uniform in [low, high)
///     normal             normal of mean and std
///     trunc_normal       normal of mean and std, of what lies from low to high, by the inverse
///                        distribution function
///     xavier_uniform     uniform in +-g sqrt(6 / (fan_in + fan_out))
///     xavier_normal      normal, std = g sqrt(2 / (fan_in + fan_out))
///     kaiming_uniform    uniform in +-g sqrt(3 / fan), fan one of the two, by the mode
///     kaiming_normal     normal, std = g / sqrt(fan)
///     orthogonal         g Q, Q of [dim 0, all others] with orthonormal columns, or rows where
///                        there are fewer of them: of the QR decomposition of standard normal
///                        numbers, R's diagonal positive, so that it is uniform
///
/// Each tensor takes one call of the thread's generator (tensor/random.h), a constant none.
/// Elements are the same on every device, but for the last place of f32's normal ones. trunc_normal
/// and orthogonal are worked out in f64 on the CPU; orthogonal takes time as m n min(m, n).
/// PyTorch's random numbers are others.
///
/// Errors: NULL; a tensor that is neither f32 nor f64, but for a constant that its type holds;
/// fewer than 2 dimensions where there is a fan or a Q; numbers that are not finite, a negative
/// std, low above high; no memory.
///
/// Sources: Glorot and Bengio 2010; He et al. 2015; Saxe et al. 2013.
#ifndef TALC_NN_INITIALISE_H
#define TALC_NN_INITIALISE_H

#include "module.h"

TALC_BEGIN_DECLARATIONS

typedef enum talc_init_kind {
    TALC_INIT_CONSTANT,
    TALC_INIT_UNIFORM,
    TALC_INIT_NORMAL,
    TALC_INIT_TRUNC_NORMAL,
    TALC_INIT_XAVIER_UNIFORM,
    TALC_INIT_XAVIER_NORMAL,
    TALC_INIT_KAIMING_UNIFORM,
    TALC_INIT_KAIMING_NORMAL,
    TALC_INIT_ORTHOGONAL,
    TALC_INIT_KIND_COUNT
} talc_init_kind;

typedef enum talc_fan_mode { TALC_FAN_IN, TALC_FAN_OUT, TALC_FAN_MODE_COUNT } talc_fan_mode;

typedef struct talc_initialiser {
    talc_init_kind kind;
    double value;       ///< constant
    double low, high;   ///< uniform: both 0: 0 and 1; trunc_normal: both 0: -2 and 2
    double mean;        ///< normal and trunc_normal
    double std;         ///< normal and trunc_normal; 0: 1, TALC_ZERO: 0
    double gain;        ///< 0: 1, of kaiming the root of 2, as for relu; TALC_ZERO: 0
    talc_fan_mode mode; ///< kaiming
} talc_initialiser;

typedef enum talc_nonlinearity {
    TALC_GAIN_LINEAR, ///< convolutions and sigmoid too
    TALC_GAIN_TANH,
    TALC_GAIN_RELU,
    TALC_GAIN_LEAKY_RELU,
    TALC_GAIN_SELU,
    TALC_NONLINEARITY_COUNT
} talc_nonlinearity;

/// The gain that PyTorch recommends (calculate_gain): 1, 5/3, sqrt(2), sqrt(2 / (1 + slope^2)) with
/// the slope below 0 of leaky_relu, which the others have no use for, and 3/4. 0, with a failure,
/// for one that does not exist.
TALC_API double talc_gain(talc_nonlinearity nonlinearity, double negative_slope);

/// Overwrites a tensor, of a module or any other, views too. It is left as it was on failure.
TALC_API bool talc_initialise(talc_tensor *tensor, const talc_initialiser *initialiser);

/// Initialises the parameters, not the buffers, whose paths a pattern fits (fnmatch): "*.weight",
/// "layer?.*.conv1.weight". Returns how many there are. -1, with a failure, where the pattern fits
/// none, or where one of them cannot be initialised so; then nothing has changed, unless memory ran
/// out.
TALC_API int64_t talc_module_initialise(talc_module *module, const char *pattern,
                                        const talc_initialiser *initialiser);

TALC_END_DECLARATIONS

#endif
