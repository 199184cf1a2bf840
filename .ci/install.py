"""Installs requirements into the environment of the Python that runs this: `python .ci/install.py -e ".[dev]"`.

uv installs them in a quarter of pip's time; if uv cannot be installed or fails, pip does. uv ignores pip's settings, so
the settings that name package indexes, constraints and certificates are passed to uv as environment variables.
"""

import ast
import os
import subprocess
import sys

SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_EXTRA_INDEX_URL",
    "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT",
    "cert": "SSL_CERT_FILE",
}
"""For each setting of pip, the environment variable with the same meaning for uv."""
PIP = [sys.executable, "-m", "pip"]
# Without bytecode of every module of every package: Python compiles the few that are imported, half a minute less.
PIP_INSTALL = [*PIP, "install", "--quiet", "--disable-pip-version-check", "--no-compile"]


def settings() -> dict[str, str]:
    """Environment variables that give uv the values of pip's settings. They also make uv use all indexes as pip does;
    by default uv prefers the first index.
    """
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    lines = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False).stdout
    # Lines like global.index-url='...'; pip's environment variables, ":env:", go before its files.
    for line in sorted(lines.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        if (variable := SETTINGS.get(name.rpartition(".")[2])) is not None:
            found[variable] = str(ast.literal_eval(value))
    return found


def by_uv(requirements: list[str]) -> bool:
    """Installs by uv; returns whether that succeeded."""
    if subprocess.run([*PIP_INSTALL, "uv"], capture_output=True, check=False).returncode:
        return False
    # Without its cache of unpacked packages, which would hold three gigabytes and take twice the time.
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--no-cache",
        "--python",
        sys.executable,
    ]
    done = subprocess.run(
        [*command, *requirements], env=settings() | dict(os.environ), capture_output=True, check=False
    )
    return done.returncode == 0


if __name__ == "__main__":
    if not by_uv(sys.argv[1:]):
        sys.exit(subprocess.run([*PIP_INSTALL, *sys.argv[1:]], check=False).returncode)
