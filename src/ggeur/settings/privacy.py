"""[privacy]: the protection of what leaves a site."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ggeur.privacy.bounded_norm import BoundedNorm
from ggeur.privacy.noise import Mechanism
from ggeur.settings.section import Above, Section, Size

_LEAST = 1e-30  # of a radius
_WITH_EPSILON = ("delta", "unit", "clip", "samples")


class Privacy(Section):
    """A least group size, noise of a given privacy loss, and secure aggregation."""

    min_count: Annotated[int, Field(strict=True, ge=0, le=10**7)] = 0  # smaller groups take no part
    epsilon: Annotated[float, Field(strict=True, gt=0, le=1e15)] | None = None
    delta: Annotated[float, Field(strict=True, gt=0, le=0.1)] = 1e-5
    unit: Literal["record", "client"] = "record"  # whose participation is hidden
    radius: Annotated[float, Field(strict=True, gt=0, le=1e30)] | None = None  # longer samples are scaled down to it
    projection: Size | None = None  # dimensions of a public random subspace to project samples to first
    clip: Above | None = None  # the largest norm of a client's statistics, in samples; with unit = "client"
    samples: Size | None = None  # number of training samples, if that is public
    secure_aggregation: Annotated[bool, Field(strict=True)] = False  # the server sees only totals

    @model_validator(mode="after")
    def together(self) -> Self:
        """Check values that depend on each other."""
        if self.radius is not None and self.radius < _LEAST:
            raise ValueError(f"radius = {self.radius:g} is too small to divide by; use {_LEAST:g} or more")
        if self.epsilon is None:
            for name in _WITH_EPSILON:
                if name in self.model_fields_set:
                    raise ValueError(f"{name} goes with epsilon, which is not set")
            return self
        if self.radius is None:
            raise ValueError(
                "epsilon needs radius, a public bound on the length of a sample: longer samples are scaled down"
            )
        if self.samples is not None and self.delta > 1 / self.samples:
            raise ValueError(
                f"delta = {self.delta:g} is above 1 / samples = {1 / self.samples:.2g}, which would allow publishing a "
                "sample; make it smaller"
            )
        if (self.clip is not None) != (self.unit == "client"):
            raise ValueError(
                'unit = "client" and clip, the largest norm of a client\'s statistics in samples, go together'
            )
        if self.unit == "client" and not self.secure_aggregation:
            raise ValueError(
                'unit = "client" needs secure_aggregation = true: otherwise the server sees each site by itself'
            )
        return self

    @property
    def ball(self) -> BoundedNorm | None:
        """Return the clipping and projection of samples, which comes before all statistics."""
        return None if self.radius is None and self.projection is None else BoundedNorm(self.radius, self.projection)

    @property
    def mechanism(self) -> Mechanism | None:
        """Return the mechanism that adds noise to statistics, None without epsilon."""
        if self.epsilon is None or self.radius is None:
            return None
        return Mechanism(self.epsilon, self.delta, self.radius, self.unit, self.clip, self.secure_aggregation)

    @property
    def least_rows(self) -> int:
        """Return the least group size at a site: 0 under noise, where min_count applies to noisy totals instead."""
        return 0 if self.epsilon is not None else self.min_count
