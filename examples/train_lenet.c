/* Trains LeNet-5 on 28x28 images: MNIST and its family, folders of PNGs, or digits that the library
 * draws.
 *
 *     train_lenet [--data DIR] [--epochs N] [--device NAME] ...        --help lists all
 *
 * On the first 8,000 of MNIST's 10,000 test images the defaults reach about 98.8 % of the other
 * 2,000, with --shift 2 about 99.1 %. */
#include <talc/networks.h>
#include "training.h"

/* One step, of the batch in run->images and run->labels; on a GPU it is recorded (nn/step.h). */
static talc_tensor *train_step(void *context)
{
    training *run = context;
    talc_tensor *logits = talc_forward(run->net, run->images);
    talc_tensor *loss = talc_cross_entropy(logits, run->labels);
    talc_optimizer_zero_grad(run->optimizer);
    talc_backward(loss);
    return training_count(run, logits, loss) && talc_optimizer_step(run->optimizer) ? loss : NULL;
}

/* What is left of an epoch. */
static bool train_epoch(training *run)
{
    talc_batch batch;
    bool going = talc_loader_start_at(run->train, run->at.epoch, run->at.batch);
    while (going && talc_loader_next(run->train, &batch)) {
        talc_scope *scope = talc_scope_enter(); /* what a step makes is freed with it */
        going = training_step(run, &batch) && training_next(run);
        talc_scope_leave(scope);
    }
    return training_save(run);
}

/* Whether the network is made for images of this size. */
static bool takes(talc_dims image)
{
    const talc_network *lenet = talc_network_find("lenet");
    if (lenet != NULL && !talc_failed() &&
        (image.dim[1] != lenet->image.height || image.dim[2] != lenet->image.width))
        talc_fail(TALC_BAD_SHAPE,
                  "data: images are %lldx%lld (height x width), LeNet takes %lldx%lld; "
                  "train_resnet takes any",
                  (long long)image.dim[1], (long long)image.dim[2], (long long)lenet->image.height,
                  (long long)lenet->image.width);
    return !talc_failed();
}

int main(int argc, char **argv)
{
    training run = { .name = "train_lenet",
                     .network = "lenet",
                     .report = "train_lenet.report",
                     .optimizer_name = "sgd",
                     .epochs = 20,
                     .batch = 64,
                     .seed = 1 };
    int code = training_begin(&run, argc, argv);
    if (code >= 0)
        return code;

    if (!takes(talc_dataset_dims(run.train_data)))
        return training_end(&run);
    run.net = talc_network_new("lenet", &(talc_network_options){
                                            .channels = talc_dataset_dims(run.train_data).dim[0],
                                            .classes = talc_dataset_classes(run.train_data),
                                        });
    bool sgd = run.kind == TALC_SGD;
    run.optimizer = talc_optimizer_new(run.net, &(talc_optimizer_options){
                                                    .kind = run.kind,
                                                    .lr = run.lr == 0 && sgd ? 0.05 : run.lr,
                                                    .momentum = sgd ? 0.9 : 0,
                                                    .nesterov = sgd,
                                                    .weight_decay = 5e-4,
                                                });
    talc_optimizer_schedule(run.optimizer, &(talc_schedule){
                                               .kind = TALC_SCHEDULE_COSINE,
                                               .steps = run.epochs * talc_loader_batches(run.train),
                                           });

    bool going = training_prepare(&run, train_step);
    while (going && run.at.epoch < run.epochs)
        going = train_epoch(&run);
    return training_end(&run);
}
