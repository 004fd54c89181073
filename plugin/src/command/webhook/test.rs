use std::fs::File;
use std::io::{self, BufReader, Read, Write as _};
use std::path::Path;

use anyhow::Context as _;
use nodelife_admission::{
    AdmissionPhase, ConfigFile, ConfigFileError, Decision, LookupResult, Policies, RecordedCluster,
    Review, Verdict, decide_with, shown,
};
use nodelife_core::format::join;
use serde::Serialize;
use serde_json::value::RawValue;

use super::TestArgs;
use crate::exit::{Exit, ExitStatus};
use crate::output::{Cell, Printer, Table};

#[derive(Serialize)]
struct Report {
    verdicts: Vec<Answered>,
}

#[derive(Serialize)]
struct Answered {
    user: String,
    operation: &'static str,
    resource: String,
    namespace: String,
    name: String,
    /// `allow`, `patch` or `deny`.
    verdict: &'static str,
    /// The rule that denies the request, also if it is not enforced; empty if none does.
    rule: &'static str,
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
    message: String,
    /// `JSONPatch` of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<Box<RawValue>>,
    warnings: Vec<String>,
}

impl Answered {
    fn object(&self) -> String {
        if self.namespace.is_empty() {
            return self.name.clone();
        }
        format!("{}/{}", self.namespace, self.name)
    }
}

pub(super) fn run(args: &TestArgs, printer: &mut Printer) -> Exit {
    let file = args.config.as_deref();
    let file = file.map(|path| read(path, ConfigFile::parse)).transpose()?;
    let policies = file.unwrap_or_default().policies(&args.set)?;
    let objects = args.objects.as_deref();
    let objects = objects.map(|path| read(path, RecordedCluster::parse));
    let objects = objects.transpose()?;
    let file = args.filename.display();
    let mut verdicts = Vec::new();
    let input = open(&args.filename)?;
    let reviews = serde_json::Deserializer::from_reader(input).into_iter::<Box<RawValue>>();
    for (index, review) in reviews.enumerate() {
        let place = || format!("failed to read {file}: document {}", index + 1);
        let review = review.with_context(place)?;
        let review = Review::parse(review.get().as_bytes()).with_context(place)?;
        verdicts.push(ask(&review, &policies, objects.as_ref())?);
    }
    anyhow::ensure!(!verdicts.is_empty(), "{file} holds no AdmissionReview");
    let denied = verdicts.iter().any(|one| one.verdict == "deny");
    let report = Report { verdicts };
    if !printer.document("WebhookTest", &report, &args.output)? {
        print(&report.verdicts, printer)?;
    }
    Ok(ExitStatus::of_findings(denied))
}

fn read<T>(path: &Path, parse: fn(&str) -> Result<T, ConfigFileError>) -> anyhow::Result<T> {
    let failed = || format!("failed to read {}", path.display());
    let text = std::fs::read_to_string(path).with_context(failed)?;
    parse(&text).with_context(failed)
}

fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

/// Decides as the mutating phase does, which sees the raw object and may patch it.
fn ask(
    review: &Review<'_>,
    policies: &Policies,
    objects: Option<&RecordedCluster>,
) -> anyhow::Result<Answered> {
    let request = &review.request;
    let Decision {
        verdict,
        refusal,
        warnings,
    } = decide_with(request, policies, AdmissionPhase::Mutating, |lookup| {
        objects.map_or_else(
            || LookupResult::Failed("there is nothing to look it up in: give --objects".to_owned()),
            |objects| objects.answer(lookup),
        )
    });
    let (group, resource) = request.group_resource();
    let mut kind = resource.to_owned();
    if !group.is_empty() {
        kind = format!("{kind}.{group}");
    }
    if !request.subresource().is_empty() {
        kind = format!("{kind}/{}", request.subresource());
    }
    let mut answered = Answered {
        user: request.user().name().to_owned(),
        operation: request.operation().as_str(),
        resource: kind,
        namespace: request.namespace().to_owned(),
        name: request.name().to_owned(),
        verdict: "allow",
        rule: refusal.as_ref().map_or("", |one| one.denial.rule.as_str()),
        mode: refusal.as_ref().map_or("", |one| one.mode.as_str()),
        code: None,
        message: refusal.map_or(String::new(), |one| shown(&one.denial.message).to_owned()),
        patch: None,
        warnings,
    };
    match verdict {
        Verdict::Allow => {}
        Verdict::Patch(patch) => {
            answered.verdict = "patch";
            let text = String::from_utf8(patch.0).context("a patch is text")?;
            answered.patch = Some(RawValue::from_string(text)?);
        }
        Verdict::Deny(denial) => {
            answered.verdict = "deny";
            answered.rule = denial.rule.as_str();
            answered.code = Some(denial.reason.code());
            answered.message = denial.to_string();
        }
    }
    Ok(answered)
}

fn print(verdicts: &[Answered], printer: &mut Printer) -> anyhow::Result<()> {
    let mut table = Table::new([
        "VERDICT",
        "RULE",
        "USER",
        "OPERATION",
        "RESOURCE",
        "NAME",
        "MESSAGE",
    ]);
    for one in verdicts {
        let message = Some(&one.message).filter(|message| !message.is_empty());
        let message = message.into_iter().chain(&one.warnings);
        table.row([
            Cell::from(one.verdict),
            Cell::from(one.rule),
            Cell::from(one.user.as_str()),
            Cell::from(one.operation),
            Cell::from(one.resource.as_str()),
            Cell::from(one.object()),
            Cell::from(join(message, "; ")),
        ]);
    }
    printer.table(&table)?;
    for one in verdicts {
        if let Some(patch) = &one.patch {
            writeln!(printer.data(), "\n{}: {patch}", one.object())?;
        }
    }
    Ok(())
}
