/// Every mistake a caller can make with modules and files: the answer, word for word.
#include "tests/support/fake_device.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"
#include "tests/support/refused.h"

#include <stdio.h>

static talc_tensor *x, *far, *integers;

static void make_operands(void)
{
    x = op_numbers(cpu_device(), TALC_DIMS(2, 3), 1);
    far = op_numbers(fake_device(), TALC_DIMS(2, 3), 2);
    integers = talc_arange(cpu_device(), TALC_I64, 0, 3, 1);
    assert_no_failure();
    refused_watch(x);
    refused_watch(far);
    refused_watch(integers);
}

static bool fails_silently(talc_module *module, const void *options)
{
    (void)module;
    (void)options;
    return false;
}

static talc_tensor *gives_nothing(talc_module *module, talc_tensor *input)
{
    (void)module;
    (void)input;
    return NULL;
}

static bool refuses_to_go_on(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    (void)path;
    (void)tensor;
    (void)is_buffer;
    ++*(int *)context;
    return false;
}

// clang-format off

Test(bad_input_nn, modules)
{
    make_operands();
    static const talc_module_class nameless = { .size = sizeof(talc_module) };
    static const talc_module_class small = { .name = "Small", .size = 1 };
    static const talc_module_class silent = { .name = "Silent", .size = sizeof(talc_module), .init = fails_silently };
    static const talc_module_class childless = { .name = "Childless", .size = sizeof(talc_module) };
    static const talc_module_class mute = { .name = "Mute", .size = sizeof(talc_module), .forward = gives_nothing };
    talc_module *chain = talc_nn_sequential(), *relu = talc_nn_sequential_append(chain, talc_nn_relu());
    talc_module *plain = talc_module_new(&childless, NULL), *quiet = talc_module_new(&mute, NULL);
    talc_tensor *made = talc_neg(talc_module_parameter(chain, "scale", talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2))));
    assert_no_failure();

    REFUSED(TALC_NULL_ARGUMENT, "module_new: kind is NULL", talc_module_new(NULL, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "module_new: the class's name is NULL", talc_module_new(&nameless, NULL));
    REFUSED_LIKE(TALC_BAD_ARGUMENT, "module_new: Small has size 1, a struct that begins with talc_module at least ", talc_module_new(&small, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "module_new: init of Silent failed without a reason", talc_module_new(&silent, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "module_add: child 'child' is NULL", talc_module_add(chain, "child", NULL));
    REFUSED(TALC_NULL_ARGUMENT, "module_add: module is NULL", talc_module_add(NULL, "child", talc_nn_relu()));
    REFUSED(TALC_NULL_ARGUMENT, "module_add: name is NULL", talc_module_add(chain, NULL, talc_nn_relu()));
    REFUSED(TALC_BAD_ARGUMENT, "module_add: a name in Sequential is empty", talc_module_add(chain, "", talc_nn_relu()));
    REFUSED(TALC_BAD_ARGUMENT, "module_add: name 'a.b' in Sequential has a dot, which separates the parts of a path", talc_module_add(chain, "a.b", talc_nn_relu()));
    REFUSED(TALC_BAD_ARGUMENT, "module_add: Sequential has '0' already", talc_module_add(chain, "0", talc_nn_relu()));
    REFUSED(TALC_BAD_ARGUMENT, "module_add: Sequential has 'scale' already", talc_module_add(chain, "scale", talc_nn_relu()));
    REFUSED(TALC_BAD_ARGUMENT, "module_add: ReLU 'stolen' has a parent already, Sequential", talc_module_add(plain, "stolen", relu));
    REFUSED(TALC_BAD_ARGUMENT, "module_add: Sequential would contain itself as 'itself'", talc_module_add(chain, "itself", chain));
    REFUSED(TALC_BAD_ARGUMENT, "module_add: Sequential would contain itself as 'above'", talc_module_add(relu, "above", chain));
    REFUSED(TALC_NULL_ARGUMENT, "module_parameter: module is NULL", talc_module_parameter(NULL, "weight", x));
    REFUSED(TALC_NULL_ARGUMENT, "module_parameter: tensor 'weight' is NULL", talc_module_parameter(chain, "weight", NULL));
    REFUSED(TALC_NULL_ARGUMENT, "module_parameter: name is NULL", talc_module_parameter(chain, NULL, x));
    REFUSED(TALC_BAD_ARGUMENT, "module_parameter: Sequential has 'scale' already", talc_module_parameter(chain, "scale", x));
    REFUSED(TALC_BAD_ARGUMENT, "module_parameter: require_grad: the tensor is the result of neg; only a leaf, such as its talc_detach, can be asked or freed of a gradient",
            talc_module_parameter(chain, "made", made));
    REFUSED(TALC_BAD_ARGUMENT, "module_buffer: a name in Sequential is empty", talc_module_buffer(chain, "", x));
    REFUSED(TALC_BAD_ARGUMENT, "module_buffer: name 'a.b' in Sequential has a dot, which separates the parts of a path", talc_module_buffer(chain, "a.b", x));
    REFUSED(TALC_NULL_ARGUMENT, "forward: module is NULL", talc_forward(NULL, x));
    REFUSED(TALC_NULL_ARGUMENT, "forward: x is NULL", talc_forward(chain, NULL));
    REFUSED(TALC_UNSUPPORTED, "forward: Childless has no forward", talc_forward(plain, x));
    REFUSED(TALC_BAD_ARGUMENT, "forward: Mute returned NULL without a reason", talc_forward(quiet, x));
    REFUSED(TALC_NULL_ARGUMENT, "module_train: module is NULL", talc_module_train(NULL));
    REFUSED(TALC_NULL_ARGUMENT, "module_eval: module is NULL", talc_module_eval(NULL));
    REFUSED(TALC_NULL_ARGUMENT, "module_to: module is NULL", talc_module_to(NULL, cpu_device()));
    REFUSED(TALC_NULL_ARGUMENT, "module_to: device is NULL", talc_module_to(chain, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "module_visit: module is NULL", talc_module_visit(NULL, refuses_to_go_on, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "module_visit: visit is NULL", talc_module_visit(chain, NULL, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "module_summary: file is NULL", talc_module_summary(NULL, chain, x));
    REFUSED(TALC_NULL_ARGUMENT, "module_summary: module is NULL", talc_module_summary(stderr, NULL, x));
    REFUSED(TALC_NULL_ARGUMENT, "module_summary: x is NULL", talc_module_summary(stderr, chain, NULL));
    int visits = 0;
    HARMLESS(!talc_module_visit(chain, refuses_to_go_on, &visits) && visits == 1);
    HARMLESS(talc_module_count(NULL) == 0 && talc_module_find(NULL, "a") == NULL && talc_module_child(NULL, "a") == NULL);
    HARMLESS(talc_module_find(chain, NULL) == NULL && talc_module_find(chain, "") == NULL && talc_module_find(chain, "..") == NULL);
    HARMLESS(talc_module_find(chain, "0") == NULL && talc_module_find(chain, "scale.x") == NULL && talc_module_child(chain, "scale") == NULL);
    HARMLESS((talc_module_free(NULL), talc_module_free(relu), talc_module_child(chain, "0") == relu));
    talc_module_free(chain);
    talc_module_free(plain);
    talc_module_free(quiet);
    refused_end(38);
}

Test(bad_input_nn, layers)
{
    make_operands();
#define CONV(...) talc_nn_conv2d(&(talc_conv2d_layer){ __VA_ARGS__ })
    REFUSED(TALC_NULL_ARGUMENT, "Conv2d: options is NULL", talc_nn_conv2d(NULL));
    REFUSED(TALC_BAD_ARGUMENT, "Conv2d: in_channels 0 must be at least 1", CONV(.out_channels = 2, .kernel = { 3, 3 }));
    REFUSED(TALC_BAD_ARGUMENT, "Conv2d: out_channels -2 must be at least 1", CONV(.in_channels = 2, .out_channels = -2, .kernel = { 3, 3 }));
    REFUSED(TALC_BAD_ARGUMENT, "Conv2d: kernel [3,0] must be at least 1", CONV(.in_channels = 2, .out_channels = 2, .kernel = { 3 }));
    REFUSED(TALC_BAD_ARGUMENT, "Conv2d: stride [-1,0] must not be negative", CONV(.in_channels = 2, .out_channels = 2, .kernel = { 3, 3 }, .stride = { -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "Conv2d: dilation [1,-2] must not be negative", CONV(.in_channels = 2, .out_channels = 2, .kernel = { 3, 3 }, .dilation = { 1, -2 }));
    REFUSED(TALC_BAD_ARGUMENT, "Conv2d: padding [0,-3] must not be negative", CONV(.in_channels = 2, .out_channels = 2, .kernel = { 3, 3 }, .padding = { 0, -3 }));
    REFUSED(TALC_BAD_ARGUMENT, "Conv2d: padding_end [-1,0] must not be negative", CONV(.in_channels = 2, .out_channels = 2, .kernel = { 3, 3 }, .padding_end = { -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "Conv2d: groups -1 must be at least 1", CONV(.in_channels = 2, .out_channels = 2, .kernel = { 3, 3 }, .groups = -1));
    REFUSED(TALC_BAD_ARGUMENT, "Conv2d: in_channels 3 is not a multiple of groups 2", CONV(.in_channels = 3, .out_channels = 2, .kernel = { 3, 3 }, .groups = 2));
    REFUSED(TALC_BAD_ARGUMENT, "Conv2d: out_channels 3 is not a multiple of groups 2", CONV(.in_channels = 2, .out_channels = 3, .kernel = { 3, 3 }, .groups = 2));
    REFUSED(TALC_BAD_DTYPE, "Conv2d: parameters of i64 are not supported, they must be f32 or f64", CONV(.in_channels = 2, .out_channels = 2, .kernel = { 3, 3 }, .dtype = TALC_I64));
    REFUSED(TALC_TOO_LARGE, "uniform: shape [2,9223372036854775807,3,3] of f32 needs more than 9223372036854775807 bytes", CONV(.in_channels = INT64_MAX, .out_channels = 2, .kernel = { 3, 3 }));
    REFUSED_LIKE(TALC_TOO_LARGE, "uniform: shape ", CONV(.in_channels = INT64_MAX, .out_channels = INT64_MAX, .kernel = { 2, 2 }));
#define TRANSPOSE(...) talc_nn_conv_transpose2d(&(talc_conv_transpose2d_layer){ .kernel = { 3, 3 }, __VA_ARGS__ })
    REFUSED(TALC_NULL_ARGUMENT, "ConvTranspose2d: options is NULL", talc_nn_conv_transpose2d(NULL));
    REFUSED(TALC_BAD_ARGUMENT, "ConvTranspose2d: in_channels 0 must be at least 1", TRANSPOSE(.out_channels = 2));
    REFUSED(TALC_BAD_ARGUMENT, "ConvTranspose2d: out_channels -2 must be at least 1", TRANSPOSE(.in_channels = 2, .out_channels = -2));
    REFUSED(TALC_BAD_ARGUMENT, "ConvTranspose2d: kernel [0,3] must be at least 1", talc_nn_conv_transpose2d(&(talc_conv_transpose2d_layer){ .in_channels = 2, .out_channels = 2, .kernel = { 0, 3 } }));
    REFUSED(TALC_BAD_ARGUMENT, "ConvTranspose2d: stride [-1,0] must not be negative", TRANSPOSE(.in_channels = 2, .out_channels = 2, .stride = { -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "ConvTranspose2d: dilation [0,-2] must not be negative", TRANSPOSE(.in_channels = 2, .out_channels = 2, .dilation = { 0, -2 }));
    REFUSED(TALC_BAD_ARGUMENT, "ConvTranspose2d: padding [0,-3] must not be negative", TRANSPOSE(.in_channels = 2, .out_channels = 2, .padding = { 0, -3 }));
    REFUSED(TALC_BAD_ARGUMENT, "ConvTranspose2d: output_padding [-1,0] must not be negative", TRANSPOSE(.in_channels = 2, .out_channels = 2, .output_padding = { -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "ConvTranspose2d: groups -1 must be at least 1", TRANSPOSE(.in_channels = 2, .out_channels = 2, .groups = -1));
    REFUSED(TALC_BAD_ARGUMENT, "ConvTranspose2d: in_channels 3 is not a multiple of groups 2", TRANSPOSE(.in_channels = 3, .out_channels = 2, .groups = 2));
    REFUSED(TALC_BAD_ARGUMENT, "ConvTranspose2d: out_channels 3 is not a multiple of groups 2", TRANSPOSE(.in_channels = 2, .out_channels = 3, .groups = 2));
    REFUSED(TALC_BAD_DTYPE, "ConvTranspose2d: parameters of i64 are not supported, they must be f32 or f64", TRANSPOSE(.in_channels = 2, .out_channels = 2, .dtype = TALC_I64));
#undef TRANSPOSE
    REFUSED(TALC_NULL_ARGUMENT, "Linear: options is NULL", talc_nn_linear(NULL));
    REFUSED(TALC_BAD_ARGUMENT, "Linear: out_features 0 must be at least 1", talc_nn_linear(&(talc_linear_layer){ .in_features = 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "Linear: in_features -2 must be at least 1", talc_nn_linear(&(talc_linear_layer){ .in_features = -2, .out_features = 2 }));
    REFUSED(TALC_BAD_DTYPE, "Linear: parameters of u8 are not supported, they must be f32 or f64", talc_nn_linear(&(talc_linear_layer){ .in_features = 2, .out_features = 2, .dtype = TALC_U8 }));
    REFUSED(TALC_NULL_ARGUMENT, "BatchNorm2d: options is NULL", talc_nn_batch_norm2d(NULL));
    REFUSED(TALC_BAD_ARGUMENT, "BatchNorm2d: channels 0 must be at least 1", talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ 0 }));
    REFUSED(TALC_BAD_ARGUMENT, "BatchNorm2d: eps -1 must be at least 0", talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ .channels = 1, .eps = -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "BatchNorm2d: momentum 1.5 must be from 0 to 1", talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ .channels = 1, .momentum = 1.5 }));
    REFUSED(TALC_NULL_ARGUMENT, "GroupNorm: options is NULL", talc_nn_group_norm(NULL));
    REFUSED(TALC_BAD_ARGUMENT, "GroupNorm: groups 0 must be at least 1", talc_nn_group_norm(&(talc_group_norm_layer){ .channels = 4 }));
    REFUSED(TALC_BAD_ARGUMENT, "GroupNorm: 4 channels do not divide into 3 groups", talc_nn_group_norm(&(talc_group_norm_layer){ .groups = 3, .channels = 4 }));
    REFUSED(TALC_BAD_ARGUMENT, "Conv2d: activation 77 is outside 0..9", talc_nn_conv2d(&(talc_conv2d_layer){ .in_channels = 1, .out_channels = 1, .kernel = { 1, 1 }, .activation = (talc_activation)77 }));
    REFUSED(TALC_BAD_ARGUMENT, "Linear: activation 10 is outside 0..9", talc_nn_linear(&(talc_linear_layer){ .in_features = 1, .out_features = 1, .activation = TALC_ACTIVATION_COUNT }));
    REFUSED(TALC_BAD_ARGUMENT, "BatchNorm2d: activation -1 is outside 0..9", talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ .channels = 1, .activation = (talc_activation)-1 }));
    REFUSED(TALC_BAD_ARGUMENT, "GroupNorm: activation -1 is outside 0..9", talc_nn_group_norm(&(talc_group_norm_layer){ .groups = 2, .channels = 4, .activation = (talc_activation)-1 }));
    REFUSED(TALC_BAD_ARGUMENT, "GroupNorm: eps nan must be at least 0", talc_nn_group_norm(&(talc_group_norm_layer){ .groups = 2, .channels = 4, .eps = NAN }));
    REFUSED(TALC_BAD_DTYPE, "GroupNorm: parameters of u8 are not supported, they must be f32 or f64", talc_nn_group_norm(&(talc_group_norm_layer){ .groups = 2, .channels = 4, .dtype = TALC_U8 }));
    REFUSED(TALC_BAD_ARGUMENT, "InstanceNorm2d: channels 0 must be at least 1", talc_nn_instance_norm2d(&(talc_instance_norm2d_layer){ 0 }));
    REFUSED(TALC_BAD_ARGUMENT, "LayerNorm: normalised has 0 dimensions, it must have 1 to 8", talc_nn_layer_norm(&(talc_layer_norm_layer){ 0 }));
    REFUSED(TALC_BAD_ARGUMENT, "LayerNorm: eps -1 must be at least 0", talc_nn_layer_norm(&(talc_layer_norm_layer){ .normalised = TALC_DIMS(4), .eps = -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "PReLU: parameters -1 must be at least 1", talc_nn_prelu(&(talc_prelu_layer){ .parameters = -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "PReLU: init nan must be finite", talc_nn_prelu(&(talc_prelu_layer){ .init = NAN }));
    REFUSED(TALC_BAD_DTYPE, "PReLU: parameters of u8 are not supported, they must be f32 or f64", talc_nn_prelu(&(talc_prelu_layer){ .dtype = TALC_U8 }));
    REFUSED(TALC_BAD_ARGUMENT, "LocalResponseNorm: size 0 must be at least 1", talc_nn_local_response_norm(&(talc_local_response_norm_layer){ 0 }));
    REFUSED(TALC_BAD_ARGUMENT, "LocalResponseNorm: beta -1 must be at least 0 and finite", talc_nn_local_response_norm(&(talc_local_response_norm_layer){ .size = 5, .options = { .beta = -1 } }));
    REFUSED(TALC_BAD_ARGUMENT, "DropPath: p nan must be from 0 to 1", talc_nn_drop_path((double)NAN));
    REFUSED(TALC_BAD_ARGUMENT, "AdaptiveAvgPool2d: OW 0 must be at least 1", talc_nn_adaptive_avg_pool2d(2, 0));
    REFUSED(TALC_BAD_ARGUMENT, "AdaptiveMaxPool2d: OH -1 must be at least 1", talc_nn_adaptive_max_pool2d(-1, 2));
    REFUSED(TALC_NULL_ARGUMENT, "Pad2d: options is NULL", talc_nn_pad2d(NULL));
    REFUSED(TALC_BAD_ARGUMENT, "Pad2d: mode 4 is outside 0..3", talc_nn_pad2d(&(talc_pad_options){ .mode = TALC_PADDING_MODE_COUNT }));
    REFUSED(TALC_NULL_ARGUMENT, "Upsample: options is NULL", talc_nn_upsample(NULL));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: neither size nor scale is given", talc_nn_upsample(&(talc_upsample2d_options){ .size = { 0 } }));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: size [4,-2] must be at least 1", talc_nn_upsample(&(talc_upsample2d_options){ .size = { 4, -2 } }));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: scale [2,inf] must be finite and above 0", talc_nn_upsample(&(talc_upsample2d_options){ .scale = { 2, INFINITY } }));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: align_corners is an option of bilinear and bicubic", talc_nn_upsample(&(talc_upsample2d_options){ .scale = { 2, 2 }, .align_corners = true }));
    REFUSED(TALC_BAD_ARGUMENT, "ChannelShuffle: groups 0 must be at least 1", talc_nn_channel_shuffle(0));
    REFUSED(TALC_BAD_SHAPE, "Unflatten: shape has rank 0, needs 1 to 8", talc_nn_unflatten(1, TALC_SCALAR));
    REFUSED(TALC_BAD_SHAPE, "Unflatten: shape [2,-2] is of no dimension: extents are at least 0, of which one may be -1 beside others of at least 1", talc_nn_unflatten(1, TALC_DIMS(2, -2)));
    REFUSED_LIKE(TALC_BAD_SHAPE, "Unflatten: shape [-1,-1] is of no dimension", talc_nn_unflatten(1, TALC_DIMS(-1, -1)));
    REFUSED_LIKE(TALC_BAD_SHAPE, "Unflatten: shape [-1,0] is of no dimension", talc_nn_unflatten(1, TALC_DIMS(-1, 0)));
    REFUSED_LIKE(TALC_BAD_SHAPE, "Unflatten: shape [0,-1] is of no dimension", talc_nn_unflatten(1, TALC_DIMS(0, -1)));
    REFUSED_LIKE(TALC_BAD_SHAPE, "Unflatten: shape [4611686018427387904,2] is of no dimension", talc_nn_unflatten(1, TALC_DIMS((int64_t)1 << 62, 2)));
    talc_module *cut = talc_nn_unflatten(1, TALC_DIMS(2, -1));
    REFUSED(TALC_BAD_SHAPE, "Unflatten: dimension 1 of x [2,3], 3, does not become [2,-1]", talc_forward(cut, x));
    talc_module_free(cut);
    REFUSED(TALC_NULL_ARGUMENT, "nn_module_list_at: list is NULL", talc_nn_module_list_at(NULL, 0));
    REFUSED(TALC_NULL_ARGUMENT, "MaxPool2d: options is NULL", talc_nn_max_pool2d(NULL));
    REFUSED(TALC_NULL_ARGUMENT, "AvgPool2d: options is NULL", talc_nn_avg_pool2d(NULL));
#define POOL(kind, ...) talc_nn_##kind##_pool2d(&(talc_pool2d_options){ __VA_ARGS__ })
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: kernel [0,0] must be at least 1", POOL(max, .kernel = { 0 }));
    REFUSED(TALC_BAD_ARGUMENT, "avg_pool2d: stride [-1,2] must be at least 1", POOL(avg, .kernel = { 2, 2 }, .stride = { -1, 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: padding [0,2] must be from 0 to [1,1], less than the kernel [2,2] with dilation [1,1]", POOL(max, .kernel = { 2, 2 }, .padding = { 0, 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "avg_pool2d: dilation [2,1] is an option of max_pool2d", POOL(avg, .kernel = { 2, 2 }, .dilation = { 2, 1 }));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: exclude_padding and divisor_override are options of avg_pool2d", POOL(max, .kernel = { 2, 2 }, .exclude_padding = true));
#undef POOL
    REFUSED(TALC_NULL_ARGUMENT, "module_add: module is NULL", talc_nn_sequential_append(NULL, talc_nn_relu()));
    REFUSED(TALC_NULL_ARGUMENT, "nn_sequential_of: modules is NULL", talc_nn_sequential_of(NULL, 2));
    REFUSED(TALC_NULL_ARGUMENT, "module_add: child '1' is NULL", TALC_SEQUENTIAL(talc_nn_relu(), NULL, talc_nn_relu()));
    refused_end(40);
}

Test(bad_input_nn, files)
{
    make_operands();
    talc_module *net = talc_nn_linear(&(talc_linear_layer){ .in_features = 3, .out_features = 2 });
    talc_module *other = talc_nn_linear(&(talc_linear_layer){ .in_features = 4, .out_features = 2 });
    talc_module *longer = TALC_SEQUENTIAL(talc_nn_relu());
    const char *good = file_path("good"), *empty = file_path("empty"), *text = file_path("text"), *missing = file_path("missing");
    cr_assert(talc_module_save(net, good), "%s", talc_error_message());
    file_write(empty, "", 0);
    file_write(text, "seven c", 7);
    refused_watch(talc_module_find(net, "weight"));
    refused_watch(talc_module_find(other, "weight"));

    REFUSED(TALC_NULL_ARGUMENT, "npy_load: device is NULL", talc_npy_load(NULL, good));
    REFUSED(TALC_NULL_ARGUMENT, "npy_load: path is NULL", talc_npy_load(cpu_device(), NULL));
    REFUSED(TALC_NULL_ARGUMENT, "npy_save: path is NULL", talc_npy_save(NULL, x));
    REFUSED(TALC_NULL_ARGUMENT, "npy_save: tensor is NULL", talc_npy_save(missing, NULL));
    REFUSED_LIKE(TALC_IO_ERROR, "npy_load: ", talc_npy_load(cpu_device(), missing));
    REFUSED_LIKE(TALC_IO_ERROR, "npy_load: ", talc_npy_load(cpu_device(), ""));
    REFUSED_LIKE(TALC_IO_ERROR, "npy_load: ", talc_npy_load(cpu_device(), "/"));
    REFUSED_LIKE(TALC_IO_ERROR, "npy_load: ", talc_npy_load(cpu_device(), "/dev/zero"));
    REFUSED_LIKE(TALC_BAD_FORMAT, "npy_load: ", talc_npy_load(cpu_device(), empty));
    REFUSED_LIKE(TALC_BAD_FORMAT, "npy_load: ", talc_npy_load(cpu_device(), text));
    REFUSED_LIKE(TALC_BAD_FORMAT, "npy_load: ", talc_npy_load(cpu_device(), good));
    REFUSED_LIKE(TALC_IO_ERROR, "npy_save: ", talc_npy_save("/", x));
    REFUSED_LIKE(TALC_IO_ERROR, "npy_save: ", talc_npy_save("/dev/null", x));
    REFUSED_LIKE(TALC_IO_ERROR, "npy_save: ", talc_npy_save("/no/such/directory/x.npy", x));
    REFUSED(TALC_NULL_ARGUMENT, "safetensors_open: path is NULL", talc_safetensors_open(NULL));
    REFUSED_LIKE(TALC_IO_ERROR, "safetensors_open: ", talc_safetensors_open(missing));
    REFUSED_LIKE(TALC_IO_ERROR, "safetensors_open: ", talc_safetensors_open("/dev/zero"));
    REFUSED_LIKE(TALC_BAD_FORMAT, "safetensors_open: ", talc_safetensors_open(empty));
    REFUSED_LIKE(TALC_BAD_FORMAT, "safetensors_open: ", talc_safetensors_open(text));
    const talc_named_tensor twice[] = { { "a", x }, { "a", far } }, nameless[] = { { NULL, x } }, tensorless[] = { { "a", NULL } };
    REFUSED(TALC_NULL_ARGUMENT, "safetensors_save: path is NULL", talc_safetensors_save(NULL, twice, 1, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "safetensors_save: tensors is NULL", talc_safetensors_save(missing, NULL, 1, NULL));
    REFUSED_LIKE(TALC_BAD_ARGUMENT, "safetensors_save: ", talc_safetensors_save(missing, twice, 2, NULL));
    REFUSED_LIKE(TALC_BAD_ARGUMENT, "safetensors_save: ", talc_safetensors_save(missing, twice, -1, NULL));
    REFUSED_LIKE(TALC_NULL_ARGUMENT, "safetensors_save: ", talc_safetensors_save(missing, nameless, 1, NULL));
    REFUSED_LIKE(TALC_NULL_ARGUMENT, "safetensors_save: ", talc_safetensors_save(missing, tensorless, 1, NULL));
    talc_safetensors *file = talc_safetensors_open(good);
    REFUSED(TALC_NULL_ARGUMENT, "safetensors_read: file is NULL", talc_safetensors_read(NULL, 0, cpu_device()));
    REFUSED(TALC_NULL_ARGUMENT, "safetensors_read: device is NULL", talc_safetensors_read(file, 0, NULL));
    REFUSED_LIKE(TALC_BAD_ARGUMENT, "safetensors_read: ", talc_safetensors_read(file, 9, cpu_device()));
    REFUSED_LIKE(TALC_BAD_ARGUMENT, "safetensors_read: ", talc_safetensors_read(file, -1, cpu_device()));
    REFUSED_LIKE(TALC_BAD_SHAPE, "safetensors_read", talc_safetensors_read_into(file, talc_safetensors_find(file, "bias"), x));
    REFUSED_LIKE(TALC_BAD_DTYPE, "safetensors_read", talc_safetensors_read_into(file, talc_safetensors_find(file, "bias"), talc_slice(integers, 0, 0, 2, 1)));
    REFUSED(TALC_NULL_ARGUMENT, "safetensors_read_into: tensor is NULL", talc_safetensors_read_into(file, 0, NULL));
    HARMLESS(talc_safetensors_count(NULL) == 0 && talc_safetensors_name(NULL, 0) == NULL && talc_safetensors_find(NULL, "a") == -1);
    HARMLESS(talc_safetensors_find(file, NULL) == -1 && talc_safetensors_name(file, -1) == NULL && talc_safetensors_dims(file, 99).rank == 0);
    HARMLESS(talc_safetensors_dtype(file, 99) == TALC_DTYPE_COUNT && talc_safetensors_metadata(file, NULL) == NULL);
    HARMLESS((talc_safetensors_close(NULL), true));
    talc_safetensors_close(file);
    REFUSED(TALC_NULL_ARGUMENT, "module_save: module is NULL", talc_module_save(NULL, missing));
    REFUSED(TALC_NULL_ARGUMENT, "module_save: path is NULL", talc_module_save(net, NULL));
    REFUSED_LIKE(TALC_IO_ERROR, "safetensors_save: ", talc_module_save(net, "/no/such/directory/net"));
    REFUSED(TALC_NULL_ARGUMENT, "module_load: module is NULL", talc_module_load(NULL, good, true));
    REFUSED(TALC_NULL_ARGUMENT, "module_load: path is NULL", talc_module_load(net, NULL, true));
    REFUSED(TALC_NULL_ARGUMENT, "module_load: module is NULL", talc_module_load_with(NULL, good, NULL, NULL));
    REFUSED_LIKE(TALC_NOT_FOUND, "module_load: no name of ", talc_module_load_with(net, good, &(talc_load_options){ .except = "none" }, NULL));
#define DESCRIBE(...) talc_module_describe(net, &(talc_model_info){ __VA_ARGS__ })
    REFUSED(TALC_NULL_ARGUMENT, "module_describe: module is NULL", talc_module_describe(NULL, &(talc_model_info){ 0 }));
    REFUSED(TALC_BAD_ARGUMENT, "module_describe: network 'a\\xff' is not UTF-8", DESCRIBE(.network = "a\xff"));
    REFUSED(TALC_BAD_ARGUMENT, "module_describe: the name of a class '\\xc3' is not UTF-8", DESCRIBE(.classes = 1, .class_names = (const char *const[]){ "\xc3" }));
    REFUSED(TALC_NULL_ARGUMENT, "module_describe: the name of a class is NULL", DESCRIBE(.classes = 1, .class_names = (const char *const[]){ NULL }));
    REFUSED(TALC_BAD_ARGUMENT, "module_describe: names of classes without their number", DESCRIBE(.class_names = (const char *const[]){ "a" }));
    REFUSED(TALC_BAD_ARGUMENT, "module_describe: the number of classes is outside 0..65536", DESCRIBE(.classes = 65537));
    REFUSED(TALC_BAD_ARGUMENT, "module_describe: an image has no channels", DESCRIBE(.height = 8));
    REFUSED(TALC_BAD_ARGUMENT, "module_describe: an extent of the image is outside 0..1048576", DESCRIBE(.channels = -1));
    REFUSED(TALC_BAD_ARGUMENT, "module_describe: a mean or deviation is of a channel that the image has not", DESCRIBE(.channels = 1, .mean = { 0, 1 }));
    REFUSED(TALC_BAD_ARGUMENT, "module_describe: mean and deviation must be finite, the deviation not negative", DESCRIBE(.channels = 1, .mean = { NAN }));
    REFUSED(TALC_NULL_ARGUMENT, "model_info_read: path is NULL", talc_model_info_read(NULL));
    REFUSED_LIKE(TALC_IO_ERROR, "safetensors_open: cannot open ", talc_module_load(net, missing, true));
    REFUSED_LIKE(TALC_BAD_SHAPE, "module_load: ", talc_module_load(other, good, true));
    REFUSED_LIKE(TALC_BAD_SHAPE, "module_load: ", talc_module_load(other, good, false));
    REFUSED_LIKE(TALC_NOT_FOUND, "module_load: ", talc_module_load(longer, good, true));
    cr_assert(file_count() == 3, "a failing save left a file");
    talc_module_free(net);
    talc_module_free(other);
    talc_module_free(longer);
    refused_end(45);
}

// clang-format on
