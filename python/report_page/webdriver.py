"""A small client of chromedriver: W3C WebDriver is JSON over HTTP, so the standard library is enough."""

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


class Browser:
    """A window of a headless Chromium."""

    def __init__(self, port, profile):
        self.root = f"http://127.0.0.1:{port}"
        self._wait()
        options = {"args": [*QUIET, f"--user-data-dir={profile}"], "binary": shutil.which("chromium")}
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"},
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.root += f"/session/{made['sessionId']}"

    def _wait(self):
        for _ in range(100):
            with contextlib.suppress(OSError):
                if self._call("GET", "/status")["ready"]:
                    return
            time.sleep(0.1)
        raise SystemExit("chromedriver does not answer")

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.root + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def open(self, url):
        self._call("POST", "/url", {"url": url})

    def close(self):
        self._call("DELETE", "")

    def run(self, script, *values):
        """The value of a function's body."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(values)})

    def find(self, selector):
        found = self._call("POST", "/elements", {"using": "css selector", "value": selector})
        return [element[ELEMENT] for element in found]

    def reference(self, element):
        """An element as an argument of a script."""
        return {ELEMENT: element}

    def click(self, element):
        self._call("POST", f"/element/{element}/click", {})

    def type(self, element, text):
        self._call("POST", f"/element/{element}/value", {"text": text})

    def clear(self, element):
        self._call("POST", f"/element/{element}/clear", {})

    def point_at(self, element):
        """Scrolls an element into view, and moves the pointer to its middle."""
        self.run("arguments[0].scrollIntoView({block: 'center', inline: 'center'})", self.reference(element))
        self._move({ELEMENT: element})

    def point_away(self):
        """Moves the pointer into the window's corner."""
        self._move("viewport")

    def _move(self, origin):
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": origin}
        pointer = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [move]}
        self._call("POST", "/actions", {"actions": [pointer]})

    def press(self, key):
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": keys}]})

    def devtools(self, command, **parameters):
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self, kind):
        return self._call("POST", "/se/log", {"type": kind})

    def requests(self):
        """The addresses that the page has asked for."""
        events = (json.loads(entry["message"])["message"] for entry in self.log("performance"))
        return [
            event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"
        ]

    def look(self, width, scheme):
        """Sets the window's width, and light or dark."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.devtools("Emulation.setEmulatedMedia", media="", features=features)

    def screenshot(self, path):
        """The whole page as PNG."""
        image = self.devtools("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(image["data"]))

    def print(self, path):
        path.write_bytes(base64.b64decode(self._call("POST", "/print", {"page": {"width": 21.0, "height": 29.7}})))


@contextlib.contextmanager
def browser():
    """A browser with a profile of its own, which is gone afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL)
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            window = Browser(port, profile)
            try:
                yield window
            finally:
                window.close()
    finally:
        driver.terminate()
        driver.wait()
