/// Faults that end a GPU and not the process. Runs where there is one.
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"

#include "tensor/storage.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(TALC_CUDA)
#include "backends/cuda/cuda.h"
#endif

/* A kernel that writes where nothing is: the context is gone once it runs. */
static void queue_fault(talc_device *device)
{
    const talc_fill_problem problem = {
        .dtype = TALC_F32, .rank = 1, .dims = { 1000 }, .strides = { 1 }, .value = 7
    };
    cr_assert(device->interface->fill(device, &problem, (void *)(uintptr_t)4096) == TALC_OK);
}

static void see_fault(talc_device *device)
{
    cr_assert(!talc_device_synchronize(device));
    cr_assert(talc_error_status() == TALC_DEVICE_LOST, "%s", talc_error_message());
    cr_assert(strncmp(talc_error_message(), "synchronize: cuda:0 is lost: ", 29) == 0, "%s",
              talc_error_message());
    talc_error_clear();
}

static void provoke_fault(talc_device *device)
{
    queue_fault(device);
    see_fault(device);
}

/* An op is told by the allocation of its result or by its kernel, whichever notices first. */
static void assert_lost(const char *who)
{
    const char *expected = ": cuda:0 was lost at synchronize: ";
    cr_assert(talc_error_status() == TALC_DEVICE_LOST, "%s: %s", who, talc_error_message());
    cr_assert(strstr(talc_error_message(), expected) != NULL, "%s: %s instead of %s...", who,
              talc_error_message(), expected);
    talc_error_clear();
}

enum { CACHED = 100000 };

/* A process of its own: what the tests after this one do is not concerned. Its end is part of the
 * test. */
OpenEndedTest(lost, a_fault_ends_the_device_and_not_the_process)
{
    unsetenv("TALC_DEVICE");
    talc_device *gpu = talc_device_get("cuda");
    talc_tensor *x = talc_ones(gpu, TALC_F32, TALC_DIMS(1000));
    talc_tensor *a = talc_ones(gpu, TALC_F32, TALC_DIMS(8, 8));
    talc_matmul(a, a);
    talc_release(talc_empty(gpu, TALC_F32, TALC_DIMS(CACHED)));
    assert_no_failure();
    provoke_fault(gpu);
    for (int round = 0; round < 2; round++) {
        cr_assert_null(talc_neg(x));
        assert_lost("elementwise");
        cr_assert_null(talc_matmul(a, a));
        assert_lost("matmul");
        cr_assert_null(talc_empty(gpu, TALC_F32, TALC_DIMS(1 << 20)));
        assert_lost("empty");
        cr_assert_null(talc_empty(gpu, TALC_F32, TALC_DIMS(CACHED)));
        assert_lost("empty");
        cr_assert_null(talc_empty(gpu, TALC_F32, TALC_DIMS(0)));
        assert_lost("empty");
        cr_assert_null(talc_device_get("cuda"));
        assert_lost("device_get");
        cr_assert(talc_device_default() == gpu, "the CPU takes over in silence");
        cr_assert(!talc_device_synchronize(gpu));
        assert_lost("synchronize");
        float value;
        cr_assert(!talc_to_host(talc_slice(x, 0, 0, 1, 1), &value, sizeof value));
        assert_lost("download");
        cr_assert(isnan(talc_item(talc_slice(x, 0, 0, 1, 1))));
        cr_assert(talc_error_status() == TALC_DEVICE_LOST, "%s", talc_error_message());
        talc_error_clear();
        cr_assert_null(talc_to(talc_ones(cpu_device(), TALC_F32, TALC_DIMS(3)), gpu, TALC_F32));
        assert_lost("upload");
    }
    /* The CPU goes on. */
    talc_tensor *here = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1000));
    cr_assert(talc_item(talc_sum(talc_add(here, here), TALC_SCALAR, false)) == 2000);
    assert_no_failure();
    /* So do releases and queries; what is closed stays lost. */
    talc_scope_leave_all();
    cr_assert(talc_device_memory(gpu).live == 0);
    cr_assert(talc_device_close(gpu), "%s", talc_error_message());
    cr_assert_null(talc_device_get("cuda"));
    assert_lost("device_get");
    assert_no_failure();
    talc_scope_leave_all();
}

#if defined(TALC_CUDA)

/* Those of which driver_types.h says that the process must be terminated to go on using CUDA. */
static const int ends[] = {
    226, /* cudaErrorContained */
    700, /* cudaErrorIllegalAddress */
    702, /* cudaErrorLaunchTimeout */
    710, /* cudaErrorAssert */
    714, /* cudaErrorHardwareStackError */
    715, /* cudaErrorIllegalInstruction */
    716, /* cudaErrorMisalignedAddress */
    717, /* cudaErrorInvalidAddressSpace */
    718, /* cudaErrorInvalidPc */
    719, /* cudaErrorLaunchFailure */
    721, /* cudaErrorTensorMemoryLeak */
    810, /* cudaErrorMpsClientTerminated */
    911, /* cudaErrorExternalDevice */
};

Test(lost, errors_that_end_a_context_end_the_device)
{
    talc_device *gpu = talc_device_get("cuda");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        talc_cuda_state_of(gpu)->lost = cudaSuccess;
        cr_assert(talc_cuda_status(gpu, "test", (cudaError_t)ends[i]) == TALC_DEVICE_LOST, "%d: %s",
                  ends[i], talc_error_message());
        talc_error_clear();
        cr_assert_null(talc_empty(gpu, TALC_F32, TALC_DIMS(10)));
        cr_assert(strstr(talc_error_message(), "empty: cuda:0 was lost at test: ") != NULL,
                  "%d: %s", ends[i], talc_error_message());
        talc_error_clear();
    }
    talc_cuda_state_of(gpu)->lost = cudaSuccess;
    cr_assert(talc_cuda_status(gpu, "test", cudaErrorInvalidValue) == TALC_UNSUPPORTED);
    talc_error_clear();
    cr_assert_not_null(talc_empty(gpu, TALC_F32, TALC_DIMS(10)));
}

#endif

/* Copies behind the fault, which another call has seen: what was to be read is not there, what was
 * to be written is intact. */
OpenEndedTest(lost, page_locked_memory_does_not_show_what_never_arrived)
{
    enum { MANY_PINNED = 1 << 20 };
    talc_device *gpu = talc_device_get("cuda");
    talc_tensor *read = talc_pinned(gpu, TALC_F32, TALC_DIMS(MANY_PINNED));
    talc_tensor *written = talc_pinned(gpu, TALC_F32, TALC_DIMS(MANY_PINNED));
    talc_tensor *untouched = talc_pinned(gpu, TALC_F32, TALC_DIMS(MANY_PINNED));
    talc_fill(read, 1);
    talc_fill(written, 2);
    talc_fill(untouched, 3);
    talc_tensor *there = talc_zeros(gpu, TALC_F32, TALC_DIMS(MANY_PINNED));
    cr_assert(talc_device_synchronize(gpu), "%s", talc_error_message());
    gpu_stall(gpu, talc_stream_current(gpu), 50);
    queue_fault(gpu);
    cr_assert(talc_copy(read, there) && talc_copy(there, written), "%s", talc_error_message());
    see_fault(gpu);
    for (int round = 0; round < 2; round++) {
        cr_assert_null(talc_data(read, TALC_F32));
        assert_lost("data");
        const float *elements = talc_data(written, TALC_F32);
        cr_assert(elements != NULL && elements[0] == 2 && elements[MANY_PINNED - 1] == 2, "%s",
                  talc_error_message());
        elements = talc_data(untouched, TALC_F32);
        cr_assert(elements != NULL && elements[MANY_PINNED - 1] == 3, "%s", talc_error_message());
    }
    talc_scope_leave_all();
}

/* The call that waits for the copy sees the fault itself. */
OpenEndedTest(lost, page_locked_memory_says_at_every_call_that_nothing_arrived)
{
    talc_device *gpu = talc_device_get("cuda");
    talc_tensor *read = talc_pinned(gpu, TALC_F32, TALC_DIMS(1000));
    talc_tensor *there = talc_zeros(gpu, TALC_F32, TALC_DIMS(1000));
    cr_assert(talc_device_synchronize(gpu), "%s", talc_error_message());
    gpu_stall(gpu, talc_stream_current(gpu), 50);
    queue_fault(gpu);
    cr_assert(talc_copy(read, there), "%s", talc_error_message());
    for (int round = 0; round < 3; round++) {
        cr_assert_null(talc_data(read, TALC_F32), "round %d", round);
        cr_assert(talc_error_status() == TALC_DEVICE_LOST, "%s", talc_error_message());
        talc_error_clear();
    }
    talc_scope_leave_all();
}

OpenEndedTest(lost, a_process_ends_well_with_tensors_on_a_lost_device)
{
    talc_device *gpu = talc_device_get("cuda");
    talc_retain(talc_ones(gpu, TALC_F32, TALC_DIMS(1000)));
    talc_ones(gpu, TALC_F32, TALC_DIMS(1000));
    provoke_fault(gpu);
}
