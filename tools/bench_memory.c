/* What memory costs on a GPU: a pair of allocation and release by talc's pool, by cudaMallocAsync (whose pool keeps what is
 * released, so that it is not given back to the system at each wait) and by cudaMalloc, side by side; and what copies between
 * host and GPU move, from ordinary and from page-locked memory.
 *
 *     bench_memory [device]
 *
 * The sizes are those of the activations of ResNet-20 (examples/resnet20.h) on 1, 64 and 512 images, in order, three alive at
 * a time. A round is one forward pass's worth, repeated; the contenders take turns, and the table has the least and the median
 * round, in microseconds a pair. No kernel runs, so no allocator has work to wait for. */
#define _POSIX_C_SOURCE 200809L

#include <talc/talc.h>

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 21, ALIVE = 3, SYNCHRONOUS = 2 };

static const size_t COPIED = (size_t)1 << 30;

/* Values of one image, as often as they come. */
static const struct {
    int times;
    int64_t values;
} activations[] = {
    { 7, 16 * 32 * 32 }, { 6, 32 * 16 * 16 }, { 6, 64 * 8 * 8 }, { 1, 64 }, { 1, 10 }
};

enum { STAGES = sizeof activations / sizeof *activations, MOST = 32 };

static talc_device *device;
static cudaStream_t stream;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double least_and_median(double *rounds, int count, double *median)
{
    qsort(rounds, (size_t)count, sizeof *rounds, by_size);
    *median = rounds[count / 2];
    return rounds[0];
}

// ---- Allocation and release ---------------------------------------------------------------------------------

static void *take_talc(int64_t values)
{
    return talc_empty(device, TALC_F32, TALC_DIMS(values));
}

static void give_talc(void *taken)
{
    talc_release(taken);
}

static void *take_async(int64_t values)
{
    void *data = NULL;
    return cudaMallocAsync(&data, (size_t)values * sizeof(float), stream) == cudaSuccess ? data
                                                                                         : NULL;
}

static void give_async(void *taken)
{
    (void)cudaFreeAsync(taken, stream);
}

static void *take_system(int64_t values)
{
    void *data = NULL;
    return cudaMalloc(&data, (size_t)values * sizeof(float)) == cudaSuccess ? data : NULL;
}

static void give_system(void *taken)
{
    (void)cudaFree(taken);
}

static const struct {
    const char *name;
    void *(*take)(int64_t values);
    void (*give)(void *taken);
} allocators[] = { { "talc", take_talc, give_talc },
                   { "cudaMallocAsync", take_async, give_async },
                   { "cudaMalloc", take_system, give_system } };

enum { ALLOCATORS = sizeof allocators / sizeof *allocators };

/* One forward pass's worth; false when memory ran out. */
static bool pass(int a, const int64_t *sizes, int count)
{
    void *alive[ALIVE] = { NULL };
    bool good = true;
    for (int i = 0; i < count + ALIVE; i++) {
        void **place = &alive[i % ALIVE];
        if (*place != NULL)
            allocators[a].give(*place);
        *place = i < count && good ? allocators[a].take(sizes[i]) : NULL;
        good = good && (i >= count || *place != NULL);
    }
    return good;
}

static bool pairs_of(int64_t images)
{
    int64_t sizes[MOST];
    int count = 0;
    for (int s = 0; s < STAGES; s++)
        for (int i = 0; i < activations[s].times; i++)
            sizes[count++] = images * activations[s].values;
    double rounds[ALLOCATORS][ROUNDS];
    for (int r = -1; r < ROUNDS; r++)
        for (int a = 0; a < ALLOCATORS; a++) {
            const int passes = a == SYNCHRONOUS ? 5 : 200;
            const double started = now();
            for (int i = 0; i < passes; i++)
                if (!pass(a, sizes, count))
                    return false;
            if (r >= 0)
                rounds[a][r] = 1e6 * (now() - started) / (passes * count);
            (void)cudaStreamSynchronize(stream);
        }
    for (int a = 0; a < ALLOCATORS; a++) {
        double median;
        const double least = least_and_median(rounds[a], ROUNDS, &median);
        printf("%6lld %-16s %8.2f %8.2f\n", (long long)images, allocators[a].name, least, median);
    }
    return true;
}

// ---- Copies -------------------------------------------------------------------------------------------------

/* Both ways, in bytes a second; 0 where a copy fails. */
static bool copies_of(const char *name, talc_tensor *host, talc_tensor *there)
{
    double to[5], from[5], median;
    if (host == NULL || there == NULL || !talc_fill(host, 1))
        return false;
    for (int r = -1; r < 5; r++) {
        const double started = now();
        if (!talc_copy(there, host) || !talc_device_synchronize(device))
            return false;
        const double between = now();
        if (!talc_copy(host, there) || !talc_device_synchronize(device))
            return false;
        if (r >= 0)
            to[r] = between - started, from[r] = now() - between;
    }
    printf("%-12s %8.1f %8.1f\n", name, 1e-9 * (double)COPIED / least_and_median(to, 5, &median),
           1e-9 * (double)COPIED / least_and_median(from, 5, &median));
    return true;
}

static bool copies(void)
{
    const talc_dims dims = TALC_DIMS((int64_t)(COPIED / sizeof(float)));
    talc_tensor *there = talc_empty(device, TALC_F32, dims);
    printf("\n%-12s %8s %8s  GB/s of 1 GiB, the best of five\n", "host memory", "to", "from");
    return copies_of("ordinary", talc_empty(talc_device_get("cpu"), TALC_F32, dims), there) &&
           copies_of("page-locked", talc_pinned(device, TALC_F32, dims), there);
}

int main(int argc, char **argv)
{
    device = talc_device_get(argc > 1 ? argv[1] : "cuda");
    cudaMemPool_t pool;
    uint64_t keep = UINT64_MAX;
    const char *digits = device == NULL ? NULL : strchr(talc_device_name(device), ':');
    const int index = digits == NULL ? 0 : atoi(digits + 1);
    bool good = device != NULL;
    if (good &&
        (cudaSetDevice(index) != cudaSuccess || cudaStreamCreate(&stream) != cudaSuccess ||
         cudaDeviceGetDefaultMemPool(&pool, index) != cudaSuccess ||
         cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep) != cudaSuccess)) {
        fprintf(stderr, "bench_memory: %s\n", cudaGetErrorString(cudaGetLastError()));
        return 1;
    }
    if (good)
        printf("%6s %-16s %8s %8s  microseconds a pair on %s\n", "images", "allocator", "least",
               "median", talc_device_name(device));
    good = good && pairs_of(1) && pairs_of(64) && pairs_of(512) && copies();
    if (!good)
        fprintf(stderr, "bench_memory: %s\n",
                talc_failed() ? talc_error_message() : "out of memory");
    return good ? 0 : 1;
}
