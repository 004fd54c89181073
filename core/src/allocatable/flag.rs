//! The kubelet's flags about evictions.

use super::{ConfigurationError, KubeletConfiguration};

/// A map of the configuration that is about evictions, and the kubelet's flag for it
/// (`AddKubeletConfigFlags` of `cmd/kubelet/app/options/options.go`, v1.36.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionMap {
    /// `--eviction-hard memory.available<500Mi,nodefs.available<10%`
    Hard,
    /// `--eviction-soft memory.available<1Gi`
    Soft,
    /// `--eviction-soft-grace-period memory.available=1m30s`
    SoftGracePeriod,
    /// `--eviction-minimum-reclaim nodefs.available=2Gi`
    MinimumReclaim,
}

impl EvictionMap {
    /// The flag, what stands between a signal and its value, and what the value is.
    fn grammar(self) -> (&'static str, char, &'static str) {
        match self {
            Self::Hard => ("--eviction-hard", '<', "amount"),
            Self::Soft => ("--eviction-soft", '<', "amount"),
            Self::SoftGracePeriod => ("--eviction-soft-grace-period", '=', "duration"),
            Self::MinimumReclaim => ("--eviction-minimum-reclaim", '=', "amount"),
        }
    }
}

impl KubeletConfiguration {
    /// Replaces a map by that of its flag: flags are read last, and the map is replaced as a
    /// whole (`kubeletConfigFlagPrecedence`, `cmd/kubelet/app/server.go`, v1.36.3).
    pub fn set_eviction(&mut self, map: EvictionMap, text: &str) -> Result<(), ConfigurationError> {
        let (flag, sign, value) = map.grammar();
        let pairs = text.split(',').filter(|pair| !pair.is_empty());
        let read = pairs
            .map(|pair| {
                let (signal, text) = pair.split_once(sign).ok_or_else(|| {
                    let found = pair.into();
                    ConfigurationError::Eviction {
                        flag,
                        sign,
                        value,
                        found,
                    }
                })?;
                Ok((signal.trim().into(), text.trim().into()))
            })
            .collect::<Result<_, ConfigurationError>>()?;
        *match map {
            EvictionMap::Hard => &mut self.eviction_hard,
            EvictionMap::Soft => &mut self.eviction_soft,
            EvictionMap::SoftGracePeriod => &mut self.eviction_soft_grace_period,
            EvictionMap::MinimumReclaim => &mut self.eviction_minimum_reclaim,
        } = read;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_flag_replaces_the_map() {
        let mut configuration = KubeletConfiguration::from_files(Some(json!({})), []).unwrap();
        configuration
            .set_eviction(
                EvictionMap::Hard,
                "memory.available<500Mi, nodefs.available < 10%,",
            )
            .unwrap();
        assert_eq!(configuration.eviction_hard.len(), 2);
        assert_eq!(configuration.eviction_hard["nodefs.available"], "10%");
        let wrong = configuration.set_eviction(EvictionMap::Hard, "memory.available=1Gi");
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "failed to read --eviction-hard: expected signal<amount, found \"memory.available=1Gi\""
        );
        let reclaim = configuration.set_eviction(EvictionMap::MinimumReclaim, "a=1Gi,b=2%");
        assert!(reclaim.is_ok());
        assert_eq!(configuration.eviction_minimum_reclaim.len(), 2);
        assert_eq!(configuration.eviction_hard.len(), 2, "others stay");
    }
}
