import json
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest

from nabla_mlir.base.errors import TreeError
from nabla_mlir.runtime.named import VectorizedArray
from nabla_mlir.runtime.treespec import LEAF, TreeSpec, spec_of

Point = namedtuple("Point", "x y")
TREES = [1, None, (), (1,), [1, (2, None)], {"b": 1, "a": [2, 3]}, Point(1, {"k": 2}), {}, {1: 2, 0: [3]}]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_round_trip(tree):
    spec = spec_of(tree)
    again = TreeSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again == spec
    leaves = spec.flatten(tree)
    assert len(leaves) == spec.num_leaves == len(spec.paths())
    assert spec.unflatten(leaves) == tree


def test_json_is_small():
    spec = spec_of({"b": 1, "w": (2, [None])})
    assert spec.to_json() == {"dict": [["b", "*"], ["w", {"tuple": ["*", {"list": [None]}]}]]}


def test_paths():
    spec = spec_of({"w": (1, Point(2, 3)), "b": [4]})
    assert spec.paths("p") == ["p['b'][0]", "p['w'][0]", "p['w'][1].x", "p['w'][1].y"]


def test_dict_order_does_not_matter():
    assert spec_of({"a": 1, "b": 2}).flatten({"b": 2, "a": 1}) == [1, 2]


def test_custom_is_a_dict_where_the_type_is_unknown():
    spec = TreeSpec("custom", (LEAF, LEAF), ("w", "b"), "model.Params")
    assert TreeSpec.from_json(spec.to_json()) == spec
    assert spec.flatten({"w": 1, "b": 2}) == spec.flatten(SimpleNamespace(w=1, b=2)) == [1, 2]
    assert spec.unflatten([1, 2]) == {"w": 1, "b": 2}
    assert str(spec) == "Params(w=*, b=*)"


def test_named_axes():
    x = VectorizedArray(np.zeros((2, 3)), [("b", 2)])
    spec = spec_of({"x": x})
    assert spec.to_json() == {"dict": [["x", {"vectorized": [["b", 2]]}]]}
    assert TreeSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert spec.paths("p") == ["p['x'].data"]
    assert spec.flatten({"x": x}) == [x.data]
    again = spec.unflatten([x.data])["x"]
    assert (again.data is x.data, again.vectorized_axes, again.shape) == (True, {"b": 2}, (3,))
    for other in (x.data, VectorizedArray(x.data, [("c", 2)])):
        with pytest.raises(TreeError, match=r"p\['x'\] requires \* vectorized over {'b': 2}, got"):
            spec.flatten({"x": other}, "p")
    with pytest.raises(TreeError, match=r"p requires an array, got \* vectorized over {'b': 2}"):
        LEAF.flatten(x, "p")


def test_errors_name_the_place_and_show_both_structures():
    spec = spec_of({"w1": 0, "w2": (0, 0)})
    with pytest.raises(TreeError) as error:
        spec.flatten({"w1": [1], "w3": 0}, "params")
    text = str(error.value)
    assert "params requires the structure {'w1': *, 'w2': (*, *)}, got {'w1': [*], 'w3': *}." in text
    assert "params['w2'] is missing" in text
    assert "params['w3'] is unexpected" in text
    assert "params['w1'] requires an array, got [*]" in text


@pytest.mark.parametrize(
    ("spec", "tree", "words"),
    [
        ((1, 2), (1, 2, 3), "t requires a tuple of 2, got tuple of 3"),
        ((1, 2), [1, 2], "t requires a tuple of 2, got [*, *]"),
        (None, 3, "t requires None, got int"),
        ({"a": None}, {"a": 1}, "t['a'] requires None"),
        (1, None, "t requires an array, got None"),
        (Point(1, 2), (1, 2), "t requires a Point, got (*, *)"),
        ({"a": {"b": 1}}, {"a": 1}, "t['a'] requires a dict, got int"),
    ],
)
def test_each_mismatch(spec, tree, words):
    with pytest.raises(TreeError) as error:
        spec_of(spec).flatten(tree, "t")
    assert words in str(error.value)


def test_many_problems_are_cut():
    with pytest.raises(TreeError, match="and 12 more"):
        spec_of(dict.fromkeys("abcdefghijklmnopqrst", 1)).flatten({})


def test_wrong_number_of_leaves():
    with pytest.raises(TreeError, match=r"unflatten requires 2 leaves for \(\*, \*\), got 1."):
        spec_of((1, 2)).unflatten([1])


@pytest.mark.parametrize("data", [3, "leaf", {}, {"set": []}, {"dict": [1]}, {"namedtuple": "P"}])
def test_bad_json(data):
    with pytest.raises(TreeError, match="known form"):
        TreeSpec.from_json(data)


def test_leaves_are_collected_from_every_container():
    """A call takes this fast path; what it cannot decide goes to `flatten`, which has the errors."""
    state = namedtuple("State", "count moments rest")
    tree = state(1, {"w": (2, [3])}, None)
    leaves = []
    assert spec_of(tree).collect(tree, leaves)
    assert leaves == spec_of(tree).flatten(tree) == [1, 2, 3]
    other = namedtuple("Other", "count rest moments")(1, None, {"w": (2, [3])})
    assert not spec_of(tree).collect(other, [])
    assert not spec_of(tree).collect(tuple(tree), [])
    assert not spec_of(tree).collect(state(1, {"w": (2, [3])}, 4), [])
