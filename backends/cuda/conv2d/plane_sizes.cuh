/// Sizes of convolutions in 32 bits. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_PLANE_SIZES_CUH
#define TALC_BACKENDS_CUDA_CONV2D_PLANE_SIZES_CUH

#include "backends/cuda/primitives/index.cuh"

namespace talc
{

/// What a plane of x and one of y are, for kernels whose offsets in a plane are 32-bit.
struct plane_sizes {
    int H, W, OH, OW, pad_top, pad_left;

    explicit plane_sizes(const talc_conv2d_problem *p)
        : H((int)p->H), W((int)p->W), OH((int)p->OH), OW((int)p->OW), pad_top((int)p->pad_top),
          pad_left((int)p->pad_left)
    {
    }
};

/// Whether planes are not empty and no offset or padding in them passes `max`.
inline bool planes_fit(const talc_conv2d_problem *p, int64_t max)
{
    return p->H >= 1 && p->W >= 1 && p->H <= max / p->W && p->OH <= max / p->OW &&
           p->pad_top <= max && p->pad_left <= max && p->pad_bottom <= max && p->pad_right <= max;
}

} // namespace talc

#endif
