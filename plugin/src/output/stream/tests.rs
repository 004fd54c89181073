use std::sync::{Condvar, Mutex};

use super::*;

/// How many schedules are run.
const SCHEDULES: u64 = 100_000;

/// How many bytes may wait for the reader.
const ROOM: usize = 64;

/// What reads the output: it takes as many bytes as it is told to, and may go away.
#[derive(Clone, Default)]
struct Reader(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    takes: usize,
    is_gone: bool,
    taken: Vec<u8>,
}

impl Reader {
    fn change(&self, change: impl FnOnce(&mut State)) {
        let (state, changed) = &*self.0;
        change(&mut state.lock().unwrap());
        changed.notify_all();
    }
}

impl Write for Reader {
    /// Blocks, as a full pipe and a terminal that stands still do.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (state, changed) = &*self.0;
        let blocks = |state: &mut State| state.takes == 0 && !state.is_gone;
        let mut state = changed.wait_while(state.lock().unwrap(), blocks).unwrap();
        if state.is_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let length = bytes.len().min(state.takes);
        state.takes -= length;
        state.taken.extend(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Xorshift: a failure is replayed by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end).unwrap_or_default()
    }
}

/// The model of an output that blocks. Who writes is who has the reader go on, so a write that
/// waited for the reader would never return.
#[test]
fn no_write_waits_for_a_reader() {
    for seed in 0..SCHEDULES {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let reader = Reader::default();
        let sink: Box<dyn Write + Send> = Box::new(reader.clone());
        let choice = anstream::ColorChoice::AlwaysAnsi;
        let mut stream = Stream::Direct(AutoStream::new(sink, choice));
        stream.detach_with_room(ROOM);
        let mut written = 0;
        for _ in 0..random.below(12) {
            match random.below(8) {
                0..4 => {
                    let line = format!("{written} {}\n", "x".repeat(random.below(20)));
                    assert_eq!(stream.write(line.as_bytes()).unwrap(), line.len());
                    written += 1;
                }
                4..7 => reader.change(|reader| reader.takes += random.below(40)),
                _ => reader.change(|reader| reader.is_gone |= random.below(4) == 0),
            }
            if let Stream::Detached(detached) = &stream {
                let waiting = detached.waiting.load(Ordering::Relaxed);
                assert!(waiting <= ROOM, "seed {seed}: {waiting} bytes wait");
            }
        }
        reader.change(|reader| reader.takes = usize::MAX);
        let told = futures::executor::block_on(stream.close()).is_err();
        let state = reader.0.0.lock().unwrap();
        let taken = std::str::from_utf8(&state.taken).unwrap();
        let numbers = taken.lines().map(|line| line.split_once(' '));
        let numbers: Vec<u64> = numbers.filter_map(|line| line?.0.parse().ok()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "seed {seed}: {taken}");
        if !state.is_gone {
            // Whole lines, and none of them lost without a word.
            assert!(
                taken.is_empty() || taken.ends_with('\n'),
                "seed {seed}: {taken}"
            );
            let all = u64::try_from(numbers.len()).unwrap() == written;
            assert_eq!(all, !told, "seed {seed}: {taken}");
        }
    }
}
