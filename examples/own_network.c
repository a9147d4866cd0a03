/// A network of one's own as a shared object, which commands take by its name:
///
///     talc summary --load own_network.so own-net
///     talc run --load own_network.so own-net
#include <talc/networks.h>

static talc_module *make(const void *config, int64_t channels, int64_t classes)
{
    (void)config;
    return TALC_SEQUENTIAL(
        talc_nn_conv2d(&(talc_conv2d_layer){
            .in_channels = channels, .out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 } }),
        talc_nn_relu(), talc_nn_adaptive_avg_pool2d(1, 1), talc_nn_flatten(),
        talc_nn_linear(&(talc_linear_layer){ .in_features = 4, .out_features = classes }));
}

static const talc_network own_net = {
    .name = "own-net",
    .what = "one convolution and a classifier",
    .image = { 3, 16, 16 },
    .classes = 5,
    .make = make,
};

const talc_loaded_object talc_loaded = { TALC_LOADED_VERSION, &own_net, NULL };
