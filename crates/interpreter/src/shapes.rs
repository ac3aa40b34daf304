//! Documents of unusual shapes: users and members may write anything.

use serde_json::{Value, json};

/// Calls `visit` with a copy of the document for each of its nodes and each unusual value in its place, and for each
/// field without it.
pub fn distorted(document: &Value, visit: &mut dyn FnMut(&Value)) {
    let unusual = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(9_007_199_254_740_993_i64),
        json!(""),
        json!("x"),
        json!([]),
        json!({}),
        json!([null, 1]),
        json!([{}]),
        json!([[{"name": 1}]]),
        json!({"name": {}}),
        json!([{"type": 1, "status": true, "message": [], "template": "x", "replicas": "2"}]),
    ];
    let mut document = document.clone();
    for path in paths(&document) {
        let node = document.pointer_mut(&path).expect("a path of the document");
        let original = node.take();
        for value in &unusual {
            *document.pointer_mut(&path).expect("a path of the document") = value.clone();
            visit(&document);
        }
        *document.pointer_mut(&path).expect("a path of the document") = original;
        let Some((parent, field)) = path.rsplit_once('/') else { continue };
        let Some(Value::Object(fields)) = document.pointer(parent) else { continue };
        let mut without = fields.clone();
        without.remove(&field.replace("~1", "/").replace("~0", "~"));
        let fields = std::mem::replace(document.pointer_mut(parent).expect("the parent"), Value::Object(without));
        visit(&document);
        *document.pointer_mut(parent).expect("the parent") = fields;
    }
}

/// The paths of all nodes, the document's own first.
fn paths(document: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut collect = |key: &str, child: &Value| {
        let key = key.replace('~', "~0").replace('/', "~1");
        found.extend(paths(child).into_iter().map(|path| format!("/{key}{path}")));
    };
    match document {
        Value::Object(fields) => fields.iter().for_each(|(key, child)| collect(key, child)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, child)| collect(&at.to_string(), child)),
        _ => {}
    }
    found
}
