#!/usr/bin/env python3
"""Counts the bytes of docs/convolution.md: what the CUDA algorithms of conv2d read and write, level by level, for f32.

The cuts are those of plan_tiles, plan_of and warp_tiling, worked out anew from the rules that the text gives.
"""

PROCESSORS = 132  # multiprocessors of an H200
SIZE = 4          # bytes of an f32


def pieces(count, size):
    return (count + size - 1) // size


class Problem:
    def __init__(self, text, N, C, H, W, OC, KH, KW, pad=0, groups=1):
        self.text, self.N, self.C, self.H, self.W, self.OC, self.KH, self.KW = text, N, C, H, W, OC, KH, KW
        self.pad, self.groups = pad, groups
        self.OH, self.OW = H + 2 * pad - KH + 1, W + 2 * pad - KW + 1
        self.P, self.taps, self.IC = self.OH * self.OW, KH * KW, C // groups
        self.K = self.IC * self.taps
        self.fma = N * OC * self.P * self.K
        self.x, self.w, self.y = N * C * H * W * SIZE, OC * self.K * SIZE, N * OC * self.P * SIZE


def show(what, amount, unit="GB"):
    print(f"    {what:<62} {amount / 1e9:9.3f} {unit}")


def begin(p):
    least = p.x + p.w + p.y
    print(f"{p.text}: {p.fma / 1e9:.1f} billion FMAs")
    show("least: x and w read once, y written once", least)
    show("two operands an FMA, each from memory", p.fma * 2 * SIZE)
    print(f"    {2 * p.fma / least:.1f} FLOP a byte; at 4.3 TB/s {least / 4.3e9:.3f} ms, at 67 TFLOP/s {2 * p.fma / 67e9:.3f} ms")


def columns_inside(start, count, extent):
    return max(0, min(start + count, extent) - max(start, 0))


def direct_textbook(p):
    print("  direct, an output pixel of 8 channels a thread")
    show("x, as the threads ask", p.N * pieces(p.OC, 8) * p.P * p.K * SIZE)
    show("w out of shared memory, as the threads ask", p.N * pieces(p.OC, 8) * p.P * p.K * 8 * SIZE)


def im2col(p, limit):
    room, ld = limit // SIZE, pieces(p.P, 4) * 4
    channels, columns = p.C, p.P
    if p.K > room // ld:
        most = room // p.taps // min(ld, 2048)
        channels = pieces(p.C, pieces(p.C, min(p.C, most)))
        fit = room // (channels * p.taps)
        turn = PROCESSORS * 256 // pieces(p.OC, 128)
        unit = turn if fit >= turn > 256 else 256 if fit >= 256 else 4
        columns = min(fit // unit * unit, p.P)
    parts = p.N * pieces(p.P, columns) * pieces(p.C, channels)
    print(f"  im2col, {limit >> 20} MiB: {parts} parts of up to {channels * p.taps} x {columns:,}, {channels * p.taps * columns * SIZE / 2**20:.1f} MiB")
    whole = p.N * p.K * p.P * SIZE
    show("x, as the threads ask", whole)
    show("B written", whole)
    show("B read, once for each 128 channels of y", whole * pieces(p.OC, 128))
    show("y", p.y)


def pointwise(p):
    print("  pointwise")
    show("x read, once for each 128 channels of y", p.x * pieces(p.OC, 128))
    show("y written", p.y)


def depthwise(p):
    across, rows = pieces(p.OW, 128), 8 if p.taps <= 9 else 16
    while rows > 4 and p.N * p.OC * across * pieces(p.OH, rows) < PROCESSORS * 64:
        rows //= 2
    rows = pieces(p.OH, pieces(p.OH, rows))
    down, skew = pieces(p.OH, rows), -p.pad % 4  # columns before the window, so that it stands at multiples of 16 bytes
    read = pieces(skew + 3 + p.KW, 4) * 4        # columns that a lane reads
    print(f"  depthwise: {p.N * p.OC * across * down:,} tiles of {rows} rows x 128 columns")
    columns = sum(columns_inside(c * 128 - p.pad - skew, 124 + read, p.W) for c in range(across))
    lines = [min(rows, p.OH - r * rows) + p.KH - 1 for r in range(down)]
    inside = sum(columns_inside(r * rows - p.pad, lines[r], p.H) for r in range(down))
    show("x into shared memory", p.N * p.OC * columns * inside * SIZE)
    show("out of shared memory, as the threads ask", p.N * p.OC * across * sum(lines) * 32 * read * SIZE)
    show("y out of registers", p.y)


if __name__ == "__main__":
    a = Problem("n8c64h512w256o128k5x7", 8, 64, 512, 256, 128, 5, 7)
    begin(a)
    direct_textbook(a)
    im2col(a, 512 << 20)
    im2col(a, 32 << 20)
    b = Problem("n16c64h512w512o128k1x1", 16, 64, 512, 512, 128, 1, 1)
    begin(b)
    pointwise(b)
    c = Problem("n16c64h512w512o64k3x3g64", 16, 64, 512, 512, 64, 3, 3, 0, 64)
    begin(c)
    depthwise(c)
