/// The keys and shapes of PyTorch's state_dict, in its order, for modules written in PyTorch like
/// those of examples/.
#ifndef TALC_TESTS_TORCH_KEYS_H
#define TALC_TESTS_TORCH_KEYS_H

static const char lenet_keys[] = "conv1.weight [6,1,5,5]\n"
                                 "conv1.bias [6]\n"
                                 "conv2.weight [16,6,5,5]\n"
                                 "conv2.bias [16]\n"
                                 "fc1.weight [120,400]\n"
                                 "fc1.bias [120]\n"
                                 "fc2.weight [84,120]\n"
                                 "fc2.bias [84]\n"
                                 "fc3.weight [10,84]\n"
                                 "fc3.bias [10]\n";

// clang-format off
#define NORM_KEYS(at, channels) \
    at ".weight [" #channels "]\n" \
    at ".bias [" #channels "]\n" \
    at ".running_mean [" #channels "]\n" \
    at ".running_var [" #channels "]\n" \
    at ".num_batches_tracked []\n"

#define BLOCK_KEYS(at, in, out) \
    at ".conv1.weight [" #out "," #in ",3,3]\n" NORM_KEYS(at ".bn1", out) \
    at ".conv2.weight [" #out "," #out ",3,3]\n" NORM_KEYS(at ".bn2", out)

#define SHORTCUT_KEYS(at, in, out) \
    at ".shortcut.0.weight [" #out "," #in ",1,1]\n" NORM_KEYS(at ".shortcut.1", out)

/* Option B; option A has the same without the lines of a shortcut. */
static const char resnet20_keys[] =
    "conv1.weight [16,3,3,3]\n" NORM_KEYS("bn1", 16)
    BLOCK_KEYS("layer1.0", 16, 16)
    BLOCK_KEYS("layer1.1", 16, 16)
    BLOCK_KEYS("layer1.2", 16, 16)
    BLOCK_KEYS("layer2.0", 16, 32)
    SHORTCUT_KEYS("layer2.0", 16, 32)
    BLOCK_KEYS("layer2.1", 32, 32)
    BLOCK_KEYS("layer2.2", 32, 32)
    BLOCK_KEYS("layer3.0", 32, 64)
    SHORTCUT_KEYS("layer3.0", 32, 64)
    BLOCK_KEYS("layer3.1", 64, 64)
    BLOCK_KEYS("layer3.2", 64, 64)
    "linear.weight [10,64]\n"
    "linear.bias [10]\n";
// clang-format on

#endif
