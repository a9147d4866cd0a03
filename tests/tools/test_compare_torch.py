"""Tests of tools/torch/compare_torch.py: short comparisons that have to pass, others that have to fail, and its messages.

usage: test_compare_torch.py LIBTALC        Exits with 77, which meson counts as skipped, where PyTorch is missing.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LIBRARY = os.path.abspath(sys.argv.pop(1))
TALC = os.path.join(os.path.dirname(LIBRARY), "tools", "talc")
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "torch"
OPS = ["conv2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "batch_norm2d", "group_norm", "linear", "matmul", "softmax",
       "log_softmax", "sum", "mean", "max", "argmax", "min", "argmin", "var", "logsumexp", "conv2d.grad_input", "conv2d.grad_weight", "conv2d.grad_bias",
       "conv_transpose2d", "conv_transpose2d.grad_input", "conv_transpose2d.grad_weight", "max_pool2d.grad_input",
       "avg_pool2d.grad_input", "adaptive_avg_pool2d.grad_input", "adaptive_max_pool2d", "adaptive_max_pool2d.grad_input", "pad", "upsample2d", "pad.grad_input",
       "upsample2d.grad_input", "gather", "index_select", "where", "clamp", "cumsum", "softplus", "add", "equal", "cross_entropy", "nll_loss",
       "gather.grad_input", "index_select.grad_input", "cumsum.grad_input", "group_norm.grad_input", "instance_norm2d.grad_input",
       "layer_norm.grad_input", "batch_norm2d.grad_input", "cross_entropy.grad_input", "nll_loss.grad_input"]
# Made of copies or of other ops.
COMPOSED = ["concat", "channel_shuffle", "masked_fill", "mse_loss", "huber_loss", "softmax.grad_input", "var.grad_input",
            "logsumexp.grad_input", "linear.grad_weight", "matmul.grad_a", "div.grad_b", "where.grad_input", "layer_norm.grad_weight"]


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
        done = compare("342", "--seed", "11")  # each in both types
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout.splitlines()[-1], r"^342 problem\(s\), \d+ results compared, 0 failed$")
        for op in [*OPS, *COMPOSED]:
            for dtype in ("f32", "f64"):
                self.assertRegex(done.stdout, rf"(?m)^{op} +{dtype} +\w+ ")
        for op in OPS:
            self.assertRegex(done.stdout, rf"(?m)^{op} +f\d\d +reference +\d+ +[01]\.\d\d\d ")

    def test_a_device_without_references(self):
        """A GPU has none."""
        script = ("import sys, talc_library\n"
                  "algorithms = talc_library.Talc.algorithms\n"
                  "talc_library.Talc.algorithms = lambda talc, op, *device: [a for a in algorithms(talc, op, *device)\n"
                  "                                                          if device or a[0] != 'reference']\n"
                  "import compare_torch\n"
                  "sys.exit(compare_torch.main())\n")
        done = run_script(script, "40", "--ops", "conv2d,max_pool2d,batch_norm2d,linear,softmax,sum")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("reference", done.stdout)

    def test_one_case_again(self):
        first, again = [compare("--seed", "11", "--case", "7", "--ops", "conv2d,linear") for _ in range(2)]
        self.assertEqual(first.stdout, again.stdout)
        self.assertIn("\n1 problem(s), ", first.stdout)

    def test_a_wrong_result_fails(self):
        """Problems that are compared with the expected values of other data."""
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
        self.assertRegex(done.stdout, r"FAILED linear:.* by openblas\(gem[mv]\): share .*: element \[.*\] is .*, expected .*, bound ")
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

    def test_gradients_that_are_a_little_off_fail(self):
        script = ("import sys, compare_torch_more as m\n"
                  "right = m.graded\n"
                  "m.graded = lambda function, arrays, leaf, dy: 1.001 * right(function, arrays, leaf, dy)\n"
                  "import compare_torch\n"
                  "sys.exit(compare_torch.main())\n")
        ops = ["group_norm.grad_input", "instance_norm2d.grad_weight", "layer_norm.grad_input", "huber_loss.grad_input", "mul.grad_b"]
        done = run_script(script, "10", "--ops", ",".join(ops))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for op in ops:
            self.assertRegex(done.stdout, rf"FAILED {op}:.*: share ")

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

    def test_networks(self):
        done = compare("networks", "lenet", "resnet20-b", "squeezenet1_1", "shufflenet_g3")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "all within their limits")
        for name in ("lenet", "resnet20-b", "squeezenet1_1", "shufflenet_g3"):
            for dtype, power in ("f32", r"e-0[4-9]"), ("f64", r"e-1\d"):
                self.assertRegex(done.stdout, rf"(?m)^{name} +{dtype} +\d\.\d{power} ")

    def test_wrong_networks_fail(self):
        """A shuffle of other groups, another epsilon, another activation of the last layer but one, a loss of other labels."""
        script = ("import sys, torch, networks as n, compare_torch_networks as c\n"
                  "right = n.make\n"
                  "def other(name):\n"
                  "    model = right(name)\n"
                  "    for module in model.modules():\n"
                  "        if name == 'shufflenet_g3' and isinstance(module, torch.nn.ChannelShuffle): module.groups = 2\n"
                  "        if name == 'resnet20' and isinstance(module, torch.nn.BatchNorm2d): module.eps = 1.1e-5\n"
                  "    if name == 'squeezenet1_1': model.classifier[2] = torch.nn.LeakyReLU(1e-3)\n"
                  "    return model\n"
                  "n.make = other\n"
                  "passes = c.TalcNetwork.passes\n"
                  "c.TalcNetwork.passes = lambda self, x, labels: passes(self, x, labels[::-1] if x.shape[2] == 28 else labels)\n"
                  "import compare_torch\n"
                  "sys.exit(compare_torch.main())\n")
        done = run_script(script, "networks", "--dtype", "f64", "lenet", "shufflenet_g3", "resnet20", "squeezenet1_1", "resnet20-b")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "FAILED: lenet f64, shufflenet_g3 f64, resnet20 f64, squeezenet1_1 f64")
        self.assertRegex(done.stdout, r"(?m)^lenet .*BEYOND: loss, gradient, seed 1$")

    def test_references_are_torchvisions(self):
        """Where it is installed: one network of each file that has torchvision's names."""
        names = ["alexnet", "resnet18", "squeezenet1_1", "mobilenet_v2", "googlenet", "densenet121", "efficientnet_b0",
                 "regnet_x_400mf", "convnext_tiny", "vit_c"]
        done = subprocess.run([sys.executable, TOOLS / "networks.py", *names], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("names and logits as torchvision's") + done.stdout.count("no torchvision model"), len(names))

    def test_checkpoints_become_safetensors(self):
        script = ("import sys, torch\n"
                  "sys.path.insert(0, sys.argv[1])\n"
                  "import networks\n"
                  "model = networks.make('resnet20')\n"
                  "state = {'module.' + k: v for k, v in model.state_dict().items() if not k.endswith('tracked')}\n"
                  "state['module.linear.bias'] = state['module.linear.bias'].half()\n"
                  "torch.save({'epoch': 3, 'state_dict': state}, sys.argv[2])\n"
                  "torch.save([1], sys.argv[2] + '.list')\n"
                  "torch.save({'a': torch.zeros(2), 'b': type('Code', (), {'__reduce__': lambda self: (print, ('run',))})()}, sys.argv[2] + '.code')\n"
                  "torch.save({1: torch.zeros(2)}, sys.argv[2] + '.keys')\n"
                  "torch.save({'__metadata__': torch.zeros(2)}, sys.argv[2] + '.metadata')\n"
                  "torch.save(torch.nn.Linear(2, 2), sys.argv[2] + '.module')\n"
                  "state = {'module._orig_mod.a.w': torch.zeros(2).bfloat16(),\n"
                  "         'module.a._orig_mod.on': torch.tensor([True, False, True])}\n"
                  "state = {'model_state_dict': state, 'epoch': 3}\n"
                  "torch.save(state, sys.argv[2] + '.compiled')\n")
        with tempfile.TemporaryDirectory() as folder:
            checkpoint, out = str(pathlib.Path(folder, "model.pt")), str(pathlib.Path(folder, "model.safetensors"))
            subprocess.run([sys.executable, "-c", script, TOOLS, checkpoint], check=True)
            convert = [sys.executable, TOOLS / "pt2safetensors.py"]
            done = subprocess.run([*convert, checkpoint, out], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(": 116 tensors, 1.0 MiB", done.stdout)
            done = subprocess.run([TALC, "run", "resnet20", "--weights", out], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for name, message in ((checkpoint + ".list", "holds no state_dict"), (out, "model.safetensors: "), ("nowhere.pt", "nowhere.pt")):
                done = subprocess.run([*convert, name, out + ".not"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 1)
                self.assertIn(message, done.stderr)
            pathlib.Path(folder, "empty.pt").touch()
            with open(out, "rb") as file:
                before = file.read()
            for name, message in ((checkpoint + ".code", "it is no checkpoint of torch.save, or holds more than tensors"), (checkpoint + ".keys", "1 is no tensor's name"),
                                  (checkpoint + ".module",
                                   "as of torch.save(model): --help says what to do"),
                                  (folder, "it is not a regular file"),
                                  (checkpoint + ".metadata", "'__metadata__' is no tensor's name"), (str(pathlib.Path(folder, "empty.pt")), "it is no checkpoint of torch.save")):
                done = subprocess.run([*convert, name, out], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
                self.assertIn(message, done.stderr)
            full = subprocess.run(["sh", "-c", 'ulimit -f 100; exec "$@"', "sh", *convert, checkpoint, out], capture_output=True, text=True)
            self.assertEqual((full.returncode, full.stderr), (1, f"pt2safetensors.py: {out}: File too large\n"))
            with open(out, "rb") as file:
                self.assertEqual(file.read(), before)
            self.assertFalse(pathlib.Path(out + ".part").exists())
            subprocess.run([*convert, checkpoint + ".compiled", out + ".compiled"], check=True,
                           capture_output=True)
            with open(out + ".compiled", "rb") as file:
                data = file.read()
            self.assertIn(b'"a.w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, '
                          b'"a.on": {"dtype": "U8", "shape": [3], ', data)
            self.assertEqual(data[-11:], bytes(8) + b"\1\0\1")
            done = subprocess.run([*convert, "--help"], capture_output=True, text=True)
            self.assertRegex(done.stdout, r"torch.save\(model\)[^$]*state_dict\(\), NEW")
            done = subprocess.run([TALC, "run", "resnet20", "--weights", checkpoint],
                                  capture_output=True, text=True)
            self.assertRegex(done.stderr, "is a zip, as torch.save writes it: "
                                          "tools/torch/pt2safetensors.py converts a checkpoint$")
            os.symlink(out, out + ".link")
            subprocess.run([*convert, checkpoint, out + ".link"], check=True, capture_output=True)
            self.assertTrue(os.path.islink(out + ".link"))
            done = subprocess.run([*convert, checkpoint, out, "--rename", ".*=one"], capture_output=True, text=True)
            self.assertIn("two tensors are named 'one", done.stderr)

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
