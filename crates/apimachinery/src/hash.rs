//! Hashes that end up in names. Bit-exact: other components compute the same names on their own.

/// FNV-1a, 32 bits.
pub fn fnv1a32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Letters and digits that form no words and are valid in every kind of name.
pub const SAFE_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The decimal form of `hash` with every digit replaced by a safe letter (`rand.SafeEncodeString` upstream).
pub fn safe_encode(hash: u32) -> String {
    hash.to_string().bytes().map(|digit| char::from(SAFE_ALPHABET[usize::from(digit) % SAFE_ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_those_of_upstreams_components() {
        for (input, expected) in [
            ("default/nginx-deployment", "5bdc5c4dcf"),
            ("foo-clusterrole", "846f98bd4d"),
            ("defaultapps/v1, Kind=Deployment", "6d7f8d5f5b"),
            ("default-nginx-deployment", "687f7fb96f"),
            ("default-nginx-configmap", "7dcff4d6b"),
            ("system.admin-clusterrole", "7c7568b598"),
            ("foo-namespace", "5dbdc7b59c"),
            ("foos.example.com-customresourcedefinition", "66c968c6cb"),
        ] {
            assert_eq!(safe_encode(fnv1a32(input.as_bytes())), expected, "{input}");
        }
    }
}
