/// What norms and their gradients share. Private to backends/cuda/norm.
#ifndef TALC_BACKENDS_CUDA_NORM_GRADIENT_H
#define TALC_BACKENDS_CUDA_NORM_GRADIENT_H

#include "ops/batch_norm2d.h"

namespace talc
{

/* Values of a part, and about as many parts has a channel at most: of a gradient, where each block
 * of the second pass reads the sums of all of these, and forward. */
constexpr int64_t PART_VALUES = 16384, GRADIENT_PARTS = 1024, FORWARD_PARTS = 4096;

/* Of a part of a channel of `count` values. */
inline int64_t values_of_part(int64_t count, int64_t max_parts)
{
    int64_t values = PART_VALUES;
    while (values * max_parts < count)
        values *= 2;
    return values;
}

/* FIRST writes the sums of each part. SECOND adds up the sums of all parts with the same mean, and
 * writes dx of a part. BOTH does both where there is only one part. */
enum gradient_pass { BOTH, FIRST, SECOND };

/* Of g and of g (x - mean), or of dy and of dy x^. */
struct gradient_sums {
    double g = 0, product = 0;

    TALC_HOST_DEVICE void join(const gradient_sums &other)
    {
        g += other.g;
        product += other.product;
    }
};

} // namespace talc

/// The gradient of batch normalisation: channels in parts, with a workspace, or a block a channel.
talc_status talc_cuda_norm_gradient(talc_device *device, const talc_batch_norm2d_problem *p,
                                    const talc_batch_norm2d_arguments *a, bool in_parts);
size_t talc_cuda_norm_gradient_workspace(const talc_batch_norm2d_problem *p);

#endif
