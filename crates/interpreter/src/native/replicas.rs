//! Reads and sets replicas.

use karmada_api::work::v1alpha2::ReplicaRequirements;
use serde_json::{Value, json};

use super::requirements::replica_requirements;
use super::unsupported;
use crate::tree::{at, int};
use crate::{Error, Kind, Operation};

pub fn get(template: &Value) -> Result<(i32, Option<ReplicaRequirements>), Error> {
    let operation = Operation::InterpretReplica;
    let kind = Kind::of(template).ok_or_else(|| unsupported(operation, template))?;
    let replicas = match kind {
        Kind::Pod => 1,
        Kind::Job => {
            let parallelism = int(template, &["spec", "parallelism"]);
            at(template, &["spec", "completions"])
                .as_i64()
                .map_or(parallelism, |completions| completions.min(parallelism))
        }
        _ => int(template, &["spec", "replicas"]),
    };
    let replicas = i32::try_from(replicas)
        .map_err(|_| Error::malformed(operation, template, format!("{replicas} replicas are too many")))?;
    let pod = kind.pod_template().map(|path| at(template, path)).unwrap_or(template);
    let requirements = replica_requirements(pod).map_err(|detail| Error::malformed(operation, template, detail))?;
    Ok((replicas, requirements))
}

/// Sets the field only if the template has it.
pub fn revise(template: &mut Value, replicas: i32) -> Result<(), Error> {
    let field = match Kind::of(template) {
        Some(Kind::Job) => "parallelism",
        Some(_) => "replicas",
        None => return Err(unsupported(Operation::ReviseReplica, template)),
    };
    match &template["spec"][field] {
        Value::Null => {}
        Value::Number(number) if number.is_i64() => template["spec"][field] = json!(replicas),
        other => {
            let detail = format!("spec.{field} is {other}, not an integer");
            return Err(Error::malformed(Operation::ReviseReplica, template, detail));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        for (api, kind, spec, expected) in [
            ("apps/v1", "Deployment", json!({"replicas": 3}), 3),
            ("apps/v1", "StatefulSet", json!({}), 0),
            ("batch/v1", "Job", json!({"parallelism": 4, "completions": 2}), 2),
            ("batch/v1", "Job", json!({"completions": 2}), 0),
            ("v1", "Pod", json!({}), 1),
        ] {
            let object = json!({"apiVersion": api, "kind": kind, "spec": spec});
            assert_eq!(get(&object).unwrap(), (expected, None), "{object}");
        }
    }

    #[test]
    fn revises_existing_fields_only() {
        for (kind, api, before, after) in [
            ("Deployment", "apps/v1", json!({"replicas": 3}), json!({"replicas": 7})),
            ("Deployment", "apps/v1", json!({}), json!({})),
            (
                "Job",
                "batch/v1",
                json!({"parallelism": 1, "completions": 9}),
                json!({"parallelism": 7, "completions": 9}),
            ),
        ] {
            let mut object = json!({"apiVersion": api, "kind": kind, "spec": before});
            revise(&mut object, 7).unwrap();
            assert_eq!(object["spec"], after);
        }
        let mut wrong = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": "3"}});
        assert!(revise(&mut wrong, 7).is_err());
    }
}
