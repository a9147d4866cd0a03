/// What the page of `talc show` knows of a convolution, as tables that it looks up.
#ifndef TALC_TOOLS_SHOW_SHOW_H
#define TALC_TOOLS_SHOW_SHOW_H

#include "tools/cli/tool.h"

/// The texts of the page before its first output, between that and the data, and after the data:
/// made by embed.py when talc is built.
extern const unsigned char *const show_page[3];

/// The three directions of a convolution: its arrays, the terms and matrix product of each, who
/// computes what, and what to call. Arrays of numbers go into `tables`, each once, and are referred
/// to by their place there. NULL with a failure.
json_t *show_variant(const talc_conv2d_problem *problem, const talc_trace_options *options,
                     json_t *tables);

/// Cells that the page draws for the largest of the directions, and FMAs of one.
double show_cells(const talc_conv2d_problem *problem);
double show_fmas(const talc_conv2d_problem *problem);

#endif
