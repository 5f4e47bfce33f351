"""Models by number and by label."""

from __future__ import annotations

from exporters.mount.models import MOST_LABELS, MOST_MODELS, OTHER, Models


def test_a_model_keeps_its_number():
    """The same name is the same model, another digest another one."""
    models = Models()

    assert [models.number("a"), models.number("b"), models.number("a")] == [1, 2, 1]
    assert models.number("a", "0123456789ab") == 3


def test_models_are_bounded():
    """A directory full of invented models fills the last number."""
    models = Models()
    numbers = [models.number(f"m{i}") for i in range(MOST_MODELS + 10)]

    assert numbers[-1] == 0
    assert max(numbers) == MOST_MODELS
    assert models.number("m0") == 1


def test_labels_go_to_the_weightiest_and_are_kept():
    """A series that began goes on, whoever grows beyond it; the rest is `other`."""
    models = Models()
    for i in range(MOST_LABELS + 5):
        models.number(f"m{i}")
    models.give_labels(lambda number: number)
    first = list(models.labels())

    models.give_labels(lambda number: -number)

    assert list(models.labels()) == first
    assert first[:6] == [OTHER] * 6
    assert first[6:] == [f"m{i}" for i in range(5, MOST_LABELS + 5)]


def test_a_full_name_reaches_every_rank_of_its_configuration():
    """Whether the document was read before or after the first file."""
    models = Models()
    before = models.number("org_m", "aaaaaaaaaaaa")
    models.spell_out("aaaaaaaaaaaa", "org/m")
    models.spell_out("bbbbbbbbbbbb", "org/n")

    after = models.number("org_n", "bbbbbbbbbbbb")

    assert (models.names[before], models.names[after]) == ("org/m", "org/n")


def test_models_come_back_as_they_were():
    """The next process reads numbers that this one wrote."""
    models = Models()
    models.number("a")
    models.number("org_m", "aaaaaaaaaaaa")
    models.spell_out("aaaaaaaaaaaa", "org/m")

    again = Models(models.known_models())

    assert again.names == models.names
    assert again.number("org_m", "aaaaaaaaaaaa") == 2
