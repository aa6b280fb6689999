"""Prompts by name, by file and one by one."""

import pytest

from ggeur.core.errors import GgeurError
from ggeur.encode.prompts import Prompts, known_prompts, prompt_sets


def test_clips_eighteen_are_nine_with_a_and_nine_with_the():
    found = known_prompts()["clip18"].templates
    assert len(found) == 18 and found[0] == "a photo of a {}." and found[9] == "a photo of the {}."
    assert {t.replace(" the ", " a ") for t in found} == set(found[:9])


def test_names_are_read_as_words_but_for_fedclips():
    names = ["alarm_clock"]
    assert known_prompts()["single"].names(names) == ["alarm clock"]
    assert known_prompts()["fedclip"].names(names) == ["alarm_clock"]


def test_a_file_has_a_template_on_every_line(tmp_path):
    path = tmp_path / "scans.txt"
    path.write_text("a scan of {the} {}\n\na slice of a {}\n")
    found = prompt_sets(["bare", str(path)])
    assert list(found) == ["bare", "scans"]
    assert found["scans"] == Prompts(("a scan of a {}", "a slice of a {}", "a scan of the {}"))


@pytest.mark.parametrize(
    "content, words",
    [(None, "single, fedclip, bare"), (b"a photo", "contain {}"), (b"", "{}"), (b"\xff{}", "Cannot read")],
)
def test_mistakes_are_one_sentence(tmp_path, content, words):
    path = tmp_path / "mine.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GgeurError) as refused:
        prompt_sets([str(path)])
    assert words in str(refused.value)
