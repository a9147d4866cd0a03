/// Optimizer steps: many parameters updated at once. Private to talc; nn/optimizer.h is what
/// programs use.
///
/// With g the gradient and p the parameter, element by element, in the data's own type:
///
///     sgd      g += decay p;  b = momentum b + (1 - dampening) g, in the first step b = g;
///              g = nesterov ? g + momentum b : b;  p -= lr g
///     adam     g += decay p, or decoupled: p -= lr decay p;
///              m += (1 - beta1)(g - m);  v = beta2 v + (1 - beta2) g g;
///              p -= lr / correction1 * m / (sqrt(v) / sqrt(correction2) + eps),
///              correction_i = 1 - beta_i^step
///     rmsprop  g += decay p;  v = beta2 v + (1 - beta2) g g;  centered: a += (1 - beta2)(g - a);
///              d = sqrt(max(v - a a, 0)) + eps, as roundings may leave less than nothing of
///              gradients that hardly change;
///              b = momentum b + g / d;  p -= lr b, without momentum p -= lr g / d
///     scale    p = scale p
///     norm     y = n, min(1, max_norm / (n + 1e-6)), as clipping wants them;
///              n the square root of the sum of p p over all parameters, added up in f64
///
/// Source: Sutskever, Martens, Dahl and Hinton 2013; Kingma and Ba 2015, arXiv 1412.6980;
/// Loshchilov and Hutter 2019, arXiv 1711.05101; Tieleman and Hinton 2012; the formulas of
/// torch.optim.
#ifndef TALC_OPS_UPDATE_H
#define TALC_OPS_UPDATE_H

#include "ops/algorithm.h"

TALC_BEGIN_DECLARATIONS

typedef enum talc_update_rule {
    TALC_UPDATE_SGD,
    TALC_UPDATE_ADAM,
    TALC_UPDATE_RMSPROP,
    TALC_UPDATE_SCALE,
    TALC_UPDATE_NORM
} talc_update_rule;

enum {
    TALC_UPDATE_TENSORS =
        68, ///< that an algorithm updates at once: what 4 KB of a CUDA kernel's arguments hold
            ///<
    TALC_UPDATE_PART = 4096, ///< elements of a tensor whose squares make a sum of their own
    TALC_UPDATE_STATES = 3,  ///< of a parameter: sgd b; adam m, v; rmsprop v, a, b
};

/// Plain data. Numbers that a rule has no use for are 0.
typedef struct talc_update_problem {
    talc_update_rule rule;
    talc_dtype dtype;
    double lr;
    double momentum; ///< adam: beta1
    double beta2;    ///< rmsprop: the decay of the mean square
    double dampening, decay, eps;
    double correction1, correction2;
    bool nesterov, decoupled, centered;
    bool first; ///< sgd: of these parameters' steps
    double max_norm;
    int64_t parts_before; ///< norm: of the tensors in earlier calls
    bool last;            ///< norm: call, which writes y
    int count;
    int64_t numel[TALC_UPDATE_TENSORS];
} talc_update_problem;

/// Device pointers to contiguous arrays of numel elements; gradient and states are NULL where the
/// rule has none.
typedef struct talc_update_arguments {
    talc_arguments base;
    const void *scale; ///< one number on the device, for TALC_UPDATE_SCALE
    /// talc_update_float or talc_update_double, by the type, in the device's memory, instead of the
    /// problem's numbers; NULL: none
    const void *numbers;
    double *parts; ///< norm: sums of squares, of the tensors in their order; all of them, of this
                   ///< call's and the earlier ones
    void *y;       ///< norm: two numbers
    struct {
        void *parameter;
        const void *gradient;
        void *states[TALC_UPDATE_STATES];
    } tensors[TALC_UPDATE_TENSORS];
} talc_update_arguments;

/// What is updated: contiguous tensors of one dtype and device.
typedef struct talc_updated {
    talc_tensor *parameter;
    const talc_tensor *gradient;
    talc_tensor *states[TALC_UPDATE_STATES];
} talc_updated;

/// Updates `count` tensors by problem's rule, which is not norm, and numbers; its count and numel
/// are filled in here. `scale` for TALC_UPDATE_SCALE, else NULL; `numbers` as in the arguments. It
/// allocates nothing, so that it fails before anything is written or not at all.
bool talc_update(const char *op, const talc_update_problem *problem, const talc_updated *tensors,
                 int64_t count, const talc_tensor *scale, const void *numbers);

/// Writes to y, [2] of their type, what the rule norm gives of `count` parameters. It allocates in
/// the scope of the caller.
bool talc_update_norm(const char *op, double max_norm, const talc_updated *tensors, int64_t count,
                      talc_tensor *y);

/// The parts that the squares of a problem's tensors are added up in.
int64_t talc_update_parts(const talc_update_problem *problem);

// ---- One element, for C and CUDA ----------------------------------------------------------------

/// The numbers of a problem in type T.
#define TALC_UPDATE_NUMBERS(T)                                                                     \
    typedef struct talc_update_##T {                                                               \
        talc_update_rule rule;                                                                     \
        T lr, momentum, rest, beta2, rest2, damped, decay, shrink, eps, root2;                     \
        bool nesterov, centered, first, decays, moves;                                             \
    } talc_update_##T;                                                                             \
                                                                                                   \
    static inline talc_update_##T talc_update_in_##T(const talc_update_problem *p)                 \
    {                                                                                              \
        talc_update_##T u;                                                                         \
        u.rule = p->rule;                                                                          \
        u.lr = (T)(p->rule == TALC_UPDATE_ADAM ? p->lr / p->correction1 : p->lr);                  \
        u.momentum = (T)p->momentum;                                                               \
        u.rest = (T)(1 - p->momentum);                                                             \
        u.beta2 = (T)p->beta2;                                                                     \
        u.rest2 = (T)(1 - p->beta2);                                                               \
        u.damped = (T)(1 - p->dampening);                                                          \
        u.decay = (T)p->decay;                                                                     \
        u.shrink = (T)(p->decoupled ? 1 - p->lr * p->decay : 1);                                   \
        u.eps = (T)p->eps;                                                                         \
        u.root2 = (T)(p->rule == TALC_UPDATE_ADAM ? sqrt(p->correction2) : 1);                     \
        u.nesterov = p->nesterov;                                                                  \
        u.centered = p->centered;                                                                  \
        u.first = p->first;                                                                        \
        u.decays = p->decay != 0 && !p->decoupled;                                                 \
        u.moves = p->momentum != 0;                                                                \
        return u;                                                                                  \
    }

/// And the rules in it.
#define TALC_UPDATE_IN(T, root)                                                                    \
    TALC_UPDATE_NUMBERS(T)                                                                         \
                                                                                                   \
    static inline TALC_HOST_DEVICE void talc_update_norm_##T(double squares, T max_norm, T *y)     \
    {                                                                                              \
        const T norm = (T)sqrt(squares), scale = max_norm / (norm + (T)1e-6);                      \
        y[0] = norm;                                                                               \
        y[1] = scale > 1 ? 1 : scale;                                                              \
    }                                                                                              \
                                                                                                   \
    static inline TALC_HOST_DEVICE void talc_update_element_##T(const talc_update_##T *u, T scale, \
                                                                T *p, T g, T *s0, T *s1, T *s2)    \
    {                                                                                              \
        if (u->rule == TALC_UPDATE_SCALE) {                                                        \
            *p *= scale;                                                                           \
            return;                                                                                \
        }                                                                                          \
        if (u->decays)                                                                             \
            g += u->decay * *p;                                                                    \
        if (u->rule == TALC_UPDATE_SGD) {                                                          \
            if (u->moves) {                                                                        \
                const T b = u->first ? g : u->momentum * *s0 + u->damped * g;                      \
                *s0 = b;                                                                           \
                g = u->nesterov ? g + u->momentum * b : b;                                         \
            }                                                                                      \
            *p -= u->lr * g;                                                                       \
        } else if (u->rule == TALC_UPDATE_ADAM) {                                                  \
            const T m = *s0 + u->rest * (g - *s0), v = u->beta2 * *s1 + u->rest2 * g * g;          \
            *s0 = m;                                                                               \
            *s1 = v;                                                                               \
            *p = *p * u->shrink - u->lr * (m / (root(v) / u->root2 + u->eps));                     \
        } else {                                                                                   \
            const T v = u->beta2 * *s0 + u->rest2 * g * g;                                         \
            T spread = v;                                                                          \
            *s0 = v;                                                                               \
            if (u->centered) {                                                                     \
                *s1 += u->rest2 * (g - *s1);                                                       \
                spread = v - *s1 * *s1;                                                            \
                spread = spread < 0 ? 0 : spread;                                                  \
            }                                                                                      \
            T step = g / (root(spread) + u->eps);                                                  \
            if (u->moves) {                                                                        \
                step += u->momentum * *s2;                                                         \
                *s2 = step;                                                                        \
            }                                                                                      \
            *p -= u->lr * step;                                                                    \
        }                                                                                          \
    }

TALC_END_DECLARATIONS

#endif
