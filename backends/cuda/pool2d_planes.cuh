/// Pooling windows of any size in small planes, down and then across. Private to backends/cuda.
///
/// A unit of work is some whole planes, in shared memory. As planes are alike, a thread has the same windows in all of them, and
/// all that depends on a window's place is found once. First a thread combines the rows of a row of windows in V neighbouring
/// columns, of one plane after the other; then the columns of an output:
///
///     rows of x        . . . . . . . .
///                      |_____| |_____|           V = 4
///     states           s s s s s s s s           a row of them for each row of y, in shared memory
///                       \ | / \ | /
///     row of y            y     y
#ifndef TALC_BACKENDS_CUDA_POOL2D_PLANES_CUH
#define TALC_BACKENDS_CUDA_POOL2D_PLANES_CUH

#include "backends/cuda/pool2d_axis.cuh"
#include "backends/cuda/pool2d_row.cuh"
#include "backends/cuda/runs.cuh"

namespace
{

using namespace talc;

/* Bytes of a unit at most: six blocks of a multiprocessor have room. */
constexpr int64_t PLANES_BYTES = 36 << 10;

struct planes_plan {
    window_plan<int> window;
    int H, W, OH, OW;
    int planes;           ///< of a unit
    int run_bytes, bytes; ///< of x, and with the states, in a unit
    uint32_t count, all_planes;

    explicit planes_plan(const talc_pool2d_problem *p)
        : window(p), H((int)p->H), W((int)p->W), OH((int)p->OH), OW((int)p->OW)
    {
    }
};

/* Which of the planes that a block works on at the same time is a thread's, and what of it. */
struct planes_part {
    int abreast, plane, rest;

    __device__ planes_part(int parts) : abreast(BLOCK / parts)
    {
        plane = (int)threadIdx.x / parts;
        rest = (int)threadIdx.x - plane * parts;
        if (plane >= abreast)
            plane = INT_MAX / 2;
    }
};

/* V: columns of a thread in the first step; W is a multiple. */
template <typename State, typename T, int V>
static __global__ void __launch_bounds__(BLOCK, sizeof(T) == 8 ? 4 : 5)
    pool_planes(const T *x, T *y, const planes_plan p)
{
    constexpr int AT_ONCE = 4; /* rows or columns that are read before the first is used */
    using pack = vec<T, V>;
    extern __shared__ __align__(ACCESS) unsigned char plane_bytes[];
    T *combined = (T *)(plane_bytes + p.run_bytes);
    const int across = p.W / V, size = p.H * p.W, outputs = p.OH * p.OW;

    const planes_part down(p.OH * across);
    const int down_oh = down.rest / across, down_iw = (down.rest - down_oh * across) * V;
    int h0, h1, h_padded;
    p.window.h.window(down_oh, h0, h1, h_padded);
    const int high = h1 - h0, from_down = h0 * p.W + down_iw, to_down = down_oh * p.W + down_iw;

    const planes_part out(outputs);
    const int oh = out.rest / p.OW, ow = out.rest - oh * p.OW;
    int w0, w1, w_padded;
    p.window.h.window(oh, h0, h1, h_padded);
    p.window.w.window(ow, w0, w1, w_padded);
    const int wide = w1 - w0, from_out = oh * p.W + w0;
    shared_divisor<T> divisor;
    divisor.set(p.window.average.by > 0            ? (T)p.window.average.by
                : p.window.average.exclude_padding ? (T)(h1 - h0) * (T)wide
                                                   : (T)h_padded * (T)w_padded);

    for (uint32_t unit = blockIdx.x; unit < p.count; unit += gridDim.x) {
        const uint32_t first = unit * p.planes;
        const int planes = min(p.planes, (int)(p.all_planes - first));
        const T *run = x + (int64_t)first * size;
        T *shared = (T *)plane_bytes + place_in_access(run) / V * V;
        copy_run_anywhere(shared, run, planes * size);
        await_run();
        for (int plane = down.plane; plane < planes; plane += down.abreast) {
            const T *row = shared + plane * size + from_down;
            State states[V];
#pragma unroll 1
            for (int r = 0; r < high; r += AT_ONCE, row += AT_ONCE * p.W) {
                pack some[AT_ONCE];
#pragma unroll
                for (int k = 0; k < AT_ONCE; k++)
                    if (r + k < high)
                        some[k] = *(const pack *)(row + k * p.W);
#pragma unroll
                for (int k = 0; k < AT_ONCE; k++)
                    if (r + k < high)
#pragma unroll
                        for (int v = 0; v < V; v++)
                            states[v].add(some[k].of[v], 0);
            }
            pack values;
#pragma unroll
            for (int v = 0; v < V; v++)
                values.of[v] = states[v].value;
            ((pack *)combined)[(plane * p.OH * p.W + to_down) / V] = values;
        }
        __syncthreads();
        for (int plane = out.plane; plane < planes; plane += out.abreast) {
            const T *column = combined + plane * p.OH * p.W + from_out;
            State state;
#pragma unroll 1
            for (int c = 0; c < wide; c += AT_ONCE, column += AT_ONCE) {
                T some[AT_ONCE];
#pragma unroll
                for (int k = 0; k < AT_ONCE; k++)
                    if (c + k < wide)
                        some[k] = column[k];
#pragma unroll
                for (int k = 0; k < AT_ONCE; k++)
                    if (c + k < wide)
                        state.add(some[k], 0);
            }
            y[(int64_t)first * outputs + plane * outputs + out.rest] =
                State::AVERAGES ? divisor.divide(state.value) : state.value;
        }
        __syncthreads(); /* what is combined is read */
    }
}

struct planes_row {
    static const char *refuses(const talc_pool2d_problem *p)
    {
        if (p->dilation_h > 1 || p->dilation_w > 1)
            return "only without dilation";
        if (p->indices || p->W % 2 != 0)
            return "only without indices, and images of even width";
        if (!is_narrow(p))
            return "an image has more than 2^29 elements";
        planes_plan plan(p);
        return cut(p, 1, 1, &plan) ? NULL : "a plane is too large for a block";
    }

    template <template <typename, typename> class State, typename T>
    static bool launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        using S = State<T, int>;
        planes_plan plan(p);
        return for_slices<T>(p, arguments, p->OH, [&](plane_slice<T> some) {
            if (!cut(p, some.planes, talc_cuda_state_of(device)->multiprocessors, &plan))
                return false;
            if constexpr (!S::LOCATES) {
                const auto kernel =
                    width(p) == 2 ? pool_planes<S, T, 2> : pool_planes<S, T, ACCESS / sizeof(T)>;
                kernel<<<blocks_of(device, plan.count), BLOCK, plan.bytes,
                         talc_cuda_stream(device)>>>(some.x, some.y, plan);
            }
            return !S::LOCATES;
        });
    }

    /* Columns of a thread in the first step. */
    static int64_t width(const talc_pool2d_problem *p)
    {
        const int64_t most = ACCESS / (int64_t)talc_dtype_size(p->dtype);
        return p->W % most == 0 ? most : 2;
    }

    /* As many planes as have room, but some units for each place where a block can be. */
    static bool cut(const talc_pool2d_problem *p, int64_t planes, int64_t multiprocessors,
                    planes_plan *plan)
    {
        const int64_t size = (int64_t)talc_dtype_size(p->dtype), parts = p->OH * p->W / width(p);
        const int64_t x = p->H * p->W * size, combined = p->OH * p->W * size;
        const int64_t room = (PLANES_BYTES - 2 * ACCESS) / (x + combined);
        if (room == 0 || parts > BLOCK || p->OH * p->OW > BLOCK)
            return false;
        const int64_t share = pieces(planes, multiprocessors * 24), abreast = BLOCK / parts;
        int64_t together = room < share ? room : share;
        if (together > abreast)
            together -= together % abreast;
        plan->planes = (int)together;
        plan->run_bytes = (int)((pieces(together * x, ACCESS) + 1) * ACCESS);
        plan->bytes = (int)(plan->run_bytes + together * combined);
        plan->count = (uint32_t)pieces(planes, together);
        plan->all_planes = (uint32_t)planes;
        return true;
    }
};

/* Of all that take these, planes are the fastest. */
static bool are_for_planes(const talc_pool2d_problem *p)
{
    const bool smallest = p->H <= 8 && (p->W == 4 || p->W == 8);
    return (is_square(p, 3, 2) || (is_square(p, 2, 2) && smallest)) && p->dtype == TALC_F32 &&
           planes_row::refuses(p) == NULL;
}

} // namespace

#endif
