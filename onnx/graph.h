/// A network of a file as it is run: values by number, and the steps that make them. Private to
/// onnx/.
#ifndef TALC_ONNX_GRAPH_H
#define TALC_ONNX_GRAPH_H

#include "nn/entries.h"
#include "nn/fuse.h"
#include "onnx/model.h"
#include "onnx/onnx.h"

#include <pthread.h>

typedef struct talc_onnx_call talc_onnx_call;

/// What talc has for an operator of the format.
typedef struct talc_onnx_operator {
    const char *name; ///< "Conv"
    /// Makes its outputs. False with a failure.
    bool (*run)(talc_onnx_call *call);
    int least; ///< inputs that are there; -1: all that are listed, one or more
    /// Why this node of it cannot be run; NULL: it can. NULL for one that always can.
    const char *(*refuses)(const talc_onnx_node *node, int64_t opset);
} talc_onnx_operator;

/// NULL when there is none.
const talc_onnx_operator *talc_onnx_operator_find(const char *name);

enum { TALC_ONNX_CHAIN_MAX = 3 };

/// A node, or several neighbours that are one.
typedef struct talc_onnx_step {
    const talc_onnx_operator *op;
    const talc_onnx_node *node; ///< whose attributes count
    int input_count, output_count;
    int *inputs, *outputs; ///< numbers of values; -1: left out
    /// Modules that the step applies one after the other in place of the operator, to inputs[0].
    talc_module *layers[TALC_ONNX_CHAIN_MAX];
    int layer_count;
    int residual; ///< a value that is added to theirs; -1: none
    talc_activation activation;
    bool left_out;   ///< another step does its work
    bool normalises; ///< it is a layer norm that was recognised, with this:
    double eps;
    int operands[3]; ///< inputs of a step that was recognised as another
} talc_onnx_step;

typedef struct talc_onnx_value {
    const char *name;
    const talc_onnx_tensor *initializer; ///< NULL: none
    talc_tensor *parameter;              ///< or buffer: the module's handle; NULL: none
    talc_tensor *constant;               ///< on the CPU, owned: known when loaded; NULL: none
    int producer;                        ///< step; -1: none
    int uses;                            ///< by steps that are not left out, and as outputs
    bool is_output;
    bool is_operand;   ///< of an initialiser: not only a setting
    bool is_statistic; ///< of a batch norm: a buffer
    int last_use;      ///< the last step that reads it; the number of steps for an output
} talc_onnx_value;

/// What follows from the shapes of the inputs.
typedef struct talc_onnx_plan {
    struct talc_onnx_plan *next;
    int users;    ///< passes, and 1 for the graph that keeps it
    size_t bytes; ///< of what it holds, when it was made
    talc_device *device;
    talc_dtype dtype;
    talc_dims *shapes;   ///< of the inputs
    talc_tensor **known; ///< by value, on the CPU: elements that are worked out; NULL: they are not
    talc_tensor **moved; ///< the same where ops use them, on the device
    int *steps;          ///< that are left to run, in order
    int step_count;
    int *last_use; ///< by value: the last of these that reads it
} talc_onnx_plan;

typedef struct talc_onnx_graph {
    talc_onnx_model *model;
    talc_onnx_value *values;
    int value_count;
    talc_onnx_step *steps;
    int step_count;
    int *numbers; ///< that inputs and outputs of steps point into
    int *inputs, *outputs;
    talc_dtype dtype;     ///< of the weights in the file
    pthread_mutex_t lock; ///< of the list of plans
    talc_onnx_plan *plans;
} talc_onnx_graph;

/// One application of a step.
struct talc_onnx_call {
    const talc_onnx_graph *graph;
    const talc_onnx_step *step;
    talc_onnx_plan *plan;
    talc_tensor **tensors; ///< by value, of this pass
    bool planning;         ///< the plan is being made
    bool folds;            ///< all inputs are known: it is run on the CPU
    bool *on_data;         ///< set where a shape follows from elements that are not known
};

// ---- What operators ask of a call ---------------------------------------------------------------

/// A value by its number, -1 for none, where the op runs; NULL for none, and on a failure.
talc_tensor *talc_onnx_value_of(talc_onnx_call *call, int value);

/// Its elements on the CPU, where they are known without running the network; NULL: they are not.
talc_tensor *talc_onnx_known(const talc_onnx_call *call, int value);

/// Input `index` where the op runs; NULL for one that is left out, and on a failure.
talc_tensor *talc_onnx_in(talc_onnx_call *call, int index);

/// The same on the CPU.
talc_tensor *talc_onnx_in_host(talc_onnx_call *call, int index);

/// Whether it is there.
bool talc_onnx_has(const talc_onnx_call *call, int index);

/// The elements of an input that decides a shape, at most `capacity`; returns how many there are,
/// -1 with a failure.
int talc_onnx_in_numbers(talc_onnx_call *call, int index, int64_t *numbers, int capacity);

/// The same as doubles, of which at most `capacity` are read.
int talc_onnx_in_reals(talc_onnx_call *call, int index, double *numbers, int capacity);

/// An input of one element that is known; false, without a failure, for another.
bool talc_onnx_in_number(const talc_onnx_call *call, int index, double *number);

/// The same where the number can stand for the tensor beside another of that rank.
bool talc_onnx_in_scalar(const talc_onnx_call *call, int index, int rank, double *number);

/// Gives output `index`. False, with a failure, for NULL.
bool talc_onnx_out(talc_onnx_call *call, int index, talc_tensor *tensor);

/// The same of elements on the CPU that follow from shapes.
bool talc_onnx_out_known(talc_onnx_call *call, int index, talc_tensor *tensor);

/// Attributes of the node, or `fallback`; a list is at most `capacity` long, and its count is
/// returned, 0 for one that is not given.
int64_t talc_onnx_int(const talc_onnx_node *node, const char *name, int64_t fallback);
double talc_onnx_float(const talc_onnx_node *node, const char *name, double fallback);
const char *talc_onnx_string(const talc_onnx_node *node, const char *name, const char *fallback);
int talc_onnx_ints(const talc_onnx_node *node, const char *name, int64_t *list, int capacity);

/// What messages call a node: its name, else its first output's.
const char *talc_onnx_node_name(const talc_onnx_node *node);

/// Raises a failure that names the node: "resnet.onnx: Reshape '/Reshape': ...". False.
bool talc_onnx_fail(const talc_onnx_call *call, talc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// The dtype of talc for a type of the format; TALC_DTYPE_COUNT: none.
talc_dtype talc_onnx_dtype(int type);

/// A tensor of the file on the CPU; NULL with a failure.
talc_tensor *talc_onnx_tensor_new(const talc_onnx_model *model, const talc_onnx_tensor *tensor);

// ---- Parts --------------------------------------------------------------------------------------

/// Whether every node has the inputs, outputs and attributes that its operator needs; false with a
/// failure that names it.
bool talc_onnx_nodes_fit(const talc_onnx_model *model);

/// Puts modules in place of steps, and registers parameters.
bool talc_onnx_build(talc_module *root, talc_onnx_graph *graph);

/// Makes neighbours that are one op one step.
void talc_onnx_fuse(talc_onnx_graph *graph);

/// Applies the modules of a step. NULL with a failure.
talc_tensor *talc_onnx_apply(const talc_onnx_step *step, talc_tensor *x, talc_tensor *residual);

/// Writes operators in place of the longer forms that older opsets have for them.
bool talc_onnx_recognise(talc_onnx_graph *graph);

/// Runs all steps. `results` belong to the scope that is open.
bool talc_onnx_pass_run(talc_onnx_graph *graph, talc_tensor *const inputs[],
                        talc_tensor *results[]);

void talc_onnx_plans_free(talc_onnx_graph *graph);

/// Counts uses and last uses anew.
void talc_onnx_count_uses(talc_onnx_graph *graph);

#endif
