/// Reductions of each channel's planes, over all images: [N, C, P] to [C]. Private to
/// backends/cuda.
///
/// Planes of few values are no whole 16-byte vectors, and channels of few planes do not fill a
/// block. So a block takes adjacent planes of several channels: a thread has COUNT neighbouring
/// columns, whichever planes they belong to, and loops over the images of a part with full-width
/// loads. Its partial results are combined in shared memory, first over the rows of threads, then
/// over the columns of each plane. The order follows from the shape alone.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_PLANES_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_PLANES_CUH

#include "backends/cuda/primitives/group.cuh"

namespace talc
{

/// The maximum of values of a plane.
constexpr int64_t MAX_PLANE = 256;

/// Blocks that keep any GPU busy.
constexpr int64_t PLANE_BLOCKS = 4096;

struct plane_tiling {
    int64_t N, C, stride;   /* stride: from one image to the next, in elements */
    int64_t images, parts;  /* images of a part */
    int P, planes, vectors; /* adjacent in a block; vectors that they take */

    /// The planes that fill a block with loads of 16 bytes, and with `in_parts` how many parts the
    /// images are split into. The number of parts does not depend on x's alignment, so that the
    /// workspace follows from the problem.
    plane_tiling(int64_t N_, int64_t C_, int64_t P_, int64_t stride_, int64_t size, bool in_parts)
        : N(N_), C(C_), stride(stride_), images(N_), parts(1), P((int)P_), planes(1), vectors(1)
    {
        if (N == 0 || C == 0 || P == 0) /* planned like any other, never launched */
            return;
        side_by_side(VECTOR_BYTES / size);
        const int64_t across = talc_ceil_div(C, planes), min = 8 * (BLOCK / vectors);
        if (!in_parts)
            return;
        images = talc_ceil_div(N * across, PLANE_BLOCKS);
        images = images > min ? images : min;
        parts = talc_ceil_div(N, images);
    }
    /// Elements of a load: a vector's where x and every image in it are aligned and consist of
    /// whole vectors, else 1.
    int64_t count_of(int64_t size, const void *x) const
    {
        const int64_t count = size < 8 ? VECTOR_BYTES / size : 1;
        return is_aligned(x) && stride % count == 0 && C * P % count == 0 ? count : 1;
    }
    void side_by_side(int64_t count)
    {
        int64_t unit = 1; /* planes that are whole vectors together */
        while (unit * P % count != 0)
            unit++;
        const int64_t max = BLOCK * count / P / unit * unit, all = talc_ceil_div(C, unit) * unit;
        planes = (int)(max < all ? max : all);
        vectors = (int)(planes * P / count);
    }
};

/* Work has a `state` and a `start`: begin(x, c, first, end) gives the start for channel c and a
 * part's images, add(state, start, values, k, step) adds elements k, k + step ... of the channel,
 * and write(c, start, state) takes the result. */
template <typename Work, typename T, int COUNT>
static __global__ void __launch_bounds__(BLOCK)
    reduce_planes(const Work work, const T *x, const plane_tiling tiling)
{
    using State = typename Work::state;
    constexpr int BATCH = COUNT > 1 ? 4 : 8;
    __shared__ State shared[BLOCK * COUNT];
    const int P = tiling.P, rows = BLOCK / tiling.vectors, row = threadIdx.x / tiling.vectors;
    const int vector = threadIdx.x % tiling.vectors, warp = threadIdx.x / WARP,
              lane = threadIdx.x % WARP;
    const int64_t part_begin = blockIdx.y * tiling.images;
    const int64_t end =
        tiling.N - part_begin < tiling.images ? tiling.N : part_begin + tiling.images;
    for (int64_t c = (int64_t)blockIdx.x * tiling.planes; c < tiling.C;
         c += (int64_t)gridDim.x * tiling.planes) {
        const int planes = (int)(tiling.C - c < tiling.planes ? tiling.C - c : tiling.planes);
        const int columns = planes * P;
        State state[COUNT];
        if (row < rows && vector * COUNT < columns) {
            typename Work::start start[COUNT];
            int64_t k[COUNT];
#pragma unroll
            for (int e = 0; e < COUNT; e++) {
                const int column = vector * COUNT + e, plane = column / P;
                start[e] = work.begin(x, c + plane, part_begin, end);
                k[e] = (part_begin + row) * P + column - plane * P;
            }
            const T *at = x + (part_begin + row) * tiling.stride + c * P + vector * COUNT;
            const int64_t step = rows * tiling.stride;
            const int count = (int)((end - part_begin - row + rows - 1) / rows);
            for (int i = 0; i < count; i += BATCH) {
                vec<T, COUNT> values[BATCH];
#pragma unroll
                for (int b = 0; b < BATCH; b++, at += step)
                    if (i + b < count)
                        values[b] = *(const vec<T, COUNT> *)at;
#pragma unroll
                for (int e = 0; e < COUNT; e++) {
                    if (i + BATCH <= count) {
                        vec<T, BATCH> down;
#pragma unroll
                        for (int b = 0; b < BATCH; b++)
                            down.of[b] = values[b].of[e];
                        work.add(state[e], start[e], down, k[e], rows * P);
                    } else {
#pragma unroll
                        for (int b = 0; b < BATCH - 1; b++)
                            if (i + b < count)
                                work.add(state[e], start[e], vec<T, 1>{ { values[b].of[e] } },
                                         k[e] + (int64_t)b * rows * P, rows * P);
                    }
                    k[e] += (int64_t)BATCH * rows * P;
                }
            }
        }
        __syncthreads(); /* the planes before are written */
        if (row < rows && vector * COUNT < columns)
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                shared[row * columns + vector * COUNT + e] = state[e];
        __syncthreads();
        for (int plane = warp; plane < planes; plane += BLOCK / WARP) {
            State all;
            for (int r = 0; r < rows; r++)
                for (int i = lane; i < P; i += WARP)
                    all.join(shared[r * columns + plane * P + i]);
            all = join_group(all, WARP, (State *)NULL);
            if (lane == 0)
                work.write(c + plane, work.begin(x, c + plane, part_begin, end), all);
        }
    }
}

template <typename Work, typename T>
static void launch_planes(talc_device *device, const Work &work, const T *x, plane_tiling tiling)
{
    constexpr int COUNT = VECTOR_WIDTH<T>;
    const int64_t count = tiling.count_of(sizeof(T), x);
    tiling.side_by_side(count);
    const dim3 grid(grid_for_blocks(device, talc_ceil_div(tiling.C, tiling.planes)),
                    (unsigned)tiling.parts);
    const auto kernel = count > 1 ? reduce_planes<Work, T, COUNT> : reduce_planes<Work, T, 1>;
    kernel<<<grid, BLOCK, 0, talc_cuda_stream(device)>>>(work, x, tiling);
}

} // namespace talc

#endif
