//! [`Metric`]: a gauge with its series, for every program that exposes or prints it.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Without the prefix `nodelife_`.
    pub name: &'static str,
    /// One sentence, without the dot at its end.
    pub help: &'static str,
    pub series: Vec<(Labels, i64)>,
}

pub type Labels = Vec<(&'static str, String)>;

impl Metric {
    pub fn number(name: &'static str, help: &'static str, number: usize) -> Self {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let series = vec![(Labels::new(), number)];
        Self { name, help, series }
    }
}
