#include <talc/networks.h>

#include "families.h"

#include <pthread.h>
#include <stdatomic.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const talc_network *const families[] = {
    lenet_networks,     alexnet_networks,    vgg_networks,        resnet_networks,
    resnet20_networks,  squeezenet_networks, mobilenet_networks,  efficientnet_networks,
    googlenet_networks, densenet_networks,   shufflenet_networks, regnet_networks,
    convnext_networks,  unet_networks,       dcgan_networks,      vit_networks
};

static const char *const WHO = "network_add";

/* Those that were added. Who reads takes no lock. */
static const talc_network *added[TALC_NETWORKS_ADDED];
static atomic_int added_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const talc_network *talc_network_at(int i)
{
    if (i < 0)
        return NULL;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const talc_network *row = families[f]; row->name != NULL; row++)
            if (i-- == 0)
                return row;
    return i < atomic_load_explicit(&added_count, memory_order_acquire) ? added[i] : NULL;
}

static const talc_network *named(const char *name)
{
    const talc_network *row = NULL;
    for (int i = 0; name != NULL && (row = talc_network_at(i)) != NULL; i++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

const talc_network *talc_network_find(const char *name)
{
    char names[800] = "";
    const talc_network *row = named(name);
    if (row != NULL)
        return row;
    for (int i = 0; (row = talc_network_at(i)) != NULL; i++) {
        const size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "", row->name);
    }
    talc_fail(TALC_NOT_FOUND, "there is no network '%s'; there are %s",
              name == NULL ? "" : TALC_SHOWN(name), names);
    return NULL;
}

static talc_module *make(const talc_network *row, int64_t channels, int64_t classes, uint64_t seed)
{
    const talc_generator before = talc_generator_get();
    if (seed != 0)
        talc_manual_seed(seed);
    talc_module *made = row->make(row->config, channels, classes);
    if (made == NULL && !talc_failed())
        talc_fail(TALC_BAD_ARGUMENT, "%s: make gave no module and raised no failure", row->name);
    if (talc_failed()) {
        talc_module_free(made);
        made = NULL;
    }
    if (seed != 0)
        talc_generator_set(before);
    return made;
}

talc_module *talc_network_new(const char *name, const talc_network_options *options)
{
    const talc_network_options given = options == NULL ? (talc_network_options){ 0 } : *options;
    const talc_network *row = talc_network_find(name);
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
    return make(row, channels, classes, given.seed);
}

// ---- Networks of one's own ----------------------------------------------------------------------

static bool is_name(const char *name)
{
    static const char taken[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return name[0] != '\0' && name[0] != '-' && name[strspn(name, taken)] == '\0';
}

/* What is missing or wrong with a network by itself. */
static const char *fault_of(const talc_network *n)
{
    if (n->name == NULL || !is_name(n->name))
        return "a name has letters, digits, _ and -, and does not begin with -";
    if (n->what == NULL)
        return "it does not say what it is";
    if (n->make == NULL)
        return "it has no function 'make'";
    if (n->image.channels < 1 || n->image.height < 1 || n->image.width < 1 || n->classes < 1)
        return "channels, height, width and classes must be at least 1";
    return NULL;
}

static bool add_locked(const talc_network *network)
{
    const int count = atomic_load(&added_count);
    if (named(network->name) != NULL)
        talc_fail(TALC_BAD_ARGUMENT, "%s: there is a network '%s' already", WHO, network->name);
    else if (count == TALC_NETWORKS_ADDED)
        talc_fail(TALC_UNSUPPORTED, "%s: %d were added already, the most there may be", WHO, count);
    if (talc_failed())
        return false;
    added[count] = network;
    atomic_store_explicit(&added_count, count + 1, memory_order_release);
    return true;
}

bool talc_network_add(const talc_network *network)
{
    if (talc_failed())
        return false;
    if (network == NULL) {
        talc_fail(TALC_NULL_ARGUMENT, "%s: network is NULL", WHO);
        return false;
    }
    const char *fault = fault_of(network);
    if (fault != NULL) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: network '%s': %s", WHO,
                  network->name == NULL ? "" : TALC_SHOWN(network->name), fault);
        return false;
    }
    pthread_mutex_lock(&lock);
    const bool done = add_locked(network);
    pthread_mutex_unlock(&lock);
    return done;
}
