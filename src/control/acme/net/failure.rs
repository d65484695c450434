//! The errors of a directory and of the network, as failures that a user understands. RFC 8555, section 6.7.

use super::{
    super::message::{FailureKind, OrderFailure},
    https::{HttpsError, LastResponse},
};
use instant_acme::{Error, Problem};

/// What was under way when an error occurred: the same type of error means different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderStage {
    /// The account is made or found.
    Account,
    /// The order is made or finalized.
    Order,
    /// A name is checked.
    Challenge,
}

/// Returns the failure of a request. `last`: its response, if it has one.
pub(super) fn failure(stage: OrderStage, error: &Error, last: LastResponse) -> OrderFailure {
    let failure = match error {
        Error::Api(problem) => OrderFailure::new(kind_of(stage, problem), text_of(problem)),
        Error::Timeout(_) => OrderFailure::new(FailureKind::Directory, "it did not finish in time"),
        Error::Other(other) if other.downcast_ref::<HttpsError>().is_some() => {
            OrderFailure::new(FailureKind::Unreachable, other)
        }
        // A response that is no JSON: of something in between, or of a server that is overloaded.
        _ if last.status >= 400 => {
            let kind = if last.status == 429 { FailureKind::RateLimited } else { FailureKind::Directory };
            OrderFailure::new(kind, format_args!("status {}", last.status))
        }
        Error::Json(_) => {
            OrderFailure::new(FailureKind::Unreachable, "its answer is not that of an ACME directory")
        }
        other => OrderFailure::new(FailureKind::Directory, other),
    };
    OrderFailure { retry_after_s: last.retry_after_s, ..failure }
}

/// Returns the failure of a challenge.
pub(super) fn challenge_failure(problem: &Problem) -> OrderFailure {
    OrderFailure::new(kind_of(OrderStage::Challenge, problem), text_of(problem))
}

pub(super) fn kind_of(stage: OrderStage, problem: &Problem) -> FailureKind {
    let name = problem.r#type.as_deref().unwrap_or_default();
    match (name.strip_prefix("urn:ietf:params:acme:error:").unwrap_or_default(), stage) {
        ("badNonce", _) => FailureKind::BadNonce,
        ("rateLimited", _) => FailureKind::RateLimited,
        ("accountDoesNotExist", _) => FailureKind::AccountGone,
        // Of an account that was deactivated: RFC 8555, section 7.3.6.
        ("unauthorized", OrderStage::Order) => FailureKind::AccountGone,
        (
            "userActionRequired"
            | "externalAccountRequired"
            | "invalidContact"
            | "unsupportedContact"
            | "unauthorized"
            | "malformed",
            OrderStage::Account,
        ) => FailureKind::AccountRefused,
        ("userActionRequired", _) => FailureKind::AccountRefused,
        ("rejectedIdentifier" | "unsupportedIdentifier" | "caa", _) | ("malformed", OrderStage::Order) => {
            FailureKind::NamesRefused
        }
        ("connection", _) => FailureKind::NotReachable,
        ("unauthorized" | "incorrectResponse" | "tls", OrderStage::Challenge) => FailureKind::OtherServer,
        ("dns", _) => FailureKind::Dns,
        _ => FailureKind::Directory,
    }
}

fn text_of(problem: &Problem) -> String {
    let of_names = problem.subproblems.iter().filter_map(|problem| problem.detail.clone());
    let details: Vec<_> = problem.detail.clone().into_iter().chain(of_names).collect();
    match details.is_empty() {
        true => problem.r#type.clone().unwrap_or_default(),
        false => details.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_a_directory_have_their_kind() {
        use FailureKind as Kind;
        #[rustfmt::skip]
        let cases = [
            ("rateLimited",             OrderStage::Order,     Kind::RateLimited),
            ("rateLimited",             OrderStage::Account,   Kind::RateLimited),
            ("accountDoesNotExist",     OrderStage::Order,     Kind::AccountGone),
            ("unauthorized",            OrderStage::Order,     Kind::AccountGone),
            ("unauthorized",            OrderStage::Challenge, Kind::OtherServer),
            ("unauthorized",            OrderStage::Account,   Kind::AccountRefused),
            ("externalAccountRequired", OrderStage::Account,   Kind::AccountRefused),
            ("userActionRequired",      OrderStage::Order,     Kind::AccountRefused),
            ("invalidContact",          OrderStage::Account,   Kind::AccountRefused),
            ("rejectedIdentifier",      OrderStage::Order,     Kind::NamesRefused),
            ("caa",                     OrderStage::Challenge, Kind::NamesRefused),
            ("connection",              OrderStage::Challenge, Kind::NotReachable),
            ("tls",                     OrderStage::Challenge, Kind::OtherServer),
            ("incorrectResponse",       OrderStage::Challenge, Kind::OtherServer),
            ("dns",                     OrderStage::Challenge, Kind::Dns),
            ("badNonce",                OrderStage::Order,     Kind::BadNonce),
            ("serverInternal",          OrderStage::Order,     Kind::Directory),
            ("unheardOf",               OrderStage::Order,     Kind::Directory),
        ];
        for (name, stage, want) in cases {
            let json = format!(r#"{{"type":"urn:ietf:params:acme:error:{name}","detail":"why"}}"#);
            let problem: Problem = serde_json::from_str(&json).unwrap();
            let last = LastResponse { status: 400, retry_after_s: Some(7) };
            let found = failure(stage, &Error::Api(problem), last);
            assert_eq!((found.kind, &*found.reason, found.retry_after_s), (want, "why", Some(7)), "{name}");
        }
    }

    #[test]
    fn responses_that_are_no_problems_have_their_kind() {
        use FailureKind as Kind;
        let json = || Error::Json(serde_json::from_str::<u8>("<").unwrap_err());
        let network = Error::Other(Box::new(HttpsError::NoAddress));
        #[rustfmt::skip]
        let cases = [
            ("a page with status 200", json(),               200, Kind::Unreachable),
            ("a page with status 503", json(),               503, Kind::Directory),
            ("a page with status 429", json(),               429, Kind::RateLimited),
            ("no connection",          network,              0,   Kind::Unreachable),
            ("too slow",               Error::Timeout(None), 200, Kind::Directory),
        ];
        for (name, error, status, want) in cases {
            let last = LastResponse { status, retry_after_s: None };
            assert_eq!(failure(OrderStage::Order, &error, last).kind, want, "{name}");
        }
    }
}
