//! Asks the API server of this version, and compares with what is kept.

use std::fmt::Write as _;

use nodelife_tests::{ControlPlane, Kubernetes};

use super::questions;

#[tokio::test]
async fn the_api_server_answers_as_observed() {
    let plane = ControlPlane::options().start().await.unwrap();
    let answers = questions::ask(&plane).await;
    let mut text = String::new();
    for (question, answer) in &answers {
        writeln!(text, "{question}\t{answer}").unwrap();
    }
    let path = super::observed(Kubernetes::current().unwrap().minor());
    if super::is_update() {
        std::fs::write(path, text).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "{} is out of date: run this test with NODELIFE_UPDATE_DOCS=1\n{text}",
        path.display()
    );
}
