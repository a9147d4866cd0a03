/// Named ranges for profilers, by NVTX: headers alone, which look for a listening tool when first
/// called.
#include "backends/cuda/device/ranges.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

static nvtxDomainHandle_t domain; /* NULL: nobody listens */
static pthread_once_t asked = PTHREAD_ONCE_INIT;

static void ask(void)
{
    domain = nvtxDomainCreateA("talc");
}

bool talc_cuda_ranges_wanted(void)
{
    pthread_once(&asked, ask);
    return domain != NULL;
}

void talc_cuda_range_begin(talc_device *device, const char *name)
{
    (void)device;
    const nvtxEventAttributes_t attributes = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = name,
    };
    (void)nvtxDomainRangePushEx(domain, &attributes);
}

void talc_cuda_range_end(talc_device *device)
{
    (void)device;
    (void)nvtxDomainRangePop(domain);
}
