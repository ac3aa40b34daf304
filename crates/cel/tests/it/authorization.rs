//! The library of admission expressions: checks that an expression builds, and variables with dots in their names.

use std::rc::Rc;

use cel::authorization::{Authorize, Check, Decision};
use cel::budget::Meter;
use cel::{Env, Type, Value};

const LIMIT: u64 = 1_000_000;

/// The rights of user ann: create pods anywhere, read `/healthz`, update the resource of the request.
fn authorize() -> Rc<Authorize> {
    Rc::new(|check: &Check| {
        let allowed = match (&check.path, &*check.verb) {
            (Some(path), verb) => path == "/healthz" && verb == "get",
            (None, "create") => check.resource == "pods" && check.service_account.is_none(),
            (None, "update") => (&*check.group, &*check.resource, &*check.name) == ("apps", "deployments", "web"),
            _ => false,
        };
        Decision { allowed, reason: format!("{}/{}", check.namespace, check.subresource), error: None }
    })
}

fn eval(source: &str) -> Result<String, String> {
    let env = Env::new()
        .with("authorizer", Type::AUTHORIZER)
        .with("authorizer.requestResource", Type::RESOURCE_CHECK)
        .with("variables.limit", Type::Int);
    let program = env.compile(source).map_err(|issues| issues.to_string())?;
    let of_request =
        Check { group: "apps".into(), resource: "deployments".into(), name: "web".into(), ..Check::default() };
    let values = [
        Some(Value::authorizer(authorize())),
        Some(Value::resource_check(authorize(), of_request)),
        Some(Value::Int(3)),
    ];
    let value = program.eval(&values, &mut Meter::new(LIMIT)).map_err(|error| error.to_string())?;
    Ok(crate::printing::print(&value))
}

#[test]
fn checks_are_built_and_decided() {
    for (source, expected) in [
        ("authorizer.group('').resource('pods').check('create').allowed()", "true"),
        ("authorizer.group('').resource('pods').check('delete').allowed()", "false"),
        ("authorizer.group('').resource('pods').namespace('a').subresource('log').check('get').reason()", "\"a/log\""),
        ("authorizer.path('/healthz').check('get').allowed()", "true"),
        ("authorizer.path('/metrics').check('get').errored()", "false"),
        ("authorizer.serviceAccount('a', 'b').group('').resource('pods').check('create').allowed()", "false"),
        ("authorizer.requestResource.check('update').allowed()", "true"),
        ("authorizer.requestResource.name('other').check('update').allowed()", "false"),
        ("variables.limit + 1", "4"),
        ("[1].all(variables, variables == 1)", "true"),
    ] {
        assert_eq!(eval(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn misuse_fails() {
    for (source, expected) in [
        ("authorizer.path('').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        ("[1, 2, 3].all(i, authorizer.requestResource.check('update').allowed())", "cost limit exceeded"),
        ("authorizer.check('get')", "found no matching overload for 'check'"),
        ("variables.other", "undeclared reference to 'variables'"),
    ] {
        assert!(eval(source).is_err_and(|error| error.contains(expected)), "{source}: {:?}", eval(source));
    }
}

/// Objects and patches of mutating policies are maps with special types.
#[test]
fn mutations_are_constructed() {
    let eval = |source: &str, env: Env| {
        let program = env.compile(source).map_err(|issues| issues.to_string())?;
        let value = program.eval(&[Some(Value::Int(3))], &mut Meter::new(LIMIT)).map_err(|error| error.to_string())?;
        Ok::<_, String>(format!("{} {}", program.result_type(), crate::printing::print(&value)))
    };
    let env = || Env::new().with("x", Type::Int).with_mutations();
    for (source, expected) in [
        ("Object{spec: Object.spec{replicas: x, ?paused: optional.none()}}", "Object {\"spec\": {\"replicas\": 3}}"),
        ("x > 1 ? Object{} : Object{metadata: Object.metadata{labels: {'a': 'b'}}}", "Object {}"),
        (
            "[JSONPatch{op: 'add', path: '/a', value: x}]",
            "list(JSONPatch) [{\"op\": \"add\", \"path\": \"/a\", \"value\": 3}]",
        ),
        ("jsonpatch.escapeKey('a/b~c')", "string \"a~1b~0c\""),
    ] {
        assert_eq!(eval(source, env()).as_deref(), Ok(expected), "{source}");
    }
    for (source, expected) in [
        ("JSONPatch{op: 1}", "expected type of field 'op' is 'string' but provided type is 'int'"),
        ("JSONPatch{operation: 'add'}", "undefined field 'operation'"),
        ("Other{}", "undeclared reference to 'Other' (in container '')"),
    ] {
        assert!(eval(source, env()).is_err_and(|why| why.contains(expected)), "{source}");
    }
    assert!(eval("Object{}", Env::new()).is_err_and(|why| why.contains("undeclared reference to 'Object'")));
}
