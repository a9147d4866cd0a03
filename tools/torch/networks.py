#!/usr/bin/env python3
"""The networks of examples/networks in PyTorch, with the same names of parameters: make("resnet18").

    networks.py [NAME ...]      names, parameters and logits of each beside torchvision's, where it is installed and has the network

Where torchvision has a network these are its names, so that its state_dict loads into either. A network in train mode gives one tensor
here too: GoogLeNet's main logits, then those of its two auxiliary heads, concatenated.
"""
import math
import sys

import torch
from torch import nn
from torch.nn import functional as F

# ---- What most networks are made of: examples/networks/layers.h -----------------------------------------------------


def conv(channels, out, kernel, stride=1, groups=1, bias=False):
    return nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=bias)


def conv_norm(channels, out, kernel, stride=1, groups=1, act=nn.ReLU):
    return nn.Sequential(conv(channels, out, kernel, stride, groups), nn.BatchNorm2d(out), *([act()] if act else []))


def named(**modules):
    chain = nn.Sequential()
    for name, module in modules.items():
        chain.add_module(name, module)
    return chain


def head(features, classes, name):
    return {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten(), name: nn.Linear(features, classes)}


class Block(nn.Module):
    """act(body(x) + shortcut(x)), or the two concatenated, the shortcut's channels first."""

    def __init__(self, body, shortcut=None, act=None, concat=False):
        super().__init__()
        for name, module in {**body, **(shortcut or {})}.items():
            self.add_module(name, module)
        self.body, self.short, self.act, self.concat = list(body), list(shortcut or {}), act, concat

    def forward(self, x):
        y = beside = x
        for name in self.body:
            y = getattr(self, name)(y)
        for name in self.short:
            beside = getattr(self, name)(beside)
        y = torch.cat([beside, y], 1) if self.concat else y + beside
        return y if self.act is None else self.act(y)


# ---- Plain chains ---------------------------------------------------------------------------------------------------

def lenet(channels, classes):
    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(channels, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
            self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))
    return LeNet()


def alexnet(channels, classes):
    layers = []
    for out, kernel, stride, padding, pool in ((64, 11, 4, 2, 1), (192, 5, 1, 2, 1), (384, 3, 1, 1, 0), (256, 3, 1, 1, 0),
                                               (256, 3, 1, 1, 1)):
        layers += [nn.Conv2d(channels, out, kernel, stride, padding), nn.ReLU()] + [nn.MaxPool2d(3, 2)] * pool
        channels = out
    return named(features=nn.Sequential(*layers), avgpool=nn.AdaptiveAvgPool2d(6), flatten=nn.Flatten(),
                 classifier=nn.Sequential(nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096),
                                          nn.ReLU(), nn.Linear(4096, classes)))


def vgg(channels, classes, counts):
    layers = []
    for count, width in zip(counts, (64, 128, 256, 512, 512)):
        for _ in range(count):
            layers += [conv(channels, width, 3, bias=True), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return named(features=nn.Sequential(*layers), avgpool=nn.AdaptiveAvgPool2d(7), flatten=nn.Flatten(),
                 classifier=nn.Sequential(nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(),
                                          nn.Dropout(), nn.Linear(4096, classes)))


def mobilenet_v1(channels, classes):
    layers = [conv_norm(channels, 32, 3, 2)]
    for inside, out, stride in ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2),
                                *[(512, 512, 1)] * 5, (512, 1024, 2), (1024, 1024, 1)):
        layers += [conv_norm(inside, inside, 3, stride, inside), conv_norm(inside, out, 1)]
    return named(features=nn.Sequential(*layers), **head(1024, classes, "classifier"))


# ---- Residual networks ----------------------------------------------------------------------------------------------

def resnet(channels, classes, counts, bottleneck):
    def residual(inside, width, stride):
        out = 4 * width if bottleneck else width
        body = {"conv1": conv(inside, width, 1) if bottleneck else conv(inside, width, 3, stride), "bn1": nn.BatchNorm2d(width),
                "relu1": nn.ReLU(), "conv2": conv(width, width, 3, stride if bottleneck else 1), "bn2": nn.BatchNorm2d(width)}
        if bottleneck:
            body.update(relu2=nn.ReLU(), conv3=conv(width, out, 1), bn3=nn.BatchNorm2d(out))
        beside = {"downsample": conv_norm(inside, out, 1, stride, act=None)} if stride > 1 or inside != out else None
        return Block(body, beside, F.relu)

    stages, inside = {}, 64
    for stage, count in enumerate(counts):
        blocks = []
        for i in range(count):
            blocks.append(residual(inside, 64 << stage, 2 if stage > 0 and i == 0 else 1))
            inside = (64 << stage) * (4 if bottleneck else 1)
        stages[f"layer{stage + 1}"] = nn.Sequential(*blocks)
    return named(conv1=conv(channels, 64, 7, 2), bn1=nn.BatchNorm2d(64), relu=nn.ReLU(), maxpool=nn.MaxPool2d(3, 2, 1), **stages,
                 **head(inside, classes, "fc"))


def resnet20(channels, classes, option_b):
    class ZeroShortcut(nn.Module):
        def __init__(self, new):
            super().__init__()
            self.new = new

        def forward(self, x):
            return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.new // 2, self.new // 2))

    def residual(inside, out):
        stride = 1 if inside == out else 2
        body = {"conv1": conv(inside, out, 3, stride), "bn1": nn.BatchNorm2d(out), "relu": nn.ReLU(),
                "conv2": conv(out, out, 3), "bn2": nn.BatchNorm2d(out)}
        beside = conv_norm(inside, out, 1, 2, act=None) if option_b else ZeroShortcut(out - inside)
        return Block(body, {"shortcut": beside} if stride > 1 else None, F.relu)

    stages, inside = {}, 16
    for stage in range(3):
        out = 16 << stage
        stages[f"layer{stage + 1}"] = nn.Sequential(residual(inside, out), residual(out, out), residual(out, out))
        inside = out
    return named(conv1=conv(channels, 16, 3), bn1=nn.BatchNorm2d(16), relu=nn.ReLU(), **stages, **head(64, classes, "linear"))


def regnet(channels, classes, widths, depths, group_width):
    trunk, inside = {}, 32
    for stage, (width, depth) in enumerate(zip(widths, depths), 1):
        blocks = {}
        for i in range(depth):
            stride = 2 if i == 0 else 1
            body = named(a=conv_norm(inside, width, 1), b=conv_norm(width, width, 3, stride, width // group_width),
                         c=conv_norm(width, width, 1, act=None))
            beside = {"proj": conv_norm(inside, width, 1, stride, act=None)} if i == 0 else None
            blocks[f"block{stage}-{i}"], inside = Block({"f": body}, beside, F.relu), width
        trunk[f"block{stage}"] = named(**blocks)
    return named(stem=conv_norm(channels, 32, 3, 2), trunk_output=named(**trunk), **head(inside, classes, "fc"))


def mobilenet_v2(channels, classes):
    layers, inside = [conv_norm(channels, 32, 3, 2, act=nn.ReLU6)], 32
    for expand, out, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                       (6, 320, 1, 1)):
        for i in range(count):
            wide, s = inside * expand, stride if i == 0 else 1
            body = nn.Sequential(*([conv_norm(inside, wide, 1, act=nn.ReLU6)] if expand > 1 else []),
                                 conv_norm(wide, wide, 3, s, wide, nn.ReLU6), conv(wide, out, 1), nn.BatchNorm2d(out))
            layers.append(Block({"conv": body}) if s == 1 and inside == out else named(conv=body))
            inside = out
    layers.append(conv_norm(inside, 1280, 1, act=nn.ReLU6))
    return named(features=nn.Sequential(*layers), avgpool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(),
                 classifier=nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes)))


class StochasticDepth(nn.Module):
    """A whole image's branch is 0 with probability p, in train mode."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        kept = torch.rand(len(x), *[1] * (x.dim() - 1), dtype=x.dtype, device=x.device) >= self.p
        return x * kept / (1 - self.p)


class SqueezeExcitation(nn.Module):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.avgpool, self.fc1, self.fc2 = nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.fc2(F.silu(self.fc1(self.avgpool(x)))))


def divisible(value):
    """The nearest multiple of 8, at least 8 and at least 0.9 of the value."""
    near = max(8, int(value + 4) // 8 * 8)
    return near + 8 if near < 0.9 * value else near


def efficientnet(channels, classes, width, depth, dropout):
    stages = [(e, k, s, divisible(i * width), divisible(o * width), math.ceil(n * depth)) for e, k, s, i, o, n in (
        (1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3), (6, 5, 1, 80, 112, 3),
        (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1))]
    layers, made, total = [conv_norm(channels, stages[0][3], 3, 2, act=nn.SiLU)], 0, sum(stage[5] for stage in stages)
    for expand, kernel, stride, inside, out, count in stages:
        blocks = []
        for i in range(count):
            if i > 0:
                inside, stride = out, 1
            wide = divisible(inside * expand)
            body = nn.Sequential(*([conv_norm(inside, wide, 1, act=nn.SiLU)] if wide != inside else []),
                                 conv_norm(wide, wide, kernel, stride, wide, nn.SiLU),
                                 SqueezeExcitation(wide, max(1, inside // 4)), conv_norm(wide, out, 1, act=None))
            drop = StochasticDepth(0.2 * made / total)
            blocks.append(Block({"block": body, "stochastic_depth": drop}) if stride == 1 and inside == out else named(block=body))
            made += 1
        layers.append(nn.Sequential(*blocks))
    layers.append(conv_norm(stages[-1][4], 4 * stages[-1][4], 1, act=nn.SiLU))
    return named(features=nn.Sequential(*layers), avgpool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(),
                 classifier=nn.Sequential(nn.Dropout(dropout), nn.Linear(4 * stages[-1][4], classes)))


# ---- Branches -------------------------------------------------------------------------------------------------------

def squeezenet(channels, classes):
    class Fire(nn.Module):
        def __init__(self, inside, squeezed, out):
            super().__init__()
            self.squeeze = nn.Conv2d(inside, squeezed, 1)
            self.expand1x1, self.expand3x3 = nn.Conv2d(squeezed, out, 1), nn.Conv2d(squeezed, out, 3, padding=1)

        def forward(self, x):
            x = F.relu(self.squeeze(x))
            return torch.cat([F.relu(self.expand1x1(x)), F.relu(self.expand3x3(x))], 1)

    def pool():
        return nn.MaxPool2d(3, 2, ceil_mode=True)
    features = [nn.Conv2d(channels, 64, 3, 2), nn.ReLU(), pool(), Fire(64, 16, 64), Fire(128, 16, 64), pool(),
                Fire(128, 32, 128), Fire(256, 32, 128), pool(), Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256),
                Fire(512, 64, 256)]
    return named(features=nn.Sequential(*features), flatten=named(), classifier=nn.Sequential(
        nn.Dropout(), nn.Conv2d(512, classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()))


def googlenet(channels, classes):
    def basic(inside, out, kernel, stride=1):
        return named(conv=conv(inside, out, kernel, stride), bn=nn.BatchNorm2d(out, eps=0.001), relu=nn.ReLU())

    class Inception(nn.Module):
        def __init__(self, inside, a, b, c, d, e, f):
            super().__init__()
            self.branch1, self.branch2 = basic(inside, a, 1), nn.Sequential(basic(inside, b, 1), basic(b, c, 3))
            self.branch3 = nn.Sequential(basic(inside, d, 1), basic(d, e, 3))
            self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), basic(inside, f, 1))

        def forward(self, x):
            return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)

    def aux(inside):
        return named(pool=nn.AdaptiveAvgPool2d(4), conv=basic(inside, 128, 1), flatten=nn.Flatten(), fc1=nn.Linear(2048, 1024),
                     relu=nn.ReLU(), dropout=nn.Dropout(0.7), fc2=nn.Linear(1024, classes))

    class GoogLeNet(nn.Module):
        def __init__(self):
            super().__init__()
            layers = dict(
                conv1=basic(channels, 64, 7, 2), maxpool1=nn.MaxPool2d(3, 2, ceil_mode=True), conv2=basic(64, 64, 1),
                conv3=basic(64, 192, 3), maxpool2=nn.MaxPool2d(3, 2, ceil_mode=True),
                inception3a=Inception(192, 64, 96, 128, 16, 32, 32), inception3b=Inception(256, 128, 128, 192, 32, 96, 64),
                maxpool3=nn.MaxPool2d(3, 2, ceil_mode=True), inception4a=Inception(480, 192, 96, 208, 16, 48, 64),
                inception4b=Inception(512, 160, 112, 224, 24, 64, 64), inception4c=Inception(512, 128, 128, 256, 24, 64, 64),
                inception4d=Inception(512, 112, 144, 288, 32, 64, 64), inception4e=Inception(528, 256, 160, 320, 32, 128, 128),
                maxpool4=nn.MaxPool2d(2, 2, ceil_mode=True), inception5a=Inception(832, 256, 160, 320, 32, 128, 128),
                inception5b=Inception(832, 384, 192, 384, 48, 128, 128), avgpool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(),
                dropout=nn.Dropout(0.2), fc=nn.Linear(1024, classes))
            for name, module in layers.items():
                self.add_module(name, module)
            self.order, self.aux1, self.aux2 = list(layers), aux(512), aux(528)

        def forward(self, x):
            aside = []
            for name in self.order:
                x = getattr(self, name)(x)
                if self.training and name in ("inception4a", "inception4d"):
                    aside.insert(0, (self.aux1 if name == "inception4a" else self.aux2)(x))
            return torch.cat([x, *aside]) if aside else x
    return GoogLeNet()


class DenseBlock(nn.Module):
    """Each layer gets what all before it gave, and its own channels come behind."""

    def __init__(self, layers):
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x):
        for layer in self.children():
            x = torch.cat([x, layer(x)], 1)
        return x


def densenet(channels, classes, counts):
    features = dict(conv0=conv(channels, 64, 7, 2), norm0=nn.BatchNorm2d(64), relu0=nn.ReLU(), pool0=nn.MaxPool2d(3, 2, 1))
    width = 64
    for stage, count in enumerate(counts, 1):
        layers = {}
        for i in range(1, count + 1):
            layers[f"denselayer{i}"] = named(
                **{"norm1": nn.BatchNorm2d(width), "relu1": nn.ReLU(), "conv1": conv(width, 128, 1), "norm2": nn.BatchNorm2d(128),
                 "relu2": nn.ReLU(), "conv2": conv(128, 32, 3)})
            width += 32
        features[f"denseblock{stage}"] = DenseBlock(layers)
        if stage < len(counts):
            features[f"transition{stage}"] = named(norm=nn.BatchNorm2d(width), relu=nn.ReLU(), conv=conv(width, width // 2, 1),
                                                   pool=nn.AvgPool2d(2))
            width //= 2
    features.update(norm5=nn.BatchNorm2d(width))
    return named(features=named(**features), relu=nn.ReLU(), **head(width, classes, "classifier"))


def shufflenet(channels, classes, groups, widths):
    def unit(inside, out, stride, first):
        grown, middle = out - inside if stride > 1 else out, out // 4
        body = {"conv1": conv(inside, middle, 1, groups=1 if first else groups), "bn1": nn.BatchNorm2d(middle), "relu": nn.ReLU(),
                "shuffle": nn.ChannelShuffle(groups), "conv2": conv(middle, middle, 3, stride, middle), "bn2": nn.BatchNorm2d(middle),
                "conv3": conv(middle, grown, 1, groups=groups), "bn3": nn.BatchNorm2d(grown)}
        return Block(body, {"pool": nn.AvgPool2d(3, 2, 1)} if stride > 1 else None, F.relu, concat=stride > 1)

    stages, inside = {}, 24
    for stage, (width, count) in enumerate(zip(widths, (4, 8, 4)), 2):
        units = [unit(inside, width, 2, stage == 2)] + [unit(width, width, 1, False) for _ in range(count - 1)]
        stages[f"stage{stage}"], inside = nn.Sequential(*units), width
    return named(conv1=conv(channels, 24, 3, 2), bn1=nn.BatchNorm2d(24), relu=nn.ReLU(), maxpool=nn.MaxPool2d(3, 2, 1), **stages,
                 **head(inside, classes, "fc"))


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Permute(nn.Module):
    def __init__(self, *axes):
        super().__init__()
        self.axes = axes

    def forward(self, x):
        return x.permute(self.axes)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width, drop):
        super().__init__()
        self.layer_scale = nn.Parameter(torch.full((width, 1, 1), 1e-6))
        self.block = nn.Sequential(conv(width, width, 7, groups=width, bias=True), Permute(0, 2, 3, 1), nn.LayerNorm(width, eps=1e-6),
                                   nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), Permute(0, 3, 1, 2))
        self.stochastic_depth = StochasticDepth(drop)

    def forward(self, x):
        return self.stochastic_depth(self.block(x) * self.layer_scale) + x


def convnext(channels, classes, widths, depths):
    layers, inside, made = [], channels, 0
    for width, depth in zip(widths, depths):
        norm = [LayerNorm2d(inside if layers else width, eps=1e-6)]
        down = [nn.Conv2d(inside, width, 2, 2) if layers else nn.Conv2d(inside, width, 4, 4)]
        layers.append(nn.Sequential(*(norm + down if layers else down + norm)))
        layers.append(nn.Sequential(*[ConvNeXtBlock(width, 0.1 * (made + i) / (sum(depths) - 1)) for i in range(depth)]))
        inside, made = width, made + depth
    return named(features=nn.Sequential(*layers), avgpool=nn.AdaptiveAvgPool2d(1), classifier=nn.Sequential(
        LayerNorm2d(inside, eps=1e-6), nn.Flatten(), nn.Linear(inside, classes)))


def dcgan(channels, classes, width=64):
    generator, discriminator = [], []
    for inside, out, stride in ((channels, 8, 1), (8, 4, 2), (4, 2, 2), (2, 1, 2)):
        generator += [nn.ConvTranspose2d(inside * (width if stride == 2 else 1), out * width, 4, stride, stride - 1, bias=False),
                      nn.BatchNorm2d(out * width), nn.ReLU()]
    generator += [nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh()]
    for inside, out in ((3, width), (width, 2 * width), (2 * width, 4 * width), (4 * width, 8 * width)):
        discriminator += [nn.Conv2d(inside, out, 4, 2, 1, bias=False), *([nn.BatchNorm2d(out)] if inside > 3 else []), nn.LeakyReLU(0.2)]
    return named(generator=nn.Sequential(*generator), discriminator=nn.Sequential(
        *discriminator, nn.Conv2d(8 * width, classes, 4, bias=False)), flatten=nn.Flatten())


class UNet(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        widths = [64, 128, 256, 512, 1024]

        def pair(inside, out):
            return nn.Sequential(conv(inside, out, 3), nn.BatchNorm2d(out), nn.ReLU(), conv(out, out, 3), nn.BatchNorm2d(out), nn.ReLU())
        for i, width in enumerate(widths):
            self.add_module(f"down{i}", pair(widths[i - 1] if i else channels, width))
        for i, width in enumerate(widths[:-1]):
            self.add_module(f"up{i}", nn.ConvTranspose2d(2 * width, width, 2, 2))
            self.add_module(f"merge{i}", pair(2 * width, width))
        self.outc = nn.Conv2d(64, classes, 1)

    def forward(self, x):
        seen = []
        for i in range(5):
            x = getattr(self, f"down{i}")(F.max_pool2d(x, 2) if i else x)
            seen.append(x)
        for i in (3, 2, 1, 0):
            x = getattr(self, f"merge{i}")(torch.cat([seen[i], getattr(self, f"up{i}")(x)], 1))
        return self.outc(x)


# ---- Attention ------------------------------------------------------------------------------------------------------

class ViT(nn.Module):
    def __init__(self, channels, classes, stem, width, depth, heads, mlp, tokens=196):
        super().__init__()

        class EncoderBlock(nn.Module):
            def __init__(self):
                super().__init__()
                self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
                self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
                self.mlp = nn.Sequential(nn.Linear(width, mlp), nn.GELU(), nn.Dropout(0), nn.Linear(mlp, width), nn.Dropout(0))

            def forward(self, x):
                y = self.ln_1(x)
                x = x + self.self_attention(y, y, y, need_weights=False)[0]
                return x + self.mlp(self.ln_2(x))
        convs = {f"conv_bn_relu_{i}": conv_norm(inside, out, 3, 2) for i, (inside, out) in enumerate(zip([channels, *stem], stem))}
        self.conv_proj = named(**convs, conv_last=nn.Conv2d(stem[-1], width, 1))
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.encoder = named(layers=named(**{f"encoder_layer_{i}": EncoderBlock() for i in range(depth)}),
                             ln=nn.LayerNorm(width, eps=1e-6))
        self.encoder.pos_embedding = nn.Parameter(torch.empty(1, tokens + 1, width).normal_(std=0.02))
        self.heads = named(head=nn.Linear(width, classes))

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1)
        return self.heads(self.encoder(x + self.encoder.pos_embedding)[:, 0])


# ---- By name --------------------------------------------------------------------------------------------------------

NETWORKS = {  # function, its other arguments, image, classes
    "lenet": (lenet, (), (1, 28, 28), 10),
    "alexnet": (alexnet, (), (3, 224, 224), 1000),
    "vgg11": (vgg, ((1, 1, 2, 2, 2),), (3, 224, 224), 1000),
    "vgg16": (vgg, ((2, 2, 3, 3, 3),), (3, 224, 224), 1000),
    "vgg19": (vgg, ((2, 2, 4, 4, 4),), (3, 224, 224), 1000),
    "resnet18": (resnet, ((2, 2, 2, 2), False), (3, 224, 224), 1000),
    "resnet34": (resnet, ((3, 4, 6, 3), False), (3, 224, 224), 1000),
    "resnet50": (resnet, ((3, 4, 6, 3), True), (3, 224, 224), 1000),
    "resnet101": (resnet, ((3, 4, 23, 3), True), (3, 224, 224), 1000),
    "resnet20": (resnet20, (False,), (3, 32, 32), 10),
    "resnet20-b": (resnet20, (True,), (3, 32, 32), 10),
    "squeezenet1_1": (squeezenet, (), (3, 224, 224), 1000),
    "mobilenet_v1": (mobilenet_v1, (), (3, 224, 224), 1000),
    "mobilenet_v2": (mobilenet_v2, (), (3, 224, 224), 1000),
    "googlenet": (googlenet, (), (3, 224, 224), 1000),
    "densenet121": (densenet, ((6, 12, 24, 16),), (3, 224, 224), 1000),
    "densenet201": (densenet, ((6, 12, 48, 32),), (3, 224, 224), 1000),
    "shufflenet_g3": (shufflenet, (3, (240, 480, 960)), (3, 224, 224), 1000),
    "efficientnet_b0": (efficientnet, (1.0, 1.0, 0.2), (3, 224, 224), 1000),
    "efficientnet_b1": (efficientnet, (1.0, 1.1, 0.2), (3, 240, 240), 1000),
    "efficientnet_b2": (efficientnet, (1.1, 1.2, 0.3), (3, 288, 288), 1000),
    "regnet_x_400mf": (regnet, ((32, 64, 160, 400), (1, 2, 7, 12), 16), (3, 224, 224), 1000),
    "convnext_tiny": (convnext, ((96, 192, 384, 768), (3, 3, 9, 3)), (3, 224, 224), 1000),
    "unet": (UNet, (), (3, 256, 256), 2),
    "dcgan": (dcgan, (), (100, 1, 1), 2),
    "vit_c": (ViT, ((24, 48, 96, 192), 192, 11, 3, 576), (3, 224, 224), 1000),
}


def image(name):
    return NETWORKS[name][2]


def make(name):
    function, arguments, (channels, _, _), classes = NETWORKS[name]
    return function(channels, classes, *arguments)


# ---- Beside torchvision ---------------------------------------------------------------------------------------------

def torchvision_model(name):
    """None where it has no such network."""
    from torchvision import models
    if name == "vit_c":
        from torchvision.models.vision_transformer import ConvStemConfig, VisionTransformer
        return VisionTransformer(224, 16, 11, 3, 192, 576, conv_stem_configs=[ConvStemConfig(c, 3, 2) for c in (24, 48, 96, 192)])
    made = getattr(models, name, None)
    options = {"aux_logits": True, "init_weights": False} if name == "googlenet" else {}
    return made(**options) if callable(made) else None


def differs(name):
    """What differs from torchvision's network, a text; "" for nothing, None where there is none."""
    torch.manual_seed(1)
    theirs, ours = torchvision_model(name), make(name)
    if theirs is None:
        return None
    state = theirs.state_dict()
    if {k: v.shape for k, v in state.items()} != {k: v.shape for k, v in ours.state_dict().items()}:
        return f"names or shapes: {sorted(set(state) ^ set(ours.state_dict()))[:4]}"
    for tensor in state.values():  # ViT's head begins with zeros
        if tensor.is_floating_point() and not tensor.any():
            tensor.normal_(std=0.1)
    ours.load_state_dict(state)
    for mode in (False, True):
        results = []
        for model in (theirs, ours):
            for module in model.train(mode).double().modules():
                if type(module).__name__ in ("Dropout", "StochasticDepth"):
                    module.eval()
            y = model(torch.randn(2, *image(name), generator=torch.Generator().manual_seed(2)).double())
            results.append(torch.cat([y.logits, y.aux_logits2, y.aux_logits1]) if hasattr(y, "logits") else y)
        off = ((results[0] - results[1]).norm() / results[0].norm()).item()
        if not off < 1e-9:
            return f"logits in {'train' if mode else 'evaluation'} mode by {off:.1e}"
    return ""


def main(names):
    for name in names:
        if name not in NETWORKS:
            sys.exit(f"networks.py: there is no network '{name}'; there are {', '.join(NETWORKS)}")
    failed = 0
    for name in names or NETWORKS:
        with torch.no_grad():
            count = sum(p.numel() for p in make(name).parameters())
            try:
                text = differs(name)
            except ImportError as missing:
                text = None if missing.name == "torchvision" else str(missing)
        failed += bool(text)
        print(f"{name:<16} {count:>11} parameters  " + ("no torchvision model" if text is None else
                                                        text or "names and logits as torchvision's"), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
