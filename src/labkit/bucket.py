"""A bucket of objects in a folder, so that replicas in other processes see one truth."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, unquote

from labkit.errors import LabError


class Bucket:
    """Objects as files in one flat folder, each named by its percent-encoded key.

    A key is a name and never a path: `/`, `..` and everything else that means something to a file system is encoded,
    so no key and no prefix reaches outside the folder. Links, folders and files under other names are no objects.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        """Use `folder`, which is made if need be; without one, a temporary folder that goes with the bucket."""
        if folder is None:
            folder = tempfile.mkdtemp(prefix="labkit-bucket-")
            weakref.finalize(self, _remove, folder, os.getpid())
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def name(self) -> str:
        """What the bucket is called where others have theirs: the full path of its folder."""
        return str(self.folder.resolve())

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that start with `prefix`, sorted."""
        keys = (_key(path) for path in self.folder.iterdir())
        return sorted(key for key in keys if key is not None and key.startswith(prefix))

    def put(self, key: str, data: bytes = b"") -> None:
        """Store `data` under `key`, replacing what was there.

        Raises:
            LabError: the key is empty, or longer than a file name may be.
        """
        path = self._path(key)
        if path is None:
            raise LabError(f"{key[:40]!r} cannot be a key here: use 1 to 255 characters, counted as percent-encoded.")
        # Replaced as a whole: writing to what is there would follow a link, and show others half an object.
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".", delete=False) as fresh:
            fresh.write(data)
        os.replace(fresh.name, path)

    def delete(self, key: str) -> bool:
        """Delete the object under `key`; return whether there was one.

        Raises:
            OSError: it is there and the operating system will not delete it.
        """
        path = self._path(key)
        if path is None or _key(path) is None:
            return False
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        return True

    def reset(self, keys: Iterable[str]) -> None:
        """Delete every object, then store an empty one under each of `keys`."""
        for key in self.keys():
            self.delete(key)
        for key in keys:
            self.put(key)

    def _path(self, key: str) -> Path | None:
        name = _name(key)
        return self.folder / name if 0 < len(name) <= 255 else None


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # and not in a forked child that ends
        shutil.rmtree(folder, ignore_errors=True)


def _name(key: str) -> str:
    name = quote(key, safe="", errors="surrogatepass")
    return f"%2E{name[1:]}" if name.startswith(".") else name  # "." and ".." are folders everywhere


def _key(path: Path) -> str | None:
    """The key of the object in the file `path`, or None when that is no object."""
    try:
        key = unquote(path.name, errors="surrogatepass")
    except UnicodeError:
        return None
    return key if _name(key) == path.name and path.is_file() and not path.is_symlink() else None
