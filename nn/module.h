/// Modules: layers with parameters, and trees of them.
///
/// A module is a struct whose first member is talc_module, and a class that says how it is made and
/// applied:
///
///     typedef struct { talc_module base; talc_module *conv2d; } model_new;
///
///     static bool init(talc_module *module, const void *options) {
///         model_new *self = (model_new *)module;
///         self->conv2d = talc_module_add(module, "conv2d", talc_nn_conv2d(options));
///         return self->conv2d != NULL;
///     }
///     static talc_tensor *forward(talc_module *module, talc_tensor *x) {
///         return talc_forward(((model_new *)module)->conv2d, x);
///     }
///     static const talc_module_class model_new_class = { "ModelNew", sizeof(model_new),
///                                                        init, forward, NULL, NULL };
///
///     talc_module *model = talc_module_new(&model_new_class, &(talc_conv2d_layer){ ... });
///
/// Paths of parameters are PyTorch's state_dict keys: layer1.0.conv1.weight. Modules belong to the
/// program, not to scopes; talc_module_free frees a module with its children.
///
/// Threads: several may apply one module at once (talc_forward, talc_forward_chain, graphs of their
/// own), and one of them may load weights meanwhile (talc_module_load, talc_checkpoint_load). A
/// load waits for the passes under way, and passes that begin meanwhile wait while it exchanges the
/// parameters: each pass sees the old ones or the new, and what it reads stays until it ends. A
/// load that a forward function makes, of its own model or another, pauses the passes that its
/// thread is in: what comes after the load in them sees what this load and those of other threads
/// put in place. A load knows the passes through its own tree alone: a parameter that two trees
/// share is read and loaded by one thread at a time. talc_module_to and talc_module_cast wait as a
/// load does; passes then fail where x is not where the parameters are. They drop gradients, so no
/// backward pass through the module may run meanwhile. A save (talc_module_save,
/// talc_checkpoint_save) counts as a pass: it writes one state. Everything else that changes a
/// module is for one thread while no other uses it: optimizer steps, passes in train mode that move
/// running statistics, train, eval, adding, freeing, and talc_module_summary and its like, which
/// set modes. So is reading a parameter outside a forward function. Backward passes take turns
/// (tensor/autograd.h).
#ifndef TALC_NN_MODULE_H
#define TALC_NN_MODULE_H

#include "../ops/algorithm.h"
#include "../tensor/device.h"
#include "../tensor/scope.h"

#include <stdio.h>

TALC_BEGIN_DECLARATIONS

typedef struct talc_module talc_module;

typedef struct talc_module_class {
    const char *name; ///< "Conv2d"
    size_t size;      ///< of the struct that begins with talc_module
    /// Registers children and parameters; false, with a failure raised, when it cannot. Tensors
    /// made in it end with it unless they are registered or retained. NULL: nothing to do.
    bool (*init)(talc_module *module, const void *options);
    /// Returns a new tensor, or x. What else it makes is freed when it returns, unless retained.
    /// NULL: children only.
    talc_tensor *(*forward)(talc_module *module, talc_tensor *x);
    /// Frees what the module owns apart from children and parameters, also after an init that
    /// failed. NULL: nothing.
    void (*free)(talc_module *module);
    /// Multiply-accumulates of one forward pass from an input of shape x to an output of shape y,
    /// children not counted; for the summary. NULL: 0.
    double (*macs)(const talc_module *module, talc_dims x, talc_dims y);
} talc_module_class;

/// What every module has. Fields are for reading.
struct talc_module {
    const talc_module_class *kind;
    bool training; ///< true when made, as in PyTorch
    /// Children, parameters and buffers by name, in order of registration.
    struct talc_module_entries *entries;
};

/// Makes a module: a zeroed struct of the class's size, then init. NULL on failure, with nothing
/// left behind.
TALC_API talc_module *talc_module_new(const talc_module_class *kind, const void *options);

/// Frees a module, its children and its parameters. NULL passes, and so does a child: its parent
/// frees it.
TALC_API void talc_module_free(talc_module *module);

/// The maximum number of levels of a tree, root and leaves counted, so that a pass and every walk
/// fit a small thread's stack: of 256 KiB that leaves 1 KiB a level, of which talc takes some 160
/// bytes and leaves the rest to forward functions. Networks have about ten levels.
enum { TALC_MODULE_LEVELS = 256 };

/// Registers a child, whose ownership passes to `module`, also on failure. Names are unique within
/// a module, not empty and without a dot. Returns the child; NULL when it is NULL, the name is bad
/// or the tree would have more than TALC_MODULE_LEVELS. A child that has a parent already, or that
/// contains `module`, is refused and stays where it is.
TALC_API talc_module *talc_module_add(talc_module *module, const char *name, talc_module *child);

/// Registers a parameter (learned: it asks for a gradient, tensor/autograd.h) or a buffer (state
/// such as running_mean). The module retains the tensor and returns the handle to use, which stays
/// the same for the module's life: moving and loading replace its storage. A parameter that is the
/// result of a recorded op, and so would never learn, is an error.
TALC_API talc_tensor *talc_module_parameter(talc_module *module, const char *name,
                                            talc_tensor *tensor);
TALC_API talc_tensor *talc_module_buffer(talc_module *module, const char *name,
                                         talc_tensor *tensor);

/// Applies a module. A failure in a child's forward begins with its path from the root of the tree:
/// "17.0: conv2d: x ...". The outermost call of a thread is a pass, which changes by other threads
/// wait for.
TALC_API talc_tensor *talc_forward(talc_module *module, talc_tensor *x);

/// Whether the parameters of a tree ask for gradients: false freezes them, and drops the gradients
/// that they have. Errors: NULL, no memory.
TALC_API bool talc_module_require_grad(talc_module *module, bool required);

TALC_API bool talc_module_train(talc_module *module); ///< sets train mode, here and in all children
TALC_API bool talc_module_eval(talc_module *module);  ///< sets evaluation mode

/// Moves all parameters and buffers; either all move or none.
TALC_API bool talc_module_to(talc_module *module, talc_device *device);

/// Converts all parameters and buffers of f32 or f64 to the other; either all or none. Gradients of
/// those that change are dropped, and what an optimizer keeps of them is cast by its next step.
/// Errors: NULL, a dtype that is neither, no memory.
TALC_API bool talc_module_cast(talc_module *module, talc_dtype dtype);

// ---- Looking through a tree ---------------------------------------------------------------------

/// Called for each parameter and buffer with its path, which lasts for the call; returning false
/// ends the walk.
typedef bool talc_parameter_visitor(const char *path, talc_tensor *tensor, bool is_buffer,
                                    void *context);

/// Walks a tree in the order of PyTorch's state_dict: a module's parameters, then its buffers, then
/// its children. True when the walk came to its end; false when a visitor ended it, on NULL, and
/// without memory for the path.
TALC_API bool talc_module_visit(talc_module *module, talc_parameter_visitor *visit, void *context);

/// Learned elements in all; those of a parameter that layers share count once. 0 for NULL.
TALC_API int64_t talc_module_count(const talc_module *module);

/// The parameter or buffer of a path; NULL when there is none. Borrowed from the module.
TALC_API talc_tensor *talc_module_find(talc_module *module, const char *path);

/// The child of a path such as "layer1.0", the module itself for ""; NULL when there is none.
/// Borrowed.
TALC_API talc_module *talc_module_child(talc_module *module, const char *path);

/// A module of a tree and what a forward pass showed of it, without its children.
typedef struct talc_module_layer {
    char *path; ///< "layer1.0.conv1"; "" for the module itself
    const talc_module *module;
    const char
        *into; ///< the name of the module that this one is fused with outside the table; NULL: none
    int calls;
    bool failed;       ///< its last call, itself or in a child
    talc_dims output;  ///< of the last call that did not
    double bytes;      ///< of the outputs of all calls
    double parameters; ///< those that layers share count for the first of them
    double macs;       ///< multiply-accumulates of all calls
} talc_module_layer;

typedef struct talc_module_layers {
    int count;
    talc_module_layer *list; ///< in the order of the tree
    double parameters, macs;
    double activations; ///< bytes of the outputs of modules without children
} talc_module_layers;

/// Runs a forward pass on x in evaluation mode, layer by layer, and says what each layer is. A
/// layer that is otherwise fused with one before it (fuse.h) is marked so. Leaves modes, buffers
/// and tensors as they were. The list is the caller's to free by talc_module_layers_free, before
/// the module. Where the pass fails it has the layers that the pass came to; on another failure it
/// is empty.
TALC_API bool talc_module_layers_of(talc_module *module, talc_tensor *x,
                                    talc_module_layers *layers);
TALC_API void talc_module_layers_free(talc_module_layers *layers); ///< NULL passes

/// Prints talc_module_layers_of as a table as wide as the terminal (tensor/table.h): layer, class,
/// options as "3x3 s2x2 p1x0", which is kernel, stride and padding, output shape, parameters,
/// multiply-accumulates. Of a pass that fails it prints the layers up to the failing one, and
/// returns false with the failure.
TALC_API bool talc_module_summary(FILE *file, talc_module *module, talc_tensor *x);

/// An op that a forward pass runs.
typedef struct talc_module_step {
    char layers[256]; ///< that it stands for: "layer1.0.conv1", "0+1+2" for those that are fused
                      ///< (fuse.h); "" for the model itself
    char does[256];   ///< "Conv2d + BatchNorm2d (folded) + residual + relu"
    char op[32];      ///< "conv2d"
    char window[64];  ///< "3x3 s2x2 p1x0": kernel, stride and padding; "" for what has none
    char algorithm[TALC_ALGORITHM_TEXT]; ///< that was chosen, name(form); "" for copies
    talc_dims output;
} talc_module_step;

typedef struct talc_module_explanation {
    int count;
    talc_module_step *steps; ///< in the order in which they ran
} talc_module_explanation;

/// Runs a forward pass on x in evaluation mode and says what became of each layer: every op, in the
/// order in which they run. Views and fills are no ops; what is kept for later passes, as a folded
/// weight is, is no step. Leaves modes, buffers and tensors as they were. The steps are the
/// caller's to free by talc_module_explanation_free; without steps on failure.
TALC_API bool talc_module_explain(talc_module *module, talc_tensor *x,
                                  talc_module_explanation *explanation);

/// The same of a pass in training mode, which fuses less where the thread records gradients: an
/// activation whose gradient does not follow from its result is an op of its own then. Running
/// statistics move, as by every such pass.
TALC_API bool talc_module_explain_training(talc_module *module, talc_tensor *x,
                                           talc_module_explanation *explanation);
TALC_API void talc_module_explanation_print(FILE *file, const talc_module_explanation *explanation);
TALC_API void talc_module_explanation_free(talc_module_explanation *explanation); ///< NULL passes

// ---- Files --------------------------------------------------------------------------------------

/// Writes all parameters and buffers as safetensors under their paths.
TALC_API bool talc_module_save(talc_module *module, const char *path);

/// talc_module_load_with of all names, `strict`, or of those that both have.
TALC_API bool talc_module_load(talc_module *module, const char *path, bool strict);

typedef struct talc_load_options {
    bool partial; ///< names that only the file or only the module has are no errors
    /// Names that this pattern fits (fnmatch) are left alone, whatever their shapes: "fc.*" keeps a
    /// module's own last layer. NULL: none.
    const char *except;
} talc_load_options;

typedef struct talc_names_list {
    int64_t count;
    char **list; ///< NUL-terminated each
} talc_names_list;

/// Names of a load, in the order of the module, and of the file for `extra`.
typedef struct talc_load_report {
    talc_names_list loaded;  ///< all that both have; none where the load failed
    talc_names_list missing; ///< that the module has and the file lacks
    talc_names_list extra;   ///< that the file has and the module lacks
} talc_load_report;

/// Reads parameters and buffers by their names. Everything is checked and read before anything
/// changes. The optimizer's state in a checkpoint (checkpoint.h) is nothing extra. What the file
/// says of the model (info.h) becomes the module's unless the load is partial. NULL for options:
/// all defaults. A report is filled in on failure too, as far as the names were read, and is the
/// caller's to free by talc_load_report_free. Errors: NULL, missing or extra names, unless partial;
/// no name that both have, in any case; another shape or type of a name that both have; a pattern
/// that fits no name; those of talc_safetensors_open.
TALC_API bool talc_module_load_with(talc_module *module, const char *path,
                                    const talc_load_options *options, talc_load_report *report);
TALC_API void talc_load_report_free(talc_load_report *report); ///< NULL passes

/// Prints a line for each name that the file lacks, that the module has not, or whose type or shape
/// differs: all that a strict load would refuse. Returns how many there are; -1, with a failure,
/// where the file cannot be read.
TALC_API int64_t talc_module_differences(FILE *file, talc_module *module, const char *path);

TALC_END_DECLARATIONS

#endif
