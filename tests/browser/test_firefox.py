"""The translator and the live figures work in Firefox, where it is installed.

Playwright drives only a Firefox of its own, and Debian's comes without geckodriver. So this test
speaks Firefox's own protocol, Marionette.
"""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pytest

from helpers import free_port

PATH = shutil.which("firefox-esr") or shutil.which("firefox")
FIGURES = {"01_masks": "masks", "02_positional_encoding": "positions", "09_decoding": "beam"}
PREFERENCES = """user_pref("marionette.port", {port});
user_pref("datareporting.policy.dataSubmissionEnabled", false);"""
CLICK = "selector => document.querySelector(selector).click()"
TYPE = """text => { const field = document.querySelector(".unmasked-live textarea");
field.value = text; field.dispatchEvent(new Event("input")); }"""
ANSWERS = "() => [...document.querySelectorAll('.unmasked-translation')].map(e => e.textContent)"
DRAWN = """name => { const box = document.querySelector(`unmasked-${name}`);
return box.clientHeight > 200 && box.querySelectorAll("svg, table, button").length > 0; }"""


class Firefox(NamedTuple):
    connection: socket.socket
    answers: BinaryIO

    def send(self, name: str, **given: Any) -> Any:
        message = json.dumps([0, 1, name, given])
        self.connection.sendall(f"{len(message.encode())}:{message}".encode())
        _, _, error, result = self.receive()
        assert not error, error
        return result

    def receive(self) -> Any:
        """Reads a length, a colon, and so many bytes of JSON."""
        size = b""
        while (byte := self.answers.read(1)) != b":":
            size += byte
        return json.loads(self.answers.read(int(size)))

    def goto(self, address: str) -> None:
        self.send("WebDriver:Navigate", url=address)

    def evaluate(self, function: str, *given: str) -> Any:
        """Calls a function in the page, without the protocol's sandbox."""
        script = f"return ({function})(...arguments);"
        return self.send("WebDriver:ExecuteScript", script=script, args=given, sandbox=None)[
            "value"
        ]


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Firefox]:
    port = free_port()
    (tmp_path / "user.js").write_text(PREFERENCES.format(port=port))
    command = [PATH, "--headless", "--marionette", "--no-remote", "--profile", tmp_path]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connected(port) as connection, connection.makefile("rb") as answers:
            firefox = Firefox(connection, answers)
            firefox.receive()  # who it is
            firefox.send("WebDriver:NewSession", capabilities={})
            yield firefox
    finally:
        process.terminate()
        process.wait()


def connected(port: int) -> socket.socket:
    for _ in range(600):
        with suppress(OSError):
            return socket.create_connection(("127.0.0.1", port), timeout=120)
        time.sleep(0.1)
    raise RuntimeError("Firefox did not start within a minute")


def says(firefox: Firefox, *texts: str) -> None:
    end = time.monotonic() + 60
    while (found := firefox.evaluate(ANSWERS)) != [*texts] and time.monotonic() < end:
        time.sleep(0.1)
    assert found == [*texts]


@pytest.mark.skipif(PATH is None, reason="Firefox is not installed")
def test_the_translator_follows_what_is_typed_and_the_live_figures_open(
    firefox: Firefox, site: str
):
    firefox.goto(f"{site}/book/live.html")
    firefox.evaluate(CLICK, ".unmasked-live button")
    says(firefox, "a black cat sleeps in a chair.")
    firefox.evaluate(TYPE, "Eine Katze jagt eine Frau.")
    says(firefox, "a cat chases a woman.")
    firefox.evaluate(CLICK, "[data-switch=encoderPositions]")
    says(firefox, "a cat chases a woman.", "a woman chases a cat.")
    for chapter, name in FIGURES.items():
        firefox.goto(f"{site}/book/{chapter}.html")
        assert firefox.evaluate(DRAWN, name)
