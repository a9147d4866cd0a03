/* Saving in a world that does not hold still: a limit of file size, signals that end the program,
 * links, what is no file. */
#include "tests/support/files.h"
#include "tests/support/hooks.h"

#include "tensor/file.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* At the limit of file size a save fails like at any other; the signal that says so reaches
 * nobody. */
Test(file_save, the_limit_of_file_size_is_an_error)
{
    const char *path = file_path("kept");
    const struct rlimit limit = { 1 << 20, 1 << 20 };
    sigset_t pending, before, after;
    file_write(path, "old", 3);
    talc_tensor *x = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(300000));
    cr_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    cr_assert(pthread_sigmask(SIG_SETMASK, NULL, &before) == 0);
    cr_assert(!talc_npy_save(path, x));
    assert_failure_with(TALC_IO_ERROR, "npy_save: cannot write '%s': File too large", path);
    cr_assert(pthread_sigmask(SIG_SETMASK, NULL, &after) == 0 && sigpending(&pending) == 0);
    cr_assert(!sigismember(&pending, SIGXFSZ) &&
              sigismember(&before, SIGXFSZ) == sigismember(&after, SIGXFSZ));
    cr_assert(file_is(path, "old"));
    cr_assert(file_count() == 1);
}

/* A program that is killed while it saves leaves nothing, and the old file. */
Test(file_save, a_save_that_is_killed_leaves_nothing)
{
    const char *path = file_path("kept");
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGKILL };
    if (!file_unnamed())
        cr_skip("no files without a name here");
    file_write(path, "old", 3);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        const pid_t child = fork();
        if (child == 0) {
            talc_file_writer writer;
            (void)signal(signals[i], SIG_DFL);
            if (talc_file_create(&writer, "save", path) == TALC_OK &&
                talc_file_write(&writer, "save", "new", 3) == TALC_OK)
                (void)raise(signals[i]);
            _exit(0);
        }
        int status = 0;
        cr_assert(child > 0 && waitpid(child, &status, 0) == child);
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == signals[i], "status %d", status);
        cr_assert(file_is(path, "old") && file_count() == 1, "signal %d leaves %d files",
                  signals[i], file_count());
    }
}

/* A link stays, also one that leads to no file yet, in another directory or by way of another
 * link. */
Test(file_save, what_a_link_leads_to_is_written)
{
    static const struct {
        const char *link, *to;
    } links[] = { { "first", "second" }, { "second", "./third" }, { "third", NULL } };
    char to[PATH_MAX];
    for (size_t i = 0; i < 3; i++) {
        const char *path = file_path(links[i].link);
        if (links[i].to == NULL)
            snprintf(to, sizeof to, "%s", file_path("target"));
        else
            snprintf(to, sizeof to, "%s", links[i].to);
        cr_assert(symlink(to, path) == 0);
    }
    for (int i = 0; i < 2; i++) { /* first there is no file, then there is */
        struct stat about;
        cr_assert(
            talc_npy_save(file_path("first"), talc_ones(cpu_device(), TALC_F32, TALC_DIMS(300000))),
            "%s", talc_error_message());
        cr_assert(talc_numel(talc_npy_load(cpu_device(), file_path("target"))) == 300000 &&
                  file_count() == 4);
        for (size_t k = 0; k < 3; k++)
            cr_assert(lstat(file_path(links[k].link), &about) == 0 && S_ISLNK(about.st_mode));
    }
    cr_assert(symlink("loop", file_path("loop")) == 0);
    cr_assert(
        !talc_npy_save(file_path("loop"), talc_ones(cpu_device(), TALC_F32, TALC_DIMS(300000))));
    cr_assert(strstr(talc_error_message(), "Too many levels of symbolic links") != NULL);
    talc_error_clear();
}

static bool npy_load(const char *path)
{
    return talc_npy_load(cpu_device(), path) != NULL;
}

static bool npy_save(const char *path)
{
    return talc_npy_save(path, talc_ones(cpu_device(), TALC_F32, TALC_DIMS(2)));
}

static bool safetensors_open(const char *path)
{
    return talc_safetensors_open(path) != NULL;
}

static bool safetensors_save(const char *path)
{
    return talc_safetensors_save(path, NULL, 0, NULL);
}

Test(file_save, only_regular_files_are_read_and_replaced)
{
    static const struct {
        const char *name;
        bool (*call)(const char *path);
        bool saves;
    } calls[] = { { "npy_load", npy_load, false },
                  { "safetensors_open", safetensors_open, false },
                  { "npy_save", npy_save, true },
                  { "safetensors_save", safetensors_save, true } };
    char pipe[512], missing[512];
    snprintf(pipe, sizeof pipe, "%s", file_path("pipe"));
    snprintf(missing, sizeof missing, "%s", file_path("no/such/file"));
    cr_assert(mkfifo(pipe, 0600) == 0);
    const struct {
        const char *path, *is;
    } files[] = { { "/dev/null", "device" },
                  { "/dev/zero", "device" },
                  { "/tmp", "directory" },
                  { pipe, "pipe" } };
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            cr_assert(!calls[c].call(files[i].path));
            assert_failure_with(TALC_IO_ERROR, "%s: '%s' is a %s, not a regular file",
                                calls[c].name, files[i].path, files[i].is);
        }
        cr_assert(!calls[c].call(missing));
        assert_failure_with(TALC_IO_ERROR, "%s: cannot %s '%s': No such file or directory",
                            calls[c].name, calls[c].saves ? "create a file beside" : "open",
                            missing);
        if (calls[c].saves && geteuid() != 0) { /* root may write everywhere */
            cr_assert(!calls[c].call("/talc-test"));
            assert_failure_with(TALC_IO_ERROR,
                                "%s: cannot create a file beside '/talc-test': Permission denied",
                                calls[c].name);
        }
    }
    cr_assert(file_count() == 1);
}
