# SPDX-License-Identifier: GPL-2.0
"""Drives Chromium without a screen by its DevTools protocol, on a pair of pipes."""

import base64
import json
import os
import subprocess


class Browser:
    """A browser with one page."""

    def __init__(self, program, profile):
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()

        def put_pipes():
            # Both may be in each other's place.
            high = (os.dup2(to_browser, 10), os.dup2(from_browser, 11))
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=put_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._id, self._session = b"", 0, None
        self.errors = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        """Ends the browser."""
        os.close(self._to)
        self._process.terminate()
        self._process.wait()
        os.close(self._from)

    def _message(self):
        while b"\0" not in self._buffer:
            part = os.read(self._from, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(text)
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(message["params"]["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.errors.append(message["params"]["entry"]["text"])
        return message

    def call(self, method, **params):
        """Calls a method, and returns its result."""
        self._id += 1
        message = {"id": self._id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url, width, height, scheme, touch=False):
        """Opens a page in a window of this size, with the colours "light" or "dark"."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.documentElement.dataset.ready")

    def run(self, script):
        """Returns the value of an expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def wait(self, script):
        """Waits up to a minute until an expression is true."""
        never = json.dumps(f"never: {script}")
        return self.run(f"""new Promise((done, fail) => {{
            let left = 1200;
            const look = () => ({script}) ? done(true) : left-- ? setTimeout(look, 50) : fail(new Error({never}));
            look();
        }})""")

    def busy(self):
        """Returns the seconds of a CPU that the page has taken, where other programs do not count."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def settle(self):
        """Waits until what was asked for is drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(() => setTimeout(done, 0)), 0)))")

    def key(self, key, shift=False):
        """Presses and releases a key."""
        text = key if len(key) == 1 else ""
        modifiers = 8 if shift else 0
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, modifiers=modifiers)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)
        self.settle()

    def mouse(self, kind, x, y, buttons=0, modifiers=0):
        """Moves, presses or releases the mouse: kind is "Moved", "Pressed" or "Released"."""
        button = "none" if kind == "Moved" and not buttons else "left"
        self.call("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, button=button, buttons=buttons, clickCount=1, modifiers=modifiers)

    def click(self, x, y):
        """Clicks at a place of the window."""
        self.mouse("Moved", x, y)
        self.mouse("Pressed", x, y, 1)
        self.mouse("Released", x, y)
        self.settle()

    def drag(self, x, y, to_x, to_y):
        """Drags from one place to another."""
        self.mouse("Moved", x, y)
        self.mouse("Pressed", x, y, 1)
        for part in (0.3, 0.7, 1):
            self.mouse("Moved", x + (to_x - x) * part, y + (to_y - y) * part, 1)
        self.mouse("Released", to_x, to_y)
        self.settle()

    def picture(self, path):
        """Writes a picture of the window."""
        self.settle()
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
