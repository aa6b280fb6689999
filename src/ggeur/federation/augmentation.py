"""Augmentations: what a client trains on besides its own samples. [augment] kind names one, here or in a user's module.

The kinds differ in three things: how many draws, around what, and with which noise. The controls leave the noise out:
Step 1 without it only repeats samples (`resample`), Steps 1 and 2 repeat samples and other domains' means
(`prototypes`). `expected` repeats them too, and puts the draws' expected loss in place of their noise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

from ggeur.stats.augmented_sets import BANK_BYTES, DrawRule
from ggeur.stats.custom import build_custom, load_custom
from ggeur.stats.errors import GgeurError
from ggeur.stats.geometry import Geometry, Scale
from ggeur.stats.hyperparameters import Count, checked
from ggeur.stats.site_statistics import COVARIANCES, Covariance
from ggeur.stats.types import Float

Noise = Callable[[Geometry], Float]  # (shapes of m classes) -> (m, p, p), which turn white noise into this noise


@dataclass(frozen=True)
class Augmentation:
    """An augmentation: how many draws, around which points, with which noise, from which statistics.

    Parameters
    ----------
    label : its name in tables and reports.
    rule : how many draws; None: no draws.
    prototypes : whether Step 2 draws around other domains' means.
    noise : (shapes) -> factors of the noise of every class; None: no noise.
    rank : with `expected`: number of directions that the bound keeps.
    covariance : what clients send for the shapes.
    guided : share of a class whose largest clients give its shape.
    unit_free : whether it gives the same in other units of the embeddings.
    bank_bytes : memory of the shared bank of noise.

    Attributes
    ----------
    needs : the covariance that it needs.
    draws_noise : whether draws have noise.

    >>> faint = Augmentation("faint", DrawRule(target=100), noise=lambda shapes: 0.1 * shapes.factors("eigenvalue"))
    >>> faint.needs
    'per-class'
    """

    label: str
    """Its name in reports."""

    rule: DrawRule | None = None
    """How many draws; None leaves every client its own samples alone."""

    prototypes: bool = False
    """Whether draws are also made around the class means of the other domains (Step 2)."""

    noise: "Noise | None" = None
    """Factors that turn white noise into that of each class; None draws the points themselves."""

    rank: int | None = None
    """Rank of the shapes in a bound of the draws' expected loss, which then replaces the draws; None draws them."""

    covariance: Covariance = "per-class"
    """Second moments from which the shapes are estimated."""

    guided: float = 1.0
    """The share of a class whose largest clients give it its shape."""

    unit_free: bool = True
    """Whether the noise is the same whatever the embedding's units."""

    bank_bytes: int = BANK_BYTES
    """Memory for noise vectors; beyond it clients share noise."""

    @property
    def needs(self) -> Covariance | None:
        """Return the covariance that sites must send for it; None where they send nothing."""
        if self.noise is not None:
            return "per-class" if self.covariance == "pooled" and self.guided < 1 else self.covariance
        return "none" if self.prototypes else None

    @property
    def draws_noise(self) -> bool:
        """Whether noise is drawn, and not only its expected loss taken."""
        return self.noise is not None and self.rank is None

    @property
    def shapes(self) -> Literal["none", "one", "per-class"]:
        """How many shapes a site is sent."""
        return "none" if self.noise is None else "one" if self.covariance == "pooled" else "per-class"


def none() -> Augmentation:
    """Every client its own samples."""
    return Augmentation("no augmentation")


def resample(*, target: int = 2000, per_sample: int | None = None) -> Augmentation:
    """Own samples, repeated until each class a client holds has `target`, or each sample `per_sample` times more."""
    return Augmentation("resample", DrawRule(target, per_sample))


def prototypes(
    *,
    steps: Literal[2] = 2,
    target: int = 500,
    per_sample: int | None = None,
    per_prototype: int = 500,
    empty_group: Literal["all", "first"] = "all",
) -> Augmentation:
    """`resample`, and other domains' class means `per_prototype` times; `empty_group`: which of them a class gets."""
    return Augmentation("prototypes", DrawRule(target, per_sample, per_prototype, empty_group), prototypes=True)


def ggeur(
    *,
    steps: Literal[1, 2] = 1,
    target: int = 2000,
    per_sample: int | None = None,
    per_prototype: int = 500,
    empty_group: Literal["all", "first"] = "all",
    scale: Scale = "sqrt-eigenvalue",
    covariance: Covariance = "per-class",
    guided: float = 1.0,
    bank_mib: int = BANK_BYTES // 2**20,
) -> Augmentation:
    """Algorithm 1 (`steps` = 1), or Algorithms 1 and 2: the same points with noise along each class's global shape."""
    return Augmentation(
        "GGEUR",
        DrawRule(target, per_sample, per_prototype, empty_group),
        prototypes=steps == 2,
        noise=lambda geometry: geometry.factors(scale),
        covariance=covariance,
        guided=guided,
        unit_free=scale != "eigenvalue",
        bank_bytes=bank_mib * 2**20,
    )


def expected(
    *,
    steps: Literal[1, 2] = 1,
    target: int = 2000,
    per_sample: int | None = None,
    per_prototype: int = 500,
    empty_group: Literal["all", "first"] = "all",
    scale: Scale = "sqrt-eigenvalue",
    covariance: Covariance = "per-class",
    guided: float = 1.0,
    rank: Count = 32,
) -> Augmentation:
    """`ggeur` without draws: a closed upper bound of their expected loss, with shapes of `rank` directions."""
    drawn = ggeur(
        steps=steps,
        target=target,
        per_sample=per_sample,
        per_prototype=per_prototype,
        empty_group=empty_group,
        scale=scale,
        covariance=covariance,
        guided=guided,
    )
    return replace(drawn, label=f"expected GGEUR, rank {rank}", rank=rank)


AUGMENTATIONS: dict[str, Callable[..., Augmentation]] = {
    "none": none,
    "resample": resample,
    "prototypes": prototypes,
    "ggeur": ggeur,
    "expected": expected,
}


def factory(kind: str) -> Callable[..., Any]:
    """The function that makes it, whose keywords are its numbers."""
    return AUGMENTATIONS[kind] if kind in AUGMENTATIONS else load_custom(kind, "augmentation", AUGMENTATIONS)


def steps_of(kind: str) -> tuple[int, ...]:
    """The values of [augment] steps that mean something to it; a user's own is not imported to find out."""
    declared = AUGMENTATIONS[kind].__annotations__.get("steps") if kind in AUGMENTATIONS else None
    return get_args(declared) or (1, 2)


def build(kind: str, shared: Mapping[str, Any], own: Mapping[str, Any]) -> Augmentation:
    """The augmentation of that kind, from [augment]'s keys as far as it declares them, and parameters of its own."""
    make = partial(factory(kind), **checked(factory(kind), own, "augment.parameters", shared))
    found = make() if kind in AUGMENTATIONS else build_custom(kind, "augmentation", make)
    if not isinstance(found, Augmentation):
        raise GgeurError(
            f"'{kind}' is not an augmentation: it must return a ggeur Augmentation.", code="custom-augmentation-type"
        )
    if found.covariance not in COVARIANCES:
        raise GgeurError(
            f"'{kind}' takes covariance = {found.covariance!r}; there are {', '.join(COVARIANCES)}.",
            code="augmentation-covariance-unknown",
        )
    return found
