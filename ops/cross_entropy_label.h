/// What a row says of a label that is no class. Private to talc.
#ifndef TALC_OPS_CROSS_ENTROPY_LABEL_H
#define TALC_OPS_CROSS_ENTROPY_LABEL_H

#include "tensor/error.h"

/// Raises the failure: "cross_entropy: element 3 of labels is 10, there are 10 classes". Returns its status.
talc_status talc_bad_label(const char *op, int64_t element, int64_t label, int64_t classes);

/// The same of cross_entropy.
talc_status talc_cross_entropy_bad_label(int64_t element, int64_t label, int64_t classes);

#endif
