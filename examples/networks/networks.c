#include "networks.h"

#include "families.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const network *const families[] = {
    lenet_networks,     alexnet_networks,    vgg_networks,        resnet_networks,
    resnet20_networks,  squeezenet_networks, mobilenet_networks,  efficientnet_networks,
    googlenet_networks, densenet_networks,   shufflenet_networks, regnet_networks,
    unet_networks,      vit_networks
};

const network *network_at(int i)
{
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const network *row = families[f]; row->name != NULL; row++)
            if (i-- == 0)
                return row;
    return NULL;
}

const network *network_find(const char *name)
{
    char names[800] = "";
    const network *row;
    for (int i = 0; name != NULL && (row = network_at(i)) != NULL; i++) {
        if (strcmp(row->name, name) == 0)
            return row;
        const size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "", row->name);
    }
    talc_fail(TALC_NOT_FOUND, "there is no network '%s'; there are %s",
              name == NULL ? "" : TALC_SHOWN(name), names);
    return NULL;
}

talc_module *network_new(const char *name, const network_options *options)
{
    const network_options given = options == NULL ? (network_options){ 0 } : *options;
    const network *row = network_find(name);
    if (row == NULL)
        return NULL;
    const int64_t channels = given.channels == 0 ? row->image.channels : given.channels;
    const int64_t classes = given.classes == 0 ? row->classes : given.classes;
    if (channels < 1 || classes < 1) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: %" PRId64 " channels and %" PRId64 " classes must be at least 1", name,
                  channels, classes);
        return NULL;
    }
    talc_module *made = row->make(row->config, channels, classes);
    if (talc_failed()) {
        talc_module_free(made);
        return NULL;
    }
    return made;
}
