#include "tools/models.h"

#include "examples/lenet.h"
#include "examples/resnet20.h"

#include <string.h>

static talc_module *resnet20_a(void)
{
    return resnet20_new(RESNET20_OPTION_A);
}

static talc_module *resnet20_b(void)
{
    return resnet20_new(RESNET20_OPTION_B);
}

static const tool_model models[] = {
    { "lenet", lenet_new, { 1, 28, 28 }, "conv2d=reference,linear=reference,max_pool2d=reference" },
    { "resnet20",
      resnet20_a,
      { 3, 32, 32 },
      "conv2d=reference,linear=reference,batch_norm2d=reference,adaptive_avg_pool2d=reference" },
    { "resnet20-b",
      resnet20_b,
      { 3, 32, 32 },
      "conv2d=reference,linear=reference,batch_norm2d=reference,adaptive_avg_pool2d=reference" },
};

const tool_model *model_find(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

talc_tensor *model_images(const tool_model *model, int64_t batch)
{
    return talc_randn(talc_device_get("cpu"), TALC_F32,
                      TALC_DIMS(batch, model->image[0], model->image[1], model->image[2]));
}
