/// What `talc bench` times: contenders, each a function that does one problem once.
///
/// talc's algorithms and their peers run in turn, round after round, so that noise of the machine hits all alike.
/// A turn begins with a pause in which the idle threads of the one before fall asleep (OpenBLAS's and OpenMP's spin
/// for tens of milliseconds and would take a core from the next), and repeats short runs, after one that is not
/// counted, until they fill BENCH_TURN_SECONDS; its time is their mean.
#ifndef TALC_TOOLS_BENCH_H
#define TALC_TOOLS_BENCH_H

#include <talc/talc.h>

#define BENCH_PAUSE_SECONDS 0.06
#define BENCH_TURN_SECONDS  0.02

enum { BENCH_CONTENDERS = TALC_CONV2D_MAX_CANDIDATES + 4, BENCH_REPEATS = 100 };

/// The operands of a problem; bias and residual are NULL where it has none.
typedef struct bench_operands {
    talc_conv2d_problem problem;
    const talc_tensor *x, *w, *bias, *residual;
} bench_operands;

typedef struct contender {
    const char *name;
    bool peer;     ///< not talc's
    void *context; ///< what `run` and `free` get
    /// Does the problem once and waits for it; false with a talc failure.
    bool (*run)(void *context);
    void (*free)(void *context);    ///< NULL: nothing to free
    double times;                   ///< the problem takes this many runs: images, groups
    double flops;                   ///< of the problem; 0 where time alone is comparable
    talc_precision precision;       ///< of an algorithm
    size_t workspace, peak;         ///< bytes of an algorithm
    talc_check_sample_report check; ///< of an algorithm
    char reason[112];               ///< why it is not timed; "" when it is
    int runs;                       ///< of a turn
    int count;                      ///< turns so far
    double seconds[BENCH_REPEATS];  ///< a run's, turn by turn
} contender;

/// The shortest and the median time, NAN without times.
double contender_least(const contender *self);
double contender_median(const contender *self);

/// What a whole bench is asked for.
typedef struct bench_settings {
    talc_device *device;
    int repeats; ///< 1 .. BENCH_REPEATS
    bool peers;  ///< on a host device
    bool all;    ///< also the reference algorithm on problems of more than BENCH_REFERENCE_FLOPS
    const char *algorithm; ///< this one alone; NULL: all
} bench_settings;

#define BENCH_REFERENCE_FLOPS 1e9

/// One problem's contenders: algorithms in the order of the device's list, then peers.
typedef struct bench {
    bench_operands operands;
    int count;
    contender contenders[BENCH_CONTENDERS];
    /// The most memory that the process held while talc's algorithms ran; 0 when unknown.
    size_t resident;
} bench;

/// Verifies and times a problem; false with a talc failure. That an algorithm's results are wrong is no failure here:
/// see contender.check. The caller calls bench_free in any case.
bool bench_problem(bench *self, const talc_conv2d_problem *problem, const bench_settings *settings);
void bench_free(bench *self);

/// Makes the random operands of a problem: x, bias and residual uniform in [0, 1), w in +-1/sqrt(K).
bool bench_operands_make(bench_operands *self, talc_device *device,
                         const talc_conv2d_problem *problem, uint64_t seed);

/// The least time of `algorithm` over the least of `peer`; NAN where one was not timed.
double bench_ratio(const contender *algorithm, const contender *peer);

// ---- Peers: each fills a contender, whose `reason` says why when it cannot run ---------------------------------

/// The matrix product of the convolution's size by OpenBLAS alone: w [OC/groups, K] times a whole im2col matrix
/// [K, OH*OW] of one image and group, with as many threads as talc uses.
void bench_product(contender *self, const bench_operands *operands);

/// A copy of the input into warm memory, with as many threads as talc uses: the floor of depthwise convolution.
void bench_copy(contender *self, const bench_operands *operands);

/// oneDNN from NCHW to NCHW, with the reorders into and out of its own layouts, and its kernel alone.
void bench_onednn(contender *whole, contender *kernel, const bench_operands *operands);

#endif
