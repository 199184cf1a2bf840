"""Creates and checks folders for machine code: no other user may write to them or replace them."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from pathlib import Path

_PRIVATE = 0o700
_MOST_LINKS = 40
"""Largest number of symbolic links that are followed in one path, as on Linux."""


def make_own_folder(folder: Path) -> None:
    """Creates a folder and missing parents for this user only, then calls `check_own_folder`. Raises OSError."""
    for place in (*reversed(folder.absolute().parents), folder):
        try:
            # mkdir(parents=True) would give the parents the permissions of the umask.
            place.mkdir(_PRIVATE)
        except FileExistsError:
            continue
        except OSError:
            if not place.is_dir():  # on a read-only disk a folder that exists is no error
                raise
    check_own_folder(folder)


def check_own_folder(folder: Path) -> None:
    """Raises OSError, whose `strerror` gives the reason, if another user could have written files in `folder`.

    The folder must belong to this user, be no symbolic link, and not be writable for others. All its parents, also
    those of the targets of links, must belong to this user or root, and must either not be writable for others or, like
    /tmp, let users remove only their own files.
    """
    last = _check_way(folder)
    found = last.lstat()
    if folder.is_symlink():
        raise _refused(folder, "is a link")
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if found.st_uid != os.geteuid():
        raise _refused(folder, f"belongs to {_user(found.st_uid)}")
    if _others_write(found):
        raise _refused(folder, _open_to_others(last, found))


def check_own_file(descriptor: int, path: Path) -> None:
    """Raises OSError naming `path` unless the open `descriptor` is a regular file that only this user may write."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise _refused(path, "is not a file")
    if found.st_uid != os.geteuid():
        raise _refused(path, f"belongs to {_user(found.st_uid)}")
    if _others_write(found):
        raise _refused(path, _open_to_others(path, found))


def _check_way(folder: Path) -> Path:
    """Checks that no other user can replace `folder`. Each folder above it must belong to this user or root, and must
    not let other users remove entries that belong to this user. Returns the path without links. Raises OSError.
    """
    place = Path("/")
    links = 0
    left = list(reversed(folder.absolute().parts[1:]))
    while left:
        _check_above(place)
        name = left.pop()
        if name == "..":
            place = place.parent
            continue
        found = (place / name).lstat()
        if not stat.S_ISLNK(found.st_mode):
            place /= name
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
        _check_owner(place / name, found)
        target = Path(os.readlink(place / name))
        if target.is_absolute():
            place = Path("/")
        left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return place


def _check_above(place: Path) -> None:
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
    _check_owner(place, found)
    if _others_write(found) and not found.st_mode & stat.S_ISVTX:
        raise _refused(place, _open_to_others(place, found))


def _check_owner(place: Path, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise _refused(place, f"belongs to {_user(found.st_uid)}")


def _others_write(found: os.stat_result) -> bool:
    """Whether the mode `found` lets a user other than the owner and root write. Counts the permissions for others, and
    for a group that is not private (`_is_private`).
    """
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_private(found.st_gid)


def _is_private(gid: int) -> bool:
    """Whether `gid` is this user's private group: the primary group, with the user's name and no other members."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _open_to_others(path: Path, found: os.stat_result) -> str:
    return f"lets other users write (mode {stat.S_IMODE(found.st_mode):o}); `chmod go-w {path}` forbids it"


def _refused(path: Path, why: str) -> OSError:
    return OSError(errno.EPERM, f"{path} {why}", str(path))
