//! Compares the verdict about a kubelet's start with the kubelet's own code, of each version:
//!
//! ```sh
//! for version in 1.33 1.34 1.35 1.36 1.37; do
//!   NODELIFE_KUBERNETES=$version NODELIFE_CASES=100000 \
//!     cargo test -p nodelife-tests --test it -- oracle::kubelet_start
//! done
//! ```

pub(crate) mod case;
mod file;
mod tables;

use nodelife_audit::kubelet_start::{self, Cgroups, Document, Judgement, Target};
use nodelife_core::allocatable::KubeletFiles;
use nodelife_tests::Kubernetes;
use nodelife_tests::oracle::{KubeletStart, StartAnswer};
use serde_json::{Value, json};

use nodelife_tests::seed;

fn target() -> Target {
    Kubernetes::current().unwrap().minor().parse().unwrap()
}

#[test]
fn a_kubelet_starts_as_its_own_code_says() {
    let count = seed::cases(10_000);
    let mut kubelet = KubeletStart::run().unwrap();
    let mut starting = 0;
    let files = seed::draw(count, &case::configuration(target()));
    for files in files.chunks(10_000) {
        let cases: Vec<Value> = files
            .iter()
            .map(|file| json!({"file": file.to_string()}))
            .collect();
        let answers: Vec<StartAnswer> = kubelet.ask("start", &cases).unwrap();
        starting += answers.iter().filter(|a| a.refusal().is_none()).count();
        seed::agree(files, &answers, compare);
    }
    println!(
        "the kubelet of {} starts with {starting} of {count}",
        target()
    );
    assert!(
        (count / 10..count * 9 / 10).contains(&starting),
        "the kubelet starts with {starting} of {count}"
    );
}

/// What `audit -f` does with a file, from its text on.
#[test]
fn a_kubelet_reads_the_text_of_a_file_as_its_own_code_says() {
    let count = seed::cases(20_000);
    let mut kubelet = KubeletStart::run().unwrap();
    let mut starting = 0;
    let texts = seed::draw(count, &file::text(target()));
    for texts in texts.chunks(10_000) {
        let cases: Vec<Value> = texts.iter().map(|text| json!({"file": text.0})).collect();
        let answers: Vec<StartAnswer> = kubelet.ask("start", &cases).unwrap();
        starting += answers.iter().filter(|a| a.refusal().is_none()).count();
        seed::agree(texts, &answers, |text, kubelet| {
            let files = KubeletFiles {
                file: Some(text.0.as_str().into()),
                drop_ins: Vec::new(),
            };
            let files = Document::of(&files);
            let ours = kubelet_start::judge_files(&files, target(), cgroups(kubelet));
            agree(&ours, kubelet)
        });
    }
    println!(
        "the kubelet of {} starts with {starting} of {count} texts",
        target()
    );
    assert!(
        (count / 10..count * 9 / 10).contains(&starting),
        "the kubelet starts with {starting} of {count}"
    );
}

fn cgroups(kubelet: &StartAnswer) -> Cgroups {
    if kubelet.cgroup_v1 {
        Cgroups::V1
    } else {
        Cgroups::V2
    }
}

fn agree(ours: &Judgement, kubelet: &StartAnswer) -> Result<(), String> {
    if ours.refusals.is_empty() != kubelet.refusal().is_none() {
        return Err(format!("ours: {:?}", ours.refusals));
    }
    Ok(())
}

fn compare(file: &Value, kubelet: &StartAnswer) -> Result<(), String> {
    let document = file.as_object().unwrap();
    let ours = kubelet_start::judge(document, target(), cgroups(kubelet));
    agree(&ours, kubelet)
}
