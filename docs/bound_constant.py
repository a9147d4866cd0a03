#!/usr/bin/env python3
"""Measures the constant of talc check's bound on random data: the worst |error| / (u sqrt(K + 4) S) of f32 dot products,
and what constant data make of it.

usage: bound_constant.py [SEED]     needs numpy, takes a minute
"""

import sys

import numpy as np

U = 2.0**-24
DATA = {
    "[-1, 1)": lambda g, n: g.uniform(-1, 1, n),
    "[0, 1)": lambda g, n: g.random(n),
    "normal": lambda g, n: g.standard_normal(n),
    "1/3": lambda g, n: np.full(n, 1 / 3),
}


def worst(draw, generator, K, sums, fused):
    """Of so many dot products side by side, one term after the other."""
    y = np.zeros(sums, np.float32)
    exact, S = np.zeros(sums), np.zeros(sums)
    for _ in range(K):
        x, w = (draw(generator, sums).astype(np.float32) for _ in range(2))
        product = x.astype(np.float64) * w  # exact: 24 + 24 bits
        exact += product
        S += abs(product)
        y = (y + product).astype(np.float32) if fused else y + x * w
    return np.max(abs(y - exact) / (U * np.sqrt(K + 4) * S))


generator = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
print(f"{'data':8}  {'K':>6}  {'sums':>8}  {'fused':>6}  {'product rounded':>16}")
for name, draw in DATA.items():
    for K, sums in ((1, 10**6), (9, 10**6), (27, 10**6), (576, 10**5), (4608, 10**4), (100352, 500)):
        ratios = [worst(draw, generator, K, sums, fused) for fused in (True, False)]
        print(f"{name:8}  {K:6}  {sums:8}  {ratios[0]:6.3f}  {ratios[1]:16.3f}", flush=True)
