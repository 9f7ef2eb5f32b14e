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
        self.connection, self.number = self.connected(port), 0
        self.receive()  # who it is
        self.send("WebDriver:NewSession", {"capabilities": {}})
        self.send("WebDriver:SetTimeouts", {"script": 120_000})

    def connected(self, port: int) -> socket.socket:
        for _ in range(600):
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", port), timeout=120)
            time.sleep(0.1)
        self.process.kill()
        raise RuntimeError("Firefox did not start within a minute")

    def close(self) -> None:
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
        return result.get("value", result) if isinstance(result, dict) else result

    def receive(self) -> Any:
        """A length, a colon, and so many bytes of JSON."""
        size = b""
        while (byte := self.connection.recv(1)) != b":":
            size += byte
        text = b""
        while len(text) < int(size):
            text += self.connection.recv(int(size) - len(text))
        return json.loads(text)

    # --- As in Playwright -------------------------------------------------------------------------

    def goto(self, address: str) -> None:
        self.send("WebDriver:Navigate", {"url": address})

    def add_script_tag(self, content: str) -> None:
        script = (
            "const tag = document.createElement('script'); tag.textContent = arguments[0];"
            "document.head.append(tag);"
        )
        self.send("WebDriver:ExecuteScript", {"script": script, "args": [content]})

    def evaluate(self, function: str, given: Any = None) -> Any:
        """In the page itself, and not in the sandbox that the protocol's own scripts run in."""
        answer = "document.documentElement.dataset.answer"
        self.add_script_tag(
            f"delete {answer}; (async () => ({function})({json.dumps(given)}))().then("
            f"value => {{ {answer} = JSON.stringify({{ value }}); }},"
            f"error => {{ {answer} = JSON.stringify({{ error: String(error) }}); }});"
        )
        script = (
            "const done = arguments[0]; const look = () => "
            f"{answer} ? done({answer}) : setTimeout(look, 20); look();"
        )
        found = json.loads(
            self.send("WebDriver:ExecuteAsyncScript", {"script": script, "args": []})
        )
        if "error" in found:
            raise RuntimeError(found["error"])
        return found.get("value")

    def element(self, selector: str) -> str:
        where = {"using": "css selector", "value": selector}
        return next(iter(self.send("WebDriver:FindElement", where).values()))

    def click(self, selector: str) -> None:
        self.send("WebDriver:ElementClick", {"id": self.element(selector)})

    def type(self, selector: str, text: str) -> None:
        element = {"id": self.element(selector)}
        self.send("WebDriver:ElementClear", element)
        self.send("WebDriver:ElementSendKeys", {**element, "text": text})

    def wait_for_text(self, selector: str, text: str) -> None:
        """Until the elements say this, or what they say instead."""
        said = None
        for _ in range(300):
            texts = "s => [...document.querySelectorAll(s)].map(e => e.textContent).join(' | ')"
            said = self.evaluate(texts, selector)
            if said == text:
                return
            time.sleep(0.1)
        raise AssertionError(f"{selector} says {said!r}, not {text!r}")
