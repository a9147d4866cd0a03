/// Networks of examples/networks, for tables of functions.
#ifndef TALC_TESTS_NETWORKS_H
#define TALC_TESTS_NETWORKS_H

#include <talc/networks.h>

static inline talc_module *lenet_new(void)
{
    return talc_network_new("lenet", NULL);
}

static inline talc_module *resnet20_a(void)
{
    return talc_network_new("resnet20", NULL);
}

static inline talc_module *resnet20_b(void)
{
    return talc_network_new("resnet20-b", NULL);
}

static inline talc_module *densenet121_new(void)
{
    return talc_network_new("densenet121", NULL);
}

#endif
