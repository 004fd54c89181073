//! Compares zone states with the node lifecycle controller.

use nodelife_core::zone::{Settings, ZoneState};
use nodelife_tests::oracle::{self, ZoneAnswer};
use proptest::prelude::*;
use serde_json::{Value, json};

use nodelife_tests::seed;

#[test]
fn every_small_zone_has_the_controllers_state() {
    let mut zones = Vec::new();
    for threshold in [0.0, 0.33, 0.5, 0.55, 0.75, 1.0] {
        for ready in 0..40 {
            zones.extend((0..40).map(|not_ready| (ready, not_ready, threshold)));
        }
    }
    compare(&zones);
}

#[test]
fn larger_zones_have_the_controllers_state() {
    let zone = (1_usize..600, 0.0_f64..=1.0, any::<bool>()).prop_flat_map(|(size, any, near)| {
        (0..=size).prop_map(move |not_ready| {
            // Half of the thresholds are the very share, where the comparison turns over.
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                reason = "a share"
            )]
            let threshold = if near {
                not_ready as f64 / size as f64
            } else {
                any
            } as f32;
            (size - not_ready, not_ready, threshold)
        })
    });
    compare(&seed::draw(seed::cases(10_000), &zone));
}

/// Zones of so many nodes that are ready and that are not, under a threshold.
fn compare(zones: &[(usize, usize, f32)]) {
    let cases: Vec<Value> = zones
        .iter()
        .map(|(ready, not_ready, threshold)| {
            json!({"ready": ready, "notReady": not_ready, "unhealthyThreshold": threshold})
        })
        .collect();
    let answers: Vec<ZoneAnswer> = oracle::ask("zone", &cases).unwrap();
    for ((ready, not_ready, unhealthy_threshold), controller) in zones.iter().zip(answers) {
        let settings = Settings {
            unhealthy_threshold: *unhealthy_threshold,
            ..Settings::default()
        };
        let ours = ZoneState::of(*ready, *not_ready, &settings);
        assert_eq!(
            format!("{ours:?}"),
            controller.state,
            "{ready} ready, {not_ready} not, threshold {unhealthy_threshold}"
        );
    }
}
