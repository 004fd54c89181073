//! Any bytes as a kubelet's configuration, with a drop-in behind the first `---`, and the
//! arithmetic and the refusals that follow from it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nodelife_core::allocatable::{self, Amounts, KubeletConfiguration};
use nodelife_core::quantity::Quantity;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let (file, drop_in) = text.split_once("\n---\n").unwrap_or((text, "{}"));
    let (Ok(file), Ok(drop_in)) = (serde_saphyr::from_str(file), serde_saphyr::from_str(drop_in))
    else {
        return;
    };
    let capacity: Amounts = [
        ("cpu", "8"),
        ("memory", "32Gi"),
        ("ephemeral-storage", "100Gi"),
        ("hugepages-2Mi", "1Gi"),
        ("pods", "110"),
    ]
    .into_iter()
    .filter_map(|(name, amount)| Some((name.into(), Quantity::parse(amount).ok()?)))
    .collect();
    if let Ok(configuration) = KubeletConfiguration::from_files(Some(file), [drop_in]) {
        let computed = allocatable::compute(&capacity, &configuration);
        let _ = serde_json::to_vec(&computed);
    }
});
