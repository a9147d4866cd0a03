#!/usr/bin/env python3
"""Exports torchvision's networks and two U-Nets, with random weights, as folders that onnx_cases runs with norm=1e-5.

usage: write_networks.py FOLDER [NAME ...]

Each is written by both of PyTorch's exporters: as it is, for one image; and with the batch and, where the network lets
it vary, height and width left open, with inputs of another batch and size. Outputs are those of PyTorch in float64.
Needs torch, torchvision, onnx and onnxscript.
"""

import pathlib
import shutil
import sys
import warnings

import numpy
import torch
import torchvision
from torch import nn

SIZES = {"inception_v3": 299}
# The shape of an image is part of the network, or of what the exporters make of adaptive pooling.
FIXED_SIZE = {"vit_b_16", "swin_t", "alexnet", "vgg11_bn"}
NAMES = ["resnet18", "resnet50", "vgg11_bn", "alexnet", "squeezenet1_1", "googlenet", "inception_v3", "densenet121",
         "mobilenet_v2", "mnasnet1_0", "regnet_y_400mf", "mobilenet_v3_large", "efficientnet_b0", "efficientnet_v2_s",
         "shufflenet_v2_x1_0", "convnext_tiny", "vit_b_16", "swin_t", "deeplabv3_resnet50", "fcn_resnet50",
         "lraspp_mobilenet_v3_large", "unet_transposed", "unet_bilinear"]


def two_convolutions(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                         nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class Up(nn.Module):
    def __init__(self, inputs, outputs, bilinear):
        super().__init__()
        self.up = (nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True) if bilinear else
                   nn.ConvTranspose2d(inputs, inputs // 2, 2, 2))
        self.conv = two_convolutions(inputs, outputs)

    def forward(self, low, high):
        low = self.up(low)
        rows, columns = high.size(2) - low.size(2), high.size(3) - low.size(3)
        low = nn.functional.pad(low, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.conv(torch.cat([high, low], 1))


class UNet(nn.Module):
    def __init__(self, bilinear, width=16):
        super().__init__()
        half = 2 if bilinear else 1
        self.first = two_convolutions(3, width)
        self.down = nn.ModuleList([nn.Sequential(nn.MaxPool2d(2), two_convolutions(width, 2 * width)),
                                   nn.Sequential(nn.MaxPool2d(2), two_convolutions(2 * width, 4 * width // half))])
        self.up = nn.ModuleList([Up(4 * width, 2 * width // half, bilinear), Up(2 * width, width, bilinear)])
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        first = self.first(x)
        second = self.down[0](first)
        third = self.down[1](second)
        return self.last(self.up[1](self.up[0](third, second), first))


class OnlyOutput(nn.Module):
    """Of the segmentation networks, which return a dictionary."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)["out"]


def network_of(name):
    torch.manual_seed(1)
    if name.startswith("unet"):
        network = UNet(name.endswith("bilinear"))
    elif hasattr(torchvision.models.segmentation, name):
        network = OnlyOutput(getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None))
    else:
        network = getattr(torchvision.models, name)(weights=None)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    if name == "vit_b_16": # whose last layer begins as zeros
        nn.init.normal_(network.heads.head.weight, std=0.02)
    return network.eval()


def export(network, x, path, dynamo, opened):
    axes = {0: "batch", 2: "height", 3: "width"}
    options = {}
    if opened and dynamo:
        options["dynamic_shapes"] = ({axis: torch.export.Dim.DYNAMIC for axis in opened},)
    elif opened:
        options = {"input_names": ["x"], "dynamic_axes": {"x": {axis: axes[axis] for axis in opened}}}
    torch.onnx.export(network, (x,), path, dynamo=dynamo, verbose=False, **options)


def write(target, name):
    network = network_of(name)
    side = SIZES.get(name, 96 if "unet" in name or "resnet50" in name and name != "resnet50" else 224)
    size = (side, side) if name in FIXED_SIZE else (side + 32, side - 32)
    opened = [0] if name in FIXED_SIZE else [0, 2, 3]
    cases = [("static", [], (1, 3, side, side)), ("open", opened, (3, 3, *size))]
    exact = {}
    for exporter, dynamo in (("dynamo", True), ("script", False)):
        for kind, axes, shape in cases:
            folder = target / f"{name}-{exporter}-{kind}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            x = torch.randn(shape, generator=torch.Generator().manual_seed(2))
            try: # an exporter traces two images where the batch is to stay open
                export(network.float(), torch.randn(2, 3, side, side) if axes else x, folder / "model.onnx", dynamo, axes)
            except Exception as error: # pylint: disable=broad-exception-caught
                shutil.rmtree(folder)
                print(f"{folder.name}: not exported: {str(error).splitlines()[0][:120]}", flush=True)
                continue
            if kind not in exact:
                with torch.no_grad():
                    exact[kind] = network.double()(x.double()).numpy()
            numpy.save(folder / "input_0.npy", x.numpy())
            numpy.save(folder / "output_0.npy", exact[kind])
    print(name, flush=True)


def main():
    warnings.simplefilter("ignore")
    for name in sys.argv[2:] or NAMES:
        write(pathlib.Path(sys.argv[1]), name)


if __name__ == "__main__":
    main()
