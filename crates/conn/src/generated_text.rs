//! Writes the generated fields of a response as text: those that are lines of their own, with all bytes of the request that they need.

use crate::{
    bounded_writer::BoundedWriter,
    byte_ranges,
    plan::Generated,
    request::RequestPart,
    sites::{ImageId, Sites},
};

/// Keeps a response out of shared caches, also beside a Cache-Control that says otherwise: RFC 9111, section 4.2.1.
pub(crate) const PRIVATE_LINE: &[u8] = b"Cache-Control: private\r\n";

/// Writes the generated lines of a response to the front of `to`, and the content if that is generated too. `request`: the bytes of the
/// request. Returns the length, or `None` if they do not fit, or are no whole lines: a query, and the pieces of byte ranges.
pub(crate) fn write(
    generated: &Generated,
    sites: &Sites,
    image: ImageId,
    request: &[u8],
    to: &mut [u8],
) -> Option<usize> {
    match *generated {
        Generated::None => Some(0),
        Generated::RuleRedirect(redirect) => {
            let rules = sites.image(image).rules();
            let rules = rules.ok().flatten().expect("the plan has read the rules of this image");
            redirect.write(rules, request, to)
        }
        Generated::HostRedirect(redirect) => redirect.write(sites.canonical(redirect.site()), request, to),
        Generated::HttpsRedirect(redirect) => redirect.write(request, to),
        Generated::Health(health) => health.write(to),
        Generated::Challenge(challenge) => {
            let find = sites.challenges().expect("the route has found the challenge by it");
            challenge.write(find, request, to)
        }
        Generated::Unsatisfied { of } => Some(byte_ranges::write_unsatisfied(of, to)),
        Generated::RetryAfter(wait) => wait.write(to),
        Generated::Authenticate(rule) => {
            let limits = sites.client_limits().expect("the plan has the number of one of their rules");
            limits.write_challenge(rule, to)
        }
        Generated::Private => {
            to.get_mut(..PRIVATE_LINE.len())?.copy_from_slice(PRIVATE_LINE);
            Some(PRIVATE_LINE.len())
        }
        Generated::LocationWithQuery { .. } | Generated::ByteRanges(_) => None,
    }
}

/// Writes a query, with its `?`, to the front of `to`. Browsers send bytes in a query that a Location must not contain. Returns the length,
/// or `None` if the query does not fit.
pub(crate) fn write_query(query: RequestPart, request: &[u8], to: &mut [u8]) -> Option<usize> {
    let mut writer = BoundedWriter::new(to);
    writer.put_escaped(query.of(request))?;
    Some(writer.len())
}
