#include "tools/cli/problems.h"

#include <string.h>

// clang-format off
const named_problem named_problems[] = {
    /* KernelBench level 1, problems 56 (A) and 62 (B), and one image of each. */
    { "seeds", "A1", "n1c64h512w256o128k5x7", "A, one image" },
    { "seeds", "B1", "n1c32h512w512o64k5x9",  "B, one image" },
    { "seeds", "A",  "n8c64h512w256o128k5x7", "the full problem A" },
    { "seeds", "B",  "n8c32h512w512o64k5x9",  "the full problem B" },

    /* Layers of known networks, one image; depthwise and pointwise ones. */
    { "cpu", "conv64",      "n1c64h112w112o64k3x3",          "VGG-sized, few channels" },
    { "cpu", "conv256",     "n1c256h56w56o256k3x3",          "many channels" },
    { "cpu", "conv512",     "n1c512h16w16o512k3x3",          "many channels, small image" },
    { "cpu", "depthwise",   "n16c64h112w112o64k3x3p1x1g64",  "MobileNet depthwise" },
    { "cpu", "depthwise_s2", "n16c64h112w112o64k3x3s2x2p1x1g64", "the same with stride 2" },
    { "cpu", "pointwise",   "n1c64h112w112o128k1x1",         "MobileNet pointwise" },
    { "cpu", "pointwise512", "n1c512h14w14o512k1x1",         "pointwise, small image" },

    /* The distinct convolutions of ResNet-18, one image. */
    { "resnet18-convs", "r18stem",   "n1c3h224w224o64k7x7s2x2p3x3",   "stem" },
    { "resnet18-convs", "r18s1",     "n1c64h56w56o64k3x3p1x1",        "first stage" },
    { "resnet18-convs", "r18s2in",   "n1c64h56w56o128k3x3s2x2p1x1",   "into the second stage" },
    { "resnet18-convs", "r18s2skip", "n1c64h56w56o128k1x1s2x2",       "around that" },
    { "resnet18-convs", "r18s2",     "n1c128h28w28o128k3x3p1x1",      "second stage" },
    { "resnet18-convs", "r18s3in",   "n1c128h28w28o256k3x3s2x2p1x1",  "into the third stage" },
    { "resnet18-convs", "r18s3skip", "n1c128h28w28o256k1x1s2x2",      "around that" },
    { "resnet18-convs", "r18s3",     "n1c256h14w14o256k3x3p1x1",      "third stage" },
    { "resnet18-convs", "r18s4in",   "n1c256h14w14o512k3x3s2x2p1x1",  "into the fourth stage" },
    { "resnet18-convs", "r18s4skip", "n1c256h14w14o512k1x1s2x2",      "around that" },
    { "resnet18-convs", "r18s4",     "n1c512h7w7o512k3x3p1x1",        "fourth stage" },

    /* KernelBench level 1 and layers of ResNet-50 and VGG, in the batches of GPUs. */
    { "gpu", "kb50",     "n256c3h224w224o96k11x11s4x4p2x2",     "AlexNet's first layer" },
    { "gpu", "kb55",     "n8c64h512w1024o128k3x3",              "wide image" },
    { "gpu", "kb63",     "n16c16h1024w1024o128k3x3",            "few channels" },
    { "gpu", "kb80",     "n8c32h512w512o64k5x9p2x4d2x3",        "B with padding and dilation" },
    { "gpu", "kb82",     "n16c64h512w512o64k3x3g64",            "depthwise 3x3" },
    { "gpu", "kb83",     "n64c8h512w512o8k3x1g8",               "depthwise 3x1" },
    { "gpu", "kb84",     "n64c128h256w512o128k3x3g128",         "depthwise 3x3, large" },
    { "gpu", "kb85",     "n32c128h128w256o128k3x7g128",         "depthwise 3x7" },
    { "gpu", "kb86dw",   "n16c64h512w512o64k3x3p1x1g64",        "separable: depthwise" },
    { "gpu", "kb86pw",   "n16c64h512w512o128k1x1",              "separable: pointwise" },
    { "gpu", "kb87",     "n16c64h1024w1024o128k1x1",            "pointwise" },
    { "gpu", "resnet56", "n64c64h56w56o64k3x3p1x1",             "ResNet, first stage" },
    { "gpu", "resnet14", "n64c256h14w14o256k3x3p1x1",           "ResNet, third stage" },
    { "gpu", "vgg112",   "n32c128h112w112o128k3x3p1x1",         "VGG, second stage" },

    /* Depthwise layers of MobileNet, EfficientNet and ConvNeXt, in the batches of GPUs. */
    { "dw", "dw112",    "n128c64h112w112o64k3x3p1x1g64",     "MobileNet, first" },
    { "dw", "dw56",     "n128c256h56w56o256k3x3p1x1g256",    "MobileNet, 56x56" },
    { "dw", "dw56s2",   "n128c256h56w56o256k3x3s2x2p1x1g256", "the same with stride 2" },
    { "dw", "dw56k5",   "n128c256h56w56o256k5x5p2x2g256",    "EfficientNet, 56x56" },
    { "dw", "dw56k7",   "n128c256h56w56o256k7x7p3x3g256",    "ConvNeXt, 56x56" },
    { "dw", "dw14",     "n512c1024h14w14o1024k3x3p1x1g1024", "MobileNet, 14x14" },
    { "dw", "dw14k5",   "n512c1024h14w14o1024k5x5p2x2g1024", "EfficientNet, 14x14" },
    { "dw", "dw14k7",   "n512c1024h14w14o1024k7x7p3x3g1024", "ConvNeXt, 14x14" },
    { "dw", "dw7k5",    "n1024c1024h7w7o1024k5x5p2x2g1024",  "EfficientNet, 7x7" },
    { NULL, NULL, NULL, NULL },
};
// clang-format on

const named_problem *problem_named(const char *name)
{
    for (const named_problem *row = named_problems; row->name != NULL; row++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

/* The direction that the end of a name or a text asks for. */
static talc_direction direction_of(const char *text)
{
    const size_t length = strlen(text);
    const char *end = length > 3 ? text + length - 3 : "";
    return strcmp(end, "_dx") == 0   ? TALC_GRAD_INPUT
           : strcmp(end, "_dw") == 0 ? TALC_GRAD_WEIGHT
                                     : TALC_FORWARD;
}

bool problem_read_named(const char *text, talc_conv2d_problem *problem)
{
    const talc_direction direction = direction_of(text);
    const size_t length = strlen(text) - (direction == TALC_FORWARD ? 0 : 3);
    for (const named_problem *row = named_problems; row->name != NULL; row++)
        if (strlen(row->name) == length && strncmp(row->name, text, length) == 0 &&
            talc_conv2d_problem_parse(row->text, problem)) {
            problem->direction = direction;
            return true;
        }
    return false;
}

bool problem_read(const char *text, talc_conv2d_problem *problem)
{
    if (problem_read_named(text, problem))
        return true;
    if (text[0] != 'n' || text[1] < '0' || text[1] > '9') {
        talc_fail(TALC_NOT_FOUND,
                  "there is no problem '%s'; talc bench --list shows the named ones, talc summary "
                  "the networks, others read as n1c3h32w32o8k3x3",
                  TALC_SHOWN(text));
        return false;
    }
    return talc_conv2d_problem_parse(text, problem);
}
