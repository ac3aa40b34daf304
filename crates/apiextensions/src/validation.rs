//! Validation of custom resources by their structural schema, with the messages of upstream's validator (go-openapi's).

mod alternatives;
mod constraints;
mod kinds;
mod numbers;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use apimachinery::field::{Error, ErrorKind, ErrorList, MAX_ERRORS, Path};
use apimachinery::schema::{Constraints, ListType, Schema, SchemaId, TypeOf};
use serde_json::Value;

use self::alternatives::Attempt;
use self::constraints::{add, check_enum, whole, wrong};
use self::kinds::{format_of, type_error};
use crate::rule_evaluation::{Rules, by_identity, identity};
use crate::trail::Trail;
use crate::{embedded, formats, re2};

/// A schema with its patterns, which are compiled when first met: most are never needed.
#[derive(Debug)]
pub struct Validator {
    type_: TypeOf,
    /// `None` inside: a pattern that does not compile, which accepts everything (definitions are checked before).
    patterns: BTreeMap<Box<str>, OnceLock<Option<re2::Pattern>>>,
    rules: Rules,
}

impl Validator {
    pub fn new(type_: TypeOf) -> Self {
        let patterns = type_
            .schemas
            .iter()
            .filter_map(|(_, schema)| schema.constraints.as_ref()?.pattern.as_deref())
            .map(|pattern| (pattern.into(), OnceLock::new()))
            .collect();
        let rules = Rules::new(&type_);
        Self { type_, patterns, rules }
    }

    pub fn type_of(&self) -> &TypeOf {
        &self.type_
    }

    /// Checks a whole object that has been pruned and defaulted.
    pub fn validate(&self, object: &Value) -> ErrorList {
        self.validate_beside(object, ErrorList::new())
    }

    /// [`Validator::validate`] with other errors, which are reported after those of the schema.
    pub fn validate_beside(&self, object: &Value, others: ErrorList) -> ErrorList {
        let mut errors = ErrorList::new();
        self.check(self.type_.node(), object, None, &Trail::Root, &mut errors);
        errors.extend(others);
        if !self.identities_fit(self.type_.root, object, true) {
            self.check_identities(self.type_.node(), object, &Path::root(), true, &mut errors);
        }
        self.apply_rules(object, None, &mut errors);
        errors
    }

    /// Checks the member `default` of `wrapper` alone. The first kind of errors is reported: those of embedded objects,
    /// of the schema, of rules. As upstream, items of sets may be repeated.
    pub(crate) fn validate_default(&self, wrapper: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let (Some(property), Some(value)) = (self.type_.node().properties.get("default"), wrapper.get("default"))
        else {
            return errors;
        };
        self.check_identities(self.type_.node(), wrapper, &Path::root(), true, &mut errors);
        errors.retain(|error| !matches!(error.kind, ErrorKind::Duplicate(_)));
        if errors.is_empty() {
            self.check_value(self.node(property.schema), value, None, &Trail::Default, &mut errors);
        }
        if errors.is_empty() {
            // As an object that has the default already, and as one that gets it.
            errors = self.rules.validate(&self.type_, wrapper, Some(wrapper)).errors;
            let of_new = self.rules.validate(&self.type_, wrapper, None).errors;
            errors.extend(of_new.into_iter().filter(|error| !errors.contains(error)).collect::<Vec<_>>());
        }
        errors
    }

    /// Checks an update. An invalid value that is unchanged is tolerated, so that objects written under an older schema
    /// can be edited; items are correlated only in lists with keys. Duplicate items are tolerated if there were any
    /// before. Other errors are reported after those of the schema; tolerated failures of rules, as texts.
    pub fn validate_update(&self, old: &Value, object: &Value, others: ErrorList) -> (ErrorList, Vec<String>) {
        let mut errors = ErrorList::new();
        self.check(self.type_.node(), object, Some(old), &Trail::Root, &mut errors);
        errors.extend(others);
        errors.extend(self.new_identity_errors(old, object));
        let tolerated = self.apply_rules(object, Some(old), &mut errors);
        (errors, tolerated)
    }

    /// [`Validator::validate_update`] for a change of a single member, of objects without other members. `None` if a
    /// rule or a restriction of the whole object may depend on that member.
    pub fn validate_member(&self, member: &str, old: &Value, object: &Value) -> Option<ErrorList> {
        let root = self.type_.node();
        let property = root.properties.get(member)?;
        if !self.rules.is_empty() || root.constraints.is_some() {
            return None;
        }
        let (schema, mut errors) = (self.node(property.schema), ErrorList::new());
        let (place, value) = (Trail::Root, object.get(member)?);
        self.check(schema, value, old.get(member), &place.child(member), &mut errors);
        errors.extend(self.new_identity_errors(old, object));
        Some(errors)
    }

    /// Evaluates the transition rules of an unchanged object. The other rules are skipped: their result is unchanged.
    pub fn validate_unchanged(&self, object: &Value) -> ErrorList {
        if !self.compares() {
            return ErrorList::new();
        }
        self.rules.validate(&self.type_, object, Some(object)).errors
    }

    /// Whether any rule uses `oldSelf`.
    pub fn compares(&self) -> bool {
        self.rules.compare()
    }

    fn new_identity_errors(&self, old: &Value, object: &Value) -> ErrorList {
        if self.identities_fit(self.type_.root, object, true) {
            return ErrorList::new();
        }
        let found = |object: &Value| {
            let mut errors = ErrorList::new();
            self.check_identities(self.type_.node(), object, &Path::root(), true, &mut errors);
            errors
        };
        let repeats = |error: &Error| matches!(error.kind, ErrorKind::Duplicate(_));
        let mut errors = found(object);
        if errors.iter().any(repeats) && found(old).iter().any(repeats) {
            errors.retain(|error| !repeats(error));
        }
        errors
    }

    /// Rules require values of the right types and sizes; otherwise only those errors are reported.
    fn apply_rules(&self, object: &Value, old: Option<&Value>, errors: &mut ErrorList) -> Vec<String> {
        let blocking = |error: &Error| {
            matches!(
                error.kind,
                ErrorKind::NotSupported { .. }
                    | ErrorKind::Required
                    | ErrorKind::TooLong { .. }
                    | ErrorKind::TooMany { .. }
                    | ErrorKind::TypeInvalid(_)
            )
        };
        if self.rules.is_empty() {
            return Vec::new();
        }
        if errors.iter().any(blocking) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors \
                       to complete validation";
            errors.push(Error::invalid(&Path::root(), Value::Null, why));
            return Vec::new();
        }
        let found = self.rules.validate(&self.type_, object, old);
        errors.extend(found.errors);
        found.tolerated
    }

    fn node(&self, id: SchemaId) -> &Schema {
        self.type_.schemas.get(id)
    }

    /// Adds the errors of a value unless it equals `old`; counts the checks as [`Validator::check_value`], and itself.
    fn check(
        &self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &Trail<'_>,
        errors: &mut ErrorList,
    ) -> usize {
        // An unchanged value is not validated: its errors are tolerated.
        if errors.len() < MAX_ERRORS && old != Some(value) && !old.is_some_and(|old| reordered(schema, old, value)) {
            return 1 + self.check_value(schema, value, old, path, errors);
        }
        1
    }

    /// Adds the errors of a value. The result counts the checks that were made, by which upstream chooses the
    /// alternative whose errors are reported; all are made, also for a value of another type.
    fn check_value(
        &self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &Trail<'_>,
        errors: &mut ErrorList,
    ) -> usize {
        let wrong_type = type_error(schema, value, path);
        let mut checks = usize::from(wrong_type.is_none());
        errors.extend(wrong_type);
        let constraints = schema.constraints.as_deref();
        if value.is_null() {
            check_enum(constraints, value, path, errors);
            return checks;
        }
        if let Some(constraints) = constraints {
            checks += self.check_junctors(constraints, value, old, path, errors);
        }
        match value {
            Value::String(text) => {
                errors.extend(constraints.and_then(|constraints| self.text_error(constraints, text, value, path)));
                let format = format_of(schema).filter(|format| !formats::matches(format, text));
                errors.extend(format.map(|format| constraints::wrong_type(path, format, text)));
            }
            Value::Number(_) => numbers::check(schema, value, path, errors),
            Value::Array(items) => {
                checks += self.check_items(schema, items, old, path, errors);
                if let Some(constraints) = constraints {
                    constraints::check_items(constraints, items, path, errors);
                }
            }
            _ => {}
        }
        check_enum(constraints, value, path, errors);
        if let Value::Object(map) = value {
            if let Some(constraints) = constraints {
                constraints::check_size(constraints, map.len(), path, errors);
            }
            checks += self.check_fields(schema, map, old, path, errors);
        }
        checks
    }

    fn check_items(
        &self,
        schema: &Schema,
        items: &[Value],
        old: Option<&Value>,
        path: &Trail<'_>,
        errors: &mut ErrorList,
    ) -> usize {
        let Some(id) = schema.items else { return 0 };
        let before = old.and_then(Value::as_array).map(|old| by_identity(&schema.list_type, old));
        let mut checks = 0;
        for (index, item) in items.iter().enumerate() {
            let identity = before.as_ref().and_then(|_| identity(&schema.list_type, item));
            let old = before.as_ref().zip(identity).and_then(|(before, identity)| before.get(&identity).copied());
            checks += self.check(self.node(id), item, old, &path.index(index), errors);
        }
        checks
    }

    fn check_fields(
        &self,
        schema: &Schema,
        map: &serde_json::Map<String, Value>,
        old: Option<&Value>,
        path: &Trail<'_>,
        errors: &mut ErrorList,
    ) -> usize {
        let holds_object = matches!(path, Trail::Root) || schema.embedded_resource;
        let mut checks = 0;
        for (name, child) in map {
            let known = schema.properties.get(name.as_str()).map(|property| property.schema);
            let Some(id) = known.or(schema.additional_properties) else { continue };
            let old = old.and_then(|old| old.get(name));
            if holds_object && name == "metadata" {
                // The API server checks metadata of every object; here are only the author's extra restrictions.
                self.check_metadata(self.node(id), child, old, &path.child(name), errors);
            } else {
                let place = if known.is_some() { path.child(name) } else { path.value(name) };
                checks += self.check(self.node(id), child, old, &place, errors);
            }
        }
        for name in schema.required.iter().filter(|name| !map.contains_key(&***name)) {
            add(errors, Error::required(&path.child(name).path(), ""));
        }
        checks
    }

    fn check_metadata(
        &self,
        schema: &Schema,
        metadata: &Value,
        old: Option<&Value>,
        path: &Trail<'_>,
        errors: &mut ErrorList,
    ) {
        for name in ["name", "generateName"] {
            if let (Some(property), Some(value)) = (schema.properties.get(name), metadata.get(name)) {
                let old = old.and_then(|old| old.get(name));
                self.check(self.node(property.schema), value, old, &path.child(name), errors);
            }
        }
    }

    /// The first restriction that the text violates.
    fn text_error(&self, constraints: &Constraints, text: &str, value: &Value, path: &Trail<'_>) -> Option<Error> {
        let length = text.chars().count() as u64;
        if let Some(max) = constraints.max_length.filter(|max| length > *max) {
            return Some(Error::too_long(&path.path(), usize::try_from(max).unwrap_or(usize::MAX)));
        }
        if let Some(min) = constraints.min_length.filter(|min| length < *min) {
            return Some(wrong(path, value.clone(), format!("should be at least {min} chars long")));
        }
        let pattern = constraints.pattern.as_deref().filter(|pattern| !self.pattern_matches(pattern, text))?;
        Some(wrong(path, value.clone(), format!("should match '{pattern}'")))
    }

    fn pattern_matches(&self, pattern: &str, text: &str) -> bool {
        let Some(cell) = self.patterns.get(pattern) else { return true };
        cell.get_or_init(|| re2::compile(pattern).ok()).as_ref().is_none_or(|regex| regex.is_match(text))
    }

    fn check_junctors(
        &self,
        constraints: &Constraints,
        value: &Value,
        old: Option<&Value>,
        path: &Trail<'_>,
        errors: &mut ErrorList,
    ) -> usize {
        let mut checks = 0;
        let mut take = |attempt: Attempt, errors: &mut ErrorList| {
            checks += attempt.checks;
            attempt.errors.into_iter().for_each(|error| add(errors, error));
        };
        if !constraints.any_of.is_empty() {
            let tried: Vec<Attempt> = self.attempts(&constraints.any_of, value, old, path).collect();
            if !tried.iter().any(Attempt::succeeded) {
                add(errors, whole(path, "must validate at least one schema (anyOf)"));
            }
            Attempt::decisive(tried).into_iter().for_each(|attempt| take(attempt, errors));
        }
        if !constraints.one_of.is_empty() {
            let tried: Vec<Attempt> = self.attempts(&constraints.one_of, value, old, path).collect();
            let valid = tried.iter().filter(|attempt| attempt.succeeded()).count();
            let found = match valid {
                0 => "none valid".to_owned(),
                many => format!("{many} valid alternatives"),
            };
            if valid != 1 {
                let what = format!("must validate one and only one schema (oneOf). Found {found}");
                add(errors, whole(path, &what));
            }
            if valid < 2 {
                Attempt::decisive(tried).into_iter().for_each(|attempt| take(attempt, errors));
            }
        }
        if !constraints.all_of.is_empty() {
            let mut failed = 0;
            for attempt in self.attempts(&constraints.all_of, value, old, path) {
                failed += usize::from(!attempt.succeeded());
                take(attempt, errors);
            }
            if failed > 0 {
                let none = if failed == constraints.all_of.len() { ". None validated" } else { "" };
                add(errors, whole(path, &format!("must validate all the schemas (allOf){none}")));
            }
        }
        if let Some(not) = constraints.not
            && self.attempt(not, value, None, path).succeeded()
        {
            add(errors, whole(path, "must not validate the schema (not)"));
        }
        checks
    }

    fn attempts(
        &self,
        ids: &[SchemaId],
        value: &Value,
        old: Option<&Value>,
        path: &Trail<'_>,
    ) -> impl Iterator<Item = Attempt> {
        ids.iter().map(move |id| self.attempt(*id, value, old, path))
    }

    fn attempt(&self, id: SchemaId, value: &Value, old: Option<&Value>, path: &Trail<'_>) -> Attempt {
        let mut errors = ErrorList::new();
        let checks = self.check_value(self.node(id), value, old, path, &mut errors);
        Attempt { errors, checks }
    }

    /// Whether [`Validator::check_identities`] certainly finds no error: a check without paths, which are needed only
    /// for errors.
    fn identities_fit(&self, id: SchemaId, value: &Value, root: bool) -> bool {
        if !self.type_.schemas.has_identities(id) {
            return true;
        }
        let schema = self.node(id);
        match value {
            Value::Object(map) => {
                (root || !schema.embedded_resource)
                    && map.iter().all(|(name, child)| {
                        let known = schema.properties.get(name.as_str()).map(|property| property.schema);
                        let id = known.or(schema.additional_properties).filter(|_| !(root && name == "metadata"));
                        id.is_none_or(|id| self.identities_fit(id, child, false))
                    })
            }
            Value::Array(items) => {
                let fits = match schema.list_type {
                    ListType::Atomic => true,
                    ListType::Set => items.len() < 2,
                    ListType::Map(_) => items.len() < 2 && items.iter().all(Value::is_object),
                };
                fits && schema.items.is_none_or(|id| items.iter().all(|item| self.identities_fit(id, item, false)))
            }
            _ => true,
        }
    }

    /// Lists of type set or map hold no duplicates; embedded objects have apiVersion and kind.
    fn check_identities(&self, schema: &Schema, value: &Value, path: &Path, root: bool, errors: &mut ErrorList) {
        if errors.len() >= MAX_ERRORS {
            return;
        }
        match value {
            Value::Object(map) => {
                if schema.embedded_resource && !root {
                    embedded::check(map, path, errors);
                }
                for (name, child) in map {
                    let known = schema.properties.get(name.as_str()).map(|property| property.schema);
                    if let Some(id) = known.or(schema.additional_properties).filter(|_| !(root && name == "metadata")) {
                        let path = if known.is_some() { path.child(name) } else { path.key(name) };
                        self.check_identities(self.node(id), child, &path, false, errors);
                    }
                }
            }
            Value::Array(items) => {
                check_duplicates(&schema.list_type, items, path, errors);
                if let Some(id) = schema.items {
                    for (index, item) in items.iter().enumerate() {
                        self.check_identities(self.node(id), item, &path.index(index), false, errors);
                    }
                }
            }
            _ => {}
        }
    }
}

fn check_duplicates(list_type: &ListType, items: &[Value], path: &Path, errors: &mut ErrorList) {
    let identity = |item: &Value| match list_type {
        ListType::Atomic => None,
        ListType::Set => Some(item.clone()),
        ListType::Map(keys) => {
            Some(keys.iter().filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone()))).collect())
        }
    };
    if matches!(list_type, ListType::Map(_))
        && let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null())
    {
        let why = "must be an object for an array of list-type map";
        errors.push(Error::invalid(&path.index(index), items[index].clone(), why));
        return;
    }
    let mut times = BTreeMap::<String, usize>::new();
    for (index, item) in items.iter().enumerate() {
        let Some(identity) = identity(item) else { return };
        if errors.len() >= MAX_ERRORS {
            return;
        }
        let times = times.entry(identity.to_string()).or_default();
        *times += 1;
        // Further items like it are not reported.
        if *times == 2 {
            errors.push(Error::duplicate(&path.index(index), identity));
        }
    }
}

/// Whether a list with keys holds the same items in another order, which does not count as a change.
fn reordered(schema: &Schema, old: &Value, new: &Value) -> bool {
    let (Value::Array(was), Value::Array(is), ListType::Map(_)) = (old, new, &schema.list_type) else { return false };
    if was.len() != is.len() {
        return false;
    }
    let known = by_identity(&schema.list_type, was);
    is.iter().all(|item| identity(&schema.list_type, item).is_some_and(|key| known.get(&key) == Some(&item)))
}

#[cfg(test)]
mod tests;
