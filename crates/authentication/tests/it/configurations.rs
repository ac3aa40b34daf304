//! Which configurations are valid, and kube-apiserver's texts about the others.

use authentication::{Configuration, Flags};
use serde_json::{Value, json};

fn jwt() -> Value {
    json!({"issuer": {"url": "https://i", "audiences": ["a"]}, "claimMappings": {"username": {"claim": "sub", "prefix": ""}}})
}

fn parse(jwt: Vec<Value>, anonymous: &Value) -> String {
    let file = json!({"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration",
                      "jwt": jwt, "anonymous": anonymous});
    let parsed = Configuration::parse(file.to_string().as_bytes(), &["https://own".to_owned()]);
    parsed.map_or_else(|error| error.to_string(), |_| "valid".to_owned())
}

/// One issuer with a changed field, by its JSON pointer.
fn with(pointer: &str, value: Value) -> String {
    let mut jwt = jwt();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    jwt.pointer_mut(parent).expect("a parent")[name] = value;
    parse(vec![jwt], &Value::Null)
}

#[test]
fn fields_are_validated() {
    assert_eq!(parse(vec![jwt()], &Value::Null), "valid");
    for (pointer, value, expected) in [
        ("/issuer/url", json!(""), "jwt[0].issuer.url: Required value: URL is required"),
        ("/issuer/url", json!("http://i"), "jwt[0].issuer.url: Invalid value: \"http://i\": URL scheme must be https"),
        (
            "/issuer/url",
            json!("https://u:p@i"),
            "jwt[0].issuer.url: Invalid value: \"https://u:p@i\": URL must not contain a username or password",
        ),
        (
            "/issuer/url",
            json!("https://i?q"),
            "jwt[0].issuer.url: Invalid value: \"https://i?q\": URL must not contain a query",
        ),
        (
            "/issuer/url",
            json!("https://own"),
            "jwt[0].issuer.url: Invalid value: \"https://own\": URL must not overlap with disallowed issuers: [https://own]",
        ),
        (
            "/issuer/discoveryURL",
            json!("https://i/"),
            "jwt[0].issuer.discoveryURL: Invalid value: \"https://i/\": discoveryURL must be different from URL",
        ),
        ("/issuer/discoveryURL", json!("https://d/x"), "valid"),
        (
            "/issuer/audiences",
            json!([]),
            "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
        ),
        (
            "/issuer/audiences",
            json!(["a", "b"]),
            "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences",
        ),
        (
            "/issuer/certificateAuthority",
            json!("x"),
            "jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": data does not contain any valid RSA or ECDSA certificates",
        ),
        (
            "/claimMappings/username",
            json!({}),
            "jwt[0].claimMappings.username: Required value: claim or expression is required",
        ),
        (
            "/claimMappings/username",
            json!({"claim": "sub"}),
            "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
        ),
        (
            "/claimMappings/username",
            json!({"expression": "claims.sub", "prefix": "x"}),
            "jwt[0].claimMappings.username.prefix: Invalid value: \"x\": prefix can't be set when expression is set",
        ),
        (
            "/claimMappings/username",
            json!({"expression": "claims.sub", "claim": "sub"}),
            "jwt[0].claimMappings.username: Invalid value: \"sub\": claim and expression can't both be set",
        ),
        (
            "/claimMappings/username",
            json!({"expression": "true"}),
            "jwt[0].claimMappings.username.expression: Invalid value: \"true\": must evaluate to string",
        ),
        (
            "/claimMappings/username",
            json!({"expression": "claims.email"}),
            "jwt[0].claimMappings.username.expression: Invalid value: \"claims.email\": claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression",
        ),
        ("/claimMappings/username", json!({"expression": "claims.email_verified ? claims.email : ''"}), "valid"),
        (
            "/claimMappings/groups",
            json!({"expression": "[1]"}),
            "jwt[0].claimMappings.groups.expression: Invalid value: \"[1]\": must evaluate to one of [string list(string)]",
        ),
        (
            "/claimMappings/uid",
            json!({"claim": "x", "expression": "y"}),
            "jwt[0].claimMappings.uid: Invalid value: \"x\": claim and expression can't both be set",
        ),
        (
            "/claimMappings/extra",
            json!([{"key": "kubernetes.io/x", "valueExpression": "''"}]),
            "jwt[0].claimMappings.extra[0].key: Invalid value: \"kubernetes.io/x\": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
        ),
        (
            "/claimMappings/extra",
            json!([{"key": "a.b/x"}]),
            "jwt[0].claimMappings.extra[0].valueExpression: Required value: valueExpression is required",
        ),
        (
            "/claimMappings/extra",
            json!([{"key": "ab", "valueExpression": "''"}]),
            "jwt[0].claimMappings.extra[0].key: Invalid value: \"ab\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ),
        (
            "/claimValidationRules",
            json!([{}]),
            "jwt[0].claimValidationRules[0]: Required value: claim or expression is required",
        ),
        (
            "/claimValidationRules",
            json!([{"claim": "a", "message": "m"}]),
            "jwt[0].claimValidationRules[0].message: Invalid value: \"m\": message can't be set when claim is set",
        ),
        (
            "/claimValidationRules",
            json!([{"expression": "claims.a"}]),
            "jwt[0].claimValidationRules[0].expression: Invalid value: \"claims.a\": must evaluate to bool",
        ),
        (
            "/userValidationRules",
            json!([{}]),
            "jwt[0].userValidationRules[0].expression: Required value: expression is required",
        ),
        (
            "/userValidationRules",
            json!([{"expression": "true"}, {"expression": "true"}]),
            "jwt[0].userValidationRules[1].expression: Duplicate value: \"true\"",
        ),
        (
            "/surprise",
            json!(1),
            "it cannot be decoded: unknown field `surprise`, expected one of `issuer`, `claimValidationRules`, `claimMappings`, `userValidationRules`",
        ),
    ] {
        assert_eq!(with(pointer, value.clone()), expected, "{pointer} {value}");
    }
    assert!(
        with("/userValidationRules", json!([{"expression": "user.nothing == ''"}]))
            .contains("undefined field 'nothing'")
    );
    assert_eq!(parse(vec![jwt(), jwt()], &Value::Null), "jwt[1].issuer.url: Duplicate value: \"https://i\"");
}

#[test]
fn configurations_of_other_kinds_are_rejected() {
    let check = |file: &str, expected: &str| {
        let parsed = Configuration::parse(file.as_bytes(), &[]);
        assert_eq!(parsed.map_or_else(|error| error.to_string(), |_| "valid".to_owned()), expected, "{file}");
    };
    check("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n", "valid");
    check("apiVersion: apiserver.config.k8s.io/v1alpha1\nkind: AuthenticationConfiguration\n", "valid");
    check("apiVersion: v1\nkind: Pod\n", "it is v1 Pod, not an apiserver.config.k8s.io/v1 AuthenticationConfiguration");
    check(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: []\njwt: []\n",
        "it cannot be decoded: line 4: key \"jwt\" already set in map",
    );
    check("7", "it is  , not an apiserver.config.k8s.io/v1 AuthenticationConfiguration");
}

#[test]
fn anonymous_requests_have_conditions() {
    let allows = |anonymous: Value, path: &str| {
        let file = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
                          "anonymous": anonymous});
        let parsed = Configuration::parse(file.to_string().as_bytes(), &[]).expect("valid");
        parsed.anonymous.map(|anonymous| anonymous.allows(path))
    };
    assert_eq!(allows(json!(null), "/livez"), None);
    assert_eq!(allows(json!({"enabled": false}), "/livez"), Some(false));
    assert_eq!(allows(json!({"enabled": true}), "/api"), Some(true));
    let livez = json!({"enabled": true, "conditions": [{"path": "/livez"}]});
    assert_eq!(allows(livez.clone(), "/livez"), Some(true));
    assert_eq!(allows(livez, "/livez/ping"), Some(false));
    let message = parse(vec![], &json!({"enabled": false, "conditions": [{"path": "/livez"}]}));
    assert!(message.contains("enabled should be set to true when conditions are defined"), "{message}");
}

#[test]
fn flags_are_validated() {
    let whole = Flags { issuer_url: "https://i".into(), client_id: "a".into(), ..Flags::default() };
    let check = |flags: Flags, expected: &str| {
        let found = flags.issuer(&[]).map_or_else(|error| error.to_string(), |_| "valid".to_owned());
        assert_eq!(found, expected);
    };
    check(whole.clone(), "valid");
    check(
        Flags { client_id: String::new(), ..whole.clone() },
        "--oidc-issuer-url and --oidc-client-id must be set together",
    );
    check(
        Flags { issuer_url: "http://i".into(), ..whole.clone() },
        "--oidc-*: issuer.url: Invalid value: \"http://i\": URL scheme must be https",
    );
    check(
        Flags { required_claims: vec!["x".into()], ..whole.clone() },
        "--oidc-required-claim: \"x\" is not of the form claim=value",
    );
    check(
        Flags { signing_algs: vec!["HS256".into()], ..whole },
        "--oidc-signing-algs: \"HS256\" is not one of RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512",
    );
}
