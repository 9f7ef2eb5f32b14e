"""Loads Multi30k: a German and an English sentence about each of some 30,000 pictures."""

import gzip
import hashlib
import os
import sys
import warnings
from pathlib import Path

from ..errors import invalid, require_choice

# A commit's files never change. It has train.en before its makers corrected some lines: scores
# after training on the later version would not be comparable.
BASE = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
)
SUMS = {  # SHA-256 where nothing else is said
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    # The lists of torchtext and sacreBLEU have only MD5 for these:
    "test_2017_flickr.de.gz": "md5:6a8d5c87f6ae19e3d35681aa6fd16571",
    "test_2017_flickr.en.gz": "md5:005396bac545d880abe6f00bbb7dbbb4",
    "test_2018_flickr.de.gz": "md5:87e00327083dd69feaa029a8f7c1a047",
    "test_2018_flickr.en.gz": "md5:a152878809942757a55ce087073486b8",
    "test_2017_mscoco.de.gz": "md5:e8cd6ec2bc8a11fc846fa48a46e3d0bb",
    "test_2017_mscoco.en.gz": "md5:a7b684e0edbef1d4a23660c8e8e743fd",
}
SPLITS = tuple(dict.fromkeys(name.partition(".")[0] for name in SUMS))

OWN_FOLDER = "put the files into a folder and set the environment variable UNMASKED_DATA to it"


def multi30k(split: str = "train") -> list[tuple[str, str]]:
    """Returns pairs of (German, English) in the order of the files, without blanks around them.

    The files `<split>.de.gz` and `<split>.en.gz` come from the folder that the environment
    variable UNMASKED_DATA names, or from its subfolder multi30k. Without the variable they are
    downloaded once, into the user's cache; an OSError says why a download failed.

    Each use compares each file's checksum. For the test sets of 2017 and 2018 it is MD5, which
    shows damage, but not a forgery.
    """
    require_choice("split", split, SPLITS)
    german, english = (read_lines(locate(f"{split}.{side}.gz")) for side in ("de", "en"))
    return list(zip(german, english, strict=True))


def locate(name: str) -> Path:
    """Returns a file's path: in the folder that UNMASKED_DATA names, or else downloaded."""
    if not (variable := os.environ.get("UNMASKED_DATA")):
        return download(name)
    folder = Path(os.path.expanduser(variable))
    inner = folder / "multi30k"
    return (inner if inner.is_dir() else folder) / name


# --- Reading ----------------------------------------------------------------------------------


def read_lines(path: Path) -> list[str]:
    """Returns a .gz file's stripped lines; raises ValueError unless its checksum is in SUMS."""

    def wrong(expected: str, got: str) -> ValueError:
        return invalid(str(path), expected, got, f"put {BASE}{path.name} there")

    try:
        data = path.read_bytes()
    except OSError as error:
        raise wrong("a file that can be read", error.strerror or str(error)) from None
    algorithm, _, known = SUMS[path.name].rpartition(":")
    found = hashlib.new(algorithm or "sha256", data, usedforsecurity=False).hexdigest()
    if found != known:
        raise wrong(f"a file with the {algorithm or 'sha256'} sum {known}", found)
    text = gzip.decompress(data).decode()
    # Not splitlines: it would also cut at U+2028 and the like, on one side of a pair only.
    return [line.strip() for line in text.removesuffix("\n").split("\n")]


# --- Downloading ------------------------------------------------------------------------------


def download(name: str) -> Path:
    """Returns a file's path in the user's cache, fetched if missing or of another checksum.

    Pooch tries again, compares the checksum, and names a file when it is complete: a download that
    breaks off leaves nothing behind, and several processes may do this at once.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "IProgress not found")  # in a notebook; no bar there
            import pooch
    except ImportError:
        fix = f"install it with pip install sacrebleu pooch, or {OWN_FOLDER}"
        raise invalid("multi30k", "the package pooch, for the download", "none", fix) from None
    bar = sys.stderr.isatty() and "TQDM_DISABLE" not in os.environ
    try:
        folder = pooch.os_cache("unmasked") / "multi30k"
        store = pooch.create(folder, BASE, registry=SUMS, retry_if_failed=3)
        downloader = pooch.HTTPDownloader(progressbar=bar, timeout=30.0)  # seconds without a byte
        return Path(store.fetch(name, downloader=downloader))
    except (OSError, ValueError) as error:  # the network or the disk; another sum
        fix = f"try again with a network, or {OWN_FOLDER}"
        raise OSError(f"{BASE}{name}: not downloaded ({error}); {fix}") from None
