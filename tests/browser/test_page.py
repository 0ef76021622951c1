#!/usr/bin/env python3
"""The coordinator's page in headless Chromium: over the whole life of a run, on a desktop and a phone, light and dark.

usage: test_page.py SOURCE_DIR BIN_DIR [PART ...] [--shots DIR]

Made-up states (states.py) are served over loopback with the page's own files; then a real fedserver with real devices.
Exit status 77: there is no Chromium here.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import glob
import gzip
import http.client
import http.server
import json
import os
import random
import re
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import states
import webdriver

POLICY = ("default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
          "form-action 'none'; frame-ancestors 'none'")
LOOKS = [(name, width, height, dark, phone) for name, width, height, phone in (("desktop", 1280, 900, False), ("phone", 390, 844, True))
         for dark in (False, True)]


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


class FakeCoordinator(http.server.ThreadingHTTPServer):
    """Serves the page's files as fedserver does, and one state of states.py."""

    def __init__(self, dashboard):
        super().__init__(("127.0.0.1", 0), FakeRequest)
        self.dashboard = dashboard
        self.gone = False
        self.sent = 0  # bytes of all answers
        self.past = {}  # by a task's number: its rounds, newest first, if it does not run
        self.place = {"address": "192.0.2.2:8445", "leads": False}
        self.session = {"acts": False, "act_token": None, "why_not": "to act, log in"}
        self.status, self.devices = states.empty()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def file(self, path):
        """Return a file of the page, put together as embed.cmake does."""
        if path == "/page.js":
            names = sorted(n for n in glob.glob(self.dashboard + "/*.js") if os.path.basename(n) != "login.js")
        else:
            names = [self.dashboard + {"/": "/index.html", "/login": "/login.html"}.get(path, path)]
        return b"".join(open(n, "rb").read() for n in names)


class FakeRequest(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.server.gone:
            self.close_connection = True
            return
        path, _, query = self.path.partition("?")
        if path == "/v1/status":
            self.answer("application/json", json.dumps(self.server.status).encode())
        elif path == "/v1/rounds":
            wanted = {k: int(v[0]) for k, v in urllib.parse.parse_qs(query).items()}
            self.answer("application/json", json.dumps(states.history(self.server.status, self.server.past, **wanted)).encode())
        elif path == "/v1/coordinator":
            self.answer("application/json", json.dumps(self.server.place).encode())
        elif path == "/v1/session":
            self.answer("application/json", json.dumps(self.server.session).encode())
        elif path == "/v1/devices":
            wanted = urllib.parse.parse_qs(query)
            after, limit = int(wanted["after"][0]), int(wanted["limit"][0])
            rest = [d for d in self.server.devices if d["id"] > after]
            part = rest[:limit]
            self.answer("application/json", json.dumps({
                "devices": part, "next": part[-1]["id"] if len(rest) > limit else None, "total": len(self.server.devices)}).encode())
        else:
            kind = {"js": "text/javascript", "css": "text/css"}.get(path.rpartition(".")[2], "text/html")
            self.answer(kind, self.server.file(path))

    def answer(self, kind, body):
        self.server.sent += len(body)
        self.send_response(200)
        self.send_header("Content-Type", kind + "; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def alarms(b):
    return b.run("return [...document.querySelectorAll('#alarms li')].map(e => [e.className.includes('red') ? 'red' : 'amber', e.innerText])")


def expect_alarms(b, *expected):
    if expected:  # that a round has failed is known only with the task's history
        b.wait(f"return document.querySelectorAll('#alarms li').length === {len(expected)}", f"{len(expected)} alarms")
    shown = alarms(b)
    check(len(shown) == len(expected), "the page shows another number of alarms:", shown)
    for (level, words), (wanted, part) in zip(shown, expected):
        check(level == wanted and part in words, "alarm", wanted, part, "is", level, words)
        check("\n" in words, "an alarm does not say what to do:", words)


def first_device(b):
    """Return the first device's name. The page shows the first digits of the fingerprint behind it."""
    name, digits, *chips = b.text("#devices tr td").split(" ")
    check(re.fullmatch("[0-9a-f]{8}", digits), "the digits are", digits)
    return " ".join([name, *chips])


def axis(b, chart):
    """Return the highest label of a chart's axis of values."""
    return b.run("return [...document.querySelectorAll('#' + arguments[0] + ' text[text-anchor=end]')].map(e => e.textContent)", chart)[-2]


def look_empty(b):
    check("No task is queued. No device is enrolled yet." == b.text("#headline"), b.text("#headline"))
    check("fedserver task" in b.text("#hint"), b.text("#hint"))
    check(b.run("return document.getElementById('charts').hidden"), "charts are shown without a round")
    expect_alarms(b)


def is_since(seconds, text):
    """Return whether the text says "N s ago", with N as given or, on a busy machine, up to a minute later."""
    said = re.search(r"\b(\d+) s ago", text)
    return said is not None and seconds <= int(said[1]) <= 60


def look_running(b):
    check(b.text("#headline") == "Round 31 of 50: 8 of 12 updates are in, 3 devices are training.", b.text("#headline"))
    check(b.text("#eta").startswith("about "), b.text("#eta"))
    check(is_since(8, b.text("#commit")), b.text("#commit"))
    check(re.fullmatch(r".*\d\d:\d\d, in 1?\d s", b.text("#deadline")), b.text("#deadline"))
    check(b.text("#out") == "3 devices", b.text("#out"))
    check(first_device(b) == "branch-00012", "the first device is", first_device(b))
    expect_alarms(b)


def look_outlier(b):
    check(float(axis(b, "loss")) < 10, "one outlier flattens the axis:", axis(b, "loss"))
    check(b.run("return document.querySelectorAll('#loss .out').length") == 1, "the outlier is not marked")
    b.run("document.getElementById('losslog').click()")
    check(float(axis(b, "loss")) >= 9e6, "the log scale does not show the outlier:", axis(b, "loss"))
    b.run("document.getElementById('losslog').click()")
    b.run("document.getElementById('loss').focus()")
    b.press("Home")
    spoken = b.run("return document.getElementById('loss').getAttribute('aria-valuetext')")
    check(spoken.startswith("round 1: ") and "test data" in spoken, spoken)
    check(b.run("return document.querySelector('#loss .note').textContent") == spoken, "the value is not shown")


def look_reporting(b):
    heads = b.run("return [...document.querySelectorAll('#own h2')].map(e => e.innerText)")
    check(len(heads) == 2 and heads[0].startswith("energy_mj") and heads[1].startswith("f1"), "metrics:", heads)
    check("in round 29, " in heads[0], heads[0])
    check("0.8904 now, 0.8013 to 0.9794 in 12 updates" in heads[1], heads[1])
    lines = b.run("return [...document.querySelectorAll('#own polyline')].map(e => e.points.numberOfItems)")
    check(lines == [29, 30, 30], "number of points in each line of the metrics' charts:", lines)
    check("evaluators" in b.text("#own .legend"), b.text("#own .legend"))
    check("3 values were dropped" in b.text("#ownrest"), b.text("#ownrest"))


def look_stuck(b):
    expect_alarms(b, ("red", "Round 8 has failed 3 times"), ("red", "certificate ends in 3 days"))
    check("Away: branch-00002, branch-00003, branch-00004, branch-00005 and 1 other." in alarms(b)[0][1], alarms(b)[0])
    check("unknown" in b.text("#eta"), b.text("#eta"))


def look_poisoned(b):
    expect_alarms(b, ("red", "The model gets worse"), ("amber", "41 updates of kitchen-tablet were refused"))
    check("In 4 of the last rounds kitchen-tablet moved the model furthest." in alarms(b)[0][1], alarms(b)[0])
    check(first_device(b) == "kitchen-tablet", "the first device is", first_device(b))


def look_private(b):
    check("the coordinator gets each update, and is trusted not to read it" in b.text("#privacyreader"), b.text("#privacyreader"))
    check(b.text("#privacypromise").endswith("sent its training or zeros: epsilon 8 at delta 1e-5."), b.text("#privacypromise"))
    check(b.text("#spentwords").startswith("7.45 of 8 spent, by the device that took part most often. 4 devices may take part once more; each in at most 8 rounds."), b.text("#spentwords"))
    check(b.run("return document.getElementById('budgetbar').getAttribute('aria-valuenow')") == "93", "the budget's bar")
    check("1.803 of the longest update" in b.text("#privacyfacts"), b.text("#privacyfacts"))
    expect_alarms(b, ("amber", "A round needs 6 updates, and only 4 devices have a participation left."))


def look_helped(b):
    check(b.text("#headline") == "Round 31 of 50: all updates are in (12), and the helper of the works council must open their sum.", b.text("#headline"))
    check("unless the coordinator and the helper of the works council break their word together" in b.text("#privacyreader"), b.text("#privacyreader"))
    check("No epsilon is promised" in b.text("#privacypromise") and b.run("return document.getElementById('budget').hidden"), b.text("#privacypromise"))
    check("has not opened this round's sum yet, for 3 min" in b.text("#privacyfacts"), b.text("#privacyfacts"))
    expect_alarms(b, ("amber", "Round 31 has waited for the helper of the works council for 3 min"))


def look_own_helper(b):
    check("You run its helper, too" in b.text("#privacyreader").replace("But you", "You") and "not against you" in b.text("#privacyreader"), b.text("#privacyreader"))
    check("owes nothing" in b.text("#privacyfacts"), b.text("#privacyfacts"))
    expect_alarms(b, ("red", "The ledger is that of a backup"))


def look_grouped(b):
    check("5, of which a robust strategy takes the middle" in b.text("#privacyfacts"), b.text("#privacyfacts"))
    expect_alarms(b, ("amber", "branch-00004 was in the worst group in 11 of its 12 rounds, by chance in 2.4."))
    check("or it ignores the clip. If you do not trust it: fedserver revoke --dir DIR " in alarms(b)[0][1], alarms(b)[0])


def look_cloned(b):
    expect_alarms(b, ("red", "Two machines use the key of branch-00004"))
    check("branch-00004" in first_device(b), "the first device is", first_device(b))


def look_clusters(b):
    expect_alarms(b, ("red", "In the cluster west: worker 1 (host node-1, pid 4701) died at step 1203 in backward; 2 others wait for bucket 5"))
    check("west" in first_device(b) and "cluster" in first_device(b), "the first device is", first_device(b))
    rows = b.run("return [...document.querySelectorAll('.gang')].map(g => [g.previousSibling.innerText, g.innerText, "
                 "[...g.querySelectorAll('.gang tbody tr')].map(r => r.innerText)])")
    check(len(rows) == 2, "worker groups:", rows)
    (west, west_text, west_workers), (east, east_text, east_workers) = rows
    check("west" in west and is_since(14, west_text) and "died at step 1203" in west_text, west, west_text)
    check(len(west_workers) == 3 and "dead" in west_workers[1] and "worker 1" in west_workers[0], west_workers)
    check("east" in east and "4 workers, tcp, owners, ssgd, 3lc:s=1.75; workers wait 7 % of the time for the exchange" in east_text, east, east_text)
    check(len(east_workers) == 4 and "node-3" in east_workers[3] and "1,203" in east_workers[3], east_workers)
    check(b.run("return document.querySelectorAll('.gang td.amber').length") == 2, "the slowest worker of each group is not marked")
    on = b.run("return [...document.querySelectorAll('.gang tbody tr')].map(r => r.cells[6].innerText)")
    check(on == ["processor"] * 3 + [f"cuda:{k} NVIDIA H100 80GB HBM3" for k in range(4)], "workers compute on", on)
    on = b.run("return [...document.querySelectorAll('#devices > tr:not(.gang)')].map(r => r.cells[7].textContent)")
    check(on[0].startswith("opencl:0 pthread-haswell") and on.count("cuda:0 NVIDIA H100 80GB HBM3") == 1, "devices compute on", on)
    check(on.count("processor") == 12 and on.count("-") == 1, "the others compute on", on)


def look_declined(b):
    check(b.text("#headline") == "Round 1 of 50: no device can serve this task.", b.text("#headline"))
    expect_alarms(b, ("red", "Every device has declined resnet for tablets. The first reason: samples are 784 values"))
    told = b.run("return [...document.querySelectorAll('#devices > tr')].map(r => r.cells[1].title)")
    check(len(told) == 4 and all(t.startswith("asked again after its next start, or from ") for t in told), "declines end", told)


def look_nobody(b):
    expect_alarms(b, ("red", "No device is enrolled"))


def look_few(b):
    expect_alarms(b, ("red", "A round needs 6 updates, and only 2 devices are enrolled that may train."))


def look_finished(b):
    check(b.text("#headline").startswith("digits of the branch offices is finished after 50 rounds, with 9"), b.text("#headline"))
    expect_alarms(b)


def look_queue(b):
    rows = b.run("return [...document.querySelectorAll('#tasks tr')].map(r => [r.cells[0].innerText, r.cells[1].innerText])")
    check([r[1] for r in rows] == ["running", "paused", "queued, position 1", "queued, position 2", "queued, position 3", "finished", "cancelled"], rows)
    why = b.run("return document.querySelectorAll('#tasks tr')[1].cells[5].innerText")
    check(why == "it was paused by uid=1000 at 2025-10-09 08:41 UTC; `fedserver resume` goes on with it", why)
    check("3 tasks wait" in b.text("#tasksnow"), b.text("#tasksnow"))
    expect_alarms(b, ("amber", "2 devices have declined"))


def look_side_by_side(b):
    """Check that one press shows another running task, and that alarms are of all running tasks."""
    names = "return [...document.querySelectorAll('#picker button')].map(b => [b.innerText.split('\\n')[0], b.getAttribute('aria-pressed')])"
    check(b.run(names) == [["digits of the branch offices (3)", "true"], ["keyboards (4)", "false"], ["doors (5)", "false"]], b.run(names))
    check(b.text("#headline").startswith("Round 31 of 50"), b.text("#headline"))
    expect_alarms(b, ("amber", "keyboards (4): Round 5 has failed 2 times"))
    rows = b.run("return [...document.querySelectorAll('#tasks tr')].map(r => [r.cells[3].innerText, r.cells[5].innerText])")
    check([r[0] for r in rows] == ["5", "5", "2", "9"], rows)
    check(rows[0][1] == "round 31: 8 of 12 updates, 3 training", rows)
    check(rows[3][1].startswith("waits: it needs 1320.0 MB of memory"), rows)
    b.run("document.querySelector('#picker [data-task=\"4\"]').click()")
    check(b.text("#headline").startswith("Round 5 of 80: 2 of 12 updates"), b.text("#headline"))
    check(b.text("#rounds") == "4 of 80 done", b.text("#rounds"))
    check([n[1] for n in b.run(names)] == ["false", "true", "false"], b.run(names))


def look_fleet(b):
    """Check that fifty tasks are a table that can be searched, and a thousand devices a strip of states."""
    check(b.run("return document.getElementById('picker').hidden"), "fifty buttons are shown")
    check(b.run("return document.getElementById('taskcard').nextElementSibling.id") == "nowcard", "the tasks are not in front")
    check("50 tasks run" in b.text("#tasksnow"), b.text("#tasksnow"))
    first = b.run("return [...document.querySelectorAll('#tasks tr')].slice(0, 2).map(r => r.cells[0].innerText)")
    check(first == ["population number 17 (17)", "population number 50 (50)"], "the most active tasks:", first)
    b.run("const f = document.getElementById('findtask'); f.value = 'number 4 '; f.dispatchEvent(new Event('input'))")
    found = b.run("return [...document.querySelectorAll('#tasks tr')].map(r => r.cells[0].innerText)")
    check(len(found) == 14 and "population number 4 (4)" in found, "tasks found:", found)
    b.run("const f = document.getElementById('findtask'); f.value = ''; f.dispatchEvent(new Event('input'))")
    parts = b.run("return [...document.querySelectorAll('#strip button')].map(p => p.getAttribute('aria-label'))")
    check(parts == ["333 devices, training: find them", "334 devices, waiting: find them", "333 devices, away: find them"], parts)
    bins = b.run("return [...document.querySelectorAll('#spread [role=img]')].map(p => p.getAttribute('aria-label'))")
    check(len(bins) == 3 and re.match(r"Last seen within: within 1 min, \d+ devices; within 5 min, \d+ devices; within 1 h, \d+ devices$", bins[0]), "histograms:", bins)
    check(bins[1].startswith("Updates that counted: 20+, 339 devices; 30+, 331 devices; 40+, 330 devices"), "histograms:", bins)
    check(sum(int(n) for n in re.findall(r"(\d+) devices", bins[2])) == 1000, "histograms:", bins)
    check(b.text("#whichtask") == "population number 1 (1), one of 50 running tasks", b.text("#whichtask"))
    b.run("document.querySelector('[data-key=strip-training]').click()")
    check(b.text("#where") == "1 to 50 of 333", b.text("#where"))
    b.run("const f = document.getElementById('find'); f.value = ''; f.dispatchEvent(new Event('input'))")


def look_crowd(b):
    check("10,000 devices are enrolled" in b.text("#devicesnow"), b.text("#devicesnow"))
    check(first_device(b) == "the-broken-one", "the first device is", first_device(b))
    check(b.run("return document.querySelectorAll('#devices tr').length") == 50, "the first page does not have fifty devices")
    check(b.text("#where") == "1 to 50 of 10,000", b.text("#where"))
    b.run("document.getElementById('after').click()")
    check(b.text("#where") == "51 to 100 of 10,000", b.text("#where"))
    b.run("const f = document.getElementById('find'); f.value = 'branch-00777'; f.dispatchEvent(new Event('input'))")
    check(first_device(b) == "branch-00777", "first device after a search:", first_device(b))
    b.run("const f = document.getElementById('find'); f.value = ''; f.dispatchEvent(new Event('input'))")
    b.run("document.querySelector('#sort-name button').click()")
    check(first_device(b) == "branch-00001", "first device, sorted by name:", first_device(b))
    for _ in range(2):
        b.run("document.querySelector('#sort-name button').click()")
    check(first_device(b) == "the-broken-one", "first device, sorted by attention again:", first_device(b))


def inspect(b, name):
    return b.run(INSPECT + f"return {name}();")


def look_everywhere(b):
    """Check what must hold in every state."""
    check(not re.search(r"\b[0-9a-f]{8}\b", b.text("#headline")), "the headline contains a digest:", b.text("#headline"))
    weak = inspect(b, "weak_contrast")
    check(not weak, "too little contrast:", weak)
    wide = inspect(b, "overflow")
    check(wide <= 0, "pixels by which the page is wider than its window:", wide)
    unnamed = inspect(b, "nameless")
    check(not unnamed, "for a screen reader:", unnamed)
    cut = inspect(b, "cut_tables")
    check(not cut, "tables are cut off:", cut)
    errors = b.errors()
    check(not errors, "errors in the browser's console:", errors)


def look_with_keys(b):
    """Check that Tab reaches every element in the order of the page, and that the focus can be seen."""
    count = inspect(b, "reachable")
    check(count > 8, "only", count, "things to reach")
    for expected in range(1, count + 1):
        b.press("Tab")
        at = inspect(b, "focused")
        check(at["mark"] == expected, "the focus goes to", at, "instead of", expected)
        check(at["outlined"] and at["inside"], "the focus can't be seen:", at)


def test_states(b, fake, shots):
    for name, make in states.ALL.items():
        fake.status, fake.devices = make()
        for look, width, height, dark, phone in LOOKS:
            b.look_like(width, height, dark, phone)
            b.open(fake.url())
            b.wait("return !document.getElementById('headline').textContent.startsWith('Asking') && "
                   "document.querySelectorAll('#devices tr').length > 0", name)
            try:
                globals()["look_" + name](b)
                look_everywhere(b)
                if name in ("queue", "side_by_side", "crowd") and not dark:
                    b.open(fake.url())
                    b.wait("return document.querySelectorAll('#devices tr').length > 0", name)
                    look_with_keys(b)
            except AssertionError as wrong:
                raise AssertionError(f"{name}, {look}, {'dark' if dark else 'light'}: {wrong}") from None
            finally:
                if shots:
                    b.screenshot(f"{shots}/{name}-{look}-{'dark' if dark else 'light'}.png")
        print("ok   ", name, flush=True)


def drag(b, selector, start, end):
    """Drag with the mouse over an element, between two parts of its width."""
    box = b.run("const r = document.querySelector(arguments[0]).getBoundingClientRect(); return [r.left, r.top, r.width, r.height]", selector)
    y = int(box[1] + box[3] / 2)
    b.drag(int(box[0] + start * box[2]), y, int(box[0] + end * box[2]), y)


def test_history(b, fake, shots):
    """Check that a past task is opened, that a whole run is drawn and zoomed, and that two runs are compared."""
    fake.status, fake.devices, fake.past = states.long_run()
    for look, width, height, dark, phone in LOOKS:
        b.look_like(width, height, dark, phone)
        b.open("about:blank")
        b.open(fake.url())
        b.wait("return document.getElementById('zoomed').textContent === 'All 5,000 rounds, 500 of them drawn' || "
               "document.getElementById('zoomed').textContent.startsWith('All 5,000 rounds, 50')", "the whole run")
        b.run("document.getElementById('compare').value = '2'; document.getElementById('compare').dispatchEvent(new Event('change'))")
        b.wait("return document.querySelector('#loss .legend') && document.querySelectorAll('#loss .legend span').length === 4", "four lines of two runs")
        check("devices' data, <i>digits</i>, small (2)" in b.text("#loss .legend"), b.text("#loss .legend"))
        drawn = b.run("return ['s1', 's2', 's3', 's4'].map(k => document.querySelector('#loss polyline.' + k).getAttribute('points').split(' ').length)")
        check(min(drawn) > 100, "points of the four lines:", drawn)
        own = b.run("return document.querySelector('#own polyline').points.numberOfItems")
        check(own > 200, "points of the custom metric over the whole run:", own)
        check(b.run("return document.querySelectorAll('#loss .mark').length") == 2, "the marks of what was done to the task are missing")
        check(re.match(r"Dotted lines: paused .*, resumed ", b.text("#marks")), b.text("#marks"))
        b.wait("return document.getElementById('coordinators').textContent.includes('192.0.2.2')", "whose page it is")
        check(re.match(r"3 coordinators: 192.0.2.1:8445 leads since .* \(term 7\), 2 others follow and can take over. This page is of 192.0.2.2:8445, which follows.", b.text("#coordinators")), b.text("#coordinators"))
        check("learning_rate" in b.text("#differs") and "0.05 and 0.01" in b.text("#differs"), b.text("#differs"))
        look_everywhere(b)
        if shots:
            b.screenshot(f"{shots}/compare-{look}-{'dark' if dark else 'light'}.png")
    b.look_like(1280, 900, False, False)
    b.run("document.getElementById('compare').value = ''; document.getElementById('compare').dispatchEvent(new Event('change'))")
    b.run("document.getElementById('loss').scrollIntoView({block: 'center'})")
    drag(b, "#loss", 0.3, 0.5)
    zoomed = b.wait("const t = document.getElementById('zoomed').textContent; return t.startsWith('Rounds ') && t", "the part that was dragged over")
    first, last = (int(n.replace(",", "")) for n in re.search(r"Rounds ([\d,]+) to ([\d,]+) of 5,000", zoomed).groups())
    check(500 < first < last < 3000, zoomed)
    b.run("document.getElementById('loss').focus()")
    for _ in range(6):
        b.press("+")
    b.wait("const t = document.getElementById('zoomed').textContent; return t.startsWith('Rounds ') && !t.includes('drawn')", "each round of a small part")
    b.press("0")
    b.wait("return document.getElementById('zoomed').textContent.startsWith('All 5,000')", "all rounds again")
    check(b.run("return document.getElementById('zoomall').disabled"), "the button for all rounds is of no use, but can be pressed")
    b.run("document.querySelector('[data-key=task-2]').click()")
    b.wait("return document.getElementById('headline').textContent.startsWith('<i>digits</i>, small is finished after 300 rounds')", "the past task")
    check(b.text("#zoomed") == "All 300 rounds", b.text("#zoomed"))
    check(b.run("return document.getElementById('getmodel').getAttribute('href')") == "/model.safetensors?task=2", "another model")
    links = b.run("return [...document.querySelectorAll('#tasks a')].map(a => a.getAttribute('href'))")
    check(links == ["/model.safetensors?task=5", "/model.safetensors?task=2"], "models:", links)
    check(b.text("#spentwords") == "3.1 of 8 spent, by the device that took part most often. Its rounds are over, and so is what it spends.", b.text("#spentwords"))
    check("the helper of the works council" in b.text("#privacyreader"), b.text("#privacyreader"))
    check("Helper\nthe works council, with the key 046b17d1f2e12c42..." in b.text("#privacyfacts"), b.text("#privacyfacts"))
    check("owes nothing" not in b.text("#privacyfacts"), b.text("#privacyfacts"))
    expect_alarms(b)
    look_everywhere(b)
    if shots:
        b.screenshot(shots + "/past-task.png")
    b.open("about:blank")
    b.open(fake.url() + "#task-2")
    b.wait("return document.getElementById('headline').textContent.includes('is finished after 300 rounds')", "the task that the link names")
    b.run("document.querySelector('[data-key=task-1]').click()")
    b.wait("return document.getElementById('headline').textContent.startsWith('never begun is cancelled after 0 of 300 rounds')", "a task without rounds")
    b.run("document.getElementById('back').click()")
    b.wait("return document.getElementById('headline').textContent.startsWith('Round 5,001')", "what runs now")
    check(b.run("return document.getElementById('back').hidden"), "there is a way back from what runs now")
    look_everywhere(b)
    fake.past = {}
    print("ok    history", flush=True)


def test_traffic(b, fake):
    """Check that a page asks for at most 64 KB a second of a fleet, however much the coordinator would tell."""
    fake.status, fake.devices = states.fleet()
    b.look_like(1280, 900, False, False)
    b.open("about:blank")
    b.open(fake.url())
    b.wait("return document.querySelectorAll('#devices tr').length === 50 && document.querySelectorAll('#tasks tr').length > 0", "the fleet")
    begun, before = time.monotonic(), fake.sent
    while fake.sent - before < 400_000:
        time.sleep(0.1)
    rate = (fake.sent - before) / (time.monotonic() - begun)
    check(rate <= 64 * 1024, "bytes a second:", rate)
    print(f"ok    traffic: {rate / 1024:.0f} KB a second", flush=True)


def test_lost(b, fake):
    """Check that the page says when its coordinator has gone, and still shows what it knew."""
    fake.status, fake.devices = states.running()
    b.open(fake.url())
    b.wait("return document.getElementById('headline').textContent.startsWith('Round')", "the round")
    fake.gone = True
    b.wait("return !document.getElementById('lost').hidden", "the sentence that nobody answers")
    check("What you see is from before" in b.text("#lost"), b.text("#lost"))
    b.errors()
    print("ok    lost", flush=True)


def write_digits(directory, train=200, test=80):
    """Write random pictures under MNIST's file names."""
    dice = random.Random(4)
    for part, count in (("train", train), ("t10k", test)):
        labels = bytes(dice.randrange(10) for _ in range(count))
        pictures = b"".join(bytes(200 if k % 10 == label else dice.randrange(40) for k in range(784)) for label in labels)
        for name, data in ((f"{part}-images-idx3-ubyte.gz", struct.pack(">4I", 0x803, count, 28, 28) + pictures),
                           (f"{part}-labels-idx1-ubyte.gz", struct.pack(">2I", 0x801, count) + labels)):
            with gzip.open(f"{directory}/{name}", "wb") as file:
                file.write(data)


class Coordinator:
    """A real fedserver, and devices for it."""

    def __init__(self, programs, directory):
        self.programs, self.top = programs, directory
        self.directory = directory + "/coordinator"
        self.process, self.devices = None, []
        self.command("init")

    def command(self, name, *arguments):
        done = subprocess.run([self.programs + "/fedserver", name, "--dir", self.directory, *arguments], capture_output=True,
                              text=True, check=True)
        return done.stdout.strip()

    def start(self, *options):
        self.process = subprocess.Popen(
            [self.programs + "/fedserver", "run", "--dir", self.directory, "--front-port", "0", "--devices-port", "0", "--quiet",
             *options], stdout=subprocess.PIPE, text=True)
        self.port = int(re.search(r"front https://[^:]+:(\d+)/", self.process.stdout.readline()).group(1))

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def device(self, name, *options):
        self.devices.append(subprocess.Popen(
            [self.programs + "/fedclientd", "--server", f"https://127.0.0.1:{self.port}", "--ca", self.directory + "/ca.pem", "--state",
             f"{self.top}/{name}", "--data", self.top, "--until-finished", *options], stderr=subprocess.DEVNULL))

    def queue(self, **keys):
        with open(self.top + "/task.json", "w") as file:
            json.dump({"model": "lr", "codec_up": "float32", "local_steps": 2, "learning_rate": 0.1, **keys}, file)
        self.command("task", self.top + "/task.json")

    def ask(self, path, method="GET", body=None, **headers):
        """Send a request from this machine, and return (status, headers, body)."""
        link = http.client.HTTPSConnection("127.0.0.1", self.port, context=ssl._create_unverified_context(), timeout=30)
        link.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = link.getresponse()
        result = answer.status, answer.headers, answer.read()
        link.close()
        return result

    def close(self):
        for device in self.devices:
            device.kill()
            device.wait()
        self.stop()


def compare_real_runs(b, c):
    """Run a second task to its end, open the first one, which is over, and lay the second one over it."""
    c.queue(name="again", rounds=3, cohort=2, minimum=2, deadline_s=600, local_steps=3)
    for name, shard in (("anna", "0/2"), ("ben", "1/2")):
        c.device(name, "--shard", shard)
    b.wait("return document.getElementById('headline').textContent.startsWith('again is finished after 3 rounds')", "the end of the second task", 60)
    b.run("document.querySelector('[data-key=task-1]').click()")
    b.wait("return document.getElementById('headline').textContent.startsWith('two by two is finished after 4 rounds')", "the first task")
    check(b.text("#zoomed") == "All 4 rounds", b.text("#zoomed"))
    b.run("document.getElementById('compare').value = '2'; document.getElementById('compare').dispatchEvent(new Event('change'))")
    b.wait("return document.querySelector('#loss .legend') && document.querySelector('#loss .legend').textContent.includes('again (2)')", "both runs")
    check("local_steps" in b.text("#differs") and "2 and 3" in b.text("#differs"), b.text("#differs"))
    look_everywhere(b)


def test_real_run(b, c, shots):
    """Check the page of a run with real devices: empty, waiting for a second device, and finished."""
    url = f"https://localhost:{c.port}/"
    b.look_like(1280, 900, False, False)
    b.open(url)
    b.wait("return document.getElementById('headline').textContent.startsWith('No task is queued')", "an idle coordinator")
    c.queue(name="two by two", rounds=4, cohort=2, minimum=2, deadline_s=600)
    c.device("anna", "--token", c.command("token"), "--shard", "0/2")
    b.wait("return document.getElementById('headline').textContent.startsWith('Round 1 of 4: 1 of 2 updates is in')", "one update")
    b.wait("return document.querySelectorAll('#devices tr').length === 1 && document.querySelector('#devices').innerText.includes('waiting')",
           "one device")
    look_everywhere(b)
    c.device("ben", "--token", c.command("token"), "--shard", "1/2")
    c.device("eva", "--token", c.command("token", "--role", "evaluator"), "--evaluate")
    b.wait("return document.getElementById('headline').textContent.startsWith('two by two is finished after 4 rounds')", "the end", 60)
    b.wait("return document.querySelectorAll('#devices tr').length === 3", "three devices")
    look_everywhere(b)
    if shots:
        b.screenshot(shots + "/real-finished.png")
    status, headers, body = c.ask("/rounds.csv")
    check(status == 200 and body.decode().count("\r\n") == 5, "rounds.csv:", status, body)
    compare_real_runs(b, c)
    print("ok    a real run", flush=True)


def test_real_login(b, c, shots):
    """Check that people get the login page until they log in, and that a link logs in once."""
    url = f"https://localhost:{c.port}/"
    b.look_like(1280, 900, False, False)
    status, headers, body = c.ask("/")
    check(status == 401 and b"fedserver page --dir DIR" in body, "a request without a login gets", status, body)
    check(headers["Content-Security-Policy"] == POLICY, headers["Content-Security-Policy"])
    check(c.ask("/v1/status")[0] == 401 and c.ask("/v1/devices")[0] == 401 and c.ask("/model.safetensors")[0] == 401, "status, devices or model can be read without a login")
    b.open(url)
    check("for the people who operate" in b.text("body"), b.text("body"))
    check(all("401" in e for e in b.errors()), "the console has other errors than the refused requests")
    for look, width, height, dark, phone in LOOKS:
        b.look_like(width, height, dark, phone)
        weak = inspect(b, "weak_contrast")
        check(not weak and inspect(b, "overflow") <= 0, "login page:", weak)
        if shots:
            b.screenshot(f"{shots}/login-{look}-{'dark' if dark else 'light'}.png")
    b.look_like(1280, 900, False, False)
    link = c.command("page", "--front-port", str(c.port))
    b.open(link)
    b.wait("return document.getElementById('headline') && document.getElementById('headline').textContent.includes('finished')",
           "the page behind the link")
    check(b.url() == url, "the link stays in the address:", b.url())
    check(b.run("return document.cookie") == "", "scripts can read the cookie")
    saved = b.run("return fetch('/model.safetensors').then(a => a.arrayBuffer().then(x => [a.status, a.headers.get('content-disposition'), x.byteLength]))")
    check(saved[0] == 200 and "model.safetensors" in saved[1] and saved[2] > 784 * 10 * 4, "the model:", saved)
    b.open("about:blank")
    b.open(link)
    b.wait("const o = document.getElementById('outcome'); return o && !o.hidden && o.textContent.includes('used already')", "the sentence that the link was used already")
    b.errors()
    token = c.command("page", "--bearer")
    check(c.ask("/metrics", Authorization="Bearer " + token)[0] == 200, "a bearer token reads no metrics")
    check(c.ask("/model.safetensors", Authorization="Bearer " + token)[0] == 403, "a bearer token can download the model")
    b.open(url)
    b.wait("return document.getElementById('headline') && document.getElementById('headline').textContent.includes('finished')", "the page, still logged in")
    c.command("page", "--revoke")
    b.wait("return !document.getElementById('lost').hidden && document.getElementById('lost').innerText.includes('log in again')",
           "the sentence that the login has ended")
    check(c.ask("/metrics", Authorization="Bearer " + token)[0] == 401, "a revoked token still reads metrics")
    b.errors()
    print("ok    a real login", flush=True)


def log_in(b, c):
    b.open("about:blank")
    b.open(c.command("page", "--front-port", str(c.port)))
    b.wait("return document.getElementById('admit') && !document.getElementById('admit').hidden", "the page of an operator who may act")


def press(b, selector):
    b.wait("const e = document.querySelector(arguments[0]); return e && !e.disabled && !e.closest('fieldset:disabled')".replace("arguments[0]", json.dumps(selector)), selector)
    b.run("document.querySelector(arguments[0]).click()", selector)


def type_into(b, selector, text):
    b.run("const e = document.querySelector(arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event('input'))", selector, text)


def wait_outcome(b, words):
    b.wait(f"return [...document.querySelectorAll('dialog[open] .outcome')].some(e => e.textContent.includes({json.dumps(words)}))", words)


def open_task(b, number):
    press(b, f"[data-key=act-{number}]")
    b.wait("return document.getElementById('taskdialog').open", "the dialog of a task")


def close_dialog(b):
    b.press("Escape")
    b.wait("return !document.querySelector('dialog[open]')", "the dialog to close")


def wait_state(b, name, state):
    b.wait(f"return [...document.querySelectorAll('#tasks tr')].some(r => r.cells[0].innerText.startsWith({json.dumps(name)}) && r.cells[1].innerText.startsWith({json.dumps(state)}))",
           f"{name} to be {state}")


def audit(c, event):
    """Return the details of the audit log's rows of one event."""
    return [row["detail"] for row in json.loads(c.command("audit", "--json")) if row["event"] == event]


def look_at_dialog(b, name, shots):
    """Check an open dialog in each look: contrast, width, and that the keyboard stays in it."""
    for look, width, height, dark, phone in LOOKS:
        b.look_like(width, height, dark, phone)
        look_everywhere(b)
        names = b.run("return [...document.querySelectorAll('dialog[open] input, dialog[open] select, dialog[open] button')].map(e => "
                      "(e.labels && e.labels[0] ? e.labels[0].textContent : e.textContent).trim())")
        check(names and all(names), "a field without a name in", name, names)
        if shots:
            b.screenshot(f"{shots}/{name}-{look}-{'dark' if dark else 'light'}.png", whole=False)
    b.look_like(1280, 900, False, False)
    for _ in range(12):
        b.press("Tab")
        inside = b.run("const e = document.activeElement; return e === document.body || document.querySelector('dialog[open]').contains(e)")
        check(inside, "the keyboard leaves the dialog", name)


class Stranger(http.server.ThreadingHTTPServer):
    """A page of another port of the same host, over TLS: for a browser it is the same site, so the cookie is sent."""

    def __init__(self, directory):
        super().__init__(("127.0.0.1", 0), StrangersPage)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory + "/server.pem", directory + "/server.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class StrangersPage(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!DOCTYPE html><title>stranger</title>")

    def log_message(self, *_):
        pass


def check_forgery(b, c, number, wish):
    """Check that pages of other sites, and of other ports, can't make the operator's browser act."""
    stranger = Stranger(c.directory)
    try:
        for host in ("127.0.0.1", "localhost"):
            b.open(f"https://{host}:{stranger.server_address[1]}/")
            # the request is sent; its answer is kept from the stranger by Cross-Origin-Resource-Policy
            b.run("return fetch(arguments[0], {method: 'POST', mode: 'no-cors', credentials: 'include', body: arguments[1]}).then(a => a.type, e => String(e))",
                  f"https://localhost:{c.port}/v1/task", json.dumps({"task": number, "do": wish}))
    finally:
        stranger.shutdown()
        stranger.server_close()
    b.errors()
    check(any("reason=cross_site" in row and "session=" in row for row in audit(c, "refused")), "the forged request is not in the audit log:", audit(c, "refused"))
    states_now = [t["state"] for t in json.loads(c.command("tasks", "--json")) if t["id"] == number]
    check(states_now == ["running"], "a forged request has changed the task:", states_now)


def check_readers(b, c, number):
    """Check that who may only read finds no way to act, and is refused."""
    token = c.command("page", "--bearer")
    body = json.dumps({"task": number, "do": "pause"})
    for headers in ({}, {"Authorization": "Bearer " + token}, {"Cookie": "__Host-fed=" + token, "Fed-Act": "0" * 64, "Sec-Fetch-Site": "same-origin"}):
        status, _, answer = c.ask("/v1/task", "POST", body, **headers)
        check(status in (401, 403), "a reader acts:", status, answer)
    check(c.ask("/v1/task?task=1&do=pause")[0] in (401, 405), "a GET acts")


def act_on_tasks(b, c, first, second, shots):
    open_task(b, first)
    look_at_dialog(b, "act-task", shots)
    press(b, "#dopause")
    wait_outcome(b, "is paused")
    close_dialog(b)
    b.wait(f"return document.activeElement.dataset.key === 'act-{first}'", "the focus to be where it was")
    wait_state(b, "act on me", "paused")
    b.wait("return document.querySelector('#tasks').innerText.includes('it was paused by address=')", "by whom it was paused")
    open_task(b, first)
    press(b, "#doresume")
    wait_outcome(b, "is queued")
    close_dialog(b)
    wait_state(b, "act on me", "running")
    b.wait(f"return resumes[{first}] && resumes[{first}].attempt === 2 && resumes[{first}].at.length === 1", "when the task was resumed")
    check(not any("has failed" in words for _, words in alarms(b)), "a task that was paused and resumed has failed:", alarms(b))
    open_task(b, first)
    b.run("document.getElementById('priority').value = '8'")
    press(b, "#dopriority")
    wait_outcome(b, "has priority 8")
    close_dialog(b)
    open_task(b, second)
    check(b.run("return document.getElementById('docancel').disabled"), "a task can be cancelled without its name")
    type_into(b, "#cancelname", "<b>cancel m")
    check(b.run("return document.getElementById('docancel').disabled"), "a task can be cancelled with half its name")
    type_into(b, "#cancelname", "<b>cancel me")
    press(b, "#docancel")
    wait_outcome(b, "is cancelled")
    close_dialog(b)
    wait_state(b, "<b>cancel me", "cancelled")


def admit_after_a_lost_answer(b, c):
    """A press after a lost answer gets the token that was made; the next press gets another one."""
    press(b, "#admit")
    type_into(b, "#newname", "the mill")
    b.run("const real = window.fetch; window.fetch = async (...request) => { const answer = await real(...request); "
          "window.fetch = real; await answer.text(); throw new TypeError('the answer was cut'); }")
    press(b, "#dotoken")
    wait_outcome(b, "There was no answer")
    press(b, "#dotoken")
    wait_outcome(b, "A token was made")
    first = b.text("#newcommand").split()[-1]
    made = [detail for detail in audit(c, "token_made") if "the mill" in detail]
    check(len(made) == 1, f"one wish made {len(made)} tokens: {made}")
    press(b, "#dotoken")
    b.wait(f"return !document.getElementById('newcommand').textContent.includes({json.dumps(first)})", "another token")
    close_dialog(b)


def act_on_devices(b, c, shots):
    press(b, "#admit")
    type_into(b, "#newname", "the kiln")
    press(b, "#dotoken")
    wait_outcome(b, "A token was made")
    look_at_dialog(b, "act-token", shots)
    command = b.text("#newcommand")
    check(command.startswith(f"fedclientd --server https://localhost:{c.port} --ca ca.pem --state STATE --data DATA --token "), command)
    token = command.split()[-1]
    close_dialog(b)
    b.wait(f"return !document.documentElement.outerHTML.includes({json.dumps(token)})", "the token to leave the page")
    c.device("kiln", "--token", token, "--shard", "0/2")
    key = b.wait("const e = [...document.querySelectorAll('#devices button')].find(x => x.textContent === 'the kiln'); return e && e.dataset.key", "the new device", 60)
    press(b, f"[data-key={key}]")
    b.wait("return document.querySelector('.life') && document.querySelector('.life').textContent.includes('Enrolled, device=')", "the device's history")
    look_at_dialog(b, "act-device", shots)
    digits = b.run("return [...document.querySelectorAll('#devicedialog dd')][1].textContent").strip()[:8]
    type_into(b, "#revokedigits", digits)
    press(b, "#dorevoke")
    wait_outcome(b, "the kiln is revoked")
    close_dialog(b)
    b.wait("return [...document.querySelectorAll('#devices tr')].some(r => r.innerText.includes('the kiln') && r.innerText.includes('revoked'))", "the revoked device")
    return token


def test_real_acting(b, c, shots):
    """Check that an operator acts, that each act is in the audit log with who, and that nobody else acts."""
    b.look_like(1280, 900, False, False)
    for name in ("act on me", "<b>cancel me"):
        c.queue(name=name, rounds=4, cohort=2, minimum=2, deadline_s=600)
    first, second = sorted(t["id"] for t in json.loads(c.command("tasks", "--json")))[-2:]
    log_in(b, c)
    check(b.text("#whoacts") == "You are logged in, and may act.", b.text("#whoacts"))
    act_on_tasks(b, c, first, second, shots)
    token = act_on_devices(b, c, shots)
    for event in ("task_paused", "task_resumed", "task_prioritized", "task_cancelled", "token_made", "revoked"):
        rows = [r for r in audit(c, event) if "address=127.0.0.1 session=" in r]
        check(len(rows) == 1, "the audit log has no row or several of", event, audit(c, event))
    admit_after_a_lost_answer(b, c)
    check(token not in c.command("audit", "--json"), "the audit log has a token")
    check_forgery(b, c, first, "pause")
    check_readers(b, c, first)
    check(c.ask("/")[0] == 401, "the page is open")
    print("ok    acting", flush=True)


def test_real_reading(b, c, shots):
    """Check that `--page operators,read` lets nobody act, whatever the session."""
    log_in_only = c.command("page", "--front-port", str(c.port))
    b.open("about:blank")
    b.open(log_in_only)
    b.wait("return document.getElementById('whoacts') && document.getElementById('whoacts').textContent.includes('only shows')", "the sentence that the page only shows")
    b.wait("return document.querySelectorAll('#tasks tr').length > 0", "the tasks")
    check(b.run("return document.getElementById('admit').hidden && document.querySelectorAll('[data-key^=act-]').length === 0"), "a page that only shows has buttons to act")
    look_everywhere(b)
    if shots:
        b.screenshot(shots + "/reading.png")
    said = b.run("return fetch('/v1/token', {method: 'POST', body: '{\"role\": \"device\"}', headers: {'Fed-Act': '0'.repeat(64)}}).then(a => a.json()).then(x => x.error)")
    check(said == "reads_only", said)
    b.errors()
    print("ok    reading", flush=True)


def main():
    global INSPECT
    words = argparse.ArgumentParser()
    words.add_argument("source")
    words.add_argument("programs")
    words.add_argument("parts", nargs="*", default=["states", "history", "traffic", "lost", "run", "login", "act"],
                       help="states, history, traffic, lost, run, login, act (all)")
    words.add_argument("--shots", help="a directory for screenshots")
    words = words.parse_args()
    if None in webdriver.programs():
        print("skipped: chromium and chromedriver are not installed (Debian: apt-get install chromium-driver)")
        return 77
    here = os.path.dirname(os.path.abspath(__file__))
    INSPECT = open(here + "/inspect.js").read() + "\n"
    if words.shots:
        os.makedirs(words.shots, exist_ok=True)
    top = tempfile.mkdtemp(prefix="fedpage-run-")
    write_digits(top)
    browser = webdriver.Browser()
    coordinator = Coordinator(words.programs, top)
    try:
        fake = FakeCoordinator(words.source + "/fedserver/front/dashboard")
        if "states" in words.parts:
            test_states(browser, fake, words.shots)
        if "history" in words.parts:
            test_history(browser, fake, words.shots)
        if "traffic" in words.parts:
            test_traffic(browser, fake)
        if "lost" in words.parts:
            test_lost(browser, fake)
        if "run" in words.parts or "login" in words.parts:
            coordinator.start()
            test_real_run(browser, coordinator, words.shots)
            browser.open("about:blank")  # the page would report errors without its coordinator
            browser.errors()
            coordinator.stop()
        if "login" in words.parts:
            coordinator.start("--page", "operators")
            test_real_login(browser, coordinator, words.shots)
            browser.open("about:blank")
            coordinator.stop()
        if "act" in words.parts:
            coordinator.start("--page", "operators")
            test_real_acting(browser, coordinator, words.shots)
            browser.open("about:blank")
            coordinator.stop()
            coordinator.start("--page", "operators,read")
            test_real_reading(browser, coordinator, words.shots)
    finally:
        coordinator.close()
        browser.close()
        shutil.rmtree(top, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
