"""Files appear whole or not at all, and only what was asked for is read. (Damaged ones: see test_table.)"""

import os
import subprocess
import sys
import threading
import zipfile
from textwrap import dedent

import numpy as np
import pytest

from ggeur.stats.storage import lock_file, read_arrays, write_atomically
from refusal import refused


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
    with refused("file-unwritable: a.bin...No space left"), write_atomically(tmp_path / "a.bin"):
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_told_before_any_work(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "missing" / "a.bin", tmp_path / "file" / "a.bin"):
        with refused("file-unwritable: a.bin"), write_atomically(path):
            pytest.fail("the block must not run")
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_is_not_overwritten(tmp_path):
    (tmp_path / "folder").mkdir()
    with refused("file-unwritable"), write_atomically(tmp_path / "folder") as file:
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
    with refused("file-not-npz: a.npz"):
        read_arrays(path)


# ---------------------------------------------------------------- locks


def taken(path):
    with refused("folder-locked: It is in use."):
        lock_file(path, "It is in use.")
    return True


def test_a_lock_is_held_by_one_until_it_is_closed_by_whichever_thread(tmp_path):
    path = tmp_path / ".lock"
    lock = lock_file(path, "")
    assert taken(path) and os.listdir(tmp_path) == [".lock"]
    thread = threading.Thread(target=lock.close)
    thread.start()
    thread.join()
    with lock_file(path, ""):
        assert taken(path)
    lock.close()  # again
    lock_file(path, "").close()


def test_a_lock_ends_with_the_process_that_is_killed(tmp_path):
    script = """
        import sys, time
        from pathlib import Path
        from ggeur.stats.storage import lock_file
        lock = lock_file(Path(sys.argv[1]), "")
        print("held", flush=True)
        time.sleep(60)
    """
    path = tmp_path / ".lock"
    command = [sys.executable, "-c", dedent(script), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        assert taken(path)
        other.kill()
    lock_file(path, "").close()


def test_a_lock_of_an_earlier_version_is_seen(tmp_path):
    import fcntl

    with (tmp_path / ".lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert taken(tmp_path / ".lock")
    lock_file(tmp_path / ".lock", "").close()


def test_a_place_that_cannot_be_locked_is_an_error_of_the_system(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError):
        lock_file(tmp_path / "file" / ".lock", "")
