"""Our byte pairs against CLIP's own numbers and transformers' tokenizer, on a small part of CLIP's vocabulary."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggeur.encoders.text_tower import BytePairs
from refusal import refused

# The merges that these words take, in CLIP's order, and the numbers that CLIP gives to what comes of them.
MERGES = (
    "a n|a r|t o</w>|i c|o f</w>|u r|i r|i s|h o|d o|q u|p l|ur e</w>|p ho|p ic|t ure</w>|u m</w>|is h</w>|pho to</w>|"
    "ar i|a ir|pic ture</w>|pl an|do g</w>|f ish</w>|a qu|plan e</w>|ari um</w>|air plane</w>|aqu arium</w>"
)
CODES = {
    "a</w>": 320,
    "picture</w>": 1674,
    "of</w>": 539,
    "dog</w>": 1929,
    "x</w>": 343,
    "airplane</w>": 16451,
    "aquarium</w>": 16814,
    "fish</w>": 2759,
    ".</w>": 269,
    "<|startoftext|>": 49406,
    "<|endoftext|>": 49407,
}


def small_vocabulary():
    """CLIP's numbers where a test looks at them, and others that are free for all else."""
    pieces = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
    pieces += [f"{c}</w>" for c in pieces] + ["".join(pair.split()) for pair in MERGES.split("|")]
    free = iter(set(range(30_000)) - set(CODES.values()))
    return {piece: CODES[piece] if piece in CODES else next(free) for piece in pieces} | CODES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "vocab.json").write_text(json.dumps(small_vocabulary()))
    (folder / "merges.txt").write_text("#version: 0.2\n" + MERGES.replace("|", "\n") + "\n")
    return folder


@pytest.mark.parametrize(
    "text, codes",
    [
        ("a picture of a dog", [320, 1674, 539, 320, 1929]),
        ("X X X X airplane.", [343, 343, 343, 343, 16451, 269]),
        ("X X X X aquarium fish.", [343, 343, 343, 343, 16814, 2759, 269]),
        ("airplane", [16451]),
        (" A  Picture\tof a DOG ", [320, 1674, 539, 320, 1929]),
        ("", []),
    ],
)
def test_the_numbers_are_clips(folder, text, codes):
    assert BytePairs(folder)(text) == [49406, *codes, 49407]


@pytest.fixture(scope="module")
def both(folder, needs_hf):
    import transformers

    return BytePairs(folder), transformers.CLIPTokenizer.from_pretrained(str(folder))


@settings(max_examples=150)
@given(st.text(st.sampled_from("aeiouaeioutfpqdgsh  '’_-.,!09éßñ漢²½😀\u0301\u200b\n"), max_size=40))
def test_any_text_has_transformers_tokens(both, text):
    ours, theirs = both
    assert ours(text) == theirs(text, truncation=True, max_length=77)["input_ids"]


def test_a_long_text_is_cut_before_its_end(folder):
    assert BytePairs(folder)("a " * 99, most=5) == [49406, 320, 320, 320, 49407]


def test_a_folder_that_transformers_saved_gives_the_same(both, tmp_path):
    ours, theirs = both
    theirs.save_pretrained(str(tmp_path))
    assert (tmp_path / "tokenizer.json").exists(), "the test is too weak"
    text = "An aquarium's fish, 2 of 10"
    assert BytePairs(tmp_path)(text) == ours(text)


EMPTY = '{"model": {"vocab": {}, "merges": []}}'
STRANGE = '{"model": {"vocab": {"<|startoftext|>": "a", "<|endoftext|>": 1}, "merges": []}}'
TRUTHS = STRANGE.replace('"a"', "true")
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("content", [None, "{}", "[]", EMPTY, STRANGE, TRUTHS, DEEP], ids=range(7))
def test_what_is_no_tokenizer_is_one_sentence(tmp_path, content):
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with refused("tokenizer-invalid"):
        BytePairs(tmp_path)
