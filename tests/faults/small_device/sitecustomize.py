"""Makes a device of little memory of every process that finds this first: language models get the
allocator's error.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder

NETWORK = "transformers.models.gpt2.modeling_gpt2"
ROOM = 14
"""Tokens of a row that fit: those of the test rows of a network, and two sentences of the small
study with what they share, but not all sentences.
"""


class SmallDevice(PathFinder):
    """Finds the network's module and puts a bound on its input."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None) -> ModuleSpec | None:
        if fullname != NETWORK:
            return None
        spec = super().find_spec(fullname, path, target)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            bound(module)

        spec.loader.exec_module = exec_module
        return spec


def bound(module):
    """Let the module's network fail on more tokens than there is room for."""
    forward = module.GPT2Model.forward

    def bounded(self, input_ids=None, **given):
        if input_ids is not None and input_ids.shape[1] > ROOM:
            raise module.torch.OutOfMemoryError(
                f"simulated: {input_ids.shape[1]} tokens, room for {ROOM}"
            )
        return forward(self, input_ids, **given)

    module.GPT2Model.forward = bounded


sys.meta_path.insert(0, SmallDevice)
