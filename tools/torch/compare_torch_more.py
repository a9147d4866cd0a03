"""Random problems of the other ops for compare_torch.py: arithmetic of two operands, picking by indices and conditions, sums so far,
losses, and the gradients of norms, products, softmax and reductions.

What only picks or is rounded once is exact. A gradient that is linear in dy is a sum, and so are those of products. The other bounds
are those that the headers declare, or count roundings: each term of a formula by the numbers that stand in it, with c(n) =
4 sqrt(n + 4) of a sum of n. They are 8 u S and c(M) u S for a norm of M values, with the terms S of its gradient's formula, where
|x - mu| + mean |x| stands for the distance from a mean that is rounded.
"""
from ctypes import byref, c_int64

import numpy as np
import torch
import torch.nn.functional as F

from compare_torch_gradients import backward, derivative, ones, pooling_gradient
from compare_torch_problems import Case, Expected, array_of, extent, fill, maybe, one, reduction, softmax, summed, tensors, words
from talc_library import ZERO, BatchNorm2dOptions, BinaryCrossEntropyOptions, CrossEntropyOptions, NllLossOptions, NormOptions, T, UnfoldOptions, dims


def c(n):
    return 4 * np.sqrt(n + 4)


def shape_text(*arrays):
    return ":".join("x".join(map(str, a.shape)) for a in arrays)


def stretched(rng, shape):
    """A shape that broadcasts to this one."""
    own = [1 if rng.random() < 0.3 else e for e in shape]
    return own[rng.integers(0, len(own) + 1):] if rng.random() < 0.3 else own


def floats(arrays):
    return tensors(arrays, "f8")


def graded(function, arrays, leaf, dy):
    """PyTorch's gradient of one operand in float64, and of absolute values."""
    operands = floats(arrays)
    return derivative(lambda t: function(*operands[:leaf], t, *operands[leaf + 1:]), operands[leaf], floats([dy])[0]).numpy()


# ---- Two operands -----------------------------------------------------------------------------------------------

BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
          "squared_difference": lambda a, b: (a - b) ** 2, "maximum": torch.maximum, "minimum": torch.minimum,
          "equal": torch.eq, "not_equal": torch.ne, "less": torch.lt, "less_equal": torch.le, "greater": torch.gt,
          "greater_equal": torch.ge}


def pair_of(rng, dtype, op):
    a = array_of(rng, dtype)
    b = fill(rng, dtype, stretched(rng, a.shape))
    if op in ("div", "pow"):
        b = np.where(np.abs(b) < 0.1, b.dtype.type(0.5), b)
    if op == "pow":
        a = np.abs(a) + a.dtype.type(0.1)
    return a, b


def binary(rng, dtype, op):
    a, b = pair_of(rng, dtype, op)

    def expected_values():
        if op == "pow":
            y = BINARY[op](*floats([a, b])).numpy()
            return [Expected(y, sum=8 * y, doubt=8 * y)]
        return [Expected(BINARY[op](torch.from_numpy(a), torch.from_numpy(b)).numpy() * np.uint8(1))]

    return Case(shape_text(a, b) + words(dtype), [a, b], lambda talc, a, b: [getattr(talc, op)(a, b)], expected_values)


def binary_gradient(rng, dtype, op, leaf):
    forward = binary(rng, dtype, op)
    a, b = forward.operands
    dy = fill(rng, dtype, a.shape)

    def terms(a, b):
        """Of the sum that the gradient is, for dy of ones."""
        if op == "pow":
            return b * a ** (b - 1) if leaf == 0 else a ** b * np.log(a)
        if op == "div":
            return 1 / b if leaf == 0 else a / b / b
        if op == "mul":
            return (b, a)[leaf]
        if op == "squared_difference":
            return 2 * (a - b)
        return 1

    def expected_values():
        operand = (a, b)[leaf]
        value = graded(BINARY[op], [a, b], leaf, dy)
        sizes = np.abs(terms(a.astype("f8"), b.astype("f8")) * dy.astype("f8"))
        S = graded(torch.add, [np.broadcast_to(a, dy.shape), b], leaf, sizes)
        if op == "pow":  # the exponent, and a logarithm near 1
            S = S + graded(torch.add, [np.broadcast_to(a, dy.shape), b], leaf, np.abs(a.astype("f8") ** b * dy))
        K = dy.size // operand.size
        return [Expected(value, sum=(c(K) if K > 1 else 0) * S, after=(8 if op == "pow" else 3) * S, doubt=(c(K) + 8) * S)]

    return backward(forward, leaf, dy, expected_values)


def prelu(rng, dtype, leaf=None):
    """The op, or its gradient by x or by the weight, a sum over all that it multiplies."""
    x = array_of(rng, dtype)
    weight = fill(rng, dtype, (one(rng, 1, x.shape[1]) if x.ndim > 1 else 1,))
    forward = Case(shape_text(x, weight) + words(dtype), [x, weight], lambda talc, x, weight: [talc.prelu(x, weight)],
                   lambda: [Expected(F.prelu(*map(torch.from_numpy, (x, weight))).numpy())])
    if leaf is None:
        return forward
    dy = fill(rng, dtype, x.shape)

    def expected_values():
        value = graded(F.prelu, [x, weight], leaf, dy)
        S = np.abs(value) if leaf == 0 else graded(F.prelu, [-np.abs(x), weight], 1, -np.abs(dy))
        K = x.size // weight.size if leaf == 1 else 1
        return [Expected(value, sum=(c(K) if K > 1 else 0) * S, after=2 * S, doubt=(c(K) + 8) * S)]

    return backward(forward, leaf, dy, expected_values)


# ---- Picking, and sums so far -------------------------------------------------------------------------------------

def picked(text, operands, call, function, readers=1):
    """The case of an op that moves elements of its first operand, and is exact."""
    return Case(text, operands, call, lambda: [Expected(function(torch.from_numpy(operands[0])).numpy())], pool=function, readers=readers)


def gather(rng, dtype):
    x = array_of(rng, dtype)
    dim = int(rng.integers(-x.ndim, x.ndim))
    shape = [int(rng.integers(1, e + 1)) for e in x.shape]
    shape[dim] = extent(rng, 30)
    index = rng.integers(0, x.shape[dim], shape)
    return picked(f"{shape_text(x, index)}@{dim}" + words(dtype), [x, index], lambda talc, x, index: [talc.gather(x, dim, index)],
                  lambda t: torch.gather(t, dim, torch.from_numpy(index)), shape[dim])


def index_select(rng, dtype):
    x = array_of(rng, dtype)
    dim = int(rng.integers(-x.ndim, x.ndim))
    index = rng.integers(0, x.shape[dim], extent(rng, 300))
    return picked(f"{shape_text(x, index)}@{dim}" + words(dtype), [x, index], lambda talc, x, index: [talc.index_select(x, dim, index)],
                  lambda t: torch.index_select(t, dim, torch.from_numpy(index)), index.size)


def one_hot(rng, dtype):
    classes = extent(rng, 40)
    labels = rng.integers(0, classes, [extent(rng, 9) for _ in range(rng.integers(1, 4))])
    return Case(f"{shape_text(labels)}of{classes}", [labels], lambda talc, labels: [talc.one_hot(labels, classes)],
                lambda: [Expected(F.one_hot(torch.from_numpy(labels), classes).numpy())])


def masked_fill(rng, dtype):
    x = array_of(rng, dtype, nan=True)
    mask, value = rng.integers(0, 2, stretched(rng, x.shape)).astype("u1"), float(rng.integers(-3, 4))
    return picked(shape_text(x, mask) + words(dtype), [x, mask], lambda talc, x, mask: [talc.masked_fill(x, mask, value)],
                  lambda t: t.masked_fill(torch.from_numpy(mask) != 0, value))


def where(rng, dtype):
    """Of the two that it picks from, the second may be stretched."""
    x = array_of(rng, dtype, nan=True)
    condition, b = rng.integers(0, 2, stretched(rng, x.shape)).astype("u1"), fill(rng, dtype, stretched(rng, x.shape))
    return picked(shape_text(x, condition, b) + words(dtype), [x, condition, b], lambda talc, x, condition, b: [talc.where(condition, x, b)],
                  lambda t: torch.where(torch.from_numpy(condition) != 0, t, torch.from_numpy(b).to(t.dtype)))


def clamp(rng, dtype):
    x = array_of(rng, dtype, nan=True)
    low, high = -0.3 * rng.random() - 0.01, 0.3 * rng.random() + 0.01  # no number that fill() rounds to
    return picked(f"{shape_text(x)}_{low:g}_{high:g}" + words(dtype), [x], lambda talc, x: [talc.clamp(x, low, high)],
                  lambda t: t.clamp(float(x.dtype.type(low)), float(x.dtype.type(high))))


def concat(rng, dtype):
    x = array_of(rng, dtype)
    dim = int(rng.integers(-x.ndim, x.ndim))
    other = list(x.shape)
    other[dim] = extent(rng, 9)
    b, stacked = fill(rng, dtype, other), rng.random() < 0.3

    def call(talc, x, b):
        listed = (T * 3)(x, x if stacked else b, x)
        return [(talc.stack if stacked else talc.concat)(listed, 3, dim)]

    def function(t):
        return torch.stack([t] * 3, dim) if stacked else torch.cat([t, torch.from_numpy(b).to(t.dtype), t], dim)

    return picked(f"{shape_text(x, b)}@{dim}" + words(dtype, stacked=stacked), [x, b], call, function, 3)


def channel_shuffle(rng, dtype):
    groups = extent(rng, 6)
    x = fill(rng, dtype, (extent(rng, 4), groups * extent(rng, 8), *[extent(rng, 12) for _ in range(rng.integers(1, 3))]))
    return picked(f"{shape_text(x)}g{groups}" + words(dtype), [x], lambda talc, x: [talc.channel_shuffle(x, groups)],
                  lambda t: t.reshape(t.shape[0], groups, -1, *t.shape[2:]).transpose(1, 2).reshape(t.shape))


def flip(rng, dtype):
    x = array_of(rng, dtype)
    listed = [int(d) - (x.ndim if rng.random() < 0.5 else 0) for d in rng.permutation(x.ndim)[:rng.integers(0, x.ndim + 1)]]
    return picked(f"{shape_text(x)}{listed}" + words(dtype), [x], lambda talc, x: [talc.flip(x, dims(listed))], lambda t: t.flip(listed))


def tile(rng, dtype):
    x = fill(rng, dtype, tuple(extent(rng, 12) for _ in range(rng.integers(1, 4))))
    repeats = [int(n) for n in rng.integers(1, 4, rng.integers(0, 5))]
    return picked(f"{shape_text(x)}{repeats}" + words(dtype), [x], lambda talc, x: [talc.tile(x, dims(repeats))],
                  lambda t: t.tile(repeats), int(np.prod(repeats)))


def triangle(rng, dtype, op):
    x = fill(rng, dtype, tuple(extent(rng, 40) for _ in range(rng.integers(2, 5))))
    diagonal = int(rng.integers(-45, 46))
    return picked(f"{shape_text(x)}@{diagonal}" + words(dtype), [x], lambda talc, x: [getattr(talc, op)(x, diagonal)],
                  lambda t: getattr(torch, op)(t, diagonal))


def windows_of(rng):
    """An image's extents and the options of unfold and fold, with the number of rows and columns of a channel's matrix."""
    while True:
        H, W = (extent(rng, 40) for _ in range(2))
        kernel, stride, dilation = ([int(n) for n in rng.integers(1, top, 2)] for top in (5, 4, 4))
        padding = [int(n) for n in rng.integers(0, 4, 2)]
        out = [(e + 2 * p - d * (k - 1) - 1) // s + 1 for e, p, d, k, s in zip((H, W), padding, dilation, kernel, stride)]
        if min(out) > 0:
            return H, W, dict(kernel=kernel, stride=stride, padding=padding, dilation=dilation), kernel[0] * kernel[1], out[0] * out[1]


def folding(rng, dtype, op):
    H, W, o, taps, columns = windows_of(rng)
    lead = (extent(rng, 3), extent(rng, 6)) if rng.random() < 0.7 else (extent(rng, 6),)
    shape = (*lead, H, W) if op == "unfold" else (*lead[:-1], lead[-1] * taps, columns)
    x = fill(rng, dtype, shape)
    named = dict(kernel_size=o["kernel"], stride=o["stride"], padding=o["padding"], dilation=o["dilation"])
    options = UnfoldOptions(*((c_int64 * 2)(*(n or ZERO for n in o[key])) for key in ("kernel", "stride", "padding", "dilation")))
    text = f"{shape_text(x)}{H}x{W}{o}".replace(" ", "") + words(dtype)
    if op == "unfold":
        return picked(text, [x], lambda talc, x: [talc.unfold(x, byref(options))], lambda t: F.unfold(t, **named), taps)

    def function(t):
        return F.fold(t, (H, W), **named)

    return Case(text, [x], lambda talc, x: [talc.fold(x, H, W, byref(options))],
                lambda: [summed(function, [x], dtype, taps)], pool=function)


def cumsum(rng, dtype):
    x = array_of(rng, dtype)
    dim = int(rng.integers(-x.ndim, x.ndim))
    if rng.random() < 0.05:
        x = x[..., :0]
    place = np.cumsum(np.ones(x.shape), dim)

    def function(t):
        return t.cumsum(dim)

    return Case(f"{shape_text(x)}@{dim}" + words(dtype), [x], lambda talc, x: [talc.cumsum(x, dim)],
                lambda: [summed(function, [x], dtype, place)], pool=function, readers=x.shape[dim] + 1 - place)


# ---- Products, softmax and reductions, backward -------------------------------------------------------------------

def product_gradient(rng, dtype, op, leaf):
    """Gradients of linear and of matmul, whose operands may have batches of their own."""
    M, N, K = extent(rng, 40), extent(rng, 40), extent(rng, 60)
    lead = [extent(rng, 5) for _ in range(rng.integers(0, 3))]
    a = fill(rng, dtype, (*lead, M, K))
    b = fill(rng, dtype, (N, K) if op == "linear" else (*(stretched(rng, lead) if lead else []), K, N))
    bias = fill(rng, dtype, N) if op == "linear" else None
    dy = fill(rng, dtype, (*lead, M, N))
    function = F.linear if op == "linear" else torch.matmul
    shape = (a, b)[leaf].shape

    def back(dy, other):
        operands = [other, other]
        operands[leaf] = torch.zeros(shape, dtype=dy.dtype)
        return derivative(lambda t: function(*operands[:leaf], t, *operands[leaf + 1:]), operands[leaf], dy)

    def call(talc, a, b, bias):
        return [talc.linear(a, b, bias, None) if op == "linear" else talc.matmul(a, b)]

    other = (b, a)[leaf]
    # A batch that is stretched is rounded before it is added up.
    def expected_values():
        expected = summed(back, [dy, other], dtype, back(ones(dy.shape), ones(other.shape)).numpy())
        if op == "matmul" and leaf == 1 and lead:
            expected.after = expected.after + back(*floats([np.abs(dy), np.abs(other)])).numpy()
        return [expected]

    return backward(Case(shape_text(a, b) + words(dtype), [a, b, bias], call, None), leaf, dy, expected_values)


def softmax_gradient(rng, dtype, log):
    forward = softmax(rng, dtype, log)
    x, dim = forward.operands[0], int(forward.text.split("@")[1].split("_")[0])
    dy, n = fill(rng, dtype, x.shape), x.shape[dim]
    function = torch.log_softmax if log else torch.softmax

    def expected_values():
        wide, size = x.astype("f8"), np.abs(dy.astype("f8"))
        p = torch.softmax(torch.from_numpy(wide), dim).numpy()
        off = 4 + np.abs(wide - wide.max(dim, keepdims=True)) + 2 * np.sqrt(n)  # of y, relatively or of its logarithm
        if log:
            y = torch.log_softmax(torch.from_numpy(wide), dim).numpy()
            after = 2 * size + p * size.sum(dim, keepdims=True) * (off + np.abs(y) + 4 + c(n))
        else:
            total = (size * p * (off + 4 + c(n))).sum(dim, keepdims=True)
            after = p * ((off + 4) * (size + (size * p).sum(dim, keepdims=True)) + total)
        value = derivative(lambda t: function(t, dim), torch.from_numpy(wide), floats([dy])[0]).numpy()
        # p may be off by the smallest subnormal number.
        return [Expected(value, sum=0 * after, after=after, doubt=n * after, K=size + size.sum(dim, keepdims=True))]

    return backward(forward, 0, dy, expected_values)


def reduction_gradient(rng, dtype, op):
    forward = reduction(rng, dtype, op)
    forward.operands = [np.nan_to_num(x, posinf=np.inf, neginf=-np.inf) for x in forward.operands]
    x, = forward.operands
    reduced, keep, correction = forward.options
    K = int(np.prod([x.shape[a] for a in reduced]))
    if correction is not None and correction >= K:  # a division by 0
        return reduction_gradient(rng, dtype, op)

    def function(t):
        if op in ("max", "min"):
            return getattr(torch, "a" + op)(t, reduced, keep)
        if op == "var":
            return torch.var(t, reduced, correction=correction, keepdim=keep)
        return getattr(torch, op)(t, reduced, keepdim=keep)

    wide = torch.from_numpy(x.astype("f8"))
    dy = fill(rng, dtype, tuple(function(wide).shape))

    def expected_values():
        value = derivative(function, wide, floats([dy])[0]).numpy()
        size = derivative(lambda t: torch.sum(t, reduced, keepdim=keep), wide, floats([np.abs(dy)])[0]).numpy()
        terms = K + 4 if dtype == "f64" else min(K + 4, 140)
        if op == "var":
            mean = wide.mean(reduced, keepdim=True).numpy()
            after = 2 * size / (K - correction) * (6 * np.abs(x - mean) + terms * wide.abs().mean(reduced, keepdim=True).numpy())
        elif op == "logsumexp":
            y = torch.logsumexp(wide, reduced, keepdim=True).numpy()
            after = np.abs(value) * (terms * (1 + np.abs(y)) + np.abs(x - y) + 4)
        elif op == "mean":
            after = 2 * np.abs(value)
        else:
            return [Expected(derivative(function, torch.from_numpy(x), torch.from_numpy(dy)).numpy())]
        return [Expected(value, sum=0 * after, after=after, doubt=after + (K + 4) * size)]

    return backward(forward, 0, dy, expected_values)


# ---- Norms, backward ----------------------------------------------------------------------------------------------

def norm_gradient(rng, dtype, name, leaf):
    """Of x, weight or bias."""
    groups, N, H, W = extent(rng, 5), extent(rng, 5), extent(rng, 10), extent(rng, 30) + 1
    C = groups * extent(rng, 6)
    shape = (N, C, int(rng.integers(200, 2000)) if rng.random() < 0.2 else extent(rng, 60)) if name == "layer" else (N, C, H, W)
    x = (fill(rng, "f64", shape) + rng.choice([0, 0, 1, 100])).astype("f4" if dtype == "f32" else "f8")
    last = shape[-int(rng.integers(1, 3)):]
    affine = last if name == "layer" else (C,)
    weight, bias = [fill(rng, dtype, affine) if leaf == i else maybe(rng, dtype, affine) for i in (1, 2)]
    dy, eps = fill(rng, dtype, shape), float(rng.choice([1e-5, 1e-3]))
    view = (N, groups, C // groups, H, W) if name == "group" else shape
    axes = {"group": (2, 3, 4), "instance": (2, 3), "batch": (0, 2, 3),
            "layer": tuple(range(len(shape) - len(last), len(shape)))}[name]

    def call(talc, x, weight, bias):
        options = byref(NormOptions(eps, 0))
        if name == "layer":
            return [talc.layer_norm(x, dims(last), weight, bias, options)]
        if name == "batch":
            return [talc.batch_norm2d(x, weight, bias, None, None, byref(BatchNorm2dOptions(True, ZERO, eps)))]
        return [talc.group_norm(x, groups, weight, bias, options) if name == "group" else talc.instance_norm2d(x, weight, bias, options)]

    def norm(x, w, b):
        # PyTorch 2.11 fails in gradients of norms that have one of the two.
        w, b = torch.ones(affine, dtype=x.dtype) if w is None else w, torch.zeros(affine, dtype=x.dtype) if b is None else b
        if name == "layer":
            return F.layer_norm(x, last, w, b, eps)
        if name == "batch":
            return F.batch_norm(x, None, None, w, b, True, 0.0, eps)
        return torch.group_norm(x, groups if name == "group" else C, w, b, eps)

    def expected_values():
        def mean(a):
            return a.reshape(view).mean(axes, keepdims=True)

        wide, size = x.astype("f8"), np.abs(dy.astype("f8"))
        M = np.prod([view[a] for a in axes])
        rstd = 1 / np.sqrt(wide.reshape(view).var(axes, keepdims=True) + eps)
        spread = (np.abs(wide.reshape(view) - mean(wide)) + mean(np.abs(wide))) * rstd
        value = graded(norm, [x, weight, bias], leaf, dy)
        if leaf == 0:
            column = np.ones(()) if weight is None else np.abs(weight.astype("f8")).reshape(affine if name == "layer" else (C, 1, 1))
            g = (size * column).reshape(view)
            S = (rstd * (g + mean(g) + spread * mean(g * spread))).reshape(shape)
            return [Expected(value, sum=c(M) * S * (dtype == "f64"), after=8 * S, doubt=(8 + 2 * c(M)) * S)]
        terms = size * spread.reshape(shape) if leaf == 1 else size
        over = tuple(range(len(shape) - len(last))) if name == "layer" else (0, 2, 3)
        S, K = terms.sum(over), x.size // np.prod(affine)
        return [Expected(value, sum=(min(c(K), K + 2) + c(M) * (dtype == "f64")) * S, after=8 * S, doubt=(8 + c(K) + 2 * c(M)) * S)]

    text = f"{name}_{shape_text(x)}g{groups}" + words(dtype, weight=weight is not None, bias=bias is not None)
    return backward(Case(f"{text}_eps{eps:g}", [x, weight, bias], call, None), leaf, dy, expected_values)


# ---- Losses -------------------------------------------------------------------------------------------------------

REDUCTIONS = ["mean", "sum", "none"]
LOSSES = {  # PyTorch's function, the number that it takes, and the sizes of the terms of an element's loss and of its slope
    "mse_loss": (F.mse_loss, None, lambda d, t, x, p: (d * d, 2 * d)),
    "l1_loss": (F.l1_loss, None, lambda d, t, x, p: (d, 0 * d + 1)),
    "huber_loss": (F.huber_loss, "delta", lambda d, t, x, p: (np.where(d < p, d * d, p * d + p * p), np.minimum(d, p))),
    "smooth_l1_loss": (F.smooth_l1_loss, "beta", lambda d, t, x, p: (np.where(d < p, d * d, p * d + p * p) / p, np.minimum(d, p) / p)),
    "binary_cross_entropy_with_logits": (
        F.binary_cross_entropy_with_logits, None,
        lambda d, t, x, p: (np.abs(t) * np.logaddexp(0, -x) + np.abs(1 - t) * np.logaddexp(0, x), np.abs(t) / (1 + np.exp(x)) + np.abs(1 - t) / (1 + np.exp(-x)))),
}


def loss(rng, dtype, op, of_input):
    function, number, terms = LOSSES[op]
    x = array_of(rng, dtype)
    target, how = fill(rng, dtype, x.shape), one(rng, *REDUCTIONS)
    p = 0.05 + rng.random()
    numbers = [] if number is None else [p]
    named = {"reduction": how} if number is None else {"reduction": how, number: p}
    dy = fill(rng, dtype, x.shape if how == "none" else ())

    def call(talc, x, target):
        if op == "binary_cross_entropy_with_logits":
            return [talc.binary_cross_entropy_with_logits(x, target, byref(BinaryCrossEntropyOptions(REDUCTIONS.index(how))))]
        return [getattr(talc, op)(x, target, *numbers, REDUCTIONS.index(how))]

    def expected_values():
        wide, goal = floats([x, target])
        sizes, slopes = terms(np.abs((wide - goal).numpy()), goal.numpy(), wide.numpy(), p)
        if of_input:
            value = graded(lambda t: function(t, goal, **named), [x], 0, dy)
            share = np.abs(dy.astype("f8")) / (x.size if how == "mean" else 1)
            after = 8 * slopes * share
            # PyTorch takes the difference of a sigmoid and the target, which cancels.
            lost = 4 * (1 + np.abs(target)) * share if op == "binary_cross_entropy_with_logits" else 0
            return [Expected(value, sum=0 * after, after=after, doubt=after + lost)]
        value = function(wide, goal, **named).numpy()
        S = sizes if how == "none" else sizes.sum() / (x.size if how == "mean" else 1)
        K = 0 if how == "none" else x.size
        lost = 0
        if op == "binary_cross_entropy_with_logits":  # of PyTorch's terms, which cancel
            lost = ((1 - goal) * wide).abs().numpy() - F.logsigmoid(wide).numpy()
            lost = 4 * (lost if how == "none" else lost.sum() / (x.size if how == "mean" else 1))
        return [Expected(value, sum=(min(c(K), K + 2) if K else 0) * S, after=8 * S, doubt=(16 + c(K)) * S + lost)]

    text = f"{shape_text(x)}_{how}" + "".join(f"_{v:g}" for v in numbers) + words(dtype)
    forward = Case(text, [x, target], call, expected_values)
    return backward(forward, 0, dy, expected_values) if of_input else forward


def class_loss(rng, dtype, op, of_input):
    """cross_entropy with smoothing, and nll_loss, of samples of which some are ignored."""
    C = extent(rng, 1000 if rng.random() < 0.1 else 40)
    lead = [extent(rng, 40), *[extent(rng, 8) for _ in range(rng.integers(0, 3))]]
    x = fill(rng, dtype, (lead[0], C, *lead[1:])) * fill(rng, dtype, ()).dtype.type(rng.choice([1, 10]))
    ignored, how = int(rng.integers(C)), one(rng, *REDUCTIONS)
    labels = rng.integers(0, C, lead)
    if (labels == ignored).all():
        ignored = -100
    entropy = op == "cross_entropy"
    e = float(rng.choice([0, 0.1])) if entropy else 0.0
    dy = fill(rng, dtype, lead if how == "none" else ())
    counted = np.expand_dims(labels != ignored, 1)
    count = int(counted.sum())

    def function(t):
        target = torch.from_numpy(labels)
        return (F.cross_entropy(t, target, ignore_index=ignored, reduction=how, label_smoothing=e) if entropy
                else F.nll_loss(t, target, ignore_index=ignored, reduction=how))

    def call(talc, x, labels):
        options = (CrossEntropyOptions(REDUCTIONS.index(how), ignored or ZERO, e) if entropy
                   else NllLossOptions(REDUCTIONS.index(how), ignored or ZERO))
        return [(talc.cross_entropy_with if entropy else talc.nll_loss)(x, labels, byref(options))]

    def expected_values():
        wide = x.astype("f8")
        at = np.expand_dims(labels, 1)
        apart = np.abs(wide - wide.max(1, keepdims=True))
        p = torch.softmax(torch.from_numpy(wide), 1).numpy()
        hot = np.zeros(x.shape)
        np.put_along_axis(hot, at, 1, 1)
        if of_input:
            dl = np.abs(dy.astype("f8")) if how != "none" else np.abs(np.expand_dims(dy.astype("f8"), 1))
            dl = counted * dl / (count if how == "mean" else 1)
            after = dl * 4 * hot
            if entropy:
                after = dl * (p * (20 + apart + (p * apart).sum(1, keepdims=True) + 2 * np.sqrt(C)) + 8 * (1 - e) * hot + 8 * e / C)
            return [Expected(graded(function, [x], 0, dy), sum=0 * after, after=after, doubt=(C + 4) * after)]
        value = function(torch.from_numpy(wide)).numpy()
        losses = np.abs(F.cross_entropy(torch.from_numpy(wide), torch.from_numpy(labels), label_smoothing=e, reduction="none").numpy()
                        if entropy else np.take_along_axis(wide, at, 1)[:, 0]) * counted[:, 0]
        off = 2 * losses
        if entropy:
            a = 1 if dtype == "f32" else 1 + 2 * np.sqrt(C)
            off = losses + counted[:, 0] * (4 + (1 - e) * np.take_along_axis(apart, at, 1)[:, 0] + a * e * apart.mean(1) + 2 * np.sqrt(C))
        if how != "none":
            off = (off.sum() + 2 * (np.sqrt(count) + 1) * losses.sum()) / (count if how == "mean" else 1)
        return [Expected(value, sum=0 * off, after=off, doubt=(C + count + 4) * off)]

    text = f"{shape_text(x)}_{how}_ignored{ignored}_e{e:g}" + words(dtype)
    forward = Case(text, [x, labels], call, expected_values)
    return backward(forward, 0, dy, expected_values) if of_input else forward


def bound_to(make, *more):
    return lambda rng, dtype: make(rng, dtype, *more)


PICKING = {"gather": gather, "index_select": index_select, "masked_fill": masked_fill, "where": where, "clamp": clamp,
           "concat": concat, "channel_shuffle": channel_shuffle, "cumsum": cumsum,
           "unfold": bound_to(folding, "unfold"), "fold": bound_to(folding, "fold"), "flip": flip, "tile": tile, "tril": bound_to(triangle, "tril"), "triu": bound_to(triangle, "triu")}
FORWARD = {**PICKING, "one_hot": one_hot, **{op: bound_to(binary, op) for op in BINARY}, "prelu": prelu,
           **{op: bound_to(loss, op, False) for op in LOSSES},
           **{op: bound_to(class_loss, op, False) for op in ("cross_entropy", "nll_loss")}}
GRADIENTS = {f"{op}.grad_input": pooling_gradient(make) for op, make in PICKING.items()}
GRADIENTS.update({f"{op}.grad_{'ab'[leaf]}": bound_to(binary_gradient, op, leaf)
                  for op in ("add", "sub", "mul", "squared_difference", "div", "pow")
                  for leaf in (0, 1)})
GRADIENTS.update({f"prelu.grad_{name}": bound_to(prelu, leaf) for leaf, name in enumerate(("input", "weight"))})
GRADIENTS.update({f"{op}.grad_{name}": bound_to(product_gradient, op, leaf)
                  for op, names in (("linear", ("input", "weight")), ("matmul", "ab")) for leaf, name in enumerate(names)})
GRADIENTS.update({"softmax.grad_input": bound_to(softmax_gradient, False), "log_softmax.grad_input": bound_to(softmax_gradient, True)})
GRADIENTS.update({f"{op}.grad_input": bound_to(reduction_gradient, op) for op in ("sum", "mean", "max", "min", "var", "logsumexp")})
GRADIENTS.update({f"{name}_norm{'2d' if name in ('batch', 'instance') else ''}.grad_{what}": bound_to(norm_gradient, name, leaf)
                  for name in ("group", "instance", "layer", "batch") for leaf, what in enumerate(("input", "weight", "bias"))})
GRADIENTS.update({f"{op}.grad_input": bound_to(loss, op, True) for op in LOSSES})
GRADIENTS.update({f"{op}.grad_input": bound_to(class_loss, op, True) for op in ("cross_entropy", "nll_loss")})
