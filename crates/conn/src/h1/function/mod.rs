//! An exchange with a function that the worker calls: its request is collected, and its response queued.
//!
//! ```text
//! head, and content that has arrived with it ─────────────┐
//! head ─▶ Collecting ─ the rest of the content ───────────┴─ call ─▶ outbox ─▶ Head
//!                                                               └ longer than a buffer ─▶ Sending ─▶ Head
//! ```
//!
//! | file | what |
//! |---|---|
//! | `call` | calls the function if the request is complete and valid |
//! | `collect` | the content of a request that arrives after its head |
//! | `respond` | queues the response |

mod call;
mod collect;
mod respond;

pub(super) use call::call;

use super::{Http1, Http1Phase, exchange::RoutedExchange};
use crate::{BufRange, ConnResources, Input, Tick, span::Outbox};
use call::Called;
use collect::CollectedRequest;
use respond::UnsentContent;
use tarpon_http::{head, status::Status};

/// What the connection waits for.
#[derive(Debug)]
pub(super) enum FunctionPhase {
    /// The rest of the content of a request.
    Collecting(CollectedRequest),
    /// Room in the outbox for the rest of a response.
    Sending(UnsentContent),
}

impl FunctionPhase {
    /// Returns how much the connection reads.
    pub(super) fn input(&self, out: &Outbox) -> Input {
        match self {
            FunctionPhase::Collecting(_) if collect::has_room(out) => Input::Bytes,
            FunctionPhase::Collecting(_) | FunctionPhase::Sending(_) => Input::Pause,
        }
    }

    /// Returns the deadline while the outbox is empty.
    pub(super) fn deadline(&self) -> Tick {
        match self {
            FunctionPhase::Collecting(request) => request.window_end(),
            FunctionPhase::Sending(unsent) => unsent.deadline(),
        }
    }
}

impl Http1 {
    /// Handles the result of a call for the head at the front of `input`. Returns how many bytes it has consumed.
    #[inline(never)]
    pub(super) fn called(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        input: BufRange,
        exchange: RoutedExchange,
        called: Called,
    ) -> usize {
        match called {
            Called::Refused(status) => self.refuse(cx, out, input, exchange.site, status),
            Called::Incomplete(incomplete) => self.collect(cx, out, input, exchange, incomplete),
            Called::Response(call, response) => {
                if cx.records.is_on()
                    && let Ok(Some((head, len))) = head::parse(cx.pool.bytes(input))
                {
                    let start =
                        self.exchange_start(cx, out, exchange.site, exchange.client, response.status());
                    cx.records.start_record(start, Some(&head), &cx.pool.bytes(input)[..len]);
                }
                let used = call.used;
                self.respond(cx, out, exchange, call, response);
                used
            }
        }
    }

    /// Handles the event that bytes of the outbox have been sent.
    #[inline(never)]
    pub(super) fn function_output_sent(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        if let Http1Phase::Function(phase) = &self.phase
            && let FunctionPhase::Sending(_) = **phase
        {
            self.send_rest(cx, out);
        }
        if out.is_empty() {
            self.output_empty(cx);
        }
    }

    /// Handles the end of the deadline while the outbox is empty.
    #[inline(never)]
    pub(super) fn function_deadline_passed(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let Http1Phase::Function(phase) = &mut self.phase else { return };
        match **phase {
            FunctionPhase::Collecting(_) => self.collecting_window_ended(cx, out),
            FunctionPhase::Sending(_) => {
                self.send_rest(cx, out);
                self.deadline = cx.now.after(self.limits(cx).send_ms);
            }
        }
    }

    /// Handles the end of the client's input.
    #[inline(never)]
    pub(super) fn function_input_ended(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let Http1Phase::Function(phase) = &mut self.phase else { return };
        match &mut **phase {
            FunctionPhase::Sending(unsent) => unsent.client_ended(),
            FunctionPhase::Collecting(_) => {
                // The content is incomplete: RFC 9112, section 8.
                self.end_collecting(cx, out, Status::BadRequest);
                if let Http1Phase::LastResponse { .. } = self.phase {
                    self.phase = Http1Phase::LastResponseAfterEnd;
                }
            }
        }
    }
}
