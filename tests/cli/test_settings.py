import pytest

from tracekit.cli.settings import Settings, settings
from tracekit.errors import WrongUse


def written(folder, text):
    (folder / "pyproject.toml").write_text(text)
    return settings(folder)


def test_none(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert settings(tmp_path) == Settings()


def test_all_of_them_also_from_a_folder_below(tmp_path):
    text = '[tool.tracekit]\nbudgets = ["step:5%"]\nbaseline = "h"\nunsure = "fail"\nallow = "versions"\nnoise = "1%"\n'
    held = written(tmp_path, text)
    assert held == Settings(("step:5%",), (str(tmp_path / "h"),), "fail", ("versions",), "1%")
    (tmp_path / "below").mkdir()
    assert settings(tmp_path / "below") == held


@pytest.mark.parametrize("text", [
    "[tool.tracekit]\nbudget = []", "[tool.tracekit]\nbudgets = 5", "[tool.tracekit]\nbudgets = [5]",
    "[tool.tracekit]\nunsure = true", "[tool.tracekit",
])  # fmt: skip
def test_wrong_ones_are_told(tmp_path, text):
    with pytest.raises(WrongUse, match=r"pyproject\.toml"):
        written(tmp_path, text)
