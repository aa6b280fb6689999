"""FedAvg (McMahan et al., AISTATS 2017): local SGD from the global model, then the weighted mean of the ends.

w_k <- SGD(w_t; D_k),    w_{t+1} = sum_k (n_k / n) w_k
"""

from ggeur.heads.head import Head
from ggeur.methods.method import Method, cross_entropy_loss


def fedavg(head: Head) -> Method:
    """Every function is the default."""
    return Method(loss=cross_entropy_loss(head))
