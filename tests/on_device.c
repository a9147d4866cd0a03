/* Runs a test program on a device: `on_device NAME PROGRAM ARGUMENTS...` sets TALC_TEST_DEVICE for it. Without the device it
 * says why and exits with 77, which meson counts as skipped: tests that could not run have not passed. */
#define _POSIX_C_SOURCE 200809L

#include <talc/talc.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    enum { SKIPPED = 77 };
    if (argc < 3) {
        fprintf(stderr, "usage: on_device NAME PROGRAM ARGUMENTS...\n");
        return 2;
    }
    if (talc_device_get(argv[1]) == NULL) {
        printf("skipped: %s\n", talc_error_message());
        return SKIPPED;
    }
    setenv("TALC_TEST_DEVICE", argv[1], 1);
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 1;
}
