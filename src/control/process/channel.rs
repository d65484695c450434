//! A channel between two processes: messages, and descriptors that travel with them. unix(7), `SOCK_SEQPACKET`, `SCM_RIGHTS`.
//!
//! ```text
//! message ─▶ number of descriptors, JSON  ┐ one packet
//!            up to 32 descriptors         ┘
//!            up to 32 more, …               a packet each
//! ```
//!
//! The parent's end never blocks; the child's end blocks. A receiver that is out of descriptors loses those of a message, but not the
//! message: it is told how many came.

use super::{message::MessageKey, shared_files::SharedFiles};
use crate::sys::{
    self,
    socket::{self, CLOSE_ON_EXEC},
};
use rustix::{
    cmsg_space,
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, recv,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::VecDeque,
    error::Error,
    fmt,
    fs::File,
    io,
    mem::MaybeUninit,
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

/// The sending half of an end.
#[derive(Debug)]
pub(crate) struct Sender {
    socket: Arc<OwnedFd>,
    is_blocking: bool,
    /// Messages that the peer has no room for yet.
    outgoing: VecDeque<OutgoingMessage>,
    /// The kernel refuses more descriptors in flight: poll(2) cannot tell when it takes them again.
    is_throttled: bool,
    /// A message was sent or queued.
    is_used: bool,
}

/// The receiving half of an end.
#[derive(Debug)]
pub(crate) struct Receiver {
    socket: Arc<OwnedFd>,
    /// A message of which packets are missing.
    partial: Option<PartialMessage>,
    /// The peer has exited with unread messages. Its own messages are still readable.
    is_reset: bool,
    is_blocking: bool,
    /// The files that this process holds, which messages share. A message that brings more than may be held loses all its descriptors.
    files: Option<SharedFiles>,
}

/// Descriptors to send: of a version, or of anything else. Messages to several processes share them.
pub(crate) type SentDescriptors = Arc<[Arc<File>]>;

/// The descriptors of a message, unless they were lost. Files may be [shared](SharedFiles).
pub(crate) type Descriptors = Result<Vec<Arc<File>>, DescriptorsLost>;

/// The descriptors of a message did not arrive: this process may not open that many more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorsLost {
    /// How many came with the message.
    pub(crate) count: usize,
    /// How many of them this process does not share. 0: it had no room for the others.
    pub(crate) new_count: usize,
}

impl fmt::Display for DescriptorsLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no room for {} more open files", self.count)
    }
}

impl Error for DescriptorsLost {}

#[derive(Debug)]
struct OutgoingMessage {
    key: Option<MessageKey>,
    /// The packet to send next: the head of the message, or [`MORE`].
    bytes: Vec<u8>,
    descriptors: Arc<[Arc<File>]>,
    /// How many descriptors were sent.
    sent: usize,
}

#[derive(Debug)]
struct PartialMessage {
    message: Vec<u8>,
    descriptors: Vec<Arc<File>>,
    /// How many descriptors come with the message.
    count: usize,
    /// How many of those that came are not shared.
    new_count: usize,
    /// How many may be new.
    room: usize,
    packets_left: usize,
    is_lost: bool,
    /// The kernel has not installed all of them.
    is_short: bool,
}

impl Channel {
    /// Returns both ends of a new channel: the first for the parent, the other for the child.
    pub(crate) fn pair() -> io::Result<(Channel, Channel)> {
        let (ours, theirs) = socket::pair()?;
        let mut ours = Channel::new(ours);
        ours.set_nonblocking();
        Ok((ours, Channel::new(theirs)))
    }

    /// Returns both ends of a new channel for a child that polls its own.
    pub(crate) fn nonblocking_pair() -> io::Result<(Channel, Channel)> {
        let (ours, mut theirs) = Channel::pair()?;
        theirs.set_nonblocking();
        Ok((ours, theirs))
    }

    /// Wraps the blocking end of a channel.
    pub(crate) fn new(socket: OwnedFd) -> Channel {
        let socket = Arc::new(socket);
        Channel {
            sender: Sender {
                socket: Arc::clone(&socket),
                is_blocking: true,
                outgoing: VecDeque::new(),
                is_throttled: false,
                is_used: false,
            },
            receiver: Receiver { socket, partial: None, is_reset: false, is_blocking: true, files: None },
        }
    }

    /// Makes this end non-blocking, by a flag of each call: the mode of the socket belongs to all processes that have it.
    pub(crate) fn set_nonblocking(&mut self) {
        (self.sender.is_blocking, self.receiver.is_blocking) = (false, false);
    }

    /// Returns whether no message has passed in either direction: the channel is as good as new.
    pub(crate) fn is_unused(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        !self.sender.is_used && recv(self, &mut [0; 1], flags).err() == Some(Errno::AGAIN)
    }

    /// Returns the socket, which is readable when a packet is there.
    pub(crate) fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.receiver.socket)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sender.socket.as_fd()
    }
}

impl Sender {
    /// Sends a message with descriptors, or queues what the peer has no room for: see [`flush`](Sender::flush). A queued message with
    /// the same key is outdated, and dropped: so the queue of a peer that does not read stays bounded.
    ///
    /// # Errors
    /// The peer has exited.
    pub(crate) fn send_keyed(
        &mut self,
        key: Option<MessageKey>,
        message: &impl Serialize,
        descriptors: &Arc<[Arc<File>]>,
    ) -> io::Result<()> {
        self.is_used = true;
        if key.is_some() {
            self.outgoing.retain(|queued| queued.key != key || queued.sent > 0);
        }
        let mut bytes = (descriptors.len() as u32).to_le_bytes().to_vec();
        serde_json::to_writer(&mut bytes, message)?;
        let descriptors = Arc::clone(descriptors);
        self.outgoing.push_back(OutgoingMessage { key, bytes, descriptors, sent: 0 });
        self.flush()
    }

    /// Sends a message with descriptors, as [`send_keyed`](Sender::send_keyed) without a key.
    pub(crate) fn send_with(
        &mut self,
        message: &impl Serialize,
        descriptors: &Arc<[Arc<File>]>,
    ) -> io::Result<()> {
        self.send_keyed(None, message, descriptors)
    }

    /// Sends a message without descriptors.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, &Arc::default())
    }

    /// Sends queued messages: on a blocking end all of them.
    ///
    /// # Errors
    /// The peer has exited.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.is_throttled = false;
        while let Some(message) = self.outgoing.front_mut() {
            match message.send_packet(&self.socket, self.is_blocking) {
                Ok(true) => drop(self.outgoing.pop_front()),
                Ok(false) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // The kernel limits the descriptors that all processes of a user have sent and not received, and may be short of memory.
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) if self.is_blocking => {
                    thread::sleep(THROTTLE_TIME);
                }
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => {
                    self.is_throttled = true;
                    break;
                }
                Err(error) => {
                    // No later message can arrive either.
                    self.outgoing.clear();
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Returns whether messages are queued.
    pub(crate) fn has_queued(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Returns whether messages are queued until the peer has room: then poll(2) for that.
    pub(crate) fn waits_for_room(&self) -> bool {
        !self.outgoing.is_empty() && !self.is_throttled
    }

    /// Returns whether messages are queued, and [`flush`](Sender::flush) is to be called again after [`THROTTLE_TIME`].
    pub(crate) fn is_throttled(&self) -> bool {
        !self.outgoing.is_empty() && self.is_throttled
    }
}

impl OutgoingMessage {
    /// Sends the next packet. Returns whether it was the last.
    fn send_packet(&mut self, socket: &OwnedFd, is_blocking: bool) -> Result<bool, Errno> {
        let count = (self.descriptors.len() - self.sent).min(PACKET_DESCRIPTORS_MAX);
        let descriptors: Vec<_> = self.descriptors[self.sent..][..count].iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(PACKET_DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let has_room = ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
            assert!(has_room, "a packet has room for that many descriptors");
        }
        sys::io::send_packet(socket, &self.bytes, &mut ancillary, count > 0, is_blocking)?;
        self.sent += count;
        self.bytes = vec![MORE];
        Ok(self.sent == self.descriptors.len())
    }
}

impl Receiver {
    /// Makes messages share the files that this process holds, and lose their descriptors if they bring more than may be held.
    pub(crate) fn share_files(&mut self, files: &SharedFiles) {
        self.files = Some(files.clone());
    }

    /// Returns the next message. `None`: the peer has exited or closed its end.
    ///
    /// # Errors
    /// `WouldBlock`, on a non-blocking end: no complete message is there, or more packets of one than a call receives. Any other: the
    /// peer violates the protocol.
    pub(crate) fn receive<M: DeserializeOwned>(&mut self) -> io::Result<Option<(M, Descriptors)>> {
        let mut packet_count = 0;
        loop {
            if packet_count == PACKETS_PER_CALL && !self.is_blocking {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            packet_count += 1;
            let Some(partial) = self.receive_packet()? else { return Ok(None) };
            if partial.packets_left > 0 {
                self.partial = Some(partial);
                continue;
            }
            let message = serde_json::from_slice(&partial.message)?;
            let descriptors = match partial.is_lost {
                true => Err(DescriptorsLost {
                    count: partial.count,
                    new_count: if partial.is_short { 0 } else { partial.new_count },
                }),
                false => Ok(partial.descriptors),
            };
            return Ok(Some((message, descriptors)));
        }
    }

    /// Receives one packet, and appends it to the earlier ones of its message.
    fn receive_packet(&mut self) -> io::Result<Option<PartialMessage>> {
        let mut bytes = vec![0; PACKET_LEN_MAX];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(PACKET_DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            // A peer that has exited sends no more.
            let waits = self.is_blocking && !self.is_reset;
            let flags = if waits { CLOSE_ON_EXEC } else { CLOSE_ON_EXEC | RecvFlags::DONTWAIT };
            match sys::io::receive_packet(&self.socket, &mut bytes, &mut ancillary, flags) {
                Err(Errno::INTR) => {}
                // Reported first, and once.
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
        let descriptors: Vec<OwnedFd> = descriptors.collect();
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(malformed("a message is too long"));
        }
        bytes.truncate(received.bytes);
        let mut partial = match self.partial.take() {
            Some(partial) if bytes == [MORE] => partial,
            Some(_) => return Err(malformed("a message ends early")),
            None => PartialMessage::new(&bytes, self.files.as_ref())?,
        };
        partial.packets_left -= 1;
        // CTRUNC: the kernel has installed as many descriptors as this process may open.
        let is_short = received.flags.contains(ReturnFlags::CTRUNC);
        if !is_short && descriptors.len() != partial.descriptor_count_in(partial.packets_left) {
            return Err(malformed("a message brings other descriptors than it says"));
        }
        partial.is_short |= is_short;
        for file in descriptors.into_iter().map(File::from) {
            let (file, is_new) = match &self.files {
                Some(files) => files.share(file),
                None => (Arc::new(file), true),
            };
            partial.new_count += usize::from(is_new);
            partial.is_lost |= partial.new_count > partial.room || is_short;
            if !partial.is_lost {
                partial.descriptors.push(file);
            }
        }
        partial.is_lost |= is_short;
        if partial.is_lost {
            partial.descriptors.clear();
        }
        Ok(Some(partial))
    }
}

impl PartialMessage {
    /// Reads the head of a message from its first packet.
    fn new(bytes: &[u8], files: Option<&SharedFiles>) -> io::Result<PartialMessage> {
        let (count, message) = bytes.split_at_checked(4).ok_or(malformed("a message is cut"))?;
        let count = u32::from_le_bytes(count.try_into().expect("four bytes")) as usize;
        if count > DESCRIPTOR_COUNT_MAX {
            return Err(malformed("a message brings more descriptors than a process can open"));
        }
        Ok(PartialMessage {
            message: message.to_vec(),
            descriptors: Vec::new(),
            count,
            new_count: 0,
            room: files.filter(|_| count > 0).map_or(usize::MAX, SharedFiles::room),
            packets_left: count.div_ceil(PACKET_DESCRIPTORS_MAX).max(1),
            is_lost: false,
            is_short: false,
        })
    }

    /// Returns how many descriptors come with the packet that this many packets follow.
    fn descriptor_count_in(&self, packets_after: usize) -> usize {
        match packets_after {
            0 => {
                self.count - (self.count.div_ceil(PACKET_DESCRIPTORS_MAX).max(1) - 1) * PACKET_DESCRIPTORS_MAX
            }
            _ => PACKET_DESCRIPTORS_MAX,
        }
    }
}

/// Returns descriptors to send, which no site shares.
pub(crate) fn unshared(descriptors: impl IntoIterator<Item = OwnedFd>) -> Arc<[Arc<File>]> {
    descriptors.into_iter().map(|descriptor| Arc::new(File::from(descriptor))).collect()
}

/// Returns a received descriptor that is no file of a site: a socket, a log. `None`: it is shared, against the protocol.
pub(crate) fn owned(descriptor: Arc<File>) -> Option<OwnedFd> {
    Arc::into_inner(descriptor).map(OwnedFd::from)
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// When to send again after the kernel has refused more descriptors in flight.
pub(crate) const THROTTLE_TIME: Duration = Duration::from_millis(1);

/// Packets that one call on a non-blocking end receives, at most: a peer that sends on and on must not keep this process from the others.
const PACKETS_PER_CALL: usize = 64;

/// Descriptors of one message, at most: the default of fs.nr_open, which limits every process.
const DESCRIPTOR_COUNT_MAX: usize = 1 << 20;

/// Descriptors of one packet, at most: a receiver holds them beside those that they share. The kernel takes up to 253, `SCM_MAX_FD`.
const PACKET_DESCRIPTORS_MAX: usize = 32;

/// Bytes of a packet, at most. A message has a few numbers, or a few lines.
const PACKET_LEN_MAX: usize = 64 * 1024;

/// The content of a packet that only brings more descriptors. No message starts so: its first packet has at least four bytes.
const MORE: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn messages_arrive_in_order_with_all_their_descriptors() {
        // None, one packet, a full one, one more than that, and several.
        for count in [0, 1, PACKET_DESCRIPTORS_MAX, PACKET_DESCRIPTORS_MAX + 1, 3 * PACKET_DESCRIPTORS_MAX] {
            let (mut ours, mut theirs) = Channel::pair().unwrap();
            ours.sender.send_with(&("first", count), &files(count)).unwrap();
            ours.sender.send(&("second", 0)).unwrap();
            let ((name, said), received): ((String, usize), _) = theirs.receiver.receive().unwrap().unwrap();
            let received = received.unwrap();
            assert_eq!((&*name, said, received.len()), ("first", count, count));
            for (number, descriptor) in received.into_iter().enumerate() {
                let (mut file, mut content) = (&*descriptor, String::new());
                file.rewind().and_then(|()| file.read_to_string(&mut content)).unwrap();
                assert_eq!(content, number.to_string());
            }
            let (second, received): ((String, usize), _) = theirs.receiver.receive().unwrap().unwrap();
            assert_eq!((second.0.as_str(), received.unwrap().len()), ("second", 0));
            drop(ours);
            assert!(theirs.receiver.receive::<()>().unwrap().is_none(), "the end");
        }
    }

    #[test]
    fn last_messages_arrive_even_if_the_sender_exits_without_reading() {
        for unread in [0, 1, 100] {
            let (mut ours, mut theirs) = Channel::pair().unwrap();
            for number in 0..unread {
                ours.sender.send(&number).unwrap();
            }
            theirs.sender.send(&"first").unwrap();
            theirs.sender.send(&"last").unwrap();
            drop(theirs);
            for word in ["first", "last"] {
                let (received, _): (String, _) = ours.receiver.receive().unwrap().expect(word);
                assert_eq!(received, word, "{unread} unread");
            }
            assert!(ours.receiver.receive::<String>().unwrap().is_none(), "{unread} unread");
        }
    }

    #[test]
    fn end_of_the_parent_blocks_neither_to_send_nor_to_receive() {
        let (mut ours, mut theirs) = Channel::pair().unwrap();
        let nothing = ours.receiver.receive::<usize>().unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        // More than the kernel takes.
        const COUNT: usize = 10_000;
        for number in 0..COUNT {
            ours.sender.send(&number).unwrap();
        }
        assert!(ours.sender.waits_for_room());
        for number in 0..COUNT {
            let (received, _): (usize, _) = theirs.receiver.receive().unwrap().unwrap();
            assert_eq!(received, number);
            ours.sender.flush().unwrap();
        }
        assert!(!ours.sender.waits_for_room());
    }

    #[test]
    fn newer_message_replaces_a_queued_one_with_its_key() {
        let (mut ours, mut theirs) = Channel::pair().unwrap();
        while !ours.sender.waits_for_room() {
            ours.sender.send(&0).unwrap();
        }
        let sent = ours.sender.outgoing.len();
        for number in 1..=1000 {
            ours.sender.send_keyed(Some(MessageKey::Site(number % 3)), &number, &Arc::default()).unwrap();
            ours.sender.send_keyed(Some(MessageKey::Shutdown), &number, &files(1)).unwrap();
        }
        assert_eq!(ours.sender.outgoing.len(), sent + 4);
        let mut received = Vec::new();
        while ours.sender.waits_for_room() {
            let (number, _): (usize, _) = theirs.receiver.receive().unwrap().unwrap();
            received.push(number);
            ours.sender.flush().unwrap();
        }
        drop(ours);
        while let Some((number, _)) = theirs.receiver.receive().unwrap() {
            received.push(number);
        }
        received.retain(|&number| number > 0);
        assert_eq!(received, [998, 999, 1000, 1000]);
    }

    #[test]
    fn message_outlives_the_loss_of_its_descriptors() {
        let (mut ours, mut theirs) = Channel::pair().unwrap();
        ours.receiver.share_files(&SharedFiles::new(2));
        for count in [1, 3, 2 * PACKET_DESCRIPTORS_MAX + 1, 2] {
            theirs.sender.send_with(&count, &files(count)).unwrap();
        }
        for (count, is_lost) in [(1, false), (3, true), (2 * PACKET_DESCRIPTORS_MAX + 1, true), (2, false)] {
            let (received, descriptors): (usize, _) = ours.receiver.receive().unwrap().unwrap();
            let want = if is_lost { Err(DescriptorsLost { count, new_count: count }) } else { Ok(count) };
            assert_eq!((received, descriptors.map(|all| all.len())), (count, want));
        }
    }

    #[test]
    fn message_shares_files_that_are_held_and_brings_only_others() {
        let dir = tempfile::tempdir().unwrap();
        let count = 2 * PACKET_DESCRIPTORS_MAX + 7;
        let path = |number: usize| dir.path().join(number.to_string());
        (0..count).for_each(|number| std::fs::write(path(number), "").unwrap());
        let open =
            || -> Arc<[_]> { (0..count).map(|number| Arc::new(File::open(path(number)).unwrap())).collect() };
        let (mut ours, mut theirs) = Channel::pair().unwrap();
        ours.receiver.share_files(&SharedFiles::new(count + 1));
        let mut receive = |descriptors: Arc<[_]>| {
            theirs.sender.send_with(&0, &descriptors).unwrap();
            let received: Option<(i32, _)> = ours.receiver.receive().unwrap();
            received.unwrap().1
        };
        let first = receive(open()).unwrap();
        std::fs::remove_file(path(3)).unwrap();
        std::fs::write(path(3), "changed").unwrap();
        let second = receive(open()).unwrap();
        let differ: Vec<_> =
            (0..count).filter(|&number| !Arc::ptr_eq(&first[number], &second[number])).collect();
        assert_eq!(differ, [3]);
        std::fs::write(path(4), "changed").unwrap();
        assert_eq!(receive(open()).unwrap_err(), DescriptorsLost { count, new_count: 1 });
        drop(first);
        assert!(Arc::ptr_eq(&receive(open()).unwrap()[3], &second[3]));
    }

    #[test]
    fn long_message_is_received_in_several_calls() {
        let (mut ours, mut theirs) = Channel::pair().unwrap();
        theirs.set_nonblocking();
        ours.receiver.share_files(&SharedFiles::new(2));
        let packet_count = PACKETS_PER_CALL + 3;
        let file = tempfile::tempfile().unwrap();
        let descriptors = [file.as_fd(); PACKET_DESCRIPTORS_MAX];
        let mut head = ((packet_count * PACKET_DESCRIPTORS_MAX) as u32).to_le_bytes().to_vec();
        head.push(b'7');
        for number in 0..packet_count {
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(PACKET_DESCRIPTORS_MAX))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
            let bytes = if number == 0 { &*head } else { &[MORE] };
            sys::io::send_packet(&theirs, bytes, &mut ancillary, true, false).unwrap();
        }
        let error = ours.receiver.receive::<u32>().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let (number, descriptors) = ours.receiver.receive::<u32>().unwrap().unwrap();
        assert_eq!((number, descriptors.is_err()), (7, true));
    }

    #[test]
    fn malformed_message_is_an_error() {
        #[rustfmt::skip]
        let cases: [(&str, &[u8], usize); 6] = [
            // what it shows           bytes                  descriptors
            ("no count",               b"\x00\x00",            0),
            ("no JSON",                b"\x00\x00\x00\x00{",  0),
            ("another message",        b"\x00\x00\x00\x00{}", 0),
            ("fewer than it says",     b"\x04\x00\x00\x007",  3),
            ("more than it says",      b"\x02\x00\x00\x007",  3),
            ("more than there can be", b"\xff\xff\xff\xff7",  3),
        ];
        for (name, bytes, count) in cases {
            let (ours, mut theirs) = Channel::pair().unwrap();
            let bytes = bytes.to_vec();
            let mut message = OutgoingMessage { key: None, bytes, descriptors: files(count), sent: 0 };
            message.send_packet(&ours.sender.socket, true).unwrap();
            let error = theirs.receiver.receive::<usize>().expect_err(name);
            assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "{name}");
        }
    }

    /// Returns descriptors of files that contain their numbers.
    fn files(count: usize) -> Arc<[Arc<File>]> {
        let file = |number| {
            let mut file = tempfile::tempfile().unwrap();
            write!(file, "{number}").unwrap();
            Arc::new(file)
        };
        (0..count).map(file).collect()
    }
}
