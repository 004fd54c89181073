//! Tests of bad input: one clear message, the right status, no panic.

use std::fs;

use crate::{SMALL, nodelife, root, run};

/// Runs it with paths of this test made short.
fn refused(words: &[&str], folder: &std::path::Path) -> String {
    let text = run(words).replace(folder.to_str().unwrap(), "FOLDER");
    assert!(!text.contains("panicked"), "{text}");
    let (_, stderr) = text.split_once("--- stderr\n").unwrap();
    assert_eq!(stderr.lines().count(), 1, "{text}");
    text
}

#[test]
fn each_is_one_clear_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let refused = |words: &[&str]| refused(words, folder.path());

    insta::assert_snapshot!("no cluster", run(&["audit"]));
    let nowhere = ["audit", "--server", "https://127.0.0.1:1"];
    insta::assert_snapshot!("unreachable server", refused(&nowhere));

    let kubeconfig = path("config");
    fs::write(
        &kubeconfig,
        "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], \
         clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]}",
    )
    .unwrap();
    let no_context = ["audit", "--kubeconfig", &kubeconfig, "--context", "b"];
    insta::assert_snapshot!("kubeconfig without that context", refused(&no_context));

    let whole = fs::read_to_string(root().join(SMALL)).unwrap();
    let whole: serde_json::Value = serde_saphyr::from_str(&whole).unwrap();
    let whole = serde_json::to_string(&whole).unwrap();
    fs::write(path("cut.json"), &whole[..whole.len() / 2]).unwrap();
    insta::assert_snapshot!(
        "truncated snapshot",
        refused(&["audit", "-f", &path("cut.json")])
    );

    let foreign = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#;
    fs::write(path("foreign.json"), foreign).unwrap();
    insta::assert_snapshot!(
        "foreign kind",
        refused(&["audit", "-f", &path("foreign.json")])
    );

    insta::assert_snapshot!(
        "no such file",
        refused(&["audit", "-f", &path("none.json")])
    );
    insta::assert_snapshot!("no such node", refused(&["audit", "node-x", "-f", SMALL]));
    insta::assert_snapshot!(
        "no such rule",
        refused(&["audit", "-f", SMALL, "--rule", "NL-PDBB-001"])
    );
    insta::assert_snapshot!("no such topic", refused(&["explain", "allocatble"]));
    insta::assert_snapshot!(
        "no baseline",
        refused(&["audit", "-f", SMALL, "--baseline", &path("none.json")])
    );
}

#[test]
fn files_are_named_as_for_kubectl() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let node = |name: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}"}}}}"#)
    };
    fs::write(path("a.json"), node("a")).unwrap();
    fs::write(path("b.json"), node("b")).unwrap();
    fs::write(path("c.txt"), "no document").unwrap();
    let audit = |files: &str| run(&["audit", "--fail-on", "never", "-o", "json", "-f", files]);
    for files in [
        format!("{},{}", path("a.json"), path("b.json")),
        path("*.json"),
        path("[ab].js*"),
    ] {
        let text = audit(&files);
        assert!(text.contains("\"nodes\": 2"), "{files}: {text}");
    }
    for (files, error) in [
        (
            "https://a/b,c.json",
            "URLs are not fetched; use curl -fsSL 'https://a/b,c.json' |",
        ),
        (&path("*.yaml"), "no file matches"),
    ] {
        let text = audit(files);
        assert!(text.starts_with("status: 2\n"), "{text}");
        assert!(text.contains(error), "{text}");
    }
}

#[test]
fn errors_of_parsers_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong");
    fs::write(&path, "[package]\nname = \"x\"\n- a: [\n").unwrap();
    let path = path.to_str().unwrap();
    for words in [
        vec!["audit", "-f", SMALL, "--baseline", path],
        vec!["audit", "--kubeconfig", path],
    ] {
        let text = refused(&words, folder.path());
        assert!(text.starts_with("status: 1\n"), "{text}");
        assert!(!text.contains("-->") && !text.contains(" | "), "{text}");
    }
}

#[test]
fn a_node_that_begins_like_that_is_proposed() {
    let example = "examples/healthy-cluster.json";
    for command in ["audit", "drain"] {
        let text = run(&[command, "ip-10-0-16-11", "-f", example]);
        let hint = "did you mean ip-10-0-16-11.eu-central-1.compute.internal?";
        assert!(text.contains(hint), "{text}");
        let text = run(&[command, "ip-10-0", "-f", example]);
        assert!(
            text.contains("not found") && !text.contains("did you mean"),
            "{text}"
        );
    }
}

#[test]
fn a_flag_without_an_effect_is_refused() {
    let text = run(&["audit", "-f", SMALL, "-n", "kube-system"]);
    assert!(text.starts_with("status: 2\n--- stdout\n---"), "{text}");
    assert!(text.contains("audit has no use of -n"), "{text}");
    let text = run(&["audit", "-f", SMALL, "--group-by", "nosuchlabel"]);
    assert!(
        text.contains("Warning: no node has the label nosuchlabel (--group-by)"),
        "{text}"
    );
}

/// What is printed lands in the logs of CI systems.
#[test]
fn no_password_of_a_url_is_printed() {
    let server = "https://127.0.0.1:1";
    for words in [
        ["audit", "--server=https://u:canary@127.0.0.1:1", "-v=9"],
        ["audit", "--server=https://u:canary@127.0.0.1:x", "-v=9"],
        [
            "--server",
            server,
            "--proxy-url=http://u:canary@127.0.0.1:2",
        ],
        ["--server", server, "--proxy-url=ftp://u:canary@127.0.0.1:2"],
    ] {
        let text = run(&[&words[..], &["nodes"]].concat());
        assert!(text.contains("127.0.0.1"), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
    let empty = run(&["drain", "-l", ""]);
    assert!(empty.contains("selects nothing"), "{empty}");
}

#[test]
fn a_server_without_a_scheme_is_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    let write = |server: &str, more: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: a, \
             contexts: [{{name: a, context: {{cluster: a}}}}], \
             clusters: [{{name: a, cluster: {{server: '{server}'{more}}}}}]}}"
        );
        fs::write(&config, text).unwrap();
    };
    let path = config.to_str().unwrap();
    let failure = |words: &[&str], status: i32, message: &str| {
        let text = run(words);
        assert!(text.starts_with(&format!("status: {status}\n")), "{text}");
        assert!(text.contains(message), "{text}");
        assert!(!text.contains("panicked"), "{text}");
    };
    let plain = "failed to reach the API server http://127.0.0.1:1:";
    let tls = "failed to reach the API server https://127.0.0.1:1:";
    failure(&["audit", "-s", "127.0.0.1:1"], 1, plain);
    let insecure = "--insecure-skip-tls-verify";
    failure(&["audit", "-s", "127.0.0.1:1", insecure], 1, tls);
    let no_host = "error: -s (--server) \"https://\" has no host";
    failure(&["audit", "-s", "https://"], 2, no_host);
    write("127.0.0.1:1", "");
    failure(&["audit", "--kubeconfig", path], 1, plain);
    write("127.0.0.1:1", ", insecure-skip-tls-verify: true");
    failure(&["audit", "--kubeconfig", path], 1, tls);
    write("https://", "");
    let no_host = "the server of the kubeconfig's cluster \"https://\" has no host";
    failure(&["audit", "--kubeconfig", path], 1, no_host);
}

#[test]
fn absurd_values_do_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absurd.json");
    let absurd = r#"{"apiVersion":"v1","kind":"List","items":[
        {"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}},
        {"apiVersion":"v1","kind":"Node","metadata":{"name":"b"},"status":{
            "capacity":{"cpu":"-4","memory":"1e30","pods":"many","hugepages-2Mi":"-1Gi"},
            "allocatable":{"cpu":"9e99","memory":"","pods":"-1"},"conditions":null}},
        {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n"},"spec":{"nodeName":"gone",
            "containers":[{"name":"c","resources":{"requests":{"cpu":"1e60","memory":"-5"}}}]}}]}"#;
    fs::write(&path, absurd).unwrap();
    let path = path.to_str().unwrap();
    for format in [
        "table",
        "wide",
        "json",
        "yaml",
        "html",
        "junit",
        "sarif",
        "prometheus",
        "name",
    ] {
        let text = run(&["audit", "-f", path, "-o", format]);
        assert!(!text.contains("panicked"), "{format}: {text}");
        assert!(!text.starts_with("status: 1"), "{format}: {text}");
    }
    for format in ["table", "wide", "json", "yaml", "name"] {
        let text = run(&["nodes", "-f", path, "-o", format]);
        assert!(!text.contains("panicked"), "{format}: {text}");
        assert!(text.starts_with("status: 0"), "{format}: {text}");
    }
    for topic in ["allocatable", "zones"] {
        let text = run(&["explain", topic, "-f", path]);
        assert!(!text.contains("panicked"), "{topic}: {text}");
    }
}

#[test]
fn auditing_nothing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input.json");
    let audit = |document: &str, more: &[&str]| {
        fs::write(&path, document).unwrap();
        let words = [&["audit", "-o", "json", "-f", path.to_str().unwrap()], more].concat();
        run(&words)
    };
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n"}}"#;
    let none = r#"{"apiVersion":"v1","kind":"NodeList","items":[]}"#;
    let one = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}"#;
    for (text, reason) in [
        (
            audit(pod, &[]),
            "no node was audited: the input has none; add `kubectl get nodes -o json`",
        ),
        (
            audit(none, &[]),
            "no node was audited: the files of -f have no nodes",
        ),
        (
            audit(none, &["--fail-on", "never"]),
            "no node was audited: the files of -f have no nodes",
        ),
        (
            audit(one, &["-l", "pool=gone"]),
            "no node was audited: none of 1 node matches --selector",
        ),
        (
            audit(one, &["--rule", "NL-RES-002"]),
            "no rule was checked: NL-RES-002: kubelet configurations not read: the input has none; \
             add `kubectl get --raw /api/v1/nodes/NODE/proxy/configz` as configz/NODE.json",
        ),
    ] {
        // What could be found is reported all the same.
        assert!(text.starts_with("status: 1\n--- stdout\n{"), "{text}");
        assert!(
            text.trim_end().ends_with(&format!("error: {reason}")),
            "{text}"
        );
        assert!(!text.contains("no findings"), "{text}");
    }
}

/// As large as `NODELIFE_SNAPSHOT_MB` says, in MB; 8 by default, so that the suite stays quick.
#[test]
fn large_snapshots_stream_and_truncated_ones_fail() {
    use std::io::Write as _;
    use std::process::Stdio;

    let megabytes: usize =
        std::env::var("NODELIFE_SNAPSHOT_MB").map_or(8, |size| size.parse().unwrap());
    let audit = |end: &str| {
        let mut child = nodelife(&["audit", "-f", "-", "-o", "json", "--rule", "NL-POD-001"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = std::io::BufWriter::new(child.stdin.take().unwrap());
        let feed = std::thread::spawn({
            let end = end.to_owned();
            move || {
                let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}"#;
                write!(stdin, r#"{{"apiVersion":"v1","items":[{node}"#).unwrap();
                let padding = "x".repeat(3000);
                let mut written = 0;
                for number in 0.. {
                    let pod = format!(
                        r#",{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{number}","namespace":"n","annotations":{{"a":"b"}},"managedFields":[{{"x":"{padding}"}}]}},"spec":{{"nodeName":"a"}}}}"#
                    );
                    written += pod.len();
                    stdin.write_all(pod.as_bytes()).unwrap();
                    if written > megabytes * 1_000_000 {
                        break;
                    }
                }
                stdin.write_all(end.as_bytes()).unwrap();
            }
        });
        let text = crate::show(&child.wait_with_output().unwrap());
        feed.join().unwrap();
        text
    };
    let whole = audit(r#"],"kind":"List"}"#);
    assert!(whole.starts_with("status: 0\n"), "{whole}");
    let cut = audit("");
    assert!(
        cut.starts_with("status: 1\n--- stdout\n--- stderr\n"),
        "{cut}"
    );
    assert!(cut.contains("standard input is truncated"), "{cut}");
}

/// A tip leads nobody to a flag that undoes something.
#[test]
fn a_tip_names_no_flag_that_changes_something() {
    let window = run(&["drain", "x", "--window", "sat"]);
    assert!(!window.contains("--undo"), "{window}");
    for (word, flag) in [("--forse", "--force"), ("--timeuot", "--timeout")] {
        let text = run(&["drain", "x", word, "1"]);
        assert!(text.contains(&format!("'{flag}'")), "{text}");
    }
}

#[test]
fn each_unknown_node_is_named() {
    let text = run(&["drain", "node-x", "node-y", "-f", SMALL, "--dry-run"]);
    assert!(
        text.contains(r#"nodes "node-x", "node-y" not found"#),
        "{text}"
    );
}

/// As redaction and limits of size leave them in support bundles.
#[test]
fn a_broken_file_beside_the_cluster_is_named_and_changes_no_finding() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put(
        "small.yaml",
        &fs::read_to_string(root().join(SMALL)).unwrap(),
    );
    let path = folder.path().to_str().unwrap();
    let audit = || run(&["audit", "-f", path, "-o", "name"]);
    let found = |text: &str| text.split("--- stderr").next().unwrap().to_owned();
    let alone = audit();
    assert!(alone.starts_with("status: 3\n"), "{alone}");
    put(
        "engines.yaml",
        "apiVersion: longhorn.io/v1beta1\nkind: Engine\nspec:\n  'f:***HIDDEN***': 1\n  \
         'f:***HIDDEN***': 2\n",
    );
    put(
        "im.yaml",
        "apiVersion: longhorn.io/v1beta1\nkind: InstanceManager\nip: ***HIDDEN***\n",
    );
    put(
        "crd.json",
        r#"{"apiVersion":"longhorn.io/v1beta1","kind":"EngineList","items":[{"metadata":{"na"#,
    );
    put("note.yaml", "kind: report\nresult: ok\n");
    let beside = audit();
    assert!(
        beside.contains("Warning: 3 broken files left out: "),
        "{beside}"
    );
    assert!(beside.contains("1 foreign file left out: "), "{beside}");
    assert_eq!(found(&beside), found(&alone));
}
