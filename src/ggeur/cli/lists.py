"""`ggeur methods | datasets | encoders`: what there is."""

import inspect

from rich.table import Table

from ggeur.cli.show import console


def methods() -> None:
    from ggeur.methods import METHODS, factory, parameters

    table = Table("method", "what it does", "parameters")
    for name in METHODS:
        about = inspect.getdoc(inspect.getmodule(factory(name))) or ""
        values = [f"{p.name} = {p.default!r}" for p in parameters(name).values()]
        table.add_row(name, about.partition("\n")[0], ", ".join(values))
    console.print(table)
    console.print('Your own: [train] method = "package.module:name".', markup=False, highlight=False)


def datasets() -> None:
    table = Table("dataset", "domains", "classes", "where it is")
    table.add_row("mini-digits", "handwritten, typeset, clutter, texture", "10", "built in, made on the spot")
    console.print(table)


def encoders() -> None:
    from ggeur.encode.builtin import BuiltinEncoder

    encoder = BuiltinEncoder()
    table = Table("encoder", "dimensions", "preprocessing")
    table.add_row(encoder.name, str(encoder.dimension), encoder.preprocessing)
    console.print(table)
