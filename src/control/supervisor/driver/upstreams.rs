//! Upstream servers: reports what their helper tells.

use super::{
    super::{
        Notice, Role,
        event::{GenerationId, SupervisorEvent},
    },
    Driver,
};
use crate::{
    control::{
        process::ProcessId,
        upstreams::message::{FromUpstreams, shortened},
    },
    sys::io::output_has_room,
};
use std::io;

/// Messages of a helper that the driver receives in one turn of its loop: all servers may go down at once.
const MESSAGES_PER_TURN: usize = 64;

impl Driver<'_> {
    /// Receives messages of a helper.
    pub(super) fn receive_from_upstreams(
        &mut self,
        process: ProcessId,
        generation: GenerationId,
    ) -> io::Result<Option<SupervisorEvent>> {
        for _ in 0..MESSAGES_PER_TURN {
            let Some((message, _)) = self.children.receive::<FromUpstreams>(process)? else {
                return Ok(None);
            };
            self.emit_upstream(generation, &message);
        }
        Ok(None)
    }

    fn emit_upstream(&mut self, id: GenerationId, message: &FromUpstreams) {
        // A generation that drains has the same servers, or ones that do not matter any more.
        let is_current = self.adopted.is_none_or(|adopted| id >= adopted);
        let (FromUpstreams::Down { server, .. }
        | FromUpstreams::Up { server }
        | FromUpstreams::Unresolved { server, .. }) = message;
        let service = self.generations.get(&id).and_then(|generation| generation.upstreams.as_ref());
        let Some((upstream, address)) = service.and_then(|service| service.describe(*server)) else { return };
        let is_admitted = is_current && self.notice_limit.admit(self.clock.now(), Role::Helper);
        if !is_admitted || !output_has_room() {
            return;
        }
        let (emit, server) = (self.emit, &*address);
        match message {
            FromUpstreams::Down { why, .. } => {
                emit(Notice::UpstreamDown { upstream, server, why: &shortened(why) });
            }
            FromUpstreams::Up { .. } => emit(Notice::UpstreamUp { upstream, server }),
            FromUpstreams::Unresolved { why, .. } => {
                emit(Notice::UpstreamUnresolved { upstream, server, why: &shortened(why) });
            }
        }
    }
}
