/// Tensors: typed n-dimensional arrays on a device, with views that share storage.
///
/// Layout is row-major with the outermost dimension first, so an image batch is [N, C, H, W] and
/// printed that way. Strides count elements. A dimension may be zero; rank 0 is a scalar.
///
/// Ownership: a new tensor belongs to the innermost open scope of its thread (tensor/scope.h), so
/// expressions nest without leaking. Every function here that returns a tensor returns a new one,
/// NULL on failure.
///
///     talc_tensor *x = talc_rand(device, TALC_F32, TALC_DIMS(8, 3, 32, 32));
///     talc_tensor *rows = talc_slice(x, 2, 0, TALC_END, 2);   // every second row, in x's storage
///     talc_print(stdout, rows);
#ifndef TALC_TENSOR_TENSOR_H
#define TALC_TENSOR_TENSOR_H

#include "error.h"

TALC_BEGIN_DECLARATIONS

#define TALC_MAX_RANK 8

/// Every element type: constant, name, C type, safetensors name.
#define TALC_DTYPE_TABLE(X)                                                                        \
    X(TALC_F32, f32, float, "F32")                                                                 \
    X(TALC_F64, f64, double, "F64")                                                                \
    X(TALC_I64, i64, int64_t, "I64")                                                               \
    X(TALC_I32, i32, int32_t, "I32")                                                               \
    X(TALC_U8, u8, uint8_t, "U8")

#define TALC_DTYPE_ENUMERATOR(constant, name, type, safetensors) constant,
typedef enum talc_dtype { TALC_DTYPE_TABLE(TALC_DTYPE_ENUMERATOR) TALC_DTYPE_COUNT } talc_dtype;
#undef TALC_DTYPE_ENUMERATOR

typedef struct talc_device talc_device;
typedef struct talc_storage talc_storage;

/// A shape, or a list of axes, as one value: TALC_DIMS(8, 64, 512, 256). TALC_SCALAR is the shape
/// of rank 0.
typedef struct talc_dims {
    int rank;
    int64_t dim[TALC_MAX_RANK];
} talc_dims;

#ifdef __cplusplus
#define TALC_DIMS(...) talc_dims_list(__VA_ARGS__)
#define TALC_SCALAR    (talc_dims{ 0, { 0 } })
extern "C++" {
template <typename... Extents> constexpr talc_dims talc_dims_list(Extents... extents)
{
    return talc_dims{ static_cast<int>(sizeof...(extents)), { static_cast<int64_t>(extents)... } };
}
}
#else
#define TALC_DIMS(...)                                                                             \
    ((talc_dims){ (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } })
#define TALC_SCALAR ((talc_dims){ 0, { 0 } })
#endif

/// In an options struct, where zero means the default: asks for zero itself.
#define TALC_ZERO INT64_MIN

/// The end of a dimension, for talc_slice.
#define TALC_END  INT64_MAX

/// A tensor. The fields are for reading; only tensor/ writes them.
typedef struct talc_tensor {
    talc_dtype dtype;
    int rank;
    int64_t dims[TALC_MAX_RANK];    ///< outermost first; those past rank are 0
    int64_t strides[TALC_MAX_RANK]; ///< in elements
    talc_device *device;            ///< where data lives; borrowed
    void *data;                     ///< device address of element 0; read it through talc_data
    talc_storage *storage;          ///< counted, shared by views
    struct talc_autograd *autograd; ///< how it was made, for its gradient; NULL: it gets none
} talc_tensor;

// ---- Queries: they work while a failure stands --------------------------------------------------

TALC_API size_t talc_dtype_size(talc_dtype dtype);      ///< bytes an element; 0 for no dtype
TALC_API const char *talc_dtype_name(talc_dtype dtype); ///< "f32"; "?" for no dtype

/// The dtype of a name such as "f32"; false when there is none.
TALC_API bool talc_dtype_from_name(const char *name, talc_dtype *dtype);

TALC_API bool talc_dtype_is_float(talc_dtype dtype); ///< f32 and f64

TALC_API talc_dims talc_dims_of(const talc_tensor *tensor);  ///< rank 0 for NULL
TALC_API int64_t talc_numel(const talc_tensor *tensor);      ///< number of elements; 0 for NULL
TALC_API size_t talc_nbytes(const talc_tensor *tensor);      ///< numel times the element's size
TALC_API bool talc_is_contiguous(const talc_tensor *tensor); ///< row-major without gaps
/// Whether two tensors have the same shape; false for NULL.
TALC_API bool talc_same_dims(const talc_tensor *a, const talc_tensor *b);

/// How often the storage has been written since it was made; views share the count.
TALC_API uint64_t talc_version(const talc_tensor *tensor);

/// A shape as text, "[8,3,32,32]", into the caller's buffer of at least TALC_DIMS_TEXT bytes;
/// returns it.
#define TALC_DIMS_TEXT 176
TALC_API const char *talc_dims_text(talc_dims dims, char text[TALC_DIMS_TEXT]);

// ---- Creation -----------------------------------------------------------------------------------
// Errors: a NULL device, an unknown dtype, rank over 8, a negative dimension, a size past INT64_MAX
// bytes, no memory.

/// A tensor whose elements are undefined.
TALC_API talc_tensor *talc_empty(talc_device *device, talc_dtype dtype, talc_dims dims);

/// Every element 0, 1 or `value`. An integer type has to hold the value as it is; a floating point
/// type holds it rounded.
TALC_API talc_tensor *talc_zeros(talc_device *device, talc_dtype dtype, talc_dims dims);
TALC_API talc_tensor *talc_ones(talc_device *device, talc_dtype dtype, talc_dims dims);
TALC_API talc_tensor *talc_full(talc_device *device, talc_dtype dtype, talc_dims dims,
                                double value);

/// The same with the device, dtype and shape of another tensor.
TALC_API talc_tensor *talc_empty_like(const talc_tensor *tensor);
TALC_API talc_tensor *talc_zeros_like(const talc_tensor *tensor);

/// The numbers start, start + step, ... before end: ceil((end - start) / step) of them, each start
/// + i * step, which an integer type has to hold as they are.
TALC_API talc_tensor *talc_arange(talc_device *device, talc_dtype dtype, double start, double end,
                                  double step);

/// The n by n identity matrix.
TALC_API talc_tensor *talc_eye(talc_device *device, talc_dtype dtype, int64_t n);

/// A copy of a host array of contiguous elements.
TALC_API talc_tensor *talc_from_host(talc_device *device, talc_dtype dtype, talc_dims dims,
                                     const void *elements);

/// Called once when the last tensor on wrapped memory is gone, with the pointer and context given
/// to talc_wrap.
typedef void talc_release_function(void *data, void *context);

/// A tensor on the caller's host memory, without a copy; the device must be one whose memory the
/// host can touch. The memory must hold numel elements, aligned for the dtype, until `release`
/// (NULL: nothing to do) is called. On failure `release` is not called and the memory stays the
/// caller's.
TALC_API talc_tensor *talc_wrap(talc_device *device, talc_dtype dtype, talc_dims dims, void *data,
                                talc_release_function *release, void *context);

/// A tensor of the CPU, its elements undefined, in page-locked memory that `device` reaches itself.
/// Copies of contiguous elements of one dtype between the two, by talc_to to the device and by
/// talc_copy both ways, are only queued: the host goes on, and the memory is held until they are
/// done. So what is copied away must not be written, and what is copied here not be read, before
/// talc_device_synchronize, or talc_data of this tensor, which waits for its copies. On the CPU it
/// is an ordinary tensor.
TALC_API talc_tensor *talc_pinned(talc_device *device, talc_dtype dtype, talc_dims dims);

// ---- Back to the host ---------------------------------------------------------------------------

/// Copies all elements, contiguous, into a host array of exactly `bytes` bytes, waiting for the
/// device first.
TALC_API bool talc_to_host(const talc_tensor *tensor, void *elements, size_t bytes);

/// The only element of a tensor with one element, as a double; NAN on failure. Waits for the
/// device.
TALC_API double talc_item(const talc_tensor *tensor);

/// The same as an integer, exact for i64; 0 on failure. A float element is truncated.
TALC_API int64_t talc_item_i64(const talc_tensor *tensor);

/// A host pointer to the elements, after checking that the dtype is `dtype`, that the tensor is
/// contiguous and that the host can touch the device's memory; NULL on failure, and for an empty
/// tensor. Borrowed from the tensor. The caller may write to the elements, so a call counts as a
/// write (talc_version): who writes to a module's parameter asks for the pointer before each time,
/// since what was worked out of the elements before, such as a folded weight, is kept.
TALC_API void *talc_data(const talc_tensor *tensor, talc_dtype dtype);

/// The same for reading alone, which is no write.
TALC_API const void *talc_data_read(const talc_tensor *tensor, talc_dtype dtype);

// ---- Views: new tensors that share the storage of their argument --------------------------------
// A dimension argument may be negative: -1 is the last.

/// Another shape over the same elements; one dimension may be -1 and is worked out. Fails where
/// strides forbid it.
TALC_API talc_tensor *talc_view(const talc_tensor *tensor, talc_dims dims);

/// talc_view where strides allow it, else a contiguous copy in that shape.
TALC_API talc_tensor *talc_reshape(const talc_tensor *tensor, talc_dims dims);

/// Dimension i of the result is dimension axes[i] of the tensor; axes is a permutation of 0 ..
/// rank-1.
TALC_API talc_tensor *talc_permute(const talc_tensor *tensor, talc_dims axes);
TALC_API talc_tensor *talc_transpose(const talc_tensor *tensor, int dim_a, int dim_b);

/// Elements start, start+step, ... before end of one dimension. Negative bounds count from the end,
/// bounds past the ends are clamped, TALC_END is the end; step is at least 1.
TALC_API talc_tensor *talc_slice(const talc_tensor *tensor, int dim, int64_t start, int64_t end,
                                 int64_t step);

/// One index of one dimension, which disappears.
TALC_API talc_tensor *talc_select(const talc_tensor *tensor, int dim, int64_t index);

/// Repeats dimensions of extent 1 (and new ones at the front) without copying; -1 keeps an extent.
TALC_API talc_tensor *talc_expand(const talc_tensor *tensor, talc_dims dims);

/// Drops one dimension of extent 1 (an error when its extent is another).
TALC_API talc_tensor *talc_squeeze(const talc_tensor *tensor, int dim);

/// Inserts a dimension of extent 1 so that it stands at `dim`, 0 .. rank.
TALC_API talc_tensor *talc_unsqueeze(const talc_tensor *tensor, int dim);

/// Joins dimensions first .. last into one; a copy where strides forbid a view.
TALC_API talc_tensor *talc_flatten(const talc_tensor *tensor, int first_dim, int last_dim);

// ---- Copies and writes --------------------------------------------------------------------------
// Casting rounds to nearest for floats; to an integer type it truncates and saturates, from a wider
// integer type too; NaN gives 0.

/// A contiguous copy.
TALC_API talc_tensor *talc_clone(const talc_tensor *tensor);

/// The same elements, contiguous: shares storage where they already are, else a copy.
TALC_API talc_tensor *talc_contiguous(const talc_tensor *tensor);

/// The same values as another dtype; shares storage where it is that dtype already.
TALC_API talc_tensor *talc_cast(const talc_tensor *tensor, talc_dtype dtype);

/// The same values on another device and as another dtype; shares storage where both are so
/// already.
TALC_API talc_tensor *talc_to(const talc_tensor *tensor, talc_device *device, talc_dtype dtype);

/// dst[...] = src[...], casting; shapes must be equal, devices and strides may differ, overlap is
/// allowed. No gradient goes through it (tensor/autograd.h): a src that asks for one is an error
/// while the thread records.
TALC_API bool talc_copy(talc_tensor *dst, const talc_tensor *src);

/// Writes one value everywhere, under the same condition as talc_full.
TALC_API bool talc_fill(talc_tensor *tensor, double value);

TALC_END_DECLARATIONS

#endif
