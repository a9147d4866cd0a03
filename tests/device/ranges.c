/* Whether a profiler hears of ops: `ranges LISTENER` lets NVTX load tests/device/ranges_listener.c
 * and asks it what it heard, of the backend's functions, and, where there is a GPU, of ops that run
 * on it; else exit code 77, which meson counts as skipped. `ranges` alone: nobody listens, and the
 * backend must know. */
#define _POSIX_C_SOURCE 200809L

#include "backends/cuda/device/ranges.h"
#include "talc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *(*heard)(void);

static bool hears(const char *expected)
{
    const char *got = heard();
    if (strcmp(got, expected) != 0)
        fprintf(stderr, "ranges: heard '%s', expected '%s'\n", got, expected);
    return strcmp(got, expected) == 0;
}

static bool ops_are_heard(talc_device *device)
{
    talc_tensor *x = talc_rand(device, TALC_F32, TALC_DIMS(1, 2, 4, 4));
    bool right = hears("<rand philox [1,2,4,4]>");
    talc_tensor *w = talc_full(device, TALC_F32, TALC_DIMS(3, 2, 3, 3), 1);
    right = hears("<fill fill [3,2,3,3]>") && right;
    talc_conv2d(x, w, NULL, &(talc_conv2d_options){ .algorithm = "direct(textbook)" });
    right = hears("<conv2d direct(textbook) n1c2h4w4o3k3x3s1x1p0x0d1x1g1>") && right;
    talc_relu(x);
    right = hears("<relu direct [1,2,4,4]>") && right;
    talc_concat((const talc_tensor *[]){ x, x }, 2, 1);
    right = hears("<concat join [1,4,4,4]>") && right;
    talc_contiguous(talc_transpose(x, 2, 3));
    right = hears("<contiguous copy [1,2,4,4]>") && right;
    talc_cast(talc_clone(x), TALC_F64);
    right = hears("<clone copy [1,2,4,4]><cast copy [1,2,4,4]>") && right;
    talc_to(x, talc_device_host(), TALC_F32);
    right = hears("<to transfer [1,2,4,4]>") && right;
    float elements[32];
    talc_to_host(x, elements, sizeof elements);
    right = hears("<to_host transfer [1,2,4,4]>") && right;
    talc_from_host(device, TALC_F32, TALC_DIMS(32), elements);
    right = hears("<from_host transfer [32]>") && right;
    talc_module *relu = talc_nn_relu();
    talc_module_eval(relu);
    talc_graph *graph = talc_capture(relu, x);
    heard();
    talc_graph_replay(graph, talc_graph_input(graph));
    right = hears("<graph_replay graph [1,2,4,4]>") && right;
    talc_graph_free(graph);
    talc_module_free(relu);
    return right && !talc_failed();
}

int main(int argc, char **argv)
{
    enum { SKIPPED = 77 };
    if (argc < 2) {
        unsetenv("NVTX_INJECTION64_PATH");
        return talc_cuda_ranges_wanted() ? 1 : 0;
    }
    setenv("NVTX_INJECTION64_PATH", argv[1], 1);
    void *listener = dlopen(argv[1], RTLD_NOW);
    if (listener == NULL || (*(void **)&heard = dlsym(listener, "ranges_heard")) == NULL) {
        fprintf(stderr, "ranges: %s\n", dlerror());
        return 1;
    }
    if (!talc_cuda_ranges_wanted()) {
        fprintf(stderr, "ranges: the listener is not noticed\n");
        return 1;
    }
    talc_cuda_range_begin(NULL, "outer");
    talc_cuda_range_begin(NULL, "inner");
    talc_cuda_range_end(NULL);
    talc_cuda_range_end(NULL);
    if (!hears("<outer<inner>>"))
        return 1;
    talc_device *device = talc_device_get("cuda");
    if (device == NULL) {
        printf("skipped on ops: %s\n", talc_error_message());
        return SKIPPED;
    }
    return ops_are_heard(device) ? 0 : 1;
}
