"""What a file of statistics gives away, found by attacking this file alone: for the person who approves its export."""

import hashlib
from typing import Any, Literal, NamedTuple

from ggeur.federation.plan import MIN_COUNT
from ggeur.federation.statistics_file import StatisticsFile
from ggeur.privacy.attacks import groups, recovered_samples

Given = Literal["exact samples", "samples up to a rotation", "mean and covariance", "mean"]
GIVEN: tuple[Given, ...] = ("exact samples", "samples up to a rotation", "mean and covariance", "mean")  # worst first


class GroupEgress(NamedTuple):
    """What the file gives away of one class in one domain."""

    domain: str
    label: str
    samples: int
    given: Given
    recovered: int = 0  # samples that follow exactly


class Egress(NamedTuple):
    """What a file holds and gives away."""

    file: StatisticsFile
    size: int  # bytes
    sha256: str
    groups: tuple[GroupEgress, ...]

    @property
    def recovered(self) -> int:
        """Return how many samples follow exactly."""
        return sum(group.recovered for group in self.groups)

    @property
    def worst(self) -> Given:
        """Return the most that it gives away of any group."""
        return min((group.given for group in self.groups), key=GIVEN.index)

    @property
    def smallest(self) -> int:
        """Return the number of samples of the smallest group."""
        return min(group.samples for group in self.groups)

    @property
    def recommendation(self) -> str:
        """Return what to do, in a sentence or two."""
        p = self.file.meta.encoder.dimension
        if self.worst == "exact samples":
            large = any(group.given == "exact samples" and group.samples >= MIN_COUNT for group in self.groups)
            how = "Leave out samples that repeat others" if large else f"Raise min_count to {MIN_COUNT} or more"
            return (
                f"Do not export it: {self.recovered:,} of its samples can be recovered exactly. {how}, and write it "
                "again."
            )
        if self.worst == "samples up to a rotation":
            return (
                f"Export it only to somebody who may hold the samples themselves: of groups of no more than {p} "
                f"samples it holds the samples up to a rotation. Otherwise plan a min_count above {p}, or the "
                "covariance pooled."
            )
        return (
            f"It may be exported where averages of {self.smallest:,} samples or more may be. It is not anonymous: who "
            "has a person's image may still guess better than by chance whether that image took part."
        )

    @property
    def words(self) -> list[str]:
        """Return what the file is and holds, in sentences."""
        meta, plan = self.file.meta, self.file.plan
        p, domains = meta.encoder.dimension, len(meta.domains)
        moments = {"per-class": "of each class in each domain", "pooled": "of each domain, pooled over its classes"}
        said = [
            f"The file says of the site '{meta.site}' how many samples of each class it has, their sum, and their "
            f"second moments {moments[plan.covariance]}: how the {p} numbers that describe an image vary together.",
            f"It is of {self.file.samples:,} samples, {len(meta.classes)} classes and {domains} "
            f"domain{'s' * (domains != 1)}: {', '.join(meta.domains)}. It holds no image, no file name and no "
            "identifier.",
            f"It takes {self.size:,} bytes. The samples themselves, in numbers of the same precision, take "
            f"{8 * p * self.file.samples:,}.",
            f"Groups of fewer than {plan.min_count} samples were left out."
            if plan.min_count
            else "No group was left out, however small.",
            f"For testing, {plan.test_share:.0%} of the samples were held out, unless the site's table marks others.",
        ]
        if self.file.signature:
            said.append(f"It is signed, as file number {meta.sequence} of {meta.date}.")
        return said

    @property
    def findings(self) -> list[str]:
        """Return what an attacker has of it, in sentences, the worst first."""
        p, said = self.file.meta.encoder.dimension, []
        for given in GIVEN:
            own = [group for group in self.groups if group.given == given]
            if not own:
                continue
            n, many = sum(group.samples for group in own), f"{len(own)} group{'s' * (len(own) != 1)}"
            said.append(
                {
                    "exact samples": f"{many}: {self.recovered:,} of {n:,} samples were recovered exactly, from this "
                    "file alone. A group of one sample is its sum; two follow from their sum and their factor.",
                    "samples up to a rotation": f"{many} of {n:,} samples, no more than {p} each: the triangular "
                    "factor is these samples up to a rotation. Distances and angles between them are exact. Whoever "
                    "has a sample can tell without error whether it is among them; known samples give away others.",
                    "mean and covariance": f"{many} of {n:,} samples: their mean and how they vary, no single sample.",
                    "mean": f"{many} of {n:,} samples: their mean, and no single sample.",
                }[given]
            )
        return said

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        meta = self.file.meta
        return {
            "file": {"sha256": self.sha256, "bytes": self.size, "site": meta.site, "sequence": meta.sequence},
            "samples": self.file.samples,
            "plan": self.file.plan.to_tree(),
            "holds": self.words,
            "gives_away": self.findings,
            "worst": self.worst,
            "recovered_exactly": self.recovered,
            "recommendation": self.recommendation,
            "groups": [group._asdict() for group in self.groups],
        }


def egress(file: StatisticsFile, content: bytes) -> Egress:
    """Attack a `file`, whose bytes are `content`, and return what it gives away."""
    p, pooled, found = file.meta.encoder.dimension, file.plan.covariance == "pooled", []
    for domain, packed in file.packed.items():
        whole = int(packed.count.sum())
        for c, group in groups(packed.statistics).items():
            samples = recovered_samples(group)
            few = (whole if pooled else group.n) <= p
            given: Given = "samples up to a rotation" if few else "mean" if pooled else "mean and covariance"
            label = file.meta.classes[c]
            if samples is None:
                found.append(GroupEgress(domain, label, group.n, given))
            else:
                found.append(GroupEgress(domain, label, group.n, "exact samples", len(samples)))
    return Egress(file, len(content), hashlib.sha256(content).hexdigest(), tuple(found))
