"""Random problems for compare_torch.py, and what PyTorch says of each.

A sum's expected is exact for f64, beyond what float64 holds: the operands are cut into pieces of 18 bits, whose products
PyTorch adds in float64 without a rounding, and the results are added in pairs of numbers. For f32, float64 is enough.
"""
import functools
import itertools
from ctypes import byref, c_double, c_int64

import numpy as np
import torch
import torch.nn.functional as F

from talc_library import (ACTIVATIONS, MODES, ZERO, BatchNorm2dOptions, Conv2dOptions, LinearOptions, NormOptions, PadOptions,
                          Pair, Pool2dOptions, T, Upsample2dOptions, dims)

# ---- What PyTorch says ------------------------------------------------------------------------------------------

class Expected:
    """What an output must be, value + lo, and how far it may be off, each element for itself.

    In units of u: `sum` by its accumulation, None when it must be exact, and `after` by later roundings. `doubt` is
    PyTorch's own error in units of 2^-53, `peer` what it gives in the data's own type.
    """

    def __init__(self, value, lo=0.0, sum=None, after=0.0, K=0, doubt=0.0, peer=None):
        self.value, self.lo, self.sum, self.after, self.K, self.doubt, self.peer = value, lo, sum, after, K, doubt, peer

    def bound(self, dtype, wide):
        if self.sum is None:
            return np.zeros(self.value.shape)
        u, tiny = (2.0**-24, 2.0**-149) if dtype == "f32" else (2.0**-53, 2.0**-1074)
        own = u * np.abs(self.value) + 2.0**-53 * self.sum if wide and dtype == "f32" else u * self.sum
        return own + u * self.after + 2.0**-53 * self.doubt + (self.K + 2) * tiny


def shares(y, expected, bound):
    """|y - expected| / bound, infinity where no difference is allowed. NaN and infinities have to be met as they are."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        off = np.abs((y - expected.value) - expected.lo)
        same = (y == expected.value) & (expected.lo == 0) | np.isnan(y) & np.isnan(expected.value)
        share = np.where(same | (off == 0), 0.0, off / bound)
    return np.where(np.isnan(share), np.inf, share)


def tensors(arrays, code):
    return [None if a is None else torch.from_numpy(np.array(a, code, order="C")) for a in arrays]


def pieces(array):
    """Arrays that add up to this one, each of whole multiples, at most 2^17, of a power of two."""
    parts, rest = [], array
    while rest.any():
        unit = 2.0 ** (np.ceil(np.log2(np.abs(rest).max())) - 17)
        parts.append(np.rint(rest / unit) * unit)
        rest = rest - parts[-1]
    return parts or [array]


def two_sum(hi, lo, term):
    """hi + lo + term without a loss: Knuth's sum and its error."""
    total = hi + term
    back = total - hi
    return total, lo + ((hi - (total - back)) + (term - back))


def summed(product, operands, dtype, K, addends=(), activation="none", divided=False, sizes_of=None):
    """The expected of activation(product(operands) + addends), where the product is linear in each operand and has K terms.

    sizes_of is the product by the sizes of its own weights, where some are negative.
    """
    sizes = (sizes_of or product)(*tensors([np.abs(a) for a in operands], "f8")).numpy()
    sizes = sizes + sum(np.abs(a.astype("f8")) for a in addends)
    hi, lo = np.zeros(sizes.shape), np.zeros(sizes.shape)
    exact = dtype == "f64"  # in f32 the rounding of float64 does not count
    for parts in itertools.product(*[pieces(a) if exact else [a] for a in operands]):
        hi, lo = two_sum(hi, lo, product(*tensors(parts, "f8")).numpy())
    for addend in addends:
        hi, lo = two_sum(hi, lo, addend.astype("f8"))
    expected = Expected(hi, lo, np.minimum(4 * np.sqrt(K + 4), K + 2) * sizes, K=K)
    expected.after = np.abs(hi) if divided else np.zeros(hi.shape)
    activate(expected, activation)
    expected.doubt = expected.doubt + (expected.after if exact else expected.sum + expected.after)
    if dtype == "f32":
        peer = product(*tensors(operands, "f4"))
        for addend in tensors(addends, "f4"):
            peer = peer + addend
        expected.peer = function_of(activation)(peer).numpy()
    return expected


def function_of(activation):
    named = {"none": lambda x: x, "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh}
    return named.get(activation) or getattr(F, activation)


def activate(expected, activation):
    """Turns the expected of z into that of activation(z): its slope carries the error over, 4 ulp of its own are added, and in the tail
    of gelu those of its exponent."""
    if activation == "none":
        return
    z = torch.from_numpy(expected.value).requires_grad_(True)
    y = function_of(activation)(z)
    slope = torch.autograd.grad(y.sum(), z)[0].numpy() if z.numel() else 0
    steepest = {"sigmoid": 0.25, "hardsigmoid": 1 / 6, "hardswish": 1.5, "silu": 1.1, "gelu": 1.13}.get(activation, 1)
    z, y = expected.value, y.detach().numpy()
    expected.lo, expected.value = expected.lo * slope, y
    expected.sum, expected.after = steepest * expected.sum, steepest * expected.after
    if activation not in ("relu", "relu6"):
        expected.after = expected.after + (8 + (z * z if activation == "gelu" else 0)) * np.abs(y)
    if activation == "gelu":  # PyTorch's formula cancels
        expected.doubt = expected.doubt + np.abs(z)


# ---- Random problems --------------------------------------------------------------------------------------------

class Case:
    """A problem, its operands, how talc computes it, and its expected_values, one for each result.

    A pooling also has the function of x by which PyTorch does it, how many outputs read an element at most, by how much
    both sides' weights of elements may be off, in units of 2^-53, and, where some are negative, that function by their sizes.
    """

    def __init__(self, text, operands, call, expected_values, views=None, pool=None, readers=0, weights=0, sizes_of=None):
        self.text, self.operands, self.call, self.expected_values, self.pool, self.readers = text, operands, call, expected_values, pool, readers
        self.weights, self.sizes_of = weights, sizes_of
        self.views = len(operands) if views is None else views  # how many operands may be views


def one(rng, *choices):
    return choices[rng.integers(len(choices))]


def extent(rng, most):
    """1 .. most, mostly small."""
    return int(rng.integers(1, one(rng, 4, 10, most) + 1))


def pair(rng, low, high):
    return [int(v) for v in rng.integers(low, high + 1, 2)]


def fill(rng, dtype, shape, nan=False):
    """Data of a random kind: uniform of either sign, positive, small whole numbers with ties, 20 binades; with NaN."""
    kind = rng.random()
    x = 2 * rng.random(shape) - 1
    if kind < 0.15:
        x = np.abs(x)
    elif kind < 0.3:
        x = np.rint(4 * x)
    elif kind < 0.4:
        x = x * 2.0 ** -rng.integers(0, 20, shape)
    if nan and rng.random() < 0.2:
        x = np.where(rng.random(shape) < 0.1, np.nan, x)
    return np.asarray(x, "f4" if dtype == "f32" else "f8")


def maybe(rng, dtype, shape):
    return fill(rng, dtype, shape) if rng.random() < 0.5 else None


def layout_of(rng, array):
    """For Talc.place: half of all operands are contiguous."""
    if array is None or array.ndim == 0 or rng.random() < 0.5:
        return None
    return tuple(int(a) for a in rng.permutation(array.ndim)) if rng.random() < 0.6 else int(rng.integers(array.ndim))


def words(dtype, **flags):
    """The end of a problem's text: the names of flags that are set, and texts that are no default."""
    found = [value if isinstance(value, str) else name for name, value in flags.items() if value]
    return "".join("_" + word for word in [dtype] + found if word not in ("f32", "none", "zeros"))


def pad2d(x, pads, mode):
    return F.pad(x, [pads[1], pads[3], pads[0], pads[2]], "constant" if mode == "zeros" else mode) if any(pads) else x


class Convolution:
    """A random convolution: operands, what PyTorch makes of x and w, and talc's options."""

    def __init__(self, rng, dtype):
        self.dtype = dtype
        while True:  # until the kernel fits the padded image, and the padding the image that it mirrors or repeats
            groups, IC, multiple = one(rng, (1, extent(rng, 40), extent(rng, 40)), (extent(rng, 20), 1, extent(rng, 3)),
                                       (extent(rng, 4), extent(rng, 9), extent(rng, 9)))
            H, W = extent(rng, 32), extent(rng, 70)
            kernel = one(rng, [1, 1], [3, 3], pair(rng, 1, 5), pair(rng, 1, 7))
            stride, dilation = one(rng, [1, 1], pair(rng, 1, 3)), one(rng, [1, 1], pair(rng, 1, 3))
            mode = one(rng, "zeros", "zeros", "zeros", *MODES)
            reach = [d * (k - 1) for k, d in zip(kernel, dilation)]
            same = rng.random() < 0.2
            if same:
                stride, pads = [1, 1], [r // 2 for r in reach] + [r - r // 2 for r in reach]
            else:  # top, left, bottom, right
                pads = one(rng, [0] * 4, pair(rng, 0, 3) * 2, [int(v) for v in rng.integers(0, 5, 4)])
            most = {"reflect": (H - 1, W - 1), "circular": (H, W)}.get(mode, (99, 99))
            if (H + pads[0] + pads[2] > reach[0] and W + pads[1] + pads[3] > reach[1]
                    and max(pads[0::2]) <= most[0] and max(pads[1::2]) <= most[1]):
                break
        N, C, OC = int(rng.integers(0, 4)) if rng.random() < 0.3 else 1, groups * IC, groups * multiple
        self.activation = one(rng, "none", *ACTIVATIONS)
        self.x, self.w = fill(rng, dtype, (N, C, H, W)), fill(rng, dtype, (OC, IC, *kernel))
        self.b = maybe(rng, dtype, OC)
        OH, OW = [(e + p + q - r - 1) // s + 1 for e, p, q, r, s in zip((H, W), pads, pads[2:], reach, stride)]
        self.y_shape = N, OC, OH, OW
        self.residual = maybe(rng, dtype, self.y_shape)
        self.kernel, self.stride, self.dilation, self.groups = kernel, stride, dilation, groups
        self.mode, self.same, self.pads, self.K = mode, same, pads, IC * kernel[0] * kernel[1]

    def padded(self, x):
        return pad2d(x, self.pads, self.mode)

    def product(self, x, w):
        if self.same and self.mode == "zeros":
            return F.conv2d(x, w, None, 1, "same", self.dilation, self.groups)
        if self.mode == "zeros" and self.pads[:2] == self.pads[2:]:
            return F.conv2d(x, w, None, self.stride, self.pads[:2], self.dilation, self.groups)
        return F.conv2d(self.padded(x), w, None, self.stride, 0, self.dilation, self.groups)

    def addends(self):
        return [a for a in (None if self.b is None else self.b[:, None, None], self.residual) if a is not None]

    def expected(self, activation):
        return summed(self.product, [self.x, self.w], self.dtype, self.K, self.addends(), activation)

    def options(self, residual):
        begin, end = ([0, 0], [0, 0]) if self.same else (self.pads[:2], [p or ZERO for p in self.pads[2:]])
        return byref(Conv2dOptions(Pair(*self.stride), Pair(*begin), Pair(*end), self.same, MODES.index(self.mode),
                                   Pair(*self.dilation), self.groups, ACTIVATIONS.index(self.activation), residual))

    def text(self):
        (N, C, H, W), (KH, KW), (sh, sw), (dh, dw) = self.x.shape, self.kernel, self.stride, self.dilation
        return (f"n{N}c{C}h{H}w{W}o{self.y_shape[1]}k{KH}x{KW}s{sh}x{sw}p{'x'.join(map(str, self.pads))}d{dh}x{dw}g{self.groups}"
                + words(self.dtype, bias=self.b is not None, residual=self.residual is not None,
                        activation=self.activation, mode=self.mode))

    def case(self):
        return Case(self.text(), [self.x, self.w, self.b, self.residual],
                    lambda talc, x, w, b, residual: [talc.conv2d(x, w, b, self.options(residual))],
                    lambda: [self.expected(self.activation)])


def conv2d(rng, dtype):
    return Convolution(rng, dtype).case()


def pool_image(rng, dtype, nan=False):
    shape = (int(rng.integers(0, 4)) if rng.random() < 0.2 else 2, extent(rng, 9), extent(rng, 30), extent(rng, 70))
    return fill(rng, dtype, shape[1:] if rng.random() < 0.2 else shape, nan)


class Window:
    """Kernel, stride, padding of each side, dilation and rounding, which fit the image."""

    def __init__(self, rng, image, dilated):
        self.extents = image.shape[-2:]
        self.ceil = rng.random() < 0.4
        while True:
            self.kernel, self.stride = pair(rng, 1, one(rng, 3, 7)), pair(rng, 1, 4)
            self.dilation = pair(rng, 1, 3) if dilated and rng.random() < 0.5 else [1, 1]
            most = [d * (k - 1) for d, k in zip(self.dilation, self.kernel)]
            self.same = rng.random() < 0.1
            self.plain = not self.same and rng.random() < 0.5  # what PyTorch's own pooling takes
            if self.same:
                self.stride = [1, 1]
                self.pads = [m // 2 for m in most] + [m - m // 2 for m in most]
            elif self.plain:
                self.pads = 2 * [int(rng.integers(0, k // 2 + 1)) for k in self.kernel]
            else:
                self.pads = [int(rng.integers(0, m + 1)) for m in 2 * most]
            if all(e + b + a > m for e, b, a, m in zip(self.extents, self.pads, self.pads[2:], most)):
                return

    def options(self, *rest):
        begin, end = ([0, 0], [0, 0]) if self.same else (self.pads[:2], [p or ZERO for p in self.pads[2:]])
        return byref(Pool2dOptions(Pair(*self.kernel), Pair(*self.stride), Pair(*begin), Pair(*end), self.same,
                                   Pair(*self.dilation), self.ceil, *rest))

    def padding(self):
        """What is left for PyTorch to pad, after pad()."""
        return self.pads[:2] if self.plain else [0, 0]

    def pad(self, x, value):
        top, left, bottom, right = self.pads
        return x if self.plain else F.pad(x, (left, right, top, bottom), value=value)

    def crop(self, y):
        """Without what ceil_mode adds in the padding at the end, which is part of the image for PyTorch when pad() put it there."""
        counts = []
        for e, b, a, k, s, d in zip(self.extents, self.pads, self.pads[2:], self.kernel, self.stride, self.dilation):
            room = e + b + a - d * (k - 1) - 1
            count = (-(-room // s) if self.ceil else room // s) + 1
            counts.append(count - (self.ceil and (count - 1) * s >= e + b))
        return y[..., :counts[0], :counts[1]]

    def text(self, x, dtype, **flags):
        parts = zip("kspd", [self.kernel, self.stride, self.pads, self.dilation])
        return ("x".join(map(str, x.shape)) + ":" + "".join(letter + "x".join(map(str, v)) for letter, v in parts)
                + words(dtype, ceil=self.ceil, same=self.same, **flags))


def max_pool2d(rng, dtype):
    x = pool_image(rng, dtype, nan=True)
    window, indices = Window(rng, x, True), rng.random() < 0.5

    def call(talc, x):
        if not indices:
            return [talc.max_pool2d(x, window.options())]
        where = T()
        return [talc.max_pool2d_indices(x, window.options(), byref(where)), where]

    def both(x):
        return map(window.crop, F.max_pool2d(window.pad(x, -np.inf), window.kernel, window.stride, window.padding(),
                                             window.dilation, window.ceil, return_indices=True))

    def expected_values():
        padded = window.pad(torch.from_numpy(x), -np.inf)
        y, where = both(torch.from_numpy(x))
        if not window.plain:  # an index counts in the image alone
            h, w = where // padded.shape[-1] - window.pads[0], where % padded.shape[-1] - window.pads[1]
            where = h * x.shape[-1] + w
        where = where.masked_fill(torch.isneginf(y), -1)  # a window beside the image has no element
        return [Expected(y.numpy()), Expected(where.numpy())][:1 + indices]

    def most(x):  # PyTorch's gradient of a window beside the image goes to an element that it does not see
        y = list(both(x))[0]
        return y.masked_fill(torch.isneginf(y), -np.inf)

    return Case(window.text(x, dtype, indices=indices), [x], call, expected_values, pool=most,
                readers=window.kernel[0] * window.kernel[1])


def avg_pool2d(rng, dtype):
    x = pool_image(rng, dtype)
    window, exclude = Window(rng, x, False), rng.random() < 0.4
    divisor = int(rng.integers(1, 20)) if rng.random() < 0.3 else 0

    def average(x, include, divisor):
        return window.crop(F.avg_pool2d(window.pad(x, 0), window.kernel, window.stride, window.padding(), window.ceil,
                                        include, divisor or None))

    def pool(x):
        if window.plain or divisor or not exclude:
            return average(x, not exclude, divisor)
        return average(x, True, 1) / average(torch.ones_like(x), True, 1)

    text, K = window.text(x, dtype, exclude=exclude, divisor=divisor and f"divisor{divisor}"), window.kernel[0] * window.kernel[1]
    return Case(text, [x], lambda talc, x: [talc.avg_pool2d(x, window.options(exclude, divisor))],
                lambda: [summed(pool, [x], dtype, K, divided=True)], pool=pool, readers=K)


def adaptive_pool2d(rng, dtype, most):
    x = pool_image(rng, dtype, nan=most)
    size = [int(rng.integers(0 if rng.random() < 0.1 else 1, 2 * e + 1)) for e in x.shape[-2:]]
    K = np.prod([e // max(o, 1) + 2 for e, o in zip(x.shape[-2:], size)])
    readers = np.prod([o // e + 2 for e, o in zip(x.shape[-2:], size)])

    def pool(x):
        return (F.adaptive_max_pool2d if most else F.adaptive_avg_pool2d)(x, size)

    def expected_values():
        return [Expected(pool(torch.from_numpy(x)).numpy())] if most else [summed(pool, [x], dtype, K, divided=True)]

    return Case(f"{'x'.join(map(str, x.shape))}:o{size[0]}x{size[1]}" + words(dtype), [x],
                lambda talc, x: [(talc.adaptive_max_pool2d if most else talc.adaptive_avg_pool2d)(x, *size)],
                expected_values, pool=pool, readers=readers)


def adaptive_avg_pool2d(rng, dtype):
    return adaptive_pool2d(rng, dtype, False)


def adaptive_max_pool2d(rng, dtype):
    return adaptive_pool2d(rng, dtype, True)


PADDING = ["constant", *MODES[1:]]


def pad(rng, dtype):
    mode = PADDING[int(rng.integers(4))]
    padded = int(rng.integers(1, 4))  # dimensions; PyTorch's other modes want one or two more
    rank = padded + int(rng.integers(0 if mode == "constant" else 1, 3))
    x = fill(rng, dtype, [extent(rng, 12) for _ in range(rank)], nan=True)
    sides, value = [], float(rng.integers(-3, 4))
    for e in x.shape[::-1][:padded]:
        most = {"constant": 9, "reflect": e - 1, "replicate": 9, "circular": e}[mode]
        low = -(e // 3) if mode == "constant" else 0  # PyTorch's other modes do not crop in every version
        sides += pair(rng, low, most)

    def call(talc, x):
        return [talc.pad(x, byref(PadOptions((c_int64 * 16)(*sides), PADDING.index(mode), value)))]

    def function(x):
        return F.pad(x, sides, mode, value) if mode == "constant" else F.pad(x, sides, mode)

    return Case(f"{'x'.join(map(str, x.shape))}:{mode}{'x'.join(map(str, sides))}" + words(dtype), [x], call,
                lambda: [Expected(function(torch.from_numpy(x)).numpy())], pool=function, readers=20**3)


RESIZES = ("nearest", "bilinear", "bicubic", "nearest-exact")


def upsample2d(rng, dtype):
    shape = (int(rng.integers(0, 3)) if rng.random() < 0.1 else 2, extent(rng, 5), extent(rng, 40), extent(rng, 40))
    x, mode, align = fill(rng, dtype, shape), one(rng, *RESIZES), rng.random() < 0.5
    nearest = mode.startswith("nearest")
    sized, align = rng.random() < 0.5, align and not nearest
    size = [int(rng.integers(1, 3 * e + 1)) for e in shape[2:]]
    scale = [max(float(rng.integers(1, 30)) / 8, 1.0 / e) for e in shape[2:]]

    def call(talc, x):
        options = Upsample2dOptions(Pair(*size) if sized else Pair(), (c_double * 2)(*([0, 0] if sized else scale)),
                                    RESIZES.index(mode), align)
        return [talc.upsample2d(x, byref(options))]

    def function(x):
        if 0 in x.shape:  # which PyTorch refuses
            return x[..., :1, :1].expand(-1, -1, *(size if sized else [int(e * s) for e, s in zip(x.shape[2:], scale)]))
        if mode == "nearest-exact" and x.dtype == torch.float64:  # whose places are worked out in float64
            return exact(x)
        return F.interpolate(x, size if sized else None, None if sized else scale, mode, None if nearest else align)

    def exact(x):
        """What PyTorch shows in float32, of float64."""
        places = torch.arange(x.shape[2] * x.shape[3], dtype=torch.float32).reshape(1, 1, *x.shape[2:])
        shown = F.interpolate(places, size if sized else None, None if sized else scale, mode).long()
        return x.flatten(2)[..., shown.flatten()].reshape(*x.shape[:2], *shown.shape[2:])

    def along(i):
        """The sizes of the weights of one dimension's elements, [outputs, elements]."""
        eye = torch.eye(shape[2 + i], dtype=torch.float64).reshape(1, *shape[2 + i:3 + i] * 2, 1)
        weights = F.interpolate(eye, (size[i], 1) if sized else None, None if sized else (scale[i], 1.0), mode, align)
        return weights[0, :, :, 0].T.abs()

    def sizes_of(x):
        return torch.einsum("oh,nchw,pw->ncop", along(0), x, along(1))

    sizes_of = sizes_of if mode == "bicubic" and 0 not in shape else None
    taps, weights = (4, 32) if mode == "bicubic" else (2, 8)
    weights *= sum(shape[2:])  # places among the elements are rounded

    def expected_values():
        if nearest:
            return [Expected(function(torch.from_numpy(x)).numpy())]
        expected = summed(function, [x], dtype, taps**2, sizes_of=sizes_of)
        expected.doubt = expected.doubt + weights * np.abs(x).max(initial=0)
        return [expected]

    readers = int(np.prod([taps * (o // e + 3) for o, e in zip(size if sized else [e * s for e, s in zip(shape[2:], scale)], shape[2:])]))
    return Case(f"{'x'.join(map(str, shape))}:{mode}{'_aligned' * bool(align)}_{size if sized else scale}".replace(" ", "") + words(dtype),
                [x], call, expected_values, pool=function, readers=readers, weights=0 if nearest else weights, sizes_of=sizes_of)


def batch_norm2d(rng, dtype):
    training = rng.random() < 0.6
    N, C = int(rng.integers(1, 5)), extent(rng, 20)
    H, W = extent(rng, 30), extent(rng, 70) + (N == 1)  # training needs two values a channel
    center = np.rint(rng.choice([0, 0, 1, 100, 1e4]) * (2 * rng.random((1, C, 1, 1)) - 1))
    x = (fill(rng, "f64", (N, C, H, W)) + center).astype("f4" if dtype == "f32" else "f8")
    weight, bias = maybe(rng, dtype, C), maybe(rng, dtype, C)
    mean, var = fill(rng, dtype, C), np.abs(fill(rng, dtype, C)) + x.dtype.type(0.01)
    if training and rng.random() < 0.3:
        mean = var = None
    momentum = float(rng.choice([0, 0.1, 0.5, 1]))
    eps = float(rng.choice([1e-5, 1e-3] if training else [1e-12, 1e-5, 1e-3]))  # some PyTorch refuses 0
    residual, activation = maybe(rng, dtype, x.shape), one(rng, "none", *ACTIVATIONS)

    def call(talc, x, weight, bias, running_mean, running_var, residual):
        options = BatchNorm2dOptions(training, momentum or ZERO, eps or ZERO, ACTIVATIONS.index(activation), residual)
        y = talc.batch_norm2d(x, weight, bias, running_mean, running_var, byref(options))
        return [y] if running_mean is None else [y, running_mean, running_var]

    def norm(code):
        xs, ms, vs, ws, bs, rs = tensors([x, mean, var, weight, bias, residual], code)
        y = F.batch_norm(xs, ms, vs, ws, bs, training, momentum, eps)  # changes ms and vs
        y = y if residual is None else y + rs
        return [y] if mean is None else [y, ms, vs]

    def column(values, default):
        """Channel by channel in float64, to go with [N, C, H, W]."""
        return np.full((C, 1, 1), default) if values is None else values.astype("f8")[:, None, None]

    def sizes():
        """S of y and of both running statistics."""
        wide, every = x.astype("f8"), (0, 2, 3)
        mu, squares, size = column(mean, 0.0), column(var, 1.0), np.abs(column(mean, 0.0))
        moved = momentum if training else 0
        if training:
            mu, squares, size = [column(v, 0) for v in (wide.mean(every), wide.var(every), np.abs(wide).mean(every))]
        scale = np.abs(column(weight, 1.0)) / np.sqrt(squares + eps)
        added = 0 if residual is None else np.abs(residual.astype("f8"))
        return [(np.abs(wide - mu) + size) * scale + np.abs(column(bias, 0.0)) + added,
                ((1 - moved) * np.abs(column(mean, 0.0)) + moved * size).ravel(),
                ((1 - moved) * column(var, 1.0) + moved * (squares + 2 * size * np.sqrt(squares))).ravel()]

    def expected_values():
        statistics = 4 * np.sqrt(N * H * W + 4) if training else 0
        result = [Expected(value.numpy(), sum=(8 + statistics * (dtype == "f64")) * S, doubt=(8 + 2 * statistics) * S)
                  for value, S in zip(norm("f8"), sizes())]
        if not training or momentum == 0:
            result[1:] = [Expected(value.value) for value in result[1:]]  # untouched
        activate(result[0], activation)
        if dtype == "f32":
            result[0].peer = function_of(activation)(norm("f4")[0]).numpy()
        return result

    text = f"n{N}c{C}h{H}w{W}" + words(dtype, train=training, weight=weight is not None, bias=bias is not None,
                                       running=mean is not None, residual=residual is not None, activation=activation)
    return Case(f"{text}_momentum{momentum}_eps{eps}", [x, weight, bias, mean, var, residual], call, expected_values, views=3)


def group_norm(rng, dtype):
    """By the op of one of its three names."""
    name = one(rng, "group", "instance", "layer")
    groups, N = extent(rng, 6), extent(rng, 6)
    C = groups * extent(rng, 9)
    H, W = extent(rng, 12), extent(rng, 40)
    long = int(rng.integers(200, 3000)) if rng.random() < 0.3 else extent(rng, 70)
    shape = (N, C, long) if name == "layer" else (N, C, H, W)
    center = rng.choice([0, 0, 1, 100, 1e4])
    x = (fill(rng, "f64", shape) + center).astype("f4" if dtype == "f32" else "f8")
    last = shape[-int(rng.integers(1, 3)):]
    affine = last if name == "layer" else (C,)
    weight, bias = maybe(rng, dtype, affine), maybe(rng, dtype, affine)
    eps, activation = float(rng.choice([1e-5, 1e-3])), one(rng, "none", *ACTIVATIONS)
    axes = {"group": (2, 3, 4), "instance": (2, 3), "layer": tuple(range(len(shape) - len(last), len(shape)))}[name]

    def call(talc, x, weight, bias):
        options = byref(NormOptions(eps, ACTIVATIONS.index(activation)))
        if name == "layer":
            return [talc.layer_norm(x, dims(last), weight, bias, options)]
        return [talc.group_norm(x, groups, weight, bias, options) if name == "group"
                else talc.instance_norm2d(x, weight, bias, options)]

    def norm(code):
        t, w, b = tensors([x, weight, bias], code)
        if name == "layer":
            return F.layer_norm(t, last, w, b, eps)
        return torch.group_norm(t, groups if name == "group" else C, w, b, eps)  # F.group_norm refuses single values

    def expected_values():
        wide = x.astype("f8").reshape((N, groups, C // groups, H, W) if name == "group" else shape)
        mu, squares, size = [v(wide, axes) for v in (lambda a, d: a.mean(d, keepdims=True),
                                                     lambda a, d: a.var(d, keepdims=True),
                                                     lambda a, d: np.abs(a).mean(d, keepdims=True))]
        spread = ((np.abs(wide - mu) + size) / np.sqrt(squares + eps)).reshape(shape)
        column = (lambda v: v.astype("f8")) if name == "layer" else (lambda v: v.astype("f8")[:, None, None])
        S = spread * (1 if weight is None else np.abs(column(weight))) + (0 if bias is None else np.abs(column(bias)))
        statistics = 4 * np.sqrt(np.prod([wide.shape[a] for a in axes]) + 4)
        expected = Expected(norm("f8").numpy(), sum=(8 + statistics * (dtype == "f64")) * S, doubt=(8 + 2 * statistics) * S)
        activate(expected, activation)
        if dtype == "f32":
            expected.peer = function_of(activation)(norm("f4")).numpy()
        return [expected]

    text = f"{name}_{'x'.join(map(str, shape))}g{groups}" + words(dtype, weight=weight is not None, bias=bias is not None,
                                                                 activation=activation)
    return Case(f"{text}_eps{eps}", [x, weight, bias], call, expected_values)


def linear(rng, dtype):
    lead = [extent(rng, 20) for _ in range(rng.integers(0, 4))]
    K, O = one(rng, extent(rng, 300), extent(rng, 40), int(rng.integers(0, 2))), extent(rng, 70)
    x, w, b = fill(rng, dtype, (*lead, K)), fill(rng, dtype, (O, K)), maybe(rng, dtype, O)
    residual, activation = maybe(rng, dtype, (*lead, O)), one(rng, "none", *ACTIVATIONS)

    def call(talc, x, w, b, residual):
        return [talc.linear(x, w, b, byref(LinearOptions(ACTIVATIONS.index(activation), residual)))]

    text = f"{'x'.join(map(str, x.shape))}:o{O}" + words(dtype, bias=b is not None, residual=residual is not None,
                                                         activation=activation)
    addends = [a for a in (b, residual) if a is not None]
    return Case(text, [x, w, b, residual], call, lambda: [summed(F.linear, [x, w], dtype, K, addends, activation)])


def matmul(rng, dtype):
    M, N, K = extent(rng, 70), extent(rng, 70), one(rng, extent(rng, 300), extent(rng, 40), int(rng.integers(0, 2)))
    batch = [extent(rng, 4) for _ in range(rng.integers(0, 3))]

    def stretched(matrix):  # its own batch dimensions: fewer, or of extent 1
        own = [1 if rng.random() < 0.3 else d for d in batch]
        return (*own[rng.integers(0, len(own) + 1):], *matrix) if rng.random() < 0.5 else (*batch, *matrix)

    a = fill(rng, dtype, (K,) if rng.random() < 0.1 else stretched((M, K)))
    b = fill(rng, dtype, (K,) if rng.random() < 0.1 else stretched((K, N)))
    text = "x".join(map(str, a.shape)) + ":" + "x".join(map(str, b.shape)) + words(dtype)
    return Case(text, [a, b], lambda talc, a, b: [talc.matmul(a, b)], lambda: [summed(torch.matmul, [a, b], dtype, K)])


def array_of(rng, dtype, nan=False):
    """An array of rank 1 to 4, sometimes long in one dimension."""
    shape = [extent(rng, 12) for _ in range(rng.integers(1, 5))]
    if rng.random() < 0.3:
        shape[rng.integers(len(shape))] = int(rng.integers(100, 9000 if len(shape) < 3 else 400))
    return fill(rng, dtype, shape, nan)


def careful_softmax(x, dim, log):
    """The softmax of f64 data, or its logarithm, and what either may be off in u. PyTorch's own may lose n u."""
    shifted, lost = two_sum(x, 0.0, -x.max(dim, keepdims=True))
    terms = torch.exp(torch.from_numpy(shifted)).numpy() * (1 + lost)
    counted = np.where(terms > 1e-60, terms, 0)
    total = summed(lambda t: t.sum(dim, True), [counted], "f64", 0).value
    if not log:
        return terms / total, 8 * terms / total
    y = (shifted - np.log(total)) + lost
    return y, 4 + 2 * np.log(total) + 2 * np.abs(y)


def softmax(rng, dtype, log=False):
    x = array_of(rng, dtype)
    x = x * x.dtype.type(rng.choice([1, 10, 100]))
    dim = int(rng.integers(-x.ndim, x.ndim))
    function = torch.log_softmax if log else torch.softmax

    def expected_values():
        y = function(torch.from_numpy(x.astype("f8")), dim).numpy()
        off = 4 + np.abs(x.astype("f8") - x.max(dim, keepdims=True)) + 2 * np.sqrt(x.shape[dim])
        off = off + np.abs(y) if log else off * y
        peer = function(torch.from_numpy(x), dim).numpy()
        if dtype == "f32":
            return [Expected(y, sum=off, doubt=x.shape[dim] * off, peer=peer)]
        value, doubt = careful_softmax(x, dim, log)
        return [Expected(value, sum=off, doubt=doubt, peer=peer)]

    return Case(f"{'x'.join(map(str, x.shape))}@{dim}" + words(dtype), [x],
                lambda talc, x: [talc.log_softmax(x, dim) if log else talc.softmax(x, dim)], expected_values)


def reduction(rng, dtype, op):
    exact = op in ("max", "argmax", "min", "argmin")
    x = array_of(rng, dtype, nan=exact)
    axes = [int(a) for a in rng.permutation(x.ndim)[:rng.integers(0, x.ndim + 1)]]
    named_axes = [a - x.ndim if rng.random() < 0.3 else a for a in axes]
    keep = bool(rng.random() < 0.5)
    reduced = sorted(axes) or list(range(x.ndim))
    K = int(np.prod([x.shape[a] for a in reduced]))

    correction = float(rng.choice([0, 1, 1, 2.5])) if op == "var" else None

    def place(t):
        kept = [a for a in range(t.dim()) if a not in reduced]
        index = getattr(t.permute(kept + reduced).flatten(len(kept)), op)(-1)
        return index.reshape([1 if a in reduced else e for a, e in enumerate(t.shape)]) if keep else index

    def expected_values():
        if exact:
            t = torch.from_numpy(x)
            return [Expected((getattr(torch, "a" + op)(t, reduced, keep) if op in ("max", "min") else place(t)).numpy())]
        if op == "logsumexp":
            function, off = torch.logsumexp, lambda t, y: (K + 4) * (1 + y.abs())
        if op == "var":
            function = functools.partial(torch.var, correction=correction)
            off = lambda t, y: 4 * (K + 4) * (y + t.mean(reduced, keep).abs() * y.sqrt())
        if op in ("logsumexp", "var"):
            t = torch.from_numpy(x.astype("f8"))
            y = function(t, reduced, keepdim=keep)
            size = np.where(np.isfinite(y.numpy()), off(t, y).numpy(), 0)
            return [Expected(y.numpy(), sum=size, doubt=size, peer=function(torch.from_numpy(x), reduced, keepdim=keep).numpy())]
        function = torch.sum if op == "sum" else torch.mean
        return [summed(lambda t: function(t, reduced, keep), [x], dtype, K, divided=op == "mean")]

    text = "x".join(map(str, x.shape)) + ("@" if axes else "") + ",".join(map(str, named_axes))
    options = [keep] if correction is None else [correction, keep]
    text += "" if correction is None else f"c{correction:g}"
    case = Case(text + words(dtype, keep=keep), [x],
                lambda talc, x: [getattr(talc, op)(x, dims(named_axes), *options)], expected_values)
    case.options = reduced, keep, correction
    return case


OPS = {"conv2d": conv2d, "max_pool2d": max_pool2d, "avg_pool2d": avg_pool2d, "adaptive_avg_pool2d": adaptive_avg_pool2d,
       "adaptive_max_pool2d": adaptive_max_pool2d,
       "pad": pad, "upsample2d": upsample2d, "batch_norm2d": batch_norm2d, "group_norm": group_norm, "linear": linear, "matmul": matmul, "softmax": softmax,
       "log_softmax": lambda rng, dtype: softmax(rng, dtype, log=True)}
OPS.update({op: lambda rng, dtype, op=op: reduction(rng, dtype, op)
            for op in ("sum", "mean", "max", "argmax", "min", "argmin", "var", "logsumexp")})
WEIGHTS = {"conv2d": 6, "batch_norm2d": 3, "max_pool2d": 2, "avg_pool2d": 2, "linear": 2, "matmul": 2}  # the others 1
