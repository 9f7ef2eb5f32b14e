"""Tests training on words to spell."""

from unmasked.loss import translation_loss
from unmasked.training.fit import fit
from unmasked_book import examples


def test_training_lowers_the_loss_and_ends_in_evaluation_mode():
    def train():
        model = examples.speller(seed=5, d_model=16, n_heads=2, d_ff=16)
        batches = examples.spelling_batches(30, size=16, longest=4)
        return model, fit(model, translation_loss, batches)

    (model, losses), (_, again) = train(), train()  # with the same seed
    assert len(losses) == 30
    assert sum(losses[-5:]) < sum(losses[:5])
    assert not model.training
    assert again == losses
