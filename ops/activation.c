#include "ops/activation.h"

const char *talc_activation_name(talc_activation activation)
{
    static const char *const names[] = { "none", "relu", "sigmoid", "tanh" };
    return (unsigned)activation < TALC_ACTIVATION_COUNT ? names[activation] : "?";
}
