"""A wheel that holds libraries (wvgd/lib) is of one platform, but of any Python: py3-none-linux_x86_64, say."""

from pathlib import Path

from setuptools import setup
from setuptools.dist import Distribution

HAS_LIBRARIES = any(Path(__file__).resolve().parent.glob("wvgd/lib/*.so*"))
commands = {}
if HAS_LIBRARIES:
    from wheel.bdist_wheel import bdist_wheel

    class PlatformWheel(bdist_wheel):
        def get_tag(self):
            return "py3", "none", super().get_tag()[2]

    commands["bdist_wheel"] = PlatformWheel


class WithLibraries(Distribution):
    def has_ext_modules(self):
        return HAS_LIBRARIES


setup(distclass=WithLibraries, cmdclass=commands)
