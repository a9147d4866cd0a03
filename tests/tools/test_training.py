#!/usr/bin/env python3
"""The training programs: what they write, interrupting and going on, wrong arguments, and runs that cannot go on.

usage: test_training.py TRAIN_LENET TRAIN_RESNET
"""

import gzip
import json
import math
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
import zlib

LENET, RESNET = sys.argv[1:3]
TINY = ["--train-count", "200", "--test-count", "60", "--batch", "16"]


def environment(**others):
    return dict(os.environ, TALC_DEVICE="cpu", **others)


def run(program, *arguments, limit=None, **others):
    """Exit code, stdout and stderr. `limit` is the largest file in bytes."""
    def before():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          env=environment(**others), preexec_fn=before)
    return done.returncode, done.stdout, done.stderr


def write_idx(path, bytes_, *extents):
    path.write_bytes(gzip.compress(struct.pack(f">BBBB{len(extents)}I", 0, 0, 8, len(extents), *extents) + bytes_))


def write_png(path, side, pixels):
    """A square, grey or in colour."""
    channels = len(pixels) // (side * side)
    rows = b"".join(b"\0" + pixels[channels * side * i:channels * side * (i + 1)] for i in range(side))

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" +
                     chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0 if channels == 1 else 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Training(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def checkpoint(self, name):
        return (self.root / name / "checkpoint.safetensors").read_bytes()

    def train(self, name, *arguments, program=LENET, **others):
        return run(program, *TINY, "--report", self.root / name, *arguments, **others)

    def passed(self, result):
        self.assertEqual(result[0], 0, result[2])
        return result[1]

    def failed(self, result, message, code=1):
        self.assertEqual(result[0], code, result[1] + result[2])
        self.assertRegex(result[2], message)
        self.assertEqual(result[2].count("\n"), 1, result[2])

    # ---- What a run writes

    def test_report(self):
        out = self.passed(self.train("a", "--epochs", 3, "--shift", 1))
        lines = [line for line in out.split("\n") if line.startswith("epoch")]
        self.assertLessEqual(max(map(len, out.split("\n"))), 80)
        self.assertEqual([line.split()[1] for line in lines], ["1/3", "2/3", "3/3"])
        # Rows of the confusion matrix add up to the 60 images, its diagonal to those that are right.
        rows = [list(map(int, line.split()[1:11])) for line in out.split("\n") if re.fullmatch(r"\d( +\d+){10} +([\d.]+ %|-)", line)]
        self.assertEqual((len(rows), sum(map(sum, rows))), (10, 60))
        right = sum(rows[k][k] for k in range(10))
        self.assertIn(f"\n{right} of 60 right, {100 * right / 60:.2f} %\n", out)
        self.assertAlmostEqual(float(re.search(r"accuracy.*test +([\d.]+)", lines[2]).group(1)), 100 * right / 60, places=2)
        curves = xml.etree.ElementTree.parse(self.root / "a/curves.svg").getroot()
        lines = [e.get("points").split() for e in curves.iter() if e.tag.endswith("polyline")]
        self.assertEqual([len(points) for points in lines], [3, 3, 3, 3])
        # The same numbers as CSV, and as the lines say them.
        table = [row.split(",") for row in (self.root / "a/curves.csv").read_text().splitlines()]
        self.assertEqual(table[0], ["epoch", "loss", "accuracy", "test_loss", "test_accuracy"])
        said = [line.split() for line in out.split("\n") if line.startswith("epoch")]
        for row, words in zip(table[1:], said, strict=True):
            self.assertEqual(words[1], row[0] + "/3")
            for value, expected, places in (row[1], words[3], 4), (row[3], words[5], 4), (float(row[2]) * 100, words[7], 2), (float(row[4]) * 100, words[10], 2):
                self.assertAlmostEqual(float(value), float(expected), places=places)
        wrong = xml.etree.ElementTree.parse(self.root / "a/wrong.svg").getroot()
        self.assertEqual(sum(e.tag.endswith("}g") for e in wrong), 60 - right)

    def test_losses_that_are_nan(self):
        """The last but one epoch of a checkpoint's history is made NaN: curves have the others."""
        self.passed(self.train("a", "--epochs", 3))
        path = self.root / "a/checkpoint.safetensors"
        data = bytearray(path.read_bytes())
        (length,) = struct.unpack("<Q", data[:8])
        first, last = json.loads(data[8:8 + length])["optimizer.history"]["data_offsets"]
        row = (last - first) // 3
        at = 8 + length + first + row
        data[at:at + row] = struct.pack(f"<{row // 8}d", *[math.nan] * (row // 8))
        path.write_bytes(data)
        self.passed(self.train("a", "--epochs", 3, "--resume"))
        text = (self.root / "a/curves.svg").read_text()
        self.assertNotIn("nan", text)
        lines = [e.get("points").split() for e in xml.etree.ElementTree.fromstring(text).iter()
                 if e.tag.endswith("polyline")]
        self.assertEqual([len(points) for points in lines], [2, 2, 2, 2])

    def test_names_are_cut_at_characters(self):
        names = ["a", "größere Namen", "猫" * 80]
        for number, name in enumerate(names):
            for part in "train", "test":
                folder = self.root / "data" / part / name
                folder.mkdir(parents=True)
                for k in range(4):
                    write_png(folder / f"{k}.png", 28, bytes([60 * number + k] * 28 * 28))
        out = self.passed(run(LENET, "--data", self.root / "data", "--epochs", 1, "--batch", 4,
                              "--report", self.root / "a"))
        rows = [re.sub(r"( +\d+){3} +[\d.]+ %$", "", row) for row in out.split("taken for\n")[1].split("\n")[1:4]]
        self.assertEqual([row.rstrip() for row in rows[:2]], [f"{k} {name}" for k, name in enumerate(names[:2])])
        self.assertRegex(rows[2], r"^2 猫{10,40}\.\.猫{20,60}$")
        self.assertLessEqual(max(map(len, out.split("\n"))), 80)

    def test_two_runs_at_once(self):
        """The second is refused, whichever of the files they share, and the first goes on."""
        process = subprocess.Popen([LENET, *TINY, "--epochs", "400", "--report", self.root / "a"],
                                   env=environment(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        checkpoint = "checkpoint.safetensors"
        for arguments, name in [(["a"], "curves.svg"),
                                (["a", "--checkpoint", self.root / "c"], "curves.svg"),
                                (["b", "--checkpoint", self.root / "a" / checkpoint], checkpoint)]:
            with self.subTest(arguments=arguments):
                message = f"a/{name}: another run writes it; give this one its own --report"
                self.failed(self.train(*arguments, "--seed", 2), message)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
        self.assertEqual(process.returncode, 130)
        self.assertLessEqual(set(os.listdir(self.root / "a")), {"best.safetensors", "checkpoint.safetensors"})
        self.passed(self.train("a", "--epochs", 1, "--seed", 2))

    def test_the_best_epoch_is_kept(self):
        out = self.passed(self.train("a", "--epochs", 6))
        right = [float(value) for value in re.findall(r"accuracy .* test +([\d.]+)", out)]
        with open(self.root / "a/best.safetensors", "rb") as file:
            content = file.read()
        start = 8 + struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:start])
        said = header["__metadata__"]
        self.assertIn(f"epoch={right.index(max(right)) + 1} batch=0 ", said["talc.run"])
        self.assertEqual((said["talc.network"], said["talc.image"], said["talc.class_names"]), ("lenet", "1x28x28", "\n".join("0123456789")))
        self.assertTrue(all(name.startswith(("optimizer.", "conv", "fc")) for name in header if name != "__metadata__"), sorted(header))

    def test_ticks_are_round(self):
        """Steps of 1, 2 or 5 times a power of ten, between which the curves lie."""
        for epochs in 1, 3, 12:
            self.passed(self.train("a", "--epochs", epochs, "--train-count", 32, "--test-count", 20))
            svg = xml.etree.ElementTree.parse(self.root / "a/curves.svg").getroot()
            texts = [e for e in svg if e.tag.endswith("text")]
            for left in 0, 520:
                plot = [e for e in texts if left <= float(e.get("x")) < left + 500]
                for anchor in "end", "middle":
                    ticks = [float(e.text) for e in plot if e.get("text-anchor") == anchor]
                    self.assertTrue(1 <= len(ticks) <= 7 and (anchor == "middle" or len(ticks) > 1), ticks)
                    steps = {round(b - a, 9) for a, b in zip(ticks, ticks[1:])}
                    self.assertLessEqual(len(steps), 1, ticks)
                    for step in steps:
                        self.assertIn(f"{step:e}"[:3], ("1.0", "2.0", "5.0"), ticks)
                        self.assertTrue(all(abs(tick / step - round(tick / step)) < 1e-6 for tick in ticks), ticks)
            for line in (e for e in svg if e.tag.endswith("polyline")):
                for point in line.get("points").split():
                    self.assertTrue(40 <= float(point.split(",")[1]) <= 300, point)

    def test_class_folders(self):
        """PNGs in colour, of three classes with long names, as --help says; images of another size are refused with both."""
        def write(root, side):
            for part, count in ("train", 12), ("test", 4):
                for level, name in enumerate(["elephant", "giraffe", "rhinoceros"]):
                    folder = root / part / name
                    folder.mkdir(parents=True)
                    for i in range(count):
                        write_png(folder / f"{i}.png", side, bytes((7 * i + 80 * level + k % 40) % 256 for k in range(3 * side * side)))
        self.assertIn("train/CLASS/*.png", self.passed(run(LENET, "--help")))
        write(self.root / "animals", 28)
        out = self.passed(run(LENET, "--data", self.root / "animals", "--epochs", 2, "--batch", 8, "--report", self.root / "a"))
        rows = re.findall(r"(?m)^(\d) (\w+) +(\d+) +(\d+) +(\d+) +[\d.]+ %$", out)
        self.assertEqual([row[:2] for row in rows], [("0", "elephant"), ("1", "giraffe"), ("2", "rhinoceros")])
        self.assertEqual([sum(map(int, row[2:])) for row in rows], [4, 4, 4])
        self.assertRegex(out, r"(?m)^label +0 +1 +2 +right$")
        write(self.root / "large", 32)
        self.failed(run(LENET, "--data", self.root / "large", "--epochs", 2, "--report", self.root / "a"),
                    r"data: images are 32x32 \(height x width\), LeNet takes 28x28; train_resnet takes any")
        self.passed(run(RESNET, "--data", self.root / "large", "--epochs", 1, "--batch", 8, "--report", self.root / "a"))

    def test_wrong_images(self):
        """Pictures of noise, whose classes nothing can tell: those in wrong.svg are the ones of the file, in their order."""
        folder, chance = self.root / "noise", random.Random(1)
        folder.mkdir()
        pixels, labels = bytes(chance.choice([0, 0, 80, 255]) for _ in range(60 * 28 * 28)), bytes(range(10)) * 6
        write_idx(folder / "t10k-images-idx3-ubyte.gz", pixels, 60, 28, 28)
        write_idx(folder / "t10k-labels-idx1-ubyte.gz", labels, 60)
        out = self.passed(run(LENET, "--data", folder, "--train-count", 20, "--epochs", 1, "--report", self.root / "a"))
        wrong = 40 - int(re.search(r"(\d+) of 40 right", out).group(1))
        svg = xml.etree.ElementTree.parse(self.root / "a/wrong.svg").getroot()
        images = [e for e in svg if e.tag.endswith("}g")]
        texts = [e.text for e in svg if e.tag.endswith("text")][1:]
        self.assertGreater(wrong, 20)
        self.assertEqual((len(images), len(texts)), (wrong, wrong))
        sample = 19
        for image, text in zip(images, texts):
            grey = bytearray(784)
            for path in image[1:]:
                x, y, length = map(int, re.fullmatch(r"M(\d+) (\d+)\.5h(\d+)", path.get("d")).groups())
                level = re.fullmatch(r"#(..)\1\1", path.get("stroke")).group(1)
                grey[28 * y + x:28 * y + x + length] = bytes.fromhex(level) * length
            sample = next(i for i in range(sample + 1, 60) if pixels[784 * i:784 * (i + 1)] == grey)
            self.assertRegex(text, f"^{labels[sample]} → [^{labels[sample]}]$")
        for path in list(folder.iterdir()):
            path.rename(str(path).replace("-idx", ".idx"))
        dotted = self.passed(run(LENET, "--data", folder, "--train-count", 20, "--epochs", 1,
                                 "--report", self.root / "a"))
        self.assertEqual(dotted.split("taken for\n")[1], out.split("taken for\n")[1])

    def test_resnet_and_optimizers(self):
        for kind in ["sgd", "adam", "adamw", "rmsprop"]:
            arguments = ["--epochs", 1, "--optimizer", kind, "--train-count", 64, "--test-count", 20]
            self.passed(self.train(kind, *arguments, program=RESNET if kind == "adam" else LENET))

    # ---- The same bits

    def test_threads(self):
        for program, threads, name in [(LENET, 1, "1"), (LENET, 2, "2"), (LENET, 4, "4"), (RESNET, 1, "r1"), (RESNET, 4, "r4")]:
            self.passed(self.train(name, "--epochs", 2, "--train-count", 48, "--test-count", 20, "--shift", 2, program=program,
                                   TALC_THREADS=str(threads)))
        self.assertEqual(self.checkpoint("1"), self.checkpoint("2"))
        self.assertEqual(self.checkpoint("1"), self.checkpoint("4"))
        self.assertEqual(self.checkpoint("r1"), self.checkpoint("r4"))
        self.passed(self.train("5", "--epochs", 2, "--train-count", 48, "--test-count", 20, "--shift", 2, "--seed", 2))
        self.assertNotEqual(self.checkpoint("1"), self.checkpoint("5"))

    def interrupted(self, name, seconds, *arguments, program=LENET):
        """Runs until the first line and so many seconds more, then Ctrl-C."""
        process = subprocess.Popen([program, *TINY, *map(str, arguments), "--report", self.root / name], env=environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=300)
        return process.returncode, stderr

    def test_interrupt_and_resume(self):
        for program, arguments in [(LENET, ["--epochs", 40, "--shift", 1]), (LENET, ["--epochs", 40, "--optimizer", "adam"]),
                                   (RESNET, ["--epochs", 4])]:
            with self.subTest(arguments=arguments):
                whole, parts = f"whole{len(arguments)}", f"parts{len(arguments)}"
                self.passed(self.train(whole, *arguments, program=program))
                # Until it stops within an epoch, which it does not where Ctrl-C comes while the end of one is saved: later
                # and later, as a busy machine takes long to save. Where it has ended before, once more from the start.
                stops = []
                for _ in range(50):
                    resume = ["--resume"] if stops else []
                    code, stderr = self.interrupted(parts, 0.02 * 3**len(stops) if stops else 0, *arguments, *resume, program=program)
                    if code == 0:
                        shutil.rmtree(self.root / parts)
                        stops = []
                        continue
                    self.assertEqual(code, 130, stderr)
                    self.assertIn("interrupted", stderr)
                    stops.append(int(re.search(rb"epoch=\d+ batch=(\d+) ", self.checkpoint(parts)).group(1)))
                    if stops[-1] > 0:
                        break
                self.assertTrue(stops and stops[-1] > 0)
                out = self.passed(self.train(parts, *arguments, "--resume", program=program))
                self.assertGreater(len(out), 0)
                for name in ["checkpoint.safetensors", "curves.svg", "curves.csv", "wrong.svg"]:
                    self.assertEqual((self.root / whole / name).read_bytes(), (self.root / parts / name).read_bytes(), name)

    def test_resume_when_done(self):
        out = self.passed(self.train("a", "--epochs", 2))
        again = self.passed(self.train("a", "--epochs", 2, "--resume"))
        self.assertEqual(out[out.index("taken for\n"):], again[again.index("taken for\n"):])

    def at_terminal(self, *arguments):
        """Exit code, stdout, which is none, and stderr, which is a terminal."""
        ours, theirs = os.openpty()
        process = subprocess.Popen([LENET, *TINY, "--epochs", "1", "--report", self.root / "a", *arguments], env=environment(),
                                   text=True, stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 4096):
                seen += part
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        out = process.communicate()[0]
        return process.returncode, out, seen

    def test_progress(self):
        code, out, seen = self.at_terminal()
        self.assertEqual(code, 0)
        self.assertIn(b"images/s", seen)
        self.assertLess(max(len(line) for line in re.split(rb"[\r\n]|\x1b\[K", seen)), 80)
        self.assertTrue(out.startswith("epoch  1/1  loss "), repr(out[:80]))
        code, out, seen = self.at_terminal("--lr", "1e30")
        self.assertEqual(code, 1)
        self.assertIn(b"s left\x1b[K\r\x1b[Ktrain_lenet: step 2: the loss is nan", seen)

    # ---- What cannot be

    def test_arguments(self):
        for arguments, message in [(["--epochs", "x"], "--epochs does not take x"), (["--epochs", "0"], "--epochs does not take 0"), (["--batch", "0"], "--batch does"), (["--batch", "-1"], "--batch does"),
                                   (["--lr", "nan"], "--lr does"), (["--lr", "0.1x"], "--lr does"), (["--seed", "9" * 30], "--seed does"),
                                   (["--optimizer", "lbfgs"], "no such option or optimizer"), (["more"], "no such option"), (["--lr", "\x1b[2J"], r"\\x1b\[2J")]:
            with self.subTest(arguments=arguments):
                self.failed(self.train("a", *arguments), message, code=2)
        self.assertEqual(self.train("a", "--unknown")[0], 2)
        self.assertIn("--resume", self.passed(run(LENET, "--help")))
        self.failed(self.train("a", "--device", "abacus"), "abacus")
        (self.root / "file").touch()
        result = self.train("file", "--epochs", 1)
        self.failed(result, "file/curves.svg: Not a directory")
        self.assertEqual(result[1], "", "it trained before it looked where to write")
        self.assertFalse((self.root / "a/checkpoint.safetensors").exists())

    def test_where_no_checkpoint_can_be(self):
        self.passed(self.train("a", "--epochs", 1))
        before, files = self.checkpoint("a"), sorted(os.listdir(self.root / "a"))
        for path, message in [(self.root / "missing/c", "missing/c: No such file"), (self.root, "not a regular file"), (f"{self.root}/a/", "not a regular file"),
                              ("/dev/null", "not a regular file"), ("/proc/c", "/proc/c: "), (self.root / ("c" * 300), "too long")]:
            with self.subTest(path=path):
                result = self.train("a", "--epochs", 1, "--checkpoint", path)
                self.failed(result, message)
                self.assertEqual(result[1], "", "it trained before it looked where to write")
        self.failed(self.train("a", "--epochs", 1, "--seed", 2, "--device", "abacus"), "abacus")
        self.assertEqual((self.checkpoint("a"), sorted(os.listdir(self.root / "a"))), (before, files))

    def test_data(self):
        (self.root / "empty").mkdir()
        (self.root / "small").mkdir()
        write_idx(self.root / "small/t10k-images-idx3-ubyte.gz", bytes(8 * 5 * 5), 8, 5, 5)
        write_idx(self.root / "small/t10k-labels-idx1-ubyte.gz", bytes([0, 9] * 4), 8)
        (self.root / "half/train/cat").mkdir(parents=True)
        layout = r"is no folder with train/CLASS/\*.png and test/CLASS/\*.png, nor one with MNIST's files"
        for folder, message in [("missing", rf"missing' {layout}: there is no such folder$"), ("empty", rf"empty' {layout}$"),
                                ("half", rf"half' {layout}: it has no test$")]:
            self.failed(self.train("a", "--data", self.root / folder), message)
        small = ["--data", self.root / "small", "--test-count", 2]
        self.failed(self.train("a", *small, "--train-count", 4), r"data: images are 5x5 \(height x width\), LeNet takes 28x28")
        self.failed(self.train("a", *small, "--train-count", 7), "images 7 to 8 were asked for, there are 8")

    def test_loss_that_is_not_finite(self):
        self.failed(self.train("a", "--lr", 1e9, "--epochs", 3),
                    r"train_lenet: step \d+: the loss is -?(nan|inf); the first that is not finite is the \w+ .*(conv|fc)\d \(\w+\)")
        self.failed(self.train("b", "--lr", 1e30, "--epochs", 3), r"step 2: the loss is nan; the first that is not finite is the output of conv2 \(Conv2d\)")

    def test_other_checkpoint(self):
        self.passed(self.train("a", "--epochs", 1))
        before = self.checkpoint("a")
        for arguments, program, message in [(["--optimizer", "adam"], LENET, "adam"), ([], RESNET, "conv1.weight|bn1"), (["--seed", 5], LENET, "--seed is 5, the checkpoint's run has 1"),
                                            (["--epochs", 2], LENET, "--epochs is 2, the checkpoint's run has 1"),
                                            (["--lr", 0.1], LENET, "--lr is 0.1, the checkpoint's run has 0.05")]:
            with self.subTest(arguments=arguments):
                self.failed(self.train("a", "--epochs", 1, *arguments, "--resume", program=program), message)
                self.assertEqual(self.checkpoint("a"), before)
        self.failed(self.train("none", "--epochs", 1, "--resume"), "checkpoint.safetensors")
        self.passed(self.train("a", "--epochs", 1, "--lr", 0.05, "--resume"))

    def test_resume_keeps_the_rate(self):
        """Without --lr a run goes on with its own: that of another rate has other weights in the end."""
        self.interrupted("a", 0, "--epochs", 40, "--lr", 0.02)
        self.failed(self.train("a", "--epochs", 40, "--lr", 0.05, "--resume"), "--lr is 0.05, the checkpoint's run has 0.02")
        self.passed(self.train("a", "--epochs", 40, "--resume"))
        self.passed(self.train("b", "--epochs", 40, "--lr", 0.02))
        self.assertEqual(self.checkpoint("a"), self.checkpoint("b"))

    def test_full_disk(self):
        self.passed(self.train("a", "--epochs", 1))
        before = self.checkpoint("a")
        self.failed(self.train("a", "--epochs", 1, "--seed", 2, limit=len(before) // 2), "best.safetensors")
        self.assertEqual(self.checkpoint("a"), before)
        self.assertEqual(sorted(p.name for p in (self.root / "a").iterdir()),
                         ["best.safetensors", "checkpoint.safetensors", "curves.csv", "curves.svg", "wrong.svg"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
