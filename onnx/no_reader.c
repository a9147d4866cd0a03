#include "onnx/model.h"

talc_onnx_model *talc_onnx_read(const char *path)
{
    (void)path;
    talc_fail(TALC_UNSUPPORTED,
              "onnx_load: this build of talc has no reader of ONNX files, which needs nanopb");
    return NULL;
}
