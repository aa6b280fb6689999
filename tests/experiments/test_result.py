"""`result.json` out and in, and rows over seeds."""

import json

import pytest

from ggeur.experiments.result import Result, Trial
from refusal import refused


def trial(seed, avg, beta=0.1, **changes):
    values = {"domains": {"a": avg - 1, "b": avg + 1}, "avg": avg, "std": 1.0 + seed, "rounds": [avg]}
    return Trial("fedavg", "none", seed, {"partition.beta": beta}, **(values | changes))


def failed(seed, **settings):
    return Trial("fedavg", "none", seed, settings or {"partition.beta": 0.1}, status="diverged", message="why")


def test_a_row_is_the_mean_over_seeds_with_the_sample_deviation():
    row, other = Result([trial(0, 90.0), trial(1, 96.0), trial(0, 50.0, beta=0.5)]).rows()
    assert row.settings == {"partition.beta": 0.1}
    assert row.avg == pytest.approx(93.0)
    assert row.spread == pytest.approx(18**0.5)  # ddof 1; the population's is 3
    assert row.domains == pytest.approx({"a": 92.0, "b": 94.0})
    assert row.std == pytest.approx(1.5)
    assert other.avg == pytest.approx(50.0) and other.spread is None


def test_trials_that_did_not_finish_are_left_out_of_the_means_but_not_of_the_row():
    (row,) = Result([trial(0, 90.0), failed(1), trial(2, 92.0)]).rows()
    assert row.avg == pytest.approx(91.0) and len(row.trials) == 3


def test_a_row_of_which_nothing_finished_has_no_figures():
    (row,) = Result([failed(0), failed(1)]).rows()
    assert (row.avg, row.spread, row.std, row.domains) == (None, None, None, {})


def test_one_domain_gives_a_row_without_std():
    (row,) = Result([trial(0, 90.0, std=None, domains={"all": 90.0})]).rows()
    assert row.std is None and row.domains == {"all": 90.0}


def test_a_result_reads_back_from_its_file_and_from_its_folder(tmp_path):
    result = Result([trial(0, 90.0), failed(1)])
    (tmp_path / "result.json").write_text(result.to_json())
    assert Result.load(tmp_path) == Result.load(tmp_path / "result.json") == result


def test_the_json_has_the_keys_of_the_schema():
    data = json.loads(Result([trial(3, 90.0)]).to_json())
    assert data["schema"] == 1
    (only,) = data["trials"]
    wanted = {"method", "augment", "seed", "settings", "status", "domains", "avg", "std", "rounds", "seconds"}
    assert wanted <= set(only)
    assert (only["method"], only["augment"], only["seed"], only["status"]) == ("fedavg", "none", 3, "ok")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", "null", "{}", '{"schema": 1}', '{"schema": 1, "trials": [{}]}', '{"schema": 1, "trials": 3}'],
)
def test_a_damaged_result_is_named(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    with refused("file-not-result: result.json") as caught:
        Result.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_another_schema_is_refused_with_both_numbers(tmp_path):
    (tmp_path / "result.json").write_text('{"schema": 2, "trials": []}')
    with refused("result-schema-unknown: schema 2...reads 1"):
        Result.load(tmp_path)


def test_a_folder_without_a_result_says_what_to_do(tmp_path):
    with refused("result-missing"):
        Result.load(tmp_path)
