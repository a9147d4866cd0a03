/* Operands that are missing, of another type or on another device: what every op says of them, by
 * the declarations of the public headers. */
#include "tests/support/fake_device.h"
#include "tests/support/hooks.h"
#include "tests/support/operand_calls.h"
#include "tests/support/refused.h"

#include <stdio.h>
#include <string.h>

enum { MESSAGE = 200 };

static bool is_one_of(const char *name, const char *const list[])
{
    while (*list != NULL && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

/* "add" of add_scalar: what its messages begin with. */
static const char *title_of(const operand_call *op, char text[64])
{
    static const char *const ends[] = { "_scalar", "_with", "_indices" };
    snprintf(text, 64, "%s", op->name);
    for (int i = 0; i < 3; i++) {
        const size_t length = strlen(text), end = strlen(ends[i]);
        if (length > end && strcmp(text + length - end, ends[i]) == 0)
            text[length - end] = '\0';
    }
    return text;
}

static bool is_optional(const operand_call *op, int k)
{
    static const char *const optional[] = { "bias", "running_mean", "running_var", NULL };
    return is_one_of(op->operands[k], optional) ||
           (strcmp(op->operands[k], "weight") == 0 && strstr(op->name, "norm") != NULL);
}

/* What an operand of that name is, where it is not f32. */
static talc_dtype type_of(const char *operand)
{
    static const char *const integers[] = { "index", "labels", NULL }, *const bytes[] = {
        "condition", "mask", NULL
    };
    return is_one_of(operand, integers) ? TALC_I64 : is_one_of(operand, bytes) ? TALC_U8 : TALC_F32;
}

/* Of one element and of its type. */
static talc_tensor *operand_of(const operand_call *op, int k, talc_device *device)
{
    const bool channels = is_optional(op, k), matrix = strcmp(op->operands[k], "weight") == 0;
    return talc_ones(device, type_of(op->operands[k]),
                     channels ? TALC_DIMS(1)
                     : matrix ? TALC_DIMS(1, 1)
                              : TALC_DIMS(1, 1, 1, 1));
}

static void operands_of(const operand_call *op, talc_tensor *operands[])
{
    for (int k = 0; k < op->count; k++)
        refused_watch(operands[k] = operand_of(op, k, cpu_device()));
}

/* The call is refused with one of `count` messages; false, shown, if it is not. */
static bool refused(const operand_call *op, talc_tensor *const operands[], talc_status status,
                    char messages[][MESSAGE], int count)
{
    talc_tensor *y = op->call(operands);
    int at = 0;
    while (at < count && strcmp(messages[at], talc_error_message()) != 0)
        at++;
    const bool right = y == NULL && talc_error_status() == status && at < count;
    if (!right)
        fprintf(stderr, "%s: '%s' instead of '%s'\n", op->name, talc_error_message(), messages[0]);
    talc_error_clear();
    talc_release(y);
    HARMLESS(true);
    return right;
}

Test(operands, one_that_is_missing_is_named)
{
    int wrong = 0, asked = 0;
    for (const operand_call *op = operand_calls; op->name != NULL; op++) {
        owned_scope *scope = talc_scope_enter();
        talc_tensor *operands[OPERANDS_OF_A_CALL] = { NULL };
        operands_of(op, operands);
        for (int k = 0; k < op->count; k++) {
            talc_tensor *const kept = operands[k];
            char messages[1][MESSAGE], title[64];
            snprintf(messages[0], MESSAGE, "%s: %s is NULL", title_of(op, title), op->operands[k]);
            operands[k] = NULL;
            if (!is_optional(op, k) && ++asked > 0)
                wrong += !refused(op, operands, TALC_NULL_ARGUMENT, messages, 1);
            operands[k] = kept;
        }
        refused_end(0);
    }
    cr_assert(wrong == 0 && asked > 120, "%d of %d calls", wrong, asked);
}

Test(operands, one_on_another_device_is_named)
{
    int wrong = 0, asked = 0;
    for (const operand_call *op = operand_calls; op->name != NULL; op++) {
        owned_scope *scope = talc_scope_enter();
        talc_tensor *operands[OPERANDS_OF_A_CALL] = { NULL };
        operands_of(op, operands);
        for (int k = 0; k < op->count && op->count > 1; k++) {
            talc_tensor *const kept = operands[k];
            char messages[2 * OPERANDS_OF_A_CALL][MESSAGE], title[64];
            int count = 0;
            title_of(op, title);
            for (int other = 0; other < op->count; other++) {
                if (other == k)
                    continue;
                snprintf(messages[count++], MESSAGE, "%s: %s is on cpu, %s on fake", title,
                         op->operands[other], op->operands[k]);
                snprintf(messages[count++], MESSAGE, "%s: %s is on fake, %s on cpu", title,
                         op->operands[k], op->operands[other]);
            }
            operands[k] = operand_of(op, k, fake_device());
            asked++;
            wrong += !refused(op, operands, TALC_BAD_DEVICE, messages, count);
            operands[k] = kept;
        }
        refused_end(0);
    }
    cr_assert(wrong == 0 && asked > 60, "%d of %d calls", wrong, asked);
}

/* Of i64 in place of the first operand's f32, of f64 in place of the others' types. */
Test(operands, one_of_another_type_is_named)
{
    /* These take every type, or the options that the calls leave out first. */
    // clang-format off
    static const char *const any[] = {
        "empty_like", "zeros_like", "view", "reshape", "permute", "transpose", "slice", "select", "expand", "squeeze",
        "unsqueeze", "flatten", "clone", "contiguous", "cast", "detach", "pad", "upsample2d", "equal_scalar",
        "not_equal_scalar", "less_scalar", "less_equal_scalar", "greater_scalar", "greater_equal_scalar", "clamp",
        "channel_shuffle", "flip", "tile", "tril", "triu", "neg", "add_scalar", "sub_scalar", "mul_scalar", "sum", "max", "max_indices", "argmax", "min", "min_indices", "argmin", NULL
    };
    static const char *const any_first[] = { "masked_fill", "gather", "index_select", NULL };
    // clang-format on
    int wrong = 0, asked = 0;
    for (const operand_call *op = operand_calls; op->name != NULL; op++) {
        owned_scope *scope = talc_scope_enter();
        talc_tensor *operands[OPERANDS_OF_A_CALL] = { NULL };
        operands_of(op, operands);
        const int first = is_one_of(op->name, any)         ? op->count
                          : is_one_of(op->name, any_first) ? 1
                                                           : 0;
        for (int k = first; k < op->count; k++) {
            talc_tensor *const kept = operands[k];
            char messages[2 + 2 * OPERANDS_OF_A_CALL][MESSAGE], title[64];
            const talc_dtype right = type_of(op->operands[k]);
            const talc_dtype bad = right == TALC_F32 && k == 0 ? TALC_I64 : TALC_F64;
            const char *is = talc_dtype_name(bad), *wanted = talc_dtype_name(right);
            int count = 0;
            title_of(op, title);
            snprintf(messages[count++], MESSAGE, "%s: %s is %s, it must be %s", title,
                     op->operands[k], is, right == TALC_F32 ? "f32 or f64" : wanted);
            for (int other = 0; other < op->count; other++) {
                if (other == k)
                    continue;
                snprintf(messages[count++], MESSAGE, "%s: %s is f32, %s is %s", title,
                         op->operands[other], op->operands[k], is);
                snprintf(messages[count++], MESSAGE, "%s: %s is %s, %s is f32", title,
                         op->operands[k], is, op->operands[other]);
            }
            operands[k] = talc_cast(kept, bad);
            asked++;
            wrong += !refused(op, operands, TALC_BAD_DTYPE, messages, count);
            operands[k] = kept;
        }
        refused_end(0);
    }
    cr_assert(wrong == 0 && asked > 100, "%d of %d calls", wrong, asked);
}
