"""A plugin of pytest: a constant of one module of diagnose is another number, and so is all that is reckoned from it.

The variable DIAGNOSE_MOVED says which, in four lines: the module, its file, the name and the number.
"""

import ast
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType

VARIABLE = "DIAGNOSE_MOVED"
MODULE, FILE, NAME, NUMBER = os.environ[VARIABLE].splitlines()


class Loader(SourceFileLoader):
    """Compiles the module with the number in the place of the constant's value; no bytecode of it is read or kept."""

    def get_code(self, fullname: str) -> CodeType:
        """The module's code."""
        tree = ast.parse(self.get_data(self.path))
        for node in tree.body:
            if isinstance(node, ast.Assign) and NAME in (getattr(target, "id", "") for target in node.targets):
                node.value = ast.copy_location(ast.Constant(ast.literal_eval(NUMBER)), node.value)
        return compile(tree, self.path, "exec", dont_inherit=True)


class Finder:
    """Finds that module before all other finders do."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module with the loader above; other modules are found as ever."""
        return spec_from_file_location(name, FILE, loader=Loader(name, FILE)) if name == MODULE else None


sys.meta_path.insert(0, Finder())
