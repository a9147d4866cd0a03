/// One function over all elements of strided arrays.
///
///     y[i...] = f(a[i...], b[i...])
///
/// Memory-bound: accesses have to be coalesced, 16 bytes wide where possible, and many of them in
/// flight. Before the launch, dimensions are sorted into y's order in memory, and those that one
/// stride serves are merged. Then the first that fits:
///
///   transposed   an operand is contiguous along another dimension than y (map_transposed.cuh); no
///                casts
///   vectorized   y's rows, and the operands' or their broadcasts, are long enough to be taken 16
///                bytes at a time (map_strided.cuh)
///   strided      anything
///
/// The function is a kernel argument, on which all threads take the same branch: one kernel for
/// each type and access pattern.
#include "backends/cuda/elementwise/map_strided.cuh"
#include "backends/cuda/elementwise/map_transposed.cuh"

#include <limits>

using namespace talc;

// ---- The problem --------------------------------------------------------------------------------

/* Elements of one launch: indices are 32-bit, with room for a grid's stride. */
constexpr int64_t MAX = (int64_t)1 << 30;

static const void *array_of(const talc_cuda_map &m, int o)
{
    return o == Y ? m.y : o == A ? m.a : m.b;
}

/* y's dimensions from its longest stride to its shortest, merged where one stride of each array
 * serves two. */
static talc_cuda_map in_order(const talc_cuda_map &m)
{
    talc_cuda_map q = m;
    q.rank = 0;
    int order[TALC_MAX_RANK], count = 0;
    for (int i = 0; i < m.rank; i++) {
        if (m.dims[i] == 1)
            continue;
        int slot = count++;
        for (; slot > 0 && m.strides[Y][order[slot - 1]] < m.strides[Y][i]; slot--)
            order[slot] = order[slot - 1];
        order[slot] = i;
    }
    for (int k = 0; k < count; k++) {
        const int i = order[k];
        bool joins = q.rank > 0;
        for (int o = 0; o < ARRAYS && joins; o++)
            joins =
                array_of(m, o) == NULL || q.strides[o][q.rank - 1] == m.strides[o][i] * m.dims[i];
        const int to = joins ? q.rank - 1 : q.rank++;
        q.dims[to] = joins ? q.dims[to] * m.dims[i] : m.dims[i];
        for (int o = 0; o < ARRAYS; o++)
            q.strides[o][to] = array_of(m, o) == NULL ? 0 : m.strides[o][i];
    }
    if (q.rank == 0) {
        q.rank = 1, q.dims[0] = 1;
        for (int o = 0; o < ARRAYS; o++)
            q.strides[o][0] = 1;
    }
    return q;
}

static map_index index_of(const talc_cuda_map &m)
{
    map_index index = {};
    index.rank = m.rank;
    for (int i = 0; i < m.rank; i++) {
        index.dims[i].set(m.dims[i]);
        for (int o = 0; o < ARRAYS; o++)
            index.strides[o][i] = m.strides[o][i];
    }
    return index;
}

/* A number as an element: integers are truncated and saturate, NaN is 0. */
template <typename T> static uint64_t bits_of(double value)
{
    T element = 0;
    if constexpr (std::is_floating_point_v<T>) {
        element = (T)value;
    } else {
        constexpr T LOW = std::numeric_limits<T>::min(), HIGH = std::numeric_limits<T>::max();
        if (value == value)
            element = value <= (double)LOW ? LOW : value >= (double)HIGH ? HIGH : (T)value;
    }
    uint64_t bits = 0;
    memcpy(&bits, &element, sizeof element);
    return bits;
}

/* A copy moves bits, whatever they mean. */
static talc_dtype moved_as(const talc_cuda_map &m)
{
    const size_t size = m.function == TALC_CUDA_COPY ? talc_dtype_size(m.dtype) : 0;
    return size == sizeof(int32_t) ? TALC_I32 : size == sizeof(int64_t) ? TALC_I64 : m.dtype;
}

static map_operands operands_of(const talc_cuda_map &m)
{
    map_operands operands = { m.y, { NULL, m.a, m.b }, 0, {}, m.function, m.to };
    (void)with_element(m.dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        operands.bits = bits_of<T>(m.scalar);
        for (int i = 0; i < 2; i++)
            operands.numbers[i] = bits_of<T>(m.numbers[i]);
        return TALC_OK;
    });
    return operands;
}

// ---- Transposed ---------------------------------------------------------------------------------

/* The dimension along which the first operand that is not contiguous along the last dimension is
 * contiguous; the last when there is no such operand. */
static int transposed_along(const talc_cuda_map &m)
{
    const int last = m.rank - 1;
    int along = last;
    for (int o = A; o < ARRAYS && along == last; o++)
        for (int i = 0; i < last; i++)
            if (m.strides[o][i] > 0 && m.strides[o][i] < m.strides[o][along])
                along = i;
    return along;
}

static int log2_ceiling(int64_t n)
{
    int log = 0;
    while (((int64_t)1 << log) < n)
        log++;
    return log;
}

/* A tile of at most 2^most elements and at least 2^least in each direction, about square where both
 * are long. */
static void choose_tile(transposed_plan &p, int largest, int smallest)
{
    const int S = log2_ceiling(p.S), D = log2_ceiling(p.D);
    const int down = S < smallest ? smallest : S, across = D < smallest ? smallest : D,
              half = largest / 2;
    p.height = down < half ? down : across < largest - half ? largest - across : half;
    p.height = p.height < down ? p.height : down;
    p.width = across < largest - p.height ? across : largest - p.height;
}

/* Whether a staged operand can be read four elements at a time along S. */
template <typename T>
static bool reads_fours(const transposed_plan &p, int o, const talc_cuda_map &others)
{
    bool fits = p.S % 4 == 0 && p.down[o] == 1 && p.across[o] % 4 == 0 &&
                (uintptr_t)p.m.x[o] % (4 * sizeof(T)) == 0;
    for (int i = 0; i < others.rank; i++)
        fits = fits && others.strides[o][i] % 4 == 0;
    return fits;
}

template <typename T, int R, int W>
static void launch_tiles(talc_device *device, const transposed_plan &p, unsigned tiles,
                         size_t bytes)
{
    map_transposed<T, R, W><<<tiles, BLOCK, bytes, talc_cuda_stream(device)>>>(p);
}

template <typename T> static bool launch_transposed(talc_device *device, const talc_cuda_map &m)
{
    constexpr int TILE = 16384; /* bytes */
    const int last = m.rank - 1, along = transposed_along(m);
    if (along == last || m.dims[along] * m.dims[last] < 2 * BLOCK)
        return false;
    transposed_plan p = {};
    talc_cuda_map others = {};
    int64_t planes = 1;
    for (int i = 0; i < last; i++)
        if (i != along) {
            planes *= others.dims[others.rank] = m.dims[i];
            for (int o = 0; o < ARRAYS; o++)
                others.strides[o][others.rank] = m.strides[o][i];
            others.rank++;
        }
    if (others.rank == 0)
        others.rank = 1, others.dims[0] = 1;
    p.m = operands_of(m), p.others = index_of(others);
    p.S = (uint32_t)m.dims[along], p.D = (uint32_t)m.dims[last];
    int shared_operand = 0;
    for (int o = 0; o < ARRAYS; o++) {
        p.across[o] = m.strides[o][last], p.down[o] = m.strides[o][along];
        p.shared_operand[o] = o != Y && p.down[o] > 0 && p.down[o] < p.across[o];
        shared_operand = p.shared_operand[o] ? o : shared_operand;
    }
    choose_tile(p, log2_ceiling(TILE / sizeof(T)), sizeof(T) == 1 ? 2 : 1);
    bool reads = std::is_same_v<T, float> || (sizeof(T) < 8 && m.function == TALC_CUDA_COPY);
    const bool writes = reads && p.D % 4 == 0;
    for (int o = A; o < ARRAYS; o++)
        reads = reads && (!p.shared_operand[o] || reads_fours<T>(p, o, others));
    /* One of the two is enough for elements of 4 bytes, and bytes need both. */
    reads = sizeof(T) == 1 ? reads && writes : reads && !writes;
    /* The pitch is an odd number of words, or of vectors read, so that columns have no bank
     * conflicts. */
    const uint32_t height = 1u << p.height, width = 1u << p.width;
    const uint32_t unit = sizeof(T) == 1 || reads ? 4 : 1;
    p.pitch = (height / unit | 1) * unit;
    p.capacity = p.pitch * width;
    p.tiles_down.set(talc_ceil_div(p.S, height)), p.tiles_across.set(talc_ceil_div(p.D, width));
    const unsigned tiles = (unsigned)(planes * p.tiles_down.by * p.tiles_across.by);
    const size_t bytes = shared_operand * p.capacity * sizeof(T);
    if (sizeof(T) == 1 && reads)
        launch_tiles<T, sizeof(T) == 1 ? 4 : 1, sizeof(T) == 1 ? 4 : 1>(device, p, tiles, bytes);
    else if (sizeof(T) == 4 && writes)
        launch_tiles<T, 1, sizeof(T) == 4 ? 4 : 1>(device, p, tiles, bytes);
    else if (sizeof(T) == 4 && reads)
        launch_tiles<T, sizeof(T) == 4 ? 4 : 1, 1>(device, p, tiles, bytes);
    else
        launch_tiles<T, 1, 1>(device, p, tiles, bytes);
    return true;
}

// ---- Strided ------------------------------------------------------------------------------------

/* Whether V elements at a time are worth it: rows are whole vectors, or so long that few vectors
 * straddle the end of one. */
static bool fits_vectors(const talc_cuda_map &m, int64_t V, uint32_t shift)
{
    const int last = m.rank - 1;
    bool fits = m.rank == 1 || m.dims[last] >= 128 * V || (m.dims[last] % V == 0 && shift == 0);
    for (int o = 0; o < ARRAYS; o++)
        fits = fits && (m.strides[o][last] == 1 || (o != Y && m.strides[o][last] == 0));
    return fits;
}

/* How many elements a contiguous y begins after a multiple of 16 bytes. */
static uint32_t shift_of(const talc_cuda_map &m, size_t size)
{
    int64_t dense = 1;
    for (int i = m.rank - 1; i >= 0; dense *= m.dims[i], i--)
        if (m.strides[Y][i] != dense)
            return 0;
    return (uint32_t)((uintptr_t)m.y % VECTOR_BYTES / size);
}

template <typename T, int V, bool CASTS = false>
static void launch_strided(talc_device *device, const talc_cuda_map &m, int64_t count,
                           uint32_t shift)
{
    const strided_plan p = { operands_of(m), index_of(m), (uint32_t)count,
                             (uint32_t)talc_ceil_div(count + shift, V), shift };
    const unsigned blocks = (unsigned)talc_ceil_div(p.vectors, BLOCK * AHEAD<T, V>);
    map_strided<T, V, CASTS><<<blocks, BLOCK, 0, talc_cuda_stream(device)>>>(p);
}

// ---- Choice -------------------------------------------------------------------------------------

/* Vectors of as many elements as 16 bytes hold of the wider type, from what networks cast: numbers,
 * and bytes to types of four. */
template <typename T>
static void run_cast(talc_device *device, const talc_cuda_map &m, int64_t count)
{
    const size_t to = talc_dtype_size(m.to), widest = to > sizeof(T) ? to : sizeof(T);
    const bool fits = fits_vectors(m, (int64_t)(VECTOR_BYTES / widest), 0);
    if constexpr (std::is_floating_point_v<T>) {
        if (fits && widest == 8)
            return launch_strided<T, 2, true>(device, m, count, 0);
        if (fits)
            return launch_strided<T, VECTOR_BYTES / sizeof(T), true>(device, m, count, 0);
    }
    if constexpr (sizeof(T) == 1)
        if (fits && widest == 4)
            return launch_strided<T, 4, true>(device, m, count, 0);
    launch_strided<T, 1, true>(device, m, count, 0);
}

template <typename T> static void run(talc_device *device, const talc_cuda_map &m)
{
    constexpr int V = VECTOR_WIDTH<T>;
    const int64_t count = count_of(m.rank, m.dims);
    if (count > MAX) {
        /* Halves, the first of whole vectors. */
        talc_cuda_map half = m, rest = m;
        half.dims[0] = m.dims[0] / 2 >= 64 ? m.dims[0] / 2 / 64 * 64 : m.dims[0] / 2;
        rest.dims[0] -= half.dims[0];
        const size_t size = m.function == TALC_CUDA_CAST ? talc_dtype_size(m.to) : sizeof(T);
        rest.y = (char *)m.y + half.dims[0] * m.strides[Y][0] * (int64_t)size;
        rest.a = m.a == NULL ? NULL : (const T *)m.a + half.dims[0] * m.strides[A][0];
        rest.b = m.b == NULL ? NULL : (const T *)m.b + half.dims[0] * m.strides[B][0];
        run<T>(device, in_order(half));
        run<T>(device, in_order(rest));
        return;
    }
    if (m.function == TALC_CUDA_CAST)
        return run_cast<T>(device, m, count);
    if (launch_transposed<T>(device, m))
        return;
    const uint32_t shift = shift_of(m, sizeof(T));
    if (fits_vectors(m, V, shift))
        launch_strided<T, V>(device, m, count, shift);
    else
        launch_strided<T, 1>(device, m, count, 0);
}

talc_status talc_cuda_map_run(talc_device *device, const char *who, talc_cuda_map map,
                              const int64_t *dims, const int64_t *y_strides,
                              const int64_t *a_strides, const int64_t *b_strides)
{
    const talc_status status = talc_cuda_enter(device, who);
    if (status != TALC_OK)
        return status;
    const int64_t *const strides[ARRAYS] = { y_strides, a_strides, b_strides };
    memcpy(map.dims, dims, sizeof map.dims);
    for (int o = 0; o < ARRAYS; o++)
        if (strides[o] != NULL)
            memcpy(map.strides[o], strides[o], sizeof map.strides[o]);
    if (count_of(map.rank, map.dims) == 0)
        return TALC_OK;
    const talc_cuda_map m = in_order(map);
    return with_element(moved_as(m), [&](auto element) {
        using T = typename decltype(element)::type;
        run<T>(device, m);
        return talc_cuda_launched(device, who);
    });
}
