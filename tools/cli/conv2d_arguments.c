#include "tools/cli/conv2d_arguments.h"

#include <string.h>

enum {
    KEY_STRIDE = 's',
    KEY_PADDING = 'p',
    KEY_GROUPS = 'g',
    KEY_ALGORITHM = 'a',
    KEY_PADDING_MODE = 2000,
    KEY_DILATION,
    KEY_ACTIVATION
};

static const struct argp_option options[] = {
    { NULL, 0, NULL, 0, "Convolution (a single number stands for both axes):", 2 },
    { "stride", KEY_STRIDE, "H,W", 0, "stride of the windows (default 1)", 2 },
    { "padding", KEY_PADDING, "PAD", 0, "H,W, or TOP,LEFT,BOTTOM,RIGHT, or same (default 0)", 2 },
    { "padding-mode", KEY_PADDING_MODE, "MODE", 0, "zeros, reflect, replicate or circular", 2 },
    { "dilation", KEY_DILATION, "H,W", 0, "spacing of the kernel's taps (default 1)", 2 },
    { "groups", KEY_GROUPS, "N", 0, "groups of channels (default 1)", 2 },
    { "activation", KEY_ACTIVATION, "NAME", 0,
      "none, relu, sigmoid, tanh, relu6, hardsigmoid, hardswish, silu, gelu or leaky_relu", 2 },
    { "algorithm", KEY_ALGORITHM, "NAME", 0, "use this algorithm, or fail", 2 },
    { 0 },
};

static void parse_padding(struct argp_state *state, const char *text, talc_conv2d_options *o)
{
    int64_t numbers[4];
    const int count = tool_numbers(text, 4, numbers);
    o->padding_same = strcmp(text, "same") == 0;
    if (o->padding_same)
        return;
    if (count == 0 || count == 3)
        tool_usage(
            state,
            "--padding: '%s' is not a number, a pair H,W, four numbers TOP,LEFT,BOTTOM,RIGHT "
            "or same",
            TALC_SHOWN(text));
    o->padding[0] = numbers[0];
    o->padding[1] = numbers[count == 1 ? 0 : 1];
    for (int i = 0; i < 2; i++)
        o->padding_end[i] = count < 4 ? 0 : numbers[2 + i] == 0 ? TALC_ZERO : numbers[2 + i];
}

/* The number below `count` whose name the text is; a usage error otherwise. */
static int parse_name(struct argp_state *state, const char *option, const char *text, int count,
                      const char *(*name_of)(int))
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, name_of(i)) == 0)
            return i;
    tool_usage(state, "%s: there is no '%s'", option, TALC_SHOWN(text));
    return 0;
}

static const char *mode_name(int mode)
{
    return talc_padding_mode_name((talc_padding_mode)mode);
}

static const char *activation_name(int activation)
{
    return talc_activation_name((talc_activation)activation);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    conv2d_arguments *self = state->input;
    talc_conv2d_options *o = &self->options;
    switch (key) {
    case KEY_STRIDE:
        tool_pair(state, "--stride", argument, 1, o->stride);
        break;
    case KEY_PADDING:
        parse_padding(state, argument, o);
        break;
    case KEY_PADDING_MODE:
        o->padding_mode = (talc_padding_mode)parse_name(state, "--padding-mode", argument,
                                                        TALC_PADDING_MODE_COUNT, mode_name);
        break;
    case KEY_DILATION:
        tool_pair(state, "--dilation", argument, 1, o->dilation);
        break;
    case KEY_GROUPS:
        o->groups = tool_count(state, "--groups", argument, 1);
        break;
    case KEY_ACTIVATION:
        o->activation = (talc_activation)parse_name(state, "--activation", argument,
                                                    TALC_ACTIVATION_COUNT, activation_name);
        break;
    case KEY_ALGORITHM:
        o->algorithm = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    self->shaped = true;
    return 0;
}

const struct argp conv2d_argp = { .options = options, .parser = parse };
