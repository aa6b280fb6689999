"""What rots or is cut off between two processes is noticed, and what can be done again is."""

import json
import shutil

import numpy as np
import pytest

import ggeur
from ggeur import Experiment, GgeurError, GgeurWarning, Model, Result
from ggeur.stats.storage import sealed, unsealed
from refusal import refused


@pytest.fixture(scope="module")
def experiment(tree):
    return Experiment.of(tree(augment={"kind": "none"}, train={"method": ["fedavg", "lda"], "rounds": 2}))


@pytest.fixture(scope="module")
def whole(experiment, tmp_path_factory):
    """A finished run."""
    out = tmp_path_factory.mktemp("rot") / "run"
    ggeur.run(experiment, out=out)
    return out


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


@pytest.fixture
def stopped(experiment, tmp_path):
    """A run that was stopped after its first stack, and can be gone on with."""

    def stop(event):
        if event["trial"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ggeur.run(experiment, out=tmp_path / "run", on_round=stop)
    return tmp_path / "run"


def flips(content, every=7):
    """The content with one bit of one byte turned, at many places."""
    for at in range(0, len(content), every):
        yield at, content[:at] + bytes([content[at] ^ (1 << at % 7)]) + content[at + 1 :]


@pytest.mark.parametrize("name", ["result.json", "model/trial-000/model.json"])
def test_no_flipped_bit_is_read_as_another_number(copy, name):
    read = Result.load if name == "result.json" else Model.load
    path = copy / name
    place = path if name == "result.json" else path.parent
    before = path.read_bytes()
    same = json.loads(before)
    for at, content in flips(before, every=3):
        path.write_bytes(content)
        try:
            read(place)
        except GgeurError:
            continue
        assert json.loads(content) == same, f"byte {at} is not noticed"


def test_what_earlier_versions_wrote_has_no_seal_and_is_read(copy):
    path = copy / "result.json"
    tree = json.loads(path.read_text())
    del tree["sha256"]
    path.write_text(json.dumps(tree))
    assert Result.load(copy).trials == Result.load(path).trials


def test_a_seal_holds_for_keys_that_are_no_text_and_values_that_json_does_not_know():
    tree = {"a": {10: [1.5], 2: None}, "b": np.datetime64("2026-01-02")}
    assert unsealed(sealed(tree), {"a", "b"}) == {"a": {"10": [1.5], "2": None}, "b": "2026-01-02"}


def test_damaged_metrics_are_noticed_and_a_torn_end_is_written_again(stopped, experiment):
    path = stopped / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for at, content in flips(lines[0][:-1]):
        path.write_bytes(content + b"\n" + b"".join(lines[1:]))
        with refused("file-line-damaged: line 1"):
            ggeur.run(experiment, out=stopped, resume=True)
        assert at >= 0
    path.write_bytes(b"".join(lines) + lines[0][:20])
    assert all(trial.status == "ok" for trial in ggeur.run(experiment, out=stopped, resume=True).trials)


def test_without_the_fingerprints_a_changed_table_cannot_pass(stopped, experiment):
    (stopped / "inputs.json").unlink()
    with refused("run-inputs-unreadable: inputs.json"):
        ggeur.run(experiment, out=stopped, resume=True)


def test_going_on_under_other_versions_is_said(stopped, experiment):
    path = stopped / "versions.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"numpy": "1.0"}))
    with pytest.warns(GgeurWarning, match=r"started with numpy 1\.0 \(now "):
        ggeur.run(experiment, out=stopped, resume=True)


@pytest.mark.parametrize("left", [(".lock",), (".lock", "checkpoint/"), (".lock", "checkpoint/", "versions.json")])
def test_a_folder_that_a_process_left_before_it_began_can_be_started_in(tmp_path, experiment, left):
    for name in left:
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()
    assert ggeur.run(experiment, out=tmp_path).trials[0].status == "ok"


def test_a_folder_with_a_checkpoint_is_not_started_in(tmp_path, experiment):
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "state-0").touch()
    with refused("folder-not-empty"):
        ggeur.run(experiment, out=tmp_path)


def test_checkpoints_that_were_half_removed_are_removed_when_the_run_is_asked_for_again(copy, experiment):
    (copy / "checkpoint").mkdir()
    (copy / "checkpoint" / "trial-00000").write_bytes(b"half")
    ggeur.run(experiment, out=copy, resume=True)
    assert not (copy / "checkpoint").exists()


def test_a_finished_trial_whose_head_is_gone_is_computed_again(stopped, whole, experiment):
    (stopped / "model" / "trial-000" / "head.npz").unlink()
    with pytest.warns(GgeurWarning, match=r"heads of finished trials are gone \(numbers 0\)"):
        ggeur.run(experiment, out=stopped, resume=True)
    for name, leaf in Model.load(whole / "model" / "trial-000").params.items():
        np.testing.assert_allclose(Model.load(stopped / "model" / "trial-000").params[name], leaf, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("resume", [False, True])
def test_a_name_that_no_file_system_takes_is_a_sentence(tmp_path, experiment, resume):
    with refused("run-missing" if resume else "run-folder-unwritable"):
        ggeur.run(experiment, out=tmp_path / ("a" * 300), resume=resume)
