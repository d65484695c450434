//! The limit of unsent bytes: how much of a response the kernel takes ahead of a client.
//!
//! Without it the kernel keeps megabytes for each client, and 1,000 clients that read nothing take all memory that it has for TCP. Then it drops
//! packets of all others, and responses take seconds. `tarpon-lab attacks --kinds slow-readers` measures that.

use crate::sys::socket;
use std::os::fd::AsFd;

/// Decides which clients have the limit.
pub(super) struct UnsentLimit {
    unlimited_count: usize,
}

/// The most bytes that wait in the kernel beyond those on their way to the client. A fast client loses nothing, as the engine sends more when half
/// of them are left, and 4,000 clients that read nothing take 1 GiB.
const UNSENT_LEN_MAX: u32 = 256 * 1024;

/// Clients of a worker without the limit: few cannot take all memory, and a whole file in one call is cheaper.
const UNLIMITED_COUNT: usize = 64;

impl UnsentLimit {
    /// `connection_count_max`: the most connections of the worker. One with few cannot know how many clients the others have, and limits all.
    pub(super) fn new(connection_count_max: usize) -> UnsentLimit {
        UnsentLimit {
            unlimited_count: if connection_count_max > UNLIMITED_COUNT { UNLIMITED_COUNT } else { 0 },
        }
    }

    /// Limits the connection of a new client of a worker that has `client_count` others.
    #[inline]
    pub(super) fn apply(&self, client_count: usize, client: impl AsFd) {
        if client_count >= self.unlimited_count {
            // Unix sockets have no such limit, and small buffers.
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
    fn clients_after_the_first_are_limited() {
        let cases = [
            // the most connections, clients, those without the limit
            (1000, 66, 64),
            (64, 3, 0),
            (1, 1, 0),
        ];
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for (connection_count_max, client_count, unlimited_count) in cases {
            let config = WorkerConfig { connection_count_max, ..WorkerConfig::for_test(1, vec![]) };
            let mut worker: Worker<()> = Worker::new(config);
            let mut clients = Vec::new();
            for number in 0..client_count {
                clients.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
                let index = worker.insert(listener.accept().unwrap().0.into(), 0).unwrap();
                let slot = worker.slots.get_mut(index).unwrap();
                let is_limited = socket::unsent_max(&slot.fd) == UNSENT_LEN_MAX;
                assert_eq!(is_limited, number >= unlimited_count, "{connection_count_max}, client {number}");
            }
        }
    }

    #[test]
    fn few_clients_after_many_have_no_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let limit = UnsentLimit::new(1000);
        for (client_count, is_limited) in [(64, true), (63, false)] {
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            limit.apply(client_count, &accepted);
            assert_eq!(socket::unsent_max(&accepted) == UNSENT_LEN_MAX, is_limited);
        }
    }
}
