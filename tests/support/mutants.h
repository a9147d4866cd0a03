/// Convolutions with one mistake each, which a cross-check has to reject.
///
/// The algorithm beneath is plain and, with MUTANT_NONE, right: a tile of 8 columns of every term
/// of the sum is gathered in the workspace and multiplied with 4 output channels at a time, so that
/// there are tails, half-filled tiles and stale workspace. Sums are rounded to the data's type
/// after every step.
#ifndef TALC_TESTS_MUTANTS_H
#define TALC_TESTS_MUTANTS_H

#include "ops/conv2d.h"

/// Each mutant: constant, name, what it does.
#define MUTANT_TABLE(X)                                                                            \
    X(MUTANT_NONE, "none", "nothing wrong")                                                        \
    /* Where it reads. */                                                                          \
    X(MUTANT_IMAGE_AXES, "image axes", "reads x as [N, C, W, H]")                                  \
    X(MUTANT_KERNEL_AXES, "kernel axes", "reads w as [OC, IC, KW, KH]")                            \
    X(MUTANT_KERNEL_CHANNELS, "kernel channels", "reads w as [IC, OC, KH, KW]")                    \
    X(MUTANT_SQUARE_KERNEL, "square kernel", "transposes a square kernel")                         \
    X(MUTANT_SQUARE_IMAGE, "square image", "transposes a square image")                            \
    X(MUTANT_KERNEL_ROTATED, "kernel turned", "true convolution: the kernel is turned")            \
    X(MUTANT_KERNEL_MIRRORED, "kernel mirrored", "the kernel's columns in reverse")                \
    X(MUTANT_STRIDES, "strides swapped", "stride_h and stride_w exchanged")                        \
    X(MUTANT_STRIDE_IGNORED, "stride ignored", "stride_w taken as 1")                              \
    X(MUTANT_PAD_TOP, "top padding", "one row of padding too few above")                           \
    X(MUTANT_PAD_LEFT, "left padding", "one column of padding too many at the left")               \
    X(MUTANT_PAD_AXES, "padding swapped", "top and left padding exchanged")                        \
    X(MUTANT_PAD_BOTTOM, "bottom padding", "windows over the bottom padding are not computed: 0")  \
    X(MUTANT_PAD_ENDS, "padding ends", "bottom and right padding used as top and left")            \
    X(MUTANT_PAD_DILATED, "padding dilated", "padding multiplied by the dilation")                 \
    X(MUTANT_REFLECT_REPLICATES, "reflect replicates", "reflection treated as replication")        \
    X(MUTANT_REFLECT_EDGE, "reflect edge", "reflection repeats the edge")                          \
    X(MUTANT_CIRCULAR, "circular", "the image again, off by one")                                  \
    X(MUTANT_REPLICATE_ZEROS, "replicate zeros", "replication treated as zeros")                   \
    X(MUTANT_ZEROS_REPLICATE, "zeros replicate", "zeros treated as replication")                   \
    X(MUTANT_DILATION_H, "dilation_h", "dilation_h taken as 1")                                    \
    X(MUTANT_DILATION_W, "dilation_w", "dilation_w taken as 1")                                    \
    X(MUTANT_DILATIONS, "dilations swapped", "dilation_h and dilation_w exchanged")                \
    X(MUTANT_GROUP_OFFSET, "group offset", "every group reads the channels of the first")          \
    X(MUTANT_WEIGHT_GROUP, "weight group", "every group uses the weights of the next")             \
    X(MUTANT_GROUP_ORDER, "group order", "channel oc is of group oc % groups")                     \
    X(MUTANT_MULTIPLIER, "multiplier", "depthwise: channel oc reads channel oc % C")               \
    X(MUTANT_BATCH_IGNORED, "batch ignored", "every image is the first")                           \
    X(MUTANT_INDEX_16, "16-bit index", "the index into x wraps at 2^16")                           \
    X(MUTANT_COLUMN_8, "8-bit column", "the column of an output wraps at 2^8")                     \
    X(MUTANT_ALIGNED_DOWN, "aligned down", "x rounded down to a multiple of 16 bytes")             \
    X(MUTANT_ALIGNED_ALIKE, "aligned alike", "w is taken to be as far off alignment as x")         \
    X(MUTANT_READS_PAST, "reads past", "adds 0 times the element after x")                         \
    X(MUTANT_READS_BEFORE, "reads before", "adds 0 times the element before x")                    \
    /* What it sums. */                                                                            \
    X(MUTANT_TAP, "tap", "the last tap of the window dropped")                                     \
    X(MUTANT_TAP_TWICE, "tap twice", "the first term counted twice")                               \
    X(MUTANT_LAST_CHANNEL, "last channel", "the last input channel of a group dropped")            \
    X(MUTANT_TERM_BLOCKS, "term blocks", "terms in blocks of 16, the part block dropped")          \
    X(MUTANT_RESTART, "restart", "the sum begins anew after 64 terms")                             \
    X(MUTANT_SPARSE, "sparse", "every 97th output loses its last term")                            \
    X(MUTANT_ZERO_TAP, "zero tap", "the kernel padded by a tap of zeros, which reads a neighbour") \
    X(MUTANT_STALE_TILE, "stale tile", "padding in the tile not cleared")                          \
    X(MUTANT_STALE_SUM, "stale sum", "sums begin with what the workspace holds")                   \
    X(MUTANT_NARROW_TILE, "narrow tile", "in a small workspace tiles are stepped as if whole")     \
    X(MUTANT_TAIL_PITCH, "tail pitch", "a half-filled tile is gathered with its own pitch")        \
    X(MUTANT_WIDE_ROW, "wide row", "a term lost when OW > 32")                                     \
    X(MUTANT_THIRD_IMAGE, "third image", "a term lost when n > 1")                                 \
    X(MUTANT_F64_ONLY, "f64 only", "a term lost for f64")                                          \
    X(MUTANT_MANY_CHANNELS, "many channels", "a term lost when OC/groups > 8")                     \
    /* How it rounds. */                                                                           \
    X(MUTANT_BFLOAT, "bfloat", "products rounded to 8 bits")                                       \
    X(MUTANT_HALF_SUM, "half sum", "sums rounded to 11 bits")                                      \
    X(MUTANT_TF32, "tf32", "operands rounded to 11 bits, declared strict")                         \
    X(MUTANT_F64_NARROW, "f64 narrow", "f64 computed in f32")                                      \
    X(MUTANT_NOT_WIDE, "not wide", "sums in the data's type, declared as f64 accumulation")        \
    X(MUTANT_CANCELLING, "cancelling", "(x + m) w - m w with m = max |x|, declared strict")        \
    X(MUTANT_SCALED, "scaled", "f32 x of a window held to 2^-39 of its largest")                   \
    X(MUTANT_ROUNDED, "rounded", "results rounded to multiples of 2^-12")                          \
    X(MUTANT_CLAMPED, "clamped", "x limited to +-65504")                                           \
    X(MUTANT_FLUSHED, "flushed", "denormal operands and results taken as 0")                       \
    X(MUTANT_NAN_ZERO, "NaN as 0", "NaN in x counts as 0")                                         \
    X(MUTANT_INFINITY, "infinity", "infinity in x counts as the largest number")                   \
    X(MUTANT_ZERO_WEIGHTS, "zero weights", "weights of 0 are skipped, over an infinity too")       \
    X(MUTANT_ZERO_IMAGE, "zero image", "elements of x that are 0 are skipped, under a NaN too")    \
    X(MUTANT_PADDING_SKIPPED, "padding skipped",                                                   \
      "weights over zeros of the padding are skipped, if infinite too")                            \
    X(MUTANT_NAN_WEIGHT, "NaN weight", "NaN in w counts as 0")                                     \
    X(MUTANT_NAN_BIAS, "NaN bias", "NaN in bias counts as 0")                                      \
    X(MUTANT_NAN_RESIDUAL, "NaN residual", "NaN in residual counts as 0")                          \
    X(MUTANT_INFINITY_BELOW, "infinity below",                                                     \
      "negative infinity in x counts as the lowest number")                                        \
    X(MUTANT_INFINITY_ADDED, "infinity added", "infinity in bias and residual counts as 0")        \
    X(MUTANT_INFINITY_WEIGHT, "infinity weight", "infinity in w counts as the largest number")     \
    X(MUTANT_RUN, "run", "every other run sums backwards")                                         \
    X(MUTANT_THREADS, "threads", "with more than 2 threads sums run backwards")                    \
    /* What it does to the sum. */                                                                 \
    X(MUTANT_BIAS_ROW, "bias by row", "bias[oh] instead of bias[oc]")                              \
    X(MUTANT_BIAS_COLUMN, "bias by column", "bias[ow] instead of bias[oc]")                        \
    X(MUTANT_BIAS_GROUP, "bias by group", "bias of the channel's place in its group")              \
    X(MUTANT_BIAS_TILE, "bias by tile", "bias of the channel's place in its tile")                 \
    X(MUTANT_BIAS_TWICE, "bias twice", "bias added twice")                                         \
    X(MUTANT_BIAS_FORGOTTEN, "no bias", "bias forgotten")                                          \
    X(MUTANT_RESIDUAL_FORGOTTEN, "no residual", "residual forgotten")                              \
    X(MUTANT_RESIDUAL_IMAGE, "residual image", "every image gets the first image's residual")      \
    X(MUTANT_RESIDUAL_LATE, "residual late", "residual added after the activation")                \
    X(MUTANT_BIAS_LATE, "bias late", "bias added after the activation")                            \
    X(MUTANT_RELU_FORGOTTEN, "no relu", "relu forgotten")                                          \
    X(MUTANT_RELU_SIX, "relu6", "relu limited to 6")                                               \
    X(MUTANT_RELU_ALWAYS, "relu always", "relu unasked")                                           \
    X(MUTANT_RELU_NAN, "relu of NaN", "relu gives 0 for NaN")                                      \
    X(MUTANT_SIGMOID, "sigmoid", "sigmoid by 0.5 + 0.5 x / (1 + |x|)")                             \
    X(MUTANT_TANH, "tanh", "tanh by a rational function, off by 3e-5")                             \
    /* What it writes. */                                                                          \
    X(MUTANT_TAIL_COLUMNS, "tail columns", "the last, part tile of columns is not written")        \
    X(MUTANT_TAIL_CHANNELS, "tail channels", "the last, part tile of channels is not written")     \
    X(MUTANT_TAIL_WHOLE, "tail whole", "a half-filled tile is stored whole")                       \
    X(MUTANT_LAST_ROW, "last row", "the last row is not written")                                  \
    X(MUTANT_LAST_IMAGE, "last image", "the last of several images is not written")                \
    X(MUTANT_UNWRITTEN, "unwritten", "one element is not written")                                 \
    X(MUTANT_ACCUMULATES, "accumulates", "adds to what y holds")                                   \
    X(MUTANT_ACCUMULATES_FINITE, "accumulates finite", "adds to what y holds, unless it is NaN")   \
    X(MUTANT_STALE_FINITE, "stale finite",                                                         \
      "sums begin with what the workspace holds, unless it is NaN")                                \
    X(MUTANT_ALL_ZEROS, "all zeros", "writes zeros")                                               \
    X(MUTANT_CONSTANT, "constant", "writes its first result everywhere")                           \
    X(MUTANT_TRANSPOSED, "transposed", "writes y as [N, OC, OW, OH]")                              \
    X(MUTANT_CHANNELS_LAST, "channels last", "writes y as [N, OH, OW, OC]")                        \
    X(MUTANT_WRITES_PAST, "writes past", "writes the element after y")                             \
    X(MUTANT_WRITES_BEFORE, "writes before", "writes the element before y")                        \
    X(MUTANT_WRITES_X, "writes x", "clears an element of x when it is done")                       \
    X(MUTANT_WRITES_W, "writes w", "scales a weight when it is done")                              \
    X(MUTANT_WRITES_WORKSPACE, "writes workspace", "writes past the workspace")                    \
    X(MUTANT_PAST_MISALIGNED, "past when misaligned",                                              \
      "writes the element after y when x is off alignment")                                        \
    X(MUTANT_X_MISALIGNED, "x when misaligned", "writes x when it is off alignment")               \
    X(MUTANT_RAISES_MISALIGNED, "raises when misaligned",                                          \
      "leaves a failure behind when x is off alignment")                                           \
    X(MUTANT_LEAVES_FLUSHING, "leaves flushing", "right, and leaves denormals flushed behind")     \
    X(MUTANT_FAILS, "fails", "right, and reports a failure")                                       \
    X(MUTANT_RAISES, "raises", "right, reports success, and leaves a failure behind")

#define MUTANT_CONSTANT_OF(constant, name, description) constant,
typedef enum mutant { MUTANT_TABLE(MUTANT_CONSTANT_OF) MUTANT_COUNT } mutant;
#undef MUTANT_CONSTANT_OF

const char *mutant_name(mutant which);
const char *mutant_description(mutant which);

/// The algorithm of a mutant. One at a time: a call changes what the algorithm of the call before
/// does.
const talc_algorithm *mutant_algorithm(mutant which);

/// The same, declared as of another class than STRICT.
const talc_algorithm *mutant_declared(mutant which, talc_precision precision);

/// Convolution by discrete Fourier transforms in f32, accurate in norm; declared as `precision`.
const talc_algorithm *fourier_algorithm(talc_precision precision);

/// The names of the kinds of checks whose bits are set, "exact, random", cut to `size` bytes.
void mutant_kind_names(uint64_t kinds, char *text, size_t size);

// ---- Other ops ----------------------------------------------------------------------------------

/// A wrong algorithm of another op, or of its input gradient: the CPU's reference, asked for
/// something else or with its results corrupted.
typedef struct op_mutant {
    const char *name, *description;
    const char *problem; ///< on which it is rejected
    const talc_algorithm *algorithm;
} op_mutant;

extern const op_mutant op_mutants[], gradient_mutants[];
extern const int op_mutant_count, gradient_mutant_count;

#endif
