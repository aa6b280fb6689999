"""`card.md`: what a model is, whose rows are in it and what it promises, for people who did not make it."""

from collections.abc import Mapping, Sequence
from typing import Any

from ggeur.federation.ledger import Ledger
from ggeur.runs.model import Model
from ggeur.runs.promise import sentences
from ggeur.runs.result import Cell

_ENCODER = (("Encoder:", "encoder"), ("weights", "weights"), ("preprocessing", "preprocessing"))


def card(model: Model, ledger: Ledger, sealed: bool, history: Sequence[Mapping[str, Any]]) -> str:
    """The card of a solved `model` of the sites in the `ledger`; `history` are its receipts."""
    a = model.algorithm
    constants = ", ".join(f"{key} = {value}" for key, value in a["constants"].items()) or "none"
    many = "one site" if len(ledger.entries) == 1 else f"{len(ledger.entries)} sites"
    lines = [
        "# Model card",
        "",
        f"A classifier of {len(model.class_names)} classes on frozen embeddings of {model.dimension} dimensions, "
        f"solved by `ggeur fit` from sums that {many} sent once. {_privacy(model.privacy)}",
        "",
        f"- Classes: {', '.join(model.class_names)}",
        _encoder(model),
        f"- Method: {a['method']} ({constants}), from {a['statistics']} statistics",
        *([f"- Why: {a['why']}"] if a["why"] else []),
        *([f"- Chosen with the help of: {_chosen_by(a['chosen_by'], ledger)}"] if a["chosen_by"] else []),
        "",
        "| site | rows | classes |",
        "|---|---|---|",
        *(f"| {_cell(e.name)} | {e.rows} | {len(e.class_names)} |" for e in ledger.entries),
        "",
        *_scores(model.metrics, bool(history)),
        *_history(history, ledger),
        "Sites can join and leave: `ggeur add`, `ggeur forget`. After a site has been forgotten, the head equals, bit "
        "for bit and with the same constants, one that never saw it. Copies made before are not reached by this.",
        "",
        "`total.npz` holds what all sites' sums come to, and `ledger.json` salted hashes of them."
        if sealed
        else "`sums/` holds every site's sums: keep it where the sites agreed that it may lie.",
        "To hand the model on, copy `head.npz`, `model.json` and `card.md` alone.",
        "",
    ]
    return "\n".join(lines)


def card_of_cell(model: Model, cell: Cell) -> str:
    """The card of a `model` that a run made, in one of its cells."""
    how = cell.taken or cell.method
    lines = [
        "# Model card",
        "",
        f"A classifier of {len(model.class_names)} classes on frozen embeddings of {model.takes} dimensions: {how}, "
        f"augmentation {cell.augment}, seed {cell.seed}.",
        "",
        f"- Classes: {', '.join(model.class_names)}",
        _encoder(model),
        "",
        "## Privacy",
        "",
        *(f"- {sentence}" for sentence in sentences(cell.privacy) or ["Nothing was promised of it."]),
        "",
        *_scores({"domains": cell.domains, "avg": cell.avg} if cell.avg is not None else {}, False),
    ]
    return "\n".join(lines)


def _encoder(model: Model) -> str:
    said = (f"{what} {model.encoder.get(key, 'not known')}" for what, key in _ENCODER)
    return f"- {', '.join(said)}"


def _privacy(made: Mapping[str, Any]) -> str:
    if not made:
        return (
            "Sums are not anonymous: of a class with one row at a site they are that row, and a head may show it. "
            "Nothing was promised of privacy."
        )
    return (
        f"{' '.join(sentences(made))} So no row can be read off the sums; who was among the rows still can be found "
        "out from them, and they are not differentially private."
    )


def _cell(text: str) -> str:
    """As a table of Markdown can hold it."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")


def _chosen_by(names: Sequence[str], ledger: Ledger) -> str:
    there = [name for name in names if name in ledger.names]
    gone = len(names) - len(there)
    return ", ".join([*there, *([f"{gone} more, no longer in"] if gone else [])])


def _scores(metrics: Mapping[str, Any], changed: bool) -> list[str]:
    if not metrics and changed:
        return ["No test rows were scored again since a site joined or left, so nothing says how well it does now.", ""]
    if not metrics:
        return ["No test rows were given, so nothing says how well it does.", ""]
    scores = "; ".join(f"{name} {value:.1f}" for name, value in metrics["domains"].items())
    return [f"On test rows that were left out, percent right: {scores}; mean {metrics['avg']:.1f}.", ""]


def _history(history: Sequence[Mapping[str, Any]], ledger: Ledger) -> list[str]:
    """Without the names of those who have left: the card is handed on, the receipts, which have them, are not."""
    said = []
    for r in history:
        site = r.get("site") if r.get("site") in ledger.names else "a site that is no longer in"
        note = f": {r['note']}" if r.get("note") else ""
        said.append(f"{r.get('date', '')} {r.get('what', '')} {site}{note}".strip())
    return ["History:", "", *(f"- {line}" for line in said), ""] if said else []
