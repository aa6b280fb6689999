"""Encoders that are named as package.module:name: what goes before them, and what is said of one that is none."""

import sys
from textwrap import dedent

import numpy as np
import pytest

from ggeur.encoders.cache import EmbeddingCache
from ggeur.encoders.encoder import is_custom_encoder, load_encoder
from ggeur.stats.errors import GgeurError
from refusal import Sentence

OWN = """
    from types import SimpleNamespace

    import numpy as np

    PARTS = dict(name="toy", dimension=np.int64(2), preprocessing="none", weights_hash="abc",
                 prepare=lambda image: image, forward=lambda prepared: prepared)

    def encoder(**changes):
        return SimpleNamespace(**{k: v for k, v in {**PARTS, **changes}.items() if v is not None})

    def nameless():
        return encoder(name=None)

    def unhashed():
        return encoder(weights_hash="")

    def unprepared():
        return encoder(preprocessing=3)

    def flat():
        return encoder(dimension=0)

    def mute():
        return encoder(forward=None)

    def other():
        return encoder(weights_hash="xyz")

    def broken():
        raise OSError("no weights")
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """The module own_encoders in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_encoders.py").write_text(dedent(OWN))
    yield
    sys.modules.pop("own_encoders", None)


def told(*arguments, **options):
    with pytest.raises(GgeurError) as caught:
        load_encoder(*arguments, **options)
    text = Sentence.of(caught.value)
    assert text.endswith(".") and "\n" not in text
    return text


def test_it_is_what_the_function_returns():
    assert load_encoder("own_encoders:encoder").name == "toy"


@pytest.mark.parametrize(
    "name, wrong",
    [
        ("nameless", "its name"),
        ("unhashed", "its weights_hash"),
        ("unprepared", "its preprocessing"),
        ("flat", "its dimension"),
        ("mute", "its forward"),
    ],
)
def test_what_has_not_the_parts_of_an_encoder_is_told_which_it_lacks(name, wrong):
    assert told(f"own_encoders:{name}").says(f"custom-encoder-type: own_encoders:{name}...{wrong}")


def test_what_goes_wrong_in_the_function_is_a_sentence_that_names_it():
    assert told("own_encoders:broken").says("custom-code-failed: encoder...own_encoders:broken...OSError: no weights")
    assert told("nowhere:encoder").says("custom-load-failed: encoder...nowhere:encoder")


def test_options_of_other_encoders_are_refused():
    assert told("own_encoders:encoder", normalize=True).says("encoder-normalize-unsupported")
    assert told("own_encoders:encoder", size=3).says("encoder-preprocessing-fixed: size")


def test_onnx_files_and_folders_go_first(tmp_path):
    assert (
        not is_custom_encoder("onnx:tower.onnx")
        and not is_custom_encoder("org/model")
        and not is_custom_encoder("/a:b/c")
    )
    assert is_custom_encoder("own_encoders:encoder")
    (tmp_path / "own_encoders:encoder").mkdir()
    assert not is_custom_encoder("own_encoders:encoder")


def test_embeddings_of_two_of_them_are_kept_apart(tmp_path):
    one, other = (EmbeddingCache(load_encoder(f"own_encoders:{name}"), tmp_path) for name in ("encoder", "other"))
    one.put([b"1" * 32], np.ones((1, 2), np.float32))
    assert one.folder != other.folder and b"1" * 32 not in other
    assert b"1" * 32 in EmbeddingCache(load_encoder("own_encoders:encoder"), tmp_path)
