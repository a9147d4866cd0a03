"""Random problems of gradients for compare_torch.py, and transposed convolution, which is one.

A gradient of a convolution is linear in dy and in the other operand: PyTorch's derivative of its own convolution in
float64 says what each element must be, of absolute values how large the terms are, and of ones how many. Bounds then are
those of a sum. Two things add to them. Where padding is no zeros, the gradient of the padded image is rounded before the m
elements that are copies of one pixel are added up: m u S more. A transposed convolution is rounded before its bias is
added: u S more.

Activations are none and relu, which passes dy on where y is above 0. Where y is within its bound of 0, rounding decides
that, so dy is 0 there.
"""
from ctypes import byref

import numpy as np
import torch
import torch.nn.functional as F

from compare_torch_problems import (Case, Convolution, adaptive_avg_pool2d, adaptive_max_pool2d,
                                    avg_pool2d, extent, fill, max_pool2d, maybe, one, pad,
                                    pair, summed, upsample2d, words)
from talc_library import ConvTranspose2dOptions, Pair


def derivative(function, at, dy):
    """That of sum(function(x) dy) with respect to x, for x = at."""
    x = at.clone().requires_grad_(True)
    return torch.autograd.grad(function(x), x, dy)[0]


def ones(shape):
    return torch.ones(shape, dtype=torch.float64)


def backward(forward, leaf, dy, expected_values):
    """The case of the gradient of operand `leaf` of another case's only result."""
    def call(talc, *operands):
        *operands, cotangent = operands
        talc.require_grad(operands[leaf], True)
        talc.backward_from(forward.call(talc, *operands)[0], cotangent)
        return [talc.grad(operands[leaf])]
    return Case(forward.text, [*forward.operands, dy], call, expected_values)


class Gradients:
    """Those of product(x, w) by its operands."""

    def input(self, dy, w):
        return derivative(lambda x: self.product(x, w), torch.zeros(self.x.shape, dtype=dy.dtype), dy)

    def weight(self, dy, x):
        return derivative(lambda w: self.product(x, w), torch.zeros(self.w.shape, dtype=dy.dtype), dy)


# ---- Convolution ------------------------------------------------------------------------------------------------

class ConvolutionGradient(Gradients, Convolution):
    """A convolution with a cotangent, and the gradients of its product."""

    def __init__(self, rng, dtype):
        super().__init__(rng, dtype)
        self.activation = one(rng, "none", "relu")
        self.dy = fill(rng, dtype, self.y_shape)
        self.passed = self.dy  # through the activation
        if self.activation == "relu":
            y = self.expected("none")
            self.dy = np.where(np.abs(y.value) <= y.bound(dtype, False), self.dy.dtype.type(0), self.dy)
            self.passed = np.where(y.value > 0, self.dy, self.dy.dtype.type(0))

    def copies(self):
        """How many elements of the padded image a pixel stands for."""
        x = ones(self.x.shape)
        return derivative(self.padded, x, torch.ones_like(self.padded(x))).numpy()

    def gradient(self, leaf, expected_values):
        """Of operand `leaf` of x, w, bias, residual."""
        return backward(self.case(), leaf, self.dy, expected_values)


def conv2d_grad_input(rng, dtype):
    c = ConvolutionGradient(rng, dtype)

    def expected_values():
        K = c.input(ones(c.y_shape), ones(c.w.shape)).numpy()
        expected = summed(c.input, [c.passed, c.w], dtype, K)
        if c.mode != "zeros" and any(c.pads):
            copies = c.copies()
            sizes = c.input(*[torch.from_numpy(np.abs(a).astype("f8")) for a in (c.passed, c.w)]).numpy()
            expected.after = np.where(copies > 1, copies * sizes, 0)
        return [expected]

    return c.gradient(0, expected_values)


def conv2d_grad_weight(rng, dtype):
    c = ConvolutionGradient(rng, dtype)
    return c.gradient(1, lambda: [summed(c.weight, [c.passed, c.x], dtype, c.weight(ones(c.y_shape), ones(c.x.shape)).numpy())])


def conv2d_grad_bias(rng, dtype):
    c = ConvolutionGradient(rng, dtype)
    if c.b is None:  # of zeros, which changes no result
        c.b = np.zeros(c.y_shape[1], c.x.dtype)
    N, _, OH, OW = c.y_shape
    return c.gradient(2, lambda: [summed(lambda dy: dy.sum((0, 2, 3)), [c.passed], dtype, N * OH * OW)])


# ---- Transposed convolution -------------------------------------------------------------------------------------

class Transposed(Gradients):
    """A random transposed convolution."""

    def __init__(self, rng, dtype):
        self.dtype = dtype
        while True:  # until padding leaves something of the output
            self.groups, IC, OC = one(rng, (1, extent(rng, 40), extent(rng, 40)), (extent(rng, 20), 1, 1),
                                      (extent(rng, 4), extent(rng, 9), extent(rng, 9)))
            H, W = extent(rng, 20), extent(rng, 40)
            self.kernel = one(rng, [1, 1], [3, 3], pair(rng, 1, 5), pair(rng, 1, 7))
            self.stride, self.dilation = one(rng, [1, 1], [2, 2], pair(rng, 1, 3)), one(rng, [1, 1], pair(rng, 1, 3))
            self.padding = pair(rng, 0, 3)
            self.more = [int(rng.integers(0, max(s, d))) for s, d in zip(self.stride, self.dilation)]  # output_padding
            extents = [(e - 1) * s - 2 * p + d * (k - 1) + m + 1 for e, s, p, d, k, m in
                       zip((H, W), self.stride, self.padding, self.dilation, self.kernel, self.more)]
            if min(extents) > 0:
                break
        N = int(rng.integers(0, 4)) if rng.random() < 0.3 else 1
        self.x = fill(rng, dtype, (N, self.groups * IC, H, W))
        self.w = fill(rng, dtype, (self.groups * IC, OC, *self.kernel))
        self.b = maybe(rng, dtype, self.groups * OC)
        self.dy = fill(rng, dtype, (N, self.groups * OC, *extents))

    def product(self, x, w):
        return F.conv_transpose2d(x, w, None, self.stride, self.padding, self.more, self.groups, self.dilation)

    def call(self, talc, x, w, b):
        return [talc.conv_transpose2d(x, w, b, byref(ConvTranspose2dOptions(
            Pair(*self.stride), Pair(*self.padding), Pair(*self.more), Pair(*self.dilation), self.groups)))]

    def expected(self):
        K = self.product(ones(self.x.shape), ones(self.w.shape)).numpy()
        expected = summed(self.product, [self.x, self.w], self.dtype, K, [] if self.b is None else [self.b[:, None, None]])
        if self.b is not None:
            expected.after = self.product(*[torch.from_numpy(np.abs(a).astype("f8")) for a in (self.x, self.w)]).numpy()
        return [expected]

    def case(self):
        return Case(self.text(), [self.x, self.w, self.b], self.call, self.expected)

    def text(self):
        pairs = zip(("k", "s", "p", "+", "d"), (self.kernel, self.stride, self.padding, self.more, self.dilation))
        return ("x".join(map(str, self.x.shape)) + f":o{self.dy.shape[1]}" + "".join(f"{name}{a}x{b}" for name, (a, b) in pairs)
                + f"g{self.groups}" + words(self.dtype, bias=self.b is not None))


def conv_transpose2d(rng, dtype):
    return Transposed(rng, dtype).case()


def conv_transpose2d_gradient(rng, dtype, leaf):
    c = Transposed(rng, dtype)
    function, other, shape = [(c.input, c.w, c.w.shape), (c.weight, c.x, c.x.shape)][leaf]
    return backward(c.case(), leaf, c.dy,
                    lambda: [summed(function, [c.dy, other], dtype, function(ones(c.dy.shape), ones(shape)).numpy())])


# ---- Pooling ----------------------------------------------------------------------------------------------------

def pooling_gradient(make):
    """Linear in dy. Of an average each term is divided, by a number that is rounded at most once: two roundings more."""
    def case(rng, dtype):
        shape = (0,)
        while 0 in shape[-2:]:  # PyTorch has no gradient of planes without elements
            forward = make(rng, dtype)
            x = forward.operands[0]
            shape = tuple(forward.pool(torch.from_numpy(x)).shape)
        dy = fill(rng, dtype, shape)

        def back(dy, function=forward.pool):
            return derivative(function, torch.from_numpy(x).to(dy.dtype), dy)

        def expected_values():
            sizes_of = forward.sizes_of and (lambda dy: back(dy, forward.sizes_of))
            expected = summed(back, [dy], dtype, forward.readers + 2, sizes_of=sizes_of)
            expected.doubt = expected.doubt + forward.weights * forward.readers * np.abs(dy).max(initial=0)
            return [expected]

        return backward(forward, 0, dy, expected_values)
    return case


OPS = {"conv2d.grad_input": conv2d_grad_input, "conv2d.grad_weight": conv2d_grad_weight, "conv2d.grad_bias": conv2d_grad_bias,
       "conv_transpose2d": conv_transpose2d,
       "conv_transpose2d.grad_input": lambda rng, dtype: conv_transpose2d_gradient(rng, dtype, 0),
       "conv_transpose2d.grad_weight": lambda rng, dtype: conv_transpose2d_gradient(rng, dtype, 1)}
OPS.update({f"{op}.grad_input": pooling_gradient(make) for op, make in
            [("max_pool2d", max_pool2d), ("avg_pool2d", avg_pool2d), ("adaptive_avg_pool2d", adaptive_avg_pool2d),
             ("adaptive_max_pool2d", adaptive_max_pool2d),
             ("pad", pad), ("upsample2d", upsample2d)]})
WEIGHTS = {"conv2d.grad_input": 3, "conv2d.grad_weight": 3, "conv_transpose2d": 2}
