#define _GNU_SOURCE /* O_TMPFILE */

#include "tests/support/files.h"

#include "talc.h"

#include <criterion/criterion.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[256];

const char *file_path(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    if (directory[0] == '\0') {
        const char *base = getenv("TMPDIR");
        snprintf(directory, sizeof directory, "%.200s/talc-test-XXXXXX",
                 base != NULL ? base : "/tmp");
        cr_assert(mkdtemp(directory) != NULL, "no directory %s", directory);
    }
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

void file_write(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file != NULL && fwrite(bytes, 1, count, file) == count, "cannot write %s", path);
    cr_assert(fclose(file) == 0);
}

char *file_bytes(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    fseek(file, 0, SEEK_END);
    *count = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*count + 1);
    cr_assert(bytes != NULL && fread(bytes, 1, *count, file) == *count, "cannot read %s", path);
    bytes[*count] = '\0';
    fclose(file);
    return bytes;
}

bool file_unnamed(void)
{
    (void)file_path("");
    const int descriptor = open(directory, O_TMPFILE | O_WRONLY, 0600);
    return descriptor >= 0 && close(descriptor) == 0;
}

static int each_file(bool remove_it)
{
    int count = 0;
    DIR *listing = opendir(directory);
    for (struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (remove_it)
            remove(file_path(entry->d_name));
    }
    if (listing != NULL)
        closedir(listing);
    return count;
}

bool file_is(const char *path, const char *text)
{
    size_t count = 0;
    char *bytes = file_bytes(path, &count);
    const bool is = bytes != NULL && count == strlen(text) && memcmp(bytes, text, count) == 0;
    free(bytes);
    return is;
}

int file_count(void)
{
    return each_file(false);
}

void file_remove_all(void)
{
    each_file(true);
    rmdir(directory);
    directory[0] = '\0';
}

char *file_written(FILE *file)
{
    static char text[16384];
    rewind(file);
    const size_t count = fread(text, 1, sizeof text, file);
    cr_assert(count < sizeof text);
    text[count] = '\0';
    fclose(file);
    return text;
}

const char *file_stderr_of(void (*probe)(void))
{
    FILE *file = tmpfile();
    cr_assert_not_null(file);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(fileno(file), STDERR_FILENO);
        probe();
        fflush(stderr);
        _exit(talc_failed() ? 1 : 0);
    }
    int status;
    cr_assert(waitpid(child, &status, 0) == child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %d", status);
    return file_written(file);
}
