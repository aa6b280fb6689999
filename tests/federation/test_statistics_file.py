"""The .stats file: the same bytes for the same statistics, readable without ggeur, and refused where it is damaged."""

import hashlib
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ggeur.federation.file_federation import FileFederation
from ggeur.federation.plan import FederationPlan
from ggeur.federation.statistics_file import StatisticsFile, read_statistics_file
from ggeur.models.sites import read_sites
from ggeur.models.summarize import statistics_of
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import SiteStatistics, StatisticsQuery
from refusal import refused

PLAN = FederationPlan(name="study", classes=("ant", "bee", "cat"), min_count=2, test_share=0)


def samples(seed=0, n=40, p=6):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.6, 0, rng.integers(3, size=n))
    return rng.normal(size=(n, p)) + 2 * np.eye(p)[y], y


def file_of(name="leeds", seed=0, plan=PLAN, sequence=1) -> StatisticsFile:
    x, y = samples(seed)
    (site,) = read_sites({name: (x, np.array(["ant", "bee", "cat"])[y])}, plan=plan)
    return statistics_of(site.following(plan), plan, sequence)


@pytest.fixture
def path(tmp_path):
    file_of().save(tmp_path / "leeds.stats")
    return tmp_path / "leeds.stats"


def rewritten(path, change=lambda members: None, **options):
    """The file as another program would write it, with what `change` does to its members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def with_meta(**values):
    def change(members):
        members["meta.json"] = json.dumps(json.loads(members["meta.json"]) | values).encode()

    return change


def with_array(name, change):
    def changed(members):
        file = io.BytesIO()
        np.save(file, change(np.load(io.BytesIO(members[f"{name}.npy"]))))
        members[f"{name}.npy"] = file.getvalue()

    return changed


def test_the_same_statistics_are_the_same_bytes_and_come_back(path):
    assert file_of().to_bytes() == path.read_bytes()
    file, want = read_statistics_file(path), file_of()
    assert file.meta == want.meta and file.plan == PLAN and file.samples == 40
    ours, theirs = file.stored.messages["leeds"], want.stored.messages["leeds"]
    for part in ("count", "sum", "second", "center"):
        assert getattr(ours, part).tobytes() == getattr(theirs, part).tobytes()


def test_numpy_and_zipfile_alone_read_it_as_documented(path):
    """By docs/reference/stats-file.md, without ggeur."""
    with zipfile.ZipFile(path) as archive:
        meta = json.loads(archive.read("meta.json"))
        count, total, moments = (np.load(archive.open(f"{n}.npy")) for n in ("count", "sum", "moments"))
        statement = "".join(
            f"{hashlib.sha256(archive.read(name)).hexdigest()}  {name}\n" for name in sorted(archive.namelist())
        )
    statement = "ggeur statistics 1\n" + statement
    assert file_of().statement.decode() == statement == read_statistics_file(path).statement.decode()
    (x, y), p, at, g = samples(), meta["encoder"]["dimension"], 0, 0
    assert {int(n) <= p for n in count[0]} == {True, False}, "both forms are there"
    for c, n in enumerate(map(int, count[0])):
        own = x[y == c]
        np.testing.assert_allclose(total[g], own.sum(axis=0))
        k = min(n - 1, p)
        rows = np.zeros((k, p))
        for i in range(k):
            rows[i, i:] = moments[at : at + p - i]
            at += p - i
        scatter = rows.T @ rows if n <= p else rows + np.triu(rows, 1).T
        np.testing.assert_allclose(scatter, (own - own.mean(axis=0)).T @ (own - own.mean(axis=0)), atol=1e-12)
        g += 1
    assert at == len(moments) and g == len(total)


def test_what_another_program_writes_is_read(path):
    want = read_statistics_file(path).stored.messages["leeds"].second.tobytes()
    rewritten(path, with_meta())  # spaced in another way: a signature is on the members as they are
    assert read_statistics_file(path).statement != file_of().statement
    assert read_statistics_file(path).stored.messages["leeds"].second.tobytes() == want


def test_every_flipped_bit_is_noticed(path):
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for at in [*range(120), *rng.integers(len(whole), size=400), *range(len(whole) - 300, len(whole))]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1 :])
        with refused("statistics-file-damaged"):
            read_statistics_file(path)


@pytest.mark.parametrize("content", [lambda b: b"", lambda b: b[:-1], lambda b: b[: len(b) // 2], lambda b: b + b"x"])
def test_a_file_that_is_empty_or_cut_short(path, content):
    path.write_bytes(content(path.read_bytes()))
    with refused("statistics-file-damaged: leeds.stats"):
        read_statistics_file(path)


def test_there_is_none(path):
    with refused("file-missing: leeds.stats"):
        read_statistics_file(path.with_name("leedz.stats"))


def test_a_file_that_0_3_wrote_is_read_as_it_was_meant():
    kept = Path(__file__).parent / "data" / "format-1.stats"
    found = read_statistics_file(kept)
    one = found.packed["leeds"]  # ant: (1, 0), (3, 0), (2, 3); bee: (0, 1), (0, 3)
    assert one.count.tolist() == [3, 2]
    np.testing.assert_allclose(one.sum, [[6, 3], [0, 4]], rtol=1e-15)
    expected = [2, 0, 6, 0, -(2**0.5)]  # S of ants from its diagonal on, and a factor of bees'
    np.testing.assert_allclose(one.moments, expected, atol=1e-15)
    assert found.to_bytes() == kept.read_bytes()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (with_meta(format=2, more=1), "leeds.stats has the format 2...up to 1"),
        (
            lambda members: (with_meta(format=2)(members), members.update(features=b"")),
            "leeds.stats has the format 2...up to 1",
        ),
        (with_meta(plan={**PLAN.to_tree(), "format": 2}), "The plan in ...leeds.stats has the format 2"),
    ],
)
def test_a_file_of_a_later_format_is_refused(path, change, says):
    with zipfile.ZipFile(path) as archive:
        tree = json.loads(archive.read("meta.json"))
    assert (tree["format"], tree["plan"]["format"]) == (1, 1)
    rewritten(path, change)
    with refused(f"format-newer: {says}"):
        read_statistics_file(path)


@pytest.mark.parametrize(
    "change",
    [
        with_meta(format=0),
        with_meta(site="../leeds"),
        with_meta(sequence=0),
        with_meta(classes=["ant", "bee"]),
        with_meta(classes=["ant", "bee", "bee"]),
        with_meta(domains=["a", "b"]),
        with_meta(encoder={"dimension": 7}),
        with_meta(more=1),
        with_meta(plan={**PLAN.to_tree(), "min_count": 9}),
        with_meta(plan={**PLAN.to_tree(), "covariance": "pooled"}),
        with_array("count", lambda a: a + 0.5),
        with_array("count", lambda a: -a),
        with_array("count", lambda a: a.astype(np.float32)),
        with_array("sum", lambda a: a * np.nan),
        with_array("sum", lambda a: a * 1e200),
        with_array("moments", lambda a: a * 1e200),
        with_array("sum", lambda a: a[:, 1:]),
        with_array("moments", lambda a: a[:-1]),
        with_array("moments", lambda a: -a),
        with_array("moments", lambda a: np.where(np.arange(len(a)) == 1, 1e3, a)),
    ],
)
def test_what_samples_cannot_have_is_refused(path, change):
    rewritten(path, change)
    with refused("file-not-statistics: leeds.stats"):
        read_statistics_file(path)


def test_archives_of_another_kind_are_refused(path):
    for change, options in (
        (lambda members: members.pop("sum.npy"), {}),
        (lambda members: members.update(more=b"samples"), {}),
        (lambda members: None, {"compression": zipfile.ZIP_DEFLATED}),
    ):
        file_of().save(path)
        rewritten(path, change, **options)
        with refused("statistics-file-damaged"):
            read_statistics_file(path)


def damaged(content, how_many, rng):
    for _ in range(how_many):
        changed = bytearray(content)
        for _ in range(int(rng.integers(1, 5))):
            at, length = int(rng.integers(len(changed))), int(rng.integers(1, 17))
            kind = int(rng.integers(4))
            if kind == 0:
                changed[at : at + length] = rng.bytes(length)
            elif kind == 1:
                changed[at:at] = rng.bytes(length)
            elif kind == 2:
                del changed[at : at + length]
            else:
                changed[at:at] = changed[max(0, at - length) : at]
        yield bytes(changed)


@pytest.mark.parametrize("how_many", [100, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sealed", [True, False])
def test_mutated_files_are_refused_or_say_the_same(path, how_many, sealed):
    if not sealed:
        rewritten(path)
    whole, want = path.read_bytes(), file_of()
    same = 0
    for content in damaged(whole, how_many, np.random.default_rng(len(whole))):
        path.write_bytes(content)
        try:
            found = read_statistics_file(path)
        except GgeurError as error:
            assert "\n" not in str(error)
        else:
            same += 1
            assert found.statement == want.statement and not sealed
    assert same < how_many / 10


def test_a_federation_of_files_is_that_of_the_samples():
    files = [file_of(name, seed) for seed, name in enumerate(("leeds", "york"))]
    total = FileFederation(files).statistics(StatisticsQuery("per-class"))
    x, y = (np.concatenate(parts) for parts in zip(samples(0), samples(1), strict=True))
    want = SiteStatistics.from_embeddings(x, y, 3, center=total.center)
    np.testing.assert_allclose(total.second, want.second, atol=1e-10)
    np.testing.assert_allclose(total.sum, want.sum, atol=1e-10)


def changed_plan(**values):
    return PLAN.model_copy(update=values)


@pytest.mark.parametrize(
    ("other", "code"),
    [
        (file_of("leeds", 1), "site-name-repeated: leeds"),
        (file_of("york", 1, changed_plan(name="other")), "plan-mismatch: name"),
        (file_of("york", 1, changed_plan(classes=("ant", "bee", "cat", "elk"))), "plan-mismatch: classes...elk"),
        (file_of("york", 1, changed_plan(covariance="pooled")), "plan-mismatch: covariance"),
        (file_of("york", 1, changed_plan(min_count=1)), "plan-mismatch: min_count"),
        (file_of("york", 1, changed_plan(salt="x")), "plan-mismatch: salt"),
    ],
)
def test_files_that_do_not_go_together(other, code):
    with refused(code):
        FileFederation([file_of(), other])


def test_two_spellings_of_a_class_are_refused():
    open_plan = FederationPlan(min_count=0, test_share=0)
    x, y = samples()
    files = []
    for name, spelled in (("leeds", "Bee"), ("york", "bee")):
        (site,) = read_sites({name: (x, np.array(["ant", spelled, "cat"])[y])}, plan=open_plan)
        files.append(statistics_of(site.following(open_plan), open_plan))
    with refused("class-spelling-mismatch: leeds...Bee...york...bee"):
        FileFederation(files)
