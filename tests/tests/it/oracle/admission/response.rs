//! Checks every response with the API server's own validation of webhook responses (apiserver
//! v0.36.3 `pkg/admission/plugin/webhook/request`).

use std::fs;
use std::path::PathBuf;

use nodelife_admission::{
    AdmissionPhase, Lookup, LookupResult, Mode, Policies, Review, Verdict, decide_with,
    write_response,
};
use nodelife_tests::oracle::{self, ResponseAnswer};
use serde_json::{Value, json};

use nodelife_tests::seed;

use super::cases::case;
use super::engine::{look_up, sent};
use super::random::Random;

/// A question to the oracle, and whether the engine let the request pass.
fn question(case: &Value, policies: &Policies, phase: AdmissionPhase) -> (Value, bool) {
    let bytes = sent(case);
    let review = Review::begin(&bytes).unwrap();
    let decision = decide_with(&review.request, policies, phase, |lookup| {
        look_up(case, lookup)
    });
    let mut body = Vec::new();
    write_response(&review, &decision, &mut body);
    let answer: Value = serde_json::from_slice(&body).unwrap();
    let question = json!({
        "uid": "case",
        "mutating": phase == AdmissionPhase::Mutating,
        "review": answer,
        "object": case["object"],
    });
    (question, !matches!(decision.verdict, Verdict::Deny(_)))
}

#[test]
fn the_api_server_accepts_every_response() {
    let mut random = Random::new(20_260_103);
    let mut policies = Policies::default();
    policies.tolerations.rewrite = true;
    policies.tolerations.not_ready_seconds = 30;
    policies.tolerations.policies =
        vec![serde_json::from_value(json!({"unreachableSeconds": 7})).unwrap()];
    let mut warning = policies.clone();
    warning.node_restriction.mode = Mode::Warn;
    let mut questions = Vec::new();
    let mut allowed = Vec::new();
    let count = seed::cases(5_000);
    for index in 0..count {
        let case = case(&mut random);
        let policies = if index % 4 == 0 { &warning } else { &policies };
        for phase in [AdmissionPhase::Mutating, AdmissionPhase::Validating] {
            let (question, passes) = question(&case, policies, phase);
            questions.push(question);
            allowed.push(passes);
        }
    }
    let answers: Vec<ResponseAnswer> = oracle::ask("response", &questions).unwrap();
    let mut patched = 0;
    for ((question, passes), answer) in questions.iter().zip(&allowed).zip(&answers) {
        assert_eq!(
            (answer.error.as_str(), answer.allowed),
            ("", *passes),
            "{question:#}"
        );
        if question["review"]["response"]["patch"].is_string() {
            patched += 1;
            let object = answer.object.as_ref().unwrap();
            assert_ne!(object, &question["object"], "{question:#}");
        }
    }
    assert!(patched > count / 50, "{patched} of {count} were patched");
    println!(
        "{} answers were accepted, {patched} of them with a patch",
        answers.len()
    );
}

/// The inputs of the fuzz target `review`: its seeds, and what `NODELIFE_CORPUS` names, the
/// folder that a run has filled. The first byte is a choice of the target's own.
fn inputs() -> Vec<Vec<u8>> {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/review");
    let corpus = std::env::var_os("NODELIFE_CORPUS").map(PathBuf::from);
    let folders = std::iter::once(PathBuf::from(seeds)).chain(corpus);
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    files
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .filter(|bytes| !bytes.is_empty())
        .collect()
}

#[test]
fn the_api_server_accepts_responses_to_fuzzed_reviews() {
    let mut warning = Policies::default();
    warning.node_restriction.mode = Mode::Warn;
    warning.tolerations.not_ready_seconds = 30;
    let mut questions = Vec::new();
    let mut allowed = Vec::new();
    let inputs = inputs();
    for bytes in &inputs {
        let Ok(review) = Review::begin(&bytes[1..]) else {
            continue;
        };
        for (policies, phase) in [
            (&Policies::default(), AdmissionPhase::Validating),
            (&warning, AdmissionPhase::Mutating),
        ] {
            let missing = |_: &Lookup| LookupResult::Missing;
            let decision = decide_with(&review.request, policies, phase, missing);
            let mut body = Vec::new();
            write_response(&review, &decision, &mut body);
            questions.push(json!({
                "uid": serde_json::from_str::<Value>(review.uid).unwrap(),
                "mutating": phase == AdmissionPhase::Mutating,
                "review": serde_json::from_slice::<Value>(&body).unwrap(),
            }));
            allowed.push(!matches!(decision.verdict, Verdict::Deny(_)));
        }
    }
    let answers: Vec<ResponseAnswer> = oracle::ask("response", &questions).unwrap();
    for ((question, passes), answer) in questions.iter().zip(&allowed).zip(&answers) {
        let said = (answer.error.as_str(), answer.allowed);
        assert_eq!(said, ("", *passes), "{question:#}");
    }
    println!(
        "{} inputs, {} answers accepted",
        inputs.len(),
        answers.len()
    );
    assert!(allowed.contains(&true) && allowed.contains(&false));
}
