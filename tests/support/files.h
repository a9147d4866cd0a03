/// Files of a test: in a directory of its own, which goes away with them.
#ifndef TALC_TESTS_FILES_H
#define TALC_TESTS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/// The path of `name` in this process's directory, made on the first call. Valid until the call
/// after the next seven.
const char *file_path(const char *name);

void file_write(const char *path, const void *bytes, size_t count);

/// The whole file, to be freed with free; NULL when there is none. A NUL byte follows the last.
char *file_bytes(const char *path, size_t *count);

/// Whether the file holds this text and nothing else.
bool file_is(const char *path, const char *text);

/// How many files are in the directory.
int file_count(void);

/// Whether the directory's file system has files without a name.
bool file_unnamed(void);

/// Removes the directory and the files in it.
void file_remove_all(void);

/// What was written to a temporary file, which it closes; valid until the next call.
char *file_written(FILE *file);

/// What a child process writes to stderr that calls `probe` and ends, as it must, without a
/// failure; valid until the next call.
const char *file_stderr_of(void (*probe)(void));

#endif
