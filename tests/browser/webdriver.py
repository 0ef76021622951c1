"""A headless Chromium for tests, controlled through chromedriver by WebDriver's HTTP requests."""
# SPDX-License-Identifier: Apache-2.0
import base64
import http.client
import json
import re
import shutil
import subprocess
import tempfile
import time


def programs():
    """Return the paths of Chromium and chromedriver; None for one that is missing."""
    chromium = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
    return chromium, shutil.which("chromedriver")


def start_driver(driver):
    """Start the driver. It takes a free port for IPv4, wants the same one for IPv6, and ends where another program has that."""
    said = ""
    for _ in range(5):
        process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in process.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                return process, int(found.group(1))
            said += line
        process.wait()
    raise RuntimeError(f"chromedriver does not start: {said}")


class Browser:
    def __init__(self):
        chromium, driver = programs()
        self.profile = tempfile.mkdtemp(prefix="fedpage-")
        self.process, self.port = start_driver(driver)
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--disable-dev-shm-usage", "--lang=en-GB", "--user-data-dir=" + self.profile]
        self.session = None
        made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "acceptInsecureCerts": True, "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": chromium, "args": arguments}}}})
        self.session = made["sessionId"]

    def close(self):
        try:
            if self.session:
                self._ask("DELETE", f"/session/{self.session}")
        finally:
            self.process.terminate()
            self.process.wait()
            shutil.rmtree(self.profile, ignore_errors=True)

    def _ask(self, method, path, body=None):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        link.request(method, path, json.dumps(body if body is not None else {}) if method == "POST" else None,
                     {"Content-Type": "application/json"})
        value = json.loads(link.getresponse().read())["value"]
        link.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{path}: {value['error']}: {value['message'].splitlines()[0]}")
        return value

    def _here(self, method, path, body=None):
        return self._ask(method, f"/session/{self.session}{path}", body)

    def devtools(self, command, **parameters):
        return self._here("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def look_like(self, width, height, dark, phone):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.devtools("Emulation.setEmulatedMedia",
                      features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self._here("POST", "/url", {"url": url})

    def url(self):
        return self._here("GET", "/url")

    def run(self, script, *arguments):
        """Run a script in the page, and return the value that it returns."""
        return self._here("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, what, seconds=20):
        """Wait until the script returns something true, and return that."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"waited in vain for {what}; the page says: {self.run('return document.body.innerText')[:600]}")

    def text(self, selector):
        return self.run("const e = document.querySelector(arguments[0]); return e && e.innerText", selector)

    def press(self, key):
        """Press a key, given by its name, such as Tab."""
        codes = {"Tab": "\ue004", "Enter": "\ue007", "ArrowLeft": "\ue012", "Home": "\ue011", "Space": " ", "Escape": "\ue00c"}
        key = codes.get(key, key)
        self._here("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": [
            {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})

    def drag(self, from_x, from_y, to_x, to_y):
        """Press the mouse's button at one place of the window, move it, and let go at another."""
        def move(x, y, took):
            return {"type": "pointerMove", "duration": took, "x": x, "y": y}
        self._here("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [
            move(from_x, from_y, 0), {"type": "pointerDown", "button": 0}, move((from_x + to_x) // 2, to_y, 50), move(to_x, to_y, 50),
            {"type": "pointerUp", "button": 0}]}]})

    def errors(self):
        """Return the errors in the browser's console since the last call: refused scripts and styles, exceptions."""
        return [e["message"] for e in self._here("POST", "/se/log", {"type": "browser"}) if e["level"] == "SEVERE"]

    def screenshot(self, path, whole=True):
        """Save a picture of the whole page, or of its upper part."""
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
