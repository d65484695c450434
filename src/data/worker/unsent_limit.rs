//! The limit of unsent bytes: how much of a response the kernel takes ahead of a client.
//!
//! Without it the kernel keeps megabytes for each client, and 1,000 clients that read nothing take all memory that it has for TCP. Then it drops
//! packets of all others, and responses take seconds. `tarpon-lab attacks --kinds slow-readers` measures that. And if it sends later, as BBR does,
//! those megabytes have left the caches of the processor until then.

use crate::sys::socket;
use std::os::fd::{AsFd, OwnedFd};

/// Decides which clients have the lower limit.
pub(super) struct UnsentLimit {
    few_count: usize,
}

/// The most bytes that wait in the kernel beyond those on their way to the client. A fast client loses nothing, as the engine sends more when half
/// of them are left, and 4,000 clients that read nothing take 1 GiB.
const UNSENT_LEN_MAX: u32 = 256 * 1024;

/// The same for the first clients of a worker: a file of usual length in one call is cheaper.
const UNSENT_LEN_MAX_OF_FEW: u32 = 1024 * 1024;

/// Clients of a worker with the higher limit: few cannot take all memory.
const FEW_COUNT: usize = 64;

impl UnsentLimit {
    /// Sets the higher limit on these listeners: each client has it from there.
    ///
    /// `connection_count_max`: the most connections of the worker. One with few cannot know how many clients the others have, and gives all the
    /// lower limit.
    pub(super) fn new(connection_count_max: usize, listeners: &[OwnedFd]) -> UnsentLimit {
        for listener in listeners {
            // Unix sockets have no such limit, and small buffers.
            let _ = socket::limit_unsent(listener, UNSENT_LEN_MAX_OF_FEW);
        }
        UnsentLimit { few_count: if connection_count_max > FEW_COUNT { FEW_COUNT } else { 0 } }
    }

    /// Limits the connection of a new client of a worker that has `client_count` others.
    #[inline]
    pub(super) fn apply(&self, client_count: usize, client: impl AsFd) {
        if client_count >= self.few_count {
            let _ = socket::limit_unsent(client, UNSENT_LEN_MAX);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::data::worker::{Worker, WorkerConfig};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn clients_after_the_first_have_a_lower_limit() {
        let cases = [
            // the most connections, clients, those with the higher limit
            (1000, 66, 64),
            (64, 3, 0),
            (1, 1, 0),
        ];
        for (connection_count_max, client_count, few_count) in cases {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let listeners = vec![listener.try_clone().unwrap().into()];
            let config = WorkerConfig { connection_count_max, ..WorkerConfig::for_test(1, listeners) };
            let mut worker: Worker<()> = Worker::new(config);
            let mut clients = Vec::new();
            for number in 0..client_count {
                clients.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
                let index = worker.insert(listener.accept().unwrap().0.into(), 0).unwrap();
                let slot = worker.slots.get_mut(index).unwrap();
                let want = if number < few_count { UNSENT_LEN_MAX_OF_FEW } else { UNSENT_LEN_MAX };
                assert_eq!(socket::unsent_max(&slot.fd), want, "{connection_count_max}, client {number}");
            }
        }
    }

    #[test]
    fn few_clients_after_many_have_the_higher_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let limit = UnsentLimit::new(1000, &[listener.try_clone().unwrap().into()]);
        for (client_count, want) in [(64, UNSENT_LEN_MAX), (63, UNSENT_LEN_MAX_OF_FEW)] {
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            limit.apply(client_count, &accepted);
            assert_eq!(socket::unsent_max(&accepted), want);
        }
    }
}
