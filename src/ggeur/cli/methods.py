"""`ggeur methods`: the federated methods there are."""

import inspect

from rich.table import Table

from ggeur.cli.screen import console, say

_BOUNDS = ("FedAvg of each client alone; accuracies averaged.", "FedAvg with all data in one place.")


def methods() -> None:
    """List the federated methods and their parameters."""
    from ggeur.methods import factory, names, parameters
    from ggeur.methods.algorithm import Bound, Chosen, Given, Solved, Trained

    table = Table("method", "what it does", "parameters")
    for name in names(Trained, Solved, Chosen, Given):
        about = inspect.getdoc(inspect.getmodule(factory(name))) or ""
        values = [f"{p.name} = {p.default!r}" for p in parameters(name).values()]
        table.add_row(name, about.partition("\n")[0], ", ".join(values))
    for name, about in zip(names(Bound), _BOUNDS, strict=True):
        table.add_row(name, f"Bound: {about}", "")
    console.print(table)
    say('Your own: [train] method = "package.module:name".')
