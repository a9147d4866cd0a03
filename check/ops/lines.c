#include "check/ops/lines.h"

#include "check/engine/data.h"
#include "tensor/shape.h"

#include <string.h>

_Static_assert(sizeof(check_lines) <= CHECK_PROBLEM_BYTES, "a problem has to fit");

const char *talc_check_complete_lines(check_problem *problem, const char **key)
{
    (void)key;
    check_lines *self = (check_lines *)(void *)problem;
    talc_lines_problem *p = &self->p;
    bool along[TALC_MAX_RANK] = { false };
    check_part y_outer;
    self->y = self->x;
    self->y.reversed = false;
    along[self->dim] = true;
    if (!talc_check_lay_out(&self->x) || !talc_check_lay_out(&self->y) ||
        !talc_check_part_of(&self->x, along, false, &self->outer) ||
        !talc_check_part_of(&self->y, along, false, &y_outer))
        return "an input below 2^63 bytes";
    p->dtype = self->x.dtype;
    p->extent = self->x.rank == 0 ? 1 : self->x.dims[self->dim];
    p->x_stride = self->x.strides[self->dim];
    p->y_stride = self->y.strides[self->dim];
    p->outer = self->outer.count;
    p->outer_rank = self->outer.rank;
    memcpy(p->outer_dims, self->outer.dims, sizeof p->outer_dims);
    memcpy(p->x_strides, self->outer.strides, sizeof p->x_strides);
    memcpy(p->y_strides, y_outer.strides, sizeof p->y_strides);
    if (self->x.count > 0)
        p->outer_rank = talc_shape_coalesce(p->outer_rank, p->outer_dims,
                                            (int64_t *const[]){ p->y_strides, p->x_strides }, 2);
    return NULL;
}

void talc_check_draw_lines(uint64_t *state, check_lines *self)
{
    self->x.dtype = talc_check_draw_float(state);
    talc_check_random_dims(state, &self->x);
    self->x.reversed = talc_check_draw(state, 0, 2) == 0;
    self->dim = self->x.rank == 0 ? 0 : (int)talc_check_draw(state, 0, self->x.rank - 1);
}

bool talc_check_pose_lines(const check_ran *ran, int dim, check_problem *problem)
{
    check_lines *self = (check_lines *)(void *)problem;
    self->dim = dim;
    self->x = talc_check_layout_of(&ran->inputs[0]);
    return talc_check_complete_lines(problem, &(const char *){ "" }) == NULL;
}

int64_t talc_check_line_of(const check_lines *self, int64_t index, int64_t *at)
{
    *at = self->x.rank == 0 ? 0 : index / self->y.strides[self->dim] % self->p.extent;
    return talc_check_layout_offset(&self->x, index) - *at * self->x.strides[self->dim];
}
