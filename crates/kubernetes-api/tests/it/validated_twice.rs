//! Random objects against every rule: nothing panics, and validating an unchanged object as an update yields no error
//! that its creation does not.
//!
//! `PROPERTY_SEED=7 cargo test -p kubernetes-api --test it validated_twice` repeats one run.

use std::collections::BTreeSet;

use apimachinery::Object;
use apimachinery::meta::Time;
use apimachinery::resource::{RequestContext, Resource};
use kubernetes_api::admission::pod_security::{Level, Policy, Version};
use kubernetes_api::admission::{limits, nodes, pod_security, quota, service_account};
use serde_json::{Value, json};

use crate::random::{Dice, any};

fn context(subresource: &str) -> RequestContext {
    RequestContext {
        now: Time::new("2026-01-01T00:00:00Z".parse().expect("a time")),
        user: String::new(),
        groups: Vec::new(),
        subresource: subresource.to_owned(),
        dry_run: false,
    }
}

/// Puts a value of any type somewhere, as no decoder would let it pass: rules may not rely on it.
fn disturb(value: &mut Value, dice: &mut Dice) {
    let children: Vec<&mut Value> = match value {
        Value::Object(map) => map.values_mut().collect(),
        Value::Array(list) => list.iter_mut().collect(),
        _ => Vec::new(),
    };
    let count = children.len();
    if count == 0 || dice.below(5) == 0 {
        let unusual =
            [json!(null), json!("é"), json!(-1), json!(1.5), json!(u64::MAX), json!([]), json!([null]), json!({})];
        *value = unusual[dice.below(unusual.len())].clone();
        return;
    }
    let chosen = dice.below(count);
    if let Some(child) = children.into_iter().nth(chosen) {
        disturb(child, dice);
    }
}

/// All other processing of a well-typed object.
fn whole_life(resource: &Resource, object: &Value) {
    let (strategy, context) = (&resource.strategy, context(""));
    let mut made = object.clone();
    strategy.prepare_create(&context, &mut made);
    let mut changed = object.clone();
    strategy.prepare_update(&context, &made, &mut changed);
    assert_eq!(strategy.cells(object, context.now).len(), strategy.columns().len(), "{object}");
    strategy.row_conditions(object);
    strategy.raises_generation(&made, object);
    strategy.grace_seconds(object, None);
    strategy.to_stored(&mut made).expect("a form that is stored");
    let stored = Object::from_value(&made).expect("an object");
    strategy.served_form(&stored).expect("what is stored is served");

    let named = &resource.info.resource;
    quota::usage(&named.group, &named.plural, object);
    limits::violations(&named.plural, object, &[]);
    if let Some((metadata, spec)) = pod_security::template(&named.plural, object) {
        for level in [Level::Baseline, Level::Restricted] {
            for version in [Version::Minor(0), Version::Latest] {
                Policy { level, version }.violations(metadata, spec);
            }
        }
        pod_security::is_significant_update(object, &made);
    }
    if named.kind == "Pod" {
        let mut pod = object.clone();
        limits::set_defaults(
            &mut pod,
            &[&json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}})],
        );
        nodes::tolerate_failure(&mut pod);
        service_account::choose(&mut pod);
        service_account::complete(&mut pod, &json!({}), "abcde");
    }
}

#[test]
fn unchanged_objects_get_no_additional_errors() {
    let only = std::env::var("PROPERTY_SEED").ok().map(|text| text.parse().expect("a number"));
    let seeds: Vec<u64> = only.map_or_else(|| (1..=12).collect(), |seed| vec![seed]);
    let mut complaints = BTreeSet::new();
    for resource in kubernetes_api::resources() {
        let gvk = resource.info.resource.gvk();
        let Some(type_) = kubernetes_api::schema_for(&gvk) else { continue };
        for seed in &seeds {
            let mut dice = Dice(*seed);
            let Some(mut object) = any(&mut dice, &type_, 0).filter(Value::is_object) else { continue };
            object["metadata"]["namespace"] = "ns".into();
            let strategy = &resource.strategy;
            strategy.default(&mut object).expect("few defaults");
            let texts = |errors: Vec<apimachinery::field::Error>| -> BTreeSet<String> {
                errors.iter().map(ToString::to_string).collect()
            };
            let new = texts(strategy.validate_create(&object));
            let unchanged = texts(strategy.validate_update(&context(""), &object, &object));
            let more: Vec<&String> = unchanged.difference(&new).collect();
            assert!(more.is_empty(), "{gvk}, seed {seed}: {more:#?}\n{object}");
            complaints.extend(new);

            let before = object.clone();
            whole_life(&resource, &before);
            for _ in 0..20 {
                disturb(&mut object, &mut dice);
                if !object.is_object() {
                    break;
                }
                strategy.default(&mut object).expect("few defaults");
                strategy.validate_create(&object);
                for subresource in ["", "status", "finalize"] {
                    strategy.validate_update(&context(subresource), &before, &object);
                    strategy.validate_update(&context(subresource), &object, &before);
                }
                for subresource in ["", "status"] {
                    strategy.warnings(&context(subresource), None, &object);
                    strategy.warnings(&context(subresource), Some(&before), &object);
                }
            }
        }
    }
    assert!(complaints.len() > 500 || only.is_some(), "only {} complaints", complaints.len());
}
