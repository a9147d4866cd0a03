/// Strided operands of any rank, for reductions and softmax, and indices into such. Private to
/// check/.
#ifndef TALC_CHECK_ENGINE_LAYOUT_H
#define TALC_CHECK_ENGINE_LAYOUT_H

#include "check/engine/expected.h"
#include "check/engine/text.h"

/// An operand: contiguous, or with its dimensions stored in the reverse order, as a transposed view
/// has them.
typedef struct check_layout {
    talc_dtype dtype;
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t strides[TALC_MAX_RANK]; ///< elements
    bool reversed;
    int64_t count; ///< product of dims
} check_layout;

/// Some of a layout's dimensions, in their order.
typedef struct check_part {
    int rank;
    int64_t dims[TALC_MAX_RANK], strides[TALC_MAX_RANK];
    int64_t count; ///< product of dims
} check_part;

/// Sets strides and count from the rest; false when it is too large.
bool talc_check_lay_out(check_layout *layout);

/// The dimensions with `chosen`, or those without. False when a product is too large, which it can
/// be beside an extent of 0.
bool talc_check_part_of(const check_layout *layout, const bool chosen[TALC_MAX_RANK], bool value,
                        check_part *part);

/// Lays out logits, whose classes are along dimension talc_check_class_dim(rank), the dimensions
/// without it, and labels of these. False when something is too large.
int talc_check_class_dim(int rank);
bool talc_check_lay_out_classes(check_layout *logits, check_part *outer, check_layout *labels);

/// How far element `index` of a part's dimensions, in row-major order, is from the first; of a
/// whole layout.
int64_t talc_check_part_offset(const check_part *part, int64_t index);
int64_t talc_check_layout_offset(const check_layout *layout, int64_t index);

/// The operand with its dimensions in the order in which they are stored.
check_operand talc_check_stored(const check_layout *layout, const char *name, check_role role);

/// 0 to 4 dimensions with extents of 1 to 40, and at most 4096 elements.
void talc_check_random_dims(uint64_t *state, check_layout *layout);

/// A model's array, which is contiguous, for talc_check_lay_out.
check_layout talc_check_layout_of(const check_array *array);

/// How far element `index` of such dimensions, in row-major order, is from the first, in elements.
int64_t talc_check_offset(int rank, const int64_t *dims, const int64_t *strides, int64_t index);

/// The index in each dimension of an element in row-major order.
void talc_check_coordinates(int rank, const int64_t *dims, int64_t index, int64_t *where);

/// The shape that a and b broadcast to, as y without strides; false when they do not.
bool talc_check_broadcast(const check_layout *a, const check_layout *b, check_layout *y);

/// Strides of an operand along the dimensions of a shape to which it is broadcast: 0 where it
/// stretches; and where the element of it is that element `index` of the shape reads.
void talc_check_stretch(const check_layout *operand, const check_layout *to,
                        int64_t strides[TALC_MAX_RANK]);
int64_t talc_check_broadcast_offset(const check_layout *operand, const check_layout *to,
                                    int64_t index);

/// Dimensions that broadcast to those of `to`: often the same, else with some of extent 1 or left
/// out in front.
void talc_check_draw_stretched(uint64_t *state, const check_layout *to, check_layout *operand);

/// The element of an operand with `rank` dimensions that element `index` of a shape reads, to which
/// it is broadcast.
int64_t talc_check_stretched(int rank, const int64_t *dims, talc_dims to, int64_t index);

#endif
