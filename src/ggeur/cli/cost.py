"""`ggeur cost`: estimate the cost of a federation of any size."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.table import Column, Table

from ggeur.cli.screen import console, titled_table


def cost(
    clients: Annotated[
        int | None, typer.Option(min=1, help="Number of clients; default: from 10 to 100 million.", show_default=False)
    ] = None,
    classes: Annotated[int, typer.Option(min=1, help="Number of classes.")] = 10,
    dim: Annotated[int, typer.Option(min=1, help="Dimensions of the embeddings.")] = 512,
    client_mbit: Annotated[float, typer.Option(help="Bandwidth of a client, in Mbit/s.")] = 20.0,
    server_mbit: Annotated[float, typer.Option(help="Bandwidth of a server or aggregator, in Mbit/s.")] = 1000.0,
    patience: Annotated[float, typer.Option(help="Longest time to receive at one node, in seconds.")] = 600.0,
) -> None:
    """Estimate the cost of a federation of any size.

    Bytes, memory, operations and time.
    """
    from ggeur.experiments.cost import COVARIANCES
    from ggeur.experiments.cost import cost as cost_of
    from ggeur.stats.long_jobs import human_bytes, human_seconds

    sizes = [clients] if clients is not None else [10**e for e in range(1, 9)]
    headings = ("clients", "statistics", "up", "down", "own link", "server", "tree", "in all")
    table = titled_table(
        f"{classes} classes, {dim} dimensions; {client_mbit:g} Mbit/s a client, {server_mbit:g} a server",
        *(Column(heading, no_wrap=True) for heading in headings),
        caption="Per client: bytes up and down before training, and their time on its own link. Server: memory. "
        "Tree: levels x messages into one node. In all: until everyone has sent and received.",
        padding=(0, 0),
    )
    rows: list[list[str]] = []
    for n in sizes:
        for kind in COVARIANCES:
            p = cost_of(kind, n, classes, dim, client_mbit=client_mbit, server_mbit=server_mbit, patience=patience)
            line = [
                f"{n:,}" if kind == COVARIANCES[0] else "",
                kind,
                human_bytes(p.up),
                human_bytes(p.down),
                human_seconds(p.client_seconds),
                human_bytes(p.server_memory),
                "1 server" if p.levels == 1 else f"{p.levels} x {p.fan:,}",
                human_seconds(p.tree_seconds),
            ]
            table.add_row(*line, end_section=kind == COVARIANCES[-1])
            rows.append(line)
    if console.measure(table, options=console.options.update(max_width=1000)).maximum > console.width:
        console.print(str(table.title), highlight=False)
        for one in _upright(rows, headings):
            console.print(one)
        console.print(str(table.caption), highlight=False)
    else:
        console.print(table)
    per_round = human_bytes(p.per_round)
    console.print(
        f"Then {per_round} up and {per_round} down per client and round, for a linear head. Merging all takes "
        f"{p.additions:.1e} additions for the last row, shapes about {p.eigen_flops:.1e} operations, once.",
        highlight=False,
    )


def _upright(rows: list[list[str]], headings: tuple[str, ...]) -> Iterator[Table]:
    """Yield a table per number of clients, for a narrow terminal, with the kinds of statistics side by side."""
    starts = [i for i, trials in enumerate(rows) if trials[0]]
    for first, last in zip(starts, [*starts[1:], len(rows)], strict=True):
        kinds = rows[first:last]
        upright = titled_table(f"{kinds[0][0]} clients", "", *(Column(trials[1], no_wrap=True) for trials in kinds))
        for i, heading in enumerate(headings[2:], 2):
            upright.add_row(heading, *(trials[i] for trials in kinds))
        yield upright
