//! Admission policies, flow schemas and priority levels.

use expect_test::expect;

use super::check;

const ADMISSION: &str = "admissionregistration.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";

#[test]
fn validating_policies() {
    let bad = "metadata: {name: p}
spec:
  failurePolicy: Foo
  paramKind: {apiVersion: a/b/c, kind: 'A B'}
  matchConstraints:
    matchPolicy: Foo
    namespaceSelector: {matchLabels: {'a b': c}}
    resourceRules: [{operations: [Foo], apiVersions: [v1], resources: ['*', a], resourceNames: [a, a, b/c]}]
    excludeResourceRules: [{}]
  matchConditions: [{name: '', expression: ' '}, {name: a, expression: 'true'}, {name: a, expression: 'true'}]
  variables: [{name: ' ', expression: ''}, {name: a-b, expression: '1'}, {name: in, expression: '1'}]
  validations:
  - {expression: ' '}
  - {expression: 'true', message: \"a\\nb\", reason: Foo, messageExpression: ' '}
  - {expression: 'true', message: ' '}
  auditAnnotations: [{key: ''}, {key: a b, valueExpression: x}, {key: k, valueExpression: x}, {key: k, valueExpression: x}]";
    check(
        ADMISSION,
        "ValidatingAdmissionPolicy",
        bad,
        expect![[r#"
            spec.failurePolicy: Unsupported value: "Foo": supported values: "Fail", "Ignore"
            spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c
            spec.paramKind.kind: Invalid value: "A B": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.matchConstraints.matchPolicy: Unsupported value: "Foo": supported values: "Equivalent", "Exact"
            spec.matchConstraints.namespaceSelector.matchLabels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"
            spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: "b/c": may not contain '/'
            spec.matchConstraints.resourceRules[0].operations[0]: Unsupported value: "Foo": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"
            spec.matchConstraints.resourceRules[0].apiGroups: Required value
            spec.matchConstraints.resourceRules[0].resources: Invalid value: ["*","a"]: if '*' is present, must not specify other resources without subresources
            spec.matchConstraints.excludeResourceRules[0].operations: Required value
            spec.matchConstraints.excludeResourceRules[0].apiGroups: Required value
            spec.matchConstraints.excludeResourceRules[0].apiVersions: Required value
            spec.matchConstraints.excludeResourceRules[0].resources: Required value
            spec.matchConditions[0].expression: Required value
            spec.matchConditions[0].name: Required value
            spec.matchConditions[2].name: Duplicate value: "a"
            spec.variables[0].name: Required value: name is not specified
            spec.variables[0].expression: Required value: expression is not specified
            spec.variables[1].name: Invalid value: "a-b": name is not a valid CEL identifier
            spec.variables[2].name: Invalid value: "in": name is not a valid CEL identifier
            spec.validations[0].expression: Required value: expression is not specified
            spec.validations[1].messageExpression: Invalid value: " ": must be non-empty if specified
            spec.validations[1].message: Invalid value: "a\nb": message must not contain line breaks
            spec.validations[1].reason: Unsupported value: "Foo": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"
            spec.validations[2].message: Invalid value: " ": message must be non-empty if specified
            spec.auditAnnotations[0].key: Invalid value: "p/": name part must be non-empty
            spec.auditAnnotations[0].key: Invalid value: "p/": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.auditAnnotations[0].valueExpression: Required value: valueExpression is not specified
            spec.auditAnnotations[1].key: Invalid value: "p/a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.auditAnnotations[1].valueExpression: Invalid value: "x": compilation failed: ERROR: <input>:1:1: undeclared reference to 'x' (in container '')
             | x
             | ^
            spec.auditAnnotations[2].valueExpression: Invalid value: "x": compilation failed: ERROR: <input>:1:1: undeclared reference to 'x' (in container '')
             | x
             | ^
            spec.auditAnnotations[3].key: Duplicate value: "k"
            spec.auditAnnotations[3].valueExpression: Invalid value: "x": compilation failed: ERROR: <input>:1:1: undeclared reference to 'x' (in container '')
             | x
             | ^
        "#]],
    );
    check(
        ADMISSION,
        "ValidatingAdmissionPolicy",
        "metadata: {name: p}",
        expect![[r#"
        spec.matchConstraints: Required value
        spec.validations: Required value: validations or auditAnnotations must contain at least one item
        spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item
    "#]],
    );
    let of = |kind: &str| {
        format!(
            "spec: {{paramKind: {kind}, validations: [{{expression: 'true'}}], matchConstraints: {{resourceRules: \
             [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]}}}}"
        )
    };
    check(ADMISSION, "ValidatingAdmissionPolicy", &of("{apiVersion: v1, kind: ConfigMap}"), expect![""]);
    check(
        ADMISSION,
        "ValidatingAdmissionPolicy",
        &of("{apiVersion: A_/, kind: ''}"),
        expect![[r#"
        spec.paramKind.apiVersion: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.paramKind.apiVersion: Invalid value: "A_/": version must be specified
        spec.paramKind.kind: Required value
    "#]],
    );
    check(
        ADMISSION,
        "ValidatingAdmissionPolicy",
        &of("{apiVersion: a.example/V 1}"),
        expect![[r#"
        spec.paramKind.apiVersion: Invalid value: "V 1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
        spec.paramKind.kind: Required value
    "#]],
    );
}

#[test]
fn mutating_policies() {
    check(
        ADMISSION,
        "MutatingAdmissionPolicy",
        "metadata: {name: p}",
        expect![[r#"
        spec.matchConstraints: Required value
        spec.mutations: Required value: mutations must contain at least one item
        spec.reinvocationPolicy: Required value
    "#]],
    );
    let bad = "spec:
  reinvocationPolicy: Foo
  matchConstraints: {}
  mutations:
  - {}
  - {patchType: Foo}
  - {patchType: JSONPatch}
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: ''}, jsonPatch: {expression: 'x'}}";
    check(
        ADMISSION,
        "MutatingAdmissionPolicy",
        bad,
        expect![[r#"
        spec.matchConstraints.resourceRules: Required value
        spec.mutations[0].patchType: Required value
        spec.mutations[1].patchType: Unsupported value: "Foo": supported values: "ApplyConfiguration", "JSONPatch"
        spec.mutations[2].jsonPatch: Required value: must be specified when patchType is JSONPatch
        spec.mutations[3].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is ApplyConfiguration
        spec.mutations[3].applyConfiguration.expression: Required value: expression is not specified
        spec.reinvocationPolicy: Unsupported value: "Foo": supported values: "Never", "IfNeeded"
    "#]],
    );
}

#[test]
fn bindings() {
    let bad = "spec: {policyName: A_, paramRef: {name: a/b, selector: {}}, matchResources: {matchPolicy: Foo}, \
               validationActions: [Foo, Audit, Audit]}";
    check(
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        bad,
        expect![[r#"
        spec.policyName: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.paramRef.name: Invalid value: "a/b": may not contain '/'
        spec.paramRef.name: Forbidden: name and selector are mutually exclusive
        spec.paramRef.selector: Forbidden: name and selector are mutually exclusive
        spec.paramRef.parameterNotFoundAction: Required value
        spec.matchResouces.matchPolicy: Unsupported value: "Foo": supported values: "Equivalent", "Exact"
        spec.validationActions[0]: Unsupported value: "Foo": supported values: "Audit", "Deny", "Warn"
        spec.validationActions[2]: Duplicate value: "Audit"
    "#]],
    );
    let bad = "spec: {policyName: a, paramRef: {parameterNotFoundAction: Foo}}";
    check(
        ADMISSION,
        "MutatingAdmissionPolicyBinding",
        bad,
        expect![[r#"
        spec.paramRef: Required value: one of name or selector must be specified
        spec.paramRef.parameterNotFoundAction: Unsupported value: "Foo": supported values: "Deny", "Allow"
    "#]],
    );
}

#[test]
fn flow_schemas() {
    let bad = "spec:
  matchingPrecedence: 1
  distinguisherMethod: {type: Foo}
  priorityLevelConfiguration: {name: A_}
  rules:
  - subjects:
    - kind: Foo
    - kind: User
    - {kind: Group, group: {name: ''}}
    - {kind: ServiceAccount, serviceAccount: {name: A_, namespace: ''}}
    - {kind: User, user: {name: a}, group: {name: b}}
    resourceRules:
    - {}
    - {verbs: ['*', get], apiGroups: ['*', a], resources: ['*', b], namespaces: ['*', a]}
    - {verbs: [Get], apiGroups: [a], resources: [b], namespaces: [A_]}
    nonResourceRules:
    - {}
    - {verbs: [get], nonResourceURLs: ['*', /a]}
    - {verbs: [get], nonResourceURLs: [a, /a b, //, /a*, /*/b, /, /a/*]}";
    check(
        FLOW,
        "FlowSchema",
        bad,
        expect![[r#"
        spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1
        spec.distinguisherMethod.type: Unsupported value: {"Type":"Foo"}: supported values: "ByNamespace", "ByUser"
        spec.priorityLevelConfiguration.name: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.rules[0].subjects[0].kind: Unsupported value: "Foo": supported values: "Group", "ServiceAccount", "User"
        spec.rules[0].subjects[1].user: Required value: user is required when subject kind is 'User'
        spec.rules[0].subjects[2].group.name: Required value
        spec.rules[0].subjects[3].serviceAccount.name: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.rules[0].subjects[3].serviceAccount.namespace: Required value: must specify namespace for service account
        spec.rules[0].subjects[4].group: Forbidden: group is forbidden when subject kind is not 'Group'
        spec.rules[0].resourceRules[0].verbs: Required value: verbs must contain at least one value
        spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group
        spec.rules[0].resourceRules[0].resources: Required value: resource rules must supply at least one resource
        spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace
        spec.rules[0].resourceRules[1].verbs: Invalid value: ["*","get"]: if '*' is present, must not specify other verbs
        spec.rules[0].resourceRules[1].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other api groups
        spec.rules[0].resourceRules[1].resources: Invalid value: ["*","b"]: if '*' is present, must not specify other resources
        spec.rules[0].resourceRules[1].namespaces: Invalid value: ["*","a"]: if '*' is present, must not specify other namespaces
        spec.rules[0].resourceRules[2].verbs: Unsupported value: ["Get"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"
        spec.rules[0].resourceRules[2].namespaces[0]: Invalid value: "A_": each member of this list must be '*' or a DNS-1123 label; a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        spec.rules[0].nonResourceRules[0].verbs: Required value: verbs must contain at least one value
        spec.rules[0].nonResourceRules[0].nonResourceURLs: Required value: nonResourceURLs must contain at least one value
        spec.rules[0].nonResourceRules[1].nonResourceURLs: Invalid value: ["*","/a"]: if '*' is present, must not specify other non-resource URLs
        spec.rules[0].nonResourceRules[2].nonResourceURLs[0]: Invalid value: "a": must start with slash
        spec.rules[0].nonResourceRules[2].nonResourceURLs[1]: Invalid value: "/a b": must not contain white-space
        spec.rules[0].nonResourceRules[2].nonResourceURLs[2]: Invalid value: "//": must not contain double slash
        spec.rules[0].nonResourceRules[2].nonResourceURLs[3]: Invalid value: "/a*": wildcard can only do suffix matching
        spec.rules[0].nonResourceRules[2].nonResourceURLs[4]: Invalid value: "/*/b": wildcard can only do suffix matching
    "#]],
    );
    let good = "spec: {priorityLevelConfiguration: {name: a}, rules: [{subjects: [{kind: User, user: {name: '*'}}], \
                resourceRules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], clusterScope: true}], \
                nonResourceRules: [{verbs: [get], nonResourceURLs: ['*']}]}]}";
    check(FLOW, "FlowSchema", good, expect![""]);
    let exempt = "{metadata: {name: exempt}, spec: {matchingPrecedence: 1, priorityLevelConfiguration: {name: exempt}, rules: \
                  [{subjects: [{kind: Group, group: {name: 'system:masters'}}], \
                  resourceRules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], clusterScope: true, namespaces: ['*']}], \
                  nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['*']}]}]}}";
    check(FLOW, "FlowSchema", exempt, expect![""]);
    let other = exempt.replace("system:masters", "a").replace("clusterScope: true, ", "");
    check(
        FLOW,
        "FlowSchema",
        &other,
        expect![[r#"
        spec: Invalid value: {"PriorityLevelConfiguration":{"Name":"exempt"},"MatchingPrecedence":1,"DistinguisherMethod":null,"Rules":[{"Subjects":[{"Kind":"Group","User":null,"Group":{"Name":"a"},"ServiceAccount":null}],"ResourceRules":[{"Verbs":["*"],"APIGroups":["*"],"Resources":["*"],"ClusterScope":false,"Namespaces":["*"]}],"NonResourceRules":[{"Verbs":["*"],"NonResourceURLs":["*"]}]}]}: spec of 'exempt' must equal the fixed value
    "#]],
    );
}

#[test]
fn priority_levels() {
    for (document, expected) in [
        (
            "spec: {}",
            expect![[r#"
            spec.type: Unsupported value: "": supported values: "Exempt", "Limited"
        "#]],
        ),
        (
            "spec: {type: Limited}",
            expect![[r#"
            spec.limited: Required value: must not be empty when type is Limited
        "#]],
        ),
        (
            "spec: {type: Limited, limited: {limitResponse: {type: Queue}}}",
            expect![[r#"
            spec.limited.limitResponse.queuing: Required value: must not be empty if limited.limitResponse.type is Limited
        "#]],
        ),
        ("spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {}}}}", expect![""]),
        (
            "spec: {type: Limited, limited: {limitResponse: {type: Reject, queuing: {}}}}",
            expect![[r#"
            spec.limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited
        "#]],
        ),
        (
            "spec: {type: Exempt}",
            expect![[r#"
            spec.type: Invalid value: "Exempt": type must be 'Exempt' if and only if name is 'exempt'
        "#]],
        ),
        (
            "{metadata: {name: exempt}, spec: {type: Exempt, limited: {}, exempt: {lendablePercent: 101}}}",
            expect![[r#"
                spec: Invalid value: {"Type":"Exempt","Limited":{"NominalConcurrencyShares":30,"LimitResponse":{"Type":"","Queuing":null},"LendablePercent":0,"BorrowingLimitPercent":null},"Exempt":{"NominalConcurrencyShares":0,"LendablePercent":101}}: spec of 'exempt' except the 'spec.exempt' field must equal the fixed value
                spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive
                spec.limited: Forbidden: must be nil if the type is not Limited
            "#]],
        ),
        (
            "spec: {type: Limited, exempt: {}, limited: {nominalConcurrencyShares: -1, lendablePercent: 101, \
             borrowingLimitPercent: -1, limitResponse: {type: Queue, queuing: {queues: -1, handSize: 0, queueLengthLimit: 0}}}}",
            expect![[r#"
                spec.exempt: Forbidden: must be nil if the type is Limited
                spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer
                spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: 0: must be positive
                spec.limited.limitResponse.queuing.queues: Invalid value: -1: must be positive
                spec.limited.limitResponse.queuing.handSize: Invalid value: 0: must be positive
                spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive
                spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer
            "#]],
        ),
        (
            "spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {queues: 20000000, handSize: 8}}}}",
            expect![[r#"
                spec.limited.limitResponse.queuing.queues: Invalid value: 20000000: must not be greater than 10000000
                spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy bits of deckSize 20000000 and handSize 8 should not be greater than 60
            "#]],
        ),
        (
            "spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {queues: 4, handSize: 8}}}}",
            expect![[r#"
                spec.limited.limitResponse.queuing.handSize: Invalid value: 8: should not be greater than queues (4)
            "#]],
        ),
        (
            "{metadata: {name: catch-all}, spec: {type: Limited, limited: {nominalConcurrencyShares: 5, limitResponse: \
             {type: Reject}}}}",
            expect![""],
        ),
        (
            "{metadata: {name: catch-all}, spec: {type: Limited, limited: {nominalConcurrencyShares: 6, limitResponse: \
             {type: Reject}}}}",
            expect![[r#"
                spec: Invalid value: {"Type":"Limited","Limited":{"NominalConcurrencyShares":6,"LimitResponse":{"Type":"Reject","Queuing":null},"LendablePercent":0,"BorrowingLimitPercent":null},"Exempt":null}: spec of 'catch-all' must equal the fixed value
            "#]],
        ),
        ("{metadata: {name: exempt}, spec: {type: Exempt, exempt: {nominalConcurrencyShares: 6}}}", expect![""]),
    ] {
        check(FLOW, "PriorityLevelConfiguration", document, expected);
    }
}
