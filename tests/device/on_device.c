/* Runs a test program on a device: `on_device NAME[/GIB] PROGRAM ARGUMENTS...` sets
 * TALC_TEST_DEVICE for it. Without the device, or with less than so many GiB free there, it says
 * why and exits with 77, which meson counts as skipped: tests that could not run have not
 * passed. */
#define _POSIX_C_SOURCE 200809L

#include <talc/talc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    enum { SKIPPED = 77 };
    if (argc < 3) {
        fprintf(stderr, "usage: on_device NAME PROGRAM ARGUMENTS...\n");
        return 2;
    }
    char *name = argv[1], *slash = strchr(name, '/');
    const double needed = slash == NULL ? 0 : atof(slash + 1) * 0x1p30;
    if (slash != NULL)
        *slash = '\0';
    talc_device *device = talc_device_get(name);
    const double left = device == NULL ? 0 : (double)talc_device_memory(device).free;
    if (device == NULL) {
        printf("skipped: %s\n", talc_error_message());
        return SKIPPED;
    }
    if (left < needed) {
        printf("skipped: %s has %.1f GB free, the tests need %.1f GB\n", name, left / 1e9,
               needed / 1e9);
        return SKIPPED;
    }
    setenv("TALC_TEST_DEVICE", name, 1);
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 1;
}
