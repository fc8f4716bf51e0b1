#!/bin/sh
# Makes the virtual environment $1 with the pinned packages of $2, and installs this checkout into it.
# Takes the first interpreter of 3.11 or later: $PYTHON, then the names below.
set -eu
venv=$1 requirements=$2

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

python=
for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
    if new_enough "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "sot-hub needs Python 3.11 or later, and none is on PATH; name one with: make PYTHON=/path/to/python3" >&2
    exit 1
fi
# Debian and Ubuntu keep the part of venv that brings pip in a package of its own; root may have it installed.
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null || true
fi
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    echo "$python cannot make virtual environments; on Debian or Ubuntu: apt-get install python3-venv" >&2
    exit 1
fi
[ -x "$venv/bin/python" ] && new_enough "$venv/bin/python" || "$python" -m venv --clear "$venv"
pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check"
$pip -r requirements/build.txt -r "$requirements"
$pip --no-build-isolation --no-deps --editable .
