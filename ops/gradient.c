#include "ops/gradient.h"

#include "ops/reduce.h"
#include "tensor/shape.h"

talc_tensor *talc_tape_add(const talc_tensor *a, const talc_tensor *b)
{
    return talc_add(a, b);
}

talc_tensor *talc_tape_sum_to(talc_tensor *gradient, talc_dims dims)
{
    if (gradient == NULL || talc_shape_equal(talc_dims_of(gradient), dims))
        return gradient;
    const int added = gradient->rank - dims.rank;
    talc_dims axes = TALC_SCALAR;
    for (int i = 0; i < gradient->rank; i++)
        if (i < added || gradient->dims[i] != dims.dim[i - added])
            axes.dim[axes.rank++] = i;
    talc_tensor *sum = axes.rank == 0 ? gradient : talc_sum(gradient, axes, true);
    return sum == NULL ? NULL : talc_reshape(sum, dims);
}

talc_tensor *talc_activation_gradient(talc_activation activation, const talc_tensor *dy,
                                      const talc_tensor *y)
{
    switch (activation) {
    case TALC_ACTIVATION_RELU:
        return talc_unary_gradient(TALC_RELU, dy, y);
    case TALC_ACTIVATION_SIGMOID:
        return talc_unary_gradient(TALC_SIGMOID, dy, y);
    case TALC_ACTIVATION_TANH:
        return talc_unary_gradient(TALC_TANH, dy, y);
    default:
        return (talc_tensor *)dy;
    }
}
