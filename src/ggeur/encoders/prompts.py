"""Prompts by name: templates for class names before a text tower sees them; a table keeps a set of text for each.

A set of text holds for every class the mean over templates of unit text embeddings, of unit length again.
"""

import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import packaged_toml

USUAL = ("single", "fedclip", "bare")  # the sets a table gets by default: a prompt a class each
OWN = "own"  # the set of templates that are given one by one


class Prompts(NamedTuple):
    """Templates with {} for the name of a class; `as_they_are`: underscores of names are not made spaces."""

    templates: tuple[str, ...]
    as_they_are: bool = False

    @classmethod
    def of(cls, templates: Sequence[str], *, as_they_are: bool = False) -> "Prompts":
        """These `templates`, every {the} of which stands for "a" and "the", in turn."""
        if not templates or any("{}" not in template for template in templates):
            raise GgeurError(
                "A prompt must contain {} where the name of the class goes.", code="prompts-without-placeholder"
            )
        each = [template.replace("{the}", article) for article in ("a", "the") for template in templates]
        return cls(tuple(dict.fromkeys(each)), as_they_are)

    def names(self, class_names: Sequence[str]) -> list[str]:
        """The names of classes as they go into the templates."""
        return [name if self.as_they_are else name.replace("_", " ") for name in class_names]


@cache
def known_prompts() -> dict[str, Prompts]:
    """Ours, by name.

    >>> {name: len(prompts.templates) for name, prompts in known_prompts().items()}
    {'single': 1, 'fedclip': 1, 'bare': 1, 'clip18': 18, 'clip80': 80}
    """
    return {
        name: Prompts.of(entry["templates"], as_they_are=entry.get("as_they_are", False))
        for name, entry in packaged_toml("encoders", "prompts.toml").items()
    }


def prompt_sets(names: Sequence[str] = USUAL, templates: Sequence[str] = ()) -> dict[str, Prompts]:
    """Return the sets `names` stand for: ours, or a user's file with a template on every line, called as the file is.

    `templates`, given one by one, are the set `own`.
    """
    each = [_set(name) for name in names] + ([(OWN, Prompts.of(templates))] if templates else [])
    for i, (name, _) in enumerate(each):
        if name in [earlier for earlier, _ in each[:i]]:
            raise GgeurError(
                f"Two sets of prompts are called '{name}'; give one of their files another name.",
                code="prompts-name-repeated",
            )
    return dict(each)


def _set(name: str) -> tuple[str, Prompts]:
    ours = known_prompts()
    if name in ours:
        return name, ours[name]
    path = Path(name)
    if not path.is_file():
        raise GgeurError(
            f"There are no prompts '{name}': there are {', '.join(ours)}, or a file of your own.",
            code="prompts-unknown",
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise GgeurError(f"Cannot read the prompts in {path}: {error}.", code="file-unreadable") from error
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in path.stem):
        raise GgeurError(
            f"The name of the file {path.stem!r} holds control characters; call it something plain.",
            code="prompts-name-invalid",
        )
    if path.stem in ours:
        raise GgeurError(
            f"The prompts in {path} would be called '{path.stem}', as ours are; name the file otherwise.",
            code="prompts-name-reserved",
        )
    found = {number: line.strip() for number, line in enumerate(lines, 1) if line.strip()}
    if not found:
        raise GgeurError(
            f"{path} has no prompts; it must have one on every line, with {{}} where the name goes.",
            code="prompts-file-empty",
        )
    for number, line in found.items():
        if "{}" not in line:
            raise GgeurError(
                f"{path}, line {number}: a prompt must contain {{}} where the name of the class goes.",
                code="prompts-without-placeholder",
            )
    return path.stem, Prompts.of(list(found.values()))
