//! The specs of FlowSchemas and PriorityLevelConfigurations. The API server has validated and defaulted them; missing
//! fields are read as empty.

use serde::{Deserialize, Deserializer};

/// The precedence of a schema without one.
const PRECEDENCE: i32 = 1000;

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// The spec of a FlowSchema.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FlowSchema {
    pub priority_level_configuration: Reference,
    #[serde(deserialize_with = "or_default")]
    pub matching_precedence: Option<i32>,
    pub distinguisher_method: Option<Distinguisher>,
    #[serde(deserialize_with = "or_default")]
    pub rules: Vec<Rule>,
}

impl FlowSchema {
    /// Schemas with a lower number are tried first.
    pub fn precedence(&self) -> i32 {
        self.matching_precedence.unwrap_or(PRECEDENCE)
    }
}

/// The name of another object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Reference {
    pub name: String,
}

/// How requests of one schema are divided into flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum Distinguisher {
    ByUser,
    ByNamespace,
}

/// Requests of certain subjects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rule {
    #[serde(deserialize_with = "or_default")]
    pub subjects: Vec<Subject>,
    #[serde(deserialize_with = "or_default")]
    pub resource_rules: Vec<ResourceRule>,
    #[serde(deserialize_with = "or_default")]
    pub non_resource_rules: Vec<PathRule>,
}

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum Subject {
    User { user: Reference },
    Group { group: Reference },
    ServiceAccount { service_account: ServiceAccount },
}

/// A service account, or with the name `*` all of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceAccount {
    pub namespace: String,
    pub name: String,
}

/// Requests for resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceRule {
    #[serde(deserialize_with = "or_default")]
    pub verbs: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub api_groups: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub resources: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub cluster_scope: bool,
    #[serde(deserialize_with = "or_default")]
    pub namespaces: Vec<String>,
}

/// Requests for other paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PathRule {
    #[serde(deserialize_with = "or_default")]
    pub verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "or_default")]
    pub urls: Vec<String>,
}

/// The spec of a PriorityLevelConfiguration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum PriorityLevel {
    /// Its requests start at once.
    Exempt {
        #[serde(default)]
        exempt: Exempt,
    },
    Limited {
        #[serde(default)]
        limited: Limited,
    },
}

/// The shares that requests of an exempt level take from the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Exempt {
    #[serde(deserialize_with = "or_default")]
    pub nominal_concurrency_shares: Option<u32>,
    #[serde(deserialize_with = "or_default")]
    pub lendable_percent: Option<u32>,
}

/// The seats and the queues of a level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Limited {
    #[serde(deserialize_with = "or_default")]
    pub nominal_concurrency_shares: Option<u32>,
    #[serde(deserialize_with = "or_default")]
    pub lendable_percent: Option<u32>,
    /// Without it a level may borrow all there is.
    #[serde(deserialize_with = "or_default")]
    pub borrowing_limit_percent: Option<u32>,
    pub limit_response: LimitResponse,
}

/// The treatment of a request without a free seat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum LimitResponse {
    #[default]
    Reject,
    Queue {
        #[serde(default)]
        queuing: Queuing,
    },
}

/// The queues of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Queuing {
    pub queues: u32,
    /// Queues that one flow may use.
    pub hand_size: u32,
    /// Requests that wait in one queue.
    pub queue_length_limit: u32,
}

impl Default for Queuing {
    fn default() -> Self {
        Self { queues: 64, hand_size: 8, queue_length_limit: 50 }
    }
}

/// The shares of a limited level without them.
pub const SHARES: u32 = 30;

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn specs_are_read() {
        let schema: FlowSchema = from_value(json!({
            "priorityLevelConfiguration": {"name": "a"}, "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [
                {"kind": "User", "user": {"name": "u"}}, {"kind": "Group", "group": {"name": "g"}},
                {"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "n"}}],
              "resourceRules": [{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"], "clusterScope": true}],
              "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/a/*"]}]}]
        }))
        .expect("a schema");
        assert_eq!((schema.precedence(), schema.distinguisher_method), (1000, Some(Distinguisher::ByUser)));
        let rule = &schema.rules[0];
        assert_eq!((rule.subjects.len(), rule.resource_rules.len(), rule.non_resource_rules[0].urls.len()), (3, 1, 1));
        assert!(rule.resource_rules[0].cluster_scope && rule.resource_rules[0].namespaces.is_empty());
        let level: PriorityLevel = from_value(json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 5,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 4}}}}))
        .expect("a level");
        let queuing = Queuing { queues: 4, ..Queuing::default() };
        let limited = Limited {
            nominal_concurrency_shares: Some(5),
            limit_response: LimitResponse::Queue { queuing },
            ..Limited::default()
        };
        assert_eq!(level, PriorityLevel::Limited { limited });
        let exempt: PriorityLevel = from_value(json!({"type": "Exempt"})).expect("a level");
        assert_eq!(exempt, PriorityLevel::Exempt { exempt: Exempt::default() });
    }
}
