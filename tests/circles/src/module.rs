//! Module tree of a crate: resolves names to files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path as FilePath, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use proc_macro2::TokenStream;

use crate::graph::Arrow;
use crate::scan::{Path, Scan};

/// A library or a program.
pub(crate) struct Crate {
    pub(crate) files: Vec<PathBuf>,
    modules: Vec<Module>,
}

struct Module {
    name: String,
    parent: Option<usize>,
    file: usize,
    scan: Scan,
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Module(usize),
    /// An item that this module defines.
    Item(usize),
}

/// Re-exports that are being followed: some lead back to themselves.
type Visited = BTreeSet<(usize, String)>;

impl Crate {
    /// `root`: its `lib.rs` or `main.rs`.
    pub(crate) fn read(root: &FilePath) -> Result<Self> {
        let mut read = Self {
            files: Vec::new(),
            modules: Vec::new(),
        };
        let folder = root.parent().context("a file without a folder")?;
        read.file(root, "crate", None, folder)?;
        Ok(read)
    }

    /// `folder`: where the files of its submodules are.
    fn file(
        &mut self,
        path: &FilePath,
        name: &str,
        parent: Option<usize>,
        folder: &FilePath,
    ) -> Result<()> {
        let source = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let source: TokenStream = source
            .parse()
            .map_err(|error| anyhow!("{}: {error}", path.display()))?;
        self.files.push(path.to_owned());
        self.module(source, name, parent, self.files.len() - 1, folder)
    }

    fn module(
        &mut self,
        source: TokenStream,
        name: &str,
        parent: Option<usize>,
        file: usize,
        folder: &FilePath,
    ) -> Result<()> {
        let mut scan = Scan::of(source);
        let submodules = std::mem::take(&mut scan.modules);
        let own = self.modules.len();
        self.modules.push(Module {
            name: name.to_owned(),
            parent,
            file,
            scan,
        });
        for submodule in submodules {
            let name = &submodule.name;
            let inner = folder.join(name);
            if let Some(body) = submodule.body {
                self.module(body, name, Some(own), file, &inner)?;
                continue;
            }
            let beside = self.files.get(file).and_then(|file| file.parent());
            let given = submodule
                .path
                .map(|path| beside.unwrap_or(folder).join(path));
            let usual = [folder.join(format!("{name}.rs")), inner.join("mod.rs")];
            let mut candidates = given.into_iter().chain(usual);
            let path = candidates
                .find(|path| path.exists())
                .with_context(|| format!("no file of the module {name}"))?;
            self.file(&path, name, Some(own), &inner)?;
        }
        Ok(())
    }

    /// Each use of one file's item in another.
    pub(crate) fn arrows(&self) -> Vec<Arrow> {
        let mut arrows = Vec::new();
        for (own, module) in self.modules.iter().enumerate() {
            // What this module has imported needs no second arrow where it is used.
            let mut imported = BTreeSet::new();
            for import in module
                .scan
                .imports
                .iter()
                .filter(|i| !i.exported && !i.glob)
            {
                if self.add_arrows(own, &import.path, &mut arrows) {
                    imported.extend(&import.name);
                }
            }
            for path in &module.scan.paths {
                if path
                    .segments
                    .first()
                    .is_none_or(|first| !imported.contains(first))
                {
                    self.add_arrows(own, path, &mut arrows);
                }
            }
        }
        arrows.sort();
        arrows.dedup();
        arrows
    }

    /// Whether the path leads to an item of the crate.
    fn add_arrows(&self, module: usize, path: &Path, arrows: &mut Vec<Arrow>) -> bool {
        let file = |module: usize| self.modules.get(module).map(|module| module.file);
        let mut item = false;
        for target in self.resolve(module, &path.segments, &mut Visited::new()) {
            let (Target::Item(defining), Some(from)) = (target, file(module)) else {
                continue;
            };
            item = true;
            if let Some(to) = file(defining).filter(|to| *to != from) {
                arrows.push(Arrow {
                    from,
                    to,
                    line: path.line,
                    item: path.to_string(),
                });
            }
        }
        item
    }

    fn resolve(&self, from: usize, segments: &[String], visited: &mut Visited) -> Vec<Target> {
        let mut found = vec![Target::Module(from)];
        for (at, segment) in segments.iter().enumerate() {
            // A function may have the name of a module, in which alone something can be.
            if found.iter().any(|found| matches!(found, Target::Module(_))) {
                found.retain(|found| matches!(found, Target::Module(_)));
            }
            let mut next = Vec::new();
            for target in found {
                match (target, segment.as_str()) {
                    // After an item: a variant or an associated item.
                    (Target::Item(_), _) | (Target::Module(_), "self") => next.push(target),
                    (Target::Module(_), "crate") if at == 0 => next.push(Target::Module(0)),
                    (Target::Module(module), "super") => {
                        next.extend(self.parent(module).map(Target::Module));
                    }
                    (Target::Module(module), name) => {
                        next.extend(self.lookup(module, name, visited));
                    }
                }
            }
            found = next;
        }
        found
    }

    /// What a name is in a module: an item, a submodule, an import, something of a glob.
    fn lookup(&self, module: usize, name: &str, visited: &mut Visited) -> Vec<Target> {
        let key = (module, name.to_owned());
        let Some(here) = self.modules.get(module) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        if here.scan.items.iter().any(|item| item == name) {
            found.push(Target::Item(module));
        }
        let submodules = self.modules.iter().enumerate();
        let named = |m: &Module| m.parent == Some(module) && m.name == name;
        found.extend(
            submodules
                .filter(|(_, m)| named(m))
                .map(|(i, _)| Target::Module(i)),
        );
        // `use report::report;` leads to the submodule first.
        if !visited.insert(key.clone()) {
            return found;
        }
        for import in &here.scan.imports {
            if import.name.as_deref() == Some(name) {
                found.extend(self.import(module, &import.path, visited));
            }
        }
        if found.is_empty() {
            for import in here.scan.imports.iter().filter(|import| import.glob) {
                for target in self.import(module, &import.path, visited) {
                    if let Target::Module(globbed) = target {
                        found.extend(self.lookup(globbed, name, visited));
                    }
                }
            }
        }
        visited.remove(&key);
        found
    }

    fn import(&self, module: usize, path: &Path, visited: &mut Visited) -> Vec<Target> {
        self.resolve(module, &path.segments, visited)
    }

    fn parent(&self, module: usize) -> Option<usize> {
        self.modules.get(module).and_then(|module| module.parent)
    }
}
