"""[privacy]: what leaves a site, and under which promise."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ggeur.settings.section import Above, Section, Size

_WITH_EPSILON = ("delta", "unit", "clip", "rows")


class Privacy(Section):
    """Small cells kept back, noise of a given privacy loss, and sums that hide what each site adds."""

    min_count: Annotated[int, Field(strict=True, ge=0, le=10**7)] = 0  # rows a class must have at a site to take part
    epsilon: Above | None = None
    delta: Annotated[float, Field(strict=True, gt=0, lt=1)] = 1e-5
    unit: Literal["record", "client"] = "record"  # of whom it cannot be told whether it took part
    radius: Above | None = None  # longer rows are scaled down to it
    projection: Size | None = None  # dimensions of a public random subspace that rows are taken to first
    clip: Above | None = None  # the longest message of a client, in rows; with unit = "client"
    rows: Size | None = None  # how many training rows there are, as far as that is public
    secure_sum: bool = False  # a server sees the total alone

    @model_validator(mode="after")
    def together(self) -> Self:
        """What only makes sense with something else."""
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
