//! The manifest by which krew, kubectl's plugin manager, finds and installs the plugin
//! (`sigs.k8s.io/krew`, v0.5.0, `pkg/index/types.go`).

use serde::Serialize;
use std::collections::BTreeMap;

use crate::platform::Platform;
use crate::published::folder;

/// The manifest's file.
pub const AT: &str = "nodelife.yaml";

type Texts = BTreeMap<&'static str, &'static str>;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    api_version: &'static str,
    kind: &'static str,
    metadata: Texts,
    spec: Spec,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    version: String,
    homepage: String,
    short_description: &'static str,
    description: &'static str,
    caveats: &'static str,
    platforms: Vec<Source>,
}

#[derive(Debug, Serialize)]
struct Source {
    selector: BTreeMap<&'static str, Texts>,
    uri: String,
    sha256: String,
    bin: &'static str,
}

impl Plugin {
    /// The plugin of this version, with the archives that there are and their SHA-256, in a folder of
    /// `base_url` for each version. All files of an archive are installed, the licence among them.
    pub fn new(base_url: &str, version: &str, archives: &[(Platform, String)]) -> Self {
        let at = folder(base_url, version);
        let platforms = archives.iter().map(|(platform, sha256)| Source {
            selector: BTreeMap::from([(
                "matchLabels",
                BTreeMap::from([("os", platform.os), ("arch", platform.arch)]),
            )]),
            uri: format!("{at}/{}", platform.archive(version)),
            sha256: sha256.clone(),
            bin: platform.program(),
        });
        Self {
            api_version: "krew.googlecontainertools.github.com/v1alpha2",
            kind: "Plugin",
            metadata: BTreeMap::from([("name", "nodelife")]),
            spec: Spec {
                version: version.to_owned(),
                homepage: base_url.to_owned(),
                short_description: "Audit nodes and drain them safely",
                description: "Audits what is wrong with a cluster's nodes and shows the \
                    arithmetic behind every finding; explains allocatable resources, zones and \
                    what happens when a node dies; and empties nodes through the eviction API: \
                    it plans first, refuses before it cordons, and names the budget that blocks.\n",
                caveats: "Completion of `kubectl nodelife <TAB>`, once:\n  \
                    kubectl nodelife completion kubectl --install\n",
                platforms: platforms.collect(),
            },
        }
    }
}
