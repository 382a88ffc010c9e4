"""Stan programs."""

from __future__ import annotations

import os
import subprocess
from typing import Any, Union

from ._errors import InputError, error_of_exit
from ._progress import Shown
from ._run import Run, fit_model, program


class stan:
    """A Stan program, compiled: wvgd.stan("schools.stan").fit(data, seed=1). It needs the program wvgd and a Stan
    toolchain (docs/stan.md); compiled programs are cached.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"], **options: Any) -> None:
        self.path = os.fspath(path)
        if not os.path.exists(self.path):
            raise InputError(f"stan: there is no file {self.path}")
        words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        command = [program("stan"), "stan-compile", "--quiet", *words, self.path]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            said = done.stderr.strip() or f"{command[0]} stan-compile ended with {done.returncode}"
            raise error_of_exit(done.returncode, said)
        self.model = os.path.abspath(done.stdout.strip())  # the shared object

    def fit(self, data: Any = None, *, progress: Shown = None, **options: Any) -> Run:
        """Fits it to data: a dict, or a JSON file. Options are those of wvgd.fit."""
        return fit_model(self.model, data, progress, **options)

    def __repr__(self) -> str:
        return f"wvgd.stan({self.path!r})"
