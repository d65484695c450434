//! Checks the fields of a request, and finds its parts. RFC 9113, sections 8.2 and 8.3.
//!
//! ```text
//! :method :scheme :authority :path   fields …
//! └─ each once, before all fields ─┘ └─ Host names the same authority; Content-Length is one number
//! ```
//!
//! The [class](super::field_class) of each field says whether the field is valid by itself; the rules here are about several of them.

use super::field_class::{FieldClass, PathForm};
use super::hpack::FieldSection;
use super::{ErrorCode, MalformedRequest, Priority};
use crate::FieldName;
use crate::fields::{Fields, Place};
use crate::framing::content_length;
use crate::host;
use crate::method::Method;
use crate::target::{self, Scheme, Target, TargetError};

/// A request, checked as RFC 9113, sections 8.2 and 8.3, demand. Borrows its field section.
#[derive(Clone, Copy, Debug)]
pub struct H2Request<'a> {
    /// The method.
    pub method: Method,
    /// The method as received: a token.
    pub method_token: &'a [u8],
    /// The scheme. `None`: it is neither http nor https, or the request is for a tunnel and has none.
    pub scheme: Option<Scheme>,
    /// Host and port: `:authority`, or the value of Host if there is none. Valid and not empty.
    pub authority: &'a [u8],
    /// The target: never in absolute form. An error: the scheme is neither http nor https.
    pub target: Result<Target<'a>, TargetError>,
    /// Whether the target is a path that [is plain](target::is_plain), perhaps with a query.
    pub has_plain_path: bool,
    /// The protocol that extended CONNECT asks for, such as `websocket`: RFC 8441, section 4. Then the method is CONNECT, and the target a path.
    pub protocol: Option<&'a [u8]>,
    /// The length of the content in bytes, if the client names it. The sum of all DATA must equal it: RFC 9113, section 8.1.1.
    pub content_length: Option<u64>,
    /// The fields, without the pseudo-header fields.
    pub fields: Fields<'a>,
    section: &'a FieldSection,
    bytes: &'a [u8],
}

/// The pseudo-header fields of a request.
#[derive(Default)]
struct PseudoFields {
    method: Option<(Method, Place)>,
    scheme: Option<Option<Scheme>>,
    authority: Option<Place>,
    path: Option<(PathForm, Place)>,
    protocol: Option<Place>,
}

impl<'a> H2Request<'a> {
    /// Checks the section of a request. `bytes`: the buffer that it was decoded to. `has_extended_connect`: the server has sent
    /// `SETTINGS_ENABLE_CONNECT_PROTOCOL`, so clients may use `:protocol`.
    ///
    /// # Errors
    ///
    /// Returns the first rule that the request breaks.
    ///
    /// # Panics
    ///
    /// Panics if the section [is too large](FieldSection::is_too_large), or its fields do not lie in `bytes`.
    ///
    /// ```
    /// use tarpon_http::Method;
    /// use tarpon_http::h2::H2Request;
    /// use tarpon_http::h2::hpack::{FieldSection, HpackDecoder};
    ///
    /// let (mut decoder, mut section, mut bytes) = (HpackDecoder::new(), FieldSection::new(), [0; 16_384]);
    /// decoder.decode(b"\x82\x84\x87\x41\x01a", true, &mut section, &mut bytes)?;
    /// let request = H2Request::parse(&section, &bytes, false).expect("a request");
    /// assert_eq!((request.method, request.authority), (Method::Get, &b"a"[..]));
    /// # Ok::<(), tarpon_http::h2::hpack::HpackError>(())
    /// ```
    pub fn parse(
        section: &'a FieldSection,
        bytes: &'a [u8],
        has_extended_connect: bool,
    ) -> Result<H2Request<'a>, MalformedRequest> {
        assert!(!section.is_too_large(), "a section that is too large has no fields");
        let mut pseudo = PseudoFields::default();
        let pseudo_count = pseudo.parse(section)?;
        let mut fields = Fields::EMPTY;
        index_fields(&mut fields, section, pseudo_count, bytes, MalformedRequest::PseudoPlace)?;

        let (method, method_place) = pseudo.method.ok_or(MalformedRequest::Missing)?;
        if pseudo.protocol.is_some() && !(has_extended_connect && method == Method::Connect) {
            return Err(MalformedRequest::Protocol);
        }
        let scheme = pseudo.scheme.flatten();
        let authority = pseudo.authority.map(|place| place.of(bytes));
        let authority = match fields.first(FieldName::Host) {
            None => authority.ok_or(MalformedRequest::NoAuthority)?,
            Some(host) => check_host(&fields, host, authority, scheme)?,
        };
        let is_tunnel = method == Method::Connect && pseudo.protocol.is_none();
        let (target, has_plain_path) = match (pseudo.scheme, pseudo.path) {
            (None, None) if is_tunnel && pseudo.authority.is_some() => {
                let target = target::parse(method, authority).map_err(|_| MalformedRequest::Connect)?;
                (Ok(target), false)
            }
            _ if is_tunnel => return Err(MalformedRequest::Connect),
            (Some(scheme), Some((form, path))) => {
                let target = match (form, path.of(bytes)) {
                    (PathForm::Asterisk, _) if method == Method::Options => Target::Asterisk,
                    (PathForm::Asterisk, _) => return Err(MalformedRequest::Path),
                    (_, path) => {
                        let (path, query) = target::split_query(path);
                        Target::Origin { path, query }
                    }
                };
                (scheme.map(|_| target).ok_or(TargetError::Form), form == PathForm::Plain)
            }
            _ => return Err(MalformedRequest::Missing),
        };
        let content_length = match fields.has(FieldName::ContentLength) {
            true => Some(content_length(&fields).map_err(|_| MalformedRequest::ContentLength)?),
            false => None,
        };
        let method_token = method_place.of(bytes);
        let protocol = pseudo.protocol.map(|place| place.of(bytes));
        Ok(H2Request {
            method,
            method_token,
            scheme,
            authority,
            target,
            has_plain_path,
            protocol,
            content_length,
            fields,
            section,
            bytes,
        })
    }

    /// Returns the values of all Cookie fields. A client may split its cookies; a gateway joins them with `; ` before it forwards them in another
    /// protocol: RFC 9113, section 8.2.3.
    pub fn cookies(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.of_class(FieldClass::Cookie)
    }

    /// Returns the priority that the request asks for: RFC 9218, section 5.
    #[must_use]
    pub fn priority(&self) -> Priority {
        Priority::parse_lines(self.of_class(FieldClass::Priority))
    }

    /// Returns the values of all fields of a class, in order.
    fn of_class(&self, class: FieldClass) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (section, bytes) = (self.section, self.bytes);
        let fields = section.classes().iter().zip(section.places());
        fields.filter(move |(found, _)| **found == class).map(|(_, field)| field.value.of(bytes))
    }
}

/// Checks a section of trailers, and returns its fields. RFC 9113, section 8.1. `bytes`: the buffer that the section was decoded to.
///
/// # Errors
///
/// Returns the first rule that a field breaks: none may be a pseudo-header field.
///
/// # Panics
///
/// Panics if the section [is too large](FieldSection::is_too_large), or its fields do not lie in `bytes`.
pub fn parse_trailers<'a>(
    section: &'a FieldSection,
    bytes: &'a [u8],
) -> Result<Fields<'a>, MalformedRequest> {
    assert!(!section.is_too_large(), "a section that is too large has no fields");
    let mut fields = Fields::EMPTY;
    index_fields(&mut fields, section, 0, bytes, MalformedRequest::PseudoInTrailers)?;
    Ok(fields)
}

impl PseudoFields {
    /// Finds the pseudo-header fields at the start of a section. Returns their number.
    #[inline(always)]
    fn parse(&mut self, section: &FieldSection) -> Result<usize, MalformedRequest> {
        for (count, (class, field)) in section.classes().iter().zip(section.places()).enumerate() {
            let place = field.value;
            let is_repeated = match *class {
                FieldClass::Method(method) => self.method.replace((method, place)).is_some(),
                FieldClass::Scheme(scheme) => self.scheme.replace(scheme).is_some(),
                FieldClass::Authority => self.authority.replace(place).is_some(),
                FieldClass::Path(form) => self.path.replace((form, place)).is_some(),
                FieldClass::Protocol => self.protocol.replace(place).is_some(),
                _ => return Ok(count),
            };
            if is_repeated {
                return Err(MalformedRequest::PseudoRepeated);
            }
        }
        Ok(section.places().len())
    }
}

/// Sets `fields` to those of a section from `from` on. `pseudo`: the error if one of them is a pseudo-header field.
#[inline(always)]
fn index_fields<'a>(
    fields: &mut Fields<'a>,
    section: &'a FieldSection,
    from: usize,
    bytes: &'a [u8],
    pseudo: MalformedRequest,
) -> Result<(), MalformedRequest> {
    let (classes, places) = (&section.classes()[from..], &section.places()[from..]);
    let index = fields.new_index();
    for (class, field) in classes.iter().zip(places) {
        match *class {
            FieldClass::Other | FieldClass::Cookie | FieldClass::Priority => {}
            FieldClass::Known(name) => index.add(name, || field.value),
            FieldClass::Malformed(error) => return Err(error),
            FieldClass::Method(_)
            | FieldClass::Scheme(_)
            | FieldClass::Authority
            | FieldClass::Path(_)
            | FieldClass::Protocol => return Err(pseudo),
        }
    }
    fields.set_places(places, bytes);
    Ok(())
}

/// Checks Host, of which `host` is the first value. Returns the authority of the request. RFC 9113, section 8.3.1.
#[cold]
fn check_host<'a>(
    fields: &Fields<'_>,
    host: &'a [u8],
    authority: Option<&'a [u8]>,
    scheme: Option<Scheme>,
) -> Result<&'a [u8], MalformedRequest> {
    let is_valid = host::is_valid(host) && !fields.is_repeated(FieldName::Host);
    match authority {
        None if is_valid => Ok(host),
        Some(authority) if is_valid && host::is_same(host, authority, scheme) => Ok(authority),
        _ => Err(MalformedRequest::Host),
    }
}

impl MalformedRequest {
    /// Returns the code to send in RST_STREAM: `PROTOCOL_ERROR`, for each error. RFC 9113, section 8.1.1.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        ErrorCode::PROTOCOL_ERROR
    }
}
