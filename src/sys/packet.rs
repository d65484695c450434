//! Packets between processes, each with at most one descriptor: unix(7), `SOCK_SEQPACKET`, `SCM_RIGHTS`.

use super::system::socket::{CLOSE_ON_EXEC, NO_SIGNAL};
use rustix::{
    cmsg_space,
    io::{Errno, retry_on_intr},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};
use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// Sends a packet without blocking.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)), "there is room for one");
    }
    let flags = NO_SIGNAL | SendFlags::DONTWAIT;
    retry_on_intr(|| sendmsg(&socket, &[IoSlice::new(bytes)], &mut ancillary, flags)).map(drop)
}

/// A received packet.
#[derive(Debug)]
pub(crate) struct Packet {
    /// 0 also if the peer has closed its end.
    pub(crate) len: usize,
    pub(crate) descriptor: Option<OwnedFd>,
    /// The packet had a descriptor, and this process has no room for it.
    pub(crate) is_descriptor_lost: bool,
}

/// Receives a packet without blocking.
pub(crate) fn receive(socket: impl AsFd, bytes: &mut [u8]) -> Result<Packet, Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = CLOSE_ON_EXEC | RecvFlags::DONTWAIT;
    let received = retry_on_intr(|| recvmsg(&socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags))?;
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let is_descriptor_lost = descriptor.is_none() && received.flags.contains(ReturnFlags::CTRUNC);
    Ok(Packet { len: received.bytes, descriptor, is_descriptor_lost })
}
