"""A page in Chromium without a screen, through the DevTools protocol: tests click and look.

    python3 tools/browser.py docs/player.html#ring-slow FILE.png [--width N] [--height N] [--dark]

takes a picture of a page.
"""

import argparse
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


class BrowserError(Exception):
    """The browser does not answer, or refuses; the message says what."""


def find_browser():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """One page; `errors` are what its console has complained of. To be used in a with statement."""

    def __init__(self, limit=60):
        self.limit, self.errors, self.number, self.rest = limit, [], 0, b""
        self.folder = tempfile.TemporaryDirectory()
        (reading, self.output), (self.input, writing) = os.pipe(), os.pipe()
        # The browser reads commands from 3 and writes answers to 4. High numbers first: none of the
        # pipes' own may be 3 or 4 when bash moves them there.
        commands, answers = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (reading, writing))
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "browser", find_browser(),
             "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--no-first-run", "--hide-scrollbars", "--disable-extensions", "--disable-background-networking",
             f"--user-data-dir={self.folder.name}", "about:blank"],
            pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        for end in (reading, writing, commands, answers):
            os.close(end)
        self.session = None

    def __enter__(self):
        try:
            target = self.send("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.send("Target.attachToTarget", targetId=target,
                                     flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self.send(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.send("Browser.close")
            self.process.wait(10)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            try:
                os.killpg(self.process.pid, 9)  # its own session: its children and nobody else
            except ProcessLookupError:
                pass
            self.process.wait()
        os.close(self.input)
        os.close(self.output)
        for _ in range(20):  # its children may still write
            try:
                self.folder.cleanup()
                break
            except OSError:
                time.sleep(0.1)

    def answer(self):
        """The next message of the browser."""
        deadline = time.monotonic() + self.limit
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.input], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise BrowserError(f"no answer in {self.limit} s")
            if not (data := os.read(self.input, 1 << 16)):
                raise BrowserError("the browser has ended")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def send(self, method, **parameters):
        """Does a command of the protocol; the result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while (answer := self.answer()).get("id") != self.number:
            self.note(answer)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def note(self, event):
        """Keeps what a reader of the console would see in red."""
        what = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif event.get("method") == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.errors.append(what["entry"]["text"])
        elif event.get("method") == "Runtime.consoleAPICalled" and what["type"] == "error":
            self.errors.append(str(what["args"]))

    def show(self, path, fragment="", width=900, height=1000, dark=False):
        """Opens a file, in a window of that size."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.send("Page.navigate", url="about:blank")  # else a new fragment alone loads nothing
        self.send("Page.navigate", url=Path(path).resolve().as_uri() + fragment)
        deadline = time.monotonic() + self.limit
        while self.value("[document.readyState, location.protocol].join()") != "complete,file:":
            if time.monotonic() > deadline:
                raise BrowserError(f"{path} does not load")
            time.sleep(0.02)

    def value(self, expression):
        """What a JavaScript expression gives, as JSON has it."""
        done = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in done:
            raise BrowserError(f"{expression}: {done['result'].get('description')}")
        return done["result"].get("value")

    def press(self, key, text=""):
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path):
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        Path(path).write_bytes(base64.b64decode(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", help="HTML file, perhaps with #fragment")
    parser.add_argument("picture", type=Path, help="PNG file to write")
    parser.add_argument("--width", type=int, default=900)
    parser.add_argument("--height", type=int, default=1000)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--keys", nargs="*", default=(), help="to press before, e.g. ArrowRight")
    arguments = parser.parse_args()
    if find_browser() is None:
        print(f"browser: none of {', '.join(PROGRAMS)} here", file=sys.stderr)
        return 1
    path, mark, fragment = arguments.page.partition("#")
    with Page() as page:
        page.show(path, mark + fragment, arguments.width, arguments.height, arguments.dark)
        for key in arguments.keys:
            page.press(key)
        page.picture(arguments.picture)
        for error in page.errors:
            print(f"browser: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
