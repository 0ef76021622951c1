"""The Helm chart, rendered by helm and checked by the schemas of Kubernetes: helm.py ROOT BUILD

It checks, in this order:
  versions   the chart's version is the project's
  rendered   helm lint finds nothing; each document of each example is valid, strictly, for each release of Kubernetes that the chart names
  refused    wrong values are refused, with a message that names the key
  pods       one replica, no privileges ("restricted"), a read-only root file system, the same ports in pod and Service
  program    the rendered arguments start a real coordinator, and the rendered probe finds it healthy

Without helm or kubernetes-validate (deploy/setup.sh --image) it skips. ServiceMonitor is not a
part of Kubernetes and has no schema here, so the test only checks that it is rendered.
"""
# SPDX-License-Identifier: Apache-2.0
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

SECONDS = 60  # limit of a step in seconds
HOSTS = {"hosts": ["fed.example.org", "192.0.2.10"]}
HELPER = {"helper": {"upstream": "https://fed.example.org:8443", "secret": "theirs", "least": 30, "roster": True}}
EXAMPLES = {
    "least": HOSTS,
    "most": {**HOSTS, "image": {"repository": "registry.example/fed", "digest": "sha256:" + "0" * 64}, "imagePullSecrets": [{"name": "pull"}],
             "service": {"annotations": {"example.org/a": "b"}, "loadBalancerSourceRanges": ["192.0.2.0/24"]},
             "run": {"page": "all", "quiet": True, "log": "json", "requests": 1000000, "deviceDays": 0.5, "taskMemory": 4, "proxyProtocol": ["192.0.2.7", "2001:db8::7"]},
             "tasks": {"mnist": {"model": "lr", "rounds": 3, "cohort": 2, "app": {"text": "\"quoted\": {{ no template }}"}}},
             "persistence": {"storageClass": "fast", "size": "100Gi", "retain": False},
             "networkPolicy": {"front": [{"namespaceSelector": {}}], "devices": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]},
             "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
             "podAnnotations": {"a": "b"}, "podLabels": {"c": "d"}, "nodeSelector": {"disk": "ssd"},
             "tolerations": [{"key": "fed", "operator": "Exists"}]},
    "nodes": {**HOSTS, "service": {"type": "NodePort"}, "ports": {"front": 30843, "devices": 30844}},
    "inside": {**HOSTS, "service": {"type": "ClusterIP"}, "podDisruptionBudget": {"enabled": False}, "networkPolicy": {"enabled": False}},
    "helper": HELPER,
    "openshift": {**HOSTS, "podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}},
}
REFUSED = [  # wrong values, and words of the error message
    ({}, "hosts"), ({"hosts": []}, "hosts"), ({"hosts": ["https://fed.example.org"]}, "hosts"),
    ({**HOSTS, "replicas": 2}, "replicas"), ({**HOSTS, "ports": {"front": 443}}, "ports/front"),
    ({**HOSTS, "ports": {"front": 9000, "devices": 9000}}, "both 9000"),
    ({**HOSTS, "service": {"type": "NodePort"}}, "30000 to 32767"), ({**HOSTS, "service": {"type": "Ingress"}}, "service/type"),
    ({**HOSTS, "run": {"page": "nobody"}}, "run/page"), ({**HOSTS, "run": {"log": "xml"}}, "run/log"),
    ({**HOSTS, "run": {"taskMemory": 0}}, "run/taskMemory"), ({**HOSTS, "tasks": {"t": {"rounds": 1}}}, "model"),
    ({**HOSTS, "persistence": {"size": "large"}}, "persistence/size"), ({**HOSTS, "podSecurityContext": {"runAsUser": 0}}, "runAsUser"),
    ({**HOSTS, "image": {"digest": "0123"}}, "image/digest"), ({"helper": {"upstream": "fed.example.org"}}, "helper/upstream"),
    ({"helper": {**HELPER["helper"], "least": 1}}, "helper/least"), ({"helper": {"secret": "theirs"}}, "hosts")]
OURS = {"StatefulSet", "Service", "NetworkPolicy", "PodDisruptionBudget", "ConfigMap", "ServiceMonitor"}


def fail(text):
    sys.exit(f"helm.py: {text}")


class Chart:
    def __init__(self, root, helm, work):
        self.root, self.helm, self.work = root, helm, work
        self.folder = os.path.join(root, "deploy/helm/fed")
        self.yaml = importlib.import_module("yaml")
        self.validate = importlib.import_module("kubernetes_validate")

    def run(self, command, values):
        path = os.path.join(self.work, "values.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(values, file)
        words = {"lint": ["lint", "--strict"], "template": ["template", "fed", "-n", "ml"]}[command]
        places = {name: os.path.join(self.work, "helm") for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        return subprocess.run([self.helm, *words, self.folder, "-f", path], text=True, capture_output=True, timeout=SECONDS,
                              env={**os.environ, **places})

    def render(self, values):
        done = self.run("template", values)
        if done.returncode != 0:
            fail(f"helm template refuses {values}:\n{done.stderr}")
        return [document for document in self.yaml.safe_load_all(done.stdout) if document]

    def releases(self):
        """Return the releases of Kubernetes to check: the first that the chart supports, and the newest two with schemas."""
        with open(os.path.join(self.folder, "Chart.yaml"), encoding="utf-8") as file:
            least = int(re.search(r">=1\.(\d+)", self.yaml.safe_load(file)["kubeVersion"])[1])
        folder = os.path.join(os.path.dirname(self.validate.__file__), "kubernetes-json-schema")
        known = sorted({int(m[1]) for name in os.listdir(folder) if (m := re.match(r"v1\.(\d+)\.", name))})
        if least not in known:
            fail(f"kubernetes-validate has no schemas of Kubernetes 1.{least}, the first release that the chart supports")
        return [f"1.{n}" for n in sorted({least, *known[-2:]})]


def check_versions(chart):
    with open(os.path.join(chart.root, "CMakeLists.txt"), encoding="utf-8") as file:
        version = re.search(r"project\(fed VERSION (\S+)", file.read())[1]
    with open(os.path.join(chart.folder, "Chart.yaml"), encoding="utf-8") as file:
        said = chart.yaml.safe_load(file)
    if (said["version"], said["appVersion"]) != (version, version):
        fail(f"Chart.yaml has version {said['version']} and appVersion {said['appVersion']}, but the project's version is {version}")


def is_valid(chart, document, release):
    """Return what is wrong with the document; None: it is valid."""
    try:
        chart.validate.validate(document, release, strict=True)
    except chart.validate.ValidationError as fault:
        return fault.message
    return None


def check_rendered(chart):
    seen, checked, releases = set(), 0, chart.releases()
    if is_valid(chart, {"apiVersion": "v1", "kind": "Service", "spec": {"port": []}}, releases[0]) is None:
        fail("the schema lets a misspelt key pass")
    for name, values in EXAMPLES.items():
        lint = chart.run("lint", values)
        if lint.returncode != 0 or "[WARNING]" in lint.stdout + lint.stderr:
            fail(f"helm lint on {name}:\n{lint.stdout}{lint.stderr}")
        for document in chart.render(values):
            seen.add(document["kind"])
            for release in releases if document["kind"] != "ServiceMonitor" else []:
                if fault := is_valid(chart, document, release):
                    fail(f"{name}: {document['kind']} is not valid for Kubernetes {release}: {fault}")
                checked += 1
    if seen != OURS:
        fail(f"the examples render {sorted(seen)}, not {sorted(OURS)}")
    print(f"rendered: {len(EXAMPLES)} examples, {checked} documents valid for Kubernetes {', '.join(releases)}")


def check_refused(chart):
    for values, word in REFUSED:
        done = chart.run("template", values)
        if done.returncode == 0 or word not in done.stderr.replace(".", "/"):  # helm 3 writes a.b, helm 4 a/b
            fail(f"{values} is not refused with a message that names {word}:\n{done.stderr}")
    print(f"refused: {len(REFUSED)} wrong values, each with its key")


def of_kind(documents, kind):
    return next(d for d in documents if d["kind"] == kind)


def check_helper_pod(pod, documents):
    """Nobody connects to a helper's pod, and it takes the coordinator's certificate and its token from the Secret."""
    policy = of_kind(documents, "NetworkPolicy")["spec"]
    if policy["ingress"] or not policy["egress"] or "ports" in pod["containers"][0]:
        fail(f"the helper's pod may be reached, or reaches nobody: {policy}")
    words = pod["containers"][0]["args"]
    if words[0] != "helper" or "--least=30" not in words or "--roster=/helper/roster" not in words:
        fail(f"the helper's pod runs {words}")
    mounted = {m["name"]: m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
    if mounted["helper"] != "/helper" or pod["volumes"][0]["secret"]["secretName"] != "theirs":
        fail(f"the helper's pod does not mount its Secret at /helper: {mounted}, {pod['volumes']}")


def check_pods(chart):
    """Check what Kubernetes' policy "restricted" demands, and the ports and tasks."""
    for name, values in EXAMPLES.items():
        documents = chart.render(values)
        stateful = of_kind(documents, "StatefulSet")["spec"]
        pod = stateful["template"]["spec"]
        safe = pod["securityContext"]
        if stateful["replicas"] != 1 or not safe["runAsNonRoot"] or safe["seccompProfile"] != {"type": "RuntimeDefault"}:
            fail(f"{name}: the pod may run as root, or has several replicas: {safe}")
        if name == "openshift" and {"runAsUser", "fsGroup"} & set(safe):
            fail(f"{name}: the pod chooses its user: {safe}")
        for container in pod["containers"] + pod.get("initContainers", []):
            if container["securityContext"] != {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                "capabilities": {"drop": ["ALL"]}}:
                fail(f"{name}: a container has too many privileges: {container['securityContext']}")
        if name == "helper":
            check_helper_pod(pod, documents)
            continue
        named = {p["name"]: p["containerPort"] for p in pod["containers"][0]["ports"]}
        service = of_kind(documents, "Service")["spec"]
        if {p["name"]: p["port"] for p in service["ports"]} != named or {p["targetPort"] for p in service["ports"]} != set(named):
            fail(f"{name}: the Service has other ports than the pod: {service['ports']}")
        if service["type"] == "NodePort" and any(p["nodePort"] != p["port"] for p in service["ports"]):
            fail(f"{name}: devices would be told another port than the nodes have")
    task = EXAMPLES["most"]["tasks"]["mnist"]
    if json.loads(of_kind(chart.render(EXAMPLES["most"]), "ConfigMap")["data"]["mnist.json"]) != task:
        fail("the ConfigMap's task differs from the task in the values")
    print("pods: one, without privileges; ports and tasks as they should be")


def check_program(chart, build):
    """Run the rendered pod's commands on this machine, with another folder and other ports."""
    pod = of_kind(chart.render(EXAMPLES["least"]), "StatefulSet")["spec"]["template"]["spec"]
    folder = os.path.join(chart.work, "state")

    def here(words):
        words = [w.replace("/var/lib/fed", folder) for w in words]
        return [re.sub(r"^(--\w+-port=).*", r"\g<1>0", w).replace("--bind=0.0.0.0", "--bind=127.0.0.1") for w in words]

    program = os.path.join(build, "bin/fedserver")
    for _ in range(2):  # an init container runs at each start
        init = subprocess.run([program, *here(pod["initContainers"][0]["args"])], text=True, capture_output=True, timeout=SECONDS)
        if init.returncode != 0:
            fail(f"the init container ends with {init.returncode}: {init.stderr}")
    coordinator = pod["containers"][0]
    probe = coordinator["livenessProbe"]["exec"]["command"]
    ask = lambda: subprocess.run([program, *here(probe[1:])], text=True, capture_output=True, timeout=SECONDS)  # noqa: E731
    process = subprocess.Popen([program, *here(coordinator["args"])], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + SECONDS
        while (said := ask()).returncode != 0:
            if process.poll() is not None or time.monotonic() > end:
                fail(f"the coordinator of the pod is not healthy: {said.stderr}")
            time.sleep(0.1)
    finally:
        process.terminate()
        process.wait(SECONDS)
    if ask().returncode == 0:
        fail("the probe finds a coordinator that has ended")
    print("program: the pod's words start a coordinator, and its probe knows when it serves")


def check_helper_program(chart, build):
    """Run the rendered helper's words on this machine, with the certificate and the token of a coordinator that serves."""
    folder, theirs, secret = (os.path.join(chart.work, name) for name in ("coordinator", "theirs", "secret"))
    program = os.path.join(build, "bin/fedserver")
    say = lambda *words: subprocess.run([program, *words], text=True, capture_output=True, timeout=SECONDS, check=True).stdout  # noqa: E731
    say("init", "--dir", folder, "--host", "127.0.0.1")
    os.mkdir(secret)
    shutil.copy(os.path.join(folder, "ca.pem"), secret)
    for name, text in (("token", say("token", "--dir", folder, "--role", "helper")), ("roster", "")):
        with open(os.path.join(secret, name), "w", encoding="utf-8") as file:
            file.write(text)
    words = of_kind(chart.render(HELPER), "StatefulSet")["spec"]["template"]["spec"]["containers"][0]["args"]
    coordinator = subprocess.Popen([program, "run", "--dir", folder, "--bind", "127.0.0.1", "--front-port", "0", "--devices-port", "0"],
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    helper = None
    try:
        front = re.search(r"https://127\.0\.0\.1:\d+", coordinator.stdout.readline())[0]
        changed = [w.replace("/var/lib/fed", theirs).replace("/helper/", secret + "/").replace("https://fed.example.org:8443", front)
                   for w in words]
        helper = subprocess.Popen([program, *changed], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if not re.match(r"helper: 04[0-9a-f]{128}$", helper.stdout.readline()):
            fail(f"the helper of the pod does not start: {changed}")
    finally:
        for process in filter(None, (helper, coordinator)):
            process.terminate()
            process.wait(SECONDS)
    print("program: the helper's words start a helper, which enrols at a coordinator")


def main(root, build):
    tools = os.path.join(root, "build/tools")
    python = os.path.join(tools, "python/bin/python")
    if importlib.util.find_spec("kubernetes_validate") is None and os.path.exists(python) and sys.executable != python:
        os.execv(python, [python, "-B", *sys.argv])
    helm = shutil.which("helm") or shutil.which("helm", path=tools)
    if helm is None or importlib.util.find_spec("kubernetes_validate") is None:
        print("skipped: helm or kubernetes-validate is not installed; deploy/setup.sh --image installs them")
        return 77
    with tempfile.TemporaryDirectory() as work:
        chart = Chart(root, helm, work)
        check_versions(chart)
        check_rendered(chart)
        check_refused(chart)
        check_pods(chart)
        check_program(chart, build)
        check_helper_program(chart, build)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
