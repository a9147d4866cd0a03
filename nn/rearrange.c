/// Layers that show, repeat or move elements: padding, upsampling, channel shuffle, unflatten.
#include "nn/layer.h"
#include "nn/layers.h"
#include "ops/concat.h"
#include "tensor/memory.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <inttypes.h>

// ---- Padding ------------------------------------------------------------------------------------

typedef struct pad2d {
    talc_module base;
    talc_pad_options options;
} pad2d;

static bool pad2d_init(talc_module *module, const void *options)
{
    if (talc_operand_missing("Pad2d", "options", options))
        return false;
    const talc_pad_options *o = options;
    ((pad2d *)module)->options = *o;
    if ((unsigned)o->mode >= TALC_PADDING_MODE_COUNT)
        talc_fail(TALC_BAD_ARGUMENT, "Pad2d: mode %d is outside 0..%d", (int)o->mode,
                  TALC_PADDING_MODE_COUNT - 1);
    return !talc_failed();
}

static talc_tensor *pad2d_forward(talc_module *module, talc_tensor *x)
{
    return talc_pad(x, &((pad2d *)module)->options);
}

#define PAD2D(text)                                                                                \
    {                                                                                              \
        .name = text, .size = sizeof(pad2d), .init = pad2d_init, .forward = pad2d_forward          \
    }

/* By mode; last, a constant that is not 0. */
static const talc_module_class pad2d_classes[] = {
    PAD2D("ZeroPad2d"),     PAD2D("ReflectionPad2d"), PAD2D("ReplicationPad2d"),
    PAD2D("CircularPad2d"), PAD2D("ConstantPad2d"),
};

talc_module *talc_nn_pad2d(const talc_pad_options *options)
{
    int kind = TALC_PADDING_ZEROS; /* also of options that init refuses */
    if (options != NULL && (unsigned)options->mode < TALC_PADDING_MODE_COUNT)
        kind = options->mode == TALC_PADDING_ZEROS && options->value != 0 ? TALC_PADDING_MODE_COUNT
                                                                          : (int)options->mode;
    return talc_module_new(&pad2d_classes[kind], options);
}

// ---- Upsampling ---------------------------------------------------------------------------------

typedef struct upsample {
    talc_module base;
    talc_upsample2d_options options;
} upsample;

static bool upsample_init(talc_module *module, const void *options)
{
    if (talc_operand_missing("Upsample", "options", options) || !talc_upsample2d_check(options))
        return false;
    ((upsample *)module)->options = *(const talc_upsample2d_options *)options;
    return true;
}

static talc_tensor *upsample_forward(talc_module *module, talc_tensor *x)
{
    return talc_upsample2d(x, &((upsample *)module)->options);
}

static const talc_module_class upsample_class = {
    .name = "Upsample",
    .size = sizeof(upsample),
    .init = upsample_init,
    .forward = upsample_forward,
};

talc_module *talc_nn_upsample(const talc_upsample2d_options *options)
{
    return talc_module_new(&upsample_class, options);
}

// ---- Channel shuffle ----------------------------------------------------------------------------

typedef struct channel_shuffle {
    talc_module base;
    int64_t groups;
} channel_shuffle;

static bool channel_shuffle_init(talc_module *module, const void *options)
{
    const int64_t groups = *(const int64_t *)options;
    ((channel_shuffle *)module)->groups = groups;
    return talc_layer_positive(module, "groups", groups);
}

static talc_tensor *channel_shuffle_forward(talc_module *module, talc_tensor *x)
{
    return talc_channel_shuffle(x, ((channel_shuffle *)module)->groups);
}

static const talc_module_class channel_shuffle_class = {
    .name = "ChannelShuffle",
    .size = sizeof(channel_shuffle),
    .init = channel_shuffle_init,
    .forward = channel_shuffle_forward,
};

talc_module *talc_nn_channel_shuffle(int64_t groups)
{
    return talc_module_new(&channel_shuffle_class, &groups);
}

// ---- Unflatten ----------------------------------------------------------------------------------

typedef struct unflatten {
    talc_module base;
    int dim;
    talc_dims dims;
    int64_t known; /* product of the extents that are not -1 */
    bool open;     /* one is */
} unflatten;

static bool unflatten_init(talc_module *module, const void *options)
{
    unflatten *self = (unflatten *)module;
    const unflatten *given = options;
    self->dim = given->dim;
    self->dims = given->dims;
    self->known = 1;
    bool right = true;
    char text[TALC_DIMS_TEXT];
    if (self->dims.rank < 1 || self->dims.rank > TALC_MAX_RANK) {
        talc_fail(TALC_BAD_SHAPE, "Unflatten: shape has rank %d, needs 1 to %d", self->dims.rank,
                  TALC_MAX_RANK);
        return false;
    }
    for (int i = 0; i < self->dims.rank; i++) {
        const int64_t extent = self->dims.dim[i];
        right = right && (extent >= 0 ? talc_multiply(self->known, extent, &self->known)
                                      : extent == -1 && !self->open);
        self->open = self->open || extent == -1;
    }
    if (!right || (self->open && self->known == 0))
        talc_fail(
            TALC_BAD_SHAPE,
            "Unflatten: shape %s is of no dimension: extents are at least 0, of which one may be "
            "-1 beside others of at least 1",
            talc_dims_text(self->dims, text));
    return !talc_failed();
}

/* x's shape with the dimension replaced; reshape checks the rest. */
static talc_tensor *unflatten_forward(talc_module *module, talc_tensor *x)
{
    const unflatten *self = (unflatten *)module;
    int axis;
    char text[TALC_DIMS_TEXT], to[TALC_DIMS_TEXT];
    if (talc_operand_missing("Unflatten", "x", x) ||
        talc_shape_dim("Unflatten", self->dim, x->rank, &axis) != TALC_OK)
        return NULL;
    talc_dims dims = { .rank = x->rank - 1 + self->dims.rank };
    const int64_t known = self->known, count = x->dims[axis];
    if (dims.rank <= TALC_MAX_RANK && (self->open ? count % known == 0 : known == count)) {
        for (int i = 0; i < dims.rank; i++) {
            const int inner = i - axis;
            dims.dim[i] = inner < 0                   ? x->dims[i]
                          : inner >= self->dims.rank  ? x->dims[i - self->dims.rank + 1]
                          : self->dims.dim[inner] < 0 ? count / known
                                                      : self->dims.dim[inner];
        }
        return talc_reshape(x, dims);
    }
    talc_fail(TALC_BAD_SHAPE, "Unflatten: dimension %d of x %s, %" PRId64 ", does not become %s",
              axis, talc_dims_text(talc_dims_of(x), text), count, talc_dims_text(self->dims, to));
    return NULL;
}

static const talc_module_class unflatten_class = {
    .name = "Unflatten",
    .size = sizeof(unflatten),
    .init = unflatten_init,
    .forward = unflatten_forward,
};

talc_module *talc_nn_unflatten(int dim, talc_dims dims)
{
    return talc_module_new(&unflatten_class, &(unflatten){ .dim = dim, .dims = dims });
}
