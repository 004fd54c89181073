//! Fuzz target: a folder of files, as an archive. Each input is refused, or every rule runs on it;
//! an archive and a folder with the same files are read alike.
//!
//! The first byte picks between the bytes of an archive (checksums and all) and the content of its
//! files: name, zero byte, text, zero byte, and so on.

#![no_main]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use nodelife_cluster::snapshot::{self, FileError, FromFiles};
use nodelife_audit::Selection;

const RAW_TAR: u8 = b't';
const RAW_GZIP: u8 = b'z';

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    // The reader takes files; these are never written to a disk.
    let place = PathBuf::from(format!("/dev/shm/nodelife-fuzz-{}", std::process::id()));
    match *choice {
        RAW_TAR => check(read(&place.with_extension("tar"), bytes)),
        RAW_GZIP => check(read(&place.with_extension("tgz"), bytes)),
        choice => whole(&place, choice, &files(bytes)),
    }
});

/// Name and content of each file; those whose name ends with `.gz` are packed.
fn files(bytes: &[u8]) -> Vec<(&[u8], Vec<u8>)> {
    let mut parts = bytes.split(|byte| *byte == 0);
    let mut files = Vec::new();
    while let (Some(name), Some(content)) = (parts.next(), parts.next()) {
        let content = if name.ends_with(b".gz") {
            gzip(content)
        } else {
            content.to_vec()
        };
        files.push((name, content));
    }
    files
}

/// Reads an archive of the files; also packed and as a folder if their names allow it.
fn whole(place: &Path, choice: u8, files: &[(&[u8], Vec<u8>)]) {
    let mut tar = Vec::new();
    for (name, content) in files {
        let mut header = tar::Header::new_ustar();
        // Longer names would need a header of their own; the raw archives have some.
        for (to, from) in header.as_old_mut().name.iter_mut().zip(*name) {
            *to = *from;
        }
        let kind = if choice & 1 == 0 { b'0' } else { choice };
        header.set_entry_type(tar::EntryType::new(kind));
        header.set_size(content.len().try_into().expect("the size fits"));
        header.set_cksum();
        tar.extend_from_slice(header.as_bytes());
        tar.extend_from_slice(content);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    let plain = read(&place.with_extension("tar"), &tar);
    if choice & 2 == 0 {
        let packed = read(&place.with_extension("tar.gz"), &gzip(&tar));
        compare(&plain, &packed);
    }
    let names: Vec<_> = files.iter().map(|(name, _)| *name).collect();
    if choice & 1 == 0 && names.is_sorted_by(|a, b| a < b) && names.iter().all(|n| is_plain(n)) {
        let _ = fs::remove_dir_all(place);
        fs::create_dir(place).expect("a folder can be made");
        for (name, content) in files {
            let name = str::from_utf8(name).expect("the name is plain");
            fs::write(place.join(name), content).expect("a file can be written");
        }
        compare(&plain, &snapshot::read(&[place.to_owned()]));
    }
    check(plain);
}

/// Whether this can be the name of a file in a folder.
fn is_plain(name: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_".contains(byte);
    (1..100).contains(&name.len()) && name.iter().all(is_plain) && name != b"." && name != b".."
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(content);
    assert!(written.is_ok(), "{written:?}");
    encoder.finish().expect("the content can be packed")
}

fn read(path: &Path, bytes: &[u8]) -> Result<FromFiles, FileError> {
    let written = fs::File::create(path).and_then(|mut file| file.write_all(bytes));
    assert!(written.is_ok(), "{written:?}");
    snapshot::read(&[path.to_owned()])
}

fn compare(one: &Result<FromFiles, FileError>, other: &Result<FromFiles, FileError>) {
    match (one, other) {
        (Ok(one), Ok(other)) => {
            assert_eq!(one.snapshot, other.snapshot);
            assert_eq!(one.left_out, other.left_out);
        }
        (Err(_), Err(_)) => {}
        (one, other) => panic!("{one:?}\n{other:?}"),
    }
}

fn check(read: Result<FromFiles, FileError>) {
    let Ok(read) = read else {
        return;
    };
    let selection = Selection {
        target: "1.37".parse().ok(),
        ..Selection::default()
    };
    let audit = nodelife_audit::audit(&read.snapshot, &selection, Timestamp::UNIX_EPOCH);
    assert!(audit.checked + audit.skipped.len() == nodelife_audit::all().count());
}
