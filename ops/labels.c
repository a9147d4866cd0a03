#include "ops/labels.h"

#include "ops/operand.h"

#include <inttypes.h>

int talc_labels_class_dim(const talc_tensor *x)
{
    return x->rank == 1 ? 0 : 1;
}

talc_dims talc_labels_dims(const talc_tensor *x)
{
    talc_dims dims = { 0 };
    for (int i = 0; i < x->rank; i++)
        if (i != talc_labels_class_dim(x))
            dims.dim[dims.rank++] = x->dims[i];
    return dims;
}

bool talc_labels_check(const char *op, const char *name, const talc_tensor *x,
                       const talc_tensor *labels)
{
    if (!talc_operand_float(op, name, x) || talc_operand_missing(op, "labels", labels))
        return false;
    char text[TALC_DIMS_TEXT];
    if (labels->device != x->device)
        talc_fail(TALC_BAD_DEVICE, "%s: %s is on %s, labels on %s", op, name, x->device->name,
                  labels->device->name);
    else if (labels->dtype != TALC_I64)
        talc_fail(TALC_BAD_DTYPE, "%s: labels is %s, it must be i64", op,
                  talc_dtype_name(labels->dtype));
    else if (x->rank == 0)
        talc_fail(TALC_BAD_SHAPE, "%s: %s [] has rank 0, needs at least 1: [N,C,...] or [C]", op,
                  name);
    else if (x->dims[talc_labels_class_dim(x)] == 0)
        talc_fail(TALC_BAD_SHAPE, "%s: %s %s has 0 classes, needs at least 1", op, name,
                  talc_dims_text(talc_dims_of(x), text));
    return !talc_failed();
}

int64_t talc_labels_ignored(int64_t option)
{
    return option == 0 ? -100 : option == TALC_ZERO ? 0 : option;
}

talc_status talc_bad_label(const char *op, int64_t element, int64_t label, int64_t classes)
{
    return talc_fail(TALC_BAD_ARGUMENT,
                     "%s: element %" PRId64 " of labels is %" PRId64 ", there are %" PRId64
                     " classes",
                     op, element, label, classes);
}

talc_status talc_bad_index(const char *op, int64_t element, int64_t index, int64_t extent)
{
    return talc_fail(TALC_BAD_ARGUMENT,
                     "%s: element %" PRId64 " of index is %" PRId64 ", x has %" PRId64
                     " elements in its dimension",
                     op, element, index, extent);
}
