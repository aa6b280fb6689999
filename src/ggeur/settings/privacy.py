"""[privacy]: what leaves a site, and under which promise."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ggeur.privacy.ball import Ball
from ggeur.privacy.noise import Mechanism
from ggeur.settings.section import Above, Section, Size

_LEAST = 1e-30  # of a radius
_WITH_EPSILON = ("delta", "unit", "clip", "rows")


class Privacy(Section):
    """Small cells kept back, noise of a given privacy loss, and sums that hide what each site adds."""

    min_count: Annotated[int, Field(strict=True, ge=0, le=10**7)] = 0  # rows a class must have at a site to take part
    epsilon: Annotated[float, Field(strict=True, gt=0, le=1e15)] | None = None
    delta: Annotated[float, Field(strict=True, gt=0, le=0.1)] = 1e-5
    unit: Literal["record", "client"] = "record"  # of whom it cannot be told whether it took part
    radius: Annotated[float, Field(strict=True, gt=0, le=1e30)] | None = None  # longer rows are scaled down to it
    projection: Size | None = None  # dimensions of a public random subspace that rows are taken to first
    clip: Above | None = None  # the longest message of a client, in rows; with unit = "client"
    rows: Size | None = None  # how many training rows there are, as far as that is public
    secure_sum: Annotated[bool, Field(strict=True)] = False  # a server sees the total alone

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
            raise ValueError("epsilon needs radius, a public bound on the length of a row: longer rows are scaled down")
        if self.rows is not None and self.delta > 1 / self.rows:
            raise ValueError(
                f"delta = {self.delta:g} is above 1 / rows = {1 / self.rows:.2g}, which would allow a row to be "
                "published; make it smaller"
            )
        if (self.clip is not None) != (self.unit == "client"):
            raise ValueError('unit = "client" and clip, the longest message of a client in rows, go together')
        if self.unit == "client" and not self.secure_sum:
            raise ValueError('unit = "client" needs secure_sum = true: otherwise the server sees each site by itself')
        return self

    @property
    def ball(self) -> Ball | None:
        """What rows are brought into before anything is made of them."""
        return None if self.radius is None and self.projection is None else Ball(self.radius, self.projection)

    @property
    def mechanism(self) -> Mechanism | None:
        """What makes messages noisy."""
        if self.epsilon is None or self.radius is None:
            return None
        return Mechanism(self.epsilon, self.delta, self.radius, self.unit, self.clip, self.secure_sum)

    @property
    def least_rows(self) -> int:
        """That a class must have at a site. Under noise a site sends every class, and noisy totals are looked at."""
        return 0 if self.epsilon is not None else self.min_count
