"""[privacy]: what leaves a site, and under which promise."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ggeur.privacy.bounded_norm import BoundedNorm
from ggeur.privacy.noise import Mechanism
from ggeur.settings.section import Above, Section, Size

_LEAST = 1e-30  # of a radius
_WITH_EPSILON = ("delta", "unit", "clip", "samples")


class Privacy(Section):
    """Small trials kept back, noise of a given privacy loss, and sums that hide what each site adds."""

    min_count: Annotated[int, Field(strict=True, ge=0, le=10**7)] = (
        0  # samples a class must have at a site to take part
    )
    epsilon: Annotated[float, Field(strict=True, gt=0, le=1e15)] | None = None
    delta: Annotated[float, Field(strict=True, gt=0, le=0.1)] = 1e-5
    unit: Literal["record", "client"] = "record"  # of whom it cannot be told whether it took part
    radius: Annotated[float, Field(strict=True, gt=0, le=1e30)] | None = None  # longer samples are scaled down to it
    projection: Size | None = None  # dimensions of a public random subspace that samples are taken to first
    clip: Above | None = None  # the longest message of a client, in samples; with unit = "client"
    samples: Size | None = None  # how many training samples there are, as far as that is public
    secure_aggregation: Annotated[bool, Field(strict=True)] = False  # a server sees the total alone

    @model_validator(mode="after")
    def together(self) -> Self:
        """What only makes sense with something else, or at all."""
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
                f"delta = {self.delta:g} is above 1 / samples = {1 / self.samples:.2g}, which would allow a sample to "
                f"be "
                "published; make it smaller"
            )
        if (self.clip is not None) != (self.unit == "client"):
            raise ValueError('unit = "client" and clip, the longest message of a client in samples, go together')
        if self.unit == "client" and not self.secure_aggregation:
            raise ValueError(
                'unit = "client" needs secure_aggregation = true: otherwise the server sees each site by itself'
            )
        return self

    @property
    def ball(self) -> BoundedNorm | None:
        """What samples are brought into before anything is made of them."""
        return None if self.radius is None and self.projection is None else BoundedNorm(self.radius, self.projection)

    @property
    def mechanism(self) -> Mechanism | None:
        """What makes messages noisy."""
        if self.epsilon is None or self.radius is None:
            return None
        return Mechanism(self.epsilon, self.delta, self.radius, self.unit, self.clip, self.secure_aggregation)

    @property
    def least_rows(self) -> int:
        """That a class must have at a site. Under noise a site sends every class, and noisy totals are looked at."""
        return 0 if self.epsilon is not None else self.min_count
