"""One name, one thing: no public class or function is defined in two modules, but for those listed here."""

import ast
from collections import defaultdict
from pathlib import Path

import ggeur

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "ggeur"

COMMANDS = {
    "audit",
    "cost",
    "embed",
    "fit",
    "run",
    "serve",
    "summarize",
    "up",
}  # cli/NAME declares it and calls what has its name
ROLES = {
    "factory": "a registry of names: the function behind one of them",
    "resolve": "a registry of names: what one of them stands for, built",
    "sizes": "a head: the parameters that are sizes of its arrays; and the registry, which asks the head",
    "mixture": "a solver and the head whose parameters it computes",
    "blend": "a solver and the head whose parameters it computes",
    "kernel": "a solver and the head whose parameters it computes",
    "main": "a program of its own: the command line, and what starts Flower's processes",
}


FORMER = {"book", "books", "lane", "lanes", "spool"}  # words of names that do not come back
FORMER_NAMES = {"digest_of_sums", "load_sums", "save_sums", "sums_"}


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
    assert twice == {}


def test_what_is_listed_is_as_it_says():
    twice = duplicates(PACKAGE)
    for name in COMMANDS:
        *commands, function = twice[name]
        assert {*commands} <= {f"cli/{name}", f"cli/federate/{name}"} and not function.startswith("cli/"), name
    assert set(ROLES) <= set(twice)


def test_a_name_of_two_modules_is_seen(tmp_path):
    (tmp_path / "a.py").write_text("class Thing: ...\ndef _private(): ...\n")
    (tmp_path / "b.py").write_text("def Thing(): ...\ndef _private(): ...\n")
    (tmp_path / "c.py").write_text("from a import Thing\n")
    assert duplicates(tmp_path) == {"Thing": ["a", "b"]}


def former(package: Path) -> list[str]:
    """Return what has a former name: modules, functions, classes, parameters, attributes, variables."""
    found = []
    for path in package.rglob("*.py"):
        names = [path.stem]
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.append(node.name)
            elif isinstance(node, ast.arg):
                names.append(node.arg)
                if node.arg == "own" and node.annotation and ast.unparse(node.annotation) in ("bool", "Custom"):
                    found.append(f"{path.stem}: own, which is custom")
            elif isinstance(node, ast.Attribute | ast.Name):
                names.append(node.attr if isinstance(node, ast.Attribute) else node.id)
        found += [f"{path.stem}: {n}" for n in names if n in FORMER_NAMES or FORMER & {*n.lower().split("_")}]
    return found


def test_former_names_do_not_come_back(tmp_path):
    assert former(PACKAGE) == []
    (tmp_path / "a.py").write_text("def f(own: bool, kept_lane): return self.sums_, own\n")
    assert former(tmp_path) == ["a: own, which is custom", "a: kept_lane", "a: sums_"]


def names_in(module: Path) -> set[str]:
    """Return the names that a module, or a package, has at its top level."""
    path = module.with_suffix(".py") if module.with_suffix(".py").exists() else module / "__init__.py"
    tree = ast.parse(path.read_bytes())
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    bound |= {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}
    return bound | ({p.stem for p in module.iterdir()} if module.is_dir() else set())


def test_what_benchmarks_tools_and_examples_import_is_there():
    """They are not run by the tests, and mypy does not look at them."""
    root, lazy = PACKAGE.parents[1], set(ggeur.__all__)
    for path in [p for folder in ("benchmarks", "tools", "examples") for p in (root / folder).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module.split(".")[0] in ("ggeur", "benchmarks")
            ):
                base = PACKAGE.parent if node.module.startswith("ggeur") else root
                there = names_in(base / node.module.replace(".", "/")) | (lazy if node.module == "ggeur" else set())
                assert {alias.name for alias in node.names} <= there, path
    page = (root / "benchmarks/__main__.py").read_text()
    every = next(n.value for n in ast.parse(page).body if isinstance(n, ast.Assign) and n.targets[0].id == "ALL")
    named = [node.value for node in ast.walk(every) if isinstance(node, ast.Constant)]
    assert len(named) > 5 and all((root / "benchmarks" / f"{name}.py").exists() for name in named)
