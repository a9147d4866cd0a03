/// Problem strings: what they mean, that reading and writing are inverse, and the position in every
/// message.
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(conv2d_text, every_field_is_read_into_its_place)
{
    const talc_conv2d_problem p =
        conv2d_parse("n2c4h31w37o6k3x5s7x8p9x10x11x12d2x3g2_f64_bias_residual_tanh_replicate");
    cr_assert(p.direction == TALC_FORWARD && p.dtype == TALC_F64);
    cr_assert(p.N == 2 && p.C == 4 && p.H == 31 && p.W == 37);
    cr_assert(p.OC == 6 && p.KH == 3 && p.KW == 5);
    cr_assert(p.stride_h == 7 && p.stride_w == 8);
    cr_assert(p.pad_top == 9 && p.pad_left == 10 && p.pad_bottom == 11 && p.pad_right == 12);
    cr_assert(p.dilation_h == 2 && p.dilation_w == 3 && p.groups == 2);
    cr_assert(p.bias && p.residual);
    cr_assert(p.activation == TALC_ACTIVATION_TANH && p.padding_mode == TALC_PADDING_REPLICATE);
    cr_assert(p.OH == (31 + 9 + 11 - 5) / 7 + 1 && p.OW == (37 + 10 + 12 - 13) / 8 + 1);
}

Test(conv2d_text, what_is_left_out_has_its_default)
{
    const talc_conv2d_problem p = conv2d_parse("n1c2h3w4o5k1x2");
    cr_assert(p.dtype == TALC_F32 && !p.bias && !p.residual);
    cr_assert(p.stride_h == 1 && p.stride_w == 1 && p.dilation_h == 1 && p.dilation_w == 1 &&
              p.groups == 1);
    cr_assert(p.pad_top == 0 && p.pad_left == 0 && p.pad_bottom == 0 && p.pad_right == 0);
    cr_assert(p.activation == TALC_ACTIVATION_NONE && p.padding_mode == TALC_PADDING_ZEROS);
    cr_assert(p.OH == 3 && p.OW == 3);
}

Test(conv2d_text, writing_gives_the_canonical_text)
{
    static const char *const pairs[][2] = {
        { "n8c64h512w256o128k5x7", "n8c64h512w256o128k5x7s1x1p0x0d1x1g1" },
        { "n1c2h9w9o2k3x3p1x2", "n1c2h9w9o2k3x3s1x1p1x2d1x1g1" },
        { "n1c2h9w9o2k3x3p1x2x1x2", "n1c2h9w9o2k3x3s1x1p1x2d1x1g1" },
        { "n1c2h9w9o2k3x3p1x2x1x0g2", "n1c2h9w9o2k3x3s1x1p1x2x1x0d1x1g2" },
        { "n1c2h9w9o2k3x3d2x1_zeros_f32", "n1c2h9w9o2k3x3s1x1p0x0d2x1g1" },
        { "n1c2h9w9o2k3x3_reflect_sigmoid_residual_bias_f64",
          "n1c2h9w9o2k3x3s1x1p0x0d1x1g1_f64_bias_residual_sigmoid_reflect" },
        { "n0c2h9w9o2k3x3s3x2_relu_circular", "n0c2h9w9o2k3x3s3x2p0x0d1x1g1_relu_circular" },
        { "n1c2h9w9o2k3x3_leaky_relu_circular",
          "n1c2h9w9o2k3x3s1x1p0x0d1x1g1_leaky_relu_circular" },
    };
    char text[TALC_CONV2D_TEXT];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const talc_conv2d_problem p = conv2d_parse(pairs[i][0]);
        cr_expect(strcmp(talc_conv2d_problem_text(&p, text), pairs[i][1]) == 0,
                  "%s gives %s instead of %s", pairs[i][0], text, pairs[i][1]);
    }
}

Test(conv2d_text, reading_what_was_written_changes_nothing)
{
    char once[TALC_CONV2D_TEXT], twice[TALC_CONV2D_TEXT];
    for (int i = 0; conv2d_case(i) != NULL; i++) {
        const talc_conv2d_problem p = conv2d_parse(conv2d_case(i));
        const talc_conv2d_problem q = conv2d_parse(talc_conv2d_problem_text(&p, once));
        cr_expect(strcmp(once, talc_conv2d_problem_text(&q, twice)) == 0, "%s: %s", conv2d_case(i),
                  twice);
        cr_expect(p.OH == q.OH && p.OW == q.OW, "%s", once);
        cr_expect(p.OH ==
                      conv2d_extent(p.H, p.KH, p.stride_h, p.dilation_h, p.pad_top, p.pad_bottom),
                  "%s", once);
        cr_expect(p.OW ==
                      conv2d_extent(p.W, p.KW, p.stride_w, p.dilation_w, p.pad_left, p.pad_right),
                  "%s", once);
    }
}

Test(conv2d_text, one_number_stands_for_both_axes)
{
    static const char *const rows[][2] = {
        { "n1c2h19w19o2k3", "n1c2h19w19o2k3x3s1x1p0x0d1x1g1" },
        { "n1c2h19w19o2k3s2p1d4", "n1c2h19w19o2k3x3s2x2p1x1d4x4g1" },
        { "n1c2h19w19o2k3x5s2d1x3", "n1c2h19w19o2k3x5s2x2p0x0d1x3g1" },
        { "n1c2h19w19o2k3p2g2_dw", "n1c2h19w19o2k3x3s1x1p2x2d1x1g2_dw" },
        { "n1c2h19w19o2k3p1x0x2x3", "n1c2h19w19o2k3x3s1x1p1x0x2x3d1x1g1" },
    };
    char text[TALC_CONV2D_TEXT];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const talc_conv2d_problem p = conv2d_parse(rows[i][0]);
        cr_expect(strcmp(talc_conv2d_problem_text(&p, text), rows[i][1]) == 0, "%s: %s", rows[i][0],
                  text);
    }
}

Test(conv2d_text, a_message_gives_the_position)
{
    static const char *const rows[][3] = {
        { "", "'n'", "0" },
        { "x1", "'n'", "0" },
        { "n", "a number", "1" },
        { "n-1c2h9w9o2k3x3", "a number", "1" },
        { "n1 c2h9w9o2k3x3", "'c'", "2" },
        { "n1c2h9w9o2", "'k'", "10" },
        { "n1c2h9w9o2k", "a number", "11" },
        { "n1c2h9w9o2k3x", "a number", "13" },
        { "n1c2h9w9o2k3s", "a number", "13" },
        { "n1c2h9w9o2k3x3s2x2p1y", "'_' or the end", "20" },
        { "n1c2h9w9o2k3x3p1x1x1", "'x'", "20" },
        { "n1c2h9w9o2k3x3p1x1x1x", "a number", "21" },
        { "n1c2h9w9o2k3x3d1x", "a number", "17" },
        { "n1c2h9w9o2k3x3g", "a number", "15" },
        { "n1c2h9w9o2k3x3g1,", "'_' or the end", "16" },
        { "n1c2h9w9o2k3x3g1s1x1", "'_' or the end", "16" },
        { "n1c2h9w9o2k3x3d1x1p1x1", "'_' or the end", "18" },
        { "n1c2h9w9o2k3x3_",
          "f32, f64, bias, residual, relu, sigmoid, tanh, relu6, hardsigmoid, hardswish, silu, "
          "gelu, leaky_relu, reflect, replicate, circular, dx or dw",
          "15" },
        { "n1c2h9w9o2k3x3_bias_mish",
          "f32, f64, bias, residual, relu, sigmoid, tanh, relu6, hardsigmoid, hardswish, silu, "
          "gelu, leaky_relu, reflect, replicate, circular, dx or dw",
          "20" },
        { "n1c2h9w9o2k3x3_rel",
          "f32, f64, bias, residual, relu, sigmoid, tanh, relu6, hardsigmoid, hardswish, silu, "
          "gelu, leaky_relu, reflect, replicate, circular, dx or dw",
          "15" },
        { "n1c2h9w9o2k3x3_relu_tanh", "no second activation", "20" },
        { "n1c2h9w9o2k3x3_f64_bias_f32", "no second type", "24" },
        { "n1c2h9w9o2k3x3_bias_bias", "no second bias", "20" },
        { "n1c2h9w9o2k3x3_residual_residual", "no second residual", "24" },
        { "n1c2h9w9o2k3x3_zeros_reflect", "no second padding mode", "21" },
        { "n9223372036854775808c2h9w9o2k3x3", "a number below 2^63", "19" },
        { "n99999999999999999999999c2h9w9o2k3x3", "a number below 2^63", "19" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        talc_conv2d_problem p = { .N = -77 };
        cr_assert(!talc_conv2d_problem_parse(rows[i][0], &p), "'%s' is accepted", rows[i][0]);
        assert_failure_with(TALC_BAD_ARGUMENT, "conv2d: problem '%s': expected %s at position %s",
                            rows[i][0], rows[i][1], rows[i][2]);
        cr_assert(p.N == -77, "'%s': the problem was written", rows[i][0]);
    }
}

Test(conv2d_text, a_readable_text_still_has_to_make_sense)
{
    static const struct {
        const char *text, *message;
        talc_status status;
    } rows[] = {
        { "n1c0h9w9o2k3x3", "conv2d: channels 0 must be at least 1", TALC_BAD_ARGUMENT },
        { "n1c2h9w9o2k3x3s0x1", "conv2d: stride [0,1] must be at least 1", TALC_BAD_ARGUMENT },
        { "n1c2h9w9o2k3x3d1x0", "conv2d: dilation [1,0] must be at least 1", TALC_BAD_ARGUMENT },
        { "n1c2h9w9o2k3x3g0", "conv2d: groups 0 must be at least 1", TALC_BAD_ARGUMENT },
        { "n1c2h9w9o3k3x3g2", "conv2d: groups=2 does not divide 2 channels and 3 output channels",
          TALC_BAD_SHAPE },
        { "n1c2h9w9o2k10x3",
          "conv2d: the padded input has height 9, the kernel needs 10 (extent 10, dilation 1)",
          TALC_BAD_SHAPE },
        { "n1c2h9w9o2k3x3p9x1_reflect", "conv2d: reflect padding 9 of height 9 is more than 8",
          TALC_BAD_SHAPE },
        { "n1c4294967296h4294967296w4294967296o1k1x1",
          "conv2d: shape [1,4294967296,4294967296,4294967296] of f32 needs more than "
          "9223372036854775807 bytes",
          TALC_TOO_LARGE },
        { "n1c1h1000000w1000000o1k1000000x1000000p500000x500000",
          "conv2d: 1 channels, kernel 1000000x1000000 and output 1000001x1000001 make an im2col "
          "matrix of more "
          "than 2^63 bytes",
          TALC_TOO_LARGE },
    };
    talc_conv2d_problem p;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert(!talc_conv2d_problem_parse(rows[i].text, &p), "%s is accepted", rows[i].text);
        assert_failure(rows[i].status, rows[i].message);
    }
}

/* The text of any problem fits its buffer, of the largest numbers too. */
Test(conv2d_text, the_buffer_is_never_overrun)
{
    talc_conv2d_problem p;
    int64_t *numbers = &p.N;
    memset(&p, 0, sizeof p);
    for (size_t i = 0;
         i < (offsetof(talc_conv2d_problem, padding_mode) - offsetof(talc_conv2d_problem, N)) / 8;
         i++)
        numbers[i] = INT64_MIN + (int64_t)i;
    p.bias = p.residual = true;
    struct {
        char text[TALC_CONV2D_TEXT], after[8];
    } buffer = { .after = "intact" };
    talc_conv2d_problem_text(&p, buffer.text);
    cr_assert(strlen(buffer.text) < TALC_CONV2D_TEXT && strcmp(buffer.after, "intact") == 0);
}

// ---- Cost and explanation -----------------------------------------------------------------------

Test(conv2d_text, cost_of_the_two_founding_problems)
{
    talc_conv2d_problem p = conv2d_parse("n8c64h512w256o128k5x7");
    cr_assert(p.OH == 508 && p.OW == 250);
    cr_assert(talc_conv2d_flops(&p) == 2.0 * 8 * 128 * 508 * 250 * 2240);
    cr_assert(talc_conv2d_bytes(&p) ==
              4.0 * (8.0 * 64 * 512 * 256 + 128.0 * 2240 + 8.0 * 128 * 508 * 250));
    p = conv2d_parse("n8c32h512w512o64k5x9g2_f64_bias_residual");
    cr_assert(talc_conv2d_flops(&p) == 2.0 * 8 * 64 * 508 * 504 * 720);
    cr_assert(talc_conv2d_bytes(&p) ==
              8.0 * (8.0 * 32 * 512 * 512 + 64.0 * 720 + 2 * 8.0 * 64 * 508 * 504 + 64));
}

Test(conv2d_text, an_explanation_prints_every_candidate)
{
    const talc_conv2d_problem problem = conv2d_parse("n2c4h9w8o6k3x2s2x1p1x2x0x1d1x2g2_bias_relu");
    const talc_conv2d_explanation e = conv2d_explanation(cpu_device(), &problem);
    cr_assert(strcmp(e.decision.device, "cpu") == 0 && e.decision.chosen >= 0);
    cr_assert(e.flops == talc_conv2d_flops(&problem) && e.bytes == talc_conv2d_bytes(&problem));
    cr_assert(e.decision.workspace_limit == talc_workspace_limit(cpu_device()));
    owned_char *printed = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&printed, &size);
    talc_conv2d_explanation_print(file, &e);
    fclose(file);
    char text[TALC_CONV2D_TEXT];
    cr_expect(strstr(printed, talc_conv2d_problem_text(&problem, text)) != NULL, "%s", printed);
    cr_expect(strstr(printed, "x [2,4,9,8]  w [6,2,3,2]  ->  y [2,6,4,9]") != NULL, "%s", printed);
    for (int i = 0; i < e.decision.count; i++) {
        cr_expect(strstr(printed, e.decision.candidates[i].title) != NULL, "no %s in\n%s",
                  e.decision.candidates[i].title, printed);
        cr_expect(strstr(printed, e.decision.candidates[i].reason) != NULL, "no reason of %s",
                  e.decision.candidates[i].title);
    }
}

/* A gradient with what it is made of, and how long its sums can be. */
Test(conv2d_text, an_explanation_of_a_gradient)
{
    static const struct {
        const char *text, *operands, *products;
    } cases[] = {
        { "n2c4h9w8o6k3x2s2x1p1x2x0x1d1x2g2_bias_relu_dx",
          "dy [2,6,4,9]  w [6,2,3,2]  ->  dx [2,4,9,8]", "at most 18 products per element" },
        { "n2c4h9w8o6k3x2s2x1p1x2x0x1d1x2g2_reflect_dw",
          "x [2,4,9,8]  dy [2,6,4,9]  ->  dw [6,2,3,2]", "at most 72 products per element" },
    };
    for (int i = 0; i < 2; i++) {
        const talc_conv2d_problem problem = conv2d_parse(cases[i].text);
        const talc_conv2d_explanation e = conv2d_explanation(cpu_device(), &problem);
        owned_char *printed = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&printed, &size);
        talc_conv2d_explanation_print(file, &e);
        fclose(file);
        cr_expect(strncmp(printed, e.decision.op, strlen(e.decision.op)) == 0 &&
                      strstr(printed, cases[i].text) != NULL &&
                      strstr(printed, cases[i].operands) != NULL &&
                      strstr(printed, cases[i].products) != NULL,
                  "%s", printed);
        cr_expect((strstr(printed, "padding reflect becomes part of the image") != NULL) ==
                      (i == 1),
                  "%s", printed);
        for (int algorithm = 0; algorithm < e.decision.count; algorithm++)
            cr_expect(strstr(printed, e.decision.candidates[algorithm].title) != NULL, "%s",
                      printed);
    }
}

/* A forced algorithm and a precision class change what an explanation says of the algorithms, and
 * raise nothing. */
Test(conv2d_text, an_explanation_follows_the_options)
{
    const talc_conv2d_problem problem = conv2d_parse("n2c4h9w8o6k3x2");
    const talc_conv2d_options forced = { .algorithm = "reference" },
                              unknown = { .algorithm = "none of them" };
    talc_conv2d_explanation e;
    cr_assert(talc_conv2d_explain(cpu_device(), &problem, &forced, &e));
    cr_expect(e.decision.chosen >= 0 &&
                  strcmp(e.decision.candidates[e.decision.chosen].title, "reference") == 0,
              "reference is forced, explain chooses %s",
              e.decision.chosen < 0 ? "none" : e.decision.candidates[e.decision.chosen].title);
    cr_assert(talc_conv2d_explain(cpu_device(), &problem, &unknown, &e));
    cr_expect(e.decision.chosen == -1, "an unknown algorithm is forced, explain chooses %s",
              e.decision.chosen < 0 ? "none" : e.decision.candidates[e.decision.chosen].title);
}
