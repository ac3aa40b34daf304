//! Reads objects that are answered and never stored: access and token reviews.

use apimachinery::Status;
use apimachinery::meta::Time;
use http::request::Parts;
use serde_json::Value;
use transport::{Body, Identity};

use super::{Call, Kind, no_such_resource};
use crate::request::RequestInfo;
use crate::request::options::Write;
use crate::state::Shared;
use crate::wire::negotiate::{self, Subject};

/// The posted review, and the warnings for its author. It is read like every other object, and its author owns its
/// fields, except for reviews of one's own identity and rules, whose fields the server fills in.
pub(crate) async fn read(
    server: &Shared,
    info: &RequestInfo,
    user: &Identity,
    parts: &Parts,
    body: Body,
) -> Result<(Value, Vec<String>), Status> {
    let served = server.registry.snapshot();
    let resource = served.get(&info.group, &info.version, &info.resource).ok_or_else(no_such_resource)?;
    let named = &resource.info.resource;
    let subject = Subject {
        list: false,
        watch: false,
        custom: false,
        routed: true,
        tables: false,
        group: &named.group,
        kind: &named.kind,
    };
    let call = Call {
        server,
        info,
        resource,
        kind: &Kind::ORDINARY,
        user,
        headers: &parts.headers,
        shared: false,
        seat: None,
        wire: None,
        with_status: false,
        draft: parts.extensions.get(),
        new_objects: None,
        accepted: negotiate::accepted(&parts.headers, subject)?,
        now: Time::new(server.world.now()),
        api_version: named.api_version(),
        cache: Default::default(),
        notes: Default::default(),
    };
    let options = call.write_options(Write::Create)?;
    let (mut review, warnings) = call.object(body, options.field_validation).await?;
    call.check_namespace(&mut review)?;
    if !named.plural.starts_with("selfsubjectr") {
        call.track(None, &mut review).put(&mut review);
    }
    Ok((review, warnings))
}
