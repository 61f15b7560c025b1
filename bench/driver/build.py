# SPDX-License-Identifier: Apache-2.0
"""Find or build the programs of bench/."""
import pathlib
import subprocess
import sys

from .errors import BenchError

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PRESET = "release"


def find_program(build_dir, name):
    for folder in ("bench", "tools/hearth", "."):
        path = build_dir / folder / name
        if path.is_file():
            return path
    return None


def build_release(name):
    """Configure and build one program; the tools' output goes to stderr. Whether it worked."""
    commands = (["cmake", "--preset", PRESET],
                ["cmake", "--build", "--preset", PRESET, "--target", name])
    for command in commands:
        print("bench:", " ".join(command), file=sys.stderr)
        try:
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
        except OSError as error:
            print(f"bench: {error}", file=sys.stderr)
            return False
        if done.returncode != 0:
            print(done.stdout, file=sys.stderr)
            return False
    return True


def peer_programs(target, names, build_dir=None):
    """
    {name: path} of those programs `target`_<name> that the build had the libraries for; the
    target builds them all.
    """
    if build_dir is None:
        folder = ROOT / "build" / PRESET
        if not build_release(target):
            print(f"bench: WARNING: the build failed, measuring what is in {folder}",
                  file=sys.stderr)
    else:
        folder = pathlib.Path(build_dir)
    found = {name: find_program(folder, f"{target}_{name}") for name in names}
    return {name: path for name, path in found.items() if path is not None}


def program(name, build_dir=None, target=None):
    """
    The path of a program, from build_dir if given, else from a fresh or older release build.
    `target` where it is not called like the program.
    """
    if build_dir is not None:
        path = find_program(pathlib.Path(build_dir), name)
        if path is None:
            raise BenchError(f"no {name} in {build_dir}: build it there first")
        return path
    fresh = build_release(target or name)
    path = find_program(ROOT / "build" / PRESET, name)
    if path is None:
        raise BenchError(f"{name} could not be built, and there is no older build of it")
    if not fresh:
        print(f"bench: WARNING: the build failed, measuring the older {path}", file=sys.stderr)
    return path
