#!/usr/bin/env python3
"""Times talc's loader beside PyTorch's DataLoader on JPEG files of 500 x 375, in turns, and prints images a second.

usage: bench_loader.py BUILD [ROUNDS]        BUILD is a build folder of talc (default options but for -Dcuda)

Both take a random part of each image, resize it to 224 x 224, mirror half of them and normalise them, in batches of 64: talc with two
threads, PyTorch (torchvision.datasets.ImageFolder) with two workers that stay from epoch to epoch. An epoch of each is run and not
counted. The ratio is of the two in the same round, as what else runs on a machine slows both.
"""

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
from PIL import Image
from torchvision import datasets, transforms

COUNT, WIDTH, HEIGHT = 512, 500, 375
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PROGRAM = r"""
#include <talc/talc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    char line[8];
    talc_dataset *photos = talc_dataset_image_folder(
        argv[argc - 1], &(talc_image_folder_options){ .size = { 224, 0 }, .resize = { 256, 0 } });
    talc_loader *loader = talc_loader_new(
        photos, &(talc_loader_options){ .batch = 64, .shuffle = true, .threads = 2,
                                        .mean = { 0.485, 0.456, 0.406 }, .deviation = { 0.229, 0.224, 0.225 },
                                        .augment = { .scale = { 0.08, 1 }, .flip = 0.5 } });
    for (int epoch = 0; fgets(line, sizeof line, stdin) != NULL && !talc_failed(); epoch++) {
        struct timespec a, b;
        talc_batch batch;
        int64_t images = 0;
        clock_gettime(CLOCK_MONOTONIC, &a);
        talc_loader_start(loader, epoch);
        while (talc_loader_next(loader, &batch))
            images += batch.count;
        clock_gettime(CLOCK_MONOTONIC, &b);
        printf("%g\n", (double)images / ((double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec)));
        fflush(stdout);
    }
    if (talc_failed())
        fprintf(stderr, "%s\n", talc_error_message());
    talc_loader_free(loader);
    talc_dataset_free(photos);
    return talc_failed();
}
"""


def write_photos(folder):
    """Shapes with some noise: about 40 KB each, as photographs have."""
    random = np.random.default_rng(1)
    for i in range(COUNT):
        coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), np.uint8)).resize((WIDTH, HEIGHT), Image.BICUBIC)
        pixels = np.asarray(coarse).astype(np.int16) + random.integers(-12, 13, (HEIGHT, WIDTH, 3), np.int16)
        path = folder / f"class{i % 4}" / f"{i:04}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=85)


def main(build, rounds="7"):
    build = pathlib.Path(build).resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        photos = folder / "photos"
        photos.mkdir()
        write_photos(photos)
        (folder / "loader.c").write_text(PROGRAM)
        subprocess.run(["cc", "-O2", f"-I{build}/include", folder / "loader.c", "-o", folder / "loader", f"-L{build}", "-ltalc",
                        f"-Wl,-rpath,{build}"], check=True)
        ours = subprocess.Popen([folder / "loader", photos], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        change = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
                                     transforms.Normalize(MEAN, DEVIATION)])
        theirs = torch.utils.data.DataLoader(datasets.ImageFolder(photos, change), batch_size=64, shuffle=True, num_workers=2,
                                             persistent_workers=True)

        def talc():
            ours.stdin.write("go\n")
            ours.stdin.flush()
            return float(ours.stdout.readline())

        def pytorch():
            start = time.perf_counter()
            images = sum(len(labels) for _, labels in theirs)
            return images / (time.perf_counter() - start)

        talc(), pytorch()
        ratios = []
        for _ in range(int(rounds)):
            a, b = talc(), pytorch()
            ratios.append(a / b)
            print(f"talc {a:.0f} images/s, PyTorch {b:.0f}: {a / b:.2f}", flush=True)
        print(f"ratio {statistics.median(ratios):.2f} (median), {min(ratios):.2f} to {max(ratios):.2f}")
        ours.stdin.close()
        return ours.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
