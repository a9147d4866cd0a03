#!/usr/bin/env python3
"""What the talc command does where one allocation fails, or all from one on: it ends with a message
and exit code 1 or 2, or prints what it prints with memory.

usage: test_failing_memory.py TALC FAILING_MEMORY    this is failing_memory.c, to be preloaded
"""
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

TALC, FAILING_MEMORY = map(os.path.abspath, sys.argv[1:3])
PROBLEM = "n1c4h12w12o8k3x3"
# Arguments; --json where they have it not is a text, whose numbers may differ.
COMMANDS = [
    "info --json", "explain relu:8x16 --json", f"explain {PROBLEM} --json",
    "explain lenet --train --json", "summary lenet --json", "conv2d x.npy w.npy --json",
    f"run model-new --problem {PROBLEM} --json",
    f"run model-new --problem {PROBLEM} --beside cpu --json",
    "run lenet --top 2 --labels labels --json", "run lenet --top 2 --labels labels",
    "check sum:8 --json", "check sum:8 --kinds random --shares shares.npy --json",
    "check quick --list --json", "check model lenet --json", "check grad relu --json",
    "bench --list --json", "run -w weights", "run -w weights --json",
    "run lenet photos x.jpg --resize 28x28 --top 1 --labels labels --json", "run lenet photos x.jpg --resize 28x28",
]
# Those that end with a message.
WRONG_COMMANDS = [
    "run -w unnamed", "run -w nowhere", "run --nosuchoption", "run --batch none",
    "summary nosuchnet", "summary lenet resnet18", "explain nosuchop:8", "check nosuchset",
    "check model nosuchnet", "check grad nosuchop", "bench nosuchproblem", "nosuchcommand",
    "conv2d x.npy", "conv2d x.npy nowhere.npy",
]
# One thread: which allocation is the k-th is then the same in every run.
ENVIRONMENT = dict(os.environ, TALC_DEVICE="cpu", TALC_THREADS="1")


def write_npy(path, shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    count = shape[0] * shape[1] * shape[2] * shape[3]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() +
                     struct.pack(f"<{count}f", *[1.0] * count))


def write_png(path, side):
    """A grey image, black."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(bytes(side * (side + 1)))) + chunk(b"IEND", b""))


def write_weights(path, metadata):
    """lenet's weights, all 1."""
    shapes = {"conv1.weight": (6, 1, 5, 5), "conv1.bias": (6,), "conv2.weight": (16, 6, 5, 5),
              "conv2.bias": (16,), "fc1.weight": (120, 400), "fc1.bias": (120,),
              "fc2.weight": (84, 120), "fc2.bias": (84,), "fc3.weight": (10, 84), "fc3.bias": (10,)}
    header, end = {"__metadata__": metadata}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + struct.pack("<f", 1.0) * (end // 4))


def form(value):
    """JSON without its numbers: they may be times, or bytes."""
    if isinstance(value, dict):
        return {key: form(of) for key, of in value.items()}
    if isinstance(value, list):
        return [form(of) for of in value]
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def printed(text, is_json):
    return form(json.loads(text)) if is_json else re.sub(r"[\d.]+ [um]?s\b", "TIME", text)


class FailingMemory(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        write_npy(self.folder / "x.npy", (1, 3, 8, 8))
        write_npy(self.folder / "w.npy", (4, 3, 3, 3))
        (self.folder / "labels").write_bytes(b"digit \xff\n" * 10)  # JSON has to show it
        write_weights(self.folder / "weights", {"talc.network": "lenet"})
        write_weights(self.folder / "unnamed", {})
        (self.folder / "photos").mkdir()
        write_png(self.folder / "photos" / "a.png", 28)
        header = (pathlib.Path(__file__).resolve().parents[1] / "support" / "image_cases.h").read_text()
        numbers = re.search(r"jpeg_grey\[\] = \{([^}]*)", header)[1].split(",")
        (self.folder / "x.jpg").write_bytes(bytes(int(byte) for byte in numbers if byte.strip()))

    def fault(self, code, out, err, expected, is_json):
        """What is wrong with a run; None: nothing is. `expected`: the code, output and errors with memory."""
        if code < 0:
            return f"signal {-code}"
        if code > 0 and out == "" and (code in (1, 2) and "memory" in err or code == expected[0] and
                                       err != "" and expected[2].startswith(err) and err[-1] == "\n"):
            return None  # argp leaves out where help is, for which it has no memory
        if code > 0 or expected[0] > 0:
            return f"code {code}"
        try:
            got = printed(out, is_json)
        except ValueError as error:
            return f"no JSON: {error}"
        if isinstance(got, dict) and "out of " in str(got.get("training_refused")):
            return None  # a pass for which there is no memory is what this key tells
        return None if got == expected[1] else "something else is printed"

    def sweep(self, command, wrong, step, all_later):
        is_json = "--json" in command
        done = subprocess.run([TALC, *command], cwd=self.folder, env=ENVIRONMENT,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode > 0, wrong, done.stderr)
        self.assertEqual(done.stderr != "", wrong, done.stderr)
        expected = done.returncode, None if wrong else printed(done.stdout, is_json), done.stderr
        with tempfile.TemporaryDirectory() as folder:
            failing = {"LD_PRELOAD": FAILING_MEMORY,
                       "FAILING_MEMORY": f"{step} {all_later} {folder}"}
            subprocess.run([TALC, *command], cwd=self.folder, env=ENVIRONMENT | failing, check=True)
            root = pathlib.Path(folder)
            lines = (root / "codes").read_text().splitlines()
            codes = [tuple(map(int, line.split())) for line in lines]
            for k, code in codes:
                out, err = ((root / f"{k}.{end}").read_text(errors="replace")
                            for end in ("out", "err"))
                with self.subTest(command=" ".join(command), allocation=k, all_later=all_later):
                    self.assertIsNone(self.fault(code, out, err, expected, is_json), out[:200] + err)
        self.assertGreater(len(codes) * step, 1 if wrong else 40)
        self.assertEqual(codes[-1][1], expected[0])

    def test_every_command(self):
        for command in COMMANDS + WRONG_COMMANDS:
            self.sweep(command.split(), command in WRONG_COMMANDS, 1, 0)
            self.sweep(command.split(), command in WRONG_COMMANDS, 17, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
