//! Responses of tarpon on one connection, one after the other.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::client::tls::{TlsOffer, host};
use crate::error::LabError;
use crate::measure::cpu::ServerThreads;
use crate::measure::syscalls::SyscallCounter;
use crate::records::ktls::{ResponseCost, Sealing};

/// Bytes of content, and how many requests are measured.
pub(super) const LOADS: [(u64, u32); 5] =
    [(1 << 10, 100), (16 << 10, 60), (64 << 10, 30), (1 << 20, 6), (16 << 20, 2)];

/// Measures each engine, each sealing and each size.
pub(super) fn measure() -> Result<Vec<ResponseCost>, LabError> {
    let mut costs = Vec::new();
    for engine in ["epoll", "io_uring"] {
        for sealing in Sealing::ALL {
            let server = MeasuredTarpon::start(engine, sealing)?;
            let taken = kernel_connections()?;
            let mut client = server.client()?;
            for (size, requests) in LOADS {
                costs.push(server.cost(&mut client, size, requests)?);
                let last = costs.last().expect("it was pushed");
                println!(
                    "{engine}, {sealing}, {size} bytes: {:.0} instructions per request",
                    last.instructions_per_request()
                );
            }
            let takes = kernel_connections()? > taken;
            if takes != (sealing == Sealing::Kernel) {
                return Err(format!("{sealing}: the kernel has taken a connection: {takes}").into());
            }
        }
    }
    Ok(costs)
}

/// A running server.
struct MeasuredTarpon {
    engine: &'static str,
    sealing: Sealing,
    child: Child,
}

impl Drop for MeasuredTarpon {
    fn drop(&mut self) {
        if let Some(process) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(process, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

impl MeasuredTarpon {
    fn start(engine: &'static str, sealing: Sealing) -> Result<MeasuredTarpon, LabError> {
        let mut command = Command::new("tarpon");
        command.args(["serve", "/site", "--engine", engine, "--workers", "1", "--log-format", "human"]);
        command.env("TARPON_COMPRESS", "off");
        let listen = match sealing {
            Sealing::Clear => ADDRESS.to_string(),
            _ => format!("tls:{ADDRESS}"),
        };
        command.args(["--listen", &listen]);
        if sealing != Sealing::Clear {
            let ktls = if sealing == Sealing::Kernel { "on" } else { "off" };
            command.args(["--tls-cert", "/server.crt", "--tls-key", "/server.key", "--ktls", ktls]);
        }
        let child = command.stdout(std::process::Stdio::null()).spawn()?;
        let mut served = MeasuredTarpon { engine, sealing, child };
        while TcpStream::connect(ADDRESS).is_err() {
            if let Some(status) = served.child.try_wait()? {
                return Err(format!("tarpon on {engine}: {status}").into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(served)
    }

    fn client(&self) -> Result<Box<dyn ByteStream>, LabError> {
        match self.sealing {
            Sealing::Clear => Ok(Box::new(TcpStream::connect(ADDRESS)?)),
            _ => {
                let offer = TlsOffer::new(&fs::read("/server.der")?.into(), false)?;
                Ok(Box::new(offer.connect(ADDRESS, Duration::from_secs(600))?))
            }
        }
    }

    fn cost(
        &self,
        client: &mut Box<dyn ByteStream>,
        size: u64,
        requests: u32,
    ) -> Result<ResponseCost, LabError> {
        let mut run = |count: u32| (0..count).try_for_each(|_| request(client, size));
        run(requests.min(WARM_UP_COUNT))?;
        // The server listens before its workers exist.
        let threads = ServerThreads::of(self.child.id())?;
        let before = threads.time()?;
        run(requests)?;
        let time = threads.time()? - before;
        let counted_requests = requests.div_ceil(4);
        let mut counter = SyscallCounter::of(&threads)?;
        counter.start()?;
        run(counted_requests)?;
        Ok(ResponseCost {
            engine: self.engine.to_owned(),
            sealing: self.sealing,
            size,
            requests,
            instructions: time.as_nanos() as u64,
            counted_requests,
            system_calls: counter.stop()?,
        })
    }
}

/// Requests the file of this length, and reads the response.
fn request(client: &mut Box<dyn ByteStream>, size: u64) -> Result<(), LabError> {
    let request = format!("GET /{size}.bin HTTP/1.1\r\nHost: {}\r\n\r\n", host(ADDRESS));
    client.write_all(request.as_bytes())?;
    client.flush()?;
    let (mut input, mut head) = (vec![0; INPUT_LEN], Vec::new());
    let mut content_len = 0;
    let mut head_is_complete = false;
    while !head_is_complete || content_len < size {
        let len = client.read(&mut input)?;
        if len == 0 {
            return Err("the server has closed the connection".into());
        }
        if head_is_complete {
            content_len += len as u64;
            continue;
        }
        head.extend_from_slice(&input[..len]);
        if let Some(at) = head.windows(4).position(|end| end == b"\r\n\r\n") {
            if !head.starts_with(b"HTTP/1.1 200 ") {
                return Err(format!("{}: no status 200", String::from_utf8_lossy(&head[..at])).into());
            }
            (head_is_complete, content_len) = (true, (head.len() - at - 4) as u64);
        }
    }
    if content_len == size { Ok(()) } else { Err(format!("{content_len} bytes instead of {size}").into()) }
}

/// Returns how many connections the kernel has sealed so far.
fn kernel_connections() -> Result<u64, LabError> {
    let stat =
        fs::read_to_string("/proc/net/tls_stat").map_err(|error| format!("/proc/net/tls_stat: {error}"))?;
    let count = stat.lines().find_map(|line| line.strip_prefix("TlsTxSw"));
    Ok(count.ok_or("/proc/net/tls_stat: no TlsTxSw")?.trim().parse()?)
}

trait ByteStream: Read + Write {}

impl<T: Read + Write> ByteStream for T {}

/// The address of the server.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4000);

/// Requests before the measured ones: the first response brings session tickets, and with it the keys may go to the kernel.
const WARM_UP_COUNT: u32 = 30;

const INPUT_LEN: usize = 256 << 10;
