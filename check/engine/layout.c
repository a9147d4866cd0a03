#include "check/engine/layout.h"

#include "check/engine/data.h"
#include "tensor/memory.h"
#include "tensor/shape.h"

#include <string.h>

// ---- Layout -------------------------------------------------------------------------------------

bool talc_check_lay_out(check_layout *layout)
{
    if (!talc_check_elements(layout->dtype, layout->rank, layout->dims, &layout->count))
        return false;
    int64_t stride = 1;
    for (int j = 0; j < layout->rank; j++) {
        const int i = layout->reversed ? j : layout->rank - 1 - j;
        layout->strides[i] = stride;
        if (!talc_multiply(stride, layout->dims[i], &stride))
            return false;
    }
    return true;
}

check_operand talc_check_stored(const check_layout *layout, const char *name, check_role role)
{
    talc_dims dims = { .rank = layout->rank };
    for (int i = 0; i < layout->rank; i++)
        dims.dim[i] = layout->dims[layout->reversed ? layout->rank - 1 - i : i];
    return talc_check_operand(name, role, layout->dtype, dims);
}

void talc_check_random_dims(uint64_t *state, check_layout *layout)
{
    layout->rank = (int)talc_check_draw(state, 0, 4);
    int64_t left = 4096;
    for (int i = 0; i < layout->rank; i++) {
        const int64_t extent = CHECK_PICK(state, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 40);
        layout->dims[i] = extent <= left ? extent : 1;
        left /= layout->dims[i];
    }
}

bool talc_check_part_of(const check_layout *layout, const bool chosen[TALC_MAX_RANK], bool value,
                        check_part *part)
{
    *part = (check_part){ .count = 1 };
    for (int i = 0; i < layout->rank; i++) {
        if (chosen[i] != value)
            continue;
        part->dims[part->rank] = layout->dims[i];
        part->strides[part->rank++] = layout->strides[i];
        if (!talc_multiply(part->count, layout->dims[i], &part->count))
            return false;
    }
    return true;
}

int talc_check_class_dim(int rank)
{
    return rank == 1 ? 0 : 1;
}

bool talc_check_lay_out_classes(check_layout *logits, check_part *outer, check_layout *labels)
{
    bool along[TALC_MAX_RANK] = { false };
    along[talc_check_class_dim(logits->rank)] = true;
    if (!talc_check_lay_out(logits) || !talc_check_part_of(logits, along, false, outer))
        return false;
    *labels = (check_layout){ .dtype = TALC_I64, .rank = outer->rank };
    memcpy(labels->dims, outer->dims, sizeof labels->dims);
    return talc_check_lay_out(labels);
}

// ---- Indices ------------------------------------------------------------------------------------

int64_t talc_check_part_offset(const check_part *part, int64_t index)
{
    return talc_check_offset(part->rank, part->dims, part->strides, index);
}

int64_t talc_check_layout_offset(const check_layout *layout, int64_t index)
{
    return talc_check_offset(layout->rank, layout->dims, layout->strides, index);
}

void talc_check_coordinates(int rank, const int64_t *dims, int64_t index, int64_t *where)
{
    for (int i = rank - 1; i >= 0; i--) {
        where[i] = index % dims[i];
        index /= dims[i];
    }
}

bool talc_check_broadcast(const check_layout *a, const check_layout *b, check_layout *y)
{
    talc_dims dims_a = { .rank = a->rank }, dims_b = { .rank = b->rank }, dims;
    memcpy(dims_a.dim, a->dims, sizeof dims_a.dim);
    memcpy(dims_b.dim, b->dims, sizeof dims_b.dim);
    if (!talc_shape_broadcast(dims_a, dims_b, &dims))
        return false;
    *y = (check_layout){ .dtype = a->dtype, .rank = dims.rank };
    memcpy(y->dims, dims.dim, sizeof dims.dim);
    return true;
}

void talc_check_stretch(const check_layout *operand, const check_layout *to,
                        int64_t strides[TALC_MAX_RANK])
{
    memset(strides, 0, TALC_MAX_RANK * sizeof *strides);
    for (int i = to->rank - 1, axis = operand->rank - 1; axis >= 0; i--, axis--)
        strides[i] = operand->dims[axis] == 1 ? 0 : operand->strides[axis];
}

int64_t talc_check_broadcast_offset(const check_layout *operand, const check_layout *to,
                                    int64_t index)
{
    int64_t strides[TALC_MAX_RANK];
    talc_check_stretch(operand, to, strides);
    return talc_check_offset(to->rank, to->dims, strides, index);
}

void talc_check_draw_stretched(uint64_t *state, const check_layout *to, check_layout *operand)
{
    const bool same = talc_check_draw(state, 0, 1) == 0;
    const int skipped = same ? 0 : (int)talc_check_draw(state, 0, to->rank);
    operand->rank = to->rank - skipped;
    for (int i = 0; i < operand->rank; i++)
        operand->dims[i] = same || talc_check_draw(state, 0, 2) != 0 ? to->dims[i + skipped] : 1;
}

int64_t talc_check_stretched(int rank, const int64_t *dims, talc_dims to, int64_t index)
{
    int64_t at = 0, step = 1;
    for (int i = to.rank - 1, axis = rank - 1; axis >= 0; i--, axis--) {
        at += dims[axis] == 1 ? 0 : index % to.dim[i] * step;
        step *= dims[axis];
        index /= to.dim[i];
    }
    return at;
}

int64_t talc_check_offset(int rank, const int64_t *dims, const int64_t *strides, int64_t index)
{
    int64_t offset = 0;
    for (int i = rank - 1; i >= 0; i--) {
        offset += index % dims[i] * strides[i];
        index /= dims[i];
    }
    return offset;
}

check_layout talc_check_layout_of(const check_array *array)
{
    check_layout layout = { .dtype = array->dtype, .rank = array->dims.rank };
    for (int i = 0; i < layout.rank; i++)
        layout.dims[i] = array->dims.dim[i];
    return layout;
}
