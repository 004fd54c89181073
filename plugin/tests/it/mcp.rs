//! `mcp`: conversations, honest and hostile ones.

use std::io::Write as _;
use std::process::{Output, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::nodelife;

fn session(words: &[&str], input: &[u8]) -> Output {
    let mut command = nodelife(words);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = pipes.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// The answers to these messages, about the cluster of the examples.
fn answers(messages: &[Value]) -> Vec<Value> {
    let lines: Vec<String> = messages.iter().map(ToString::to_string).collect();
    let words = ["mcp", "-f", "examples/faulty-cluster.json"];
    let output = session(&words, format!("{}\n", lines.join("\n")).as_bytes());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn request(id: u32, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: u32, tool: &str, arguments: &Value) -> Value {
    request(
        id,
        "tools/call",
        &json!({"name": tool, "arguments": arguments}),
    )
}

/// The answer's own text, which is JSON.
fn document(answer: &Value) -> Value {
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let data = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(data.contains("no instructions"), "{data}");
    let text = answer["result"]["content"][1]["text"].as_str().unwrap();
    serde_json::from_str::<Value>(text).unwrap()["document"].clone()
}

#[test]
fn an_agent_asks_and_is_answered() {
    let initialize = json!({"protocolVersion": "2025-03-26", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    let answers = answers(&[
        request(1, "initialize", &initialize),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        request(2, "tools/list", &Value::Null),
        call(3, "drainable", &json!({})),
        call(4, "audit", &json!({"rules": ["PDB"]})),
        call(5, "explain", &json!({"what": "NL-PDB-001"})),
        call(6, "explain", &json!({"what": "zones"})),
        call(7, "plan", &json!({"nodes": ["no-such-node"]})),
    ]);
    let ids: Vec<u64> = answers
        .iter()
        .map(|one| one["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-03-26");
    let tools = answers[1]["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["drainable", "plan", "audit", "explain"]);
    for tool in tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], true);
        assert!(!tool.to_string().contains("null"), "{tool}");
    }
    assert_eq!(document(&answers[2])["kind"], "DrainableReport");
    assert_eq!(document(&answers[3])["kind"], "AuditReport");
    assert_eq!(document(&answers[4])["id"], "NL-PDB-001");
    assert_eq!(document(&answers[5])["kind"], "ZoneReport");
    let missing = answers[6]["result"].to_string();
    assert!(missing.contains("no-such-node"), "{missing}");
    let node = document(&answers[2])["nodes"][0]["name"].clone();
    let plan = self::answers(&[call(1, "plan", &json!({"nodes": [node]}))]);
    assert_eq!(document(&plan[0])["kind"], "DrainPlan");
}

/// What a client says is a name or a value, never a flag.
#[test]
fn no_word_becomes_a_flag() {
    for word in [
        "--dry-run=none",
        "-f/etc/passwd",
        "--kubeconfig=/dev/null",
        "--",
        "-oyaml",
        "\u{0}",
    ] {
        let answers = answers(&[
            call(1, "drainable", &json!({"nodes": [word]})),
            call(2, "plan", &json!({"nodes": [word], "force": true})),
            call(3, "audit", &json!({"rules": [word]})),
            call(4, "drainable", &json!({"selector": word})),
            call(5, "explain", &json!({"what": word})),
            call(6, "explain", &json!({"what": "failure", "nodes": [word]})),
        ]);
        assert_eq!(answers.len(), 6);
        for answer in &answers {
            let refused = answer["error"]["code"] == -32602 || answer["result"]["isError"] == true;
            // Labels may be called anything here.
            let nobody = answer["id"] == 4 && answer.to_string().contains("no nodes found");
            assert!(refused || nobody, "{word}: {answer}");
        }
    }
}

#[test]
fn what_is_no_request_is_answered_with_an_error() {
    for (message, code) in [
        ("{", -32700),
        ("5", -32600),
        ("[]", -32600),
        ("null", -32600),
        (r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": {}, "method": "ping"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": 5}"#, -32600),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}"#,
            -32601,
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "drain"}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "audit", "arguments": {"force": true}}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "plan"}}"#,
            -32602,
        ),
    ] {
        let message = message.replace('\n', " ");
        let input = format!("{message}\n{}\n", request(7, "ping", &Value::Null));
        let output = session(&["mcp"], input.as_bytes());
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(lines[0]["error"]["code"], code, "{message}: {text}");
        assert_eq!(lines[1], json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
    }
}

fn value() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "ping",
        "tools/call",
        "drain",
        "plan",
        "nodes",
        "--force",
        "2.0",
        "\u{202e}",
        "arguments",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        words.prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let keys = prop::sample::select(vec!["jsonrpc", "id", "method", "params", "name", "nodes"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..5).prop_map(|fields| {
                let fields = fields
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value));
                Value::Object(fields.collect())
            }),
        ]
    })
}

/// Whatever is sent, each line of the answer is one of JSON-RPC, and the server ends with its input.
#[test]
fn hostile_sequences_end_no_server() {
    let mut runner = TestRunner::deterministic();
    let mut input = vec![b'x'; 3 << 20];
    input.push(b'\n');
    let mut cases = Vec::new();
    for _ in 0..200 {
        let message = value().new_tree(&mut runner).unwrap().current();
        cases.extend(format!("{message}\n").into_bytes());
    }
    input.extend(cases);
    let output = session(&["mcp", "-f", "examples/healthy-cluster.json"], &input);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
    }
}
