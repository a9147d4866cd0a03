"""Random problems of elementwise ops of one operand, and of their gradients, for compare_torch.py.

With y = f(x), a value may be off by 8 u |y| for its roundings and by 4 u |x f'(x)| for those of what it is a function of, such as
the exponent of a tail. A gradient likewise by 8 u (|f| / |x| + |f'|) + 4 u |x f''|, times |dy|, where the first two are the terms
that a product x g(x) has; where it follows from a y near 1, in 1 - y, by 8 u |y dy| more. PyTorch's own formulas may lose as much
in float64, and those of gelu, which cancel, u |x|, by tanh u |x|^3. Its gradient of hardsigmoid has a 1/6 of f32.
"""
import numpy as np
import torch
import torch.nn.functional as F

from compare_torch_gradients import backward
from compare_torch_problems import Case, Expected, array_of, one, words

# PyTorch's function, whether it takes positive numbers only, and what draws the numbers that talc's takes after x.
UNARY = {
    "neg": (torch.neg, False, None), "abs": (torch.abs, False, None), "exp": (torch.exp, False, None),
    "log": (torch.log, True, None), "sqrt": (torch.sqrt, True, None), "rsqrt": (torch.rsqrt, True, None),
    "floor": (torch.floor, False, None), "sign": (torch.sign, False, None), "tanh": (torch.tanh, False, None),
    "sigmoid": (torch.sigmoid, False, None), "relu": (torch.relu, False, None), "relu6": (F.relu6, False, None),
    "hardsigmoid": (lambda x: F.relu6(x + 3) / 6, False, None), "hardswish": (F.hardswish, False, None), "silu": (F.silu, False, None),
    "mish": (F.mish, False, None), "gelu": (F.gelu, False, None),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), False, None),
    "softplus": (F.softplus, False, lambda rng: [0.1 + 2 * rng.random(), one(rng, 20, 1.5, 800)]),
    "leaky_relu": (F.leaky_relu, False, lambda rng: [rng.random()]),
    "elu": (F.elu, False, lambda rng: [2 * rng.random()]),
    "selu": (F.selu, False, None), "softsign": (F.softsign, False, None),
    "hardsigmoid_ramp": (lambda x, slope, offset: (slope * x + offset).clamp(0, 1), False, lambda rng: [2 * rng.random() - 1, rng.random()]),
    "hardswish_ramp": (lambda x, slope, offset: x * (slope * x + offset).clamp(0, 1), False, lambda rng: [2 * rng.random() - 1, rng.random()]),
    "ceil": (torch.ceil, False, None), "round": (torch.round, False, None), "erf": (torch.erf, False, None),
    "reciprocal": (torch.reciprocal, False, None),
    "hardtanh": (F.hardtanh, False, lambda rng: [-rng.random(), rng.random()]),
}
EXACT = ("neg", "abs", "floor", "sign", "ceil", "round", "relu", "relu6", "hardtanh")


def derivatives(function, x):
    """f(x), f'(x) and, from differences, x f''(x), as arrays."""
    def slope(at):
        at = torch.from_numpy(at).requires_grad_(True)
        return torch.autograd.grad(function(at).sum(), at)[0].numpy(force=True)

    x, h = x.astype("f8"), 1e-6
    with np.errstate(invalid="ignore"):
        return function(torch.from_numpy(x)).numpy(), slope(x), (slope(x * (1 + h)) - slope(x * (1 - h))) / (2 * h)


def problem(rng, dtype, op):
    """PyTorch's function of x alone, and the case of talc's."""
    function, positive, draw = UNARY[op]
    x = array_of(rng, dtype)
    x = x * x.dtype.type(one(rng, 1, 3, 10))
    if positive:
        x = np.abs(x) + x.dtype.type(0.1)
    numbers = [] if draw is None else [float(x.dtype.type(v)) for v in draw(rng)]
    if op == "softplus":  # it jumps at its threshold, on whose either side a product may be rounded
        beta, threshold = numbers
        x = np.where(np.abs(beta * x - threshold) < 1e-5 * threshold, x.dtype.type(0), x)

    def of_x(t):
        return function(t, *numbers)

    def expected_values():
        y, slope, _ = derivatives(of_x, x)
        if op in EXACT:
            return [Expected(y)]
        with np.errstate(invalid="ignore"):
            off = 8 * np.abs(y) + 4 * np.abs(x * slope)
        return [Expected(y, sum=off, doubt=off + np.abs(x), peer=of_x(torch.from_numpy(x)).numpy())]

    text = "x".join(map(str, x.shape)) + words(dtype) + "".join(f"_{v:g}" for v in numbers)
    return of_x, Case(text, [x], lambda talc, x: [getattr(talc, op)(x, *numbers)], expected_values)


def gradient(rng, dtype, op):
    function, forward = problem(rng, dtype, op)
    x, = forward.operands
    dy = np.asarray(2 * rng.random(x.shape) - 1, x.dtype)

    def expected_values():
        y, slope, bend = derivatives(function, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.where(x == 0, 0, np.abs(y / x))
        off = (8 * (first + np.abs(slope)) + 4 * np.abs(bend)) * np.abs(dy)
        if op in ("sigmoid", "tanh"):
            off = off + 8 * np.abs(y * dy)
        lost = (1 + np.abs(x)) ** (3 if op == "gelu_tanh" else 1) * np.abs(dy)
        return [Expected(slope * dy.astype("f8"), sum=off, doubt=off + lost)]

    return backward(forward, 0, dy, expected_values)


FORWARD = {op: lambda rng, dtype, op=op: problem(rng, dtype, op)[1] for op in UNARY}
GRADIENTS = {f"{op}.grad_input": lambda rng, dtype, op=op: gradient(rng, dtype, op) for op in UNARY}
