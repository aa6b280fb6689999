"""The plan of a federation by file: what all sites agree on before they compute statistics, in one TOML file."""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ggeur.data.holdout import SALT, TEST_SHARE, check_salt
from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError, nearest, nearest_file
from ggeur.stats.storage import cannot, check_format, write_bytes
from ggeur.stats.validate import check_path

MIN_COUNT = 10  # fewer samples of a class are not shared, where no plan says otherwise
MOST_CLASSES = 100_000  # more are a column of identifiers


FORMAT = 1  # of a plan; a higher one is refused


def _plain(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it holds characters that cannot be printed")
    return text


def _salt(text: str) -> str:
    try:
        return check_salt(text)
    except GgeurError as error:
        raise ValueError(str(error)) from error


def _different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("two classes have one name")
    return names


Name = Annotated[str, Field(max_length=200), AfterValidator(_plain)]
ClassNames = Annotated[
    tuple[Annotated[Name, Field(min_length=1)], ...], Field(max_length=MOST_CLASSES), AfterValidator(_different)
]


class PlannedEncoder(BaseModel):
    """What embeds the images of all sites; what is not known is empty."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    encoder: Name = ""
    weights: Name = ""
    preprocessing: Annotated[str, Field(max_length=1000), AfterValidator(_plain)] = ""
    dimension: Annotated[int, Field(strict=True, ge=0, le=10**6)] = 0

    def check(self, encoder: Mapping[str, Any], dimension: int | None, whose: str) -> None:
        """Raise GgeurError unless samples of an `encoder` and `dimension` are what is planned; None: not known yet."""
        if self.dimension and dimension not in (None, self.dimension):
            raise GgeurError(
                f"The samples of {whose} have {dimension} dimensions, and the plan has {self.dimension}: use its "
                f"encoder{f' {self.encoder}' if self.encoder else ''}.",
                code="embeddings-dimension-mismatch",
            )
        keys = ("weights", "preprocessing") if self.weights and encoder.get("weights") else ("encoder",)
        for key in keys:
            ours, theirs = getattr(self, key), encoder.get(key)
            if ours and theirs and ours != theirs:
                how = "" if key == "encoder" else f" with other {key}"
                raise GgeurError(
                    f"The samples of {whose} are of the encoder '{encoder.get('encoder')}', and the plan has "
                    f"'{self.encoder}'{how}: use the plan's.",
                    code="encoder-mismatch",
                )


class FederationPlan(BaseModel):
    """What the sites of a federation agree on.

    Without `classes` every site has its own. `test_share` of the samples, by a hash with the public `salt`, are left
    out of all statistics, and groups of fewer than `min_count` samples are not shared.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal[1] = 1
    name: Name = ""
    classes: ClassNames = ()
    encoder: PlannedEncoder = PlannedEncoder()
    covariance: Literal["per-class", "pooled"] = "per-class"
    min_count: Annotated[int, Field(strict=True, ge=0, le=10**7)] = MIN_COUNT
    test_share: Annotated[float, Field(ge=0, lt=1)] = TEST_SHARE
    salt: Annotated[str, AfterValidator(_salt)] = SALT

    @classmethod
    def of(cls, tree: Mapping[str, Any], whose: str) -> Self:
        """Return the plan of plain values, or raise GgeurError; `whose` they are, for the sentence."""
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            check_format(tree, FORMAT, whose)
            raise GgeurError(
                f"{whose} is no plan of a federation: {first_fault(error)}.", code="plan-invalid"
            ) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the plan at `path`; raise GgeurError where it is not valid."""
        path = check_path("plan", path)
        try:
            with cannot(f"read the plan {path}"):
                tree = tomllib.loads(path.read_bytes().decode())
        except GgeurError as error:
            if path.exists():
                raise
            raise GgeurError(f"There is no plan {path}.{nearest_file(path)}", code="file-missing") from error
        except (ValueError, RecursionError) as error:
            raise GgeurError(
                f"{path} is no plan of a federation: it is not TOML ({one_line(error)}).", code="plan-invalid"
            ) from error
        return cls.of(tree, str(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to `path` (.toml)."""
        import tomli_w

        write_bytes(check_path("plan", path), tomli_w.dumps(self.to_tree()).encode())

    def to_tree(self) -> dict[str, Any]:
        """Return plain values, without what is empty or off."""
        tree = self.model_dump(mode="json", exclude_none=True)
        tree["encoder"] = {key: value for key, value in tree["encoder"].items() if value}
        return {key: value for key, value in tree.items() if value or key in ("min_count", "test_share")}

    def check_same(self, other: "FederationPlan", whose: str, others: str) -> None:
        """Raise GgeurError where an `other` plan says something else, naming the first difference."""
        for key in FederationPlan.model_fields:
            ours, theirs = getattr(self, key), getattr(other, key)
            if ours != theirs:
                raise GgeurError(
                    f"{whose} and {others} follow different plans: {key} is {_shown(ours, theirs)} in the first and "
                    f"{_shown(theirs, ours)} in the second; use one plan for all.",
                    code="plan-mismatch",
                )

    def check_classes(self, names: Sequence[str], whose: str) -> None:
        """Raise GgeurError where a class of a site is not planned."""
        if len(names) > MOST_CLASSES:
            raise GgeurError(
                f"{whose} has {len(names):,} classes, and {MOST_CLASSES:,} is the most: name the column of the labels.",
                code="classes-too-many",
            )
        known = set(self.classes or names)
        strange = [name for name in names if name not in known]
        if strange:
            raise GgeurError(
                f"{whose} has the class '{strange[0]}', which is not in the plan: rename it as there, or leave it out."
                f"{nearest(strange[0], self.classes)}",
                code="plan-class-unknown",
            )


def first_fault(error: ValidationError) -> str:
    """Return where the first fault is and what it is, in a line."""
    first = error.errors()[0]
    where = ".".join(str(step) for step in first["loc"])
    message = " ".join(str(first["msg"]).removeprefix("Value error, ").rstrip(".").split())[:300]
    return f"{where}: {message}" if where else message


def _shown(value: Any, other: Any) -> str:
    """Return `value` in a few characters; of lists, what differs from the `other`."""
    if isinstance(value, tuple) and isinstance(other, tuple):
        more = [one for one in value if one not in other]
        value = more[0] if more else f"{len(value)} names in another order"
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_defaults=True)
    return json.dumps(value, ensure_ascii=False)[:100]
