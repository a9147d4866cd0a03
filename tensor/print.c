#include "tensor/print.h"

#include "tensor/device.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/observe.h"
#include "tensor/recording.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    WHOLE_UP_TO = 1000, /* elements of a tensor that is shown whole */
    EDGE = 3,           /* elements at either end of a shortened dimension */
    LINE = 80,          /* columns */
    MIN_LINE = 20,
    DECIMALS = 4,
    MAX_DECIMALS = 17,
    ELEMENT_TEXT = 48, /* of 99999 and as many decimals, or 2^63 */
};

typedef enum number_form { INTEGER, WHOLE, DECIMAL, SCIENTIFIC } number_form;

/* What is shown, on the host: row-major elements of the shape `dims`, each 8 bytes. */
typedef struct printer {
    FILE *file;
    talc_dims dims;
    bool shortened[TALC_MAX_RANK];
    number_form form;
    int width; /* of the widest element */
    int64_t line;
    int precision;
    const double *reals;
    const int64_t *integers; /* the same memory; form says which */
} printer;

// ---- Reading what is shown ----------------------------------------------------------------------

/* dst takes from src the ends of the shortened dimensions, from `dim` on. */
static bool copy_shown(const printer *p, int dim, talc_tensor *dst, const talc_tensor *src)
{
    if (dim == p->dims.rank)
        return talc_copy_for("print", dst, src);
    if (!p->shortened[dim])
        return copy_shown(p, dim + 1, dst, src);
    bool ok = true;
    for (int end = 0; end < 2 && ok; end++) {
        talc_tensor *to = talc_slice(dst, dim, end == 0 ? 0 : EDGE, end == 0 ? EDGE : TALC_END, 1);
        talc_tensor *from =
            talc_slice(src, dim, end == 0 ? 0 : -EDGE, end == 0 ? EDGE : TALC_END, 1);
        ok = to != NULL && from != NULL && copy_shown(p, dim + 1, to, from);
        talc_release(from);
        talc_release(to);
    }
    return ok;
}

/* The elements shown, converted to f64 or i64 where they live; NULL on failure. The caller frees
 * them. */
static void *read_shown(const printer *p, const talc_tensor *tensor)
{
    if (talc_recording_refuses("print", tensor->device, "read elements back"))
        return NULL;
    talc_observer *observer = talc_observe_pause(); /* to print is no op */
    talc_dtype dtype = talc_dtype_is_float(tensor->dtype) ? TALC_F64 : TALC_I64;
    talc_tensor *shown = talc_tensor_new("print", tensor->device, dtype, p->dims);
    void *elements = shown == NULL ? NULL : talc_memory_new(talc_nbytes(shown), "print");
    if (elements != NULL &&
        (!copy_shown(p, 0, shown, tensor) || !talc_to_host(shown, elements, talc_nbytes(shown)))) {
        talc_memory_free(elements);
        elements = NULL;
    }
    talc_release(shown);
    talc_observe_resume(observer);
    return elements;
}

// ---- Numbers ------------------------------------------------------------------------------------

static number_form choose_form(const double *reals, int64_t count)
{
    double largest = 0;
    bool whole = true;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(reals[i])) {
            largest = fmax(largest, fabs(reals[i]));
            whole = whole && reals[i] == trunc(reals[i]);
        }
    if (whole && largest < 1e8)
        return WHOLE;
    return largest >= 1e-3 && largest < 99999.5 ? DECIMAL : SCIENTIFIC;
}

static int element_text(const printer *p, int64_t i, char text[ELEMENT_TEXT])
{
    if (p->form == INTEGER)
        return snprintf(text, ELEMENT_TEXT, "%" PRId64, p->integers[i]);
    const double value = p->reals[i];
    if (isnan(value))
        return snprintf(text, ELEMENT_TEXT, "nan");
    if (isinf(value))
        return snprintf(text, ELEMENT_TEXT, value < 0 ? "-inf" : "inf");
    if (p->form == WHOLE)
        return snprintf(text, ELEMENT_TEXT, "%.0f.", value);
    return snprintf(text, ELEMENT_TEXT, p->form == DECIMAL ? "%.*f" : "%.*e", p->precision, value);
}

static void choose_width(printer *p, int64_t count)
{
    char text[ELEMENT_TEXT];
    for (int64_t i = 0; i < count; i++) {
        int width = element_text(p, i, text);
        p->width = width > p->width ? width : p->width;
    }
}

// ---- Brackets and lines -------------------------------------------------------------------------

static void print_spaces(const printer *p, int count)
{
    (void)fprintf(p->file, "%*s", count, "");
}

/* The last dimension, on as many lines as it needs. */
static void print_row(const printer *p, int64_t first)
{
    const int last = p->dims.rank - 1;
    int column = p->dims.rank; /* after the brackets or the spaces in their place */
    for (int64_t i = 0; i < p->dims.dim[last]; i++) {
        char text[ELEMENT_TEXT];
        element_text(p, first + i, text);
        if (i > 0)
            column += fprintf(p->file, ",");
        const bool elided = p->shortened[last] && i == EDGE;
        if (i > 0 && column + 1 + (elided ? 5 : 0) + p->width + 1 > p->line) {
            (void)fprintf(p->file, "\n");
            print_spaces(p, p->dims.rank);
            column = p->dims.rank;
        } else if (i > 0) {
            column += fprintf(p->file, " ");
        }
        if (elided)
            column += fprintf(p->file, "..., ");
        column += fprintf(p->file, "%*s", p->width, text);
    }
}

/* Between two blocks of a dimension: one line break between rows, an empty line more for each
 * dimension inside. */
static void separate(const printer *p, int dim)
{
    (void)fprintf(p->file, ",");
    for (int lines = dim + 1; lines < p->dims.rank; lines++)
        (void)fprintf(p->file, "\n");
    print_spaces(p, dim + 1);
}

/* Dimensions dim and inner of the elements from `first` on; `stride` is that of dim. */
static void print_level(const printer *p, int dim, int64_t first, int64_t stride)
{
    (void)fprintf(p->file, "[");
    if (dim == p->dims.rank - 1) {
        print_row(p, first);
        (void)fprintf(p->file, "]");
        return;
    }
    for (int64_t i = 0; i < p->dims.dim[dim]; i++) {
        if (i > 0)
            separate(p, dim);
        if (p->shortened[dim] && i == EDGE) {
            (void)fprintf(p->file, "...");
            separate(p, dim);
        }
        print_level(p, dim + 1, first + i * stride, stride / p->dims.dim[dim + 1]);
    }
    (void)fprintf(p->file, "]");
}

static void print_elements(printer *p, const talc_tensor *tensor, const void *elements,
                           int64_t count)
{
    p->reals = elements;
    p->integers = elements;
    p->form = talc_dtype_is_float(tensor->dtype) ? choose_form(p->reals, count) : INTEGER;
    choose_width(p, count);
    char text[ELEMENT_TEXT];
    element_text(p, 0, text);
    if (p->dims.rank == 0)
        (void)fprintf(p->file, "%s", text);
    else
        print_level(p, 0, 0, count / p->dims.dim[0]);
    (void)fprintf(p->file, "\n");
}

static bool options_fit(const talc_print_options *o)
{
    if (o->width != 0 && o->width < MIN_LINE)
        talc_fail(TALC_BAD_ARGUMENT, "print: width %" PRId64 " must be at least %d", o->width,
                  MIN_LINE);
    else if (o->precision != TALC_ZERO && (o->precision < 0 || o->precision > MAX_DECIMALS))
        talc_fail(TALC_BAD_ARGUMENT, "print: precision %" PRId64 " must be 0 to %d", o->precision,
                  MAX_DECIMALS);
    else if (o->threshold < 0)
        talc_fail(TALC_BAD_ARGUMENT, "print: threshold %" PRId64 " must not be negative",
                  o->threshold);
    else
        return true;
    return false;
}

bool talc_print(FILE *file, const talc_tensor *tensor)
{
    return talc_print_with(file, tensor, NULL);
}

bool talc_print_with(FILE *file, const talc_tensor *tensor, const talc_print_options *options)
{
    TALC_DEFAULT_FENV;
    const talc_print_options o = options == NULL ? (talc_print_options){ 0 } : *options;
    if (file == NULL) {
        talc_fail(TALC_NULL_ARGUMENT, "print: file is NULL");
        return false;
    }
    if (!options_fit(&o))
        return false;
    if (tensor == NULL) {
        (void)fprintf(file, "NULL\n");
        return ferror(file) == 0;
    }
    char text[TALC_DIMS_TEXT];
    (void)fprintf(file, "tensor %s %s on %s\n", talc_dtype_name(tensor->dtype),
                  talc_dims_text(talc_dims_of(tensor), text), talc_device_name(tensor->device));
    int64_t count = talc_numel(tensor);
    if (count == 0) {
        (void)fprintf(file, "[]\n");
        return ferror(file) == 0;
    }
    printer p = { .file = file,
                  .dims = talc_dims_of(tensor),
                  .line = o.width == 0 ? LINE : o.width,
                  .precision = o.precision == 0           ? DECIMALS
                               : o.precision == TALC_ZERO ? 0
                                                          : (int)o.precision };
    const int64_t whole = o.threshold == 0 ? WHOLE_UP_TO : o.threshold;
    for (int i = 0; i < p.dims.rank && talc_numel(tensor) > whole; i++)
        if (p.dims.dim[i] > 2 * EDGE) {
            count = count / p.dims.dim[i] * (2 * EDGE);
            p.dims.dim[i] = 2 * EDGE;
            p.shortened[i] = true;
        }
    void *elements = talc_failed() ? NULL : read_shown(&p, tensor);
    if (elements == NULL) {
        (void)fprintf(file, "(not read: %s)\n", talc_error_message());
        return false;
    }
    print_elements(&p, tensor, elements, count);
    talc_memory_free(elements);
    return ferror(file) == 0;
}
