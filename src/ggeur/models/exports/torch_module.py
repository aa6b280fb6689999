"""A classifier of embeddings, from config.json and model.safetensors beside this file; needs torch and safetensors.

from model import Classifier
classifier = Classifier()
probabilities = classifier(embeddings)             # (n, classes), of embeddings (n, p)
names = classifier.label(embeddings)

Where config.json says "colours", it is a network on pictures, (n, S, S, 3) of 0 to 255 in the place of embeddings.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file


class Classifier(torch.nn.Module):
    """Class probabilities of embeddings, as the encoder that config.json names gives them."""

    def __init__(self, folder=Path(__file__).parent):
        super().__init__()
        self.config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        for name, tensor in load_file(str(Path(folder) / "model.safetensors")).items():
            self.register_buffer(name, tensor)
        double = any(tensor.dtype == torch.float64 for tensor in self.buffers()) or self.config.keys() & {
            "ball",
            "units",
        }
        self.dtype = torch.float64 if double else torch.float32  # float64 where large numbers must cancel
        self.class_names = self.config["class_names"]

    def forward(self, embeddings):
        """Return (n, classes): probabilities."""
        return torch.softmax(self.logits(embeddings) / self._temperature, dim=1).float()

    def label(self, embeddings):
        """Return the name of the likeliest class of each sample."""
        return [self.class_names[c] for c in self(embeddings).argmax(dim=1).tolist()]

    def logits(self, embeddings):
        """Return (n, classes): logits before the temperature."""
        x = embeddings.to(self.dtype)
        if (ball := self.config.get("ball")) is not None:
            x = self._into(x, ball["radius"]).float().to(self.dtype)
        if (units := self.config.get("units")) is not None:
            shift = torch.tensor(units["shift"], dtype=self.dtype, device=x.device)
            x = ((x - shift) / units["scale"]).float().to(self.dtype)
        if "colours" in self.config:
            return self._network(x)
        return getattr(self, f"_{self.config['head']}")(x)

    @property
    def _temperature(self):
        return self.config.get("calibration", {}).get("temperature", 1.0)

    def _of(self, name):
        return getattr(self, name).to(self.dtype)

    def _into(self, x, radius):
        """Return samples projected and clipped to the radius."""
        if hasattr(self, "ball/basis"):
            x = x @ self._of("ball/basis")
        if radius is None:
            return x
        return x * torch.clamp(radius * (1 - 1e-6) / x.norm(dim=1, keepdim=True).clamp_min(1e-300), max=1.0)

    def _linear(self, x, at=""):
        return x @ self._of(f"{at}W").T + self._of(f"{at}b")

    def _mlp(self, x):
        return torch.relu(x @ self._of("W1").T + self._of("b1")) @ self._of("W2").T + self._of("b2")

    def _mixture(self, x, at=""):
        white = (x - self._of(f"{at}center")) @ self._of(f"{at}whiten").transpose(1, 2)
        inner = white @ self._of(f"{at}means").transpose(1, 2)
        scores = inner - white.square().sum(dim=2, keepdim=True) / 2 + self._of(f"{at}offset")[:, None]
        return torch.logsumexp(scores, dim=0)

    def _blend(self, x):
        mixed = self._of("t") * self._mixture(x, "mixture/")
        return torch.log_softmax(self._linear(x, "linear/"), dim=1) + torch.log_softmax(mixed, dim=1)

    def _kernel(self, x):
        z, landmarks, w = (x - self._of("center")) / self._of("scale"), self._of("landmarks"), self._of("W")
        p = z.shape[1]
        far = z.square().sum(dim=1, keepdim=True) + landmarks.square().sum(dim=1) - 2 * z @ landmarks.T
        near = p**0.5 * torch.exp(-far / p)
        scores = 0.1 * z @ w[:, :p].T + near @ w[:, p:].T + self._of("b")
        return scores + self._of("t") * self._mixture(x, "mixture/") if hasattr(self, "t") else scores

    def _cosine(self, x):
        unit = torch.nn.functional.normalize
        return 100.0 * unit(x, dim=1) @ unit(self._of("text"), dim=1).T  # CLIP's scale

    def _adapter(self, x):
        hidden = torch.tanh(x @ self._of("W1").T + self._of("b1"))
        return self._cosine(torch.softmax(hidden @ self._of("W2").T + self._of("b2"), dim=1) * x)

    def _network(self, x):
        side = round((self.config["dimension"] / 3) ** 0.5)
        mean, deviation = (torch.tensor(self.config["colours"][v], device=x.device) for v in ("mean", "deviation"))
        x = ((x.reshape(len(x), side, side, 3) - mean) / deviation).permute(0, 3, 1, 2)
        features = self._small(x) if self.config["head"] == "simplecnn" else self._residual(x)
        return self._linear(features, "out/")

    def _small(self, x):
        for at in ("conv/0", "conv/1"):
            x = F.max_pool2d(torch.relu(F.conv2d(x, self._filters(at), self._of(f"{at}/b"))), 2)
        x = x.permute(0, 2, 3, 1).flatten(1)
        for i in range(3):
            x = torch.relu(self._linear(x, f"hidden/{i}/"))
        return self._linear(x, "hidden/3/")

    def _residual(self, x):
        x = torch.relu(self._convolved("stem", x))
        i = 0
        while hasattr(self, f"{(at := f'blocks/{i}')}/first/W"):
            short = hasattr(self, f"{at}/short/W")  # which is where the side is halved
            inner = torch.relu(self._convolved(f"{at}/first", x, 2 if short else 1))
            inner = self._convolved(f"{at}/second", inner)
            x, i = torch.relu(inner + (self._convolved(f"{at}/short", x, 2) if short else x)), i + 1
        return x.mean(dim=(2, 3))

    def _convolved(self, at, x, stride=1):
        kernel = self._filters(at)
        z = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[2] // 2)
        return F.group_norm(z, 32, self._of(f"{at}/scale"), self._of(f"{at}/shift"))

    def _filters(self, at):
        return self._of(f"{at}/W").permute(3, 2, 0, 1)
