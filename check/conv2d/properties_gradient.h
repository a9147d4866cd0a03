/// The properties of check/conv2d/properties.h for conv2d's gradients. Private to check/.
#ifndef TALC_CHECK_CONV2D_PROPERTIES_GRADIENT_H
#define TALC_CHECK_CONV2D_PROPERTIES_GRADIENT_H

#include "check/conv2d/trial.h"

/// A property: derives from `whole` what it compares, and decides the trial where it finds a
/// difference.
typedef void check_property(check_trial *trial, talc_conv2d_problem whole);

/// That of a kind; NULL for a kind that says nothing about gradients.
check_property *talc_check_gradient_property(talc_check_kind kind);

#endif
