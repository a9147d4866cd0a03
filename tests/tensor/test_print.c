#include "tests/support/hooks.h"
#include "tests/support/observed_ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What talc_print_with writes; the caller frees it. */
static char *printed_with(const talc_tensor *tensor, const talc_print_options *options,
                          bool expected)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    cr_assert(talc_print_with(file, tensor, options) == expected);
    fclose(file);
    return text;
}

/* What talc_print writes; the caller frees it. */
static char *printed(const talc_tensor *tensor, bool expected)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    cr_assert(talc_print(file, tensor) == expected);
    fclose(file);
    return text;
}

static void assert_printed(const talc_tensor *tensor, const char *expected)
{
    assert_no_failure();
    owned_char *text = printed(tensor, true);
    cr_assert(strcmp(text, expected) == 0, "\nprinted:\n%s\ndue:\n%s", text, expected);
}

static talc_tensor *reals(talc_dims dims, const double *elements, talc_dtype dtype)
{
    return talc_cast(talc_from_host(cpu_device(), TALC_F64, dims, elements), dtype);
}

Test(print, numbers_share_one_form)
{
    const double mixed[] = { 0, 1.5, -2.25, 3, NAN, 5 };
    assert_printed(reals(TALC_DIMS(2, 3), mixed, TALC_F32), "tensor f32 [2,3] on cpu\n"
                                                            "[[ 0.0000,  1.5000, -2.2500],\n"
                                                            " [ 3.0000,     nan,  5.0000]]\n");
    const double whole[] = { -1, 20, INFINITY, -INFINITY };
    assert_printed(reals(TALC_DIMS(4), whole, TALC_F64),
                   "tensor f64 [4] on cpu\n[ -1.,  20.,  inf, -inf]\n");
    const double small[] = { 0.00012345678, -0.0005 };
    assert_printed(reals(TALC_DIMS(2), small, TALC_F64),
                   "tensor f64 [2] on cpu\n[ 1.2346e-04, -5.0000e-04]\n");
    const double wide[] = { 99999.4, 0.00001 }, wider[] = { 123456.7, 1 };
    assert_printed(reals(TALC_DIMS(2), wide, TALC_F64),
                   "tensor f64 [2] on cpu\n[99999.4000,     0.0000]\n");
    assert_printed(reals(TALC_DIMS(2), wider, TALC_F64),
                   "tensor f64 [2] on cpu\n[1.2346e+05, 1.0000e+00]\n");
    assert_printed(reals(TALC_DIMS(2), (double[]){ 1e8, 1 }, TALC_F64),
                   "tensor f64 [2] on cpu\n[1.0000e+08, 1.0000e+00]\n");
    assert_printed(reals(TALC_DIMS(2), (double[]){ NAN, NAN }, TALC_F32),
                   "tensor f32 [2] on cpu\n[nan, nan]\n");
    assert_printed(reals(TALC_DIMS(3), (double[]){ 0, 7, 255 }, TALC_U8),
                   "tensor u8 [3] on cpu\n[  0,   7, 255]\n");
    const int64_t large[] = { INT64_MIN, INT64_MAX };
    assert_printed(talc_from_host(cpu_device(), TALC_I64, TALC_DIMS(2, 1), large),
                   "tensor i64 [2,1] on cpu\n"
                   "[[-9223372036854775808],\n"
                   " [ 9223372036854775807]]\n");
}

Test(print, ranks_and_empty_tensors)
{
    assert_printed(NULL, "NULL\n");
    assert_printed(talc_full(cpu_device(), TALC_F32, TALC_SCALAR, 2.5),
                   "tensor f32 [] on cpu\n2.5000\n");
    assert_printed(talc_full(cpu_device(), TALC_I32, TALC_SCALAR, -2),
                   "tensor i32 [] on cpu\n-2\n");
    assert_printed(talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(0)), "tensor f32 [0] on cpu\n[]\n");
    assert_printed(talc_zeros(cpu_device(), TALC_U8, TALC_DIMS(3, 0, 2)),
                   "tensor u8 [3,0,2] on cpu\n[]\n");
    talc_tensor *x =
        talc_view(talc_arange(cpu_device(), TALC_I32, 0, 16, 1), TALC_DIMS(2, 2, 2, 2));
    assert_printed(talc_transpose(x, 2, 3), "tensor i32 [2,2,2,2] on cpu\n"
                                            "[[[[ 0,  2],\n"
                                            "   [ 1,  3]],\n"
                                            "\n"
                                            "  [[ 4,  6],\n"
                                            "   [ 5,  7]]],\n"
                                            "\n"
                                            "\n"
                                            " [[[ 8, 10],\n"
                                            "   [ 9, 11]],\n"
                                            "\n"
                                            "  [[12, 14],\n"
                                            "   [13, 15]]]]\n");
}

Test(print, long_rows_wrap_and_large_tensors_are_shortened)
{
    assert_printed(
        talc_arange(cpu_device(), TALC_F32, 0, 20, 1),
        "tensor f32 [20] on cpu\n"
        "[ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13., 14., 15.,\n"
        " 16., 17., 18., 19.]\n");
    /* 26 numbers fill 78 columns; the 27th would end at column 81. */
    assert_printed(
        talc_ones(cpu_device(), TALC_I32, TALC_DIMS(27)),
        "tensor i32 [27] on cpu\n"
        "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,\n"
        " 1]\n");
    assert_printed(talc_arange(cpu_device(), TALC_I32, 0, 1001, 1),
                   "tensor i32 [1001] on cpu\n[   0,    1,    2, ...,  998,  999, 1000]\n");
    talc_tensor *x =
        talc_view(talc_arange(cpu_device(), TALC_I32, 0, 1100, 1), TALC_DIMS(2, 50, 11));
    assert_printed(x, "tensor i32 [2,50,11] on cpu\n"
                      "[[[   0,    1,    2, ...,    8,    9,   10],\n"
                      "  [  11,   12,   13, ...,   19,   20,   21],\n"
                      "  [  22,   23,   24, ...,   30,   31,   32],\n"
                      "  ...,\n"
                      "  [ 517,  518,  519, ...,  525,  526,  527],\n"
                      "  [ 528,  529,  530, ...,  536,  537,  538],\n"
                      "  [ 539,  540,  541, ...,  547,  548,  549]],\n"
                      "\n"
                      " [[ 550,  551,  552, ...,  558,  559,  560],\n"
                      "  [ 561,  562,  563, ...,  569,  570,  571],\n"
                      "  [ 572,  573,  574, ...,  580,  581,  582],\n"
                      "  ...,\n"
                      "  [1067, 1068, 1069, ..., 1075, 1076, 1077],\n"
                      "  [1078, 1079, 1080, ..., 1086, 1087, 1088],\n"
                      "  [1089, 1090, 1091, ..., 1097, 1098, 1099]]]\n");
    talc_tensor *expanded = talc_expand(talc_ones(cpu_device(), TALC_U8, TALC_SCALAR),
                                        TALC_DIMS(INT64_C(1) << 40, 1, 1));
    assert_printed(expanded,
                   "tensor u8 [1099511627776,1,1] on cpu\n"
                   "[[[1]],\n\n [[1]],\n\n [[1]],\n\n ...,\n\n [[1]],\n\n [[1]],\n\n [[1]]]\n");
}

Test(print, a_standing_failure_is_shown_in_place_of_the_elements)
{
    talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2));
    talc_fail(TALC_BAD_SHAPE, "something broke");
    owned_char *text = printed(x, false);
    cr_assert(strcmp(text, "tensor f32 [2] on cpu\n(not read: something broke)\n") == 0, "%s",
              text);
    free(text);
    text = printed(NULL, true);
    cr_assert(strcmp(text, "NULL\n") == 0);
    assert_failure(TALC_BAD_SHAPE, "something broke");
    cr_assert(!talc_print(NULL, x));
    assert_failure(TALC_NULL_ARGUMENT, "print: file is NULL");
    FILE *full = fopen("/dev/full", "w");
    if (full != NULL) {
        setvbuf(full, NULL, _IONBF, 0);
        cr_assert(!talc_print(full, x) && ferror(full) && !talc_failed());
        fclose(full);
    }
}

Test(print, an_observer_is_told_of_no_copies)
{
    talc_tensor *x = talc_arange(cpu_device(), TALC_F32, 0, 2000, 1);
    counted.ops[0] = '\0';
    talc_observe(&counted.base);
    free(printed(talc_view(x, TALC_DIMS(40, 50)), true));
    talc_relu(x);
    talc_observe(NULL);
    cr_assert_str_eq(counted.ops, "relu ");
}

Test(print, width_precision_and_threshold)
{
    const talc_tensor *x = reals(TALC_DIMS(2, 3), (double[]){ 0.125, 1, -2.5, 3, 4, 5 }, TALC_F64),
                      *y = talc_arange(cpu_device(), TALC_I32, 0, 8, 1);
    const struct {
        const talc_tensor *tensor;
        talc_print_options options;
        const char *expected;
    } cases[] = {
        { x,
          { .precision = 2 },
          "tensor f64 [2,3] on cpu\n[[ 0.12,  1.00, -2.50],\n [ 3.00,  4.00,  5.00]]\n" },
        { x,
          { .precision = TALC_ZERO },
          "tensor f64 [2,3] on cpu\n[[ 0,  1, -2],\n [ 3,  4,  5]]\n" },
        { x,
          { .precision = 1, .width = 20 },
          "tensor f64 [2,3] on cpu\n[[ 0.1,  1.0, -2.5],\n [ 3.0,  4.0,  5.0]]\n" },
        { y, { .width = 20 }, "tensor i32 [8] on cpu\n[0, 1, 2, 3, 4, 5,\n 6, 7]\n" },
        { y, { .threshold = 7 }, "tensor i32 [8] on cpu\n[0, 1, 2, ..., 5, 6, 7]\n" },
        { y, { .threshold = 8 }, "tensor i32 [8] on cpu\n[0, 1, 2, 3, 4, 5, 6, 7]\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        owned_char *text = printed_with(cases[i].tensor, &cases[i].options, true);
        cr_expect(strcmp(text, cases[i].expected) == 0, "%zu:\n%s", i, text);
    }
    owned_char *whole = printed_with(talc_arange(cpu_device(), TALC_I32, 0, 2000, 1),
                                     &(talc_print_options){ .threshold = INT64_MAX }, true);
    cr_assert(strstr(whole, "...") == NULL && strstr(whole, " 1000,") != NULL, "%s", whole);
}

Test(print, options_that_cannot_be)
{
    const struct {
        talc_print_options options;
        const char *expected;
    } cases[] = { { { .width = 19 }, "print: width 19 must be at least 20" },
                  { { .width = -1 }, "print: width -1 must be at least 20" },
                  { { .precision = 18 }, "print: precision 18 must be 0 to 17" },
                  { { .precision = -2 }, "print: precision -2 must be 0 to 17" },
                  { { .threshold = -1 }, "print: threshold -1 must not be negative" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        owned_char *text =
            printed_with(talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2)), &cases[i].options, false);
        assert_failure(TALC_BAD_ARGUMENT, cases[i].expected);
        cr_assert(*text == '\0');
    }
}

// ---- Tables -------------------------------------------------------------------------------------

/* Rows of cells, as many columns as the table has. */
static const char *cell_of(const void *context, int64_t row, int column, char text[TALC_CELL_TEXT])
{
    (void)text;
    return ((const char *const(*)[4])context)[row][column];
}

static void assert_table(int width, talc_table table, const char *expected)
{
    owned_char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    table.width = width;
    talc_table_print(file, &table);
    fclose(file);
    cr_expect(strcmp(text, expected) == 0, "%d columns:\n%s\ndue:\n%s", width, text, expected);
}

Test(print, a_table_fits_its_line)
{
    static const char *const rows[][4] = {
        { "first.block.conv", "Convolution", "1,234,567", "a few words that say what it is" },
        { "second", "Norm", "12", "" },
        { "\u00e4\u00f6\u00fc", "ReLU", "0", "one" },
    };
    static const talc_column columns[] = { { "layer", TALC_COLUMN_NAME },
                                           { "type", TALC_COLUMN_NAME },
                                           { "count", TALC_COLUMN_NUMBER },
                                           { "what", TALC_COLUMN_TEXT } };
    talc_table table = {
        .count = 4, .columns = columns, .rows = 3, .cell = cell_of, .context = rows
    };
    assert_table(0, table,
                 "layer             type             count  what\n"
                 "first.block.conv  Convolution  1,234,567  a few words that say what it is\n"
                 "second            Norm                12\n"
                 "\u00e4\u00f6\u00fc               ReLU                 0  one\n");
    /* The sentence takes two lines, then the columns move together, then names lose their middle.
     * */
    assert_table(70, table,
                 "layer             type             count  what\n"
                 "first.block.conv  Convolution  1,234,567  a few words that say what it\n"
                 "                                          is\n"
                 "second            Norm                12\n"
                 "\u00e4\u00f6\u00fc               ReLU                 0  one\n");
    assert_table(64, table,
                 "layer            type            count what\n"
                 "first.block.conv Convolution 1,234,567 a few words that say what\n"
                 "                                       it is\n"
                 "second           Norm               12\n"
                 "\u00e4\u00f6\u00fc              ReLU                0 one\n");
    assert_table(56, table,
                 "layer         type        count what\n"
                 "fi..lock.conv Co..ion 1,234,567 a few words that say\n"
                 "                                what it is\n"
                 "second        Norm           12\n"
                 "\u00e4\u00f6\u00fc           ReLU            0 one\n");
}

/* Numbers are never shortened: those that find no room stand below, with the first column. */
Test(print, a_table_of_numbers_goes_on_below)
{
    static const char *const rows[][4] = { { "a", "1234567890123456", "2234567890123456",
                                             "3234567890123456" } };
    static const talc_column columns[] = { { "row", TALC_COLUMN_NAME },
                                           { "one", TALC_COLUMN_NUMBER },
                                           { "two", TALC_COLUMN_NUMBER },
                                           { "three", TALC_COLUMN_NUMBER } };
    assert_table(
        40,
        (talc_table){ .count = 4, .columns = columns, .rows = 1, .cell = cell_of, .context = rows },
        "row               one               two\n"
        "a    1234567890123456  2234567890123456\n"
        "\n"
        "row             three\n"
        "a    3234567890123456\n");
}

/* Names that would lose their middle stand above their rows, where the table asks for it. */
Test(print, names_of_a_table_stand_above_its_rows)
{
    static const char *const rows[][4] = {
        { "first.block.conv+norm", "Convolution", "1,234,567", "12" },
        { "first.block.conv+norm", "Norm", "12", "3" },
        { "second", "ReLU", "0", "1" },
        { "", "Norm", "0", "1" },
    };
    static const talc_column columns[] = { { "layer", TALC_COLUMN_NAME },
                                           { "type", TALC_COLUMN_NAME },
                                           { "count", TALC_COLUMN_NUMBER },
                                           { "what", TALC_COLUMN_NUMBER } };
    talc_table table = { .count = 4,
                         .columns = columns,
                         .rows = 4,
                         .names_above = true,
                         .cell = cell_of,
                         .context = rows };
    assert_table(48, table,
                 "layer                 type            count what\n"
                 "first.block.conv+norm Convolution 1,234,567   12\n"
                 "first.block.conv+norm Norm               12    3\n"
                 "second                ReLU                0    1\n"
                 "                      Norm                0    1\n");
    table.indent = 1;
    assert_table(48, table,
                 " layer\n"
                 "    type             count  what\n"
                 " first.block.conv+norm\n"
                 "    Convolution  1,234,567    12\n"
                 "    Norm                12     3\n"
                 " second\n"
                 "    ReLU                 0     1\n"
                 "    Norm                 0     1\n");
    assert_table(20, table,
                 " layer\n"
                 "   type        count\n"
                 " firs..ock.conv+norm\n"
                 "   Co..ion 1,234,567\n"
                 "   Norm           12\n"
                 " second\n"
                 "   ReLU            0\n"
                 "   Norm            0\n"
                 "\n"
                 " layer\n"
                 "    what\n"
                 " firs..ock.conv+norm\n"
                 "      12\n"
                 "       3\n"
                 " second\n"
                 "       1\n"
                 "       1\n");
}

enum { RANDOM_ROWS = 6, RANDOM_COLUMNS = 12 };

/* Cells of letters, each a word of up to 20, or of up to 12 where the column has to be whole. */
static const char *random_cell(const void *context, int64_t row, int column,
                               char text[TALC_CELL_TEXT])
{
    const talc_table *table = context;
    unsigned state =
        (unsigned)(table->width + 31 * table->count + 7 * row + 131 * column) * 2654435761u;
    const bool name = table->columns[column].kind == TALC_COLUMN_NAME;
    const unsigned length = (state >> 8) % (name ? 60 : 12);
    for (unsigned i = 0; i < length; i++, state = state * 1664525u + 1013904223u)
        text[i] = (char)('a' + (state >> 16) % 26);
    text[length] = '\0';
    return text;
}

/* Whatever a table is of, no line is too wide or ends in a blank, and what has to be whole is. */
Test(print, no_table_is_too_wide)
{
    for (int i = 0; i < 2000; i++) {
        talc_column columns[RANDOM_COLUMNS];
        for (int k = 0; k < RANDOM_COLUMNS; k++)
            columns[k] = (talc_column){ k % 3 == 0 ? "" : "a title",
                                        (talc_column_kind)((i / (k + 1) + k) % 3) };
        talc_table table = { .count = 1 + i % RANDOM_COLUMNS,
                             .columns = columns,
                             .rows = i % RANDOM_ROWS,
                             .width = TALC_MIN_COLUMNS + i % 90,
                             .indent = i % 4,
                             .untitled = i % 5 == 0,
                             .names_above = i % 7 < 3,
                             .cell = random_cell,
                             .context = &table };
        char *text = NULL, whole[TALC_CELL_TEXT];
        size_t size = 0;
        FILE *file = open_memstream(&text, &size);
        talc_table_print(file, &table);
        fclose(file);
        for (int64_t row = 0; row < table.rows; row++)
            for (int k = 0; k < table.count; k++)
                if (columns[k].kind != TALC_COLUMN_NAME)
                    cr_assert(strstr(text, random_cell(&table, row, k, whole)) != NULL, "%d: %s", i,
                              whole);
        for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
            cr_assert(strlen(line) <= (size_t)table.width && line[strlen(line) - 1] != ' ',
                      "%d: '%s' in %d columns", i, line, table.width);
        free(text);
    }
}

Test(print, sentences_wrap_at_words)
{
    setenv("COLUMNS", "40", 1); /* read once, when this process first asks */
    owned_char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    talc_print_wrapped(file, 4, "  %s: %d words\nand \033[1m%s\033[0m",
                       "a line of 40 columns that has", 7,
                       "a_name_that_is_longer_than_a_whole_line_of_text_is");
    talc_print_wrapped(NULL, 4, "nothing");
    fclose(file);
    cr_assert(strcmp(text, "  a line of 40 columns that has: 7 words\n"
                           "    and\n"
                           "    \033[1ma_name_..han_a_whole_line_of_text_is\033[0m\n") == 0,
              "%s", text);
}

Test(print, counts_read_well)
{
    char text[TALC_COUNT_TEXT];
    const struct {
        double count;
        const char *unit, *expected;
    } cases[] = { { 0, "FLOP", "0 FLOP" },         { 720, "", "720" },
                  { 48000, "", "48 k" },           { 582.6e9, "FLOP", "582.6 GFLOP" },
                  { 999.96e3, "FLOP", "1 MFLOP" }, { 1.814073e9, "", "1.814 G" },
                  { 1e22, "FLOP", "1e+04 EFLOP" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect(strcmp(talc_count_text(cases[i].count, cases[i].unit, text), cases[i].expected) ==
                      0,
                  "%s instead of %s", text, cases[i].expected);
}
