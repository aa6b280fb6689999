"""Secure aggregation: each site adds masks that cancel in the total, after Bonawitz et al. (CCS 2017).

A site of an attempt sends, as whole numbers modulo 2^64,

    y_k = x_k + PRG(b_k) + sum_{j > k} PRG(s_kj) - sum_{j < k} PRG(s_kj)

s_kj is agreed on with every other site by X25519 keys that are made for this attempt alone and signed by the site. The
masks of pairs cancel in sum_k y_k. b_k is the site's own and is shown once every site has sent, so it still protects a
site that the server calls lost. Only the total of all sites of an attempt can be opened, and one attempt per round.
"""

FEWEST = 3  # sites in a total: of two, each could subtract its own
