#include "tests/support/fake_device.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include "tensor/pool.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

// ---- The device itself: proof that it catches what it is for ------------------------------------

/* A sanitizer's own handler would turn the signal into an exit. */
static void touch(const void *address)
{
    signal(SIGSEGV, SIG_DFL);
    (void)*(const volatile char *)address;
}

Test(fake_device, a_host_read_of_device_memory_is_a_fault, .signal = SIGSEGV)
{
    talc_tensor *x = talc_ones(fake_device(), TALC_F32, TALC_DIMS(4));
    talc_device_synchronize(fake_device());
    touch(x->data);
}

Test(fake_device, a_read_past_the_end_of_a_block_is_a_fault_even_for_kernels, .signal = SIGSEGV)
{
    talc_device *device = fake_device();
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(64));
    char *end = (char *)x->data + 256;
    char byte;
    fake_device_peek(device, &byte, end - 1, 1);
    signal(SIGSEGV, SIG_DFL);
    fake_device_peek(device, &byte, end, 1);
}

Test(fake_device, a_block_that_was_given_back_is_a_fault_even_for_kernels, .signal = SIGSEGV)
{
    talc_device *device = fake_device();
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(64));
    const void *data = x->data;
    talc_release(x);
    talc_memory_trim(device);
    char byte;
    signal(SIGSEGV, SIG_DFL);
    fake_device_peek(device, &byte, data, 1);
}

Test(fake_device, the_library_refuses_host_pointers_to_it)
{
    talc_tensor *x = talc_ones(fake_device(), TALC_F32, TALC_DIMS(4));
    cr_assert(!talc_device_is_host(x->device));
    cr_assert_null(talc_data(x, TALC_F32));
    assert_failure(TALC_BAD_DEVICE,
                   "data: the host cannot touch memory of fake; copy with talc_to_host");
    float values[1] = { 0 };
    cr_assert_null(talc_wrap(fake_device(), TALC_F32, TALC_DIMS(1), values, NULL, NULL));
    assert_failure(TALC_BAD_DEVICE, "wrap: fake cannot use host memory in place");
}

Test(fake_device, fresh_memory_is_nan)
{
    float values[3] = { 0 };
    cr_assert(
        talc_to_host(talc_empty(fake_device(), TALC_F32, TALC_DIMS(3)), values, sizeof values));
    for (int i = 0; i < 3; i++)
        cr_assert(isnan(values[i]), "element %d is %g", i, (double)values[i]);
}

Test(fake_device, work_runs_late_and_in_order)
{
    talc_device *device = fake_device();
    float host[2] = { 1, 2 };
    talc_tensor *x = talc_from_host(device, TALC_F32, TALC_DIMS(2), host);
    host[0] = 100; /* the upload took the bytes as they were */
    talc_tensor *y = talc_add(x, x);
    cr_assert(talc_fill(x, 7));
    cr_assert(fake_device_queued(device) == 3 && fake_device_executed(device) == 0);

    float seen[2];
    fake_device_peek(device, seen, y->data, sizeof seen);
    cr_assert(isnan(seen[0]) && isnan(seen[1]), "work ran before anything waited for it");

    cr_assert(talc_to_host(y, seen, sizeof seen));
    cr_assert(fake_device_queued(device) == 0 && fake_device_executed(device) == 3);
    cr_assert(seen[0] == 2 && seen[1] == 4, "%g, %g", (double)seen[0], (double)seen[1]);
    cr_assert(talc_device_synchronize(device));
    cr_assert(fake_device_executed(device) == 3);
}

/* A download that does not wait, planted. */
static talc_status hasty_download(talc_device *device, void *host, const void *src, size_t bytes)
{
    fake_device_peek(device, host, src, bytes);
    return TALC_OK;
}

Test(fake_device, a_forgotten_synchronization_is_seen)
{
    talc_device *device = fake_device();
    const talc_device_interface *honest = device->interface;
    talc_device_interface hasty = *honest;
    hasty.download = hasty_download;
    talc_tensor *y = talc_mul_scalar(talc_ones(device, TALC_F32, TALC_DIMS(1)), 3);
    device->interface = &hasty;
    cr_assert(isnan(talc_item(y)), "a download that does not wait gave the right number");
    device->interface = honest;
    cr_assert(talc_item(y) == 3);
}

Test(fake_device, memory_freed_and_reused_while_work_waits_keeps_the_order)
{
    talc_device *device = fake_device();
    talc_tensor *a = talc_full(device, TALC_F32, TALC_DIMS(64), 5);
    talc_tensor *b = talc_neg(a);
    const void *freed = a->data;
    talc_release(a);
    talc_tensor *c = talc_full(device, TALC_F32, TALC_DIMS(64), 9);
    cr_assert(c->data == freed, "the pool did not reuse the block, so this test shows nothing");
    cr_assert(fake_device_executed(device) == 0);
    cr_assert(talc_item(talc_slice(b, 0, 3, 4, 1)) == -5);
    cr_assert(talc_item(talc_slice(c, 0, 3, 4, 1)) == 9);
}

Test(fake_device, giving_memory_back_waits_for_work_that_uses_it)
{
    talc_device *device = fake_device();
    talc_tensor *a = talc_full(device, TALC_F32, TALC_DIMS(64), 5);
    talc_tensor *b = talc_neg(a);
    talc_release(a);
    cr_assert(talc_memory_trim(device) > 0);
    cr_assert(fake_device_queued(device) == 0);
    cr_assert(talc_item(talc_slice(b, 0, 3, 4, 1)) == -5);
}

Test(fake_device, releases_run_the_queue_right_while_a_failure_stands)
{
    talc_device *device = fake_device();
    talc_tensor *a = talc_full(device, TALC_F32, TALC_DIMS(64), 5);
    talc_tensor *b = talc_neg(a);
    talc_fail(TALC_IO_ERROR, "stands");
    talc_release(a);
    talc_memory_trim(device);
    assert_failure(TALC_IO_ERROR, "stands");
    cr_assert(talc_item(talc_slice(b, 0, 3, 4, 1)) == -5);
}

Test(fake_device, a_fault_surfaces_at_the_next_call_that_waits)
{
    talc_device *device = fake_device();
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(2));
    cr_assert(talc_device_synchronize(device));
    fake_device_fail_work(device, 2);
    talc_tensor *y = talc_add(talc_neg(x), x); /* the add is hit */
    cr_assert_not_null(y);
    cr_assert(!talc_failed());
    float host[2] = { 3, 4 };
    cr_assert(!talc_to_host(y, host, sizeof host));
    cr_assert(host[0] == 3 && host[1] == 4, "a failed download wrote");
    assert_failure(TALC_DEVICE_LOST, "fake: a fault that the test asked for");

    fake_device_fail_work(device, 1);
    cr_assert(talc_fill(x, 1));
    cr_assert(!talc_device_synchronize(device));
    assert_failure(TALC_DEVICE_LOST, "fake: a fault that the test asked for");

    fake_device_fail_work(device, 1);
    talc_tensor *z = talc_neg(x);
    cr_assert_null(talc_to(z, cpu_device(), TALC_F32));
    assert_failure(TALC_DEVICE_LOST, "fake: a fault that the test asked for");
}

/* The fake device's clock is the calls that ran. */
Test(fake_device, a_timer_waits_for_what_it_times)
{
    talc_device *device = fake_device();
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(2));
    talc_timer *timer = talc_timer_start(device);
    talc_neg(talc_add(x, x));
    cr_assert_eq(talc_timer_stop(timer), 2);
    cr_assert(fake_device_queued(device) == 0);

    timer = talc_timer_start(device);
    fake_device_fail_work(device, 1);
    talc_neg(x);
    cr_assert(talc_timer_stop(timer) < 0);
    assert_failure(TALC_DEVICE_LOST, "fake: a fault that the test asked for");
    fake_device_fail_work(device, 1);
    talc_neg(x);
    cr_assert_null(talc_timer_start(device));
    assert_failure(TALC_DEVICE_LOST, "fake: a fault that the test asked for");
}

Test(fake_device, sync_names_the_op_that_a_fault_hits)
{
    setenv("TALC_SYNC", "1", 1); /* read once, when this process first asks */
    talc_device *device = fake_device();
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(2));
    cr_assert(talc_device_synchronize(device));
    fake_device_fail_work(device, 2);
    talc_tensor *y = talc_neg(x);
    cr_assert_not_null(y);
    cr_assert_null(talc_add(y, x));
    assert_failure(TALC_DEVICE_LOST,
                   "add by reference on fake: fake: a fault that the test asked for");
}

Test(fake_device, running_out_of_memory_gives_the_cache_back_first)
{
    talc_device *device = fake_device();
    fake_device_limit_memory(device, 1 << 20);
    talc_tensor *a = talc_zeros(device, TALC_U8, TALC_DIMS(800 << 10));
    cr_assert_not_null(a, "%s", talc_error_message());
    cr_assert_null(talc_zeros(device, TALC_U8, TALC_DIMS(300 << 10)));
    assert_failure(TALC_NO_MEMORY, "zeros: out of memory on fake: asked 300.0 KiB (307200 bytes), "
                                   "held 800.0 KiB, free 224.0 KiB");
    talc_release(a); /* cached now: of another size, so it has to go back to the system */
    cr_assert_not_null(talc_zeros(device, TALC_U8, TALC_DIMS(300 << 10)), "%s",
                       talc_error_message());
}

// ---- What the library does with it --------------------------------------------------------------

Test(fake_device, operands_on_different_devices_are_named)
{
    talc_tensor *a = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2));
    talc_tensor *b = talc_ones(fake_device(), TALC_F32, TALC_DIMS(2));
    talc_tensor *c = talc_ones(other_fake_device(), TALC_F32, TALC_DIMS(2));
    cr_assert_null(talc_add(a, b));
    assert_failure(TALC_BAD_DEVICE, "add: a is on cpu, b on fake");
    cr_assert_null(talc_mul(c, b));
    assert_failure(TALC_BAD_DEVICE, "mul: a is on fake:1, b on fake");
}

Test(fake_device, tensors_move_between_all_pairs_of_devices)
{
    talc_device *devices[] = { cpu_device(), fake_device(), other_fake_device() };
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            char what[64];
            snprintf(what, sizeof what, "%s to %s", devices[i]->name, devices[j]->name);
            talc_tensor *x = op_numbers(devices[i], TALC_DIMS(3, 5), 1);
            talc_tensor *t = talc_transpose(x, 0, 1);
            talc_tensor *moved = talc_to(t, devices[j], TALC_F64);
            cr_assert(moved != NULL && moved->device == devices[j], "%s: %s", what,
                      talc_error_message());
            talc_tensor *expected = talc_cast(
                talc_transpose(op_numbers(cpu_device(), TALC_DIMS(3, 5), 1), 0, 1), TALC_F64);
            assert_same_bits(what, expected, moved);

            talc_tensor *target = talc_zeros(devices[j], TALC_F32, TALC_DIMS(2, 5, 3));
            cr_assert(talc_copy(talc_select(target, 0, 1), t), "%s: %s", what,
                      talc_error_message());
            assert_same_bits(what,
                             talc_transpose(op_numbers(cpu_device(), TALC_DIMS(3, 5), 1), 0, 1),
                             talc_select(target, 0, 1));
            cr_assert(talc_item(talc_select(talc_select(talc_select(target, 0, 0), 0, 4), 0, 2)) ==
                      0);
        }
}

Test(fake_device, single_elements_and_whole_tensors_come_back)
{
    talc_device *device = fake_device();
    talc_tensor *x = talc_arange(device, TALC_I64, 0, 6, 1);
    cr_assert(talc_item_i64(talc_select(x, 0, 4)) == 4);
    cr_assert(talc_item(talc_select(x, 0, 5)) == 5);
    int64_t host[3];
    cr_assert(talc_to_host(talc_slice(x, 0, 0, TALC_END, 2), host, sizeof host));
    cr_assert(host[0] == 0 && host[1] == 2 && host[2] == 4);
    assert_same_bits("eye", talc_eye(cpu_device(), TALC_F32, 3), talc_eye(device, TALC_F32, 3));
    assert_same_bits(
        "reshape",
        talc_reshape(talc_transpose(op_numbers(cpu_device(), TALC_DIMS(3, 4), 2), 0, 1),
                     TALC_DIMS(12)),
        talc_reshape(talc_transpose(op_numbers(device, TALC_DIMS(3, 4), 2), 0, 1), TALC_DIMS(12)));
}

// ---- Every op -----------------------------------------------------------------------------------

Test(fake_device, every_op_gives_the_bits_of_the_cpu)
{
    op_inputs cpu = op_inputs_new(cpu_device()), fake = op_inputs_new(fake_device());
    for (const op_case *op = op_cases; op->name != NULL; op++) {
        cr_assert(talc_device_synchronize(fake_device()));
        talc_tensor *y = op->run(&fake);
        cr_assert(y != NULL, "%s: %s", op->name, talc_error_message());
        cr_assert(y->device == fake_device());
        cr_assert(fake_device_queued(fake_device()) > 0 || y->storage == fake.image->storage,
                  "%s did its work before anything waited for it", op->name);
        assert_same_bits(op->name, op->run(&cpu), y);
    }
}
