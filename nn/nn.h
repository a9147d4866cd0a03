/// Modules and layers.
#ifndef TALC_NN_NN_H
#define TALC_NN_NN_H

#include "fuse.h"
#include "graph.h"
#include "layers.h"
#include "module.h"

#endif
