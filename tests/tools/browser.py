"""Headless Chromium by its DevTools protocol over two pipes; the standard library alone."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find():
    """The browser's path, None where there is none. Debian's script beside it only adds options."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    return "/usr/lib/chromium/chromium" if found and os.path.exists("/usr/lib/chromium/chromium") else found


class Browser:
    """One page of a browser of its own, without a network. `events` are those that came, as (method, params)."""

    def __init__(self, path):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        # The browser reads descriptor 3 and writes 4, whatever numbers the pipes have here.
        command = [path, "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--hide-scrollbars", "--no-sandbox",
                   "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                   "--host-resolver-rules=MAP * ~NOTFOUND", "--force-color-profile=srgb", f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"', "sh", *command], pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser), os.close(from_browser)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def receive(self, seconds):
        limit = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            if not select.select([self.read_end], [], [], max(0, limit - time.monotonic()))[0]:
                raise TimeoutError(f"no answer of the browser in {seconds} s")
            data = os.read(self.read_end, 1 << 20)
            if not data:
                raise EOFError("the browser has ended")
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        while True:
            answer = self.receive(60)
            if "method" in answer:
                self.events.append((answer["method"], answer["params"]))
            elif answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def run(self, expression):
        """The value of an expression of JavaScript."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", "exception"))
        return result["result"].get("value")

    def open(self, url):
        self.events.clear()
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=url)
        limit = time.monotonic() + 30
        while time.monotonic() < limit and not self.run("document.readyState === 'complete'"):
            time.sleep(0.02)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def media(self, **features):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-" + name.replace("_", "-"), "value": value} for name, value in features.items()])

    def mouse(self, x, y, click=False):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, key, text=None, shift=False):
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
                 "ArrowRight": 39, "ArrowDown": 40}
        text = text or {"Enter": "\r", " ": " "}.get(key) or (key if len(key) == 1 else None)
        common = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0]) if len(key) == 1 else 0), "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, EOFError, TimeoutError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.write_end), os.close(self.read_end)
        self.profile.cleanup()
