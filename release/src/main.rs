//! `cargo run -p nodelife-release`: makes a release in `target/release-archives`.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use nodelife_release::archive::{self, Entry};
use nodelife_release::platform::{ALL, Platform};
use nodelife_release::{ROOT, VERSION, evidence, krew, notices, published, target};

/// The plugin that people download is no larger, in bytes.
const LARGEST: usize = 15_000_000;

const IMAGE: &str = "x86_64-unknown-linux-musl";

/// Builds the plugin for each target and packs it: archives, checksums, bills of materials and
/// provenance.
///
/// Without --target, all that this machine can build: the others are named, with why.
#[derive(Parser)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  # What this machine can link by itself
  cargo run -p nodelife-release

  # One platform; that it cannot be built is a failure
  cargo run -p nodelife-release -- --target x86_64-unknown-linux-musl

  # For people to install it from there
  cargo run -p nodelife-release -- --base-url https://get.example.com/nodelife

  # Every platform, with cargo-zigbuild to link and an SDK of macOS in SDKROOT
  cargo run -p nodelife-release -- --builder zigbuild"
)]
struct Arguments {
    /// Target to build for; may be repeated [default: all that can be built here]
    #[arg(long = "target", value_name = "TRIPLE")]
    targets: Vec<String>,
    /// The command of cargo that builds: `build`, or `zigbuild` to link for other systems
    #[arg(long, default_value = "build", value_name = "COMMAND")]
    builder: String,
    /// Where you will publish it, in a folder for each version: also writes krew's manifest, Homebrew's
    /// formula, the chart and README's table, which name this address
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Where the release goes
    #[arg(long, default_value = "target/release-archives", value_name = "FOLDER")]
    out: PathBuf,
    #[command(subcommand)]
    part: Option<Part>,
}

/// The parts of `.ci/image`.
#[derive(Subcommand)]
enum Part {
    /// Builds the program of an image
    Program { name: String },
    /// Writes NAME.cdx.json and NAME.intoto.json for an image
    Image {
        name: String,
        /// The image's SHA-256, without the word sha256
        digest: String,
        /// Where both go
        folder: PathBuf,
    },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.part {
        None => archives(&arguments),
        Some(Part::Program { name }) => target::build("build", &name, "release", IMAGE).map(drop),
        Some(Part::Image {
            name,
            digest,
            folder,
        }) => {
            let materials = evidence::materials(&name, IMAGE)?;
            fs::write(folder.join(format!("{name}.cdx.json")), materials)?;
            let subject = (name.clone(), digest);
            attest(&folder, &name, &[subject], ".ci/image")
        }
    }
}

/// Writes the provenance, or says why there is none: whoever tries a change has no commit of it.
fn attest(folder: &Path, name: &str, subjects: &[(String, String)], command: &str) -> Result<()> {
    let path = folder.join(format!("{name}.intoto.json"));
    match evidence::provenance(subjects, command) {
        Ok(provenance) => fs::write(path, provenance)?,
        Err(why) => writeln!(
            std::io::stderr(),
            "not written: {}: {why:#}",
            path.display()
        )?,
    }
    Ok(())
}

fn archives(arguments: &Arguments) -> Result<()> {
    let platforms = match arguments.targets.as_slice() {
        [] => ALL.to_vec(),
        targets => targets
            .iter()
            .map(|target| Platform::of(target))
            .collect::<Result<_>>()?,
    };
    let out = Path::new(ROOT).join(&arguments.out);
    fs::create_dir_all(&out).with_context(|| format!("failed to make {}", out.display()))?;
    let (mut built, mut missing) = (Vec::new(), Vec::new());
    for platform in platforms {
        let (builder, target) = (&arguments.builder, platform.target);
        match target::build(builder, "kubectl-nodelife", "dist", target) {
            Ok(folder) => built.push((platform, folder.join(platform.program()))),
            Err(why) if arguments.targets.is_empty() => missing.push((platform, why)),
            Err(why) => return Err(why),
        }
    }
    let common = common()?;
    let (mut archives, mut files) = (Vec::new(), Vec::new());
    for (platform, path) in &built {
        let mut entries = common.clone();
        let notices = notices::of("kubectl-nodelife", platform.target)?;
        entries.push(Entry::text("THIRD-PARTY-NOTICES.txt", notices));
        entries.push(Entry::program(platform.program(), program(path)?));
        let name = platform.archive(VERSION);
        let sha256 = archive::write(&out.join(&name), &entries)?;
        archives.push((*platform, sha256.clone()));
        let materials = evidence::materials("kubectl-nodelife", platform.target)?;
        let beside = format!("{name}.cdx.json");
        fs::write(out.join(&beside), &materials)?;
        files.push((name, sha256));
        files.push((beside, archive::sha256(materials.as_bytes())));
    }
    let mut sums = String::new();
    for (name, sha256) in &files {
        writeln!(sums, "{sha256}  {name}")?;
    }
    let command = "cargo run -p nodelife-release";
    attest(&out, &format!("nodelife_{VERSION}"), &files, command)?;
    fs::write(out.join("SHA256SUMS"), &sums)?;
    if let Some(base_url) = &arguments.base_url {
        publish(&out, base_url, &archives)?;
    }
    write!(std::io::stdout(), "{sums}")?;
    for (platform, why) in &missing {
        writeln!(
            std::io::stderr(),
            "not built: {}: {why:#}",
            platform.archive(VERSION)
        )?;
    }
    if archives.is_empty() {
        bail!("nothing could be built");
    }
    Ok(())
}

/// Writes what names the address.
fn publish(out: &Path, base_url: &str, archives: &[(Platform, String)]) -> Result<()> {
    let manifest = serde_saphyr::to_string(&krew::Plugin::new(base_url, VERSION, archives))?;
    fs::write(out.join(krew::AT), manifest)?;
    let formula = published::formula(base_url, VERSION, archives);
    fs::write(out.join("nodelife.rb"), formula)?;
    let table = published::table(base_url, VERSION, archives);
    fs::write(out.join("INSTALL.md"), table)?;
    let chart = Path::new(ROOT).join("manifests/chart");
    let mut entries = Vec::new();
    for part in ["", "templates"] {
        for entry in fs::read_dir(chart.join(part))? {
            let path = entry?.path();
            if path.is_file() {
                let name = Path::new("nodelife").join(path.strip_prefix(&chart)?);
                entries.push(Entry::text(&name.to_string_lossy(), fs::read(&path)?));
            }
        }
    }
    archive::write(&out.join(published::chart(VERSION)), &entries).map(drop)
}

fn common() -> Result<Vec<Entry>> {
    let read = |name| Ok(Entry::text(name, fs::read(Path::new(ROOT).join(name))?));
    ["LICENSE", "README.md"].into_iter().map(read).collect()
}

fn program(path: &Path) -> Result<Vec<u8>> {
    let program = fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
    if program.len() > LARGEST {
        bail!(
            "{} has {} bytes, and {LARGEST} is the most that people should have to download",
            path.display(),
            program.len()
        );
    }
    Ok(program)
}
