#!/usr/bin/env python3
"""Draws docs/convolution_*.svg, the figures of docs/convolution.md, with the numbers of its worked example.

usage: convolution_drawings.py TALC [FOLDER]      TALC is the command; writes into FOLDER, this script's own without one

The numbers, who reads what and who computes what are what `talc trace --json` says.
"""

import functools
import json
import pathlib
import subprocess
import sys

EXAMPLE = "n1c2h5w6o4k3p1"


def trace(text, *more):
    """What `talc trace` says of a problem, planned for an H200 and a CPU with AVX2."""
    return json.loads(subprocess.run([sys.argv[1], "trace", text, "--json", "--gpu", "h200", "--cpu", "avx2", *(more or ("--all",))], check=True,
                                     stdout=subprocess.PIPE).stdout)


def rows_of(values, width):
    return [[int(value) for value in values[i:i + width]] for i in range(0, len(values), width)]


FORWARD, DX, DW = trace(EXAMPLE), trace(EXAMPLE + "_dx"), trace(EXAMPLE + "_dw")
C, H, W, OC, K, P = 2, 5, 6, 4, FORWARD["product"]["inner"], FORWARD["product"]["columns"]
OH, OW = 2, 3  # the output that the text follows, of channel 0
WEIGHTS = rows_of(FORWARD["first"]["values"], K)
IMAGE = [rows_of(FORWARD["second"]["values"][c * P:(c + 1) * P], W) for c in range(C)]
Y = rows_of(FORWARD["result"]["values"], P)
DY = rows_of(DX["second"]["values"], P)
B = [[int(FORWARD["elements"][j]["terms"][k]["second"]["value"]) for j in range(P)] for k in range(K)]


def padded(c, h, w):
    return IMAGE[c][h][w] if 0 <= h < H and 0 <= w < W else 0


X = [[IMAGE[c][j // W][j % W] for j in range(P)] for c in range(C)]
MIDDLES = [[WEIGHTS[oc][4], WEIGHTS[oc][13]] for oc in range(OC)]
Y_POINTWISE = [[sum(MIDDLES[oc][c] * X[c][j] for c in range(C)) for j in range(P)] for oc in range(OC)]

STYLE = """
.bg { fill: #ffffff } .text { fill: #1f2328; font: 13px sans-serif } .soft { fill: #57606a; font: 12px sans-serif }
.title { fill: #1f2328; font: bold 14px sans-serif } .number { fill: #1f2328; font: 12px monospace }
.tiny { fill: #1f2328; font: 10px monospace } .line { stroke: #57606a; fill: none }
.empty { fill: #ffffff; stroke: #8c959f } .grey { fill: #e7ebef; stroke: #8c959f } .blue { fill: #cfe3fb; stroke: #4a7ab5 }
.orange { fill: #fcd9ae; stroke: #b5772c } .green { fill: #cdeccf; stroke: #4a9457 } .purple { fill: #e3d5f7; stroke: #8560bd }
.mark { fill: none; stroke: #c2410c; stroke-width: 2.5 } .other { fill: none; stroke: #2563b0; stroke-width: 2; stroke-dasharray: 5 3 }
.head { fill: #57606a }
@media (prefers-color-scheme: dark) {
.bg { fill: #0d1117 } .text, .title, .number, .tiny { fill: #e6edf3 } .soft { fill: #a5afba } .line { stroke: #a5afba }
.empty { fill: #0d1117; stroke: #6e7681 } .grey { fill: #272d35; stroke: #6e7681 } .blue { fill: #1d4370; stroke: #6ea3e0 }
.orange { fill: #6b4110; stroke: #dca04f } .green { fill: #1c5228; stroke: #67b374 } .purple { fill: #47337a; stroke: #a98be0 }
.mark { stroke: #ff9657 } .other { stroke: #7db4f5 } .head { fill: #a5afba }
}
"""


class Drawing:
    def __init__(self, width, height, what):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
            f"<title>{what}</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path class="head" d="M0,0 L8,4 L0,8 z"/></marker></defs>',
            f'<rect class="bg" width="{width}" height="{height}"/>',
        ]

    def text(self, x, y, text, kind="text", anchor="start"):
        text = str(text).replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>')

    def lines(self, x, y, lines, kind="text"):
        for i, line in enumerate(lines):
            self.text(x, y + 18 * i, line, kind)

    def box(self, x, y, width, height, kind="empty"):
        self.parts.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>')

    def arrow(self, x1, y1, x2, y2):
        self.parts.append(f'<line class="line" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" marker-end="url(#head)"/>')

    def line(self, x1, y1, x2, y2):
        self.parts.append(f'<line class="line" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>')

    def grid(self, x, y, rows, width, height, kind=lambda row, column: "empty", letters="number"):
        """Rows of values, each in a box of width by height."""
        for r, row in enumerate(rows):
            for c, value in enumerate(row):
                self.box(x + c * width, y + r * height, width, height, kind(r, c))
                self.text(x + (c + 0.5) * width, y + (r + 0.5) * height + 4, value, letters, "middle")

    def save(self, path):
        path.write_text("\n".join(self.parts + ["</svg>"]) + "\n")


def window_sum(c, rows=3):
    """What the first rows of the kernel add to output (0, OH, OW) from channel c."""
    return sum(padded(c, OH - 1 + k // 3, OW - 1 + k % 3) * WEIGHTS[0][9 * c + k] for k in range(3 * rows))


def draw_window(path):
    """The sum behind one output."""
    d = Drawing(960, 330, "One output of the convolution: two windows, their weights, one sum")
    cell = 26
    for c in range(C):
        x = 30 + c * 260
        d.text(x, 28, f"x', channel {c}: 5 x 6 and a ring of zeros", "soft")
        rows = [[padded(c, h - 1, w - 1) for w in range(W + 2)] for h in range(H + 2)]
        inside = lambda r, q: OH <= r < OH + 3 and OW <= q < OW + 3
        ring = lambda r, q: r in (0, H + 1) or q in (0, W + 1)
        d.grid(x, 40, rows, cell, cell, lambda r, q: "orange" if inside(r, q) else "grey" if ring(r, q) else "blue")
        d.box(x + OW * cell, 40 + OH * cell, 3 * cell, 3 * cell, "mark")
        d.box(x, 40, 3 * cell, 3 * cell, "other")
        d.text(x, 250, f"w[0, {c}]", "soft")
        d.grid(x + 60, 236, [WEIGHTS[0][c * 9 + 3 * r:c * 9 + 3 * r + 3] for r in range(3)], cell, cell, lambda r, q: "purple")
        d.text(x + 60 + 3 * cell + 10, 266, "frame times w,", "soft")
        d.text(x + 60 + 3 * cell + 10, 284, f"summed: {window_sum(c)}", "soft")
    d.text(560, 28, "y, channel 0: 5 x 6", "soft")
    d.grid(560, 66, [Y[0][W * r:W * r + W] for r in range(H)], 32, cell,
           lambda r, q: "orange" if (r, q) == (OH, OW) else "green")
    d.box(560 + OW * 32, 66 + OH * cell, 32, cell, "mark")
    d.box(560, 66, 32, cell, "other")
    d.lines(560, 250, [
        f"frame: y[0, 2, 3] = {window_sum(0)} + {window_sum(1)} = {Y[0][OH * W + OW]}",
        f"dashed: the window of y[0, 0, 0] = {Y[0][0]}, five of",
        "whose nine places a channel are padding",
    ])
    d.save(path)


def draw_product(d, x, y, weights, columns, result, names, marks):
    """weights [rows, K] and columns [K, P] above result [rows, P], numbers in boxes."""
    cell, high = 19, 15
    left = x + len(columns) * cell + 24
    d.grid(left, y, columns, cell, high, lambda r, q: marks(r, q), "tiny")
    below = y + len(columns) * high + 40
    d.grid(x, below, weights, cell, high, lambda r, q: "purple", "tiny")
    wide = [[value for value in row] for row in result]
    d.grid(left, below, wide, cell, high, lambda r, q: "orange" if (r, q) == (0, OH * W + OW) else "green", "tiny")
    d.text(left, y - 8, names[0], "soft")
    d.text(x, below - 8, names[1], "soft")
    d.text(left, below - 8, names[2], "soft")
    return left, below


def draw_im2col(path):
    """The product of `im2col`, its parts, and who writes them."""
    d = Drawing(960, 780, "im2col: weights times the matrix of windows, in parts; a thread writes columns of it")
    d.text(20, 26, "the example as a product: y [4, 30] = w [4, 18] B [18, 30]", "title")
    left, below = draw_product(
        d, 20, 62, WEIGHTS, B, Y,
        ["B: row = tap (ic, kh, kw), column j = oh*OW + ow", "w: row = output channel", "y: as it stands in memory"],
        lambda r, q: "orange" if q == OH * W + OW else "blue" if r < 9 else "grey")
    d.box(left + (OH * W + OW) * 19, 62, 19, K * 15, "mark")
    cut = 24  # columns: see plan_of with room for 216 elements
    d.line(left + cut * 19, 56, left + cut * 19, below + 84)
    d.line(left - 12, 62 + 9 * 15, left + P * 19, 62 + 9 * 15)
    for column, first in ((0, 0), (cut, 2)):
        d.text(left + column * 19 + 6, below + 78, f"parts {first} and {first + 1}", "soft")
    d.lines(20, 80, ["orange: column 15, the window", "of y[., 2, 3]; its dot product", "with row 0 of w is y[0, 2, 3] = 1", "", "blue: input channel 0",
                     "grey: input channel 1", "", "With a workspace of 864 bytes,", "216 numbers, B is made and used", "in four parts, one after the other",
                     "in the same memory: one channel", "times 24 columns. Products of", "parts 1 and 3 are added to y."])

    top = 520
    d.text(20, top, "who writes B: a warp takes 128 columns, a thread four of them, a warp apart, and goes down the taps", "title")
    for c in range(4):
        for i in range(8):
            thread = i if i < 5 else 26 + i - 1
            kind = "orange" if i == 1 else "blue"
            if i == 5:
                d.text(120 + c * 206 + i * 25 + 12, top + 40, "...", "text", "middle")
                continue
            d.box(120 + c * 206 + i * 25, top + 24, 25, 20, kind)
            d.text(120 + c * 206 + i * 25 + 12.5, top + 38, thread if i < 5 else 24 + i, "tiny", "middle")
        d.text(120 + c * 206 + 96, top + 18, f"columns {32 * c}-{32 * c + 31}", "soft", "middle")
    d.text(20, top + 38, "tap (ic, 0, 0)", "soft")
    for r in range(1, 4):
        d.text(20, top + 38 + r * 24, ["", "tap (ic, 0, 1)", "tap (ic, 0, 2)", "tap (ic, 1, 0)"][r], "soft")
        for c in range(4):
            for i in range(8):
                if i != 5:
                    d.box(120 + c * 206 + i * 25, top + 24 + r * 24, 25, 20, "orange" if i == 1 else "blue")
    d.arrow(157, top + 130, 157, top + 158)
    d.lines(20, top + 180, [
        "Orange: thread 1. Where the windows of its columns 1, 33, 65, 97 begin in the image it works out once: four divisions by OW. At each tap",
        "the warp reads 32 neighbouring elements of x and writes 32 neighbouring elements of B, four times. grid: x = columns, y = input channels,",
        "z = slices (a group of an image). cuBLAS then takes w and this part of B, and writes y where it stands.",
    ], "soft")
    d.save(path)


def draw_pointwise(path):
    """The product of `pointwise`."""
    d = Drawing(960, 330, "pointwise: the image is the matrix already")
    d.text(20, 26, "the middle taps as a 1x1 kernel: y [4, 30] = w [4, 2] x [2, 30]", "title")
    left, below = draw_product(
        d, 20, 62, MIDDLES, X, Y_POINTWISE, ["x as it stands in memory: row = channel, column j = h*W + w", "w", "y as it stands in memory"],
        lambda r, q: "orange" if q == OH * W + OW else "blue")
    d.text(700, 70, "y[0, 2, 3] = 1*1 + 2*-4 = -7", "text")
    d.text(20, 240, "several images n and groups g: a slice of x, one group of one image, is a matrix of its own", "title")
    for s in range(6):
        x = 30 + s * 150
        d.box(x, 258, 130, 22, "blue")
        d.text(x + 65, 273, f"x: n={s // 2} g={s % 2}", "number", "middle")
        d.box(x, 284, 130, 22, "orange" if s % 2 == 0 else "green")
        d.text(x + 65, 299, f"y = w[g={s % 2}] x", "number", "middle")
    d.text(30, 322, "orange: group 0 of all images, one call of cuBLAS, since they are a fixed step apart; green: group 1, another call", "soft")
    d.save(path)


def draw_depthwise(path):
    """The tile of `depthwise`, walking down."""
    d = Drawing(960, 660, "depthwise: a warp walks down a tile of one plane; rows wait in shared memory, sums in registers")
    d.text(20, 26, "a plane of y", "title")
    for r in range(64):
        for c in range(4):
            d.box(20 + c * 44, 40 + r * 3.25, 44, 3.25, "orange" if (r, c) == (0, 1) else "green")
    d.lines(20, 268, ["512 x 512: 256 tiles of", "8 rows x 128 columns,", "each a warp's work"], "soft")
    d.arrow(110, 41.6, 196, 41.6)

    left, cell = 200, 21
    d.text(left, 26, "the tile's rows of x, asked for into a ring of shared memory long before they are used", "title")
    names = ["lane 0", "lane 1", "lane 2", None, "lane 31"]
    for i, name in enumerate(names):
        if name:
            d.text(left + 60 + i * 4 * cell + 2 * cell, 52, name, "soft", "middle")
    rows = [("row 2: done, its slot is free", "empty"), ("row 3: being added", "orange"), ("row 4: arrived or on its way", "blue"), ("row 5", "blue"),
            ("row 6", "blue"), ("rows 7 and 8: the tile's last", "blue"), ("row 9: the next tile's", "grey")]
    for r, (name, kind) in enumerate(rows):
        for c in range(20):
            if 12 <= c < 16:
                continue
            d.box(left + 60 + c * cell, 60 + r * 24, cell, 20, kind)
        d.text(left + 60 + 14 * cell, 74 + r * 24, "...", "text", "middle")
        d.text(left + 60 + 20 * cell + 12, 74 + r * 24, name, "soft")
    d.box(left + 60 + 3 * cell, 60 + 24, 6 * cell, 20, "mark")
    d.lines(left + 60, 246, ["the frame: what lane 1 reads of row 3, its own 4 columns and one beside them on each side;",
                             "the neighbours read those too. A row stands in shared memory once for the 32 of them."], "soft")
    d.arrow(left + 60 + 6 * cell, 264 + 8, left + 60 + 6 * cell, 316)

    d.text(20, 340, "lane 1's registers: the sums of three rows of y under way, 4 columns each, and the 9 weights", "title")
    opens = [("y row 4", "begins: + w[0, .] * row 3", 1), ("y row 3", "has row 2; + w[1, .] * row 3", 2), ("y row 2", "has rows 1 and 2; + w[2, .] * row 3: complete", 3)]
    for i, (name, does, filled) in enumerate(opens):
        y = 356 + i * 30
        d.text(20, y + 16, name, "text")
        for c in range(4):
            d.box(90 + c * 40, y, 40, 24, ["", "empty", "blue", "orange"][filled])
        d.text(270, y + 16, does, "text")
    d.arrow(568, 428, 610, 428)
    d.text(616, 432, "bias, residual, activation; a store of 16 bytes a lane", "text")

    d.text(20, 478, "the example, channel 0 with the weights of y[0]: three rows of x make y[0, 2, 3] = 6 on the way down", "title")
    cell = 24
    for r in range(H):
        kinds = lambda _, q, r=r: "orange" if OH - 1 <= r <= OH + 1 and OW - 1 <= q <= OW + 1 else "blue"
        d.grid(20, 492 + r * cell, [IMAGE[0][r]], cell, cell, kinds)
        if OH - 1 <= r <= OH + 1:
            kh = r - OH + 1
            terms = [(IMAGE[0][r][OW - 1 + kw], WEIGHTS[0][3 * kh + kw]) for kw in range(3)]
            text = " + ".join(f"{x}*{w}" for x, w in terms)
            d.text(190, 508 + r * cell, f"row {r} is tap {kh} of y row 2:  {window_sum(0, kh)} + {text} = {window_sum(0, kh + 1)}", "number")
        else:
            other = "y rows 0 and 1 alone" if r == 0 else "y rows 3 and 4 alone"
            d.text(190, 508 + r * cell, f"row {r}: {other}", "soft")
    d.lines(20, 636, ["Row 2 is read once and used three times: as tap 2 of y row 1, as tap 1 of y row 2, as tap 0 of y row 3."], "soft")
    d.save(path)


def draw_readers(path):
    """dx of one pixel: the outputs that read it."""
    d = Drawing(960, 330, "dx of one pixel: the outputs that read it, times the weights that they read it with")
    element = DX["elements"][OH * W + OW]
    terms = element["terms"]
    cell = 30
    d.text(30, 28, "x, channel 0: who reads x[0, 0, 2, 3]?", "soft")
    d.grid(30, 40, IMAGE[0], cell, cell, lambda r, q: "orange" if (r, q) == (OH, OW) else "blue")
    d.box(30 + OW * cell, 40 + OH * cell, cell, cell, "mark")
    for oc in range(OC):
        x, y = 300 + oc % 2 * 320, 40 + oc // 2 * 132
        readers = {tuple(t["second"]["at"][2:]): t for t in terms if t["second"]["at"][1] == oc}
        d.text(x, y - 4, f"dy[0, {oc}]: the outputs that read it", "soft")
        d.grid(x, y, rows_of(DY[oc], W), 24, 20, lambda r, q: "orange" if (r, q) in readers else "green", "tiny")
        first = min(readers)
        d.box(x + first[1] * 24, y + first[0] * 20, 3 * 24, 3 * 20, "mark")
        turned = [[int(readers[(first[0] + i, first[1] + j)]["first"]["value"]) for j in range(3)] for i in range(3)]
        d.grid(x + 6 * 24 + 30, y + 14, turned, 24, 20, lambda r, q: "purple", "tiny")
        d.text(x + 6 * 24 + 8, y + 50, "\u00b7", "title")
        d.text(x + 6 * 24 + 30, y + 8, f"w[{oc}, 0] rotated", "soft")
        part = sum(int(t["product"]) for t in readers.values())
        d.text(x + 6 * 24 + 110, y + 50, f"= {part}", "number")
    parts = [sum(int(t["product"]) for t in terms if t["second"]["at"][1] == oc) for oc in range(OC)]
    d.lines(30, 224, ["Nine outputs of each channel read it,", "each with another weight: the output", "up and left of it with w[oc, 0, 2, 2].",
                      "dx[0, 0, 2, 3] = " + " + ".join(f"({p})" if p < 0 else str(p) for p in parts), f"= {int(element['value'])}"])
    d.save(path)


def draw_phases(path):
    """dx at stride 2: which taps a pixel meets."""
    d = Drawing(960, 300, "dx at stride 2: four phases of pixels, each with taps of its own")
    traced = trace("n1c1h6w8o1k3s2p1_dx")
    taps = [frozenset(tuple(t["first"]["at"][2:]) for t in e["terms"]) for e in traced["elements"]]
    # A phase is named after the most taps that one of its pixels meets.
    largest = sorted({t for t in taps if not any(t < other for other in taps)}, key=lambda t: (len(t), sorted(t)))
    kinds = dict(zip(largest, ("blue", "green", "purple", "orange")))
    phase = [next(t for t in largest if own <= t) for own in taps]
    width = traced["result"]["dims"][3]
    d.text(30, 28, "dx of n1c1h6w8o1k3s2p1: how many outputs read each pixel", "soft")
    d.grid(30, 40, [[len(taps[r * width + q]) for q in range(width)] for r in range(6)], 36, 32, lambda r, q: kinds[phase[r * width + q]])
    for i, t in enumerate(largest):
        x = 370 + i * 145
        d.text(x, 28, f"{len(t)} tap{'s' if len(t) > 1 else ''}: a {len({a for a, _ in t})}x{len({b for _, b in t})} kernel", "soft")
        d.grid(x, 40, [[f"{r},{q}" if (r, q) in t else "" for q in range(3)] for r in range(3)], 36, 32,
               lambda r, q: kinds[t] if (r, q) in t else "empty", "tiny")
        d.text(x, 160, f"{phase.count(t)} pixels", "soft")
    products, zeros = sum(map(len, taps)), 9 * len(taps)
    d.lines(30, 262, [f"Each phase is a small convolution of dy with its own part of the kernel: {products} products. With zeros put between the",
                      f"elements of dy, as textbooks do, every pixel would meet all 9 taps: {zeros} products, most of them with a zero."], "soft")
    d.save(path)


def draw_sums(path):
    """dw of one weight: a sum over all outputs, in splits."""
    d = Drawing(960, 300, "dw of one weight: a sum over all outputs, in splits that are added in their order")
    element = DW["elements"][4]  # the middle of w[0, 0]
    cell, splits = 30, 5
    share = len(element["terms"]) // splits
    kinds = ("blue", "green", "purple", "orange", "grey")
    d.text(30, 28, "what w[0, 0, 1, 1] met: x", "soft")
    d.grid(30, 40, [[int(element["terms"][r * W + q]["second"]["value"]) for q in range(W)] for r in range(H)], cell, cell, lambda r, q: kinds[(r * W + q) // share])
    d.text(225, 118, "\u00b7", "title")
    d.text(250, 28, "dy[0, 0]", "soft")
    d.grid(250, 40, [[int(element["terms"][r * W + q]["first"]["value"]) for q in range(W)] for r in range(H)], cell, cell, lambda r, q: kinds[(r * W + q) // share])
    total = 0
    for i in range(splits):
        part = sum(int(t["product"]) for t in element["terms"][i * share:(i + 1) * share])
        total += part
        y = 40 + i * cell
        d.arrow(434, y + 15, 470, y + 15)
        d.box(474, y + 2, 60, 26, kinds[i])
        d.text(504, y + 19, part, "number", "middle")
        d.text(544, y + 19, f"split {i}: {share} products, beside the others", "soft")
        d.text(820, y + 19, f"sum so far {total}", "number")
        if i:
            d.arrow(880, y - 8, 880, y + 4)
    assert total == element["value"], (total, element["value"])
    d.lines(30, 226, [f"dw[0, 0, 1, 1] = {total}. A weight meets as many pixels as there are outputs, here 30, of problem A a million, and there are few weights:",
                      "so the splits run side by side on threads or blocks, and what they found is added in the order of the splits, never in the order of",
                      "arrival: the same bits on every run."], "soft")
    d.save(path)


def owners_of(traced, device, title, precision):
    """Of each element of the result the number of its owner at each level: {name: number}."""
    algorithm = next(a for a in traced["algorithms"] if (a["device"], a["title"], a["precision"]) == (device, title, precision))
    names = [level["name"] for level in algorithm["levels"]]
    return [dict(zip(names, owners[0])) for owners in algorithm["owner_table"]]


def draw_vectors(path):
    """implicit_gemm on the CPU: which lane of which register an output is summed up in."""
    d = Drawing(960, 330, "implicit_gemm on the CPU: outputs are lanes of vector registers, of 4 channels at a time")
    owners = owners_of(FORWARD, "cpu", "implicit_gemm", "strict")
    kinds = {place: kind for place, kind in zip(sorted({(o["tile"], o["vector"]) for o in owners}), ("blue", "green", "purple", "orange", "grey", "empty"))}
    cell = 34
    d.text(30, 28, "y[0, 0]: lanes; a colour is a register", "soft")
    d.grid(30, 40, [[owners[r * W + q]["lane"] for q in range(W)] for r in range(H)], cell, cell,
           lambda r, q: kinds[(owners[r * W + q]["tile"], owners[r * W + q]["vector"])])
    d.box(30 + OW * cell, 40 + OH * cell, cell, cell, "mark")
    d.text(290, 28, "the registers of a channel, 8 lanes of f32 each: (oh, ow)", "soft")
    for i, (place, kind) in enumerate(kinds.items()):
        held = {o["lane"]: divmod(e, W) for e, o in enumerate(owners[:P]) if (o["tile"], o["vector"]) == place}
        y = 40 + i * 34
        d.text(290, y + 19, f"tile {place[0]}, vector {place[1]}", "soft")
        for lane in range(8):
            d.box(390 + lane * 44, y, 44, 28, kind if lane in held else "empty")
            d.text(412 + lane * 44, y + 18, "{},{}".format(*held[lane]) if lane in held else "-", "tiny", "middle")
        if (OH, OW) in held.values():
            lane = next(lane for lane, at in held.items() if at == (OH, OW))
            d.box(390 + lane * 44, y, 44, 28, "mark")
            own = owners[OH * W + OW]
    d.lines(760, 58, ["-: between two rows of", "outputs, computed with", "the vector and dropped", "", "the four channels have", "registers of their own,", "rows 0 to 3 of the tile"], "soft")
    d.lines(30, 262, [f"frame: y[0, 2, 3] is in lane {own['lane']} of vector {own['vector']} of tile {own['tile']}. For each term k = (ic, kh, kw) the microkernel loads the vectors of the halo tile",
                      "from that tap on, and adds each, times one weight, to the registers of that weight's channel: 4 channels x 3 vectors are 12 sums under",
                      "way at once, and a loaded vector serves 4 of them."], "soft")
    d.save(path)


def draw_fragments(path):
    """mma.sync: which lane has which element of the accumulators."""
    d = Drawing(960, 430, "mma.sync: the lane and register of each of 16 x 16 sums")
    traced = trace("n1c16h1w16o16k1x3p0x1")
    owners = owners_of(traced, "cuda", "implicit_gemm(mma)", "strict")
    registers = sorted({o["sum"] for o in owners})
    kinds = dict(zip(registers, ("blue", "blue", "green", "green", "purple", "purple", "orange", "orange")))
    left, top, cell, high = 90, 60, 36, 20
    d.text(left, 26, "16 output channels x 16 positions, two products side by side: lane:register of each sum", "soft")
    for q in range(16):
        d.text(left + (q + 0.5) * cell, top - 6, q, "tiny", "middle")
    for r in range(16):
        d.text(left - 8, top + r * high + 14, f"oc {r}", "tiny", "end")
    at = lambda r, q: owners[r * 16 + q]
    d.grid(left, top, [[f"{at(r, q)['lane']}:{at(r, q)['sum']}" for q in range(16)] for r in range(16)], cell, high, lambda r, q: kinds[at(r, q)["sum"]], "tiny")
    for r in range(16):
        for q in range(16):
            if at(r, q)["lane"] == 5:
                d.box(left + q * cell, top + r * high, cell, high, "mark")
    mine = [r for r in registers if any(o["lane"] == 5 and o["sum"] == r for o in owners)]
    d.lines(700, 74, ["frame: lane 5. It has two neighbouring", "positions of two channels, eight apart,", "in each product of 16 x 8:", f"registers {', '.join(map(str, mine))}.", "",
                      "The colours are pairs of registers.", "Whoever stores y from here writes two", "neighbours a lane; four lanes have", "eight positions of one channel."], "soft")
    d.save(path)


def draw_pipeline(path):
    """implicit_gemm on Hopper, in time: what a block's loaders and its two warpgroups do while the others work."""
    d = Drawing(960, 436, "implicit_gemm on Hopper in time: warps that load run ahead of two warpgroups that multiply")
    text, title, cost, scale, left = "n1c8960h4w4o1120k3p1g140", "implicit_gemm(wgmma)", {"load": 2, "multiply": 3, "store": 4}, 16, 200
    algorithm = next(a for a in trace(text, "--algorithm", title)["algorithms"] if a["precision"] == "strict")
    pipeline, k_tiles = algorithm["pipeline"], next(loop["extent"] for loop in algorithm["loops"] if loop["name"] == "K tile")
    tiles, buffers, lag = next(level["extent"] for level in algorithm["levels"] if level["kind"] == "sequence"), pipeline["buffers"], pipeline["lag"]

    @functools.cache
    def loaded(i):
        """When K tile i stands in its buffer, which both warpgroups have to have left."""
        return cost["load"] + max([loaded(i - 1) if i else 0, *(multiplied(w, i - buffers) for w in range(pipeline["multipliers"]) if i >= buffers)])

    @functools.cache
    def multiplied(w, i):
        """When warpgroup w has added the products of K tile i. It stores before it begins another tile."""
        before = multiplied(w, i - 1) + (cost["store"] if i % k_tiles == 0 else 0) if i else multiplied(0, lag - 1) if w and lag else 0
        return cost["multiply"] + max(loaded(i), before)

    kinds = ("blue", "green", "purple", "orange")

    def block(row, end, of, name, kind):
        d.box(left + (end - cost[of]) * scale, row, cost[of] * scale, 26, kind)
        d.text(left + (end - cost[of] / 2) * scale, row + 17, name, "tiny", "middle")
    d.text(20, 28, f"block 0 of {text}: {tiles} tiles of y, each of {k_tiles} K tiles; time goes to the right", "title")
    rows = {"load": 56, 0: 230, 1: 266}
    d.text(20, rows["load"] + 17, f"{pipeline['loaders']} warps load", "soft")
    for b in range(buffers):
        d.text(20, 100 + b * 30 + 17, f"halo tile, buffer {b}", "soft")
    for w in range(pipeline["multipliers"]):
        d.text(20, rows[w] + 17, f"warpgroup {w} multiplies", "soft")
    for i in range(tiles * k_tiles):
        name, kind = f"{i // k_tiles}.{i % k_tiles}", kinds[i % buffers % len(kinds)]
        block(rows["load"], loaded(i), "load", name, kind)
        left_at = max(multiplied(w, i) for w in range(pipeline["multipliers"]))
        begin = loaded(i) - cost["load"]
        d.box(left + begin * scale, 100 + i % buffers * 30, (left_at - begin) * scale, 26, kind)
        d.text(left + (begin + left_at) / 2 * scale, 117 + i % buffers * 30, f"tile {i // k_tiles}, K tile {i % k_tiles}", "tiny", "middle")
        for w in range(pipeline["multipliers"]):
            block(rows[w], multiplied(w, i), "multiply", name, kind)
            if i % k_tiles == k_tiles - 1:
                block(rows[w], multiplied(w, i) + cost["store"], "store", "store y", "grey")
    d.lines(20, 326, [
        "1.3: K tile 3 of tile 1. A colour is a buffer: it is filled, which opens its barrier \"full\"; both warpgroups read it; when both have left it, its barrier",
        f"\"empty\" opens and it is filled anew. So 1.0 is loaded when warpgroup 1 has left 0.0. That warpgroup begins {lag} K tiles after the first: one stores its outputs",
        "while the other multiplies, and the tensor cores have work all the time.",
        "",
        "Order, buffers and lag are those of the plan for an H200 (talc trace: pipeline). The widths are chosen, not measured: 2 for a load, 3 for the products of a",
        "K tile, 4 for a store.",
    ], "soft")
    d.save(path)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).parent
    for draw in (draw_window, draw_im2col, draw_pointwise, draw_depthwise, draw_vectors, draw_fragments, draw_pipeline, draw_readers, draw_phases,
                 draw_sums):
        draw(folder / f"convolution_{draw.__name__[5:]}.svg")
