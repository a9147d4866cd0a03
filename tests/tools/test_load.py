"""Tests of --load: an algorithm and a network of one's own, and the mistakes that the checks name.

usage: test_load.py TALC HEADERS LIBRARIES OBJECTS CC

OBJECTS has the shared objects of examples/own_conv2d.c and examples/own_network.c; others are compiled here.
"""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

TALC, HEADERS, LIBRARIES, OBJECTS, CC = sys.argv[1:6]
OBJECTS = pathlib.Path(OBJECTS).resolve()
OWN, NETWORK = OBJECTS / "own_conv2d.so", OBJECTS / "own_network.so"
PROBLEM = "n2c4h7w6o4k3x2s2x1p1x2g2_bias"


def talc(*arguments, **environment):
    return subprocess.run([TALC, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          env=os.environ | {"TALC_DEVICE": "cpu"} | environment)


def npy(path, shape, values):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % "".join(f"{d}, " for d in shape)
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     struct.pack(f"<{len(values)}f", *values))


class Own(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def passes(self, *arguments, **environment):
        done = talc(*arguments, **environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def refused(self, expected, *arguments):
        done = talc(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, expected)

    def compiled(self, name, source):
        path = self.folder / name
        subprocess.run([CC, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{HEADERS}", "-x", "c", "-", "-o", path,
                        f"-L{LIBRARIES}", "-ltalc"], input="#include <talc/networks.h>\n" + source, text=True, check=True)
        return path


class Algorithm(Own):
    def test_is_explained_and_chosen(self):
        decision = json.loads(self.passes("explain", "--json", "--load", OWN, PROBLEM))
        text = json.dumps(decision)
        self.assertIn('"chosen": "own_direct"', text)
        shown = self.passes("explain", f"--load={OWN}", PROBLEM)
        self.assertEqual(len(re.findall(r"-> own_direct +f32 products and sums, strict, workspace 0", shown)), 2, shown)
        self.assertIn("own_direct refuses: no weight gradient", " ".join(shown.split()))
        self.assertNotIn("own_direct", self.passes("explain", PROBLEM))

    def test_is_forced_by_name(self):
        shown = self.passes("explain", "--load", OWN, "--algorithm", "im2col", PROBLEM)
        self.assertIn("-> im2col", shown)
        done = talc("explain", "--algorithm", "own_direct", PROBLEM)
        self.assertEqual(done.returncode, 1)
        self.assertIn("-> none: there is no such algorithm; there are depthwise", " ".join(done.stdout.split()))

    def test_is_listed(self):
        self.assertIn("by own_direct, depthwise", " ".join(self.passes("ops", "--load", OWN).split()))

    def test_computes_a_convolution(self):
        x, w = [1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 10, 100, 1000]
        npy(self.folder / "x.npy", (1, 1, 3, 3), x)
        npy(self.folder / "w.npy", (1, 1, 2, 2), w)
        out = self.folder / "y.npy"
        done = talc("conv2d", self.folder / "x.npy", self.folder / "w.npy", "--load", OWN, "--output", out, TALC_VERBOSE="exec")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("talc,exec,cpu,conv2d,own_direct,", done.stderr)
        expected = [sum(w[2 * i + j] * x[3 * (h + i) + v + j] for i in range(2) for j in range(2))
                    for h in range(2) for v in range(2)]
        self.assertEqual(list(struct.unpack("<4f", out.read_bytes()[-16:])), expected)

    def test_is_checked_alone(self):
        shown = self.passes("check", "--load", OWN, "-a", "own_direct", PROBLEM, PROBLEM + "_dx", "n1c3h5w5o2k3p1_relu")
        self.assertRegex(shown, r"conv2d +own_direct")
        self.assertRegex(shown, r"conv2d.grad_input +own_direct")
        self.assertNotIn("im2col", shown)

    def test_is_timed(self):
        shown = self.passes("bench", "--load", OWN, "--algorithm", "own_direct", "-r", "1", "n1c4h8w8o4k3")
        self.assertIn("own_direct", shown)

    def test_trains_a_network(self):
        done = talc("check", "model", "lenet", "--train", "--load", OWN, TALC_VERBOSE="exec", TALC_FUSE="0")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("talc,exec,cpu,conv2d,own_direct,", done.stderr)
        done = talc("bench", "lenet", "--batch", "2", "--train", "--load", OWN, TALC_VERBOSE="exec", TALC_FUSE="0")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("talc,exec,cpu,conv2d,own_direct,", done.stderr)
        self.assertIn("talc,exec,cpu,conv2d.grad_input,own_direct,", done.stderr)


class Mistakes(Own):
    """Each is named by the checks, and by no other than the one that finds it."""

    def failed(self, mistake, *problems):
        done = talc("check", "--json", "--load", OBJECTS / f"own_conv2d_{mistake}.so", *problems)
        self.assertEqual(done.returncode, 1, done.stderr)
        failures = json.loads(done.stdout)["failures"]
        self.assertEqual({f["algorithm"] for f in failures}, {"own_direct"})
        return failures

    def test_what_repeats_a_failure_loads_it(self):
        path = OBJECTS / "own_conv2d_value.so"
        shown = talc("check", "--load", path, PROBLEM).stdout
        (command,) = re.findall(r"^ +talc (check --load .*) --device cpu", shown, re.MULTILINE)[:1]
        self.assertEqual(command, f"check --load '{path}' 'n2c4h7w6o4k3x2s2x1p1x2d1x1g2_bias'")

    def test_a_wrong_value(self):
        failures = self.failed("value", PROBLEM)
        self.assertLessEqual({"exact", "random"}, {f["kind"] for f in failures})
        self.assertNotIn("guards", {f["kind"] for f in failures})

    def test_a_write_outside(self):
        failures = self.failed("outside", PROBLEM)
        self.assertEqual([f["reason"] for f in failures if f["kind"] == "guards"], ["it wrote outside y (exact)"])
        self.assertEqual({f["kind"] for f in failures} & {"exact", "random", "rerun", "inputs"}, set())

    def test_a_gradient_forgotten(self):
        failures = self.failed("gradient", PROBLEM, PROBLEM + "_dx")
        self.assertEqual({f["op"] for f in failures}, {"conv2d.grad_input"})
        (exact,) = [f for f in failures if f["kind"] == "exact"]
        self.assertRegex(exact["reason"], r"elements were not written")


class Network(Own):
    def test_every_command_takes_its_name(self):
        self.assertRegex(self.passes("summary", "--load", NETWORK), r"own-net +3x16x16 +5 +137")
        self.assertIn("Conv2d", self.passes("summary", "own-net", "--load", NETWORK))
        self.assertIn("own-net", self.passes("run", "own-net", "--load", NETWORK))
        self.assertIn("own-net", self.passes("run", "--load", NETWORK, "own-net", "--json"))
        self.assertIn("conv2d", self.passes("explain", "--load", NETWORK, "own-net"))
        self.assertIn("passed", self.passes("check", "model", "--load", NETWORK, "own-net"))
        self.assertIn("own-net", self.passes("bench", f"--load={NETWORK}", "own-net"))

    def test_with_an_algorithm(self):
        self.assertIn("own_direct", self.passes("explain", "--load", NETWORK, "--load", OWN, "own-net", TALC_FUSE="0"))

    def test_without_it_there_is_none(self):
        self.refused("there is no network 'own-net'; there are lenet, ", "summary", "own-net")

    def test_twice_is_once(self):
        self.passes("summary", "own-net", "--load", NETWORK, "--load", NETWORK)
        self.passes("summary", "own-net", "--loa", NETWORK)  # which argp takes for --load


class Refused(Own):
    def of(self, expected, source):
        self.refused(expected, "summary", "lenet", "--load", self.compiled("own.so", source))

    def test_files(self):
        self.refused(r"^talc summary: --load: 'none.so' cannot be opened\n", "summary", "--load", "none.so")
        text = self.folder / "text.so"
        text.write_text("no object")
        self.refused(r"--load: '.*/text.so' is no shared object that can be loaded: ", "summary", "--load", text)
        self.refused(r"is no shared object that can be loaded: ", "summary", "--load", self.folder)
        self.refused(r"option '--load' requires an argument", "summary", "--load")

    def test_symbols(self):
        self.of(r"'.*/own.so' has no symbol talc_loaded \(talc/networks.h\)", "int unused;")
        self.of(r"talc_loaded of '.*' is of version 99, this talc has version 1; compile it anew",
                "const talc_loaded_object talc_loaded = { 99, NULL, NULL };")
        self.of(r"talc_loaded of '.*' has no network and no start",
                "const talc_loaded_object talc_loaded = { TALC_LOADED_VERSION, NULL, NULL };")

    def test_starts(self):
        start = "static bool start(void) {{ {} return false; }}\nconst talc_loaded_object talc_loaded = {{ 1, NULL, start }};"
        self.of(r"start of '.*' gave up and raised no failure", start.format(""))
        self.of(r"^talc summary: not here\n", start.format('talc_fail(TALC_UNSUPPORTED, "not here");'))

    def test_networks(self):
        source = """static talc_module *make(const void *config, int64_t channels, int64_t classes)
                    {{ (void)config, (void)channels, (void)classes; return NULL; }}
                    static const talc_network network = {{ "{}", "nothing", {{ 1, 2, 3 }}, {}, make, NULL }};
                    const talc_loaded_object talc_loaded = {{ TALC_LOADED_VERSION, &network, NULL }};"""
        self.of(r"network_add: there is a network 'resnet18' already", source.format("resnet18", 1))
        self.of(r"network_add: network 'a b': a name has letters", source.format("a b", 1))
        self.of(r"network_add: network 'mine': channels, height, width and classes must", source.format("mine", 0))
        done = talc("run", "mine", "--load", self.compiled("own.so", source.format("mine", 2)))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("mine: make gave no module and raised no failure", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
