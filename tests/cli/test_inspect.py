"""`ggeur inspect`: numbers on the screen, figures in a folder."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from ggeur.data.table import EmbeddingTable

FIGURES = {
    f"{name}.{kind}"
    for name in ("label-distribution", "similarity", "client-view", "spectra")
    for kind in ("png", "svg")
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y, domain = np.tile(np.repeat(np.arange(3), 20), 2), np.repeat([0, 1], 60)
    x = 3 * rng.normal(size=(3, 8))[y] + rng.normal(size=(120, 8))
    table = EmbeddingTable(
        x=x.astype(np.float32), y=y, domain=domain, class_names=("ant", "[b]", "cat"), domain_names=("art", "photo"),
        meta={"encoder": "made up"},
    )  # fmt: skip
    table.save(tmp_path / "t.npz")
    EmbeddingTable(x=table.x, y=table.y, class_names=table.class_names).save(tmp_path / "one.npz")
    table.subset([]).save(tmp_path / "none.npz")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.fixture
def only_svg(monkeypatch):
    """Figures whose PNG is left empty, for tests of what is written in their SVG."""
    real = Figure.savefig

    def save(figure, file, *, format, **options):
        if format != "png":
            real(figure, file, format=format, **options)

    monkeypatch.setattr(Figure, "savefig", save)


def test_numbers_only_without_out(ggeur, place):
    code, out, _ = ggeur("inspect", "t.npz")
    assert code == 0 and "120 samples" in out and "encoder: made up" in out and "[b]" in out
    assert "samples of each class" in out and "norm" in out and "spectrum" in out and "art - photo" in out
    assert {p.name for p in place.iterdir()} == {"t.npz", "one.npz", "none.npz"}


def test_one_command_draws_every_figure_with_the_six_betas(ggeur, place):
    code, _, err = ggeur("inspect", "t.npz", "--out", "fig")
    assert code == 0, err
    assert {p.name for p in (place / "fig").iterdir()} == FIGURES
    drawn = (place / "fig" / "label-distribution.svg").read_text()
    assert all(f"β = {beta}<" in drawn for beta in ("0.1", "0.3", "0.5", "0.7", "1", "5"))


@pytest.mark.usefixtures("only_svg")
def test_a_table_of_one_domain_has_no_similarity(ggeur, place):
    options = ("--clients", 3, "--beta", 0.5, "--client", 2, "--class", "cat", "--class", "ant")
    code, _, err = ggeur("inspect", "one.npz", "--out", "fig", *options)
    assert code == 0, err
    names = {p.name for p in (place / "fig").iterdir()}
    assert names == {name for name in FIGURES if "similarity" not in name}
    assert "client 2: own samples" in (place / "fig" / "client-view.svg").read_text()


@pytest.mark.usefixtures("only_svg")
def test_by_domain(ggeur, place):
    code, _, err = ggeur("inspect", "t.npz", "--out", "fig", "--partition", "domain")
    assert code == 0, err
    assert "one domain each" in (place / "fig" / "label-distribution.svg").read_text()


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["nowhere.npz"], "file-missing: nowhere.npz"),
        (["none.npz"], "table-empty"),
        (["t.npz", "--out", "fig", "--client", "7"], "client-out-of-range: client 7"),
        (["t.npz", "--out", "fig", "--class", "unicorn"], "class-unknown: unicorn"),
        (["t.npz", "--out", "fig", "--partition", "magic"], "settings-invalid: kind"),
        (["t.npz", "--out", "fig", "--beta", "-1"], "settings-invalid: beta"),
        (["t.npz", "--out", "t.npz"], "file-unwritable: t.npz"),
    ],
)
def test_mistakes_are_one_sentence_and_draw_nothing(ggeur, place, arguments, words):
    code, _, err = ggeur("inspect", *arguments)
    assert code == 2 and err.says(words) and err.count("\n") == 1 and not (place / "fig").exists()
