"""Multi30k from a folder, from a server, and from the cache: what is checked, and what is said."""

import builtins
import contextlib
import gzip
import hashlib
import os
import re
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pooch
import pytest

from unmasked.text import multi30k as module
from unmasked.text.multi30k import SPLITS, SUMS, multi30k

REAL = os.environ.get("UNMASKED_DATA", "")
GERMAN = ["Ein Igel übt Geige.", "Zwei Äpfel\u2028rollen.", "\x85Drei Uhren gehen nach.\x1c"]
ENGLISH = [" A hedgehog practises the violin.", "Two apples roll.\x0c", "Three clocks are slow.\t"]
PAIRS = [
    ("Ein Igel übt Geige.", "A hedgehog practises the violin."),
    ("Zwei Äpfel\u2028rollen.", "Two apples roll."),
    ("Drei Uhren gehen nach.", "Three clocks are slow."),
]


def packed(text: str, encoding: str = "utf-8") -> bytes:
    return gzip.compress(text.encode(encoding), mtime=0)  # the same whenever it is called


def lines(texts: list[str]) -> bytes:
    return packed("".join(f"{text}\n" for text in texts))


FILES = {"tiny.de.gz": lines(GERMAN), "tiny.en.gz": lines(ENGLISH)}


def flipped(data: bytes) -> bytes:
    """One bit in the middle is another."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


# --- A small split and a cache of its own -----------------------------------------------------


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNMASKED_DATA", raising=False)
    monkeypatch.setattr(module, "SPLITS", {"tiny": 3})
    know(monkeypatch, FILES)


def know(monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> None:
    """Of one sum it is SHA-256 that is known, of the other MD5."""
    sums = {
        name: hashlib.sha256(data).hexdigest()
        if ".de." in name
        else f"md5:{hashlib.md5(data).hexdigest()}"
        for name, data in files.items()
    }
    monkeypatch.setattr(module, "SUMS", sums)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))
    return tmp_path / "unmasked" / "multi30k"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def fill(folder: Path, data: dict[str, bytes] = FILES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in data.items():
        (folder / name).write_bytes(content)
    return folder


# --- What is asked for ------------------------------------------------------------------------


def test_the_splits():
    counts = [29_000, 1_014, 1_000, 1_000, 1_071, 461]
    names = ["train", "val", *(f"test_{x}_flickr" for x in (2016, 2017, 2018)), "test_2017_mscoco"]
    assert dict(zip(names, counts, strict=True)) == SPLITS
    assert set(SUMS) == {f"{name}.{language}.gz" for name in names for language in ("de", "en")}
    assert all(re.fullmatch("[0-9a-f]{64}|md5:[0-9a-f]{32}", known) for known in SUMS.values())
    assert len(set(SUMS.values())) == 12


def test_an_unknown_split(monkeypatch):
    monkeypatch.setattr(module, "SPLITS", SPLITS)
    with pytest.raises(ValueError, match=r"^split: expected 'train' or 'val' or .*, got 'test'; "):
        multi30k("test")


# --- From a folder ----------------------------------------------------------------------------


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is enough: no download, not even the package for it."""
    monkeypatch.setattr(module, "import_pooch", lambda: pytest.fail("asked for pooch"))


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("inside", [False, True])
def test_the_folder_or_its_subfolder_and_nothing_is_written(tmp_path, monkeypatch, inside):
    if inside:
        fill(tmp_path, dict.fromkeys(FILES, b"the subfolder goes before"))
    folder = fill(tmp_path / "multi30k" if inside else tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (folder, *folder.iterdir())}
    monkeypatch.setenv("UNMASKED_DATA", str(tmp_path))
    assert multi30k("tiny") == PAIRS
    assert {path: path.stat().st_mtime_ns for path in (folder, *folder.iterdir())} == before


@pytest.mark.usefixtures("offline")
def test_a_folder_in_the_home(tmp_path, monkeypatch):
    fill(tmp_path / "data")
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("UNMASKED_DATA", "~/data")
    assert multi30k("tiny") == PAIRS


@pytest.mark.usefixtures("offline")
def test_a_folder_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("UNMASKED_DATA", str(tmp_path / "none"))
    message = r"^UNMASKED_DATA: expected a folder that exists, got '.*none'; put .*, or unset the"
    with pytest.raises(ValueError, match=message):
        multi30k("tiny")
    assert not (tmp_path / "none").exists()


SUM = "a file with the sha256 sum [0-9a-f]{64}"


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("name", "content", "expected", "got"),
    [
        ("de", None, "a file that can be read", "No such file or directory"),
        ("de", flipped(FILES["tiny.de.gz"]), SUM, "[0-9a-f]{64}"),
        ("de", b"", SUM, hashlib.sha256(b"").hexdigest()),
        ("en", flipped(FILES["tiny.en.gz"]), "a file with the md5 sum [0-9a-f]{32}", "[0-9a-f]+"),
    ],
)
def test_a_file_that_is_missing_or_damaged(tmp_path, monkeypatch, name, content, expected, got):
    file = fill(tmp_path) / f"tiny.{name}.gz"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    before = files(tmp_path)
    monkeypatch.setenv("UNMASKED_DATA", str(tmp_path))
    path, address = re.escape(str(file)), re.escape(module.BASE + file.name)
    with pytest.raises(ValueError, match=f"^{path}: expected {expected}, got {got}; put {address}"):
        multi30k("tiny")
    assert files(tmp_path) == before


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "large"])
def test_what_has_no_end_is_not_read(tmp_path, monkeypatch, kind):
    file = fill(tmp_path) / "tiny.de.gz"
    file.unlink()
    if kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.write_bytes(bytes(module.MOST + 1))
    monkeypatch.setenv("UNMASKED_DATA", str(tmp_path))
    with pytest.raises(
        ValueError, match=r"expected (a file|at most [\d,]+ bytes), got (a f|16,777,217)"
    ):
        multi30k("tiny")


@pytest.mark.usefixtures("offline")
def test_the_sum_is_checked_on_every_use(tmp_path, monkeypatch):
    monkeypatch.setenv("UNMASKED_DATA", str(fill(tmp_path)))
    assert multi30k("tiny") == PAIRS
    fill(tmp_path, {"tiny.en.gz": flipped(FILES["tiny.en.gz"])})
    with pytest.raises(ValueError, match=r"tiny\.en\.gz: expected a file with the md5 sum"):
        multi30k("tiny")


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("content", "expected", "got"),
    [
        (lines(GERMAN[:2]), "3 lines, none of them empty", "2 lines, 0 of them empty"),
        (lines([*GERMAN, "Vier."]), "3 lines, none of them empty", "4 lines, 0 of them empty"),
        (lines(["Eins.", " \t", "Drei."]), "3 lines, none of", "3 lines, 1 of them empty"),
        (lines([]), "3 lines, none of them empty", "1 lines, 1 of them empty"),
        (b"Eins.\nZwei.\nDrei.\n", "UTF-8 text packed by gzip", "Not a gzipped file"),
        (lines(GERMAN)[:-9], "UTF-8 text packed by gzip", "Compressed file ended before"),
        (lines(GERMAN)[:10] + b"\xff" * 40, "UTF-8 text packed by gzip", "Error -3 while decom"),
        (packed("Ähre\n" * 3, "latin-1"), "UTF-8 text packed", "'utf-8' codec can't"),
    ],
)
def test_a_file_that_has_its_sum_and_is_wrong(tmp_path, monkeypatch, content, expected, got):
    """The sums could be wrong too."""
    data = {**FILES, "tiny.de.gz": content}
    know(monkeypatch, data)
    monkeypatch.setenv("UNMASKED_DATA", str(fill(tmp_path, data)))
    message = rf"tiny\.de\.gz: expected {expected}.*, got {got}.*; put http.*tiny\.de\.gz there$"
    with pytest.raises(ValueError, match=message):
        multi30k("tiny")


@pytest.mark.usefixtures("offline")
def test_the_last_line_may_lack_its_end(tmp_path, monkeypatch):
    data = {**FILES, "tiny.de.gz": packed("\n".join(GERMAN))}
    know(monkeypatch, data)
    monkeypatch.setenv("UNMASKED_DATA", str(fill(tmp_path, data)))
    assert multi30k("tiny") == PAIRS


# --- From a server, into the cache ------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Gives what is in `given`, and 404 for all else."""

    daemon_threads = False  # so that its end waits for the answers under way

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.given, self.asked = dict(FILES), []


class Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.removeprefix("/raw/")
        self.server.asked.append(name)
        data = self.server.given.get(name)
        self.send_response(404 if data is None else 200)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        self.wfile.write(data or b"")

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(variable, "*")
    with Server() as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setattr(module, "BASE", f"http://127.0.0.1:{served.server_port}/raw/")
        yield served
        served.shutdown()
        thread.join()


@pytest.mark.parametrize("variable", [None, ""])
def test_each_file_is_asked_for_once(server, cache, monkeypatch, variable):
    if variable is not None:
        monkeypatch.setenv("UNMASKED_DATA", variable)
    assert multi30k("tiny") == PAIRS
    assert server.asked == ["tiny.de.gz", "tiny.en.gz"]
    assert files(cache) == FILES
    assert multi30k("tiny") == PAIRS
    assert len(server.asked) == 2


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_cached_file_is_fetched_again(server, cache, name):
    fill(cache, {**FILES, name: flipped(FILES[name])})
    assert multi30k("tiny") == PAIRS
    assert server.asked == [name]
    assert files(cache) == FILES


def no_download(reason: str) -> None:
    """One sentence: which file, why, and what to do; and no traceback of the libraries beneath."""
    address = re.escape(f"{module.BASE}tiny.de.gz")
    fix = "try again with a network, or put the files into a folder and set the environment"
    message = rf"^{address}: not downloaded \({reason}\); {fix} variable UNMASKED_DATA to it$"
    with pytest.raises(OSError, match=message) as caught:
        multi30k("tiny")
    assert type(caught.value) is OSError
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("given", "reason"),
    [({}, "404 Client Error: Not Found .*"), ({"tiny.de.gz": b"?"}, "SHA256 hash .* does not .*")],
    ids=["refused", "of another sum"],
)
def test_a_server_without_the_file_is_said_and_nothing_is_left(server, cache, given, reason):
    server.given = given
    no_download(reason)
    assert set(server.asked) == {"tiny.de.gz"}
    assert files(cache) == {}
    server.given = FILES
    assert multi30k("tiny") == PAIRS


@pytest.mark.parametrize(("most", "longest"), [(100, 600.0), (1 << 24, -1.0)])
def test_a_server_that_sends_without_end_or_drips_is_left(
    server, cache, monkeypatch, most, longest
):
    monkeypatch.setattr(module, "MOST", most)
    monkeypatch.setattr(module, "LONGEST", longest)
    server.given = {"tiny.de.gz": bytes(5000)}
    no_download(f"more than {most:,} bytes or {longest:.0f} seconds")
    assert files(cache) == {}


def test_a_server_that_is_not_there_is_said_and_the_cache_is_enough_without_one(cache, monkeypatch):
    monkeypatch.setattr(module, "BASE", "http://127.0.0.1:9/raw/")
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(variable, "*")
    fill(cache, {"tiny.de.gz": b"damaged"})
    no_download(".*refused.*")
    fill(cache)
    assert multi30k("tiny") == PAIRS


def test_a_cache_that_cannot_be_written(cache):
    cache.parent.write_bytes(b"a file where the folder should be")
    no_download(r"\[Errno \d+\] .*multi30k'.*")


# --- The package that downloads ---------------------------------------------------------------


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("terminal", "disabled", "shown"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_a_bar_is_for_those_who_watch(monkeypatch, capsys, terminal, disabled, shown):
    """A notebook is no terminal."""
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: terminal)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    if disabled:
        monkeypatch.setenv("TQDM_DISABLE", "1")
    assert multi30k("tiny") == PAIRS
    assert ("100%" in capsys.readouterr().err) == shown


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    message = r"^multi30k: expected the package pooch.*, got none; install it with pip install "
    with pytest.raises(ValueError, match=message + "sacrebleu pooch, or put the files into"):
        multi30k("tiny")


@pytest.mark.filterwarnings("error")
def test_no_warning_about_widgets(monkeypatch):
    """Which tqdm gives where pooch is imported in a notebook; other warnings get through."""
    actual, others = builtins.__import__, []

    def warn(name: str, *args: object, **options: object) -> object:
        if name == "pooch":
            warnings.warn("IProgress not found. Please update jupyter", UserWarning, stacklevel=2)
            with contextlib.suppress(UserWarning):
                warnings.warn("another", UserWarning, stacklevel=2)
                pytest.fail("silenced too much")
            others.append(name)
        return actual(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", warn)
    assert module.import_pooch() is pooch
    assert others == ["pooch"]


# --- The real files ---------------------------------------------------------------------------


@pytest.mark.skipif(
    not os.path.isdir(os.path.expanduser(REAL)) or not REAL,
    reason="the environment variable UNMASKED_DATA names no folder with the real files",
)
@pytest.mark.parametrize(("split", "count"), [("train", 29_000), ("val", 1_014)])
def test_the_real_files(monkeypatch, split, count):
    for name, value in (("SPLITS", SPLITS), ("SUMS", SUMS)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setenv("UNMASKED_DATA", REAL)
    pairs = multi30k(split)
    assert len(pairs) == count
    assert all(sentence == sentence.strip() != "" for pair in pairs for sentence in pair)
    german, english = (" ".join(side).lower().split() for side in zip(*pairs, strict=True))
    assert german.count("ein") > count / 4 > german.count("the")
    assert english.count("the") > count / 4 > english.count("ein")
