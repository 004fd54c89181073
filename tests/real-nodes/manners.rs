//! The one program in the images of real nodes' pods: pause, and a server that ends as a test
//! chooses.
//!
//! `manners pause`: the process of a sandbox, and the init of a namespace; it reaps its children.
//!
//! `manners run [--stop now|never|SECONDS] [--exit-after SECONDS] [--serve PORT]`: on SIGTERM it ends
//! at once (the default), never, or after so many seconds; by itself it ends with 0 after so many
//! seconds; on the port it answers each HTTP request with its host's name.
//!
//! `manners get HOST:PORT [PATH]`: prints the body of an HTTP answer; fails unless that is a 200.
//!
//! `manners sleep SECONDS`, `manners show FILE…`: an image of one file has no other programs.
//!
//! It is built by rustc alone, static and without crates, so that it needs nothing in its image. The
//! standard library handles no signals, hence the C functions.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

unsafe extern "C" {
    safe fn alarm(seconds: u32) -> u32;
    safe fn pause() -> i32;
    safe fn _exit(status: i32) -> !;
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
}

const SIGINT: i32 = 2;
const SIGALRM: i32 = 14;
const SIGTERM: i32 = 15;
const SIGCHLD: i32 = 17;
const WNOHANG: i32 = 1;

/// Seconds between SIGTERM and the end.
static DELAY: AtomicU32 = AtomicU32::new(0);

extern "C" fn end(_: i32) {
    _exit(0)
}

extern "C" fn end_later(_: i32) {
    alarm(DELAY.load(Ordering::Relaxed));
}

extern "C" fn reap(_: i32) {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    while unsafe { waitpid(-1, &raw mut status, WNOHANG) } > 0 {}
}

/// The handlers call nothing but functions that a handler may call.
fn on(number: i32, handler: extern "C" fn(i32)) {
    // SAFETY: `handler` is a function of the whole program's life.
    unsafe { signal(number, handler) };
}

/// PID 1 of a namespace ignores each signal that it has no handler for: "never" needs none.
fn stop(manner: &str) -> Option<()> {
    match manner {
        "never" => {}
        "now" => on(SIGTERM, end),
        seconds => {
            DELAY.store(seconds.parse().ok()?, Ordering::Relaxed);
            on(SIGALRM, end);
            on(SIGTERM, end_later);
        }
    }
    Some(())
}

fn run(flags: &[&str]) -> Option<ExitCode> {
    let mut manner = "now";
    let mut listener = None;
    let mut life = None;
    for pair in flags.chunks(2) {
        match pair {
            ["--stop", value] => manner = value,
            ["--exit-after", seconds] => life = Some(Duration::from_secs(seconds.parse().ok()?)),
            ["--serve", port] => listener = Some(TcpListener::bind(format!("0.0.0.0:{port}")).ok()?),
            _ => return None,
        }
    }
    stop(manner)?;
    println!("started; on SIGTERM: {manner}");
    if let Some(listener) = listener {
        std::thread::spawn(move || serve(&listener));
    }
    if let Some(life) = life {
        std::thread::sleep(life);
        return Some(ExitCode::SUCCESS);
    }
    loop {
        pause();
    }
}

fn serve(listener: &TcpListener) {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    for mut stream in listener.incoming().flatten() {
        let name = name.clone();
        std::thread::spawn(move || {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
            let _ = stream.read(&mut [0; 2048]);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", name.len());
            let _ = stream.write_all((head + &name).as_bytes());
        });
    }
}

fn get(address: &str, path: &str) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    // In one write: a server that answers the first piece and closes would reset the rest.
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    print!("{body}");
    Ok(head.split(' ').nth(1) == Some("200"))
}

fn command(words: &[&str]) -> Option<ExitCode> {
    let done = |success: std::io::Result<bool>| match success {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    };
    match words {
        ["pause"] => {
            on(SIGTERM, end);
            on(SIGINT, end);
            on(SIGCHLD, reap);
            reap(0);
            loop {
                pause();
            }
        }
        ["run", flags @ ..] => run(flags),
        ["get", address] => Some(done(get(address, "/"))),
        ["get", address, path] => Some(done(get(address, path))),
        ["sleep", seconds] => {
            std::thread::sleep(Duration::from_secs(seconds.parse().ok()?));
            Some(ExitCode::SUCCESS)
        }
        ["show", files @ ..] => Some(done(files.iter().try_fold(true, |_, file| {
            std::io::stdout().write_all(&std::fs::read(file)?)?;
            Ok(true)
        }))),
        _ => None,
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    command(&words).unwrap_or_else(|| {
        eprintln!("error: not one of the commands: {words:?}");
        ExitCode::from(2)
    })
}
