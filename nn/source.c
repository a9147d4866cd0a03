#include "nn/source.h"

#include "tensor/scope.h"
#include "tensor/storage.h"

bool talc_source_hold(talc_source *source, const talc_tensor *tensor)
{
    *source = (talc_source){ .version = talc_version(tensor) };
    if (tensor != NULL)
        source->held = talc_retain(talc_tensor_alias(tensor));
    return tensor == NULL || source->held != NULL;
}

bool talc_source_in_place(const talc_source *source, const talc_tensor *tensor)
{
    const talc_tensor *held = source->held;
    if (held == NULL || tensor == NULL)
        return held == tensor;
    return held->storage == tensor->storage && held->data == tensor->data;
}

bool talc_source_stands(const talc_source *source, const talc_tensor *tensor)
{
    return talc_source_in_place(source, tensor) && source->version == talc_version(tensor);
}

bool talc_source_is_left(const talc_source *source)
{
    return source->held != NULL && atomic_load(&source->held->storage->references) == 1;
}

void talc_source_release(talc_source *source)
{
    talc_release(source->held);
}
