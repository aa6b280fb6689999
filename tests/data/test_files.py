"""Files appear whole or not at all, and only what was asked for is read. (Damaged ones: see test_table.)"""

import os
import zipfile

import numpy as np
import pytest

from ggeur.core.errors import GgeurError
from ggeur.data.files import read_arrays, write_atomically


def test_what_was_written_is_there_and_nothing_else(tmp_path):
    with write_atomically(tmp_path / "a.bin") as file:
        file.write(b"new")
        assert not [name for name in os.listdir(tmp_path) if not name.startswith(".")]
    assert (tmp_path / "a.bin").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_the_old_content_stays_until_the_new_is_whole(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with write_atomically(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_inside_passes_through_and_leaves_nothing(tmp_path, error):
    with pytest.raises(error), write_atomically(tmp_path / "a.bin") as file:
        file.write(b"half")
        raise error
    assert os.listdir(tmp_path) == []


def test_an_exception_inside_keeps_the_old_content(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(ValueError), write_atomically(path) as file:
        file.write(b"half")
        raise ValueError
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a.bin"]


def test_a_full_disk_is_told_in_one_sentence_and_leaves_nothing(tmp_path):
    told = pytest.raises(GgeurError, match="Cannot write .*a.bin: No space left")
    with told, write_atomically(tmp_path / "a.bin"):
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_told_before_any_work(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "missing" / "a.bin", tmp_path / "file" / "a.bin"):
        with pytest.raises(GgeurError, match="Cannot write .*a.bin"), write_atomically(path):
            pytest.fail("the block must not run")
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_is_not_overwritten(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(GgeurError, match="Cannot write"), write_atomically(tmp_path / "folder") as file:
        file.write(b"new")
    assert os.listdir(tmp_path) == ["folder"] and os.listdir(tmp_path / "folder") == []


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640)])
def test_colleagues_may_read_what_the_users_umask_allows(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        with write_atomically(tmp_path / "a.bin") as file:
            file.write(b"new")
        assert os.umask(mask) == mask, "the mask is as it was"
    finally:
        os.umask(before)
    assert (tmp_path / "a.bin").stat().st_mode & 0o777 == mode


def test_arrays_are_read_by_name_or_all(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, b=np.arange(3), w=np.eye(2))
    assert list(read_arrays(path)) == ["b", "w"]
    only = read_arrays(path, ("w", "missing"))
    assert list(only) == ["w"] and only["w"].tolist() == [[1, 0], [0, 1]]


def test_a_damaged_array_matters_only_to_those_who_ask_for_it(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, good=np.arange(3))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("bad.npy", b"no array")
    assert list(read_arrays(path, ("good",))) == ["good"]
    with pytest.raises(GgeurError, match="a.npz is damaged"):
        read_arrays(path)
