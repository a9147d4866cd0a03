/// Cross-checking: every algorithm of every op against an oracle that shares no code with it, with
/// a verdict that is derived and not guessed.
///
/// Problems are texts (the list below). For each problem and each algorithm of a device's tables
/// the algorithm runs on several kinds of data, between guard bands, its outputs and workspace
/// filled with NaN beforehand, and each element of the result is held against an error bound that
/// follows from the algorithm's declared arithmetic, the length of its sum and the size of its
/// terms:
///
///     talc_check *check = talc_check_new(&(talc_check_options){ .device = device });
///     talc_check_problem(check, "n2c5h9w9o7k3x3p1x1");          every algorithm of conv2d
///     talc_check_algorithm(check, "n2c5h9w9o7k3x3", &mine);            an algorithm of one's own
///     talc_check_print(stdout, check);
///     bool right = talc_check_passed(check);
///     talc_check_free(check);
///
/// docs/checking.md says what is guaranteed and how the bounds are derived.
///
/// A problem's text is an op and its problem: "matmul:b2m5n6k7_ta_relu", or for conv2d
/// "n2c5h9w9o7k3x3p1x1". talc_check_print_texts lists them all.
#ifndef TALC_CHECK_CHECK_H
#define TALC_CHECK_CHECK_H

#include "../ops/conv2d.h"

#include <stdio.h>

TALC_BEGIN_DECLARATIONS

#define TALC_CHECK_TEXT 360

/// The kinds of checks. The first eight are kinds of data.
typedef enum talc_check_kind {
    TALC_CHECK_EXACT,    ///< small integers whose sums are exact: no difference is allowed
    TALC_CHECK_RANDOM,   ///< uniform random data, the probable bound
    TALC_CHECK_CONSTANT, ///< every rounding goes the same way: the guaranteed bound, here and below
    TALC_CHECK_WIDE,     ///< 20 binades within every window
    TALC_CHECK_HUGE,     ///< one value 2^30 times the others, beside zeros where it is multiplied
    TALC_CHECK_TINY,     ///< blocks of values 2^-30 times the others, or denormal
    TALC_CHECK_NAN, ///< one NaN in an input (conv2d: in each in turn): outputs that read it are
                    ///< NaN, no others
    TALC_CHECK_INFINITY,   ///< likewise, and negative too in conv2d
    TALC_CHECK_GUARDS,     ///< nothing outside the outputs and the workspace was written
    TALC_CHECK_INPUTS,     ///< the inputs are as they were
    TALC_CHECK_TRUST,      ///< enough outputs are not zero for the other checks to mean something
    TALC_CHECK_MISALIGNED, ///< operands 4, 8, 16 and more bytes off alignment, each by another
                           ///< amount, as views may be
    TALC_CHECK_WORKSPACE,  ///< exact also in the smallest workspace that the algorithm can work in
    TALC_CHECK_RERUN,      ///< the same bits again, whatever outputs and workspace hold before
    TALC_CHECK_THREADS,    ///< the same bits with 1, 2, 3 and 5 threads (CPU)
    /// The same bits where the caller's floating-point environment flushes denormals and rounds
    /// upwards; in every run it stands as before behind the algorithm.
    TALC_CHECK_FENV,
    TALC_CHECK_STATUS, ///< the algorithm ran and reported no failure
    /* Relations between convolutions, exact on small integers. Gradients have those of their own,
     * all but POINTWISE and SHIFT. */
    TALC_CHECK_BATCH,     ///< the batch in two parts is the whole
    TALC_CHECK_GROUPS,    ///< groups are separate convolutions side by side
    TALC_CHECK_DILATION,  ///< a dilated kernel is one with zeros between its taps
    TALC_CHECK_STRIDE,    ///< a stride takes every s-th output
    TALC_CHECK_POINTWISE, ///< 1x1 is a matrix product
    TALC_CHECK_PADDING,   ///< padding is a larger image
    TALC_CHECK_ADJOINT,   ///< <conv(x, w), g> = <x, conv(g, w turned and transposed)>
    TALC_CHECK_LINEARITY, ///< conv(a x1 + b x2) = a conv(x1) + b conv(x2)
    TALC_CHECK_SHIFT,     ///< a shifted image gives a shifted result
    TALC_CHECK_KIND_COUNT
} talc_check_kind;

/// "exact", "guards", ...; "?" for another number.
TALC_API const char *talc_check_kind_name(talc_check_kind kind);

/// One check of one algorithm on one problem. Pointers last for the call that hands it out.
typedef struct talc_check_outcome {
    const char *op;        ///< "conv2d"
    const char *algorithm; ///< "im2col", name(form) where it has a form
    const char *device;    ///< "cpu"
    const char *problem;   ///< its full text
    talc_check_kind kind;
    bool passed;
    double
        share; ///< worst |y - due| over its bound: at most 1 passes. INFINITY where none is allowed
    int64_t compared;   ///< elements
    const char *output; ///< which: "y"
    int rank;           ///< of that output
    int64_t dims[TALC_MAX_RANK];
    int64_t where[TALC_MAX_RANK]; ///< index of the worst element
    const char *place;            ///< of the worst element: "border", "tail" or "inside"
    double got, expected, bound;
    /// Each element's share in row-major order, NaN where it was not compared; NULL for checks that
    /// compare no values.
    const float *shares;
    char reason[256]; ///< why it failed; "" otherwise
    double terms;     ///< of all the problem's outputs: its size
} talc_check_outcome;

typedef struct talc_check_options {
    talc_device *device;   ///< NULL: the default one
    const char *algorithm; ///< only algorithms of this name, or name(form); NULL: all
    uint64_t kinds;        ///< 1 << talc_check_kind of each that is wanted; 0: all
    uint64_t seed;         ///< of the data
    /// What repeats a failure of an algorithm that is in no table, with the problem's text behind
    /// it: "./my_check mistake". NULL: the report has the call in C. It lasts as long as the check.
    const char *command;
    /// What follows `talc check` in what repeats a failure of any other: "--load 'mine.so'". NULL:
    /// nothing more. It lasts as long as the check.
    const char *arguments;
    /// Called after each check; NULL: not.
    void (*observe)(void *context, const talc_check_outcome *outcome);
    void *context;
} talc_check_options;

typedef struct talc_check talc_check;

/// A check without results yet. `options` may be NULL. The program frees it.
TALC_API talc_check *talc_check_new(const talc_check_options *options);
TALC_API void talc_check_free(talc_check *check);

/// Checks every algorithm of the problem's op on the device; algorithms that refuse are counted as
/// refusing. False when the check itself could not be made: a text that does not parse (the message
/// has the position), an oracle too large for memory. That an algorithm is wrong is a result, not a
/// failure.
TALC_API bool talc_check_problem(talc_check *check, const char *problem);

/// The same for `count` problems, in results as if one after the other; `step`, where it is not
/// NULL, is called as each begins, one call at a time. On a device that is not the host's, whose
/// every answer has to be waited for, several threads check small problems at once, unless somebody
/// observes. False at the first check that could not be made, which is the last.
TALC_API bool talc_check_problems(talc_check *check, const char *const *problems, int64_t count,
                                  void (*step)(void *context, const char *problem), void *context);

/// The same as talc_check_problem for one algorithm, which need not be in any table: it takes the
/// problem and arguments of the text's op. False with TALC_BAD_ARGUMENT for one without a name,
/// with a name of more than 63 characters, name(form) in all, or without `plan` or `run`.
TALC_API bool talc_check_algorithm(talc_check *check, const char *problem,
                                   const talc_algorithm *algorithm);

// ---- A convolution's result at some outputs -----------------------------------------------------

enum { TALC_CHECK_SAMPLES = 4096 };

/// Where a result is looked at, and what must stand there.
typedef struct talc_check_sample talc_check_sample;

typedef struct talc_check_sample_report {
    int64_t count;    ///< outputs compared
    double error;     ///< largest |y - due|; infinite when only one of the two is finite
    double share;     ///< largest of them over its bound; at most 1 passes
    int64_t where[4]; ///< n, oc, oh, ow of the output with that share
} talc_check_sample_report;

/// Works out TALC_CHECK_SAMPLES outputs, all when there are no more; `seed` chooses. The operands,
/// f32 or f64 on any device, are those of the problem; bias and residual are not looked at where it
/// has none. One image is held as double meanwhile. NULL with a failure for operands that do not
/// fit the problem, and without memory. The program frees it.
TALC_API talc_check_sample *talc_check_sample_new(const talc_conv2d_problem *problem,
                                                  const talc_tensor *x, const talc_tensor *w,
                                                  const talc_tensor *bias,
                                                  const talc_tensor *residual, uint64_t seed);
TALC_API void talc_check_sample_free(talc_check_sample *sample);

/// Compares y, on any device, under the bound for random data of a precision class. False with a
/// failure when y is not of the problem's shape and type, or there is no such class; that it is
/// wrong is a result.
TALC_API bool talc_check_sample_compare(const talc_check_sample *sample, const talc_tensor *y,
                                        talc_precision precision, talc_check_sample_report *report);

/// Compares two results, each allowed its own bound: error is the largest |a - b|, share the
/// largest over the sum of both bounds. Two that pass by themselves are at most 1 apart. False as
/// talc_check_sample_compare.
TALC_API bool talc_check_sample_between(const talc_check_sample *sample, const talc_tensor *a,
                                        talc_precision a_precision, const talc_tensor *b,
                                        talc_precision b_precision,
                                        talc_check_sample_report *report);

// ---- Explaining ---------------------------------------------------------------------------------

/// Which algorithm the op of a problem's text would run on the device, and why the others would
/// not; nothing runs, and no operand is made. `algorithm` is forced; NULL: the thread's. That every
/// algorithm refuses is an answer, not a failure. False for NULL, a text that does not parse and a
/// problem with nothing to compute.
TALC_API bool talc_explain(talc_device *device, const char *problem, const char *algorithm,
                           talc_explanation *explanation);

// ---- Problems -----------------------------------------------------------------------------------

/// Prints an example of each op's texts, what its keys mean and the words that it takes:
/// `talc check --texts`.
TALC_API void talc_check_print_texts(FILE *file);

/// The problem in full, as sets and outcomes give it. NULL, with a failure that gives the position,
/// when it does not parse.
TALC_API const char *talc_check_problem_text(const char *problem, char text[TALC_CHECK_TEXT]);

/// Problem `index` of a set: "quick", "edges", "models", or "random", which has no end and depends
/// on `seed`. NULL after the last, and, with a failure, for an unknown set.
TALC_API const char *talc_check_set_problem(const char *set, int64_t index, uint64_t seed,
                                            char text[TALC_CHECK_TEXT]);

// ---- Results ------------------------------------------------------------------------------------

/// What became of an algorithm.
typedef struct talc_check_summary {
    char op[32], algorithm[TALC_ALGORITHM_TEXT], device[24]; ///< algorithm: name(form)
    const char *name, *form;                                 ///< of the algorithm; form may be NULL
    talc_arithmetic arithmetic;                              ///< as it declares
    int64_t problems, refused;                               ///< that ran, that it refused
    int64_t checks, failed;
    double share;                ///< worst of its bounded checks
    char worst[TALC_CHECK_TEXT]; ///< the problem of that share
    talc_check_kind worst_kind;
} talc_check_summary;

typedef struct talc_check_failure {
    char op[32], algorithm[TALC_ALGORITHM_TEXT], device[24];
    char problem[TALC_CHECK_TEXT];
    talc_check_kind kind;
    char reason[256];
    double terms; ///< as in the outcome
} talc_check_failure;

TALC_API int talc_check_summary_count(const talc_check *check);
TALC_API const talc_check_summary *talc_check_summary_at(const talc_check *check, int index);

/// Failures in order, the first 1,000 of them; summaries count all.
TALC_API int talc_check_failure_count(const talc_check *check);
TALC_API const talc_check_failure *talc_check_failure_at(const talc_check *check, int index);

/// Problems that every algorithm refused, or without anything to compute.
TALC_API int64_t talc_check_untaken(const talc_check *check);

/// At least one algorithm ran, none failed, and every check that was asked for could be made: after
/// one talc_check_problem or talc_check_algorithm that returned false it stays false.
TALC_API bool talc_check_passed(const talc_check *check);

/// A table of the algorithms; for each that fails how many problems, what these have in common
/// where that is plain, and three of its failures, of the smallest problems first, with what
/// repeats each.
TALC_API void talc_check_print(FILE *file, const talc_check *check);

TALC_END_DECLARATIONS

#endif
