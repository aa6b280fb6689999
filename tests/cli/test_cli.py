"""The command line: what it prints and writes, and one sentence with exit code 2 for every mistake of a user's."""

import csv
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable

NAMES = ("ant", "[bold]bee", "cat")

EXPERIMENT = """
[data]
table = "toy.npz"
[partition]
kind = "label-and-domain"
beta = 0.5
[augment]
kind = ["none", "ggeur"]
target = 12
per_prototype = 4
[train]
rounds = 2
local_epochs = 1
batch_size = 8
learning_rate = 0.05
"""


def toy(**changes):
    rng = np.random.default_rng(0)
    y, domain = np.tile(np.repeat(np.arange(3), 10), 2), np.repeat([0, 1], 30)
    x = 3 * rng.normal(size=(3, 4))[y] + rng.normal(size=(60, 4))
    values = dict(x=x.astype(np.float32), y=y, domain=domain, class_names=NAMES, domain_names=("art", "photo"))
    return EmbeddingTable(**(values | changes))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a table and an experiment, and we are in it."""
    toy().save(tmp_path / "toy.npz")
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def one_line(text):
    """Free of the line breaks that a narrow terminal puts in."""
    return " ".join(text.split())


# ---------------------------------------------------------------- starting


def test_the_module_runs_as_the_command_does_and_a_mistake_has_no_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "ggeur", "run", "nowhere.toml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "nowhere.toml" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "argv", [["nothing"], ["run"], ["demo", "--rounds", "0"], ["run", "--colour"], ["predict", "x"]]
)
def test_a_misspelt_command_line_exits_with_2(ggeur, argv):
    code, out, err = ggeur(*argv)
    assert code == 2 and "Traceback" not in out + err


# ---------------------------------------------------------------- run


def test_run_prints_a_table_and_writes_a_run_folder(ggeur, place):
    code, out, err = ggeur("run", "exp.toml", "--out", "RUN")
    assert (code, err) == (0, "")
    assert all(word in out for word in ("FedAvg", "GGEUR", "art", "photo", "AVG", "STD", "RUN"))
    trials = json.loads((place / "RUN" / "result.json").read_text())["trials"]
    assert [(c["augment"], c["status"], len(c["rounds"])) for c in trials] == [("none", "ok", 2), ("ggeur", "ok", 2)]
    for trial in trials:
        assert f"{trial['avg']:.2f}" in out
        assert all(f"{value:.2f}" in out for value in trial["domains"].values())
    assert sorted(p.name for p in place.iterdir()) == ["RUN", "exp.toml", "toy.npz"]


def test_set_overrides_the_file_and_spread_over_seeds_is_shown(ggeur, place):
    code, out, _ = ggeur("run", "exp.toml", "--out", "RUN", "--set", "augment.kind=none", "--set", "run.seeds=[3, 5]")
    assert code == 0 and "±" in out
    trials = json.loads((place / "RUN" / "result.json").read_text())["trials"]
    assert [(c["augment"], c["seed"]) for c in trials] == [("none", 3), ("none", 5)]


def test_without_out_every_run_gets_a_folder_of_its_own_under_runs(ggeur, place):
    for _ in range(2):
        assert ggeur("run", "exp.toml", "--set", "augment.kind=none")[0] == 0
    folders = list((place / "runs").iterdir())
    assert len(folders) == 2 and all(f.name.startswith("exp-") and (f / "result.json").exists() for f in folders)


def test_a_note_of_ours_is_printed_and_a_diverged_row_is_marked(ggeur, place):
    _, out, _ = ggeur(
        *("run", "exp.toml", "--out", "RUN", "--set", "augment.kind=ggeur", "--set", "partition.clients=2"),
        *("--set", "partition.kind=dirichlet", "--set", "augment.steps=2", "--set", "train.learning_rate=1e30"),
    )
    text = one_line(out)
    assert "note: Step 2 adds nothing" in text
    assert "diverged" in text and "train.learning_rate" in text


# ---------------------------------------------------------------- predict


@pytest.fixture
def trained(ggeur, place):
    assert ggeur("run", "exp.toml", "--out", "RUN", "--set", "augment.kind=none")[0] == 0
    return place / "RUN"


def by_hand(folder, table):
    head = np.load(folder / "model" / "trial-000" / "head.npz")
    e = np.exp(table.x.astype(np.float64) @ head["W"].T + head["b"])
    p = e / e.sum(axis=1, keepdims=True)
    return p.argmax(axis=1), p.max(axis=1)


@pytest.mark.parametrize("model", ["RUN", "RUN/model/trial-000"])
def test_predict_writes_one_line_per_row(ggeur, trained, place, model):
    assert ggeur("predict", model, "toy.npz", "--out", "p.csv")[0] == 0
    with (place / "p.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    best, sure = by_hand(trained, toy())
    assert [line["sample"] for line in lines] == [str(i) for i in range(60)]
    assert [line["class"] for line in lines] == [NAMES[c] for c in best]
    np.testing.assert_allclose([float(line["probability"]) for line in lines], sure, atol=1e-4)


def test_predict_without_out_counts_the_classes_and_agreement(ggeur, trained):
    code, out, _ = ggeur("predict", "RUN", "toy.npz")
    best, _ = by_hand(trained, toy())
    assert code == 0
    for c, name in enumerate(NAMES):
        assert f"{(best == c).sum():7d}  {name}" in out
    assert f"{100 * (best == toy().y).mean():.2f} %" in out


# ---------------------------------------------------------------- what there is


def test_methods_datasets_and_encoders_are_listed(ggeur):
    from ggeur.data.datasets import DATASETS
    from ggeur.methods import names
    from ggeur.methods.algorithm import Iterative

    listed = {"methods": names(Iterative), "datasets": [*DATASETS, "mini-digits"], "encoders": ["builtin"]}
    for command, there in listed.items():
        code, out, _ = ggeur(command)
        assert code == 0 and all(name in out for name in there)


def test_methods_are_listed_as_their_functions_have_them_and_without_jax():
    import inspect

    from ggeur.cli.methods import read_about
    from ggeur.methods import factory, names, parameters

    for name in names():
        found = {key: eval(value) for key, value in read_about(name).parameters.items()}
        assert found == {key: p.default for key, p in parameters(name).items()}
        assert read_about(name).summary == inspect.getdoc(inspect.getmodule(factory(name))).partition("\n")[0]
    code = "import sys\nfrom ggeur.cli import main\nsys.argv = ['ggeur', 'methods']\n"
    code += "try: main()\nfinally: print(sys.modules.get('jax'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("None\n") and "fedavg" in done.stdout, done.stderr


# ---------------------------------------------------------------- a user's mistakes


def assert_refused(answer, place, before, says):
    """Exit code 2, one line on stderr that says what, and not one file more than before."""
    code, out, err = answer
    assert code == 2
    assert len(err.splitlines()) == 1 and err.startswith("error: ")
    assert "Traceback" not in out + err
    assert err.says(says)
    assert files(place) == before


def files(place):
    return sorted((p.relative_to(place).as_posix(), p.stat().st_size) for p in place.rglob("*"))


def arrays(**changes):
    whole = {"x": toy().x, "y": toy().y, "domain": toy().domains} | changes
    return {name: value for name, value in whole.items() if value is not None}


@pytest.mark.parametrize("name", [":b:", ":smile:", "[bold]x[/]", "[/]", "a\\"])
def test_what_a_user_wrote_stands_in_an_error_as_it_is(ggeur, name):
    code, _, err = ggeur("run", f"{name}.toml", "--out", "x")
    assert code == 2 and err.says(f"file-missing: {name}.toml")


def poisoned(value):
    x = toy().x.copy()
    x[7, 2] = value
    return arrays(x=x)


BAD_TABLES = {
    "nan": (poisoned(np.nan), "embeddings-not-finite: toy.npz...sample 7"),
    "infinite": (poisoned(np.inf), "embeddings-not-finite: toy.npz...sample 7"),
    "ragged": (arrays(y=toy().y[:50]), "labels-shape: toy.npz...(50,)"),
    "one axis": (arrays(x=toy().x.ravel()), "embeddings-shape: toy.npz...(240,)"),
    "negative label": (arrays(y=toy().y - 1), "labels-out-of-range: toy.npz...label -1"),
    "label beyond the names": (arrays(class_names=np.array(["a", "b"])), "labels-out-of-range: toy.npz...label 2"),
    "no labels": (arrays(y=None), "file-not-table: toy.npz"),
    "text": (arrays(x=np.full((60, 4), "a")), "embeddings-type: toy.npz"),
    "no training samples": (arrays(test=np.ones(60, bool)), "training-samples-missing"),
    "no test samples": (arrays(test=np.zeros(60, bool)), "test-samples-missing"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_bad_table_is_one_sentence_and_leaves_no_run_folder(ggeur, place, name):
    table, says = BAD_TABLES[name]
    np.savez(place / "toy.npz", **table)
    before = files(place)
    assert_refused(ggeur("run", "exp.toml", "--out", "RUN"), place, before, says)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-300])


def flipped(path):
    data = bytearray(path.read_bytes())
    data[400] ^= 0xFF  # within x, the first array
    path.write_bytes(bytes(data))


def foreign(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (truncated, "file-not-npz"),
        (flipped, "file-not-npz"),
        (foreign, "file-not-table"),
        (lambda path: path.unlink(), "file-missing"),
    ],
)
@pytest.mark.parametrize("command", ["run", "predict"])
def test_a_damaged_or_missing_table_is_named(ggeur, place, damage, code, command):
    (place / "m").mkdir()
    np.savez(place / "m" / "head.npz", W=np.zeros((3, 4)), b=np.zeros(3))
    about = {"head": "linear", "dimension": 4, "class_names": NAMES, "encoder": {}}
    (place / "m" / "model.json").write_text(json.dumps(about))
    damage(place / "toy.npz")
    before = files(place)
    argv = ["run", "exp.toml", "--out", "RUN"] if command == "run" else ["predict", "m", "toy.npz", "--out", "p.csv"]
    assert_refused(ggeur(*argv), place, before, f"{code}: toy.npz")


@pytest.mark.parametrize(
    "assignment, says",
    [
        ("train.colour=3", "settings-invalid: colour...rounds...learning_rate"),
        ("colour.x=3", "settings-invalid: colour...augment...train"),
        ("train.method=fedmagic", "component-unknown: fedmagic...fedavg"),
        ("augment.kind=magic", "settings-invalid: magic...resample"),
        ("augment.target=0", "settings-invalid: [augment] target = 0"),
        ("augment.target=-1", "settings-invalid: [augment] target = -1"),
        ("partition.beta=0", "settings-invalid: [partition] beta = 0"),
        ("partition.beta=-0.5", "settings-invalid: [partition] beta = -0.5"),
        ("partition.beta=[0.5, nan]", "settings-invalid: [partition] beta = nan"),
        ("train.rounds", "option-set-form: train.rounds"),
        ("train.learning_rate.x=1", "option-set-section: train.learning_rate.x=1"),
        ("method.fedavg.mu=1", "hyperparameter-unknown: mu"),
        ("run.seeds=[]", "settings-invalid: seeds"),
        ("train.method=:x", "custom-load-failed: :x"),
    ],
)
def test_a_bad_setting_is_named_with_what_is_allowed(ggeur, place, assignment, says):
    before = files(place)
    assert_refused(ggeur("run", "exp.toml", "--out", "RUN", "--set", assignment), place, before, says)


def test_a_dataset_that_is_not_there_is_named(ggeur, place):
    (place / "exp.toml").write_text('[data]\ndataset = "imagenet-22k"\n')
    before = files(place)
    assert_refused(
        ggeur("run", "exp.toml", "--out", "RUN"), place, before, "dataset-unknown: imagenet-22k...mini-digits"
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[data", "file-not-toml"),
        ("\x00", "file-not-toml"),
        ('table = "toy.npz"', "experiment-section-form"),
        ("", "settings-invalid"),
    ],
)
def test_a_file_that_is_no_experiment_is_refused(ggeur, place, text, code):
    (place / "exp.toml").write_text(text)
    before = files(place)
    assert_refused(ggeur("run", "exp.toml", "--out", "RUN"), place, before, code)


def test_a_missing_experiment_is_named_as_it_was_written(ggeur, place):
    before = files(place)
    assert_refused(ggeur("run", "[red]nowhere.toml"), place, before, "file-missing: [red]nowhere.toml")


@pytest.mark.parametrize(
    ("out", "code"),
    [("file", "folder-is-file"), ("file/RUN", "run-folder-unwritable"), ("full", "folder-not-empty")],
)
def test_a_run_folder_that_cannot_be_used_is_named(ggeur, place, out, code):
    (place / "file").write_text("mine")
    (place / "full").mkdir()
    (place / "full" / "mine.txt").write_text("mine")
    before = files(place)
    assert_refused(ggeur("run", "exp.toml", "--out", out), place, before, f"{code}: {out}")


def test_predictions_that_cannot_be_written_or_made_are_one_sentence(ggeur, trained, place):
    toy(x=np.zeros((60, 7), np.float32)).save(place / "wide.npz")
    before = files(place)
    assert_refused(
        ggeur("predict", "RUN", "toy.npz", "--out", "exp.toml/p.csv"), place, before, "output-folder-missing: p.csv"
    )
    assert_refused(ggeur("predict", "nowhere", "toy.npz"), place, before, "model-missing: nowhere")
    assert_refused(
        ggeur("predict", "RUN", "wide.npz", "--out", "p.csv"),
        place,
        before,
        "embeddings-dimension-mismatch: 7 dimensions...4",
    )
