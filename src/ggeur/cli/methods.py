"""`ggeur methods`: list the federated methods."""

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from ggeur.cli.screen import console, say

_BOUNDS = ("FedAvg of each client alone; accuracies averaged.", "FedAvg with all data in one place.")


class About(NamedTuple):
    """The description of a method in its source file."""

    summary: str
    parameters: dict[str, str]  # name and default, as they are written


def methods() -> None:
    """List the federated methods and their parameters."""
    from ggeur.methods import names
    from ggeur.methods.algorithm import ClosedForm, Iterative, Reference, Selection, ZeroShot

    table = Table("method", "what it does", "parameters")
    for name in names(Iterative, ClosedForm, Selection, ZeroShot):
        about = read_about(name)
        table.add_row(name, about.summary, ", ".join(f"{key} = {value}" for key, value in about.parameters.items()))
    for name, summary in zip(names(Reference), _BOUNDS, strict=True):
        table.add_row(name, f"Bound: {summary}", "")
    console.print(table)
    say('Custom methods: [train] method = "package.module:name".')


def read_about(name: str) -> About:
    """Return the description of the method `name`, parsed from its file, since an import would load JAX."""
    from ggeur.methods import SHARED, place_of

    module, function = place_of(name)
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    (defined,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    pairs = zip(defined.args.kwonlyargs, defined.args.kw_defaults, strict=True)
    parameters = {key.arg: "" if value is None else ast.unparse(value) for key, value in pairs if key.arg not in SHARED}
    return About((ast.get_docstring(tree) or "").partition("\n")[0], parameters)
