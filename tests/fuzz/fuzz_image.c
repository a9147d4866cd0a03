/// A libFuzzer target for images: PNG, JPEG and EXIF. The first three bytes of the input choose
/// what becomes of the image, the rest is the file. Nothing may crash, and no failure but the
/// documented ones may come; an image may have at most a million pixels.
///
///     CC=clang meson setup build-fuzz -Db_sanitize=address,undefined -Db_lundef=false
///     meson configure build-fuzz -Dc_args=-fsanitize=fuzzer-no-link
///     ninja -C build-fuzz tests/fuzz/fuzz_image
///     build-fuzz/tests/fuzz/fuzz_image -dict=tests/fuzz/image.dict CORPUS
#define _GNU_SOURCE /* memfd_create: a file without a disk */

#include "nn/data/exif.h"
#include "talc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHOICE = 3, MAX_PIXELS = 1000000 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void load(const char *path, const uint8_t *choice)
{
    const talc_image_options options = {
        .channels = choice[0] % 4 == 3 ? 3 : 0,
        .pixels = MAX_PIXELS,
        .resize = { choice[1] % 64, choice[0] % 8 < 4 || choice[1] % 64 == 0 ? 0 : 5 },
        .crop = { choice[2] % 64, 0 },
        .dtype = choice[0] & 16 ? TALC_U8 : TALC_F32,
    };
    talc_tensor *image = talc_image_load(path, &options);
    if (image != NULL && talc_numel(image) < 1)
        abort();
    talc_release(image);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count < CHOICE)
        return 0;
    const int orientation = talc_exif_orientation(bytes + CHOICE, count - CHOICE);
    const int descriptor = memfd_create("fuzz", 0);
    if (orientation < 1 || orientation > 8 || descriptor < 0 ||
        write(descriptor, bytes + CHOICE, count - CHOICE) != (ssize_t)(count - CHOICE))
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    load(path, bytes);
    const talc_status status = talc_error_status();
    if (status != TALC_OK && status != TALC_BAD_FORMAT && status != TALC_TOO_LARGE &&
        status != TALC_BAD_SHAPE)
        abort();
    talc_error_clear();
    close(descriptor);
    return 0;
}
