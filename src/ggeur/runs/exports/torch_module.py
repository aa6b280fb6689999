"""A classifier of embeddings, from config.json and model.safetensors beside this file; needs torch and safetensors.

from model import Classifier
classifier = Classifier()
probabilities = classifier(embeddings)             # (n, classes), of embeddings (n, p)
names = classifier.label(embeddings)
"""

import json
from pathlib import Path

import torch
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
        """(n, classes): probabilities."""
        return torch.softmax(self.logits(embeddings) / self._temperature, dim=1).float()

    def label(self, embeddings):
        """The name of the likeliest class of each row."""
        return [self.class_names[c] for c in self(embeddings).argmax(dim=1).tolist()]

    def logits(self, embeddings):
        """(n, classes), before the temperature."""
        x = embeddings.to(self.dtype)
        if (ball := self.config.get("ball")) is not None:
            x = self._into(x, ball["radius"]).float().to(self.dtype)
        if (units := self.config.get("units")) is not None:
            shift = torch.tensor(units["shift"], dtype=self.dtype, device=x.device)
            x = ((x - shift) / units["scale"]).float().to(self.dtype)
        return getattr(self, f"_{self.config['head']}")(x)

    @property
    def _temperature(self):
        return self.config.get("calibration", {}).get("temperature", 1.0)

    def _of(self, name):
        return getattr(self, name).to(self.dtype)

    def _into(self, x, radius):
        """A public projection, and rows no longer than the radius."""
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

    def _cosine(self, x):
        unit = torch.nn.functional.normalize
        return 100.0 * unit(x, dim=1) @ unit(self._of("text"), dim=1).T  # CLIP's scale

    def _adapter(self, x):
        hidden = torch.tanh(x @ self._of("W1").T + self._of("b1"))
        return self._cosine(torch.softmax(hidden @ self._of("W2").T + self._of("b2"), dim=1) * x)
