/// How figures are written, as strokes. Private to nn/data.
#ifndef TALC_NN_DATA_DIGIT_FIGURES_H
#define TALC_NN_DATA_DIGIT_FIGURES_H

enum { TALC_STROKES_MAX = 4, TALC_FIGURE_VARIANTS = 4 };

/// A line from (x, y) to (rx, ry), or an arc of the ellipse around (x, y) with radii rx and ry.
/// Turns: 0 is to the right, 0.25 below, as y grows downwards; a line has from = to.
typedef struct talc_stroke {
    double x, y, rx, ry, from, to;
} talc_stroke;

/// In a square of side 1; strokes after the last are zero.
typedef struct talc_figure {
    talc_stroke strokes[TALC_STROKES_MAX];
} talc_figure;

/// Ways to write each of 0 .. 9.
extern const talc_figure talc_figures[10][TALC_FIGURE_VARIANTS];

#endif
