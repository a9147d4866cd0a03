#!/usr/bin/env python3
"""Writes tests/support/augment_cases.h: augment_cases.py > augment_cases.h, by hand. What torchvision's functions make of an image and
a mask, the part that is cut out resized by Pillow up to 12 (image_cases.py says why), all else as tensors. The numbers in the tree
are of Pillow 12.3.0 and torchvision 0.29.2."""
import torch
from image_cases import picture, written
from torchvision.transforms import functional
from torchvision.transforms.functional import InterpolationMode, to_pil_image, pil_to_tensor

H, W = 9, 8
NONE = {"size": (H, W), "crop": (0, 0, H, W), "flip": 0, "angle": 0, "factors": (1, 1, 1, 0), "order": (0, 1, 2, 3), "erase": (0, 0, 0, 0)}
CASES = [
    {"crop": (2, 3, 7, 5), "size": (12, 9)},
    {"crop": (1, 0, 8, 7), "size": (5, 6)},
    {"flip": 1},
    {"angle": 30},
    {"angle": -117.5, "flip": 1},
    {"factors": (1.4, 1, 1, 0)},
    {"factors": (1, 0.3, 1, 0)},
    {"factors": (1, 1, 1.7, 0)},
    {"factors": (1, 1, 1, 0.3)},
    {"factors": (1, 1, 1, -0.45)},
    {"factors": (0.7, 1.3, 0.4, 0.1), "order": (3, 1, 0, 2)},
    {"erase": (3, 2, 4, 6)},
    {"crop": (2, 1, 7, 5), "size": (7, 9), "flip": 1, "angle": 20, "factors": (1.2, 0.8, 1.5, -0.1), "order": (2, 0, 3, 1),
     "erase": (0, 4, 7, 5)},
]


def augmented(image, c):
    top, left, height, width = c["crop"]
    image = pil_to_tensor(functional.resized_crop(to_pil_image(image), top, left, height, width, c["size"]))
    if c["flip"]:
        image = functional.hflip(image)
    if c["angle"]:
        image = functional.rotate(image, c["angle"], InterpolationMode.BILINEAR)
    changes = [functional.adjust_brightness, functional.adjust_contrast, functional.adjust_saturation, functional.adjust_hue]
    for i in c["order"]:
        if c["factors"][i] != (0 if i == 3 else 1):
            image = changes[i](image, c["factors"][i])
    return functional.erase(image, *c["erase"], v=torch.zeros(1, dtype=torch.uint8))


def moved(mask, c):
    top, left, height, width = c["crop"]
    mask = pil_to_tensor(functional.resized_crop(to_pil_image(mask), top, left, height, width, c["size"], InterpolationMode.NEAREST))
    if c["flip"]:
        mask = functional.hflip(mask)
    return functional.rotate(mask, c["angle"], InterpolationMode.NEAREST) if c["angle"] else mask


def main():
    print("/// Images and masks that torchvision augmented: written by augment_cases.py.")
    print("#ifndef TALC_TESTS_SUPPORT_AUGMENT_CASES_H\n#define TALC_TESTS_SUPPORT_AUGMENT_CASES_H\n")
    print('#include "talc.h"\n\n// clang-format off')
    image = torch.from_numpy(picture(H, W, 3)).permute(2, 0, 1).contiguous()
    rows = []
    for i, case in enumerate(CASES):
        c = {**NONE, **case}
        written(f"augmented_{i}", augmented(image, c).flatten().tolist())
        written(f"moved_{i}", moved(image[:1], c).flatten().tolist())
        t, l, h, w = c["crop"]
        factors = ", ".join(f".{n} = {v}" for n, v in zip(("brightness", "contrast", "saturation", "hue"), c["factors"]))
        erase = "" if not any(c["erase"]) else ", .erase_top = {}, .erase_left = {}, .erase = {{ {}, {} }}".format(*c["erase"])
        rows.append(f"    {{ {{ .size = {{ {c['size'][0]}, {c['size'][1]} }}, .top = {t}, .left = {l}, .crop = {{ {h}, {w} }}, "
                    f".flip = {'true' if c['flip'] else 'false'}, .angle = {c['angle']}, {factors}, "
                    f".order = {{ {', '.join(map(str, c['order']))} }}{erase} }}, augmented_{i}, moved_{i} }},")
    print(f"\nenum {{ AUGMENT_HEIGHT = {H}, AUGMENT_WIDTH = {W} }};\n")
    print("static const struct {\n    talc_augment_params params;\n    const uint8_t *image, *mask;\n} augment_cases[] = {")
    print("\n".join(rows) + "\n};\n// clang-format on\n\n#endif")


if __name__ == "__main__":
    main()
