import torch

from unmasked.attention import KeyValueCache, MultiHeadAttention


def test_appending_piece_by_piece_keeps_everything_in_order():
    keys, values = torch.randn(2, 3, 50, 4), torch.randn(2, 3, 50, 4)
    cache, start = KeyValueCache(capacity=3), 0
    for length in (1, 2, 1, 7, 20, 19):
        piece = slice(start, start + length)
        k, v = cache.append(keys[:, :, piece], values[:, :, piece])
        start += length
        assert torch.equal(k, keys[:, :, :start])
        assert torch.equal(v, values[:, :, :start])
    assert cache.length == 50


def test_room_is_made_ahead_and_reused():
    cache = KeyValueCache(capacity=8)
    piece = torch.randn(1, 1, 1, 4)
    first, _ = cache.append(piece, piece)
    for _ in range(7):
        last, _ = cache.append(piece, piece)
    assert first.data_ptr() == last.data_ptr()
    grown, _ = cache.append(piece, piece)
    assert grown.data_ptr() != first.data_ptr()


def test_rows_can_be_dropped():
    keys = torch.randn(3, 1, 2, 4)
    cache = KeyValueCache(capacity=4)
    cache.append(keys, keys)
    cache.select(torch.tensor([True, False, True]))
    assert torch.equal(cache.read()[0], keys[[0, 2]])
    k, _ = cache.append(keys[[0, 2]], keys[[0, 2]])
    assert torch.equal(k, keys[[0, 2]].repeat(1, 1, 2, 1))


def test_an_empty_cache_has_no_rows_to_drop():
    cache = KeyValueCache()
    cache.select(torch.tensor([0]))
    assert cache.length == 0


def test_a_fixed_cache_projects_the_memory_once(monkeypatch):
    module, memory = MultiHeadAttention(8, 2), torch.randn(1, 5, 8)
    cache, calls = KeyValueCache(fixed=True), []
    project = module.keys_and_values
    monkeypatch.setattr(module, "keys_and_values", lambda *a: (calls.append(1), project(*a))[1])
    x = torch.randn(1, 1, 8)
    for _ in range(3):
        assert torch.equal(module(x, key=memory, cache=cache), module(x, key=memory))
    assert len(calls) == 1 + 3  # once for the cache, three times without


def test_gradients_flow_through_what_is_remembered():
    keys = torch.randn(1, 2, 6, 4, dtype=torch.float64, requires_grad=True)
    cache = KeyValueCache(capacity=2)
    total = 0
    for time in range(6):
        k, v = cache.append(keys[:, :, time : time + 1], 2 * keys[:, :, time : time + 1])
        total = total + (k * v).sum()
    total.backward()
    times = torch.arange(6, 0, -1).double()[:, None]  # the first is part of six sums
    assert torch.allclose(keys.grad, 4 * keys.detach() * times)


def test_what_began_with_gradients_goes_on_without_them():
    keys = torch.randn(1, 1, 3, 4, requires_grad=True)
    cache = KeyValueCache(capacity=8)
    cache.append(keys, keys)
    with torch.no_grad():
        k, _ = cache.append(keys[:, :, :1], keys[:, :, :1])
    assert torch.equal(k, torch.cat([keys, keys[:, :, :1]], dim=2))
