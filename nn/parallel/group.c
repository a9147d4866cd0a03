#include "nn/parallel/group.h"

#include "tensor/memory.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const WHO = "group";
static const double TIMEOUT = 600;

// ---- Groups -------------------------------------------------------------------------------------

/* What serves a device; NULL, with a failure that says what is missing, where nothing does. */
static const talc_transport *transport_of(const talc_device *device)
{
    const bool host = device->is_host;
    const talc_transport *transport = host ? talc_transport_mpi : talc_transport_nccl;
    if (!host && device->interface->stream_wait == NULL)
        talc_fail(TALC_UNSUPPORTED, "%s: nothing connects processes with a device %s each", WHO,
                  device->name);
    else if (transport == NULL)
        talc_fail(TALC_UNSUPPORTED,
                  "%s: this build has no %s, which connects processes on %s (%s, then meson setup "
                  "--reconfigure)",
                  WHO, host ? "MPI" : "NCCL", host ? "the CPU" : "GPUs",
                  host ? "libopenmpi-dev" : "nccl.h");
    return talc_failed() ? NULL : transport;
}

talc_group *talc_group_new(talc_device *device, const talc_group_options *options)
{
    return talc_group_open(device, options, false);
}

talc_group *talc_group_open(talc_device *device, const talc_group_options *options, bool alone)
{
    if (talc_operand_missing(WHO, "device", device))
        return NULL;
    const talc_group_options o = options == NULL ? (talc_group_options){ 0 } : *options;
    if (!(o.timeout >= 0)) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: a time-out of %g s must be at least 0", WHO, o.timeout);
        return NULL;
    }
    talc_member member;
    if (!talc_member_find(&o, &member))
        return NULL;
    if (member.size == 1 && o.size == 0 && device->is_host &&
        !talc_member_agrees_to_be_alone(&member))
        return NULL;
    talc_group *group = talc_memory_new(sizeof *group, WHO);
    if (group == NULL)
        return NULL;
    group->device = device;
    group->member = member;
    if (member.size > 1 || alone) {
        group->transport = transport_of(device);
        group->link =
            group->transport == NULL
                ? NULL
                : group->transport->open(&member, device, o.timeout > 0 ? o.timeout : TIMEOUT);
        if (group->link == NULL) {
            talc_memory_free(group);
            return NULL;
        }
    }
    return group;
}

void talc_group_free(talc_group *group)
{
    if (group == NULL)
        return;
    if (group->link != NULL)
        group->transport->close(group->link, talc_failed());
    talc_memory_free(group);
}

int talc_group_rank(const talc_group *group)
{
    return group == NULL ? 0 : group->member.rank;
}

int talc_group_size(const talc_group *group)
{
    return group == NULL ? 1 : group->member.size;
}

void talc_group_break(talc_group *group)
{
    if (group->broken != TALC_OK)
        return;
    group->broken = talc_error_status();
    snprintf(group->why, sizeof group->why, "%s", talc_error_message());
    if (group->link != NULL)
        group->transport->close(group->link, true);
    group->link = NULL;
}

// ---- Calls --------------------------------------------------------------------------------------

static bool start(talc_group *group, talc_group_call *call)
{
    if (group->broken != TALC_OK) {
        talc_fail(group->broken, "%s", group->why);
        return false;
    }
    call->collective.number = group->calls++;
    call->request = NULL;
    if (group->link == NULL ||
        group->transport->start(group->link, &call->collective, &call->request))
        return true;
    talc_group_break(group);
    return false;
}

bool talc_group_wait(talc_group *group, talc_group_call *call)
{
    if (group->broken != TALC_OK)
        talc_fail(group->broken, "%s", group->why);
    else if (group->link == NULL ||
             group->transport->wait(group->link, &call->collective, call->request))
        return true;
    talc_group_break(group);
    return false;
}

static bool run(talc_group *group, talc_collective collective)
{
    talc_group_call call = { .collective = collective };
    return start(group, &call) && talc_group_wait(group, &call);
}

bool talc_group_mean_start(talc_group *group, talc_tensor *tensor, const char *what,
                           talc_group_call *call)
{
    *call = (talc_group_call){ .collective = { .kind = TALC_COLLECTIVE_MEAN,
                                               .dtype = tensor->dtype,
                                               .count = talc_numel(tensor),
                                               .data = tensor->data,
                                               .what = what } };
    return start(group, call);
}

/* False, with a failure, where a tensor is none of the group's. */
static bool belongs(const char *who, const talc_group *group, const talc_tensor *tensor)
{
    if (talc_operand_missing(who, "group", group) || talc_operand_missing(who, "tensor", tensor))
        return false;
    if (tensor->device != group->device)
        talc_fail(TALC_BAD_DEVICE, "%s: tensor is on %s, the group on %s", who,
                  tensor->device->name, group->device->name);
    return !talc_failed();
}

/* Overwrites the elements, through a copy where they have gaps. */
static bool overwrite(const char *who, talc_group *group, talc_tensor *tensor,
                      talc_collective collective)
{
    if (!belongs(who, group, tensor) || !talc_operand_writable(who, tensor))
        return false;
    talc_scope *scope = talc_scope_enter();
    talc_tensor *packed = scope == NULL                ? NULL
                          : talc_is_contiguous(tensor) ? tensor
                                                       : talc_clone_for(who, tensor);
    bool ok = packed != NULL;
    if (ok) {
        collective.dtype = packed->dtype;
        collective.count = talc_numel(packed);
        collective.data = packed->data;
        collective.what = who;
        ok = run(group, collective);
    }
    if (ok && packed != tensor)
        ok = talc_copy_for(who, tensor, packed);
    else if (ok)
        talc_tensor_written(tensor);
    talc_scope_leave(scope);
    return ok;
}

bool talc_group_broadcast(talc_group *group, talc_tensor *tensor, int root)
{
    if (group != NULL && (root < 0 || root >= group->member.size)) {
        talc_fail(TALC_BAD_ARGUMENT, "broadcast: root %d is no rank of %d", root,
                  group->member.size);
        return false;
    }
    return overwrite("broadcast", group, tensor,
                     (talc_collective){ .kind = TALC_COLLECTIVE_BROADCAST, .root = root });
}

bool talc_group_all_reduce(talc_group *group, talc_tensor *tensor, talc_group_sum sum)
{
    if (sum != TALC_GROUP_SUM && sum != TALC_GROUP_MEAN) {
        talc_fail(TALC_BAD_ARGUMENT, "all_reduce: %d is neither sum nor mean", (int)sum);
        return false;
    }
    if (tensor != NULL && sum == TALC_GROUP_MEAN && !talc_dtype_is_float(tensor->dtype)) {
        talc_fail(TALC_BAD_DTYPE, "all_reduce: a mean is of f32 or f64, not of %s",
                  talc_dtype_name(tensor->dtype));
        return false;
    }
    return overwrite("all_reduce", group, tensor,
                     (talc_collective){ .kind = sum == TALC_GROUP_SUM ? TALC_COLLECTIVE_SUM
                                                                      : TALC_COLLECTIVE_MEAN });
}

talc_tensor *talc_group_all_gather(talc_group *group, const talc_tensor *tensor)
{
    const char *who = "all_gather";
    if (!belongs(who, group, tensor))
        return NULL;
    talc_dims dims = { .rank = tensor->rank + 1, .dim = { group->member.size } };
    if (tensor->rank == TALC_MAX_RANK) {
        talc_fail(TALC_BAD_SHAPE, "%s: a tensor of rank %d has no room for the ranks", who,
                  TALC_MAX_RANK);
        return NULL;
    }
    memcpy(dims.dim + 1, tensor->dims, (size_t)tensor->rank * sizeof *dims.dim);
    talc_tensor *y = talc_tensor_new(who, group->device, tensor->dtype, dims);
    talc_scope *scope = y == NULL ? NULL : talc_scope_enter();
    const talc_tensor *packed = scope == NULL ? NULL : talc_contiguous_for(who, tensor);
    bool ok = packed != NULL;
    if (ok && group->link == NULL)
        ok = talc_copy_for(who, y, talc_tensor_view(packed, dims, y->strides, 0));
    else if (ok)
        ok = run(group, (talc_collective){ .kind = TALC_COLLECTIVE_GATHER,
                                           .dtype = packed->dtype,
                                           .count = talc_numel(packed),
                                           .data = y->data,
                                           .from = packed->data,
                                           .what = who });
    talc_scope_leave(scope);
    return ok ? y : NULL;
}

bool talc_group_barrier(talc_group *group)
{
    return !talc_operand_missing("barrier", "group", group) &&
           run(group, (talc_collective){ .kind = TALC_COLLECTIVE_BARRIER, .what = "barrier" });
}

// ---- Agreement ----------------------------------------------------------------------------------

bool talc_group_agree_texts(talc_group *group, const char *what, const char *texts, int64_t count,
                            int64_t bytes)
{
    talc_scope *scope = talc_scope_enter();
    talc_tensor *own = scope == NULL ? NULL
                                     : talc_from_host_for(WHO, group->device, TALC_U8,
                                                          TALC_DIMS(count, bytes), texts);
    talc_tensor *all = own == NULL ? NULL : talc_group_all_gather(group, own);
    all = all == NULL ? NULL : talc_to(all, talc_device_host(), TALC_U8);
    const char *list = all == NULL ? NULL : talc_data_read(all, TALC_U8);
    for (int rank = 1; list != NULL && rank < group->member.size && !talc_failed(); rank++)
        for (int64_t i = 0; i < count && !talc_failed(); i++) {
            const char *first = list + i * bytes;
            const char *other = first + rank * count * bytes;
            if (strncmp(first, other, (size_t)bytes) != 0)
                talc_fail(TALC_BAD_ARGUMENT, "%s: %s is %.*s on rank 0, %.*s on rank %d", WHO, what,
                          (int)bytes, first, (int)bytes, other, rank);
        }
    talc_scope_leave(scope);
    return !talc_failed();
}

bool talc_group_agree(talc_group *group, const char *what, int64_t number)
{
    if (talc_operand_missing(WHO, "group", group) || talc_operand_missing(WHO, "what", what))
        return false;
    char text[24] = { 0 };
    snprintf(text, sizeof text, "%" PRId64, number);
    return talc_group_agree_texts(group, what, text, 1, sizeof text);
}
