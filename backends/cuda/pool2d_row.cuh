/// What the rows of the pooling list share on their way to a launch. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_POOL2D_ROW_CUH
#define TALC_BACKENDS_CUDA_POOL2D_ROW_CUH

#include "backends/cuda/pool2d_state.cuh"

namespace
{

/* Some of a problem's planes. */
template <typename T> struct plane_slice {
    const T *x;
    T *y;
    int64_t *indices; ///< NULL: not wanted
    int64_t planes;
};

/* Calls `launch` with slices in which what a plane has `a_plane` of counts to 2^31 at most. False as soon as one gives that. */
template <typename T, typename Launch>
static bool for_slices(const talc_pool2d_problem *p, const talc_pool2d_arguments *arguments,
                       int64_t a_plane, Launch launch)
{
    const int64_t planes = p->N * p->C, most = INT_MAX / a_plane;
    for (int64_t first = 0; first < planes; first += most) {
        const int64_t at = first * p->OH * p->OW;
        const plane_slice<T> slice = { (const T *)arguments->x + first * p->H * p->W,
                                       (T *)arguments->y + at,
                                       p->indices ? arguments->indices + at : NULL,
                                       planes - first < most ? planes - first : most };
        if (!launch(slice))
            return false;
    }
    return true;
}

/* What kernels for windows of a fixed size are told. */
struct image_plan {
    int H, W, OH, OW, pad_h, pad_w;
    divide average;

    explicit image_plan(const talc_pool2d_problem *p)
        : H((int)p->H), W((int)p->W), OH((int)p->OH), OW((int)p->OW), pad_h((int)p->pad_h),
          pad_w((int)p->pad_w), average{ p->exclude_padding, p->divisor }
    {
    }
};

/* Windows of K by K, S apart, for one of the pairs that a row is compiled for. */
static bool is_square(const talc_pool2d_problem *p, int64_t K, int64_t S)
{
    return p->KH == K && p->KW == K && p->stride_h == S && p->stride_w == S && p->dilation_h == 1 &&
           p->dilation_w == 1;
}

} // namespace

#endif
