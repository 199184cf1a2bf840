"""A headless browser for tests of report pages: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patience import LONG
from playwright.sync_api import Browser, Page, sync_playwright

COMMAND = "chromium-headless-shell"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def browser() -> Iterator[Browser]:
    program = shutil.which(COMMAND)
    assert program is not None, f"{COMMAND} is not installed"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield found
        finally:
            found.close()


@contextmanager
def opened(found: Browser, path: Path, *, scheme: str = "light", width: int = 1280) -> Iterator[Page]:
    """A context that yields the page of the file `path`, loaded and painted in the browser `found` without network,
    with the color scheme "light" or "dark" and `width` pixels wide. Asserts at its end that the page printed nothing to
    the console and requested nothing from a network.
    """
    context = found.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        offline=True,
    )
    said: list[str] = []
    page = context.new_page()
    page.set_default_timeout(1000 * LONG)
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on(
        "request",
        lambda one: None if one.url.startswith(("file:", "data:", "blob:")) else said.append(one.url),
    )
    page.goto(path.as_uri())
    page.wait_for_function("document.documentElement.dataset.usable")
    yield page
    context.close()
    assert not said, said
