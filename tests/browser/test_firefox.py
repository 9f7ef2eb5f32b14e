"""The translator and the live figures work in Firefox, where it is installed.

Playwright drives only a Firefox of its own. So a page drives the book in a frame, and logs.
"""

import json
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from helpers.pages import HTML

PATH = shutil.which("firefox-esr") or shutil.which("firefox")
PREFERENCES = {
    "security.fileuri.strict_origin_policy": "false",  # the frame's pages may be driven
    "devtools.console.stdout.content": "true",
    "datareporting.policy.dataSubmissionEnabled": "false",
}
FIGURES = {"01_masks": "masks", "02_positional_encoding": "positions", "09_decoding": "beam"}
DRIVER = """<!doctype html><iframe width="1280" height="900"></iframe><script>
const frame = document.querySelector("iframe");
let page;
const open = (name) => new Promise((go) => {
  frame.onload = () => { page = frame.contentDocument; go(); };
  frame.src = `BOOK/${name}.html`;
});
const until = async (what, test) => {
  while (!test()) await new Promise((go) => setTimeout(go, 100));
  console.log(`seen: ${what}`);
};
const answers = () => [...page.querySelectorAll(".unmasked-translation")].map((e) => e.textContent);
const says = (texts) => until(texts, () => answers().join(" ") === texts);
(async () => {
  await open("live");
  page.querySelector(".unmasked-live button").click();
  await says("a black cat sleeps in a chair.");
  const field = page.querySelector(".unmasked-live textarea");
  field.value = "Eine Katze jagt eine Frau.";
  field.dispatchEvent(new Event("input"));
  await says("a cat chases a woman.");
  page.querySelector("[data-switch=encoderPositions]").click();
  await says("a cat chases a woman. a woman chases a cat.");
  for (const [chapter, name] of Object.entries(FIGURES)) {
    await open(chapter);
    const box = page.querySelector(`unmasked-${name}`);
    await until(name, () => box.clientHeight > 200 && box.querySelector("svg, table, button"));
  }
})();
</script>"""


@pytest.mark.skipif(PATH is None, reason="Firefox is not installed")
def test_the_translator_follows_what_is_typed_and_the_live_figures_open(tmp_path: Path):
    preferences = [f'user_pref("{name}", {value});' for name, value in PREFERENCES.items()]
    (tmp_path / "user.js").write_text("\n".join(preferences))
    driver = tmp_path / "driver.html"
    book, figures = (HTML / "book").as_uri(), json.dumps(FIGURES)
    driver.write_text(DRIVER.replace("BOOK", book).replace("FIGURES", figures))
    command = [PATH, "--headless", "--no-remote", "--profile", tmp_path, driver.as_uri()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as firefox:
        too_late = threading.Timer(120, firefox.terminate)
        too_late.start()
        lines = []
        while "seen: beam" not in (line := firefox.stdout.readline()) and line:
            lines.append(line)
        too_late.cancel()
        firefox.terminate()
    assert line, lines
