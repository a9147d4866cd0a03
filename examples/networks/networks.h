/* Networks by name: `talc run NAME`, `talc summary NAME` and their like take them from here.
 *
 * Paths of parameters are those of torchvision's model of the same name, where it has one, and else
 * those of the PyTorch reference in tools/torch/networks.py, so that a state_dict of either loads
 * unchanged. To add a network, write a file whose last lines are a table of `network` rows, and
 * list the table in networks.c. */
#ifndef TALC_EXAMPLES_NETWORKS_H
#define TALC_EXAMPLES_NETWORKS_H

#include <talc/talc.h>

typedef struct network {
    const char *name; /* "resnet18" */
    const char *what; /* where it comes from */
    struct {
        int64_t channels, height, width;
    } image; /* that it is made for; most take other heights and widths */
    int64_t classes;
    /* Makes it, in train mode, on the CPU, with PyTorch's default initialisation. */
    talc_module *(*make)(const void *config, int64_t channels, int64_t classes);
    const void *config; /* of make */
} network;

/* Zero, or NULL for it all: the network's own. */
typedef struct network_options {
    int64_t channels, classes;
} network_options;

/* The i-th network; NULL after the last. */
const network *network_at(int i);

/* The network of that name. Error: there is none; the message lists those that there are. */
const network *network_find(const char *name);

/* A new module that the caller frees. Errors: those of network_find, no memory, counts below 1. */
talc_module *network_new(const char *name, const network_options *options);

#endif
