//! Files of KubeletConfiguration: those of flags, and those among the files of `-f`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nodelife_audit::kubelet_start::Document;
use nodelife_core::allocatable::KubeletFiles;
use nodelife_core::text::Str;

use super::files;
use crate::cli::{AuditArgs, InputArgs};
use crate::exit::UsageError;

/// The texts of a file of `--config` and of the drop-ins of a folder of `--config-dir`.
pub(crate) fn read(file: Option<&Path>, folder: Option<&Path>) -> Result<KubeletFiles> {
    let file = file.map(text).transpose()?;
    let drop_ins = folder.map(drop_ins).transpose()?.unwrap_or_default();
    Ok(KubeletFiles { file, drop_ins })
}

/// The files of kubelets among those of `-f`, by path, and the input without them.
/// Fails if there are only files of kubelets, and it is not known for which version.
pub(crate) fn of_input(args: &AuditArgs) -> Result<(BTreeMap<Str, KubeletFiles>, InputArgs)> {
    let mut input = args.input.clone();
    let all = files::expand(&input.files)?;
    let (found, others): (Vec<_>, _) = all.into_iter().partition(|path| is_configuration(path));
    if args.target.is_none() {
        return match found.first() {
            Some(first) if others.is_empty() => Err(UsageError(format!(
                "{} is a configuration of a kubelet: name the version that is to start with it, \
                 --target VERSION",
                first.display()
            ))
            .into()),
            _ => Ok((BTreeMap::new(), input)),
        };
    }
    input.files = others;
    let folder = args.kubelet_config_dir.as_deref();
    let read = found.iter().map(|path| {
        let name = path.to_string_lossy();
        Ok((Str::from(name.as_ref()), read(Some(path), folder)?))
    });
    Ok((read.collect::<Result<_>>()?, input))
}

/// Whether a file is one of `--config`, broken or not.
fn is_configuration(path: &Path) -> bool {
    /// No configuration is longer.
    const MOST: u64 = 1 << 20;
    let metadata = fs::metadata(path);
    if !metadata.is_ok_and(|file| file.is_file() && file.len() <= MOST) {
        return false;
    }
    let Ok(file) = text(path) else {
        return false;
    };
    let mut lines = file.lines();
    let says_so = lines.any(|line| {
        let line = line.trim_start_matches([' ', '\t', '{', '"', '\'']);
        line.starts_with("kind") && line.contains("KubeletConfiguration")
            || line.contains("\"KubeletConfiguration\"")
    });
    says_so && Document::kind(&file).is_none_or(|kind| kind == "KubeletConfiguration")
}

fn text(path: &Path) -> Result<Str> {
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("failed to read {}", path.display()))?;
    Ok(text.into())
}

/// The drop-ins of a folder in the kubelet's order: `*.conf`, by path
/// (`cmd/kubelet/app/server.go`, `mergeKubeletConfigurations`, v1.36.3).
fn drop_ins(folder: &Path) -> Result<Vec<(Str, Str)>> {
    let mut paths = Vec::new();
    walk(folder, &mut paths).with_context(|| format!("failed to read {}", folder.display()))?;
    let read = paths.iter().map(|path| {
        let name = path.to_string_lossy();
        Ok((Str::from(name.as_ref()), text(path)?))
    });
    read.collect()
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, paths)?;
        } else if path.extension() == Some("conf".as_ref()) {
            paths.push(path);
        }
    }
    Ok(())
}
