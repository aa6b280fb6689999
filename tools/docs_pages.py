"""Pages of the documentation that are made when the site is built: commands, Python, and what lies outside docs/.

mkdocs calls `on_files` and `on_page_markdown` (mkdocs.yml names this file as a hook).
"""

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import ggeur

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = {
    "benchmarks.md": "benchmarks/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "changes.md": "CHANGELOG.md",
}
PAGES = {path: name for name, path in ELSEWHERE.items()}
# What is public, by subject; a name that is missing here fails the build.
SUBJECTS = {
    "Statistics and shapes": ["ClassStatistics", "Geometry", "similarity", "SiteStatistics"],
    "Drawing along shapes": ["augment", "DrawRule", "Prototypes"],
    "A federation by hand": ["first_head", "batch_order"],
    "Sites to a model": ["fit", "OneShotClassifier", "load_model", "Model"],
    "Experiments": ["Experiment", "run", "Result", "paired_difference"],
    "Data": ["EmbeddingTable", "ImageTable", "ImageSet", "partition", "digits", "load_encoder"],
    "What you can write yourself": ["Method", "ClosedForm", "Augmentation", "Head", "Encoder", "Release", "Noise"],
    "When something is wrong": ["GgeurError", "GgeurWarning"],
}


def on_files(files: Any, config: Any) -> Any:
    """Add what is made to the pages that mkdocs found."""
    from mkdocs.structure.files import File

    made = {name: (ROOT / path).read_text(encoding="utf-8") for name, path in ELSEWHERE.items()}
    for name, text in {**made, "commands.md": commands(), "api.md": api()}.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in the tables of the reproduction; where a page names another by its file, link to it."""
    if page.file.src_uri.startswith("reproduction/"):
        markdown = _tool("paper").with_tables(markdown)
    up = "../" * page.file.src_uri.count("/")

    def link(found: re.Match[str]) -> str:
        path = found[1]
        name = PAGES.get(path, path.removeprefix("docs/"))
        there = path in PAGES or (ROOT / "docs" / name).is_file()
        return f"[{path}]({up}{name})" if there else found[0]

    return re.sub(r"(?<!\[)`((?:docs/)?[\w/-]+\.md)`", link, markdown)


def _tool(name: str) -> Any:
    """The module beside this one; mkdocs loads this file alone, and puts the path back."""
    if str(ROOT / "tools") not in sys.path:
        sys.path.append(str(ROOT / "tools"))
    return importlib.import_module(name)


def commands() -> str:
    """`--help` of every command, as a terminal of 88 columns shows it."""
    from typer.testing import CliRunner

    from ggeur.cli.app import COMMANDS, app

    runner = CliRunner(env={"COLUMNS": "88", "TERMINAL_WIDTH": "88", "NO_COLOR": "1", "TERM": "dumb"})
    pages = [[], *([c.__name__] for c in COMMANDS), ["federate"], ["federate", "up"], ["federate", "app"]]
    text = ["# Commands\n"]
    for words in pages:
        shown = runner.invoke(app, [*words, "--help"], prog_name="ggeur").output
        shown = "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", shown).strip("\n").splitlines())
        text.append(f"## {' '.join(['ggeur', *words])}\n\n```text\n{shown}\n```\n")
    return "\n".join(text)


def api() -> str:
    """Every public name, from its docstring."""
    told = [name for names in SUBJECTS.values() for name in names]
    if set(told) != set(ggeur.__all__):
        raise SystemExit(f"tools/docs_pages.py: SUBJECTS and ggeur.__all__ differ: {set(told) ^ set(ggeur.__all__)}")
    text = ["# Python\n\nAll of it is `import ggeur`. What starts with `>>>` is run by the tests.\n"]
    for subject, names in SUBJECTS.items():
        text.append(f"## {subject}\n")
        text += [_entry(f"ggeur.{name}", getattr(ggeur, name)) for name in names]
    return "\n".join(text)


def _entry(name: str, thing: Any, level: int = 3) -> str:
    text = [f"{'#' * level} {name}\n"]
    if inspect.isfunction(thing):
        text.append(f"```python\n{_signature(name, thing)}\n```\n")
    text.append(docstring(inspect.getdoc(thing) or ""))
    if inspect.ismodule(thing) or inspect.isclass(thing):
        for part, member in vars(thing).items():
            member = getattr(member, "__func__", member)
            ours = inspect.isfunction(member) and member.__module__ == getattr(thing, "__module__", thing.__name__)
            if ours and not part.startswith("_") and member.__doc__:
                text.append(_entry(f"{name}.{part}", member, level + 1))
    return "\n".join(text)


def _signature(name: str, function: Any) -> str:
    """Names and defaults, one to a line where they are many; what they may be is told below."""
    given = [
        p.replace(annotation=p.empty)
        for p in inspect.signature(function).parameters.values()
        if p.name not in ("self", "cls")
    ]
    short = str(inspect.Signature(given))
    if len(name) + len(short) <= 88 or len(given) < 2:
        return name.rpartition(".")[2] + short
    starred = [str(p) for p in given]
    keyword = next((i for i, p in enumerate(given) if p.kind is p.KEYWORD_ONLY), None)
    if keyword is not None and not any(p.kind is p.VAR_POSITIONAL for p in given):
        starred.insert(keyword, "*")
    return name.rpartition(".")[2] + "(\n" + "".join(f"    {p},\n" for p in starred) + ")"


def docstring(text: str) -> str:
    """As Markdown: parameters as a list, examples as code."""
    text = re.sub(r"^Parameters\n-+\n((?:.+\n?)+)", lambda m: _parameters(m[1]), text, flags=re.M)
    lines, made, in_code = text.splitlines(), [], False
    for i, line in enumerate(lines):
        starts, blank = line.startswith(">>>"), not line.strip()
        if starts and not in_code:
            made += ["", "```pycon"]
            in_code = True
        elif in_code and blank and not (i + 1 < len(lines) and lines[i + 1].startswith(">>>")):
            made.append("```")
            in_code = False
        made.append(line)
    return "\n".join([*made, *(["```"] if in_code else [])]) + "\n"


def _parameters(block: str) -> str:
    joined = re.sub(r"\n {2,}", " ", block)
    rows = [line.partition(" : ") for line in joined.splitlines()]
    return "\n" + "\n".join(f"- **`{name}`**: {what}" for name, _, what in rows) + "\n"
