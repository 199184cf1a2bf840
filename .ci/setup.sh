#!/usr/bin/env bash
# The system packages that the tests call and a bare Debian or Ubuntu lacks (.ci/system_tools), installed by apt where
# this user may: root, or sudo without a password. Elsewhere one line names the kinds of tests that will not run.
# Always exits 0: what is missing is then reported by the tests themselves.
# $1: the Python that will make .venv, where there is none yet.
set -u
cd "$(dirname "$0")/.."
python=${1:-}

missing_packages() {
    local commands package kinds command
    while read -r commands package kinds; do
        [[ -z $commands || $commands == \#* ]] && continue
        for command in ${commands//,/ }; do
            if [[ $command == /* && -e $command ]]; then continue; fi # The loop has replaced the pattern of a file.
            if ! command -v "$command" >/dev/null; then
                echo "$package"
                break
            fi
        done
    done <.ci/system_tools
    if [[ $python == python3 && ! -e .venv/.made ]]; then
        command -v python3 >/dev/null || echo python3
        python3 -c 'import ensurepip' 2>/dev/null || echo python3-venv
    fi
}

install() {
    local as_root=()
    command -v apt-get >/dev/null || return 1
    if (($(id -u) != 0)); then
        as_root=(sudo -n)
        sudo -n true 2>/dev/null || return 1
    fi
    echo "installing $*"
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}

mapfile -t missing < <(missing_packages)
((${#missing[@]})) || exit 0
install "${missing[@]}" || true
mapfile -t missing < <(missing_packages)
((${#missing[@]})) || exit 0
# Tests that need two packages are named once, with both.
declare -A lacking=()
order=()
while read -r commands package kinds; do
    [[ " ${missing[*]} " == *" $package "* && $commands != \#* ]] || continue
    [[ -v lacking[$kinds] ]] || order+=("$kinds")
    lacking[$kinds]+="${lacking[$kinds]:+, }$package"
done <.ci/system_tools
text=
for kinds in "${order[@]}"; do
    text+="$kinds (${lacking[$kinds]}); "
done
echo "NOT RUN: ${text}as root: apt-get install ${missing[*]}"
