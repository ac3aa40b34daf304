//! The label and field selectors of a read.

use std::sync::Arc;

use apimachinery::resource::Resource;
use apimachinery::selector::{FieldSelector, Selector};
use apimachinery::{Object, Status};

use crate::cache::snapshot::Snapshot;
use crate::conversion::{self, Conversions};

/// Objects in one request to a conversion webhook.
const REVIEWED_AT_ONCE: usize = 500;

pub(super) struct Filter {
    labels: Selector,
    fields: FieldSelector,
    everything: bool,
    custom: bool,
    /// For selectors on fields of custom resources, which are those of the requested version: another version may be
    /// stored.
    served: Option<Served>,
}

/// How an object gets its requested version.
struct Served {
    resource: Resource,
    /// `None` without a webhook.
    conversions: Option<Arc<Conversions>>,
}

fn is_at_hand(path: &str) -> bool {
    matches!(path, "metadata.name" | "metadata.namespace")
}

impl Filter {
    pub(super) fn new(
        labels: Selector,
        fields: FieldSelector,
        resource: &Resource,
        conversions: &Arc<Conversions>,
    ) -> Self {
        let everything = labels.is_everything() && fields.is_everything();
        let custom = resource.info.custom;
        let selects_content = fields.requirements().iter().any(|(path, ..)| !is_at_hand(path.as_str()));
        let served = (custom && selects_content).then(|| Served {
            resource: resource.clone(),
            conversions: conversions.has(&resource.info).then(|| Arc::clone(conversions)),
        });
        Self { labels, fields, everything, custom, served }
    }

    /// Whether a stored object is selected. Not for a filter that [`Filter::is_converted`].
    pub(super) fn accepts(&self, object: &Object) -> bool {
        self.everything || (self.labels_match(object) && self.fields_match(object))
    }

    /// Whether only a webhook can tell which objects are selected: [`Filter::select`] calls it.
    pub(super) fn is_converted(&self) -> bool {
        self.served.as_ref().is_some_and(|served| served.conversions.is_some())
    }

    /// The selected ones of some stored objects, in stored form.
    ///
    /// # Errors
    /// A conversion that fails.
    pub(super) async fn select(&self, mut objects: Vec<Arc<Object>>) -> Result<Vec<Arc<Object>>, Status> {
        let Some(Served { resource, conversions: Some(conversions) }) = &self.served else {
            objects.retain(|object| self.accepts(object));
            return Ok(objects);
        };
        objects.retain(|object| self.labels_match(object));
        let shown = Arc::new(Snapshot::own(objects.clone()));
        let shown = conversion::served_list(conversions, resource, shown).await?;
        let mut selected = shown.iter().map(|shown| self.fields_match(shown));
        objects.retain(|_| selected.next() == Some(true));
        Ok(objects)
    }

    /// Whether a stored object is selected, for a watch.
    ///
    /// # Errors
    /// A conversion that fails.
    pub(super) async fn selects(self: Arc<Self>, object: Arc<Object>) -> Result<bool, Status> {
        match &self.served {
            Some(Served { resource, conversions: Some(conversions) }) if self.labels_match(&object) => {
                let shown = conversion::served_to_watchers(conversions, resource, object).await?;
                Ok(self.fields_match(&shown))
            }
            Some(Served { conversions: Some(_), .. }) => Ok(false),
            _ => Ok(self.accepts(&object)),
        }
    }

    fn labels_match(&self, object: &Object) -> bool {
        self.labels.matches_with(|key| object.label(key))
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
                let tree = tree.get_or_init(|| self.served_form(object).unwrap_or_default());
                Some(kubernetes_api::field_text(path, tree, self.custom).into())
            }
        })
    }

    fn served_form(&self, object: &Object) -> Result<serde_json::Value, serde_json::Error> {
        // A list that contains an object without a served form fails as a whole.
        let form = self.served.as_ref().and_then(|served| served.resource.strategy.served_form(object).ok().flatten());
        form.as_ref().unwrap_or(object).to_value()
    }

    pub(super) fn is_everything(&self) -> bool {
        self.everything
    }

    /// The only name it accepts, if that is given.
    pub(super) fn name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }

    /// How many objects are scanned before yielding: some 100 µs of work, with labels and names parsed and fields in a
    /// tree to decode.
    pub(super) fn piece(&self) -> usize {
        if self.is_converted() {
            return REVIEWED_AT_ONCE;
        }
        if self.fields.requirements().iter().all(|(path, ..)| is_at_hand(path.as_str())) { 512 } else { 16 }
    }
}
