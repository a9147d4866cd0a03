/// What a caller asked for, where it is composed of other ops. Private to talc.
///
///     const char *around = talc_within("huber_loss");
///     ...                      // a failure: "huber_loss: abs: out of memory on cuda:0: ..."
///     talc_within(around);
#ifndef TALC_TENSOR_WITHIN_H
#define TALC_TENSOR_WITHIN_H

/// From here on this thread's failures begin with `who`, which lasts as long as the program, unless
/// a name stands already: the outermost is what the caller knows. Returns what stood, to be given
/// back at the end; NULL where nothing did, which ends it.
const char *talc_within(const char *who);

/// Begins the message of this thread's failure with where it happened, "17.0: conv2d: ...". The
/// first call since it was raised counts, as the innermost place says the most; "" says nothing.
void talc_fail_at(const char *where);

#endif
