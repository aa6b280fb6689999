"""Pages of the Python API: one per public name, from its docstring, signature and source."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ggeur

ROOT = Path(__file__).resolve().parents[1]
# What is public, by subject; a name that is missing here fails the build.
SUBJECTS = {
    "Statistics and shapes": ["ClassStatistics", "Geometry", "similarity", "SiteStatistics"],
    "Drawing along shapes": ["augment", "DrawRule", "Prototypes"],
    "A federation by hand": ["first_head", "batch_order"],
    "Sites to a model": ["fit", "OneShotClassifier", "load_model", "Model"],
    "Experiments": ["Experiment", "run", "Result", "paired_difference"],
    "Data": [
        "EmbeddingTable",
        "TableFiles",
        "TableColumns",
        "ImageTable",
        "ImageSet",
        "partition",
        "digits",
        "load_encoder",
    ],
    "Custom parts": ["Method", "ClosedForm", "Augmentation", "Head", "Encoder", "Release", "Noise"],
    "Errors": ["GgeurError", "GgeurWarning"],
}
SECTION = re.compile(r"^(Parameters|Attributes|Returns)\n-+\n((?:.+\n?)+)", re.M)
DRIVEN = {"set_fit_request", "set_partial_fit_request", "set_score_request"}  # scikit-learn's own


class Documented(NamedTuple):
    """A docstring: its words before and after the sections, and each section as (name, words) pairs."""

    words: str
    examples: str
    sections: dict[str, list[tuple[str, str]]]


def read(thing: Any) -> Documented:
    """Return the docstring of `thing`, by its parts."""
    text = inspect.getdoc(thing) or ""
    sections = {found[1]: _entries(found[2]) for found in SECTION.finditer(text + "\n")}
    plain = re.sub(r"^Examples\n-+\n", "", SECTION.sub("", text + "\n"), flags=re.M).strip()
    plain = re.sub(r"\n{3,}", "\n\n", plain)
    at = plain.find(">>>")
    return Documented(plain if at < 0 else plain[:at].strip(), "" if at < 0 else plain[at:].strip(), sections)


def _entries(block: str) -> list[tuple[str, str]]:
    """Return (name, words) of a section; a type on the line of the name, as numpydoc has it, is left out."""
    found = []
    for entry in re.split(r"\n(?=\S)", block.strip("\n")):
        first, *rest = entry.splitlines()
        name, colon, words = first.partition(" : ")
        if rest and (", default" in words or re.fullmatch(r"[\w.]+|\{.*\}", words)):
            words = ""
        told = " ".join([words if colon else first, *map(str.strip, rest)]).strip()
        found += [(one, told) for one in (name.strip().split(", ") if colon else [""])]
    return found


def pages() -> dict[str, str]:
    """Return the text of every page of the API, by its path."""
    told = [name for names in SUBJECTS.values() for name in names]
    if set(told) != set(ggeur.__all__):
        raise SystemExit(f"tools/api_pages.py: SUBJECTS and ggeur.__all__ differ: {set(told) ^ set(ggeur.__all__)}")
    found = {"api/index.md": index()}
    for name in told:
        thing = getattr(ggeur, name)
        found[f"api/{name}.md"] = page(name, thing)
        found.setdefault(*source(thing))
    return found


def index() -> str:
    """Return the first page: every name with its first sentence."""
    text = ["# Python API\n\nAll of it is `import ggeur`. Lines that start with `>>>` are run by the tests.\n"]
    for subject, names in SUBJECTS.items():
        text.append(f"## {subject}\n\n| name | what it is |\n|---|---|")
        for name in names:
            first = (inspect.getdoc(getattr(ggeur, name)) or "").splitlines()[0]
            text.append(f"| [`ggeur.{name}`]({name}.md) | {_cell(first)} |")
        text.append("")
    return "\n".join(text)


def page(name: str, thing: Any) -> str:
    """Return the page of a class, function or module."""
    text = [f"# ggeur.{name}\n"]
    if not inspect.ismodule(thing):
        text.append(f"```py\n{signature(name, thing)}\n```\n")
    text.append(_body(thing))
    if inspect.isclass(thing) or inspect.ismodule(thing):
        for part, member in members(thing):
            text.append(f"## {part}\n\n```py\n{signature(part, member)}\n```\n")
            text.append(_body(member))
    path, _ = source(thing)
    line = 1 if inspect.ismodule(thing) else inspect.getsourcelines(thing)[1]
    text.append(f"[Source](../{path}#__codelineno-0-{line})\n")
    return "\n".join(text)


def members(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the documented public functions that `thing` defines itself."""
    home = getattr(thing, "__module__", None) or thing.__name__
    for part, member in vars(thing).items():
        member = getattr(member, "__func__", member)
        ours = inspect.isfunction(member) and member.__module__ == home
        if ours and not part.startswith("_") and member.__doc__ and part not in DRIVEN:
            yield part, member


def _body(thing: Any) -> str:
    told = read(thing)
    text = [told.words, ""]
    if inspect.isclass(thing):
        text += _table("Parameters", told.sections.get("Parameters", []), *given(thing))
        text += _table("Attributes", attributes(thing, told), types_of(thing), None)
    else:
        text += _table("Parameters", told.sections.get("Parameters", []), *given(thing))
        back = told.sections.get("Returns", [])
        kind = shown_type(inspect.signature(thing).return_annotation) if inspect.isroutine(thing) else ""
        if back or kind not in ("", "None"):
            text += [f"**Returns** {f'`{kind}`' if kind else ''} {' '.join(words for _, words in back)}".rstrip(), ""]
    if told.examples:
        text += [f"**Example**\n\n```pycon\n{told.examples}\n```\n"]
    return "\n".join(text)


def _table(
    title: str, told: list[tuple[str, str]], kinds: dict[str, str], defaults: dict[str, str] | None
) -> list[str]:
    """Return a table of what is `told`; of parameters also those that nothing is told of."""
    words = dict(told)
    names = list(dict.fromkeys([*(kinds if defaults is not None else ()), *words]))
    if not names:
        return []
    head = (
        "| name | type | default | meaning |\n|---|---|---|---|"
        if defaults
        else "| name | type | meaning |\n|---|---|---|"
    )
    lines = [f"**{title}**\n", head]
    for name in names:
        cells = [f"`{name}`", f"`{_cell(kinds[name])}`" if kinds.get(name) else ""]
        if defaults:
            cells.append(f"`{_cell(defaults[name])}`" if name in defaults else "")
        lines.append("| " + " | ".join([*cells, _cell(words.get(name, ""))]) + " |")
    return [*lines, ""]


def given(thing: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Return type and default of every parameter."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return {}, {}
    own = [p for p in parameters if p.name not in ("self", "cls") and (p.kind is not p.VAR_POSITIONAL)]
    if inspect.isclass(thing) and (_is_protocol(thing) or issubclass(thing, Warning)):
        return {}, {}
    kinds = {
        p.name: shown_type(p.annotation) for p in own if p.kind is not p.VAR_KEYWORD or p.annotation is not p.empty
    }
    return kinds, {p.name: shown_default(p.default) for p in own if p.default is not p.empty}


def attributes(thing: Any, told: Documented) -> list[tuple[str, str]]:
    """Return the attributes that the docstring has, and every other public property with its first sentence."""
    found = dict(told.sections.get("Attributes", []))
    for part, member in vars(thing).items():
        getter = getattr(member, "fget", None) or getattr(member, "func", None)
        if not part.startswith("_") and getter is not None:
            doc = (inspect.getdoc(getter) or "").partition("\n")[0]
            found.setdefault(part, doc)
    return list(found.items())


def types_of(thing: Any) -> dict[str, str]:
    """Return the type of every property and annotated field."""
    kinds = {name: shown_type(kind) for name, kind in inspect.get_annotations(thing).items()}
    for part, member in vars(thing).items():
        getter = getattr(member, "fget", None) or getattr(member, "func", None)
        if getter is not None and hasattr(getter, "__annotations__"):
            kinds[part] = shown_type(getter.__annotations__.get("return", inspect.Signature.empty))
    return kinds


def shown_type(kind: Any) -> str:
    """Return a type as it is written, without the modules."""
    if kind is inspect.Signature.empty:
        return ""
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    text = re.sub(r"ForwardRef\('(.*?)'\)", r"\1", text)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])", "", text)


def shown_default(value: Any) -> str:
    """Return a default as it is written; a function or factory by a dash."""
    text = repr(value)
    return "..." if text.startswith("<") or " at 0x" in text else text


def signature(name: str, thing: Any) -> str:
    """Return the call, one parameter to a line where it is longer than 72 characters."""
    if inspect.isclass(thing) and (_is_protocol(thing) or issubclass(thing, Warning)):
        return f"class {name}"
    own = [p for p in inspect.signature(thing).parameters.values() if p.name not in ("self", "cls")]
    parts, starred = [], False
    for p in own:
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred |= p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        parts.append(f"{prefix}{p.name}" + ("" if p.default is p.empty else f"={shown_default(p.default)}"))
    short = f"{name}({', '.join(parts)})"
    return short if len(short) <= 72 else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def source(thing: Any) -> tuple[str, str]:
    """Return the page of the source file that defines `thing`: its path and text."""
    file = Path(inspect.getsourcefile(thing) or "")
    path = f"source/{file.relative_to(ROOT / 'src' / 'ggeur').with_suffix('').as_posix().replace('/', '.')}.md"
    code = file.read_text(encoding="utf-8").replace("```", "`` `")
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {file.relative_to(ROOT).as_posix()}\n\n"
    return path, f'{head}```py linenums="1"\n{code}```\n'


def _is_protocol(thing: Any) -> bool:
    return bool(getattr(thing, "_is_protocol", False))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
