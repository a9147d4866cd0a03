"""The talc library for Python, by ctypes and numpy: as much of it as compare_torch.py calls.

Structures and functions are those that `talc ops --json` of the same build describes.
"""
import ctypes
import json
import pathlib
import subprocess
from ctypes import (POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint,
                    c_uint8, c_uint64, c_void_p)

import numpy as np

ZERO, END = -2**63, 2**63 - 1  # TALC_ZERO, TALC_END
UNSUPPORTED = 7                # TALC_UNSUPPORTED
DTYPES = {"f32": 0, "f64": 1, "i64": 2, "u8": 4}
MODES = ["zeros", "reflect", "replicate", "circular"]
ACTIVATIONS = ["none", "relu", "sigmoid", "tanh", "relu6", "hardsigmoid", "hardswish", "silu", "gelu",
               "leaky_relu"]
Pair = c_int64 * 2


class Dims(Structure):  # tensor/tensor.h
    _fields_ = [("rank", c_int), ("dim", c_int64 * 8)]


class Tensor(Structure):  # tensor/tensor.h
    _fields_ = [("dtype", c_int), ("rank", c_int), ("dims", c_int64 * 8), ("strides", c_int64 * 8)]


class ImageSize(Structure):  # nn/data/image.h
    _fields_ = [("height", c_int64), ("width", c_int64)]


STRUCTURES = {}  # talc_conv2d_options and so on, as `talc ops --json` lays them out


def structure(name):
    """What makes one, once the library is loaded."""
    return lambda *values, **fields: STRUCTURES[name](*values, **fields)


Conv2dOptions, ConvTranspose2dOptions = structure("talc_conv2d_options"), structure("talc_conv_transpose2d_options")
Pool2dOptions, PadOptions = structure("talc_pool2d_options"), structure("talc_pad_options")
Upsample2dOptions, LinearOptions = structure("talc_upsample2d_options"), structure("talc_linear_options")
UnfoldOptions = structure("talc_unfold_options")
BatchNorm2dOptions, NormOptions = structure("talc_batch_norm2d_options"), structure("talc_norm_options")
CrossEntropyOptions, NllLossOptions = structure("talc_cross_entropy_options"), structure("talc_nll_loss_options")
BinaryCrossEntropyOptions = structure("talc_binary_cross_entropy_options")
Conv2dLayer, LinearLayer = structure("talc_conv2d_layer"), structure("talc_linear_layer")
OptimizerOptions, Schedule = structure("talc_optimizer_options"), structure("talc_schedule")
Progress = structure("talc_progress")

# Each op's list in the backend, where that is not the one of its name in `talc ops --json`.
LISTS = {"conv2d.grad_bias": "reduce", "clamp": "unary", "clamp.grad_input": None,
         "conv_transpose2d": "conv2d", "instance_norm2d": "group_norm", "layer_norm": "group_norm"}
# The list that computes the input gradients of one that has no dx of its own.
GRADIENTS = {"resample": "resample", "cumsum": "cumsum", "unary": "binary"}
# What talc_algorithm_force knows an op as, where that is another name.
FORCED = {"instance_norm2d.grad_input": "group_norm.grad_input", "layer_norm.grad_input": "group_norm.grad_input",
          "conv2d.grad_bias": "sum", "conv_transpose2d": "conv2d.grad_input", "conv_transpose2d.grad_input": "conv2d",
          "conv_transpose2d.grad_weight": "conv2d.grad_weight"}

T = POINTER(Tensor)
NUMBERS_OF_C = {"bool": c_bool, "double": c_double, "int": c_int, "int64_t": c_int64, "size_t": c_size_t, "unsigned": c_uint,
                "uint64_t": c_uint64, "uint8_t": c_uint8, "char": c_char, "talc_dims": Dims, "talc_image_size": ImageSize}


def type_of(text, enums, size=0):
    """The ctypes type of one that C writes so, a field's of so many bytes; None of what has none here."""
    base, bracket, _ = text.partition("[")
    if bracket:
        element = type_of(base, enums)
        return element and element * (size // ctypes.sizeof(element))
    if base.endswith("*"):
        return {"const char *": c_char_p, "talc_tensor *": T, "const talc_tensor *": T}.get(base, c_void_p)
    return c_int if base in enums else NUMBERS_OF_C.get(base)


def lay_out(name, description, enums):
    """A Structure whose every field lies where C has it; what lies between them, and what has no type here, are bytes."""
    fields, at = [], 0
    for field in [*description["fields"], {"name": "", "type": "", "offset": description["bytes"], "bytes": 0}]:
        if field["offset"] > at:
            fields.append((f"_{at}", c_uint8 * (field["offset"] - at)))
        if field["bytes"]:
            fields.append((field["name"], type_of(field["type"], enums, field["bytes"]) or c_uint8 * field["bytes"]))
        at = field["offset"] + field["bytes"]
    names = [field["name"] for field in description["fields"]]

    def initialise(self, *values, **more):
        Structure.__init__(self, **dict(zip(names, values)), **more)
    return type(name, (Structure,), {"_pack_": 1, "_fields_": fields, "__init__": initialise})


class Refused(Exception):
    """No algorithm, or not the one that is forced, takes the problem."""


def dims(extents):
    return Dims(len(extents), (c_int64 * 8)(*extents))


class Talc:
    """The library on one device. Its functions are methods, without the talc_, that raise the library's errors."""

    def __init__(self, path, device):
        library = ctypes.CDLL(str(path))
        program = pathlib.Path(path).resolve().parent / "tools" / "talc"
        interface = json.loads(subprocess.run([program, "ops", "--json", "--device", "cpu"], check=True, text=True,
                                              stdout=subprocess.PIPE).stdout)
        self.ops, enums = [op["name"] for op in interface["ops"]], interface["enums"]
        self.lists = {name: op["name"] for op in interface["ops"] for name in op["names"]} | LISTS
        self.gradients = {op["name"]: op["name"] for op in interface["ops"]
                          if any(operand["name"] == "dx" for operand in op["operands"])} | GRADIENTS
        for name, description in interface["structs"].items():
            STRUCTURES[name] = lay_out(name, description, enums)
        self.functions = {}
        for name, described in interface["functions"].items():
            function = getattr(library, name)
            by_type = {"void": None, "const char *": c_char_p, "const uint8_t *": POINTER(c_uint8)}
            function.restype = by_type.get(described["result"], type_of(described["result"], enums))
            function.argtypes = ["[" not in p["type"] and type_of(p["type"], enums) or c_void_p for p in described["parameters"]
                                 if p["type"] != "..."]
            self.functions[name.removeprefix("talc_")] = function
        self.device = self.device_get(device.encode())

    def __getattr__(self, name):
        def call(*arguments):
            result = self.functions[name](*arguments)
            status = self.functions["error_status"]()
            if status:
                message = self.functions["error_message"]().decode()
                self.functions["error_clear"]()
                raise Refused(message) if status == UNSUPPORTED else RuntimeError(message)
            return result
        return call

    def list_of(self, op):
        """Whose algorithms run an op or a gradient, "pad.grad_input"; None where there is nothing to choose."""
        name, _, gradient = op.partition(".")
        return self.gradients.get(self.lists.get(name)) if gradient and op not in self.lists else self.lists.get(op)

    def algorithms(self, op, device=None):
        """Name, with its form as name(form), and wide_accumulator of every algorithm that a device, by default this one, has for an op."""
        if self.list_of(op) is None:
            yield None, False
            return
        backend = STRUCTURES["talc_device"].from_address(device or self.device).backend
        lists = (c_void_p * len(self.ops)).from_address(backend + STRUCTURES["talc_backend"].algorithms.offset)
        at, Algorithm = lists[self.ops.index(self.list_of(op))], STRUCTURES["talc_algorithm"]
        while at and Algorithm.from_address(at).name:
            algorithm = Algorithm.from_address(at)
            name = algorithm.name.decode()
            yield f"{name}({algorithm.form.decode()})" if algorithm.form else name, STRUCTURES["talc_arithmetic"].from_buffer(algorithm.arithmetic).wide_accumulator
            at += ctypes.sizeof(Algorithm)

    def upload(self, array):
        array = np.asarray(array, order="C")
        dtype = {"float32": "f32", "float64": "f64", "int64": "i64", "uint8": "u8"}[array.dtype.name]
        return self.from_host(self.device, DTYPES[dtype], dims(array.shape), array.ctypes.data)

    def place(self, array, layout):
        """The array as a tensor of some layout: None, a permutation of its dimensions in memory, or one with gaps."""
        if array is None:
            return None
        if layout is None:
            return self.upload(array)
        if isinstance(layout, tuple):
            return self.permute(self.upload(array.transpose(layout)), dims(np.argsort(layout).tolist()))
        shape = list(array.shape)
        shape[layout] = 2 * shape[layout] + 1
        gaps = np.full(shape, np.nan if array.dtype.kind == "f" else 99, array.dtype)
        gaps[(slice(None),) * layout + (slice(1, None, 2),)] = array
        return self.slice(self.upload(gaps), layout, 1, END, 2)

    def download(self, tensor):
        t = tensor.contents
        dtype = {0: np.float32, 1: np.float64, 2: np.int64, 4: np.uint8}[t.dtype]
        array = np.empty(t.dims[:t.rank], dtype)
        self.to_host(tensor, array.ctypes.data, array.nbytes)
        return array


def known_results(talc):
    """One result for each structure above that no other layout of its fields would give; of lists those of the CPU, whose last
    algorithm is known."""
    grid = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)

    def tensor(*values):
        return talc.upload(np.array(values, np.float32))

    residual = talc.upload(np.ones((1, 1, 2, 2), np.float32))
    options = Conv2dOptions(Pair(2, 1), Pair(1, 0), Pair(ZERO, 1), False, 2, Pair(0, 2), 0, 1, residual)
    kernel = talc.upload(np.array([1, 10], np.float32).reshape(1, 1, 1, 2))
    pool = Pool2dOptions(Pair(2, 2), Pair(2, 1), Pair(), Pair(), False, Pair(), True, False, 2)
    norm = BatchNorm2dOptions(False, 0, ZERO, 1)
    linear = LinearOptions(1, tensor(1, 1))
    results = [
        ("conv2d", talc.conv2d(talc.upload(grid), kernel, tensor(-50), byref(options)), [0, 0, 15, 16]),
        ("avg_pool2d", talc.avg_pool2d(talc.upload(grid), byref(pool)), [6, 8, 7.5, 8.5]),
        ("batch_norm2d", talc.batch_norm2d(talc.upload(grid), tensor(2), tensor(-4), tensor(3), tensor(4), byref(norm)),
         [0, 0, 0, 0, 0, 0, 0, 1, 2]),
        ("linear", talc.linear(tensor(1, 2), talc.upload(grid[0, 0, :2, :2]), tensor(-6, -14), byref(linear)), [0, 1]),
    ]
    for op, y, expected in results:
        if talc.download(y).ravel().tolist() != expected:
            raise RuntimeError(f"{op} gives {talc.download(y).ravel().tolist()}, not {expected}: its structure in "
                               "talc_library.py is not that of the header")
    cpu = talc.device_get(b"cpu")
    for op in filter(talc.list_of, talc.lists):
        names = [name for name, _ in talc.algorithms(op, cpu)]
        if names[-1:] != ["reference"]:
            raise RuntimeError(f"the algorithms of {op} on the CPU are {names}, the last must be the reference")
