"""The browsers of the tests, as the system has them installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Playwright

# Chromium without its windows opens the same pages in half the time.
CHROMIUM = ("chromium-headless-shell", "chromium", "google-chrome")
OPTIONS = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]


def launch(playwright: Playwright) -> Browser:
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if not path:
        sys.exit("no browser: install Chromium (Debian: apt-get install chromium-headless-shell)")
    return playwright.chromium.launch(executable_path=path, args=OPTIONS)


class Firefox:
    """Firefox by its own protocol, Marionette: what these tests need of Playwright's page.

    Playwright drives only a Firefox of its own; Debian's comes without geckodriver.
    """

    def __init__(self, path: str, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (folder / "user.js").write_text(
            f'user_pref("marionette.port", {port});\n'
            'user_pref("datareporting.policy.dataSubmissionEnabled", false);\n'
        )
        command = [path, "--headless", "--marionette", "--no-remote", "--profile", str(folder)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.connection = self.connected(port)
        self.answers, self.number = self.connection.makefile("rb"), 0
        self.receive()  # who it is
        self.send("WebDriver:NewSession", {"capabilities": {}})

    def connected(self, port: int) -> socket.socket:
        for _ in range(600):
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", port), timeout=120)
            time.sleep(0.1)
        self.process.kill()
        raise RuntimeError("Firefox did not start within a minute")

    def close(self) -> None:
        self.answers.close()
        self.connection.close()
        self.process.terminate()
        self.process.wait()

    def send(self, name: str, given: dict[str, Any]) -> Any:
        self.number += 1
        message = json.dumps([0, self.number, name, given])
        self.connection.sendall(f"{len(message.encode())}:{message}".encode())
        _, _, error, result = self.receive()
        if error:
            raise RuntimeError(f"{name}: {error['message']}")
        return result

    def receive(self) -> Any:
        """A length, a colon, and so many bytes of JSON."""
        size = b""
        while (byte := self.answers.read(1)) != b":":
            size += byte
        return json.loads(self.answers.read(int(size)))

    # --- As in Playwright -------------------------------------------------------------------------

    def goto(self, address: str) -> None:
        self.send("WebDriver:Navigate", {"url": address})

    def evaluate(self, function: str, given: Any = None) -> Any:
        """Outside of the protocol's own sandbox, where the page's names are known."""
        script = f"return ({function})(...arguments);"
        call = {"script": script, "args": [given], "sandbox": None}
        return self.send("WebDriver:ExecuteScript", call)["value"]

    def click(self, selector: str) -> None:
        self.evaluate("selector => document.querySelector(selector).click()", selector)
