//! The conditions of a MultiClusterService. Two controllers write them: each reads the list, changes its own condition,
//! and writes the version that it read.

use std::sync::Arc;

use apimachinery::Object;
use apimachinery::meta::Condition;
use client::{Patch, PatchOptions};
use karmada_api::ApiType;
use karmada_api::networking::v1alpha1::MultiClusterService;
use propagation::status::set_condition;
use serde_json::json;

use crate::Context;
use crate::error::{During, Result, decoded};

/// Sets a condition; returns whether it differed.
pub(super) async fn set(context: &Context, object: &Arc<Object>, condition: Condition) -> Result<bool> {
    let service = decoded(object.key(), MultiClusterService::from_object(object))?;
    if !changes(&service, &condition) {
        return Ok(false);
    }
    let resource = MultiClusterService::api_resource();
    let Some(live) = context.live(&resource, object).await? else { return Ok(false) };
    let mut service = decoded(live.key(), MultiClusterService::from_object(&live))?;
    if !changes(&service, &condition) {
        return Ok(false);
    }
    set_condition(&mut service.status.conditions, condition, context.now());
    let patch = Patch::Merge(json!({
        "metadata": {"uid": live.uid(), "resourceVersion": live.resource_version()},
        "status": {"conditions": service.status.conditions},
    }));
    let key = live.key();
    match context.client.patch(&resource, &key, &patch, &PatchOptions::status()).await {
        Err(error) if !error.is_not_found() => {
            Err(error).during(|| format!("writing the status of {} {key}", resource.kind))
        }
        _ => Ok(true),
    }
}

fn changes(service: &MultiClusterService, condition: &Condition) -> bool {
    let known = service.status.conditions.iter().find(|known| known.type_ == condition.type_);
    known.is_none_or(|known| {
        let of = |it: &Condition| (it.status.clone(), it.reason.clone(), it.message.clone(), it.observed_generation);
        of(known) != of(condition)
    })
}

/// Whether a MultiClusterService has a condition.
pub(super) fn has(service: &MultiClusterService, type_: &str) -> bool {
    service.status.conditions.iter().any(|known| known.type_ == type_)
}
