"""Figures from arrays: what they show, and that they can be drawn for few and for many classes, clients and domains."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from ggeur.data import partition
from ggeur.data.table import EmbeddingTable
from ggeur.experiments.partitions import client_names
from ggeur.federation.augmentation import ggeur
from ggeur.report import figures, inspection
from ggeur.stats.geometry import Geometry, similarity
from ggeur.stats.statistics import ClassStatistics
from refusal import refused

TWO_STEPS = ggeur(steps=2, target=40, per_prototype=20)


def a_table(n_classes=4, n_domains=3, each=12, dimension=10, seed=0):
    """Classes with a shape of their own, the same in every domain, and domains that are shifted."""
    rng = np.random.default_rng(seed)
    shape = rng.normal(size=(n_classes, dimension, dimension)) * np.linspace(2, 0.05, dimension)[:, None]
    y = np.tile(np.repeat(np.arange(n_classes), each), n_domains)
    domain = np.repeat(np.arange(n_domains), n_classes * each)
    mean, shift = 4 * rng.normal(size=(n_classes, dimension)), rng.normal(size=(n_domains, dimension))
    x = mean[y] + shift[domain] + np.einsum("np,npq->nq", rng.normal(size=(len(y), dimension)), shape[y])
    return EmbeddingTable(
        x=x.astype(np.float32), y=y, domain=domain, class_names=[f"class {c}" for c in range(n_classes)],
        domain_names=[f"domain {d}" for d in range(n_domains)],
    )  # fmt: skip


@pytest.fixture(scope="module")
def table():
    return a_table()


@pytest.fixture(scope="module")
def parts(table):
    return partition.label_and_domain(table.y, table.domains, beta=0.3)


# ---------------------------------------------------------------- the arrays


def test_counts(table, parts):
    assert (inspection.counts(table) == 12).all() and inspection.counts(table).shape == (3, 4)
    by_client = inspection.client_counts(table, parts)
    assert by_client.sum(axis=1).tolist() == [len(rows) for rows in parts]


@pytest.mark.parametrize("each", [6, 40])
def test_spectra_are_those_of_the_covariance(each):
    table = a_table(each=each, n_domains=1)
    values, names = inspection.spectra(table)
    wanted = Geometry.from_statistics(ClassStatistics.from_embeddings(table.x, table.y, 4)).eigenvalues
    np.testing.assert_allclose(values, wanted[:, : values.shape[1]], rtol=1e-6, atol=1e-9)
    assert names == list(table.class_names)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("each", [8, 40])
def test_similarity_is_eq_3_and_its_diagonal_stands_out(centred, each):
    table = a_table(each=each)
    pairs = inspection.similarities(table, centred=centred)
    assert [p.domains for p in pairs] == [("domain 0", "domain 1"), ("domain 0", "domain 2"), ("domain 1", "domain 2")]

    def geometry(d):
        rows = table.domains == d
        return Geometry.from_statistics(
            ClassStatistics.from_embeddings(table.x[rows], table.y[rows], 4), 5, centred=centred
        )

    wanted = similarity(geometry(0), geometry(2))
    np.testing.assert_allclose(pairs[1].values, wanted, atol=1e-6)
    assert pairs[1].same == pytest.approx(np.diag(wanted).mean())
    assert pairs[1].other == pytest.approx(wanted[~np.eye(4, dtype=bool)].mean())
    assert all(p.same > p.other for p in pairs)


def test_similarity_leaves_out_classes_that_a_domain_hardly_has(table):
    rows = ~((table.domains == 0) & (table.y == 1))
    pairs = inspection.similarities(table.subset(rows))
    assert pairs[0].class_names == ("class 0", "class 2", "class 3") and len(pairs[2].class_names) == 4
    assert inspection.similarities(a_table(n_domains=1)) == []


@pytest.mark.real
def test_on_real_photographs_the_diagonal_stands_out_for_every_pair_of_domains(shared):
    """Figure 6 on Office-Caltech: the same class has the same shape in another domain."""
    table = EmbeddingTable.load(shared / "data" / "embeddings" / "office_caltech10.tinyvit.npz")
    for centred in (True, False):
        pairs = inspection.similarities(table, centred=centred)
        assert len(pairs) == 6
        for pair in pairs:
            assert pair.same > 1.9 * pair.other, pair.domains


def test_the_client_view_shows_rows_draws_and_everyone(table, parts):
    view = inspection.client_view(table, parts, 1, TWO_STEPS, ["class 2", "class 0"], seed=0)
    count = inspection.client_counts(table, parts)[:, [2, 0]]
    assert view.client == "domain 1" and view.class_names == ("class 2", "class 0")
    assert np.bincount(view.own.y, minlength=2).tolist() == count[1].tolist()
    assert np.bincount(view.everyone.y, minlength=2).tolist() == count.sum(axis=0).tolist()
    assert len(view.augmented.y) > len(view.own.y)
    np.testing.assert_allclose(view.augmented.xy[: len(view.own.y)], view.own.xy, atol=1e-5)
    spread = view.everyone.xy.var(axis=0)
    assert spread[0] >= spread[1] and 0 < view.shares[1] <= view.shares[0] < 1


def test_the_classes_chosen_are_telling(table, parts):
    count = inspection.client_counts(table, parts)
    for k in range(3):
        view = inspection.client_view(table, parts, k, TWO_STEPS, [], seed=0)
        own = [count[k, table.class_names.index(n)] for n in view.class_names]
        assert own[0] == count[k].max() and min(own) == (0 if (count[k] == 0).any() else count[k].min())


@pytest.mark.parametrize(
    "client, names, words", [(3, [], "client-out-of-range: client 3"), (0, ["unicorn"], "class-unknown: unicorn")]
)
def test_what_is_not_there_cannot_be_viewed(table, parts, client, names, words):
    with refused(words):
        inspection.client_view(table, parts, client, TWO_STEPS, names, seed=0)


def test_the_largest_client_is_looked_at_unless_one_is_chosen(table, parts):
    largest = int(np.argmax([len(rows) for rows in parts]))
    assert inspection.client_view(table, parts, None, TWO_STEPS, [], seed=0).client == f"domain {largest}"


def test_a_client_without_rows_cannot_be_viewed(table, parts):
    with refused("client-without-samples"):
        inspection.client_view(table, [parts[0], parts[1][:0]], 1, TWO_STEPS, [], seed=0)


# ---------------------------------------------------------------- the figures


def images_of(figure):
    return [ax for ax in figure.axes if ax.images]


def test_six_betas_make_six_panels_on_one_scale(table):
    betas = (0.1, 0.3, 0.5, 0.7, 1, 5)
    panels = {
        f"β = {b:g}": inspection.client_counts(table, partition.label_and_domain(table.y, table.domains, b))
        for b in betas
    }
    figure = figures.label_distribution(panels, table.class_names, table.domain_names)
    axes = images_of(figure)
    assert [ax.get_title() for ax in axes] == list(panels)
    assert len({ax.images[0].norm.vmax for ax in axes}) == 1
    np.testing.assert_array_equal(axes[0].images[0].get_array().filled(0), panels["β = 0.1"])
    assert [t.get_text() for t in axes[3].get_yticklabels()] == list(table.domain_names)


def test_the_similarity_figure_says_the_means(table):
    pairs = inspection.similarities(table)
    axes = images_of(figures.draw_similarity(pairs))
    assert [ax.get_title() for ax in axes] == [f"same class {p.same:.2f}, others {p.other:.2f}" for p in pairs]
    assert (axes[0].get_ylabel(), axes[0].get_xlabel()) == pairs[0].domains


def test_the_client_view_has_three_panels_with_one_frame(table, parts):
    figure = figures.draw_client_view(inspection.client_view(table, parts, 0, TWO_STEPS, [], seed=0))
    assert len(figure.axes) == 3 and len({ax.get_xlim() for ax in figure.axes}) == 1
    assert figure.axes[0].get_title() == "domain 0: own samples"


@pytest.mark.parametrize("n_classes, n_domains, clients", [(2, 1, 1), (65, 4, 4), (200, 1, 30)])
def test_they_can_be_drawn_for_few_and_for_many(tmp_path, n_classes, n_domains, clients):
    table = a_table(n_classes, n_domains, each=30, dimension=6)
    parts = partition.dirichlet(table.y, clients, 0.5)
    names = client_names(table, parts)
    made = {
        "labels": figures.label_distribution({"a": inspection.client_counts(table, parts)}, table.class_names, names),
        "spectra": figures.draw_spectra(*inspection.spectra(table)),
        "view": figures.draw_client_view(
            inspection.client_view(table, parts, 0, ggeur(steps=1, target=40), [], seed=0)
        ),
    }
    if n_domains > 1:
        made["similarity"] = figures.draw_similarity(inspection.similarities(table))
    for name, figure in made.items():
        assert isinstance(figure, Figure)
        png, svg = figures.save_figure(figure, tmp_path / name)
        assert min(Image.open(png).size) > 300 and svg.read_text().rstrip().endswith("</svg>")


def test_the_same_figure_is_the_same_file(table, tmp_path):
    for name in ("one", "two"):
        figures.save_figure(figures.draw_spectra(*inspection.spectra(table)), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_nothing_global_is_touched():
    code = "import sys, ggeur.report.figures; print('matplotlib.pyplot' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_lengths_by_domain_and_directions_that_carry_the_variance():
    x = np.array([[3.0, 4.0], [0.0, 7.0], [6.0, 8.0]], np.float32)
    table = EmbeddingTable(x=x, y=[0, 1, 0], domain=[0, 0, 2], domain_names=("a", "b", "c"))
    assert inspection.norms(table) == [(6.0, 1.0), None, (10.0, 0.0)]
    assert inspection.directions(np.array([[8.0, 1.5, 0.5], [9.5, 0.5, 0.0]]), 0.9).tolist() == [2, 1]
