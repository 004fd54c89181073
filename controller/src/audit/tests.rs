//! Random sequences of watch events: the store's findings are those of a snapshot that is made
//! from scratch.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;
use nodelife_audit::{Audit, Selection, audit};
use nodelife_cluster::ApiError;
use nodelife_cluster::listing::Object;
use nodelife_cluster::snapshot::kinds::{Kind, Visitor, each_kind};
use nodelife_cluster::watch::Update;
use nodelife_core::object::Meta;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;

use super::drainable;
use super::store::Store;

const EVENTS: usize = 60;

/// The objects of one kind that the API server has, and may have later.
struct Listed<T: 'static> {
    kind: &'static Kind<T>,
    pool: Vec<T>,
    /// By their keys in etcd.
    there: BTreeMap<String, T>,
    /// Why it cannot be read.
    refusal: Option<String>,
}

/// A kind, whatever its type.
trait Random {
    fn list(&mut self, store: &mut Store);
    /// One change of the cluster, as a watch tells it.
    fn step(&mut self, random: &mut Rng, store: &mut Store);
    /// The list as an audit would read it, in the API server's order.
    fn write(&self, snapshot: &mut Snapshot);
}

fn place(meta: &Meta) -> String {
    format!("{}/{}", meta.namespace, meta.name)
}

impl<T: Object> Listed<T> {
    fn boxed(kind: &'static Kind<T>, examples: &[Snapshot]) -> Box<dyn Random> {
        let mut pool = Vec::new();
        let mut there = BTreeMap::new();
        for (number, example) in examples.iter().enumerate() {
            let mut example = example.clone();
            let objects = (kind.list)(&mut example).drain(..);
            for object in objects.filter(|one| (kind.rank_of)(one) == kind.rank) {
                if number == 0 {
                    there.insert(place(object.metadata()), object.clone());
                }
                pool.push(object);
            }
        }
        Box::new(Self {
            kind,
            pool,
            there,
            refusal: None,
        })
    }
}

impl<T: Object> Random for Listed<T> {
    fn list(&mut self, store: &mut Store) {
        self.refusal = None;
        let all = self.there.values().cloned().collect();
        store.apply(self.kind, Update::Listed(all));
    }

    fn step(&mut self, random: &mut Rng, store: &mut Store) {
        match random.u8(0..40) {
            0 | 1 => self.list(store),
            2 => {
                let error = ApiError::NotFound(Box::default());
                self.refusal = Some(error.to_string());
                let wait = Duration::from_secs(1);
                store.apply(self.kind, Update::Failed { error, wait });
            }
            _ if self.refusal.is_some() => self.list(store),
            3..=24 => {
                let Some(object) = random.choice(&self.pool).cloned() else {
                    return;
                };
                let known = self.there.insert(place(object.metadata()), object.clone());
                // A name is taken over after its holder has gone.
                if let Some(known) = known
                    && known.metadata().uid != object.metadata().uid
                {
                    store.apply(self.kind, Update::Deleted(known));
                }
                store.apply(self.kind, Update::Applied(object));
            }
            _ => {
                let Some(key) = random.choice(self.there.keys()).cloned() else {
                    return;
                };
                let gone = self.there.remove(&key).unwrap();
                store.apply(self.kind, Update::Deleted(gone));
            }
        }
    }

    fn write(&self, snapshot: &mut Snapshot) {
        if let Some(reason) = &self.refusal {
            let reason = Str::from(reason.as_str());
            snapshot.missing.insert(self.kind.source, reason);
        } else {
            (self.kind.list)(snapshot).extend(self.there.values().cloned());
        }
    }
}

fn examples() -> [Snapshot; 2] {
    let healthy = include_str!("../../../examples/healthy-cluster.json");
    let faulty = include_str!("../../../examples/faulty-cluster.json");
    [healthy, faulty].map(|text| serde_json::from_str(text).unwrap())
}

fn kinds(examples: &[Snapshot]) -> Vec<Box<dyn Random>> {
    struct Kinds<'a>(&'a [Snapshot], Vec<Box<dyn Random>>);
    impl Visitor for Kinds<'_> {
        fn visit<T: Object>(&mut self, kind: &'static Kind<T>) {
            self.1.push(Listed::boxed(kind, self.0));
        }
    }
    let mut kinds = Kinds(examples, Vec::new());
    each_kind(&mut kinds);
    kinds.1
}

fn from_scratch(kinds: &[Box<dyn Random>], facts: &Snapshot, now: Timestamp) -> Audit {
    let mut snapshot = Snapshot {
        taken_at: Some(now),
        server_version: facts.server_version.clone(),
        node_authorizer: facts.node_authorizer.clone(),
        node_restriction: facts.node_restriction.clone(),
        ..Snapshot::default()
    };
    for kind in kinds {
        kind.write(&mut snapshot);
    }
    if snapshot.missing.contains_key(&Source::Workloads) {
        snapshot.workloads.clear();
    }
    audit(&snapshot, &Selection::default(), now)
}

fn facts(example: &Snapshot) -> Snapshot {
    Snapshot {
        server_version: example.server_version.clone(),
        node_authorizer: example.node_authorizer.clone(),
        node_restriction: example.node_restriction.clone(),
        ..Snapshot::default()
    }
}

#[test]
fn a_watched_cluster_has_the_findings_of_one_read_anew() {
    let examples = examples();
    let now = examples[1].taken_at.unwrap();
    let mut most = 0;
    let is_thorough = std::env::var_os("NODELIFE_THOROUGH").is_some();
    for seed in 0..if is_thorough { 1000 } else { 200 } {
        let mut random = Rng::with_seed(seed);
        let start = usize::from(random.bool());
        let mut kinds = kinds(&[&examples[start..], &examples[..start]].concat());
        let mut store = Store::default();
        store.set_facts(facts(&examples[1]));
        for kind in &mut kinds {
            kind.list(&mut store);
        }
        let judge = |snapshot: &Snapshot| audit(snapshot, &Selection::default(), now);
        for _ in 0..random.usize(0..EVENTS) {
            let kind = random.usize(0..kinds.len());
            kinds[kind].step(&mut random, &mut store);
        }
        let watched = store.judge(now, judge).unwrap();
        let expected = from_scratch(&kinds, &examples[1], now);
        most = most.max(expected.findings.len());
        assert_eq!(watched.skipped, expected.skipped, "seed {seed}");
        for (one, other) in watched.findings.iter().zip(&expected.findings) {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(watched, expected, "seed {seed}");
    }
    assert!(most > 50, "the sequences make few findings: {most}");
}

#[test]
fn nothing_is_judged_before_every_list_has_arrived() {
    let mut kinds = kinds(&examples());
    let mut store = Store::default();
    let last = kinds.len() - 1;
    for kind in &mut kinds[..last] {
        kind.list(&mut store);
    }
    assert_eq!(store.judge(Timestamp::UNIX_EPOCH, |_| ()), None);
    kinds[last].list(&mut store);
    assert_eq!(store.judge(Timestamp::UNIX_EPOCH, |_| ()), Some(()));
}

/// Those of `drainable -f examples/faulty-cluster.json`.
#[tokio::test]
async fn nodes_are_counted_by_whether_they_can_be_drained() {
    let [_, faulty] = examples();
    let now = faulty.taken_at.unwrap();
    let mut kinds = kinds(&[faulty]);
    let mut store = Store::default();
    assert!(drainable::look(&mut store, now).await.is_none());
    for kind in &mut kinds {
        kind.list(&mut store);
    }
    let (metric, results) = drainable::look(&mut store, now).await.unwrap();
    let series = metric.series.iter();
    let counts = series.map(|(labels, count)| (labels[0].1.as_str(), *count));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [("yes", 1), ("waits", 5), ("needs", 0), ("never", 4)]
    );
    let worst = results.iter().map(|one| one.message.split_once(": "));
    let worst = worst.filter(|worst| worst.is_some_and(|(answer, _)| answer == "never"));
    assert_eq!((results.len(), worst.count()), (9, 4));
}

#[test]
fn the_manifests_allow_every_kind() {
    struct Refused {
        rules: Vec<serde_json::Value>,
        verbs: &'static [&'static str],
        kinds: Vec<&'static str>,
    }
    impl Visitor for Refused {
        fn visit<T: Object>(&mut self, kind: &'static Kind<T>) {
            let resource = kind.listing.resource;
            let allows = |rule: &serde_json::Value| {
                let has = |field: &str, one: &str| {
                    let all = rule[field].as_array().into_iter().flatten();
                    all.into_iter().any(|it| it == one)
                };
                has("apiGroups", resource.group)
                    && has("resources", resource.plural)
                    && self.verbs.iter().all(|verb| has("verbs", verb))
            };
            if !self.rules.iter().any(allows) {
                self.kinds.push(kind.listing.kind);
            }
        }
    }
    let controller = include_str!("../../../manifests/controller/rbac-audit.yaml");
    let cron_job = include_str!("../../../manifests/audit/rbac.yaml");
    for (manifest, verbs) in [(controller, &["list", "watch"][..]), (cron_job, &["list"])] {
        let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(manifest).unwrap();
        let rules = objects
            .iter()
            .filter_map(|object| object["rules"].as_array());
        let mut refused = Refused {
            rules: rules.flatten().cloned().collect(),
            verbs,
            kinds: Vec::new(),
        };
        each_kind(&mut refused);
        assert_eq!(refused.kinds, [""; 0], "{verbs:?}");
    }
}
