//! Tests of the archives and of krew's manifest.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;

use nodelife_release::archive::{self, Entry};
use nodelife_release::platform::{ALL, Platform};
use nodelife_release::{VERSION, evidence, krew, notices, published, target};
use serde_json::Value;

const BASE_URL: &str = "https://get.example.com/nodelife/";

fn archives() -> Vec<(Platform, String)> {
    let sha256 = "0123456789abcdef".repeat(4);
    let all = ALL.into_iter();
    all.map(|platform| (platform, sha256.clone())).collect()
}

fn manifest() -> Value {
    let archives = archives();
    serde_saphyr::from_str(
        &serde_saphyr::to_string(&krew::Plugin::new(BASE_URL, VERSION, &archives)).unwrap(),
    )
    .unwrap()
}

/// `ValidatePlugin` and `validatePlatform`, line by line (`sigs.k8s.io/krew` v0.5.0,
/// `internal/index/validation/validate.go`), and what the index's own guide adds.
#[test]
fn the_manifest_keeps_krews_rules() {
    let plugin = manifest();
    assert_eq!(
        plugin["apiVersion"],
        "krew.googlecontainertools.github.com/v1alpha2"
    );
    assert_eq!(plugin["kind"], "Plugin");
    let name = plugin["metadata"]["name"].as_str().unwrap();
    assert!(
        name.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
        "{name}"
    );
    assert!(!name.starts_with("kube"), "{name}");
    let spec = &plugin["spec"];
    let short = spec["shortDescription"].as_str().unwrap();
    assert!(
        !short.is_empty() && !short.contains(['\r', '\n']),
        "{short}"
    );
    assert!(
        short.len() <= 50,
        "longer than a line of `kubectl krew search`: {short}"
    );
    let version = spec["version"].as_str().unwrap().strip_prefix('v').unwrap();
    let numbers: Vec<&str> = version.split('.').collect();
    assert_eq!(numbers.len(), 3, "{version}");
    assert!(
        numbers.iter().all(|number| number.parse::<u32>().is_ok()),
        "{version}"
    );
    let platforms = spec["platforms"].as_array().unwrap();
    let mut seen = BTreeSet::new();
    for platform in platforms {
        let uri = platform["uri"].as_str().unwrap();
        assert!(
            uri.starts_with("https://") && uri.ends_with(".tar.gz"),
            "{uri}"
        );
        let sha256 = platform["sha256"].as_str().unwrap();
        assert_eq!(sha256.len(), 64);
        assert!(
            sha256.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')),
            "{sha256}"
        );
        let labels = platform["selector"]["matchLabels"].as_object().unwrap();
        let keys: Vec<&str> = labels.keys().map(String::as_str).collect();
        assert_eq!(keys, ["arch", "os"]);
        let os = labels["os"].as_str().unwrap();
        let bin = platform["bin"].as_str().unwrap();
        let name = match os {
            "windows" => "kubectl-nodelife.exe",
            _ => "kubectl-nodelife",
        };
        assert_eq!(bin, name, "{os}");
        assert!(
            platform.get("files").is_none(),
            "all files are installed, LICENSE too"
        );
        assert!(seen.insert((os.to_owned(), labels["arch"].as_str().unwrap().to_owned())));
    }
    assert_eq!(seen.len(), ALL.len());
}

/// Homebrew takes the block of its own system, and the shell a line as it is.
#[test]
fn what_is_published_names_the_address_alone() {
    let formula = published::formula(BASE_URL, "v1.2.3", &archives());
    for (system, arch) in [
        ("on_macos", "darwin_arm64"),
        ("on_linux", "linux_amd64"),
        ("on_linux", "linux_arm64"),
    ] {
        let (_, block) = formula.split_once(system).unwrap();
        let url = format!("{BASE_URL}v1.2.3/nodelife_v1.2.3_{arch}.tar.gz");
        assert!(block.contains(&format!("url \"{url}\"")), "{formula}");
    }
    assert_eq!(
        formula.matches(" do\n").count() + 2,
        formula.matches("end\n").count()
    );
    assert!(!formula.contains("windows"), "{formula}");
    let table = published::table(BASE_URL, "v1.2.3", &archives());
    assert_eq!(table.lines().count(), 2 + 3 + ALL.len(), "{table}");
    for text in [&formula, &table] {
        assert_eq!(
            text.matches(BASE_URL).count(),
            text.matches("://").count(),
            "{text}"
        );
    }
}

#[test]
fn archives_are_reproducible() {
    let folder = tempfile::tempdir().unwrap();
    let entries = [
        Entry::text("LICENSE", "words"),
        Entry::program("kubectl-nodelife", vec![0x7f; 1000]),
    ];
    let mut turned = entries.to_vec();
    turned.reverse();
    let one = archive::write(&folder.path().join("one"), &entries).unwrap();
    let two = archive::write(&folder.path().join("two"), &turned).unwrap();
    assert_eq!(one, two);
    let unpacked = folder.path().join("unpacked");
    let file = std::fs::File::open(folder.path().join("one")).unwrap();
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(file));
    for entry in tar.entries().unwrap() {
        let entry = entry.unwrap();
        let header = entry.header();
        assert_eq!((header.mtime().unwrap(), header.uid().unwrap()), (0, 0));
        let runs = entry.path().unwrap().ends_with("kubectl-nodelife");
        assert_eq!(header.mode().unwrap() & 0o111 != 0, runs);
    }
    assert!(!unpacked.exists());
}

#[test]
fn says_how_to_build_what_cannot_be_built_here() {
    assert!(target::folder().unwrap().is_dir());
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    assert!(target::installed(&host).is_ok());
    let error = target::installed("mips-unknown-linux-gnu").unwrap_err();
    assert_eq!(
        error.to_string(),
        "Rust's standard library for mips-unknown-linux-gnu is missing: \
         rustup target add mips-unknown-linux-gnu"
    );
}

#[test]
fn every_linked_crate_has_its_licence_in_the_notices() {
    let page = notices::of("kubectl-nodelife", "x86_64-unknown-linux-musl").unwrap();
    for name in ["clap 4", "kube 5", "ring 0.17", "rustls 0.23", "tokio 1"] {
        assert!(page.contains(&format!("\n{name}")), "{name}");
    }
    // Linked into no plugin: tests and builds use these.
    for name in ["insta ", "proptest ", "cc 1"] {
        assert!(!page.contains(&format!("\n{name}")), "{name}");
    }
    for text in [
        "Permission is hereby granted, free of charge",
        "Apache License",
        "ISC",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn the_bill_of_materials_has_the_linked_crates_with_their_checksums() {
    let text = evidence::materials("nodelife-webhook", "x86_64-unknown-linux-musl").unwrap();
    let bill: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(bill["metadata"]["component"]["name"], "nodelife-webhook");
    let components = bill["components"].as_array().unwrap();
    for component in components {
        let sum = component["hashes"][0]["content"].as_str().unwrap();
        assert_eq!(sum.len(), 64, "{component}");
        let licence = component["licenses"][0]["expression"].as_str().unwrap();
        assert!(!licence.is_empty() && !licence.contains('/'), "{component}");
    }
    let has = |name: &str| components.iter().any(|one| one["name"] == name);
    assert!(has("rustls") && has("ring") && !has("proptest") && !has("cc"));
}

#[test]
fn the_provenance_names_the_subjects_and_the_commit() {
    let subject = ("one.tar.gz".to_owned(), "ab".repeat(32));
    match evidence::provenance(&[subject], "make") {
        Ok(text) => {
            let statement: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(statement["subject"][0]["digest"]["sha256"], "ab".repeat(32));
            let definition = &statement["predicate"]["buildDefinition"];
            let commit = &definition["resolvedDependencies"][0]["digest"]["gitCommit"];
            assert_eq!(commit.as_str().unwrap().len(), 40);
        }
        // A changed tree, or one without git.
        Err(error) => {
            let said = format!("{error:#}");
            assert!(said.contains("commit") || said.contains("git"), "{said}");
        }
    }
}
