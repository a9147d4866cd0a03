/// Rows of bytes from several arrays, side by side.
///
///     dst[r * pitch + start_i + b] = from_i[r * bytes_i + b]
///
/// Memory-bound, and one launch: each part has blocks of its own, in the measure of its size. A thread moves words as wide as
/// all rows of all parts begin and end with.
#include "backends/cuda/group.cuh"

using namespace talc;

/* Words that a thread has in flight. */
constexpr int AHEAD = 4;

/* In words. */
template <typename Index> struct join_plan {
    int count;
    int64_t pitch;
    struct {
        const void *from;
        int64_t start;
        divisor<Index> row;
        Index words;            ///< of all rows
        uint32_t first, blocks; ///< of the grid
    } parts[TALC_JOIN_PARTS];
};

template <typename Word, typename Index>
static __global__ void __launch_bounds__(BLOCK) join_words(Word *dst, const join_plan<Index> p)
{
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
                dst[(int64_t)r * p.pitch + (int64_t)(at - r * row.by)] = held[k];
            }
    }
}

template <typename Word, typename Index>
static void launch(talc_device *device, const talc_join_problem *p, void *dst)
{
    join_plan<Index> plan = {};
    plan.count = p->count;
    plan.pitch = (int64_t)(p->pitch / sizeof(Word));
    uint32_t blocks = 0;
    for (int i = 0; i < p->count; i++) {
        auto &part = plan.parts[i];
        const int64_t row = (int64_t)(p->parts[i].bytes / sizeof(Word));
        part.from = p->parts[i].from;
        part.start = (int64_t)(p->parts[i].start / sizeof(Word));
        part.row.set(row);
        part.words = (Index)(row * p->rows);
        part.first = blocks;
        part.blocks = blocks_for(device, pieces(row * p->rows, AHEAD));
        blocks += part.blocks;
    }
    join_words<Word, Index><<<blocks, BLOCK, 0, talc_cuda_stream(device)>>>((Word *)dst, plan);
}

template <typename Word>
static void launch_in(talc_device *device, const talc_join_problem *p, void *dst)
{
    int64_t most = 0;
    for (int i = 0; i < p->count; i++) {
        const int64_t words = (int64_t)(p->parts[i].bytes / sizeof(Word)) * p->rows;
        most = words > most ? words : most;
    }
    with_index(most, [&](auto zero) { launch<Word, decltype(zero)>(device, p, dst); });
}

/* A row alone is an array without gaps, which the driver's copy moves a little faster once it is large. */
static talc_status take_out_large(talc_device *device, talc_join_problem *p, void *dst)
{
    int left = 0;
    for (int i = 0; i < p->count; i++) {
        const auto part = p->parts[i];
        if (part.bytes <= SMALL_COPY) {
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
    size_t ends = (size_t)dst | (p.rows == 1 ? 0 : p.pitch);
    for (int i = 0; i < p.count; i++)
        ends |= (size_t)p.parts[i].from | p.parts[i].start | p.parts[i].bytes;
    if (ends % sizeof(int4) == 0)
        launch_in<int4>(device, &p, dst);
    else if (ends % sizeof(uint64_t) == 0)
        launch_in<uint64_t>(device, &p, dst);
    else if (ends % sizeof(uint32_t) == 0)
        launch_in<uint32_t>(device, &p, dst);
    else
        launch_in<uint8_t>(device, &p, dst);
    return talc_cuda_launched(device, "concat");
}
