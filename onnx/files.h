/// The files of a model: its own and those of its external data. Private to onnx/.
#ifndef TALC_ONNX_FILES_H
#define TALC_ONNX_FILES_H

#include "onnx/model.h"
#include "tensor/file.h"

struct talc_onnx_file {
    talc_file file;
    const char *location; ///< as tensors name it; NULL: the model itself
};

typedef struct talc_onnx_files {
    struct talc_onnx_file *files; ///< all open; freed by talc_onnx_files_close
    int count;
    size_t capacity;
} talc_onnx_files;

/// Opens the model itself, as number 0.
bool talc_onnx_files_open(talc_onnx_files *files, const char *path);

/// The number of the file at a location: a path of names that leads to a regular file in the
/// folder of the model, over no link. Opens each once. `location` is kept. -1 with a failure that
/// names `user`, whose data it is.
int talc_onnx_files_find(talc_onnx_files *files, const char *location, const char *user);

void talc_onnx_files_close(struct talc_onnx_file *files, int count);

#endif
