"""A made-up tree for the selftests of the lints."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import tempfile


@contextlib.contextmanager
def tree(files):
    """Make a folder with these files: with planted.tree({path: text}) as root. A file whose text is None is left out."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            if text is not None:
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
        yield root
