/// A GPU without memory: what fails says how much, and what talc keeps is given back first. Runs
/// where there is one.
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"

#include "tensor/memory.h"
#include "tensor/storage.h"

#include <string.h>

enum { SIDE = 320 };

/* By cuBLAS, which another GPU's estimates may not choose. */
static talc_tensor *square(const talc_tensor *a)
{
    talc_algorithm_force("matmul", "cublas");
    return talc_matmul(a, a);
}

static size_t refused_bytes;
static int refusals_left, refusals;

/* Refuses allocations of one size, so many times. */
static bool refuse_some(size_t bytes)
{
    const bool refuses = bytes == refused_bytes && refusals_left > 0;
    refusals_left -= refuses;
    refusals += refuses;
    return !refuses;
}

static void refuse(size_t bytes, int times)
{
    refused_bytes = bytes;
    refusals_left = times;
    refusals = 0;
    talc_allocation_hook = refuse_some;
}

/* "who: out of WHAT: asked A (n bytes), held H, free F", the bytes as given, and numbers for the
 * others. */
static void assert_out_of(const char *begins, const char *held)
{
    cr_assert(talc_error_status() == TALC_NO_MEMORY, "%s: %s", begins, talc_error_message());
    cr_assert(strncmp(talc_error_message(), begins, strlen(begins)) == 0, "%s instead of %s...",
              talc_error_message(), begins);
    const char *rest = talc_error_message() + strlen(begins), *free_bytes = strstr(rest, ", free ");
    cr_assert(strncmp(rest, held, strlen(held)) == 0, "%s instead of ...%s", talc_error_message(),
              held);
    cr_assert(free_bytes != NULL && free_bytes[7] >= '0' && free_bytes[7] <= '9', "%s",
              talc_error_message());
    talc_error_clear();
}

/* 32 MiB for cuBLAS: what the cache holds is given back first. */
Test(full, a_workspace_without_memory_says_how_much)
{
    talc_device *gpu = talc_device_get("cuda");
    talc_tensor *a = talc_ones(gpu, TALC_F32, TALC_DIMS(SIDE, SIDE));
    talc_release(talc_empty(gpu, TALC_F32, TALC_DIMS(1 << 20)));
    refuse((size_t)32 << 20, 2);
    cr_assert_null(square(a));
    talc_allocation_hook = NULL;
    cr_assert(refusals == 2, "asked %d times", refusals);
    cr_assert(talc_device_memory(gpu).reserved < (size_t)4 << 20, "the cache was not given back");
    assert_out_of("matmul: out of memory on cuda:0: asked 32.0 MiB (33554432 bytes), held ", "");
    talc_release(talc_empty(gpu, TALC_F32, TALC_DIMS(1 << 20)));
    refuse((size_t)32 << 20, 1);
    const talc_tensor *product = square(a);
    talc_allocation_hook = NULL;
    cr_assert(refusals == 1 && product != NULL, "%s", talc_error_message());
    cr_assert(talc_item(talc_max(product, TALC_SCALAR, false)) == SIDE);
}

/* What is kept of page-locked memory counts as held until it is given back. */
Test(full, page_locked_memory_that_runs_out_says_how_much)
{
    enum { KEPT = 3 << 20, ASKED = 8 << 20 };
    talc_device *gpu = talc_device_get("cuda");
    talc_tensor *held = talc_pinned(gpu, TALC_U8, TALC_DIMS(1024));
    talc_release(talc_pinned(gpu, TALC_U8, TALC_DIMS(KEPT)));
    refuse(ASKED, 2);
    cr_assert_null(talc_pinned(gpu, TALC_U8, TALC_DIMS(ASKED)));
    cr_assert(refusals == 2, "asked %d times", refusals);
    assert_out_of("pinned: out of page-locked memory for cuda:0: asked 8.0 MiB (8388608 bytes), ",
                  "held 1.0 KiB, ");
    cr_assert(talc_memory_trim(gpu) == 0, "something was kept");
    talc_release(talc_pinned(gpu, TALC_U8, TALC_DIMS(KEPT)));
    cr_assert(talc_memory_trim(gpu) == KEPT);
    talc_release(talc_pinned(gpu, TALC_U8, TALC_DIMS(KEPT)));
    refuse(ASKED, 1);
    cr_assert_not_null(talc_pinned(gpu, TALC_U8, TALC_DIMS(ASKED)), "%s", talc_error_message());
    talc_allocation_hook = NULL;
    talc_release(held);
}

/* Live tensors, from large to small, until the driver has no 2 MiB for anybody. */
static void fill_memory(talc_device *device)
{
    for (size_t part = (size_t)64 << 30; part >= (size_t)2 << 20; part /= 2)
        while (talc_empty(device, TALC_U8, TALC_DIMS((int64_t)part)) != NULL)
            continue;
    cr_assert(talc_error_status() == TALC_NO_MEMORY, "%s", talc_error_message());
    talc_error_clear();
}

typedef talc_tensor *first_use(const talc_tensor *x);

/* On a full GPU: the failure has its numbers, and once the memory is all in the cache the same call
 * has what it needs. */
static void assert_first_use(first_use *use)
{
    talc_device *gpu = talc_device_get("cuda");
    talc_tensor *x = talc_ones(gpu, TALC_F32, TALC_DIMS(SIDE, SIDE));
    talc_scope *scope = talc_scope_enter();
    fill_memory(gpu);
    if (use(x) == NULL) {
        const char *message = talc_error_message();
        cr_assert(strstr(message, ": out of memory on cuda:0: asked ") != NULL &&
                      strstr(message, ", held ") != NULL && strstr(message, ", free ") != NULL,
                  "%s", message);
        cr_assert(talc_error_status() == TALC_NO_MEMORY);
        talc_error_clear();
    }
    talc_scope_leave(scope);
    cr_assert(talc_device_memory(gpu).reserved > talc_device_memory(gpu).total / 2);
    const talc_tensor *y = use(x);
    cr_assert(y != NULL, "all memory is in the cache, and yet: %s", talc_error_message());
    cr_assert(talc_item(talc_max(y, TALC_SCALAR, false)) > 0, "%s", talc_error_message());
    assert_all_freed();
}

Test(full, the_first_product_on_a_full_gpu)
{
    assert_first_use(square);
}

static talc_tensor *first_softmax(const talc_tensor *x)
{
    return talc_softmax(x, 1);
}

Test(full, the_first_kernel_on_a_full_gpu)
{
    assert_first_use(first_softmax);
}

static talc_tensor *first_graph(const talc_tensor *x)
{
    owned_module *net = TALC_SEQUENTIAL(talc_nn_relu());
    talc_module_eval(net);
    owned_graph *graph = talc_capture(net, x);
    talc_tensor *y = graph == NULL ? NULL : talc_clone(talc_graph_replay(graph, x));
    return y;
}

Test(full, the_first_graph_on_a_full_gpu)
{
    assert_first_use(first_graph);
}

/* A handle a stream: cuBLAS's memory is no tensor's, and stays until the device is closed. */
Test(full, libraries_are_counted)
{
    enum { WORKSPACE = 32 << 20 };
    talc_device *gpu = talc_device_get("cuda");
    const size_t before = talc_device_memory(gpu).free;
    cr_assert(talc_device_memory(gpu).libraries == 0);
    void *stream = gpu_stream_new(gpu);
    const talc_tensor *a = talc_ones(gpu, TALC_F32, TALC_DIMS(SIDE, SIDE));
    for (int round = 0; round < 2; round++) {
        square(a);
        cr_assert(talc_device_memory(gpu).libraries == WORKSPACE, "%s", talc_error_message());
    }
    talc_stream *entered = talc_stream_enter(gpu, stream);
    square(a);
    cr_assert(talc_device_memory(gpu).libraries == (size_t)2 * WORKSPACE);
    talc_stream_leave(entered);
    gpu_stream_free(gpu, stream);
    cr_assert(talc_device_memory(gpu).free + (size_t)2 * WORKSPACE <= before);
    talc_scope_leave_all();
    cr_assert(talc_device_memory(gpu).live == 0 && talc_memory_trim(gpu) > 0);
    cr_assert(talc_device_memory(gpu).libraries == (size_t)2 * WORKSPACE);
    cr_assert(talc_device_close(gpu), "%s", talc_error_message());
    cr_assert(talc_device_memory(gpu).libraries == 0);
    gpu = talc_device_get("cuda");
    cr_assert(talc_device_memory(gpu).libraries == 0);
}

/* One that could not be had is not counted. */
Test(full, libraries_that_were_refused_are_not_counted)
{
    talc_device *gpu = talc_device_get("cuda");
    const talc_tensor *a = talc_ones(gpu, TALC_F32, TALC_DIMS(SIDE, SIDE));
    refuse((size_t)32 << 20, 2);
    cr_assert_null(square(a));
    talc_allocation_hook = NULL;
    talc_error_clear();
    cr_assert(talc_device_memory(gpu).libraries == 0);
}
