//! Client of the oracle, a Go program (`control-plane/oracle`) that links the packages of the API
//! server, the kubelet and the controllers, and answers one JSON case per line.
//!
//! Kinds of cases, with the fields that `control-plane/oracle/*.go` documents:
//! - `quantity`: [`QuantityCase`] → [`QuantityAnswer`]
//! - `admission`: `{"plugin": "noderestriction" | "defaulttolerationseconds", "operation",
//!   "resource": {group, version, resource}, "subresource", "namespace", "name",
//!   "user": {name, uid, groups, extra}, "object", "oldObject", "options",
//!   "lookups": {pods, nodes, serviceaccounts, pvcs, pvs, csidrivers, sar}, "features",
//!   "notReadySeconds", "unreachableSeconds"}` → [`AdmissionAnswer`]
//! - `allocatable`: `{"cpu", "memory", "ephemeralStorage", "hugePages": {KiB: pages},
//!   "configuration"}` → [`AllocatableAnswer`]
//! - `eviction`: `{"file", "dropIns", "flags"}` → [`EvictionAnswer`]
//! - `zone`: `{"ready", "notReady", "unhealthyThreshold"}` → [`ZoneAnswer`]
//! - `filter`: a case of `admission` with `matchConditions` → [`FilterAnswer`]
//! - `policies`: `{"validating", "mutating", "cases"}`, policies and cases of `admission` →
//!   [`PoliciesAnswer`]
//! - `budget`: [`BudgetCase`] → [`BudgetAnswer`]
//! - `schedule`: `{"nodes", "pods", "asking", "volumes", "claims", "namespaces"}` → for each pod that asks
//!   and each node, the plugin of the scheduler that refuses it, or nothing
//! - `prometheus`: `{"text"}` → [`PrometheusAnswer`]
//! - `sarif`: `{"text"}` → [`SarifAnswer`]
//! - `junit`: `{"text"}` → [`JunitAnswer`]
//! - `response`: `{"uid", "mutating", "review", "object"}` → [`ResponseAnswer`]
//!
//! A second program (`control-plane/kubelet-start`) links what the kubelet links, of any of several
//! versions, and answers about its start: [`KubeletStart`].

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use nodelife_core::object::{Budget, BudgetStatus, Pod, Workload};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::program::GoProgram;

/// The program that answers about the start of a kubelet, with:
/// - `start`: `{"file"}` → [`StartAnswer`]
/// - `gates`: → a list of [`GateAnswer`]
/// - `fields`: → a list of [`FieldAnswer`]
pub struct KubeletStart(Oracle);

impl KubeletStart {
    /// Starts the program of the version that `NODELIFE_KUBERNETES` names.
    pub fn run() -> Result<Self> {
        Oracle::start(GoProgram::KubeletStart).map(Self)
    }

    /// Asks all cases of one kind; the answers come in the same order.
    pub fn ask<C: Serialize, A: DeserializeOwned>(
        &mut self,
        kind: &str,
        cases: &[C],
    ) -> Result<Vec<A>> {
        let questions = questions(kind, cases)?;
        let answers = self.0.ask(&questions)?;
        read_all(&answers, &questions)
    }
}

/// A running oracle. It ends by itself when its stdin closes.
struct Oracle {
    _child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

static ORACLE: Mutex<Option<Oracle>> = Mutex::new(None);

/// Asks all cases of one kind; the answers come in the same order.
pub fn ask<C, A>(kind: &str, cases: &[C]) -> Result<Vec<A>>
where
    C: Serialize,
    A: DeserializeOwned,
{
    let questions = questions(kind, cases)?;
    let mut running = ORACLE.lock().unwrap_or_else(PoisonError::into_inner);
    let oracle = match &mut *running {
        Some(oracle) => oracle,
        none => none.insert(Oracle::start(GoProgram::Oracle)?),
    };
    let answers = oracle.ask(&questions);
    if answers.is_err() {
        // What is still in the pipes belongs to the questions that failed.
        *running = None;
    }
    read_all(&answers?, &questions)
}

fn questions<C: Serialize>(kind: &str, cases: &[C]) -> Result<Vec<String>> {
    cases
        .iter()
        .map(|case| {
            let mut case = serde_json::to_value(case)?;
            let fields = case.as_object_mut().context("a case is a JSON object")?;
            fields.insert("kind".to_owned(), Value::from(kind));
            Ok(case.to_string())
        })
        .collect()
}

fn read_all<A: DeserializeOwned>(answers: &[String], questions: &[String]) -> Result<Vec<A>> {
    answers
        .iter()
        .zip(questions)
        .map(|(answer, question)| {
            read(answer).with_context(|| format!("the oracle was asked {question}"))
        })
        .collect()
}

fn read<A: DeserializeOwned>(answer: &str) -> Result<A> {
    let answer: Value = serde_json::from_str(answer)?;
    if let Some(failure) = answer.get("failure") {
        bail!("the oracle did not understand: {failure}");
    }
    serde_json::from_value(answer).context("the oracle's answer is not of the kind that was asked")
}

impl Oracle {
    fn start(program: GoProgram) -> Result<Self> {
        let mut child = Command::new(program.path()?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start the oracle")?;
        let questions = child.stdin.take().context("the oracle has no stdin")?;
        let answers = BufReader::new(child.stdout.take().context("the oracle has no stdout")?);
        Ok(Self {
            _child: child,
            questions,
            answers,
        })
    }

    /// Writes and reads at the same time: both pipes are smaller than a batch.
    fn ask(&mut self, questions: &[String]) -> Result<Vec<String>> {
        let Self {
            questions: pipe,
            answers,
            ..
        } = self;
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                for question in questions {
                    writeln!(pipe, "{question}")?;
                }
                pipe.flush()
            });
            let read = questions
                .iter()
                .map(|question| {
                    let mut line = String::new();
                    let count = answers.read_line(&mut line)?;
                    anyhow::ensure!(count > 0, "the oracle ended when it was asked {question}");
                    Ok(line)
                })
                .collect();
            match writer.join() {
                Ok(written) => written.context("failed to write to the oracle")?,
                Err(_) => bail!("failed to write to the oracle"),
            }
            read
        })
    }
}

/// A text to parse as a quantity.
#[derive(Debug, Clone, Serialize)]
pub struct QuantityCase {
    #[serde(rename = "in")]
    pub text: String,
    /// A second quantity that is added to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
}

/// What `k8s.io/apimachinery/pkg/api/resource` makes of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct QuantityAnswer {
    /// Why it is no quantity; empty when it is one.
    pub error: String,
    /// `CanonicalizeBytes`.
    pub canonical: String,
    /// `String()`: what was read, until arithmetic has touched it.
    pub printed: String,
    /// The exact value as a decimal number.
    pub dec: String,
    /// `Value()`: overflows silently.
    pub value: i64,
    /// `MilliValue()`: overflows silently.
    pub milli: i64,
    /// `DecimalSI`, `BinarySI` or `DecimalExponent`.
    pub format: String,
}

/// What an admission plugin says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AdmissionAnswer {
    /// Whether the request goes on.
    pub allowed: bool,
    /// The HTTP status of the refusal; 0 when allowed.
    pub code: u16,
    pub reason: String,
    pub message: String,
    /// The object after the plugin, with the API server's defaults; None for a refusal or when
    /// the request has no object.
    pub object: Option<Value>,
}

/// What the kubelet makes of a machine and a configuration.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AllocatableAnswer {
    /// Why its file cannot be read.
    pub load: String,
    /// Why it is not valid.
    pub invalid: String,
    /// Why a reservation or a threshold cannot be parsed.
    pub parse: String,
    /// Why the reservations do not fit the machine.
    pub exceeds: String,
    /// Allocatable as the node's status would have it; quantities as strings.
    #[serde(default, deserialize_with = "nullable")]
    pub allocatable: serde_json::Map<String, Value>,
}

impl AllocatableAnswer {
    /// Why the kubelet would not start; None when it would.
    pub fn refusal(&self) -> Option<&str> {
        [&self.load, &self.invalid, &self.parse, &self.exceeds]
            .into_iter()
            .find(|reason| !reason.is_empty())
            .map(String::as_str)
    }
}

/// Why a kubelet does not start with a file, by the step that says so.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartAnswer {
    /// Why the file is not decoded or defaulted.
    pub load: String,
    /// What is wrong with the feature gates.
    pub gates: String,
    /// What is wrong with the log's options.
    pub logging: String,
    /// Why the configuration is not valid.
    pub invalid: String,
    /// What is wrong with the server's TLS.
    pub tls: String,
    /// Whether the machine has cgroup v1; validation asks for it.
    #[serde(rename = "cgroupV1")]
    pub cgroup_v1: bool,
}

impl StartAnswer {
    /// Why the kubelet would not start; None when it would.
    pub fn refusal(&self) -> Option<&str> {
        [
            &self.load,
            &self.gates,
            &self.logging,
            &self.invalid,
            &self.tls,
        ]
        .into_iter()
        .find(|reason| !reason.is_empty())
        .map(String::as_str)
    }
}

/// A feature gate as a kubelet knows it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GateAnswer {
    pub name: String,
    /// Whether it is on when nobody sets it.
    pub default: bool,
    /// Whether it cannot be set to the other value.
    pub locked: bool,
    /// `PRE-ALPHA`, `ALPHA`, `BETA`, `DEPRECATED`, or empty for GA.
    pub stage: String,
    /// The gates that have to be on for this one to be on.
    pub needs: Vec<String>,
}

/// A field of KubeletConfiguration as a kubelet decodes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FieldAnswer {
    /// With `[]` for the elements of a list and `{}` for the values of a map.
    pub path: String,
    /// The type in Go; `*` before it for a pointer.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A namespace as the disruption controller sees it at one moment.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetCase {
    pub now: Timestamp,
    /// The budget, with the status that it has so far.
    pub budget: Budget,
    /// All pods of the namespace.
    pub pods: Vec<Pod>,
    /// The controllers that are there; a Job or a DaemonSet has no scale, there or not.
    pub deployments: Vec<Workload>,
    /// See `deployments`.
    pub replica_sets: Vec<Workload>,
    /// See `deployments`.
    pub stateful_sets: Vec<Workload>,
    /// See `deployments`.
    pub replication_controllers: Vec<Workload>,
}

/// What the disruption controller's `sync` makes of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BudgetAnswer {
    /// The status that it wrote, or that stood already.
    pub status: BudgetStatus,
    /// Whether it wrote.
    pub written: bool,
}

/// The eviction maps that a kubelet runs with.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictionAnswer {
    /// Why a file or a flag cannot be read.
    pub load: String,
    /// Why the configuration is not valid.
    pub invalid: String,
    /// Why a threshold cannot be parsed.
    pub parse: String,
    #[serde(deserialize_with = "nullable")]
    pub hard: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    pub soft: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    pub grace_period: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    pub minimum_reclaim: BTreeMap<String, String>,
    /// The hard thresholds as the kubelet understands them, by signal.
    #[serde(deserialize_with = "nullable")]
    pub thresholds: BTreeMap<String, ThresholdAnswer>,
}

impl EvictionAnswer {
    /// Why the kubelet would not start; None when it would.
    pub fn refusal(&self) -> Option<&str> {
        [&self.load, &self.invalid, &self.parse]
            .into_iter()
            .find(|reason| !reason.is_empty())
            .map(String::as_str)
    }
}

/// A threshold: an amount, or a share between 0 and 1.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ThresholdAnswer {
    /// The amount; empty for a share.
    pub quantity: String,
    pub percentage: f32,
}

/// The state that the node lifecycle controller gives a zone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ZoneAnswer {
    /// `Normal`, `PartialDisruption` or `FullDisruption`.
    pub state: String,
}

/// Whether the API server calls a webhook with these `matchConditions`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FilterAnswer {
    /// Whether all of them are true.
    pub matches: bool,
    /// The one that is false.
    pub failed: String,
    /// Why one cannot be compiled or evaluated: under `Ignore` the call is skipped.
    pub error: String,
}

/// What policies of the API server say of each case.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PoliciesAnswer {
    /// One a case.
    pub answers: Vec<PolicyAnswer>,
}

/// What they say of one request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PolicyAnswer {
    /// The validating policies whose rules and conditions match.
    #[serde(deserialize_with = "nullable")]
    pub asked: Vec<String>,
    /// The message of the first check that does not hold; empty when all do.
    pub denied: String,
    /// The reason of the same check.
    pub reason: String,
    /// Why a policy can't be compiled or evaluated.
    pub error: String,
    /// The object after the mutating policies, where one of them matches.
    pub object: Option<Value>,
}

/// What Prometheus makes of a text in its exposition format.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PrometheusAnswer {
    /// Why it can't be read; empty when it can.
    pub error: String,
    /// What `promtool check metrics` says of it.
    #[serde(deserialize_with = "nullable")]
    pub problems: Vec<String>,
    /// How many series a metric has.
    #[serde(deserialize_with = "nullable")]
    pub series: BTreeMap<String, usize>,
}

/// What the official schema of SARIF 2.1.0 says of a log.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SarifAnswer {
    /// Why it is none; empty when it is.
    pub error: String,
    /// The log as it was read: a field that the standard does not have is gone.
    pub understood: Value,
}

/// What a reader of JUnit reports makes of one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct JunitAnswer {
    /// Why it can't be read; empty when it can.
    pub error: String,
    /// The results by the name of their suite.
    #[serde(deserialize_with = "nullable")]
    pub suites: BTreeMap<String, JunitSuite>,
}

/// The results of a suite, counted by the reader.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct JunitSuite {
    /// Cases without a word against them.
    pub passed: usize,
    /// Cases that were not run.
    pub skipped: usize,
    /// Cases with a failure.
    pub failed: usize,
    /// Class and name of those that failed.
    pub failing: Vec<String>,
}

/// How the API server takes a webhook's answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ResponseAnswer {
    /// Why it takes the call for failed; empty when it does not.
    pub error: String,
    /// Whether the request goes on.
    pub allowed: bool,
    /// The object after the patch.
    pub object: Option<Value>,
}

/// Go writes an empty map as null.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
