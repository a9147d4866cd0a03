/* The confusion matrix as text, two pictures as SVG, the curves of a run and the images that it
 * gets wrong, and the curves as CSV. */
#include "training.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static FILE *open_file(const training *run, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", run->report, name);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        talc_fail(TALC_IO_ERROR, "%s: %s", TALC_SHOWN(path), strerror(errno));
    return file;
}

static void close_file(const training *run, const char *name, FILE *file)
{
    bool wrong = ferror(file) != 0;
    if (fclose(file) != 0 || wrong)
        talc_fail(TALC_IO_ERROR, "%s/%s could not be written", TALC_SHOWN(run->report), name);
}

static FILE *open_picture(const training *run, const char *name, int width, int height)
{
    FILE *file = open_file(run, name);
    if (file != NULL)
        fprintf(file,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "font-family=\"sans-serif\" font-size=\"11\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                width, height);
    return file;
}

static void close_picture(const training *run, const char *name, FILE *file)
{
    fprintf(file, "</svg>\n");
    close_file(run, name, file);
}

/* Text in which a folder's name means nothing to XML. */
static void put_escaped(FILE *file, const char *text)
{
    char shown[TALC_SHOWN_TEXT];
    for (const char *c = talc_shown(text, SIZE_MAX, shown, sizeof shown); *c != '\0'; c++)
        if (strchr("<>&\"", *c) != NULL)
            fprintf(file, "&#%d;", *c);
        else
            fputc(*c, file);
}

// ---- Confusion ----------------------------------------------------------------------------------

static void print_confusion(const training *run)
{
    const int64_t classes = talc_dataset_classes(run->test_data);
    talc_confusion *matrix = talc_confusion_new(classes);
    const char **names = calloc((size_t)classes, sizeof *names);
    if (matrix != NULL && names != NULL) {
        for (int64_t k = 0; k < classes; k++)
            names[k] = talc_dataset_class(run->test_data, k);
        matrix->count = talc_dataset_count(run->test_data);
        for (int64_t i = 0; i < matrix->count; i++) {
            const int64_t label = talc_dataset_label(run->test_data, i);
            matrix->right += label == run->answers[i];
            if (run->answers[i] < classes)
                matrix->counts[label * classes + run->answers[i]]++;
        }
        printf("\nwhat test images of each class were taken for\n");
        talc_confusion_print(stdout, matrix, names);
    }
    free(names);
    talc_confusion_free(matrix);
}

// ---- Curves -------------------------------------------------------------------------------------

enum { LEFT = 60, TOP = 40, PLOT_WIDTH = 420, PLOT_HEIGHT = 260, PLOT_STEP = 520 };

typedef struct plot {
    const char *title;
    double scale;           /* of what is drawn: 100 for shares in % */
    int sums[2], counts[2]; /* columns whose ratio is drawn: training, test */
} plot;

static double value_of(const training *run, const plot *of, int curve, int64_t epoch)
{
    const double *row = training_row(run, epoch);
    return of->scale * row[of->sums[curve]] / row[of->counts[curve]];
}

/* The step between ticks, 1, 2 or 5 times a power of ten, of which a range has five at most. */
static double tick_step(double range)
{
    double step = pow(10, floor(log10(range / 5)));
    for (int i = 0; range / step > 5.0001; i++)
        step *= i % 3 == 1 ? 2.5 : 2;
    return step;
}

/* Where a plot stands, and what its axes show: epochs from left to right, values between two ticks.
 * */
typedef struct axes {
    int left;
    double epochs, low, high;
} axes;

static double across(const axes *a, double epoch)
{
    return a->left + (a->epochs > 1 ? PLOT_WIDTH * (epoch - 1) / (a->epochs - 1) : 0);
}

static double down(const axes *a, double value)
{
    return TOP + PLOT_HEIGHT * (a->high - value) / (a->high - a->low);
}

/* The range of all values, widened to ticks; a value that is not finite is not drawn. */
static axes axes_of(const training *run, const plot *of, int left, double *step)
{
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < 2 * run->epochs; i++) {
        const double value = value_of(run, of, (int)(i % 2), i / 2);
        low = isfinite(value) && value < low ? value : low;
        high = isfinite(value) && value > high ? value : high;
    }
    if (!(low < high)) {
        low = isfinite(low) ? low : 0;
        high = low + (low == 0 ? 1 : fabs(low) / 10);
    }
    *step = tick_step(high - low);
    return (axes){ left, (double)run->epochs, *step * floor(low / *step),
                   *step * ceil(high / *step) };
}

static void draw_axes(FILE *file, const axes *a, double step)
{
    const int ticks = (int)lround((a->high - a->low) / step);
    const double each = a->epochs > 5 ? fmax(1, tick_step(a->epochs)) : 1;
    for (int k = 0; k <= ticks; k++) {
        const double value = a->low + k * step, y = down(a, value);
        fprintf(file,
                "<path d=\"M%d %.1fh%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%.6g</text>\n",
                a->left, y, PLOT_WIDTH, a->left - 6, y + 4,
                fabs(value) < step / 1000 ? 0.0 : value);
    }
    for (double epoch = each == 1 ? 1 : each; epoch <= a->epochs; epoch += each)
        fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n",
                across(a, epoch), TOP + PLOT_HEIGHT + 18, epoch);
}

static void draw_plot(FILE *file, const training *run, const plot *of, int left)
{
    static const char *const colours[] = { "#1f77b4", "#d62728" };
    double step;
    const axes a = axes_of(run, of, left, &step);
    fprintf(file, "<text x=\"%d\" y=\"20\" font-size=\"14\">%s</text>\n", left, of->title);
    draw_axes(file, &a, step);
    for (int curve = 0; curve < 2; curve++) {
        fprintf(file,
                "<text x=\"%d\" y=\"20\" fill=\"%s\">%s</text>\n<polyline fill=\"none\" "
                "stroke-width=\"2\" stroke=\"%s\" points=\"",
                left + PLOT_WIDTH - 100 + 60 * curve, colours[curve],
                curve == 0 ? "training" : "test", colours[curve]);
        for (int64_t e = 0; e < run->epochs; e++) {
            const double value = value_of(run, of, curve, e);
            if (isfinite(value))
                fprintf(file, "%.1f,%.1f ", across(&a, (double)e + 1), down(&a, value));
        }
        fprintf(file, "\"/>\n");
    }
}

/* The same numbers for other programs. */
static void write_curves(const training *run)
{
    FILE *file = open_file(run, "curves.csv");
    if (file == NULL)
        return;
    fprintf(file, "epoch,loss,accuracy,test_loss,test_accuracy\n");
    for (int64_t e = 0; e < run->epochs; e++) {
        const double *row = training_row(run, e);
        fprintf(file, "%lld,%.9g,%.9g,%.9g,%.9g\n", (long long)e + 1, row[LOSS] / row[IMAGES],
                row[RIGHT] / row[IMAGES], row[TEST_LOSS] / row[TEST_IMAGES],
                row[TEST_RIGHT] / row[TEST_IMAGES]);
    }
    close_file(run, "curves.csv", file);
}

static void draw_curves(const training *run)
{
    FILE *file = open_picture(run, "curves.svg", 2 * PLOT_STEP, TOP + PLOT_HEIGHT + 40);
    if (file == NULL)
        return;
    draw_plot(file, run,
              &(plot){ "loss by epoch", 1, { LOSS, TEST_LOSS }, { IMAGES, TEST_IMAGES } }, LEFT);
    draw_plot(
        file, run,
        &(plot){ "accuracy by epoch, %", 100, { RIGHT, TEST_RIGHT }, { IMAGES, TEST_IMAGES } },
        LEFT + PLOT_STEP);
    close_picture(run, "curves.svg", file);
}

// ---- Wrong predictions --------------------------------------------------------------------------

enum { ACROSS = 12, CELL = 84, SIDE = 56, WRONG_MOST = 120 };

/* An image on black, in rows of equal pixels. */
static void draw_image(FILE *file, const talc_dataset *data, int64_t sample, int x, int y)
{
    talc_dims dims = talc_dataset_dims(data);
    int64_t C = dims.dim[0], H = dims.dim[1], W = dims.dim[2];
    const uint8_t *pixels = talc_dataset_pixels(data, sample);
    fprintf(file,
            "<g transform=\"translate(%d %d) scale(%g)\" shape-rendering=\"crispEdges\">\n"
            "<rect width=\"%d\" height=\"%d\"/>\n",
            x, y, SIDE / (double)(H > W ? H : W), (int)W, (int)H);
    for (int64_t i = 0, run = 1; i < H * W; i += run, run = 1) {
        const uint8_t *p = pixels + i;
        int64_t green = C == 3 ? H * W : 0, blue = 2 * green;
        while ((i + run) % W != 0 && p[run] == p[0] && p[green + run] == p[green] &&
               p[blue + run] == p[blue])
            run++;
        if (p[0] != 0 || p[green] != 0 || p[blue] != 0)
            fprintf(file, "<path d=\"M%d %d.5h%d\" stroke=\"#%02x%02x%02x\"/>\n", (int)(i % W),
                    (int)(i / W), (int)run, p[0], p[green], p[blue]);
    }
    fprintf(file, "</g>\n");
}

static void draw_wrong(const training *run)
{
    int64_t wrong = 0, drawn = 0, count = talc_dataset_count(run->test_data);
    for (int64_t i = 0; i < count; i++)
        wrong += run->answers[i] != talc_dataset_label(run->test_data, i);
    int64_t max = wrong < WRONG_MOST ? wrong : WRONG_MOST;
    FILE *file = open_picture(run, "wrong.svg", ACROSS * CELL,
                              TOP + (int)((max + ACROSS - 1) / ACROSS) * (CELL + 16));
    if (file == NULL)
        return;
    fprintf(file,
            "<text x=\"10\" y=\"20\" font-size=\"14\">%lld of %lld wrong: class, and what it was "
            "taken for</text>\n",
            (long long)wrong, (long long)count);
    for (int64_t i = 0; i < count && drawn < max; i++) {
        int64_t label = talc_dataset_label(run->test_data, i);
        const char *taken = talc_dataset_class(run->test_data, run->answers[i]);
        if (label == run->answers[i])
            continue;
        int x = (int)(drawn % ACROSS) * CELL + 14, y = TOP + (int)(drawn / ACROSS) * (CELL + 16);
        drawn++;
        draw_image(file, run->test_data, i, x, y);
        fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", x + SIDE / 2,
                y + SIDE + 14);
        put_escaped(file, talc_dataset_class(run->test_data, label));
        fprintf(file, " → ");
        put_escaped(file, taken == NULL ? "?" : taken);
        fprintf(file, "</text>\n");
    }
    close_picture(run, "wrong.svg", file);
}

void training_report(const training *run)
{
    print_confusion(run);
    draw_curves(run);
    write_curves(run);
    draw_wrong(run);
}
