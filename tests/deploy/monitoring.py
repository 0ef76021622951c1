#!/usr/bin/env python3
"""The alert rules, by promtool's own tests; and every query of the Grafana dashboard, put to a
Prometheus that has scraped a short run: each must return data. Usage: monitoring.py SOURCE BIN.
Exits with 77 where Prometheus is missing (Debian: apt install prometheus)."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

SOURCE, BIN = sys.argv[1], sys.argv[2]
MONITORING = os.path.join(SOURCE, "deploy", "monitoring")
EXTRA = os.environ.get("FED_PROMETHEUS", "")  # folder of prometheus and promtool, if they are not in PATH


def program(name):
    return shutil.which(name, path=EXTRA + os.pathsep + os.environ["PATH"])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def check_rules():
    for what, name in ("check", "alerts.yml"), ("test", "alerts_test.yml"):
        subprocess.run([program("promtool"), what, "rules", name], cwd=MONITORING, check=True)
    for alert in re.findall(r"alert: (\w+)", open(os.path.join(MONITORING, "alerts.yml")).read()):
        page = open(os.path.join(SOURCE, "docs", "monitoring.md")).read()
        assert f"`{alert}`" in page, f"docs/monitoring.md does not name the alert {alert}"


def write_samples(path):
    with open(path, "w") as table:
        table.write("x,y,label\n")
        for k in range(120):
            table.write(f"{k % 7},{k % 11},{k % 2}\n")


class Run:
    """A coordinator, two devices and an evaluator, with a task of many short rounds."""

    def __init__(self, directory):
        self.dir = os.path.join(directory, "coordinator")
        self.children = []
        self.command("init")
        server = self.spawn("fedserver", "run", "--dir", self.dir, "--front-port", "0",
                            "--devices-port", "0", stdout=subprocess.PIPE, text=True)
        line = server.stdout.readline()
        self.front = re.match(r"front https://127.0.0.1:(\d+)/", line).group(1)
        task = os.path.join(directory, "task.json")
        with open(task, "w") as file:
            json.dump({"model": "input 2 | dense 2", "codec_up": "float32",
                       "rounds": 100000, "cohort": 2, "goal": 2, "deadline_s": 10}, file)
        self.command("task", task)
        data = os.path.join(directory, "data")
        os.mkdir(data)
        write_samples(os.path.join(data, "train.csv"))
        write_samples(os.path.join(data, "test.csv"))
        for k, role in enumerate(("device", "device", "evaluator")):
            token = self.command("token", "--role", role).strip()
            secret = os.path.join(directory, f"token-{k}")
            with open(secret, "w") as file:
                file.write(token + "\n")
            self.spawn("fedclientd", "--server", f"https://127.0.0.1:{self.front}", "--ca",
                       os.path.join(self.dir, "ca.pem"), "--state",
                       os.path.join(directory, f"device-{k}"), "--data", data, "--dataset", "csv",
                       "--token-file", secret, *(["--evaluate"] if role == "evaluator" else []))

    def command(self, name, *words):
        done = subprocess.run([os.path.join(BIN, "fedserver"), name, "--dir", self.dir, *words],
                              check=True, capture_output=True, text=True)
        return done.stdout

    def spawn(self, name, *words, **options):
        path = name if os.path.isabs(name) else os.path.join(BIN, name)
        child = subprocess.Popen([path, *words], **options)
        self.children.append(child)
        return child

    def stop(self):
        for child in reversed(self.children):
            child.send_signal(signal.SIGTERM)
        for child in self.children:
            child.wait(timeout=30)


def scrape(run, directory):
    """Start a Prometheus with the sample configuration, sped up; returns its address."""
    with open(os.path.join(MONITORING, "prometheus.yml")) as file:
        text = file.read()
    for old, new in (("15s", "1s"), ("localhost:8443", f"localhost:{run.front}"),
                     ("ca_file: ca.pem", f"ca_file: {run.dir}/ca.pem"),
                     ("- alerts.yml", f"- {MONITORING}/alerts.yml")):
        assert old in text, old
        text = text.replace(old, new)
    config = os.path.join(directory, "prometheus.yml")
    with open(config, "w") as file:
        file.write(text)
    port = free_port()
    run.spawn(program("prometheus"), f"--config.file={config}", "--log.level=error",
              f"--storage.tsdb.path={directory}/tsdb", f"--web.listen-address=127.0.0.1:{port}")
    return f"http://127.0.0.1:{port}"


def ask(address, query):
    url = f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]["result"]


def queries():
    with open(os.path.join(MONITORING, "grafana.json")) as file:
        panels = json.load(file)["panels"]
    found = [(p["title"], t["expr"]) for p in panels for t in p.get("targets", [])]
    assert len(found) >= 10, "the dashboard has hardly any queries"
    return [(title, expr.replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$task", ".*"))
            for title, expr in found]


def check_dashboard(address):
    missing, end = queries(), time.monotonic() + 120
    while missing and time.monotonic() < end:
        time.sleep(1)
        try:
            missing = [(title, q) for title, q in missing if not ask(address, q)]
        except OSError:
            pass  # Prometheus is still starting
    assert not missing, f"no data for: {missing}"


def main():
    if program("promtool") is None or program("prometheus") is None:
        print("skipped: prometheus and promtool are not installed (apt install prometheus)")
        return 77
    check_rules()
    with tempfile.TemporaryDirectory() as directory:
        run = Run(directory)
        try:
            check_dashboard(scrape(run, directory))
        finally:
            run.stop()
    print(f"{len(queries())} queries return data")
    return 0


sys.exit(main())
