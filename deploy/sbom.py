#!/usr/bin/env python3
"""Write what programs are made of, as CycloneDX 1.6: our libraries, and the Debian packages whose files they load or compile in.

    sbom.py BUILD [PROGRAM...]      of programs in BUILD/bin (default: all that are installed), to the standard output

BUILD is a build folder of CMake with Ninja, on Debian. The same programs on the same packages give the same bytes: the time
is SOURCE_DATE_EPOCH (default: the commit's), and the serial number is derived from the content.
"""
# SPDX-License-Identifier: Apache-2.0
import datetime
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import urllib.parse
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ["fedserver", "fedclientd", "fedworker", "fednic", "fedsim", "fedtrain", "fedcodec"]
COMPILED_IN = {"libfedcommon": ["libxxhash-dev"]}  # packages of headers whose code becomes part of a library, which no linker's output shows
# Debian's short names of licences, where SPDX has others; names that both have are below.
SPDX = {"Expat": "MIT", "BSD-2-clause": "BSD-2-Clause", "BSD-3-clause": "BSD-3-Clause", "zlib": "Zlib", "OpenLDAP-2.8": "OLDAP-2.8"}
for family, versions in {"GPL": "123", "LGPL": ["2", "2.1", "3"], "GFDL": ["1.1", "1.2", "1.3"]}.items():
    for number in versions:
        full = f"{family}-{number if '.' in number else number + '.0'}"
        SPDX |= {f"{family}-{number}": f"{full}-only", f"{family}-{number}+": f"{full}-or-later"}
SAME_NAME = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "PostgreSQL", "Zlib", "curl", "PSF-2.0"}


def fail(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


def say(*words):
    return subprocess.run(words, text=True, stdout=subprocess.PIPE, check=True, env={**os.environ, "LC_ALL": "C"}).stdout


@functools.lru_cache(maxsize=None)
def source_date():
    """Return the time that is written into what is made here, in Unix seconds: SOURCE_DATE_EPOCH, or the commit's time, but no clock's."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    commit = subprocess.run(["git", "-C", HERE, "log", "-1", "--format=%ct"], text=True, capture_output=True)
    return int(commit.stdout) if commit.returncode == 0 and commit.stdout else 0


def moment():
    """Return source_date() as text."""
    return datetime.datetime.fromtimestamp(source_date(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- the files that programs load, and their packages --

@functools.lru_cache(maxsize=None)
def libraries(program):
    """Return {name: path} of the shared libraries that a program loads, the loader among them."""
    found = {}
    for line in say("ldd", program).splitlines():
        if match := re.match(r"\s*(?:(\S+) => )?(/\S+) \(", line):
            found[match[1] or os.path.basename(match[2])] = match[2]
        elif "not found" in line:
            fail(f"{program} needs a library that is not here: {line.strip()}")
    return found


@functools.lru_cache(maxsize=None)
def needed(path):
    """Return the names of the libraries that a file itself asks the loader for."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", say("readelf", "-d", path))


def owners(paths):
    """Return {path: the Debian package that it belongs to}. /lib is a link to /usr/lib, and a package may list a file by either name."""
    names = {}
    for path in paths:
        real = os.path.realpath(path)
        names |= dict.fromkeys([path, real, real.removeprefix("/usr"), "/usr" + path], path)
    asked = subprocess.run(["dpkg-query", "-S", *names], text=True, capture_output=True, env={**os.environ, "LC_ALL": "C"})
    found = {names[file]: name for name, file in re.findall(r"^([^:,\s]+)\S*?(?:, \S+)*: (/.*)$", asked.stdout, re.MULTILINE) if file in names}
    for path in paths:
        if path not in found:
            fail(f"{path} belongs to no Debian package, so nobody could say what it is. Build on a Debian system without it")
    return found


@functools.lru_cache(maxsize=None)
def architecture():
    return say("dpkg", "--print-architecture").strip()


@functools.lru_cache(maxsize=None)
def package(name):
    """Return the fields of an installed package, as dpkg knows them."""
    for full in (f"{name}:{architecture()}", name):
        asked = subprocess.run(["dpkg-query", "-s", full], text=True, capture_output=True)
        if asked.returncode == 0 and "Status: install ok installed" in asked.stdout:
            return dict(re.findall(r"^([A-Z][\w-]*): ?(.*)$", asked.stdout, re.MULTILINE)) | {"text": asked.stdout}
    return fail(f"the package {name} is not installed; deploy/setup.sh installs what a build needs")


def copyright_file(name):
    return f"/usr/share/doc/{name}/copyright"


def licences(name):
    """Return the licences that a package's copyright file declares for the files of its source."""
    with open(copyright_file(name), encoding="utf-8") as file:
        text = file.read()
    stanzas = re.split(r"\n\s*\n", text) if text.startswith("Format:") else []
    of_files = [s for s in stanzas if re.search(r"^Files: *(?!debian/)", s, re.MULTILINE)]
    names = sorted({m[1].strip() for s in of_files if (m := re.search(r"^License: *(.+)$", s, re.MULTILINE))})
    if not names:
        return [{"license": {"name": f"see {copyright_file(name)}"}}]
    ids = [(SPDX.get(n) or (n if n in SAME_NAME else None), n) for n in names]
    return [{"license": {"id": spdx} if spdx else {"name": n}} for spdx, n in ids]


# -- the document --

def release():
    """Return the fields of /etc/os-release, such as ID and VERSION_ID."""
    with open("/etc/os-release", encoding="utf-8") as file:
        return {k: v.strip('"') for k, v in re.findall(r"^(\w+)=(.*)$", file.read(), re.MULTILINE)}


def debian_component(name, files):
    fields, system = package(name), release()
    version = urllib.parse.quote(fields["Version"], safe="")
    where = f"?arch={fields['Architecture']}&distro={system['ID']}-{system.get('VERSION_ID', 'sid')}"
    component = {"type": "library", "bom-ref": f"deb:{name}", "publisher": fields["Maintainer"], "name": name,
                 "version": fields["Version"], "licenses": licences(name),
                 "purl": f"pkg:deb/{system['ID']}/{urllib.parse.quote(name, safe='')}@{version}{where}",
                 "properties": [{"name": "debian:source", "value": fields.get("Source", name).split(" ")[0]}]}
    if "Homepage" in fields:
        component["externalReferences"] = [{"type": "website", "url": fields["Homepage"]}]
    if files:
        component["evidence"] = {"occurrences": [{"location": path} for path in sorted(files)]}
    return component


def own_component(kind, name, version, path=None):
    component = {"type": kind, "bom-ref": f"fed:{name}", "name": name, "version": version,
                 "licenses": [{"license": {"id": "Apache-2.0"}}], "purl": f"pkg:generic/{name}@{version}"}
    if path:
        with open(path, "rb") as file:
            component["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(file.read()).hexdigest()}]
    return component


def own_libraries(build, program):
    """Return the names of our own libraries that the build links into a program."""
    with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
        rule = re.search(rf"^build bin/{program}:.*?^  LINK_LIBRARIES = (.*?)$", file.read(), re.MULTILINE | re.DOTALL)
    if rule is None:
        fail(f"{build}/build.ninja does not say how bin/{program} is linked; give a build folder of CMake with Ninja")
    return sorted(set(re.findall(r"(?:^|[ /])(libfed\w*)\.a", rule[1])))


def debian_parts(paths):
    """For the libraries that the programs load, return {package: its files} and {file: packages that the file itself needs}."""
    names = {path: libraries(path) for path in paths}
    loaded = sorted({where for found in names.values() for where in found.values()})
    package_of = owners(loaded)
    where = {name: place for found in names.values() for name, place in found.items()}
    files, arrows = {}, {}
    for place in loaded:
        files.setdefault(package_of[place], []).append(place)
    for place in [*paths, *loaded]:
        arrows[place] = {package_of[where[name]] for name in needed(place) if name in where}
    return files, arrows


def parts_of(build, paths):
    """Return {reference: component} and {reference: references that it depends on}."""
    components, arrows = {}, {}
    files, asks = debian_parts(paths)
    for path in paths:
        name = os.path.basename(path)
        version, commit = re.match(r"\S+ (\S+) \((\S+)\)", say(path, "--version")).groups()
        components[f"fed:{name}"] = own_component("application", name, version, path)
        components[f"fed:{name}"]["properties"] = [{"name": "fed:commit", "value": commit}]
        own = own_libraries(build, name)
        arrows[f"fed:{name}"] = {f"fed:{library}" for library in own} | {f"deb:{other}" for other in asks[path]}
        for library in own:
            components[f"fed:{library}"] = own_component("library", library, version)
            arrows[f"fed:{library}"] = {f"deb:{header}" for header in COMPILED_IN.get(library, [])}
    headers = {name for found in arrows.values() for name in found if name.endswith("-dev")}
    for name in [*files, *(header.removeprefix("deb:") for header in headers)]:
        places = files.get(name, [])
        components[f"deb:{name}"] = debian_component(name, places)
        arrows[f"deb:{name}"] = {f"deb:{other}" for place in places for other in asks[place]} - {f"deb:{name}"}
    return components, arrows


def document(build, paths, subject="fed", kind="application"):
    """Return the bill of materials of programs, as a dictionary. subject and kind are name and type of what they are together."""
    components, arrows = parts_of(build, paths)
    programs = [f"fed:{os.path.basename(path)}" for path in paths]
    version = components[programs[0]]["version"]
    whole = own_component(kind, subject, version) | {"bom-ref": "whole"}
    arrows["whole"] = set(programs)
    made = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
            "metadata": {"timestamp": moment(), "component": whole},
            "components": [components[reference] for reference in sorted(components)],
            "dependencies": [{"ref": reference, "dependsOn": sorted(arrows.get(reference, []))}
                             for reference in sorted(["whole", *components])]}
    name = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, name)}"} | made


def text_of(made):
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def main(build, names):
    there = [os.path.join(build, "bin", name) for name in names or PROGRAMS]
    paths = [path for path in there if names or os.path.exists(path)]  # a build may lack some
    if not paths or not all(map(os.path.exists, paths)):
        fail(f"{' '.join(names) or 'a program'} is not in {build}/bin; build it first")
    sys.stdout.write(text_of(document(build, paths)))


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
