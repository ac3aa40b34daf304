//! get and list.

use std::sync::Arc;

use apimachinery::selector::{FieldSelector, Selector};
use apimachinery::status::ListMeta;
use apimachinery::{Object, ObjectKey, Status, StatusReason};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use storage::{KeyRange, RangeRequest};
use transport::{ObjectList, Payload, Response};

use super::Call;
use crate::negotiate::Shape;
use crate::request::Query;
use crate::{errors, keys, respond, shape};

/// What a list continues from, as the opaque token says it.
#[derive(Serialize, Deserialize)]
struct Continue {
    v: String,
    rv: u64,
    namespace: String,
    name: String,
}

/// The label and field selectors of a read.
pub(super) struct Filter {
    labels: Selector,
    fields: FieldSelector,
    everything: bool,
}

impl Filter {
    pub(super) fn accepts(&self, object: &Object) -> bool {
        self.everything || (self.labels.matches(object.labels()) && self.fields_match(object))
    }

    fn fields_match(&self, object: &Object) -> bool {
        if self.fields.is_everything() {
            return true;
        }
        let tree = std::cell::OnceCell::new();
        self.fields.matches_with(|path| match path {
            "metadata.name" => Some(object.name().into()),
            "metadata.namespace" => Some(object.namespace().unwrap_or_default().into()),
            path => {
                let tree = tree.get_or_init(|| object.to_value().unwrap_or_default());
                let found = path.split('.').fold(tree, |at, part| &at[part]);
                Some(match found {
                    serde_json::Value::String(text) => text.clone().into(),
                    serde_json::Value::Null => "".into(),
                    other => other.to_string().into(),
                })
            }
        })
    }

    pub(super) fn is_everything(&self) -> bool {
        self.everything
    }
}

impl Call<'_> {
    pub(super) fn filter(&self) -> Result<Filter, Status> {
        self.filter_of(&self.info.query)
    }

    pub(super) fn filter_of(&self, query: &Query) -> Result<Filter, Status> {
        let labels = Selector::parse(query.get("labelSelector").unwrap_or_default())
            .map_err(|e| Status::bad_request(format!("unable to parse requirement: {e}")))?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
            .map_err(|e| Status::bad_request(e.to_string()))?;
        for (path, ..) in fields.requirements() {
            let path = path.as_str();
            let known = matches!(path, "metadata.name" | "metadata.namespace")
                || self.resource.info.selectable_fields.iter().any(|field| field.trim_start_matches('.') == path);
            if !known {
                return Err(Status::bad_request(if self.resource.info.custom {
                    format!("field label not supported: {path}")
                } else {
                    format!("{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
                }));
            }
        }
        let everything = labels.is_everything() && fields.is_everything();
        Ok(Filter { labels, fields, everything })
    }

    pub(super) async fn get(&self) -> Result<Response, Status> {
        match self.info.query.number("resourceVersion")? {
            None => drop(self.server.cache.catch_up().await?),
            Some(0) => {}
            Some(revision) => drop(self.server.cache.not_older_than(revision).await?),
        }
        let stored = self.cache().get(&self.key()).ok_or_else(|| self.not_found(&self.info.name))?;
        self.reply(StatusCode::OK, &self.served(stored)?)
    }

    pub(super) async fn list(&self) -> Result<Response, Status> {
        let filter = self.filter()?;
        let limit = self.info.query.number("limit")?.unwrap_or(0) as usize;
        let exact = self.info.query.text("resourceVersionMatch");
        let revision = self.info.query.number("resourceVersion")?;
        self.check_list_options(exact, revision)?;
        if let Some(token) = self.info.query.text("continue") {
            return self.list_continued(token, limit, &filter).await;
        }
        let at = match (revision, exact) {
            (Some(revision), Some("Exact")) => return self.list_at(revision, None, limit, &filter).await,
            (None, _) => self.server.cache.catch_up().await?,
            (Some(0), _) => self.server.cache.revision(),
            (Some(revision), _) => self.server.cache.not_older_than(revision).await?,
        };
        // From the cache, `resourceVersion=0` ignores the limit, as kube-apiserver does.
        let limit = if revision == Some(0) { 0 } else { limit };
        let (items, remaining, newest) =
            self.cache().list(self.namespace(), None, limit, |object| filter.accepts(object));
        self.reply_list(items, remaining, at.max(newest), &filter)
    }

    fn check_list_options(&self, how: Option<&str>, revision: Option<u64>) -> Result<(), Status> {
        let wrong = match (how, revision) {
            (None, _) => None,
            (Some("Exact"), Some(0)) => Some("resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\""),
            (Some("Exact" | "NotOlderThan"), Some(_)) => None,
            (Some("Exact" | "NotOlderThan"), None) => {
                Some("resourceVersionMatch is forbidden unless resourceVersion is provided")
            }
            (Some(_), _) => Some("supported values: \"\", \"Exact\", \"NotOlderThan\""),
        };
        let path = apimachinery::field::Path::new("resourceVersionMatch");
        match wrong {
            None if self.info.query.text("sendInitialEvents").is_some() => {
                let path = apimachinery::field::Path::new("sendInitialEvents");
                let error = apimachinery::field::Error::forbidden(&path, "sendInitialEvents is forbidden for list");
                Err(Status::invalid("meta.k8s.io", "ListOptions", "", &[error]))
            }
            None => Ok(()),
            Some(why) => {
                let error = apimachinery::field::Error::forbidden(&path, why);
                Err(Status::invalid("meta.k8s.io", "ListOptions", "", &[error]))
            }
        }
    }

    /// The next page. While nothing has been written since the first page the cache still is its snapshot; otherwise
    /// the store is read as of then.
    async fn list_continued(&self, token: &str, limit: usize, filter: &Filter) -> Result<Response, Status> {
        let invalid = || Status::bad_request("continue key is not valid");
        let json = URL_SAFE_NO_PAD.decode(token).map_err(|_| invalid())?;
        let from: Continue = serde_json::from_slice(&json).map_err(|_| invalid())?;
        let after = ObjectKey::namespaced(from.namespace.as_str(), from.name.as_str());
        if from.rv == 0 {
            let at = self.server.cache.catch_up().await?;
            let (items, rest, newest) =
                self.cache().list(self.namespace(), Some(&after), limit, |object| filter.accepts(object));
            return self.reply_list(items, rest, at.max(newest), filter);
        }
        match self.list_at(from.rv, Some(&after), limit, filter).await {
            Err(status) if status.is(StatusReason::Expired) => Err(self.expired_continue(&after)),
            other => other,
        }
    }

    /// 410 with a token that goes on at the present state: inconsistent, but complete.
    fn expired_continue(&self, after: &ObjectKey) -> Status {
        let mut status = Status::failure(
            StatusReason::Expired,
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of \
             the results. Continuing with the provided token results in an inconsistent list - objects that were \
             created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        status.metadata.continue_token = continue_token(0, after);
        status
    }

    async fn list_at(
        &self,
        revision: u64,
        after: Option<&ObjectKey>,
        limit: usize,
        filter: &Filter,
    ) -> Result<Response, Status> {
        self.server.cache.not_older_than(revision).await?;
        let named = &self.resource.info.resource;
        let mut range = KeyRange::prefix(keys::prefix(named, self.namespace()));
        if let Some(after) = after {
            let mut start = keys::object_key(named, after).to_vec();
            start.push(0);
            range.start = start.into();
        }
        let request = RangeRequest { range, revision: Some(revision), limit: 0 };
        let read = self.server.cache.store().range(request).await.map_err(errors::store)?;
        let mut items = Vec::new();
        for stored in read.items {
            let object = keys::with_revision(&stored.value, stored.mod_revision).map_err(errors::document)?;
            if filter.accepts(&object) {
                items.push(object.shared());
            }
        }
        let remaining = if limit == 0 { 0 } else { items.len().saturating_sub(limit) };
        items.truncate(items.len() - remaining);
        self.reply_list(items, remaining, revision, filter)
    }

    fn reply_list(
        &self,
        items: Vec<Arc<Object>>,
        remaining: usize,
        revision: u64,
        filter: &Filter,
    ) -> Result<Response, Status> {
        let items = items.into_iter().map(|item| self.served(item)).collect::<Result<Vec<_>, _>>()?;
        let token = match items.last() {
            Some(last) if remaining > 0 => continue_token(revision, &last.key()),
            _ => String::new(),
        };
        let remaining = (remaining > 0 && filter.is_everything()).then_some(remaining as u64);
        if self.shared {
            let list = ObjectList { items, resource_version: revision, continue_token: token, remaining };
            return Ok(respond::payload(StatusCode::OK, Payload::List(list)));
        }
        let meta = ListMeta {
            continue_token: token,
            remaining_item_count: remaining.map(|count| count as i64),
            resource_version: revision.to_string(),
        };
        let include = if self.accepted.shape == Shape::Table { self.include()? } else { shape::Include::Metadata };
        let json = shape::list(self.resource, &items, &meta, self.accepted.shape, include, self.now)?;
        Ok(respond::document(StatusCode::OK, json.into(), self.accepted.encoding))
    }
}

fn continue_token(revision: u64, last: &ObjectKey) -> String {
    let token = Continue {
        v: "meta.k8s.io/v1".into(),
        rv: revision,
        namespace: last.namespace().unwrap_or_default().to_owned(),
        name: last.name.clone(),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}
