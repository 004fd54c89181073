//! Latencies of an idle control plane, as the drain bench measures them: evictions, and writes for
//! replacements.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::duration::Millis;

/// From an eviction to the binding of the replacement, and from its Ready to the budget's new
/// status: what a control plane that is not busy takes for both (the drain bench shows it).
pub(super) const TURNAROUND: Millis = 100;

/// Between two evictions under one budget, which are sent one after the other: an API server reads
/// the budgets when its cache is up to date, which it asks etcd every 100 ms (v1.36.3,
/// `staging/src/k8s.io/apiserver/pkg/storage/cacher/progress/watch_progress.go`,
/// `progressRequestPeriod`) unless something changes before. The drain bench sees 40 to 100 ms.
pub(super) const EVICTION: Millis = 80;

/// An eviction that meets a write of the disruption controller's, of a replacement that is Ready or
/// of the eviction before, is tried again by the API server after 500 ms (v1.36.3,
/// `pkg/registry/core/pod/storage/eviction.go`, `EvictionsRetry`), and every later one waits for it.
/// Which ones do is chance, one in so many in the drain bench, so each that follows another at once
/// counts with its part of the time.
pub(super) const CONFLICT: Millis = 500 / CONFLICT_ONE_IN;
const CONFLICT_ONE_IN: Millis = 30;

/// The writes that kube-controller-manager allows a controller at once, as time, and the time
/// between two after that: 30, and 20 a second (v1.36.3,
/// `pkg/controller/apis/config/v1alpha1/defaults.go`). Where many budgets let pods go at once
/// their replacements wait for it.
const BURST: Millis = 1500;
const WRITE: Millis = 50;

/// What a workload's controller writes for a replacement: the pod and an event, and statuses, of
/// which one is for all that are replaced at one time. The audit log of the drain bench shows them.
const CREATION: Millis = 2 * WRITE;
const STATUS_AT_CREATION: Millis = WRITE / 2;
/// When it is Ready, and when the old one is gone. A controller that has to wait for its turn
/// writes them together with the next.
const STATUS_AT_READY: Millis = 2 * WRITE;

/// The writes of a controller, which have a limit.
#[derive(Default)]
pub(super) struct Writes {
    /// When all of them would be done, one after the other.
    until: Millis,
    /// When replacements become Ready, and what is then to be written.
    ready: BinaryHeap<Reverse<(Millis, Millis)>>,
}

impl Writes {
    /// When a replacement is Ready that is to be made at `at`, `together` with so many, and takes
    /// `start_up`.
    pub(super) fn replace(&mut self, at: Millis, start_up: Millis, together: u32) -> Millis {
        while let Some(&Reverse((ready, cost))) = self.ready.peek()
            && ready <= at
        {
            self.ready.pop();
            if self.wait(ready) == 0 {
                self.write(ready, cost);
            }
        }
        let together = u64::from(together.max(1));
        self.write(at, CREATION + STATUS_AT_CREATION / together);
        let ready = at.saturating_add(self.wait(at)).saturating_add(start_up);
        self.ready
            .push(Reverse((ready, STATUS_AT_READY / together)));
        ready
    }

    fn write(&mut self, at: Millis, cost: Millis) {
        self.until = self.until.max(at).saturating_add(cost);
    }

    /// How long a write has to wait.
    fn wait(&self, at: Millis) -> Millis {
        self.until.saturating_sub(at.saturating_add(BURST))
    }
}
