"""What a function of a library does, by the folder and the name: a sample of the stack is counted by it."""

from types import CodeType

import pytest

from diagnose.probes.pipeline.work_words import _of_code


def code(path: str, name: str) -> CodeType:
    return compile(f"def {name}(): pass", path, "exec").co_consts[0]


@pytest.mark.parametrize(
    ("path", "name", "word"),
    [
        ("site/transformers/tokenization_utils_fast.py", "_batch_encode_plus", "tokenise"),
        ("site/transformers/tokenization_utils_base.py", "__call__", "tokenise"),
        ("site/transformers/tokenization_utils_base.py", "pad", "pad"),
        ("site/transformers/tokenization_utils_base.py", "as_tensor", "pad"),
        ("site/transformers/data/data_collator.py", "torch_call", "collate"),
        ("site/PIL/ImageFile.py", "load", "decode"),
        ("site/PIL/Image.py", "resize", "transform"),
        ("lib/json/decoder.py", "decode", "parse JSON"),
        ("train.py", "tokenise", "tokenise"),
        ("train.py", "main", ""),
    ],
)
def test_a_function_is_told_by_its_folder_and_name(path: str, name: str, word: str) -> None:
    assert _of_code(code(path, name)) == word
