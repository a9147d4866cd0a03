#include "check/ops/lines.h"

#include "check/engine/data.h"
#include "tensor/shape.h"

#include <string.h>

_Static_assert(sizeof(check_lines) <= CHECK_PROBLEM_BYTES, "a problem has to fit");

const char *talc_check_complete_lines(check_problem *problem, const char **key)
{
    (void)key;
    check_lines *own = (check_lines *)(void *)problem;
    talc_lines_problem *p = &own->p;
    bool along[TALC_MAX_RANK] = { false };
    check_part y_outer;
    own->y = own->x;
    own->y.reversed = false;
    along[own->dim] = true;
    if (!talc_check_lay_out(&own->x) || !talc_check_lay_out(&own->y) ||
        !talc_check_part_of(&own->x, along, false, &own->outer) ||
        !talc_check_part_of(&own->y, along, false, &y_outer))
        return "an input below 2^63 bytes";
    p->dtype = own->x.dtype;
    p->extent = own->x.rank == 0 ? 1 : own->x.dims[own->dim];
    p->x_stride = own->x.strides[own->dim];
    p->y_stride = own->y.strides[own->dim];
    p->outer = own->outer.count;
    p->outer_rank = own->outer.rank;
    memcpy(p->outer_dims, own->outer.dims, sizeof p->outer_dims);
    memcpy(p->x_strides, own->outer.strides, sizeof p->x_strides);
    memcpy(p->y_strides, y_outer.strides, sizeof p->y_strides);
    if (own->x.count > 0)
        p->outer_rank = talc_shape_coalesce(p->outer_rank, p->outer_dims,
                                            (int64_t *const[]){ p->y_strides, p->x_strides }, 2);
    return NULL;
}

void talc_check_draw_lines(uint64_t *state, check_lines *own)
{
    own->x.dtype = talc_check_draw_float(state);
    talc_check_random_dims(state, &own->x);
    own->x.reversed = talc_check_draw(state, 0, 2) == 0;
    own->dim = own->x.rank == 0 ? 0 : (int)talc_check_draw(state, 0, own->x.rank - 1);
}

bool talc_check_pose_lines(const check_ran *ran, int dim, check_problem *problem)
{
    check_lines *own = (check_lines *)(void *)problem;
    own->dim = dim;
    own->x = talc_check_layout_of(&ran->inputs[0]);
    return talc_check_complete_lines(problem, &(const char *){ "" }) == NULL;
}

int64_t talc_check_line_of(const check_lines *own, int64_t index, int64_t *at)
{
    *at = own->x.rank == 0 ? 0 : index / own->y.strides[own->dim] % own->p.extent;
    return talc_check_layout_offset(&own->x, index) - *at * own->x.strides[own->dim];
}
