/// What `talc bench` times beside convolutions: ops that move bytes, on operands that no cache holds, and what queueing costs.
///
/// Every op gets the same x, and a second operand where it takes two; it looks at x in a shape of its own. Its bytes are those
/// of the fewest passes that it can be done in.
#ifndef TALC_TOOLS_BENCH_OPS_H
#define TALC_TOOLS_BENCH_OPS_H

#include "tools/bench.h"

enum { BENCH_CHANNELS = 64, BENCH_MOST_CHANNELS = 512 };

/// The operands of all ops.
typedef struct bench_data {
    const talc_tensor *x, *other;   ///< of `count` elements
    const talc_tensor *channels;    ///< BENCH_CHANNELS elements
    talc_tensor *mean, *var;        ///< likewise
    talc_tensor *halves, *quarters; ///< mean and var of BENCH_MOST_CHANNELS
    const talc_tensor *wide;        ///< the first half of x in f64
    int64_t count;
    float *on_host, *other_on_host;
} bench_data;

/// Elements of x that a result is made of, x[first + the sum of i_d step_d] with i_d < extent_d, and the one it stands for.
typedef struct bench_gather {
    int64_t at, first, extent[3], step[3];
} bench_gather;

typedef struct bench_op {
    const char *set; ///< "ops", "uneven"; "host" for what queueing a call costs
    const char *name;
    const char *what; ///< for people
    talc_tensor *(*run)(const bench_data *data);
    double reads; ///< how often it reads x at the least
    /// Where element `index` of the result comes from; NULL: it is not checked.
    bench_gather (*place)(const bench_data *data, int64_t index);
    /// What it must be, and how far it may be off.
    double (*due)(const bench_data *data, const bench_gather *gather, double *bound);
} bench_op;

/// All of them in two tables, each with one without a name at its end.
extern const bench_op bench_ops[], bench_ops_uneven[];

/// The one after `op`, the first for NULL; NULL after the last.
const bench_op *bench_op_next(const bench_op *op);

/// The op of that name; NULL when there is none.
const bench_op *bench_op_named(const char *name);

/// Makes the operands, `megabytes` of 2^20 bytes each. False with a talc failure; they are freed in any case.
bool bench_data_make(bench_data *self, talc_device *device, int64_t megabytes);
void bench_data_free(bench_data *self);

/// Checks some of the op's results, then times it. False with a talc failure; a wrong result is in the contender's check.
bool bench_op_run(contender *self, const bench_op *op, const bench_data *data,
                  const bench_settings *settings);

#endif
