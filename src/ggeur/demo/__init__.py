"""The built-in digits, drawn on the spot so that everything runs without a download."""

from ggeur.demo import digits as digits  # which `ggeur` offers as an attribute
