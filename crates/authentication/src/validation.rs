//! The rules of an `AuthenticationConfiguration`, and its compilation.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList, Path};

use crate::document::{self, Anonymous, Document, IssuerDocument, Jwt, Mapping};
use crate::expressions::{Expression, RequiredType, Variable};
use crate::issuer::{ClaimRule, Issuer, Source};
use crate::jwks::Algorithm;

/// As in kube-apiserver: every token is compared with each issuer.
const MAX_ISSUERS: usize = 64;

pub(crate) fn compile(document: Document, disallowed_issuers: &[String]) -> Result<Vec<Issuer>, ErrorList> {
    let mut errors = ErrorList::new();
    let root = Path::new("jwt");
    if document.jwt.len() > MAX_ISSUERS {
        errors.push(Error::too_many(&root, document.jwt.len(), MAX_ISSUERS));
    }
    let (mut urls, mut discoveries) = (BTreeSet::new(), BTreeSet::new());
    let mut issuers = Vec::new();
    for (at, jwt) in document.jwt.into_iter().enumerate() {
        let path = root.index(at);
        let of_issuer = path.child("issuer");
        let (url, discovery) = (jwt.issuer.url.clone(), jwt.issuer.discovery_url.clone());
        if !urls.insert(url.clone()) {
            errors.push(Error::duplicate(&of_issuer.child("url"), url));
        }
        if !discovery.is_empty() && !discoveries.insert(discovery.clone()) {
            errors.push(Error::duplicate(&of_issuer.child("discoveryURL"), discovery));
        }
        issuers.extend(issuer_at(jwt, &path, disallowed_issuers, &mut errors));
    }
    if let Some(anonymous) = &document.anonymous {
        check_anonymous(anonymous, &mut errors);
    }
    if errors.is_empty() { Ok(issuers) } else { Err(errors) }
}

/// Compiles one issuer that belongs to no list.
pub(crate) fn issuer(jwt: Jwt, disallowed_issuers: &[String]) -> Result<Issuer, ErrorList> {
    let mut errors = ErrorList::new();
    match issuer_at(jwt, &Path::root(), disallowed_issuers, &mut errors) {
        Some(issuer) if errors.is_empty() => Ok(issuer),
        _ => Err(errors),
    }
}

fn check_anonymous(anonymous: &Anonymous, errors: &mut ErrorList) {
    let path = Path::new("anonymous").child("conditions");
    if !anonymous.enabled && !anonymous.conditions.is_empty() {
        errors.push(Error::without_value(&path, "enabled should be set to true when conditions are defined"));
    }
}

/// `None` only with an error.
fn issuer_at(jwt: Jwt, path: &Path, disallowed: &[String], errors: &mut ErrorList) -> Option<Issuer> {
    check_issuer(&jwt.issuer, &path.child("issuer"), disallowed, errors);
    let claim_rules = claim_rules(&jwt.claim_validation_rules, &path.child("claimValidationRules"), errors);
    let mappings = path.child("claimMappings");
    let of = |name: &str| mappings.child(name);
    let username = mapping(&jwt.claim_mappings.username, &of("username"), RequiredType::String, errors);
    if username.is_none() && jwt.claim_mappings.username.is_empty() {
        errors.push(Error::required(&of("username"), "claim or expression is required"));
    }
    let groups = mapping(&jwt.claim_mappings.groups, &of("groups"), RequiredType::Strings, errors);
    // A UID has no prefix, which a claim otherwise requires.
    let uid = &jwt.claim_mappings.uid;
    let prefix = (!uid.claim.is_empty()).then(String::new);
    let uid = Mapping { claim: uid.claim.clone(), expression: uid.expression.clone(), prefix };
    let uid = mapping(&uid, &of("uid"), RequiredType::String, errors);
    let extra = extra(&jwt.claim_mappings.extra, &of("extra"), errors);
    let user_rules = user_rules(&jwt.user_validation_rules, &path.child("userValidationRules"), errors);
    check_email(username.as_ref(), &extra, &claim_rules, &of("username").child("expression"), errors);
    let non_empty = |text: String| Some(text).filter(|text| !text.is_empty());
    Some(Issuer {
        url: jwt.issuer.url,
        discovery_url: non_empty(jwt.issuer.discovery_url),
        certificate_authority: non_empty(jwt.issuer.certificate_authority),
        audiences: jwt.issuer.audiences,
        algorithms: Algorithm::ALL.iter().map(|(_, algorithm)| *algorithm).collect(),
        claim_rules,
        username: username?,
        groups,
        uid,
        extra,
        user_rules,
    })
}

fn check_issuer(issuer: &IssuerDocument, path: &Path, disallowed: &[String], errors: &mut ErrorList) {
    let url = path.child("url");
    if issuer.url.is_empty() {
        errors.push(Error::required(&url, "URL is required"));
    } else {
        check_url(&issuer.url, &url, errors);
    }
    if disallowed.contains(&issuer.url) {
        let why = format!("URL must not overlap with disallowed issuers: [{}]", disallowed.join(" "));
        errors.push(Error::invalid(&url, issuer.url.clone(), why));
    }
    if !issuer.discovery_url.is_empty() {
        let discovery = path.child("discoveryURL");
        if issuer.discovery_url.trim_end_matches('/') == issuer.url.trim_end_matches('/') {
            let why = "discoveryURL must be different from URL";
            errors.push(Error::invalid(&discovery, issuer.discovery_url.clone(), why));
        }
        check_url(&issuer.discovery_url, &discovery, errors);
    }
    if !issuer.egress_selector_type.is_empty() {
        let why = "this server has no egress selectors: it connects to issuers directly";
        errors.push(Error::forbidden(&path.child("egressSelectorType"), why));
    }
    let authority = &issuer.certificate_authority;
    if !authority.is_empty() && !authority.contains("-----BEGIN CERTIFICATE-----") {
        let why = "data does not contain any valid RSA or ECDSA certificates";
        errors.push(Error::invalid(&path.child("certificateAuthority"), "<omitted>", why));
    }
    check_audiences(issuer, path, errors);
}

fn check_audiences(issuer: &IssuerDocument, path: &Path, errors: &mut ErrorList) {
    let audiences = path.child("audiences");
    if issuer.audiences.is_empty() {
        errors.push(Error::required(&audiences, format!("at least one {audiences} is required")));
    }
    let mut seen = BTreeSet::new();
    for (at, audience) in issuer.audiences.iter().enumerate() {
        if audience.is_empty() {
            errors.push(Error::required(&audiences.index(at), "audience can't be empty"));
        }
        if !seen.insert(audience) {
            errors.push(Error::duplicate(&audiences.index(at), audience.clone()));
        }
    }
    let (policy, found) = (path.child("audienceMatchPolicy"), issuer.audience_match_policy.as_str());
    if issuer.audiences.len() > 1 && found != "MatchAny" {
        errors.push(Error::invalid(&policy, found, "audienceMatchPolicy must be MatchAny for multiple audiences"));
    } else if !matches!(found, "" | "MatchAny") {
        errors.push(Error::not_supported(&policy, found, &["", "MatchAny"]));
    }
}

fn check_url(text: &str, path: &Path, errors: &mut ErrorList) {
    let mut refuse = |why: &str| errors.push(Error::invalid(path, text, why));
    let Some(rest) = text.strip_prefix("https://") else { return refuse("URL scheme must be https") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return refuse("URL must be valid");
    }
    if authority.contains('@') {
        refuse("URL must not contain a username or password");
    }
    if rest.contains('?') {
        refuse("URL must not contain a query");
    }
    if rest.contains('#') {
        refuse("URL must not contain a fragment");
    }
}

fn compiled(
    source: &str,
    variable: Variable,
    required_type: RequiredType,
    path: &Path,
    errors: &mut ErrorList,
) -> Option<Expression> {
    let result = Expression::compile(source, variable, required_type);
    result.map_err(|why| errors.push(Error::invalid(path, source, why))).ok()
}

fn claim_rules(rules: &[document::ClaimRule], path: &Path, errors: &mut ErrorList) -> Vec<ClaimRule> {
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    let mut found = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let path = path.index(at);
        match (rule.claim.as_str(), rule.expression.as_str()) {
            ("", "") => errors.push(Error::required(&path, "claim or expression is required")),
            (claim, "") => {
                if !rule.message.is_empty() {
                    let why = "message can't be set when claim is set";
                    errors.push(Error::invalid(&path.child("message"), rule.message.clone(), why));
                }
                if !claims.insert(claim) {
                    errors.push(Error::duplicate(&path.child("claim"), claim));
                }
                found.push(ClaimRule::Value { claim: claim.to_owned(), value: rule.required_value.clone() });
            }
            ("", source) => {
                if !rule.required_value.is_empty() {
                    let why = "requiredValue can't be set when expression is set";
                    errors.push(Error::invalid(&path.child("requiredValue"), rule.required_value.clone(), why));
                }
                let place = path.child("expression");
                if !expressions.insert(source) {
                    errors.push(Error::duplicate(&place, source));
                }
                let compiled = compiled(source, Variable::Claims, RequiredType::Bool, &place, errors);
                let message = rule.message.clone();
                found.extend(compiled.map(|expression| ClaimRule::Expression { expression, message }));
            }
            (claim, _) => errors.push(Error::invalid(&path, claim, "claim and expression can't both be set")),
        }
    }
    found
}

impl Mapping {
    fn is_empty(&self) -> bool {
        self.claim.is_empty() && self.expression.is_empty()
    }
}

fn mapping(mapping: &Mapping, path: &Path, required_type: RequiredType, errors: &mut ErrorList) -> Option<Source> {
    let prefix = path.child("prefix");
    match (mapping.claim.as_str(), mapping.expression.as_str()) {
        ("", "") => {
            if mapping.prefix.as_deref().is_some_and(|prefix| !prefix.is_empty()) {
                errors.push(Error::invalid(
                    &prefix,
                    mapping.prefix.clone(),
                    "non-empty prefix can't be set when claim is not set",
                ));
            }
            None
        }
        (claim, "") => {
            if mapping.prefix.is_none() {
                let why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.push(Error::required(&prefix, why));
            }
            Some(Source::Claim { name: claim.to_owned(), prefix: mapping.prefix.clone().unwrap_or_default() })
        }
        ("", source) => {
            if mapping.prefix.is_some() {
                errors.push(Error::invalid(
                    &prefix,
                    mapping.prefix.clone(),
                    "prefix can't be set when expression is set",
                ));
            }
            compiled(source, Variable::Claims, required_type, &path.child("expression"), errors).map(Source::Expression)
        }
        (claim, _) => {
            errors.push(Error::invalid(path, claim, "claim and expression can't both be set"));
            None
        }
    }
}

fn extra(extra: &[document::Extra], path: &Path, errors: &mut ErrorList) -> Vec<(String, Expression)> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (at, item) in extra.iter().enumerate() {
        let path = path.index(at);
        check_key(&item.key, &path.child("key"), errors);
        if !seen.insert(&item.key) {
            errors.push(Error::duplicate(&path.child("key"), item.key.clone()));
        }
        let place = path.child("valueExpression");
        if item.value_expression.is_empty() {
            errors.push(Error::required(&place, "valueExpression is required"));
            continue;
        }
        let compiled = compiled(&item.value_expression, Variable::Claims, RequiredType::Strings, &place, errors);
        found.extend(compiled.map(|expression| (item.key.clone(), expression)));
    }
    found
}

/// Keys must have the domain of their owner; Kubernetes' domains are reserved.
fn check_key(key: &str, path: &Path, errors: &mut ErrorList) {
    if key.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    let Some((domain, rest)) = key.split_once('/').filter(|(_, rest)| !rest.is_empty()) else {
        errors.push(Error::invalid(path, key, "must be a domain-prefixed path (such as \"acme.io/foo\")"));
        return;
    };
    errors.extend(
        apimachinery::names::is_dns1123_subdomain(domain).into_iter().map(|why| Error::invalid(path, domain, why)),
    );
    if key.chars().any(char::is_uppercase) {
        errors.push(Error::invalid(path, key, "key must be lowercase"));
    }
    if rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
        errors.push(Error::invalid(path, key, "the path must not contain spaces"));
    }
    let is_below =
        |reserved: &str| domain == reserved || domain.strip_suffix(reserved).is_some_and(|it| it.ends_with('.'));
    if is_below("k8s.io") || is_below("kubernetes.io") {
        let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
        errors.push(Error::invalid(path, key, why));
    }
}

fn user_rules(rules: &[document::UserRule], path: &Path, errors: &mut ErrorList) -> Vec<(Expression, String)> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let place = path.index(at).child("expression");
        if rule.expression.is_empty() {
            errors.push(Error::required(&place, "expression is required"));
            continue;
        }
        if !seen.insert(&rule.expression) {
            errors.push(Error::duplicate(&place, rule.expression.clone()));
        }
        let compiled = compiled(&rule.expression, Variable::User, RequiredType::Bool, &place, errors);
        found.extend(compiled.map(|expression| (expression, rule.message.clone())));
    }
    found
}

/// A user name from an address that is not verified can be chosen by any person.
fn check_email(
    username: Option<&Source>,
    extra: &[(String, Expression)],
    rules: &[ClaimRule],
    path: &Path,
    errors: &mut ErrorList,
) {
    let Some(Source::Expression(username)) = username else { return };
    let of_rules = rules.iter().filter_map(|rule| match rule {
        ClaimRule::Expression { expression, .. } => Some(expression),
        ClaimRule::Value { .. } => None,
    });
    let mut all = std::iter::once(username).chain(extra.iter().map(|(_, expression)| expression)).chain(of_rules);
    if username.reads("email") && !all.any(|expression| expression.reads("email_verified")) {
        let why = "claims.email_verified must be used in claimMappings.username.expression or \
                   claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in \
                   claimMappings.username.expression";
        errors.push(Error::invalid(path, username.source.clone(), why));
    }
}
