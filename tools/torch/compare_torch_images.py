"""Compares how talc reads, resizes and crops images with Pillow and torchvision (compare_torch.py images).

Images are generated that look like photographs to a resize: slopes, edges, textures and noise of several scales, 1 to 700 pixels
a side. Pillow writes each as JPEG (of any quality and subsampling, progressive or not, grey, CMYK, turned by EXIF) or as PNG
(RGB, grey, palette, with alpha, of 1 bit), opens it, turns it upright and converts it to RGB; torchvision resizes and crops it.
An image passes when

    read               of its values 99.9 % are within 1 of 255 of Pillow's, and all of a PNG's are equal
    resized, cropped   99.9 % are within 1; what talc makes of Pillow's own pixels is equal, columns first or rows first
    normalised         elements are within 1e-5 of torchvision's ToTensor and Normalize of talc's own bytes

Pillow brings a libjpeg of its own, so that a JPEG's values may differ where the versions do. Pillow up to 12 resizes columns
first, as talc does; 13 goes rows first at some sizes, which moves values by 1, and those of a bicubic resize by more, as it goes
over the ends of a byte in between: the half of all images that are resized bicubically are resized columns first by any Pillow.
Needs numpy, PyTorch, torchvision and Pillow. Exit code 1 when an image fails.
"""
import argparse
import pathlib
import sys
import tempfile
from ctypes import byref

import numpy as np

try:
    import torch
    from PIL import Image, ImageOps
    from torchvision.transforms import functional
except ImportError as missing:
    print(f"compare_torch.py images needs numpy, PyTorch, torchvision and Pillow: {missing}", file=sys.stderr)
    sys.exit(2)

from talc_library import DTYPES, ImageSize, Talc, structure

ImageOptions = structure("talc_image_options")
ORIENTATION = 0x0112
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SHARE, LARGEST = 0.999, 1


# ---- Images -------------------------------------------------------------------------------------

def photograph(random, height, width):
    """[H,W,3] bytes."""
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    image = np.zeros((height, width, 3))
    for c in range(3):
        slope = random.normal(0, 60, 2)
        image[:, :, c] = 128 + slope[0] * (y - 0.5) + slope[1] * (x - 0.5)
    for _ in range(int(random.integers(2, 12))):  # things with an edge
        middle, radius, shade = random.random(2), random.random() * 0.4, random.normal(0, 70, 3)
        inside = np.hypot(y - middle[0], (x - middle[1]) * random.uniform(0.5, 2)) < radius
        image[inside] += shade
    for _ in range(3):  # textures
        wave = random.normal(0, 1, 2) * random.choice([10, 60, 400])
        image += (random.uniform(0, 25) * np.sin(wave[0] * y + wave[1] * x))[:, :, None]
    image += random.normal(0, random.uniform(0, 12), image.shape)
    return np.clip(image, 0, 255).astype(np.uint8)


def write(random, folder, number):
    """A file, and what it is."""
    height, width = (int(side) for side in random.integers(*((1, 40) if random.random() < 0.1 else (60, 700)), 2))
    image = Image.fromarray(photograph(random, height, width))
    if number % 2:
        mode = str(random.choice(["RGB", "RGB", "L", "P", "RGBA", "LA", "1"]))
        path = folder / f"{number}.png"
        if mode in ("RGBA", "LA"):
            image = image.convert(mode)
            image.putalpha(Image.fromarray(photograph(random, height, width)[:, :, 0]))
        else:
            image = image.convert(mode)
        image.save(path)
        return path, f"{height}x{width} PNG {mode}"
    mode = str(random.choice(["RGB", "RGB", "RGB", "RGB", "L", "CMYK"]))
    options = {"quality": int(random.integers(40, 98)), "subsampling": int(random.integers(0, 3)), "progressive": bool(random.integers(0, 2))}
    if mode == "L":
        del options["subsampling"]
    exif = Image.Exif()
    exif[ORIENTATION] = int(random.integers(1, 9))
    path = folder / f"{number}.jpg"
    image.convert(mode).save(path, exif=exif, **options)
    return path, f"{height}x{width} JPEG {mode} {options} turned {exif[ORIENTATION]}"


# ---- The two sides ------------------------------------------------------------------------------

def load(talc, path, **options):
    scope = talc.scope_enter()
    image = talc.download(talc.image_load(str(path).encode(), byref(ImageOptions(**options))))[0]
    talc.scope_leave(scope)
    return image


def planes(image):
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))


def expected(image, resize, crop, bicubic):
    if resize is not None:
        bilinear = functional.resize(image, resize if isinstance(resize, int) else list(resize))
        columns = image.resize((bilinear.width, image.height), Image.BICUBIC)
        image = columns.resize(bilinear.size, Image.BICUBIC) if bicubic else bilinear
    return image if crop is None else functional.center_crop(image, crop)


def size_of(asked):
    return ImageSize(0, 0) if asked is None else ImageSize(asked, 0) if isinstance(asked, int) else ImageSize(*asked)


def same(talc, pillow, resize, crop, bicubic):
    """Whether talc makes of Pillow's pixels what torchvision makes of them."""
    right = planes(expected(pillow, resize, crop, bicubic))
    for rows_first in (False, True):
        scope = talc.scope_enter()
        image = talc.upload(planes(pillow))
        if rows_first and resize is not None:
            width, height = expected(pillow, resize, None, False).size
            image = talc.image_resize_by(image, ImageSize(height, pillow.width), bicubic)
            image = talc.image_resize_by(image, ImageSize(height, width), bicubic)
        elif resize is not None:
            image = talc.image_resize_by(image, size_of(resize), bicubic)
        if crop is not None:
            image = talc.image_crop(image, size_of(crop))
        got = talc.download(image)
        talc.scope_leave(scope)
        if np.array_equal(got, right):
            return True
    return False


class Tally:
    def __init__(self, what):
        self.what, self.values, self.unequal, self.beyond, self.largest = what, 0, 0, 0, 0

    def add(self, got, right):
        """The share of values that are within 1; 0 where the shapes differ."""
        if got.shape != right.shape:
            return 0
        off = np.abs(got.astype(int) - right)
        self.values += off.size
        self.unequal += int((off > 0).sum())
        self.beyond += int((off > LARGEST).sum())
        self.largest = max(self.largest, int(off.max()))
        return float((off <= LARGEST).mean())

    def __str__(self):
        return (f"{self.what:20} {self.values:11} values, {100 * self.unequal / self.values:7.4f} % unequal, "
                f"{100 * self.beyond / self.values:7.4f} % off by more than 1, the largest {self.largest}")


def asked_for(random):
    """A resize and a crop as transforms name them, or neither; and whether the resize is bicubic, TALC_IMAGE_BICUBIC, 1."""
    resize = [None, 256, int(random.integers(1, 400)), tuple(int(side) for side in random.integers(1, 400, 2))][random.integers(0, 4)]
    crop = [None, 224, tuple(int(side) for side in random.integers(1, 300, 2))][random.integers(0, 3)]
    return resize, crop, int(random.integers(0, 2))


def main(arguments, library):
    parser = argparse.ArgumentParser(prog="compare_torch.py images", description="Compares images that talc reads, resizes and crops with Pillow's and torchvision's.")
    parser.add_argument("images", type=int, nargs="?", default=500, help="how many (500), every second one a PNG")
    parser.add_argument("--seed", type=int, default=0, help="of the images (0)")
    parser.add_argument("--library", metavar="PATH", default=library, help="libtalc.so (build/libtalc.so)")
    options = parser.parse_args(arguments)
    talc, failed = Talc(options.library, "cpu"), 0
    tallies = [Tally(f"{what}, {kind}") for kind in ("JPEG", "PNG") for what in ("read", "resized, cropped")]
    with tempfile.TemporaryDirectory() as name:
        for number in range(options.images):
            random = np.random.default_rng([options.seed, number])
            path, what = write(random, pathlib.Path(name), number)
            with Image.open(path) as file:
                pillow = ImageOps.exif_transpose(file).convert("RGB")
            resize, crop, bicubic = asked_for(random)
            right = planes(expected(pillow, resize, crop, bicubic))
            sizes = {"resize": size_of(resize), "crop": size_of(crop), "filter": bicubic}
            read, cut = load(talc, path, dtype=DTYPES["u8"], channels=3), load(talc, path, dtype=DTYPES["u8"], channels=3, **sizes)
            of_kind = tallies[2 * (number % 2):]
            shares = [of_kind[0].add(read, planes(pillow)), of_kind[1].add(cut, right)]
            normal = load(talc, path, channels=3, mean=MEAN, deviation=DEVIATION, **sizes)
            torch_normal = functional.normalize(torch.from_numpy(cut.copy()).float().div(255), MEAN, DEVIATION).numpy()
            problems = [f"{100 * share:.3f} % of {w} values within 1" for share, w in zip(shares, ("read", "resized")) if share < SHARE]
            if number % 2 and not np.array_equal(read, planes(pillow)):
                problems.append("a PNG is unequal")
            if not same(talc, pillow, resize, crop, bicubic):
                problems.append("Pillow's pixels are resized or cropped to others")
            if normal.shape != torch_normal.shape or np.abs(normal - torch_normal).max() > 1e-5:
                problems.append("normalised to others")
            if problems:
                failed += 1
                print(f"image {number} ({what}), resize {resize}{' bicubic' * bicubic}, crop {crop}: {'; '.join(problems)}")
            path.unlink()
    for tally in tallies:
        if tally.values:
            print(tally)
    print(f"{options.images} images, {failed} failed")
    return 1 if failed else 0
