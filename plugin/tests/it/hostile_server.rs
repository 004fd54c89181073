//! Servers and files that send too much, or what a terminal would obey.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::{fs, thread};

use super::nodelife;

/// Serves plain HTTP on loopback until the test ends: the address, for `--server`.
fn serve(answer: fn(&mut TcpStream) -> std::io::Result<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines.map_while(Result::ok).find(String::is_empty);
            // The client ends it.
            let _ = answer(&mut stream);
        }
    });
    format!("http://{address}")
}

fn stderr(words: &[&str], status: i32) -> String {
    let output = nodelife(words).output().unwrap();
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_endless_answer_is_an_error() {
    let server = serve(|stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n\"")?;
        let spaces = vec![b' '; 1 << 20];
        loop {
            stream.write_all(&spaces)?;
        }
    });
    let error = stderr(&["audit", "--server", &server], 1);
    assert!(error.contains("is longer than 268435456 bytes"), "{error}");
}

#[test]
fn a_load_balancers_page_is_named_with_its_address() {
    let server = serve(|stream| {
        let page = "<html><body>default backend - 404</body></html>";
        let length = page.len();
        let head = format!(
            "HTTP/1.1 404 x\r\ncontent-type: text/html\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + page).as_bytes())
    });
    let error = stderr(&["nodes", "--server", &server], 1);
    let said = format!("error: {server} answers as no Kubernetes API server: <html>");
    assert!(error.starts_with(&said), "{error}");
    let server =
        serve(|stream| stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"));
    let error = stderr(&["nodes", "--server", &server], 1);
    assert!(
        error.contains("as no Kubernetes API server: /version: "),
        "{error}"
    );
}

#[test]
fn no_credentials_go_over_plain_http() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let (send, heads) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head = lines.map_while(Result::ok).take_while(|l| !l.is_empty());
            send.send(head.collect::<Vec<_>>()).unwrap();
            let answer = "HTTP/1.1 500 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            // The client may be gone.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let words = [
        "audit", "-s", &server, "--token", "secret", "--as", "somebody",
    ];
    stderr(&words, 1);
    let head = heads.recv().unwrap().join("\n").to_lowercase();
    assert!(head.contains("impersonate-user: somebody"), "{head}");
    assert!(
        !head.contains("authorization") && !head.contains("secret"),
        "{head}"
    );
}

#[test]
fn a_servers_control_characters_are_removed() {
    let server = serve(|stream| {
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"a\u001b[2Jb\u009b31mc"}"#;
        let length = status.len();
        write!(
            stream,
            "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{status}"
        )
    });
    let words = ["drain", "n1", "--color", "always", "--server", &server];
    let error = stderr(&words, 7);
    assert!(error.contains("a[2Jb31mc"), "{error:?}");
    let rest = error.replace("\u{1b}[0m", "").replace("\u{1b}[1m", "");
    let rest = rest.replace("\u{1b}[31m", "").replace('\n', "");
    assert!(!rest.contains(char::is_control), "{error:?}");
}

#[test]
fn a_files_control_characters_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hostile.json");
    let pod = r#"{"apiVersion":"v1","kind":"List","items":[
        {"apiVersion":"v1","kind":"Node","metadata":{"name":"a\u001b[2J\u202e"}},
        {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p\u001b]0;t\u0007\n\r\u200b","namespace":"n"},"spec":{"nodeName":"gone\u009b2J"}}]}"#;
    fs::write(&path, pod).unwrap();
    let words = ["audit", "--color", "always", "--rule", "NL-POD-001", "-f"];
    let output = nodelife(&[&words[..], &[path.to_str().unwrap()]].concat())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("p]0;t") && text.contains("gone2J"),
        "{text:?}"
    );
    let obeyed = |c: char| {
        c.is_control() && !['\n', '\u{1b}'].contains(&c) || ['\u{202e}', '\u{200b}'].contains(&c)
    };
    assert!(!text.contains(obeyed), "{text:?}");
    let by_name = [&words[..], &[path.to_str().unwrap(), "-o", "name"]].concat();
    let output = nodelife(&by_name).output().unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    assert!(names.contains("]0;t"), "{names:?}");
    assert!(
        !names.contains(obeyed) && !names.contains('\u{1b}'),
        "{names:?}"
    );
    assert!(
        !text.contains("\u{1b}[2J") && !text.contains("\u{1b}]"),
        "{text:?}"
    );
}
