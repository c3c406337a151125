import pytest

from tracekit.export.trace_event import us


@pytest.mark.parametrize(
    ("time_ns", "told"), [(0, "0.000"), (1, "0.001"), (1_234_567, "1234.567"), (-1, "-0.001"), (-1_500, "-1.500")]
)
def test_microseconds_with_all_decimals(time_ns, told):
    assert us(time_ns) == told
