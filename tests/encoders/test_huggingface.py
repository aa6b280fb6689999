"""Hugging Face encoders against the libraries' own answers, with real model classes and random weights."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from ggeur.data.image_set import ImageSet, Split, pixels
from ggeur.encoders.encoder import DEFAULT, TextEncoder, load_encoder
from ggeur.encoders.job import embed
from ggeur.encoders.prompts import Prompts
from refusal import refused

pytestmark = pytest.mark.needs("hf")
RNG = np.random.default_rng(0)
PHOTOS = [RNG.integers(0, 256, shape, np.uint8) for shape in ((40, 56, 3), (64, 33, 3), (32, 32, 3))]
TOWER = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]


def write_tokenizer(folder):
    """CLIP's own byte-pair tokenizer, with letters and no merges for a vocabulary."""
    words = [*LETTERS, *(f"{c}</w>" for c in LETTERS), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    transformers.CLIPTokenizer.from_pretrained(str(folder)).save_pretrained(str(folder))
    return len(words)


def write_clip(folder, text=True):
    folder.mkdir(exist_ok=True)
    vocabulary = write_tokenizer(folder) if text else 54
    config = transformers.CLIPConfig(
        text_config=dict(**TOWER, vocab_size=vocabulary, max_position_embeddings=32, bos_token_id=52, eos_token_id=53),
        vision_config=dict(**TOWER, patch_size=8, image_size=32),
        projection_dim=24,
    )
    torch.manual_seed(0)
    transformers.CLIPModel(config).save_pretrained(folder)
    crop = {"height": 32, "width": 32}
    transformers.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=crop).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("hf") / "tiny-clip")


def own_features(model, processor, photos):
    """What a user of transformers would compute."""
    pictures = [Image.fromarray(p) for p in photos]
    with torch.no_grad():
        return model.get_image_features(**processor(images=pictures, return_tensors="pt")).pooler_output.numpy()


def test_clip_equals_transformers_own_image_features(clip):
    encoder = load_encoder(str(clip))
    model = transformers.CLIPModel.from_pretrained(clip).eval()
    wanted = own_features(model, transformers.CLIPImageProcessorPil.from_pretrained(clip), PHOTOS)
    found = encoder.encode(PHOTOS)
    assert encoder.dimension == 24 and encoder.name == "tiny-clip"
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() > 1e-3, "with projection, not normalised"
    np.testing.assert_allclose(
        load_encoder(str(clip), normalize=True).encode(PHOTOS),
        wanted / np.linalg.norm(wanted, axis=1, keepdims=True),
        atol=1e-5,
    )


def test_the_hash_knows_the_image_tower_and_nothing_else(clip, tmp_path):
    encoder = load_encoder(str(clip))
    model = transformers.CLIPModel.from_pretrained(clip)
    processor = transformers.CLIPImageProcessorPil.from_pretrained(clip)
    for part, same in (("text_projection", True), ("visual_projection", False)):
        with torch.no_grad():
            getattr(model, part).weight[0, 0] += 1
        model.save_pretrained(tmp_path / part)
        processor.save_pretrained(tmp_path / part)
        assert (load_encoder(str(tmp_path / part)).weights_hash == encoder.weights_hash) is same
    settings = json.loads(encoder.preprocessing)
    assert settings["size"] == {"shortest_edge": 32} and settings["resample"] == 3


def test_siglip_equals_transformers_own_image_features(tmp_path):
    config = transformers.SiglipConfig(
        text_config=dict(**TOWER, vocab_size=60, max_position_embeddings=16),
        vision_config=dict(**TOWER, patch_size=8, image_size=32),
    )
    torch.manual_seed(0)
    model = transformers.SiglipModel(config).eval()
    model.save_pretrained(tmp_path)
    processor = transformers.SiglipImageProcessorPil(size={"height": 32, "width": 32})
    processor.save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path))
    np.testing.assert_allclose(encoder.encode(PHOTOS), own_features(model, processor, PHOTOS), atol=1e-5)


def test_dinov2_gives_its_class_token_and_has_no_text(tmp_path):
    config = transformers.Dinov2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, patch_size=8, image_size=32
    )
    torch.manual_seed(0)
    model = transformers.Dinov2Model(config).eval()
    model.save_pretrained(tmp_path)
    processor = transformers.BitImageProcessorPil(
        size={"shortest_edge": 36}, crop_size={"height": 32, "width": 32}, do_convert_rgb=True
    )
    processor.save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path))
    inputs = processor(images=[Image.fromarray(p) for p in PHOTOS], return_tensors="pt")
    with torch.no_grad():
        wanted = model(**inputs).last_hidden_state[:, 0].numpy()
    np.testing.assert_allclose(encoder.encode(PHOTOS), wanted, atol=1e-5)
    assert not encoder.has_text
    with refused("encoder-without-text-tower"):
        encoder.encode_text(["cat"], ["a {}"])


# ---------------------------------------------------------------- text


def test_text_is_the_mean_over_templates_of_unit_length(clip):
    encoder = load_encoder(str(clip))
    assert isinstance(encoder, TextEncoder) and encoder.has_text
    names, templates = ["alarm_clock", "bed"], ["a photo of a {}", "the {}"]
    model = transformers.CLIPModel.from_pretrained(clip).eval()
    tokenizer = transformers.CLIPTokenizer.from_pretrained(clip)
    wanted = []
    for name in ("alarm clock", "bed"):
        tokens = tokenizer([t.replace("{}", name) for t in templates], padding=True, return_tensors="pt")
        with torch.no_grad():
            x = model.get_text_features(**tokens).pooler_output.numpy()
        x = (x / np.linalg.norm(x, axis=1, keepdims=True)).mean(axis=0)
        wanted.append(x / np.linalg.norm(x))
    names = Prompts.of(templates).names(names)
    np.testing.assert_allclose(encoder.encode_text(names, templates), wanted, atol=1e-5)


def test_a_table_by_clip_has_the_text_of_its_classes(clip, tmp_path):
    x = RNG.integers(0, 256, (6, 32, 32, 3), np.uint8)
    images = ImageSet.of(("cat", "dog"), {"a": Split(pixels(x, [0, 1] * 3, "memory"))})
    table = embed(images, load_encoder(str(clip)), cache=tmp_path).table
    assert list(table.text) == ["single", "fedclip", "bare"] and table.text["bare"].shape == (2, 24)
    assert table.meta["templates"]["single"] == ["a photo of a {}."]
    assert table.meta["encoder"] == "tiny-clip"


def test_prompts_longer_than_the_model_takes_are_cut(clip):
    assert np.isfinite(load_encoder(str(clip)).encode_text(["z" * 60], ["a photo of a {}"])).all()


def test_without_a_tokenizer_the_table_has_no_text_and_says_so(tmp_path):
    folder = write_clip(tmp_path / "silent", text=False)
    images = ImageSet.of(("cat",), {"a": Split(pixels(np.stack([PHOTOS[2]] * 2), [0, 0], "memory"))})
    with pytest.warns(UserWarning, match="no text embeddings: The tokenizer .* is not complete"):
        assert embed(images, load_encoder(str(folder)), cache=tmp_path / "cache").table.text == {}


# ---------------------------------------------------------------- mistakes


def test_tokens_that_the_tower_has_not_are_said(clip, tmp_path):
    folder = shutil.copytree(clip, tmp_path / "clip")
    path = folder / "tokenizer.json"
    about = json.loads(path.read_text())
    about["model"]["vocab"] = {word: code + 30 for word, code in about["model"]["vocab"].items()}
    about["added_tokens"] = [{**token, "id": token["id"] + 30} for token in about["added_tokens"]]
    path.write_text(json.dumps(about))
    with refused("tokenizer-vocabulary-mismatch: 54"):
        load_encoder(str(folder)).encode_text(["ant"], ["a {}"])


def test_a_model_out_of_reach_is_one_sentence_with_the_ways_out():
    with refused(f"encoder-load-failed: {DEFAULT}") as caught:
        load_encoder(DEFAULT)
    text = str(caught.value)
    assert "hf download" in text and "onnx:PATH" in text and "\n" not in text


def test_a_folder_without_weights_or_preprocessing_is_named(clip, tmp_path):
    with refused("encoder-load-failed: weights...complete the folder"):
        load_encoder(str(tmp_path))
    transformers.CLIPModel.from_pretrained(clip).save_pretrained(tmp_path)
    with refused("encoder-load-failed: image preprocessing"):
        load_encoder(str(tmp_path))


def test_damaged_weights_are_one_sentence(clip, tmp_path):
    folder = write_clip(tmp_path / "damaged", text=False)
    (folder / "model.safetensors").write_bytes(b"damaged")
    with refused("encoder-load-failed: weights"):
        load_encoder(str(folder))


def test_a_model_without_a_pooled_embedding_is_refused(tmp_path):
    config = transformers.Dinov2Config(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, patch_size=8, image_size=32
    )
    transformers.Dinov2Model(config).save_pretrained(tmp_path)
    transformers.BitImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    ).save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path))
    encoder._model = lambda pixel_values: object()
    with refused("encoder-without-pooling"):
        encoder.encode(PHOTOS)


@pytest.mark.slow
def test_the_full_vit_b_16_equals_transformers_own(tmp_path):
    """The paper's shape: 12 layers of 768, patches of 16, 224 pixels, projected to 512."""
    config = transformers.CLIPConfig(vision_config=dict(patch_size=16, image_size=224), projection_dim=512)
    config.vision_config.update(
        dict(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12)
    )
    torch.manual_seed(0)
    model = transformers.CLIPModel(config).eval()
    model.save_pretrained(tmp_path)
    processor = transformers.CLIPImageProcessorPil()
    processor.save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path))
    assert encoder.dimension == 512
    photos = [RNG.integers(0, 256, (300, 400, 3), np.uint8), RNG.integers(0, 256, (224, 224, 3), np.uint8)]
    np.testing.assert_allclose(encoder.encode(photos), own_features(model, processor, photos), atol=1e-5)
