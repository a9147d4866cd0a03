/// The options of a convolution as command line arguments; `talc conv2d` and `talc explain` share
/// them.
#ifndef TALC_TOOLS_CLI_CONV2D_ARGUMENTS_H
#define TALC_TOOLS_CLI_CONV2D_ARGUMENTS_H

#include "tools/cli/tool.h"

typedef struct conv2d_arguments {
    talc_conv2d_options options; ///< as given; zero where not
    bool shaped;                 ///< an option other than --algorithm was given
} conv2d_arguments;

/// argp child for --stride, --padding, --padding-mode, --dilation, --groups, --activation and
/// --algorithm; its input is a conv2d_arguments.
extern const struct argp conv2d_argp;

#endif
