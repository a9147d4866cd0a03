"""Tests of the talc command: exit codes, messages, JSON, and a convolution against one computed here.

usage: test_tool.py TALC        Standard library alone; .npy files are written and read by this file.
"""
import fcntl
import itertools
import json
import math
import os
import pathlib
import pty
import random
import re
import resource
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
import zlib

TALC = os.path.abspath(sys.argv.pop(1))
# What runs without a named device runs on the CPU, also where there is a GPU.
os.environ.setdefault("TALC_DEVICE", "cpu")

COMMANDS = ["bench", "check", "conv2d", "explain", "export", "info", "launch", "run", "show", "summary", "trace"]


def talc(*arguments, stdout=subprocess.PIPE, **options):
    return subprocess.run([TALC, *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE, text=True, **options)


def write_npy(path, shape, values):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % "".join(f"{d}, " for d in shape)
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(values)}f", *values))


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack("<H", data[8:10])
    header = data[10:10 + length].decode()
    assert "'<f4'" in header and "False" in header, header
    shape = [int(d) for d in re.search(r"\(([^)]*)\)", header).group(1).split(",") if d.strip()]
    body = data[10 + length:]
    return shape, list(struct.unpack(f"<{len(body) // 4}f", body))


def whole_numbers(count, seed):
    """Small whole numbers, so that every sum is exact."""
    return [(i * i * 7 + i * 13 + seed) % 11 - 5 for i in range(count)]


def whole_numbers_255(count):
    return [(i * i * 7 + i * 13) % 256 for i in range(count)]


def size(shape):
    product = 1
    for d in shape:
        product *= d
    return product


def conv2d(x, x_shape, w, w_shape, bias, stride, pads, dilation, groups):
    """The formula, on flat lists; pads are top, left, bottom, right. Returns the shape and the values."""
    (N, C, H, W), (OC, IC, KH, KW) = x_shape, w_shape
    top, left, bottom, right = pads
    OH = (H + top + bottom - dilation[0] * (KH - 1) - 1) // stride[0] + 1
    OW = (W + left + right - dilation[1] * (KW - 1) - 1) // stride[1] + 1
    y = []
    for n, oc, oh, ow in itertools.product(range(N), range(OC), range(OH), range(OW)):
        total = bias[oc] if bias else 0
        for ic, kh, kw in itertools.product(range(IC), range(KH), range(KW)):
            h = oh * stride[0] - top + kh * dilation[0]
            v = ow * stride[1] - left + kw * dilation[1]
            if 0 <= h < H and 0 <= v < W:
                c = oc // (OC // groups) * IC + ic
                total += x[((n * C + c) * H + h) * W + v] * w[((oc * IC + ic) * KH + kh) * KW + kw]
        y.append(total)
    return [N, OC, OH, OW], y


class Tool(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = lambda name: os.path.join(folder.name, name)

    def ok(self, *arguments):
        done = talc(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def json(self, *arguments):
        return json.loads(self.ok(*arguments, "--json"))

    def fails(self, code, message, *arguments):
        """One message, once, on stderr; nothing on stdout."""
        done = talc(*arguments)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stderr}")
        self.assertEqual(done.stdout, "", arguments)
        first = done.stderr.splitlines()[0]
        self.assertRegex(first, message, arguments)
        self.assertTrue(first.startswith("talc"), first)
        self.assertEqual(done.stderr.count(first), 1)
        if code == 1:
            self.assertEqual(done.stderr, first + "\n")


class Basics(Tool):
    def test_help_and_version(self):
        text = self.ok("--help")
        for command in COMMANDS:
            self.assertIn(f"  {command} ", text)
            self.assertIn(f"Usage: talc {command}", self.ok(command, "--help"))
        self.assertIn("talc (Tensors And Layers in C) is a C library of tensors, convolution, layers\nand training", text)
        text = self.ok("run", "--help")
        for part in ("--weights", "--input", "--top", "--labels", "--mean", "--classes", "NETWORK", "talc run model-new --help"):
            self.assertIn(part, " ".join(text.split()))
        self.assertIn("--beside", self.ok("run", "model-new", "--help"))
        self.assertRegex(self.ok("--version"), r"^talc \d+\.\d+\.\d+\n$")

    def test_foreign_text_is_shown_harmless(self):
        evil = "\x1b]0;\u009b\u202e\n"
        shown = re.escape(r"\x1b]0;\u{9b}\u{202e}\x0a")
        for arguments in [(evil,), ("conv2d", "a", "b", evil), ("conv2d", evil, "b"), ("explain", evil), ("check", evil + "."),
                          ("check", "sum:8", "--kinds", evil), ("info", "--device", evil), ("info", "--threads", evil),
                          ("run", evil), ("check", "sum:8", "--op", evil), ("check", "sum:8", "--shares", "no/" + evil),
                          ("conv2d", "a", "b", "--padding", evil), ("conv2d", "a", "b", "--activation", evil),
                          ("bench", evil), ("check", "model", evil), ("check", "grad", evil), ("check", "sum:8", "--part", evil)]:
            done = talc(*arguments)
            self.assertIn(done.returncode, (1, 2), arguments)
            self.assertRegex(done.stderr, shown, arguments)
            self.assertNotRegex(done.stderr + done.stdout, "[\x1b\u009b\u202e]", arguments)
        done = talc("info", env=os.environ | {"TALC_THREADS": evil})
        self.assertRegex(done.stderr, shown)
        self.assertNotRegex(done.stderr, "[\x1b\u009b\u202e]")
        long = "a" * 300 + "b" * 300
        self.fails(1, "'a{50,}[.]{3}b{50,}'; names are cpu, cuda, cuda:N$", "bench", "A", "--device", long)

    def test_wrong_usage(self):
        self.fails(2, "there is no command 'frobnicate'", "frobnicate")
        self.assertEqual(talc().returncode, 2)
        for command in COMMANDS:
            self.fails(2, rf"^talc {command}: .*--frobnicate", command, "--frobnicate")
        self.fails(2, "x.npy and w.npy are needed", "conv2d", "x.npy")
        self.fails(2, "'c' is one argument too many", "conv2d", "a", "b", "c")
        self.fails(2, "--stride: '0'", "conv2d", "a", "b", "--stride", "0")
        self.fails(2, "--stride: '1,2,3'", "conv2d", "a", "b", "--stride", "1,2,3")
        self.fails(2, "--stride: '1,'", "conv2d", "a", "b", "--stride", "1,")
        self.fails(2, "--padding: '1,2,3'", "conv2d", "a", "b", "--padding", "1,2,3")
        self.fails(2, "--padding: '-1'", "conv2d", "a", "b", "--padding=-1")
        self.fails(2, "--padding-mode: there is no 'wrap'", "conv2d", "a", "b", "--padding-mode", "wrap")
        self.fails(2, "--activation: there is no 'swish'", "conv2d", "a", "b", "--activation", "swish")
        self.fails(2, "--groups: '99999999999999999999'", "conv2d", "a", "b", "--groups", "99999999999999999999")
        self.fails(2, "--threads: '0'", "info", "--threads", "0")
        self.fails(2, "--threads: 2000 is more than 1024", "info", "--threads", "2000")
        for size in "64MB", "x", "", "-1", "9999999999TiB", "1.5GiB":
            self.fails(2, f"--workspace: '{size}' is not a size such as 64MiB, 1GiB or 5000", "info", "--workspace=" + size)
        self.fails(2, "give a problem", "explain")
        self.fails(2, "has all options but", "explain", "A", "--stride", "2")
        self.fails(2, "--dtype: 'i32'", "explain", "1,1,3,3", "1,1,3,3", "--dtype", "i32")
        self.fails(2, "expected 'c' at position 2", "bench", "n1q")
        self.fails(2, "there is no problem 'A2'", "bench", "A2")
        self.fails(2, "--repeat: 101 is more than 100", "bench", "--repeat", "101")
        self.fails(2, "there is no network 'resnet'; there are lenet, .*resnet101", "run", "resnet")
        self.fails(2, "which network", "run")
        self.fails(2, "there is no network 'x.png'; an image is --input's$", "run", "x.png")
        self.fails(2, "'net.pt' is a PyTorch file: torch.onnx.export writes", "run", "net.pt")
        self.fails(2, "there is no network 'nosuch'; there are lenet, ", "run", "--top", "2", "nosuch")
        self.ok("run", "--device", "cpu", "--top", "2", "lenet")
        self.ok("bench", "--device", "cpu", "--batch", "2", "lenet")

    def test_growth(self):
        self.fails(2, "'matmul' is neither conv2d nor depthwise", "bench", "growth", "matmul")
        self.fails(2, "--sweep: there is no 'width'", "bench", "growth", "--sweep", "width")
        of = self.json("bench", "growth", "--base", "n1c2h9w7o4k3", "--sweep", "stride", "-r", "1", "-d", "cpu")
        points = of["points"]
        self.assertEqual([(p["value"], p["direction"]) for p in points],
                         [(s, d) for s in range(1, 6) for d in ("forward", "dx", "dw")])
        for p in points:
            s = p["value"]
            oh, ow = (9 - 3) // s + 1, (7 - 3) // s + 1
            flops, size = 2 * 2 * 4 * 9 * oh * ow, 4 * (2 * 9 * 7 + 2 * 4 * 9 + 4 * oh * ow)
            least = max(flops / of["product_flops_per_second"], size / of["copy_bytes_per_second"]) + 1e-6
            self.assertAlmostEqual(p["floor"] / least, 1, 6)
        for at, p in enumerate(points):
            ratio = [q["seconds"] / q["floor"] for q in points[at % 3::3]]
            i = at // 3
            beside = min(ratio[max(i - 1, 0):i] + ratio[i + 1:i + 2])
            mark = "grows" if ratio[i] > 1.5 * beside else "slow" if ratio[i] > 2 * min(ratio) else ""
            self.assertEqual(p["mark"], mark)
        # Taps in the padding are no work: 2 of 3 rows and columns lie inside the image.
        of = self.json("bench", "growth", "--base", "n64c64h2w2o64k3p1", "--sweep", "dilation", "-r", "1", "-d", "cpu")
        flops = 2 * 64 * 64 * 64 * 4 * 4
        size = 4 * (2 * 64 * 64 * 4 + 64 * 64 * 9)
        least = max(flops / of["product_flops_per_second"], size / of["copy_bytes_per_second"]) + 1e-6
        self.assertAlmostEqual(of["points"][0]["floor"] / least, 1, 6)

    def test_failures(self):
        self.fails(1, r"^talc info: device_get: there is no device 'tpu'", "info", "--device", "tpu")
        self.fails(2, "there is no problem 'nonsense'; talc bench --list shows the named ones, talc summary the networks", "explain", "nonsense")
        # What reads well and cannot run is a failure, what does not read is wrong usage.
        self.fails(1, "padded input has height 3, the kernel needs 5", "explain", "1,1,3,3", "1,1,5,5")
        self.fails(1, "padded input has height 8, the kernel needs 9", "explain", "n1c3h8w8o4k9")
        self.fails(1, "groups=2 does not divide 3 channels and 1 output channel$", "explain", "n1c3h8w8o1k3g2")
        self.fails(2, "expected a number at position 11", "explain", "n1c3h8w8o4kx")
        self.fails(1, "x .* has 3 channels, w .* needs 4", "explain", "8,3,32,32", "16,4,3,3")
        self.fails(1, "must be|rank", "explain", "8,3", "16,4,3,3")
        self.fails(2, "'8,3x' is not a shape", "explain", "8,3x", "16,4,3,3")
        self.fails(1, "missing.npy", "conv2d", self.path("missing.npy"), self.path("missing.npy"))

    def test_explain_a_model(self):
        steps = self.json("explain", "resnet20")["steps"]
        self.assertEqual(steps[0]["layers"], "conv1+bn1+relu")
        self.assertEqual(steps[0]["does"], "Conv2d + BatchNorm2d (folded) + relu")
        self.assertEqual(steps[2]["does"], "Conv2d + BatchNorm2d (folded) + residual + relu")
        self.assertEqual([step["op"] for step in steps].count("conv2d"), 19)
        self.assertEqual(steps[-1]["output"], [1, 10])
        forced = self.json("explain", "lenet", "--algorithm", "reference")["steps"]
        self.assertEqual({step["algorithm"] for step in forced if step["op"] == "conv2d"}, {"reference"})
        trained = self.json("explain", "mobilenet_v2", "--train")["steps"]
        self.assertEqual([step["does"] for step in trained[:2]], ["Conv2d", "BatchNorm2d + relu6"])
        silu = [step["op"] for step in self.json("explain", "efficientnet_b0", "--train")["steps"]].count("silu")
        wide = talc("explain", "efficientnet_b0", env=os.environ | {"COLUMNS": "200"}).stdout
        self.assertEqual((silu, wide.count("silu ")), (49, 49))
        text = self.ok("explain", "lenet")
        self.assertRegex(text, r"fc1 +Linear \+ relu +linear +\[1,120\]")
        self.assertRegex(text, r"conv1 +Conv2d \+ relu +conv2d +5x5 s1x1 p2x2 +\[1,6,28,28\]")
        self.assertEqual([step["window"] for step in self.json("explain", "lenet")["steps"]][:3], ["5x5 s1x1 p2x2", "2x2 s2x2 p0x0", "5x5 s1x1 p0x0"])

    def test_stdout_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            for arguments in (["info"], ["info", "--json"], ["explain", "A"], ["explain", "lenet"], ["--help"]):
                done = talc(*arguments, stdout=full)
                self.assertEqual(done.returncode, 1, arguments)
                self.assertIn("No space left on device", done.stderr)

    def test_no_terminal_codes_in_a_pipe(self):
        done = talc("info")
        self.assertNotIn("\033", done.stdout + done.stderr)

    def test_info(self):
        info = self.json("info")
        self.assertLessEqual({"version", "compiler", "vectors", "blas", "blas_core", "threads", "devices"}, info.keys())
        cpu = info["devices"][0]
        self.assertEqual({"live", "peak", "reserved", "libraries", "free", "total"}, cpu["memory"].keys())
        self.assertEqual(cpu["memory"]["libraries"], 0)
        self.assertEqual(cpu["name"], "cpu")
        self.assertGreater(cpu["memory"]["total"], 0)
        self.assertEqual(cpu["conv2d"][-1]["name"], "reference")
        self.assertEqual(self.json("info", "--threads", "1")["threads"], 1)
        for size, expected in ("3MiB", 3 << 20), ("5000", 5000), ("2KiB", 2048), ("1GiB", 1 << 30):
            self.assertEqual(self.json("info", "--workspace", size)["devices"][0]["workspace_limit"], expected)
        least, most = info["core_distance_seconds"]
        self.assertTrue(0 < least <= most < 1e-3 if len(os.sched_getaffinity(0)) > 1 else least == most == 0, info["core_distance_seconds"])
        self.assertEqual(json.loads(talc("info", "--json", env=os.environ | {"OPENBLAS_CORETYPE": "Haswell"}).stdout)["blas_forced"], True)
        text = self.ok("info")
        self.assertIn("reference", text)
        self.assertIn("OpenBLAS", text)

    def test_info_names_wider_kernels_of_blas(self):
        if self.json("info")["vectors"] == "portable":
            self.skipTest("a processor without AVX2")
        free = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
        self.assertNotIn("OPENBLAS_CORETYPE=", talc("info", env=free).stdout)
        self.assertRegex(talc("info", env=free | {"TALC_CPU": "avx2"}).stdout, "kernels: *(Haswell|Zen|Excavator|Sky|Coop|Sapph)")
        for core, expected in ("Nehalem", True), ("Haswell", False):
            done = talc("info", env=os.environ | {"OPENBLAS_CORETYPE": core, "TALC_CPU": "avx2"})
            if f"kernels: {core}" in done.stdout:
                self.assertEqual("OPENBLAS_CORETYPE=Haswell" in " ".join(done.stdout.split()), expected, core)


def on_terminal(arguments, columns=80, **environment):
    """What a command writes on stdout and stderr when both are a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM", "COLUMNS")} | environment
    done = subprocess.Popen([TALC, *arguments], stdout=theirs, stderr=theirs, env=variables)
    os.close(theirs)
    text = b""
    while True:
        try:
            chunk = os.read(ours, 4096)
        except OSError:  # Linux's way of saying that the other end is closed
            break
        if not chunk:
            break
        text += chunk
    os.close(ours)
    return done.wait(), text.decode()


class Terminal(Tool):
    BENCH = ["bench", "n1c4h12w12o8k3x3", "--repeat", "1", "--threads", "1"]

    def test_progress_bar(self):
        code, text = on_terminal(self.BENCH)
        self.assertEqual(code, 0)
        self.assertIn("\r\033[36m[", text)
        self.assertIn("\r\033[K\033[1m", text)  # wiped before the report
        self.assertLess(max(len(re.sub(r"\033\[\d*m", "", line)) for line in re.split(r"[\r\n]|\033\[K", text)), 81)
        code, text = on_terminal(self.BENCH, TERM="dumb")
        self.assertNotIn("\r\033[36m[", text)

    def test_no_color(self):
        self.assertIn("\033[1mtalc", on_terminal(["info"])[1])
        self.assertNotIn("\033", on_terminal(["info"], NO_COLOR="1")[1])
        code, text = on_terminal(self.BENCH, NO_COLOR="1")
        self.assertIn("\r[", text)
        self.assertFalse(re.search(r"\033\[\d*m", text), text)


class Width(Tool):
    """No line of any command is longer than 80 columns, or than COLUMNS or the terminal where they are wider; numbers are whole."""

    def commands(self):
        write_npy(self.path("x.npy"), [1, 3, 9, 9], whole_numbers(243, 1))
        write_npy(self.path("w.npy"), [4, 3, 3, 3], whole_numbers(108, 2))
        write_png(self.path("x.png"), 28, 28, bytes(28 * 28), color_type=0)
        activations = self.path("activations.safetensors")
        self.ok("check", "model", "resnet20", "--batch", "1", "--save-activations", activations)
        yield from (["--help"], ["info"], ["summary"], ["bench", "--list"], ["conv2d", self.path("x.npy"), self.path("w.npy")],
                    ["explain", "n8c64h512w256o128k5x7"], ["explain", "n256c1024h14w14o1024k3p1d2_f64_bias_residual_tanh"], ["explain", "conv64", "-a", "im2col"],
                    ["explain", "softmax:64x1000@1"], ["check", "n2c3h9w8o4k3p1_dw", "max_pool2d:n1c2h9w9k3", "adaptive_avg_pool2d:n1c2h9w9o2_dx", "batch_norm2d:n2c3h4w5_train_dx", "log_softmax:8x16@0"],
                    ["check", "n2c3h9w8o4k3x3p1x1_bias"], ["check", "grad", "batch_norm2d", "conv2d", "lenet"], ["check", "model", "resnet20", "--batch", "1"],
                    ["check", "model", "resnet20", "--batch", "1", "--activations", activations], ["check", "model", "lenet"],
                    ["bench", "n1c4h12w12o8k3x3", "n2c6h10w9o6k3p1g6_dx", "--repeat", "1"], ["bench", "relu", "sum_rows", "host_view", "--size", "1MiB", "--repeat", "1"],
                    ["bench", "lenet"], ["run", "model-new", "--problem", "n2c4h12w10o6k3x5s1x2p1x0", "--beside", "cpu"],
                    ["run", "lenet", "--input", self.path("x.png")], ["run", "unet", "--input", "1x3x16x16"])
        for network in "resnet50", "mobilenet_v2", "googlenet", "densenet121", "efficientnet_b0", "vgg16", "unet":
            yield ["summary", network, "--input", "2x3x64x64"]
        yield ["summary", "vit_c"]
        for network in "resnet50", "mobilenet_v2", "googlenet", "densenet121", "unet", "vit_c":
            yield ["explain", network]
        yield from ([command, *more, "--help"] for command, *more in map(str.split, ("info", "conv2d", "explain", "bench", "bench lenet", "check", "check model",
                                                                                   "check grad", "run", "run model-new", "summary")))

    def test_every_command_at_80_columns(self):
        environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
        for arguments in self.commands():
            done = talc(*arguments, env=environment)
            self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
            longest = max(done.stdout.split("\n"), key=len)
            self.assertLessEqual(len(longest), 80, f"{arguments}: {longest}")
            if "--help" not in arguments:  # argp's lines end as they like
                self.assertNotRegex(done.stdout, r"(?m) $", arguments)

    def test_wider(self):
        """Where there is room nothing is left out, and a narrow table has the same numbers."""
        def text(columns):
            return talc("summary", "mobilenet_v2", env=os.environ | {"COLUMNS": columns}).stdout
        narrow, wide = text("80"), text("160")
        self.assertIn("features.1.conv.0.0 ", wide)
        self.assertNotIn("...", wide)
        self.assertRegex(narrow, r"(?m)^fea\.\.s\.1\.conv\.0\.0 +Conv2d ")
        self.assertEqual(re.findall(r"[\d,.]+(?: [kMG])?$", narrow, re.M), re.findall(r"[\d,.]+(?: [kMG])?$", wide, re.M))
        numbers = r"(?m)\[[\d,]+\] +[\d,]+ +\S.*$"
        self.assertEqual([line.split() for line in re.findall(numbers, narrow)], [line.split() for line in re.findall(numbers, wide)])
        for columns in "40", "60", "100", "132":
            self.assertLessEqual(max(map(len, text(columns).split("\n"))), int(columns))
        for none in "0", "39", "wide", "":
            self.assertEqual(text(none), narrow)
        self.assertEqual(narrow, talc("summary", "mobilenet_v2", env={k: v for k, v in os.environ.items() if k != "COLUMNS"}).stdout)

    def test_a_terminal(self):
        for width in 132, 100, 80:
            code, seen = on_terminal(["summary", "mobilenet_v2"], columns=width, NO_COLOR="1")
            self.assertEqual(code, 0)
            table = seen.replace("\r", "").split("\n\n")[0].split("\n")
            self.assertLessEqual(max(map(len, table)), width)
            self.assertEqual(any("..." in line for line in table), width < 100, width)


class Explain(Tool):
    def test_every_named_problem(self):
        named = [row for row in self.json("bench", "--list") if "problem" in row]
        self.assertGreater(len(named), 20)
        self.assertEqual(len({row["name"] for row in named}), len(named))
        for row in named:
            explanation = self.json("explain", row["name"])
            self.assertIsNotNone(explanation["chosen"], row)
            self.assertTrue(explanation["problem"]["text"].startswith(row["problem"].split("k")[0]), row)
            self.assertIn("->", self.ok("explain", row["problem"]))

    def test_shapes_and_options(self):
        problem = self.json("explain", "2,4,9,8", "6,2,3,3", "--stride", "2,1", "--padding", "1,2,0,3", "--dilation",
                            "1,2", "--groups", "2", "--activation", "relu", "--bias", "--dtype", "f64")["problem"]
        self.assertEqual(problem["text"], "n2c4h9w8o6k3x3s2x1p1x2x0x3d1x2g2_f64_bias_relu")
        self.assertEqual((problem["OH"], problem["OW"]), (4, 9))
        same = self.json("explain", "1,1,7,7", "1,1,3,4", "--padding", "same")["problem"]
        self.assertEqual([same[k] for k in ("OH", "OW", "pad_left", "pad_right")], [7, 7, 1, 2])

    def test_forced_algorithm(self):
        self.assertEqual(self.json("explain", "conv64", "--algorithm", "reference")["chosen"], "reference")
        self.assertEqual(self.json("explain", "sum:8x16@1", "--algorithm", "reference")["chosen"], "reference")

    def test_the_others_do_not_refuse_what_was_asked_for_by_name(self):
        for problem, name, others in ("conv64_dx", "im2col", ["depthwise.*", "pointwise", "implicit_gemm", "reference"]), \
                                     ("sum:8x16@1", "reference", ["blocked"]):
            text = self.ok("explain", problem, "-a", name)
            self.assertIn(f"'{name}' was asked for by name:\n   -> {name} ", text)
            self.assertNotIn("refuses", text)
            for other in others:
                self.assertNotRegex(text, rf"(?m)^[ >-]+{other} ")
            candidates = self.json("explain", problem, "-a", name)["candidates"]
            self.assertEqual([row["name"] for row in candidates], [name])

    def test_what_cannot_run_is_a_failure(self):
        for problem, name, why in ("conv64", "no_such", "there is no such algorithm; there are depthwise(columns), depthwise(planes), pointwise, implicit_gemm, im2col, reference"), \
                                  ("conv64_dw", "depthwise", "the call would fail"), ("sum:8x16@1", "no_such", "there is no such algorithm"):
            done = talc("explain", problem, "-a", name)
            self.assertEqual((done.returncode, done.stderr), (1, ""), problem)
            self.assertIn(f"-> none: {why}", " ".join(done.stdout.split()))
            done = talc("explain", problem, "-a", name, "--json")
            self.assertEqual((done.returncode, json.loads(done.stdout)["chosen"]), (1, None))

    def test_a_convolution_comes_with_its_gradients(self):
        names = [[row["name"], row["form"]]
                 for row in self.json("explain", "n2c4h9w9o4k3x3p1x1g4_reflect_bias")["candidates"]]
        explanation = self.json("explain", "n2c4h9w9o4k3x3p1x1g4_reflect_bias", "--algorithm", "reference")
        self.assertEqual((explanation["op"], explanation["chosen"]), ("conv2d", "reference"))
        gradients = explanation["gradients"]
        self.assertEqual([(g["op"], g["problem"]["text"][-3:]) for g in gradients],
                         [("conv2d.grad_input", "_dx"), ("conv2d.grad_weight", "_dw")])
        for gradient in gradients:
            rows = {row["name"]: row for row in gradient["candidates"]}
            self.assertEqual([[row["name"], row["form"]] for row in gradient["candidates"]], names)
            self.assertEqual(gradient["chosen"], "depthwise(planes)")
            self.assertIn("1x1", rows["pointwise"]["reason"])
        alone = self.json("explain", "n2c4h9w9o4k3x3p1x1g4_dw", "--algorithm", "implicit_gemm")
        self.assertEqual((alone["op"], alone["chosen"], alone["gradients"]), ("conv2d.grad_weight", "implicit_gemm", []))
        text = self.ok("explain", "n2c4h9w9o4k3x3p1x1g4")
        for part in ("x [2,4,9,9]  w [4,1,3,3]  ->  y [2,4,9,9]", "conv2d.grad_input n2", "dy [2,4,9,9]  w [4,1,3,3]  ->  dx [2,4,9,9]",
                     "conv2d.grad_weight n2", "x [2,4,9,9]  dy [2,4,9,9]  ->  dw [4,1,3,3]"):
            self.assertIn(part, text)
        self.assertEqual(text.count("on cpu; the first that does not refuse runs:"), 3)
        self.assertEqual(self.ok("explain", "A_dx").count("on cpu; the first that does not refuse runs:"), 1)

    def test_every_op(self):
        for problem, expected in {
            "max_pool2d:n1c2h9w9k3x3s2x2": "rows", "max_pool2d:n1c2h9w9k3x3s2x2_indices": "rows", "avg_pool2d:n1c2h9w9k3x3": "rows", "adaptive_avg_pool2d:n1c2h9w9o2x2": "rows",
            "matmul:m5n6k7_tb_bias": "openblas(gemm)", "matmul:m1n6k7": "openblas(gemv)", "batch_norm2d:n2c3h4w5_train": "blocks", "sum:8x16@1": "blocked", "argmax:8x16": "blocked",
            "mean:8x16@0_f64": "blocked", "softmax:8x16@1": "rows", "log_softmax:8x16@0": "rows", "cross_entropy:8x10": "rows",
            "conv2d:n1c2h3w3o1k2x2": "implicit_gemm", "relu:8x16": "reference", "add:8x16,8x1_f64": "reference",
        }.items():
            explanation = self.json("explain", problem)
            self.assertEqual((explanation["op"], explanation["chosen"]), (problem.split(":")[0], expected), problem)
            self.assertEqual(explanation["candidates"][-1]["name"], "reference")
            text = self.ok("explain", problem)
            self.assertIn("on cpu; the first that does not refuse runs:", text)
            self.assertRegex(text, rf"-> {re.escape(expected)} .* strict, workspace ")
        self.fails(2, "expected a shape that broadcasts", "explain", "add:8,3")
        self.fails(2, "there is no op 'swish'", "explain", "swish:8")


class Conv2d(Tool):
    def compare(self, x_shape, w_shape, stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1), groups=1, bias=False,
                options=()):
        x, w = whole_numbers(size(x_shape), 1), whole_numbers(size(w_shape), 2)
        b = whole_numbers(w_shape[0], 3) if bias else None
        write_npy(self.path("x.npy"), x_shape, x)
        write_npy(self.path("w.npy"), w_shape, w)
        arguments = ["conv2d", self.path("x.npy"), self.path("w.npy"), "--output", self.path("y.npy"), *options]
        if bias:
            write_npy(self.path("b.npy"), [w_shape[0]], b)
            arguments += ["--bias", self.path("b.npy")]
        done = self.json(*arguments)
        shape, y = conv2d(x, x_shape, w, w_shape, b, stride, pads, dilation, groups)
        self.assertEqual(done["shape"], shape)
        self.assertEqual(read_npy(self.path("y.npy")), (shape, [float(v) for v in y]), done["problem"]["text"])
        return done

    def test_values(self):
        self.compare([1, 1, 5, 5], [1, 1, 3, 3])
        self.compare([2, 3, 7, 6], [4, 3, 3, 2], stride=(2, 1), pads=(1, 2, 1, 2), bias=True,
                     options=["--stride", "2,1", "--padding", "1,2"])
        self.compare([1, 4, 8, 9], [6, 2, 3, 3], pads=(1, 0, 2, 3), dilation=(2, 1), groups=2,
                     options=["--padding", "1,0,2,3", "--dilation", "2,1", "--groups", "2"])
        self.compare([1, 2, 6, 6], [2, 2, 3, 4], pads=(1, 1, 1, 2), options=["--padding", "same"])

    def test_forced_algorithm_and_text(self):
        done = self.compare([1, 1, 5, 5], [1, 1, 3, 3], options=["--algorithm", "reference"])
        self.assertEqual(done["algorithm"], "reference")
        text = self.ok("conv2d", self.path("x.npy"), self.path("w.npy"), "--device", "cpu")
        self.assertRegex(text, r"^y \[1,1,3,3\] f32 on cpu: depthwise\(planes\) \(")

    def test_a_path_that_is_no_utf_8(self):
        self.compare([1, 1, 5, 5], [1, 1, 3, 3])
        path = self.path("y\udcff.npy")  # the byte 0xff
        self.assertTrue(self.json("conv2d", self.path("x.npy"), self.path("w.npy"), "--output", path)["output"].endswith(r"y\xff.npy"))
        self.assertEqual(read_npy(path)[0], [1, 1, 3, 3])
        self.assertIn(r"y\xff.npy", self.ok("conv2d", self.path("x.npy"), self.path("w.npy"), "--output", path))

    def test_failures(self):
        self.compare([1, 1, 5, 5], [1, 1, 3, 3])
        x, w = self.path("x.npy"), self.path("w.npy")
        self.fails(1, r"^talc conv2d: .*there is no algorithm 'no_such'", "conv2d", x, w, "--algorithm", "no_such")
        self.fails(1, "no_folder", "conv2d", x, w, "--output", self.path("no_folder/y.npy"))
        self.fails(1, "has 1 channel, w .* with groups=3 needs 3", "conv2d", x, w, "--groups", "3")
        with open(self.path("bad.npy"), "wb") as file:
            file.write(b"not an array")
        self.fails(1, "bad.npy", "conv2d", self.path("bad.npy"), w)
        with open(x, "rb") as file:
            f64 = file.read().replace(b"<f4", b"<f8")
        with open(self.path("f64.npy"), "wb") as file:
            file.write(f64 + f64[-4 * 25:])  # 25 numbers of twice the size
        self.fails(1, r"f64.npy' is f64: np.save\('.*f64.npy', np.load\('.*f64.npy'\).astype\(np.float32\)\) makes it f32$", "conv2d", self.path("f64.npy"), w)
        self.assertIn("x.astype(np.float32)", self.ok("conv2d", "--help"))
        self.fails(2, "--output: 'y.png' does not end in .npy, which is what is written", "conv2d", x, w, "-o", "y.png")
        write_npy(self.path("b.npy"), [2], [1, 2])
        self.fails(1, r"bias \[2\] must be \[1\]", "conv2d", x, w, "--bias", self.path("b.npy"))


class Run(Tool):
    PROBLEM = "n2c4h12w10o6k3x5s1x2p1x0"

    def test_model_new(self):
        done = self.json("run", "model-new", "--problem", self.PROBLEM, "--save", self.path("y.npy"))
        self.assertEqual(done["y"], [2, 6, 12, 3])
        self.assertEqual(read_npy(self.path("y.npy"))[0], done["y"])
        self.assertTrue(done["check"]["correct"])
        self.assertEqual(done["check"]["outputs"], 2 * 6 * 12 * 3)
        self.assertGreater(done["peak_memory"], 0)
        text = self.ok("run", "model-new", "--problem", self.PROBLEM)
        for part in ("ModelNew", "forward", " for 51.84 kFLOP: ", "FLOP/s", "->", "correct"):
            self.assertIn(part, text)

    def test_two_devices(self):
        done = self.json("run", "model-new", "--problem", self.PROBLEM, "--device", "cpu", "--beside", "cpu")
        self.assertEqual(done["beside"]["device"], "cpu")
        self.assertTrue(done["beside"]["check"]["correct"])
        self.assertEqual(done["between"]["outputs"], 2 * 6 * 12 * 3)
        self.assertEqual(done["between"]["share_of_bound"], 0)
        self.assertIsNone(self.json("run", "model-new", "--problem", self.PROBLEM, "--device", "cpu")["beside"])
        text = self.ok("run", "model-new", "--problem", self.PROBLEM, "--device", "cpu", "--beside", "cpu")
        for part in ("the same on cpu", "times as fast as cpu", "agree: their results differ by at most 0"):
            self.assertIn(part, text)
        self.fails(1, "no device 'tpu'", "run", "model-new", "--problem", self.PROBLEM, "--beside", "tpu")

    def test_batch_seed_and_algorithm(self):
        def values(*options):
            self.ok("run", "model-new", "--problem", self.PROBLEM, "--save", self.path("y.npy"), *options)
            return read_npy(self.path("y.npy"))[1]

        first = values("--seed", "5")
        self.assertEqual(first, values("--seed", "5", "--threads", "1"))
        self.assertNotEqual(first, values("--seed", "6"))
        self.assertEqual(len(values("--batch", "1")) * 2, len(first))
        done = self.json("run", "model-new", "--problem", self.PROBLEM + "_bias_relu", "--algorithm", "reference")
        self.assertEqual(done["algorithm"], "reference")
        self.assertTrue(done["check"]["correct"])
        self.assertNotIn("refuses", self.ok("run", "model-new", "--problem", self.PROBLEM, "--algorithm", "reference"))
        self.json("run", "model-new", "--problem", self.PROBLEM, "--batch", "0")

    def test_problems_that_are_none(self):
        self.fails(2, "there is no problem 'Z'", "run", "model-new", "--problem", "Z")
        self.fails(2, "expected 'h' at position 4", "run", "model-new", "--problem", "n1c1x")

    def test_a_file_over_the_size_limit(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        folder = self.path("limited")
        os.mkdir(folder)
        done = talc("run", "model-new", "--problem", "n1c1h40w40o1k1x1", "--save", os.path.join(folder, "y.npy"),
                    preexec_fn=limit)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(os.listdir(folder), [])

    def test_failures(self):
        self.fails(2, "no residual", "run", "model-new", "--problem", self.PROBLEM + "_residual")
        self.fails(1, "no algorithm 'no_such'", "run", "model-new", "--problem", self.PROBLEM, "--algorithm", "no_such")
        self.fails(1, "no_folder", "run", "model-new", "--problem", self.PROBLEM, "--save",
                   self.path("no_folder/y.npy"))


class BrokenOpenBLAS(Tool):
    def test_what_is_said(self):
        """A library that is there and does not open is not called missing."""
        open(self.path("libopenblas.so.0"), "w").close()
        done = talc("explain", "n1c16h40w40o16k1x1",
                    env=os.environ | {"LD_LIBRARY_PATH": os.path.dirname(self.path("x"))})
        self.assertRegex(done.stdout, r"refuses: OpenBLAS cannot be opened:\s+/\S*libopenblas.so.0: file too short")
        self.assertRegex(done.stdout, "-> pointwise")


@unittest.skipIf(b"__asan_init" in open(TALC, "rb").read(), "a sanitizer takes the address space")
class ShortOfAddressSpace(Tool):
    """OpenBLAS waits for ever for 128 MiB that it cannot have, so it must not be asked then."""

    def limited(self, mebibytes, *arguments):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))
        return talc(*arguments, preexec_fn=limit, timeout=60)

    def test_a_convolution(self):
        x, w, y = (self.path(name) for name in ("x.npy", "w.npy", "y.npy"))
        write_npy(x, (1, 16, 40, 40), whole_numbers(16 * 40 * 40, 1))
        write_npy(w, (16, 16, 3, 3), whole_numbers(16 * 16 * 9, 2))
        talc("conv2d", x, w, "--algorithm", "reference", "--output", y)
        expected = read_npy(y)
        for mebibytes in itertools.chain(range(10, 60, 10), range(60, 420, 20)):
            for forced in [], ["--algorithm", "reference"], ["--algorithm", "im2col"]:
                with self.subTest(mebibytes=mebibytes, forced=forced):
                    done = self.limited(mebibytes, "conv2d", x, w, "--threads", "2", "--output", y, *forced)
                    if done.returncode == 0:
                        self.assertEqual(read_npy(y), expected)
                    else:
                        self.assertRegex(done.stderr, "address space|out of (host )?memory|cannot allocate|shared object")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_is_said(self):
        done = self.limited(100, "explain", "n1c16h40w40o16k3x3")
        self.assertRegex(done.stdout, r"im2col *refuses: OpenBLAS needs \d+ MiB of address space, more\s+than\s+there is")
        self.assertRegex(done.stdout, r"-> implicit_gemm")
        self.assertRegex(self.limited(100, "explain", "n1c16h40w40o16k1x1").stdout, r"-> pointwise")
        self.assertIn("OpenBLAS needs", self.limited(100, "info").stdout)


class CheckGrad(Tool):
    def test_some_by_name(self):
        text = self.ok("check", "grad", "conv2d", "relu", "--device", "cpu")
        lines = text.split("\n\n")[0].splitlines()
        self.assertGreater(len(lines), 5)
        for line in lines:
            self.assertRegex(line, r"^passed  (conv2d|relu) +\d+ slopes, worst +\S+e-1\d")
        self.assertRegex(text, r"\ncpu: passed: cases: %d, failed: 0\n" % len(lines))

    def test_json(self):
        done = self.json("check", "grad", "lenet", "cross_entropy", "--device", "cpu", "--seed", "3")
        self.assertEqual([done[key] for key in ("device", "seed", "passed", "failed")], ["cpu", 3, True, 0])
        self.assertEqual([case["name"] for case in done["cases"]], ["cross_entropy"] * 3 + ["lenet"])
        for case in done["cases"]:
            self.assertTrue(case["passed"])
            self.assertLess(case["worst"], case["tolerance"])
            self.assertGreater(case["slopes"], 3)
        again = self.json("check", "grad", "lenet", "cross_entropy", "--device", "cpu", "--seed", "3", "--threads", "1")
        self.assertEqual(again["cases"], done["cases"])

    def test_a_kink_is_no_mistake(self):
        """Some ReLU of these changes sign within a step of 1e-6."""
        self.ok("check", "grad", "resnet20", "--device", "cpu", "--seed", "11")

    def test_a_seed_draws_others(self):
        worst = [self.json("check", "grad", "sigmoid", "--device", "cpu", "--seed", seed)["cases"][0]["expected"] for seed in "12"]
        self.assertNotEqual(*worst)

    def test_failures(self):
        self.fails(2, "there is no op or model 'conv3d'; there are .*abs, .*conv2d, .*lenet, resnet20, resnet20-b", "check", "grad",
                   "conv2d", "conv3d")
        self.fails(2, "--seed", "check", "grad", "--seed", "-1")
        self.fails(2, "no_such", "check", "grad", "relu", "--device", "no_such")
        self.assertIn("resnet20-b", self.ok("check", "grad", "--help"))


class CheckModel(Tool):
    def check(self, *arguments, code=0):
        done = talc("check", "model", *arguments, "--json")
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout)

    def test_two_algorithms(self):
        done = self.check("lenet", "--algorithm", "conv2d=im2col")
        self.assertTrue(done["passed"])
        self.assertIsNone(done["first_wrong"])
        self.assertEqual([layer["op"] for layer in done["layers"]].count("conv2d"), 2)
        for layer in done["layers"]:
            self.assertLessEqual(layer["own"], 1)
            self.assertLessEqual(layer["accumulated"], 1)
        self.assertEqual(done["layers"][0]["algorithm"], "im2col")
        self.assertIn("passed", self.ok("check", "model", "resnet20", "--batch", "1"))

    def test_fused_and_unfused(self):
        layers = self.check("resnet20", "--batch", "1")["layers"]
        unfused = self.check("resnet20", "--batch", "1", "--unfused")["layers"]
        names = [(layer["layer"], layer["op"]) for layer in layers]
        self.assertEqual(names[:3], [("conv1+bn1+relu:fold", "batch_norm2d")] * 2 + [("conv1+bn1+relu", "conv2d")])
        self.assertEqual([layer["op"] for layer in layers].count("relu"), 0)
        self.assertEqual([layer["op"] for layer in unfused].count("relu"), 19)
        self.assertEqual([(layer["layer"], layer["op"]) for layer in unfused][:3],
                         [("conv1", "conv2d"), ("bn1", "batch_norm2d"), ("relu", "relu")])
        self.assertEqual([layer["output"] for layer in layers][-1], [1, 10])

    def test_saved_activations(self):
        path = self.path("activations.safetensors")
        self.check("resnet20-b", "--batch", "1", "--save-activations", path)
        done = self.check("resnet20-b", "--batch", "1", "--activations", path)
        self.assertTrue(done["passed"])
        self.assertEqual({layer["difference"] for layer in done["layers"]} - {None}, {0})
        self.assertEqual([done["skipped"], done["training"]], [[], False])
        done = self.check("resnet20-b", "--batch", "1", "--activations", path, "--seed", "2", code=1)
        self.assertFalse(done["passed"])
        self.assertEqual(done["first_wrong"], 0)
        self.assertGreater(done["layers"][0]["unexplained"], done["layers"][0]["allowed"])

    def test_in_train_mode(self):
        done = self.check("efficientnet_b0", "--batch", "1", "--input", "1x3x40x40", "--train")
        self.assertTrue(done["passed"] and done["training"])
        self.fails(2, "those of evaluation mode", "check", "model", "lenet", "--train", "--save-activations", self.path("a"))

    def test_failures(self):
        self.fails(2, "there is no network 'alex'; there are lenet, ", "check", "model", "alex")
        self.fails(2, "which model", "check", "model")
        self.fails(2, "no algorithm 'no_such'", "check", "model", "lenet", "--algorithm", "conv2d=no_such")
        self.fails(2, "no op softmax ran", "check", "model", "lenet", "--algorithm", "softmax=rows")
        self.fails(2, "no_file", "check", "model", "lenet", "--activations", self.path("no_file"))
        self.fails(2, "no_file", "check", "model", "lenet", "--weights", self.path("no_file"))
        self.fails(2, "stand in for the reference", "check", "model", "lenet", "--reference", "cpu",
                   "--activations", self.path("no_file"))
        write_npy(self.path("empty.npy"), [0, 1, 28, 28], [])
        self.fails(2, "nothing was compared", "check", "model", "lenet", "--input", self.path("empty.npy"))
        self.fails(2, "nothing was compared", "check", "model", "lenet", "--input", self.path("empty.npy"), "--json")
        write_npy(self.path("nan.npy"), [1, 1, 28, 28], [float("nan")] * 784)
        self.fails(2, "check_model: x has 784 elements that are not finite of 784", "check", "model", "lenet", "--input",
                   self.path("nan.npy"))
        write_npy(self.path("one.npy"), [1, 1, 28, 28], [float("inf")] + [0] * 783)
        self.fails(2, "nothing was compared", "check", "model", "lenet", "--input", self.path("one.npy"))
        self.fails(2, r"image.npy' is \[1,3,28,28\], the network takes \[N,1,H,W\]", "check", "model", "lenet", "--input", self.image())

    def image(self):
        write_npy(self.path("image.npy"), [1, 3, 28, 28], [0] * (3 * 28 * 28))
        return self.path("image.npy")


# Parameters of each network, from torchvision's pages where it has the network, else counted by hand from its table.
PARAMETERS = {
    "lenet": 61706, "alexnet": 61100840, "vgg11": 132863336, "vgg16": 138357544, "vgg19": 143667240, "resnet18": 11689512,
    "resnet34": 21797672, "resnet50": 25557032, "resnet101": 44549160, "resnet20": 269722, "resnet20-b": 272474,
    "squeezenet1_1": 1235496, "mobilenet_v1": 4231976, "mobilenet_v2": 3504872, "googlenet": 13004888, "densenet121": 7978856, "densenet201": 20013928,
    "efficientnet_b0": 5288548,
    "efficientnet_b1": 7794184, "efficientnet_b2": 9109994, "vit_c": 4567936, "shufflenet_g3": 1865728, "regnet_x_400mf": 5495976, "unet": 31037698,
    "convnext_tiny": 28589128, "dcgan": 6350464,
}


def write_png(path, width, height, pixels, color_type=2):
    """Rows of bytes, 3 a pixel unless the type says otherwise."""
    stride = len(pixels) // height
    rows = b"".join(b"\0" + pixels[i * stride:(i + 1) * stride] for i in range(height))

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def safetensors(path, change=lambda entries: None, metadata=None):
    """Writes the file again with its entries changed: name -> [dtype, shape, bytes]; and with this metadata, if any."""
    with open(path, "rb") as file:
        content = file.read()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    entries = {name: [e["dtype"], e["shape"], content[start + e["data_offsets"][0]:start + e["data_offsets"][1]]]
               for name, e in json.loads(content[8:start]).items() if name != "__metadata__"}
    change(entries)
    header, at = {} if metadata is None else {"__metadata__": metadata}, 0
    for name, (dtype, shape, data) in entries.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in entries.values()))


class Networks(Tool):
    def test_the_list(self):
        rows = self.json("summary")
        self.assertEqual({row["network"]: row["parameters"] for row in rows}, PARAMETERS)
        self.assertEqual([row["image"] for row in rows if row["network"] == "lenet"], [[1, 28, 28]])
        self.assertRegex(self.ok("summary"), r"(?m)^resnet50 +3x224x224 +1000 +25557032  (.*\n)?.*1512.03385")

    def test_summary(self):
        done = self.json("summary", "resnet18", "--input", "2x3x64x64")
        self.assertEqual((done["parameters"], done["input"]), (11689512, [2, 3, 64, 64]))
        layers = {layer["layer"]: layer for layer in done["layers"]}
        stem = layers["conv1"]
        self.assertEqual((stem["type"], stem["output"], stem["parameters"]), ("Conv2d", [2, 64, 32, 32], 9408))
        self.assertEqual((stem["macs"], stem["bytes"]), (2 * 32 * 32 * 9408, 4 * 2 * 64 * 32 * 32))
        leaves = [layer for name, layer in layers.items() if not any(other.startswith(name + ".") for other in layers) and name]
        self.assertEqual(done["activations"], sum(layer["bytes"] for layer in leaves))
        self.assertGreater(done["training_peak"], done["inference_peak"])
        self.assertGreater(done["inference_peak"], stem["bytes"])
        alone = self.json("summary", "shufflenet_g3", "--input", "1x3x32x32")  # one value a channel has no variance
        self.assertIsNone(alone["training_peak"])
        self.assertIn("batch_norm2d", alone["training_refused"])
        text = self.ok("summary", "lenet", "--device", "cpu")
        self.assertRegex(text, r"(?m)^fc1 +Linear +\[1,120\] +48,120 +48 k$")
        self.assertRegex(text, r"at most [\d.]+ KiB at once in a forward pass, [\d.]+ KiB in one with gradients")

    def test_a_network_goes_to_an_onnx_file_and_back(self):
        if "writes no ONNX files" in talc("export", "lenet", "-o", self.path("lenet.onnx")).stderr:
            self.skipTest("built without nanopb")
        for network, input_shape in (("lenet", "1x1x28x28"), ("resnet20", "1x3x32x32"), ("mobilenet_v2", "1x3x64x64"),
                                     ("densenet121", "1x3x32x32")):
            path, x, y, z = (self.path(network + end) for end in (".onnx", "-x.npy", "-y.npy", "-z.npy"))
            done = self.json("export", network, "--seed", "3", "--input", input_shape, "-o", path)
            self.assertEqual((done["network"], done["saved"], done["weights"]), (network, path, None))
            # A batch of its own: the file leaves it open.
            shape = [2, *map(int, input_shape.split("x")[1:])]
            count = shape[0] * shape[1] * shape[2] * shape[3]
            write_npy(x, shape, [((i * 37) % 101) / 50 - 1 for i in range(count)])
            self.ok("run", network, "--seed", "3", "--input", x, "--output", y)
            ran = self.ok("run", path, "--input", x, "--output", z)
            self.assertIn("its own weights", ran.replace("\n", " "))
            expected, got = read_npy(y)[1], read_npy(z)[1]
            size = sum(value * value for value in expected) ** 0.5
            self.assertLess(sum((a - b) ** 2 for a, b in zip(expected, got)) ** 0.5, 1e-5 * size)
        self.assertRegex(self.ok("summary", self.path("lenet.onnx")), r"fc1 +Linear")
        self.assertIn("Conv2d", self.ok("explain", self.path("lenet.onnx")))
        self.assertIn("passed", self.ok("check", "model", self.path("lenet.onnx")))
        self.fails(2, r"which file\? --output", "export", "lenet")
        self.fails(2, r"input 'x' is \[1,1,30,30\], the file's is \[batch,1,28,28\]", "run", self.path("lenet.onnx"), "--input",
                   "1x1x30x30")

    def onnx_of_relu(self, dims):
        """A file of y = Relu(x), whose x has these extents, a text for one that it leaves open."""
        def varint(n):
            return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

        def field(number, value):
            if isinstance(value, int):
                return varint(8 * number) + varint(value)
            value = value.encode() if isinstance(value, str) else value
            return varint(8 * number + 2) + varint(len(value)) + value

        shape = b"".join(field(1, field(1, dim) if isinstance(dim, int) else field(2, dim)) for dim in dims)
        x = field(1, "x") + field(2, field(1, field(1, 1) + field(2, shape)))
        node = field(1, "x") + field(2, "y") + field(4, "Relu")
        graph = field(1, node) + field(2, "g") + field(11, x) + field(12, field(1, "y") + field(2, field(1, field(1, 1))))
        path = self.path("relu.onnx")
        with open(path, "wb") as file:
            file.write(field(1, 8) + field(7, graph) + field(8, field(2, 17)))
        return path

    def test_an_onnx_file_of_other_than_images(self):
        if "writes no ONNX files" in talc("export", "lenet", "-o", self.path("lenet.onnx")).stderr:
            self.skipTest("built without nanopb")
        path = self.onnx_of_relu(["batch", 3, 5])
        self.assertEqual(self.json("run", path)["output"], [1, 3, 5])
        self.assertEqual(self.json("run", path, "--input", "2x3x5")["output"], [2, 3, 5])
        for command in (["summary"], ["bench"], ["explain"], ["check", "model"]):
            self.ok(*command, path)
        self.fails(2, r"input 'x' is \[1,4,5\], the file's is \[batch,3,5\]", "run", path, "--input", "1x4x5")
        self.fails(2, r"takes no images: its input 'x' is", "run", path, "--input", "x.png")
        path = self.onnx_of_relu(["batch", 3, "time"])
        self.fails(2, r"leaves the shape of input 'x' open, \[\?,3,\?\]: --input says it, as --input 1x3xN", "run", path)
        self.assertIn("[2,3,9]", self.ok("explain", path, "--input", "2x3x9"))
        self.fails(2, r"--input is for models", "explain", "x 1x1x4x4, w 1x1x3x3", "--input", "1x1x4x4")

    def test_a_summary_up_to_the_layer_that_fails(self):
        done = talc("summary", "lenet", "--input", "1x1x40x40", "--device", "cpu")
        self.assertEqual(done.returncode, 2)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()],
                         ["layer", "(model)", "conv1", "conv2", "pool", "flatten", "fc1"], done.stdout)
        self.assertRegex(done.stdout, r"(?m)^fc1 +Linear +failed +48,120 +0$")
        self.assertIn("fc1: linear: x [1,1024] has 1024 features, weight [120,400] needs 400", done.stderr)

    def test_small_networks_run(self):
        for name, shape, output in (("squeezenet1_1", "1x3x40x40", [1, 1000]), ("shufflenet_g3", "2x3x32x32", [2, 1000]),
                                    ("mobilenet_v1", "1x3x33x32", [1, 1000]), ("regnet_x_400mf", "1x3x32x32", [1, 1000]),
                                    ("googlenet", "1x3x33x33", [1, 1000]), ("unet", "1x3x16x32", [1, 2, 16, 32]),
                                    ("efficientnet_b0", "1x3x32x32", [1, 1000]), ("vit_c", "1x3x224x224", [1, 1000])):
            self.assertEqual(self.json("run", name, "--input", shape)["output"], output, name)

    def saved(self):
        """Weights of lenet: all 0 but the last bias, which counts down."""
        path = self.path("weights.safetensors")
        folder = os.path.join(os.path.dirname(os.path.dirname(TALC)), "examples")
        done = subprocess.run([os.path.join(folder, "example_save_and_load"), "lenet", path], capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

        def change(entries):
            for entry in entries.values():
                entry[2] = bytes(len(entry[2]))
            entries["fc3.bias"][2] = struct.pack("<10f", *range(10, 0, -1))
        safetensors(path, change)
        return path

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(os.path.dirname(TALC)), "examples", "example_save_and_load")),
                         "the examples are not built")
    def test_run_with_weights_and_labels(self):
        weights, output, labels = self.saved(), self.path("y.npy"), self.path("labels.txt")
        with open(labels, "w") as file:
            file.write("".join(f"digit {i}\r\n" for i in range(10)) + "\n\n")  # empty lines at the end are no labels
        done = self.json("run", "lenet", "--weights", weights, "--batch", "2", "--output", output, "--top", "3", "--labels", labels)
        self.assertEqual(read_npy(output), ([2, 10], 2 * [float(i) for i in range(10, 0, -1)]))
        self.assertEqual([c["label"] for c in done["classes"][1]], ["digit 0", "digit 1", "digit 2"])
        self.assertAlmostEqual(done["classes"][0][0]["probability"], 0.6321492, 6)  # (1 - 1/e) / (1 - exp(-10))
        text = self.ok("run", "lenet", "--weights", weights, "--labels", labels)
        self.assertRegex(text, r"image 0\n +63.215 % +0  digit 0\n$")
        for lines, count in (10 * ["digit"] + ["one more"], 11), (3 * ["digit"] + [""] + 7 * ["digit"], 11), (["", "digit"], 2), (9 * ["digit"], 9):
            with open(labels, "w") as file:
                file.write("\n".join(lines))
            self.fails(2, f"labels.txt' has {count} labels, lenet has 10 classes", "run", "lenet", "--labels", labels)
        self.fails(2, "nowhere", "run", "lenet", "--labels", self.path("nowhere"))
        self.fails(2, "cannot be read: Is a directory", "run", "lenet", "--labels", os.path.dirname(labels))
        self.fails(2, "--top 11 is more than the 10 classes", "run", "lenet", "--top", "11")
        self.fails(2, r"^talc run: unet: the output \[1,2,16,16\] has no classes", "run", "unet", "--input", "1x3x16x16", "--top", "1")

        def spoil(entries):
            del entries["conv1.weight"]
            entries["fc9.bias"] = ["F32", [1], bytes(4)]
            entries["fc1.bias"][1:] = [[60, 2], entries["fc1.bias"][2]]
        safetensors(weights, spoil)
        done = talc("run", "lenet", "--weights", weights)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("missing     conv1.weight [6,1,5,5]\ndiffers     fc1.bias is F32 [60,2] in the file, f32 [120] in the module\n"
                      "unexpected  fc9.bias [1]\ntalc run: module_load: ", done.stderr)
        self.fails(2, "no_file", "run", "lenet", "--weights", self.path("no_file"))
        done = talc("run", "resnet20", "--weights", weights)
        self.assertEqual(done.stderr.count("missing "), 10, done.stderr)
        all_differ = 19 + 19 * 5 + 2 + 10  # resnet20's, all of which are missing, and lenet's, which it has not
        self.assertIn(f"\n... and {all_differ - 10} more\ntalc run: module_load: ", done.stderr)

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(os.path.dirname(TALC)), "examples", "example_save_and_load")),
                         "the examples are not built")
    def test_weights_that_describe_their_model(self):
        weights, x, png = self.saved(), self.path("x.npy"), self.path("x.png")

        def one_class_less(entries):
            entries["fc3.bias"][1:] = [[9], struct.pack("<9f", *range(9, 0, -1))]
            entries["fc3.weight"][1:] = [[9, 84], bytes(9 * 84 * 4)]
            entries["conv1.bias"][2] = struct.pack("<6f", *range(6))
        described = {"talc.network": "lenet", "talc.image": "1x28x28", "talc.mean": "0.25", "talc.deviation": "0.5",
                     "talc.classes": "9", "talc.class_names": "\n".join(f"name {i}" for i in range(8)) + "\n\x1b[2J"}
        safetensors(weights, one_class_less, described)
        pixels = bytes(whole_numbers_255(28 * 28))
        write_png(png, 28, 28, pixels, color_type=0)
        text = self.ok("run", "--weights", weights, "--input", png, "--output", self.path("png.npy"), "--top", "9")
        self.assertRegex(text, r"^lenet on cpu")
        self.assertRegex(text, r"(?s) 0  name 0\n.* 7  name 7\n.* 8  \\x1b\[2J\n$")
        write_npy(x, [1, 1, 28, 28], [(p / 255 - 0.25) / 0.5 for p in pixels])
        self.ok("run", "lenet", "--weights", weights, "--input", x, "--output", self.path("npy.npy"))
        self.assertEqual(read_npy(self.path("png.npy")), read_npy(self.path("npy.npy")))
        done = self.json("run", "lenet", "--weights", weights, "--input", png, "--mean", "0.5", "--std", "1", "--top", "1")
        self.assertEqual((done["network"], done["classes"][0][0]["label"]), ("lenet", "name 0"))
        with open(self.path("labels"), "w") as file:
            file.write("\n".join(f"other {i}" for i in range(9)))
        self.assertIn("other 0", self.ok("run", "lenet", "--weights", weights, "--labels", self.path("labels")))
        self.fails(2, "x.png' is 28x28, 32x24 is asked for", "run", "--weights", self.described(weights, {**described, "talc.image": "1x32x24"}),
                   "--input", png)
        done = talc("run", "resnet20", "--weights", weights)
        self.assertRegex(done.stderr, "(?m)^talc run: module_load: .*; it says that it is of lenet$")
        for change in {"talc.classes": "x"}, {"talc.mean": "nan"}, {"talc.class_names": "a"}, {"talc.image": "1x-1x1"}, {"talc.classes": "65536"}:
            done = talc("run", "lenet", "--weights", self.described(weights, {**described, **change}))
            self.assertEqual((done.returncode, done.stdout), (2, ""), change)
            self.assertIn("module_load: ", done.stderr)
        for named, message in [({"talc.network": "mine"}, "says that it is of 'mine', which is no network"),
                               ({}, "does not say which network it is of")]:
            self.fails(2, message, "run", "--weights", self.described(weights, named))

    def described(self, weights, metadata):
        safetensors(weights, metadata=metadata)
        return weights

    def test_images_of_any_size(self):
        """torchvision's recipe for ImageNet's networks, by default; --resize and --crop for all."""
        name, wide, own = "squeezenet1_1", self.path("wide.png"), self.path("own.png")

        def output(image, *arguments):
            self.ok("run", name, "--input", image, "--output", self.path("y.npy"), *arguments)
            return read_npy(self.path("y.npy"))
        write_png(wide, 400, 300, bytes(whole_numbers_255(400 * 300 * 3)))
        pixels = bytes(whole_numbers_255(224 * 224 * 3))
        write_png(own, 224, 224, pixels)
        self.assertEqual(output(wide), output(wide, "--resize", "256", "--crop", "224x224"))
        self.assertEqual(output(wide, "--resize", "256x341"), output(wide, "--resize", "256"))
        self.assertNotEqual(output(wide), output(wide, "--resize", "256"))
        self.assertNotEqual(output(own), output(own, "--crop", "224"))
        mean, deviation = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        write_npy(self.path("x.npy"), [1, 3, 224, 224], [(pixels[3 * i + c] / 255 - mean[c]) / deviation[c] for c in range(3) for i in range(224 * 224)])
        self.assertEqual(output(own, "--crop", "224"), output(self.path("x.npy")))
        self.assertIn("1x1000", self.ok("summary", name, "--input", wide).replace("[1,1000]", "1x1000"))
        write_png(self.path("grey.png"), 20, 40, bytes(800), color_type=0)
        self.fails(2, r"grey.png' is 40x20, 28x28 is asked for", "run", "lenet", "--input", self.path("grey.png"))
        self.ok("run", "lenet", "--input", self.path("grey.png"), "--resize", "28x28")
        self.ok("run", "lenet", "--input", self.path("grey.png"), "--crop", "28")
        for option in "--resize", "--crop":
            for size in "0", "x", "3x", "x3", "3x0", "3,3", "-3", "3x3x3", "1048577", "", "9" * 80:
                self.fails(2, rf"{option}: '{size}' is neither N nor HxW, of sides of 1 .. 1048576 pixels$" if len(size) < 9 else option, "run", "lenet",
                           f"{option}={size}")
            self.fails(2, "--resize and --crop are of an image, and there is none$", "run", "lenet", option, "3")

    def test_efficientnet_resizes_bicubically(self):
        """Pixels 100 and 200 as three: by the formulas, and not what another network makes of them. They are scaled up, as random
        weights make them vanish from layer to layer."""
        two, three = self.path("two.png"), self.path("three.png")

        def output(name, image, *arguments):
            self.ok("run", name, "--input", image, "--output", self.path("y.npy"), "--mean", "0", "--std", "1e-15", *arguments)
            return read_npy(self.path("y.npy"))

        def written(path, values):
            write_png(path, len(values), 1, bytes(value for value in values for _ in range(3)))
        written(two, (100, 200))
        for name, bicubic in ("efficientnet_b0", True), ("mobilenet_v2", False):
            for values, expected in ((93, 150, 207), bicubic), ((100, 150, 200), not bicubic):
                written(three, values)
                self.assertEqual(output(name, two, "--resize", "1x3") == output(name, three, "--crop", "1x3"), expected, (name, values))

    def test_many_images(self):
        """A table or JSON of the classes of files and folders; what cannot be read is named, and the others go on."""
        folder = pathlib.Path(self.path("photos"))
        folder.mkdir()
        header = (pathlib.Path(__file__).resolve().parents[1] / "support" / "image_cases.h").read_text()
        jpeg = bytes(int(byte) for byte in re.search(r"jpeg_grey\[\] = \{([^}]*)", header)[1].split(",") if byte.strip())
        (folder / "b.JPG").write_bytes(jpeg)
        (folder / "c.jpeg").write_bytes(jpeg[:-40])
        write_png(str(folder / "a.png"), 28, 28, bytes(whole_numbers_255(28 * 28)), color_type=0)
        write_png(str(folder / ".hidden.png"), 28, 28, bytes(28 * 28), color_type=0)
        (folder / "notes.txt").write_text("no image")
        size = ["--resize", "28x28"]
        a, b, c = (str(folder / name) for name in ("a.png", "b.JPG", "c.jpeg"))
        done = talc("run", "lenet", str(folder), *size, "--top", "2")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"talc run: image_load: '{c}' ends early: it has {len(jpeg) - 40} bytes\n")
        self.assertRegex(done.stdout, r"^lenet on cpu: 2 images in .*, random weights\n")
        self.assertEqual(len(re.findall(r"(?m)\d\.\d+ %$", done.stdout)), 4, done.stdout)
        self.assertLess(done.stdout.index(a), done.stdout.index(b))
        self.assertNotIn("hidden", done.stdout)
        done = talc("run", "lenet", b, self.path("photos") + "/", self.path("no.png"), *size, "--json")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot open '{self.path('no.png')}'", done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual([image["file"] for image in answer["images"]], [b, a, b, c, self.path("no.png")])
        self.assertEqual([len(image["classes"]) for image in answer["images"]], [5, 5, 5, 0, 0])
        self.assertEqual([image["error"] is None for image in answer["images"]], [True, True, True, False, False])
        for image in answer["images"][:3]:
            self.assertEqual(image["classes"], self.json("run", "lenet", "--input", image["file"], *size)["classes"][0])
        with open(self.path("names"), "w") as file:
            file.write("".join(f"name {i}\n" for i in range(10)))
        text = self.ok("run", "lenet", a, "--labels", self.path("names"), "--top", "1")
        self.assertRegex(text, r"label\n.*a.png +(\d) +[\d.]+ %  name \1\n")
        empty = pathlib.Path(self.path("empty"))
        empty.mkdir()
        self.fails(1, r"'.*empty' holds no \*.png, \*.jpg or \*.jpeg$", "run", "lenet", str(empty))
        self.fails(1, r"talc run: image_load: '.*b.JPG' is 13x17, 28x28 is asked for", "run", "lenet", b)
        self.fails(1, r"talc run: '.*b.JPG': .*max_pool2d: ", "run", "lenet", b, "--resize", "1")
        self.fails(2, "--top 11 is more than the 10 classes$", "run", "lenet", a, "--top", "11")
        self.fails(2, "cannot be read", "run", "lenet", a, "--labels", self.path("nosuch"))
        self.fails(2, "--mean has 3 numbers, lenet has 1 channel$", "run", "lenet", a, b, "--mean", "1,2,3")
        for option, value in ("--input", a), ("--output", "y.npy"), ("--batch", "2"):
            self.fails(2, f"'.*a.png' is an image of a list, which {option} is not for", "run", "lenet", a, option, value)
        write_png(self.path("colour.png"), 64, 64, bytes(64 * 64 * 3))
        self.fails(2, r"unet: the output \[1,2,64,64\] has no classes to rank", "run", "unet", self.path("colour.png"), "--resize", "64")
        self.fails(2, "is one argument too many", "summary", "lenet", a)

    def test_an_image(self):
        """A network sees (pixel / 255 - mean) / deviation: the same as of .npy."""
        pixels, x = bytes(whole_numbers_255(32 * 32 * 3)), self.path("x.npy")
        write_png(self.path("x.png"), 32, 32, pixels)
        self.ok("run", "resnet20", "--input", self.path("x.png"), "--output", self.path("png.npy"))
        mean, deviation = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        write_npy(x, [1, 3, 32, 32], [(pixels[3 * i + c] / 255 - mean[c]) / deviation[c] for c in range(3) for i in range(1024)])
        self.ok("run", "resnet20", "--input", x, "--output", self.path("npy.npy"))
        self.assertEqual(read_npy(self.path("png.npy")), read_npy(self.path("npy.npy")))
        write_npy(x, [1, 3, 32, 32], [(pixels[3 * i + c] / 255 - 0.5) / 0.25 for c in range(3) for i in range(1024)])
        self.ok("run", "resnet20", "--input", x, "--output", self.path("npy.npy"))
        self.ok("run", "resnet20", "--input", self.path("x.png"), "--output", self.path("png.npy"), "--mean", "0.5", "--std", ".25,.25,.25")
        self.assertEqual(read_npy(self.path("png.npy")), read_npy(self.path("npy.npy")))
        for option, numbers in ("--mean", "0.485,0.456,0.406"), ("--std", "0.229,0.224,0.225"):  # the other is ImageNet's then too
            self.ok("run", "resnet20", "--input", self.path("x.png"), "--output", self.path("one.npy"), option, numbers)
            self.ok("run", "resnet20", "--input", self.path("x.png"), "--output", self.path("png.npy"))
            self.assertEqual(read_npy(self.path("one.npy")), read_npy(self.path("png.npy")))
        self.ok("summary", "resnet20", "--input", self.path("x.png"))
        # The five likeliest classes of an image are shown unless others are asked for; random input has none.
        for arguments, classes in (["--input", self.path("x.png")], 5), (["--input", x], 5), (["--input", self.path("x.png"), "--top", "2"], 2), ([], 0), (["--input", "1x3x32x32"], 0):
            text = self.ok("run", "resnet20", *arguments)
            shares = [float(share) for share in re.findall(r"(?m)^ +([\d.]+) %  +\d", text)]
            self.assertEqual((len(shares), shares), (classes, sorted(shares, reverse=True)), text)
        self.assertEqual([len(image) for image in self.json("run", "resnet20", "--input", self.path("x.png"))["classes"]], [5])
        self.fails(2, "--input: '.*x.npy' after '.*x.png': one is taken; several images are one .npy", "run", "resnet20", "-x", self.path("x.png"), "-x", x)
        for command in ["run", "resnet20"], ["run", "model-new"]:
            self.fails(2, "'mask.png' does not end in .npy, which is what is written", *command, "-o", "mask.png")
        write_npy(self.path("nan.npy"), [1, 1, 28, 28], [math.nan] * 784)
        text = self.ok("run", "lenet", "--input", self.path("nan.npy"), "--top", "3")
        self.assertEqual(re.findall(r"nan % +(\d)", text), ["0", "1", "2"])
        for command in "run", "summary", "bench":
            self.fails(2, r"x.png' is 32x32, 28x28 is asked for \(height x width\)$", command, "lenet", "--input", self.path("x.png"))
            self.fails(2, "cannot open '1xax9'", command, "lenet", "--input", "1xax9")
        write_png(self.path("colour.png"), 28, 28, bytes(28 * 28 * 3))
        self.fails(2, "colour.png' has 3 channels, colours, 1 is asked for", "run", "lenet", "--input", self.path("colour.png"))
        with open(self.path("x.jpg"), "wb") as file:
            file.write(b"GIF89a no PNG at all")
        self.fails(2, "x.jpg' begins with 47494638, it is neither PNG nor JPEG", "run", "lenet", "--input", self.path("x.jpg"))
        self.fails(2, r"'2x2' is \[2,2\], the network takes \[N,1,H,W\]", "run", "lenet", "--input", "2x2")
        write_npy(x, [1, 3, 192, 192], [0] * (3 * 192 * 192))
        for command in ["run"], ["summary", "--json"], ["bench"], ["check", "model"]:
            self.fails(2, r": vit_c: '.*x.npy' is \[1,3,192,192\], the network is made for \[N,3,224,224\]: add: a ", *command, "vit_c", "--input", x)
            self.fails(2, r"'1x1x40x40' is .*, the network is made for \[N,1,28,28\]: fc1: linear", *command, "lenet", "--input", "1x1x40x40")
            self.fails(2, r"the network is made for \[N,3,256,256\]: ", *command, "unet", "--input", "1x3x50x50")
            # Before a random model is run on images of its own size, which may take minutes.
            ran = talc(*command, "lenet", "--input", "1x1x40x40", env=dict(os.environ, TALC_VERBOSE="exec")).stderr
            self.assertIn("h40w40", ran)
            self.assertNotIn("h28w28", ran)
        self.fails(2, "--mean: '1,2' has 2 numbers, not 1 or 3", "run", "lenet", "--mean", "1,2")
        self.fails(2, "--std: '1,2,3,4' is not a number", "run", "lenet", "--std", "1,2,3,4")
        self.fails(2, "--std: '1,0,1' is no deviation", "run", "lenet", "--std", "1,0,1")
        write_png(self.path("grey.png"), 28, 28, bytes(28 * 28), color_type=0)
        self.fails(2, "--mean has 3 numbers, lenet has 1 channel$", "run", "lenet", "--input", self.path("grey.png"), "--mean", "1,2,3")
        self.fails(2, "--mean and --std are of an image's pixels, and there is none", "run", "lenet", "--mean", "0.5")
        self.fails(2, "--batch is 3, '2x1x28x28' has 2 images", "run", "lenet", "--batch", "3", "--input", "2x1x28x28")

    def test_a_checkpoint_of_pytorch(self):
        for name in "x.pt", "x.pth":
            open(self.path(name), "w").close()
            for command in ["run"], ["check", "model"]:
                self.fails(2, name + r"': 0 bytes .*; tools/torch/pt2safetensors.py makes such a file of a checkpoint$",
                           *command, "lenet", "--weights", self.path(name))

    def test_bench(self):
        for train in [], ["--train"]:
            done = self.json("bench", "lenet", "--batch", "2", *train)
            self.assertEqual((done["input"], done["train"]), ([2, 1, 28, 28], bool(train)))
            self.assertEqual([way["way"] for way in done["ways"]], ["eager", "graph"])
            for way in done["ways"]:
                self.assertLessEqual(0, way["latency"][0])
                self.assertLessEqual(way["latency"][0], way["latency"][1])
                self.assertAlmostEqual(way["images_per_second"], 2 / way["in_a_row"][0], delta=1e-6 / way["in_a_row"][0])
                self.assertGreater(way["peak"], 4 * 61706)
        self.assertRegex(self.ok("bench", "unet", "--train", "--input", "1x3x32x16"), r"training steps of \[1,3,32,16\]\n.*latency")

    def test_check(self):
        done = self.json("check", "model", "squeezenet1_1", "--input", "1x3x40x40")
        self.assertTrue(done["passed"])
        self.assertEqual([layer["op"] for layer in done["layers"]].count("concat"), 8)

    def test_one_key_for_the_network(self):
        for command in ["run"], ["summary"], ["bench"], ["explain"], ["check", "model"]:
            done = self.json(*command, "lenet")
            self.assertEqual(done["network"], "lenet", command)
            self.assertNotIn("model", done)
        self.assertEqual(self.json("run", "model-new", "--problem", "n1c1h5w5o1k3")["network"], "model-new")
        self.assertEqual(self.json("summary")[0]["network"], "lenet")

    def test_the_documented_keys(self):
        """docs/json.md has every key that is printed, in the row of its command or among the shared values."""
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "json.md")) as file:
            page = file.read()
        shared, table = page.split("## Commands")
        rows = {words[0]: set(re.findall(r"`([\w.]+)`", line)) for line in table.split("\n") if (words := re.findall(r"^\| `([^`]+)` \|", line))}
        common = set(re.findall(r"`(\w+)`", shared))

        def keys(value):
            if isinstance(value, list):
                return set().union(*map(keys, value))
            return set(value) | set().union(*map(keys, value.values())) if isinstance(value, dict) else set()
        write_npy(self.path("x.npy"), [1, 1, 5, 5], whole_numbers(25, 1))
        write_png(self.path("x.png"), 28, 28, bytes(28 * 28), color_type=0)
        small = "n1c1h5w5o1k3p1"
        for row, arguments in {
            "info": ["info"], "conv2d": ["conv2d", self.path("x.npy"), self.path("x.npy")], "explain PROBLEM": ["explain", small], "explain NETWORK": ["explain", "lenet"],
            "summary": ["summary"], "summary NETWORK": ["summary", "lenet"], "run NETWORK": ["run", "lenet", "--top", "1"],
            "run NETWORK FILE": ["run", "lenet", self.path("x.png")],
            "run model-new": ["run", "model-new", "--problem", small, "--beside", "cpu"], "bench NETWORK": ["bench", "lenet"],
            "bench growth": ["bench", "growth", "--base", small, "--sweep", "stride", "-r", "1"],
            "bench": ["bench", small, "host_view", "--repeat", "1"], "bench --list": ["bench", "--list"], "check": ["check", small, "--kinds", "exact"], "check --list": ["check", "--list", small],
            "check model": ["check", "model", "lenet"], "check grad": ["check", "grad", "relu"], "trace": ["trace", small, "--all", "--traffic"],
        }.items():
            printed = keys(self.json(*arguments))
            self.assertEqual(printed - rows[row] - common, set(), row)
            if row != "check":  # whose failures there are none of
                self.assertEqual(rows[row] & {"network", "device", "layers", "steps", "ways"} - printed, set(), row)
        self.assertEqual(len(rows), 19)

    def test_unknown_names(self):
        self.fails(2, "there is no problem 'resnet17'.* talc summary the networks", "bench", "resnet17")
        for command in ["run"], ["summary"], ["check", "model"]:
            self.fails(2, "there is no network 'resnet17'; there are lenet, .*, unet, dcgan, vit_c", *command, "resnet17")


class Bench(Tool):
    def test_every_kind_of_problem(self):
        for problem in ("n1c4h12w12o8k3x3", "n2c6h10w9o6k3x3p1x1g6", "n1c4h9w9o4k3x3d2x1g2_f64_bias_residual_tanh",
                        "n1c4h9w9o4k3x3p1x1_reflect", "n1c4h9w9o4k3x3p1x1_circular", "n1c2h9w9o2k3x3p2x2_replicate"):
            done = self.json("bench", problem, "--repeat", "1", "--threads", "1")["problems"][0]
            algorithms = [c for c in done["contenders"] if not c["peer"] and c["timed"]]
            self.assertTrue(algorithms, problem)
            for c in algorithms:
                self.assertTrue(c["right"], c)
                self.assertLessEqual(c["seconds_least"], c["seconds_median"])
                self.assertGreater(c["checked"], 0)
            peers = [c["name"] for c in done["contenders"] if c["peer"]]
            self.assertIn("copy of x" if "g6" in problem else "bare product", peers)

    def test_what_runs_by_default_alone(self):
        for problem in ("n1c4h12w12o8k3x3", "n2c6h10w9o6k3x3p1x1g6_dw"):
            done = self.json("bench", problem, "--chosen", "--unchecked", "--no-peers", "--repeat", "1")["problems"][0]
            (only,) = done["contenders"]
            title = f"{only['name']}({only['form']})" if only["form"] else only["name"]
            self.assertEqual((title, only["timed"], only["checked"]), (done["chosen"], True, 0))
        self.fails(2, "--chosen and --algorithm=im2col: one of the two", "bench", problem, "--chosen", "-a", "im2col")

    def test_text(self):
        text = self.ok("bench", "n1c4h12w12o8k3x3", "--repeat", "2")
        for part in ("reference", "bare product", "GFLOP/s"):
            self.assertIn(part, text)
        self.assertRegex(text, r"im2col / bare product \d+\.\d\d")
        self.assertNotIn("bare product", self.ok("bench", "n1c4h12w12o8k3x3", "--repeat", "1", "--no-peers"))

    def test_the_choice_is_held_against_the_fastest(self):
        problems = ("n1c4h12w12o8k3x3", "n2c6h10w9o6k3x3p1x1g6", "n1c8h12w12o8k1x1")
        done = self.json("bench", *problems, "--repeat", "2", "--threads", "1")
        good = 0
        for problem, text in zip(done["problems"], problems):
            self.assertEqual(problem["chosen"], self.json("explain", text)["chosen"])
            timed = {f"{c['name']}({c['form']})" if c["form"] else c["name"]: c
                     for c in problem["contenders"] if c["timed"] and not c["peer"]}
            least = min(c["seconds_least"] for c in timed.values() if c["class"] == "strict")
            self.assertEqual(timed[problem["fastest"]]["seconds_least"], least)
            ratio = timed[problem["chosen"]]["seconds_least"] / least
            self.assertAlmostEqual(problem["chosen_to_fastest"], ratio, 3)
            self.assertTrue(all(c["seconds_estimated"] is None for c in problem["contenders"]), "the CPU estimates")
            good += ratio <= 1.15
        self.assertEqual((done["choices"], done["good_choices"]), (3, good))
        text = self.ok("bench", *problems[:2], "--repeat", "1", "--no-peers")
        self.assertRegex(text, r"takes at most 15 % longer than the fastest of its class on\s+\d of 2 problems")
        self.assertEqual(len(re.findall(r"\n  (?:implicit_gemm|depthwise\(planes\)) is chosen: ", text)), 2)
        self.assertIn(" estimate ", text)
        self.assertNotIn("at most 15 % longer", self.ok("bench", problems[0], "--repeat", "1", "--no-peers"))

    def test_shares_are_of_the_rates(self):
        done = self.json("bench", "n1c4h12w12o8k3x3", "--repeat", "1", "--threads", "1", "--algorithm", "im2col")
        self.assertEqual((done["choices"], done["problems"][0]["chosen"], done["problems"][0]["fastest"]), (0, None, None))
        c = done["problems"][0]["contenders"][0]
        moved = 4 * (4 * 12 * 12 + 8 * 4 * 3 * 3 + 8 * 10 * 10)
        self.assertAlmostEqual(c["gigabytes_per_second"] * 1e9 * c["seconds_least"] / moved, 1)
        self.assertAlmostEqual(c["share_of_copy"] * done["copy_bytes_per_second"], c["gigabytes_per_second"] * 1e9, -3)
        self.assertAlmostEqual(c["share_of_product"] * done["product_flops_per_second"], c["gflops"] * 1e9, -3)
        self.assertEqual(done["problems"][0]["sets"], 1)

    def test_ops(self):
        named = {row["name"]: row["set"] for row in self.json("bench", "--list") if "problem" not in row}
        done = self.json("bench", "ops", "windows", "host", "--size", "2MiB", "--repeat", "1")
        self.assertEqual([op["name"] for op in done["ops"]], list(named))
        timed = [op for op in done["ops"] if op["timed"]]
        self.assertEqual([op["name"] for op in done["ops"] if not op["timed"]], ["max_11_2048", "host_conv2d_direct"])
        for op in timed:
            self.assertTrue(op["right"], op)
            self.assertGreater(op["seconds_least"], 0)
            self.assertEqual(op["checked"] > 0, named[op["name"]] != "host", op)
        shares = [op["share_of_bound"] for op in timed]
        self.assertTrue(0.5 < max(shares) <= 1, shares)
        ops = {op["name"]: op for op in done["ops"]}
        for name, passes in (("relu", 2), ("add", 3), ("transpose_f64", 2), ("transpose_u8", 2), ("add_turned", 3), ("batch_norm_train", 3), ("max_pool_2", 1.25), ("sum", 1)):
            moved = ops[name]["gigabytes_per_second"] * 1e9 * ops[name]["seconds_least"]
            self.assertAlmostEqual(moved / 2**21, passes, 3, name)
        text = self.ok("bench", "relu", "--size", "1MiB", "--repeat", "1")
        self.assertIn("ops on 1 MiB", text)
        self.assertNotIn("sigmoid", text)
        text = self.ok("bench", "host_view", "host_conv2d_direct", "--repeat", "1")
        self.assertIn("calls, the host's time", text)
        self.assertIn("no algorithm 'direct'", text)
        self.assertNotIn("host_relu", text)
        self.fails(2, "--size: '0' is not a size such as 64MiB", "bench", "relu", "--size", "0")

    def test_failures(self):
        self.fails(1, "no algorithm 'no_such'", "bench", "n1c4h12w12o8k3x3", "--algorithm", "no_such", "--json")


class VectorUnits(Tool):
    """The microkernels that this processor can run, each forced."""

    def test_each_passes_the_cross_check(self):
        ran = []
        for units in "portable", "avx2", "avx512":
            variables = os.environ | {"TALC_CPU": units}
            done = talc("info", "--json", env=variables)
            if json.loads(done.stdout)["vectors"] != units:
                self.assertIn(f"TALC_CPU={units} is ignored: this processor does not have it", done.stderr)
                continue
            ran.append(units)
            done = talc("check", "quick", "--device", "cpu", "--algorithm", "implicit_gemm", env=variables | {"COLUMNS": "100"})
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertRegex(done.stdout, r"conv2d.grad_weight +implicit_gemm +cpu +strict +[1-9]")
        self.assertIn("portable", ran)

    def test_fused_units_give_the_same_bits(self):
        results = {}
        for units in "avx2", "avx512":
            variables = os.environ | {"TALC_CPU": units}
            if json.loads(talc("info", "--json", env=variables).stdout)["vectors"] != units:
                continue
            x, w, y = (self.path(name) for name in ("x.npy", "w.npy", "y.npy"))
            generator = random.Random(5)
            write_npy(x, (2, 19, 23, 29), [generator.random() for _ in range(2 * 19 * 23 * 29)])
            write_npy(w, (31, 19, 3, 3), [generator.random() - 0.5 for _ in range(31 * 19 * 9)])
            done = talc("conv2d", x, w, "--padding", "1,1", "--device", "cpu", "--algorithm", "implicit_gemm",
                        "--output", y, env=variables)
            self.assertEqual(done.returncode, 0, done.stderr)
            results[units] = read_npy(y)
        self.assertEqual(len({str(result) for result in results.values()}), min(len(results), 1))


class Check(Tool):
    PROBLEM = "n2c3h9w8o4k3x3p1x1_bias"
    SHORT = ["--kinds", "exact,random", "--device", "cpu"]

    def test_one_problem(self):
        text = self.ok("check", self.PROBLEM, "--device", "cpu")
        for part in ("im2col", "reference", "refused", "cpu: passed", "seed 1"):
            self.assertIn(part, text)
        self.assertRegex(text, r"im2col +cpu +strict +1 +0 ")
        self.assertNotIn("depthwise", self.ok("check", self.PROBLEM, "--algorithm", "im2col"))
        self.assertRegex(self.ok("check", "relu:8x16", "--device", "cpu"), r"relu +reference +cpu +strict +1 +0 ")

    def test_json(self):
        done = self.json("check", self.PROBLEM, "matmul:m5n6k7", "--seed", "7", "--device", "cpu")
        self.assertEqual((done["device"], done["seed"], done["passed"], done["problems"]), ("cpu", 7, True, 2))
        self.assertEqual(done["failures"], [])
        self.assertGreater(done["seconds"], 0)
        keys = {"op", "algorithm", "device", "class", "arithmetic", "problems", "refused", "checks", "failed", "share",
                "worst", "worst_kind"}
        self.assertEqual({row["op"] for row in done["rows"]}, {"conv2d", "matmul"})
        for row in done["rows"]:
            self.assertLessEqual(keys, row.keys())
            self.assertEqual((row["device"], row["failed"], row["problems"] + row["refused"]), ("cpu", 0, 1))
            if row["problems"] == 0:
                self.assertEqual((row["checks"], row["share"], row["worst"], row["worst_kind"]), (0, None, None, None))
            else:
                self.assertGreater(row["checks"], 10)
                self.assertTrue(0 < row["share"] <= 1, row)
                self.assertIn(row["worst"], ("n2c3h9w8o4k3x3s1x1p1x1d1x1g1_bias", "matmul:b1m5n6k7"))

    def test_what_is_checked(self):
        """Sets, texts, names and files, in any number."""
        with open(self.path("problems.txt"), "w") as file:
            file.write(f"# two problems\n\n  {self.PROBLEM}  # a comment\n\tsum:8x16@1\r\n")
        full = ["n2c3h9w8o4k3x3s1x1p1x1d1x1g1_bias", "sum:8x16@1"]
        self.assertEqual(self.json("check", self.path("problems.txt"), "--list"), full)
        self.assertEqual(self.ok("check", self.path("problems.txt"), "--list"), "\n".join(full) + "\n")
        self.assertEqual(self.json("check", "A1", *full, "--list")[1:], full)
        self.assertEqual(self.json("check", self.path("problems.txt"), "--op", "sum", "--list"), full[1:])
        self.assertEqual(self.json("check", "conv64_dw", "--list"), ["n1c64h112w112o64k3x3s1x1p0x0d1x1g1_dw"])
        gradients = [self.PROBLEM + "_dx", self.PROBLEM + "_dw"]
        posed = ["n2c3h9w8o4k3x3s1x1p1x1d1x1g1_dx", "n2c3h9w8o4k3x3s1x1p1x1d1x1g1_dw"]
        self.assertEqual(self.json("check", *gradients, "--list"), posed)
        self.assertEqual(self.json("check", self.PROBLEM, *gradients, "--op", "conv2d.grad_input", "--list"), posed[:1])
        self.assertEqual(self.json("check", self.PROBLEM, *gradients, "--op", "conv2d", "--list"), full[:1])
        done = self.json("check", *gradients, *self.SHORT)
        self.assertEqual(({row["op"] for row in done["rows"]}, done["passed"]), ({"conv2d.grad_input", "conv2d.grad_weight"}, True))
        done = self.json("check", self.path("problems.txt"), *self.SHORT)
        self.assertEqual({row["op"] for row in done["rows"]}, {"conv2d", "sum"})
        self.assertEqual(self.json("check", "--list"), self.json("check", "quick", "--list"))
        self.assertGreaterEqual(len(self.json("check", "edges", "--list")), 300)

    def test_random(self):
        def listed(*arguments):
            return self.json("check", *arguments, "--list")
        self.assertEqual(len(listed("random")), 1000)
        self.assertEqual(listed("random", "40"), listed("random")[:40])
        self.assertEqual(listed("random", "--count", "40", "--seed", "5"), listed("--seed", "5", "random", "40"))
        self.assertNotEqual(listed("random", "40", "--seed", "5"), listed("random", "40"))
        done = self.json("check", "random", "30", "--seed", "3", *self.SHORT)
        self.assertEqual((done["problems"], done["passed"]), (30, True))
        # Of one op so many of it, each the same as among all; another set beside it is only narrowed.
        norms = listed("random", "50", "--op", "batch_norm2d")
        self.assertEqual((len(norms), {text.split(":")[0] for text in norms}), (50, {"batch_norm2d"}))
        among_all = [text for text in listed("random", "600") if text.startswith("batch_norm2d:")]
        self.assertEqual(norms[:len(among_all)], among_all[:50])
        quick = listed("quick", "--op", "max")
        self.assertEqual(listed("quick", "random", "20", "--op", "max")[:len(quick)], quick)
        self.assertEqual(len(listed("quick", "random", "20", "--op", "max")), len(quick) + 20)
        self.assertEqual(len(listed("random", "20", "--op", "conv2d")), 20)

    def test_parts(self):
        """N processes side by side check every problem once."""
        def listed(*arguments):
            return self.json("check", *arguments, "--list")
        whole = listed("quick")
        parts = [listed("quick", "--part", f"{i}/7") for i in range(1, 8)]
        self.assertEqual(parts, [whole[i::7] for i in range(7)])
        self.assertEqual(listed("quick", "--part", "1/1"), whole)
        self.assertEqual(listed("random", "9", "--op", "sum", "--part", "2/2"), listed("random", "9", "--op", "sum")[1::2])
        done = self.json("check", "random", "10", "--part", "3/4", *self.SHORT)
        self.assertEqual(done["problems"], 2)
        self.fails(2, "nothing to check: part 2 of 2 of 1 problems$", "check", self.PROBLEM, "--part", "2/2")
        for wrong in ("0/4", "5/4", "4", "/4", "4/", "1/2/3", "x/4", "1/x", "-1/4", "1" * 40 + "/4", ""):
            self.fails(2, "--part: '.*' is no part such as 1/4 to 4/4", "check", "--part=" + wrong)

    def test_shares(self):
        """Of outputs of rank 4, 3, 2, 1 and 0, some sampled: those that were not compared are NaN."""
        path = self.path("y.npy")
        shapes = {self.PROBLEM: [2, 4, 9, 8], "matmul:m5n300k7": [1, 5, 300], "softmax:9x10@1": [9, 10],
                  "sum:8x300@1": [8], "mean:300": [], "max_pool2d:n1c2h9w9k3x3": [1, 2, 3, 3],
                  "n1c8h300w400o4k3x3": [1, 4, 298, 398]}
        for problem, shape in shapes.items():
            text = self.ok("check", problem, "--shares", path, "--kinds", "random", "--device", "cpu")
            op = problem.split(":")[0] if ":" in problem else "conv2d"
            self.assertRegex(text, rf"\n\S+y\.npy: y of {op} by \w+ on cpu, random: \S+\n$")
            written, shares = read_npy(path)
            self.assertEqual(written, shape, problem)
            self.assertTrue(all(s != s or 0 <= s <= 1 for s in shares), problem)
            compared = sum(s == s for s in shares)
            self.assertTrue(compared == len(shares) or 1000 < compared <= 4096, problem)
        self.assertIn(" of conv2d by im2col on cpu", self.ok("check", self.PROBLEM, "--shares", path, "--algorithm", "im2col"))

    def test_progress_bar(self):
        code, text = on_terminal(["check", "random", "40", "--device", "cpu"])
        self.assertEqual(code, 0)
        self.assertIn("\r\033[36m[", text)
        self.assertIn("passed\033[0m", text)

    def test_wrong_usage(self):
        def wrong(message, *arguments):
            self.fails(2, message, "check", *arguments)
        wrong(r"^talc check: check: there is no set 'fast'; the sets are quick, edges, models, random$", "fast")
        wrong(r"expected 'c' at position 2$", "n1q")
        wrong(r"'n2c3h9w8o4k3x3_blue': expected .* at position 15$", "n2c3h9w8o4k3x3_blue")
        wrong(r"matmul: problem 'matmul:m5q6': expected 'n' at position 9$", "matmul:m5q6")
        wrong(r"there is no op 'multiply' at position 0$", "multiply:m5n6k7")
        wrong("the kernel needs 5", self.PROBLEM, "n1c1h3w3o1k5x5")
        wrong("there is no device 'tpu'", "--device", "tpu")
        wrong("without CUDA|no CUDA|cuda", "--device", "cuda:99", self.PROBLEM)
        wrong("--kinds: there is no 'guess'", "--kinds", "exact,guess")
        wrong("--kinds: there is no ''", "--kinds", "exact,")
        wrong("--count: '0'", "random", "--count", "0")
        wrong("random: '0'", "random", "0")
        wrong("--seed: '-1'", "random", "--seed=-1")
        wrong("there is no set '5'", "5")
        wrong("no_such.txt: No such file", "no_such.txt")
        wrong("check: n1c1000000h1000w1000o1k1x1.* needs .* are free", "n1c1000000h1000w1000o1k1x1")

    def test_bad_files(self):
        def wrong(content, message):
            with open(self.path("p.txt"), "wb") as file:
                file.write(content)
            self.fails(2, message, "check", self.path("p.txt"))
        wrong(b"sum:8\n# x\nn1c1h3w3o1k1x1q\n", r"p\.txt:3: conv2d: problem '.*': expected .* at position 14$")
        wrong(b"sum:8\nquick\n", r"p\.txt:2: conv2d: problem 'quick': expected 'n' at position 0$")
        wrong(b"# nothing\n\n", r"p\.txt: there is no problem in it$")
        wrong(b"", r"p\.txt: there is no problem in it$")
        wrong(b"\x7f\x01\n", r"p\.txt:1: ")
        wrong(b"sum:8\n sum:9\0 sum:10\n", r"p\.txt:2: a zero byte at position 6$")
        wrong(b"sum:8 # \0\n", r"p\.txt:1: a zero byte at position 8$")
        wrong(b"sum:8\n\0", r"p\.txt:2: a zero byte at position 0$")
        self.fails(2, "Is a directory", "check", self.path(""))
        wrong(b"#" * 4096, r"p\.txt:1: a line of more than 4095 bytes$")
        wrong(b"sum:8\n" + b"#\n" * (32 << 20), r"p\.txt:33554431: more than 67108864 bytes$")
        self.fails(2, "/dev/zero: a device, not a file or a pipe", "check", "/dev/zero")
        done = talc("check", "/dev/stdin", "--list", input="sum:8\n")
        self.assertEqual((done.returncode, done.stdout), (0, "sum:8\n"))

    def test_no_pipe_is_waited_for(self):
        pipe = self.path("pipe.npy")
        os.mkfifo(pipe)
        png = self.path("pipe.png")
        os.mkfifo(png)
        run, check = ("run", "lenet"), ("check", "model", "lenet")
        for arguments in [(*run, "--labels", pipe), (*run, "--weights", pipe),
                          (*run, "--input", pipe), (*run, "--input", png),
                          (*run, "--output", pipe), ("conv2d", pipe, pipe),
                          ("check", pipe), ("check", "sum:8", "--shares", pipe),
                          (*check, "--activations", pipe), (*check, "--weights", pipe),
                          ("summary", "lenet", "--input", png)]:
            done = talc(*arguments, timeout=60)
            self.assertIn(done.returncode, (1, 2), arguments)
            refused = r"pipe\.(npy|png)'?:? .*(not a regular file|no problem in it)"
            self.assertRegex(done.stderr, refused, arguments)

    def test_nothing_ran(self):
        def nothing(message, *arguments):
            self.fails(2, message, "check", *arguments, "--device", "cpu")
            self.fails(2, message, "check", *arguments, "--device", "cpu", "--json")
        nothing("nothing ran on cpu: there is no algorithm 'no_such' for these problems", self.PROBLEM, "--algorithm",
                "no_such")
        nothing("nothing ran on cpu: every algorithm refuses", self.PROBLEM, "--algorithm", "depthwise")
        nothing("nothing ran on cpu: the problems have nothing to compute", "n0c3h9w8o4k3x3")
        nothing("nothing ran on cpu: every algorithm refuses", "softmax:9x10@1", "--kinds", "stride")
        nothing("nothing to check: none of the 1 problems is of op 'sun'", self.PROBLEM, "--op", "sun")
        nothing("nothing to check: none of the 10000 problems is of op 'sun'", "random", "5", "--op", "sun")

    def test_problems_that_no_row_took(self):
        problems = [self.PROBLEM, "n0c3h9w8o4k3x3", "n1c2h5w5o3k3x3", "matmul:m0n1k1"]
        self.assertIn("\ncpu: 2 problems that no algorithm ran: not checked\n", self.ok("check", *problems, *self.SHORT))
        done = self.json("check", *problems, *self.SHORT)
        self.assertEqual((done["passed"], done["problems"], done["untaken"]), (True, 4, 2))
        refused = [self.PROBLEM, "n1c8h9w9o8k3x3g8", "--algorithm", "depthwise", *self.SHORT]
        self.assertIn("\ncpu: 1 problem that no algorithm ran: not checked\n", self.ok("check", *refused))
        self.assertNotIn("that no algorithm ran", self.ok("check", self.PROBLEM, *self.SHORT))
        self.assertEqual(self.json("check", self.PROBLEM, *self.SHORT)["untaken"], 0)

    def test_failures(self):
        def unwritten(message, *arguments):
            self.fails(2, message, "check", *arguments)
            self.fails(2, message, "check", *arguments, "--json")
        # The hour that the set would take is not spent first.
        unwritten("no_folder/y.npy: No such file", "random", "100000", "--shares", self.path("no_folder/y.npy"))
        with open(self.path("y.npy"), "w") as file:
            file.write("an old file")
        unwritten("there are no shares", self.PROBLEM, "--kinds", "guards", "--shares", self.path("y.npy"))
        with open(self.path("y.npy")) as file:
            self.assertEqual(file.read(), "an old file")
        unwritten("/dev/full", self.PROBLEM, *self.SHORT, "--shares", "/dev/full")


class Trace(Tool):
    def test_terms(self):
        for problem in "n1c2h5w6o4k3p1", "n2c4h7w6o4k3x2s2p1g2_dx", "n1c2h5w4o3k2s2x1p1_dw":
            done = self.json("trace", problem, "--all", "--algorithm", "implicit_gemm", "--device", "cpu", "--cpu", "avx2")
            self.assertEqual(done["schema"], "talc.trace/1")
            for element in done["elements"]:
                products = [term["first"]["value"] * term["second"]["value"] for term in element["terms"]]
                self.assertEqual(sum(products), element["value"])
                self.assertEqual(element["value"], done["result"]["values"][element["element"]])
            self.assertEqual([m["wrong"] for m in done["measured"]], [0])
            for algorithm in done["algorithms"]:
                if algorithm["map"]:
                    owners = [tuple(owner) for table in algorithm["owner_table"] for owner in table]
                    self.assertEqual(len(set(owners)), len(owners))
                    self.assertEqual(algorithm["owner_table"][0], algorithm["owners"])

    def test_text(self):
        text = self.ok("trace", "n1c2h5w6o4k3p1", "0,0,2,3", "--gpu", "a100", "--cpu", "portable", "--device", "cpu")
        for words in "= 1, element 15 of y", "row 0 of A times column 15 of B", "cuda direct(textbook), as planned for a100", "all as the formula says":
            self.assertIn(words, text)
        self.assertIn("not measured: ", self.ok("trace", "n8c64h56w56o64k3p1", "--device", "cpu", "--algorithm", "im2col"))

    def test_failures(self):
        self.fails(2, "oc of y is 4, and has to be below 4", "trace", "n1c2h5w6o4k3p1", "0,4,2,3")
        self.fails(2, "'1,2' is no element of dw: four numbers", "trace", "n1c2h5w6o4k3p1_dw", "1,2")
        self.fails(2, "'h2000' is no GPU that plans are known for", "trace", "n1c2h5w6o4k3p1", "--gpu", "h2000")
        self.fails(2, "give a problem", "trace")
        self.fails(1, "nosuch: no algorithm of this convolution has that name", "trace", "n1c2h5w6o4k3p1", "-a", "nosuch")
        self.fails(1, "more than 16777216 elements", "trace", "n8c64h512w256o128k5x7")


class Show(Tool):
    def test_page(self):
        page = self.path("page.html")
        self.assertIn(", to be opened in a browser", self.ok("show", "n1c2h5w6o4k3p1", "-o", page))
        text = pathlib.Path(page).read_text()
        data = json.loads(re.search(r'<script type="application/json" id="talc">(.*?)</script>', text, re.DOTALL)[1])
        choices = [variant["choice"] for variant in data["variants"]]
        self.assertEqual([len(choices), choices[data["start"]]], [36, ["1", "1", "1", "1"]])
        self.assertLess(len(text), 1 << 20)
        self.assertNotIn("http", text.replace('http-equiv="Content-Security-Policy"', ""))
        done = self.json("show", "n1c2h5w6o4k3s2x1p1x0_dw", "-o", page)
        self.assertEqual((done["problem"], done["bytes"]), ("n1c2h5w6o4k3x3s2x1p1x0d1x1g1_dw", os.path.getsize(page)))

    def test_too_large(self):
        for problem in "n8c64h56w56o64k3p1", "n1c1h1w100000o1k1", "n1c32h8w8o32k3p1_dx", "n1c1h1w1o1k3p99":
            self.fails(1, r"draws \d+ cells, of at most 20000, with \d+ FMAs, of at most 65536", "show", problem, "-o", self.path("large.html"))
            smaller = re.search(r"smaller: talc show (\S+)", talc("show", problem, "-o", self.path("large.html")).stderr)[1]
            self.ok("show", smaller, "-o", self.path("smaller.html"))
        self.assertFalse(os.path.exists(self.path("large.html")))

    def test_failures(self):
        self.fails(2, "which problem?", "show", "-o", self.path("page.html"))
        self.fails(2, "which file?", "show", "n1c2h5w6o4k3p1")
        self.fails(2, "'b' is one argument too many", "show", "n1c2h5w6o4k3p1", "b", "-o", self.path("page.html"))
        self.fails(1, "no_folder/page.html: No such file", "show", "n1c2h5w6o4k3p1", "-o", self.path("no_folder/page.html"))
        self.fails(1, "/dev/full: No space left", "show", "n1c2h5w6o4k3p1", "-o", "/dev/full")
        self.fails(1, "sums of products with padding of zeros alone", "show", "n1c2h5w6o4k3p1_relu", "-o", self.path("page.html"))
        self.fails(2, "xeon", "show", "n1c2h5w6o4k3p1", "--cpu", "xeon", "-o", self.path("page.html"))


if __name__ == "__main__":
    unittest.main()
