#include "tensor/random.h"

#include "tensor/device.h"
#include "tensor/fenv.h"
#include "tensor/generator.h"
#include "tensor/memory.h"
#include "tensor/recording.h"
#include "tensor/run.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static _Thread_local talc_generator generator;

talc_generator talc_generator_get(void)
{
    return generator;
}

bool talc_generator_set(talc_generator value)
{
    if (talc_failed())
        return false;
    generator = value;
    return true;
}

void talc_generator_restore(talc_generator before)
{
    generator = before;
}

bool talc_manual_seed(uint64_t seed)
{
    return talc_generator_set((talc_generator){ .seed = seed });
}

// ---- Distributions, checked ---------------------------------------------------------------------

static talc_status check_float(const char *who, talc_dtype dtype)
{
    if (talc_dtype_is_float(dtype))
        return TALC_OK;
    return talc_fail(TALC_BAD_DTYPE, "%s: dtype %s, random real numbers are f32 or f64", who,
                     talc_dtype_name(dtype));
}

static double largest(talc_dtype dtype)
{
    return dtype == TALC_F32 ? FLT_MAX : DBL_MAX;
}

/* The least number of dtype that is at least x. */
static double round_up(talc_dtype dtype, double x)
{
    if (dtype == TALC_F64)
        return x;
    float rounded = (float)x;
    return (double)rounded < x ? nextafterf(rounded, INFINITY) : rounded;
}

/* The greatest number of dtype that is below x. */
static double below(talc_dtype dtype, double x)
{
    if (dtype == TALC_F64)
        return nextafter(x, -INFINITY);
    float rounded = (float)x;
    return (double)rounded < x ? rounded : nextafterf(rounded, -INFINITY);
}

static talc_status uniform_problem(const char *who, talc_dtype dtype, double low, double high,
                                   talc_random_problem *problem)
{
    TALC_DEFAULT_FENV;
    if (check_float(who, dtype) != TALC_OK)
        return talc_error_status();
    if (!(low < high))
        return talc_fail(TALC_BAD_ARGUMENT, "%s: low %g is not below high %g", who, low, high);
    /* Half the range, so that the width of the interval is finite too. */
    if (!(fabs(low) <= largest(dtype) / 2) || !(fabs(high) <= largest(dtype) / 2))
        return talc_fail(TALC_BAD_ARGUMENT, "%s: [%g,%g) exceeds %g, the bound for %s", who, low,
                         high, largest(dtype) / 2, talc_dtype_name(dtype));
    *problem = (talc_random_problem){ .dtype = dtype,
                                      .distribution = TALC_UNIFORM,
                                      .a = low,
                                      .b = high,
                                      .lowest = round_up(dtype, low),
                                      .highest = below(dtype, high) };
    if (problem->lowest > problem->highest)
        return talc_fail(TALC_BAD_ARGUMENT, "%s: [%.17g,%.17g) holds no %s number", who, low, high,
                         talc_dtype_name(dtype));
    return TALC_OK;
}

static talc_status normal_problem(const char *who, talc_dtype dtype, double mean, double std,
                                  talc_random_problem *problem)
{
    TALC_DEFAULT_FENV;
    if (check_float(who, dtype) != TALC_OK)
        return talc_error_status();
    if (!(std >= 0))
        return talc_fail(TALC_BAD_ARGUMENT, "%s: std %g is not 0 or above", who, std);
    /* No normal number is 9 standard deviations away. */
    if (!(fabs(mean) <= largest(dtype) / 2) || !(std <= largest(dtype) / 18))
        return talc_fail(TALC_BAD_ARGUMENT, "%s: mean %g with std %g exceeds the range of %s", who,
                         mean, std, talc_dtype_name(dtype));
    *problem =
        (talc_random_problem){ .dtype = dtype, .distribution = TALC_NORMAL, .a = mean, .b = std };
    return TALC_OK;
}

static talc_status integer_problem(const char *who, talc_dtype dtype, int64_t low, int64_t high,
                                   talc_random_problem *problem)
{
    int64_t min = dtype == TALC_U8 ? 0 : dtype == TALC_I32 ? INT32_MIN : INT64_MIN;
    int64_t max = dtype == TALC_U8 ? UINT8_MAX : dtype == TALC_I32 ? INT32_MAX : INT64_MAX;
    if (dtype != TALC_U8 && dtype != TALC_I32 && dtype != TALC_I64)
        return talc_fail(TALC_BAD_DTYPE, "%s: dtype %s, random integers are i64, i32 or u8", who,
                         talc_dtype_name(dtype));
    if (low >= high)
        return talc_fail(TALC_BAD_ARGUMENT, "%s: low %" PRId64 " is not below high %" PRId64, who,
                         low, high);
    if (low < min || high - 1 > max)
        return talc_fail(TALC_BAD_ARGUMENT,
                         "%s: [%" PRId64 ",%" PRId64 ") exceeds %s, %" PRId64 "..%" PRId64, who,
                         low, high, talc_dtype_name(dtype), min, max);
    *problem = (talc_random_problem){ .dtype = dtype,
                                      .distribution = TALC_INTEGERS,
                                      .low = low,
                                      .range = (uint64_t)high - (uint64_t)low };
    return TALC_OK;
}

// ---- Drawing ------------------------------------------------------------------------------------

static talc_status run(const char *who, const talc_random_problem *problem, talc_tensor *tensor)
{
    TALC_DEFAULT_FENV;
    talc_device *device = tensor->device;
    const talc_run frame = talc_run_begin(who, device, "philox", talc_run_dims, tensor);
    return talc_run_end(&frame, device->interface->random(device, problem, tensor->data));
}

/* The call of a replay, in place of which the recorded one stands. */
static bool next_call(const void *of, void *numbers)
{
    (void)of;
    const uint64_t counter[2] = { generator.seed, generator.call++ };
    memcpy(numbers, counter, sizeof counter);
    return true;
}

/* Fills a contiguous tensor. The call counts when it has succeeded; one that is recorded, when it
 * is replayed. */
static bool draw(const char *who, talc_random_problem *problem, talc_tensor *tensor)
{
    problem->count = talc_numel(tensor);
    if (problem->count > 0 && talc_recording_records_step(tensor->device)) {
        problem->counter = talc_recording_numbers(&(talc_numbers){
            .bytes = 2 * sizeof(uint64_t), .fill = next_call, .of = talc_memory_new(1, who) });
        return problem->counter != NULL && run(who, problem, tensor) == TALC_OK;
    }
    problem->seed = generator.seed;
    problem->call = generator.call;
    if (problem->count > 0 && run(who, problem, tensor) != TALC_OK)
        return false;
    generator.call++;
    return true;
}

static talc_tensor *drawn(const char *who, talc_device *device, talc_dims dims,
                          talc_random_problem *problem)
{
    if (talc_recording_refuses_random(who, device))
        return NULL;
    talc_tensor *tensor = talc_tensor_new(who, device, problem->dtype, dims);
    if (tensor != NULL && !draw(who, problem, tensor)) {
        talc_release(tensor);
        tensor = NULL;
    }
    return tensor;
}

static talc_tensor *uniform(const char *who, talc_device *device, talc_dtype dtype, talc_dims dims,
                            double low, double high)
{
    talc_random_problem problem = { 0 };
    if (talc_operand_missing(who, "device", device) ||
        uniform_problem(who, dtype, low, high, &problem) != TALC_OK)
        return NULL;
    return drawn(who, device, dims, &problem);
}

static talc_tensor *normal(const char *who, talc_device *device, talc_dtype dtype, talc_dims dims,
                           double mean, double std)
{
    talc_random_problem problem = { 0 };
    if (talc_operand_missing(who, "device", device) ||
        normal_problem(who, dtype, mean, std, &problem) != TALC_OK)
        return NULL;
    return drawn(who, device, dims, &problem);
}

talc_tensor *talc_rand(talc_device *device, talc_dtype dtype, talc_dims dims)
{
    return uniform("rand", device, dtype, dims, 0, 1);
}

talc_tensor *talc_randn(talc_device *device, talc_dtype dtype, talc_dims dims)
{
    return normal("randn", device, dtype, dims, 0, 1);
}

talc_tensor *talc_uniform(talc_device *device, talc_dtype dtype, talc_dims dims, double low,
                          double high)
{
    return uniform("uniform", device, dtype, dims, low, high);
}

talc_tensor *talc_normal(talc_device *device, talc_dtype dtype, talc_dims dims, double mean,
                         double std)
{
    return normal("normal", device, dtype, dims, mean, std);
}

talc_tensor *talc_randint(talc_device *device, talc_dtype dtype, talc_dims dims, int64_t low,
                          int64_t high)
{
    talc_random_problem problem = { 0 };
    if (talc_operand_missing("randint", "device", device) ||
        integer_problem("randint", dtype, low, high, &problem) != TALC_OK)
        return NULL;
    return drawn("randint", device, dims, &problem);
}

/* In place where the elements lie as they are drawn, else through a contiguous tensor. */
static bool overwrite(const char *who, talc_tensor *tensor, talc_random_problem *problem)
{
    if (!talc_operand_writable(who, tensor) || talc_recording_refuses_random(who, tensor->device))
        return false;
    if (talc_is_contiguous(tensor)) {
        if (!draw(who, problem, tensor))
            return false;
        talc_tensor_written(tensor);
        return true;
    }
    talc_tensor *packed = drawn(who, tensor->device, talc_dims_of(tensor), problem);
    bool ok = packed != NULL && talc_copy_for(who, tensor, packed);
    talc_release(packed);
    return ok;
}

bool talc_fill_uniform(talc_tensor *tensor, double low, double high)
{
    talc_random_problem problem = { 0 };
    return !talc_operand_missing("fill_uniform", "tensor", tensor) &&
           uniform_problem("fill_uniform", tensor->dtype, low, high, &problem) == TALC_OK &&
           overwrite("fill_uniform", tensor, &problem);
}

bool talc_fill_normal(talc_tensor *tensor, double mean, double std)
{
    talc_random_problem problem = { 0 };
    return !talc_operand_missing("fill_normal", "tensor", tensor) &&
           normal_problem("fill_normal", tensor->dtype, mean, std, &problem) == TALC_OK &&
           overwrite("fill_normal", tensor, &problem);
}
