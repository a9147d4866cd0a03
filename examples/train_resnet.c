/* Trains ResNet-20 on images of any number of channels and classes: MNIST's 28x28, CIFAR's 32x32,
 * folders of PNGs.
 *
 *     train_resnet [--data DIR] [--epochs N] [--device NAME] ...        --help lists all
 *
 * On the first 8,000 images of MNIST's test files the defaults reach about 99.3 % of the other
 * 2,000. */
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

int main(int argc, char **argv)
{
    training run = { .name = "train_resnet",
                     .network = "resnet20",
                     .report = "train_resnet.report",
                     .optimizer_name = "sgd",
                     .epochs = 20,
                     .batch = 64,
                     .seed = 1 };
    int code = training_begin(&run, argc, argv);
    if (code >= 0)
        return code;

    run.net = talc_network_new("resnet20", &(talc_network_options){
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
