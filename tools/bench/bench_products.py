#!/usr/bin/env python3
"""Times talc's matrix products beside PyTorch's on one GPU, in one run, and prints tables.

usage: bench_products.py LIBRARY [COUNT [SEED]]        LIBRARY is build/libtalc.so

Strict products beside PyTorch's with TF32 off, those with TF32 admitted beside PyTorch's with it. Fused: linear with bias
and activation is one op of talc's, two of PyTorch's. Then COUNT random ones: 1 to 16 products, extents log-uniform from 16
to 20,000, at least 20 us in PyTorch, results of up to 4 GB, up to 8 TFLOP.
"""

import ctypes
import math
import pathlib
import random
import sys

import torch
import torch.nn.functional as F

from bench_torch import least_seconds, milliseconds

sys.path.append(str(pathlib.Path(__file__).parents[1] / "torch"))
from talc_library import ACTIVATIONS, DTYPES, LinearOptions, Talc, dims  # noqa: E402 (found there)

STRICT, TF32 = 1, 5
# products, M, K, N; a second matrix that is transposed in memory; where they come from
PRODUCTS = [(64, 384, 768, 1536, False, "a batch"), (1, 96, 16384, 24576, False, "few rows"), (1, 8, 16384, 16384, False, "fewer rows"),
            (1, 24576, 48, 24576, False, "short sums"), (1, 192, 400000, 320, False, "long sums"), (1, 4096, 4096, 4096, False, ""),
            (1, 8192, 8192, 8192, False, ""), (1, 32, 25088, 4096, True, "VGG-16's first linear layer"),
            (96, 197, 64, 197, True, "attention: queries and keys"), (96, 197, 197, 64, False, "attention: weights and values")]
FUSED = [(4096, 4096, 4096, "relu"), (16384, 1024, 4096, "gelu"), (512, 4096, 11008, "silu")]


class Products:
    """Both libraries' seconds for one product."""

    def __init__(self, path):
        self.talc = Talc(path, "cuda")

    def seconds_of(self, call, *arguments):
        """By the device's clock, as least_seconds does it."""
        f, free = self.talc.functions[call], self.talc.functions["release"]

        def timed(count):
            timer = self.talc.timer_start(self.talc.device)
            for _ in range(count):
                free(f(*arguments))
            return self.talc.timer_stop(timer)

        timed(1)
        count = max(1, min(1000, int(0.02 / timed(1))))
        timed(count)
        return min(timed(count) for _ in range(5)) / count

    def tensor(self, *extents):
        return self.talc.uniform(self.talc.device, DTYPES["f32"], dims(extents), -1, 1)

    def product(self, batch, M, K, N, transposed, tf32):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        self.talc.precision_admit(TF32 if tf32 else STRICT)
        b = (batch, N, K) if transposed else (batch, K, N)
        a, b = (batch, M, K)[batch == 1:], b[batch == 1:]
        x, w = (torch.rand(extents, device="cuda") - 0.5 for extents in (a, b))
        w = w.mT if transposed else w
        theirs = least_seconds(lambda _: torch.matmul(x, w), 1)
        del x, w
        torch.cuda.empty_cache()
        x, w = self.tensor(*a), self.tensor(*b)
        stored, rank = w, len(b)
        if transposed:
            w = self.talc.transpose(w, rank - 2, rank - 1)
        own = self.seconds_of("matmul", x, w)
        for tensor in {ctypes.addressof(t.contents): t for t in (x, stored, w)}.values():
            self.talc.release(tensor)
        self.talc.memory_trim(self.talc.device)
        return own, theirs

    def fused(self, M, K, N, activation):
        torch.backends.cuda.matmul.allow_tf32 = False
        self.talc.precision_admit(STRICT)
        x, w, b = (torch.rand(extents, device="cuda") - 0.5 for extents in ((M, K), (N, K), (N,)))
        act = getattr(F, activation)
        theirs = least_seconds(lambda _: act(F.linear(x, w, b)), 1)
        x, w, b = self.tensor(M, K), self.tensor(N, K), self.tensor(N)
        options = [LinearOptions(activation=ACTIVATIONS.index(name)) for name in ("none", activation)]
        return [self.seconds_of("linear", x, w, b, ctypes.addressof(o)) for o in options] + [theirs]


def print_table(*heads):
    print(f"\n| {' | '.join(heads)} |\n|{'-|' * len(heads)}", flush=True)


def print_random(products, count, seed, tf32):
    draw, ratios = random.Random(seed), []
    while len(ratios) < count:
        batch, (M, K, N) = draw.randint(1, 16), (round(math.exp(draw.uniform(math.log(16), math.log(20000)))) for _ in range(3))
        if batch * M * N * 4 > 4e9 or batch * M * K * N > 4e12:
            continue
        own, theirs = products.product(batch, M, K, N, False, tf32)
        if theirs >= 20e-6:
            ratios.append((theirs / own, f"{batch}x({M}x{K}x{N})"))
    mean = math.exp(sum(math.log(ratio) for ratio, _ in ratios) / count)
    print(f"\n{count} random products, seed {seed}, {'TF32' if tf32 else 'strict'}: PyTorch over talc {mean:.2f} in the geometric "
          f"mean; the least {', '.join(f'{text} {ratio:.2f}' for ratio, text in sorted(ratios)[:6])}", flush=True)


def main(path, count=0, seed=1):
    products = Products(path)
    torch.set_grad_enabled(False)
    print_table("product", "", "strict, ms", "PyTorch fp32", "over talc", "TF32 class, ms", "PyTorch TF32", "over talc")
    for *shape, what in PRODUCTS:
        columns = [text for tf32 in (False, True) for own, theirs in [products.product(*shape, tf32)]
                   for text in (milliseconds(own), milliseconds(theirs), f"{theirs / own:.2f}")]
        batch, M, K, N, transposed = shape
        text = " x ".join(map(str, shape[batch == 1:4])) + (" transposed" if transposed else "")
        print(f"| {text} | {what} | {' | '.join(columns)} |", flush=True)
    print_table("linear and activation", "product and bias, ms", "with the activation", "PyTorch fp32", "over talc")
    for M, K, N, activation in FUSED:
        plain, own, theirs = products.fused(M, K, N, activation)
        print(f"| {M} x {K} x {N}, {activation} | {milliseconds(plain)} | {milliseconds(own)} | {milliseconds(theirs)} | "
              f"{theirs / own:.2f} |", flush=True)
    for tf32 in (False, True) if count else ():
        print_random(products, count, seed, tf32)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__.strip())
    main(sys.argv[1], *map(int, sys.argv[2:4]))
