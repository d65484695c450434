//! A request as a worker has sent it, and the reasons to refuse it.

use tarpon_conn::MessageFields;
use tarpon_http::{Status, target};

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CgiRequest {
    /// The list of fields, valid.
    list: Vec<u8>,
    /// The normalized path: decoded, without dot segments.
    pub(super) path: Vec<u8>,
    /// The length of the content. `None`: there is none, or its length is unknown.
    pub(super) content_length: Option<u64>,
}

/// Why a request gets no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CgiRefusal {
    /// The head is none that a worker sends.
    Malformed,
    /// No file has this path.
    NotFound,
    /// A step of the path is a symbolic link.
    Link,
    /// The file is not executable for the user of the programs.
    NotExecutable,
    /// The program wants to speak HTTP itself.
    NonParsed,
    /// Another user than its owner could have changed the program or its directory.
    Untrusted,
    /// The mount cannot be opened.
    NoMount,
    /// The length of the content is unknown, and it is longer than the helper collects.
    LengthRequired,
    /// Too many requests wait.
    Full,
    /// The system is short of processes, descriptors or memory, or refuses to run the file.
    CannotStart,
}

impl CgiRefusal {
    /// Returns the status of the response.
    pub(super) fn status(self) -> Status {
        match self {
            CgiRefusal::Malformed => Status::BadRequest,
            CgiRefusal::NotFound => Status::NotFound,
            CgiRefusal::Link | CgiRefusal::NotExecutable | CgiRefusal::NonParsed => Status::Forbidden,
            CgiRefusal::Untrusted | CgiRefusal::NoMount => Status::InternalServerError,
            CgiRefusal::LengthRequired => Status::LengthRequired,
            CgiRefusal::Full => Status::ServiceUnavailable,
            CgiRefusal::CannotStart => Status::BadGateway,
        }
    }

    /// Returns the text for the log. `None`: the client has made the mistake, and an administrator can do nothing.
    pub(super) fn message(self) -> Option<&'static str> {
        match self {
            CgiRefusal::Malformed | CgiRefusal::NotFound | CgiRefusal::LengthRequired | CgiRefusal::Full => {
                None
            }
            CgiRefusal::Link => Some("is or leads through a symbolic link; move the file itself there"),
            CgiRefusal::NotExecutable => {
                Some("is not executable for the user of the programs; allow it, as with chmod o+rx")
            }
            CgiRefusal::NonParsed => {
                Some("has a name that begins with nph-; such programs are not supported, rename it")
            }
            CgiRefusal::Untrusted => Some(
                "or a directory above it could be changed by the server's user or by every user; take that right away, as with chmod go-w \
                 and chown root",
            ),
            CgiRefusal::NoMount => Some(
                "lies in a directory that the user of the programs cannot open; check the directory and its mode",
            ),
            CgiRefusal::CannotStart => None,
        }
    }
}

impl CgiRequest {
    /// Reads the bytes of a head.
    ///
    /// # Errors
    /// They are no valid list, or the path is none that a worker passes on.
    pub(super) fn read(bytes: &[u8]) -> Result<CgiRequest, CgiRefusal> {
        let list = MessageFields::parse(bytes).ok_or(CgiRefusal::Malformed)?;
        let (path, _) = split_path(list);
        if !path.starts_with(b"/") {
            return Err(CgiRefusal::NotFound);
        }
        let mut scratch = [0; target::PATH_LEN_MAX];
        let path = target::normalize(path, &mut scratch).map_err(|_| CgiRefusal::NotFound)?.to_vec();
        let content_length = match list.get(b"content-length") {
            None => None,
            Some(digits) => {
                let text = str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
                Some(text.and_then(|text| text.parse().ok()).ok_or(CgiRefusal::Malformed)?)
            }
        };
        Ok(CgiRequest { list: bytes.to_vec(), path, content_length })
    }

    /// Returns the length of the list of fields in bytes.
    pub(super) fn list_len(&self) -> usize {
        self.list.len()
    }

    /// Returns the fields.
    pub(super) fn fields(&self) -> MessageFields<'_> {
        MessageFields::parse(&self.list).expect("the list is valid")
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields().get(name)
    }

    /// Returns the path with its query, as received.
    pub(super) fn target(&self) -> &[u8] {
        self.get(b":path").unwrap_or_default()
    }

    /// Returns the query, as received.
    pub(super) fn query(&self) -> &[u8] {
        split_path(self.fields()).1
    }

    /// Returns whether the response has no content.
    pub(super) fn is_head(&self) -> bool {
        self.get(b":method") == Some(b"HEAD")
    }
}

/// Returns the path and the query of a request.
fn split_path(list: MessageFields<'_>) -> (&[u8], &[u8]) {
    let target = list.get(b":path").unwrap_or_default();
    match target.iter().position(|&byte| byte == b'?') {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, b""),
    }
}
