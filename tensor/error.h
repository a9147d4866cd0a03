/// Errors: the first failure of a thread is kept until the thread clears it.
///
/// A failure is a status and one line of text that names the operand and both conflicting numbers.
/// While it stands, every function of that thread that makes or changes anything fails at once and
/// leaves the message as it is; releases, scope leaves and queries go on working. So a program may
/// check once, at its end:
///
///     talc_tensor *y = talc_relu(talc_conv2d(x, w, NULL, NULL));
///     if (talc_failed())
///         fprintf(stderr, "%s\n", talc_error_message());
///
/// The library never prints an error, never exits and never aborts. A few warnings go to stderr,
/// once a process: a value of the environment that it does not know, a part of a dataset that lacks
/// classes.
#ifndef TALC_TENSOR_ERROR_H
#define TALC_TENSOR_ERROR_H

#include "api.h"

TALC_BEGIN_DECLARATIONS

/// Every status: name, then the text of talc_status_text.
#define TALC_STATUS_TABLE(X)                                                                       \
    X(TALC_OK, "success")                                                                          \
    X(TALC_NULL_ARGUMENT, "a required argument is NULL")                                           \
    X(TALC_BAD_ARGUMENT, "an argument is out of range")                                            \
    X(TALC_BAD_SHAPE, "tensor shapes do not fit together")                                         \
    X(TALC_BAD_DTYPE, "tensor types do not fit together")                                          \
    X(TALC_BAD_DEVICE, "no such device, or tensors on different devices")                          \
    X(TALC_TOO_LARGE, "a size does not fit its integer type")                                      \
    X(TALC_UNSUPPORTED, "no algorithm on this device can do this")                                 \
    X(TALC_NO_MEMORY, "out of host or device memory")                                              \
    X(TALC_DEVICE_LOST, "the device reported a fault and is lost")                                 \
    X(TALC_IO_ERROR, "a file could not be read or written")                                        \
    X(TALC_BAD_FORMAT, "a file's content breaks its format")                                       \
    X(TALC_NOT_FOUND, "a named thing does not exist")                                              \
    X(TALC_PEER_LOST, "another process of a group is gone or does not answer")

#define TALC_STATUS_ENUMERATOR(name, text) name,
typedef enum talc_status {
    TALC_STATUS_TABLE(TALC_STATUS_ENUMERATOR) TALC_STATUS_COUNT
} talc_status;
#undef TALC_STATUS_ENUMERATOR

/// True while this thread has a failure that it has not cleared.
TALC_API bool talc_failed(void);

/// The status of this thread's failure, TALC_OK when there is none.
TALC_API talc_status talc_error_status(void);

/// The message of this thread's failure, "" when there is none; valid until the thread clears it.
TALC_API const char *talc_error_message(void);

/// Forgets this thread's failure, so that its calls work again.
TALC_API void talc_error_clear(void);

/// Static text for a status; "unknown status" for a number that is none.
TALC_API const char *talc_status_text(talc_status status);

/// Raises a failure on this thread, unless one stands already. The one way to create a failure;
/// modules that users write call it too. Returns the status that now stands, so that `return
/// talc_fail(...)` reads well.
TALC_API talc_status talc_fail(talc_status status, const char *format, ...) TALC_PRINTF(2, 3);

/// What a noun ends in after a number, in messages: "1 byte", "2 bytes".
#define TALC_PLURAL(count) ((count) == 1 ? "" : "s")

TALC_END_DECLARATIONS

#endif
