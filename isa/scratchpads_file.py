"""The file format of scratchpads at launch: an .npz archive with the bytes of each memory (`vdla.isa.scratchpads`)."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.errors import ProgramError
from vdla.isa.scratchpads import Contents, typed_scratchpads
from vdla.util.npz import NpzError, open_npz
from vdla.util.user_files import FileError, read_whole


def scratchpads_bytes(contents: Contents) -> bytes:
    """The bytes of an .npz file with `contents`: for each memory a uint8 array of its bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **contents)
    return buffer.getvalue()


def read_scratchpads(path: Path, config: Config) -> dict[str, NDArray[np.uint8]]:
    """Reads scratchpad contents for `config` from the file at `path`: a uint8 array of bytes for each memory in the
    file. All other memories are zero at launch.

    Raises FileError, which names the file, if the file cannot be read or is no .npz archive of uint8 arrays, if a
    memory is not one of `config` or has another size, and if a scale is not finite.
    """
    data = read_whole(path, "scratchpads")
    try:
        with open_npz(data) as archive:
            typed_scratchpads(config, archive.headers)
            contents = {name: archive.read(name) for name in archive.headers}
        arrays = typed_scratchpads(config, contents)
    except ProgramError as error:
        raise FileError(f"{path}: {error}") from None
    except (NpzError, ValueError, MemoryError):
        raise FileError(
            f"{path}: the file is not an .npz archive of uint8 arrays, one for each memory; `vdla cosim` writes such "
            "files"
        ) from None
    scales = arrays["par"][:, 1].view(np.float32)
    bad = np.argwhere(~np.isfinite(scales))
    if bad.size:
        entry, lane = bad[0]
        raise FileError(
            f"{path}: array 'par': the scale of entry {entry}, lane {lane} is {scales[entry, lane]}; give finite scales"
        )
    return contents
