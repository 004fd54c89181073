//! `metadata` of every object.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{ResourceList, Shared};
use crate::text::Str;

/// Labels by key, shared by the replicas of a workload.
pub type Labels = Shared<BTreeMap<Str, Str>>;

pub type Annotations = Shared<BTreeMap<Str, Str>>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Unique in its namespace at one time.
    pub name: Str,
    /// Empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Str,
    /// Unique over all time.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub uid: Str,
    /// Opaque version for preconditions and watches.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub resource_version: Str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub creation_timestamp: Option<Timestamp>,
    /// Set once deletion was asked for; for pods it includes the grace period.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub deletion_timestamp: Option<Timestamp>,
    /// Seconds between the request to delete and `deletion_timestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub labels: Labels,
    /// Annotations; decoders leave out `kubectl.kubernetes.io/last-applied-configuration`, and of pods
    /// what nothing reads (`pod_annotations`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub annotations: Annotations,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub owner_references: Shared<Vec<OwnerReference>>,
    /// Finalizers that still block the deletion.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub finalizers: Shared<Vec<Str>>,
}

impl Meta {
    /// The owner that has `controller: true`.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Reads `null` like an absent field, as the API server does.
pub fn nullable<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads amounts, also those that stand there as numbers, as Kubernetes does
/// (k8s.io/apimachinery v0.36.3, `pkg/api/resource/quantity.go`, `UnmarshalJSON`). The API
/// server writes text; people who write YAML don't.
pub(super) fn quantities<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<ResourceList, D::Error> {
    from.deserialize_any(Quantities)
}

struct Quantities;

impl<'de> Visitor<'de> for Quantities {
    type Value = ResourceList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("amounts by resource name")
    }

    fn visit_unit<E>(self) -> Result<ResourceList, E> {
        Ok(ResourceList::new())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ResourceList, M::Error> {
        let mut list = ResourceList::new();
        while let Some((name, Written(amount))) = map.next_entry()? {
            list.insert(name, amount);
        }
        Ok(list)
    }
}

struct Written(Str);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Amount;

        impl Visitor<'_> for Amount {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount, as text or as a number")
            }

            fn visit_str<E>(self, text: &str) -> Result<Written, E> {
                Ok(Written(Str::from(text)))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Written, E> {
                Ok(Written(Str::from(number.to_string())))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Written, E> {
                Ok(Written(Str::from(number.to_string())))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Written, E> {
                Ok(Written(Str::from(number.to_string())))
            }
        }

        from.deserialize_any(Amount)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version of the owner, `apps/v1`.
    pub api_version: Str,
    pub kind: Str,
    pub name: Str,
    /// UID of the owner; a name may have been taken again.
    pub uid: Str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub controller: bool,
}
