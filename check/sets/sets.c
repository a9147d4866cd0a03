#include "check/sets/sets.h"

#include "check/engine/data.h"
#include "check/engine/family.h"
#include "tensor/fenv.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <string.h>

// clang-format off
/* Every feature of every op once, on problems so small that all checks of all rows take seconds:
 * what catches most mistakes. */
const char *const talc_check_quick[] = {
    /* Kernels, odd, even and long; images that are not square; batches. */
    "n2c3h9w7o4k3x3{|_dx|_dw}", "n1c2h8w11o5k2x4_bias", "n3c4h5w12o3k1x7p0x3{|_dx}", "n1c3h12w5o4k7x1p3x0{|_dw}",
    "n2c3h5w7o4k5x7{|_dx}", "n1c2h13w12o3k11x11p5x5", "n65c1h2w3o2k2x2p1x1_bias{|_dw}",

    /* Padding: one axis, each side its own, more than the kernel, nothing but padding, other
     * modes. */
    "n1c2h6w5o3k3x3p1x2", "n2c3h7w6o4k3x2p1x0x2x3{|_dx|_dw}", "n1c3h7w6o4k4x2p1x0x2x1",
    "n1c2h3w2o3k2x2p4x5_bias{|_dx|_dw}", "n1c1h3w1o2k3x3p1x9{|_dw}", "n2c3h7w9o4k3x3p2x3_reflect",
    "n1c2h6w5o3k5x3p5x1x4x3_replicate", "n2c3h5w6o4k3x4p3x2_bias_circular",

    /* Strides and dilations, one axis apart from the other. */
    "n2c3h11w10o4k3x3s2x2p1x1{|_dx|_dw}", "n1c3h11w13o5k3x3s1x3p1x1{|_dx}", "n1c2h13w11o3k2x3s3x1p0x1{|_dw}",
    "n1c3h13w11o4k2x2s5x4{|_dx}", "n2c3h10w11o4k3x3p2x2d2x2", "n1c2h9w14o3k3x2p1x3d1x4{|_dw}",
    "n1c2h14w9o3k2x3d5x1{|_dx}", "n2c3h12w15o4k3x2s2x3p2x1d2x4{|_dx|_dw}",

    /* An input of more than 2^16 elements. */
    "n1c2h190w180o2k2x3s4x3p1x1{|_dx}",

    /* Groups and depthwise. */
    "n2c6h7w9o4k3x3p1x1g2_bias{|_dx|_dw}", "n1c15h6w5o10k2x3s1x2g5", "n2c5h7w9o5k3x3p1x1g5{|_dx|_dw}",
    "n2c4h9w35o8k3x3p1x1g4_bias_relu{|_dx|_dw}", "n1c7h11w70o7k3x3s2x2p1x1g7{|_dx|_dw}",
    "n1c3h13w21o6k5x4s1x2p2x3x1x0d2x1g3_residual{|_dw}", "n1c33h5w6o33k3x3p1x1g33{|_dx}", "n1c2h6w521o2k3x3p1x1g2",
    "n2c6h5w4o6k1x1g6", "n2c4h6w17o4k3x3g4",

    /* Pointwise. */
    "n2c17h9w7o19k1x1_bias{|_dx|_dw}", "n1c33h15w9o65k1x1_bias_residual_relu", "n2c5h9w7o6k1x1s2x3{|_dx}",
    "n2c3h4w5o4k1x1p1x2_bias{|_dx}", "n2c6h9w8o10k1x1g2{|_dx|_dw}",

    /* Tails around the multiples of 8, 16, 32 and 64, and several tiles of each extent. */
    "n1c7h9w9o9k3x3p1x1", "n1c15h8w17o17k3x3p1x1_bias", "n1c31h7w9o33k3x3p1x1{|_dx}",
    "n1c63h5w7o65k3x3p1x1_bias_relu{|_dw}", "n1c64h6w8o64k3x3p1x1", "n2c16h33w31o31k3x3p1x1",
    "n1c130h5w6o131k2x2{|_dx|_dw}", "n3c8h19w21o24k3x3s2x2p1x1", "n1c3h6w301o5k3x3p1x1{|_dw}", "n1c300h5w7o270k1x1",
    "n2c288h7w9o70k3x3p1x1g2_bias_residual_sigmoid{|_dx}", "n1c600h9w11o20k3x3s2x2p1x1_bias_reflect",
    "n1c40h24w24o48k5x7", "n1c16h56w58o33k3x3p1x1", "n1c160h130w144o160k3x3p1x1g160_relu",

    /* Bias, residual, activations; f64; long sums. */
    "n2c3h7w6o5k3x3p1x1_bias_residual_relu", "n2c3h7w6o5k3x3p1x1_bias_sigmoid", "n2c3h7w6o5k3x3p1x1_residual_tanh",
    "n2c4h9w7o6k3x2s2x1p1x2x0x1d1x2g2_f64_bias_residual_relu{|_dx|_dw}", "n1c9h10w17o17k3x3p1x1_f64",
    "n1c9h10w17o17k1x1_f64_bias{|_dw}", "n2c5h9w37o5k3x3p1x1g5_f64{|_dx}", "n1c500h5w8o3k5x8",
    "n1c3h31w30o16k7x7s2x2p3x3{|_dw}",

    /* Pooling. */
    "max_pool2d:n2c3h9w8k2x2", "max_pool2d:n1c4h13w11k3x3s2x2p1x1_ceil_indices", "max_pool2d:n2c2h12w35k3x2s1x3p1x0d2x3",
    "max_pool2d:n3c5h8w8k3x3s1x1p1x1", "max_pool2d:n2c3h13w13k3x3s2x2p1x1", "avg_pool2d:n2c3h5w130k3x3s1x1",
    "avg_pool2d:n2c3h7w7k3x3s1x1p1x1_exclude", "adaptive_avg_pool2d:n2c3h7w6o7x6",
    "avg_pool2d:n1c3h11w9k4x3s3x2p2x1_ceil_exclude",
    "max_pool2d:n2c3h9w10k3x2s2x1p2x0x1x1_indices", "avg_pool2d:n2c3h9w10k3x2s2x1p0x1x2x0",
    "avg_pool2d:n1c2h9w37k3x3s1x1p1x1_divisor5", "avg_pool2d:n1c2h9w9k3x2_f64", "adaptive_avg_pool2d:n2c3h9w11o4x3",
    "adaptive_max_pool2d:n2c3h9w11o4x3",

    /* Matrix products. */
    "matmul:m5n6k7", "matmul:b3m9n17k33_ta", "matmul:m33n31k65_tb_bias_relu", "matmul:b2m17n9k8_ta_tb_residual",
    "matmul:m1n130k257_bias", "matmul:m131n1k129_f64", "matmul:m3n5k1", "matmul:m1n1k5000",
    "matmul:m130n260k70_ta_bias_relu", "matmul:b2m33n70k1100_tb_onea_gaps_residual",

    /* Batch normalisation, reductions, softmax. */
    "batch_norm2d:n3c5h7w9_relu", "batch_norm2d:n4c6h9w7_train", "batch_norm2d:n2c3h33w35_train_f64",
    "batch_norm2d:n4c6h8w8_train_residual_relu",
    "group_norm:n3c6l35g2", "group_norm:n9c192l1g1_relu", "group_norm:n2c4l300g4_plain_f64",
    "sum:7x9x33@1", "sum:70001", "sum:5x6x7@0,2_i32", "mean:33x129@0_f64", "mean:4x5x6x7@1,3", "max:9x130@1",
    "argmax:6x5x17@0,2", "argmax:300x9@0_i64", "min:9x130@1_f64", "argmin:6x5x17@0,2", "var:7x9x33@1",
    "var:4x5x6x7@1,3_population", "var:129x33@0_f64", "var:1000x3@0_f64_large", "logsumexp:33x129@1", "logsumexp:33x129@0_f64", "softmax:9x33@1", "softmax:7x129x5@1", "log_softmax:5x1000@1_f64",
    "cross_entropy:33x10", "cross_entropy:2x9x33_none_smooth", "cross_entropy:300x17_sum_ignore_f64",
    "nll_loss:33x10_weighted_mean", "nll_loss:2x9x33_ignore_f64",

    /* Elementwise ops of one operand and their gradients, optimizer steps. */
    "{relu|sigmoid|tanh|relu6|hardsigmoid|hardswish|silu|gelu|leaky_relu|gelu_tanh|mish|elu|hardtanh|softplus|neg|exp|log|sqrt|rsqrt|abs|floor|sign}:9x300{_f64|_dx}",
    "rmsprop:1100_{centered|centered_f64|momentum_decay}", "adam:600{|_decay_decoupled_f64}", "sgd:300_momentum{_nesterov|_first_decay}",

    /* Two operands, choices, running sums and products. */
    "{add|sub|mul|div|pow|maximum|minimum|equal|not_equal|less|less_equal|greater|greater_equal}:{9x33,33|5x7x9,7x1_f64}",
    "{add|sub|mul|maximum|less|neg}:300_{i32|u8}", "{add|pow|equal}:300_scalar", "mul:5x70_reversed_i64",
    "where:{300|5x70,70,5x1|70,5x1,5x70_u8}", "cumsum:{5x70@1|70x5@0_f64|5x7x9@1_reversed}{|_dx}",
    "cumprod:{5x70@1|70x5@0_f64|5x7x9@1}{|_dx}", "cumprod:5x7x9@1_reversed",

    /* Padding, upsampling, picking by indices. */
    "pad:2x3x5x7p1x2x0x3_value", "pad:3x5x7p2x1x1x0c0x0x0x2_reflect", "pad:3x5x17p3x0x0x2_replicate_f64", "pad:3x5x7p7x2x1x5_circular_u8",
    "upsample2d:n2c3h5w7o10x14", "upsample2d:n1c2h5w7o3x16_i64", "upsample2d:n2c3h5w7o10x14_bilinear", "upsample2d:n2c3h5w7o11x4_aligned",
    "upsample2d:n1c2h7w6f7x3_bilinear_f64", "gather:5x7x3@1i4x9x3", "gather:70x33@0i130x17_f64", "index_select:5x70x9@1i33_reversed",
    "index_select:9x5@0i40_i32", "{pad:3x5x7p1x2x0x3c0x0x1x0|pad:3x5x7p2x1x4x1_reflect|pad:3x5x17p3x0x0x2_replicate_f64|pad:3x5x7p7x2x1x5_circular}_dx",
    "upsample2d:n2c3h5w7o{10x14|3x16}{|_bilinear|_aligned}_dx", "{gather:5x7x3@1i4x9x3|gather:70x33@0i130x17_f64|index_select:5x70x9@1i33|index_select:9x5@0i40}_dx",

    /* Input gradients of pooling, batch normalisation and losses. */
    "max_pool2d:n2c3h9w8k2x2_dx", "max_pool2d:n1c4h13w11k3x3s2x2p1x1_ceil_dx", "max_pool2d:n2c2h12w35k3x2s1x3p1x0d2x3_dx_f64",
    "avg_pool2d:n1c3h11w9k4x3s3x2p2x1_ceil_exclude_dx", "avg_pool2d:n2c3h9w10k3x2s2x1p0x1x2x0_dx",
    "avg_pool2d:n1c2h9w37k3x3s1x1p1x1_divisor5_dx_f64", "adaptive_avg_pool2d:n2c3h9w11o4x3_dx",
    "adaptive_avg_pool2d:n2c3h7w6o10x4_dx", "batch_norm2d:n3c5h7w9_dx", "batch_norm2d:n4c6h9w7_train_dx",
    "batch_norm2d:n4c6h9w7_train_given_dx", "batch_norm2d:n4c6h8w8_train_given_relu_residual_dx",
    "group_norm:n3c6l35g2_dx", "group_norm:n9c192l1g1_dx", "group_norm:n2c4l300g4_plain_dx_f64",
    "batch_norm2d:n2c3h33w35_train_plain_dx_f64", "batch_norm2d:n4c6h8w8_train_relu_residual_dx", "batch_norm2d:n3c5h7w9_tanh_dx",
    "cross_entropy:33x10_weighted_dx", "cross_entropy:2x9x33_none_smooth_dx",
    "cross_entropy:300x17_sum_smooth_ignore_weighted_dx_f64", "nll_loss:33x10_weighted_dx", "nll_loss:2x9x33_ignore_dx_f64",
    NULL,
};
// clang-format on

/* The choices of a list that begins at a brace. */
static int64_t choices_of(const char *list)
{
    int64_t count = 1;
    for (; *list != '}'; list++)
        count += *list == '|';
    return count;
}

/* How many problems a text of a set stands for. */
static int64_t problems_of(const char *text)
{
    int64_t count = 1;
    for (const char *list = strchr(text, '{'); list != NULL; list = strchr(list + 1, '{'))
        count *= choices_of(list);
    return count;
}

/* Writes the problem of that number, 0 .. problems_of - 1. */
static void choose(const char *text, int64_t number, char problem[TALC_CHECK_TEXT])
{
    problem[0] = '\0';
    for (const char *list; (list = strchr(text, '{')) != NULL; text = strchr(list, '}') + 1) {
        const int64_t count = choices_of(list);
        talc_check_append(problem, "%.*s", (int)(list - text), text);
        for (int64_t i = number % count; i > 0; i--)
            list = strchr(list, '|') + 1;
        list += *list == '{';
        talc_check_append(problem, "%.*s", (int)strcspn(list, "|}"), list);
        number /= count;
    }
    talc_check_append(problem, "%s", text);
}

/* The text in full, as its family prints it. */
static const char *in_full(const char *problem, char text[TALC_CHECK_TEXT])
{
    check_problem read;
    const check_direction *direction = talc_check_parse(problem, &read);
    return direction == NULL ? NULL : talc_check_write(direction, &read, text);
}

const char *talc_check_problem_text(const char *problem, char text[TALC_CHECK_TEXT])
{
    if (talc_operand_missing("check", "problem", problem) ||
        talc_operand_missing("check", "text", text))
        return NULL;
    return in_full(problem, text);
}

/* Of every sixteen ten are convolutions, the directions of other families take turns. */
static const check_direction *direction_of(int64_t index)
{
    int others = 0;
    for (const check_direction *const *f = talc_check_directions; *f != NULL; f++)
        others += *f != &talc_check_conv2d;
    if (index % 16 < 10 || others == 0)
        return &talc_check_conv2d;
    int64_t turn = (index / 16 * 6 + index % 16 - 10) % others;
    for (const check_direction *const *f = talc_check_directions;; f++)
        if (*f != &talc_check_conv2d && turn-- == 0)
            return *f;
}

static const char *random_problem(int64_t index, uint64_t seed, char text[TALC_CHECK_TEXT])
{
    const check_direction *direction = direction_of(index);
    check_problem problem;
    talc_check_random(direction, talc_check_bits(seed, (uint64_t)index), &problem);
    return talc_check_write(direction, &problem, text);
}

/* The lists of a set, one after the other; NULL at the end, and at once for a set without lists. */
static const char *const *const *lists_of(const char *set)
{
    static const char *const *const quick[] = { talc_check_quick, NULL };
    static const char *const *const edges[] = { talc_check_edges, talc_check_edges_gradients,
                                                NULL };
    static const char *const *const models[] = { talc_check_models, NULL };
    static const char *const *const none[] = { NULL };
    return strcmp(set, "quick") == 0    ? quick
           : strcmp(set, "edges") == 0  ? edges
           : strcmp(set, "models") == 0 ? models
                                        : none;
}

const char *talc_check_set_problem(const char *set, int64_t index, uint64_t seed,
                                   char text[TALC_CHECK_TEXT])
{
    TALC_DEFAULT_FENV;
    if (talc_operand_missing("check", "set", set) || talc_operand_missing("check", "text", text))
        return NULL;
    const bool random = strcmp(set, "random") == 0;
    const char *const *const *lists = lists_of(set);
    if (!random && *lists == NULL) {
        talc_fail(TALC_NOT_FOUND,
                  "check: there is no set '%s'; the sets are quick, edges, models, random",
                  TALC_SHOWN(set));
        return NULL;
    }
    if (index < 0)
        return NULL;
    if (random)
        return random_problem(index, seed, text);
    for (; *lists != NULL; lists++)
        for (const char *const *problems = *lists; *problems != NULL; problems++) {
            if (index < problems_of(*problems)) {
                char problem[TALC_CHECK_TEXT];
                choose(*problems, index, problem);
                return in_full(problem, text);
            }
            index -= problems_of(*problems);
        }
    return NULL;
}
