"""What is read from MKL's log: the time in products, between two marks."""

import pytest

from mkl_log import ENGINES, SEARCHES, of_log
from unmasked_book.records import recorded

LOG = """\
MKL_VERBOSE SGEMM(T,N,9,9,9,0x7f,0x55,9,0x55,9,0x7f,0x55,9) 5.00s CNR:OFF Dyn:0 FastMM:1
the search begins
MKL_VERBOSE SGEMM(T,N,256,32,256,0x7f,0x55,256,0x55,256,0x7f,0x55,256) 500.00us CNR:OFF Dyn:0
MKL_VERBOSE SGEMM_COMPUTE(P,N,768,32,256,0x56,256,0x7f,256,0x7f,0x7f,768) 1.50ms CNR:OFF
MKL_VERBOSE SGEMM_BATCH(T,N,24,24,64,0x7f,1) 250ns CNR:OFF
MKL_VERBOSE SGEMM_PACK(A,T,768,32,256,0x7f,256) 2.00ms CNR:OFF
MKL_VERBOSE SAXPBY(196608,0x7f,0x7f,1,0x7f,0x7f,1) 31.34us CNR:OFF Dyn:1 FastMM:1
the search ends
MKL_VERBOSE SGEMM(T,N,9,9,9,0x7f,0x55,9,0x55,9,0x7f,0x55,9) 5.00s CNR:OFF Dyn:0 FastMM:1
"""


def test_products_between_the_marks_are_added_up():
    found = of_log(LOG)
    assert found["products"] == pytest.approx(0.00200025)
    assert found["packing"] == pytest.approx(0.002)
    assert found["calls"] == 3


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (LOG.replace("the search ends", ""), "did not end"),
        ("the search begins\nthe search ends\n", "by Intel"),
    ],
)
def test_a_log_without_a_search_or_products_is_refused(log, said):
    with pytest.raises(SystemExit, match=said):
        of_log(log)


def test_what_is_recorded_names_both_engines_for_each_search():
    searches = recorded("c-products")["searches"]
    named = [(each["search"], each["engine"]) for each in searches]
    assert named == [(name, engine) for name in SEARCHES for engine in ENGINES]
    assert all(each["products"] > 0 for each in searches)
