#include "backends/backends.h"

#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/cpu.h"
#include "backends/cuda/conv2d/algorithms.h"
#if defined(TALC_CUDA)
#include "backends/cuda/cuda.h"
#endif
#include "ops/registered.h"
#include "tensor/environment.h"
#include "tensor/pool.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Every backend: what its device names begin with, and how to find one of its devices by full name.
 * `find` returns NULL with a failure raised when the device is missing. */
static const struct {
    const char *prefix;
    talc_device *(*find)(const char *name);
    const talc_backend *backend;
} backends[] = {
    { "cpu", talc_cpu_find, &talc_cpu_backend },
#if defined(TALC_CUDA)
    { "cuda", talc_cuda_find, &talc_cuda_backend },
#endif
};

/* "cpu" begins "cpu" and "cpu:0", but not "cpus". */
static bool begins(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 && (name[length] == '\0' || name[length] == ':');
}

static talc_device *find(const char *name)
{
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (begins(name, backends[i].prefix))
            return backends[i].find(name);
    if (begins(name, "cuda"))
        talc_fail(TALC_BAD_DEVICE, "device_get: '%s': this talc was built without CUDA",
                  TALC_SHOWN(name));
    else
        talc_fail(TALC_BAD_DEVICE,
                  "device_get: there is no device '%s'; names are cpu, cuda, cuda:N",
                  TALC_SHOWN(name));
    return NULL;
}

talc_device *talc_device_get(const char *name)
{
    talc_device *device = talc_operand_missing("device_get", "name", name) ? NULL : find(name);
    return device == NULL || talc_device_gone(device, "device_get") ? NULL : device;
}

bool talc_algorithm_register(const char *op, const talc_own_algorithm *own)
{
    if (!talc_registered_known(op, own) ||
        talc_operand_missing("algorithm_register", "device", own->device))
        return false;
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (strcmp(backends[i].prefix, own->device) == 0)
            return talc_registered_add(backends[i].backend, op, own);
    talc_fail(TALC_BAD_DEVICE, "algorithm_register: this talc has no backend '%s'%s",
              TALC_SHOWN(own->device),
              strcmp(own->device, "cuda") == 0 ? ", as it was built without CUDA"
                                               : "; names are cpu, cuda");
    return false;
}

const talc_mapped_algorithm *talc_mapped_algorithms(const char *backend)
{
    if (talc_operand_missing("mapped_algorithms", "backend", backend))
        return NULL;
    if (strcmp(backend, "cpu") == 0)
        return talc_cpu_conv2d_mapped;
    if (strcmp(backend, "cuda") == 0)
        return talc_cuda_conv2d_mapped;
    talc_fail(TALC_BAD_DEVICE, "mapped_algorithms: there is no backend '%s'; names are cpu, cuda",
              TALC_SHOWN(backend));
    return NULL;
}

talc_device *talc_device_host(void)
{
    return talc_cpu_find("cpu");
}

/* The first, or that of this process among those of a host. NULL, and nothing raised, where there
 * is no GPU. */
static talc_device *own_gpu(void)
{
#if defined(TALC_CUDA)
    const int rank = talc_environment()->local_rank;
    char name[16];
    if (!talc_cuda_present())
        return NULL;
    snprintf(name, sizeof name, "cuda:%d", rank < 0 ? 0 : rank);
    talc_device *device = talc_cuda_find(name);
    if (device != NULL || rank < 0 || talc_error_status() != TALC_BAD_DEVICE)
        return device;
    char why[256];
    snprintf(why, sizeof why, "%s", talc_error_message());
    talc_error_clear();
    talc_fail(TALC_BAD_DEVICE, "%s=%d: %s", talc_environment()->local_rank_of, rank, why);
#endif
    return NULL;
}

talc_device *talc_device_default(void)
{
    /* A failure that stands is the caller's and stays; the search itself leaves none. */
    if (talc_failed())
        return talc_cpu_find("cpu");
    const char *asked = talc_environment()->device;
    talc_device *device = *asked == '\0' ? own_gpu() : find(asked);
    if (*asked == '\0' && talc_error_status() == TALC_BAD_DEVICE)
        return NULL;
    static atomic_bool warned;
    if (*asked != '\0' && talc_failed() && !atomic_exchange(&warned, true))
        talc_environment_warn("TALC_DEVICE", asked, talc_error_message());
    talc_error_clear();
    return device != NULL ? device : find("cpu");
}
