#include "onnx/graph.h"
#include "tensor/device.h"
#include "tensor/observe.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// ---- Attributes ---------------------------------------------------------------------------------

int64_t talc_onnx_int(const talc_onnx_node *node, const char *name, int64_t fallback)
{
    const talc_onnx_attribute *a = talc_onnx_attribute_of(node, name);
    return a != NULL && a->kind == TALC_ONNX_ATTRIBUTE_INT ? a->i : fallback;
}

double talc_onnx_float(const talc_onnx_node *node, const char *name, double fallback)
{
    const talc_onnx_attribute *a = talc_onnx_attribute_of(node, name);
    return a != NULL && a->kind == TALC_ONNX_ATTRIBUTE_FLOAT ? (double)a->f : fallback;
}

const char *talc_onnx_string(const talc_onnx_node *node, const char *name, const char *fallback)
{
    const talc_onnx_attribute *a = talc_onnx_attribute_of(node, name);
    return a != NULL && a->kind == TALC_ONNX_ATTRIBUTE_STRING && a->s != NULL ? a->s : fallback;
}

int talc_onnx_ints(const talc_onnx_node *node, const char *name, int64_t *list, int capacity)
{
    const talc_onnx_attribute *a = talc_onnx_attribute_of(node, name);
    if (a == NULL || a->kind != TALC_ONNX_ATTRIBUTE_INTS)
        return 0;
    for (int64_t i = 0; i < a->count && i < capacity; i++)
        list[i] = a->ints[i];
    return (int)(a->count < capacity ? a->count : capacity);
}

// ---- Failures -----------------------------------------------------------------------------------

const char *talc_onnx_node_name(const talc_onnx_node *node)
{
    return node->name[0] != '\0' ? node->name : node->output_count > 0 ? node->outputs[0] : "";
}

bool talc_onnx_fail(const talc_onnx_call *call, talc_status status, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const talc_onnx_node *node = call->step->node;
    const char *name = talc_onnx_node_name(node);
    talc_fail(status, "%s: %s '%s': %s", TALC_SHOWN(call->graph->model->path), TALC_SHOWN(node->op),
              TALC_SHOWN(name), what);
    return false;
}

// ---- Inputs -------------------------------------------------------------------------------------

static int number_of(const talc_onnx_call *call, int index)
{
    return index < call->step->input_count ? call->step->inputs[index] : -1;
}

bool talc_onnx_has(const talc_onnx_call *call, int index)
{
    return number_of(call, index) >= 0;
}

talc_tensor *talc_onnx_known(const talc_onnx_call *call, int value)
{
    talc_tensor *constant = call->graph->values[value].constant;
    return constant != NULL ? constant : call->plan->known[value];
}

/* As talc_to, and no op of the network: what a pass is compared with has its shapes elsewhere. */
static talc_tensor *transferred(const talc_tensor *tensor, talc_device *device, talc_dtype dtype)
{
    talc_observer *observer = talc_observe_pause();
    talc_tensor *there = talc_to(tensor, device, dtype);
    talc_observe_resume(observer);
    return there;
}

/* The elements where ops of the pass use them: kept by the plan. */
static talc_tensor *moved(talc_onnx_call *call, int value)
{
    talc_tensor *known = talc_onnx_known(call, value);
    if (known == NULL || call->plan->moved[value] != NULL)
        return call->plan->moved[value];
    const talc_dtype dtype = known->dtype == call->graph->dtype ? call->plan->dtype : known->dtype;
    talc_tensor *there = transferred(known, call->plan->device, dtype);
    call->plan->moved[value] = talc_retain(there);
    return there;
}

talc_tensor *talc_onnx_value_of(talc_onnx_call *call, int value)
{
    if (value < 0)
        return NULL;
    if (call->folds)
        return talc_onnx_known(call, value);
    talc_tensor *tensor = call->tensors[value];
    if (tensor == NULL)
        tensor = call->graph->values[value].parameter;
    return tensor != NULL ? tensor : moved(call, value);
}

talc_tensor *talc_onnx_in(talc_onnx_call *call, int index)
{
    return talc_onnx_value_of(call, number_of(call, index));
}

talc_tensor *talc_onnx_in_host(talc_onnx_call *call, int index)
{
    const int value = number_of(call, index);
    if (value < 0)
        return NULL;
    talc_tensor *known = talc_onnx_known(call, value);
    if (known != NULL)
        return talc_contiguous(known);
    talc_tensor *tensor = talc_onnx_in(call, index);
    tensor = tensor == NULL ? NULL : transferred(tensor, talc_device_host(), tensor->dtype);
    return tensor == NULL ? NULL : talc_contiguous(tensor);
}

/* Elements as doubles and as integers, which are cut as by a cast. The tensor is contiguous on the
 * CPU and nothing writes it, so that it may be read while a device is recorded. */
static void read_element(const talc_tensor *tensor, int64_t i, double *real, int64_t *whole)
{
    double number = 0;
    int64_t integer = 0;
    switch (tensor->dtype) {
    case TALC_F32:
        number = ((const float *)tensor->data)[i];
        break;
    case TALC_F64:
        number = ((const double *)tensor->data)[i];
        break;
    case TALC_I64:
        integer = ((const int64_t *)tensor->data)[i];
        break;
    case TALC_I32:
        integer = ((const int32_t *)tensor->data)[i];
        break;
    default:
        integer = ((const uint8_t *)tensor->data)[i];
    }
    if (talc_dtype_is_float(tensor->dtype))
        integer = number >= 9.2e18 ? INT64_MAX : number > -9.2e18 ? (int64_t)number : INT64_MIN;
    else
        number = (double)integer;
    *real = number;
    *whole = integer;
}

/* The elements of an input, known ones at once and others from the device. */
static talc_tensor *decided(talc_onnx_call *call, int index, int value)
{
    talc_tensor *known = talc_onnx_known(call, value);
    if (known != NULL)
        return known;
    *call->on_data = true;
    talc_tensor *tensor = talc_onnx_in_host(call, index);
    return tensor == NULL || talc_numel(tensor) == 0 ||
                   talc_data_read(tensor, tensor->dtype) != NULL
               ? tensor
               : NULL;
}

int talc_onnx_in_reals(talc_onnx_call *call, int index, double *numbers, int capacity)
{
    const int value = number_of(call, index);
    const talc_tensor *tensor = value < 0 ? NULL : decided(call, index, value);
    if (tensor == NULL)
        return value < 0 ? 0 : -1;
    int64_t whole;
    for (int64_t i = 0; i < talc_numel(tensor) && i < capacity; i++)
        read_element(tensor, i, &numbers[i], &whole);
    return (int)(talc_numel(tensor) < capacity ? talc_numel(tensor) : capacity);
}

int talc_onnx_in_numbers(talc_onnx_call *call, int index, int64_t *numbers, int capacity)
{
    const int value = number_of(call, index);
    if (value < 0)
        return 0;
    const talc_tensor *tensor = decided(call, index, value);
    if (tensor == NULL)
        return -1;
    const int64_t count = talc_numel(tensor);
    if (count > capacity) {
        talc_onnx_fail(call, TALC_BAD_ARGUMENT, "input %d has %lld elements, at most %d fit", index,
                       (long long)count, capacity);
        return -1;
    }
    double real;
    for (int64_t i = 0; i < count; i++)
        read_element(tensor, i, &real, &numbers[i]);
    return (int)count;
}

bool talc_onnx_in_number(const talc_onnx_call *call, int index, double *number)
{
    const int value = number_of(call, index);
    const talc_tensor *known = value < 0 ? NULL : talc_onnx_known(call, value);
    int64_t whole;
    if (known == NULL || talc_numel(known) != 1)
        return false;
    read_element(known, 0, number, &whole);
    return true;
}

bool talc_onnx_in_scalar(const talc_onnx_call *call, int index, int rank, double *number)
{
    const int value = number_of(call, index);
    const talc_tensor *known = value < 0 ? NULL : talc_onnx_known(call, value);
    /* Of integers only such as a double holds. */
    return known != NULL && known->rank <= rank && talc_onnx_in_number(call, index, number) &&
           (talc_dtype_is_float(known->dtype) || (*number < 0x1p53 && *number > -0x1p53));
}

// ---- Outputs ------------------------------------------------------------------------------------

bool talc_onnx_out_known(talc_onnx_call *call, int index, talc_tensor *tensor)
{
    if (tensor == NULL || talc_failed())
        return false;
    if (index >= call->step->output_count || call->step->outputs[index] < 0)
        return true;
    const int value = call->step->outputs[index];
    if (call->plan->known[value] == NULL)
        call->plan->known[value] = talc_retain(talc_contiguous(tensor));
    return call->plan->known[value] != NULL;
}

/* Whether a value is that handle. */
static bool holds(const talc_onnx_call *call, int value, const talc_tensor *tensor)
{
    return call->tensors[value] == tensor || call->graph->values[value].parameter == tensor ||
           call->plan->moved[value] == tensor;
}

bool talc_onnx_out(talc_onnx_call *call, int index, talc_tensor *tensor)
{
    if (tensor == NULL || talc_failed())
        return false;
    if (call->folds)
        return talc_onnx_out_known(call, index, tensor);
    if (index >= call->step->output_count || call->step->outputs[index] < 0)
        return true;
    if (tensor->device != call->plan->device)
        tensor = transferred(tensor, call->plan->device, tensor->dtype);
    /* A handle of its own, so that letting go of an input leaves the output. */
    for (int i = 0; tensor != NULL && i < call->step->input_count; i++)
        if (talc_onnx_has(call, i) && holds(call, number_of(call, i), tensor)) {
            tensor = talc_view(tensor, talc_dims_of(tensor));
            break;
        }
    call->tensors[call->step->outputs[index]] = tensor;
    return tensor != NULL;
}

// ---- Types --------------------------------------------------------------------------------------

talc_dtype talc_onnx_dtype(int type)
{
    switch (type) {
    case TALC_ONNX_FLOAT:
        return TALC_F32;
    case TALC_ONNX_DOUBLE:
        return TALC_F64;
    case TALC_ONNX_INT32:
        return TALC_I32;
    case TALC_ONNX_INT64:
        return TALC_I64;
    case TALC_ONNX_UINT8:
    case TALC_ONNX_BOOL:
        return TALC_U8;
    default:
        return TALC_DTYPE_COUNT;
    }
}

talc_tensor *talc_onnx_tensor_new(const talc_onnx_model *model, const talc_onnx_tensor *tensor)
{
    const talc_dtype dtype = talc_onnx_dtype(tensor->type);
    char text[24];
    if (dtype == TALC_DTYPE_COUNT) {
        talc_fail(TALC_UNSUPPORTED, "%s: tensor '%s' is of %s, which talc does not compute with",
                  TALC_SHOWN(model->path), TALC_SHOWN(tensor->name),
                  talc_onnx_type_name(tensor->type, text));
        return NULL;
    }
    talc_tensor *made = talc_empty(talc_device_host(), dtype, tensor->dims);
    if (made == NULL || tensor->count == 0)
        return made;
    return talc_onnx_read_elements(model, tensor, talc_data(made, dtype)) ? made : NULL;
}
