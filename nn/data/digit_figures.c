#include "nn/data/digit_figures.h"

// clang-format off
#define LINE(x0, y0, x1, y1)        { x0, y0, x1, y1, 0, 0 }
#define ARC(x, y, rx, ry, from, to) { x, y, rx, ry, from, to }
#define FIGURE(...)                 { { __VA_ARGS__ } }

const talc_figure talc_figures[10][TALC_FIGURE_VARIANTS] = {
    { /* 0: round, narrow, wide, open at the top */
        FIGURE(ARC(.50, .50, .27, .40, 0, 1)),
        FIGURE(ARC(.50, .50, .18, .40, 0, 1)),
        FIGURE(ARC(.50, .50, .33, .36, 0, 1)),
        FIGURE(ARC(.50, .50, .25, .40, -.20, .72)),
    },
    { /* 1: a stroke, with a flag, with flag and foot, with a long flag */
        FIGURE(LINE(.50, .10, .50, .90)),
        FIGURE(LINE(.36, .25, .52, .10), LINE(.52, .10, .52, .90)),
        FIGURE(LINE(.36, .25, .52, .10), LINE(.52, .10, .52, .90), LINE(.33, .90, .70, .90)),
        FIGURE(LINE(.26, .38, .55, .10), LINE(.55, .10, .55, .90)),
    },
    { /* 2: angular, with a loop, with a straight neck, small head */
        FIGURE(ARC(.49, .32, .25, .22, .5, 1.08), LINE(.709, .426, .25, .88), LINE(.25, .88, .77, .88)),
        FIGURE(ARC(.49, .32, .25, .22, .5, 1.08), LINE(.709, .426, .38, .78), ARC(.32, .81, .09, .07, 0, 1), LINE(.36, .87, .80, .86)),
        FIGURE(ARC(.48, .35, .24, .25, .45, 1.05), LINE(.708, .427, .22, .90), LINE(.22, .90, .78, .90)),
        FIGURE(ARC(.47, .28, .20, .18, .5, 1.10), LINE(.632, .386, .24, .88), LINE(.24, .88, .80, .84)),
    },
    { /* 3: round, with a flat top, with a small head, wide open */
        FIGURE(ARC(.46, .30, .23, .20, .55, 1.25), ARC(.46, .70, .26, .20, .75, 1.45)),
        FIGURE(LINE(.26, .11, .72, .11), LINE(.72, .11, .46, .42), ARC(.46, .66, .27, .24, .75, 1.42)),
        FIGURE(ARC(.45, .25, .19, .15, .55, 1.25), ARC(.45, .65, .27, .25, .75, 1.42)),
        FIGURE(ARC(.40, .31, .28, .21, .65, 1.25), ARC(.40, .71, .30, .19, .75, 1.35)),
    },
    { /* 4: closed, open, open with a slanted stem, closed and small */
        FIGURE(LINE(.62, .10, .20, .62), LINE(.20, .62, .82, .62), LINE(.62, .10, .62, .92)),
        FIGURE(LINE(.30, .12, .25, .57), LINE(.25, .57, .80, .57), LINE(.66, .28, .66, .92)),
        FIGURE(LINE(.34, .12, .22, .52), LINE(.22, .52, .78, .52), LINE(.72, .14, .58, .92)),
        FIGURE(LINE(.60, .12, .27, .52), LINE(.27, .52, .74, .52), LINE(.60, .12, .60, .90)),
    },
    { /* 5: angular, with a large bowl, slanted, with a short roof */
        FIGURE(LINE(.70, .12, .32, .12), LINE(.32, .12, .298, .486), ARC(.48, .65, .25, .24, .62, 1.42)),
        FIGURE(LINE(.68, .11, .34, .11), LINE(.34, .11, .30, .44), ARC(.46, .64, .28, .27, .65, 1.38)),
        FIGURE(LINE(.78, .14, .42, .12), LINE(.42, .12, .323, .476), ARC(.46, .66, .24, .23, .65, 1.40)),
        FIGURE(LINE(.60, .13, .35, .13), LINE(.35, .13, .33, .44), ARC(.45, .65, .25, .24, .67, 1.45)),
    },
    { /* 6: round, with a straight stem, narrow, with a small bowl */
        FIGURE(ARC(.50, .68, .24, .22, 0, 1), ARC(.68, .66, .42, .56, .5, .74)),
        FIGURE(ARC(.50, .69, .23, .21, 0, 1), LINE(.62, .10, .30, .58)),
        FIGURE(ARC(.50, .68, .18, .22, 0, 1), ARC(.64, .66, .32, .56, .5, .72)),
        FIGURE(ARC(.50, .73, .20, .17, 0, 1), ARC(.66, .70, .36, .60, .5, .74)),
    },
    { /* 7: plain, with a bar, with a hook, curved */
        FIGURE(LINE(.22, .13, .77, .13), LINE(.77, .13, .42, .90)),
        FIGURE(LINE(.22, .13, .77, .13), LINE(.77, .13, .42, .90), LINE(.40, .50, .74, .50)),
        FIGURE(LINE(.23, .27, .23, .13), LINE(.23, .13, .77, .13), LINE(.77, .13, .45, .90)),
        FIGURE(LINE(.22, .14, .76, .14), ARC(.96, .88, .50, .76, .5, .684)),
    },
    { /* 8: round, narrow, with a small head, crossed */
        FIGURE(ARC(.50, .30, .21, .19, 0, 1), ARC(.50, .69, .25, .20, 0, 1)),
        FIGURE(ARC(.50, .29, .15, .19, 0, 1), ARC(.50, .69, .18, .21, 0, 1)),
        FIGURE(ARC(.50, .25, .15, .14, 0, 1), ARC(.50, .64, .24, .25, 0, 1)),
        FIGURE(ARC(.50, .28, .22, .18, .4, 1.1), LINE(.322, .386, .70, .61), LINE(.678, .386, .30, .61), ARC(.50, .70, .22, .20, -.07, .57)),
    },
    { /* 9: with a straight stem, curved, narrow, with a large head */
        FIGURE(ARC(.50, .33, .23, .22, 0, 1), LINE(.73, .33, .68, .90)),
        FIGURE(ARC(.50, .33, .23, .22, 0, 1), ARC(.32, .34, .41, .56, 0, .24)),
        FIGURE(ARC(.50, .31, .17, .20, 0, 1), LINE(.67, .31, .63, .90)),
        FIGURE(ARC(.48, .36, .26, .25, 0, 1), ARC(.40, .38, .34, .52, 0, .22)),
    },
};
