/// What a block of a test owns: an object that is declared with one of these names instead of its
/// type's is freed where the block ends, the last one first.
#ifndef TALC_TESTS_OWNED_H
#define TALC_TESTS_OWNED_H

#include "talc.h"

#include <stdlib.h>
#include <string.h>

#define OWNED(end) __attribute__((cleanup(end), unused))

#define OWNED_OBJECT(type, end)                                                                    \
    static inline void type##_end(type **object)                                                   \
    {                                                                                              \
        end(*object);                                                                              \
    }

OWNED_OBJECT(talc_check, talc_check_free)
OWNED_OBJECT(talc_check_model_report, talc_check_model_free)
OWNED_OBJECT(talc_confusion, talc_confusion_free)
OWNED_OBJECT(talc_dataset, talc_dataset_free)
OWNED_OBJECT(talc_graph, talc_graph_free)
OWNED_OBJECT(talc_loader, talc_loader_free)
OWNED_OBJECT(talc_module, talc_module_free)
OWNED_OBJECT(talc_optimizer, talc_optimizer_free)
OWNED_OBJECT(talc_safetensors, talc_safetensors_close)
OWNED_OBJECT(talc_scope, talc_scope_leave)
OWNED_OBJECT(talc_step, talc_step_free)

#define owned_check       OWNED(talc_check_end) talc_check
#define owned_report      OWNED(talc_check_model_report_end) talc_check_model_report
#define owned_confusion   OWNED(talc_confusion_end) talc_confusion
#define owned_dataset     OWNED(talc_dataset_end) talc_dataset
#define owned_graph       OWNED(talc_graph_end) talc_graph
#define owned_loader      OWNED(talc_loader_end) talc_loader
#define owned_module      OWNED(talc_module_end) talc_module
#define owned_optimizer   OWNED(talc_optimizer_end) talc_optimizer
#define owned_safetensors OWNED(talc_safetensors_end) talc_safetensors
#define owned_scope       OWNED(talc_scope_end) talc_scope
#define owned_step        OWNED(talc_step_end) talc_step

/* Memory of malloc. */
static inline void memory_end(void *pointer)
{
    void *memory;
    memcpy(&memory, pointer, sizeof memory);
    free(memory);
}

#define owned_char   OWNED(memory_end) char
#define owned_double OWNED(memory_end) double

#endif
