"""Teacher forcing and the cache: words shifted by one, and the counts."""

from xml.etree import ElementTree

import pytest

from unmasked_book.schematics.decoder import check_words, growing_cache, teacher_forcing
from unmasked_book.schematics.drawing import BLUE, GREEN, ORANGE

SOURCE, TARGET = ["ich", "hätte", "gern", "ein", "bier"], ["i'd", "like", "a", "beer"]
TOKENS = ["<bos>", *TARGET]


def shapes(drawing, kind, **attributes):
    found = ElementTree.fromstring(drawing.svg()).iter(f"{{http://www.w3.org/2000/svg}}{kind}")
    wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
    return [s for s in found if all(s.get(name) == value for name, value in wanted.items())]


def rows(drawing, kind):
    """The texts of one kind, by the height at which they stand: [(x, words), ...]."""
    found = {}
    for text in shapes(drawing, "text"):
        if text.get("class") == kind:
            found.setdefault(float(text.get("y")), []).append((float(text.get("x")), text.text))
    return [found[y] for y in sorted(found)]


def words(row):
    return [name for _, name in row]


@pytest.mark.parametrize("drawing", [teacher_forcing(SOURCE, TARGET), growing_cache(TOKENS)])
def test_it_is_well_formed_and_nothing_leaves_it(drawing):
    assert ElementTree.fromstring(drawing._repr_html_()).get("aria-label") == drawing.words
    for text in shapes(drawing, "text"):
        long = 6.4 * len(text.text)
        left = float(text.get("x"))
        if "start" not in text.get("class"):
            left -= long if "end" in text.get("class") else long / 2
        assert left >= 0
        assert left + long <= drawing.width
        assert 10 <= float(text.get("y")) <= drawing.height - 3
    for box in shapes(drawing, "rect"):
        assert float(box.get("x")) >= 0
        assert float(box.get("x")) + float(box.get("width")) <= drawing.width
        assert float(box.get("y")) + float(box.get("height")) <= drawing.height


# --- Teacher forcing --------------------------------------------------------------------------


def test_what_must_be_predicted_stands_above_what_is_given_shifted_by_one():
    found = rows(teacher_forcing(SOURCE, TARGET), "mono")
    (over,) = [row for row in found if words(row) == [*TARGET, "<eos>"]]
    (under,) = [row for row in found if words(row) == ["<bos>", *TARGET]]
    assert [x for x, _ in over] == [x for x, _ in under]
    assert words(over)[:-1] == words(under)[1:]


def test_the_memory_has_a_vector_for_each_source_word():
    found = [words(row) for row in rows(teacher_forcing(SOURCE, TARGET), "mono")]
    assert [row for row in found if row[0] in SOURCE] == [[name] for name in SOURCE]


def test_each_step_is_given_what_the_last_one_predicted():
    predicted, inputs = rows(teacher_forcing(SOURCE, TARGET), "mono")[-2:]
    assert words(predicted) == ["i'd", "like", "a"]
    assert words(inputs) == ["<bos>", "<bos>", "i'd", "<bos>", "i'd", "like"]
    assert [x for x, _ in predicted] == [inputs[i][0] for i in (0, 2, 5)]  # above the newest


def test_an_arrow_leads_from_each_prediction_to_the_next_input():
    drawing = teacher_forcing(SOURCE, TARGET)
    predicted, inputs = rows(drawing, "mono")[-2:]
    ways = [line.get("points").split() for line in shapes(drawing, "polyline", stroke=ORANGE)]
    *ways, onward = [[tuple(map(float, point.split(","))) for point in way] for way in ways]
    assert [way[0][0] for way in ways] == pytest.approx([x + 27 for x, _ in predicted[:2]])
    assert [way[-1][0] for way in ways] == pytest.approx([inputs[2][0], inputs[5][0]])
    assert len(onward) == 2
    assert "… until <eos>" in [text.text for text in shapes(drawing, "text")]


def test_words_of_the_data_are_green_and_its_own_are_orange():
    drawing = teacher_forcing(SOURCE, TARGET)
    assert len(shapes(drawing, "rect", fill=GREEN)) == 4 + 5
    assert len(shapes(drawing, "rect", fill=ORANGE)) == 3 + 3


def test_a_short_target_is_written_to_its_end():
    drawing = teacher_forcing(["ja"], ["yes"])
    predicted, inputs = rows(drawing, "mono")[-2:]
    assert (words(predicted), words(inputs)) == (["yes", "<eos>"], ["<bos>", "<bos>", "yes"])
    assert "… until <eos>" not in [text.text for text in shapes(drawing, "text")]
    assert "and so on" not in drawing.words


def test_forcing_in_words():
    said = teacher_forcing(SOURCE, TARGET).words
    assert "<bos> must predict i'd, i'd must predict like" in said
    assert "beer must predict <eos>" in said
    assert "from <bos> i'd like comes a and so on" in said


# --- The cache --------------------------------------------------------------------------------


def test_each_step_computes_one_position_and_keeps_the_others():
    drawing = growing_cache(TOKENS)
    assert [words(row) for row in rows(drawing, "mono")] == [TOKENS[:n] for n in range(1, 6)]
    assert len(shapes(drawing, "rect", fill=ORANGE, height="26")) == 5
    assert len(shapes(drawing, "rect", fill=BLUE, height="26")) == 0 + 1 + 2 + 3 + 4


@pytest.mark.parametrize("length", [1, 2, 5])
def test_counts_and_totals(length):
    drawing = growing_cache(TOKENS[:length])
    counts = [words(row) for row in rows(drawing, "") if words(row)[-1] == "1"]
    assert [[name for name in row if name != "q"] for row in counts] == [
        [str(n), "1"] for n in range(1, length + 1)
    ]
    total = length * (length + 1) // 2
    assert [str(total), str(length)] in [words(row) for row in rows(drawing, "title")]
    assert f"together {total}, which is T(T + 1)/2" in drawing.words
    assert f"together {length}, which is T." in drawing.words


def test_the_query_has_a_line_to_every_key():
    drawing = growing_cache(TOKENS)
    lines = [line.get("points").split() for line in shapes(drawing, "polyline", stroke=ORANGE)]
    starts = [start for start, _ in lines]
    assert [starts.count(start) for start in dict.fromkeys(starts)] == [1, 2, 3, 4, 5]
    ends = {end for _, end in lines}
    dots = {f"{c.get('cx')},{c.get('cy')}" for c in shapes(drawing, "circle", r="3")}
    assert ends == dots
    assert len(ends) == 15


def test_the_cache_in_words():
    said = growing_cache(TOKENS).words
    assert "step 1 computes <bos> and keeps nothing yet" in said
    assert "step 3 computes like and keeps <bos> i'd;" in said


# --- Errors -----------------------------------------------------------------------------------


def test_words_are_escaped():
    drawing = teacher_forcing(["<a>"], ["b&c"])
    assert "&lt;a&gt;" in drawing.svg()
    assert "b&amp;c" in drawing.svg()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a beer", "x: expected a list of 1 to 3 words, got 'a beer'; split a sentence"),
        ([], r"got \[\]"),
        (["a"] * 4, "a list of 1 to 3 words"),
        (["a", ""], "x: expected words of 1 to 5 letters, got ''"),
        (["Bierchen"], "got 'Bierchen'; longer ones would leave their box"),
    ],
)
def test_words_without_room_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        check_words("x", given, 3, 5)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: teacher_forcing("ich", TARGET), "source"),
        (lambda: teacher_forcing(SOURCE, "beer"), "target"),
        (lambda: growing_cache([*TOKENS, "please"]), "tokens"),
    ],
)
def test_the_argument_is_named(call, argument):
    with pytest.raises(ValueError, match=f"^{argument}: expected a list"):
        call()
