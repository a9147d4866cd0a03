/* What the training programs share: options, data, progress, evaluation and reports. Networks,
 * optimizers and loops stand in the programs. `mpirun -n 2 ./train_lenet` trains by two processes,
 * with --batch images of each step for each.
 *
 * What a program writes goes to one folder, --report DIR: checkpoint.safetensors after every epoch
 * and on Ctrl-C, from which
 * --resume goes on bit for bit, best.safetensors, the checkpoint of the epoch that was best on the
 * test images, and at the end curves.svg, curves.csv and wrong.svg. `talc run --weights
 * DIR/best.safetensors --input X.png` knows the rest. While a run lasts, no other may write these:
 * *.lock beside them says so. */
#ifndef TALC_EXAMPLES_TRAINING_H
#define TALC_EXAMPLES_TRAINING_H

#include <talc/talc.h>

/* What is counted of an epoch: sums over the images it was trained on, and over the test images at
 * its end. */
enum { IMAGES, LOSS, RIGHT, TEST_IMAGES, TEST_LOSS, TEST_RIGHT, TRAINING_COLUMNS };

typedef struct training {
    /* Options; the program sets its name, its network's and their defaults. */
    const char *name, *network, *data, *device_name, *report, *checkpoint, *optimizer_name;
    int64_t epochs, batch, seed, shift, train_count, test_count;
    double lr; /* 0: the optimizer's own */
    bool resume;

    talc_optimizer_kind kind;
    talc_device *device;
    talc_group *group; /* of the processes that mpirun or torchrun started, this one else */
    talc_parallel *parallel;
    bool leads;       /* rank 0 writes and reports */
    talc_module *net; /* the program makes it, and the optimizer */
    talc_optimizer *optimizer;
    talc_step_function *function;
    talc_step *step;              /* on a GPU; NULL: every step is a call of the function */
    talc_tensor *images, *labels; /* of the batch */
    talc_tensor *tally;           /* on a GPU: LOSS and RIGHT of the epoch so far, f64 */
    int64_t tallied;              /* the epoch */
    talc_dataset *train_data, *test_data;
    talc_model_info info; /* by which the network is described, for `talc run` */
    talc_loader *train, *test;
    talc_progress at; /* the next batch */
    /* [epochs, TRAINING_COLUMNS], f64, on the CPU: a buffer of the network, so that checkpoints
     * have it. */
    talc_tensor *history;
    int64_t *answers; /* [test images], of the last evaluation; of the root scope */
    double started, drawn, images_trained; /* seconds, seconds, since `started` */
} training;

/* Reads options, opens device and data. Returns the exit code to end with, or -1 to go on. */
int training_begin(training *run, int argc, char **argv);

/* Moves the network to the device, gives it the buffers that checkpoints of the run have, and puts
 * back what an earlier run saved, where --resume asks for it. `function` does a step. */
bool training_prepare(training *run, talc_step_function *function);

/* Does a step on a batch: by a recording on a GPU, where the batch is a whole one, else by a call
 * of the function. */
bool training_step(training *run, const talc_batch *batch);

/* For the function: counts a batch before its update. False, with a failure that names step and
 * layer, when its loss is not finite; on a GPU sums are kept there, and this shows when they are
 * read. */
bool training_count(training *run, const talc_tensor *logits, const talc_tensor *loss);

/* Shows progress and moves on to the next batch; false when Ctrl-C was pressed, or with a
 * failure. */
bool training_next(training *run);

/* After the batches of an epoch, or Ctrl-C: evaluates a whole epoch, and saves. False when it is
 * time to stop. */
bool training_save(training *run);

/* Reports, when all went well, and frees everything, the network too. Returns the exit code. */
int training_end(training *run);

/* training_report.c: confusion matrix on stdout, DIR/curves.svg, DIR/curves.csv and DIR/wrong.svg.
 * */
void training_report(const training *run);
double *training_row(const training *run, int64_t epoch);

#endif
