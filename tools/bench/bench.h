/// What `talc bench` times: contenders, each a function that does one problem once.
///
/// talc's algorithms and their peers run in turn, round after round, so that noise of the machine
/// hits all alike. A turn repeats short runs, after one that is not counted, until they fill
/// BENCH_TURN_SECONDS; its time is their mean, by the device's own clock (a GPU's events): runs are
/// queued, and waited for once. On the CPU a turn begins with a pause in which the idle threads of
/// the one before fall asleep (OpenBLAS's and OpenMP's spin for tens of milliseconds and would take
/// a core from the next).
///
/// On a GPU, whose L2 cache would hold a small problem whole, runs go through several sets of
/// operands and results of BENCH_COLD_BYTES in all, so that each finds its own in memory. On the
/// CPU small problems run out of its caches, as its peers do.
#ifndef TALC_TOOLS_BENCH_BENCH_H
#define TALC_TOOLS_BENCH_BENCH_H

#include <talc/talc.h>

#define BENCH_PAUSE_SECONDS 0.06
#define BENCH_TURN_SECONDS  0.02

#define BENCH_COLD_BYTES    2.5e8

enum { BENCH_CONTENDERS = TALC_MAX_ALGORITHMS + 4, BENCH_REPEATS = 100, BENCH_SETS = 32 };

/// The operands of a problem; bias and residual are NULL where it has none, dy where it is no
/// gradient. x, residual and dy are the first of their sets.
typedef struct bench_operands {
    talc_conv2d_problem problem;
    const talc_tensor *x, *w, *bias, *residual, *dy;
    int sets;
    const talc_tensor *xs[BENCH_SETS], *residuals[BENCH_SETS], *dys[BENCH_SETS];
} bench_operands;

/// Rates of a device that results are shares of, measured by bench_rates_measure.
typedef struct bench_rates {
    double bytes; ///< a second, read and written, by a copy that no cache holds
    double flops; ///< a second, of a large f32 matrix product
} bench_rates;

typedef struct contender {
    const char *name;                ///< a peer's; of an algorithm `title`
    char title[TALC_ALGORITHM_TEXT]; ///< of an algorithm: name(form)
    const char *algorithm, *form;    ///< its name and its form, which may be NULL
    bool peer;                       ///< not talc's
    void *context;                   ///< what `run` and `free` get
    /// Queues the problem once, or does it; false with a talc failure.
    bool (*run)(void *context);
    void (*free)(void *context);    ///< NULL: nothing to free
    double times;                   ///< the problem takes this many runs: images, groups
    double flops;                   ///< of the problem; 0 where time alone is comparable
    double bytes;                   ///< that have to move at the least; 0 likewise
    bool host_clock;                ///< what queueing takes is timed, not the work
    double estimate;                ///< seconds, of an algorithm; 0: none
    talc_precision precision;       ///< of an algorithm
    size_t workspace, peak;         ///< bytes of an algorithm
    uint64_t recomputed;            ///< results that an algorithm computed again by FFMA
    talc_check_sample_report check; ///< of an algorithm
    char reason[112];               ///< why it is not timed; "" when it is
    int runs;                       ///< of a turn
    int count;                      ///< turns so far
    double seconds[BENCH_REPEATS];  ///< a run's, turn by turn
} contender;

/// The shortest and the median time, NAN without times.
double contender_min(const contender *self);
double contender_median(const contender *self);

/// A contender alone: warms it up, then times `repeats` turns on the device. False with a talc
/// failure.
bool contender_time(contender *self, talc_device *device, int repeats);

/// Waits for the device and gives a contender's context back.
void contender_free(contender *self);

/// What a whole bench is asked for.
typedef struct bench_settings {
    talc_device *device;
    int repeats; ///< 1 .. BENCH_REPEATS
    bool peers;
    bool all;       ///< also the reference algorithm on problems of more than BENCH_REFERENCE_FLOPS
    bool unchecked; ///< results are not compared
    bool chosen;    ///< only the algorithm that runs by default
    const char *algorithm; ///< this one alone; NULL: all
} bench_settings;

#define BENCH_REFERENCE_FLOPS 1e9

/// One problem's contenders: algorithms in the order of the device's list, then peers.
typedef struct bench {
    bench_operands operands;
    int count;
    contender contenders[BENCH_CONTENDERS];
    /// The algorithm that a call without options would run; NULL: none, or one algorithm alone is
    /// asked for.
    const char *chosen;
    char chosen_title[TALC_ALGORITHM_TEXT];
    talc_precision chosen_precision; ///< its class, since two may have its name
    /// The maximum of memory that the process held while talc's algorithms ran; 0 when unknown.
    size_t resident;
} bench;

/// Verifies and times a problem; false with a talc failure. That an algorithm's results are wrong
/// is no failure here: see contender.check. The caller calls bench_free in any case.
bool bench_problem(bench *self, const talc_conv2d_problem *problem, const bench_settings *settings);
void bench_free(bench *self);

/// What the library's choice is worth on a problem: the algorithm that it chose and the fastest of
/// the same class, which may be the same. NULL both where the chosen one was not timed.
typedef struct bench_choice {
    const contender *chosen, *fastest;
} bench_choice;

/// A choice is good when its least time is at most this many times that of the fastest.
#define BENCH_GOOD_CHOICE 1.15

bench_choice bench_choice_of(const bench *self);

/// Measures a device's rates: the best of several copies of a gigabyte, and of several products (an
/// eighth of that on a host).
bool bench_rates_measure(talc_device *device, bench_rates *rates);

/// Makes the random operands of a problem: x, bias, residual and dy uniform in [0, 1), w in
/// +-1/sqrt(K).
bool bench_operands_make(bench_operands *self, talc_device *device,
                         const talc_conv2d_problem *problem, uint64_t seed);

/// The least time of `algorithm` over the least of `peer`; NAN where one was not timed.
double bench_ratio(const contender *algorithm, const contender *peer);

// ---- Peers: each fills a contender, whose `reason` says why when it cannot run ------------------

/// The matrix product of the convolution's size by OpenBLAS alone: w [OC/groups, K] times a whole
/// im2col matrix [K, OH*OW] of one image and group, with as many threads as talc uses.
void bench_product(contender *self, const bench_operands *operands);

/// A copy of the input into warm memory, with as many threads as talc uses: the floor of depthwise
/// convolution.
void bench_copy(contender *self, const bench_operands *operands);

/// The same two on any device, by its own means: talc's product that is cuBLAS's alone, of up to a
/// quarter of the memory that is free; and talc's copy, from set to set.
void bench_device_product(contender *self, const bench_operands *operands);
void bench_device_copy(contender *self, const bench_operands *operands);

/// oneDNN from NCHW to NCHW, with the reorders into and out of its own layouts, and its kernel
/// alone.
void bench_onednn(contender *whole, contender *kernel, const bench_operands *operands);

#endif
