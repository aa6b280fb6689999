"""`ggeur fit --method kernel`, and sites that join and leave such a model, as they are typed."""

import numpy as np
import pytest

import ggeur as library


@pytest.fixture
def sites(tmp_path):
    """Three tables of two classes."""
    rng, y = np.random.default_rng(0), np.arange(60) % 2
    for name in ("art", "photo", "sketch"):
        x = rng.normal(size=(60, 4)) + 4 * np.eye(4)[y]
        table = library.EmbeddingTable(x=x, y=y, test=np.arange(60) < 10, class_names=("ant", "bee"))
        table.save(tmp_path / f"{name}.npz")
    return [tmp_path / f"{name}.npz" for name in ("art", "photo", "sketch")]


def test_a_kernel_model_is_fitted_used_and_left(ggeur, undrawn, sites, tmp_path):
    model = tmp_path / "model"
    code, out, _ = ggeur("fit", *sites, "--method", "kernel", "--out", model)
    assert code == 0 and "kernel" in out
    assert "from pooled statistics" in (model / "card.md").read_text()
    code, out, _ = ggeur("predict", model, sites[0])
    assert code == 0 and "ant" in out
    code, _, err = ggeur("forget", model, "sketch", "--yes")
    assert code == 2 and err.says("features-not-resent: art, photo")
    code, out, err = ggeur("forget", model, "sketch", "--keep-units", "--yes")
    assert code == 0 and "Not exact: units of" in out + err
    card = (model / "card.md").read_text()
    assert "Not exact: units of" in card and "sketch" not in card and "Samples of smaller groups" not in card
    assert ggeur("add", model, sites[2], *sites[:2])[0] == 0
    assert "Not exact" not in (model / "card.md").read_text()
    code, _, err = ggeur("fit", *sites, "--method", "kernle", "--out", tmp_path / "other")
    assert code == 2 and "kernel" in err
