/* A profiler in small: NVTX loads it when NVTX_INJECTION64_PATH names it, and it keeps what it is
 * told of the domain "talc": "<name" for each range that begins, ">" for each that ends.
 * tests/device/ranges.c reads that. */
#include <nvtx3/nvToolsExt.h>

#include <stdio.h>
#include <string.h>

static char heard[4096];
static nvtxDomainHandle_t talc; /* any address that is not NULL */

static void hear(const char *mark, const char *name)
{
    size_t used = strlen(heard);
    snprintf(heard + used, sizeof heard - used, "%s%s", mark, name);
}

static nvtxDomainHandle_t create(const char *name)
{
    static char ours, others;
    if (strcmp(name, "talc") != 0)
        return (nvtxDomainHandle_t)(void *)&others;
    talc = (nvtxDomainHandle_t)(void *)&ours;
    return talc;
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    if (domain == talc)
        hear("<", attributes->message.ascii);
    return 0;
}

static int pop(nvtxDomainHandle_t domain)
{
    if (domain == talc)
        hear(">", "");
    return 0;
}

/* What was heard since the last call. */
__attribute__((visibility("default"))) const char *ranges_heard(void);
const char *ranges_heard(void)
{
    static char result[sizeof heard];
    memcpy(result, heard, sizeof heard);
    heard[0] = '\0';
    return result;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t export_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table)
{
    const NvtxExportTableCallbacks *callbacks = export_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned count;
    if (callbacks == NULL ||
        callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &count) == 0 ||
        count <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
