#!/usr/bin/env python3
"""Writes tests/support/image_cases.h: image_cases.py > image_cases.h, by hand. Files that Pillow writes and reads, and what torchvision
resizes; Pillow up to 12, which resizes columns first. The numbers in the tree are of Pillow 12.1.0 and torchvision 0.29.2."""
import io

import numpy as np
from PIL import Image
from torchvision.transforms import functional

H, W = 13, 17


def picture(height, width, channels):
    """Bytes that the test makes too, slopes with some noise: [height,width,channels]."""
    state, values = 1, []
    for h in range(height):
        for w in range(width):
            for c in range(channels):
                state = (state * 1103515245 + 12345) % 2**31
                values.append((h * 9 + w * 7 * (c + 1) + (state >> 16) % 40) % 256)
    return np.array(values, np.uint8).reshape(height, width, channels)


def written(name, values):
    print(f"static const uint8_t {name}[] = {{")
    for i in range(0, len(values), 24):
        print("    " + ", ".join(str(v) for v in values[i:i + 24]) + ",")
    print("};")


def jpeg(mode, exif=None, **options):
    smooth = Image.fromarray(picture(4, 5, 3)).resize((W, H), Image.BICUBIC).convert(mode)
    file = io.BytesIO()
    smooth.save(file, "JPEG", quality=80, optimize=True, **({"exif": exif} if exif else {}), **options)
    return file.getvalue()


def print_bicubic():
    """Pillow of any version: each of two calls resizes one side."""
    sizes = [(20, 26, 7, 9), (20, 26, 31, 4), (9, 5, 4, 23), (6, 6, 6, 13), (6, 6, 13, 6), (2, 3, 5, 7), (40, 3, 1, 1)]
    print()
    for i, (height, width, h, w) in enumerate(sizes):
        image = Image.fromarray(picture(height, width, 1)[:, :, 0])
        columns = image.resize((w, height), Image.BICUBIC)
        written(f"bicubic_{i}", np.asarray(columns.resize((w, h), Image.BICUBIC)).ravel().tolist())
    print("\n/* From a picture of height x width to OH x OW. */")
    print("static const struct {\n    int height, width, oh, ow;\n    const uint8_t *pixels;\n} bicubic_images[] = {")
    for i, size in enumerate(sizes):
        print(f"    {{ {', '.join(map(str, size))}, bicubic_{i} }},")
    print("};\n")


def main():
    print("/// Image files that Pillow wrote and what it reads in them, and what torchvision resizes: written")
    print("/// by image_cases.py.")
    print("#ifndef TALC_TESTS_SUPPORT_IMAGE_CASES_H\n#define TALC_TESTS_SUPPORT_IMAGE_CASES_H\n")
    print("#include <stddef.h>\n#include <stdint.h>\n\n// clang-format off")
    turned = Image.Exif()
    turned[0x0112] = 6
    files = {"rgb": jpeg("RGB", subsampling=2), "sharp": jpeg("RGB", subsampling=0, exif=turned), "grey": jpeg("L"),
             "progressive": jpeg("RGB", subsampling=1, progressive=True), "cmyk": jpeg("CMYK")}
    for name, content in files.items():
        written(f"jpeg_{name}", content)
        pixels = np.asarray(Image.open(io.BytesIO(content)).convert("L" if name == "grey" else "RGB")).reshape(H, W, -1)
        written(f"pixels_{name}", pixels.transpose(2, 0, 1).ravel().tolist())
    print("\n/* Planes [channels,height,width], as they are stored. */")
    print("static const struct {\n    const char *name;\n    const uint8_t *bytes, *pixels;\n    size_t count;\n    int channels;\n} image_files[] = {")
    for name in files:
        print(f'    {{ "{name}", jpeg_{name}, pixels_{name}, sizeof jpeg_{name}, {1 if name == "grey" else 3} }},')
    print("};\n")
    sizes = [(20, 26, 7, 0), (26, 20, 7, 0), (20, 26, 31, 4), (9, 5, 4, 23), (20, 26, 3, 3), (6, 6, 6, 13), (6, 6, 13, 6), (2, 3, 5, 0), (40, 3, 1, 1)]
    for i, (height, width, h, w) in enumerate(sizes):
        image = Image.fromarray(picture(height, width, 1)[:, :, 0])
        resized = np.asarray(functional.resize(image, [h, w] if w else h))
        sizes[i] += resized.shape
        written(f"resized_{i}", resized.ravel().tolist())
    print("\n/* From a picture of height x width to what is asked for, which gives OH x OW. */")
    print("static const struct {\n    int height, width, asked_h, asked_w, oh, ow;\n    const uint8_t *pixels;\n} resized_images[] = {")
    for i, size in enumerate(sizes):
        print(f"    {{ {', '.join(map(str, size))}, resized_{i} }},")
    print("};")
    print_bicubic()
    print("// clang-format on\n\n#endif")


if __name__ == "__main__":
    main()
