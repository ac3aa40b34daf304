//! The log of requests that `-v` enables, in klog's form.

use client::Exchange;
use jiff::Zoned;
use jiff::tz::TimeZone;
use world::World;

/// As kubectl: at this level and above each request is logged. No level logs headers or bodies, which have credentials.
pub const REQUESTS: i32 = 6;

/// The line of a request, now.
pub fn line(exchange: &Exchange) -> String {
    at(&World::system().now().to_zoned(TimeZone::system()), std::process::id(), exchange)
}

/// A request without a response has no status, as kubectl logs it.
fn at(now: &Zoned, process: u32, exchange: &Exchange) -> String {
    let status = exchange.status.map_or_else(String::new, |status| format!(" {status}"));
    format!(
        "I{} {process:>7} {}:{}] {} {}{status} in {} milliseconds\n",
        now.strftime("%m%d %H:%M:%S%.6f"),
        file!().rsplit('/').next().unwrap_or_default(),
        line!(),
        exchange.method,
        crate::table::printable(&exchange.url),
        exchange.elapsed.as_millis(),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Method, StatusCode};

    use super::*;

    #[test]
    fn a_request_is_one_line() {
        let now: Zoned = "2026-11-27T08:05:09.000123+00:00[UTC]".parse().expect("a time");
        for (status, expected) in [
            (Some(StatusCode::NOT_FOUND), "GET https://a/api/v1/pods?limit=500 404 Not Found in 12 milliseconds\n"),
            (None, "GET https://a/api/v1/pods?limit=500 in 12 milliseconds\n"),
        ] {
            let url = "https://a/api/v1/pods?limit=500".to_owned();
            let exchange = Exchange {
                method: Method::GET,
                url,
                status,
                elapsed: Duration::from_micros(12_700),
                warnings: Vec::new(),
            };
            let text = at(&now, 4711, &exchange);
            let (header, request) = text.split_once("] ").expect("a header");
            assert!(header.starts_with("I1127 08:05:09.000123    4711 verbosity.rs:"), "{header}");
            assert_eq!(request, expected);
        }
    }
}
