#!/usr/bin/env python3
"""What docs/install.md says of installing: the installed command runs, and programs in C and C++ are built
by pkg-config, CMake and meson.

usage: test_install.py ROOT BUILD   installs BUILD below another root, and uses it as it was built
       test_install.py ROOT         builds and installs with a prefix and libdir of its own, and
                                    as a subproject
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv[1]).resolve()
BUILD = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None
PROGRAM = r"""
#include <talc/talc.h>

int main(void)
{
    talc_print(stdout, talc_full(talc_device_get("cpu"), TALC_F32, TALC_DIMS(2, 3), 1.5));
    return talc_failed();
}
"""
PRINTED = "tensor f32 [2,3] on cpu"
NETWORK = r"""
#include <talc/networks.h>

int main(void)
{
    talc_module *net = talc_network_new("lenet", &(talc_network_options){ .classes = 4, .seed = 3 });
    printf("%s %lld\n", talc_network_at(0)->name, (long long)talc_module_count(net));
    talc_module_free(net);
    return talc_failed();
}
"""
OF_NETWORK = "lenet 61196"  # 61,706 - 6 * 85


def block(kind):
    """The only block of that kind."""
    (text,) = re.findall(rf"```{kind}\n(.*?)```", (ROOT / "docs" / "install.md").read_text(), re.DOTALL)
    return text


def run(*command, **environment):
    """What a command prints, without the caller's ways of finding libraries."""
    without = ("LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "DESTDIR")
    kept = {name: value for name, value in os.environ.items() if name not in without}
    done = subprocess.run([*map(str, command)], env=kept | environment, capture_output=True,
                          text=True)
    if done.returncode != 0:
        said = done.stdout[-3000:] + done.stderr[-3000:]
        raise AssertionError(f"{command}: {done.returncode}\n{said}")
    return done.stdout


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "model.c").write_text(PROGRAM)
        (self.folder / "network.c").write_text(NETWORK)
        (self.folder / "model.cpp").write_text(block("cpp"))
        (self.folder / "CMakeLists.txt").write_text(block("cmake"))

    def compiles(self, libdir, **found):
        """Both languages by pkg-config."""
        warn, program = ["-Wall", "-Wextra", "-Werror"], self.folder / "program"
        flags = run("pkg-config", "--cflags", "--libs", "talc", **found).split()
        # Of an installation in one folder, of the build tree in two.
        rpath = [f"-Wl,-rpath,{libdir}:{libdir / 'examples/networks'}"]
        flags += [*rpath, "-o", program]
        run("cc", *warn, self.folder / "model.c", *flags)
        self.assertIn(PRINTED, run(program))
        of_networks = run("pkg-config", "--cflags", "--libs", "talc_networks", **found).split()
        run("cc", *warn, self.folder / "network.c", *of_networks, *rpath, "-o", program)
        self.assertIn(OF_NETWORK, run(program))
        if shutil.which("c++"):
            run("c++", "-std=c++11", *warn, self.folder / "model.cpp", *flags)
            self.assertIn("tensor f32 [1,8,30,30] on cpu", run(program))

    def cmakes(self, **found):
        if not shutil.which("cmake"):
            self.skipTest("there is no cmake")
        made = self.folder / "of_cmake"
        run("cmake", "-S", self.folder, "-B", made, **found)
        run("cmake", "--build", made, **found)
        self.assertIn(PRINTED, run(made / "model"))


@unittest.skipIf(BUILD is None, "the other usage")
class Built(Folder):
    def test_installed_below_another_root(self):
        top = self.folder / "top"
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", top)
        (command,) = top.rglob("bin/talc")
        self.assertRegex(run(command, "--version"), r"^talc \d")
        (described,) = top.rglob("talc.pc")
        # They say where they will be.
        for file in (described, described.with_name("talc_networks.pc")):
            file.write_text(file.read_text().replace("prefix=", f"prefix={top}", 1))
        found = {"PKG_CONFIG_PATH": str(described.parent)}
        self.compiles(described.parent.parent, **found)
        self.cmakes(**found)

    def test_not_installed(self):
        found = {"PKG_CONFIG_PATH": str(BUILD / "meson-uninstalled")}
        self.compiles(BUILD, **found)
        self.cmakes(**found)


@unittest.skipIf(BUILD is not None, "the other usage")
class Anew(Folder):
    def test_a_prefix_and_libdir_of_its_own(self):
        build, prefix = self.folder / "build", self.folder / "prefix"
        run("meson", "setup", build, ROOT, f"--prefix={prefix}", "--libdir=lib64/own",
            "--bindir=own/bin", "-Dtests=disabled", "-Dexamples=disabled", "-Dcuda=disabled")
        run("meson", "install", "-C", build)
        shutil.rmtree(build)
        found = {"PKG_CONFIG_PATH": str(prefix / "lib64/own/pkgconfig")}
        self.assertRegex(run(prefix / "own/bin/talc", "--version"), r"^talc \d")
        self.compiles(prefix / "lib64/own", **found)
        self.cmakes(**found)
        prefix.rename(self.folder / "moved")
        self.assertRegex(run(self.folder / "moved/own/bin/talc", "--version"), r"^talc \d")

    def test_a_subproject(self):
        build = self.folder / "of_meson"
        (self.folder / "meson.build").write_text(block("meson"))
        (self.folder / "subprojects").mkdir()
        (self.folder / "subprojects/talc").symlink_to(ROOT)
        run("meson", "setup", build, self.folder, "--wrap-mode=forcefallback",
            "-Dtalc:cuda=disabled")
        run("ninja", "-C", build, "model")
        self.assertIn(PRINTED, run(build / "model"))


if __name__ == "__main__":
    if not all(map(shutil.which, ["meson", "ninja", "pkg-config", "cc"])):
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
