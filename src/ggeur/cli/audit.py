"""`ggeur audit`: measure what the server and the other sites can infer about samples."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from ggeur.cli.options import JsonLines, Quiet
from ggeur.cli.screen import console, event, notes, say, titled_table
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.experiments.audit import Audit, Finding

_SHOWN = 40  # groups of a long table, unless all are asked for
_NAME = 13  # characters of a client or class, so that all results fit into 80 columns


def audit(
    source: Annotated[Path, typer.Argument(metavar="TABLE|RUN", help="Embedding table (.npz), or run folder.")],
    partition: Annotated[
        str | None,
        typer.Option(help="Partition: dirichlet, domain or label-and-domain.", show_default="by the domains"),
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="Table: clients of a dirichlet partition.")] = 10,
    beta: Annotated[float, typer.Option(help="Table: Dirichlet parameter of the label skew.")] = 0.1,
    covariance: Annotated[
        str | None,
        typer.Option(help="Table: covariance sent, per-class, pooled or none.", show_default="per-class"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Table: seed of split and partition.")] = 0,
    min_count: Annotated[int, typer.Option(min=0, help="Leave out groups with fewer samples, as min_count does.")] = 0,
    fail_on: Annotated[
        str | None, typer.Option(help="exact: exit with 1 if a sample can be recovered exactly.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Show every group.")] = False,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Attack the statistics that sites send.

    Shows what they reveal to the server, another site, and whoever has the total or the model.
    """
    from ggeur.experiments.audit import audit as audit_of
    from ggeur.experiments.audit import audit_run, save_audit, table_settings
    from ggeur.report.sections import audit_words

    if fail_on not in (None, "exact"):
        raise GgeurError(f"--fail-on takes exact, not '{fail_on}'.", code="option-fail-on-unknown")
    with notes():
        if source.is_dir():
            if partition is not None or covariance is not None:
                raise GgeurError(
                    "A run already fixes its partition and covariance; leave out --partition and --covariance.",
                    code="option-conflict-audit",
                )
            found = audit_run(source, min_count)
        else:
            point = table_settings(source, partition, clients, beta, covariance or "per-class", seed)
            found = audit_of(point, seed, min_count)
    console.print(_table(found, every=all_))
    for one in found.findings:
        event("finding", **one._asdict())
    for sentence in audit_words(found):
        say(sentence)
    if min_count:
        say(f"Groups under {min_count} samples count as not shared, as with [privacy] min_count = {min_count}.")
    elif source.is_dir():
        say(f"{save_audit(found, source)} keeps this for `ggeur report`.", soft_wrap=True)
    if fail_on and found.exact:
        raise typer.Exit(1)


def _table(found: "Audit", *, every: bool) -> Table:
    from ggeur.experiments.audit import ORDER, PARTIES

    groups: dict[tuple[int, int], dict[str, Finding]] = {}
    for f in found.findings:
        groups.setdefault((f.client, f.label), {})[f.party] = f
    shown = sorted(groups)
    if not every and len(groups) > _SHOWN:
        worst = sorted(
            groups, key=lambda at: (-max(ORDER.index(f.found) for f in groups[at].values()), _samples(groups[at]))
        )
        shown = sorted(worst[:_SHOWN])
    left = (
        f" The worst {len(shown)} of {len(groups):,} groups; --all shows every one." if len(shown) < len(groups) else ""
    )
    table = titled_table(
        f"attacks on {found.kind or 'no'} statistics, by observer",
        *(Column(name, overflow="ellipsis", no_wrap=True, max_width=_NAME) for name in ("client", "class")),
        Column("samples", justify="right", no_wrap=True),
        *(Column(party, no_wrap=True) for party in PARTIES),
        caption="exact: samples recovered to a millionth (of features: a thousandth). span: tells who is among the "
        "samples without error. AUC: how "
        f"often it tells a sample from one held out; 0.5 is a coin. -: nothing found.{left}",
        padding=(0, 0),
    )
    for k, c in shown:
        group = groups[k, c]
        names = escape(found.clients[k]), escape(found.classes[c])
        table.add_row(*names, f"{_samples(group):,}", *(_short(group[party]) for party in PARTIES))
    return table


def _samples(group: dict[str, "Finding"]) -> int:
    return group["server"].samples


def _short(f: "Finding") -> str:
    if f.found == "exact samples":
        return "[red]exact[/]" if f.recovered == f.samples else f"[red]exact {f.recovered}/{f.samples}[/]"
    return {"membership": f"AUC {f.auc or 0:.2f}", "nothing found": "-"}.get(f.found, f.found)
