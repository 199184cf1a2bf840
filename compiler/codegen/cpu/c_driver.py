"""Generates a C program that runs one compiled kernel on arrays in files."""

from __future__ import annotations

import re

from .c_header import array_names, size_macros
from .memory import ALIGNMENT
from .module import Module

_DRIVER = """\
/* Runs @NAME@ on raw arrays: one file for each of @ORDER@; those that it writes are written back. */
#include <stdio.h>
#include <stdlib.h>
#include "@HEADER@.h"

static const size_t sizes[] = {@SIZES@};
static const int written[] = {@WRITTEN@};
static unsigned char workspace[@UPPER@_WORKSPACE_BYTES + 1] __attribute__((aligned(@ALIGNMENT@)));
static unsigned char scratch[@UPPER@_SCRATCH_BYTES + 1] __attribute__((aligned(@ALIGNMENT@)));

static void transfer(const char *path, int out, void *data, size_t bytes)
{
    FILE *file = fopen(path, out ? "wb" : "rb");
    size_t done = !file ? 0 : out ? fwrite(data, 1, bytes, file) : fread(data, 1, bytes, file);
    if (!file || done != bytes || fclose(file)) {
        fprintf(stderr, "error: %s: %zu of %zu bytes were %s\\n", path, done, bytes, out ? "written" : "read");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    void *buffers[@COUNT@];
    if (argc != @COUNT@ + 1) {
        fprintf(stderr, "usage: %s @ORDER@\\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < @COUNT@; i++)
        transfer(argv[i + 1], 0, buffers[i] = malloc(sizes[i]), sizes[i]);
    @NAME@(buffers, workspace, scratch, NULL, NULL);
    for (int i = 0; i < @COUNT@; i++)
        if (written[i])
            transfer(argv[i + 1], 1, buffers[i], sizes[i]);
    return 0;
}
"""


def driver_text(header: str, module: Module) -> str:
    """A C program that runs the kernel of `module` once, on one thread, on arrays in files. The kernel is declared in
    `header`.h. The program's arguments are the paths of raw files, one for each parameter of the kernel, in order. The
    program reads all files, runs the kernel, and stores the kernel's outputs in their files.
    """
    values = {
        "NAME": module.function,
        "UPPER": module.function.upper(),
        "HEADER": header,
        "ORDER": " ".join(array_names(module)),
        "SIZES": ", ".join(size_macros(module)),
        "WRITTEN": ", ".join([str(int(p.name in module.outputs)) for p in module.parameters]),
        "COUNT": str(len(module.parameters)),
        "ALIGNMENT": str(ALIGNMENT),
    }
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], _DRIVER)
