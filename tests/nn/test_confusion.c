/// Confusion matrices: counts by hand, on any device.
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/refused.h"

#include <stdio.h>
#include <string.h>

static const char *printed(const talc_confusion *matrix, const char *const *names)
{
    FILE *file = tmpfile();
    cr_assert(talc_confusion_print(file, matrix, names), "%s", talc_error_message());
    return file_written(file);
}

Test(confusion, answers_are_counted_under_their_labels)
{
    talc_device *device = tested_device();
    talc_confusion *matrix = talc_confusion_new(3);
    cr_assert(talc_confusion_accuracy(matrix) == 0 && talc_confusion_accuracy(NULL) == 0);
    /* Answers 2, 0, 1, 1: of equal logits the first. */
    const float logits[] = { 0, 1, 2, 5, -1, 4, 0, 3, 3, -9, -1, -3 };
    const int64_t labels[] = { 2, 1, 1, 1 };
    talc_tensor *x = talc_from_host(device, TALC_F32, TALC_DIMS(4, 3), logits);
    talc_tensor *y = talc_from_host(device, TALC_I64, TALC_DIMS(4), labels);
    cr_assert(talc_confusion_add(matrix, x, y), "%s", talc_error_message());
    cr_assert(matrix->count == 4 && matrix->right == 3);
    cr_assert(talc_confusion_accuracy(matrix) == 0.75);
    /* Every pixel of an image, in f64, through strides: answers [[0, 1], [1, 0]] for labels of
     * 0. */
    const double pixels[] = { 9, 0, 0, 9, 0, 9, 9, 0, 0, 0, 0, 0 };
    cr_assert(talc_confusion_add(
        matrix,
        talc_transpose(talc_from_host(device, TALC_F64, TALC_DIMS(1, 3, 2, 2), pixels), 2, 3),
        talc_zeros(device, TALC_I64, TALC_DIMS(1, 2, 2))));
    cr_assert(talc_confusion_add(matrix, talc_zeros(device, TALC_F32, TALC_DIMS(0, 3)),
                                 talc_zeros(device, TALC_I64, TALC_DIMS(0))));
    const int64_t expected[] = { 2, 2, 0, 1, 2, 0, 0, 0, 1 };
    cr_assert(memcmp(matrix->counts, expected, sizeof expected) == 0 && matrix->count == 8);
    cr_assert_str_eq(printed(matrix, (const char *const[]){ "cat", "d\xc3\xb6g", "\x1b[2J" }),
                     "label      0  1  2    right\n"
                     "0 cat      2  2  0   50.0 %\n"
                     "1 d\xc3\xb6g      1  2  0   66.7 %\n"
                     "2 \\x1b[2J  0  0  1  100.0 %\n"
                     "5 of 8 right, 62.50 %\n");
    cr_assert(talc_confusion_clear(matrix) && matrix->count == 0 && matrix->counts[0] == 0);
    cr_assert_str_eq(printed(matrix, NULL), "label  0  1  2  right\n"
                                            "0      0  0  0      -\n"
                                            "1      0  0  0      -\n"
                                            "2      0  0  0      -\n"
                                            "0 of 0 right, 0.00 %\n");
    talc_confusion_free(matrix);
    talc_confusion_free(NULL);
}

/* Sample i is of class i / 4 and taken for class i: 1, 2, 3 for 0, and so on. */
Test(confusion, a_wide_matrix_says_the_most_frequent_mistakes)
{
    enum { CLASSES = 100 };
    owned_confusion *matrix = talc_confusion_new(CLASSES);
    matrix->counts[7 * CLASSES + 99] = 12;
    matrix->counts[99 * CLASSES + 7] = 3;
    matrix->counts[0 * CLASSES + 1] = 12;
    matrix->counts[5 * CLASSES + 5] = 50;
    matrix->count = 77;
    matrix->right = 50;
    cr_assert_str_eq(printed(matrix, NULL), "12 of 0 taken for 1\n"
                                            "12 of 7 taken for 99\n"
                                            " 3 of 99 taken for 7\n"
                                            "50 of 77 right, 64.94 %\n");
}

/* A name that is its class's number is not said twice. */
Test(confusion, names_that_are_numbers_are_told_once)
{
    static const char *const names[] = { "0", "cat" };
    owned_confusion *matrix = talc_confusion_new(2);
    matrix->counts[1] = matrix->count = 2;
    cr_assert_str_eq(printed(matrix, names), "label  0  1  right\n"
                                             "0      0  2  0.0 %\n"
                                             "1 cat  0  0      -\n"
                                             "0 of 2 right, 0.00 %\n");
}

/* Names lose their middle to counts: of 80 columns these take 28, the spaces between them 17. */
Test(confusion, lines_fit)
{
    enum { CLASSES = 16 };
    const char *names[CLASSES];
    owned_confusion *matrix = talc_confusion_new(CLASSES);
    for (int k = 0; k < CLASSES; k++)
        names[k] = "a class with a name that is long, and longer than its cell";
    matrix->counts[3 * CLASSES + 4] = matrix->count = 99;
    cr_assert(strstr(printed(matrix, names),
                     "\n 3 a cla.. and longer than its cell 0 0 0 0 99 0") != NULL,
              "%s", printed(matrix, names));
    matrix->counts[3 * CLASSES + 4] = matrix->count = 999;
    cr_assert_str_eq(
        printed(matrix, names),
        "999 of 3 a class with a name that is long, and longer than its cell taken for 4\n"
        "    a class with a name that is long, and longer than its cell\n"
        "0 of 999 right, 0.00 %\n");
}

// clang-format off
Test(confusion, what_is_refused)
{
    talc_device *device = tested_device();
    talc_confusion *matrix = talc_confusion_new(3);
    talc_tensor *x = talc_zeros(device, TALC_F32, TALC_DIMS(2, 3)), *y = talc_zeros(device, TALC_I64, TALC_DIMS(2));
    talc_tensor *scalar = talc_zeros(device, TALC_F32, TALC_SCALAR), *three = talc_full(device, TALC_I64, TALC_DIMS(2), 3);
    talc_tensor *negative = talc_full(device, TALC_I64, TALC_DIMS(2), -1);
    refused_watch(x);
    refused_watch(y);
    REFUSED(TALC_BAD_ARGUMENT, "confusion_new: classes 0 must be from 1 to 4096", talc_confusion_new(0));
    REFUSED(TALC_BAD_ARGUMENT, "confusion_new: classes 4097 must be from 1 to 4096", talc_confusion_new(4097));
    REFUSED(TALC_NULL_ARGUMENT, "confusion_add: matrix is NULL", talc_confusion_add(NULL, x, y));
    REFUSED(TALC_NULL_ARGUMENT, "confusion_add: logits is NULL", talc_confusion_add(matrix, NULL, y));
    REFUSED(TALC_NULL_ARGUMENT, "confusion_add: labels is NULL", talc_confusion_add(matrix, x, NULL));
    REFUSED(TALC_BAD_DTYPE, "confusion_add: logits are i64, they must be f32 or f64", talc_confusion_add(matrix, y, y));
    REFUSED(TALC_BAD_DTYPE, "confusion_add: labels are f32, they must be i64", talc_confusion_add(matrix, x, x));
    REFUSED(TALC_BAD_SHAPE, "confusion_add: logits [3,2] must be [N,3,...], one a class", talc_confusion_add(matrix, talc_transpose(x, 0, 1), y));
    REFUSED(TALC_BAD_SHAPE, "confusion_add: logits [] must be [N,3,...], one a class", talc_confusion_add(matrix, scalar, y));
    REFUSED(TALC_BAD_SHAPE, "confusion_add: labels [1] must be [2], one for each of logits", talc_confusion_add(matrix, x, talc_slice(y, 0, 0, 1, 1)));
    REFUSED(TALC_BAD_ARGUMENT, "confusion_add: label 3 is outside 0..2", talc_confusion_add(matrix, x, three));
    REFUSED(TALC_BAD_ARGUMENT, "confusion_add: label -1 is outside 0..2", talc_confusion_add(matrix, x, negative));
    REFUSED(TALC_NULL_ARGUMENT, "confusion_clear: matrix is NULL", talc_confusion_clear(NULL));
    REFUSED(TALC_NULL_ARGUMENT, "confusion_print: file is NULL", talc_confusion_print(NULL, matrix, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "confusion_print: matrix is NULL", talc_confusion_print(stderr, NULL, NULL));
    cr_assert(matrix->count == 0);
    talc_confusion_free(matrix);
    refused_end(15);
}
// clang-format on
