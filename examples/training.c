#include "training.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FAILED = 1, USAGE = 2, INTERRUPTED = 130, PATH_CAPACITY = 4096 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    interrupted = signal;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// ---- Options ------------------------------------------------------------------------------------

typedef struct option_row {
    const char *name, *value, *help;
    const char **text; /* where the value goes: one of the three */
    int64_t *number, min;
    double *real;
} option_row;

static bool read_value(const option_row *row, const char *text)
{
    char *end = NULL;
    errno = 0;
    if (row->text != NULL)
        *row->text = text;
    else if (row->number != NULL)
        *row->number = strtoll(text, &end, 10);
    else
        *row->real = strtod(text, &end);
    return *text != '\0' && errno == 0 && (end == NULL || *end == '\0') &&
           (row->number == NULL || (*row->number >= row->min && *row->number <= INT32_MAX)) &&
           (row->real == NULL || (isfinite(*row->real) && *row->real > 0));
}

static int read_options(training *run, int argc, char **argv)
{
    const option_row rows[] = {
        { "data", "DIR", "files of MNIST, or train/CLASS/*.png and test/...", .text = &run->data },
        { "train-count", "N", "train on the first N images", .number = &run->train_count, 1 },
        { "test-count", "N", "test on N images", .number = &run->test_count, 1 },
        { "device", "NAME", "cpu, cuda, cuda:1", .text = &run->device_name },
        { "epochs", "N", "passes over the images, over which the rate falls to 0",
          .number = &run->epochs, 1 },
        { "batch", "N", "images of a step", .number = &run->batch, 1 },
        { "shift", "N", "move each image by up to N pixels", .number = &run->shift },
        { "seed", "N", "of weights, order and shifts", .number = &run->seed },
        { "optimizer", "KIND", "sgd, adam, adamw or rmsprop", .text = &run->optimizer_name },
        { "lr", "RATE", "its first learning rate", .real = &run->lr },
        { "report", "DIR", "folder for what is written", .text = &run->report },
        { "checkpoint", "FILE", "instead of DIR/checkpoint.safetensors", .text = &run->checkpoint },
        { "resume", "", "go on from the checkpoint, with the options of its run", .text = NULL },
        { "help", "", "print this", .text = NULL },
    };
    enum { COUNT = sizeof rows / sizeof *rows, RESUME = COUNT - 2, HELP = COUNT - 1 };
    struct option options[COUNT + 1] = { { 0 } };
    for (int i = 0; i < COUNT; i++)
        options[i] = (struct option){ rows[i].name, i < RESUME, NULL, i };
    for (int i; (i = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (i == '?')
            return USAGE;
        if (i == HELP) {
            printf("usage: %s [options]\n\n", run->name);
            for (int k = 0; k < COUNT; k++)
                printf("  --%-11s %-4s  %s\n", rows[k].name, rows[k].value, rows[k].help);
            return 0;
        }
        run->resume = run->resume || i == RESUME;
        if (i < RESUME && !read_value(&rows[i], optarg)) {
            fprintf(stderr, "%s: --%s does not take %s\n", run->name, rows[i].name,
                    TALC_SHOWN(optarg));
            return USAGE;
        }
    }
    while (run->kind < TALC_OPTIMIZER_COUNT &&
           strcmp(run->optimizer_name, talc_optimizer_kind_name(run->kind)) != 0)
        run->kind++;
    if (optind == argc && run->kind < TALC_OPTIMIZER_COUNT)
        return -1;
    fprintf(stderr, "%s: no such option or optimizer; --help lists them\n", run->name);
    return USAGE;
}

// ---- Data ---------------------------------------------------------------------------------------

static char *path_in(const char *folder, const char *name, char path[PATH_CAPACITY])
{
    if (snprintf(path, PATH_CAPACITY, "%s/%s", folder, name) >= PATH_CAPACITY)
        talc_fail(TALC_BAD_ARGUMENT, "%s: the name is too long", TALC_SHOWN(folder));
    return path;
}

/* Whether DIR has a file or folder of this name. */
static bool is_there(const training *run, const char *name)
{
    char path[PATH_CAPACITY];
    return access(path_in(run->data, name, path), F_OK) == 0;
}

/* Whether DIR has images of MNIST, as talc_dataset_mnist looks for them. */
static bool has_images(const training *run, const char *part)
{
    static const char *const names[] = { "-idx3-ubyte", "-idx3-ubyte.gz", ".idx3-ubyte",
                                         ".idx3-ubyte.gz" };
    char name[64];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s-images%s", part, names[i]);
        if (is_there(run, name))
            return true;
    }
    return false;
}

/* Samples start .. start + count - 1 of a dataset, which this takes over; count 0: all from start
 * on. */
static talc_dataset *part(talc_dataset *all, int64_t start, int64_t count)
{
    long long have = talc_dataset_count(all), end = count > 0 ? start + count : have;
    if (start >= end || end > have)
        talc_fail(TALC_BAD_ARGUMENT, "data: images %lld to %lld were asked for, there are %lld",
                  (long long)start, end - 1, have);
    talc_dataset *samples = talc_dataset_part(all, start, end);
    talc_dataset_free(all);
    return samples;
}

static void open_data(training *run)
{
    char path[PATH_CAPACITY];
    int64_t train = run->train_count, test = run->test_count;
    if (run->data == NULL) {
        run->train_data = talc_dataset_digits(train > 0 ? train : 8000, 1);
        run->test_data = talc_dataset_digits(test > 0 ? test : 2000, 2);
    } else if (is_there(run, "train") && is_there(run, "test")) {
        run->train_data = part(talc_dataset_folder(path_in(run->data, "train", path)), 0, train);
        run->test_data = part(talc_dataset_folder(path_in(run->data, "test", path)), 0, test);
    } else if (!has_images(run, "t10k") && !has_images(run, "train")) {
        talc_fail(TALC_NOT_FOUND,
                  "data: '%s' is no folder with train/CLASS/*.png and test/CLASS/*.png, nor one "
                  "with MNIST's files%s",
                  TALC_SHOWN(run->data),
                  !is_there(run, "")       ? ": there is no such folder"
                  : is_there(run, "train") ? ": it has no test"
                  : is_there(run, "test")  ? ": it has no train"
                                           : "");
    } else {
        bool half = has_images(run, "t10k") && !has_images(run, "train");
        train = half && train == 0 ? 8000 : train; /* of 10,000 */
        run->train_data = part(talc_dataset_mnist(run->data, !half), 0, train);
        run->test_data = part(talc_dataset_mnist(run->data, false), half ? train : 0, test);
    }
    int64_t count = talc_dataset_classes(run->train_data);
    bool same = count == talc_dataset_classes(run->test_data);
    for (int64_t k = 0; same && k < count; k++)
        same = strcmp(talc_dataset_class(run->train_data, k),
                      talc_dataset_class(run->test_data, k)) == 0;
    if (!same)
        talc_fail(TALC_BAD_ARGUMENT, "data: the classes to test on are not those to train on");
}

/* Fails where no file of this name can be written: none can be made beside it, as saving does, or
 * it is that of a folder. What is there stays as it is. */
static void try_writing(const char *path)
{
    char beside[PATH_CAPACITY + 8];
    struct stat about;
    snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    int file = mkstemp(beside);
    if (file < 0)
        talc_fail(TALC_IO_ERROR, "%s: %s", TALC_SHOWN(path), strerror(errno));
    else if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        talc_fail(TALC_IO_ERROR, "%s is not a regular file", TALC_SHOWN(path));
    if (file >= 0) {
        close(file);
        remove(beside);
    }
}

/* What this run holds: locked files beside those that it writes, which go with it. */
static char locks[2][PATH_CAPACITY + 8];
static int lock_count;

/* Fails where another run writes this file. */
static void claim(const char *path)
{
    char *lock = locks[lock_count];
    struct stat held, there;
    snprintf(lock, sizeof *locks, "%s.lock", path);
    while (!talc_failed()) {
        int file = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (file < 0)
            talc_fail(TALC_IO_ERROR, "%s: %s", TALC_SHOWN(lock), strerror(errno));
        else if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            talc_fail(TALC_IO_ERROR,
                      "%s: another run writes it; give this one its own --report or --checkpoint",
                      TALC_SHOWN(path));
        else if (fstat(file, &held) == 0 && stat(lock, &there) == 0 &&
                 held.st_ino == there.st_ino) {
            lock_count++; /* the file stays open, and locked, until the process ends */
            return;
        }
        if (file >= 0)
            close(file); /* or a run that ended has just removed it */
    }
}

/* Where this member's test images begin, those of the next one for 1. */
static int64_t test_place(const training *run, int next)
{
    return talc_dataset_count(run->test_data) * (talc_group_rank(run->group) + next) /
           talc_group_size(run->group);
}

int training_begin(training *run, int argc, char **argv)
{
    int code = read_options(run, argc, argv);
    if (code >= 0)
        return code;
    struct sigaction action = { .sa_handler = on_interrupt,
                                .sa_flags = SA_RESTART | (int)SA_RESETHAND };
    sigaction(SIGINT, &action, NULL);
    run->device =
        run->device_name == NULL ? talc_device_default() : talc_device_get(run->device_name);
    run->group = talc_group_new(run->device, NULL);
    run->leads = talc_group_rank(run->group) == 0;
    char curves[PATH_CAPACITY];
    static char checkpoint[PATH_CAPACITY];
    if (run->checkpoint == NULL)
        run->checkpoint = path_in(run->report, "checkpoint.safetensors", checkpoint);
    if (run->leads) {
        mkdir(run->report, 0777);
        try_writing(path_in(run->report, "curves.svg", curves));
        try_writing(run->checkpoint);
        claim(curves);
        claim(run->checkpoint);
    }
    talc_manual_seed((uint64_t)run->seed);
    open_data(run);
    talc_loader_options options = { .device = run->device,
                                    .batch = run->batch,
                                    .shuffle = true,
                                    .seed = (uint64_t)run->seed,
                                    .shift = run->shift,
                                    .group = run->group };
    talc_dataset_statistics(run->train_data, options.mean, options.deviation);
    run->info = talc_dataset_info(run->train_data, &options);
    run->info.network = run->network;
    run->train = talc_loader_new(run->train_data, &options);
    options.shuffle = false;
    options.shift = 0;
    options.batch = 250;
    options.group = NULL; /* each member tests on a part, which may be smaller */
    talc_dataset *own = talc_dataset_part(run->test_data, test_place(run, 0), test_place(run, 1));
    run->test = talc_loader_new(own, &options);
    talc_dataset_free(own);
    run->answers = talc_data(
        talc_zeros(talc_device_host(), TALC_I64, TALC_DIMS(talc_dataset_count(run->test_data))),
        TALC_I64);
    run->started = seconds();
    return -1;
}

// ---- The run ------------------------------------------------------------------------------------

double *training_row(const training *run, int64_t epoch)
{
    return (double *)talc_data(run->history, TALC_F64) + epoch * TRAINING_COLUMNS;
}

/* Options that a run has to have in common with the one that it goes on from. */
static const char *const setup_names[] = { "batch",      "seed",   "shift", "train-count",
                                           "test-count", "epochs", "lr" };

enum { SETUP = sizeof setup_names / sizeof *setup_names, RATE = SETUP - 1 };

/* Fails when the run of the checkpoint had other options; without --lr its rate is the
 * checkpoint's. A checkpoint that does not say is left to talc_checkpoint_load. */
static void compare_setup(const training *run, const double setup[SETUP])
{
    double saved[SETUP];
    talc_scope *scope = talc_scope_enter();
    talc_safetensors *file = talc_safetensors_open(run->checkpoint);
    int64_t index = talc_safetensors_find(file, "optimizer.setup");
    if (index >= 0)
        talc_to_host(talc_safetensors_read(file, index, talc_device_host()), saved, sizeof saved);
    for (int i = 0; i < SETUP && index >= 0 && !talc_failed(); i++)
        if (saved[i] != setup[i] && (i != RATE || run->lr > 0))
            talc_fail(TALC_BAD_ARGUMENT, "resume: --%s is %.10g, the checkpoint's run has %.10g",
                      setup_names[i], setup[i], saved[i]);
    talc_safetensors_close(file);
    talc_scope_leave(scope);
}

/* What a recorded step works on. */
static void prepare_step(training *run)
{
    talc_dims image = talc_dataset_dims(run->train_data);
    talc_dims dims = TALC_DIMS(run->batch, image.dim[0], image.dim[1], image.dim[2]);
    run->images = talc_zeros(run->device, TALC_F32, dims);
    run->labels = talc_zeros(run->device, TALC_I64, TALC_DIMS(run->batch));
    run->tally = talc_zeros(run->device, TALC_F64, TALC_DIMS(2));
    run->tallied = -1;
    run->step = talc_step_new(run->device, run->function, run);
}

bool training_prepare(training *run, talc_step_function *function)
{
    talc_device *host = talc_device_host();
    talc_dims rows = TALC_DIMS(run->epochs, TRAINING_COLUMNS);
    const double setup[SETUP] = { (double)(run->batch * talc_group_size(run->group)),
                                  (double)run->seed,
                                  (double)run->shift,
                                  (double)talc_dataset_count(run->train_data),
                                  (double)talc_dataset_count(run->test_data),
                                  (double)run->epochs,
                                  talc_optimizer_rate(run->optimizer, 0) };
    run->function = function;
    talc_module_to(run->net, run->device);
    if (!talc_device_is_host(run->device) && !talc_failed())
        prepare_step(run);
    talc_module_describe(run->net, &run->info);
    /* Where a checkpoint has what is no model's, so that its weights load into another such
     * network; an Identity changes nothing where the network is a Sequential. */
    talc_module *beside = talc_module_add(run->net, "optimizer", talc_nn_identity());
    talc_module_buffer(beside, "setup", talc_from_host(host, TALC_F64, TALC_DIMS(SETUP), setup));
    run->history = talc_module_buffer(beside, "history", talc_zeros(host, TALC_F64, rows));
    if (run->resume && !talc_failed()) {
        compare_setup(run, setup);
        talc_checkpoint_load(run->checkpoint, run->net, run->optimizer, &run->at);
    }
    run->parallel = talc_parallel_new(run->net, run->group, NULL);
    return run->parallel != NULL;
}

/* The most likely classes, in host memory; they belong to the open scope. */
static const int64_t *most_likely(const talc_tensor *logits)
{
    talc_tensor *classes = talc_argmax(logits, TALC_DIMS(1), false);
    return talc_data_read(talc_to(classes, talc_device_host(), TALC_I64), TALC_I64);
}

static void show(training *run, const double *row)
{
    double now = seconds(), rate = run->images_trained / (now - run->started);
    double all = (double)(run->epochs * talc_dataset_count(run->train_data));
    double done = (double)(run->at.epoch * talc_dataset_count(run->train_data)) + row[IMAGES];
    if (!run->leads || !isatty(STDERR_FILENO) || now - run->drawn < 0.1)
        return;
    run->drawn = now;
    char text[128];
    int used = snprintf(text, sizeof text,
                        "epoch %d  loss %.4f  accuracy %.2f %%  %.0f images/s  %.0f s left",
                        (int)run->at.epoch + 1, row[LOSS] / row[IMAGES],
                        100 * row[RIGHT] / row[IMAGES], rate, (all - done) / rate);
    int capacity = talc_line_width(stderr) - 4 - used, bar = capacity > 30  ? 30
                                                             : capacity < 5 ? 5
                                                                            : capacity;
    fprintf(stderr, "\r[%-*.*s] %s\033[K", bar, (int)(bar * done / all),
            "##############################", text);
}

/* A loss that is not finite, of the step that is under way or of one before. */
static bool check_loss(training *run, double loss)
{
    char where[TALC_NONFINITE_TEXT];
    if (talc_failed() || isfinite(loss))
        return !talc_failed();
    bool found = talc_module_nonfinite(run->net, run->images, where);
    talc_fail(TALC_BAD_ARGUMENT, "step %lld: the loss is %g; the first that is not finite is %s",
              (long long)(run->at.epoch * talc_loader_batches(run->train) + run->at.batch + 1),
              fabs(loss), found ? where : "the loss itself");
    return false;
}

/* Adds to the sums on a GPU. */
static bool add_tally(training *run, const talc_tensor *logits, const talc_tensor *loss)
{
    talc_no_grad_enter();
    talc_tensor *right = talc_equal(talc_argmax(logits, TALC_DIMS(1), false), run->labels);
    right = talc_sum(talc_to(right, run->device, TALC_F64), TALC_SCALAR, false);
    talc_tensor *sum = talc_mul_scalar(talc_to(loss, run->device, TALC_F64),
                                       (double)talc_dims_of(run->labels).dim[0]);
    const talc_tensor *both[] = { talc_reshape(sum, TALC_DIMS(1)),
                                  talc_reshape(right, TALC_DIMS(1)) };
    talc_copy(run->tally, talc_add(run->tally, talc_concat(both, 2, 0)));
    talc_no_grad_leave();
    return !talc_failed();
}

static bool read_tally(training *run)
{
    double *row = training_row(run, run->at.epoch), sums[2];
    if (!talc_to_host(run->tally, sums, sizeof sums))
        return false;
    row[LOSS] = sums[0], row[RIGHT] = sums[1];
    return check_loss(run, sums[0]);
}

bool training_count(training *run, const talc_tensor *logits, const talc_tensor *loss)
{
    if (run->tally != NULL)
        return add_tally(run, logits, loss);
    double value = talc_item(loss);
    const int64_t *classes = most_likely(logits);
    if (!check_loss(run, value))
        return false;
    double *row = training_row(run, run->at.epoch);
    int64_t count = talc_dims_of(run->labels).dim[0];
    const int64_t *labels =
        talc_data_read(talc_to(run->labels, talc_device_host(), TALC_I64), TALC_I64);
    for (int64_t i = 0; i < count && labels != NULL; i++)
        row[RIGHT] += classes[i] == labels[i];
    row[LOSS] += value * (double)count;
    return !talc_failed();
}

bool training_step(training *run, const talc_batch *batch)
{
    double *row = training_row(run, run->at.epoch);
    if (run->tally != NULL && run->tallied != run->at.epoch) {
        double sums[2] = { row[LOSS], row[RIGHT] };
        talc_copy(run->tally, talc_from_host(run->device, TALC_F64, TALC_DIMS(2), sums));
        run->tallied = run->at.epoch;
    }
    talc_tensor *images = run->images, *labels = run->labels;
    /* Alike in all members, also where the last batch leaves some of them a whole one. */
    const int64_t seen = (batch->index + 1) * run->batch * talc_group_size(run->group);
    bool whole = run->step != NULL && seen <= talc_dataset_count(run->train_data);
    if (!whole)
        run->images = batch->images, run->labels = batch->labels;
    const talc_tensor *loss = NULL;
    if (!whole)
        loss = run->function(run);
    else if (talc_copy(images, batch->images) && talc_copy(labels, batch->labels))
        loss = talc_step_run(run->step);
    run->images = images, run->labels = labels;
    row[IMAGES] += (double)batch->count;
    run->images_trained += (double)batch->count;
    return loss != NULL;
}

bool training_next(training *run)
{
    bool last = run->at.batch + 1 == talc_loader_batches(run->train);
    if (run->tally != NULL && (last || interrupted || seconds() - run->drawn >= 0.1) &&
        !read_tally(run))
        return false;
    show(run, training_row(run, run->at.epoch));
    run->at.batch++;
    return !interrupted;
}

/* Adds up what the members have in this array. */
static bool gather(const training *run, void *numbers, talc_dtype dtype, int64_t count)
{
    if (talc_group_size(run->group) == 1)
        return true;
    talc_scope *scope = talc_scope_enter();
    talc_tensor *sum = talc_from_host(talc_device_host(), dtype, TALC_DIMS(count), numbers);
    sum = talc_to(sum, run->device, dtype);
    talc_group_all_reduce(run->group, sum, TALC_GROUP_SUM);
    talc_to_host(sum, numbers, (size_t)count * talc_dtype_size(dtype));
    talc_scope_leave(scope);
    return !talc_failed();
}

/* Of all members, at the end of an epoch; counts of the epoch become those of all too. */
static bool evaluate(training *run, double *row)
{
    talc_batch batch;
    if (talc_failed())
        return false;
    const int64_t tests = talc_dataset_count(run->test_data);
    memset(run->answers, 0, (size_t)tests * sizeof *run->answers);
    talc_parallel_share_buffers(run->parallel);
    talc_module_eval(run->net);
    talc_no_grad_enter();
    talc_loader_start(run->test, 0);
    for (int64_t first = test_place(run, 0); talc_loader_next(run->test, &batch);
         first += batch.count) {
        talc_scope *scope = talc_scope_enter();
        talc_tensor *logits = talc_forward(run->net, batch.images);
        double loss = talc_item(talc_cross_entropy(logits, batch.labels));
        const int64_t *classes = most_likely(logits);
        for (int64_t i = 0; i < batch.count && !talc_failed(); i++) {
            run->answers[first + i] = classes[i];
            row[TEST_RIGHT] += classes[i] == talc_dataset_label(run->test_data, first + i);
        }
        row[TEST_LOSS] += loss * (double)batch.count;
        row[TEST_IMAGES] += (double)batch.count;
        talc_scope_leave(scope);
    }
    talc_no_grad_leave();
    return talc_module_train(run->net) && gather(run, run->answers, TALC_I64, tests) &&
           gather(run, row, TALC_F64, TRAINING_COLUMNS);
}

/* Whether no epoch before this one was as good on the test images. */
static bool is_best(const training *run, int64_t epoch)
{
    bool best = true;
    for (int64_t i = 0; i < epoch; i++)
        best = best && training_row(run, i)[TEST_RIGHT] < training_row(run, epoch)[TEST_RIGHT];
    return best;
}

bool training_save(training *run)
{
    char best[PATH_CAPACITY];
    if (talc_failed())
        return false;
    if (run->at.batch == talc_loader_batches(run->train)) {
        double *row = training_row(run, run->at.epoch);
        talc_progress next = { run->at.epoch + 1, 0 };
        if (!evaluate(run, row))
            return false;
        if (run->leads && is_best(run, run->at.epoch) &&
            !talc_checkpoint_save(path_in(run->report, "best.safetensors", best), run->net,
                                  run->optimizer, &next))
            return false;
        if (run->leads && isatty(STDERR_FILENO))
            fprintf(stderr, "\r\033[K"); /* the progress, which stands there */
        if (run->leads)
            printf("epoch %2d/%d  loss %.4f  test %.4f  accuracy %6.2f %%  test %6.2f %%  %.0f s\n",
                   (int)run->at.epoch + 1, (int)run->epochs, row[LOSS] / row[IMAGES],
                   row[TEST_LOSS] / row[TEST_IMAGES], 100 * row[RIGHT] / row[IMAGES],
                   100 * row[TEST_RIGHT] / row[TEST_IMAGES], seconds() - run->started);
        fflush(stdout);
        run->at = next;
    }
    return (!run->leads ||
            talc_checkpoint_save(run->checkpoint, run->net, run->optimizer, &run->at)) &&
           !interrupted;
}

int training_end(training *run)
{
    const bool stopped = interrupted; /* later ones wait for the report */
    if (!talc_failed() && stopped)
        fprintf(stderr, "\n%s: interrupted and saved; --resume goes on\n", run->name);
    else if (evaluate(run, (double[TRAINING_COLUMNS]){ 0 }) && run->leads)
        training_report(run);
    bool failed = talc_failed();
    if (failed)
        fprintf(stderr, "%s%s: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", run->name,
                talc_error_message());
    while (lock_count > 0)
        remove(locks[--lock_count]);
    talc_step_free(run->step);
    talc_parallel_free(run->parallel);
    talc_optimizer_free(run->optimizer);
    talc_module_free(run->net);
    talc_loader_free(run->train);
    talc_loader_free(run->test);
    talc_dataset_free(run->train_data);
    talc_dataset_free(run->test_data);
    talc_group_free(run->group);
    return failed ? FAILED : stopped ? INTERRUPTED : 0;
}
