#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""page.py PROFILE SMALL MILLION NONE ONE WIDE: uses pages of `ferrotrace report` in the browser FERROTRACE_BROWSER.

tests/report.rs makes the recordings. FERROTRACE_PICTURES names a directory for pictures of what was seen.
"""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testing"))
from browser import Browser  # noqa: E402

PICTURES = os.environ.get("FERROTRACE_PICTURES")
browser = Browser(os.environ["FERROTRACE_BROWSER"], sys.argv[1])
pages = dict(zip(("small", "million", "none", "one", "wide"), sys.argv[2:]))


def page(name, width=1280, height=800, scheme="light", touch=False):
    """Opens a page."""
    browser.open("file://" + pages[name], width, height, scheme, touch)
    settle()


def settle():
    """Waits until the views are made."""
    browser.settle()
    browser.wait("document.documentElement.dataset.selected")
    browser.settle()


def picture(name):
    """Keeps a picture, if somewhere is named for it."""
    if PICTURES:
        browser.picture(os.path.join(PICTURES, f"{name}.png"))


def expect(script, wanted):
    """Compares the value of an expression."""
    found = browser.run(script)
    assert found == wanted, f"{script}: {found!r} instead of {wanted!r}"


def data(name):
    """Returns what the page tells of itself."""
    return browser.run(f"document.documentElement.dataset.{name}")


def text(identity):
    """Returns the text of an element."""
    return browser.run(f"document.getElementById({json.dumps(identity)}).innerText")


def search(words):
    """Types a search."""
    browser.run(f"document.getElementById('search').value = {json.dumps(words)};"
                "document.getElementById('search').dispatchEvent(new Event('input'))")
    browser.run("new Promise(done => setTimeout(done, 300))")
    settle()


def box(identity):
    """Returns left, top, width and height of an element in the window."""
    return browser.run(f"(() => {{ const r = document.getElementById('{identity}').getBoundingClientRect();"
                       "return [r.left, r.top, r.width, r.height] })()")


def colours():
    """Returns how many pixels of the tracks have each colour that is not grey, the most frequent ones first."""
    return browser.run("""(() => {
        const lanes = document.getElementById("lanes"), counts = new Map();
        const { data } = lanes.getContext("2d").getImageData(0, 0, lanes.width, lanes.height);
        for (let at = 0; at < data.length; at += 4) {
            const [r, g, b] = data.subarray(at, at + 3);
            if (Math.max(r, g, b) - Math.min(r, g, b) > 30) counts.set(`${r},${g},${b}`, (counts.get(`${r},${g},${b}`) ?? 0) + 1);
        }
        return [...counts.values()].sort((a, b) => b - a);
    })()""")


def small(scheme):
    """bash runs for 6 ms, cat for 3 ms, an odd thread for 5 ms, and thread 42 makes calls of 4 and 1 ms."""
    page("small", scheme=scheme)
    assert data("drawn") == "7", data("drawn")
    # Areas are as the times are; names cover some pixels.
    areas = colours()
    unit = areas[0] / 6
    for area, ms in zip(areas, (6, 5, 5, 3)):
        assert abs(area / unit - ms) < 0.5, areas
    browser.wait("document.getElementById('selection').innerText.includes('slices')")
    assert "5\n" in text("selection") and "19 ms" in text("selection"), text("selection")
    picture(f"small-{scheme}")

    # A search marks, and n goes from one to the next; the fields of a record are shown.
    search("vfs")
    assert (data("found"), text("found")) == ("2", "2 found"), data("found")
    browser.key("n")
    browser.key("n")
    assert "vfs_read" in text("record") and "1000000 (1 ms)" in text("record"), text("record")
    picture(f"small-search-{scheme}")
    browser.key("Escape")
    browser.key("Escape")
    assert data("found") == "0"
    for words, found in (("length>=4ms", 3), ("-vfs length>=1ms", 3), ('name="<i>&\\"odd-44"', 1), ("duration=1000000", 1), ("odd", 1),
                         ("pid=42 duration<2ms", 1), ("nothing", 0), ("name!=bash-41 length>0", 4), ("track=\"CPU 0\"", 3)):
        search(words)
        assert data("found") == str(found), (words, data("found"))
    search("")

    # A filter by kind.
    browser.run("document.querySelector('[data-kind=vfs_read]').click()")
    settle()
    assert data("drawn") == "5", data("drawn")
    browser.run("document.getElementById('all-kinds').click()")
    settle()
    assert data("drawn") == "7", data("drawn")

    # Dragging selects a time: its figures are those of the part.
    left, top, width, _ = box("scroll")
    at = lambda ms: left + 1 + 168 + (width - 2 - 168) * ms / 10
    browser.drag(at(1), top + 30, at(2), top + 40)
    settle()
    assert data("selected") == "4", data("selected")
    assert text("selection").startswith(("Selection of 1 ms", "Selection of 1.0", "Selection of 99")), text("selection")
    picture(f"small-selection-{scheme}")
    browser.key("4")
    settle()
    expect("document.getElementById('whole-tables').hidden", True)
    expect("document.querySelectorAll('#selected-tables table').length", 3)
    # A click on a row marks all of the name, and zooms to the longest one.
    browser.run("[...document.querySelectorAll('#selected-tables tr')].find(row => row.innerText.startsWith('vfs_read')).click()")
    settle()
    expect("document.getElementById('timeline').hidden", False)
    expect("document.getElementById('search').value", "name=vfs_read")
    assert "track\nthread 42" in text("record"), text("record")
    browser.key("Escape")
    browser.key("Escape")
    browser.key("0")

    # Tables of the whole recording are links, too.
    browser.key("4")
    settle()
    expect("document.getElementById('whole-tables').hidden", False)
    browser.run("document.querySelector('#whole-tables tr[data-name=\"cat-43\"]').click()")
    settle()
    assert text("record").startswith("cat-43"), text("record")
    browser.key("Escape")
    browser.key("Escape")

    # The flame graph: two calls, one in the other, of one thread.
    browser.key("2")
    settle()
    assert data("frames") == "4", data("frames")
    assert text("flame-where").startswith("all: 4 ms"), text("flame-where")
    left, top, width, height = box("flame-graph")
    browser.click(left + 20, top + 8)
    assert text("flame-where").startswith("vfs_read: 1 ms (25.0 %)"), text("flame-where")
    picture(f"small-flame-{scheme}")
    browser.key("Escape")
    assert text("flame-where").startswith("all: 4 ms"), text("flame-where")

    # The histogram: five lengths, and a click on a bar searches for them.
    browser.key("3")
    settle()
    expect("[...document.querySelectorAll('.bar')].map(bar => bar.innerText.trim().split(/\\s+/).slice(0, 2).join(' ')).join()", "1 ms,3 ms,4 ms,5 ms,6 ms")
    picture(f"small-histogram-{scheme}")
    browser.run("document.querySelector('.bar').click()")
    settle()
    expect("document.getElementById('search').value", "length=1000000")
    assert data("found") == "1", data("found")
    search("")
    browser.key("1")

    # Keys zoom and move; help opens and closes.
    span = "document.getElementById('where').innerText"
    browser.key("0")
    expect(span, "0 ns to 10 ms")
    browser.key("+")
    expect(span, "2.5 ms to 7.5 ms")
    browser.key("d")
    expect(span, "3.5 ms to 8.5 ms")
    browser.key("ArrowLeft")
    browser.key("-")
    expect(span, "0 ns to 10 ms")
    browser.key("?")
    expect("document.getElementById('help').open", True)
    picture(f"help-{scheme}")
    browser.key("Escape")
    expect("document.getElementById('help').open", False)
    browser.key("/")
    expect("document.activeElement.id", "search")
    browser.key("Escape")


def hostile():
    """Names with HTML and escapes are text."""
    page("wide", scheme="dark")
    expect("document.querySelectorAll('b, i').length - document.querySelectorAll('#tip b').length", 0)
    browser.key("4")
    settle()
    expect("document.querySelectorAll('#tables b').length", 0)
    assert "</script>\\u001bx" in text("tables"), text("tables")[:500]


def wide():
    """64 CPUs and 64 threads: the 30 most active ones of each are shown, and the others when asked for."""
    page("wide")
    buttons = "[...document.querySelectorAll('#space button')].map(button => button.innerText)"
    titles = browser.run(buttons)
    assert len(titles) == 4 and "34 more" in titles[1] and "34 more" in titles[3], titles
    assert browser.run("document.getElementById('scroll').scrollHeight") > 60 * 20
    picture("wide")
    before = box("space")[3]
    browser.run("document.querySelectorAll('#space button')[1].click()")
    settle()
    assert box("space")[3] > before + 34 * 20
    browser.run("document.querySelector('#space button').click()")
    settle()
    assert box("space")[3] < before, box("space")
    # Threads have the names that their records tell.
    search('track="</script>\\\\u001bx (1003)"')
    assert data("found") == "20", data("found")
    search("ret<0")
    assert data("found") == str(5 * 64), data("found")
    # The next one is made visible where its group or track is not.
    browser.key("n")
    assert "do_open" in text("record") and "ret\n-2" in text("record"), text("record")
    picture("wide-record")
    search("")
    browser.key("3")
    browser.run("document.getElementById('histogram-of').value = 'ret'; document.getElementById('histogram-of').dispatchEvent(new Event('change'))")
    settle()
    bars = browser.run("[...document.querySelectorAll('.bar')].map(bar => bar.innerText.replace(/\\s+/g, ' '))")
    assert bars == ["-2 320", "3 960"], bars
    browser.key("2")
    settle()
    assert text("flame-where") == "all: 1,280 hits (100.0 %)", text("flame-where")
    assert data("frames") == "3", data("frames")
    picture("wide-flame")


def narrow():
    """A telephone: nothing is wider than the window, and two fingers zoom."""
    for name, scheme in (("small", "light"), ("wide", "dark"), ("one", "light"), ("none", "dark")):
        page(name, 420, 800, scheme, touch=True)
        for tab in "1234":
            browser.key(tab)
            settle()
            expect("document.documentElement.scrollWidth <= 420", True)
            picture(f"{name}-420-{tab}")
    page("small", 420, 800, touch=True)
    left, top, width, _ = box("scroll")
    middle, y = left + width / 2, top + 45
    fingers = lambda apart: [{"x": middle - apart, "y": y, "id": 1}, {"x": middle + apart, "y": y, "id": 2}]
    browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=fingers(20))
    browser.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=fingers(50))
    browser.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=fingers(80))
    browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    settle()
    assert text("where").startswith("3.7") or text("where").startswith("3.8"), text("where")


def none():
    """A recording without records."""
    page("none")
    assert "no record" in text("selection"), text("selection")
    for key in "1234nN,.+-z0":
        browser.key(key)
    settle()
    picture("none")


def million():
    """A million slices: each of them is in the picture, at every zoom. Times are told, and not judged."""
    browser.call("Performance.enable", timeDomain="threadTicks")
    before = browser.busy()
    page("million")
    assert data("drawn") == "1000000", data("drawn")
    opened, took = browser.busy() - before, []
    picture("million")
    for key in "wwwwdaasss" * 2:
        before = browser.busy()
        browser.key(key)
        took.append(1000 * (browser.busy() - before))
    print(f"a million slices: {opened:.2f} s of a CPU until the page is shown, {min(took):.0f} to {max(took):.0f} ms to draw it again")
    browser.key("0")
    # The only ones of their length.
    search("length=89 pid=103")
    found = int(data("found"))
    assert 0 < found < 20_000, found
    browser.key("n")
    picture("million-search")
    assert "vfs_read" in text("record"), text("record")


try:
    small("light")
    small("dark")
    hostile()
    wide()
    narrow()
    none()
    million()
    assert not browser.errors, browser.errors
finally:
    browser.close()
