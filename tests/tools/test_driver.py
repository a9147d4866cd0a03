#!/usr/bin/env python3
"""What talc says where the NVIDIA driver is missing, too old, without a GPU or broken, and what starting costs there.

usage: test_driver.py TALC LIBTALC CC

The drivers are stubs, compiled here: a libcuda.so.1 that knows its version and how it starts.
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest

TALC, LIBTALC, CC = sys.argv[1:4]

STUB = r"""
#include <stddef.h>
#include <string.h>
int cuInit(unsigned flags) { (void)flags; return STARTS; }
int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
int cuGetProcAddress_v2(const char *name, void **address, int version, unsigned long flags, void *found)
{
    (void)version, (void)flags, (void)found;
    *address = strcmp(name, "cuInit") == 0               ? (void *)cuInit
               : strcmp(name, "cuDriverGetVersion") == 0 ? (void *)cuDriverGetVersion
               : strncmp(name, "cuGetProcAddress", 16) == 0 ? (void *)cuGetProcAddress_v2
                                                         : NULL;
    return *address != NULL ? 0 : 500;
}
int cuGetProcAddress(const char *name, void **address, int version, unsigned long flags)
{
    return cuGetProcAddress_v2(name, address, version, flags, NULL);
}
"""


def talc(*arguments, library_path=None):
    environment = {k: v for k, v in os.environ.items() if k != "TALC_DEVICE"}
    if library_path is not None:
        environment["LD_LIBRARY_PATH"] = library_path + ":" + environment.get("LD_LIBRARY_PATH", "")
    return subprocess.run([TALC, *arguments], capture_output=True, text=True, env=environment, timeout=60)


def stub(path, *definitions):
    subprocess.run([CC, "-shared", "-fPIC", "-x", "c", "-", "-o", path, *("-D" + d for d in definitions)],
                   input=STUB, text=True, check=True)


def nothing(path):
    """No library: what the loader finds first, and cannot load."""
    open(path, "w").close()


class Driver(unittest.TestCase):
    def says(self, expected, *definitions, make=stub):
        with tempfile.TemporaryDirectory() as folder:
            make(folder + "/libcuda.so.1", *definitions)
            done = talc("info", "--device", "cuda", library_path=folder)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, expected)
            # Looking for a default device says nothing and takes the CPU.
            done = talc("explain", "n1c4h12w12o8k3x3", library_path=folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("on cpu", done.stdout)

    def starts_in_under_10_ms(self, *arguments, library_path=None):
        least = 1.0
        for _ in range(400):  # until one is: other programs may slow the machine down for a while
            if least < 0.010:
                break
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = talc("explain", "n1c4h12w12o8k3x3", *arguments, library_path=library_path)
            self.assertEqual(done.returncode, 0)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        self.assertLess(least, 0.010)

    def test_drivers_that_will_not_do(self):
        built = "built without CUDA" in talc("info", "--device", "cuda").stderr
        if built:
            self.skipTest("talc was built without CUDA")
        self.says(r"no NVIDIA driver is installed \(libcuda\.so\.1\)", make=nothing)
        self.says(r"the NVIDIA driver is for CUDA 11\.4, this talc needs \d+\.\d+", "VERSION=11040", "STARTS=0")
        self.says("the NVIDIA driver finds no GPU", "VERSION=99000", "STARTS=100")
        self.says("the NVIDIA driver does not start: ", "VERSION=99000", "STARTS=999")

    def test_nothing_of_cuda_is_linked(self):
        needed = subprocess.run(["ldd", LIBTALC], capture_output=True, text=True, check=True).stdout
        self.assertFalse(re.search("libcuda|libcublas|libnv", needed), needed)

    def test_a_cpu_program_starts_in_under_10_ms(self):
        self.starts_in_under_10_ms("--device", "cpu")

    def test_so_it_does_where_no_driver_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            nothing(folder + "/libcuda.so.1")
            self.starts_in_under_10_ms(library_path=folder)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
