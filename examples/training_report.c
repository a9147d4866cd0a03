/* The confusion matrix as text, and two pictures as SVG: the curves of a run, and the images that it gets wrong. */
#include "training.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static FILE *open_picture(const training *run, const char *name, int width, int height)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", run->report, name);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        talc_fail(TALC_IO_ERROR, "%s: %s", TALC_SHOWN(path), strerror(errno));
        return NULL;
    }
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
    bool wrong = ferror(file) != 0;
    if (fclose(file) != 0 || wrong)
        talc_fail(TALC_IO_ERROR, "%s/%s could not be written", TALC_SHOWN(run->report), name);
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

// ---- Confusion ----------------------------------------------------------------------------------------------

/* A name to the right of so many columns, cut behind a whole character. */
static void print_name(const char *name, int columns)
{
    int length = 0;
    for (bool inside; name[length] != '\0'; length++) {
        inside = (name[length] & 0xc0) == 0x80; /* a character of UTF-8 */
        if (!inside && columns-- == 0)
            break;
    }
    printf("%*s%.*s", columns > 0 ? columns : 0, "", length, name);
}

static void print_confusion(const training *run)
{
    int64_t classes = talc_dataset_classes(run->test_data), right = 0;
    int64_t count = talc_dataset_count(run->test_data);
    int64_t *cells =
        talc_data(talc_zeros(talc_device_host(), TALC_I64, TALC_DIMS(classes, classes)), TALC_I64);
    if (cells == NULL)
        return;
    for (int64_t i = 0; i < count; i++) {
        int64_t label = talc_dataset_label(run->test_data, i);
        right += label == run->answers[i];
        if (run->answers[i] < classes)
            cells[label * classes + run->answers[i]]++;
    }
    printf("\nrows: classes, columns: what they were taken for\n%10s", "");
    for (int64_t k = 0; k < classes; k++) {
        printf(" ");
        print_name(TALC_SHOWN(talc_dataset_class(run->test_data, k)), 5);
    }
    for (int64_t k = 0; k < classes * classes; k++) {
        if (k % classes == 0) {
            printf("\n");
            print_name(TALC_SHOWN(talc_dataset_class(run->test_data, k / classes)), 10);
        }
        printf(" %5lld", (long long)cells[k]);
    }
    printf("\n%lld of %lld right: %.2f %%\n", (long long)right, (long long)count,
           100 * (double)right / (double)count);
}

// ---- Curves -------------------------------------------------------------------------------------------------

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

static void draw_plot(FILE *file, const training *run, const plot *of, int left)
{
    static const char *const colours[] = { "#1f77b4", "#d62728" }, *const names[] = { "training",
                                                                                      "test" };
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < 2 * run->epochs; i++) {
        double value = value_of(run, of, (int)(i % 2), i / 2);
        low = isfinite(value) && value < low ? value : low;
        high = isfinite(value) && value > high ? value : high;
    }
    if (low > high)
        low = high = 0;
    double range = high > low ? high - low : 1,
           step = run->epochs > 1 ? (double)PLOT_WIDTH / (double)(run->epochs - 1) : 0;
    fprintf(file, "<text x=\"%d\" y=\"20\" font-size=\"14\">%s</text>\n", left, of->title);
    for (int k = 0; k <= 4; k++)
        fprintf(file,
                "<path d=\"M%d %dh%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%d\" "
                "text-anchor=\"end\">%.4g</text>\n"
                "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%.4g</text>\n",
                left, TOP + PLOT_HEIGHT * k / 4, PLOT_WIDTH, left - 6,
                TOP + PLOT_HEIGHT * k / 4 + 4, high - range * k / 4, left + PLOT_WIDTH * k / 4,
                TOP + PLOT_HEIGHT + 18, 1 + (double)(run->epochs - 1) * k / 4);
    for (int curve = 0; curve < 2; curve++) {
        fprintf(file,
                "<text x=\"%d\" y=\"20\" fill=\"%s\">%s</text>\n<polyline fill=\"none\" "
                "stroke-width=\"2\" stroke=\"%s\" points=\"",
                left + PLOT_WIDTH - 100 + 60 * curve, colours[curve], names[curve], colours[curve]);
        for (int64_t e = 0; e < run->epochs; e++)
            if (isfinite(value_of(run, of, curve, e))) /* a loss may be NaN */
                fprintf(file, "%.1f,%.1f ", left + step * (double)e,
                        TOP + PLOT_HEIGHT * (high - value_of(run, of, curve, e)) / range);
        fprintf(file, "\"/>\n");
    }
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

// ---- Wrong predictions --------------------------------------------------------------------------------------

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
    int64_t most = wrong < WRONG_MOST ? wrong : WRONG_MOST;
    FILE *file = open_picture(run, "wrong.svg", ACROSS * CELL,
                              TOP + (int)((most + ACROSS - 1) / ACROSS) * (CELL + 16));
    if (file == NULL)
        return;
    fprintf(file,
            "<text x=\"10\" y=\"20\" font-size=\"14\">%lld of %lld wrong: class, and what it was "
            "taken for</text>\n",
            (long long)wrong, (long long)count);
    for (int64_t i = 0; i < count && drawn < most; i++) {
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
    draw_wrong(run);
}
