"""A federation of files: statistics that sites wrote, checked against each other. It cannot train rounds."""

from collections.abc import Sequence

from ggeur.data.readers import plain_name
from ggeur.federation.plan import FederationPlan
from ggeur.federation.statistics_file import StatisticsFile
from ggeur.federation.stored_statistics import StoredFederation, union_of_classes
from ggeur.stats.errors import GgeurError


class FileFederation(StoredFederation):
    """The sites that sent `files`, by one plan."""

    def __init__(self, files: Sequence[StatisticsFile]) -> None:
        check_files(files)
        super().__init__([one.stored for one in files], union_of_classes(one.meta.classes for one in files))
        self.plan: FederationPlan = files[0].plan


def check_files(files: Sequence[StatisticsFile]) -> None:
    """Raise GgeurError unless all `files` are of different sites, one plan, one encoder and one spelling of classes."""
    first = files[0]
    seen: set[str] = set()
    for one in files:
        if one.site in seen:
            raise site_twice(one.site)
        seen.add(one.site)
        if not one.meta.labelled:
            raise GgeurError(
                f"The statistics of '{one.site}' are of samples without labels, and a classifier needs classes.",
                code="statistics-unlabelled",
            )
        first.plan.check_same(one.plan, f"'{first.site}'", f"'{one.site}'")
        check_encoders(first, one)
    check_spelling(files)


def site_twice(name: str) -> GgeurError:
    """Return the mistake of two files of one site."""
    return GgeurError(
        f"Two files are of the site '{name}': give the one with the higher number, as `ggeur inspect` shows it.",
        code="site-name-repeated",
    )


def check_encoders(first: StatisticsFile, one: StatisticsFile) -> None:
    """Raise GgeurError where two sites used different encoders."""
    first.meta.encoder.check(one.meta.encoder.model_dump(), one.meta.encoder.dimension, f"'{one.site}'")


def check_spelling(files: Sequence[StatisticsFile]) -> None:
    """Raise GgeurError where two sites spell a class in two ways, which would make two classes of it."""
    spelled: dict[str, tuple[str, str]] = {}
    for one in files:
        for name in one.meta.classes:
            known, site = spelled.setdefault(plain_name(name) or name, (name, one.site))
            if known != name and site != one.site:
                raise GgeurError(
                    f"'{site}' calls a class '{known}' and '{one.site}' calls one '{name}': name them alike, as in one "
                    "plan for all.",
                    code="class-spelling-mismatch",
                )
