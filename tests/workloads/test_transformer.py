import pytest
import torch

from workloads.errors import WrongUse
from workloads.samples import Sentences, batches, collate
from workloads.transformer import Shape, Transformer

SHAPE = Shape(layers=3, width=16, heads=2, vocabulary=11, sequence=8)


def test_parts_make_up_the_whole():
    whole = Transformer(SHAPE, seed=1)
    parts = [Transformer(SHAPE, 1, [0], last=False), Transformer(SHAPE, 1, [1, 2], first=False)]
    held = {name: parameter for part in parts for name, parameter in part.named_parameters()}
    assert held.keys() == dict(whole.named_parameters()).keys()
    tokens = torch.arange(8).unsqueeze(0)
    torch.testing.assert_close(parts[1](parts[0](tokens)), whole(tokens))


def test_recomputing_changes_nothing():
    tokens = torch.arange(8).unsqueeze(0)
    gradients = []
    for recompute in (False, True):
        model = Transformer(SHAPE, seed=1, recompute=recompute)
        model(tokens).sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(*gradients)


def test_sizes_that_do_not_divide_are_named():
    with pytest.raises(WrongUse, match="--width 10 does not divide by --heads 3"):
        Shape(layers=1, width=10, heads=3, vocabulary=11, sequence=8)


def test_shards_read_together_what_one_process_reads():
    dataset = Sentences(vocabulary=11, length=8, seed=0)
    alone = batches(dataset, batch=4, shards=1, shard=0, collate=collate)
    apart = [batches(dataset, batch=2, shards=2, shard=shard, collate=collate) for shard in (0, 1)]
    for _ in range(3):
        whole, parts = next(alone), [next(part) for part in apart]
        assert torch.equal(whole.inputs, torch.cat([part.inputs for part in parts]))
        assert torch.equal(whole.targets, torch.cat([part.targets for part in parts]))


def test_targets_are_the_next_tokens():
    batch = next(batches(Sentences(11, 8, 0), 2, 1, 0, collate))
    assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
