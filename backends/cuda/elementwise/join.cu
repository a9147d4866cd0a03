/// Rows of bytes from several arrays, side by side.
///
///     dst[r * pitch + start_i + b] = from_i[r * bytes_i + b]
///
/// Memory-bound, and one launch. Words are as wide as all rows of all parts begin and end with; two ways:
///
///   packs   parts that leave no gaps: a thread fills 16 bytes of dst after the other, at multiples of 16, and looks up where
///           their words come from. So dst is written in whole lines wherever its rows begin; lines that are written in pieces at
///           different times cost memory twice.
///   words   each part has blocks of its own, in the measure of its size, and a thread moves words.
#include "backends/cuda/group.cuh"

using namespace talc;

/* In words. */
template <typename Index> struct join_plan {
    int count;
    divisor<Index> pitch;
    Index words; ///< of dst
    struct {
        const void *from;
        int64_t start;
        divisor<Index> row;
        Index words;            ///< of all rows
        uint32_t first, blocks; ///< of the grid
    } parts[TALC_JOIN_PARTS];
};

// ---- packs --------------------------------------------------------------------------------------------------

/* Words that a thread has in flight. */
constexpr int WORDS_AHEAD = 4;

/* The V words of dst from word `at` on, of which `count` exist. */
template <typename Word, typename Index, int V>
static __device__ __forceinline__ vec<Word, V> look_up(const join_plan<Index> &p, Index at,
                                                       Index count)
{
    Index row = p.pitch.quotient(at), column = at - row * p.pitch.by;
    int part = 0;
    while (part + 1 < p.count && column >= (Index)p.parts[part + 1].start)
        part++;
    Index left = (Index)p.parts[part].start + p.parts[part].row.by - column;
    const Word *from = (const Word *)p.parts[part].from + row * p.parts[part].row.by +
                       (column - (Index)p.parts[part].start);
    vec<Word, V> words;
    if (V <= left && V <= count) {
#pragma unroll
        for (int k = 0; k < V; k++)
            words.of[k] = from[k];
        return words;
    }
#pragma unroll
    for (int k = 0; k < V; k++) {
        if ((Index)k >= count)
            break;
        if (left == 0) {
            row += ++part == p.count;
            part = part == p.count ? 0 : part;
            left = p.parts[part].row.by;
            from = (const Word *)p.parts[part].from + row * left;
        }
        words.of[k] = *from++;
        left--;
    }
    return words;
}

template <typename Word, typename Index>
static __global__ void __launch_bounds__(BLOCK) join_packs(Word *dst, const join_plan<Index> p)
{
    constexpr int V = ACCESS / sizeof(Word), AHEAD = V < WORDS_AHEAD ? WORDS_AHEAD / V : 1;
    const Index stride = (Index)gridDim.x * BLOCK * V;
    for (Index i = ((Index)blockIdx.x * BLOCK + threadIdx.x) * V; i < p.words;
         i += stride * AHEAD) {
        vec<Word, V> held[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (i + k * stride < p.words)
                held[k] = look_up<Word, Index, V>(p, i + k * stride, p.words - (i + k * stride));
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const Index at = i + k * stride;
            if (at + V <= p.words)
                *(vec<Word, V> *)(dst + at) = held[k];
            else
#pragma unroll
                for (int e = 0; e < V; e++)
                    if (at + e < p.words)
                        dst[at + e] = held[k].of[e];
        }
    }
}

// ---- words --------------------------------------------------------------------------------------------------

template <typename Word, typename Index>
static __global__ void __launch_bounds__(BLOCK) join_words(Word *dst, const join_plan<Index> p)
{
    constexpr int AHEAD = WORDS_AHEAD;
    int part = 0;
    while (part + 1 < p.count && blockIdx.x >= p.parts[part + 1].first)
        part++;
    const Word *from = (const Word *)p.parts[part].from;
    const divisor<Index> row = p.parts[part].row;
    const Index words = p.parts[part].words, stride = (Index)p.parts[part].blocks * BLOCK;
    dst += p.parts[part].start;
    for (Index i = (Index)(blockIdx.x - p.parts[part].first) * BLOCK + threadIdx.x; i < words;
         i += stride * AHEAD) {
        Word held[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (i + k * stride < words)
                held[k] = from[i + k * stride];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (i + k * stride < words) {
                const Index at = i + k * stride, r = row.quotient(at);
                dst[(int64_t)r * (int64_t)p.pitch.by + (int64_t)(at - r * row.by)] = held[k];
            }
    }
}

// ---- Launch -------------------------------------------------------------------------------------------------

template <typename Word, typename Index>
static void launch(talc_device *device, const talc_join_problem *p, bool dense, void *dst)
{
    constexpr int V = ACCESS / sizeof(Word), AHEAD = V < WORDS_AHEAD ? WORDS_AHEAD / V : 1;
    const cudaStream_t stream = talc_cuda_stream(device);
    join_plan<Index> plan = {};
    plan.count = p->count;
    plan.pitch.set((int64_t)(p->pitch / sizeof(Word)));
    plan.words = plan.pitch.by * (Index)p->rows;
    uint32_t blocks = 0;
    for (int i = 0; i < p->count; i++) {
        auto &part = plan.parts[i];
        const int64_t row = (int64_t)(p->parts[i].bytes / sizeof(Word));
        part.from = p->parts[i].from;
        part.start = (int64_t)(p->parts[i].start / sizeof(Word));
        part.row.set(row);
        part.words = (Index)(row * p->rows);
        part.first = blocks;
        part.blocks = blocks_for(device, pieces(row * p->rows, WORDS_AHEAD));
        blocks += part.blocks;
    }
    if (dense)
        join_packs<Word, Index>
            <<<blocks_for(device, pieces((int64_t)plan.words, V * AHEAD)), BLOCK, 0, stream>>>(
                (Word *)dst, plan);
    else
        join_words<Word, Index><<<blocks, BLOCK, 0, stream>>>((Word *)dst, plan);
}

template <typename Word>
static void launch_in(talc_device *device, const talc_join_problem *p, bool dense, void *dst)
{
    /* What the last thread of a grid adds to its index does not wrap either. */
    const int64_t words = (int64_t)(p->pitch / sizeof(Word)) * p->rows;
    with_index(words < INT_MAX / 2 ? words : INT64_MAX,
               [&](auto zero) { launch<Word, decltype(zero)>(device, p, dense, dst); });
}

/* A row alone is an array without gaps, which the driver's copy moves a little faster once it is large. */
static talc_status take_out_large(talc_device *device, talc_join_problem *p, void *dst)
{
    int left = 0;
    for (int i = 0; i < p->count; i++) {
        const auto part = p->parts[i];
        if (part.bytes <= TALC_CUDA_SMALL_COPY) {
            p->parts[left++] = part;
            continue;
        }
        const talc_status status =
            talc_cuda_status(device, "concat",
                             cudaMemcpyAsync((char *)dst + part.start, part.from, part.bytes,
                                             cudaMemcpyDeviceToDevice, talc_cuda_stream(device)));
        if (status != TALC_OK)
            return status;
    }
    p->count = left;
    return TALC_OK;
}

talc_status talc_cuda_join(talc_device *device, const talc_join_problem *problem, void *dst)
{
    talc_status status = talc_cuda_enter(device, "concat");
    talc_join_problem p = *problem;
    if (status == TALC_OK && p.rows == 1)
        status = take_out_large(device, &p, dst);
    if (status != TALC_OK || p.count == 0)
        return status;
    size_t ends = (size_t)dst | (p.rows == 1 ? 0 : p.pitch), covered = 0;
    for (int i = 0; i < p.count; i++) {
        ends |= (size_t)p.parts[i].from | p.parts[i].start | p.parts[i].bytes;
        covered += p.parts[i].bytes;
    }
    const bool dense = covered == p.pitch && is_aligned(dst);
    if (ends % sizeof(int4) == 0)
        launch_in<int4>(device, &p, dense, dst);
    else if (ends % sizeof(uint64_t) == 0)
        launch_in<uint64_t>(device, &p, dense, dst);
    else if (ends % sizeof(uint32_t) == 0)
        launch_in<uint32_t>(device, &p, dense, dst);
    else
        launch_in<uint8_t>(device, &p, dense, dst);
    return talc_cuda_launched(device, "concat");
}
