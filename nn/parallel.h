/// Data-parallel training: processes with a device each, the same model in all of them, and each
/// step's gradients averaged over what every one of them made of its share of the batch.
///
///     talc_group *group = talc_group_new(device, NULL);     // who mpirun or torchrun says we are
///     talc_loader *loader = talc_loader_new(
///         data, &(talc_loader_options){ .batch = 64, .shuffle = true, .group = group });
///     talc_parallel *parallel = talc_parallel_new(net, group, NULL);
///     ...                                                   // steps as on one device
///     talc_parallel_free(parallel);
///     talc_group_free(group);
///
/// Between GPUs the elements travel by NCCL, between CPU processes by MPI, which mpirun starts. A
/// program that was started without a launcher is a group of one, where nothing travels, so that
/// the same program trains on one device.
///
/// On a GPU the calls are queued like any work: they return at once, except for a barrier. A step
/// may be recorded with them (talc_step), in every member alike; the group outlives it. What goes
/// wrong then is raised by the next call of the group, or the next that waits for the device.
///
/// The members call the functions of a group in the same order, each from one thread at a time. One
/// that is killed, stopped, or in another call makes the others' calls fail when the time-out is
/// over, with a message that names it; between GPUs one that is killed does so at once. From then
/// on every call on the group fails with that message. The device works, and checkpoints are whole;
/// what the last calls were to fill is undefined.
///
/// The same number of processes gives the same bits on every run, and the same parameters on all
/// ranks. Another number adds the gradients in another order.
///
/// Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training",
/// VLDB 2020, arXiv 2006.15704.
#ifndef TALC_NN_PARALLEL_H
#define TALC_NN_PARALLEL_H

#include "module.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_group talc_group;

typedef struct talc_group_options {
    /// Who this process is: 0 <= rank < size. size 0: what the launcher says in RANK and
    /// WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK and _SIZE (mpirun), SLURM_PROCID and
    /// SLURM_NTASKS; a group of one where none of them is set.
    int rank, size;
    double timeout; ///< seconds that a call waits for the other members; 0: 600
    /// Between GPUs: where rank 0 listens, "host:port". NULL: MASTER_ADDR and MASTER_PORT
    /// (torchrun), or what mpirun finds out.
    const char *address;
} talc_group_options;

/// Joins the processes, once all of them call it. The group belongs to the program and is for
/// tensors of the device, which outlives it. Errors: NULL, a rank that size excludes, a variable
/// that is no number or lacks the other, a device that has no way between processes in this build
/// (says what is missing), no launcher, another number of processes than were started, time-out.
TALC_API talc_group *talc_group_new(talc_device *device, const talc_group_options *options);

/// Leaves the group, without waiting for the others. NULL passes.
TALC_API void talc_group_free(talc_group *group);

TALC_API int talc_group_rank(const talc_group *group); ///< 0 for NULL
TALC_API int talc_group_size(const talc_group *group); ///< 1 for NULL

// ---- Collectives --------------------------------------------------------------------------------
// Every member calls them with tensors of the same shape and dtype. Errors: NULL, a tensor of
// another device, a group that an earlier failure has broken, time-out.

/// Overwrites the elements by those of rank `root`. Any view that may be written.
TALC_API bool talc_group_broadcast(talc_group *group, talc_tensor *tensor, int root);

typedef enum talc_group_sum { TALC_GROUP_SUM, TALC_GROUP_MEAN } talc_group_sum;

/// Overwrites each element by the sum or the mean of what the members have there. A mean is of f32
/// and f64; sums of integers wrap.
TALC_API bool talc_group_all_reduce(talc_group *group, talc_tensor *tensor, talc_group_sum sum);

/// The members' tensors in the order of their ranks, [size,...].
TALC_API talc_tensor *talc_group_all_gather(talc_group *group, const talc_tensor *tensor);

/// Returns once every member has called it.
TALC_API bool talc_group_barrier(talc_group *group);

/// Whether all members have the same number there, such as a seed. False with a failure that names
/// `what`, a rank and both numbers, in every member.
TALC_API bool talc_group_agree(talc_group *group, const char *what, int64_t number);

// ---- Gradients ----------------------------------------------------------------------------------

typedef struct talc_parallel talc_parallel;

typedef struct talc_parallel_options {
    int64_t bucket; ///< bytes of gradients that travel together; 0: 25 MiB
    /// Parameters that a backward pass does not reach get the mean of what the other members have
    /// for them, with 0 for their own; none that no member reaches. False: they are an error.
    bool allow_unused;
    /// Batch norms normalise in training by the mean and variance of all members' images. Twice the
    /// memory, and two calls of the group a layer, forward and backward.
    bool sync_batch_norm;
} talc_parallel_options;

/// Makes `module` one of a group: parameters and buffers become those of rank 0, and from then on
/// talc_backward averages the gradients of its parameters over the members before it hands them
/// over. They travel in buckets of a fixed layout: in the first pass all together, after it, each
/// as soon as its gradients are there, while the pass goes on, in the order in which rank 0's first
/// pass made them. From the group's first talc_parallel on, this thread's generator draws other
/// numbers in each rank (talc_group_seed).
///
/// Each member's loss is a mean over its own share; as many samples in each make the gradients
/// those of the whole batch. Buffers, such as the running statistics of batch norm, go on as each
/// member's own (talc_parallel_share_buffers); those on other devices than the group's always are.
/// The module stays on its device meanwhile, and neither loads nor casts. Errors: NULL, another
/// device, a module without parameters that ask for a gradient or that is in another talc_parallel,
/// members with other parameters, dtypes, options or generators (names the first, with both), no
/// memory, and those of the collectives.
TALC_API talc_parallel *talc_parallel_new(talc_module *module, talc_group *group,
                                          const talc_parallel_options *options);

/// Backward passes are this member's alone again. The group and the module outlive it. NULL
/// passes.
TALC_API void talc_parallel_free(talc_parallel *parallel);

/// Whether backward passes add up gradients without averaging them, as all but the last of an
/// accumulated step do; the pass after averages what has been added up. False at first.
TALC_API bool talc_parallel_accumulate(talc_parallel *parallel, bool accumulate);

/// Overwrites the module's buffers, such as running statistics, by those of rank 0: before all
/// members evaluate, or rank 0 saves. A call of every member.
TALC_API bool talc_parallel_share_buffers(talc_parallel *parallel);

/// What a rank draws from where one process would draw from `seed`: itself for rank 0.
TALC_API uint64_t talc_group_seed(uint64_t seed, int rank);

TALC_END_DECLARATIONS

#endif
