"""Tests of talc ops.

usage: test_ops.py TALC LIBTALC
"""
import json
import subprocess
import sys
import unittest

LIBRARY, TALC = sys.argv.pop(), sys.argv.pop()


def ops(*arguments):
    return subprocess.run([TALC, "ops", "--device", "cpu", *arguments], capture_output=True, text=True)


class Interface(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.all = json.loads(ops("--json").stdout)

    def test_every_exported_function_is_there(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
        exported = [line.split()[-1].split("@")[0] for line in listed.splitlines() if " T talc_" in line]
        self.assertGreater(len(exported), 300)
        self.assertEqual(sorted(self.all["functions"]), sorted(exported))

    def test_functions(self):
        self.assertEqual(self.all["functions"]["talc_group_norm"], {
            "result": "talc_tensor *",
            "parameters": [{"name": "x", "type": "const talc_tensor *"}, {"name": "groups", "type": "int64_t"},
                           {"name": "weight", "type": "const talc_tensor *"}, {"name": "bias", "type": "const talc_tensor *"},
                           {"name": "options", "type": "const talc_norm_options *"}]})
        self.assertEqual(self.all["functions"]["talc_no_grad_enter"], {"result": "void", "parameters": []})
        self.assertEqual(self.all["functions"]["talc_fail"]["parameters"][-1], {"name": "", "type": "..."})

    def test_structs(self):
        self.assertEqual(self.all["structs"]["talc_dims"], {
            "bytes": 72, "fields": [{"name": "rank", "type": "int", "offset": 0, "bytes": 4},
                                    {"name": "dim", "type": "int64_t[8]", "offset": 8, "bytes": 64}]})
        device = [field["name"] for field in self.all["structs"]["talc_device"]["fields"]]
        self.assertEqual(device[:2], ["name", "is_host"])
        # Two of one declaration, a nested struct, and a pointer to a function.
        fields = {field["name"]: field for field in self.all["structs"]["talc_gather_arguments"]["fields"]}
        self.assertEqual([fields[name]["type"] for name in ("y", "index")], ["void *", "const int64_t *"])
        problem = {field["name"]: field for field in self.all["structs"]["talc_conv2d_problem"]["fields"]}
        self.assertEqual(problem["C"]["offset"] - problem["N"]["offset"], 8)
        algorithm = {field["name"]: field["type"] for field in self.all["structs"]["talc_algorithm"]["fields"]}
        self.assertEqual(algorithm["run"], "")

    def test_enums(self):
        self.assertEqual(self.all["enums"]["talc_direction"], {"TALC_FORWARD": 0, "TALC_GRAD_INPUT": 1, "TALC_GRAD_WEIGHT": 2})
        self.assertEqual(self.all["enums"]["talc_op"]["TALC_OP_batch_norm2d"], 0)

    def test_ops(self):
        by_name = {op["name"]: op for op in self.all["ops"]}
        self.assertEqual(by_name["softmax"], {
            "name": "softmax", "names": ["softmax", "log_softmax"],
            "operands": [{"name": "x", "read": True, "written": False}, {"name": "y", "read": False, "written": True}]})
        self.assertEqual({"relu", "sign"} - set(by_name["unary"]["names"]), set())


class Text(unittest.TestCase):
    def test_algorithms(self):
        done = ops()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("\nsoftmax: softmax, log_softmax\n  by rows, reference\n", done.stdout)

    def test_an_argument_too_many(self):
        done = ops("softmax")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'softmax' is one argument too many", done.stderr)


unittest.main()
