//! nodelife's zone states against the node lifecycle controller's.

use nodelife_core::zone::{Settings, ZoneState};
use nodelife_tests::oracle::{self, ZoneAnswer};
use serde_json::{Value, json};

#[test]
fn every_small_zone_is_judged_as_the_controller_does() {
    let mut cases: Vec<Value> = Vec::new();
    let mut ours = Vec::new();
    for unhealthy_threshold in [0.0, 0.33, 0.5, 0.55, 0.75, 1.0] {
        let settings = Settings {
            unhealthy_threshold,
            ..Settings::default()
        };
        for ready in 0..40_usize {
            for not_ready in 0..40 {
                cases.push(json!({"ready": ready, "notReady": not_ready, "unhealthyThreshold": unhealthy_threshold}));
                ours.push(ZoneState::of(ready, not_ready, &settings));
            }
        }
    }
    let answers: Vec<ZoneAnswer> = oracle::ask("zone", &cases).unwrap();
    for ((case, ours), controller) in cases.iter().zip(ours).zip(answers) {
        assert_eq!(format!("{ours:?}"), controller.state, "{case}");
    }
}
