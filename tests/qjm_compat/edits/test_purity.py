"""The codec has no input, output, clock or chance of its own, and needs nothing but the standard library."""

from __future__ import annotations

import sys

from tests.test_architecture import IMPURE_MODULES, ROOT, imports

FOLDER = ROOT / "qjm_compat" / "edits"


def test_no_module_of_the_codec_does_input_or_output_or_needs_another_package() -> None:
    for path in sorted(FOLDER.rglob("*.py")):
        for name in imports(path):
            root = name.split(".")[0]
            assert root not in IMPURE_MODULES, f"{path} imports {name}"
            assert root in sys.stdlib_module_names or name.startswith("qjm_compat.edits"), f"{path}: {name}"
