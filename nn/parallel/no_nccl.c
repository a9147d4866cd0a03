#include "nn/parallel/transport.h"

const talc_transport *const talc_transport_nccl = NULL;
