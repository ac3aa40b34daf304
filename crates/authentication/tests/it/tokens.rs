//! Which tokens are valid, and the users that claims map to.

use authentication::{Configuration, Flags, Issuer, KeySet, Token};
use serde_json::{Value, json};

use crate::signing::{Ec, Rsa, encoded, message};

const NOW: i64 = 1_800_000_000;
const URL: &str = "https://issuer.example.com";

fn flags() -> Flags {
    Flags {
        issuer_url: URL.into(),
        client_id: "karmada".into(),
        groups_claim: "groups".into(),
        groups_prefix: "oidc:".into(),
        signing_algs: ["RS256", "ES256"].map(String::from).to_vec(),
        ..Flags::default()
    }
}

fn claims(changes: Value) -> Value {
    let mut claims = json!({"iss": URL, "aud": "karmada", "sub": "ann", "exp": NOW + 60});
    for (name, value) in changes.as_object().expect("claims") {
        match value {
            Value::Null => drop(claims.as_object_mut().expect("claims").remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

fn answer(issuer: &Issuer, keys: &KeySet, token: &str) -> String {
    let token = match Token::parse(token) {
        Ok(token) => token,
        Err(error) => return error.to_string(),
    };
    match issuer.user(&token, keys, NOW) {
        Ok(user) => {
            let extra: Vec<_> = user.extra.iter().map(|(key, values)| format!(" {key}={}", values.join("+"))).collect();
            format!("{} {} [{}]{}", user.name, user.uid, user.groups.join(" "), extra.concat())
        }
        Err(refusal) => refusal.to_string(),
    }
}

fn keys(keys: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).expect("a key set")
}

#[test]
fn claims_are_checked_and_mapped() {
    let key = Ec::new("P-256");
    let keys = keys(&[key.jwk("k1")]);
    let issuer = flags().issuer(&[]).expect("an issuer");
    let long = NOW + 400;
    for (changes, expected) in [
        (json!({}), "https://issuer.example.com#ann  []"),
        (json!({"groups": "a"}), "https://issuer.example.com#ann  [oidc:a]"),
        (
            json!({"groups": ["a", "b"], "jti": "7"}),
            "https://issuer.example.com#ann  [oidc:a oidc:b] authentication.kubernetes.io/credential-id=JTI=7",
        ),
        (json!({"groups": [1]}), r#"claim "groups" is neither a string nor a list of strings"#),
        (
            json!({"_claim_names": {"groups": "src1"}}),
            r#"claim "groups" is a distributed claim, which this server does not resolve"#,
        ),
        (json!({"sub": null}), r#"claim "sub" is missing"#),
        (json!({"sub": ""}), r#"claim "sub" is empty"#),
        (json!({"sub": ["ann"]}), r#"claim "sub" is not a string"#),
        (json!({"aud": ["other", "karmada"]}), "https://issuer.example.com#ann  []"),
        (json!({"aud": "other"}), r#"its audience ["other"] is not one of the issuer's audiences"#),
        (json!({"aud": null}), r#"claim "aud" is neither a string nor a list of strings"#),
        (json!({"iss": "https://other"}), r#"claim "iss" is not the issuer"#),
        (json!({"exp": NOW}), "it has expired or has no exp"),
        (json!({"exp": null}), "it has expired or has no exp"),
        (json!({"exp": "later"}), r#"claim "exp" is not a number"#),
        (json!({"exp": 1.8e9 + 0.5}), "https://issuer.example.com#ann  []"),
        (json!({"nbf": NOW + 200}), "https://issuer.example.com#ann  []"),
        (json!({"nbf": long}), "it is not valid yet"),
    ] {
        assert_eq!(answer(&issuer, &keys, &key.sign(Some("k1"), &claims(changes.clone()))), expected, "{changes}");
    }
}

#[test]
fn only_signatures_of_the_issuer_are_valid() {
    let (rsa, other, ec) = (Rsa::new(), Ec::new("P-256"), Ec::new("P-256"));
    let keys = keys(&[rsa.jwk("r"), ec.jwk("e")]);
    let issuer = flags().issuer(&[]).expect("an issuer");
    let fine = "https://issuer.example.com#ann  []";
    let wrong = "its signature is not of a key of the issuer";
    let claims = claims(json!({}));
    let (n, _) = rsa.numbers();
    let hmac = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &n);
    let confused = message(&json!({"alg": "HS256", "kid": "r"}), &claims);
    let confused = format!("{confused}.{}", encoded(aws_lc_rs::hmac::sign(&hmac, confused.as_bytes())));
    let good = ec.sign(Some("e"), &claims);
    let (signed, signature) = good.rsplit_once('.').expect("a signature");
    let payload = encoded(json!({"iss": URL, "aud": "karmada", "sub": "admin", "exp": NOW + 60}).to_string());
    let forged = format!("{}.{payload}.{signature}", signed.split_once('.').expect("parts").0);
    for (token, expected) in [
        (rsa.sign("RS256", "r", &claims), fine),
        (good.clone(), fine),
        (ec.sign(None, &claims), fine),
        (other.sign(Some("e"), &claims), wrong),
        (other.sign(None, &claims), wrong),
        (ec.sign(Some("r"), &claims), wrong),
        (ec.sign(Some("x"), &claims), wrong),
        (rsa.sign("RS512", "r", &claims), r#"its signature algorithm "RS512" is not accepted"#),
        (forged, wrong),
        (confused, r#"its signature algorithm "HS256" is not accepted"#),
        (
            format!("{}.", message(&json!({"alg": "none"}), &claims)),
            r#"its signature algorithm "none" is not accepted"#,
        ),
        (ec.sign_with(&json!({"alg": "RS256", "kid": "e"}), &claims), wrong),
        (
            ec.sign_with(&json!({"alg": "ES256", "kid": "e", "crit": ["b64"]}), &claims),
            "it is not a signed JSON Web Token: it has critical extensions",
        ),
        (format!("{good}."), "it is not a signed JSON Web Token: a part is not base64url"),
        (format!("{good}="), "it is not a signed JSON Web Token: a part is not base64url"),
        (signed.to_owned(), "it is not a signed JSON Web Token: it does not have three parts"),
        ("abc".to_owned(), "it is not a signed JSON Web Token: it has no signature"),
        ("a".repeat(70_000), "it is not a signed JSON Web Token: it is larger than 64 KiB"),
    ] {
        assert_eq!(answer(&issuer, &keys, &token), expected, "{}", &token[..token.len().min(200)]);
    }
}

#[test]
fn every_algorithm_verifies() {
    let rsa = Rsa::new();
    let flags = |name: &str| Flags { signing_algs: vec![name.into()], ..flags() }.issuer(&[]).expect("an issuer");
    for name in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"] {
        let token = rsa.sign(name, "r", &claims(json!({})));
        assert!(answer(&flags(name), &keys(&[rsa.jwk("r")]), &token).ends_with("#ann  []"), "{name}");
        let mut bound = rsa.jwk("r");
        bound["alg"] = if name == "RS256" { "RS384".into() } else { "RS256".into() };
        assert!(answer(&flags(name), &keys(&[bound]), &token).starts_with("its signature"), "{name}");
    }
    for (name, curve) in [("ES256", "P-256"), ("ES384", "P-384"), ("ES512", "P-521")] {
        let key = Ec::new(curve);
        let token = key.sign(Some("e"), &claims(json!({})));
        assert!(answer(&flags(name), &keys(&[key.jwk("e")]), &token).ends_with("#ann  []"), "{name}");
    }
}

#[test]
fn addresses_must_be_verified() {
    let key = Ec::new("P-256");
    let keys = keys(&[key.jwk("k1")]);
    let of_email = Flags { username_claim: "email".into(), ..flags() }.issuer(&[]).expect("an issuer");
    let bare = Flags { username_prefix: "-".into(), required_claims: vec!["hd=example.com".into()], ..flags() };
    let bare = bare.issuer(&[]).expect("an issuer");
    for (issuer, changes, expected) in [
        (&of_email, json!({"email": "a@b", "email_verified": true}), "a@b  []"),
        (&of_email, json!({"email": "a@b"}), "a@b  []"),
        (&of_email, json!({"email": "a@b", "email_verified": false}), r#"claim "email_verified" is not true"#),
        (&of_email, json!({"email": "a@b", "email_verified": "true"}), r#"claim "email_verified" is not true"#),
        (&bare, json!({"hd": "example.com"}), "ann  []"),
        (&bare, json!({"hd": "example.org"}), r#"claim "hd" does not have the required value"#),
        (&bare, json!({}), r#"claim "hd" is required and is not a string"#),
    ] {
        assert_eq!(answer(issuer, &keys, &key.sign(Some("k1"), &claims(changes.clone()))), expected, "{changes}");
    }
}

#[test]
fn expressions_map_claims() {
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
        "jwt": [{
            "issuer": {"url": URL, "audiences": ["karmada", "other"], "audienceMatchPolicy": "MatchAny"},
            "claimValidationRules": [
                {"expression": "claims.exp - claims.nbf <= 86400", "message": "lifetime over a day"},
                {"claim": "hd", "requiredValue": "example.com"}],
            "claimMappings": {
                "username": {"expression": "claims.sub + ':' + claims.team.name"},
                "groups": {"expression": "claims.?roles.orValue([])"},
                "uid": {"claim": "uid"},
                "extra": [{"key": "example.com/tenant", "valueExpression": "claims.tenant"},
                          {"key": "example.com/none", "valueExpression": "''"}]},
            "userValidationRules": [
                {"expression": "!user.username.startsWith('system:')", "message": "reserved"},
                {"expression": "user.groups.all(g, !g.startsWith('system:'))"}]}]});
    let configuration = Configuration::parse(configuration.to_string().as_bytes(), &[]).expect("a configuration");
    let key = Ec::new("P-384");
    let keys = keys(&[key.jwk("k1")]);
    let whole = json!({"nbf": NOW, "hd": "example.com", "team": {"name": "x"}, "uid": "u7", "tenant": ["t1", "t2"]});
    for (changes, expected) in [
        (json!({}), "ann:x u7 [] example.com/tenant=t1+t2"),
        (json!({"roles": ["a", "b"]}), "ann:x u7 [a b] example.com/tenant=t1+t2"),
        (json!({"roles": "a", "tenant": "t"}), "ann:x u7 [a] example.com/tenant=t"),
        (json!({"roles": [7]}), "expression 'claims.?roles.orValue([])' evaluated to list"),
        (
            json!({"roles": ["system:masters"]}),
            "validation expression 'user.groups.all(g, !g.startsWith('system:'))' failed",
        ),
        (json!({"sub": "system"}), "validation expression '!user.username.startsWith('system:')' failed: reserved"),
        (
            json!({"exp": NOW + 90_000}),
            "validation expression 'claims.exp - claims.nbf <= 86400' failed: lifetime over a day",
        ),
        (
            json!({"team": null}),
            "expression 'claims.sub + ':' + claims.team.name' resulted in error: no such key: team",
        ),
        (json!({"uid": null}), r#"claim "uid" is missing"#),
    ] {
        let mut all = whole.clone();
        all.as_object_mut().expect("claims").extend(changes.as_object().expect("claims").clone());
        let token = key.sign(Some("k1"), &claims(all));
        assert_eq!(answer(&configuration.issuers[0], &keys, &token), expected, "{changes}");
    }
}

/// A set may have hundreds of keys, and a token without the name of its key is verified with the first ones.
#[test]
fn verifications_of_a_token_are_bounded_and_keys_are_not() {
    let issuer = flags().issuer(&[]).expect("an issuer");
    let is_verified = |keys: &KeySet, token: &str| answer(&issuer, keys, token).starts_with(URL);
    let (own, other) = (Ec::new("P-256"), Ec::new("P-256"));
    let token = |id: Option<&str>| own.sign(id, &claims(json!({})));
    for (place, unnamed_is_verified) in [(0, true), (63, true), (64, false), (499, false)] {
        let mut all: Vec<Value> = (0..500).map(|n| other.jwk(&format!("k{n}"))).collect();
        all[place] = own.jwk(&format!("k{place}"));
        let keys = keys(&all);
        assert!(is_verified(&keys, &token(Some(&format!("k{place}")))), "{place}");
        assert!(!is_verified(&keys, &token(Some(&format!("k{}", 499 - place)))), "{place}");
        assert_eq!(is_verified(&keys, &token(None)), unnamed_is_verified, "{place}");
    }
    // Keys of other types do not count.
    let rsa = Rsa::new();
    let mut all = vec![rsa.jwk("r"); 200];
    all.push(own.jwk("e"));
    assert!(is_verified(&keys(&all), &token(None)));
}

#[test]
fn key_sets_are_validated() {
    let key = Ec::new("P-256").jwk("a");
    let check = |document: Value, expected: &str| {
        let found =
            KeySet::parse(document.to_string().as_bytes()).map_or_else(|error| error.to_string(), |_| "fine".into());
        assert_eq!(found, expected);
    };
    check(json!({"keys": [key, {"kty": "oct", "k": "AAAA"}, {"kty": "OKP"}]}), "fine");
    check(json!({"keys": [{"kty": "oct", "k": "AAAA"}]}), "the key set has no RSA or EC signature key");
    let weak = json!({"kty": "RSA", "n": encoded([1; 128]), "e": "AQAB"});
    check(json!({"keys": [weak]}), "the key set has no RSA or EC signature key");
    let huge = json!({"kty": "RSA", "n": encoded(vec![1; 9000]), "e": "AQAB"});
    check(json!({"keys": [huge]}), "the key set has no RSA or EC signature key");
    check(
        json!({"keys": 7}),
        "the key set cannot be decoded: invalid type: integer `7`, expected a sequence at line 1 column 9",
    );
}
