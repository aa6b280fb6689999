"""The page of the commands: usage, words and a table of options of each, as `--help` has them."""

import re
from collections.abc import Iterator
from typing import Any


def text() -> str:
    """Return the page."""
    import click
    import typer

    from ggeur.cli.app import GROUPS, app

    root: Any = typer.main.get_command(app)
    lines = ["# Commands\n\nEvery command has `--help`. A mistake ends with exit code 2 and one sentence.\n"]
    for group, functions in GROUPS.items():
        lines.append(f"## {group}\n")
        for function in functions:
            lines += command(root.commands[function.__name__], f"ggeur {function.__name__}")
    lines.append("## Real machines\n")
    for name, one in root.commands["federate"].commands.items():
        if isinstance(one, click.Command):
            lines += command(one, f"ggeur federate {name}")
    return "\n".join(lines)


def command(one: Any, name: str) -> Iterator[str]:
    """Yield the lines about a command."""
    import click

    shown = [p for p in one.params if not getattr(p, "hidden", False) and p.name != "help"]
    arguments = [p for p in shown if isinstance(p, click.Argument)]
    words = " ".join(_argument(p) for p in arguments)
    required = [
        f"{_longest(p)} {p.make_metavar(click.Context(one))}" for p in shown if p.required and p not in arguments
    ]
    yield f"### {name}\n\n{_plain(one.help or '')}\n"
    yield f"```sh\n{' '.join(filter(None, [name, words, *required]))}\n```\n"
    if shown:
        yield "| argument or option | default | meaning |\n|---|---|---|"
    for p in shown:
        label = _argument(p) if p in arguments else _longest(p)
        yield f"| `{label}` | {_default(p)} | {_plain(p.help or '')} |"
    yield ""


def _argument(p: Any) -> str:
    return (p.metavar or p.name.upper()) + ("..." if p.nargs == -1 else "")


def _longest(p: Any) -> str:
    return str(max(p.opts, key=len))


def _default(p: Any) -> str:
    if isinstance(p.show_default, str):
        return p.show_default
    if p.required:
        return "required"
    if p.default is None or getattr(p, "is_flag", False) or callable(p.default) or p.default in ((), [], ""):
        return ""
    return f"`{p.default}`"


def _plain(words: str) -> str:
    return re.sub(r"\s+", " ", words.replace("\\[", "[")).replace("|", "\\|").replace("<", "&lt;").strip()
