#include "onnx/model.h"
#include "onnx/onnx.h"

talc_onnx_model *talc_onnx_read(const char *path)
{
    (void)path;
    talc_fail(TALC_UNSUPPORTED,
              "onnx_load: this build of talc has no reader of ONNX files, which needs nanopb");
    return NULL;
}

bool talc_onnx_save(talc_module *module, const talc_tensor *example, const char *path)
{
    (void)module;
    (void)example;
    (void)path;
    talc_fail(TALC_UNSUPPORTED,
              "onnx_save: this build of talc writes no ONNX files, which needs nanopb");
    return false;
}
