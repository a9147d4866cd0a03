/// Rows of bytes from several arrays, side by side.
///
///     dst[r * pitch + start_i + b] = from_i[r * bytes_i + b]
///
/// Memory-bound, and one launch. A word is the widest type to which all rows of all parts are
/// aligned. Neighbouring threads write neighbouring words, whichever parts they come from, so that
/// cache lines of dst are written whole; one written in two halves costs two memory transactions.
#include "backends/cuda/primitives/group.cuh"

using namespace talc;

/* Words of one launch: indices are 32-bit, with room for a grid's stride. */
constexpr int64_t MAX = (int64_t)1 << 30;

/* Words that a thread has in flight. */
constexpr int AHEAD = 4;

/* In words. */
struct join_plan {
    int count;
    uint32_t words; ///< that are written
    divisor<uint32_t> row;
    int64_t pitch;
    struct {
        const void *from;
        int64_t start;
        uint32_t first, words; ///< of a row's
    } parts[TALC_JOIN_PARTS];
};

template <typename Word>
static __global__ void __launch_bounds__(BLOCK) join_words(Word *dst, const join_plan p)
{
    struct moved {
        Word word;
        int64_t to;
    };
    const auto load = [&](uint32_t i) {
        const uint32_t row = p.row.quotient(i);
        uint32_t column = i - row * p.row.by;
        int part = 0;
        while (part + 1 < p.count && column >= p.parts[part + 1].first)
            part++;
        column -= p.parts[part].first;
        const Word *from = (const Word *)p.parts[part].from;
        return moved{ from[(int64_t)row * p.parts[part].words + column],
                      row * p.pitch + p.parts[part].start + column };
    };
    for_loads<AHEAD>(blockIdx.x * BLOCK + threadIdx.x, p.words, gridDim.x * BLOCK, load,
                     [&](const moved &of, uint32_t) { dst[of.to] = of.word; });
}

/* Rows of at most MAX words, as many at once as there may be. */
template <typename Word> static void launch(talc_device *device, talc_join_problem p, char *dst)
{
    join_plan plan = {};
    uint32_t words = 0;
    plan.count = p.count;
    plan.pitch = (int64_t)(p.pitch / sizeof(Word));
    for (int i = 0; i < p.count; i++) {
        plan.parts[i] = { p.parts[i].from, (int64_t)(p.parts[i].start / sizeof(Word)), words,
                          (uint32_t)(p.parts[i].bytes / sizeof(Word)) };
        words += plan.parts[i].words;
    }
    plan.row.set(words);
    while (p.rows > 0) {
        const int64_t rows = p.rows < MAX / words ? p.rows : MAX / words;
        plan.words = (uint32_t)(rows * words);
        join_words<Word><<<grid_for_threads(device, talc_ceil_div(plan.words, AHEAD)), BLOCK, 0,
                           talc_cuda_stream(device)>>>((Word *)dst, plan);
        p.rows -= rows, dst += rows * (int64_t)p.pitch;
        for (int i = 0; i < p.count; i++)
            plan.parts[i].from =
                (const char *)plan.parts[i].from + rows * (int64_t)p.parts[i].bytes;
    }
}

/* A single row is contiguous, and the driver's copy moves it a little faster once it is large; so
 * are rows too long for 32-bit indices copied, of which there are few. */
static talc_status take_out_large(talc_device *device, talc_join_problem *p, char *dst)
{
    const size_t max = p->rows == 1 ? (size_t)TALC_CUDA_SMALL_COPY : MAX / TALC_JOIN_PARTS;
    int left = 0;
    for (int i = 0; i < p->count; i++) {
        const auto part = p->parts[i];
        if (part.bytes <= max) {
            p->parts[left++] = part;
            continue;
        }
        for (int64_t row = 0; row < p->rows; row++) {
            const talc_status status = talc_cuda_status(
                device, "concat",
                cudaMemcpyAsync(dst + row * p->pitch + part.start,
                                (const char *)part.from + row * part.bytes, part.bytes,
                                cudaMemcpyDeviceToDevice, talc_cuda_stream(device)));
            if (status != TALC_OK)
                return status;
        }
    }
    p->count = left;
    return TALC_OK;
}

talc_status talc_cuda_join(talc_device *device, const talc_join_problem *problem, void *dst)
{
    talc_status status = talc_cuda_enter(device, "concat");
    talc_join_problem p = *problem;
    if (status == TALC_OK)
        status = take_out_large(device, &p, (char *)dst);
    if (status != TALC_OK || p.count == 0)
        return status;
    size_t ends = (size_t)dst | (p.rows == 1 ? 0 : p.pitch);
    for (int i = 0; i < p.count; i++)
        ends |= (size_t)p.parts[i].from | p.parts[i].start | p.parts[i].bytes;
    if (ends % sizeof(int4) == 0)
        launch<int4>(device, p, (char *)dst);
    else if (ends % sizeof(uint64_t) == 0)
        launch<uint64_t>(device, p, (char *)dst);
    else if (ends % sizeof(uint32_t) == 0)
        launch<uint32_t>(device, p, (char *)dst);
    else
        launch<uint8_t>(device, p, (char *)dst);
    return talc_cuda_launched(device, "concat");
}
