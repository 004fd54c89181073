//! Metrics of the controller's parts, in the registry of the process.

use std::fmt;

use nodelife_core::metric::{Labels, Metric};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};

pub(crate) fn encode(metrics: &[Metric], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for Metric { name, help, series } in metrics {
        match series.as_slice() {
            [(labels, value)] if labels.is_empty() => {
                let gauge = ConstGauge::new(*value);
                let kind = gauge.metric_type();
                gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
            }
            series => {
                let family = Family::<Labels, Gauge>::default();
                for (labels, value) in series {
                    family.get_or_create(labels).set(*value);
                }
                let kind = family.metric_type();
                family.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
            }
        }
    }
    Ok(())
}
