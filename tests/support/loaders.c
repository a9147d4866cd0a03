#include "tests/support/loaders.h"

#include "tests/support/hooks.h"

talc_dataset *numbered_dataset(void)
{
    talc_scope *scope = talc_scope_enter();
    talc_manual_seed(3);
    talc_tensor *images =
        talc_randint(cpu_device(), TALC_U8, TALC_DIMS(SAMPLES, CHANNELS, HEIGHT, WIDTH), 0, 256);
    talc_dataset *dataset =
        talc_dataset_tensors(images, talc_arange(cpu_device(), TALC_I64, 0, SAMPLES, 1));
    talc_scope_leave(scope);
    cr_assert(dataset != NULL, "%s", talc_error_message());
    return dataset;
}

talc_loader *begun_loader(talc_dataset *dataset, talc_loader_options options, int64_t epoch)
{
    talc_loader *loader = talc_loader_new(dataset, &options);
    cr_assert(talc_loader_start(loader, epoch), "%s", talc_error_message());
    return loader;
}

size_t rest_of_epoch(talc_loader *loader, char *bytes)
{
    size_t at = 0;
    talc_batch batch;
    while (talc_loader_next(loader, &batch)) {
        const talc_tensor *const both[] = { batch.images, batch.labels };
        for (int i = 0; i < 2; i++) {
            cr_assert(talc_to_host(both[i], bytes + at, talc_nbytes(both[i])));
            at += talc_nbytes(both[i]);
        }
    }
    assert_no_failure();
    return at;
}
