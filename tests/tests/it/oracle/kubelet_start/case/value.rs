//! Changes of one field, and values that several fields share.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

pub(super) type Change = Vec<(String, Value)>;

pub(super) fn one(path: &str, value: impl Into<Value>) -> Change {
    vec![(path.to_owned(), value.into())]
}

pub(super) fn at(
    path: &'static str,
    value: impl Strategy<Value = Value> + 'static,
) -> BoxedStrategy<Change> {
    value.prop_map(move |value| one(path, value)).boxed()
}

pub(super) fn choose(values: &[&'static str]) -> BoxedStrategy<Value> {
    select(values.to_vec()).prop_map(Value::from).boxed()
}

pub(super) fn span() -> BoxedStrategy<Value> {
    let texts = choose(&[
        "0s", "0", "1ns", "999us", "1ms", "100ms", "500ms", "999ms", "1s", "2s", "3s", "2999ms",
        "10s", "60s", "2m", "2m0s", "119s", "5m0s", "301s", "1h", "-1s", "-1ns", "1.5s", "", "x",
        "1", "5 s", "1d", "300s", "1000ms",
    ]);
    let others = select(vec![json!(null), json!(5), json!(true), json!(0)]);
    prop_oneof![20 => texts, 1 => others].boxed()
}
