import pytest

from nec_tf.runtime import processor


@pytest.mark.parametrize(
    ("flags", "fast"),
    [("fpu avx512f avx512_bf16", True), ("fpu amx_bf16", True), ("fpu avx2 avx512f", False)],
)
def test_bfloat16_is_fast_where_the_processor_has_instructions_for_it(
    flags, fast, tmp_path, monkeypatch
):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\nbogomips\t: 4000\n")
    monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "cpuinfo")
    assert processor.has_fast_bfloat16.__wrapped__() is fast


def test_bfloat16_is_not_chosen_where_the_system_does_not_say(tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "missing")
    assert not processor.has_fast_bfloat16.__wrapped__()
