"""Multi30k is read from a folder, a server or the cache, and its files are checked."""

import gzip
import hashlib
import re
import shutil
from types import SimpleNamespace

import pooch
import pytest

from unmasked.text import multi30k as module
from unmasked.text.multi30k import SPLITS, SUMS, multi30k

GERMAN = ["Ein Igel übt Geige.", "Zwei Äpfel\u2028rollen.", "\x85Drei Uhren gehen nach.\x1c"]
ENGLISH = [" A hedgehog practises the violin.", "Two apples roll.\x0c", "Three clocks are slow.\t"]
PAIRS = [(de.strip(), en.strip()) for de, en in zip(GERMAN, ENGLISH, strict=True)]


def packed(text):
    return gzip.compress(text.encode(), mtime=0)  # the same bytes at any time


def flipped(data):
    """Returns the data with its last bit changed."""
    return data[:-1] + bytes([data[-1] ^ 1])


DE, EN = packed("\n".join(GERMAN)), packed("".join(f"{text}\n" for text in ENGLISH))
FILES = {"tiny.de.gz": DE, "tiny.en.gz": EN}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Makes a split of three pairs; one file has a SHA-256 sum, the other an MD5 sum."""
    monkeypatch.delenv("UNMASKED_DATA", raising=False)
    monkeypatch.setattr(module, "SPLITS", ("tiny",))
    monkeypatch.setattr(module, "SUMS", {
        "tiny.de.gz": hashlib.sha256(DE).hexdigest(),
        "tiny.en.gz": f"md5:{hashlib.md5(EN).hexdigest()}",
    })  # fmt: skip
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))
    return tmp_path / "unmasked" / "multi30k"


def fill(folder, **changes):
    """Writes the two files, or others in their place."""
    folder.mkdir(parents=True, exist_ok=True)
    others = {f"tiny.{language}.gz": content for language, content in changes.items()}
    for name, content in (FILES | others).items():
        (folder / name).write_bytes(content)
    return folder


def test_the_splits():
    assert SPLITS[:2] == ("train", "val")
    assert set(SUMS) == {f"{name}.{language}.gz" for name in SPLITS for language in ("de", "en")}
    assert all(re.fullmatch("[0-9a-f]{64}|md5:[0-9a-f]{32}", known) for known in SUMS.values())
    with pytest.raises(ValueError, match=r"^split: expected 'tiny', got 'test'"):
        multi30k("test")


# --- From a folder ----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Names a folder, with which nothing needs to be downloaded."""
    monkeypatch.setattr(module, "download", lambda _: pytest.fail("asked for pooch"))
    monkeypatch.setenv("UNMASKED_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.mark.parametrize("inside", [False, True])
def test_the_folder_or_its_subfolder_and_nothing_is_written(folder, inside):
    fill(folder / "multi30k" if inside else folder)
    if inside:
        fill(folder, de=b"the subfolder goes before", en=b"")
    before = {path: path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}
    assert multi30k("tiny") == PAIRS
    assert {path: path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))} == before


@pytest.mark.parametrize(
    ("name", "put", "message"),
    [
        ("de", None, "a file that can be read, got No such file or directory"),
        ("de", flipped(DE), "a file with the sha256 sum [0-9a-f]+, got [0-9a-f]+"),
        ("en", flipped(EN), "a file with the md5 sum [0-9a-f]+, got [0-9a-f]+"),
    ],
)
def test_a_file_that_is_missing_or_damaged(folder, name, put, message):
    file = fill(folder, **{name: put or b""}) / f"tiny.{name}.gz"
    if put is None:
        file.unlink()
    path, address = re.escape(str(file)), re.escape(module.BASE + file.name)
    with pytest.raises(ValueError, match=f"^{path}: expected {message}; put {address}"):
        multi30k("tiny")


# --- From a server, into the cache ------------------------------------------------------------


@pytest.fixture
def server(monkeypatch, tmp_path):
    """Returns a folder from which all downloads are taken."""
    folder = fill(tmp_path / "served")

    def copied(_, address, path, *__):
        shutil.copy(folder / address.removeprefix(module.BASE), path)

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", copied)
    return folder


def test_each_file_is_fetched_once_unless_it_is_damaged(server, cache, monkeypatch):
    monkeypatch.setenv("UNMASKED_DATA", "")
    fill(server, de=b"?")
    no_download("SHA256 hash .* does not .*")
    assert list(cache.iterdir()) == []
    fill(server)
    assert multi30k("tiny") == PAIRS
    fill(cache, en=flipped(EN))
    assert multi30k("tiny") == PAIRS
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == FILES
    shutil.rmtree(server)
    assert multi30k("tiny") == PAIRS
    fill(cache, de=b"damaged")
    no_download(".*No such file.*")


def no_download(reason):
    """Expects an error that says which file is missing, why, and what to do."""
    address = re.escape(f"{module.BASE}tiny.de.gz")
    with pytest.raises(OSError, match=rf"^{address}: not downloaded \({reason}\); .*UNMASKED_DATA"):
        multi30k("tiny")
