//! Streaming reader of JSON documents whose kind is not known yet.
//!
//! A snapshot, a list or a single object: which one it is may stand in front
//! (`kubectl get --raw`), or behind the items (`kubectl get -o json` sorts the keys).
//! Objects go into core's types at once; nothing else is kept.

use std::collections::BTreeMap;
use std::fmt;

use nodelife_core::API_VERSION;
use nodelife_core::snapshot::Source;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::gathered::Gathered;
use super::kinds::{self, ObjectKind};
use super::piece::{Kept, Piece, Result};
use super::stream::{Inside, Stream};
use super::write::KIND;
use super::{go_names, shape};

/// Reads all documents of a stream. Up to an error, `all` has what could be read.
pub(super) fn read(stream: &mut Stream<'_>, all: &mut Gathered) -> Result<()> {
    while let Some(inside) = stream.document()? {
        let mut document = Document::default();
        let read = document.read(stream, inside);
        let ended = document.end(stream);
        document.gathered.weigh();
        all.absorb(document.gathered);
        read.and(ended)?;
    }
    Ok(())
}

#[derive(Default)]
struct Document {
    gathered: Gathered,
    api_version: Option<String>,
    kind: Option<String>,
    /// The members before the kind, and those of a single object.
    kept: Vec<(String, Kept)>,
    has_items: bool,
    /// Items that do not say of which kind they are, of a list that has not said so yet.
    untyped: Vec<Kept>,
    is_configz: bool,
    counts: BTreeMap<Source, usize>,
}

#[derive(Clone, Copy)]
enum Items {
    ObjectKind(ObjectKind),
    Foreign,
    /// Each says it itself.
    Mixed,
}

impl Document {
    fn read(&mut self, stream: &mut Stream<'_>, mut inside: Inside) -> Result<()> {
        while let Some(key) = stream.key(&mut inside)? {
            match key.as_str() {
                "apiVersion" => self.api_version = Some(stream.value()?),
                "kind" => self.kind = Some(stream.value()?),
                "items" if self.may_be_list() => self.items(stream)?,
                "Items" if self.kind.is_none() => {
                    self.has_items = true;
                    stream.list(|piece| {
                        let text = go_names::object(piece.read()?).to_string().into_bytes();
                        self.untyped.push(piece.with_text(text));
                        Ok(())
                    })?;
                }
                "kubeletconfig" if self.kind.is_none() => {
                    self.is_configz = true;
                    self.gathered.kubelet_configs.push(stream.value()?);
                }
                _ if self.is_snapshot() => self.member(&key, stream)?,
                _ if self.has_items || self.is_configz => drop(stream.piece()?),
                _ => self.kept.push((key, stream.piece()?.keep())),
            }
        }
        Ok(())
    }

    fn may_be_list(&self) -> bool {
        let kind = self.kind.as_deref();
        kind.is_none_or(|kind| kind.ends_with("List"))
    }

    fn is_snapshot(&self) -> bool {
        self.kind.as_deref() == Some(KIND) && self.api_version.as_deref() == Some(API_VERSION)
    }

    fn end(&mut self, stream: &Stream<'_>) -> Result<()> {
        if self.is_configz {
            return Ok(());
        }
        let (api_version, kind) = match (self.api_version.take(), self.kind.take()) {
            (Some(api_version), Some(kind)) => (api_version, kind),
            // `kubectl` sorts the fields, and YAML may end behind any of them.
            (Some(_), None) if self.has_items => {
                self.typed()?;
                return Err(stream.over("the list ends before its kind; it is truncated"));
            }
            _ => return self.typed(),
        };
        let group = |version: &str| version.split('/').next().map(str::to_owned);
        if kind == KIND && group(&api_version) == group(API_VERSION) {
            self.gathered.snapshots += 1;
            if api_version != API_VERSION {
                return Err(stream.over(&format!(
                    "a snapshot of version {api_version}; this program reads {API_VERSION}"
                )));
            }
            return self.snapshot(stream);
        }
        if let Some(known) = kinds::find(&api_version, &kind) {
            let object = Kept::object(std::mem::take(&mut self.kept));
            return self.gathered.single(known, &object);
        }
        if kind == "KubeletConfiguration" {
            let object = Kept::object(std::mem::take(&mut self.kept));
            self.gathered.kubelet_configs.push(object.read()?);
            return Ok(());
        }
        let items = self.items_of(&api_version, &kind);
        if kind.ends_with("List") && !self.has_items {
            return Err(stream.over("the list has no items; it may be truncated"));
        }
        if !kind.ends_with("List") {
            self.gathered.foreign(&api_version, &kind);
        }
        for item in std::mem::take(&mut self.untyped) {
            match items {
                Items::ObjectKind(known) => self.gathered.item(known, &item)?,
                Items::Mixed => self.gathered.foreign(&api_version, &kind),
                Items::Foreign => {}
            }
        }
        Ok(())
    }

    /// Programs in Go write objects of a known type without apiVersion and kind: their fields tell.
    fn typed(&mut self) -> Result<()> {
        let objects = if self.has_items {
            std::mem::take(&mut self.untyped)
        } else {
            vec![Kept::object(std::mem::take(&mut self.kept))]
        };
        for object in &objects {
            match shape::kind_of(object)? {
                Some(known) if self.has_items => self.gathered.item(known, object)?,
                Some(known) => self.gathered.single(known, object)?,
                None => self
                    .gathered
                    .unknown("an object without apiVersion and kind"),
            }
        }
        if objects.is_empty() && self.gathered.kinds.is_empty() {
            self.gathered.unknown("a list without apiVersion and kind");
        }
        Ok(())
    }

    fn items_of(&mut self, api_version: &str, kind: &str) -> Items {
        let item = kind.strip_suffix("List").unwrap_or_default();
        if item.is_empty() {
            return Items::Mixed;
        }
        let Some(known) = kinds::find(api_version, item) else {
            self.gathered.foreign(api_version, item);
            return Items::Foreign;
        };
        self.gathered.listed(known);
        Items::ObjectKind(known)
    }

    fn items(&mut self, stream: &mut Stream<'_>) -> Result<()> {
        self.has_items = true;
        let items = match (self.api_version.clone(), self.kind.clone()) {
            (Some(api_version), Some(kind)) => self.items_of(&api_version, &kind),
            _ => Items::Mixed,
        };
        stream.list(|piece| match items {
            Items::ObjectKind(known) => self.gathered.item(known, piece),
            Items::Foreign => Ok(()),
            Items::Mixed => self.item(piece),
        })
    }

    fn item(&mut self, piece: &Piece<'_>) -> Result<()> {
        let head = Head::of(piece)?;
        let (Some(api_version), Some(kind)) = (head.api_version, head.kind) else {
            self.untyped.push(piece.keep());
            return Ok(());
        };
        if let Some(known) = kinds::find(&api_version, &kind) {
            return self.gathered.item(known, piece);
        }
        if kind == "KubeletConfiguration" {
            self.gathered.kubelet_configs.push(piece.read()?);
        } else {
            self.gathered.foreign(&api_version, &kind);
        }
        Ok(())
    }

    fn member(&mut self, key: &str, stream: &mut Stream<'_>) -> Result<()> {
        let gathered = &mut self.gathered;
        if let Some(known) = kinds::of_list(key) {
            known.mark(&mut gathered.snapshot);
            return stream.list(|piece| known.read(piece, gathered));
        }
        let snapshot = &mut gathered.snapshot;
        match key {
            "workloads" => return stream.list(|piece| gathered.workload(piece)),
            "takenAt" => snapshot.taken_at = stream.value()?,
            "clock" => snapshot.clock = stream.value()?,
            "serverVersion" => snapshot.server_version = stream.value()?,
            "kubeletConfigs" => snapshot.kubelet_configs = stream.value()?,
            "counts" => self.counts = stream.value()?,
            "missing" => snapshot.missing = stream.value()?,
            "nodeAuthorizer" => snapshot.node_authorizer = stream.value()?,
            "nodeRestriction" => snapshot.node_restriction = stream.value()?,
            _ => drop(stream.piece()?),
        }
        Ok(())
    }

    /// Reads the members before the kind of a snapshot, and checks that none is missing.
    fn snapshot(&mut self, stream: &Stream<'_>) -> Result<()> {
        for (key, kept) in std::mem::take(&mut self.kept) {
            self.member(&key, &mut Stream::again(&kept, &mut &*kept.text))?;
        }
        for (source, announced) in &self.counts {
            let here = self.gathered.snapshot.count(*source);
            if here < *announced {
                return Err(stream.over(&format!(
                    "its counts say {announced} {}, but it has {here}: it is truncated (if you \
                     removed objects on purpose, remove `counts` too)",
                    source.noun()
                )));
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
}

impl Head {
    /// Both mostly stand in front, and nothing is read behind them.
    fn of(object: &Piece<'_>) -> Result<Self> {
        let mut head = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(&object.text);
        let read = reader.deserialize_map(&mut head);
        match read {
            Err(error) if !head.is_known() => Err(object.inside(&error)),
            // An error is that the object has more to say.
            _ => Ok(head),
        }
    }

    fn is_known(&self) -> bool {
        self.api_version.is_some() && self.kind.is_some()
    }
}

impl<'de> Visitor<'de> for &mut Head {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of Kubernetes")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while !self.is_known()
            && let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()?
        {
            match &*key {
                "apiVersion" => self.api_version = Some(map.next_value()?),
                "kind" => self.kind = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}
