/* What most of the networks are made of. Each function returns a new module; NULL, with talc's
 * failure, when it cannot. */
#ifndef TALC_EXAMPLES_LAYERS_H
#define TALC_EXAMPLES_LAYERS_H

#include <talc/talc.h>

/* A square kernel, padded by half of it, without a bias: a norm follows, which has one. */
static inline talc_module *conv(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                                int64_t groups)
{
    return talc_nn_conv2d(&(talc_conv2d_layer){ .in_channels = in,
                                                .out_channels = out,
                                                .kernel = { kernel, kernel },
                                                .stride = { stride, stride },
                                                .padding = { kernel / 2, kernel / 2 },
                                                .groups = groups,
                                                .no_bias = true });
}

/* The same with a bias. */
static inline talc_module *conv_bias(int64_t in, int64_t out, int64_t kernel, int64_t stride)
{
    return talc_nn_conv2d(&(talc_conv2d_layer){ .in_channels = in,
                                                .out_channels = out,
                                                .kernel = { kernel, kernel },
                                                .stride = { stride, stride },
                                                .padding = { kernel / 2, kernel / 2 } });
}

static inline talc_module *norm(int64_t channels)
{
    return talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ .channels = channels });
}

/* A convolution, its norm and an activation. */
static inline talc_module *conv_norm(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                                     int64_t groups, talc_module *activation)
{
    return TALC_SEQUENTIAL(conv(in, out, kernel, stride, groups), norm(out), activation);
}

static inline talc_module *linear(int64_t in, int64_t out)
{
    return talc_nn_linear(&(talc_linear_layer){ .in_features = in, .out_features = out });
}

static inline talc_module *max_pool(int64_t kernel, int64_t stride, int64_t padding)
{
    return talc_nn_max_pool2d(&(talc_pool2d_options){ .kernel = { kernel, kernel },
                                                      .stride = { stride, stride },
                                                      .padding = { padding, padding } });
}

/* The mean of each channel and the classifier on it. */
static inline void add_head(talc_module *net, const char *name, int64_t features, int64_t classes)
{
    talc_module_add(net, "avgpool", talc_nn_adaptive_avg_pool2d(1, 1));
    talc_module_add(net, "flatten", talc_nn_flatten());
    talc_module_add(net, name, linear(features, classes));
}

/* A module with a shortcut:
 *
 *     y = activation(body(x) + shortcut(x))
 *     or activation(concat(shortcut(x), body(x))), along the channels
 *
 * The body is the children of block_add, a chain in that order; the shortcut is block_shortcut's
 * child, or x itself. */
typedef struct block_options {
    talc_activation activation;
    bool concat;
} block_options;

talc_module *block_new(block_options options);
void block_add(talc_module *block, const char *name, talc_module *child);
void block_shortcut(talc_module *block, const char *name, talc_module *child);

#endif
