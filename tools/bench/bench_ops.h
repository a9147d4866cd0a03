/// What `talc bench` times beside convolutions: ops that move bytes, on operands that no cache
/// holds, and what queueing costs.
///
/// Every op gets the same x, and a second operand where it takes two; it looks at x in a shape of
/// its own. Its bytes are those of the fewest passes that it can be done in.
#ifndef TALC_TOOLS_BENCH_BENCH_OPS_H
#define TALC_TOOLS_BENCH_BENCH_OPS_H

#include "tools/bench/bench.h"

enum { BENCH_CHANNELS = 512 };

/// Small operands, on which a call costs what it costs the host.
typedef struct bench_few {
    const talc_tensor *x, *gaps;               ///< [1,16,8,8], and every second of its columns
    const talc_tensor *matrix, *row;           ///< [64,64], and its first row
    const talc_tensor *kernel, *point, *depth; ///< weights of convolutions: 3x3, 1x1, depthwise 3x3
    const talc_tensor *channels;               ///< [16]
    const talc_tensor *weight, *bias;          ///< [10,64], [10]
    const talc_tensor *labels;                 ///< [64], i64
    talc_tensor *mean, *var;                   ///< [16]
} bench_few;

/// Makes them. With a talc failure some are NULL.
bench_few bench_few_make(talc_device *device);

/// The operands of all ops.
typedef struct bench_data {
    bench_few few;
    const talc_tensor *x, *other;   ///< of `count` elements
    const talc_tensor *doubles;     ///< the first half of x in f64, so as many bytes
    const talc_tensor *bytes;       ///< 100 x + 100 in u8, four times
    talc_tensor *halves, *quarters; ///< mean and variance of BENCH_CHANNELS channels
    int64_t count;
    float *on_host, *other_on_host;
} bench_data;

/// Elements of x that a result is made of, x[first + the sum of i_d step_d] with i_d < extent_d,
/// and the one it stands for.
typedef struct bench_gather {
    int64_t at, first, extent[2], step[2];
} bench_gather;

typedef enum bench_operand { BENCH_FLOATS, BENCH_DOUBLES, BENCH_BYTES } bench_operand;

typedef struct bench_op bench_op;

struct bench_op {
    const char *set; ///< "ops", "windows"; "host" for what queueing a call costs
    const char *name;
    const char *what; ///< for people
    talc_tensor *(*run)(const bench_data *data, const bench_op *op);
    double reads; ///< how often it reads x at the least; what it writes beside its result counts
                  ///< too, by x's bytes
    /// Where element `index` of the result comes from; NULL: it is not checked.
    bench_gather (*element_gather)(const bench_data *data, const bench_op *op, int64_t index);
    /// What it must be, and how far it may be off.
    double (*expected)(const bench_data *data, const bench_op *op, const bench_gather *gather,
                       double *bound);
    int64_t shape[4];            ///< of x, as much of it as fills one; 0: as many as there are
    bench_operand operand;       ///< which x
    int64_t kernel, stride, pad; ///< of a square window; adaptive pooling: to kernel by kernel
};

/// The sets "ops" and "windows", and "host", each table ended by one without a name.
extern const bench_op bench_ops[], bench_calls[];

/// Number `index` of all; NULL after the last.
const bench_op *bench_op_at(int index);

/// The op of that name; NULL when there is none.
const bench_op *bench_op_named(const char *name);

/// Makes the operands, x and other of `megabytes` of 2^20 bytes; 0: those of "host" alone. False
/// with a talc failure; they are freed in any case.
bool bench_data_make(bench_data *self, talc_device *device, int64_t megabytes);
void bench_data_free(bench_data *self);

/// Checks some of the op's results, then times it. False with a talc failure; a wrong result is in
/// the contender's check, and that the device has no such algorithm in its reason.
bool bench_op_run(contender *self, const bench_op *op, const bench_data *data,
                  const bench_settings *settings);

#endif
