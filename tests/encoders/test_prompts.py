"""Prompts by name, by file and one by one."""

import numpy as np
import pytest

from ggeur.encoders.prompts import Prompts, known_prompts, prompt_sets
from ggeur.methods.algorithm import Task
from ggeur.stats.errors import Unavailable
from refusal import refused


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
    [
        (None, "prompts-unknown: single, fedclip, bare"),
        (b"a {}\n\na photo", "prompts-without-placeholder: mine.txt, line 3"),
        (b"\xef\xbb\xbf\n \n", "prompts-file-empty: mine.txt"),
        (b"\xff{}", "file-unreadable: mine.txt"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, content, words):
    path = tmp_path / "mine.txt"
    if content is not None:
        path.write_bytes(content)
    with refused(words):
        prompt_sets([str(path)])


def test_a_mark_at_the_start_of_a_file_is_no_part_of_its_first_prompt(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_bytes("\ufeffa scan of a {}".encode())
    assert prompt_sets([str(path)])["mine"].templates == ("a scan of a {}",)


def test_two_sets_of_one_name_are_refused(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for name in ("mine", "own", "clip18"):
            (tmp_path / folder / f"{name}.txt").write_text("a {}")
    twice = [str(tmp_path / folder / "mine.txt") for folder in ("a", "b")]
    with refused("prompts-name-repeated: mine"):
        prompt_sets(twice)
    with refused("prompts-name-repeated: own"):
        prompt_sets([str(tmp_path / "a" / "own.txt")], ["the {}"])
    with refused("prompts-name-reserved: clip18"):
        prompt_sets([str(tmp_path / "a" / "clip18.txt")])


def test_what_a_table_lacks_is_advised_by_names_that_there_are():
    task = Task(2, ("a", "b"), {"single": np.eye(2)})
    with refused("text-embeddings-prompts-missing: single...`ggeur embed --prompts clip18`", Unavailable):
        task.text_of("clip18", "zeroshot")
    with refused(
        "text-embeddings-prompts-missing: by name there are single, fedclip, bare, clip18, clip80", Unavailable
    ):
        task.text_of("clip20", "zeroshot")
