"""A browser without a window, driven through its DevTools protocol over two pipes: no library and no port is needed.

The browser is the environment variable BROWSER_BINARY, or the first Chromium or Chrome that is found. Where BROWSER_REQUIRED is
set, as in continuous integration, tests that need one fail when there is none, else they are skipped.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PATIENCE = 60.0  # seconds without a word from the browser
# The protocol is spoken on the descriptors 3 and 4. They may be in use here, so a process of its own puts the pipes there.
_START = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for pipe, place in zip(pipes, (3, 4)):
    os.dup2(pipe, place)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def find_browser() -> str | None:
    """The browser's program; None when there is none."""
    if sys.platform == "win32":  # where a process is not given pipes by their numbers
        return None
    wanted = os.environ.get("BROWSER_BINARY")
    return wanted or next((found for name in NAMES if (found := shutil.which(name))), None)


class BrowserError(Exception):
    """The browser said that something went wrong, or says nothing any more."""


class Browser:
    """A running browser with one page."""

    def __init__(self, program: str, profile: Path) -> None:
        from_us, self._write = os.pipe()
        self._read, from_it = os.pipe()
        command = [sys.executable, "-c", _START, str(from_us), str(from_it), program, "--headless=new"]
        command += ["--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        command += ["--no-first-run", "--hide-scrollbars", f"--user-data-dir={profile}", "--window-size=1400,900"]
        self._process = subprocess.Popen(
            [*command, "about:blank"], pass_fds=(from_us, from_it), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(from_us)
        os.close(from_it)
        self._number = 0
        self._session = ""
        self._buffer = b""
        self.problems: list[str] = []  #: errors of scripts, and of the page's console
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self.resize(1400, 900)

    def resize(self, width: int, height: int) -> None:
        """The size of the page's window."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def theme(self, name: str) -> None:
        """The system's color scheme: light or dark."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, address: str) -> None:
        """Goes to a page, and waits until its scripts have run."""
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=address)
        self.wait(f"location.href.startsWith({json.dumps(address)}) && document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """The value of an expression in the page. Raises BrowserError when it throws."""
        result = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(_error(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait(self, expression: str) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + _PATIENCE
        while not self.run(expression):
            if time.monotonic() > end:
                raise BrowserError(f"it does not become true: {expression}")
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Presses a key, and waits until the page has been drawn."""
        text = {"text": key} if len(key) == 1 else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self._drawn()

    def click(self, x: float, y: float, count: int = 1) -> None:
        """Clicks a place of the page, or double-clicks it, and waits until the page has been drawn."""
        for number in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=number)
        self._drawn()

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drags from one place to another."""
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
        self._drawn()

    def wheel(self, x: float, y: float, amount: float) -> None:
        """Turns the wheel at a place."""
        self._call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=amount)
        self._drawn()

    def screenshot(self) -> bytes:
        """The page as a PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def _drawn(self) -> None:
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    # ---- the protocol ----

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            self._note(answer)
            if answer.get("id") == self._number:
                break
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], _PATIENCE)[0]:
                raise BrowserError("the browser does not answer")
            part = os.read(self._read, 1 << 16)
            if not part:
                raise BrowserError("the browser has ended")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(_error(parameters["exceptionDetails"]))
        elif message.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.problems.append(" ".join(str(one.get("value", one.get("description"))) for one in parameters["args"]))
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])

    def close(self) -> None:
        """Ends the browser."""
        self._process.terminate()
        try:
            self._process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _error(details: dict[str, Any]) -> str:
    return str(details.get("exception", {}).get("description") or details.get("text"))
