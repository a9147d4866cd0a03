#include "tools/check_svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- Keeping an outcome -------------------------------------------------------------------------------------

static bool worth_more(const talc_check_outcome *outcome, const check_picture *picture)
{
    if (outcome->shares == NULL || (picture->kept && !picture->outcome.passed))
        return false;
    return !picture->kept || !outcome->passed || outcome->share > picture->outcome.share;
}

void check_picture_observe(void *context, const talc_check_outcome *outcome)
{
    check_picture *self = context;
    if (!worth_more(outcome, self))
        return;
    int64_t count = 1;
    for (int i = 0; i < outcome->rank; i++)
        count *= outcome->dims[i];
    float *shares = count > 0 ? malloc((size_t)count * sizeof *shares) : NULL;
    if (shares == NULL)
        return;
    memcpy(shares, outcome->shares, (size_t)count * sizeof *shares);
    free(self->shares);
    self->shares = shares;
    self->count = count;
    self->kept = true;
    self->outcome = *outcome;
    snprintf(self->op, sizeof self->op, "%s", outcome->op);
    snprintf(self->algorithm, sizeof self->algorithm, "%s", outcome->algorithm);
    snprintf(self->device, sizeof self->device, "%s", outcome->device);
    snprintf(self->problem, sizeof self->problem, "%s", outcome->problem);
    snprintf(self->output, sizeof self->output, "%s", outcome->output);
    snprintf(self->place, sizeof self->place, "%s", outcome->place);
}

void check_picture_free(check_picture *self)
{
    free(self->shares);
    self->shares = NULL;
}

// ---- Scale: logarithmic, from LOWEST to a power of ten that is at least the bound -----------------------------

enum { MOST_CELLS = 256, BLUES = 32, REDS = 12, LEVELS = BLUES + REDS };

/* What is special about an element comes after the levels. */
enum { LEVEL_ZERO = LEVELS, LEVEL_INFINITE, LEVEL_NONE, LEVEL_COUNT };

static const double LOWEST = -3; /* log10 */

/* Largest power of ten on the scale. */
static double scale_top(const check_picture *self)
{
    double worst = 1;
    for (int64_t i = 0; i < self->count; i++)
        if (isfinite(self->shares[i]) && self->shares[i] > worst)
            worst = self->shares[i];
    const double top = ceil(log10(worst) - 1e-9);
    return worst > 1 ? fmin(fmax(top, 1), 12) : 0;
}

static int level_of(double share, double top)
{
    if (isnan(share))
        return LEVEL_NONE;
    if (isinf(share))
        return LEVEL_INFINITE;
    if (share <= 0)
        return LEVEL_ZERO;
    const double power = log10(share);
    if (share <= 1) {
        const int level = (int)((power - LOWEST) / -LOWEST * BLUES);
        return level < 0 ? 0 : level >= BLUES ? BLUES - 1 : level;
    }
    const int level = BLUES + (int)(power / fmax(top, 1) * REDS);
    return level >= LEVELS ? LEVELS - 1 : level;
}

static int mix(int from, int to, double part)
{
    return (int)lround(from + (to - from) * part);
}

/* Within the bound from pale to dark blue, beyond it from orange to dark red. */
static void put_colour(FILE *file, int level)
{
    static const char *const special[] = { "#ffffff", "#7a0177", "#d4d4d4" };
    if (level >= LEVELS) {
        fputs(special[level - LEVELS], file);
        return;
    }
    if (level < BLUES) {
        const double part = (level + 0.5) / BLUES;
        fprintf(file, "#%02x%02x%02x", mix(225, 8, part), mix(236, 48, part), mix(247, 107, part));
        return;
    }
    const double part = (level - BLUES + 0.5) / REDS;
    fprintf(file, "#%02x%02x%02x", mix(253, 127, part), mix(141, 0, part), mix(60, 0, part));
}

// ---- SVG ----------------------------------------------------------------------------------------------------

static void put_escaped(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else
            fputc((unsigned char)*text < ' ' ? ' ' : *text, file);
    }
}

/* `anchor` is start, middle or end. */
static void put_text(FILE *file, double x, double y, const char *anchor, const char *more,
                     const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more);
    put_escaped(file, text);
    fputs("</text>\n", file);
}

static void put_line(FILE *file, double x1, double y1, double x2, double y2, const char *more)
{
    fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#333\"%s/>\n", x1,
            y1, x2, y2, more);
}

static void put_box(FILE *file, double x, double y, double w, double h, int level, bool framed)
{
    fprintf(file, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"", x, y, w, h);
    put_colour(file, level);
    fprintf(file, "\"%s/>\n", framed ? " stroke=\"#333\"" : "");
}

static const char *const BOLD = " font-weight=\"bold\"", *const UPRIGHT = "";

/* A power of ten as people write it. */
static const char *decade(double power, char text[32])
{
    if (fabs(power) < 4.5)
        snprintf(text, 32, "%.*f", power < 0 ? (int)-power : 0, pow(10, power));
    else
        snprintf(text, 32, "1e%.0f", power);
    return text;
}

// ---- The plane ----------------------------------------------------------------------------------------------

typedef struct plane {
    int64_t H, W;       ///< of the output
    int64_t rows, cols; ///< of cells
    const float *shares;
    int64_t h, w; ///< of the worst element
    double x, y, cell_w, cell_h;
} plane;

static plane plane_of(const check_picture *self)
{
    const talc_check_outcome *o = &self->outcome;
    plane p = { .H = 1, .W = 1, .x = 78, .y = 128 };
    if (o->rank >= 1) {
        p.W = o->dims[o->rank - 1];
        p.w = o->where[o->rank - 1];
    }
    if (o->rank >= 2) {
        p.H = o->dims[o->rank - 2];
        p.h = o->where[o->rank - 2];
    }
    int64_t before = 0;
    for (int i = 0; i + 2 < o->rank; i++)
        before = before * o->dims[i] + o->where[i];
    p.shares = self->shares + before * p.H * p.W;
    p.rows = p.H < MOST_CELLS ? p.H : MOST_CELLS;
    p.cols = p.W < MOST_CELLS ? p.W : MOST_CELLS;
    const double element = fmin(400.0 / (double)p.W, 380.0 / (double)p.H);
    p.cell_w = fmax(element * (double)p.W, 40) / (double)p.cols;
    p.cell_h = fmax(element * (double)p.H, 40) / (double)p.rows;
    return p;
}

/* The largest share in a cell, NaN when none was compared. */
static double cell_share(const plane *p, int64_t row, int64_t col)
{
    double most = NAN;
    for (int64_t h = row * p->H / p->rows; h < (row + 1) * p->H / p->rows; h++)
        for (int64_t w = col * p->W / p->cols; w < (col + 1) * p->W / p->cols; w++)
            most = fmax(most, p->shares[h * p->W + w]);
    return most;
}

/* One path for each colour; neighbours in a row are one stroke of it. */
static void put_cells(FILE *file, const plane *p, const unsigned char *levels)
{
    fprintf(file, "<g transform=\"translate(%.2f %.2f) scale(%.6g %.6g)\">\n", p->x, p->y,
            p->cell_w, p->cell_h);
    for (int level = 0; level < LEVEL_COUNT; level++) {
        bool begun = false;
        for (int64_t row = 0; row < p->rows; row++)
            for (int64_t col = 0, run; col < p->cols; col += run) {
                const unsigned char *at = levels + row * p->cols + col;
                for (run = 1; col + run < p->cols && at[run] == at[0];)
                    run++;
                if (at[0] != level)
                    continue;
                if (!begun) {
                    fputs("<path shape-rendering=\"crispEdges\" fill=\"", file);
                    put_colour(file, level);
                    fputs("\" d=\"", file);
                }
                begun = true;
                fprintf(file, "M%" PRId64 " %" PRId64 "h%" PRId64 "v1h-%" PRId64 "z", col, row, run,
                        run);
            }
        if (begun)
            fputs("\"/>\n", file);
    }
    fputs("</g>\n", file);
}

/* A step of 1, 2 or 5 times a power of ten that gives at most five labels. */
static int64_t tick_step(int64_t extent)
{
    for (int64_t ten = 1;; ten *= 10)
        for (int i = 0; i < 3; i++) {
            const int64_t step = ten * (i == 0 ? 1 : i == 1 ? 2 : 5);
            if ((extent - 1) / step < 6)
                return step;
        }
}

static void put_plane_axes(FILE *file, const plane *p, int rank)
{
    const double width = p->cell_w * (double)p->cols, height = p->cell_h * (double)p->rows;
    char text[64];
    fprintf(file,
            "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"none\" "
            "stroke=\"#333\"/>\n",
            p->x, p->y, width, height);
    for (int64_t w = 0; w < p->W; w += tick_step(p->W)) {
        const double x = p->x + ((double)w + 0.5) * width / (double)p->W;
        put_line(file, x, p->y + height, x, p->y + height + 5, "");
        snprintf(text, sizeof text, "%" PRId64, w);
        put_text(file, x, p->y + height + 18, "middle", UPRIGHT, text);
    }
    for (int64_t h = 0; h < p->H && rank >= 2; h += tick_step(p->H)) {
        const double y = p->y + ((double)h + 0.5) * height / (double)p->H;
        put_line(file, p->x - 5, y, p->x, y, "");
        snprintf(text, sizeof text, "%" PRId64, h);
        put_text(file, p->x - 8, y + 4, "end", UPRIGHT, text);
    }
    put_text(file, p->x + width / 2, p->y + height + 36, "middle", UPRIGHT,
             rank == 4   ? "column w"
             : rank >= 2 ? "column"
                         : "element");
    if (rank < 2)
        return;
    snprintf(text, sizeof text, " transform=\"rotate(-90 %.1f %.1f)\"", 24.0, p->y + height / 2);
    put_text(file, 24, p->y + height / 2, "middle", text, rank == 4 ? "row h" : "row");
}

/* "y[1, 3, :, :]". */
static void name_plane(const check_picture *self, char *text, size_t room)
{
    const talc_check_outcome *o = &self->outcome;
    int used = snprintf(text, room, "%s%s", self->output, o->rank == 0 ? "" : "[");
    for (int i = 0; i < o->rank && used > 0 && (size_t)used < room; i++) {
        const char *after = i + 1 < o->rank ? ", " : "]";
        if (i + 2 < o->rank)
            used += snprintf(text + used, room - (size_t)used, "%" PRId64 "%s", o->where[i], after);
        else
            used += snprintf(text + used, room - (size_t)used, ":%s", after);
    }
}

static bool put_plane(FILE *file, const check_picture *self, double top)
{
    const plane p = plane_of(self);
    unsigned char *levels = malloc((size_t)(p.rows * p.cols));
    if (levels == NULL)
        return false;
    for (int64_t row = 0; row < p.rows; row++)
        for (int64_t col = 0; col < p.cols; col++)
            levels[row * p.cols + col] = (unsigned char)level_of(cell_share(&p, row, col), top);
    char name[200], text[300];
    name_plane(self, name, sizeof name);
    snprintf(text, sizeof text, "Share of the bound on %s", name);
    put_text(file, p.x, p.y - 24, "start", BOLD, text);
    if (p.rows < p.H || p.cols < p.W) {
        snprintf(text, sizeof text, "%" PRId64 " x %" PRId64 " elements; a cell shows its largest",
                 p.H, p.W);
        put_text(file, p.x, p.y - 8, "start", UPRIGHT, text);
    }
    put_cells(file, &p, levels);
    free(levels);
    put_plane_axes(file, &p, self->outcome.rank);
    const double x = p.x + ((double)p.w + 0.5) * p.cell_w * (double)p.cols / (double)p.W;
    const double y = p.y + ((double)p.h + 0.5) * p.cell_h * (double)p.rows / (double)p.H;
    fprintf(file,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"8\" fill=\"none\" stroke=\"#fff\" "
            "stroke-width=\"4\"/>\n<circle cx=\"%.1f\" cy=\"%.1f\" r=\"8\" fill=\"none\" "
            "stroke=\"#000\" stroke-width=\"1.5\"/>\n",
            x, y, x, y);
    return true;
}

// ---- The scale and the histogram ----------------------------------------------------------------------------

static const double BAR_X = 520, BAR_Y = 128, BAR_W = 16, BAR_H = 380;

/* Decades between labels, of which the bound has one. */
static int label_step(double top)
{
    return top == 0 ? 1 : top < 6 ? 2 : 4;
}

static double first_label(double top)
{
    return -floor(-LOWEST / label_step(top)) * label_step(top);
}

static void put_scale(FILE *file, double top)
{
    const double height = BAR_H / (top - LOWEST), right = BAR_X + BAR_W;
    char text[32];
    put_text(file, BAR_X, BAR_Y - 24, "start", BOLD, "Scale");
    for (int level = 0; level < (top > 0 ? LEVELS : BLUES); level++) {
        const bool blue = level < BLUES;
        const double from = blue ? LOWEST - LOWEST * level / BLUES : top * (level - BLUES) / REDS;
        const double part = blue ? -LOWEST / BLUES : top / REDS;
        put_box(file, BAR_X, BAR_Y + (top - from - part) * height, BAR_W, part * height + 0.3,
                level, false);
    }
    for (double power = first_label(top); power <= top; power += label_step(top)) {
        const double y = BAR_Y + (top - power) * height;
        put_line(file, right, y, right + 5, y, "");
        if (power != 0)
            put_text(file, right + 8, y + 4, "start", UPRIGHT, decade(power, text));
    }
    put_line(file, BAR_X - 5, BAR_Y + top * height, right + 5, BAR_Y + top * height,
             " stroke-width=\"2.5\"");
    put_text(file, right + 8, BAR_Y + top * height + 4, "start", BOLD, "1 = bound");
    static const char *const names[] = { "exact", "infinite", "not compared" };
    for (int i = 0; i < 3; i++) {
        const double x = BAR_X + 130.0 * i;
        put_box(file, x, BAR_Y + BAR_H + 52, 12, 12, LEVELS + i, true);
        put_text(file, x + 18, BAR_Y + BAR_H + 62, "start", UPRIGHT, names[i]);
    }
}

/* Two bins a decade; exact results stand before them, infinite shares behind. */
enum { MOST_BINS = 40 };

typedef struct histogram {
    int bins; ///< of the decades
    int64_t in[MOST_BINS], exact, infinite;
    int64_t most;
    double x, y, w, h, step; ///< of the drawing; step: width of a bin
} histogram;

static histogram histogram_of(const check_picture *self, double top)
{
    histogram g = { .bins = (int)(2 * (top - LOWEST)), .x = 680, .y = 128, .w = 300, .h = 380 };
    for (int64_t i = 0; i < self->count; i++) {
        const double share = self->shares[i];
        if (isnan(share))
            continue;
        int64_t *bin = share <= 0 ? &g.exact : &g.infinite;
        if (share > 0 && isfinite(share)) {
            /* The bound itself belongs to the bin below it. */
            const int at = (int)ceil(2 * (log10(share) - LOWEST)) - 1;
            bin = &g.in[at < 0 ? 0 : at >= g.bins ? g.bins - 1 : at];
        }
        if (++*bin > g.most)
            g.most = *bin;
    }
    g.step = g.w / (g.bins + 4);
    return g;
}

/* Pixels of a count on the logarithmic axis, which begins at one half. */
static double tall(const histogram *g, int64_t count)
{
    const double most = fmax(1, ceil(log10((double)g->most))) - log10(0.5);
    return count == 0 ? 0 : g->h * (log10((double)count) - log10(0.5)) / most;
}

static void put_bin(FILE *file, const histogram *g, double at, int64_t count, int level)
{
    if (count > 0)
        put_box(file, g->x + at * g->step, g->y + g->h - tall(g, count), g->step * 0.9,
                tall(g, count), level, level == LEVEL_ZERO);
}

static void put_histogram_axes(FILE *file, const histogram *g, double top)
{
    char text[32];
    put_line(file, g->x, g->y + g->h, g->x + g->w, g->y + g->h, "");
    put_line(file, g->x, g->y, g->x, g->y + g->h, "");
    int64_t count = 1;
    for (int power = 0; tall(g, count) <= g->h + 0.01 && power < 18; power++, count *= 10) {
        const double y = g->y + g->h - tall(g, count);
        put_line(file, g->x - 5, y, g->x, y, "");
        put_text(file, g->x - 8, y + 4, "end", UPRIGHT,
                 power < 6 ? (snprintf(text, sizeof text, "%" PRId64, count), text)
                           : decade(power, text));
    }
    const double below = g->y + g->h + 18;
    put_text(file, g->x + g->step * 0.5, below, "middle", UPRIGHT, "0");
    for (double power = first_label(top); power <= top; power += label_step(top)) {
        const double x = g->x + (2 + 2 * (power - LOWEST)) * g->step;
        put_line(file, x, g->y + g->h, x, g->y + g->h + 5, "");
        put_text(file, x, below, "middle", UPRIGHT, decade(power, text));
    }
    put_text(file, g->x + g->w / 2, g->y + g->h + 36, "middle", UPRIGHT, "share of the bound");
}

static void put_histogram(FILE *file, const check_picture *self, double top)
{
    const histogram g = histogram_of(self, top);
    put_text(file, g.x, g.y - 24, "start", BOLD, "Elements of the whole output");
    put_bin(file, &g, 0, g.exact, LEVEL_ZERO);
    for (int i = 0; i < g.bins; i++)
        put_bin(file, &g, 2 + i, g.in[i], level_of(pow(10, LOWEST + (i + 0.5) / 2), top));
    put_bin(file, &g, 3 + g.bins, g.infinite, LEVEL_INFINITE);
    put_histogram_axes(file, &g, top);
    if (g.infinite > 0)
        put_text(file, g.x + (3.45 + g.bins) * g.step, g.y + g.h + 18, "middle", UPRIGHT, "inf");
    const double x = g.x + (2 - 2 * LOWEST) * g.step;
    put_line(file, x, g.y - 8, x, g.y + g.h, " stroke-width=\"2\" stroke-dasharray=\"5 3\"");
    put_text(file, x + 5, g.y - 1, "start", UPRIGHT, "bound");
}

// ---- All of it ----------------------------------------------------------------------------------------------

static void put_title(FILE *file, const check_picture *self)
{
    const talc_check_outcome *o = &self->outcome;
    char text[700], where[200] = "";
    int used = 0;
    for (int i = 0; i < o->rank && (size_t)used < sizeof where; i++)
        used += snprintf(where + used, sizeof where - (size_t)used, "%s%" PRId64 "%s",
                         i == 0 ? "[" : ", ", o->where[i], i + 1 == o->rank ? "]" : "");
    snprintf(text, sizeof text, "%s by %s on %s: %s, %s", self->op, self->algorithm, self->device,
             talc_check_kind_name(o->kind), o->passed ? "passed" : "FAILED");
    put_text(file, 24, 34, "start", " font-size=\"19\" font-weight=\"bold\"", text);
    put_text(file, 24, 56, "start", " font-family=\"monospace\"", self->problem);
    snprintf(text, sizeof text,
             "Worst share %.3g %% at %s%s%s%s: got %.9g, due %.9g, bound %.3g; %" PRId64
             " of %" PRId64 " elements compared",
             100 * o->share, self->output, where, *self->place == '\0' ? "" : ", ", self->place,
             o->got, o->due, o->bound, o->compared, self->count);
    put_text(file, 24, 76, "start", o->passed ? UPRIGHT : " fill=\"#b30000\"",
             o->passed ? text : o->reason);
}

void check_picture_write(const check_picture *self, FILE *file)
{
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1010\" height=\"590\" "
          "viewBox=\"0 0 1010 590\" font-family=\"sans-serif\" font-size=\"12\">\n"
          "<rect width=\"1010\" height=\"590\" fill=\"#fff\"/>\n",
          file);
    put_title(file, self);
    const double top = scale_top(self);
    put_plane(file, self, top);
    put_scale(file, top);
    put_histogram(file, self, top);
    fputs("</svg>\n", file);
}
