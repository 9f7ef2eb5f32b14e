"""Prepares a release, and proves that it would work.

`check` builds both archives, has their metadata read as the package index would, installs the
wheel in a fresh environment, translates, and runs the tests that are in the source archive.
`stamp` writes a version everywhere; the notebooks of that commit then install that version.
`unpin` lets them install the newest again.
"""

import argparse
import datetime
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from repository import ROOT, current, notebooks

UV = Path(sys.executable).with_name("uv")
DIST = ROOT / "dist"
VERSION = ROOT / "src/unmasked/__init__.py"
CITATION, CHANGES = ROOT / "CITATION.cff", ROOT / "CHANGELOG.md"
PINNED = ["--constraint", ROOT / "requirements.txt", "--no-verify-hashes"]  # torch has many builds
GERMAN, ENGLISH = "Ein Hund schläft unter dem Tisch.", "a dog sleeps under the table."


def uv(*words: str | Path) -> None:
    subprocess.run([UV, *words], check=True, cwd=ROOT)


def stated() -> str:
    """Returns the version that the package states."""
    [found] = re.findall(r'__version__ = "(.+)"', VERSION.read_text(encoding="utf-8"))
    return found


def replace(path: Path, pattern: str, new: str) -> None:
    before = path.read_text(encoding="utf-8")
    after, times = re.subn(pattern, new, before, flags=re.MULTILINE)
    if not times:
        sys.exit(f"{path.relative_to(ROOT)}: expected something like {pattern!r}")
    path.write_text(after, encoding="utf-8")


def stamp(version: str) -> None:
    today = datetime.date.today().isoformat()
    replace(VERSION, r'__version__ = ".+"', f'__version__ = "{version}"')
    replace(CITATION, r"^version: .+", f"version: {version}")
    replace(CITATION, r"^date-released: .+", f"date-released: {today}")
    replace(CHANGES, r"^## Unreleased$", f"## {version} ({today})")
    pin(f"@v{version}")


def pin(to: str) -> None:
    """Lets the first cell of every notebook install a version; "" stands for the newest."""
    for path in notebooks():
        replace(path, rf"(git\+{re.escape(current())})(@v[\d.]+)?", rf"\g<1>{to}")


def agree(tag: str | None) -> None:
    """Exits unless the version is the same everywhere: with a tag, in the notebooks, too."""
    version = stated()
    cited = re.search(r"^version: (.+)", CITATION.read_text(encoding="utf-8"), re.MULTILINE)
    if cited is None or cited[1] != version:
        sys.exit(f"CITATION.cff: expected version {version}, as in the package")
    if not tag:
        return
    if tag != f"v{version}":
        sys.exit(f"the tag: expected v{version}, as in the package, got {tag}")
    if f"\n## {version} (" not in CHANGES.read_text(encoding="utf-8"):
        sys.exit(f"CHANGELOG.md: expected a heading for {version}")
    for path in notebooks():
        if f"git+{current()}@{tag}" not in path.read_text(encoding="utf-8"):
            sys.exit(f"{path.name}: its first cell has to install {tag}; run `stamp`")


def installed(folder: Path, what: str | Path) -> Path:
    """Installs an archive in a new environment, and returns the folder of its commands."""
    uv("venv", "--quiet", folder)
    uv("pip", "install", "--quiet", *PINNED, "--python", folder, what)
    return folder / "bin"


def translates(wheel: Path, folder: Path) -> None:
    command = installed(folder / "wheel", wheel) / "unmasked"
    words = [command, "translate", "--model", "de-en", GERMAN]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.stdout.strip() != ENGLISH:
        sys.exit(f"{GERMAN!r} became {done.stdout!r}\n{done.stderr}")
    print(f"the wheel, installed: {GERMAN} {ENGLISH}", flush=True)


def tests_itself(source: Path, folder: Path) -> None:
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / source.name.removesuffix(".tar.gz")
    commands = installed(folder / "source", f"unmasked[test] @ {unpacked.as_uri()}")
    run = [commands / "python", "-m", "pytest", "--quiet", "-n", "auto"]
    if subprocess.run(run, cwd=unpacked).returncode:
        sys.exit("tests of the source archive failed")


def check(tag: str | None) -> None:
    """Builds both archives, the wheel from the source archive, and tries them."""
    agree(tag)
    shutil.rmtree(DIST, ignore_errors=True)
    uv("build", "--quiet", "--out-dir", DIST)
    [wheel], [source] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    uv("tool", "run", "--quiet", "twine", "check", "--strict", wheel, source)
    with tempfile.TemporaryDirectory() as folder:
        translates(wheel, Path(folder))
        tests_itself(source, Path(folder))
    for path in (wheel, source):
        print(f"ready: {path.relative_to(ROOT)} ({path.stat().st_size / 2**20:.1f} MiB)")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python tools/release.py stamp 0.3.0",
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", help="build, install, translate, test")
    checking.add_argument("tag", nargs="?", help="refuse any other version than this tag's")
    stamping = commands.add_parser("stamp", help="write a version everywhere")
    stamping.add_argument("version", help="such as 0.3.0")
    commands.add_parser("unpin", help="notebooks install the newest again")
    options = parser.parse_args()
    if options.command == "check":
        check(options.tag)
    elif options.command == "unpin":
        pin("")
    elif re.fullmatch(r"\d+\.\d+\.\d+", options.version):
        stamp(options.version)
    else:
        parser.error(f"version: expected three numbers such as 0.3.0, got {options.version}")


if __name__ == "__main__":
    main()
