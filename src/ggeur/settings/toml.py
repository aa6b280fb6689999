"""A tree of sections as TOML text, which the standard library reads but does not write."""

from collections.abc import Iterator, Mapping
from typing import Any


def to_toml(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """A tree of sections as TOML text."""
    arms = [] if path else tree.get("arm", [])
    plain = {n: v for n, v in tree.items() if not isinstance(v, Mapping) and (path or n != "arm")}
    lines = [f"[{'.'.join(map(_key, path))}]"] if path and (plain or not tree) else []
    lines += [f"{_key(name)} = {_value(value)}" for name, value in plain.items()]
    text = "".join(f"{line}\n" for line in lines)
    text += "".join(to_toml(part, (*path, name)) for name, part in tree.items() if isinstance(part, Mapping))
    for arm in arms:
        text += "[[arm]]\n" + "".join(f"{'.'.join(map(_key, k))} = {_value(v)}\n" for k, v in flat(arm))
    return text


def flat(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value of a tree of sections, by its path."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, (*path, name))
        else:
            yield (*path, name), value


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_value(part)}" for name, part in value.items()) + "}"
    return repr(value)
