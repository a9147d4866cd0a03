/// Every mistake a caller can make with tensors, devices and settings: the answer, word for word.
#include "tests/support/fake_device.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"
#include "tests/support/refused.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const talc_dims rank9 = { .rank = 9 };
static const talc_dims rank_negative = { .rank = -1 };
static const talc_dtype no_dtype = (talc_dtype)99;
static const int64_t HUGE = INT64_MAX;

/* Operands of all tables: f32 and i64 on the CPU, f32 on the fake device, and an expanded view. */
static talc_tensor *x, *wide, *integers, *doubles, *far, *stretched, *empty;

static void make_operands(void)
{
    x = op_numbers(cpu_device(), TALC_DIMS(2, 3), 1);
    wide = op_numbers(cpu_device(), TALC_DIMS(2, 4), 2);
    integers = talc_arange(cpu_device(), TALC_I64, 0, 6, 1);
    doubles = talc_cast(x, TALC_F64);
    far = op_numbers(fake_device(), TALC_DIMS(2, 3), 3);
    stretched = talc_expand(talc_slice(x, 0, 0, 1, 1), TALC_DIMS(5, 3));
    empty = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(0, 3));
    assert_no_failure();
    talc_tensor *const operands[] = { x, wide, integers, doubles, far, stretched, empty };
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        refused_watch(operands[i]);
}

// clang-format off

Test(bad_input, creation)
{
    make_operands();
    talc_device *cpu = cpu_device();
    float host[4] = { 0 };

    REFUSED(TALC_NULL_ARGUMENT, "empty: device is NULL", talc_empty(NULL, TALC_F32, TALC_DIMS(2)));
    REFUSED(TALC_NULL_ARGUMENT, "zeros: device is NULL", talc_zeros(NULL, TALC_F32, TALC_DIMS(2)));
    REFUSED(TALC_NULL_ARGUMENT, "ones: device is NULL", talc_ones(NULL, TALC_F32, TALC_DIMS(2)));
    REFUSED(TALC_NULL_ARGUMENT, "full: device is NULL", talc_full(NULL, TALC_F32, TALC_DIMS(2), 1));
    REFUSED(TALC_NULL_ARGUMENT, "arange: device is NULL", talc_arange(NULL, TALC_F32, 0, 1, 1));
    REFUSED(TALC_NULL_ARGUMENT, "eye: device is NULL", talc_eye(NULL, TALC_F32, 2));
    REFUSED(TALC_NULL_ARGUMENT, "from_host: device is NULL", talc_from_host(NULL, TALC_F32, TALC_DIMS(4), host));
    REFUSED(TALC_NULL_ARGUMENT, "from_host: elements is NULL", talc_from_host(cpu, TALC_F32, TALC_DIMS(4), NULL));
    REFUSED(TALC_NULL_ARGUMENT, "wrap: device is NULL", talc_wrap(NULL, TALC_F32, TALC_DIMS(4), host, NULL, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "wrap: data is NULL", talc_wrap(cpu, TALC_F32, TALC_DIMS(4), NULL, NULL, NULL));
    REFUSED(TALC_BAD_DTYPE, "empty: unknown dtype 99", talc_empty(cpu, no_dtype, TALC_DIMS(2)));
    REFUSED(TALC_BAD_DTYPE, "zeros: unknown dtype -1", talc_zeros(cpu, (talc_dtype)-1, TALC_DIMS(2)));
    REFUSED(TALC_BAD_DTYPE, "from_host: unknown dtype 5", talc_from_host(cpu, TALC_DTYPE_COUNT, TALC_DIMS(2), host));
    REFUSED(TALC_BAD_DTYPE, "arange: unknown dtype 99", talc_arange(cpu, no_dtype, 0, 3, 1));
    REFUSED(TALC_BAD_DTYPE, "ones: unknown dtype 99", talc_ones(cpu, no_dtype, TALC_DIMS(1)));
    REFUSED(TALC_BAD_SHAPE, "empty: rank 9 is outside 0..8", talc_empty(cpu, TALC_F32, rank9));
    REFUSED(TALC_BAD_SHAPE, "full: rank 9 is outside 0..8", talc_full(cpu, TALC_F32, rank9, 1));
    REFUSED(TALC_BAD_SHAPE, "zeros: shape [2,-3,0] has the negative dimension -3", talc_zeros(cpu, TALC_F32, TALC_DIMS(2, -3, 0)));
    REFUSED(TALC_BAD_SHAPE, "wrap: shape [-1] has the negative dimension -1", talc_wrap(cpu, TALC_F32, TALC_DIMS(-1), host, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "zeros: rank -1 is outside 0..8", talc_zeros(cpu, TALC_F32, rank_negative));
    REFUSED(TALC_BAD_SHAPE, "empty: shape [2,-3] has the negative dimension -3", talc_empty(cpu, TALC_F32, TALC_DIMS(2, -3)));
    REFUSED(TALC_BAD_SHAPE, "eye: shape [-2,-2] has the negative dimension -2", talc_eye(cpu, TALC_F32, -2));
    REFUSED(TALC_TOO_LARGE, "empty: shape [4294967296,4294967296] of f32 needs more than 9223372036854775807 bytes",
            talc_empty(cpu, TALC_F32, TALC_DIMS((int64_t)1 << 32, (int64_t)1 << 32)));
    REFUSED(TALC_TOO_LARGE, "empty: shape [9223372036854775807] of f32 needs more than 9223372036854775807 bytes",
            talc_empty(cpu, TALC_F32, TALC_DIMS(HUGE)));
    REFUSED(TALC_TOO_LARGE, "empty: shape [0,9223372036854775807,2] of u8 needs more than 9223372036854775807 bytes",
            talc_empty(cpu, TALC_U8, TALC_DIMS(0, HUGE, 2)));
    REFUSED(TALC_TOO_LARGE, "eye: shape [9223372036854775807,9223372036854775807] of u8 needs more than 9223372036854775807 bytes",
            talc_eye(cpu, TALC_U8, HUGE));
    REFUSED(TALC_TOO_LARGE, "empty: shape [2147483648,2147483648,4] of u8 needs more than 9223372036854775807 bytes",
            talc_empty(cpu, TALC_U8, TALC_DIMS((int64_t)1 << 31, (int64_t)1 << 31, 4)));
    REFUSED(TALC_TOO_LARGE, "empty: shape [2147483648,0,2147483648,4] of u8 needs more than 9223372036854775807 bytes",
            talc_empty(cpu, TALC_U8, TALC_DIMS((int64_t)1 << 31, 0, (int64_t)1 << 31, 4)));
    /* The size of so many f64 wraps around to 4096 bytes. */
    REFUSED(TALC_TOO_LARGE, "arange: shape [2305843009213694464] of f64 needs more than 9223372036854775807 bytes",
            talc_arange(cpu, TALC_U8, 0, 0x1p61 + 512, 1));
    REFUSED(TALC_TOO_LARGE, "arange: shape [2305843009213693952] of f64 needs more than 9223372036854775807 bytes",
            talc_arange(cpu, TALC_U8, 0, 2305843009213693952.0, 1));
    REFUSED(TALC_NO_MEMORY, "arange: out of host memory: asked 9007199254740992 bytes", talc_arange(cpu, TALC_U8, 0, 1125899906842624.0, 1));
    REFUSED_LIKE(TALC_NO_MEMORY, "zeros: out of memory on cpu: asked 8.0 EiB (9223372036854775807 bytes), held ",
                 talc_zeros(cpu, TALC_U8, TALC_DIMS(HUGE)));
    REFUSED_LIKE(TALC_NO_MEMORY, "empty: out of memory on fake: asked 8.0 EiB (9223372036854775807 bytes), held ",
                 talc_empty(fake_device(), TALC_U8, TALC_DIMS(HUGE)));
    REFUSED(TALC_BAD_ARGUMENT, "arange: from 0 to 1 in steps of 0 is no finite sequence", talc_arange(cpu, TALC_F32, 0, 1, 0));
    REFUSED(TALC_BAD_ARGUMENT, "arange: from 0 to inf in steps of 1 is no finite sequence", talc_arange(cpu, TALC_F32, 0, INFINITY, 1));
    REFUSED(TALC_BAD_ARGUMENT, "arange: from nan to 1 in steps of 1 is no finite sequence", talc_arange(cpu, TALC_F32, NAN, 1, 1));
    REFUSED(TALC_BAD_ARGUMENT, "arange: from 0 to 1 in steps of nan is no finite sequence", talc_arange(cpu, TALC_F32, 0, 1, NAN));
    REFUSED(TALC_BAD_ARGUMENT, "arange: from -1e+308 to 1e+308 in steps of 1e-300 is no finite sequence",
            talc_arange(cpu, TALC_F32, -1e308, 1e308, 1e-300));
    REFUSED(TALC_BAD_ARGUMENT, "arange: from 0 to 1e-300 in steps of 9.99989e-321 is no finite sequence", talc_arange(cpu, TALC_F32, 0, 1e-300, 1e-320));
    REFUSED_LIKE(TALC_BAD_ARGUMENT, "wrap: address 0x", talc_wrap(cpu, TALC_F32, TALC_DIMS(1), (char *)host + 1, NULL, NULL));
    REFUSED(TALC_BAD_DEVICE, "wrap: fake cannot use host memory in place", talc_wrap(fake_device(), TALC_F32, TALC_DIMS(1), host, NULL, NULL));
    talc_tensor *scalar = talc_empty(cpu, TALC_F32, TALC_SCALAR);
    HARMLESS(talc_numel(scalar) == 1);
    HARMLESS(talc_numel(talc_from_host(cpu, TALC_F32, TALC_DIMS(0), NULL)) == 0);
    HARMLESS(talc_numel(talc_wrap(cpu, TALC_F32, TALC_DIMS(0), NULL, NULL, NULL)) == 0);
    HARMLESS(talc_numel(talc_arange(cpu, TALC_F32, 3, 1, 1)) == 0);
    HARMLESS(talc_numel(talc_eye(cpu, TALC_F32, 0)) == 0);
    refused_end(41);
}

Test(bad_input, random)
{
    make_operands();
    talc_device *cpu = cpu_device();
    talc_generator before = talc_generator_get();

    REFUSED(TALC_NULL_ARGUMENT, "rand: device is NULL", talc_rand(NULL, TALC_F32, TALC_DIMS(2)));
    REFUSED(TALC_NULL_ARGUMENT, "randn: device is NULL", talc_randn(NULL, TALC_F32, TALC_DIMS(2)));
    REFUSED(TALC_NULL_ARGUMENT, "randint: device is NULL", talc_randint(NULL, TALC_I64, TALC_DIMS(2), 0, 2));
    REFUSED(TALC_NULL_ARGUMENT, "fill_uniform: tensor is NULL", talc_fill_uniform(NULL, 0, 1));
    REFUSED(TALC_NULL_ARGUMENT, "fill_normal: tensor is NULL", talc_fill_normal(NULL, 0, 1));
    REFUSED(TALC_BAD_SHAPE, "rand: shape [-1] has the negative dimension -1", talc_rand(cpu, TALC_F32, TALC_DIMS(-1)));
    REFUSED(TALC_BAD_DTYPE, "rand: dtype i32, random real numbers are f32 or f64", talc_rand(cpu, TALC_I32, TALC_DIMS(2)));
    REFUSED(TALC_BAD_DTYPE, "randint: dtype f32, random integers are i64, i32 or u8", talc_randint(cpu, TALC_F32, TALC_DIMS(2), 0, 2));
    REFUSED(TALC_BAD_DTYPE, "fill_normal: dtype i64, random real numbers are f32 or f64", talc_fill_normal(integers, 0, 1));
    REFUSED(TALC_BAD_ARGUMENT, "uniform: low 1 is not below high 0", talc_uniform(cpu, TALC_F32, TALC_DIMS(2), 1, 0));
    REFUSED(TALC_BAD_ARGUMENT, "uniform: low nan is not below high 1", talc_uniform(cpu, TALC_F32, TALC_DIMS(2), NAN, 1));
    REFUSED(TALC_BAD_ARGUMENT, "uniform: [0,inf) exceeds 1.70141e+38, the bound for f32", talc_uniform(cpu, TALC_F32, TALC_DIMS(2), 0, INFINITY));
    REFUSED(TALC_BAD_ARGUMENT, "uniform: [0,1e+300) exceeds 1.70141e+38, the bound for f32", talc_uniform(cpu, TALC_F32, TALC_DIMS(2), 0, 1e300));
    REFUSED(TALC_BAD_ARGUMENT, "normal: std -1 is not 0 or above", talc_normal(cpu, TALC_F32, TALC_DIMS(2), 0, -1));
    REFUSED(TALC_BAD_ARGUMENT, "normal: std nan is not 0 or above", talc_normal(cpu, TALC_F32, TALC_DIMS(2), 0, NAN));
    REFUSED(TALC_BAD_ARGUMENT, "randint: low 3 is not below high 3", talc_randint(cpu, TALC_I64, TALC_DIMS(2), 3, 3));
    REFUSED(TALC_BAD_ARGUMENT, "randint: [-1,3) exceeds u8, 0..255", talc_randint(cpu, TALC_U8, TALC_DIMS(2), -1, 3));
    REFUSED(TALC_BAD_ARGUMENT, "randint: [0,300) exceeds u8, 0..255", talc_randint(cpu, TALC_U8, TALC_DIMS(2), 0, 300));
    REFUSED(TALC_BAD_ARGUMENT, "randint: [-2147483649,0) exceeds i32, -2147483648..2147483647", talc_randint(cpu, TALC_I32, TALC_DIMS(2), -2147483649, 0));
    REFUSED(TALC_BAD_DTYPE, "randn: dtype u8, random real numbers are f32 or f64", talc_randn(cpu, TALC_U8, TALC_DIMS(2)));
    REFUSED(TALC_BAD_ARGUMENT, "fill_uniform: low 0 is not below high nan", talc_fill_uniform(x, 0, NAN));
    REFUSED(TALC_BAD_ARGUMENT, "uniform: [1.0000000000010001,1.000000000002) holds no f32 number", talc_uniform(cpu, TALC_F32, TALC_DIMS(2), 1 + 1e-12, 1 + 2e-12));
    REFUSED(TALC_BAD_ARGUMENT, "normal: mean 1e+300 with std 1 exceeds the range of f32", talc_normal(cpu, TALC_F32, TALC_DIMS(2), 1e300, 1));
    REFUSED(TALC_BAD_ARGUMENT, "normal: mean nan with std 1 exceeds the range of f64", talc_normal(cpu, TALC_F64, TALC_DIMS(2), NAN, 1));
    REFUSED(TALC_BAD_ARGUMENT, "fill_normal: dimension 0 of [5,3] is expanded, so 5 elements share one address; write to a talc_clone", talc_fill_normal(stretched, 0, 1));
    REFUSED(TALC_BAD_ARGUMENT, "fill_uniform: dimension 0 of [5,3] is expanded, so 5 elements share one address; write to a talc_clone", talc_fill_uniform(stretched, 0, 1));

    talc_generator after = talc_generator_get();
    cr_assert(before.seed == after.seed && before.call == after.call, "a refused call counted");
    refused_end(26);
}

Test(bad_input, views)
{
    make_operands();

    REFUSED(TALC_BAD_SHAPE, "view: [2,3] has 6 elements, shape [7] needs 7", talc_view(x, TALC_DIMS(7)));
    REFUSED(TALC_BAD_SHAPE, "view: [2,3] has 6 elements, shape [-1,4] needs a multiple of 4", talc_view(x, TALC_DIMS(-1, 4)));
    REFUSED(TALC_BAD_SHAPE, "view: dimension 0 of shape [-1,0] cannot be inferred: any extent gives 0 elements", talc_view(x, TALC_DIMS(-1, 0)));
    REFUSED(TALC_BAD_SHAPE, "view: dimension 0 of shape [-1,0] cannot be inferred: any extent gives 0 elements", talc_view(empty, TALC_DIMS(-1, 0)));
    REFUSED(TALC_BAD_SHAPE, "view: shape [-1,-1] has -1 for dimension 0 and for 1, where only one can be inferred", talc_view(x, TALC_DIMS(-1, -1)));
    REFUSED(TALC_BAD_SHAPE, "view: shape [-2,-3] does not fit [2,3]", talc_view(x, TALC_DIMS(-2, -3)));
    REFUSED(TALC_BAD_SHAPE, "view: shape [4294967296,4294967296] does not fit [2,3]",
            talc_view(x, TALC_DIMS((int64_t)1 << 32, (int64_t)1 << 32)));
    REFUSED(TALC_BAD_SHAPE, "view: rank 9 is outside 0..8", talc_view(x, rank9));
    REFUSED(TALC_BAD_SHAPE, "reshape: rank -1 is outside 0..8", talc_reshape(x, rank_negative));
    REFUSED(TALC_BAD_SHAPE, "reshape: [2,3] has 6 elements, shape [4] needs 4", talc_reshape(x, TALC_DIMS(4)));
    REFUSED(TALC_BAD_SHAPE, "reshape: [2,3] has 6 elements, shape [5,-1] needs a multiple of 5", talc_reshape(x, TALC_DIMS(5, -1)));
    REFUSED(TALC_TOO_LARGE, "reshape: shape [0,1099511627776,1099511627776] of f32 needs more than 9223372036854775807 bytes",
            talc_reshape(empty, TALC_DIMS(0, (int64_t)1 << 40, (int64_t)1 << 40)));
    REFUSED(TALC_BAD_SHAPE, "view: [5,3] with strides [0,1] cannot be seen as [15] without a copy (talc_reshape copies)",
            talc_view(stretched, TALC_DIMS(15)));
    REFUSED(TALC_BAD_ARGUMENT, "permute: axes [0] are not a permutation of the 2 dimensions of [2,3]", talc_permute(x, TALC_DIMS(0)));
    REFUSED(TALC_BAD_ARGUMENT, "permute: axes [0,0] are not a permutation of the 2 dimensions of [2,3]", talc_permute(x, TALC_DIMS(0, 0)));
    REFUSED(TALC_BAD_ARGUMENT, "permute: axes [0,2] are not a permutation of the 2 dimensions of [2,3]", talc_permute(x, TALC_DIMS(0, 2)));
    REFUSED(TALC_BAD_ARGUMENT, "permute: axes [0,-2] are not a permutation of the 2 dimensions of [2,3]", talc_permute(x, TALC_DIMS(0, -2)));
    REFUSED(TALC_BAD_ARGUMENT, "permute: axes [0,-9223372036854775808] are not a permutation of the 2 dimensions of [2,3]",
            talc_permute(x, TALC_DIMS(0, INT64_MIN)));
    REFUSED(TALC_BAD_ARGUMENT, "transpose: dimension 2 is outside a tensor of rank 2", talc_transpose(x, 0, 2));
    REFUSED(TALC_BAD_ARGUMENT, "transpose: dimension -3 is outside a tensor of rank 2", talc_transpose(x, -3, 0));
    REFUSED(TALC_BAD_ARGUMENT, "slice: dimension 2 is outside a tensor of rank 2", talc_slice(x, 2, 0, 1, 1));
    REFUSED(TALC_BAD_ARGUMENT, "slice: step 0 must be at least 1", talc_slice(x, 0, 0, 1, 0));
    REFUSED(TALC_BAD_ARGUMENT, "slice: step -1 must be at least 1", talc_slice(x, 0, 0, 1, -1));
    HARMLESS(talc_numel(talc_slice(x, 0, INT64_MIN, TALC_END, INT64_MAX)) == 3);
    REFUSED(TALC_BAD_SHAPE, "expand: shape [2,-7] has the negative dimension -7 (-1 keeps an extent of [2,1])", talc_expand(talc_slice(x, 1, 0, 1, 1), TALC_DIMS(2, -7)));
    REFUSED(TALC_TOO_LARGE, "view: shape [0,4611686018427387904,8] of f32 needs more than 9223372036854775807 bytes",
            talc_view(empty, TALC_DIMS(0, (int64_t)1 << 62, 8)));
    HARMLESS(talc_numel(talc_slice(x, 0, 5, 2, 1)) == 0);
    REFUSED(TALC_BAD_ARGUMENT, "select: index 2 is outside dimension 0 of extent 2", talc_select(x, 0, 2));
    REFUSED(TALC_BAD_ARGUMENT, "select: index -4 is outside dimension 1 of extent 3", talc_select(x, 1, -4));
    REFUSED(TALC_BAD_ARGUMENT, "select: index -9223372036854775808 is outside dimension 1 of extent 3", talc_select(x, 1, INT64_MIN));
    REFUSED(TALC_BAD_ARGUMENT, "select: index 0 is outside dimension 0 of extent 0", talc_select(empty, 0, 0));
    REFUSED(TALC_BAD_ARGUMENT, "select: dimension 2 is outside a tensor of rank 2", talc_select(x, 2, 0));
    REFUSED(TALC_BAD_SHAPE, "expand: [2,3] of rank 2 cannot become [3] of rank 1", talc_expand(x, TALC_DIMS(3)));
    REFUSED(TALC_BAD_SHAPE, "expand: [2,3] does not expand to [4,3]: dimension 0 has extent 2, not 1", talc_expand(x, TALC_DIMS(4, 3)));
    REFUSED(TALC_BAD_SHAPE, "expand: shape [-1,2,3] has the negative dimension -1 (-1 keeps an extent of [2,3])", talc_expand(x, TALC_DIMS(-1, 2, 3)));
    REFUSED(TALC_TOO_LARGE, "expand: shape [9223372036854775807,2,3] of f32 needs more than 9223372036854775807 bytes",
            talc_expand(x, TALC_DIMS(HUGE, 2, 3)));
    REFUSED(TALC_TOO_LARGE, "expand: shape [2147483648,2147483648,2,3] of f32 needs more than 9223372036854775807 bytes",
            talc_expand(x, TALC_DIMS((int64_t)1 << 31, (int64_t)1 << 31, 2, 3)));
    REFUSED(TALC_BAD_SHAPE, "squeeze: dimension 0 of [2,3] has extent 2, squeeze needs 1", talc_squeeze(x, 0));
    REFUSED(TALC_BAD_ARGUMENT, "squeeze: dimension 7 is outside a tensor of rank 2", talc_squeeze(x, 7));
    REFUSED(TALC_BAD_ARGUMENT, "unsqueeze: dimension 4 is outside 0..2", talc_unsqueeze(x, 4));
    REFUSED(TALC_BAD_SHAPE, "unsqueeze: the tensor has rank 8 already, the most there is",
            talc_unsqueeze(talc_view(integers, TALC_DIMS(1, 1, 1, 1, 1, 1, 1, 6)), 0));
    REFUSED(TALC_BAD_ARGUMENT, "flatten: the first dimension 1 comes after the last 0", talc_flatten(x, 1, 0));
    REFUSED(TALC_BAD_ARGUMENT, "flatten: dimension 2 is outside a tensor of rank 2", talc_flatten(x, 0, 2));
    refused_end(39);
}

Test(bad_input, copies_and_reads)
{
    make_operands();
    float host[6];

    REFUSED(TALC_NULL_ARGUMENT, "to: tensor is NULL", talc_to(NULL, cpu_device(), TALC_F32));
    REFUSED(TALC_NULL_ARGUMENT, "to: device is NULL", talc_to(x, NULL, TALC_F32));
    REFUSED(TALC_NULL_ARGUMENT, "copy: dst is NULL", talc_copy(NULL, x));
    REFUSED(TALC_NULL_ARGUMENT, "copy: src is NULL", talc_copy(x, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "fill: tensor is NULL", talc_fill(NULL, 0));
    REFUSED(TALC_NULL_ARGUMENT, "to_host: tensor is NULL", talc_to_host(NULL, host, 0));
    REFUSED(TALC_NULL_ARGUMENT, "to_host: elements is NULL", talc_to_host(x, NULL, 24));
    REFUSED(TALC_NULL_ARGUMENT, "data: tensor is NULL", talc_data(NULL, TALC_F32));
    REFUSED(TALC_NULL_ARGUMENT, "item: tensor is NULL", !isnan(talc_item(NULL)));
    REFUSED(TALC_NULL_ARGUMENT, "item: tensor is NULL", talc_item_i64(NULL));
    REFUSED(TALC_BAD_DTYPE, "cast: unknown dtype 99", talc_cast(x, no_dtype));
    REFUSED(TALC_BAD_DTYPE, "to: unknown dtype 99", talc_to(x, fake_device(), no_dtype));
    REFUSED(TALC_BAD_SHAPE, "copy: dst [2,3] and src [2,4] differ in shape", talc_copy(x, wide));
    REFUSED(TALC_BAD_SHAPE, "copy: dst [2,3] and src [6] differ in shape", talc_copy(far, integers));
    REFUSED(TALC_BAD_ARGUMENT, "copy: dimension 0 of [5,3] is expanded, so 5 elements share one address; write to a talc_clone",
            talc_copy(stretched, stretched));
    REFUSED(TALC_BAD_ARGUMENT, "fill: dimension 0 of [5,3] is expanded, so 5 elements share one address; write to a talc_clone",
            talc_fill(stretched, 1));
    REFUSED(TALC_BAD_ARGUMENT, "to_host: [2,3] of f32 has 24 bytes, the array 20", talc_to_host(x, host, 20));
    REFUSED(TALC_BAD_ARGUMENT, "to_host: [2,3] of f64 has 48 bytes, the array 24", talc_to_host(doubles, host, 24));
    REFUSED(TALC_BAD_SHAPE, "item: a tensor [2,3] has 6 elements, item needs 1", !isnan(talc_item(x)));
    REFUSED(TALC_BAD_SHAPE, "item: a tensor [0,3] has 0 elements, item needs 1", talc_item_i64(empty));
    REFUSED(TALC_BAD_DTYPE, "data: the tensor is f32, the caller asks for f64", talc_data(x, TALC_F64));
    REFUSED(TALC_BAD_DTYPE, "data: the tensor is f32, the caller asks for ?", talc_data(x, no_dtype));
    REFUSED(TALC_BAD_DEVICE, "data: the host cannot touch memory of fake; copy with talc_to_host", talc_data(far, TALC_F32));
    REFUSED(TALC_BAD_SHAPE, "data: the tensor [5,3] is not contiguous; make it so with talc_contiguous first", talc_data(stretched, TALC_F32));
    REFUSED(TALC_BAD_SHAPE, "data: the tensor [2,2] is not contiguous; make it so with talc_contiguous first", talc_data(talc_slice(x, 1, 0, 2, 1), TALC_F32));
    REFUSED(TALC_BAD_SHAPE, "data: the tensor [3,2] is not contiguous; make it so with talc_contiguous first", talc_data(talc_transpose(x, 0, 1), TALC_F32));
    HARMLESS(talc_to_host(empty, NULL, 0));
    HARMLESS(talc_data(empty, TALC_F32) == NULL);
    HARMLESS(talc_fill(empty, 1));
    refused_end(28);
}

Test(bad_input, queries_take_null_and_nonsense)
{
    make_operands();
    talc_dtype dtype = TALC_F32;
    talc_scope *left = talc_scope_enter();
    talc_scope_leave(left);

    HARMLESS(talc_dtype_size(no_dtype) == 0);
    HARMLESS(strcmp(talc_dtype_name(no_dtype), "?") == 0);
    HARMLESS(!talc_dtype_from_name(NULL, &dtype));
    HARMLESS(!talc_dtype_from_name("f16", &dtype) && dtype == TALC_F32);
    HARMLESS(!talc_dtype_from_name("f32", NULL));
    HARMLESS(!talc_dtype_is_float(no_dtype));
    HARMLESS(talc_dims_of(NULL).rank == 0);
    HARMLESS(talc_numel(NULL) == 0 && talc_nbytes(NULL) == 0 && talc_version(NULL) == 0);
    HARMLESS(!talc_is_contiguous(NULL) && !talc_same_dims(NULL, x) && !talc_same_dims(x, NULL));
    HARMLESS(strcmp(talc_dims_text(rank_negative, (char[TALC_DIMS_TEXT]){ 0 }), "[]") == 0);
    HARMLESS(strcmp(talc_dims_text(rank9, (char[TALC_DIMS_TEXT]){ 0 }), "[0,0,0,0,0,0,0,0]") == 0);
    HARMLESS(strcmp(talc_device_name(NULL), "?") == 0 && !talc_device_is_host(NULL));
    HARMLESS(talc_device_memory(NULL).live == 0 && talc_memory_trim(NULL) == 0 && talc_workspace_limit(NULL) == 0);
    HARMLESS((talc_memory_reset_peak(NULL), true));
    HARMLESS((talc_scope_leave(NULL), talc_scope_leave(left), true));
    HARMLESS(talc_scope_return(NULL, x) == x && talc_scope_return(left, x) == x);
    HARMLESS(talc_scope_return(left, NULL) == NULL && talc_retain(NULL) == NULL);
    HARMLESS((talc_release(NULL), talc_error_clear(), true));
    HARMLESS(strcmp(talc_status_text((talc_status)-1), "unknown status") == 0);
    HARMLESS(strcmp(talc_precision_name((talc_precision)3), "?") == 0);
    HARMLESS(talc_algorithm_forced(NULL) == NULL && talc_algorithm_forced("") == NULL && talc_algorithm_forced("none") == NULL);
    REFUSED(TALC_NULL_ARGUMENT, "device_synchronize: device is NULL", talc_device_synchronize(NULL));
    REFUSED(TALC_NULL_ARGUMENT, "device_open: device is NULL", talc_device_open(NULL) == TALC_OK);
    talc_device_close(NULL);
    REFUSED(TALC_NULL_ARGUMENT, "workspace_set_limit: device is NULL", talc_workspace_set_limit(NULL, 0));
    REFUSED(TALC_NULL_ARGUMENT, "algorithm_force: op is NULL", talc_algorithm_force(NULL, "direct"));
    REFUSED(TALC_BAD_ARGUMENT, "algorithm_force: names have 1 to 63 characters: '', 'direct'", talc_algorithm_force("", "direct"));
    REFUSED(TALC_BAD_ARGUMENT, "algorithm_force: names have 1 to 63 characters: 'conv2d', 'abcdefghijklmnopqrstuvwxyzabcdefabcdefghijklmnopqrstuvwxyzabcdef'",
            talc_algorithm_force("conv2d", "abcdefghijklmnopqrstuvwxyzabcdefabcdefghijklmnopqrstuvwxyzabcdef"));
    REFUSED(TALC_BAD_ARGUMENT, "precision_admit: precision 0x8 is not a combination of TALC_STRICT, TALC_NORMWISE and TALC_TF32, at most 0x7", talc_precision_admit(8));
    refused_end(28);
}

Test(bad_input, devices_and_threads)
{
    make_operands();

    REFUSED(TALC_NULL_ARGUMENT, "device_get: name is NULL", talc_device_get(NULL));
    REFUSED(TALC_BAD_DEVICE, "device_get: there is no device ''; names are cpu, cuda, cuda:N", talc_device_get(""));
    REFUSED(TALC_BAD_DEVICE, "device_get: there is no device 'gpu'; names are cpu, cuda, cuda:N", talc_device_get("gpu"));
    REFUSED(TALC_BAD_DEVICE, "device_get: there is no device 'CPU'; names are cpu, cuda, cuda:N", talc_device_get("CPU"));
    REFUSED(TALC_BAD_DEVICE, "device_get: there is no device 'cpus'; names are cpu, cuda, cuda:N", talc_device_get("cpus"));
    REFUSED(TALC_BAD_DEVICE, "device_get: there is no device 'cpu:1'; the CPU is one device, cpu", talc_device_get("cpu:1"));
    REFUSED(TALC_BAD_DEVICE, "device_get: there is no device 'cpu:'; the CPU is one device, cpu", talc_device_get("cpu:"));
    REFUSED(TALC_BAD_DEVICE, "device_get: there is no device 'a name that is longer than any device name could ever be'; names are cpu, cuda, cuda:N",
            talc_device_get("a name that is longer than any device name could ever be"));
    HARMLESS(talc_device_get("cpu:0") == cpu_device());
    REFUSED(TALC_BAD_ARGUMENT, "set_threads: 0 threads are outside 1..1024", talc_set_threads(0));
    REFUSED(TALC_BAD_ARGUMENT, "set_threads: -1 threads are outside 1..1024", talc_set_threads(-1));
    REFUSED(TALC_BAD_ARGUMENT, "set_threads: 1025 threads are outside 1..1024", talc_set_threads(1025));
    HARMLESS(talc_set_threads(1024) && talc_threads() == 1024 && talc_set_threads(1));
    if (talc_device_get("cuda") == NULL) { /* a build without CUDA, or a machine without a GPU, says which */
        cr_assert(talc_error_status() == TALC_BAD_DEVICE && strlen(talc_error_message()) > 20);
        talc_error_clear();
        REFUSED_LIKE(TALC_BAD_DEVICE, "device_get: 'cuda:9': ", talc_device_get("cuda:9"));
    }
    refused_end(12);
}

Test(bad_input, a_standing_failure_stops_everything_that_makes_or_changes)
{
    make_operands();
    float host[6] = { 0 };
    size_t live = talc_device_memory(x->device).live;
    talc_fail(TALC_IO_ERROR, "the first failure");

#define STOPPED(call) cr_assert((call) == 0, "it works while a failure stands: %s", #call)
    STOPPED(talc_empty(cpu_device(), TALC_F32, TALC_DIMS(2)));
    STOPPED(talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2)));
    STOPPED(talc_full(cpu_device(), TALC_F32, TALC_DIMS(2), 3));
    STOPPED(talc_arange(cpu_device(), TALC_F32, 0, 2, 1));
    STOPPED(talc_eye(cpu_device(), TALC_F32, 2));
    STOPPED(talc_rand(cpu_device(), TALC_F32, TALC_DIMS(2)));
    STOPPED(talc_randint(cpu_device(), TALC_I64, TALC_DIMS(2), 0, 5));
    STOPPED(talc_manual_seed(5));
    STOPPED(talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(6), host));
    STOPPED(talc_wrap(cpu_device(), TALC_F32, TALC_DIMS(6), host, NULL, NULL));
    STOPPED(talc_to_host(x, host, sizeof host));
    STOPPED(talc_data(x, TALC_F32));
    STOPPED(talc_view(x, TALC_DIMS(6)));
    STOPPED(talc_slice(x, 0, 0, 1, 1));
    STOPPED(talc_clone(x));
    STOPPED(talc_contiguous(x));
    STOPPED(talc_cast(x, TALC_F64));
    STOPPED(talc_to(x, fake_device(), TALC_F32));
    STOPPED(talc_copy(x, x));
    STOPPED(talc_fill(x, 1));
    STOPPED(talc_fill_uniform(x, 0, 1));
    STOPPED(talc_scope_enter());
    STOPPED(talc_device_get("cpu"));
    STOPPED(talc_device_synchronize(cpu_device()));
    STOPPED(talc_workspace_set_limit(cpu_device(), 1));
    STOPPED(talc_set_threads(2));
    STOPPED(talc_algorithm_force("conv2d", "reference"));
    STOPPED(talc_precision_admit(TALC_TF32));
    STOPPED(talc_npy_save("/no/such/directory/x.npy", x));
    STOPPED(talc_npy_load(cpu_device(), "/no/such/directory/x.npy"));
    talc_conv2d_problem problem = { .N = 1 };
    STOPPED(talc_conv2d_problem_of(x, x, NULL, NULL, &problem));
    STOPPED(talc_conv2d_problem_check(&problem));
    STOPPED(talc_conv2d_problem_parse("n1c1h4w4o1k3x3", &problem));
    STOPPED(talc_conv2d_explain(cpu_device(), &problem, NULL, &(talc_conv2d_explanation){ .flops = 0 }));
    for (const op_case *op = op_cases; op->name != NULL; op++) {
        const op_inputs same = { x, x, x, x, x, x, x, x, x };
        cr_assert(op->run(&same) == NULL, "%s works while a failure stands", op->name);
    }

    cr_assert(talc_item_i64(integers) == 0 && isnan(talc_item(x)) && host[0] == 0);
    cr_assert(talc_device_default() == x->device, "looking for the default device needs no clean slate");
    cr_assert(talc_device_memory(x->device).live == live);
    cr_assert(talc_threads() > 0 && talc_algorithm_forced("conv2d") == NULL);
    cr_assert(talc_precision_admitted() == TALC_STRICT);
    assert_failure(TALC_IO_ERROR, "the first failure");
    refused_end(0);
}

// clang-format on
