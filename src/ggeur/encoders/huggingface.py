"""Hugging Face vision models, by name or local folder: CLIP, SigLIP, DINOv2 and their like; needs the extra `hf`."""

import hashlib
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ggeur.encoders.encoder import Encoder, Image, unit_rows
from ggeur.stats.errors import GgeurError, how_to_install
from ggeur.stats.types import FloatArray


class HuggingFaceEncoder(Encoder):
    """The image tower of a model: with its projection where it has one (CLIP), else its pooled output (DINOv2)."""

    def __init__(self, name: str, *, normalize: bool = False) -> None:
        torch, transformers = _libraries()
        self._torch, self._transformers, self._source = torch, transformers, name
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = _load(transformers.AutoModel, name, "weights").eval().to(self._device)
        self._processor = _load(transformers.AutoImageProcessor, name, "image preprocessing")
        self._normalize = normalize
        self.has_text = hasattr(self._model, "get_text_features")
        self.name = Path(name).resolve().name if Path(name).is_dir() else name
        settings = {k: v for k, v in self._processor.to_dict().items() if not k.startswith("_")}
        self.preprocessing = json.dumps(settings, sort_keys=True, default=str)
        self.preprocessing += ", embeddings of unit length" if normalize else ""
        self.weights_hash = self._hash()
        self.dimension = self.forward(self.prepare(np.zeros((32, 32, 3), np.uint8))[None]).shape[1]

    def prepare(self, image: Image) -> FloatArray:
        # "np" keeps torch out of the reading threads.
        inputs = self._processor(images=image, return_tensors="np", input_data_format="channels_last")
        return np.asarray(inputs["pixel_values"][0], np.float32)

    def forward(self, prepared: FloatArray) -> FloatArray:
        with self._torch.inference_mode():
            pixels = self._torch.from_numpy(np.ascontiguousarray(prepared)).to(self._device)
            x = self._pooled(pixels).float().cpu().numpy()
        return unit_rows(x) if self._normalize else x

    def _pooled(self, pixels: Any) -> Any:
        tower = getattr(self._model, "get_image_features", self._model)
        pooled = getattr(tower(pixel_values=pixels), "pooler_output", None)
        if pooled is None:
            raise GgeurError(
                f"The model {self._source} has no pooled image embedding; use a CLIP, SigLIP or DINOv2 model.",
                code="encoder-without-pooling",
            )
        return pooled.flatten(1)

    def encode_text(self, class_names: Sequence[str], templates: Sequence[str]) -> FloatArray:
        """(C, dimension): the mean over templates of each class's prompt, of unit length."""
        if not self.has_text:
            raise GgeurError(f"The model {self._source} has no text tower.", code="encoder-without-text-tower")
        tokenizer = _load(self._transformers.AutoTokenizer, self._source, "tokenizer")
        text = self._model.config.text_config
        if len(tokenizer) < text.vocab_size / 2:
            # Without its files transformers makes an empty tokenizer, and any text would be embedded as nonsense.
            raise GgeurError(
                f"The tokenizer of the encoder {self._source} is not complete; its files are missing.",
                code="tokenizer-incomplete",
            )
        # SigLIP was trained on texts padded to full length, CLIP on any.
        padding = "max_length" if "siglip" in self._model.config.model_type else True
        samples = []
        for name in class_names:
            prompts = [template.replace("{}", name) for template in templates]
            tokens = tokenizer(
                prompts, padding=padding, truncation=True, max_length=text.max_position_embeddings, return_tensors="pt"
            ).to(self._device)
            if int(tokens["input_ids"].max()) >= text.vocab_size:
                raise GgeurError(
                    f"The tokenizer of the encoder {self._source} knows more tokens than its text tower, whose "
                    f"vocabulary has {text.vocab_size}; they are not of one model.",
                    code="tokenizer-vocabulary-mismatch",
                )
            wanted = {k: v for k, v in tokens.items() if k in ("input_ids", "attention_mask")}
            with self._torch.inference_mode():
                x = self._model.get_text_features(**wanted).pooler_output.float().cpu().numpy()
            samples.append(unit_rows(x).mean(axis=0))
        return unit_rows(np.stack(samples))

    def _hash(self) -> str:
        """Return a hash of the tensors that make an image embedding; a file's format or name does not matter."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self._model.state_dict().items()):
            if not name.startswith("text_"):
                digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
                digest.update(tensor.detach().cpu().float().contiguous().numpy().tobytes())
        return digest.hexdigest()


def _libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise GgeurError(
            f"Hugging Face encoders need an extra: {how_to_install('hf')}.",
            code="extra-missing",
        ) from error
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells of every retry
    return torch, transformers


def _load(kind: Any, name: str, what: str) -> Any:
    with suppress(Exception):  # what has been downloaded before is used as it is, with or without a network
        return kind.from_pretrained(name, local_files_only=True)
    try:
        return kind.from_pretrained(name)
    except Exception as error:  # OSError, ValueError, safetensors' own and more
        reason = " ".join(str(error).split()).partition(". ")[0].rstrip(".") or type(error).__name__
        advice = (
            f"run `hf download {name}` where there is a network, or name a local folder, onnx:PATH "
            "(DINOv2, say), or builtin, which is weak on photographs"
        )
        if Path(name).is_dir():
            advice = "complete the folder"
        raise GgeurError(
            f"Cannot load the {what} of the encoder {name} ({reason}): {advice}.", code="encoder-load-failed"
        ) from error
