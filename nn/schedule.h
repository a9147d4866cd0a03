/// Learning-rate schedules: a factor for each step, as plain data.
///
///     talc_optimizer_schedule(optimizer, &(talc_schedule){
///         .kind = TALC_SCHEDULE_COSINE, .steps = epochs * batches, .warmup = batches });
///
/// With t the number of steps taken and lr the group's own rate:
///
///     constant    lr
///     step        lr gamma^floor(t / every); StepLR
///     cosine      low + (lr - low)(1 + cos(pi t / steps)) / 2, low for t > steps, low = lr floor;
///                 CosineAnnealingLR
///     one_cycle   from lr / div up to lr over the first `rise` of the steps, then down to
///                 lr / (div final_div), both by cosines; OneCycleLR
///
/// A warm-up comes before the steps of any of them: the first rate, which is lr / div in one_cycle,
/// times warmup_start + (1 - warmup_start) t / warmup; what follows is counted from its end. As
/// SequentialLR of LinearLR and the other. Source: Loshchilov and Hutter 2017, arXiv 1608.03983
/// (cosine, without restarts); Smith and Topin 2018, arXiv 1708.07120 (one cycle); formulas of
/// torch.optim.lr_scheduler.
#ifndef TALC_NN_SCHEDULE_H
#define TALC_NN_SCHEDULE_H

#include "../tensor/api.h"

TALC_BEGIN_DECLARATIONS

typedef enum talc_schedule_kind {
    TALC_SCHEDULE_CONSTANT,
    TALC_SCHEDULE_STEP,
    TALC_SCHEDULE_COSINE,
    TALC_SCHEDULE_ONE_CYCLE,
    TALC_SCHEDULE_COUNT
} talc_schedule_kind;

/// Members of other kinds are not looked at. Zero is the default.
typedef struct talc_schedule {
    talc_schedule_kind kind;
    int64_t steps;       ///< cosine and one_cycle: all of them, the warm-up not counted; at least 1
    int64_t every;       ///< step: at least 1
    double gamma;        ///< step; 0: 0.1
    double floor;        ///< cosine: the last rate, relative to the first
    double rise;         ///< one_cycle, at most 1; 0: 0.3
    double div;          ///< one_cycle; 0: 25
    double final_div;    ///< one_cycle; 0: 1e4
    int64_t warmup;      ///< steps; 0: none
    double warmup_start; ///< 0 .. 1
} talc_schedule;

/// "constant", "step", "cosine", "one_cycle"; "?" for another number.
TALC_API const char *talc_schedule_name(talc_schedule_kind kind);

/// The rate after t steps. Numbers are not checked, which talc_optimizer_schedule does; NAN for
/// NULL and for a step schedule whose `every` is below 1.
TALC_API double talc_schedule_rate(const talc_schedule *schedule, double lr, int64_t t);

TALC_END_DECLARATIONS

#endif
