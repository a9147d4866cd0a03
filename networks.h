/// Networks by name, as a library of its own beside talc: `pkg-config --libs talc_networks`. `talc
/// run NAME`, `talc summary NAME` and their like take them from here.
///
///     talc_module *net = talc_network_new("resnet18", &(talc_network_options){ .classes = 10 });
///
/// Paths of parameters are those of torchvision's model of the same name, where it has one, and
/// else those of the PyTorch reference in tools/torch/networks.py, so that a state_dict of either
/// loads unchanged.
///
/// A network of one's own, and algorithms of one's own, come to the talc command by `--load
/// FILE.so`: a shared object that defines one symbol, `talc_loaded`.
#ifndef TALC_NETWORKS_H
#define TALC_NETWORKS_H

#include "talc.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_network {
    const char *name; ///< "resnet18"
    const char *what; ///< where it comes from
    struct {
        int64_t channels, height, width;
    } image; ///< that it is made for; most take other heights and widths
    int64_t classes;
    /// Makes it, in train mode, on the CPU, with PyTorch's default initialisation. NULL with a
    /// failure.
    talc_module *(*make)(const void *config, int64_t channels, int64_t classes);
    const void *config; ///< of make
} talc_network;

/// Zero, or NULL for it all: the network's own.
typedef struct talc_network_options {
    int64_t channels, classes;
    uint64_t seed; ///< of the parameters; this thread's generator is then as before; 0: it goes on
} talc_network_options;

/// The i-th network, those that were added last; NULL after the last.
TALC_API const talc_network *talc_network_at(int i);

/// The network of that name. Error: there is none; the message lists those that there are.
TALC_API const talc_network *talc_network_find(const char *name);

/// A new module that the caller frees. Errors: those of talc_network_find, no memory, counts below
/// 1, what `make` fails with, and a `make` that gives NULL without a failure.
TALC_API talc_module *talc_network_new(const char *name, const talc_network_options *options);

enum { TALC_NETWORKS_ADDED = 32 };

/// Adds a network of one's own, so that it is found by its name; `network` lasts as long as the
/// process. Any thread may call it. Errors: NULL, no name, one of characters other than letters,
/// digits, _ and -, no `what` or `make`, an image or classes below 1, a name that is taken, more
/// than TALC_NETWORKS_ADDED.
TALC_API bool talc_network_add(const talc_network *network);

// ---- Shared objects of one's own ----------------------------------------------------------------

/// Of the structs that a shared object has in common with its loader; changes whenever it has to be
/// compiled anew.
enum { TALC_LOADED_VERSION = 1 };

/// What `talc COMMAND --load FILE.so` reads of the file:
///
///     const talc_loaded_object talc_loaded = { TALC_LOADED_VERSION, &my_network, NULL };
///
/// The object links talc as a shared library, which the command then is built with too, and stays
/// loaded.
typedef struct talc_loaded_object {
    int version;                 ///< TALC_LOADED_VERSION
    const talc_network *network; ///< which is added; NULL: none
    /// Called once, first: registers algorithms (talc_algorithm_register), say. False with a
    /// failure, which ends the command. NULL: there is nothing to do.
    bool (*start)(void);
} talc_loaded_object;

/// Defined by the shared object, and not by the library.
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const talc_loaded_object talc_loaded;

TALC_END_DECLARATIONS

#endif
