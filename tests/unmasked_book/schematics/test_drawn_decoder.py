"""Teacher forcing and the cache: words shifted by one, and the counts."""

import pytest

from helpers.drawings import lines, numbers, shapes, texts
from unmasked_book.schematics.decoder import check_words, growing_cache, teacher_forcing
from unmasked_book.schematics.drawing import BLUE, GREEN, ORANGE

SOURCE, TARGET = ["ich", "hätte", "gern", "ein", "bier"], ["i'd", "like", "a", "beer"]
TOKENS = ["<bos>", *TARGET]


def rows(drawing, kind="mono"):
    """The texts of one kind, by the height at which they stand: [(x, words), ...]."""
    found = {}
    for text in shapes(drawing, "text", **{"class": kind}):
        x, y = numbers(text, "x", "y")
        found.setdefault(y, []).append((x, text.text))
    return [found[y] for y in sorted(found)]


def words(row):
    return [name for _, name in row]


# --- Teacher forcing --------------------------------------------------------------------------


def test_what_must_be_predicted_stands_above_what_is_given_shifted_by_one():
    drawing = teacher_forcing(SOURCE, TARGET)
    found = rows(drawing)
    [over] = [row for row in found if words(row) == [*TARGET, "<eos>"]]
    [under] = [row for row in found if words(row) == ["<bos>", *TARGET]]
    assert [x for x, _ in over] == [x for x, _ in under]
    assert [words(row) for row in found if words(row)[0] in SOURCE] == [[name] for name in SOURCE]
    assert len(shapes(drawing, "rect", fill=GREEN)) == 4 + 5  # words of the data
    assert len(shapes(drawing, "rect", fill=ORANGE)) == 3 + 3  # and its own
    assert "<bos> must predict i'd, i'd must predict like" in drawing.words
    assert "beer must predict <eos>" in drawing.words


def test_each_step_is_given_what_the_last_one_predicted():
    drawing = teacher_forcing(SOURCE, TARGET)
    predicted, inputs = rows(drawing)[-2:]
    assert words(predicted) == ["i'd", "like", "a"]
    assert words(inputs) == ["<bos>", "<bos>", "i'd", "<bos>", "i'd", "like"]
    assert [x for x, _ in predicted] == [inputs[i][0] for i in (0, 2, 5)]  # above the newest
    assert len(lines(drawing, stroke=ORANGE)) == 3  # from each to the next input, and onward
    assert "… until <eos>" in texts(drawing)
    assert "from <bos> i'd like comes a and so on" in drawing.words


def test_a_short_target_is_written_to_its_end():
    drawing = teacher_forcing(["ja"], ["yes"])
    predicted, inputs = rows(drawing)[-2:]
    assert (words(predicted), words(inputs)) == (["yes", "<eos>"], ["<bos>", "<bos>", "yes"])
    assert "… until <eos>" not in texts(drawing)
    assert "and so on" not in drawing.words


# --- The cache --------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 5])
def test_each_step_computes_one_position_and_keeps_the_others(length):
    drawing, total = growing_cache(TOKENS[:length]), length * (length + 1) // 2
    assert [words(row) for row in rows(drawing)] == [TOKENS[:n] for n in range(1, length + 1)]
    assert len(shapes(drawing, "rect", fill=ORANGE, height="26")) == length
    assert len(shapes(drawing, "rect", fill=BLUE, height="26")) == total - length
    counts = [words(row) for row in rows(drawing, "") if words(row)[-1] == "1"]
    assert [[name for name in row if name != "q"] for row in counts] == [
        [str(n), "1"] for n in range(1, length + 1)
    ]
    assert [str(total), str(length)] in [words(row) for row in rows(drawing, "title")]
    assert f"together {total}, which is T(T + 1)/2" in drawing.words
    assert f"together {length}, which is T." in drawing.words
    assert "step 1 computes <bos> and keeps nothing yet" in drawing.words
    assert ("step 3 computes like and keeps <bos> i'd;" in drawing.words) == (length > 2)
    ways = lines(drawing, stroke=ORANGE)  # from each query to every key
    starts = [start for start, _ in ways]
    assert [starts.count(start) for start in dict.fromkeys(starts)] == [*range(1, length + 1)]
    dots = {numbers(dot, "cx", "cy") for dot in shapes(drawing, "circle", r="3")}
    assert {end for _, end in ways} == dots
    assert len(dots) == total


# --- Errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a beer", "1 to 3 words, got 'a beer'"),
        ([], r"got \[\]"),
        (["a"] * 4, "1 to 3 words"),
        (["a", ""], "1 to 5 letters, got ''"),
        (["Bierchen"], "got 'Bierchen'"),
    ],
)
def test_words_without_room_are_refused(given, message):
    with pytest.raises(ValueError, match=f"x: .*{message}"):
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
