"""The networks of `ggeur.heads.images` in torch, as torch's own users write them, and their numbers from ours."""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BLOCKS = {"resnet10": (1, 1, 1, 1), "resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3)}


class SimpleCNN(nn.Module):
    def __init__(self, pixels: int, classes: int) -> None:
        super().__init__()
        left = ((pixels - 4) // 2 - 4) // 2
        sizes = (16 * left**2, 120, 84, 84, 256)
        self.conv = nn.ModuleList([nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)])
        self.hidden = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(sizes)])
        self.out = nn.Linear(256, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv in self.conv:
            x = F.max_pool2d(F.relu(conv(x)), 2)
        x = x.flatten(1)
        for layer in self.hidden[:-1]:
            x = F.relu(layer(x))
        return self.out(self.hidden[-1](x))


class ConvNorm(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        super().__init__(conv, nn.GroupNorm(32, outputs))


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = ConvNorm(inputs, outputs, 3, stride), ConvNorm(outputs, outputs, 3, 1)
        self.short = ConvNorm(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.second(F.relu(self.first(x)))
        return F.relu(inner + (x if self.short is None else self.short(x)))


class ResNet(nn.Module):
    def __init__(self, blocks: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.stem, inputs, made = ConvNorm(3, 64, 3, 1), 64, []
        for stage, n in enumerate(blocks):
            for i in range(n):
                made.append(Block(inputs, 64 << stage, 2 if stage and not i else 1))
                inputs = 64 << stage
        self.blocks, self.out = nn.Sequential(*made), nn.Linear(512, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.blocks(F.relu(self.stem(x))).mean((2, 3)))


def network(name: str, pixels: int, classes: int) -> nn.Module:
    return SimpleCNN(pixels, classes) if name == "simplecnn" else ResNet(BLOCKS[name], classes)


def inputs(pictures: torch.Tensor) -> torch.Tensor:
    """Bytes (n, S, S, 3) as a network takes them: (n, 3, S, S), about ImageNet's mean."""
    x = (pictures.float() / 255 - torch.tensor(MEAN)) / torch.tensor(DEVIATION)
    return x.permute(0, 3, 1, 2).contiguous()


def put(net: nn.Module, params: Any) -> None:
    """Give `net` the numbers of our `params`."""
    with torch.no_grad():
        for theirs, ours in zip(net.parameters(), ordered(net, params), strict=True):
            theirs.copy_(torch.from_numpy(np.array(ours)))


def ordered(net: nn.Module, params: Any) -> list[Any]:
    """Our arrays in the order and layout of the parameters of `net`."""
    found = []
    if isinstance(net, SimpleCNN):
        for layer in params["conv"]:
            found += [layer["W"].transpose(3, 2, 0, 1), layer["b"]]
        first, *rest = params["hidden"]
        side = int((first["W"].shape[1] // 16) ** 0.5)
        found += [first["W"].reshape(-1, side, side, 16).transpose(0, 3, 1, 2).reshape(len(first["b"]), -1), first["b"]]
        for layer in (*rest, params["out"]):
            found += [layer["W"], layer["b"]]
        return found
    layers = [params["stem"]]
    for block in params["blocks"]:
        layers += [block[name] for name in ("first", "second", "short") if name in block]
    for layer in layers:
        found += [layer["W"].transpose(3, 2, 0, 1), layer["scale"], layer["shift"]]
    return [*found, params["out"]["W"], params["out"]["b"]]
