"""[partition] left_out over a table: rows of the clients that are scored, cell by cell, in place of its test rows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ggeur.core.types import Int
from ggeur.data.table import EmbeddingTable
from ggeur.federation.held_back import HeldBack, hold_back


def held_back(table: EmbeddingTable, parts: Sequence[Int], seed: int) -> HeldBack:
    """What is taken from clients with these `parts` of the table's rows."""
    return hold_back(table.y, table.domains, (table.n_domains, table.n_classes), parts, seed)


def cell_name(table: EmbeddingTable, domain: int, label: int) -> str:
    """A class in a domain, as a score is kept under."""
    return f"{table.class_names[label]} of {table.domain_names[domain]}"


def scored_by_cell(table: EmbeddingTable, rows: Int) -> EmbeddingTable:
    """The table with these `rows` for test rows, and cells for domains."""
    names = [cell_name(table, d, c) for d in range(table.n_domains) for c in range(table.n_classes)]
    test = np.zeros(len(table), np.bool_)
    test[rows] = True
    return replace(table, test=test, domain=table.domains * table.n_classes + table.y, domain_names=tuple(names))
