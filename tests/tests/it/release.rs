//! Tests of a release archive in an empty directory.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;

use nodelife_release::archive::{self, Entry};
use nodelife_release::platform::Platform;
use nodelife_release::{VERSION, notices};
use nodelife_tests::kubectl::run;
use nodelife_tests::program::{self, GoProgram};
use tokio::process::Command;

#[tokio::test]
async fn kubectl_needs_only_the_archive_on_path() {
    let platform = Platform::of("x86_64-unknown-linux-musl").unwrap();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(platform.archive(VERSION));
    let plugin = fs::read(program::nodelife().unwrap()).unwrap();
    let entries = [
        Entry::program(platform.program(), plugin),
        Entry::text("LICENSE", fs::read("../LICENSE").unwrap()),
        Entry::text(
            "THIRD-PARTY-NOTICES.txt",
            notices::of("kubectl-nodelife", platform.target).unwrap(),
        ),
    ];
    archive::write(&path, &entries).unwrap();

    let bin = home.path().join("bin");
    let file = flate2::read::GzDecoder::new(File::open(&path).unwrap());
    tar::Archive::new(file).unpack(&bin).unwrap();
    let mode = fs::metadata(bin.join("kubectl-nodelife"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    let kubectl = |words: &[&str]| {
        let mut command = Command::new(GoProgram::Kubectl.path().unwrap());
        command.args(words).env_clear().env("HOME", home.path());
        // bash is for the completion's script.
        command.env(
            "PATH",
            std::env::join_paths([bin.as_path(), "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap(),
        );
        command
    };
    let version = run(kubectl(&["nodelife", "version"]), "").await.unwrap();
    let version = version.success().unwrap();
    let expected = format!("kubectl-nodelife {} (commit ", &VERSION[1..]);
    assert!(version.starts_with(&expected), "{version}");

    // Completion is one command away, and needs nothing else either.
    let install = ["nodelife", "completion", "kubectl", "--install"];
    run(kubectl(&install), "").await.unwrap().success().unwrap();
    let answer = run(kubectl(&["__complete", "nodelife", "au"]), "")
        .await
        .unwrap();
    assert_eq!(
        answer.stdout,
        "audit\tReports what is wrong with the nodes\n:4\n"
    );

    // Nothing is left elsewhere in the home than kubectl's own.
    let mut left: Vec<_> = fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".kube")
        .collect();
    left.sort();
    assert_eq!(left, ["bin".to_owned(), platform.archive(VERSION)]);
}
