"""[privacy]: the protection of what leaves a site, and the mechanisms that there are."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ggeur.experiments.settings_types import Above, Section, Size, one_of
from ggeur.privacy.bounded_norm import BoundedNorm
from ggeur.privacy.gaussian import gaussian
from ggeur.privacy.release import Release, build_release, exact_statistics
from ggeur.privacy.secure_aggregation import FEWEST
from ggeur.stats.custom import is_custom, load_custom
from ggeur.stats.errors import GgeurError
from ggeur.stats.hyperparameters import checked, declared_parameters

MECHANISMS: dict[str, Callable[..., Release]] = {"none": exact_statistics, "gaussian": gaussian}

_LEAST = 1e-30  # of a radius
_OF_MECHANISM = ("epsilon", "delta", "unit", "clip")  # keys that it gets if it declares them, as radius


class Privacy(Section):
    """A least group size, a mechanism such as noise of a given privacy loss, and secure aggregation."""

    min_count: Annotated[int, Field(strict=True, ge=0, le=10**7)] = 0  # smaller groups take no part
    mechanism: Annotated[str, one_of("privacy mechanism", MECHANISMS)] | None = None  # with epsilon gaussian, else none
    parameters: dict[str, Any] = Field({})  # of a custom mechanism
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
        """Check values that depend on each other; a custom mechanism is not imported for it."""
        name = self.mechanism_name
        if self.radius is not None and self.radius < _LEAST:
            raise ValueError(f"radius = {self.radius:g} is too small to divide by; use {_LEAST:g} or more")
        if name == "none":
            for key in (*_OF_MECHANISM, "samples"):
                if key in self.model_fields_set and getattr(self, key) is not None:
                    other = "epsilon, which is not set" if self.epsilon is None else 'a mechanism, and there is "none"'
                    raise ValueError(f"{key} goes with {other}")
            return self
        if name == "gaussian" and self.epsilon is None:
            raise ValueError('mechanism = "gaussian" needs epsilon, the privacy loss of one message')
        if self.radius is None:
            what = "epsilon" if name == "gaussian" else "mechanism"
            raise ValueError(
                f"{what} needs radius, a public bound on the length of a sample: longer samples are scaled down"
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
    def mechanism_name(self) -> str:
        """Return which mechanism protects statistics, by its name."""
        return self.mechanism or ("none" if self.epsilon is None else "gaussian")

    @cached_property
    def release(self) -> Release:
        """Return how sites protect what they send; a custom mechanism is imported for it."""
        name, custom = self.mechanism_name, is_custom(self.mechanism_name)
        factory = load_custom(name, "privacy mechanism", MECHANISMS) if custom else MECHANISMS[name]
        known = declared_parameters(factory)
        shared = {key: value for key in (*_OF_MECHANISM, "radius") if (value := getattr(self, key)) is not None}
        for key in _OF_MECHANISM:
            if key in shared and key in self.model_fields_set and key not in known:
                raise GgeurError(
                    f"[privacy] {key} is no parameter of the mechanism '{name}': leave it out.",
                    code="privacy-key-not-of-mechanism",
                )
        shared["secure_aggregation"] = self.secure_aggregation
        values = checked(factory, self.parameters, "privacy.parameters", shared)
        for key, parameter in known.items():
            if parameter.default is parameter.empty and key not in values:
                raise GgeurError(
                    f"The privacy mechanism '{name}' needs {key}: give it under "
                    f"[privacy{'' if key in _OF_MECHANISM else '.parameters'}].",
                    code="privacy-parameter-missing",
                )
        release = build_release(name, partial(factory, **values), custom=custom)
        least = max(release.least_clients, FEWEST if self.secure_aggregation and not release.exact else 1)
        radius = release.radius if self.radius is None else self.radius
        return replace(release, radius=radius, min_count=self.min_count, least_clients=least)
