/* The tables that networks.c lists, each ending with a row without a name. */
#ifndef TALC_EXAMPLES_FAMILIES_H
#define TALC_EXAMPLES_FAMILIES_H

#include <talc/networks.h>

extern const talc_network lenet_networks[], alexnet_networks[], vgg_networks[], resnet_networks[],
    resnet20_networks[], squeezenet_networks[], mobilenet_networks[], efficientnet_networks[],
    googlenet_networks[], densenet_networks[], shufflenet_networks[], regnet_networks[],
    convnext_networks[], unet_networks[], dcgan_networks[], vit_networks[];

#endif
