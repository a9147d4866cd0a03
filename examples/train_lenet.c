/* Trains LeNet-5 on 28x28 images of ten classes: MNIST and its family, or digits that the library draws.
 *
 *     train_lenet [--data DIR] [--epochs N] [--device NAME] ...        --help lists all
 *
 * On the first 8,000 of MNIST's 10,000 test images the defaults reach about 98.8 % of the other 2,000, with --shift 2 about
 * 99.1 %. */
#include "lenet.h"
#include "training.h"

/* What is left of an epoch. */
static bool train_epoch(training *run, talc_module *net, talc_optimizer *optimizer)
{
    talc_batch batch;
    bool going = talc_loader_start_at(run->train, run->at.epoch, run->at.batch);
    while (going && talc_loader_next(run->train, &batch)) {
        talc_scope *scope = talc_scope_enter(); /* what a step makes is freed with it */
        talc_tensor *logits = talc_forward(net, batch.images);
        talc_tensor *loss = talc_cross_entropy(logits, batch.labels);
        talc_optimizer_zero_grad(optimizer);
        talc_backward(loss);
        going = training_count(run, net, &batch, logits, loss) && talc_optimizer_step(optimizer) &&
                training_next(run);
        talc_scope_leave(scope);
    }
    return training_save(run, net, optimizer);
}

int main(int argc, char **argv)
{
    training run = { .name = "train_lenet",
                     .report = "train_lenet.report",
                     .optimizer_name = "sgd",
                     .epochs = 20,
                     .batch = 64,
                     .seed = 1 };
    int code = training_begin(&run, argc, argv);
    if (code >= 0)
        return code;

    talc_module *net = lenet_new();
    bool sgd = run.optimizer == TALC_SGD;
    talc_optimizer *optimizer =
        talc_optimizer_new(net, &(talc_optimizer_options){
                                    .kind = run.optimizer,
                                    .lr = run.lr == 0 && sgd ? 0.05 : run.lr,
                                    .momentum = sgd ? 0.9 : 0,
                                    .nesterov = sgd,
                                    .weight_decay = 5e-4,
                                });
    talc_optimizer_schedule(optimizer, &(talc_schedule){
                                           .kind = TALC_SCHEDULE_COSINE,
                                           .steps = run.epochs * talc_loader_batches(run.train),
                                       });

    bool going = training_prepare(&run, net, optimizer);
    while (going && run.at.epoch < run.epochs)
        going = train_epoch(&run, net, optimizer);
    return training_end(&run, net, optimizer);
}
