#include "nn/initialise.h"

#include "ops/elementwise.h"
#include "tensor/autograd.h"
#include "tensor/extent.h"
#include "tensor/fenv.h"
#include "tensor/random.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>

static const char *const OP = "initialise";

// ---- Defaults and checks ------------------------------------------------------------------------

static double number_or(double number, double otherwise)
{
    return number == 0 ? otherwise : number == (double)TALC_ZERO ? 0 : number;
}

static bool has_fan(talc_init_kind kind)
{
    return kind >= TALC_INIT_XAVIER_UNIFORM && kind <= TALC_INIT_KAIMING_NORMAL;
}

/* With its defaults filled in. */
static talc_initialiser completed(const talc_initialiser *given)
{
    talc_initialiser self = *given;
    const bool kaiming =
        self.kind == TALC_INIT_KAIMING_UNIFORM || self.kind == TALC_INIT_KAIMING_NORMAL;
    self.std = number_or(self.std, 1);
    self.gain = number_or(self.gain, kaiming ? sqrt(2) : 1);
    if (self.low == 0 && self.high == 0) {
        self.low = self.kind == TALC_INIT_TRUNC_NORMAL ? -2 : 0;
        self.high = self.kind == TALC_INIT_TRUNC_NORMAL ? 2 : 1;
    }
    return self;
}

static bool check_initialiser(const talc_initialiser *self)
{
    if ((unsigned)self->kind >= TALC_INIT_KIND_COUNT)
        talc_fail(TALC_BAD_ARGUMENT, "%s: kind %d is outside 0..%d", OP, (int)self->kind,
                  TALC_INIT_KIND_COUNT - 1);
    else if ((unsigned)self->mode >= TALC_FAN_MODE_COUNT)
        talc_fail(TALC_BAD_ARGUMENT, "%s: mode %d is outside 0..%d", OP, (int)self->mode,
                  TALC_FAN_MODE_COUNT - 1);
    else if (!isfinite(self->gain) || !isfinite(self->mean) || !isfinite(self->std) ||
             self->std < 0)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: gain %g, mean %g and std %g must be finite, std not negative", OP,
                  self->gain, self->mean, self->std);
    else if (!isfinite(self->low) || !isfinite(self->high) || self->low > self->high)
        talc_fail(TALC_BAD_ARGUMENT, "%s: low %g must be at most high %g, both finite", OP,
                  self->low, self->high);
    return !talc_failed();
}

/* Whether it can be initialised so. */
static bool check_tensor(const talc_tensor *tensor, const talc_initialiser *self)
{
    char text[TALC_DIMS_TEXT];
    if (self->kind == TALC_INIT_CONSTANT)
        return talc_number_held(OP, "value", self->value, tensor->dtype);
    if (!talc_dtype_is_float(tensor->dtype))
        talc_fail(TALC_BAD_DTYPE, "%s: the tensor is %s, it must be f32 or f64", OP,
                  talc_dtype_name(tensor->dtype));
    else if (tensor->rank < 2 && (has_fan(self->kind) || self->kind == TALC_INIT_ORTHOGONAL))
        talc_fail(TALC_BAD_SHAPE, "%s: the tensor %s has rank %d, needs at least 2", OP,
                  talc_dims_text(talc_dims_of(tensor), text), tensor->rank);
    return !talc_failed();
}

// ---- Formulas -----------------------------------------------------------------------------------

double talc_gain(talc_nonlinearity nonlinearity, double negative_slope)
{
    TALC_DEFAULT_FENV;
    switch (nonlinearity) {
    case TALC_GAIN_LINEAR:
        return 1;
    case TALC_GAIN_TANH:
        return 5.0 / 3;
    case TALC_GAIN_RELU:
        return sqrt(2);
    case TALC_GAIN_LEAKY_RELU:
        return sqrt(2 / (1 + negative_slope * negative_slope));
    case TALC_GAIN_SELU:
        return 0.75;
    default:
        talc_fail(TALC_BAD_ARGUMENT, "gain: nonlinearity %d is outside 0..%d", (int)nonlinearity,
                  TALC_NONLINEARITY_COUNT - 1);
        return 0;
    }
}

/* The standard deviation of what has a fan. */
static double deviation(const talc_tensor *tensor, const talc_initialiser *self)
{
    double taps = 1;
    for (int i = 2; i < tensor->rank; i++)
        taps *= (double)tensor->dims[i];
    const double in = (double)tensor->dims[1] * taps, out = (double)tensor->dims[0] * taps;
    const bool xavier =
        self->kind == TALC_INIT_XAVIER_UNIFORM || self->kind == TALC_INIT_XAVIER_NORMAL;
    const double fan = xavier ? (in + out) / 2 : self->mode == TALC_FAN_IN ? in : out;
    return self->gain / sqrt(fan);
}

// ---- Truncated normal ---------------------------------------------------------------------------

static double distribution(double x)
{
    return erfc(-x * sqrt(0.5)) / 2;
}

/* Where the standard normal distribution is p, from above 0 to 1/2: Abramowitz and Stegun's
 * 26.2.23, which is off by 4.5e-4 at most, and Halley's steps. */
static double lower_quantile(double p)
{
    const double t = sqrt(-2 * log(p));
    double x = (2.515517 + t * (0.802853 + t * 0.010328)) /
                   (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) -
               t;
    for (int step = 0; step < 3; step++) {
        const double density = exp(-x * x / 2) / sqrt(2 * acos(-1));
        const double off = (distribution(x) - p) / density;
        x -= off / (1 + x * off / 2);
    }
    return x;
}

/* x becomes, of uniform numbers from 0 to 1, normal ones from low to high, in standard deviations.
 * Both bounds lie below 0 or `low` does: so no digits of a tail are lost. */
static void truncate_normal(double *x, int64_t count, double low, double high, double mean,
                            double std)
{
    const double sign = low > 0 ? -1 : 1;
    const double from = sign > 0 ? low : -high, to = sign > 0 ? high : -low;
    const double begin = distribution(from), share = distribution(to) - begin;
    for (int64_t i = 0; i < count; i++) {
        const double p = begin + share * x[i];
        const double z = p <= 0     ? from
                         : p >= 1   ? to
                         : p <= 0.5 ? lower_quantile(p)
                                    : -lower_quantile(1 - p);
        x[i] = mean + std * sign * fmin(fmax(z, from), to);
    }
}

// ---- Orthogonal ---------------------------------------------------------------------------------

/* In four sums, so that none waits for the one before. */
static double product(const double *a, const double *b, int64_t n)
{
    double sums[4] = { 0 };
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            sums[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sums[0] += a[i] * b[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* Makes `count` rows of n elements, count at most n, orthonormal, each by those before it: the
 * transposed Q of QR with a positive diagonal. Done twice for each, which is enough (Giraud et al.,
 * "Rounding error analysis of the classical Gram-Schmidt orthogonalization process", 2005). */
static void orthonormalise(double *rows, int64_t count, int64_t n)
{
    for (int64_t j = 0; j < count; j++) {
        double *row = rows + j * n;
        for (int64_t k = 0; k < 2 * j; k++) {
            const double *before = rows + k % j * n;
            const double share = product(before, row, n);
            for (int64_t i = 0; i < n; i++)
                row[i] -= share * before[i];
        }
        const double length = sqrt(product(row, row, n));
        for (int64_t i = 0; i < n; i++)
            row[i] /= length;
    }
}

/* Q of the tensor's rows and columns, as [rows, columns]; maybe a view. */
static talc_tensor *orthogonal(const talc_tensor *tensor)
{
    int64_t columns = 1;
    for (int i = 1; i < tensor->rank; i++)
        columns *= tensor->dims[i];
    const int64_t rows = tensor->dims[0], few = talc_smaller(rows, columns),
                  many = talc_larger(rows, columns);
    talc_tensor *q = talc_randn(talc_device_host(), TALC_F64, TALC_DIMS(few, many));
    double *elements = q == NULL ? NULL : talc_data(q, TALC_F64);
    if (elements == NULL)
        return NULL;
    orthonormalise(elements, few, many);
    return rows < columns ? q : talc_transpose(q, 0, 1);
}

// ---- One tensor ---------------------------------------------------------------------------------

/* What a distribution is worked out as on the CPU; NULL on failure. */
static talc_tensor *computed(const talc_tensor *tensor, const talc_initialiser *self)
{
    if (self->kind == TALC_INIT_ORTHOGONAL) {
        talc_tensor *q = orthogonal(tensor);
        return q == NULL ? NULL : talc_mul_scalar(q, self->gain);
    }
    talc_tensor *x = talc_rand(talc_device_host(), TALC_F64, TALC_DIMS(talc_numel(tensor)));
    double *elements = x == NULL ? NULL : talc_data(x, TALC_F64);
    if (elements == NULL)
        return NULL;
    truncate_normal(elements, talc_numel(tensor), (self->low - self->mean) / self->std,
                    (self->high - self->mean) / self->std, self->mean, self->std);
    return x;
}

static bool initialise(talc_tensor *tensor, const talc_initialiser *self)
{
    const double std = has_fan(self->kind) ? deviation(tensor, self) : self->std;
    if (talc_numel(tensor) == 0)
        return true;
    if (self->kind == TALC_INIT_TRUNC_NORMAL && std == 0)
        return talc_fill(tensor, fmin(fmax(self->mean, self->low), self->high));
    if (has_fan(self->kind) && std == 0)
        return talc_fill(tensor, 0);
    switch (self->kind) {
    case TALC_INIT_CONSTANT:
        return talc_fill(tensor, self->value);
    case TALC_INIT_UNIFORM:
        return talc_fill_uniform(tensor, self->low, self->high);
    case TALC_INIT_XAVIER_UNIFORM:
    case TALC_INIT_KAIMING_UNIFORM:
        return talc_fill_uniform(tensor, -fabs(std) * sqrt(3), fabs(std) * sqrt(3));
    case TALC_INIT_NORMAL:
        return talc_fill_normal(tensor, self->mean, std);
    case TALC_INIT_XAVIER_NORMAL:
    case TALC_INIT_KAIMING_NORMAL:
        return talc_fill_normal(tensor, 0, fabs(std));
    default:
        break;
    }
    talc_scope *scope = talc_scope_enter();
    talc_tensor *values = computed(tensor, self);
    const talc_tensor *shaped = values == NULL ? NULL : talc_reshape(values, talc_dims_of(tensor));
    const bool written = shaped != NULL && talc_copy(tensor, shaped);
    talc_scope_leave(scope);
    return written;
}

bool talc_initialise(talc_tensor *tensor, const talc_initialiser *initialiser)
{
    TALC_DEFAULT_FENV;
    if (talc_operand_missing(OP, "tensor", tensor) ||
        talc_operand_missing(OP, "initialiser", initialiser))
        return false;
    const talc_initialiser self = completed(initialiser);
    if (!check_initialiser(&self) || !check_tensor(tensor, &self))
        return false;
    talc_no_grad_enter();
    const bool initialised = initialise(tensor, &self);
    talc_no_grad_leave();
    return initialised;
}

// ---- A module -----------------------------------------------------------------------------------

typedef struct selection {
    const char *pattern;
    const talc_initialiser *initialiser;
    bool checks; ///< rather than writes
    int64_t count;
} selection;

static bool visit(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    selection *selected = context;
    if (is_buffer || fnmatch(selected->pattern, path, 0) != 0)
        return true;
    selected->count++;
    return selected->checks ? check_tensor(tensor, selected->initialiser)
                            : talc_initialise(tensor, selected->initialiser);
}

int64_t talc_module_initialise(talc_module *module, const char *pattern,
                               const talc_initialiser *initialiser)
{
    TALC_DEFAULT_FENV;
    const char *op = "module_initialise";
    if (talc_operand_missing(op, "module", module) ||
        talc_operand_missing(op, "pattern", pattern) ||
        talc_operand_missing(op, "initialiser", initialiser))
        return -1;
    const talc_initialiser self = completed(initialiser);
    if (!check_initialiser(&self))
        return -1;
    selection selected = { pattern, &self, .checks = true };
    if (!talc_module_visit(module, visit, &selected))
        return -1;
    if (selected.count == 0) {
        talc_fail(TALC_NOT_FOUND, "%s: the pattern '%s' fits no parameter", op,
                  TALC_SHOWN(pattern));
        return -1;
    }
    selected = (selection){ pattern, initialiser, .checks = false };
    return talc_module_visit(module, visit, &selected) ? selected.count : -1;
}
