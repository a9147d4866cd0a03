/// A confusion matrix: how often samples of one class were taken for another. For the evaluation of
/// a classifier:
///
///     talc_module_eval(net);                         // running statistics, no dropout
///     talc_no_grad_enter();                          // nothing is recorded
///     while (talc_loader_next(loader, &batch)) {
///         talc_scope *scope = talc_scope_enter();
///         talc_confusion_add(matrix, talc_forward(net, batch.images), batch.labels);
///         talc_scope_leave(scope);
///     }
///     talc_no_grad_leave();
///     talc_module_train(net);
///     printf("%.2f %% right\n", 100 * talc_confusion_accuracy(matrix));
#ifndef TALC_NN_CONFUSION_H
#define TALC_NN_CONFUSION_H

#include "../tensor/tensor.h"

#include <stdio.h>

TALC_BEGIN_DECLARATIONS

/// Fields are for reading.
typedef struct talc_confusion {
    int64_t classes;
    int64_t count;   ///< of samples so far
    int64_t right;   ///< of which the answer is the label
    int64_t *counts; ///< [classes,classes]: counts[label * classes + answer]
} talc_confusion;

/// An empty matrix, 1 to 4096 classes. It belongs to the program. Errors: another number, no
/// memory.
TALC_API talc_confusion *talc_confusion_new(int64_t classes);
TALC_API void talc_confusion_free(talc_confusion *matrix); ///< NULL passes

/// Empties it. Errors: NULL.
TALC_API bool talc_confusion_clear(talc_confusion *matrix);

/// Counts a batch: of each sample the class of the largest logit, the first of equal ones, and its
/// label. Logits are [N,classes,...], f32 or f64, labels [N,...], i64, of any device. Waits for the
/// device. Errors, which count nothing: NULL, other shapes or types, a label that is no class, no
/// memory.
TALC_API bool talc_confusion_add(talc_confusion *matrix, const talc_tensor *logits,
                                 const talc_tensor *labels);

/// right / count; 0 where nothing was counted, and for NULL.
TALC_API double talc_confusion_accuracy(const talc_confusion *matrix);

/// Prints a row a label with the counts of each answer and the share that is right, by the classes'
/// names, NULL: numbers; of a matrix that is wider than a line (tensor/table.h) the ten most
/// frequent mistakes. Errors: NULL, what the system reports.
TALC_API bool talc_confusion_print(FILE *file, const talc_confusion *matrix,
                                   const char *const *names);

TALC_END_DECLARATIONS

#endif
