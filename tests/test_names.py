"""One name, one thing: no public class or function is defined in two modules, but for those listed here."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "ggeur"

COMMANDS = {"audit", "embed", "fit", "plan", "run", "serve", "up"}  # cli/NAME declares it and calls what has its name
ROLES = {
    "factory": "a registry of names: the function behind one of them",
    "resolve": "a registry of names: what one of them stands for, built",
    "sizes": "a head: the parameters that are sizes of its arrays; and the registry, which asks the head",
    "mixture": "a solver and the head whose parameters it computes",
    "blend": "a solver and the head whose parameters it computes",
    "main": "a program of its own: the command line, and what starts Flower's processes",
}
PENDING = {"Part", "bound", "by_rule", "check_site_name", "root"}  # one of each pair is still to get another name


def duplicates(package: Path) -> dict[str, list[str]]:
    """Return the modules of every public class or function that several define, by name."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in package.rglob("*.py"):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                found[node.name].add(path.relative_to(package).with_suffix("").as_posix())
    return {name: sorted(modules) for name, modules in found.items() if len(modules) > 1}


def test_no_public_name_is_defined_twice():
    twice = {name: modules for name, modules in duplicates(PACKAGE).items() if name not in COMMANDS | {*ROLES}}
    assert {name: modules for name, modules in twice.items() if name not in PENDING} == {}


def test_what_is_listed_is_as_it_says():
    twice = duplicates(PACKAGE)
    for name in COMMANDS:
        command, function = twice[name]
        assert command in (f"cli/{name}", f"cli/federate/{name}") and not function.startswith("cli/"), name
    assert set(ROLES) <= set(twice)


def test_a_name_of_two_modules_is_seen(tmp_path):
    (tmp_path / "a.py").write_text("class Thing: ...\ndef _private(): ...\n")
    (tmp_path / "b.py").write_text("def Thing(): ...\ndef _private(): ...\n")
    (tmp_path / "c.py").write_text("from a import Thing\n")
    assert duplicates(tmp_path) == {"Thing": ["a", "b"]}
