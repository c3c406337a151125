import pandas as pd
import pytest

pytest.importorskip("streamlit", reason="the extra 'app' is not installed")

from app import parts, shell


def test_a_formula_in_a_name_stays_text_in_a_spreadsheet():
    rows = pd.DataFrame({"name": ["=cmd|' /C calc'!A0", "@x", "plain"], "ns": [-1, 2, 3]})
    assert parts.csv(rows).splitlines() == ["name,ns", "'=cmd|' /C calc'!A0,-1", "'@x,2", "plain,3"]


@pytest.mark.parametrize(("name", "safe"), [
    ("../../etc/passwd", "0003_passwd"), ("rank 0.json", "0003_rank_0.json"), ("..", "0003_file.json"),
    ("<b>.json", "0003__b_.json"), (".hidden", "0003_hidden"),
])  # fmt: skip
def test_uploaded_files_cannot_lead_elsewhere(name, safe):
    assert shell._safe_name(name, 3) == safe
