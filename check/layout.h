/// Strided operands of any rank, for reductions and softmax. Private to check/.
#ifndef TALC_CHECK_LAYOUT_H
#define TALC_CHECK_LAYOUT_H

#include "check/model_due.h"
#include "check/text.h"

/// An operand: contiguous, or with its dimensions stored in the reverse order, as a transposed view has them.
typedef struct check_layout {
    talc_dtype dtype;
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t strides[TALC_MAX_RANK]; ///< elements
    bool reversed;
    int64_t count; ///< product of dims
} check_layout;

/// "8x16x32", or nothing for a scalar.
bool talc_check_read_dims(check_reader *reader, check_layout *layout);
void talc_check_append_dims(char text[TALC_CHECK_TEXT], const check_layout *layout);

/// A dimension, negative ones from the end: 0 .. rank - 1 into *axis; a scalar has dimension 0.
bool talc_check_read_axis(check_reader *reader, int rank, int *axis);

/// Sets strides and count from the rest; false when it is too large.
bool talc_check_lay_out(check_layout *layout);

/// The operand as it is stored.
check_operand talc_check_stored(const check_layout *layout, const char *name, check_role role);

/// 0 to 4 dimensions with extents of 1 to 40, and at most 4096 elements.
void talc_check_random_dims(uint64_t *state, check_layout *layout);

/// A model's array, which is contiguous, for talc_check_lay_out.
check_layout talc_check_layout_of(const check_array *array);

/// The steps of an index over some dimensions in row-major order: how far it is from the first element.
int64_t talc_check_offset(int rank, const int64_t *dims, const int64_t *strides, int64_t index);

#endif
