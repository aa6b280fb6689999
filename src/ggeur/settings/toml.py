"""Write a tree of sections as TOML, which the standard library reads but does not write."""

from collections.abc import Iterator, Mapping
from typing import Any

import tomli_w

from ggeur.core.errors import GgeurError


def to_toml(tree: Mapping[str, Any]) -> str:
    """Return `tree`, whose values TOML can hold, as TOML text; its arms become [[arm]]."""
    given = tree.get("arm")
    arms = given if isinstance(given, list) and all(isinstance(arm, Mapping) for arm in given) else []
    try:
        text = tomli_w.dumps({name: part for name, part in tree.items() if name != "arm" or not arms})
        for arm in arms:  # tomli-w would make one line of a short one
            text += "\n[[arm]]\n" + tomli_w.dumps({"arm": arm}).removeprefix("[arm]\n")
        text.encode()
    except (TypeError, ValueError) as error:
        reason = str(error).split(". ")[0].rstrip(".")
        raise GgeurError(f"The experiment cannot be written as TOML: {reason}.", code="experiment-not-toml") from error
    return text


def flat(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value of a tree of sections with its path, which begins with `path`."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, (*path, name))
        else:
            yield (*path, name), value
