//! A channel between two processes: messages, and descriptors that go with them. unix(7), `SOCK_SEQPACKET`, `SCM_RIGHTS`.
//!
//! ```text
//! message ─▶ count of descriptors, JSON  ┐ one packet
//!            up to 253 descriptors       ┘
//!            up to 253 more, …             a packet each
//! ```
//!
//! Of a channel between the supervisor and a child, the child's end waits, and the supervisor's does not. So it is between a server process and those that it has forked.

use crate::sys::socket::{self, CLOSE_ON_EXEC, NO_SIGNAL};
use rustix::{
    cmsg_space,
    io::{Errno, ioctl_fionbio},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, recvmsg, sendmsg,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut},
    mem::{self, MaybeUninit},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    thread,
    time::Duration,
};

/// One end of a channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
}

/// What sends.
#[derive(Debug)]
pub(crate) struct Sender {
    socket: Arc<OwnedFd>,
    /// What the other side has no room for yet.
    outgoing: VecDeque<Packet>,
}

/// What receives.
#[derive(Debug)]
pub(crate) struct Receiver {
    socket: Arc<OwnedFd>,
    /// A message of which descriptors are missing.
    partial: Option<Partial>,
    /// The other side has ended with something unread: what it has said before is still to come.
    is_reset: bool,
}

#[derive(Debug)]
struct Packet {
    bytes: Vec<u8>,
    descriptors: Arc<[OwnedFd]>,
    /// Which of them go with it.
    first: usize,
    count: usize,
}

#[derive(Debug)]
struct Partial {
    message: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    count: usize,
}

impl Channel {
    /// Both ends of a new channel: the first for the supervisor, the other for a child.
    pub(crate) fn pair() -> io::Result<(Channel, Channel)> {
        let (ours, theirs) = socket::pair()?;
        ioctl_fionbio(&ours, true)?;
        Ok((Channel::new(ours), Channel::new(theirs)))
    }

    /// From now on this end does not wait either.
    pub(crate) fn waits_no_more(&self) -> io::Result<()> {
        Ok(ioctl_fionbio(self, true)?)
    }

    /// What is readable when there is something to receive.
    pub(crate) fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.receiver.socket)
    }

    /// The end of a channel that this socket is.
    pub(crate) fn new(socket: OwnedFd) -> Channel {
        let socket = Arc::new(socket);
        Channel {
            sender: Sender { socket: Arc::clone(&socket), outgoing: VecDeque::new() },
            receiver: Receiver { socket, partial: None, is_reset: false },
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sender.socket.as_fd()
    }
}

impl Sender {
    /// Sends a message with descriptors, or as much of it as the other side has room for: see [`flush`](Sender::flush).
    pub(crate) fn send(&mut self, message: &impl Serialize, descriptors: &Arc<[OwnedFd]>) -> io::Result<()> {
        let total = descriptors.len();
        let mut bytes = (total as u32).to_le_bytes().to_vec();
        serde_json::to_writer(&mut bytes, message)?;
        let mut first = 0;
        loop {
            let count = (total - first).min(DESCRIPTORS_MAX);
            let descriptors = Arc::clone(descriptors);
            self.outgoing.push_back(Packet { bytes, descriptors, first, count });
            first += count;
            if first == total {
                return self.flush();
            }
            bytes = vec![MORE];
        }
    }

    /// Sends a message.
    pub(crate) fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.send(message, &Arc::default())
    }

    /// Sends what could not be sent before.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(packet) = self.outgoing.front() {
            match packet.send(&self.socket) {
                Ok(()) => drop(self.outgoing.pop_front()),
                Err(Errno::AGAIN) => break,
                // More descriptors are on their way than there may be, for one user: they are being received, if who is to
                // receive them runs. Who sends has others to see to, and asks again at once.
                Err(Errno::TOOMANYREFS) => {
                    thread::sleep(Duration::from_millis(1));
                    break;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether something waits for room.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.outgoing.is_empty()
    }
}

impl Packet {
    fn send(&self, socket: &OwnedFd) -> Result<(), Errno> {
        let descriptors: Vec<_> =
            self.descriptors[self.first..][..self.count].iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(
                ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)),
                "there is room for that many"
            );
        }
        sendmsg(socket, &[IoSlice::new(&self.bytes)], &mut ancillary, NO_SIGNAL).map(drop)
    }
}

impl Receiver {
    /// The next message with its descriptors. `None`: the other side has ended, or nobody has it.
    ///
    /// # Errors
    /// `WouldBlock`: no message is there as a whole, on an end that does not wait. Any other: what came is no message.
    pub(crate) fn receive<M: DeserializeOwned>(&mut self) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        loop {
            let Some(partial) = self.receive_packet()? else { return Ok(None) };
            if partial.descriptors.len() == partial.count {
                let message = serde_json::from_slice(&partial.message)?;
                return Ok(Some((message, partial.descriptors)));
            }
            self.partial = Some(partial);
        }
    }

    /// Receives one packet, behind what there is of its message.
    fn receive_packet(&mut self) -> io::Result<Option<Partial>> {
        let mut bytes = vec![0; PACKET_LEN_MAX];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            // Of who has ended nothing is waited for.
            let flags = if self.is_reset { CLOSE_ON_EXEC | RecvFlags::DONTWAIT } else { CLOSE_ON_EXEC };
            match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
                Err(Errno::INTR) => {}
                // Told first of all, and once.
                Err(Errno::CONNRESET) => self.is_reset = true,
                Err(Errno::AGAIN) if self.is_reset => return Ok(None),
                received => break received?,
            }
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        let descriptors = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        });
        let descriptors: Vec<_> = descriptors.collect();
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(malformed(
                "a message is too long, or brings more descriptors than there is room for",
            ));
        }
        bytes.truncate(received.bytes);
        let mut partial = match mem::take(&mut self.partial) {
            Some(partial) if bytes == [MORE] => partial,
            Some(_) => return Err(malformed("a message ends early")),
            None => {
                let (count, message) = bytes.split_at_checked(4).ok_or(malformed("a message is cut"))?;
                let count = u32::from_le_bytes(count.try_into().expect("four bytes")) as usize;
                Partial { message: message.to_vec(), descriptors: Vec::new(), count }
            }
        };
        partial.descriptors.extend(descriptors);
        let len = partial.descriptors.len();
        let is_full = len.is_multiple_of(DESCRIPTORS_MAX);
        match len <= partial.count && (len == partial.count || is_full) {
            true => Ok(Some(partial)),
            false => Err(malformed("a message brings other descriptors than it says")),
        }
    }
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Descriptors that the kernel sends with one packet: `SCM_MAX_FD`.
const DESCRIPTORS_MAX: usize = 253;

/// Bytes of a packet, at most. A message has a few numbers, or a few lines.
const PACKET_LEN_MAX: usize = 64 * 1024;

/// What a packet says that only brings more descriptors. No message begins so: four bytes come first.
const MORE: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::File,
        io::{Read, Seek, Write},
    };

    #[test]
    fn messages_arrive_in_order_with_all_their_descriptors() {
        // None, one packet, a full one, one more than that, and several.
        for count in [0, 1, DESCRIPTORS_MAX, DESCRIPTORS_MAX + 1, 3 * DESCRIPTORS_MAX] {
            let (mut ours, mut theirs) = Channel::pair().unwrap();
            let descriptors: Arc<[OwnedFd]> = (0..count).map(|number| file(number).into()).collect();
            ours.sender.send(&("first", count), &descriptors).unwrap();
            ours.sender.say(&("second", 0)).unwrap();
            let ((name, said), received): ((String, usize), _) = theirs.receiver.receive().unwrap().unwrap();
            assert_eq!((&*name, said, received.len()), ("first", count, count));
            for (number, descriptor) in received.into_iter().enumerate() {
                let (mut file, mut content) = (File::from(descriptor), String::new());
                file.rewind().and_then(|()| file.read_to_string(&mut content)).unwrap();
                assert_eq!(content, number.to_string());
            }
            let (second, received): ((String, usize), _) = theirs.receiver.receive().unwrap().unwrap();
            assert_eq!((second.0.as_str(), received.len()), ("second", 0));
            drop(ours);
            assert!(theirs.receiver.receive::<()>().unwrap().is_none(), "the end");
        }
    }

    #[test]
    fn what_was_said_last_is_heard_whether_or_not_its_side_has_read_everything() {
        for unread in [0, 1, 100] {
            let (mut ours, mut theirs) = Channel::pair().unwrap();
            for number in 0..unread {
                ours.sender.say(&number).unwrap();
            }
            theirs.sender.say(&"first").unwrap();
            theirs.sender.say(&"last").unwrap();
            drop(theirs);
            for word in ["first", "last"] {
                let (heard, _): (String, _) = ours.receiver.receive().unwrap().expect(word);
                assert_eq!(heard, word, "{unread} unread");
            }
            assert!(ours.receiver.receive::<String>().unwrap().is_none(), "{unread} unread");
        }
    }

    #[test]
    fn the_end_of_the_supervisor_waits_neither_to_send_nor_to_receive() {
        let (mut ours, mut theirs) = Channel::pair().unwrap();
        let nothing = ours.receiver.receive::<usize>().unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        // More than the kernel takes of them.
        const COUNT: usize = 10_000;
        for number in 0..COUNT {
            ours.sender.say(&number).unwrap();
        }
        assert!(ours.sender.is_waiting());
        for number in 0..COUNT {
            let (received, _): (usize, _) = theirs.receiver.receive().unwrap().unwrap();
            assert_eq!(received, number);
            ours.sender.flush().unwrap();
        }
        assert!(!ours.sender.is_waiting());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let some = || (0..3).map(|number| OwnedFd::from(file(number))).collect::<Vec<_>>();
        #[rustfmt::skip]
        let cases: [(&str, &[u8], usize); 5] = [
            // what it shows           bytes                  descriptors
            ("no count",               b"\x00\x00",            0),
            ("no JSON",                b"\x00\x00\x00\x00{",  0),
            ("another message",        b"\x00\x00\x00\x00{}", 0),
            ("fewer than it says",     b"\x04\x00\x00\x007",  3),
            ("more than it says",      b"\x02\x00\x00\x007",  3),
        ];
        for (name, bytes, count) in cases {
            let (ours, mut theirs) = Channel::pair().unwrap();
            let descriptors: Arc<[OwnedFd]> = some().into_iter().take(count).collect();
            let packet = Packet { bytes: bytes.to_vec(), descriptors, first: 0, count };
            packet.send(&ours.sender.socket).unwrap();
            let error = theirs.receiver.receive::<usize>().expect_err(name);
            assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "{name}");
        }
    }

    fn file(number: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        write!(file, "{number}").unwrap();
        file
    }
}
