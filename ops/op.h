/// An op's call, from its checked operands to its recorded result. Private to talc.
///
///     talc_tensor *y = talc_tensor_new("cumsum", x->device, x->dtype, talc_dims_of(x));
///     ...
///     return talc_op_run(&(talc_call){
///         .op = TALC_OP_cumsum,
///         .name = "cumsum",
///         .problem = &problem,
///         .inputs = { TALC_HANDED(cumsum, x, x, TALC_STRIDED) },
///         .input_count = 1,
///         .outputs = { TALC_OPERAND(cumsum, y, y) },
///         .record = &record });
#ifndef TALC_OPS_OP_H
#define TALC_OPS_OP_H

#include "ops/algorithm.h"
#include "ops/backend.h"
#include "tensor/run.h"
#include "tensor/tape.h"

enum { TALC_CALL_INPUTS = 7, TALC_CALL_OUTPUTS = 4 };

/// How an operand is handed over: as a contiguous copy where it is not contiguous; as it lies, with
/// strides that the problem knows; as it lies and written in place.
typedef enum talc_handed { TALC_PACKED, TALC_STRIDED, TALC_WRITTEN } talc_handed;

typedef struct talc_operand {
    const talc_tensor *tensor; ///< NULL where it is left out
    size_t argument;           ///< where the op's arguments have its pointer; 0: the caller sets it
    talc_handed handed;
} talc_operand;

/// The field `to` of the op's arguments points to `of`, or to a contiguous copy; to `of` as `how`
/// says; the caller has set it.
#define TALC_OPERAND(op, to, of)                                                                   \
    {                                                                                              \
        .tensor = (of), .argument = offsetof(talc_##op##_arguments, to)                            \
    }
#define TALC_HANDED(op, to, of, how)                                                               \
    {                                                                                              \
        .tensor = (of), .argument = offsetof(talc_##op##_arguments, to), .handed = (how)           \
    }
#define TALC_SET(of)                                                                               \
    {                                                                                              \
        .tensor = (of)                                                                             \
    }

typedef struct talc_call {
    talc_op op;           ///< whose algorithms
    const char *name;     ///< "log_softmax": in messages, in forcing and for observers
    const char *observed; ///< for observers instead; NULL: the same
    const void *problem;
    talc_run_text *write;    ///< the problem's text; NULL: y's shape
    const char *forced;      ///< an algorithm by name; NULL: the thread's
    unsigned precision;      ///< admitted classes; 0: the thread's
    talc_arguments *further; ///< arguments other than operands, which are added; NULL: none
    talc_operand inputs[TALC_CALL_INPUTS]; ///< in the order of the op's arguments
    int input_count;
    talc_operand outputs[TALC_CALL_OUTPUTS]; ///< new and contiguous; y, the result, comes first
    bool fills; ///< there is nothing to compute: outputs are filled with `filling`
    double filling;
    const void *description;   ///< for observers in place of the problem (ops/observed.h); NULL
    const talc_record *record; ///< how the tape remembers it, where an input asks; NULL: not
} talc_call;

/// Chooses an algorithm, records y, makes the inputs contiguous, runs, and tells the observer, in
/// this order, so that nothing fails once operands are written. An empty y, or `fills`, runs
/// nothing and is not observed. Returns y; NULL, y released, when a failure stands already, as
/// after an output that could not be made, or when anything fails. Other outputs stay the caller's.
talc_tensor *talc_op_run(const talc_call *call);

#endif
