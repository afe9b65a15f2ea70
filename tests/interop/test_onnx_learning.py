"""Operators of ai.onnx.ml: models of scikit-learn against itself, and what skl2onnx does not write against onnx's evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import nabla_mlir as nm
from nabla_mlir.base.errors import ImportIRError

ROWS = np.random.default_rng(1).normal(size=(80, 4))
TARGET = ROWS[:, 0] * np.sin(ROWS[:, 1]) + ROWS[:, 2]
X = np.random.default_rng(2).normal(size=(7, 4))
IS_FLAT = ("boosting", "forest", "tree", "ada")  # whose derivatives are zero


def _estimators() -> dict[str, Any]:
    pytest.importorskip("skl2onnx")
    from sklearn.decomposition import PCA
    from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, Normalizer, PolynomialFeatures, RobustScaler
    from sklearn.svm import SVC, LinearSVR, NuSVR, OneClassSVM
    from sklearn.tree import DecisionTreeClassifier

    return {
        "boosting": GradientBoostingRegressor(n_estimators=10, random_state=0),
        "boosting_classifier": GradientBoostingClassifier(n_estimators=10, random_state=0),
        "forest_classifier": RandomForestClassifier(5, max_depth=4, random_state=0),
        "tree_classifier": DecisionTreeClassifier(max_depth=3),
        "ada_classifier": AdaBoostClassifier(n_estimators=3),
        "nu_svr": NuSVR(),
        "linear_svr": LinearSVR(),
        "one_class": OneClassSVM(),
        "svc_classifier": SVC(probability=True, random_state=0),
        "decisions_classifier": SVC(),
        "polynomial_classifier": SVC(kernel="poly", probability=True, random_state=0),
        "pipeline_classifier": make_pipeline(MinMaxScaler(), Normalizer(), PolynomialFeatures(2), LogisticRegression()),
        "imputer_classifier": make_pipeline(SimpleImputer(), RobustScaler(), PCA(3), LogisticRegression()),
    }


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "name",
    [
        "boosting",
        "boosting_classifier",
        "forest_classifier",
        "tree_classifier",
        "ada_classifier",
        "nu_svr",
        "linear_svr",
        "one_class",
        "svc_classifier",
        "decisions_classifier",
        "polynomial_classifier",
        "pipeline_classifier",
        "imputer_classifier",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_models_of_scikit_learn(name: str, classes: int) -> None:
    """Labels and scores are its own; slopes along a direction are those of its values, and zero of trees."""
    is_classifier = name.endswith("classifier")
    if classes == 3 and not is_classifier:
        pytest.skip("it has no classes")
    estimator = _estimators()[name]
    from skl2onnx import to_onnx

    labels = (TARGET > 0).astype(int) if classes == 2 else np.digitize(TARGET, [-0.5, 0.5])
    estimator.fit(ROWS, labels if is_classifier else TARGET)
    options = {id(estimator): {"zipmap": False}} if is_classifier else None
    f = nm.from_onnx(to_onnx(estimator, ROWS[:1].astype(np.float32), options=options))
    scored = next(
        g for g in (getattr(estimator, n, None) for n in ("predict_proba", "decision_function", "predict")) if g is not None
    )

    def scores(x: Any) -> Any:
        result = f(x)
        found = result[1] if isinstance(result, tuple) else result
        return found[:, :1] if name == "decisions_classifier" and classes == 2 else found  # of two classes there are both signs

    x = X.astype(np.float32)
    if isinstance(f(x), tuple):
        np.testing.assert_array_equal(np.asarray(f(x)[0]).ravel(), estimator.predict(x))
    np.testing.assert_allclose(np.asarray(scores(x)).reshape(len(x), -1), scored(x).reshape(len(x), -1), atol=2e-6)
    v, step = np.random.default_rng(3).normal(size=X.shape), 1e-5
    values = lambda x: scored(x).reshape(len(x), -1)[:, -1]  # noqa: E731
    slopes = (values(X + step * v) - values(X - step * v)) / (2 * step)
    gradient = np.asarray(nm.grad(lambda x: scores(x)[:, -1].sum())(x))
    np.testing.assert_allclose((gradient * v).sum(1), slopes, atol=2e-3 * max(1, np.abs(slopes).max()))
    assert (np.abs(gradient).max() == 0) == name.startswith(IS_FLAT)


def _model(operator: str, inputs: dict[str, np.ndarray], outputs: int = 1, version: int = 3, **attributes: Any) -> Any:
    node = helper.make_node(operator, list(inputs), [f"y{i}" for i in range(outputs)], domain="ai.onnx.ml", **attributes)
    begin = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in inputs.items()]
    end = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.output]
    graph = helper.make_graph([node], "one", begin, end)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)])


def check(operator: str, inputs: dict[str, np.ndarray], outputs: int = 1, version: int = 3, **attributes: Any) -> None:
    model = _model(operator, inputs, outputs, version, **attributes)
    wanted = ReferenceEvaluator(model).run(None, inputs)
    found = nm.from_onnx(model)(*inputs.values())
    for got, value in zip(found if outputs > 1 else (found,), wanted, strict=True):
        assert np.shape(got) == np.shape(value)
        np.testing.assert_allclose(np.asarray(got), value, rtol=1e-6, atol=1e-7)


KEYS = {"keys_int64s": [3, 1, 4, 1], "values_floats": [0.5, 1.5, 2.5, 3.5], "default_float": -7.0}


@pytest.mark.parametrize(
    ("operator", "inputs", "version", "attributes"),
    [
        ("LabelEncoder", {"x": np.array([[1, 3], [4, 5]])}, 2, KEYS),
        ("LabelEncoder", {"x": np.array([1.5, 2.0, 0.0], np.float32)}, 2, {"keys_floats": [1.5, 2.0], "values_int64s": [7, 8]}),
        ("OneHotEncoder", {"x": np.array([[1, 9], [2, 3]])}, 1, {"cats_int64s": [3, 2, 1], "zeros": 1}),
        (
            "FeatureVectorizer",
            {"a": np.ones((2, 3), np.float32), "b": np.arange(2, dtype=np.float32)},
            1,
            {"inputdimensions": [2, 3]},
        ),
        (
            "Imputer",
            {"x": np.array([[1.0, np.nan], [np.nan, 2.0]], np.float32)},
            1,
            {"imputed_value_floats": [5.0, 6.0], "replaced_value_float": float("nan")},
        ),
        ("Imputer", {"x": np.array([[1, 0], [0, 2]])}, 1, {"imputed_value_int64s": [5], "replaced_value_int64": 0}),
        (
            "LinearRegressor",
            {"x": X.astype(np.float32)},
            1,
            {"coefficients": [1.0, -2.0, 0.5, 3.0], "intercepts": [0.5], "targets": 1},
        ),
    ],
)
def test_small_operators(operator: str, inputs: dict[str, np.ndarray], version: int, attributes: dict[str, Any]) -> None:
    check(operator, inputs, version=version, **attributes)


def test_a_softmax_leaves_zeros_out() -> None:
    attributes = {
        "coefficients": [1.0, 0, 0, 0, 0, 0, 0, 0, 0, 1.0, 0, 0],
        "intercepts": [0.0, 0.0, 0.0],
        "classlabels_ints": [4, 5, 6],
    }
    check("LinearClassifier", {"x": X.astype(np.float32)}, 2, 1, post_transform="SOFTMAX_ZERO", **attributes)


def test_one_class_has_a_threshold() -> None:
    attributes = {"coefficients": [1.0, 0, 0, 0], "intercepts": [0.1], "classlabels_ints": [1]}
    check("LinearClassifier", {"x": X.astype(np.float32)}, 2, 1, post_transform="NONE", **attributes)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"])
def test_branches_of_every_kind(mode: str, aggregate: str) -> None:
    """Two trees, of which the second is a leaf behind a branch of another kind; missing values take the side that is said."""
    x = np.array([[0.5, 1.0], [0.6, 1.0], [0.4, 2.0], [np.nan, 1.0], [0.5, np.nan]], np.float32)
    check(
        "TreeEnsembleRegressor",
        {"x": x},
        n_targets=2,
        base_values=[0.5, -0.5],
        aggregate_function=aggregate,
        nodes_treeids=[0, 0, 0, 0, 0, 7, 7, 7],
        nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2],
        nodes_featureids=[0, 1, 0, 0, 0, 1, 0, 0],
        nodes_modes=[mode, "BRANCH_LT", "LEAF", "LEAF", "LEAF", mode, "LEAF", "LEAF"],
        nodes_values=[0.5, 1.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        nodes_truenodeids=[1, 2, 0, 0, 0, 1, 0, 0],
        nodes_falsenodeids=[4, 3, 0, 0, 0, 2, 0, 0],
        nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 0, 0, 0],
        target_treeids=[0, 0, 0, 0, 7, 7],
        target_nodeids=[2, 3, 4, 4, 1, 2],
        target_ids=[0, 1, 0, 1, 0, 1],
        target_weights=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_trees_of_opset_5(aggregate: int, dtype: type) -> None:
    """Sets of members, a branch whose sides are one leaf, and weights in f64."""
    tensor = lambda values, kind: numpy_helper.from_array(np.array(values, kind))  # noqa: E731
    x = np.array([[1.2, 3.0], [0.5, 7.0], [2.0, 4.0], [np.nan, 3.0]], dtype)
    check(
        "TreeEnsemble",
        {"x": x},
        version=5,
        n_targets=2,
        aggregate_function=aggregate,
        post_transform=0,
        tree_roots=[0, 2, 3],
        nodes_featureids=[0, 1, 1, 0],
        nodes_splits=tensor([1.5, 0.0, 0.0, 0.0], dtype),
        nodes_modes=tensor([0, 6, 6, 0], np.uint8),
        nodes_truenodeids=[1, 0, 2, 3],
        nodes_falsenodeids=[1, 1, 4, 3],
        nodes_trueleafs=[0, 1, 1, 1],
        nodes_falseleafs=[1, 1, 1, 1],
        nodes_missing_value_tracks_true=[1, 0, 0, 0],
        membership_values=tensor([3.0, 9.0, np.nan, 4.0, 7.0, 8.0, np.nan], dtype),
        leaf_targetids=[0, 1, 0, 1, 0],
        leaf_weights=tensor([1.1, 2.2, 3.3, 4.4, 5.5], dtype),
    )


def test_weights_in_f64_are_read() -> None:
    tensor = lambda *values: numpy_helper.from_array(np.array(values))  # noqa: E731
    model = _model(
        "TreeEnsembleRegressor",
        {"x": X},
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        n_targets=1,
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values_as_tensor=tensor(X[0, 0], 0.0, 0.0),
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights_as_tensor=tensor(1.0, 2.0),
    )
    assert np.asarray(nm.from_onnx(model)(X))[:, 0].tolist() == np.where(X[:, 0] <= X[0, 0], 1.0, 2.0).tolist()


@pytest.mark.parametrize(
    ("operator", "version", "attributes", "words"),
    [
        ("LabelEncoder", 2, {"keys_int64s": [1], "values_strings": ["a"]}, "numbers, got strings"),
        ("OneHotEncoder", 1, {"cats_strings": ["a"]}, "integers, got strings"),
        (
            "SVMClassifier",
            1,
            {"coefficients": [1.0, 2.0], "rho": [0.0], "classlabels_ints": [0, 1]},
            "support vectors, got weights alone",
        ),
    ],
)
def test_what_is_refused(operator: str, version: int, attributes: dict[str, Any], words: str) -> None:
    model = _model(operator, {"x": np.zeros((2, 1), np.int64)}, 2 if operator == "SVMClassifier" else 1, version, **attributes)
    with pytest.raises(ImportIRError, match=words):
        nm.from_onnx(model)(np.zeros((2, 1), np.int64))


_TREE = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "n_targets": 1,
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes_truenodeids": [7, 0, 0]}, "children and leaves among its nodes, got node 7 of tree 0"),
        ({"nodes_truenodeids": [0, 0, 0]}, "trees, got a cycle of nodes"),
        ({"nodes_featureids": [99, 0, 0]}, "rows with 100 columns, got shape"),
        ({"target_ids": [0, 3]}, "weights of 1 targets, got targets up to 3"),
        ({"target_nodeids": [1, 9]}, "children and leaves among its nodes, got node 9 of tree 0"),
    ],
)
def test_what_is_no_tree_is_refused(changes: dict[str, Any], words: str) -> None:
    model = _model("TreeEnsembleRegressor", {"x": X}, **(_TREE | changes))
    with pytest.raises(ImportIRError, match=words):
        nm.from_onnx(model)(X)
