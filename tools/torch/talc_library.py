"""The talc library for Python, by ctypes and numpy: as much of it as compare_torch.py calls.

The structures are those of the public headers named beside them; known_results() fails when one is out of date.
"""
import ctypes
import pathlib
import re
from ctypes import (POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint,
                    c_uint8, c_uint64, c_void_p)

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
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


class Conv2dOptions(Structure):  # ops/conv2d.h
    _fields_ = [("stride", Pair), ("padding", Pair), ("padding_end", Pair), ("padding_same", c_bool),
                ("padding_mode", c_int), ("dilation", Pair), ("groups", c_int64), ("activation", c_int),
                ("residual", POINTER(Tensor)), ("algorithm", c_char_p), ("precision", c_uint)]


class ConvTranspose2dOptions(Structure):  # ops/conv_transpose2d.h
    _fields_ = [("stride", Pair), ("padding", Pair), ("output_padding", Pair), ("dilation", Pair), ("groups", c_int64),
                ("algorithm", c_char_p), ("precision", c_uint)]


class Pool2dOptions(Structure):  # ops/pool2d.h
    _fields_ = [("kernel", Pair), ("stride", Pair), ("padding", Pair), ("padding_end", Pair),
                ("padding_same", c_bool), ("dilation", Pair), ("ceil_mode", c_bool), ("exclude_padding", c_bool),
                ("divisor_override", c_int64), ("algorithm", c_char_p)]


class PadOptions(Structure):  # ops/resample.h
    _fields_ = [("padding", c_int64 * 16), ("mode", c_int), ("value", c_double)]


class Upsample2dOptions(Structure):  # ops/resample.h
    _fields_ = [("size", Pair), ("scale", c_double * 2), ("mode", c_int), ("align_corners", c_bool)]


class BatchNorm2dOptions(Structure):  # ops/batch_norm2d.h
    _fields_ = [("training", c_bool), ("momentum", c_double), ("eps", c_double), ("activation", c_int),
                ("residual", POINTER(Tensor)), ("num_batches_tracked", POINTER(Tensor)), ("algorithm", c_char_p)]


class NormOptions(Structure):  # ops/group_norm.h
    _fields_ = [("eps", c_double), ("activation", c_int), ("algorithm", c_char_p)]


class LinearOptions(Structure):  # ops/linear.h
    _fields_ = [("activation", c_int), ("residual", POINTER(Tensor)), ("algorithm", c_char_p), ("precision", c_uint)]


class CrossEntropyOptions(Structure):  # ops/cross_entropy.h
    _fields_ = [("reduction", c_int), ("ignore_index", c_int64), ("label_smoothing", c_double), ("class_weights", POINTER(Tensor)),
                ("algorithm", c_char_p)]


class NllLossOptions(Structure):  # ops/nll_loss.h
    _fields_ = [("reduction", c_int), ("ignore_index", c_int64), ("weight", POINTER(Tensor)), ("algorithm", c_char_p)]


class BinaryCrossEntropyOptions(Structure):  # ops/losses.h
    _fields_ = [("reduction", c_int), ("weight", POINTER(Tensor)), ("pos_weight", POINTER(Tensor))]


class Conv2dLayer(Structure):  # nn/layers.h
    _fields_ = [("in_channels", c_int64), ("out_channels", c_int64), ("kernel", Pair), ("stride", Pair), ("padding", Pair),
                ("padding_end", Pair), ("padding_same", c_bool), ("padding_mode", c_int), ("dilation", Pair),
                ("groups", c_int64), ("activation", c_int), ("no_bias", c_bool), ("dtype", c_int)]


class LinearLayer(Structure):  # nn/layers.h
    _fields_ = [("in_features", c_int64), ("out_features", c_int64), ("activation", c_int), ("no_bias", c_bool),
                ("dtype", c_int)]


class OptimizerOptions(Structure):  # nn/optimizer.h
    _fields_ = [("kind", c_int), ("lr", c_double), ("weight_decay", c_double), ("momentum", c_double),
                ("dampening", c_double), ("nesterov", c_bool), ("beta1", c_double), ("beta2", c_double),
                ("alpha", c_double), ("centered", c_bool), ("eps", c_double)]


class Schedule(Structure):  # nn/schedule.h
    _fields_ = [("kind", c_int), ("steps", c_int64), ("every", c_int64), ("gamma", c_double), ("floor", c_double),
                ("rise", c_double), ("div", c_double), ("final_div", c_double), ("warmup", c_int64),
                ("warmup_start", c_double)]


class Progress(Structure):  # nn/checkpoint.h
    _fields_ = [("epoch", c_int64), ("batch", c_int64)]


class Algorithm(Structure):  # ops/algorithm.h: talc_algorithm, and talc_arithmetic within
    _fields_ = [("name", c_char_p), ("text", c_char_p), ("precision", c_int), ("wide_accumulator", c_bool),
                ("plan", c_void_p), ("run", c_void_p)]


# ops/ops.def, in its order
OPS = re.findall(r"^TALC_OP\((\w+)", (ROOT / "ops/ops.def").read_text(), re.M)


class Backend(Structure):  # ops/backend.h
    _fields_ = [("name", c_char_p), ("algorithms", c_void_p * len(OPS))]


class Device(Structure):  # tensor/device.h, the beginning
    _fields_ = [("name", c_char * 24), ("is_host", c_bool), ("interface", c_void_p), ("backend", POINTER(Backend))]


# Each op's list in the backend. What talc_algorithm_force knows the op as, where that is another name, stands in FORCED.
LISTS = {"conv2d": "conv2d", "max_pool2d": "pool2d", "avg_pool2d": "pool2d", "adaptive_avg_pool2d": "pool2d", "adaptive_max_pool2d": "pool2d",
         "batch_norm2d": "batch_norm2d", "group_norm": "group_norm", "linear": "matmul", "matmul": "matmul", "softmax": "softmax",
         "log_softmax": "softmax", "sum": "reduce", "mean": "reduce", "max": "reduce", "argmax": "reduce",
         "min": "reduce", "argmin": "reduce", "var": "reduce", "logsumexp": "reduce",
         "conv2d.grad_input": "conv2d", "conv2d.grad_weight": "conv2d", "conv2d.grad_bias": "reduce",
         "conv_transpose2d": "conv2d", "conv_transpose2d.grad_input": "conv2d", "conv_transpose2d.grad_weight": "conv2d",
         "max_pool2d.grad_input": "pool2d", "avg_pool2d.grad_input": "pool2d",
         "adaptive_avg_pool2d.grad_input": "pool2d", "adaptive_max_pool2d.grad_input": "pool2d",
         "pad": "resample", "upsample2d": "resample",
         "pad.grad_input": "resample", "upsample2d.grad_input": "resample"}
NUMBERS = {"leaky_relu": 1, "elu": 1, "hardtanh": 2, "softplus": 2}  # that an elementwise op takes after x
UNARY = ["neg", "abs", "exp", "log", "sqrt", "rsqrt", "floor", "sign", "tanh", "sigmoid", "relu", "relu6", "hardsigmoid",
         "hardswish", "silu", "mish", "gelu", "gelu_tanh", *NUMBERS]
BINARY = ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater",
          "greater_equal"]
LOSSES = {"mse_loss": 0, "l1_loss": 0, "huber_loss": 1, "smooth_l1_loss": 1}  # numbers after the target
# Ops that are copies, or made of others: there is nothing to choose.
LISTS.update({op: None for op in [*LOSSES, "binary_cross_entropy_with_logits", "concat", "channel_shuffle", "masked_fill"]})
LISTS.update({op: "binary" for op in BINARY}, gather="gather", index_select="gather", one_hot="gather", where="where", clamp="unary",
             cumsum="cumsum", cross_entropy="cross_entropy", nll_loss="nll_loss")
LISTS.update({f"{op}.grad_input": LISTS[op] for op in ("gather", "index_select", "cumsum", "cross_entropy", "nll_loss")})
LISTS.update({f"{op}_norm{end}.grad_input": f"{rows}_norm{end if rows == 'batch' else ''}" for op, end, rows in
              (("group", "", "group"), ("instance", "2d", "group"), ("layer", "", "group"), ("batch", "2d", "batch"))})
LISTS.update({op: "unary" for op in UNARY}, **{f"{op}.grad_input": "binary" for op in UNARY})
FORCED = {"instance_norm2d.grad_input": "group_norm.grad_input", "layer_norm.grad_input": "group_norm.grad_input",
          "conv2d.grad_bias": "sum", "conv_transpose2d": "conv2d.grad_input", "conv_transpose2d.grad_input": "conv2d",
          "conv_transpose2d.grad_weight": "conv2d.grad_weight"}

T = POINTER(Tensor)
M = O = c_void_p  # a module, an optimizer
FUNCTIONS = {  # result, then arguments
    "device_get": [POINTER(Device), c_char_p],
    "error_status": [c_int], "error_message": [c_char_p], "error_clear": [None],
    "scope_enter": [c_void_p], "scope_leave": [None, c_void_p],
    "algorithm_force": [c_bool, c_char_p, c_char_p],
    "from_host": [T, POINTER(Device), c_int, Dims, c_void_p], "to_host": [c_bool, T, c_void_p, c_size_t],
    "permute": [T, T, Dims], "slice": [T, T, c_int, c_int64, c_int64, c_int64],
    "conv2d": [T, T, T, T, POINTER(Conv2dOptions)],
    "conv_transpose2d": [T, T, T, T, POINTER(ConvTranspose2dOptions)],
    "max_pool2d": [T, T, POINTER(Pool2dOptions)], "avg_pool2d": [T, T, POINTER(Pool2dOptions)],
    "max_pool2d_indices": [T, T, POINTER(Pool2dOptions), POINTER(T)], "adaptive_avg_pool2d": [T, T, c_int64, c_int64],
    "adaptive_max_pool2d": [T, T, c_int64, c_int64],
    "pad": [T, T, POINTER(PadOptions)], "upsample2d": [T, T, POINTER(Upsample2dOptions)],
    "batch_norm2d": [T, T, T, T, T, T, POINTER(BatchNorm2dOptions)],
    "group_norm": [T, T, c_int64, T, T, POINTER(NormOptions)],
    "instance_norm2d": [T, T, T, T, POINTER(NormOptions)], "layer_norm": [T, T, Dims, T, T, POINTER(NormOptions)],
    "linear": [T, T, T, T, POINTER(LinearOptions)], "matmul": [T, T, T],
    "softmax": [T, T, c_int], "log_softmax": [T, T, c_int],
    "sum": [T, T, Dims, c_bool], "mean": [T, T, Dims, c_bool], "max": [T, T, Dims, c_bool],
    "argmax": [T, T, Dims, c_bool], "min": [T, T, Dims, c_bool], "argmin": [T, T, Dims, c_bool],
    "var": [T, T, Dims, c_double, c_bool], "logsumexp": [T, T, Dims, c_bool],
    "gather": [T, T, c_int, T], "index_select": [T, T, c_int, T], "one_hot": [T, T, c_int64], "masked_fill": [T, T, T, c_double],
    "where": [T, T, T, T], "clamp": [T, T, c_double, c_double], "cumsum": [T, T, c_int],
    "concat": [T, POINTER(T), c_int, c_int], "stack": [T, POINTER(T), c_int, c_int], "channel_shuffle": [T, T, c_int64],
    "cross_entropy_with": [T, T, T, POINTER(CrossEntropyOptions)], "nll_loss": [T, T, T, POINTER(NllLossOptions)],
    "binary_cross_entropy_with_logits": [T, T, T, POINTER(BinaryCrossEntropyOptions)],
    "cross_entropy": [T, T, T], "item": [c_double, T],
    "require_grad": [c_bool, T, c_bool], "grad": [T, T],
    "backward": [c_bool, T], "backward_from": [c_bool, T, T],
    "manual_seed": [c_bool, c_uint64],
    "nn_sequential": [M], "nn_sequential_append": [M, M, M], "nn_conv2d": [M, POINTER(Conv2dLayer)],
    "nn_linear": [M, POINTER(LinearLayer)], "nn_max_pool2d": [M, POINTER(Pool2dOptions)], "nn_relu": [M], "nn_flatten": [M],
    "no_grad_enter": [None], "no_grad_leave": [None],
    "module_cast": [c_bool, M, c_int], "module_load": [c_bool, M, c_char_p, c_bool], "module_eval": [c_bool, M],
    "module_train": [c_bool, M], "module_child": [M, M, c_char_p],
    "module_to": [c_bool, M, POINTER(Device)], "module_find": [T, M, c_char_p], "module_free": [None, M],
    "forward": [T, M, T],
    "optimizer_new": [O, M, POINTER(OptimizerOptions)], "optimizer_schedule": [c_bool, O, POINTER(Schedule)],
    "optimizer_zero_grad": [None, O], "optimizer_step": [c_bool, O], "optimizer_free": [None, O],
    "checkpoint_save": [c_bool, c_char_p, M, O, POINTER(Progress)],
    "checkpoint_load": [c_bool, c_char_p, M, O, POINTER(Progress)],
    "dataset_digits": [c_void_p, c_int64, c_uint64], "dataset_pixels": [POINTER(c_uint8), c_void_p, c_int64],
    "dataset_label": [c_int64, c_void_p, c_int64], "dataset_free": [None, c_void_p],
}
FUNCTIONS.update({op: [T, T, T] for op in BINARY})
FUNCTIONS.update({op: [T, T, T] + [c_double] * numbers + [c_int] for op, numbers in LOSSES.items()})
FUNCTIONS.update({op: [T, T] + [c_double] * NUMBERS.get(op, 0) for op in UNARY})


class Refused(Exception):
    """No algorithm, or not the one that is forced, takes the problem."""


def dims(extents):
    return Dims(len(extents), (c_int64 * 8)(*extents))


class Talc:
    """The library on one device. Its functions are methods, without the talc_, that raise the library's errors."""

    def __init__(self, path, device):
        library = ctypes.CDLL(str(path))
        self.functions = {}
        for name, (result, *arguments) in FUNCTIONS.items():
            function = getattr(library, "talc_" + name)
            function.restype, function.argtypes = result, arguments
            self.functions[name] = function
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

    def rows(self, op, device=None):
        """Name and wide_accumulator of every algorithm that a device, by default this one, has for an op."""
        if LISTS.get(op) is None:
            yield None, False
            return
        at = (device or self.device).contents.backend.contents.algorithms[OPS.index(LISTS[op])]
        while at and Algorithm.from_address(at).name:
            row = Algorithm.from_address(at)
            yield row.name.decode(), row.wide_accumulator
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
    for op in filter(LISTS.get, LISTS):
        names = [name for name, _ in talc.rows(op, cpu)]
        if names[-1:] != ["reference"]:
            raise RuntimeError(f"the algorithms of {op} on the CPU are {names}, the last must be the reference")
