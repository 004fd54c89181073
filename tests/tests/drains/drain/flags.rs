//! Tests of kubectl's flags, parsed from kubectl's own help.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::kubectl::{Kubectl, run};
use nodelife_tests::program::{self, GoProgram};
use nodelife_tests::{Identity, Kubernetes};
use serde_json::json;
use tokio::process::Command;

use super::support::environment_with_node;

/// A flag as kubectl's help shows it.
#[derive(Debug)]
struct Flag {
    short: Option<String>,
    name: String,
    default: String,
}

/// Whose default differs, and why (see the design of drain in docs/drain.md).
const OTHER_DEFAULTS: [(&str, &str, &str); 1] = [
    // DaemonSet pods are always left alone: without the flag kubectl refuses to go on.
    ("ignore-daemonsets", "false", "true"),
];

/// Global flags that mean nothing to us, and why.
const WITHOUT_MEANING: [&str; 9] = [
    "cache-dir",            // there is no cache
    "kuberc",               // kubectl's preferences are its own
    "log-flush-frequency",  // logs are not buffered
    "match-server-version", // there is no one version to match
    "username",             // API servers take no basic authentication since 1.19
    "password",
    "profile", // of kubectl's own process
    "profile-output",
    "vmodule", // names kubectl's own source files
];

async fn words(program: std::path::PathBuf, words: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(words).env_clear().env("HOME", "/nonexistent");
    let output = run(command, "").await.unwrap();
    assert_eq!(output.status, Some(0), "{words:?}: {output:?}");
    output.stdout
}

/// `    -l, --selector='':` of kubectl's help.
fn flags(help: &str) -> Vec<Flag> {
    let lines = help.lines().filter_map(|line| line.strip_prefix("    "));
    lines
        .filter(|line| line.starts_with('-') && line.ends_with(':'))
        .map(|line| {
            let (short, long) = match line.split_once(", ") {
                Some((short, long)) => (Some(short.to_owned()), long),
                None => (None, line),
            };
            let long = long.strip_prefix("--").unwrap().trim_end_matches(':');
            let (name, default) = long.split_once('=').unwrap();
            Flag {
                short,
                name: name.to_owned(),
                default: default.trim_matches('\'').to_owned(),
            }
        })
        .collect()
}

/// What our help says of a flag. Examples come before the flags, and name some of them.
fn shown(help: &str, name: &str) -> Option<String> {
    let (_, flags) = help.split_once("\nOptions:\n")?;
    let begins = |line: &&str| {
        let line = line.trim_start();
        line.starts_with('-') && !line.starts_with("- ")
    };
    let named = |line: &&str| {
        let (_, rest) = line.split_once("--").unwrap_or_default();
        rest.strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '[']))
    };
    let mut lines = flags
        .lines()
        .skip_while(|line| !(begins(line) && named(line)));
    let first = lines.next()?;
    let rest = lines.take_while(|line| !begins(line));
    Some(std::iter::once(first).chain(rest).collect())
}

/// A value that both take.
fn value(flag: &Flag) -> &str {
    match (flag.name.as_str(), flag.default.as_str()) {
        (_, "" | "[]") if flag.name == "as-user-extra" => "a=b",
        ("request-timeout", _) => "5s",
        (_, "" | "[]") => "x",
        (_, default) => default,
    }
}

#[tokio::test]
async fn every_kubectl_drain_flag_is_accepted_with_its_default() {
    let kubectl = GoProgram::Kubectl.path().unwrap();
    let nodelife = program::nodelife().unwrap();
    let theirs = flags(&words(kubectl, &["drain", "--help"]).await);
    assert_eq!(theirs.len(), 11, "{theirs:?}");
    for flag in &theirs {
        let Flag {
            short,
            name,
            default,
        } = flag;
        let help = |value: &str| {
            vec![
                "drain".to_owned(),
                "n".to_owned(),
                format!("--{name}={value}"),
                "--help".to_owned(),
            ]
        };
        // A flag that is not there, or a value that is not one, is an error even before help.
        let line = help(value(flag));
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let ours = words(nodelife.clone(), &line).await;
        if let Some(short) = short {
            assert!(
                ours.contains(&format!("{short}, --{name}")),
                "{short}\n{ours}"
            );
        }
        // What is hidden from the help has kubectl's default and no meaning of its own.
        let Some(shown) = shown(&ours, name) else {
            assert_eq!(name, "chunk-size");
            continue;
        };
        let shown = shown
            .split_once("[default: ")
            .map(|(_, rest)| rest.split(']').next().unwrap());
        let known = OTHER_DEFAULTS.iter().find(|(other, ..)| other == name);
        let expected = match known {
            Some((_, kubectls, ours)) => {
                assert_eq!(kubectls, default, "{name}");
                *ours
            }
            None => default.as_str(),
        };
        assert_eq!(shown.unwrap_or_default(), expected, "--{name}");
    }
}

#[tokio::test]
async fn every_global_kubectl_flag_works_or_is_listed_as_meaningless() {
    let kubectl = GoProgram::Kubectl.path().unwrap();
    let nodelife = program::nodelife().unwrap();
    let theirs = flags(&words(kubectl, &["options"]).await);
    let kubernetes = Kubernetes::current().unwrap();
    let count = if kubernetes.is_default() { 30 } else { 25 };
    assert!(theirs.len() >= count, "{theirs:?}");
    let mut without_meaning = Vec::new();
    for flag in &theirs {
        if WITHOUT_MEANING.contains(&flag.name.as_str()) {
            without_meaning.push(flag.name.as_str());
            continue;
        }
        let long = format!("--{}={}", flag.name, value(flag));
        let ours = words(nodelife.clone(), &["version", &long, "--help"]).await;
        let name = match &flag.short {
            Some(short) => format!("{short}, --{}", flag.name),
            None => format!("--{}", flag.name),
        };
        assert!(ours.contains(&name), "{name}\n{ours}");
    }
    // Older kubectls lack some.
    if kubernetes.is_default() {
        assert_eq!(
            without_meaning.len(),
            WITHOUT_MEANING.len(),
            "{without_meaning:?}"
        );
    }
}

/// What kubectl's own drain does to one node, ours does to its twin.
#[tokio::test]
async fn flags_work_as_in_kubectl() {
    let (env, theirs) = environment_with_node("twins").await;
    let ours = env.node("b");
    let client = env.namespace.client();
    NodeFixture::new(&ours).create(client).await.unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    for node in [&theirs, &ours] {
        let label = Patch::Merge(json!({"metadata": {"labels": {"twin": node}}}));
        let how = PatchParams::default();
        nodes.patch(node, &how, &label).await.unwrap();
    }
    let kubectl = Kubectl::new(env.plane, &Identity::Admin).unwrap();
    let drain = async |flags: &[&str]| {
        for node in [&theirs, &ours] {
            PodFixture::new(&format!("on-{node}"))
                .running_on(node)
                .spec(json!({"volumes": [{"name": "work", "emptyDir": {}}]}))
                .create(&env.namespace)
                .await
                .unwrap();
        }
        let common = ["--force", "--delete-emptydir-data", "--ignore-daemonsets"];
        let flags = [&common[..], flags].concat();
        let selector = format!("--selector=twin={theirs}");
        let words = ["drain", &selector].into_iter().chain(flags.clone());
        let first = kubectl.run(words).await.unwrap();
        let selector = format!("--selector=twin={ours}");
        let second = env
            .drain(&[&[selector.as_str()], &flags[..]].concat())
            .await;
        for node in [&theirs, &ours] {
            assert!(env.is_cordoned(node).await, "{node}: {first:?} {second:?}");
        }
        (first, second)
    };

    // Nobody plays the kubelet here: a pod with a grace period stays, and shows which.
    let (first, second) = drain(&["--grace-period=7", "--timeout=2s"]).await;
    assert_ne!((first.status, second.status), (Some(0), Some(0)));
    for node in [&theirs, &ours] {
        let pod = env.pods().get(&format!("on-{node}")).await.unwrap();
        let grace = pod.metadata.deletion_grace_period_seconds;
        assert_eq!(grace, Some(7), "{node}: {first:?} {second:?}");
        let now = DeleteParams::default().grace_period(0);
        let name = pod.metadata.name.unwrap();
        env.pods().delete(&name, &now).await.unwrap();
    }

    let (first, second) = drain(&["--disable-eviction"]).await;
    assert_eq!(
        (first.status, second.status),
        (Some(0), Some(0)),
        "{first:?} {second:?}"
    );
    for node in [&theirs, &ours] {
        assert!(env.pods_on(node).await.is_empty(), "{node}");
    }
    let requests = env.requests().await;
    let deleted = requests.iter().filter(|event| event.is("delete", "pods"));
    assert_eq!(deleted.count(), 1);
}
