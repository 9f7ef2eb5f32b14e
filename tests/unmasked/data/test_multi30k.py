"""Multi30k from a folder, from a server that does its worst, and from the cache."""

import builtins
import contextlib
import gc
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pooch
import pytest

from unmasked.data import multi30k as module
from unmasked.data.multi30k import SPLITS, SUMS, multi30k

REAL = os.environ.get("UNMASKED_DATA", "")
GERMAN = ["Ein Igel übt Geige.", "Zwei Äpfel\u2028rollen.", "\x85Drei Uhren gehen nach.\x1c"]
ENGLISH = [" A hedgehog practises the violin.", "Two apples roll.\x0c", "Three clocks are slow.\t"]
PAIRS = [
    ("Ein Igel übt Geige.", "A hedgehog practises the violin."),
    ("Zwei Äpfel\u2028rollen.", "Two apples roll."),
    ("Drei Uhren gehen nach.", "Three clocks are slow."),
]


def packed(lines: list[str]) -> bytes:
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


FILES = {"tiny.de.gz": packed(GERMAN), "tiny.en.gz": packed(ENGLISH)}


# --- A small split, a cache of its own, and a server ------------------------------------------


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one sum it is SHA-256 that is known, of the other MD5."""
    monkeypatch.delenv("UNMASKED_DATA", raising=False)
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(variable, "*")
    monkeypatch.setattr(module, "SPLITS", {"tiny": 3})
    know(monkeypatch, FILES)


def know(monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> None:
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
    return tmp_path / "unmasked" / "multi30k"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long pooch would have slept between its tries."""
    slept: list[float] = []
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=slept.append))
    return slept


class Answer(BaseHTTPRequestHandler):
    """Goes through the server's plan, then serves well. Each way to answer is a method."""

    server: "Server"

    def do_GET(self) -> None:
        name = self.path.removeprefix("/raw/")
        self.server.asked.append(name)
        plan = self.server.plan
        (plan.pop(0) if plan else self.server.after)(self, FILES[name])

    def log_message(self, *_: object) -> None:
        """Silent."""

    def head(self, length: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def well(self, data: bytes) -> None:
        self.head(len(data))
        self.wfile.write(data)

    def half(self, data: bytes) -> None:
        self.head(len(data))
        self.wfile.write(data[: len(data) // 2])

    def lie(self, data: bytes) -> None:
        self.well(flipped(data))

    def stall(self, data: bytes) -> None:
        self.half(data)
        self.wfile.flush()
        self.server.over.wait(30)

    def silence(self, _: bytes) -> None:
        self.server.over.wait(30)

    def hang_up(self, _: bytes) -> None:
        """Without a word."""

    def missing(self, _: bytes) -> None:
        self.send_error(404)

    def broken(self, _: bytes) -> None:
        self.send_error(500)

    def together(self, data: bytes) -> None:
        """Nobody gets the first file before two have asked for it."""
        self.server.both.wait(60)
        self.well(data)


Way = Callable[[Answer, bytes], None]


class Server(ThreadingHTTPServer):
    daemon_threads = False  # so that stop waits for the answers under way

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[str] = []
        self.plan: list[Way] = []
        self.after: Way = Answer.well
        self.over = threading.Event()
        self.both = threading.Barrier(2)
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    def stop(self) -> None:
        self.over.set()
        self.both.abort()
        self.shutdown()
        self.thread.join()
        self.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    served = Server()
    monkeypatch.setattr(module, "BASE", f"http://127.0.0.1:{served.server_port}/raw/")
    yield served
    served.stop()


def flipped(data: bytes) -> bytes:
    """One bit in the middle is another."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def fill(folder: Path, data: dict[str, bytes] = FILES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in data.items():
        (folder / name).write_bytes(content)
    return folder


# --- What is asked for ------------------------------------------------------------------------


def test_the_splits():
    lines = [29_000, 1_014, 1_000, 1_000, 1_071, 461]
    names = ["train", "val", *(f"test_{x}_flickr" for x in (2016, 2017, 2018)), "test_2017_mscoco"]
    assert dict(zip(names, lines, strict=True)) == SPLITS
    assert set(SUMS) == {f"{name}.{language}.gz" for name in names for language in ("de", "en")}
    assert all(re.fullmatch("[0-9a-f]{64}|md5:[0-9a-f]{32}", known) for known in SUMS.values())
    assert len(set(SUMS.values())) == 12


def test_an_unknown_split(monkeypatch):
    monkeypatch.setattr(module, "SPLITS", SPLITS)
    choices = " or ".join(map(repr, SPLITS))
    with pytest.raises(ValueError, match=rf"^split: expected {choices}, got 'test'; choose one"):
        multi30k("test")


# --- From a folder ----------------------------------------------------------------------------


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is enough: no download, not even the package for it."""
    monkeypatch.setattr(module, "import_pooch", lambda: pytest.fail("asked for pooch"))


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("inside", [False, True])
def test_the_folder_or_its_subfolder(tmp_path, monkeypatch, inside):
    folder = fill(tmp_path / "multi30k" if inside else tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (folder, *folder.iterdir())}
    monkeypatch.setenv("UNMASKED_DATA", str(tmp_path))
    assert multi30k("tiny") == PAIRS
    assert {path: path.stat().st_mtime_ns for path in (folder, *folder.iterdir())} == before


@pytest.mark.usefixtures("offline")
def test_the_subfolder_goes_before(tmp_path, monkeypatch):
    fill(tmp_path, dict.fromkeys(FILES, b"other"))
    fill(tmp_path / "multi30k")
    monkeypatch.setenv("UNMASKED_DATA", str(tmp_path))
    assert multi30k("tiny") == PAIRS


@pytest.mark.usefixtures("offline")
def test_a_folder_in_the_home(tmp_path, monkeypatch):
    fill(tmp_path / "data")
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("UNMASKED_DATA", "~/data")
    assert multi30k("tiny") == PAIRS


@pytest.mark.usefixtures("offline")
def test_a_folder_that_nobody_may_write_to(tmp_path, monkeypatch):
    folder = fill(tmp_path / "data")
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    monkeypatch.setenv("UNMASKED_DATA", str(folder))
    try:
        assert multi30k("tiny") == PAIRS
        assert files(folder) == FILES
    finally:
        folder.chmod(0o755)


@pytest.mark.usefixtures("offline")
def test_a_folder_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("UNMASKED_DATA", str(tmp_path / "none"))
    message = r"^UNMASKED_DATA: expected a folder that exists, got '.*none'; put the files of http"
    with pytest.raises(ValueError, match=message) as caught:
        multi30k("tiny")
    assert str(caught.value).endswith("or unset the variable to have them downloaded")
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("german", "expected", "got"),
    [
        (None, "a file that can be read", "No such file or directory"),
        (flipped(FILES["tiny.de.gz"]), "a file with the sha256 sum [0-9a-f]{64}", "[0-9a-f]{64}"),
        (b"", "a file with the sha256 sum [0-9a-f]{64}", hashlib.sha256(b"").hexdigest()),
    ],
)
def test_a_file_that_is_missing_or_damaged(tmp_path, monkeypatch, german, expected, got):
    fill(tmp_path)
    (tmp_path / "tiny.de.gz").unlink()
    if german is not None:
        (tmp_path / "tiny.de.gz").write_bytes(german)
    before = files(tmp_path)
    monkeypatch.setenv("UNMASKED_DATA", str(tmp_path))
    path, address = re.escape(str(tmp_path / "tiny.de.gz")), re.escape(module.BASE)
    message = f"^{path}: expected {expected}, got {got}; put {address}tiny.de.gz there$"
    with pytest.raises(ValueError, match=message):
        multi30k("tiny")
    assert files(tmp_path) == before


@pytest.mark.usefixtures("offline")
def test_the_other_sum_is_checked_too(tmp_path, monkeypatch):
    fill(tmp_path, {**FILES, "tiny.en.gz": flipped(FILES["tiny.en.gz"])})
    monkeypatch.setenv("UNMASKED_DATA", str(tmp_path))
    message = r"tiny\.en\.gz: expected a file with the md5 sum [0-9a-f]{32}, got [0-9a-f]{32};"
    with pytest.raises(ValueError, match=message):
        multi30k("tiny")


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("content", "expected", "got"),
    [
        (packed(GERMAN[:2]), "3 lines, none of them empty", "2 lines, 0 of them empty"),
        (packed([*GERMAN, "Vier."]), "3 lines, none of them empty", "4 lines, 0 of them empty"),
        (packed(["Eins.", " \t", "Drei."]), "3 lines, none of", "3 lines, 1 of them empty"),
        (packed([]), "3 lines, none of them empty", "1 lines, 1 of them empty"),
        (b"Eins.\nZwei.\nDrei.\n", "UTF-8 text packed by gzip", "Not a gzipped file"),
        (packed(GERMAN)[:-9], "UTF-8 text packed by gzip", "Compressed file ended before"),
        (packed(GERMAN)[:-8] + bytes(8), "UTF-8 text packed by gzip", "CRC check failed"),
        (packed(GERMAN)[:10] + b"\xff" * 40, "UTF-8 text packed by gzip", "Error -3 while decom"),
        (gzip.compress("Ähre\n".encode("latin1") * 3), "UTF-8 text packed", "'utf-8' codec can't"),
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
    data = {**FILES, "tiny.de.gz": gzip.compress("\n".join(GERMAN).encode())}
    know(monkeypatch, data)
    monkeypatch.setenv("UNMASKED_DATA", str(fill(tmp_path, data)))
    assert multi30k("tiny") == PAIRS


# --- From a server, into the cache ------------------------------------------------------------


def test_each_file_is_asked_for_once(server, cache, waits):
    assert multi30k("tiny") == PAIRS
    assert server.asked == ["tiny.de.gz", "tiny.en.gz"]
    assert files(cache) == FILES
    assert multi30k("tiny") == PAIRS
    assert len(server.asked) == 2
    assert waits == []


def test_an_empty_variable_is_none(server, monkeypatch):
    monkeypatch.setenv("UNMASKED_DATA", "")
    assert multi30k("tiny") == PAIRS
    assert len(server.asked) == 2


def test_the_cache_is_enough_without_a_server(server, cache):
    fill(cache)
    server.stop()
    assert multi30k("tiny") == PAIRS


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [flipped, lambda data: data[:20], lambda data: b""])
def test_a_damaged_cached_file_is_fetched_again(server, cache, name, damage):
    fill(cache, {**FILES, name: damage(FILES[name])})
    assert multi30k("tiny") == PAIRS
    assert server.asked == [name]
    assert files(cache) == FILES


@pytest.mark.parametrize(
    "way", [Answer.half, Answer.lie, Answer.hang_up, Answer.broken], ids=lambda way: way.__name__
)
def test_a_server_that_fails_and_then_serves(server, cache, waits, way):
    server.plan = [way, way]
    assert multi30k("tiny") == PAIRS
    assert server.asked == ["tiny.de.gz"] * 3 + ["tiny.en.gz"]
    assert files(cache) == FILES
    assert waits == [1, 2]


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        (Answer.half, r"IncompleteRead\(\d+ bytes read, \d+ more expected\)"),
        (
            Answer.lie,
            r"SHA256 hash of downloaded file \(tiny\.de\.gz\) does not match .* [0-9a-f]+",
        ),
        (Answer.stall, r"Read timed out\."),
        (Answer.silence, r"Read timed out\. \(read timeout=0\.1\)"),
        (Answer.hang_up, "Remote end closed connection without response"),
        (Answer.missing, "the server answered 404 Not Found"),
        (Answer.broken, "the server answered 500 Internal Server Error"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_server_that_fails_always(server, cache, waits, monkeypatch, way, reason):
    monkeypatch.setattr(module, "TIMEOUT", 0.1)
    server.after = way
    no_download(reason)
    assert server.asked == ["tiny.de.gz"] * 4
    assert waits == [1, 2, 3]
    assert files(cache) == {}
    gc.collect()  # a connection left open would be warned of here, and a warning is an error


def no_download(reason: str) -> None:
    """The whole message; and no traceback of the libraries beneath."""
    address = re.escape(f"{module.BASE}tiny.de.gz")
    fix = "try again with a network, or put the files into a folder and set the environment"
    message = rf"^{address}: not downloaded \({reason}\); {fix} variable UNMASKED_DATA to it$"
    with pytest.raises(OSError, match=message) as caught:
        multi30k("tiny")
    assert type(caught.value) is OSError
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


def test_a_server_that_is_gone(server, cache):
    server.stop()
    no_download(r"Failed to establish a new connection: .*Connection refused|.* actively refused.*")
    assert files(cache) == {}


def test_a_damaged_file_and_a_server_that_is_gone(server, cache):
    """The damage is no better for being all there is."""
    fill(cache, {"tiny.de.gz": b"damaged"})
    server.stop()
    no_download(".*refused.*")


def test_a_cache_that_cannot_be_written(server, cache):
    cache.parent.write_bytes(b"a file where the folder should be")
    no_download(r"\[Errno \d+\] .*multi30k'")
    assert server.asked == []


def test_an_error_without_details(cache, monkeypatch):
    import requests

    def fail(*_: object, **__: object) -> None:
        raise requests.ConnectionError

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", fail)
    no_download("")
    assert files(cache) == {}


@pytest.mark.usefixtures("server")
def test_an_interrupted_download(cache, monkeypatch):
    """As with Ctrl-C, when all has come and has not yet its name."""
    there: list[int] = []

    def interrupt(*_: object, **__: object) -> None:
        there.append(len(files(cache)))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pooch.core.hash_matches", interrupt)
        with pytest.raises(KeyboardInterrupt):
            multi30k("tiny")
    assert there == [1]
    assert files(cache) == {}
    assert multi30k("tiny") == PAIRS


# --- Two at once ------------------------------------------------------------------------------


def test_two_threads_at_once(server, cache):
    server.plan = [Answer.together, Answer.together]
    with ThreadPoolExecutor(2) as pool:
        got = [pool.submit(multi30k, "tiny") for _ in range(2)]
        assert [future.result(60) for future in got] == [PAIRS, PAIRS]
    assert server.asked.count("tiny.de.gz") == 2
    assert files(cache) == FILES


CHILD = """
import json, pathlib, sys
import pooch
from unmasked.data import multi30k
cache, multi30k.BASE, multi30k.SUMS, multi30k.SPLITS = json.loads(sys.argv[1])
pooch.os_cache = lambda project: pathlib.Path(cache) / project
print(json.dumps(multi30k.multi30k("tiny")))
"""


def test_two_processes_at_once(server, cache, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", 60.0)
    server.plan = [Answer.together, Answer.together]
    settings = json.dumps([str(cache.parent.parent), module.BASE, module.SUMS, module.SPLITS])
    command = [sys.executable, "-c", CHILD, settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            assert multi30k("tiny") == PAIRS
            out, err = child.communicate(timeout=60)
        finally:
            child.kill()
    assert child.returncode == 0, err.decode()
    assert [tuple(pair) for pair in json.loads(out)] == PAIRS
    assert server.asked.count("tiny.de.gz") == 2
    assert files(cache) == FILES


# --- The package that downloads ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("terminal", "disabled", "shown"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_a_bar_is_for_those_who_watch(monkeypatch, terminal, disabled, shown):
    asked: list[dict[str, object]] = []

    def downloader(**options: object) -> Callable[..., None]:
        asked.append(options)
        return lambda url, path, store: Path(path).write_bytes(FILES[url.rpartition("/")[2]])

    monkeypatch.setattr(pooch, "HTTPDownloader", downloader)
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: terminal)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    if disabled:
        monkeypatch.setenv("TQDM_DISABLE", "1")
    assert multi30k("tiny") == PAIRS
    assert len(asked) == 2
    assert {(options["progressbar"], options["timeout"]) for options in asked} == {(shown, 30.0)}


@pytest.mark.usefixtures("server")
def test_the_bar_is_drawn(monkeypatch, capsys):
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: True)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    assert multi30k("tiny") == PAIRS
    assert "100%" in capsys.readouterr().err


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    message = r"^multi30k: expected the package pooch.*, got none; install it with pip install "
    with pytest.raises(ValueError, match=message + r'"unmasked\[text\]", or put the files into'):
        multi30k("tiny")


def test_no_warning_about_widgets(monkeypatch):
    """Which tqdm gives where pooch is imported in a notebook; other warnings get through."""
    actual = builtins.__import__

    def warn(name: str, *args: object, **options: object) -> object:
        if name == "pooch":
            warnings.warn("IProgress not found. Please update jupyter", UserWarning, stacklevel=2)
            with contextlib.suppress(UserWarning):
                warnings.warn("another", UserWarning, stacklevel=2)
                pytest.fail("silenced too much")
        return actual(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", warn)
    assert module.import_pooch() is pooch


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
