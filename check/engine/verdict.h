/// Holding results against what they must be. Private to check/.
#ifndef TALC_CHECK_ENGINE_VERDICT_H
#define TALC_CHECK_ENGINE_VERDICT_H

#include "check/engine/case.h"

/// Outputs with more terms in all than this are judged by a sample of CHECK_SAMPLE elements each:
/// corners, borders and tails first, the rest at random.
#define CHECK_FULL_TERMS 3e7
enum { CHECK_SAMPLE = 4096 };

/// What the elements of one output must be.
typedef struct check_expected_output {
    int operand;
    int64_t count;  ///< elements that are judged
    int64_t *index; ///< where they stand; NULL: all of them
    check_expected *expected;
    double S_norm; ///< largest S among them
    float *shares; ///< of all elements, NaN where they are not judged; NULL when nobody asked
} check_expected_output;

/// What all outputs of a problem must be.
typedef struct check_oracle {
    const check_direction *direction;
    const check_problem *problem;
    check_operand operand[CHECK_OPERANDS];
    int outputs;
    check_expected_output output[CHECK_OPERANDS];
    check_common *common; ///< of each group; NULL without groups
    int64_t *learnt;      ///< groups that judged elements belong to, rising; NULL: all
    int64_t learnt_count;
} check_oracle;

/// Room for a problem's outputs; the sample depends on `seed`. False with a failure. Freed by
/// talc_check_oracle_free.
bool talc_check_oracle_new(const check_direction *direction, const check_problem *problem,
                           uint64_t seed, bool shares, check_oracle *oracle);
void talc_check_oracle_free(check_oracle *oracle);

/// Bytes that talc_check_oracle_new takes.
double talc_check_oracle_bytes(const check_direction *direction, const check_problem *problem,
                               bool shares);

/// Works out what these values must give.
void talc_check_oracle_update(check_oracle *oracle, const check_values *values);

/// Terms of all outputs.
double talc_check_oracle_terms(const check_direction *direction, const check_problem *problem);

/// Judges results on data of `kind`: fills in all of the outcome from `passed` on. Of several
/// outputs the worst counts.
void talc_check_verdict(const check_oracle *oracle, const talc_arithmetic *arithmetic,
                        talc_check_kind kind, const check_values *results,
                        talc_check_outcome *outcome);

/// Whether passing meant anything: of the outputs with something to add up, at least 30 % are not
/// zero, 15 % after a ReLU; fewer than 8 are too few to say. Counts into *fed and *nonzero. Without
/// results (NULL), whether passing would, for an algorithm that is right.
bool talc_check_trusted(const check_oracle *oracle, const check_values *results, int64_t *fed,
                        int64_t *nonzero);

/// Whether two runs gave the same bits; otherwise `reason` says where they differ.
bool talc_check_same(const check_oracle *oracle, const check_values *a, const check_values *b,
                     char reason[256]);

#endif
