#include "ops/activation.h"

#include "ops/elementwise_table.h"
#include "ops/gradient.h"

static const struct {
    const char *name;
    int saves;
} rows[] = { { "none", TALC_SAVES_NOTHING },
#define TALC_ROW(constant, name, numbers, with, value, saves, gradient) { #name, saves },
             TALC_ACTIVATION_TABLE(TALC_ROW)
#undef TALC_ROW
};

_Static_assert(sizeof rows / sizeof *rows == TALC_ACTIVATION_COUNT, "each has a row");
_Static_assert(TALC_RELU + 1 == (int)TALC_ACTIVATION_RELU &&
                   TALC_LEAKY_RELU + 1 == (int)TALC_ACTIVATION_LEAKY_RELU,
               "in the same order");

const char *talc_activation_name(talc_activation activation)
{
    return (unsigned)activation < TALC_ACTIVATION_COUNT ? rows[activation].name : "?";
}

bool talc_activation_gradient_from_result(talc_activation activation)
{
    return (unsigned)activation < TALC_ACTIVATION_COUNT && rows[activation].saves != TALC_SAVES_A;
}

/* The number that its row of the elementwise table takes. */
static double number_of(talc_activation activation)
{
    return activation == TALC_ACTIVATION_LEAKY_RELU ? TALC_ACTIVATION_NUMBER : 0;
}

talc_tensor *talc_activated(talc_activation activation, talc_tensor *x)
{
    return x == NULL || activation == TALC_ACTIVATION_NONE
               ? x
               : talc_unary((talc_unary_function)(activation - 1), x, number_of(activation), 0);
}

talc_tensor *talc_activation_gradient(talc_activation activation, const talc_tensor *dy,
                                      const talc_tensor *y)
{
    return activation == TALC_ACTIVATION_NONE
               ? (talc_tensor *)dy
               : talc_unary_gradient((talc_unary_function)(activation - 1),
                                     (const double[2]){ number_of(activation), 0 }, dy, y);
}
