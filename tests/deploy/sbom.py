"""The bill of materials: complete, the same each time, and valid CycloneDX: sbom.py ROOT BUILD

This test finds linked libraries in another way than deploy/sbom.py does: by the loader's trace, LD_DEBUG. Without Debian's
dpkg it skips. Without cyclonedx-python-lib (deploy/setup.sh --image) it does not check the schema, and says so.
"""
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile


def fail(text):
    sys.exit(f"sbom.py: {text}")


def make(root, build, *programs, **environment):
    return subprocess.run([sys.executable, "-B", os.path.join(root, "deploy/sbom.py"), build, *programs], check=True, text=True,
                          stdout=subprocess.PIPE, env={**os.environ, **environment}).stdout


def loaded(program):
    """Return the shared libraries that the loader opens, from its trace."""
    said = subprocess.run([program, "--version"], text=True, capture_output=True, env={**os.environ, "LD_DEBUG": "files"}).stderr
    found = {os.path.realpath(path) for path in re.findall(r"calling init: (/\S+)", said)}
    return found or fail(f"LD_DEBUG=files lists no library of {program}")


def check_complete(bill, program):
    listed = {os.path.realpath(o["location"]) for c in bill["components"] for o in c.get("evidence", {}).get("occurrences", [])}
    if missing := loaded(program) - listed:
        fail(f"{program} loads what the bill does not list: {sorted(missing)}")
    names = {c["name"] for c in bill["components"]}
    if not {"fedserver", "libfedserver", "libfedcommon", "libfedcodecs", "libxxhash-dev"} <= names:
        fail(f"our own libraries, or what is compiled into them, are missing: {sorted(names)}")
    references = [bill["metadata"]["component"]["bom-ref"]] + [c["bom-ref"] for c in bill["components"]]
    if len(set(references)) != len(references):
        fail("two components have the same reference")
    arrows = {d["ref"]: d["dependsOn"] for d in bill["dependencies"]}
    reached, work = set(), references[:1]
    while work:
        at = work.pop()
        if at not in reached:
            reached.add(at)
            work += arrows[at]
    if reached != set(references):
        fail(f"nothing depends on {sorted(set(references) - reached)}")
    for component in bill["components"]:
        if not component["version"] or not component["licenses"] or not component["purl"].startswith("pkg:"):
            fail(f"{component['name']} lacks its version, licence or address")
    print(f"complete: {len(references) - 1} components, each needed by another; {len(listed)} files")


def check_again(root, build, text):
    if make(root, build, "fedserver", TZ="Asia/Tokyo", LC_ALL="C.UTF-8") != text:
        fail("the bill differs when it is made a second time")
    other = json.loads(make(root, build, "fedserver", SOURCE_DATE_EPOCH="1000000000"))
    if other["metadata"]["timestamp"] != "2001-09-09T01:46:40Z" or other["serialNumber"] == json.loads(text)["serialNumber"]:
        fail("the bill's time is not SOURCE_DATE_EPOCH, or two bills have the same serial number")
    print("again: the same bytes")


def check_schema(path):
    """Validate the bill by CycloneDX's strict schema, if the Python library that has the schema is installed."""
    try:
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
        with open(path, encoding="utf-8") as file:
            fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read())
    except ImportError:
        print("left out: the schema; deploy/setup.sh --image installs it")
        return
    if fault:
        fail(f"{path} is not CycloneDX 1.6: {fault}")
    print("schema: valid CycloneDX 1.6, strictly")


def main(root, build):
    python = os.path.join(root, "build/tools/python/bin/python")
    if importlib.util.find_spec("cyclonedx") is None and os.path.exists(python) and sys.executable != python:
        os.execv(python, [python, "-B", *sys.argv])
    if not shutil.which("dpkg-query"):
        print("skipped: this is not a Debian system")
        return 77
    text = make(root, build, "fedserver")
    check_complete(json.loads(text), os.path.join(build, "bin/fedserver"))
    check_again(root, build, text)
    with tempfile.TemporaryDirectory() as work:
        for name, words in (("one.json", ["fedserver"]), ("all.json", [])):
            with open(os.path.join(work, name), "w", encoding="utf-8") as file:
                file.write(make(root, build, *words))
            check_schema(os.path.join(work, name))
    unknown = subprocess.run([sys.executable, "-B", os.path.join(root, "deploy/sbom.py"), build, "nonesuch"], text=True, capture_output=True)
    if unknown.returncode == 0 or "nonesuch" not in unknown.stderr:
        fail("deploy/sbom.py accepts a program that does not exist, or does not name it in its error")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
