//! Certificates, keys and tokens: the one place that knows rcgen, x509-parser and jsonwebtoken.
