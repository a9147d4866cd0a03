#include "backends/cuda/primitives/shared_copy.cuh"

#include <ucontext.h>

dim3 threadIdx, blockIdx, blockDim, gridDim;

/* What kernels declare as extern __shared__. */
namespace talc
{
alignas(1024) char shared[227 << 10];
}

namespace
{

constexpr unsigned MAX_THREADS = 1024;
constexpr size_t STACK = 64 << 10;
/* Rounds of all threads without any of them getting on. */
constexpr int PATIENCE = 3;

struct fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool ended;
};

struct warp {
    int count;
    long round;
    uint64_t values[2][32];
};

std::vector<fiber> fibers(MAX_THREADS);
warp warps[MAX_THREADS / 32];
ucontext_t scheduler;
unsigned running;
bool got_on;
int arrived;
long rounds;
const std::function<void()> *body;
char *const memory = talc::shared;

void run_fiber()
{
    (*body)();
    fibers[running].ended = true;
    emulation::progress();
    swapcontext(&fibers[running].context, &scheduler);
}

bool run_block(unsigned threads)
{
    for (unsigned t = 0; t < threads; t++) {
        fiber &f = fibers[t];
        f.stack.resize(STACK);
        f.ended = false;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.data();
        f.context.uc_stack.ss_size = f.stack.size();
        f.context.uc_link = &scheduler;
        makecontext(&f.context, run_fiber, 0);
    }
    for (warp &w : warps)
        w.count = 0;
    arrived = 0;
    for (int idle = 0; idle < PATIENCE; idle++) {
        bool all_ended = true;
        got_on = false;
        for (unsigned t = 0; t < threads; t++) {
            if (fibers[t].ended)
                continue;
            all_ended = false;
            running = t;
            threadIdx = dim3(t, 0, 0);
            swapcontext(&scheduler, &fibers[t].context);
        }
        if (all_ended)
            return true;
        if (got_on)
            idle = -1;
    }
    fprintf(stderr, "block %u: its threads wait for each other\n", blockIdx.x);
    return false;
}

} // namespace

namespace emulation
{

void yield()
{
    const unsigned own = running;
    swapcontext(&fibers[own].context, &scheduler);
}

void progress()
{
    got_on = true;
}

char *shared_memory()
{
    return memory;
}

void exchange(uint64_t mine, uint64_t (&all)[32])
{
    warp &w = warps[threadIdx.x / 32];
    const long round = w.round;
    w.values[round % 2][threadIdx.x % 32] = mine;
    if (++w.count == 32) {
        w.count = 0;
        w.round++;
        progress();
    }
    while (w.round == round)
        yield();
    memcpy(all, w.values[round % 2], sizeof all);
}

bool run_grid(dim3 grid, unsigned threads, size_t shared, const std::function<void()> &kernel)
{
    body = &kernel;
    gridDim = grid;
    blockDim = dim3(threads, 1, 1);
    for (unsigned block = 0; block < grid.x; block++) {
        blockIdx = dim3(block, 0, 0);
        memset(memory, 0xff, shared);
        if (!run_block(threads))
            return false;
    }
    return true;
}

} // namespace emulation

unsigned __ballot_sync(unsigned, bool vote)
{
    uint64_t all[32];
    emulation::exchange(vote, all);
    unsigned votes = 0;
    for (int i = 0; i < 32; i++)
        votes |= (unsigned)all[i] << i;
    return votes;
}

void __syncthreads()
{
    const long round = rounds;
    if (++arrived == (int)blockDim.x) {
        arrived = 0;
        rounds++;
        emulation::progress();
    }
    while (rounds == round)
        emulation::yield();
}

// ---- Asynchronous copies ------------------------------------------------------------------------

namespace
{

struct copy {
    uint32_t to;
    int bytes;
    char value[16];
};

struct copies {
    std::vector<std::vector<copy>> groups;
    std::vector<copy> begun;
};

copies of_threads[MAX_THREADS];

} // namespace

void emulation::begin_copy(uint32_t to, const void *from, int bytes, int real)
{
    copy c = { to, bytes, {} };
    if (to % (uint32_t)bytes != 0 || (real > 0 && (uintptr_t)from % (uintptr_t)bytes != 0)) {
        fprintf(stderr, "a copy of %d bytes is not aligned\n", bytes);
        abort();
    }
    memcpy(c.value, from, (size_t)(real > 0 ? real : 0));
    of_threads[threadIdx.x].begun.push_back(c);
}

void __pipeline_commit()
{
    copies &own = of_threads[threadIdx.x];
    own.groups.push_back(own.begun);
    own.begun.clear();
}

void __pipeline_wait_prior(size_t count)
{
    copies &own = of_threads[threadIdx.x];
    for (; own.groups.size() > count; own.groups.erase(own.groups.begin()))
        for (const copy &c : own.groups[0])
            memcpy(memory + c.to - emulation::SHARED_BASE, c.value, (size_t)c.bytes);
}
