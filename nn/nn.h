/// Modules and layers.
#ifndef TALC_NN_NN_H
#define TALC_NN_NN_H

#include "checkpoint.h"
#include "confusion.h"
#include "data/data.h"
#include "finite.h"
#include "fuse.h"
#include "graph.h"
#include "info.h"
#include "initialise.h"
#include "layers.h"
#include "module.h"
#include "optimizer.h"
#include "parallel.h"
#include "schedule.h"
#include "step.h"

#endif
