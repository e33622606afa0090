# SPDX-License-Identifier: Apache-2.0
"""A browser that a test drives: chromium by its driver, over the WebDriver protocol, with Python's standard library alone."""

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request

PATIENCE = 30  # seconds, for anything that is waited for


def missing():
    """The programs that are needed and not there."""
    return [name for name in ("chromium", "chromedriver") if not shutil.which(name)]


class Browser:
    def __init__(self, directory, width=1280, height=900):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.base = None
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                self.base = f"http://127.0.0.1:{line.rsplit(None, 1)[-1].rstrip('.')}"
                break
        assert self.base, "chromedriver did not start"
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--hide-scrollbars",
            f"--user-data-dir={directory}",
            f"--window-size={width},{height}",
        ]
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        self.session = ""
        self.session = "/session/" + self.post("/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + self.session + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def post(self, path, body=None):
        return self.call("POST", path, body or {})

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(PATIENCE)
            self.driver.stdout.close()

    def open(self, url):
        self.post("/url", {"url": url})

    def run(self, script, *args):
        return self.post("/execute/sync", {"script": script, "args": list(args)})

    def later(self, script, *args):
        """What the script gives to its last argument, a function."""
        return self.post("/execute/async", {"script": script, "args": list(args)})

    def wait(self, script, *args, what=None):
        """Until the script's value is true; it is returned."""
        deadline = time.monotonic() + PATIENCE
        while True:
            value = self.run(script, *args)
            if value:
                return value
            assert (
                time.monotonic() < deadline
            ), f"not seen in {PATIENCE} s: {what or script}\nthe page says:\n{self.run('return document.body.innerText')}"
            time.sleep(0.05)

    def keys(self, text):
        """As somebody types them; it goes to what has the focus."""
        actions = [action for letter in text for action in ({"type": "keyDown", "value": letter}, {"type": "keyUp", "value": letter})]
        self.post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def size(self, width, height):
        self.post(
            "/goog/cdp/execute",
            {
                "cmd": "Emulation.setDeviceMetricsOverride",
                "params": {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
            },
        )

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", "/screenshot")))

    def log(self, kind):
        return self.post("/se/log", {"type": kind})
