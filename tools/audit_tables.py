"""Make the audit's tables of docs/leakage.md anew, by attacking the messages that sites would send.

    python tools/audit_tables.py --data FOLDER [--only TABLE]

FOLDER holds the embedding tables. On the page a table stands between `<!-- audit: WHICH -->` and `<!-- end -->`.
"""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tables import ROOT, answered

from ggeur.experiments.audit import Audit, Finding, Party, audit
from ggeur.experiments.settings import settings
from ggeur.stats.errors import GgeurError

PAGE = ROOT / "docs" / "leakage.md"
MARKED = re.compile(r"<!-- audit: (.+?) -->\n(.*?)<!-- end -->", re.S)
_OFFICE, _DIGITS = ("Office-Caltech-10", "office_caltech10.tinyvit.npz"), ("digits", "digits.tinyvit.npz")
_CIFAR, _TINY = ("CIFAR-10", "cifar10.tinyvit.npz"), ("Tiny-ImageNet", "tiny_imagenet.tinyvit.npz")
_PARTIES: dict[str, Party] = {"the server": "server", "another client": "other client"}
_TOTALS: dict[str, Party] = {"the totals": "total", "the model": "model"}


class Case(NamedTuple):
    """A row: a table, what is said of it, and the settings in which it is dealt out and sent."""

    table: tuple[str, str]
    words: str
    train: Mapping[str, Any]
    augment: Mapping[str, Any]
    min_count: int = 0

    def audited(self, data: Path) -> Audit:
        """Its audit: seed 0, beta 0.1, by label and domain where there are domains, else ten clients by Dirichlet."""
        dealt = {"kind": "label-and-domain"} if self.table in (_OFFICE, _DIGITS) else {"kind": "dirichlet"}
        asked = {"data": {"table": str(data / self.table[1])}, "partition": dealt | {"beta": 0.1}}
        return audit(settings(asked | {"train": self.train, "augment": self.augment}), 0, self.min_count)


def _ggeur(table: tuple[str, str], statistics: str, min_count: int = 0) -> Case:
    alone = statistics == "none" and table in (_OFFICE, _DIGITS)  # where no shapes can be had from means
    augment = {"kind": "prototypes"} if alone else {"covariance": statistics}
    return Case(table, statistics, {}, augment, min_count)


_EACH = ((_OFFICE, "per-class"), (_DIGITS, "per-class"), (_DIGITS, "pooled"), (_DIGITS, "none"))
_EACH += ((_CIFAR, "per-class"), (_CIFAR, "pooled"), (_CIFAR, "none"), (_TINY, "per-class"), (_TINY, "pooled"))
TABLES = {
    "found": [_ggeur(*each) for each in _EACH],
    "threshold": [_ggeur(*each, 10) for each in _EACH if each[1] != "none"],
}


def drawn(cases: list[Case], data: Path) -> str:
    """A table in Markdown: who finds out what of how many trials."""
    by = _PARTIES | _TOTALS
    lines = [f"| table, statistics | trials | {' | '.join(by)} |", "|---|---|" + "---|" * len(by)]
    for case in cases:
        found = case.audited(data)
        told = [_told(found.of(party)) for party in by.values()]
        lines.append(f"| {case.table[0]}, {case.words} | {len(found.of('server')):,} | {' | '.join(told)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def _told(findings: list[Finding]) -> str:
    many = {what: [f for f in findings if f.found == what] for what in ("exact rows", "span", "membership", "not sent")}
    said = []
    if exact := many["exact rows"]:
        rows = sum(f.recovered for f in findings)
        said.append(f"{rows:,} {'row' if rows == 1 else 'rows'} in {len(exact):,}")
    if many["span"]:
        said.append(f"span {len(many['span']):,}")
    if guessed := many["membership"]:
        said.append(f"AUC {len(guessed):,} (to {max(f.auc or 0 for f in guessed):.2f})")
    if none := len(many["not sent"]):
        said.append(f"not sent {none:,}")
    return ", ".join(said) or "nothing"


def make(data: Path, only: list[str]) -> None:
    """Make the tables that are asked for, or all."""
    for name in set(only) - set(TABLES):
        raise GgeurError(f"There is no table '{name}'; there are {', '.join(TABLES)}.")
    wanted = {name: cases for name, cases in TABLES.items() if name in (only or TABLES)}
    made = {name: drawn(cases, data) for name, cases in wanted.items()}
    page = PAGE.read_text(encoding="utf-8")
    new = MARKED.sub(lambda m: f"<!-- audit: {m[1]} -->\n{made.get(m[1], m[2])}<!-- end -->", page)
    PAGE.write_text(new, encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {'changed' if new != page else 'as it was'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", required=True, help="where the embedding tables are")
    parser.add_argument("--only", action="append", default=[], help=f"one of {', '.join(TABLES)}; may be repeated")
    asked = parser.parse_args()
    return answered(lambda: make(asked.data, asked.only))


if __name__ == "__main__":
    sys.exit(main())
