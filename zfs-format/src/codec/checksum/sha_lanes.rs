//! SHA-256 of several messages at a time, as many side by side as the CPU has lanes for.
//!
//! Messages of different lengths share lanes as long as they last: all that are in lanes go forward by as many blocks as
//! the shortest of them has left, and then others take the lanes of those that ended. What is left alone is finished by
//! the `sha2` crate.

use super::sha_plain;
use sha2::block_api::compress256;
use std::sync::OnceLock;

/// The eight words between two blocks.
pub(super) type State = [u32; 8];

/// Takes blocks into the states, as many of each message as all have.
pub(super) type Compress<const N: usize> = fn(&mut [State; N], [&[[u8; 64]]; N]);

/// Messages at a time; more than there are lanes, so that a lane whose message ended gets another.
pub(super) const MESSAGES_MAX: usize = 16;

/// So many messages fill eight lanes well enough: fewer are done sooner in pairs.
const EIGHT_MIN: usize = 7;

/// The forms this CPU has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kernels {
    pub(super) two: Option<Compress<2>>,
    pub(super) eight: Option<Compress<8>>,
}

/// A message on its way.
#[derive(Clone, Copy)]
struct Message<'a> {
    state: State,
    /// Whole blocks that were not taken yet.
    body: &'a [[u8; 64]],
    /// The rest, the end mark and the length: one block or two, the second half when it is one.
    tail: [[u8; 64]; 2],
    /// Blocks of `tail` that were not taken yet.
    tail_left: usize,
}

impl<'a> Message<'a> {
    /// Nothing to do.
    const NONE: Self = Self { state: sha_plain::INITIAL_256, body: &[], tail: [[0; 64]; 2], tail_left: 0 };

    fn new(bytes: &'a [u8]) -> Self {
        let (body, rest) = bytes.as_chunks::<64>();
        let tail_left = if rest.len() < 56 { 1 } else { 2 };
        let mut tail = [0; 128];
        let start = 128 - 64 * tail_left;
        tail[start..start + rest.len()].copy_from_slice(rest);
        tail[start + rest.len()] = 0x80;
        let bits = (bytes.len() as u64).wrapping_mul(8);
        if let Some(target) = tail.last_chunk_mut() {
            *target = bits.to_be_bytes();
        }
        let mut blocks = [[0; 64]; 2];
        blocks.copy_from_slice(tail.as_chunks().0);
        Self { state: sha_plain::INITIAL_256, body, tail: blocks, tail_left }
    }

    /// Blocks that lie together and come next; none when the message is done.
    fn next(&self) -> &[[u8; 64]] {
        if self.body.is_empty() { &self.tail[2 - self.tail_left..] } else { self.body }
    }

    fn advance(&mut self, state: State, blocks: usize) {
        self.state = state;
        match self.body.get(blocks..) {
            Some(rest) if !self.body.is_empty() => self.body = rest,
            _ => self.tail_left = self.tail_left.saturating_sub(blocks),
        }
    }

    fn is_done(&self) -> bool {
        self.body.is_empty() && self.tail_left == 0
    }

    fn digest(&self) -> [u8; 32] {
        let mut digest = [0; 32];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *bytes = word.to_be_bytes();
        }
        digest
    }
}

/// The digests of up to [`MESSAGES_MAX`] messages; the others are zeros.
pub(super) fn digests(kernels: Kernels, messages: &[&[u8]]) -> [[u8; 32]; MESSAGES_MAX] {
    let mut open = [Message::NONE; MESSAGES_MAX];
    for (message, bytes) in open.iter_mut().zip(messages) {
        *message = Message::new(bytes);
    }
    if let Some(eight) = kernels.eight {
        while step(eight, EIGHT_MIN, &mut open) {}
    }
    if let Some(two) = kernels.two {
        while step(two, 2, &mut open) {}
    }
    while step(|[state], [blocks]| compress256(state, blocks), 1, &mut open) {}
    let mut digests = [[0; 32]; MESSAGES_MAX];
    for (digest, message) in digests.iter_mut().zip(&open).take(messages.len()) {
        *digest = message.digest();
    }
    digests
}

/// Takes up to N messages forward; false when fewer than `least` are left.
fn step<const N: usize>(compress: Compress<N>, least: usize, messages: &mut [Message<'_>; MESSAGES_MAX]) -> bool {
    let mut chosen = [0; N];
    let mut count = 0;
    let open = messages.iter().enumerate().filter(|(_, message)| !message.is_done());
    for (target, (index, _)) in chosen.iter_mut().zip(open) {
        *target = index;
        count += 1;
    }
    if count < least {
        return false;
    }
    // A lane too many does again what the first one does.
    let first = chosen[0];
    chosen[count..].fill(first);
    let mut states = chosen.map(|index| messages[index].state);
    let blocks = chosen.map(|index| messages[index].next());
    let taken = blocks.iter().map(|blocks| blocks.len()).min().unwrap_or(0);
    compress(&mut states, blocks.map(|blocks| &blocks[..taken]));
    for (index, state) in chosen.into_iter().zip(states).take(count) {
        messages[index].advance(state, taken);
    }
    true
}

/// The forms this CPU has, each only if it agrees with the plain form on fixed bytes, in several lengths.
///
/// Virtual machines have been seen to compute wrong vector sums, and a scrub must not blame the pool for that.
pub(super) fn kernels() -> Kernels {
    static KERNELS: OnceLock<Kernels> = OnceLock::new();
    *KERNELS.get_or_init(|| {
        let Kernels { two, eight } = candidates();
        let is_right = |kernels: Kernels| {
            let bytes: Vec<u8> = (0..1031_u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
            let lengths = [1031, 1024, 512, 119, 64, 0, 55, 56, 700, 63, 128, 513];
            let parts = lengths.map(|length| bytes.get(bytes.len() - length..).unwrap_or_default());
            digests(kernels, &parts).iter().zip(parts).all(|(digest, part)| *digest == sha_plain::sha256(&[part]))
        };
        Kernels {
            two: two.filter(|_| is_right(Kernels { two, eight: None })),
            eight: eight.filter(|_| is_right(Kernels { two: None, eight })),
        }
    })
}

/// The forms this CPU can run.
pub(super) fn candidates() -> Kernels {
    #[cfg(target_arch = "x86_64")]
    {
        super::sha256_x86::kernels()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        Kernels::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{counting, hex};
    use super::*;
    use proptest::prelude::*;

    /// Every form alone, all together, and none.
    fn forms() -> Vec<Kernels> {
        let Kernels { two, eight } = candidates();
        vec![Kernels { two, eight }, Kernels { two, eight: None }, Kernels { two: None, eight }, Kernels::default()]
    }

    #[test]
    fn the_examples_of_nist() {
        let long = [b'a'; 1_000_000];
        let two_blocks: &[u8] = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        let messages = [&b"abc"[..], b"", two_blocks, &long, &long, two_blocks, b"", b"abc", &long];
        let [abc, empty, two_blocks, long] = [
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
        ];
        let wanted = [abc, empty, two_blocks, long, long, two_blocks, empty, abc, long];
        for kernels in forms() {
            let found = digests(kernels, &messages);
            assert_eq!(found.map(|digest| hex(&digest))[..messages.len()], wanted, "{kernels:?}");
        }
    }

    #[test]
    fn what_runs_here_was_found_right() {
        let (used, here) = (kernels(), candidates());
        assert_eq!((used.two.is_some(), used.eight.is_some()), (here.two.is_some(), here.eight.is_some()));
    }

    #[test]
    fn messages_too_many_are_left_out() {
        let messages = [&b"abc"[..]; MESSAGES_MAX + 3];
        for kernels in forms() {
            assert!(digests(kernels, &messages).iter().all(|digest| *digest == sha_plain::sha256(&[b"abc"])));
        }
        assert_eq!(digests(kernels(), &[]), [[0; 32]; MESSAGES_MAX]);
    }

    proptest! {
        #[test]
        fn every_form_agrees_with_the_plain_one(
            lengths in proptest::collection::vec(0_usize..1500, 0..=MESSAGES_MAX), seed in any::<u8>()
        ) {
            let bytes: Vec<u8> = counting(1500).into_iter().map(|byte| byte ^ seed).collect();
            let messages: Vec<&[u8]> = lengths.iter().map(|length| &bytes[length / 3..][..*length - length / 3]).collect();
            let wanted: Vec<[u8; 32]> = messages.iter().map(|message| sha_plain::sha256(&[message])).collect();
            for kernels in forms() {
                prop_assert_eq!(&digests(kernels, &messages)[..messages.len()], &wanted[..]);
            }
        }
    }
}
