"""CLIP's byte-pair tokens: words of lower-case text, whose bytes are merged pair by pair, the earliest merge first."""

import json
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from ggeur.core.errors import GgeurError

_START, _END, _WORD = "<|startoftext|>", "<|endoftext|>", "</w>"
_SHORT = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")  # endings that are words of their own
# Every byte as a character that can be seen: itself, or one from beyond Latin-1.
_SEEN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_CHARACTER = {b: chr(b) for b in _SEEN} | {b: chr(256 + i) for i, b in enumerate(sorted({*range(256)} - {*_SEEN}))}


class BytePairs:
    """The tokenizer of a CLIP folder: tokenizer.json, or vocab.json and merges.txt."""

    def __init__(self, folder: str | Path) -> None:
        self._path = path = Path(folder)
        try:
            if (path / "tokenizer.json").exists():
                model = json.loads((path / "tokenizer.json").read_text(encoding="utf-8"))["model"]
                codes, merges = model["vocab"], model["merges"]
            else:
                codes = json.loads((path / "vocab.json").read_text(encoding="utf-8"))
                lines = (path / "merges.txt").read_text(encoding="utf-8").splitlines()
                merges = [line for line in lines if line and not line.startswith("#version")]
            self._code: dict[str, int] = dict(codes)
            pairs = [tuple(pair.split()) if isinstance(pair, str) else tuple(pair) for pair in merges]
            self._rank: dict[tuple[str, ...], int] = {pair: i for i, pair in enumerate(pairs)}
            self.start, self.end = self._code[_START], self._code[_END]
            if not all(type(code) is int and code >= 0 for code in self._code.values()):
                raise ValueError("its tokens must be numbered")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise GgeurError(
                f"{path} does not hold CLIP's tokens, tokenizer.json ({error!r}).", code="tokenizer-invalid"
            ) from error
        self._word = lru_cache(maxsize=4096)(self._merged)

    def __call__(self, text: str, most: int = 77) -> list[int]:
        """Start of text, the tokens of `text`, end of text: at `most` so many.

        The end is kept where the text is cut.
        """
        found = [code for word in _words(unicodedata.normalize("NFC", text).lower()) for code in self._word(word)]
        return [self.start, *found[: most - 2], self.end]

    def _merged(self, word: str) -> tuple[int, ...]:
        parts = [_CHARACTER[b] for b in word.encode()]
        parts[-1] += _WORD
        never = len(self._rank)
        while len(parts) > 1:
            ranks = [self._rank.get(pair, never) for pair in pairwise(parts)]
            if (best := min(ranks)) == never:
                break
            merged, i = [], 0
            while i < len(parts):
                here = i < len(ranks) and ranks[i] == best
                merged.append(parts[i] + parts[i + 1] if here else parts[i])
                i += 2 if here else 1
            parts = merged
        lacking = [part for part in parts if part not in self._code]
        if lacking:  # CLIP's vocabulary has every byte, so that nothing is unknown to it
            raise GgeurError(
                f"{self._path} does not hold CLIP's tokens: there is none for '{lacking[0]}' of '{word}'.",
                code="tokenizer-token-missing",
            )
        return tuple(self._code[part] for part in parts)


def _words(text: str) -> Iterator[str]:
    """Runs of letters, single digits, runs of anything else that is no space, and the short endings."""
    i = 0
    while i < len(text):
        short = next((ending for ending in _SHORT if text.startswith(ending, i)), None)
        kind, end = _kind(text[i]), i + 1
        if short is not None:
            end = i + len(short)
        elif kind != "N":
            while end < len(text) and _kind(text[end]) == kind:
                end += 1
        if kind != " ":
            yield text[i:end]
        i = end


def _kind(character: str) -> str:
    if character.isspace():
        return " "
    category = unicodedata.category(character)[0]
    return category if category in "LN" else "other"
