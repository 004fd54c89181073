//! Formats that several commands share, and how `-o` is read.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::ops::Deref;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, ValueEnum};

use crate::output::Template;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainFormat {
    /// Text for people
    #[default]
    Table,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// The name of a format, or of another value, on the command line.
pub(crate) fn format_name(format: &impl ValueEnum) -> String {
    let value = format.to_possible_value();
    let name = value.as_ref().map(PossibleValue::get_name);
    name.unwrap_or_default().to_owned()
}

/// A format, or a template over the JSON document.
#[derive(Clone, Debug)]
pub(crate) struct Output<F> {
    pub(crate) format: F,
    pub(crate) template: Option<Template>,
}

impl<F> Deref for Output<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.format
    }
}

/// Reads `FORMAT` and `jsonpath=TEMPLATE`.
#[derive(Clone)]
pub(crate) struct OutputParser<F>(PhantomData<F>);

impl<F> OutputParser<F> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<F: ValueEnum + Clone + Send + Sync + 'static> TypedValueParser for OutputParser<F> {
    type Value = Output<F>;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Output<F>, clap::Error> {
        let template = template(command, value)?;
        let name = template.as_ref().map_or(value, |_| OsStr::new("json"));
        let format = EnumValueParser::<F>::new().parse_ref(command, arg, name)?;
        Ok(Output { format, template })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(possible_values::<F>()))
    }
}

/// The formats, and `jsonpath=TEMPLATE`.
pub(super) fn possible_values<F: ValueEnum + 'static>() -> impl Iterator<Item = PossibleValue> {
    let formats = F::value_variants().iter();
    let template = PossibleValue::new("jsonpath=TEMPLATE")
        .help("Parts of the JSON document, as in kubectl: jsonpath='{.kind}'");
    formats
        .filter_map(ValueEnum::to_possible_value)
        .chain([template])
}

/// The template of `jsonpath=TEMPLATE`; none for another format.
fn template(command: &Command, value: &OsStr) -> Result<Option<Template>, clap::Error> {
    let text = value.to_str().unwrap_or_default();
    let Some(text) = text.strip_prefix("jsonpath=") else {
        return Ok(None);
    };
    let template = Template::parse(text).map_err(|why| {
        let message = format!("-o jsonpath={text}: {why}\n");
        clap::Error::raw(ErrorKind::InvalidValue, message).with_cmd(command)
    })?;
    Ok(Some(template))
}
