"""What follows from several totals: their differences are totals, too, and may be of fewer sites than any of them."""

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from ggeur.privacy.secure import FEWEST


def lays_bare(sums: Iterable[Iterable[int]]) -> tuple[int, ...]:
    """Fewer than three sites of which alone some combination of `sums` is, each of a set of sites; () if there is none.

    Sites that are in the same sums have the same weight in every combination. So only a few are looked at: those whom
    no three others go along with. A combination is of them alone if without their columns the sums have a lower rank.

    >>> lays_bare([(0, 1, 2, 3), (0, 1, 2, 3)]), lays_bare([(0, 1, 2, 3), (0, 1, 2)])
    ((), (3,))
    """
    each = list(dict.fromkeys(frozenset(one) for one in sums))
    sites = sorted(frozenset[int]().union(*each))
    member = np.array([[site in one for site in sites] for one in each], np.float64)
    together: dict[bytes, list[int]] = {}
    for k in range(len(sites)):
        together.setdefault(member[:, k].tobytes(), []).append(k)
    few = [group for group in together.values() if len(group) < FEWEST]
    rank = np.linalg.matrix_rank(member) if few else 0
    for n in range(1, FEWEST):
        for groups in combinations(few, n):
            columns = sorted(k for group in groups for k in group)
            if len(columns) < FEWEST and np.linalg.matrix_rank(np.delete(member, columns, axis=1)) < rank:
                return tuple(sites[k] for k in columns)
    return ()
