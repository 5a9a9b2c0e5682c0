"""Whatever the key or the prefix, nothing outside the bucket's folder is read or deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit
from labkit.bucket import Bucket

ESCAPES = [
    "../outside",
    "/etc/passwd",
    "..",
    ".",
    "a/../../outside",
    "..\\outside",
    "C:\\x",
    "a\x00b",
    "%2e%2e/outside",
]
keys = st.one_of(st.text(min_size=1, max_size=20), st.sampled_from(ESCAPES))


@pytest.fixture
def fenced(tmp_path: Path) -> tuple[Bucket, Path]:
    """A bucket, and a file beside its folder."""
    (tmp_path / "outside").write_text("keep")
    return Bucket(tmp_path / "bucket"), tmp_path / "outside"


@given(st.sets(keys, max_size=8), keys)
def test_a_bucket_is_a_set_of_keys(names: set[str], other: str) -> None:
    bucket = Bucket()
    bucket.reset(names)
    assert bucket.keys() == sorted(names)
    assert bucket.keys(other) == sorted(name for name in names if name.startswith(other))
    assert bucket.delete(other) == (other in names)
    assert bucket.keys() == sorted(names - {other})
    assert all(path.parent == bucket.folder for path in bucket.folder.rglob("*"))


@pytest.mark.parametrize("key", ESCAPES)
def test_a_key_is_a_name_and_not_a_path(fenced: tuple[Bucket, Path], key: str) -> None:
    bucket, outside = fenced
    assert bucket.keys(key) == []
    assert not bucket.delete(key)
    bucket.put(key, b"mine")
    assert bucket.keys() == [key]
    assert bucket.delete(key)
    assert outside.read_text() == "keep"
    assert sorted(path.name for path in outside.parent.iterdir()) == ["bucket", "outside"]


def test_links_folders_and_foreign_files_are_no_objects(fenced: tuple[Bucket, Path]) -> None:
    bucket, outside = fenced
    (bucket.folder / "link").symlink_to(outside)
    (bucket.folder / "up").symlink_to(outside.parent, target_is_directory=True)
    (bucket.folder / "folder").mkdir()
    (bucket.folder / "folder" / "file").write_text("keep")
    (bucket.folder / ".DS_Store").write_text("keep")
    (bucket.folder / "not encoded").write_text("keep")
    before = sorted(bucket.folder.rglob("*"))
    assert bucket.keys() == []
    for key in ("link", "up", "up/outside", "folder", "folder/file", ".DS_Store", "not encoded"):
        assert not bucket.delete(key)
    bucket.reset([])
    assert sorted(bucket.folder.rglob("*")) == before
    assert outside.read_text() == "keep"


def test_storing_over_a_link_does_not_write_through_it(fenced: tuple[Bucket, Path]) -> None:
    bucket, outside = fenced
    (bucket.folder / "link").symlink_to(outside)
    bucket.put("link", b"mine")
    assert outside.read_text() == "keep"
    assert bucket.keys() == ["link"]
    assert (bucket.folder / "link").read_bytes() == b"mine"
    assert [path.name for path in bucket.folder.iterdir()] == ["link"], "nothing temporary is left"


def test_a_temporary_bucket_goes_with_its_owner() -> None:
    bucket = Bucket()
    bucket.put("logs/1")
    folder = bucket.folder
    del bucket
    assert not folder.exists()


@pytest.mark.parametrize("key", ["", "a" * 256, "é" * 50])
def test_a_key_that_fits_no_file_name_is_one_sentence(key: str) -> None:
    bucket = Bucket()
    with pytest.raises(labkit.LabError, match="cannot be a key here"):
        bucket.put(key)
    assert not bucket.delete(key)


def test_a_second_bucket_on_the_folder_sees_the_same_truth(fenced: tuple[Bucket, Path]) -> None:
    bucket, _ = fenced
    bucket.put("logs/1")
    replica = Bucket(bucket.folder)
    assert replica.keys() == ["logs/1"]
    assert replica.delete("logs/1")
    assert bucket.keys() == []
