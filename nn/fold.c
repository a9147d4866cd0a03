#include "nn/fold.h"

#include "nn/entries.h"
#include "nn/source.h"
#include "ops/algorithm.h"
#include "tensor/fenv.h"
#include "tensor/cached.h"
#include "tensor/memory.h"
#include "tensor/recording.h"
#include "tensor/storage.h"
#include "tensor/streams.h"
#include "tensor/within.h"

#include <string.h>

enum { SOURCES = 6 };

struct talc_folded_norm {
    talc_folded_norm *next; /* of the same convolution, for another norm */
    talc_source sources[SOURCES];
    double eps;
    char algorithm[TALC_ALGORITHM_TEXT]; /* forced on batch_norm2d when it was made; "": none */
    talc_tensor *weight, *bias;
    talc_made on;
};

/* A list of them. */
static void folds_free(talc_folded_norm *fold)
{
    while (fold != NULL) {
        talc_folded_norm *next = fold->next;
        for (int i = 0; i < SOURCES; i++)
            talc_source_release(&fold->sources[i]);
        talc_release(fold->weight);
        talc_release(fold->bias);
        talc_memory_free(fold);
        fold = next;
    }
}

/* Whether `newer` replaces it, or a norm that it was made from is gone. */
static bool is_over(const talc_folded_norm *fold, const talc_folded_norm *newer)
{
    bool replaced = true, left = false;
    for (int i = 0; i < SOURCES; i++) {
        replaced = replaced && talc_source_in_place(&fold->sources[i], newer->sources[i].held);
        left = left || talc_source_is_left(&fold->sources[i]);
    }
    return replaced || left;
}

static void keep(talc_module *module, talc_folded_norm *fold)
{
    talc_folded_norm *over = NULL;
    talc_cached_lock();
    for (talc_folded_norm **at = &module->entries->folds; *at != NULL;) {
        talc_folded_norm *old = *at;
        if (is_over(old, fold)) {
            *at = old->next;
            old->next = over;
            over = old;
        } else {
            at = &old->next;
        }
    }
    fold->next = module->entries->folds;
    module->entries->folds = fold;
    talc_cached_unlock();
    folds_free(over);
}

void talc_module_forget_folds(talc_module *module)
{
    talc_cached_lock();
    talc_folded_norm *folds = module->entries->folds;
    module->entries->folds = NULL;
    talc_cached_unlock();
    folds_free(folds);
    for (int i = 0; i < module->entries->count; i++)
        if (module->entries->list[i].child != NULL)
            talc_module_forget_folds(module->entries->list[i].child);
}

// ---- Whether it still stands --------------------------------------------------------------------

static void list_sources(const talc_conv2d_module *conv, const talc_batch_norm2d_module *norm,
                         const talc_tensor *list[SOURCES])
{
    list[0] = conv->weight;
    list[1] = conv->bias;
    list[2] = norm->weight;
    list[3] = norm->bias;
    list[4] = norm->running_mean;
    list[5] = norm->running_var;
}

static const char *forced_algorithm(void)
{
    const char *forced = talc_algorithm_forced("batch_norm2d");
    return forced == NULL ? "" : forced;
}

static bool fold_stands(const talc_folded_norm *fold, const talc_conv2d_module *conv,
                        const talc_batch_norm2d_module *norm)
{
    TALC_DEFAULT_FENV;
    const talc_tensor *list[SOURCES];
    list_sources(conv, norm, list);
    bool stands =
        fold->eps == norm->options.eps && strcmp(fold->algorithm, forced_algorithm()) == 0;
    for (int i = 0; i < SOURCES && stands; i++)
        stands = talc_source_stands(&fold->sources[i], list[i]);
    return stands;
}

bool talc_fold_possible(const talc_conv2d_module *conv, const talc_batch_norm2d_module *norm)
{
    const talc_tensor *list[SOURCES];
    list_sources(conv, norm, list);
    if (conv->base.training || norm->base.training || norm->running_mean == NULL ||
        norm->running_var == NULL)
        return false;
    for (int i = 1; i < SOURCES; i++) {
        const talc_tensor *tensor = list[i];
        if (tensor != NULL &&
            (tensor->dtype != conv->weight->dtype || tensor->device != conv->weight->device ||
             tensor->rank != 1 || tensor->dims[0] != conv->weight->dims[0]))
            return false;
    }
    return true;
}

// ---- Making it ----------------------------------------------------------------------------------

/* w s is the batch norm of w for mean 0 and without a shift, b' that of b, or of 0: so both are the
 * op's own arithmetic, and need no operand that is not there already. */
static bool make_operands(const talc_conv2d_module *conv, const talc_batch_norm2d_module *norm,
                          talc_folded_norm *fold)
{
    const talc_tensor *w = conv->weight;
    const int64_t OC = w->dims[0], K = w->dims[1] * w->dims[2] * w->dims[3];
    talc_batch_norm2d_options options = norm->options;
    options.training = false;
    options.activation = TALC_ACTIVATION_NONE;
    talc_tensor *zeros = talc_zeros(w->device, w->dtype, TALC_DIMS(OC));
    const talc_tensor *b = conv->bias == NULL ? zeros : conv->bias;
    talc_tensor *weight = talc_batch_norm2d(talc_reshape(w, TALC_DIMS(1, OC, 1, K)), norm->weight,
                                            NULL, zeros, norm->running_var, &options);
    talc_tensor *bias =
        talc_batch_norm2d(talc_reshape(b, TALC_DIMS(1, OC, 1, 1)), norm->weight, norm->bias,
                          norm->running_mean, norm->running_var, &options);
    fold->weight = talc_retain(talc_reshape(weight, talc_dims_of(w)));
    fold->bias = talc_retain(talc_reshape(bias, TALC_DIMS(OC)));
    return !talc_failed();
}

static bool hold_sources(const talc_conv2d_module *conv, const talc_batch_norm2d_module *norm,
                         talc_folded_norm *fold)
{
    const talc_tensor *list[SOURCES];
    list_sources(conv, norm, list);
    bool held = true;
    for (int i = 0; i < SOURCES && held; i++)
        held = talc_source_hold(&fold->sources[i], list[i]);
    return held;
}

static talc_folded_norm *fold_new(const talc_conv2d_module *conv,
                                  const talc_batch_norm2d_module *norm)
{
    const char *around = talc_within("forward");
    talc_scope *scope = talc_scope_enter();
    talc_folded_norm *fold = scope == NULL ? NULL : talc_memory_new(sizeof *fold, "forward: fold");
    bool made = false;
    if (fold != NULL) {
        fold->eps = norm->options.eps;
        memcpy(fold->algorithm, forced_algorithm(), strlen(forced_algorithm()) + 1);
        fold->on = talc_made_here(conv->weight->device);
        made = hold_sources(conv, norm, fold) && make_operands(conv, norm, fold);
    }
    talc_scope_leave(scope);
    talc_within(around);
    if (made)
        return fold;
    folds_free(fold);
    return NULL;
}

// ---- Handing it out -----------------------------------------------------------------------------

/* The operands of a fold that stands. */
static bool take(const talc_conv2d_module *conv, const talc_batch_norm2d_module *norm,
                 talc_tensor **weight, talc_tensor **bias)
{
    talc_cached_lock();
    talc_folded_norm *fold = conv->base.entries->folds;
    while (fold != NULL && !fold_stands(fold, conv, norm))
        fold = fold->next;
    const bool usable = fold != NULL && talc_made_wait(&fold->on, fold->weight->device);
    if (usable) {
        *weight = talc_retain(fold->weight);
        *bias = talc_retain(fold->bias);
    }
    talc_cached_unlock();
    return usable;
}

bool talc_fold_get(talc_conv2d_module *conv, const talc_batch_norm2d_module *norm,
                   talc_tensor **weight, talc_tensor **bias)
{
    if (take(conv, norm, weight, bias))
        return true;
    /* Threads that come here at once each make one: all are the same to the bit, and the last one
     * stays. */
    talc_folded_norm *fold = fold_new(conv, norm);
    if (fold == NULL)
        return false;
    *weight = talc_retain(fold->weight);
    *bias = talc_retain(fold->bias);
    /* What is made in a recording's memory is the recording's: it has elements only once that is
     * replayed. */
    if (talc_recording_serving(conv->weight->device) == NULL)
        keep(&conv->base, fold);
    else
        folds_free(fold);
    return true;
}
