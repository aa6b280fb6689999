"""FedProx (Li et al., MLSys 2020): local steps are held near the global model.

min_w  F_k(w) + mu/2 ||w - w_t||^2
"""

from ggeur.heads.head import Head
from ggeur.methods.method import Method, add_term, squared_distance
from ggeur.stats.hyperparameters import AtLeastZero, Traced


def fedprox(head: Head, *, mu: Traced[AtLeastZero] = 0.01) -> Method:
    """`mu`: weight of the proximal term."""
    return Method(
        loss=add_term(head, lambda w, batch, context: mu / 2 * squared_distance(w, context["params"])),
    )
