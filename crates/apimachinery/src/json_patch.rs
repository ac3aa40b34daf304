//! JSON patch (RFC 6902) as Kubernetes' library applies it: `replace` may add a member to an existing object, `copy`
//! may copy one that is not there (as null), negative indices count from the end, a document as a whole can be replaced
//! and tested but not added or removed; and copying is bounded.

mod pointer;

use serde_json::{Map, Value};

pub use crate::patch::PatchError;
use pointer::{Fault, Pointer};

/// Upstream's bound on operations in one patch.
pub const MAX_OPERATIONS: usize = 10_000;
/// Upstream's bound on the size that all `copy` operations of a patch may add, in bytes of JSON.
pub const MAX_COPIED: usize = 3 * 1024 * 1024;
/// The bound on items that all operations of a patch together may shift in arrays or visit in moved values. Ten
/// thousand operations on an array of a body's size would take minutes; this many take less than a second.
const MAX_WORK: usize = 50_000_000;
/// Deeper documents cannot be read back (the JSON decoder's bound) and would exhaust the stack.
const MAX_DEPTH: usize = 128;

/// A parsed JSON patch (RFC 6902).
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Operation>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operation {
    Add(Pointer, Value),
    Remove(Pointer),
    Replace(Pointer, Value),
    Move { from: Pointer, to: Pointer },
    Copy { from: Pointer, to: Pointer },
    Test(Pointer, Value),
}

/// Reads a patch document.
///
/// # Errors
/// `Malformed` when the document is not a list of operations, `TooManyOperations` above the limit.
///
/// ```
/// use apimachinery::json_patch;
/// use serde_json::json;
///
/// let patch = json_patch::parse(br#"[{"op": "replace", "path": "/spec/replicas", "value": 3}]"#)?;
/// let mut object = json!({"spec": {"replicas": 1}});
/// patch.apply(&mut object)?;
/// assert_eq!(object, json!({"spec": {"replicas": 3}}));
/// # Ok::<(), apimachinery::patch::PatchError>(())
/// ```
pub fn parse(document: &[u8]) -> Result<JsonPatch, PatchError> {
    let tree: Value = serde_json::from_slice(document)
        .map_err(|e| PatchError::Malformed(crate::go_json::syntax_error(document).unwrap_or_else(|| e.to_string())))?;
    match tree {
        Value::Array(raw) => from_values(raw),
        // No operations at all.
        Value::Null => from_values(Vec::new()),
        other => Err(no_array(&other)),
    }
}

/// Reads a patch that is already a tree.
///
/// # Errors
/// As [`parse`].
pub fn from_value(document: &Value) -> Result<JsonPatch, PatchError> {
    let Value::Array(raw) = document else {
        return Err(no_array(document));
    };
    from_values(raw.clone())
}

/// The members of operations that no operation has, in the words of strict decoding, each with the place of its
/// operation: `unknown field "[0].foo"`.
pub fn unknown_members(document: &[u8]) -> Vec<(usize, String)> {
    let Ok(Value::Array(operations)) = serde_json::from_slice(document) else { return Vec::new() };
    let known = |name: &str| matches!(name, "op" | "path" | "from" | "value");
    let places = operations.iter().enumerate();
    places
        .flat_map(|(place, operation)| {
            let names = operation.as_object().into_iter().flat_map(serde_json::Map::keys);
            names
                .filter(|name| !known(name))
                .map(move |name| (place, format!("unknown field {:?}", format!("[{place}].{name}"))))
        })
        .take(crate::strict::MAX_FINDINGS)
        .collect()
}

fn no_array(found: &Value) -> PatchError {
    mistyped(found, "value of type []handlers.jsonPatchOp")
}

/// Go's message for a value of the wrong type.
fn mistyped(found: &Value, place: &str) -> PatchError {
    PatchError::Malformed(format!("json: cannot unmarshal {} into Go {place}", crate::go_json::type_name(found)))
}

fn from_values(raw: Vec<Value>) -> Result<JsonPatch, PatchError> {
    if raw.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations { actual: raw.len(), max: MAX_OPERATIONS });
    }
    let operations = raw.into_iter().map(Operation::from_value).collect::<Result<_, _>>()?;
    Ok(JsonPatch { operations })
}

impl Operation {
    fn from_value(value: Value) -> Result<Self, PatchError> {
        let members = match value {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            other => return Err(mistyped(&other, "value of type handlers.jsonPatchOp")),
        };
        let text = |key: &str| match members.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(mistyped(other, &format!("struct field jsonPatchOp.{key} of type string"))),
        };
        let (op, path, from) = (text("op")?.unwrap_or("unknown"), text("path")?, text("from")?);
        let missing =
            |what: &str| PatchError::NotApplicable(format!("{op} operation failed to decode {what}: missing value"));
        let path = || match path {
            Some(text) => Pointer::parse(text),
            None if matches!(op, "replace" | "move" | "test") => Err(missing("path: operation missing path field")),
            None => Err(missing("path")),
        };
        let from = || from.map_or_else(|| Err(missing("from: operation, missing from field")), Pointer::parse);
        // One that is not there is null.
        let value = || members.get("value").cloned().unwrap_or_default();
        Ok(match op {
            "add" => Self::Add(path()?, value()),
            "replace" => Self::Replace(path()?, value()),
            "test" => Self::Test(path()?, value()),
            "remove" => Self::Remove(path()?),
            "move" => Self::Move { from: from()?, to: path()? },
            "copy" => Self::Copy { from: from()?, to: path()? },
            other => return Err(PatchError::NotApplicable(format!("Unexpected kind: {other}"))),
        })
    }
}

impl JsonPatch {
    /// Applies all operations in order. On an error `target` may be partly changed; use a copy.
    ///
    /// # Errors
    /// Why an operation does not apply; `target` may then be partly changed.
    pub fn apply(&self, target: &mut Value) -> Result<(), PatchError> {
        let mut spent = Spent::default();
        self.operations.iter().try_for_each(|operation| operation.apply(target, &mut spent))
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Whether an operation reads or writes at, above or below the place.
    pub fn concerns(&self, place: &[&str]) -> bool {
        let near = |path: &Pointer| path.tokens.iter().zip(place).all(|(a, b)| a == b);
        self.operations.iter().any(|operation| match operation {
            Operation::Add(path, _)
            | Operation::Replace(path, _)
            | Operation::Remove(path)
            | Operation::Test(path, _) => near(path),
            Operation::Move { from, to } | Operation::Copy { from, to } => near(from) || near(to),
        })
    }

    /// Whether an operation writes at or below the path; used to detect that a patch sets a resourceVersion.
    pub fn touches(&self, place: &[&str]) -> bool {
        self.operations.iter().any(|operation| {
            let path = match operation {
                Operation::Add(path, _) | Operation::Replace(path, _) | Operation::Remove(path) => path,
                Operation::Move { to, .. } | Operation::Copy { to, .. } => to,
                Operation::Test(..) => return false,
            };
            path.tokens.len() >= place.len() && path.tokens.iter().zip(place).all(|(a, b)| a == b)
        })
    }
}

/// The cost of a patch so far.
#[derive(Default)]
struct Spent {
    copied: usize,
    work: usize,
}

impl Spent {
    fn work(&mut self, amount: usize) -> Result<(), PatchError> {
        self.work = self.work.saturating_add(amount);
        if self.work > MAX_WORK {
            return Err(PatchError::NotApplicable(format!("the patch takes more than {MAX_WORK} steps")));
        }
        Ok(())
    }
}

impl Operation {
    fn apply(&self, target: &mut Value, spent: &mut Spent) -> Result<(), PatchError> {
        match self {
            Self::Add(path, value) => path.add(target, value.clone(), spent).map_err(|fault| {
                let missing = || format!("add operation does not apply: doc is missing path: \"{path}\"");
                fault.of(missing, || format!("error in add for path: '{path}'"))
            }),
            Self::Remove(path) => path.remove(target, spent).map(drop).map_err(|fault| {
                let missing = || format!("remove operation does not apply: doc is missing path: \"{path}\"");
                fault.of(missing, || format!("error in remove for path: '{path}'"))
            }),
            Self::Replace(path, value) => path.replace(target, value.clone()).map_err(|fault| match fault {
                Fault::Inside(_) => {
                    let text = format!("replace operation does not apply: doc is missing key: {path}: missing value");
                    PatchError::NotApplicable(text)
                }
                other => {
                    other.of(|| format!("replace operation does not apply: doc is missing path: {path}"), String::new)
                }
            }),
            Self::Test(path, value) => path.test(target, value),
            Self::Move { from, to } => {
                // A value moved into itself is already removed when its new place is resolved.
                let value = from.remove(target, spent).map_err(|fault| {
                    let missing = || format!("move operation does not apply: doc is missing from path: {from}");
                    fault.of(missing, || format!("error in move for path: '{}'", from.last()))
                })?;
                to.add(target, value, spent).map_err(|fault| {
                    let missing = || format!("move operation does not apply: doc is missing destination path: {to}");
                    fault.of(missing, || format!("error in move for path: '{to}'"))
                })
            }
            Self::Copy { from, to } => copy((from, to), target, spent),
        }
    }
}

fn copy((from, to): (&Pointer, &Pointer), target: &mut Value, spent: &mut Spent) -> Result<(), PatchError> {
    let value = from.get(target).map_err(|fault| {
        let missing = || format!("copy operation does not apply: doc is missing from path: {from}");
        fault.of(missing, || format!("error in copy for from: '{from}'"))
    })?;
    let value = value.cloned().unwrap_or_default();
    spent.copied = spent.copied.saturating_add(value.to_string().len());
    if spent.copied > MAX_COPIED {
        let text = format!("the copy operations of the patch add more than {MAX_COPIED} bytes");
        return Err(PatchError::NotApplicable(text));
    }
    to.add(target, value, spent).map_err(|fault| {
        let missing = || format!("copy operation does not apply: doc is missing destination path: {to}");
        fault.of(missing, || "error while adding value during copy".to_owned())
    })
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(target: Value, patch: Value) -> Result<Value, PatchError> {
        let mut target = target;
        parse(patch.to_string().as_bytes())?.apply(&mut target).map(|()| target)
    }

    #[test]
    fn operations() {
        for (target, patch, expected) in [
            (json!({"a":1}), json!([{"op":"add","path":"/b","value":2}]), Some(json!({"a":1,"b":2}))),
            (json!({"a":[1,3]}), json!([{"op":"add","path":"/a/1","value":2}]), Some(json!({"a":[1,2,3]}))),
            (json!({"a":[1]}), json!([{"op":"add","path":"/a/-","value":2}]), Some(json!({"a":[1,2]}))),
            (json!({"a":[1]}), json!([{"op":"add","path":"/a/2","value":2}]), None),
            (json!({"a":[1]}), json!([{"op":"add","path":"/a/-1","value":2}]), Some(json!({"a":[1,2]}))),
            (json!({"a":[1]}), json!([{"op":"add","path":"/a/-2","value":2}]), Some(json!({"a":[2,1]}))),
            (json!({"a":[1]}), json!([{"op":"add","path":"/a/-3","value":2}]), None),
            (json!({"a":[1,2]}), json!([{"op":"replace","path":"/a/-1","value":3}]), Some(json!({"a":[1,3]}))),
            (json!({"a":[1,2]}), json!([{"op":"remove","path":"/a/-2"}]), Some(json!({"a":[2]}))),
            (json!({"a":[1,2]}), json!([{"op":"remove","path":"/a/-3"}]), None),
            (json!({"a":[{}]}), json!([{"op":"add","path":"/a/-1/b","value":1}]), Some(json!({"a":[{"b":1}]}))),
            (json!({"a":[1,2]}), json!([{"op":"test","path":"/a/01","value":2}]), Some(json!({"a":[1,2]}))),
            (json!({"a":[1,2]}), json!([{"op":"test","path":"/a/2","value":null}]), None),
            (json!({"a":[1]}), json!([{"op":"add","path":"/a/+","value":2}]), None),
            (json!({"a":[1]}), json!([{"op":"add","path":"/a/99999999999999999999","value":2}]), None),
            (json!({}), json!([{"op":"add","path":"/a/b","value":2}]), None),
            (json!({"a":1}), json!([{"op":"remove","path":"/a"}]), Some(json!({}))),
            (json!({"a":1}), json!([{"op":"remove","path":"/b"}]), None),
            (json!({"a":{}}), json!([{"op":"replace","path":"/a/b","value":1}]), Some(json!({"a":{"b":1}}))),
            (json!({"a":[]}), json!([{"op":"replace","path":"/a/0","value":1}]), None),
            (json!({"a/b":1,"m~n":2}), json!([{"op":"move","from":"/a~1b","path":"/m~0n"}]), Some(json!({"m~n":1}))),
            (json!({"a":{"b":1}}), json!([{"op":"move","from":"/a","path":"/a/c"}]), None),
            (json!({"a":1}), json!([{"op":"copy","from":"/a","path":"/b"}]), Some(json!({"a":1,"b":1}))),
            (json!({"a":1}), json!([{"op":"test","path":"/a","value":1}]), Some(json!({"a":1}))),
            (json!({"a":1}), json!([{"op":"test","path":"/b","value":null}]), Some(json!({"a":1}))),
            (json!({"a":1}), json!([{"op":"test","path":"/a","value":2}]), None),
            (json!({"a":1}), json!([{"op":"frob","path":"/a"}]), None),
            (json!({"a":1}), json!([{"op":"replace","path":"","value":{"z":1}}]), Some(json!({"z":1}))),
            (json!({"a":1}), json!([{"op":"replace","path":"","value":1}]), None),
            (json!({"a":1}), json!([{"op":"test","path":"","value":{"a":1}}]), Some(json!({"a":1}))),
            (json!({"a":1}), json!([{"op":"add","path":"","value":{"z":1}}]), None),
            (json!({"a":1}), json!([{"op":"remove","path":""}]), None),
            (json!({"a":1}), json!([{"op":"copy","from":"","path":"/b"}]), None),
            (json!({"a":1}), json!([{"op":"copy","from":"/x","path":"/b"}]), Some(json!({"a":1,"b":null}))),
            (json!({"a":1}), json!([{"op":"copy","from":"/x/y","path":"/b"}]), None),
            (json!({"a":1}), json!([{"op":"move","from":"/x","path":"/b"}]), None),
            (json!({"a":1}), json!([{"op":"test","path":"/x/y","value":null}]), None),
            (json!({"a":1}), json!([{"op":"add","path":"/b"}]), Some(json!({"a":1,"b":null}))),
            (json!({"a":1}), json!([{"op":"add","path":"x/b","value":2}]), Some(json!({"a":1,"b":2}))),
            (json!({"a":1}), json!([{"op":"add","path":"b","value":2}]), None),
            (json!({"a":1}), json!([{"op":"add","value":2}]), None),
            (json!({"a":1}), json!([null]), None),
            (json!({"a":1}), json!(null), Some(json!({"a":1}))),
        ] {
            assert_eq!(run(target.clone(), patch.clone()).ok(), expected, "{target} {patch}");
        }
    }

    #[test]
    fn malformed_patches_yield_gos_messages() {
        for (patch, expected) in [
            (json!({}), "object into Go value of type []handlers.jsonPatchOp"),
            (json!([1]), "number into Go value of type handlers.jsonPatchOp"),
            (json!([{"op": 5, "path": "/a"}]), "number into Go struct field jsonPatchOp.op of type string"),
            (json!([{"op": "add", "path": {}}]), "object into Go struct field jsonPatchOp.path of type string"),
        ] {
            let found = from_value(&patch).expect_err("no patch").to_string();
            assert_eq!(found, format!("error decoding patch: json: cannot unmarshal {expected}"), "{patch}");
        }
    }

    #[test]
    fn errors_match_kubernetes_library() {
        for (operation, expected) in [
            (
                json!({"op":"remove","path":"/b"}),
                "error in remove for path: '/b': Unable to remove nonexistent key: b: missing value",
            ),
            (
                json!({"op":"add","path":"/b/c"}),
                "add operation does not apply: doc is missing path: \"/b/c\": missing value",
            ),
            (json!({"op":"add","path":"b"}), "add operation does not apply: doc is missing path: \"b\": missing value"),
            (json!({"op":"add"}), "add operation failed to decode path: missing value"),
            (
                json!({"op":"replace"}),
                "replace operation failed to decode path: operation missing path field: missing value",
            ),
            (
                json!({"op":"replace","path":"/l/7"}),
                "replace operation does not apply: doc is missing key: /l/7: missing value",
            ),
            (
                json!({"op":"add","path":"/l/7"}),
                "error in add for path: '/l/7': Unable to access invalid index: 7: invalid index referenced",
            ),
            (
                json!({"op":"add","path":"/l/x"}),
                "error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                json!({"op":"move","path":"/c"}),
                "move operation failed to decode from: operation, missing from field: missing value",
            ),
            (
                json!({"op":"move","from":"/x~1y","path":"/c"}),
                "error in move for path: 'x/y': Unable to remove nonexistent key: x/y: missing value",
            ),
            (
                json!({"op":"move","from":"/a","path":"/c/d"}),
                "move operation does not apply: doc is missing destination path: /c/d: missing value",
            ),
            (
                json!({"op":"copy","from":"/x/y","path":"/c"}),
                "copy operation does not apply: doc is missing from path: /x/y: missing value",
            ),
            (
                json!({"op":"copy","from":"/a","path":"/l/9"}),
                "error while adding value during copy: Unable to access invalid index: 9: invalid index referenced",
            ),
            (json!({"op":"test","path":"/a","value":2}), "testing value /a failed: test failed"),
            (
                json!({"op":"test","path":"/x/y","value":2}),
                "test operation does not apply: is missing path: /x/y: missing value",
            ),
            (json!({"op":"frob","path":"/a"}), "Unexpected kind: frob"),
            (json!({"path":"/a"}), "Unexpected kind: unknown"),
        ] {
            let found = run(json!({"a": 1, "l": [1]}), json!([operation])).expect_err("it does not apply");
            assert_eq!(found.to_string(), expected);
        }
    }

    #[test]
    fn hostile_patches_are_refused() {
        assert!(matches!(parse(b"{}"), Err(PatchError::Malformed(_))));
        let many = Value::Array(vec![json!({"op":"test","path":"/a"}); MAX_OPERATIONS + 1]);
        assert!(matches!(from_value(&many), Err(PatchError::TooManyOperations { .. })));
        // Each copy doubles size and depth of the document.
        let mut path = String::new();
        let deepen: Vec<Value> = (0..20)
            .map(|_| {
                path.push_str(&"/a".repeat(if path.is_empty() { 1 } else { path.len() / 2 }));
                json!({"op":"copy","from":"","path":path})
            })
            .take(8)
            .collect();
        assert!(run(json!({}), Value::Array(deepen)).is_err());
        // Each shifts the whole array.
        let long = json!({"a": vec![0; 100_000]});
        let shift = |op: Value| Value::Array(vec![op; MAX_OPERATIONS]);
        let first = json!({"op":"add","path":"/a/0","value":1});
        assert!(run(long.clone(), shift(first)).is_err_and(|e| e.to_string().contains("steps")));
        let around = (0..MAX_OPERATIONS).map(|n| match n % 2 {
            0 => json!({"op":"move","from":"/a","path":"/b"}),
            _ => json!({"op":"move","from":"/b","path":"/a"}),
        });
        let around = Value::Array(around.collect());
        assert!(run(long, around).is_err_and(|e| e.to_string().contains("steps")));
        let widen: Vec<Value> = (0..40).map(|i| json!({"op":"copy","from":"","path":format!("/{i}")})).collect();
        assert!(run(json!({"s": "x".repeat(1000)}), Value::Array(widen)).is_err());
    }

    #[test]
    fn touched_paths_are_detected() {
        let patch = parse(br#"[{"op":"replace","path":"/metadata/resourceVersion","value":"1"}]"#).expect("valid");
        assert!(patch.touches(&["metadata", "resourceVersion"]) && !patch.touches(&["metadata", "name"]));
    }
}
