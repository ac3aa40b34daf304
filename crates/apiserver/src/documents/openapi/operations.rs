//! The operations on a resource: their methods, parameters and names, as kube-apiserver documents them.

/// A query parameter: name, OpenAPI type, description.
pub struct Parameter {
    pub name: &'static str,
    pub type_: &'static str,
    pub description: &'static str,
}

const fn parameter(name: &'static str, type_: &'static str, description: &'static str) -> Parameter {
    Parameter { name, type_, description }
}

/// Sorted by name.
const PARAMETERS: &[Parameter] = &[
    parameter("allowWatchBookmarks", "boolean", "Requests BOOKMARK events in a watch."),
    parameter("continue", "string", "The token of the previous page of a list."),
    parameter("dryRun", "string", "All: the request is processed and nothing is stored."),
    parameter("fieldManager", "string", "The name of the owner of the fields that the request sets."),
    parameter("fieldSelector", "string", "Selects objects by fields."),
    parameter(
        "fieldValidation",
        "string",
        "Treatment of unknown and duplicate fields: Ignore, Warn (the default) or Strict.",
    ),
    parameter("force", "boolean", "Takes fields from other owners. Allowed for apply only."),
    parameter("gracePeriodSeconds", "integer", "Seconds until the object is deleted."),
    parameter(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Deletes an object that cannot be read, without regard to its finalizers.",
    ),
    parameter("labelSelector", "string", "Selects objects by labels."),
    parameter("limit", "integer", "The largest number of objects in a page of a list."),
    parameter("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    parameter("pretty", "string", "Whether the response is indented."),
    parameter(
        "propagationPolicy",
        "string",
        "What happens to dependents of a deleted object: Orphan, Background or Foreground.",
    ),
    parameter("resourceVersion", "string", "The resource version that the response must not be older than."),
    parameter("resourceVersionMatch", "string", "How resourceVersion is applied: Exact or NotOlderThan."),
    parameter("sendInitialEvents", "boolean", "Whether a watch begins with the existing objects."),
    parameter("timeoutSeconds", "integer", "The duration of a list or watch."),
    parameter("watch", "boolean", "Streams changes instead of listing objects."),
];

/// A parameter that an operation names.
pub fn described(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.binary_search_by(|known| known.name.cmp(name)).ok().map(|at| &PARAMETERS[at])
}

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    None,
    Object,
    Patch,
    /// Optional.
    DeleteOptions,
}

/// The body of a successful response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Object,
    List,
    Status,
}

/// One operation.
pub struct Operation {
    /// The verb of RBAC.
    pub verb: &'static str,
    pub method: &'static str,
    /// `x-kubernetes-action`.
    pub action: &'static str,
    /// The beginning of its id.
    pub id: &'static str,
    pub parameters: &'static [&'static str],
    pub body: Body,
    pub reply: Reply,
    /// The codes of success besides 200.
    pub codes: &'static [u16],
}

const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
const DELETE_COLLECTION: &[&str] = &[
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
];
const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];

const GET: Operation = Operation {
    verb: "get",
    method: "get",
    action: "get",
    id: "read",
    parameters: &[],
    body: Body::None,
    reply: Reply::Object,
    codes: &[],
};
pub const LISTED: Operation =
    Operation { verb: "list", action: "list", id: "list", parameters: LIST, reply: Reply::List, ..GET };
const CREATE: Operation = Operation {
    verb: "create",
    method: "post",
    action: "post",
    id: "create",
    parameters: WRITE,
    body: Body::Object,
    reply: Reply::Object,
    codes: &[201, 202],
};
const UPDATE: Operation =
    Operation { verb: "update", method: "put", action: "put", id: "replace", codes: &[201], ..CREATE };
const PATCH: Operation = Operation {
    verb: "patch",
    method: "patch",
    action: "patch",
    id: "patch",
    parameters: &["dryRun", "fieldManager", "fieldValidation", "force"],
    body: Body::Patch,
    reply: Reply::Object,
    codes: &[201],
};
const REMOVE: Operation = Operation {
    verb: "delete",
    method: "delete",
    action: "delete",
    id: "delete",
    parameters: DELETE,
    body: Body::DeleteOptions,
    reply: Reply::Status,
    codes: &[202],
};
const REMOVE_ALL: Operation = Operation {
    verb: "deletecollection",
    action: "deletecollection",
    parameters: DELETE_COLLECTION,
    codes: &[],
    ..REMOVE
};

pub const ON_COLLECTION: [Operation; 3] = [LISTED, CREATE, REMOVE_ALL];
pub const ON_OBJECT: [Operation; 4] = [GET, UPDATE, REMOVE, PATCH];
pub const ON_SUBRESOURCE: [Operation; 5] = [GET, CREATE, UPDATE, REMOVE, PATCH];

// The operations of custom resources differ: upstream documents them separately.
pub const ON_CUSTOM_COLLECTION: [Operation; 3] =
    [LISTED, CREATE, Operation { parameters: LIST, body: Body::None, ..REMOVE_ALL }];
const GET_CUSTOM: Operation = Operation { parameters: &["resourceVersion"], ..GET };
const PATCH_CUSTOM: Operation = Operation { codes: &[], ..PATCH };
pub const ON_CUSTOM_OBJECT: [Operation; 4] = [GET_CUSTOM, UPDATE, REMOVE, PATCH_CUSTOM];
pub const ON_CUSTOM_SUBRESOURCE: [Operation; 3] = [GET_CUSTOM, UPDATE, PATCH_CUSTOM];

impl Operation {
    /// Its description, for a kind and a subresource (or an empty text).
    pub fn description(&self, kind: &str, subresource: &str, custom: bool) -> String {
        let of = if subresource.is_empty() { String::new() } else { format!(" {subresource} of") };
        match self.action {
            "list" if custom => format!("list objects of kind {kind}"),
            "list" => format!("list or watch objects of kind {kind}"),
            "deletecollection" => format!("delete collection of {kind}"),
            "patch" => format!("partially update{of} the specified {kind}"),
            "get" | "put" => format!("{}{of} the specified {kind}", self.id),
            _ => format!("{}{of}{}{kind}", self.id, article(kind)),
        }
    }
}

fn article(noun: &str) -> &'static str {
    match noun.as_bytes().first() {
        _ if noun.ends_with('s') && !noun.ends_with("ss") => " ",
        Some(b'a' | b'e' | b'i' | b'o' | b'u' | b'A' | b'E' | b'I' | b'O' | b'U') => " an ",
        _ => " a ",
    }
}

/// Camel case of letters, digits and underscores, for ids and tags.
pub fn camel_case(text: &str, mut capital: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        if !(letter.is_alphabetic() || letter == '_' || (at > 0 && letter.is_numeric())) {
            capital = true;
        } else if std::mem::take(&mut capital) {
            out.extend(letter.to_uppercase());
        } else {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_described() {
        assert!(PARAMETERS.is_sorted_by_key(|known| known.name));
        for operation in ON_COLLECTION.iter().chain(&ON_OBJECT).chain(&ON_CUSTOM_COLLECTION).chain(&ON_CUSTOM_OBJECT) {
            for name in operation.parameters {
                assert!(described(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn names_are_upstreams() {
        assert_eq!(camel_case("w1.example.com", false), "w1ExampleCom");
        assert_eq!(camel_case("o1-0.example.com", true), "O10ExampleCom");
        assert_eq!(camel_case("1st", true), "St");
        for (kind, expected) in [("Order", "create an Order"), ("Foo", "create a Foo"), ("Foos", "create Foos")] {
            assert_eq!(CREATE.description(kind, "", true), expected);
        }
        assert_eq!(UPDATE.description("Foo", "scale", true), "replace scale of the specified Foo");
    }
}
