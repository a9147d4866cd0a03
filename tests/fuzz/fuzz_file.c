/// A libFuzzer target for the file formats: the first byte of the input chooses .npy or
/// safetensors, the rest is the file. Nothing may crash, and no failure but the documented ones may
/// come.
///
///     CC=clang meson setup build-fuzz -Db_sanitize=address,undefined -Db_lundef=false
///     meson configure build-fuzz -Dc_args=-fsanitize=fuzzer-no-link
///     ninja -C build-fuzz tests/fuzz/fuzz_file
///     build-fuzz/tests/fuzz/fuzz_file -dict=tests/fuzz/file.dict CORPUS
#define _GNU_SOURCE /* memfd_create: a file without a disk */

#include "talc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void read_safetensors(const char *path, talc_device *cpu)
{
    talc_safetensors *file = talc_safetensors_open(path);
    for (int64_t i = 0; i < talc_safetensors_count(file) && i < 16; i++) {
        if (talc_safetensors_find(file, talc_safetensors_name(file, i)) != i)
            abort();
        talc_release(talc_safetensors_read(file, i, cpu));
        if (talc_error_status() == TALC_UNSUPPORTED)
            talc_error_clear();
    }
    talc_safetensors_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    talc_device *cpu = talc_device_get("cpu");
    int descriptor = memfd_create("fuzz", 0);
    if (count == 0) {
        close(descriptor);
        return 0;
    }
    if (descriptor < 0 || write(descriptor, bytes + 1, count - 1) != (ssize_t)(count - 1))
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    if (bytes[0] % 2 == 0)
        talc_release(talc_npy_load(cpu, path));
    else
        read_safetensors(path, cpu);
    talc_status status = talc_error_status();
    if (status != TALC_OK && status != TALC_BAD_FORMAT && status != TALC_UNSUPPORTED &&
        status != TALC_TOO_LARGE)
        abort();
    talc_error_clear();
    close(descriptor);
    return 0;
}
