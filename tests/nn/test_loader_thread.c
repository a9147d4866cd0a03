/// The thread that makes the next batch: it changes no bit, ends at any moment, and its failures
/// are the caller's.
#include "tests/support/fake_device.h"
#include "tests/support/faults.h"
#include "tests/support/hooks.h"
#include "tests/support/loaders.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const talc_loader_options lively = {
    .batch = 8, .shuffle = true, .seed = 5, .shift = 2, .flip = true
};

enum { EPOCH_BYTES = SAMPLES * (IMAGE * 4 + 8), BATCH_BYTES = 8 * (IMAGE * 4 + 8) };

Test(loader, threads_and_resuming_change_no_bit)
{
    owned_dataset *dataset = numbered_dataset();
    talc_loader_options threaded = lively, alone = lively;
    threaded.device = alone.device = tested_device();
    alone.no_thread = true;
    owned_loader *a = begun_loader(dataset, threaded, 0), *b = begun_loader(dataset, alone, 0);
    owned_char *expected = malloc(EPOCH_BYTES), *got = malloc(EPOCH_BYTES);
    for (int64_t epoch = 0; epoch < 5; epoch++) {
        cr_assert(talc_loader_start(a, epoch) && talc_loader_start(b, epoch));
        cr_assert(rest_of_epoch(b, expected) == EPOCH_BYTES &&
                  rest_of_epoch(a, got) == EPOCH_BYTES);
        cr_assert(memcmp(expected, got, EPOCH_BYTES) == 0, "epoch %d", (int)epoch);
        for (int64_t batch = 0; batch <= talc_loader_batches(a); batch++) {
            const size_t done = (size_t)batch * BATCH_BYTES;
            const size_t left = done < EPOCH_BYTES ? EPOCH_BYTES - done : 0;
            cr_assert(talc_loader_start_at(a, epoch, batch) && rest_of_epoch(a, got) == left);
            cr_assert(memcmp(expected + EPOCH_BYTES - left, got, left) == 0, "batch %d",
                      (int)batch);
        }
    }
}

Test(loader, a_loader_may_end_or_begin_again_at_any_moment)
{
    talc_dataset *dataset = numbered_dataset(), *other = talc_dataset_part(dataset, 0, SAMPLES);
    talc_loader_options options = lively;
    options.device = tested_device();
    talc_loader_free(talc_loader_new(dataset, &options));
    talc_dataset_free(dataset);
    for (int taken = 0; taken < 40; taken++) {
        owned_loader *loader = begun_loader(other, options, taken);
        talc_batch batch = { 0 };
        for (int i = 0; i < taken % 9; i++)
            (void)talc_loader_next(loader, &batch);
        assert_no_failure();
        if (taken % 2 == 0)
            cr_assert(talc_loader_start_at(loader, 3, taken % 4) &&
                      talc_loader_next(loader, &batch) && batch.index == taken % 4);
        if (taken == 39)
            talc_dataset_free(other);
    }
}

/* The thread is in the middle of a large batch when another epoch begins. */
Test(loader, an_epoch_that_begins_while_another_is_made_is_made_whole)
{
    enum { LARGE = 2000 };
    owned_dataset *dataset = talc_dataset_digits(LARGE, 1);
    talc_loader_options options = { .batch = LARGE / 2, .shuffle = true, .no_thread = true };
    owned_loader *alone = begun_loader(dataset, options, 1);
    options.no_thread = false;
    owned_loader *threaded = begun_loader(dataset, options, 0);
    const size_t bytes = (size_t)LARGE * (28 * 28 * 4 + 8);
    owned_char *expected = malloc(bytes), *got = malloc(bytes);
    cr_assert(rest_of_epoch(alone, expected) == bytes);
    for (int i = 0; i < 20; i++) {
        cr_assert(talc_loader_start(threaded, 0));
        nanosleep(&(struct timespec){ .tv_nsec = i * 50000 }, NULL);
        cr_assert(talc_loader_start(threaded, 1) && rest_of_epoch(threaded, got) == bytes);
        cr_assert(memcmp(expected, got, bytes) == 0, "round %d", i);
    }
}

/* In a scope that is never left, as a program's own may be. */
Test(loader, memory_stays_flat)
{
    talc_device *device = tested_device();
    owned_dataset *dataset = numbered_dataset();
    talc_loader_options options = lively;
    options.device = device;
    owned_loader *loader = begun_loader(dataset, options, 0);
    size_t live[2] = { 0 };
    for (int64_t epoch = 0; epoch < 20; epoch++) {
        talc_batch batch;
        cr_assert(talc_loader_start(loader, epoch));
        while (talc_loader_next(loader, &batch))
            assert_no_failure();
        live[epoch > 0] = talc_device_memory(device).live + talc_device_memory(cpu_device()).live;
        cr_assert(epoch == 0 || live[1] == live[0], "%zu bytes, then %zu", live[0], live[1]);
    }
}

Test(loader, batches_belong_to_no_scope_and_stay_when_they_are_retained)
{
    owned_dataset *dataset = numbered_dataset();
    talc_loader_options options = lively;
    options.device = tested_device();
    owned_loader *loader = begun_loader(dataset, options, 0);
    talc_batch batch;
    owned_char *expected = malloc(EPOCH_BYTES), *got = malloc(EPOCH_BYTES);
    talc_tensor *kept[16], *views[16];
    int count = 0;
    for (;; count++) {
        talc_scope *scope = talc_scope_enter();
        const bool more = talc_loader_next(loader, &batch);
        talc_scope_leave(scope);
        if (!more)
            break;
        kept[count] = talc_retain(batch.images);
        views[count] = talc_retain(talc_select(batch.labels, 0, 0)); /* holds the storage alone */
    }
    cr_assert(count == 7);
    cr_assert(talc_loader_start(loader, 0));
    cr_assert(rest_of_epoch(loader, expected) == EPOCH_BYTES);
    for (int i = 0; i < count; i++) {
        const size_t bytes = talc_nbytes(kept[i]);
        cr_assert(talc_to_host(kept[i], got, bytes));
        cr_assert(memcmp(got, expected + (size_t)i * BATCH_BYTES, bytes) == 0, "batch %d", i);
        cr_assert(talc_item_i64(views[i]) == talc_loader_sample(loader, 8 * i));
        talc_release(kept[i]);
        talc_release(views[i]);
    }
}

/* The thread finds the fault when it waits for the copies of a batch before; the caller is told,
 * and may go on. */
Test(loader, a_failure_of_the_thread_is_raised_in_the_caller)
{
    talc_device *device = fake_device();
    owned_dataset *dataset = numbered_dataset();
    talc_loader_options options = lively;
    options.device = device;
    owned_loader *loader = begun_loader(dataset, options, 0);
    talc_batch batch, kept;
    fake_device_fail_work(device, 1);
    cr_assert(talc_loader_next(loader, &batch));
    int failures = 0, batches = 1;
    kept = batch;
    while (batches < 7) {
        if (talc_loader_next(loader, &batch)) {
            cr_assert(batch.index == batches++);
            kept = batch;
            continue;
        }
        cr_assert(talc_error_status() == TALC_DEVICE_LOST && failures++ == 0, "%s",
                  talc_error_message());
        cr_assert(batch.images == kept.images && batch.index == kept.index);
        cr_assert(!talc_loader_next(loader, &batch)); /* while a failure stands */
        talc_error_clear();
    }
    cr_assert(failures == 1);
}

static void run_epoch(fault_run *run)
{
    owned_dataset *dataset = talc_dataset_digits(10, 2);
    talc_loader_options options = lively;
    options.device = run->device;
    options.batch = 4;
    owned_loader *loader = talc_loader_new(dataset, &options);
    talc_batch batch;
    (void)talc_loader_start(loader, 1);
    while (talc_loader_next(loader, &batch)) {
        fault_keep(run, batch.images);
        fault_keep(run, batch.labels);
    }
}

TEST_SURVIVES(loader, every_allocation_may_fail, 50, "epoch", NULL, run_epoch, NULL, NULL)

/* After a failure the same call gives the batch that was due. */
Test(loader, a_failed_call_can_be_repeated)
{
    talc_device *const devices[] = { cpu_device(), fake_device() };
    owned_char *expected = malloc(EPOCH_BYTES), *got = malloc(EPOCH_BYTES);
    for (int d = 0; d < 2; d++) {
        owned_dataset *dataset = numbered_dataset();
        talc_loader_options options = lively;
        options.device = devices[d];
        owned_loader *loader = begun_loader(dataset, options, 0);
        cr_assert(rest_of_epoch(loader, expected) == EPOCH_BYTES && talc_loader_start(loader, 0));
        size_t at = 0;
        int failures = 0;
        for (int64_t i = 0; i < talc_loader_batches(loader); i++) {
            talc_batch batch;
            int64_t allowed = 0;
            for (;; failures++) {
                allow_allocations(allowed++);
                const bool given = talc_loader_next(loader, &batch);
                (void)allow_all_allocations();
                if (given)
                    break;
                cr_assert(talc_error_status() == TALC_NO_MEMORY, "%s", talc_error_message());
                talc_error_clear();
            }
            cr_assert(batch.index == i &&
                      talc_to_host(batch.images, got, talc_nbytes(batch.images)));
            cr_assert(memcmp(got, expected + at, talc_nbytes(batch.images)) == 0);
            at += talc_nbytes(batch.images) + talc_nbytes(batch.labels);
        }
        cr_assert(at == EPOCH_BYTES && failures > 20, "%d failures", failures);
    }
}

/* A child has no second thread; it makes its batches itself, frees what it inherited, and starts a
 * thread for its next epoch. */
Test(loader, a_child_of_fork_goes_on_by_itself)
{
    owned_dataset *dataset = numbered_dataset();
    talc_loader_options options = lively;
    talc_loader *loader = begun_loader(dataset, options, 0);
    char *expected = malloc(2 * EPOCH_BYTES), *got = malloc(2 * EPOCH_BYTES);
    cr_assert(rest_of_epoch(loader, expected) == EPOCH_BYTES && talc_loader_start(loader, 1));
    cr_assert(rest_of_epoch(loader, expected + EPOCH_BYTES) == EPOCH_BYTES);
    for (int i = 0; i < 30; i++) {
        cr_assert(talc_loader_start(loader, 0));
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            bool same = i % 3 == 0 || rest_of_epoch(loader, got) == EPOCH_BYTES;
            same = same && talc_loader_start(loader, 1);
            same = same && rest_of_epoch(loader, got + EPOCH_BYTES) == EPOCH_BYTES;
            const size_t from = i % 3 == 0 ? EPOCH_BYTES : 0;
            same = same && memcmp(expected + from, got + from, 2 * EPOCH_BYTES - from) == 0;
            talc_loader_free(loader);
            _exit(same ? 0 : 1);
        }
        int status = 1;
        cr_assert(waitpid(child, &status, 0) == child && status == 0, "child %d: %d", i, status);
        cr_assert(rest_of_epoch(loader, got) == EPOCH_BYTES &&
                  memcmp(got, expected, EPOCH_BYTES) == 0);
    }
    free(expected);
    free(got);
    talc_loader_free(loader);
}
