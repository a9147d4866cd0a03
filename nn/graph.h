/// Graphs: a module's forward pass, recorded once and replayed on new input of the same shape.
///
///     talc_graph *graph = talc_capture(net, example);
///     while (next_image(talc_graph_input(graph)))              // or any x of the example's shape
///         show(talc_graph_replay(graph, talc_graph_input(graph)));
///     talc_graph_free(graph);
///
/// Where the device can repeat recorded work (a CUDA graph), a replay is one launch: no checks, no
/// choice of algorithm, no allocation. Elsewhere the forward pass runs again, under the same rules,
/// so that a program behaves the same everywhere.
///
/// * The input is fixed: a replay copies x there, unless x is the input itself. So is the output:
///   the same tensor each time, whose elements stay until the next replay. Results are those of
///   talc_forward, to the bit.
/// * The module is in evaluation mode when it is captured, with all its children.
/// * Parameters and buffers are read as they are at each replay: one that was written since the
///   last is seen. (Where anything was written the pass is recorded anew, since layers may keep
///   what they compute from parameters. It is run for that, and what it writes in place is put
///   back.) One whose storage was replaced, by talc_module_to or talc_module_load, makes the replay
///   fail: capture again. All this is of the module and its children, not of others that forward
///   may call.
/// * What the pass writes in place, be it a buffer or any tensor, each replay writes too, and it
///   counts as a write (talc_version): what was computed from it before is computed anew. Where
///   passes are recorded, the graph holds the memory of all tensors that its pass reads or writes,
///   whoever releases them.
/// * What runs is fixed as well: algorithms, precision, workspace, and which way forward takes.
/// * A forward pass that waits for the device, moves elements to or from the host or another
///   device, makes or changes tensors there, or draws random numbers cannot be captured: that call
///   fails and says so, and the device and the module are as usable as before. What else forward
///   does on the host (a counter in C) it does when it runs; a replay need not run it.
///
/// One thread at a time uses a graph; a graph is replayed after all that its thread asked of the
/// device before. Threads may take turns, each in a stream of its own: a replay, with its copy of
/// x, waits for all that is queued in the stream of the one before, so for what is still to read
/// its output there. What they write to the fixed input themselves they order themselves, as any
/// tensor that two streams use. Other threads may work on the device while a graph is captured.
#ifndef TALC_NN_GRAPH_H
#define TALC_NN_GRAPH_H

#include "module.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_graph talc_graph;

/// Captures a module's forward pass, without gradients, on input of the example's shape, dtype and
/// device. The pass is run on the example, up to twice, before it is recorded, and writes in place
/// what it writes. The graph belongs to the program and keeps its parameters and memory; the module
/// outlives it. NULL on failure: NULL arguments, a module in training mode (names it), a call in
/// the pass that cannot be recorded (names it), no memory, and whatever talc_forward fails with.
TALC_API talc_graph *talc_capture(talc_module *module, const talc_tensor *example);

/// The forward pass on x, of the example's shape, dtype and device, and of any strides. Returns the
/// fixed output, which the graph owns. NULL on failure: x of another shape, dtype or device (names
/// both), a parameter whose storage was replaced (names it).
TALC_API talc_tensor *talc_graph_replay(talc_graph *graph, const talc_tensor *x);

/// The fixed input, owned by the graph, to write to before a replay on it. NULL for NULL.
TALC_API talc_tensor *talc_graph_input(talc_graph *graph);

/// Frees a graph with its input and output. NULL passes.
TALC_API void talc_graph_free(talc_graph *graph);

TALC_END_DECLARATIONS

#endif
