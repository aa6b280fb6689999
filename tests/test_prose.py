"""Pages are written in short sentences and in the field's words. A thermometer: a good long sentence may stay."""

import re
from pathlib import Path
from statistics import mean

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONGEST_MEAN = 20  # words a sentence, on average over a page
FORMER = (  # phrases that do not come back
    *("told apart", "made anew", "goes on where", "deals out", "dealt out", "whole or not at all"),
    *("who helps whom", "by what", "be forgotten", "no party", "moments travel"),
)


def paragraphs(text):
    """The running text of a page: no code, tables, headings, pictures or marks."""
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|^(?=#)", text, flags=re.M):
        words = re.sub(r"^(?:[-*>]|\d+\.|!!!.*\n)\s+", "", block.strip())
        if words and not words.startswith(("|", "#", "!", "<")):
            yield re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", re.sub(r"\s+", " ", words)))


def sentences(text):
    for paragraph in paragraphs(text):
        yield from filter(None, re.split(r"(?<=[.!?:])[)\"*]*\s+(?=[A-Zc`*(\[\"])", paragraph))


def test_sentences_are_counted_as_a_reader_would():
    text = "# A title\n\nOne two. *Three* `four five`:\n\n- six\n- seven eight [nine](ten.md#eleven)\n"
    text += "\n```sh\nno\n```\n| no |\n"
    assert [len(sentence.split()) for sentence in sentences(text)] == [2, 2, 1, 3]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_is_written_in_short_sentences(page):
    found = [*sentences(page.read_text(encoding="utf-8"))]
    assert not [sentence for sentence in found if re.match(r"\W*Of ", sentence)]
    text = " ".join(found).lower()
    assert not [phrase for phrase in FORMER if re.search(rf"\b{phrase}\b", text)]
    if found:
        assert mean(len(sentence.split()) for sentence in found) <= LONGEST_MEAN


@pytest.mark.parametrize("page", PAGES[2:], ids=lambda path: str(path.relative_to(ROOT)))
def test_code_needs_no_sideways_scrolling(page):
    code = re.findall(r"^```(?:py|python|sh|toml)\b.*?\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
    assert [line for block in code for line in block.splitlines() if len(line) > 72] == []
