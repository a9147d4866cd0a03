/// What the tests of talc_check_model share: a layer, an input, and a report that is looked at.
#ifndef TALC_TESTS_CHECKED_MODEL_H
#define TALC_TESTS_CHECKED_MODEL_H

#include "talc.h"

/// A convolution by a square kernel that keeps the image's size, without bias.
talc_module *conv(int64_t in, int64_t out, int64_t kernel);

/// Three channels of 9 x 6 for it.
talc_tensor *block_input(void);

/// The report on a model that can be checked; talc_check_model_free gives it back.
talc_check_model_report *checked(talc_module *model, talc_tensor *x,
                                 talc_check_model_options options);

/// Layer i, or the test fails.
const talc_check_model_layer *layer_at(const talc_check_model_report *report, int i);

/// Passes when no layer is wrong; otherwise shows the report.
void assert_passed(const talc_check_model_report *report);

#endif
