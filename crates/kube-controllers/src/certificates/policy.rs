//! The rules of kube-controller-manager's signers. Pure.

use pki::request::Request;

pub(super) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub(super) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
pub(super) const LEGACY: &str = "kubernetes.io/legacy-unknown";

const SIGNATURE: &str = "digital signature";
const ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

/// Whether this is one of the signers.
pub(super) fn is_signer(name: &str) -> bool {
    matches!(name, CLIENT | KUBELET_CLIENT | KUBELET_SERVING | LEGACY)
}

/// Why a signer rejects a request. `usages` are those of the object, not of the PEM request in it.
pub(super) fn check(signer: &str, request: &Request, usages: &[String]) -> Result<(), String> {
    match signer {
        CLIENT => has_usages(usages, CLIENT_AUTH, &[CLIENT_AUTH]),
        KUBELET_CLIENT => {
            is_node(request)?;
            let names = request.alternative_names;
            let unwanted = [(names.dns, "DNS"), (names.email, "Email"), (names.ip, "IP"), (names.uri, "URI")];
            if let Some((_, what)) = unwanted.into_iter().find(|(there, _)| *there) {
                return Err(format!("{what} subjectAltNames are not allowed"));
            }
            has_usages(usages, CLIENT_AUTH, &[SIGNATURE, CLIENT_AUTH])
        }
        KUBELET_SERVING => {
            is_node(request)?;
            let names = request.alternative_names;
            if !names.dns && !names.ip {
                return Err("DNS or IP subjectAltName is required".to_owned());
            }
            if let Some((_, what)) = [(names.email, "Email"), (names.uri, "URI")].into_iter().find(|(there, _)| *there)
            {
                return Err(format!("{what} subjectAltNames are not allowed"));
            }
            has_usages(usages, SERVER_AUTH, &[SIGNATURE, SERVER_AUTH])
        }
        _ => Ok(()),
    }
}

fn is_node(request: &Request) -> Result<(), String> {
    if request.organizations != ["system:nodes"] {
        return Err("subject organization is not system:nodes".to_owned());
    }
    if !request.common_name.starts_with("system:node:") {
        return Err("subject common name does not begin with system:node:".to_owned());
    }
    Ok(())
}

/// All of `required`, and otherwise only the usages that every certificate of that purpose may have.
fn has_usages(usages: &[String], purpose: &str, required: &[&str]) -> Result<(), String> {
    let allowed = |usage: &String| matches!(usage.as_str(), SIGNATURE | ENCIPHERMENT) || usage == purpose;
    let has = |usage: &&str| usages.iter().any(|requested| requested == usage);
    if usages.iter().all(allowed) && required.iter().all(has) {
        return Ok(());
    }
    Err(format!("usages did not match [{}]", required.join(" ")))
}

#[cfg(test)]
mod tests {
    use pki::request::AlternativeNames;

    use super::*;

    #[test]
    fn each_signer_has_its_own_rules() {
        let request = |name: &str, organization: &str, names: &str| Request {
            common_name: name.into(),
            organizations: vec![organization.into()],
            alternative_names: AlternativeNames {
                dns: names.contains("dns"),
                ip: names.contains("ip"),
                email: names.contains("email"),
                uri: names.contains("uri"),
            },
        };
        let check = |signer: &str, request: Request, usages: &str, expected: &str| {
            let usages: Vec<String> = usages.split(", ").map(str::to_owned).collect();
            let got = super::check(signer, &request, &usages).err().unwrap_or_default();
            assert_eq!(got, expected, "{signer} {request:?} {usages:?}");
        };
        let node = |names| request("system:node:a", "system:nodes", names);
        let client = "digital signature, key encipherment, client auth";
        let server = "digital signature, server auth";
        check(CLIENT, request("ann", "dev", ""), client, "");
        check(CLIENT, request("ann", "dev", ""), "client auth", "");
        check(CLIENT, request("ann", "dev", ""), server, "usages did not match [client auth]");
        check(KUBELET_CLIENT, node(""), client, "");
        check(KUBELET_CLIENT, node("dns"), client, "DNS subjectAltNames are not allowed");
        check(
            KUBELET_CLIENT,
            request("ann", "system:nodes", ""),
            client,
            "subject common name does not begin with system:node:",
        );
        check(KUBELET_CLIENT, request("system:node:a", "x", ""), client, "subject organization is not system:nodes");
        check(KUBELET_CLIENT, node(""), "client auth", "usages did not match [digital signature client auth]");
        check(KUBELET_SERVING, node("dns ip"), server, "");
        check(KUBELET_SERVING, node(""), server, "DNS or IP subjectAltName is required");
        check(KUBELET_SERVING, node("ip uri"), server, "URI subjectAltNames are not allowed");
        check(KUBELET_SERVING, node("ip"), client, "usages did not match [digital signature server auth]");
        check(LEGACY, request("x", "y", "uri"), "any", "");
        assert!(is_signer(CLIENT) && !is_signer("example.com/mine"));
    }
}
