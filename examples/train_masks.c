/// A U-Net learns to tell discs from squares, in images that the program draws with their masks:
/// example_train_masks [EPOCHS [IMAGES]].
#include <talc/talc.h>

#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 48, PLANE = SIDE * SIDE, SHAPES = 4 };

/* Sample i: noise, and shapes of different greys on it, every other one a disc. */
static talc_status draw(void *context, int64_t i, void *image, void *mask)
{
    (void)context;
    uint64_t x = (uint64_t)i;
#define BELOW(n) ((int)((x = x * 6364136223846793005u + 1442695040888963407u) >> 33) % (n))
    for (int k = 0; k < PLANE; k++)
        ((uint8_t *)image)[k] = (uint8_t)BELOW(64);
    for (int shape = 0; shape < SHAPES; shape++) {
        const int y = BELOW(SIDE), z = BELOW(SIDE), r = 7 + BELOW(5),
                  grey = 80 + (int)(i + shape) % 4 * 40;
        for (int k = 0; k < PLANE; k++) {
            const int h = abs(k / SIDE - y), w = abs(k % SIDE - z), disc = shape % 2;
            if (disc ? h * h + w * w > r * r : h > r || w > r)
                continue;
            ((uint8_t *)image)[k] = (uint8_t)(grey + BELOW(32));
            ((int64_t *)mask)[k] = disc;
        }
    }
    return TALC_OK;
}

#define CONV(i, o)  talc_nn_conv2d(&(talc_conv2d_layer){ i, o, { 3, 3 }, .padding = { 1, 1 } })
#define NORM(o)     talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ .channels = o })
#define BLOCK(i, o) CONV(i, o), NORM(o), talc_nn_relu()
#define HALF        talc_nn_max_pool2d(&(talc_pool2d_options){ .kernel = { 2, 2 } })
#define TWICE       { 2, 2 }, .stride = { 2, 2 }
#define UP(i, o)    talc_nn_conv_transpose2d(&(talc_conv_transpose2d_layer){ i, o, TWICE })

/* What the net sees at each size, and from the smallest one up again. */
static talc_tensor *forward(talc_module *const net[], talc_tensor *x)
{
    talc_tensor *seen[3];
    for (int i = 0; i < 3; i++)
        seen[i] = x = talc_forward(net[i], x);
    x = talc_forward(net[3], x);
    for (int i = 2; i >= 0; i--)
        x = talc_forward(net[6 - i], talc_concat((const talc_tensor *[]){ seen[i], x }, 2, 1));
    return x;
}

int main(int argc, char **argv)
{
    const int epochs = argc > 1 ? atoi(argv[1]) : 15, count = argc > 2 ? atoi(argv[2]) : 2000;
    talc_callbacks shapes = { .get = draw, .count = count, .in_threads = true };
    shapes.image = TALC_DIMS(1, SIDE, SIDE), shapes.image_dtype = TALC_U8;
    shapes.target = TALC_DIMS(SIDE, SIDE), shapes.target_dtype = TALC_I64;
    talc_dataset *images = talc_dataset_callbacks(&shapes);
    talc_dataset_parts parts = talc_dataset_split(images, 0.5, 1);
    talc_loader_options options = {
        .batch = 16, .shuffle = true, .masks = true, .augment = { .flip = 0.5, .rotation = 10 }
    };
    talc_loader *train = talc_loader_new(parts.first, &options),
                *test = talc_loader_new(parts.rest, NULL);
    talc_module *net[] = { TALC_SEQUENTIAL(BLOCK(1, 12)),
                           TALC_SEQUENTIAL(HALF, BLOCK(12, 24)),
                           TALC_SEQUENTIAL(HALF, BLOCK(24, 48)),
                           TALC_SEQUENTIAL(HALF, BLOCK(48, 96), UP(96, 48)),
                           TALC_SEQUENTIAL(BLOCK(96, 48), UP(48, 24)),
                           TALC_SEQUENTIAL(BLOCK(48, 24), UP(24, 12)),
                           TALC_SEQUENTIAL(BLOCK(24, 12), CONV(12, 2)) };
    talc_module *all = talc_nn_sequential_of(net, 7); /* owns them */
    const talc_optimizer_options adam = { .kind = TALC_ADAM, .lr = 0.005 };
    talc_optimizer *optimizer = talc_optimizer_new(all, &adam);
    talc_schedule cosine = { .kind = TALC_SCHEDULE_COSINE };
    cosine.steps = epochs * talc_loader_batches(train);
    talc_optimizer_schedule(optimizer, &cosine);
    talc_batch batch;
    for (int epoch = 0; epoch < epochs && talc_loader_start(train, epoch); epoch++)
        while (talc_loader_next(train, &batch)) {
            talc_scope *step = talc_scope_enter();
            talc_optimizer_zero_grad(optimizer);
            talc_backward(talc_cross_entropy(forward(net, batch.images), batch.labels));
            talc_optimizer_step(optimizer);
            talc_scope_leave(step);
        }
    int64_t both = 0, any = 0;
    talc_module_eval(all);
    talc_no_grad_enter();
    talc_loader_start(test, 0);
    while (talc_loader_next(test, &batch)) {
        talc_scope *scope = talc_scope_enter();
        talc_tensor *found = talc_argmax(forward(net, batch.images), TALC_DIMS(1), false);
        const int64_t *disc = talc_data_read(found, TALC_I64),
                      *mask = talc_data_read(batch.labels, TALC_I64);
        for (int64_t i = 0; disc != NULL && i < batch.count * PLANE; i++)
            both += disc[i] & mask[i], any += disc[i] | mask[i];
        talc_scope_leave(scope);
    }
    talc_no_grad_leave();
    printf("intersection over union of the discs: %.3f\n", (double)both / (double)any);
    talc_optimizer_free(optimizer), talc_module_free(all);
    talc_loader_free(train), talc_loader_free(test);
    talc_dataset_free(parts.first), talc_dataset_free(parts.rest), talc_dataset_free(images);
    if (talc_failed())
        fprintf(stderr, "%s\n", talc_error_message());
    return talc_failed();
}
