"""Tests of tools/compare_torch.py: short comparisons that have to pass, others that have to fail, and its messages.

usage: test_compare_torch.py LIBTALC        Exits with 77, which meson counts as skipped, where PyTorch is missing.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LIBRARY = os.path.abspath(sys.argv.pop(1))
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
OPS = ["conv2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "batch_norm2d", "linear", "matmul", "softmax",
       "log_softmax", "sum", "mean", "max", "argmax", "conv2d.grad_input", "conv2d.grad_weight", "conv2d.grad_bias",
       "conv_transpose2d", "conv_transpose2d.grad_input", "conv_transpose2d.grad_weight", "max_pool2d.grad_input",
       "avg_pool2d.grad_input", "adaptive_avg_pool2d.grad_input"]


def compare(*arguments, library=LIBRARY, **environment):
    command = [sys.executable, TOOLS / "compare_torch.py", *arguments, "--library", library]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


def run_script(script, *arguments):
    """A program that changes the tool before it runs."""
    command = [sys.executable, "-c", script, *arguments, "--library", LIBRARY]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(TOOLS)})


class WithoutTorch(unittest.TestCase):
    def test_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "torch.py").write_text("raise ImportError('No module named torch')\n")
            done = compare("1", PYTHONPATH=folder)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, "^compare_torch.py needs numpy and PyTorch: ")


class WithTorch(unittest.TestCase):
    def test_every_op(self):
        done = compare("80", "--seed", "11")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout.splitlines()[-1], r"^80 problem\(s\), \d\d\d? results compared, 0 failed$")
        for op in OPS:
            for dtype in ("f32", "f64"):
                self.assertRegex(done.stdout, rf"(?m)^{op} +{dtype} +\w+ ")
            self.assertRegex(done.stdout, rf"(?m)^{op} +f\d\d +reference +\d+ +[01]\.\d\d\d ")

    def test_a_device_without_references(self):
        """A GPU has none."""
        script = ("import sys, talc_library\n"
                  "rows = talc_library.Talc.rows\n"
                  "talc_library.Talc.rows = lambda talc, op, *device: [row for row in rows(talc, op, *device)\n"
                  "                                                    if device or row[0] != 'reference']\n"
                  "import compare_torch\n"
                  "sys.exit(compare_torch.main())\n")
        done = run_script(script, "40")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("reference", done.stdout)

    def test_one_case_again(self):
        first, again = [compare("--seed", "11", "--case", "7", "--ops", "conv2d,linear") for _ in range(2)]
        self.assertEqual(first.stdout, again.stdout)
        self.assertIn("\n1 problem(s), ", first.stdout)

    def test_a_wrong_result_fails(self):
        """Problems that are compared with the dues of other data."""
        script = ("import sys, compare_torch_problems as p\n"
                  "case = p.OPS['linear']\n"
                  "def other(rng, dtype):\n"
                  "    right = case(rng, dtype)\n"
                  "    right.operands[0] = right.operands[0] + right.operands[0].dtype.type(0.001)\n"
                  "    return right\n"
                  "p.OPS['linear'] = other\n"
                  "import compare_torch\n"
                  "sys.exit(compare_torch.main())\n")
        done = run_script(script, "10", "--ops", "linear")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"FAILED linear:.* by openblas: share .*: element \[.*\] is .*, due .*, bound ")
        self.assertIn("compare_torch.py --seed 0 --ops linear --case 0", done.stdout)

    def test_a_wrong_gradient_fails(self):
        """A kernel that is not turned."""
        script = ("import sys, compare_torch_gradients as g\n"
                  "right = g.ConvolutionGradient.input\n"
                  "g.ConvolutionGradient.input = lambda self, dy, w: right(self, dy, w.flip(2, 3))\n"
                  "import compare_torch\n"
                  "sys.exit(compare_torch.main())\n")
        done = run_script(script, "20", "--ops", "conv2d.grad_input,conv2d.grad_weight")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"FAILED conv2d.grad_input:.* by reference: share ")
        self.assertNotRegex(done.stdout, "FAILED conv2d.grad_weight:")

    def test_training(self):
        done = compare("train")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()[1:]
        self.assertEqual([line.split()[:2] for line in lines],
                         [["sgd", "f64"], ["adam", "f64"], ["sgd", "f32"], ["adam", "f32"]])
        for line, limit in zip(lines, ["1e-10", "1e-10", "1e-04", "1e-06"]):
            self.assertRegex(line, rf" differ by at most \S+, (\S+ )?in step \d+; the limit is {limit}$")

    def test_wrong_training_fails(self):
        """Plain momentum for Nesterov's, and another epsilon."""
        script = ("import sys, compare_torch_train as t\n"
                  "right = t.TorchRun.__init__\n"
                  "def wrong(self, kind, dtype):\n"
                  "    right(self, kind, dtype)\n"
                  "    group = self.optimizer.param_groups[0]\n"
                  "    group.update({'nesterov': False} if kind == 'sgd' else {'eps': 1e-6})\n"
                  "t.TorchRun.__init__, t.STEPS = wrong, 20\n"
                  "import compare_torch\n"
                  "sys.exit(compare_torch.main())\n")
        done = run_script(script, "train")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual([line.endswith("  FAILED") for line in done.stdout.splitlines()], [False] + 4 * [True], done.stdout)

    def test_bad_arguments(self):
        for arguments, message in [(["0"], "must be at least 1"), (["--device", "tpu"], "tpu"),
                                   (["--ops", "conv3d"], "there is no op 'conv3d'; there are conv2d, ")]:
            done = compare(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(message, done.stderr)
        for arguments, message in [(["--device", "tpu"], "nothing to compare: .*tpu"), (["--seed", "-1"], "at least 0")]:
            done = compare("train", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertRegex(done.stderr, message)
        done = compare("1", library="/nowhere/libtalc.so")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/libtalc.so", done.stderr)


def have_torch():
    return subprocess.run([sys.executable, "-c", "import numpy, torch"], capture_output=True).returncode == 0


if __name__ == "__main__":
    with_torch = have_torch()
    names = ["WithoutTorch"] + (["WithTorch"] if with_torch else [])
    passed = unittest.main(defaultTest=names, exit=False).result.wasSuccessful()
    sys.exit(1 if not passed else 0 if with_torch else 77)
