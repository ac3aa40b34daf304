//! The expressions of webhook configurations and admission policies: the variables in their scope, and their required
//! types. The evaluator binds the variables in the order of [`slot`].

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use cel::types::{Field, Kind, ObjectShape, Shape};
use cel::{Env, Program, Type};

/// The indices of the variables; those of a policy's own variables begin at [`slot::FIRST_VARIABLE`], in their order.
pub mod slot {
    pub const OBJECT: usize = 0;
    pub const OLD_OBJECT: usize = 1;
    pub const REQUEST: usize = 2;
    pub const NAMESPACE_OBJECT: usize = 3;
    pub const PARAMS: usize = 4;
    pub const AUTHORIZER: usize = 5;
    pub const REQUEST_RESOURCE: usize = 6;
    /// The object `variables`, which has no fields: each variable is declared by its full name.
    pub const VARIABLES: usize = 7;
    pub const FIRST_VARIABLE: usize = 8;
}

/// The cost limit of all expressions of a policy or webhook for one request, as kube-apiserver's.
pub const BUDGET: u64 = 10_000_000;
/// The part of the budget for match conditions.
pub const CONDITIONS_BUDGET: u64 = BUDGET / 4;
/// The cost limit of one expression.
pub const EXPRESSION_BUDGET: u64 = 1_000_000;

/// A name that no expression can contain.
const UNDECLARED: &str = "";

/// The required type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredType {
    /// A condition or validation.
    Bool,
    /// A message.
    String,
    /// An audit annotation.
    StringOrNull,
    /// A variable.
    Any,
    /// The ApplyConfiguration of a mutating policy.
    Object,
    /// The operations of a mutating policy.
    Patches,
}

impl RequiredType {
    fn accepts(self, found: &Type) -> bool {
        match self {
            Self::Bool => matches!(found, Type::Bool),
            Self::String => matches!(found, Type::String),
            Self::StringOrNull => matches!(found, Type::String | Type::Null),
            Self::Any => true,
            Self::Object => matches!(found, Type::Opaque(_)) && found.to_string() == Type::OBJECT.to_string(),
            Self::Patches => {
                matches!(found, Type::List(items) if items.to_string() == Type::JSON_PATCH.to_string())
            }
        }
    }

    fn refusal(self, found: &Type) -> String {
        let expected = match self {
            Self::Bool => "bool",
            Self::String => "string",
            Self::StringOrNull => "one of [string null_type]",
            Self::Any => "any",
            Self::Object => "Object",
            Self::Patches => "list(JSONPatch)",
        };
        format!("must evaluate to {expected} but got {}", found.runtime_name())
    }
}

/// The variables in the scope of an expression.
#[derive(Clone, Debug)]
pub struct Scope {
    has_params: bool,
    has_authorizer: bool,
    has_mutations: bool,
    /// The schemas of the object and the parameters, if known.
    object: Option<Arc<Shape>>,
    params: Option<Arc<Shape>>,
    variables: Vec<(String, Type)>,
}

impl Scope {
    /// The scope of a webhook's match conditions, or of a policy's expressions.
    pub fn new(has_params: bool) -> Self {
        Self {
            has_params,
            has_authorizer: true,
            has_mutations: false,
            object: None,
            params: None,
            variables: Vec::new(),
        }
    }

    /// The scope of a policy's expressions on objects and parameters with known schemas.
    pub fn typed(object: Arc<Shape>, params: Option<Arc<Shape>>) -> Self {
        Self { object: Some(object), params: params.clone(), ..Self::new(params.is_some()) }
    }

    /// The same scope, with the types of mutations, for the mutations of a policy.
    #[must_use]
    pub fn with_mutations(self) -> Self {
        Self { has_mutations: true, ..self }
    }

    /// The same scope without the authorizer, for messages.
    #[must_use]
    pub fn without_authorizer(&self) -> Self {
        Self { has_authorizer: false, ..self.clone() }
    }

    /// Declares a variable of a policy. Every variable must be declared, so that the indices are correct; one that does
    /// not compile has any type.
    pub fn declare(&mut self, name: &str, value: Option<&Program>) {
        let type_ = value.map_or(Type::Dyn, |program| program.result_type().clone());
        self.variables.push((format!("variables.{name}"), type_));
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// The error with kube-apiserver's text.
    pub fn compile(&self, source: &str, required_type: RequiredType) -> Result<Program, String> {
        let either = |is_declared: bool, name: &'static str| if is_declared { name } else { UNDECLARED };
        let document = |env: Env, name: &str, shape: &Option<Arc<Shape>>| match shape {
            Some(shape) => env.with_document(name, shape, false),
            None => env.with(name, Type::Dyn),
        };
        let env = document(document(Env::new(), "object", &self.object), "oldObject", &self.object);
        let env = env.with_document("request", &REQUEST, false).with_document("namespaceObject", &NAMESPACE, false);
        let mut env = document(env, either(self.has_params, "params"), &self.params)
            .with(either(self.has_authorizer, "authorizer"), Type::AUTHORIZER)
            .with(either(self.has_authorizer, "authorizer.requestResource"), Type::RESOURCE_CHECK)
            .with_document(either(!self.variables.is_empty(), "variables"), &NO_FIELDS, false);
        if self.has_mutations {
            env = env.with_mutations();
        }
        for (name, type_) in &self.variables {
            env = env.with(name, type_.clone());
        }
        let program = env.compile(source).map_err(|issues| format!("compilation failed: {issues}"))?;
        match (program.result_type(), program.fault()) {
            (found, _) if !required_type.accepts(found) => Err(required_type.refusal(found)),
            (_, Some(fault)) => Err(format!("program instantiation failed: {fault}")),
            (_, None) => Ok(program),
        }
    }
}

/// The shape of `request`.
pub static REQUEST: LazyLock<Arc<Shape>> = LazyLock::new(|| {
    let kind = || of("kubernetes.GroupVersionKind", texts(&["group", "version", "kind"]));
    let resource = || of("kubernetes.GroupVersionResource", texts(&["group", "version", "resource"]));
    let list = || Arc::new(Shape::new(Kind::List { items: text(), identity: Default::default() }, 2));
    let mut user = texts(&["username", "uid"]);
    user.push(("groups", list()));
    user.push(("extra", Arc::new(Shape::new(Kind::Map { values: list() }, 2))));
    let mut fields = texts(&["subResource", "requestSubResource", "name", "namespace", "operation"]);
    fields.extend([
        ("kind", kind()),
        ("resource", resource()),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("userInfo", of("kubernetes.UserInfo", user)),
        ("dryRun", Arc::new(Shape::new(Kind::Bool, 1))),
        ("options", any()),
    ]);
    of("kubernetes.AdmissionRequest", fields)
});

/// The shape of `namespaceObject`.
pub static NAMESPACE: LazyLock<Arc<Shape>> = LazyLock::new(|| {
    let list = || Arc::new(Shape::new(Kind::List { items: text(), identity: Default::default() }, 2));
    let map = || Arc::new(Shape::new(Kind::Map { values: text() }, 2));
    let number = || Arc::new(Shape::new(Kind::Int, 1));
    let time = || Arc::new(Shape::new(Kind::DateTime, 1));
    let mut metadata = texts(&["name", "generateName", "namespace", "UID", "resourceVersion"]);
    metadata.extend([
        ("labels", map()),
        ("annotations", map()),
        ("creationTimestamp", time()),
        ("deletionTimestamp", time()),
        ("deletionGracePeriodSeconds", number()),
        ("generation", number()),
        ("finalizers", list()),
    ]);
    let fields = vec![
        ("metadata", of("kubernetes.NamespaceMetadata", metadata)),
        ("spec", of("kubernetes.NamespaceSpec", vec![("finalizers", list())])),
        ("status", of("kubernetes.NamespaceStatus", texts(&["phase"]))),
    ];
    of("kubernetes.Namespace", fields)
});

static NO_FIELDS: LazyLock<Arc<Shape>> = LazyLock::new(|| of("kubernetes.variables", Vec::new()));

type Fields = Vec<(&'static str, Arc<Shape>)>;

fn of(name: &str, fields: Fields) -> Arc<Shape> {
    let fields: BTreeMap<Box<str>, Field> =
        fields.into_iter().map(|(name, shape)| (name.into(), Field { name: name.into(), shape })).collect();
    Arc::new(Shape::new(Kind::Object(Arc::new(ObjectShape { name: name.into(), fields })), 2))
}

fn text() -> Arc<Shape> {
    Arc::new(Shape::new(Kind::String, 2))
}

fn texts(names: &[&'static str]) -> Fields {
    names.iter().map(|name| (*name, text())).collect()
}

fn any() -> Arc<Shape> {
    Arc::new(Shape::new(Kind::Any, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_have_their_variables() {
        let mut scope = Scope::new(true);
        let limit = scope.compile("params.limit > 3 ? 1 : 2", RequiredType::Any).expect("an expression");
        scope.declare("limit", Some(&limit));
        let patches = Scope::new(false).with_mutations();
        for (scope, source, required_type, expected) in [
            (&scope, "object.spec.replicas <= variables.limit", RequiredType::Bool, ""),
            (&scope, "variables.limit.x == 1", RequiredType::Bool, "type 'int' does not support field selection"),
            (&scope, "variables.other == 1", RequiredType::Bool, "undefined field 'other'"),
            (&scope, "request.userInfo.groups.exists(g, g == 'a') && request.namespace == 'b'", RequiredType::Bool, ""),
            (&scope, "request.nope == 'a'", RequiredType::Bool, "undefined field 'nope'"),
            (&scope, "namespaceObject.metadata.labels['a'] == request.name", RequiredType::Bool, ""),
            (&scope, "request.options.dryRun == ['All']", RequiredType::Bool, ""),
            (&scope, "authorizer.requestResource.check('get').allowed()", RequiredType::Bool, ""),
            (
                &scope.without_authorizer(),
                "authorizer.path('/').check('get').reason()",
                RequiredType::String,
                "undeclared",
            ),
            (&Scope::new(false), "params.x", RequiredType::Any, "undeclared reference to 'params' (in container '')"),
            (&Scope::new(false), "object.x", RequiredType::Bool, "must evaluate to bool but got dyn"),
            (
                &Scope::new(false),
                "1",
                RequiredType::StringOrNull,
                "must evaluate to one of [string null_type] but got int",
            ),
            (&patches, "[JSONPatch{op: 'remove', path: '/a'}]", RequiredType::Patches, ""),
            (&patches, "[]", RequiredType::Patches, "must evaluate to list(JSONPatch) but got list(dyn)"),
            (
                &patches,
                "timestamp('2020-01-01T00:00:00Z')",
                RequiredType::Object,
                "to Object but got google.protobuf.Timestamp",
            ),
            (&Scope::new(false), "JSONPatch{op: 'remove', path: '/a'}", RequiredType::Any, "undeclared"),
            (&Scope::new(false), "1 +", RequiredType::Any, "compilation failed: ERROR: <input>:1:4: Syntax error"),
        ] {
            let found = scope.compile(source, required_type).map_or_else(|why| why, |_| String::new());
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{source}: {found}");
        }
    }
}
