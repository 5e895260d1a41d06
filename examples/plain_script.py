"""A plain script that can be killed at any time: copy a folder, file by file, and check every copy.

There is no DAG file and no runner here. The script names what it works on, a `TaskScope`, and asks the store for it. Call
it again after a crash and it goes on with the first file that has no entry yet.

Run it with ``python examples/plain_script.py SOURCE TARGET``.
"""

import argparse
import hashlib
import shutil
from datetime import timedelta
from pathlib import Path

import milepost


def copy(source: Path, target: Path) -> str:
    """Copy a file so that it appears as a whole, and return the checksum of the copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    shutil.copyfile(source, part)
    digest = hashlib.sha256(part.read_bytes()).hexdigest()
    if digest != hashlib.sha256(source.read_bytes()).hexdigest():
        raise OSError(f"{source} changed while it was copied")
    part.replace(target)
    return digest


def main() -> None:
    """Copy what is not copied yet."""
    parser = argparse.ArgumentParser(description="Copy a folder; call again to go on.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    files = sorted(path for path in arguments.source.rglob("*") if path.is_file())

    scope = milepost.TaskScope("backup", run_id=str(arguments.target.resolve()), task_id="copy")
    with milepost.connect() as store:
        state = store.task_store(scope)
        done = set(state.keys("copied/"))
        print(f"{len(files)} files, {len(done)} copied before")
        for path in files:
            name = path.relative_to(arguments.source).as_posix()
            if f"copied/{name}" not in done:
                digest = copy(path, arguments.target / name)
                state.set(f"copied/{name}", digest, retention=timedelta(days=7))
        print(f"{len(state.keys('copied/'))} copied")


if __name__ == "__main__":
    main()
