"""How far `ggeur-limit`'s bound is above the loss that it bounds, at its optimum: by draws, for every table that is
named.

python tools/bound_gap.py TABLE.npz [...] [--partition domain|label-and-domain|dirichlet] [--beta 0.1]
"""

import argparse

import numpy as np
from scipy.special import logsumexp

import ggeur
from ggeur.experiments.partitions import clients_of
from ggeur.experiments.settings import Partition
from ggeur.methods import resolve_closed_form
from ggeur.methods.oneshot.bound import Bound
from ggeur.methods.oneshot.descent import minimum
from ggeur.methods.oneshot.ggeur_limit import class_prototypes, shapes
from ggeur.stats.site_statistics import FederationStatistics

DRAWS, BLOCK = 2000, 100  # around every prototype


def gap(total: FederationStatistics, seed: int = 0) -> tuple[float, float, float]:
    """The bound at its optimum; the mean loss of draws there, and its standard error."""
    m, y, weight = class_prototypes(total)
    t = shapes(total, 4.0, 0.1, 1.0)
    w, b = minimum(m, y, weight, t, 1e-5)
    value = Bound(m, y, weight, t, np.zeros(m.shape[1]))(np.column_stack([b, w]))[0]
    roots = [np.linalg.cholesky(one) for one in t]
    rng = np.random.default_rng(seed)
    means = []
    for _ in range(DRAWS // BLOCK):
        z = [(m[i] + rng.normal(size=(BLOCK, m.shape[1])) @ roots[c].T) @ w.T + b for i, c in enumerate(y)]
        means.append(sum(weight[i] * (logsumexp(z[i], axis=1) - z[i][:, c]).mean() for i, c in enumerate(y)))
    return value, float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(len(means)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--partition", default="label-and-domain")
    parser.add_argument("--beta", type=float, default=0.1)
    asked = parser.parse_args()
    head = resolve_closed_form("ggeur-limit", {})
    for path in asked.tables:
        table = ggeur.EmbeddingTable.load(path).split(0)
        clients = clients_of(table, Partition(kind=asked.partition, beta=asked.beta), 0)
        value, draws, error = gap(clients.statistics(head.query).standard)
        print(f"{path}, {asked.partition}: bound {value:.4f}, draws {draws:.4f} ± {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
