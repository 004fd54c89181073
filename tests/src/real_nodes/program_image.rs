//! The images of the programs, for real pods: as the repository's Containerfile makes them.

use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::image::Image;
use crate::program;

const CONTAINERFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Containerfile");

/// A program's image, as a file for [`super::RealNode::load_image`].
#[derive(Debug, Clone, Copy)]
pub struct ProgramImage {
    /// The stage of the Containerfile.
    stage: &'static str,
    /// The image's name, for `newName` of a kustomization.
    pub name: &'static str,
    /// Names an archive with the image to take, as `.ci/image` builds it.
    variable: &'static str,
    /// This workspace's own program.
    program: fn() -> Result<PathBuf>,
}

impl ProgramImage {
    pub const WEBHOOK: Self = Self {
        stage: "webhook",
        name: "nodelife.test/nodelife-webhook",
        variable: "NODELIFE_WEBHOOK_IMAGE",
        program: program::webhook,
    };
    pub const CONTROLLER: Self = Self {
        stage: "controller",
        name: "nodelife.test/nodelife-controller",
        variable: "NODELIFE_CONTROLLER_IMAGE",
        program: program::controller,
    };
    pub const TAG: &str = "1";

    /// Writes the image into `folder`. It has this workspace's own program, or is the image in the
    /// archive that the variable names.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        self.write_as(folder, &format!("{}:{}", self.name, Self::TAG))
    }

    /// The same with another name and tag.
    pub fn write_as(&self, folder: &Path, name: &str) -> Result<PathBuf> {
        let image = folder.join(format!("nodelife-{}.tar", self.stage));
        match env::var_os(self.variable) {
            Some(archive) => rename(Path::new(&archive), &image, name)?,
            None => self.pack(folder, &image, name)?,
        }
        Ok(image)
    }

    fn pack(&self, folder: &Path, image: &Path, full_name: &str) -> Result<()> {
        let text = fs::read_to_string(CONTAINERFILE).context("failed to read the Containerfile")?;
        let stage = stage(&text, self.stage).context("failed to understand the Containerfile")?;
        let name = Path::new(&stage.program).file_name();
        let program = folder.join(name.context("a program has a name")?);
        let built = (self.program)()?;
        let mut strip = Command::new("strip");
        strip.arg("-o").args([&program, &built]);
        // It makes the image small, and nothing else.
        if !strip.status().is_ok_and(|status| status.success()) {
            fs::copy(&built, &program).context("failed to copy the program")?;
        }
        let root = format!("/{}", program.file_name().unwrap_or_default().display());
        let (entry, arguments) = stage.entrypoint.split_first().context("an entrypoint")?;
        ensure!(
            stage.program == root && *entry == root,
            "the Containerfile's program does not lie in the root, or another is its entrypoint"
        );
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        Image {
            names: &[full_name],
            program: &program,
            libraries: &libraries(&built)?,
            arguments: &arguments,
            user: &stage.user,
        }
        .write(image)
    }
}

/// Copies an image with another name.
fn rename(archive: &Path, image: &Path, name: &str) -> Result<()> {
    let file =
        File::open(archive).with_context(|| format!("failed to open {}", archive.display()))?;
    let mut from = tar::Archive::new(file);
    let mut to = tar::Builder::new(File::create(image)?);
    let mut is_renamed = false;
    for entry in from.entries()? {
        let mut entry = entry?;
        let mut header = entry.header().clone();
        let path = entry.path()?.into_owned();
        if path != Path::new("index.json") {
            to.append_data(&mut header, path, entry)?;
            continue;
        }
        let mut text = String::new();
        entry.read_to_string(&mut text)?;
        let index = named(&text, name)?;
        header.set_size(index.len() as u64);
        to.append_data(&mut header, path, index.as_bytes())?;
        is_renamed = true;
    }
    ensure!(
        is_renamed,
        "{} is no OCI archive: it has no index.json",
        archive.display()
    );
    to.finish().context("failed to write an image")
}

/// What the Containerfile says of an image.
#[derive(Debug, PartialEq, Eq)]
struct Stage {
    /// Where the program lies.
    program: String,
    user: String,
    entrypoint: Vec<String>,
}

fn stage(containerfile: &str, name: &str) -> Result<Stage> {
    let mut lines = containerfile.lines();
    let begins =
        |line: &str| line.starts_with("FROM scratch ") && line.split(' ').next_back() == Some(name);
    lines.find(|line| begins(line)).context("no such stage")?;
    let lines: Vec<_> = lines.take_while(|line| !line.starts_with("FROM")).collect();
    let argument = |instruction: &str| {
        let mut arguments = lines
            .iter()
            .filter_map(|line| line.strip_prefix(instruction)?.strip_prefix(' '));
        match (arguments.next(), arguments.next()) {
            (Some(one), None) => Ok(one),
            _ => bail!("not one {instruction} in the stage {name}"),
        }
    };
    let copied = argument("COPY")?.split(' ').next_back();
    Ok(Stage {
        program: copied.context("a target of COPY")?.to_owned(),
        user: argument("USER")?.to_owned(),
        entrypoint: serde_json::from_str(argument("ENTRYPOINT")?)?,
    })
}

/// The libraries that a program is linked with, and its dynamic linker; none if it is static.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output();
    let output = output.context("failed to run ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(!text.contains("not found"), "a library is missing: {text}");
    // `libc.so.6 => /lib/…/libc.so.6 (0x…)` or `/lib64/ld-linux-x86-64.so.2 (0x…)`
    let paths = text.lines().filter_map(|line| {
        let (before, _) = line.trim().rsplit_once(" (0x")?;
        let path = before.rsplit(' ').next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    Ok(paths.collect())
}

/// An OCI index whose one image has the name that containerd reads.
fn named(index: &str, name: &str) -> Result<String> {
    let mut index: Value = serde_json::from_str(index).context("failed to read index.json")?;
    let manifests = index.get_mut("manifests").and_then(Value::as_array_mut);
    match manifests.map(Vec::as_mut_slice) {
        Some([Value::Object(one)]) => {
            let name = json!({"io.containerd.image.name": name});
            one.insert("annotations".to_owned(), name);
        }
        _ => bail!("the archive has not one image"),
    }
    Ok(index.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_containerfile_is_understood() {
        let text = fs::read_to_string(CONTAINERFILE).unwrap();
        for name in ["webhook", "controller"] {
            let program = format!("/nodelife-{name}");
            let expected = Stage {
                program: program.clone(),
                user: "65532:65532".to_owned(),
                entrypoint: vec![program],
            };
            assert_eq!(stage(&text, name).unwrap(), expected);
        }
        let twice = format!("{text}\nUSER 0:0\n");
        assert!(stage(&twice, "webhook").is_err());
    }

    #[test]
    fn an_archive_gets_another_name() {
        let index = r#"{"schemaVersion": 2, "manifests": [{"digest": "sha256:1", "size": 1}]}"#;
        let wanted = "registry.test/webhook:1";
        let renamed: Value = serde_json::from_str(&named(index, wanted).unwrap()).unwrap();
        let name = &renamed["manifests"][0]["annotations"]["io.containerd.image.name"];
        assert_eq!(name, wanted);
        assert_eq!(renamed["manifests"][0]["digest"], "sha256:1");
        assert!(named(r#"{"manifests": []}"#, wanted).is_err());
    }
}
