"""`ggeur audit`: what each party to a federation can find out about its samples."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from ggeur.cli.screen import console, notes, say, titled_table
from ggeur.core.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.experiment.audit import Audit, Finding

_SHOWN = 40  # trials of a long table, unless all are asked for
_NAME = 13  # letters of a client or class, so that all verdicts fit into 80 columns


def audit(
    source: Annotated[Path, typer.Argument(metavar="TABLE|RUN", help="Embedding table (.npz), or run folder.")],
    partition: Annotated[
        str | None,
        typer.Option(help="Of a table: dirichlet, domain or label-and-domain. Default: by the number of domains."),
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="Of a table: clients of a dirichlet partition.")] = 10,
    beta: Annotated[float, typer.Option(help="Of a table: skew of the labels.")] = 0.1,
    covariance: Annotated[
        str | None,
        typer.Option(help="Of a table: what sites send, per-class, pooled or means.", show_default="per-class"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of a table: seed of split and partition.")] = 0,
    min_count: Annotated[
        int, typer.Option(min=0, help="What would be left if trials under so many samples were not shared.")
    ] = 0,
    fail_on: Annotated[
        str | None, typer.Option(help="exact: end with exit code 1 if any sample can be recovered exactly.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Show every trial, however many there are.")] = False,
) -> None:
    """Attack what sites send, as each party sees it, and show what it gives away."""
    from ggeur.experiment.audit import audit as audit_of
    from ggeur.experiment.audit import audit_run, table_settings
    from ggeur.experiment.audit_file import save_audit
    from ggeur.report.audit_section import audit_words

    if fail_on not in (None, "exact"):
        raise GgeurError(f"--fail-on takes exact, not '{fail_on}'.", code="option-fail-on-unknown")
    with notes():
        if source.is_dir():
            if partition is not None or covariance is not None:
                raise GgeurError(
                    "A run says itself how it was dealt out and what sites sent; give those for a table.",
                    code="option-conflict-audit",
                )
            found = audit_run(source, min_count)
        else:
            point = table_settings(source, partition, clients, beta, covariance or "per-class", seed)
            found = audit_of(point, seed, min_count)
    console.print(_table(found, every=all_))
    for sentence in audit_words(found):
        say(sentence)
    if min_count:
        say(f"Cells under {min_count} samples were taken as not shared, as [privacy] min_count = {min_count} has it.")
    elif source.is_dir():
        say(f"{save_audit(found, source)} keeps this for `ggeur report`.", soft_wrap=True)
    if fail_on and found.exact:
        raise typer.Exit(1)


def _table(found: "Audit", *, every: bool) -> Table:
    from ggeur.experiment.audit import ORDER, PARTIES

    trials: dict[tuple[int, int], dict[str, Finding]] = {}
    for f in found.findings:
        trials.setdefault((f.client, f.label), {})[f.party] = f
    shown = sorted(trials)
    if not every and len(trials) > _SHOWN:
        worst = sorted(
            trials, key=lambda at: (-max(ORDER.index(f.found) for f in trials[at].values()), _rows(trials[at]))
        )
        shown = sorted(worst[:_SHOWN])
    left = (
        f" The worst {len(shown)} of {len(trials):,} trials; --all shows every one." if len(shown) < len(trials) else ""
    )
    table = titled_table(
        f"what follows from {found.kind or 'no'} statistics, by who looks",
        *(Column(name, overflow="ellipsis", no_wrap=True, max_width=_NAME) for name in ("client", "class")),
        Column("samples", justify="right", no_wrap=True),
        *(Column(party, no_wrap=True) for party in PARTIES),
        caption="exact: samples recovered to a millionth. span: tells who is among the samples without error. AUC: how "
        f"often it tells a sample from one held out; 0.5 is a coin. -: nothing found.{left}",
        padding=(0, 0),
    )
    for k, c in shown:
        here = trials[k, c]
        names = escape(found.clients[k]), escape(found.classes[c])
        table.add_row(*names, f"{_rows(here):,}", *(_short(here[party]) for party in PARTIES))
    return table


def _rows(trial: dict[str, "Finding"]) -> int:
    return trial["server"].samples


def _short(f: "Finding") -> str:
    if f.found == "exact samples":
        return "[red]exact[/]" if f.recovered == f.samples else f"[red]exact {f.recovered}/{f.samples}[/]"
    return {"membership": f"AUC {f.auc or 0:.2f}", "nothing found": "-"}.get(f.found, f.found)
